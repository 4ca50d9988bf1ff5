"""Batches by the memory of a device.

needs: torch
"""

import torch
from torch import nn

import numpy as np
import sab

torch.manual_seed(0)
sizes = np.minimum(np.random.default_rng(0).lognormal(3, 0.6, 5000).astype(int) + 4, 100)

# [learn]
layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)


def step(count, length):
    """A training step on a batch of that shape."""
    optimizer.zero_grad()
    layer(torch.rand(int(count), int(length), 64)).mean().backward()
    optimizer.step()


device = sab.Probe(
    "cpu", total_bytes=16 << 20
)  # emulates a device of 16 MiB; for a real one: device = "cuda:0"
model = sab.MemoryModel.learn(
    step, shortest=sizes.min(), longest=sizes.max(), device=device, budget=14 << 20, points=8
)
print(f"{model.info.margin:.1%} margin, {len(model.terms)} terms")
plan = sab.plan(sizes, cost=model, budget=14 << 20)  # bytes
# [end]

# [several]
plan = sab.plan(sizes, budget=[sab.Budget(14 << 20, cost=model), sab.Budget(6400)])
for batch in sab.BucketSampler(plan).batches():
    assert batch.count * batch.padded_length <= 6400  # tokens
    assert model.cost()(batch.count, batch.padded_length) <= 14 << 20  # bytes
# [end]

# [verify]
seen = plan.verify(
    lambda batch: step(batch.count, batch.padded_length), device, count=3
)  # the costliest batches, before training
print(f"largest peak {seen.peak / 2**20:.1f} MiB of 14")
assert seen.peak <= 14 << 20
# [end]

# [guard]
sampler = sab.BucketSampler(plan, seed=0)
samples = 0
with sab.MemoryGuard(
    sampler, device, budget=16 << 20
) as guard:  # reduce="torch" where ranks train together
    for batch in sampler.batches():

        def part(
            first, count, weight
        ):  # the whole batch, or, where memory runs out, halves of it: weight is the part's share
            data = torch.rand(count, int(batch.padded_length), 64)
            (layer(data).mean() * weight).backward()

        guard.step(batch, part, begin=optimizer.zero_grad)
        optimizer.step()
        samples += batch.count
        if batch.step == 9:
            break
    assert guard.info.peak <= 16 << 20
    print(f"{guard.info.steps} steps, {guard.info.out_of_memory} out of memory")
# [end]

# [largest]
largest = sab.find_max_batch(step, device, lengths=[25, 50, 100], budget=14 << 20)
print(largest.batch_sizes)
# [end]
assert sorted(largest.batch_sizes, reverse=True) == list(largest.batch_sizes)
