"""grain: batches of few shapes, fetched by threads, with checkpoints of the iterator.

needs: jax, grain
"""

import grain
import numpy as np

import sab
import sab.jax
import sab.jax.grain

random = np.random.default_rng(0)
sizes = np.minimum(random.lognormal(2.5, 0.6, 20_000).astype(int) + 1, 100)
dataset = [{"words": random.integers(1, 30, size)} for size in sizes]

# [grain]
sampler = sab.BucketSampler(sizes, budget=4096, max_shapes=8, seed=0)
collate = sab.jax.PadCollate({"words": 0})
batches = sab.jax.grain.IterDataset(dataset, sampler, collate_fn=collate, epochs=2)
batches = grain.experimental.ThreadPrefetchIterDataset(batches, prefetch_buffer_size=4)

iterator = iter(batches)
for _ in range(10):
    next(iterator)
state = iterator.get_state()  # after the 10 batches; saved by grain.checkpoint, too

other = iter(batches)
other.set_state(state)
assert all(np.array_equal(a["words"], b["words"]) for a, b in zip(iterator, other))
# [end]
iterator.close()
other.close()
