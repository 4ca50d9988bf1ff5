"""fairseq, Hugging Face, lhotse, torchtext: no modules with their names, but calls that do the
same.

needs: torch
"""

import numpy as np

import sab

sizes = np.random.default_rng(0).integers(1, 200, 5000)

# [fairseq]
# batch_by_size(indices, num_tokens_fn, max_tokens=4096, max_sentences=128,
# required_batch_size_multiple=8)
plan = sab.plan(sizes, budget=4096, max_batch_size=128, batch_size_multiple=8)
# [end]
assert all(
    bucket.batch_size <= 128 and (bucket.batch_size % 8 == 0 or bucket.batch_size < 8)
    for bucket in plan.buckets
)

# [lengths]
# TrainingArguments(group_by_length=True, per_device_train_batch_size=32);
# LengthGroupedSampler(batch_size=32, lengths=sizes)
plan = sab.plan(sizes, batch_size=32)
# or, better: as many places in each batch
plan = sab.plan(sizes, budget=32 * int(sizes.mean()))
# [end]
assert plan.report().padding < 0.1

# [lhotse]
# DynamicBucketingSampler(cuts, max_duration=600.0, num_buckets=30, shuffle=True, drop_last=False,
# world_size=8, rank=3)
durations = np.random.default_rng(0).gamma(3.0, 4.0, 5000)  # [cut.duration for cut in cuts]
sampler = sab.BucketSampler(
    sab.plan(durations, budget=600.0, buckets=30), seed=0, rank=3, world_size=8
)
# quadratic_duration=15: cost count * (length + length ** 2 / 15)
plan = sab.plan(durations, budget=600.0, cost=[0, 0, 1, 1 / 15])
# [end]
assert len(sampler) > 0 and max(bucket.cost for bucket in plan.buckets) <= 600

# [torchtext]
# BucketIterator(dataset, batch_size=32, sort_key=len)                                   samples
plan = sab.plan(sizes, batch_size=32)
# BucketIterator(dataset, batch_size=4096, batch_size_fn=tokens_with_padding)      padded tokens
plan = sab.plan(sizes, budget=4096)
# [end]
assert len(sab.BucketSampler(plan)) > 0
