"""libsab: which samples go into which batch when samples differ in size.

    plan = sab.plan(sizes, budget=16384)            # buckets and batch sizes, decided once
    plan.report()                                   # padding, batches, randomness
    sampler = sab.BucketSampler(plan, seed=0)       # sab.torch.DataLoader(dataset, sampler)

    peaks = sab.collect_peak(work, inputs, "cuda")  # what batches of known shape need
    model = sab.MemoryModel.fit(peaks.features, peaks.peaks)
    plan = sab.plan(sizes, cost=model, budget=bytes)

Sizes are in the caller's unit: tokens, residues, frames, seconds, nodes.
"""

from sab import (
    _at_start,  # noqa: F401 # pyright: ignore[reportUnusedImport] done before the others
    _balance,
    _batch,
    _batch_files,
    _bionemo,
    _cache,
    _collection,
    _context,
    _cost,
    _devices,
    _engine,
    _group,
    _guard,
    _learning_rate,
    _make_plan,
    _max_batch,
    _metrics,
    _mixture,
    _model,
    _ordered,
    _pack,
    _peaks,
    _plan,
    _probe,
    _ranks,
    _report,
    _sampler,
    _samplers,
    _signature,
    _sizes,
    _step_plan,
    _streams,
)
from sab._balance import *
from sab._batch import *
from sab._batch_files import *
from sab._bionemo import *
from sab._cache import *
from sab._collection import *
from sab._context import *
from sab._cost import *
from sab._devices import *
from sab._engine import *
from sab._group import *
from sab._guard import *
from sab._learning_rate import *
from sab._make_plan import *
from sab._max_batch import *
from sab._metrics import *
from sab._mixture import *
from sab._model import *
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
from sab._ordered import *
from sab._pack import *
from sab._peaks import *
from sab._plan import *
from sab._probe import *
from sab._ranks import *
from sab._report import *
from sab._sampler import *
from sab._samplers import *
from sab._signature import *
from sab._sizes import *
from sab._step_plan import *
from sab._streams import *

__version__: str = _ffi.string(_lib.sab_version_string()).decode()

__all__ = [
    "Cancelled",
    "DeviceMemoryError",
    "Error",
    "FormatError",
    "MismatchError",
    "SkippedWarning",
    "UnsupportedError",
]
__all__ += _balance.__all__
__all__ += _batch.__all__
__all__ += _batch_files.__all__
__all__ += _bionemo.__all__
__all__ += _cache.__all__
__all__ += _collection.__all__
__all__ += _context.__all__
__all__ += _cost.__all__
__all__ += _devices.__all__
__all__ += _engine.__all__
__all__ += _group.__all__
__all__ += _guard.__all__
__all__ += _learning_rate.__all__
__all__ += _make_plan.__all__
__all__ += _max_batch.__all__
__all__ += _metrics.__all__
__all__ += _mixture.__all__
__all__ += _model.__all__
__all__ += _ordered.__all__
__all__ += _pack.__all__
__all__ += _peaks.__all__
__all__ += _plan.__all__
__all__ += _probe.__all__
__all__ += _ranks.__all__
__all__ += _report.__all__
__all__ += _sampler.__all__
__all__ += _samplers.__all__
__all__ += _signature.__all__
__all__ += _sizes.__all__
__all__ += _step_plan.__all__
__all__ += _streams.__all__
