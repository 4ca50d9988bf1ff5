"""libsab: which samples go into which batch when samples differ in size.

    plan = sab.plan(sizes, budget=16384)            # buckets and batch sizes, decided once
    plan.report()                                   # padding, batches, randomness: before any training
    sampler = sab.BucketSampler(plan, seed=0)       # DataLoader(dataset, batch_sampler=sampler)

Sizes are in the caller's unit: tokens, residues, frames, seconds, nodes.
"""

from sab._native import Cancelled, Error, FormatError, MismatchError, SkippedWarning, UnsupportedError, ffi as _ffi, lib as _lib
from sab._plan import Bucket, Plan, Report, create_buckets, plan
from sab._samplers import Batch, BucketSampler, SequentialSampler, SizeAwareSampler, SizeAwareStream
from sab._sizes import Sizes

__version__: str = _ffi.string(_lib.sab_version_string()).decode()

__all__ = [
    "Batch",
    "Bucket",
    "BucketSampler",
    "Cancelled",
    "Error",
    "FormatError",
    "MismatchError",
    "Plan",
    "Report",
    "SequentialSampler",
    "SizeAwareSampler",
    "SizeAwareStream",
    "Sizes",
    "SkippedWarning",
    "UnsupportedError",
    "create_buckets",
    "plan",
]
