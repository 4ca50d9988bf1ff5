"""``bagua.torch_api.contrib``: load-balancing samplers, seed for seed, the cache, and fused
optimizers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sab.compat.bagua.contrib.cache_loader import CacheLoader
from sab.compat.bagua.contrib.load_balancing_data_loader import (
    LoadBalancingDistributedBatchSampler,
    LoadBalancingDistributedSampler,
)

if TYPE_CHECKING:
    from sab.compat.bagua.contrib.cached_dataset import CachedDataset
    from sab.compat.bagua.contrib.fuse.optimizer import fuse_optimizer

__all__ = [
    "CacheLoader",
    "CachedDataset",
    "LoadBalancingDistributedBatchSampler",
    "LoadBalancingDistributedSampler",
    "fuse_optimizer",
]


def __getattr__(name: str) -> Any:
    # Needs torch, which the samplers do not.
    if name == "fuse_optimizer":
        from sab.compat.bagua.contrib.fuse.optimizer import fuse_optimizer

        return fuse_optimizer
    if name == "CachedDataset":
        from sab.compat.bagua.contrib.cached_dataset import CachedDataset

        return CachedDataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
