"""At most eight shapes, so that the step is compiled at most eight times. needs: jax"""

import jax
import jax.numpy as jnp
import numpy as np

import sab
import sab.jax

random = np.random.default_rng(0)
sizes = np.minimum(random.lognormal(2.5, 0.6, 20_000).astype(int) + 1, 100)  # words of each
sentences = [random.integers(1, 30, size) for size in sizes]
dataset = [{"words": words, "label": int((words == 1).any())} for words in sentences]

plan = sab.plan(sizes, budget=4096, max_shapes=8)
sampler = sab.BucketSampler(plan, seed=0)
loader = sab.jax.DataLoader(dataset, sampler, collate_fn=sab.jax.PadCollate({"words": 0}))


def loss_of(model, batch):
    (embedding, output), words, rows = model, batch["words"], jnp.arange(len(batch["label"]))
    hidden = jnp.where((words != 0)[..., None], embedding[words], -1e9).max(1)
    losses = -jax.nn.log_softmax(hidden @ output)[rows, batch["label"]]
    return (losses * batch["weights"]).sum() / batch["weights"].sum()  # empty rows weigh 0


@jax.jit
def step(model, batch, weight):
    compiled.append(batch["words"].shape)  # Python runs this only when the step is compiled
    loss, gradient = jax.value_and_grad(loss_of)(model, batch)
    return jax.tree.map(lambda old, slope: old - 0.1 * weight * slope, model, gradient), loss


keys, compiled = jax.random.split(jax.random.key(0)), []
model = jax.random.normal(keys[0], (30, 16)), jax.random.normal(keys[1], (16, 2))
for _ in range(3):
    for batch in loader:
        model, loss = step(model, batch, loader.sample_weight)  # each sample counts the same
assert len(compiled) <= 8 and loss < 0.6
print(f"{3 * len(loader)} steps, {len(compiled)} compilations, {plan.report().padding:.1%} padding")
