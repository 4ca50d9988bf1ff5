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

from sab._balance import BaguaBatchSampler, BaguaSampler, partition
from sab._batch import Batch, Capabilities, Step
from sab._cache import Cache, CachedDataset, CacheStats
from sab._collection import Collection, Grouped
from sab._cost import Budget, Cost
from sab._devices import Device, is_out_of_memory
from sab._group import Grouping, Thresholds, find_thresholds
from sab._guard import MemoryGuard, MemoryGuardInfo
from sab._max_batch import (
    MaxBatch,
    find_executable_batch_size,
    find_max_batch,
    grow_batch_size,
    grow_batch_size_doubling,
    grow_batch_size_linear,
    step_in_chunks,
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
from sab._pack import PackedInfo, PackedSampler
from sab._peaks import Peaks, collect_peak
from sab._plan import Bucket, Plan, Report, Verification, create_buckets, plan, verify
from sab._probe import Probe, ProbeStats
from sab._ranks import (
    BalancedReport,
    BalancedSampler,
    ShardedSampler,
    check_ranks,
    ranks,
    ranks_from_mesh,
)
from sab._samplers import (
    BionemoSizeAwareSampler,
    BionemoSizeAwareStream,
    BucketSampler,
    SequentialSampler,
)
from sab._signature import Jagged
from sab._sizes import Sizes
from sab._streams import Stream

__version__: str = _ffi.string(_lib.sab_version_string()).decode()

__all__ = [
    "BaguaBatchSampler",
    "BaguaSampler",
    "BalancedReport",
    "BalancedSampler",
    "Batch",
    "BionemoSizeAwareSampler",
    "BionemoSizeAwareStream",
    "Bucket",
    "BucketSampler",
    "Budget",
    "Cache",
    "CacheStats",
    "CachedDataset",
    "Cancelled",
    "Capabilities",
    "Collection",
    "Cost",
    "Device",
    "DeviceMemoryError",
    "Error",
    "FormatError",
    "Grouped",
    "Grouping",
    "Jagged",
    "MaxBatch",
    "MemoryGuard",
    "MemoryGuardInfo",
    "MemoryModel",
    "MemoryModelInfo",
    "MismatchError",
    "PackedInfo",
    "PackedSampler",
    "Peaks",
    "Plan",
    "Probe",
    "ProbeStats",
    "Report",
    "SequentialSampler",
    "ShardedSampler",
    "Sizes",
    "SkippedWarning",
    "Step",
    "Stream",
    "Thresholds",
    "UnsupportedError",
    "Verification",
    "check_ranks",
    "collect_peak",
    "create_buckets",
    "find_executable_batch_size",
    "find_max_batch",
    "find_thresholds",
    "grow_batch_size",
    "grow_batch_size_doubling",
    "grow_batch_size_linear",
    "is_out_of_memory",
    "measurement_points",
    "partition",
    "plan",
    "ranks",
    "ranks_from_mesh",
    "step_in_chunks",
    "verify",
]
