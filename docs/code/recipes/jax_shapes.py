"""JAX: at most eight shapes, so that the step is compiled at most eight times.

needs: jax
"""

import jax
import jax.numpy as jnp
import numpy as np

import sab

random = np.random.default_rng(0)
sizes = np.minimum(random.lognormal(2.5, 0.6, 20_000).astype(int) + 1, 100)
sentences = [random.integers(1, 30, size) for size in sizes]
labels = np.array([int((words == 1).any()) for words in sentences])

# [train]
plan = sab.plan(sizes, budget=4096, max_shapes=8)
sampler = sab.BucketSampler(plan, seed=0)


compiled = []


@jax.jit
def step(weights, words, labels):
    compiled.append(words.shape)  # Python runs this only when the step is compiled

    def loss(weights):
        hidden = jnp.where((words != 0)[..., None], weights["embedding"][words], -jnp.inf).max(1)
        logits = jax.nn.log_softmax(hidden @ weights["output"])
        return -logits[jnp.arange(len(labels)), labels].mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, gradient), value


keys = jax.random.split(jax.random.key(0))
weights = {
    "embedding": jax.random.normal(keys[0], (30, 16)),
    "output": jax.random.normal(keys[1], (16, 2)),
}
for _ in range(3):
    for batch in sampler.batches():
        # Pad to the plan's length, not to the batch's longest sample.
        words = np.zeros((batch.count, int(batch.padded_length)), np.int32)
        for row, index in zip(words, batch.indices):
            row[: sizes[index]] = sentences[index]
        weights, loss = step(weights, words, labels[batch.indices])

assert len(compiled) <= 8
# [end]
print(
    f"{3 * len(sampler)} steps, {len(compiled)} compilations, {plan.report().padding:.1%} padding"
)
