"""The first example in Python."""

# [first]
import numpy as np
import sab

sizes = np.random.default_rng(0).integers(1, 200, 10_000)  # tokens of each sample
plan = sab.plan(sizes, budget=4096)  # no batch has more than 4,096 places, padding included
print(plan.report())

sampler = sab.BucketSampler(plan, seed=0)
for indices in sampler:  # a numpy array of sample indices
    assert len(indices) * sizes[indices].max() <= 4096
# [end]

seen = np.concatenate(list(sampler))
assert sorted(seen.tolist()) == list(range(10_000))
