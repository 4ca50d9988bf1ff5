"""bionemo-size-aware-batching: its documented examples with the imports changed.

needs: torch
"""

import torch

# [imports]
from sab.compat.bionemo.sampler import (
    BucketBatchSampler,
    SizeAwareBatchSampler,
    size_aware_batching,
)
from sab.compat.bionemo.utils import collect_cuda_peak_alloc, create_buckets
# [end]

# [same]
buckets = create_buckets(
    torch.tensor([1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 22, 22, 22, 22]),
    max_width=5,
    min_bucket_count=10,
)
assert buckets.bucket_boundaries.tolist() == [1, 6, 11, 16, 21, 23]

sampler = BucketBatchSampler(
    sizes=torch.arange(25),
    bucket_boundaries=torch.tensor([0, 6, 15, 25]),
    base_batch_sampler_class=torch.utils.data.BatchSampler,
    base_batch_sampler_shared_kwargs={"drop_last": False},
    base_batch_sampler_individual_kwargs={"batch_size": [2, 3, 5]},
    shuffle=True,
    generator=torch.Generator().manual_seed(0),
)
assert list(sampler)[:3] == [[24, 17, 16, 22, 19], [2, 5], [12, 10, 11]]  # as published
# [end]

# [native]
import sab

sizes = torch.arange(1, 26)
sampler = sab.BucketSampler(
    sab.plan(sizes, budget=100), seed=0, rank=0, world_size=2
)  # a budget, ranks, resume: what the peer has not
# [end]
assert (
    len(list(SizeAwareBatchSampler(range(5), lambda index: 2, 4)))
    == len(list(size_aware_batching([0] * 5, lambda item: 2, 4)))
    == 3
)
assert callable(collect_cuda_peak_alloc) and len(sampler) > 0
