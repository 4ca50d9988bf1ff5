"""Bagua's contrib package.

needs: torch, redis-server
"""

import torch

# [imports]
from sab.compat.bagua.contrib import (
    CachedDataset,
    CacheLoader,
    LoadBalancingDistributedBatchSampler,
    LoadBalancingDistributedSampler,
    fuse_optimizer,
)
# [end]

# [same]
dataset = torch.utils.data.TensorDataset(torch.randn(64, 2), torch.randperm(64))
sampler = LoadBalancingDistributedSampler(
    dataset, complexity_fn=lambda sample: sample[1], num_replicas=2, rank=0
)
sampler.set_epoch(1)
batches = LoadBalancingDistributedBatchSampler(
    sampler, batch_fn=lambda indices: [indices[i : i + 4] for i in range(0, len(indices), 4)]
)
assert sum(len(batch) for batch in batches) == 32

loader = CacheLoader(
    backend="redis",
    hosts=None,
    cluster_mode=False,
    capacity_per_node=10_000_000,
    dataset_name="test",
)  # starts a server
assert loader.get("7", lambda key: int(key) ** 2) == 49 and loader.num_keys() == 1
# [end]

# [native]
import sab

sampler = sab.BalancedSampler(
    range(1, 65), budget=512, rank=0, world_size=2
)  # a cap, micro-batches, resume
cached = sab.CachedDataset(dataset, "lmdb:samples.mdb", dataset_name="test")  # without a server
# [end]
assert len(sampler) > 0 and len(cached) == 64
assert callable(CachedDataset) and callable(fuse_optimizer)
