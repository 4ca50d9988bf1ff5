"""libsab: which samples go into which batch when samples differ in size.

    plan = sab.plan(sizes, budget=16384)            # buckets and batch sizes, decided once
    plan.report()                                   # padding, batches, randomness: before any
    training sampler = sab.BucketSampler(plan, seed=0)       # DataLoader(dataset,
    batch_sampler=sampler)

    peaks = sab.collect_peak(work, inputs, "cuda")  # what batches of known shape need
    model = sab.MemoryModel.fit(peaks.features, peaks.peaks)
    plan = sab.plan(sizes, cost=model, budget=bytes)

Sizes are in the caller's unit: tokens, residues, frames, seconds, nodes.
"""

from sab._balance import LoadBalancingBatchSampler, LoadBalancingSampler, partition
from sab._batch import Batch
from sab._cache import Cache, CachedDataset, CacheStats
from sab._collection import Collection, Grouped
from sab._devices import Device, is_out_of_memory
from sab._group import Grouping, Thresholds, find_thresholds
from sab._guard import MemoryGuard, MemoryGuardInfo
from sab._max_batch import (
    MaxBatch,
    chunked_step,
    find_executable_batch_size,
    find_max_batch,
    grow_batch,
    grow_doubling,
    grow_linear,
)
from sab._model import MemoryModel, MemoryModelInfo, measurement_points
from sab._native import (
    Cancelled,
    DeviceMemoryError,
    Error,
    FormatError,
    MismatchError,
    SkippedWarning,
    UnsupportedError,
    ffi as _ffi,
    lib as _lib,
)
from sab._pack import PackedSampler, PackInfo
from sab._peaks import Peaks, collect_peak
from sab._plan import Bucket, Plan, Report, Verification, create_buckets, plan, verify
from sab._probe import MemoryStats, Probe
from sab._ranks import (
    BalancedSampler,
    BalanceReport,
    ShardedSampler,
    check_ranks,
    data_rank,
    ranks,
)
from sab._samplers import (
    BucketSampler,
    SequentialSampler,
    SizeAwareSampler,
    SizeAwareStream,
)
from sab._signature import Jagged
from sab._sizes import Sizes
from sab._streams import Stream

__version__: str = _ffi.string(_lib.sab_version_string()).decode()

__all__ = [
    "BalanceReport",
    "BalancedSampler",
    "Batch",
    "Bucket",
    "BucketSampler",
    "Cache",
    "CacheStats",
    "CachedDataset",
    "Cancelled",
    "Collection",
    "Device",
    "DeviceMemoryError",
    "Error",
    "FormatError",
    "Grouped",
    "Grouping",
    "Jagged",
    "LoadBalancingBatchSampler",
    "LoadBalancingSampler",
    "MaxBatch",
    "MemoryGuard",
    "MemoryGuardInfo",
    "MemoryModel",
    "MemoryModelInfo",
    "MemoryStats",
    "MismatchError",
    "PackInfo",
    "PackedSampler",
    "Peaks",
    "Plan",
    "Probe",
    "Report",
    "SequentialSampler",
    "ShardedSampler",
    "SizeAwareSampler",
    "SizeAwareStream",
    "Sizes",
    "SkippedWarning",
    "Stream",
    "Thresholds",
    "UnsupportedError",
    "Verification",
    "check_ranks",
    "chunked_step",
    "collect_peak",
    "create_buckets",
    "data_rank",
    "find_executable_batch_size",
    "find_max_batch",
    "find_thresholds",
    "grow_batch",
    "grow_doubling",
    "grow_linear",
    "is_out_of_memory",
    "measurement_points",
    "partition",
    "plan",
    "ranks",
    "verify",
]
