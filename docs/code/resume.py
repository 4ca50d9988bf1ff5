"""Stopping and going on."""

import numpy as np

import sab

sizes = np.random.default_rng(0).integers(1, 200, 10_000)
plan = sab.plan(sizes, budget=4096)

# [resume]
sampler = sab.BucketSampler(plan, seed=0)
batches = iter(sampler)
first = [next(batches) for _ in range(100)]
state = sampler.state_dict()  # goes into the checkpoint beside the model

sampler = sab.BucketSampler(plan, seed=0)  # in a new process
sampler.load_state_dict(state)
rest = list(sampler)
assert sorted(np.concatenate(first + rest).tolist()) == list(
    range(10_000)
)  # nothing lost, nothing twice
# [end]

# [elastic]
samplers = [sab.BucketSampler(plan, seed=0, rank=rank, world_size=4) for rank in range(4)]
for each in samplers:
    each.load_state_dict(state)  # saved by one rank, loaded by four
rest = np.concatenate([indices for each in samplers for indices in each])
assert sorted(np.concatenate([*first, rest]).tolist()) == list(range(10_000))
# [end]

# [random]
sampler = sab.BucketSampler(plan, seed=0)
sampler.set_epoch(7)
batch = sampler.batch(123)  # position 123 of epoch 7, without those before it
assert (sampler[123] == batch.indices).all() and batch.epoch == 7
# [end]

# [refused]
other = sab.BucketSampler(sab.plan(sizes, budget=2048), seed=0)
try:
    other.load_state_dict(state)
except sab.MismatchError as error:
    print(error)
else:
    raise AssertionError("a state of another plan was taken")
# [end]

# [streams]
stream = sab.Stream.from_items(range(1000), shuffle=True, seed=1).batch(32)
for _, batch in zip(range(10), stream):
    last = batch
state = stream.state_dict()
following = next(stream)
stream.load_state_dict(state)
assert next(stream) == following
# [end]
