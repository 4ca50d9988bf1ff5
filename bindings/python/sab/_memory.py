"""Memory: measured, modelled, and kept true while training."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import logging
import os
import sys
import traceback
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from sab._devices import Device, is_out_of_memory, open_device
from sab._native import Calls, DeviceMemoryError, Progress, check, ffi, keep_exception, lib, new_options
from sab._plan import Plan, one_of
from sab._samplers import Batch, _RandomAccessSampler, _batch_of, _new_batch

log = logging.getLogger("sab")

DeviceLike = Union["Probe", Device, str, Any]
Reduce = Callable[[Sequence[int]], Sequence[int]]
_SEARCHES = {
    "predict": lib.SAB_SEARCH_PREDICT,
    "difference": lib.SAB_SEARCH_DIFFERENCE,
    "binary": lib.SAB_SEARCH_BINARY,
    "halve": lib.SAB_SEARCH_HALVE,
}
_KINDS = {"batch": lib.SAB_MODEL_BATCH, "polynomial": lib.SAB_MODEL_POLYNOMIAL}


def _forget(error: Optional[BaseException]) -> None:
    """Lets go of what the frames of an exception hold: the tensors of the step that failed."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _keep_work(kind: Any, error: BaseException, where: Any) -> Optional[int]:
    # As _keep, but running out of memory is an answer, and its frames are let go before anything is tried again.
    if is_out_of_memory(error):
        del where
        _forget(error)
        return int(lib.SAB_OUT_OF_MEMORY)
    keep_exception(kind, error, where)
    return None


class _Work(Calls):
    """The functions of a call that runs work on a device."""

    def __init__(self, progress: "bool | Progress | None" = None, what: str = "", **functions: Any) -> None:
        super().__init__(progress=progress, what=what)
        self.functions = functions


def _functions(ctx: Any) -> dict[str, Any]:
    return ffi.from_handle(ctx).functions  # type: ignore[no-any-return]


@ffi.def_extern(error=-1, onerror=_keep_work)  # type: ignore[misc]
def sab_py_work(ctx: Any, item: int, features: Any, capacity: int, count: Any) -> int:
    numbers = _functions(ctx)["work"](item)
    if numbers is None:
        return int(lib.SAB_END)
    count[0] = len(numbers)
    if len(numbers) <= capacity:
        features[0 : len(numbers)] = [float(number) for number in numbers]
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_cleanup(ctx: Any, item: int) -> int:
    _functions(ctx)["cleanup"]()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_collect_garbage(ctx: Any) -> int:
    gc.collect()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_begin(ctx: Any) -> int:
    _functions(ctx)["begin"]()
    return 0


@ffi.def_extern(error=-1, onerror=_keep_work)  # type: ignore[misc]
def sab_py_trial(ctx: Any, count: int, length: float) -> int:
    _functions(ctx)["trial"](count, length)
    gc.collect()
    return 0


@ffi.def_extern(error=-1, onerror=_keep_work)  # type: ignore[misc]
def sab_py_chunk(ctx: Any, first: int, count: int, weight: float) -> int:
    _functions(ctx)["chunk"](first, count, weight)
    return 0


@ffi.def_extern(error=-1, onerror=_keep_work)  # type: ignore[misc]
def sab_py_batch(ctx: Any, batch: Any) -> int:
    _functions(ctx)["run"](_batch_of(batch))
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_reduce(ctx: Any, values: Any, count: int) -> int:
    least = [int(value) for value in _functions(ctx)["reduce"]([values[i] for i in range(count)])]
    if len(least) != count:
        raise ValueError(f"reduce gave {len(least)} numbers for {count}")
    for i in range(count):
        values[i] = least[i]
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_increase(ctx: Any, epoch: int, current: int, increase: Any) -> int:
    increase[0] = int(_functions(ctx)["increase"](epoch, current))
    return 0


class _DeviceCalls(Calls):
    """A Python device under a probe."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device
        self.states: dict[int, Any] = {}


def _device(ctx: Any) -> Device:
    return ffi.from_handle(ctx).device  # type: ignore[no-any-return]


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_device_reset(ctx: Any) -> int:
    _device(ctx).reset()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_device_current(ctx: Any, value: Any) -> int:
    value[0] = _device(ctx).current()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_device_peak(ctx: Any, value: Any) -> int:
    value[0] = _device(ctx).peak()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_device_reserved(ctx: Any, reserved_peak: Any, largest_free: Any) -> int:
    reserved_peak[0], largest_free[0] = _device(ctx).reserved()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_device_total(ctx: Any, value: Any) -> int:
    value[0] = _device(ctx).total()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_device_release_cache(ctx: Any) -> int:
    _device(ctx).release_cache()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_device_rng_save(ctx: Any, depth: int) -> int:
    ffi.from_handle(ctx).states[depth] = _device(ctx).rng_state()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_device_rng_restore(ctx: Any, depth: int) -> int:
    _device(ctx).set_rng_state(ffi.from_handle(ctx).states[depth])
    return 0


class MemoryStats(NamedTuple):
    """What a probe sees, in bytes; -1 where it cannot: the fields of ``sab_memory_stats``."""

    current: int
    peak: int
    reserved_peak: int
    largest_free: int
    total: int


class Probe:
    """Sees the memory of a device.

    Args:
        device: ``"host"`` (resident memory of this process), ``"cpu"`` (bytes of CPU tensors of the torch that is installed, from now on, in this
            thread and in backward), ``"cuda"``, ``"cuda:N"``, ``"xpu:N"``, a ``torch.device``, ``"jax:N"``, or a :class:`sab.Device` of one's own.
        total_bytes: let the device have this many bytes only: an allocation beyond them raises torch's out-of-memory error. For ``"cuda:N"`` by
            torch's memory fraction; for ``"cpu"`` emulated, which needs libsab's LibTorch component built for that torch (SAB_TORCH_LIBRARY).

    A probe is for one thread at a time; a ``"cpu"`` one for the thread that made it, closed in reverse order of making.
    """

    def __init__(self, device: Any, total_bytes: Optional[int] = None) -> None:
        self._calls: Optional[_DeviceCalls] = None
        self._handle = ffi.NULL
        if total_bytes is not None and total_bytes < 1:
            raise ValueError(f"total_bytes = {total_bytes}: must be at least 1")
        handle = ffi.new("sab_probe **")
        own = device if isinstance(device, Device) else open_device(str(device), total_bytes or 0)
        if own is None:
            options = new_options("sab_probe_options")
            options.total_bytes = total_bytes or 0
            check(lib.sab_probe_new(str(device).encode(), options, handle))
        else:
            self._calls = _DeviceCalls(own)
            callbacks = new_options("sab_probe_callbacks")
            callbacks.ctx = self._calls.handle
            for name in ("reset", "current", "peak", "reserved", "total", "release_cache", "rng_save", "rng_restore"):
                setattr(callbacks, name, getattr(lib, f"sab_py_device_{name}"))
            check(lib.sab_probe_callbacks_new(callbacks, handle))
        self._handle = ffi.gc(handle[0], lib.sab_probe_free)

    def _check(self, status: int, calls: Optional[Calls] = None) -> int:
        """As check(), also for an exception of the device's own functions."""
        mine, self_exception = self._calls, None
        if mine is not None:
            self_exception, mine.exception = mine.exception, None
        if status < 0 and self_exception is not None and (calls is None or calls.exception is None):
            if calls is not None and calls.bar is not None:
                calls.bar.stop()
            raise self_exception
        return check(status, calls)

    def reset(self) -> None:
        """Lets the peak begin again at what is held now."""
        self._check(lib.sab_probe_reset(self._handle))

    def stats(self) -> MemoryStats:
        """Reads what the probe sees."""
        stats = ffi.new("sab_memory_stats *")
        stats.struct_size = ffi.sizeof("sab_memory_stats")
        self._check(lib.sab_probe_read(self._handle, stats))
        return MemoryStats(*(int(getattr(stats, field)) for field in MemoryStats._fields))

    def release_cache(self) -> None:
        """Gives cached blocks back to the device."""
        self._check(lib.sab_probe_release_cache(self._handle))

    def close(self) -> None:
        """Frees the probe; the device has its own size again. Also done by ``with`` and when it is collected."""
        handle, self._handle = self._handle, ffi.NULL
        if handle != ffi.NULL:
            ffi.release(handle)
            if self._calls is not None:
                self._calls.device.close()

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._calls is not None and self._handle != ffi.NULL and not sys.is_finalizing():
            self.close()


@contextlib.contextmanager
def _probe_of(device: DeviceLike) -> Iterator[Probe]:
    """A probe for one call: the caller's, or one that is closed after it."""
    if isinstance(device, Probe):
        yield device
        return
    probe = Probe(device)
    try:
        yield probe
    finally:
        probe.close()


class Peaks(NamedTuple):
    """What was measured: one entry a recorded item, in bytes; -1 where the device does not tell."""

    features: list[Any]  # what `work` returned
    peaks: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]
    reserved_peaks: npt.NDArray[np.int64]
    largest_free: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    out_of_memory: list[int]  # numbers of the items that ran out


def _column(pointer: Any, count: int) -> npt.NDArray[np.int64]:
    return np.frombuffer(ffi.buffer(pointer, count * 8), np.int64).copy() if count else np.empty(0, np.int64)


def collect_peak(
    work: Callable[[Any], Any],
    inputs: Iterable[Any],
    device: DeviceLike = "cuda",
    *,
    cleanup: Optional[Callable[[], Any]] = None,
    warm_up: int = 0,
    collect_garbage: bool = True,
    release_cache: bool = True,
    progress: "bool | Progress | None" = None,
) -> Peaks:
    """Runs ``work`` on each input and records the peak of memory, and what ``work`` returned: the features of the input.

    Inputs that run out of memory are listed in ``out_of_memory`` and skipped. Any other exception comes out unchanged, with what was measured
    before it as its attribute ``collected``.

    Args:
        work: runs an input, such as a training step, and returns what describes it: a sequence of as many finite numbers for each input, or anything.
        inputs: read one at a time.
        device: see :class:`Probe`.
        cleanup: called after each input, also after one that failed, to let go of what ``work`` holds.
        warm_up: the first so many inputs are run but not recorded.
        collect_garbage, release_cache: after each input, so that a peak does not depend on the inputs before.
        progress: True for a bar, or ``progress(done, total)``, which stops by returning False or raising.
    """
    source = iter(inputs)
    returned: list[Any] = []

    def run(item: int) -> Optional[Sequence[float]]:
        try:
            data = next(source)
        except StopIteration:
            return None
        returned.append(None)
        features = work(data)
        returned[-1] = features
        return _numbers(features)

    if warm_up < 0:
        raise ValueError(f"warm_up = {warm_up}: must be at least 0")
    handle = ffi.new("sab_peaks **")
    check(lib.sab_peaks_new(handle))
    peaks = ffi.gc(handle[0], lib.sab_peaks_free)
    calls = _Work(progress, "collect_peak", work=run, cleanup=cleanup)
    options = new_options("sab_collect_peak_options")
    with contextlib.suppress(TypeError):
        options.item_count = len(inputs)  # type: ignore[arg-type]
    options.work, options.ctx, options.warm_up, options.release_cache = lib.sab_py_work, calls.handle, warm_up, release_cache
    if cleanup is not None:
        options.cleanup = lib.sab_py_cleanup
    if collect_garbage:
        options.collect_garbage = lib.sab_py_collect_garbage
    options.progress, options.progress_ctx = lib.sab_py_progress, calls.handle

    def collected() -> Peaks:
        view = ffi.new("sab_peaks_view *")
        view.struct_size = ffi.sizeof("sab_peaks_view")
        check(lib.sab_peaks_get(peaks, view))
        columns = {name: _column(getattr(view, name), view.count) for name in ("peaks", "before", "reserved_peaks", "largest_free", "items")}
        out_of_memory = _column(view.out_of_memory, view.out_of_memory_count).tolist()
        return Peaks([returned[item] for item in columns["items"]], **columns, out_of_memory=out_of_memory)

    with _probe_of(device) as probe:
        try:
            probe._check(lib.sab_collect_peak(probe._handle, options, peaks), calls)
        except BaseException as error:
            with contextlib.suppress(AttributeError, TypeError):
                error.collected = collected()  # type: ignore[attr-defined]
            raise
    return collected()


def _numbers(features: Any) -> Sequence[float]:
    """Features as numbers where they are such; none where they are anything else."""
    if features is None or isinstance(features, (str, bytes)):
        return ()
    try:
        numbers = np.asarray(features, np.float64)
    except (TypeError, ValueError, RuntimeError):
        return ()
    return numbers.tolist() if numbers.ndim == 1 else (float(numbers),) if numbers.ndim == 0 else ()


def measurement_points(
    shortest: float,
    longest: float,
    max_count: int,
    points: Optional[int] = None,
    *,
    max_padded_total: Optional[float] = None,
    degree: int = 2,
    model: "Optional[MemoryModel]" = None,
    budget: Optional[float] = None,
) -> list[tuple[int, float]]:
    """Which (count, length) to measure for a :class:`MemoryModel` of batches, in ascending order of count * length.

    The D-optimal choice, made greedily on a grid: few steps suffice.

    Args:
        shortest, longest: range of padded lengths.
        max_count: most samples in a batch.
        points: how many; twice as many as the model has terms by default.
        max_padded_total: no point has a larger count * length; 4 * longest by default, so that none runs out of memory.
        degree: of the model.
        model, budget: with a first model, only points that it predicts to take a third to nine tenths of ``budget`` bytes.
    """
    options = new_options("sab_measurement_options")
    if model is not None:
        options.model, options.budget = model._handle, budget or 0
    options.shortest, options.longest, options.max_count, options.degree = shortest, longest, max_count, degree
    options.max_padded_total = max_padded_total or 0
    points = points or (12 if degree == 2 else 6)
    counts, lengths = ffi.new("uint64_t[]", points), ffi.new("double[]", points)
    check(lib.sab_measurement_points(options, points, counts, lengths))
    return [(int(counts[i]), int(lengths[i]) if lengths[i].is_integer() else lengths[i]) for i in range(points)]


class MemoryModelInfo(NamedTuple):
    """Facts of a model: the fields of ``sab_memory_model_info``."""

    kind: int
    degree: int
    feature_count: int
    term_count: int
    measurements: int
    constant: float
    margin: float
    coverage: float
    residual: float
    held_out_residual: float
    largest_residual: float


class MemoryModel:
    """Predicts the peak of a batch. Immutable, picklable; the cost of a plan: ``sab.plan(sizes, cost=model, budget=bytes)``.

    ``measured`` has the :class:`Peaks` that :meth:`learn` fitted it to; None for other models.
    """

    def __init__(self, handle: Any) -> None:
        self.measured: Optional[Peaks] = None
        self._handle = ffi.gc(handle, lib.sab_memory_model_free)
        info = ffi.new("sab_memory_model_info *")
        info.struct_size = ffi.sizeof("sab_memory_model_info")
        check(lib.sab_memory_model_get_info(self._handle, info))
        self.info = MemoryModelInfo(*(getattr(info, field) for field in MemoryModelInfo._fields))

    @classmethod
    def fit(
        cls, features: Any, peaks: Any, *, kind: str = "batch", degree: int = 2, coverage: float = 0.95, select_terms: bool = True
    ) -> "MemoryModel":
        """Fits a model to measurements, such as ``features`` and ``peaks`` of :func:`collect_peak`.

        Args:
            features: a row of numbers for each measurement; for ``"batch"`` (count, padded length).
            peaks: bytes.
            kind: ``"batch"`` (count, count * length, count * length**2, length, length**2; none negative) or ``"polynomial"`` of any features.
            degree: 1 or 2.
            coverage: share of unseen batches that should stay under :meth:`predict_upper`.
            select_terms: leave out terms that do not pay.

        Raises:
            ValueError: too few measurements, or such that cannot tell the terms apart: the message says what to measure next.

        >>> rows = [(n, l) for n in (1, 2, 4, 8) for l in (10, 50, 100)]
        >>> model = MemoryModel.fit(rows, [1e6 + 300 * n * l for n, l in rows])
        >>> round(float(model.predict([(16, 100)])[0]))
        1480000
        """
        rows = np.ascontiguousarray(features, np.float64)
        if rows.ndim == 1:
            rows = rows.reshape(-1, 1)
        if rows.ndim != 2:
            raise ValueError(f"features has {rows.ndim} dimensions: must have a row for each measurement")
        bytes_ = np.ascontiguousarray(peaks, np.float64)
        if bytes_.shape != (len(rows),):
            raise ValueError(f"peaks has shape {bytes_.shape}: must have one number for each of the {len(rows)} rows of features")
        options = new_options("sab_memory_model_options")
        options.kind, options.degree, options.coverage, options.select_terms = one_of("kind", kind, _KINDS), degree, coverage, select_terms
        handle = ffi.new("sab_memory_model **")
        pointers = [ffi.cast("double *", array.ctypes.data) for array in (rows, bytes_)]
        check(lib.sab_memory_model_fit(pointers[0], len(rows), rows.shape[1], pointers[1], options, handle))
        return cls(handle[0])

    @classmethod
    def learn(
        cls,
        step: Callable[[int, float], Any],
        shortest: float,
        longest: float,
        device: DeviceLike = "cuda",
        *,
        budget: Optional[int] = None,
        max_count: int = 1 << 20,
        points: int = 12,
        degree: int = 2,
        coverage: float = 0.9,
        cleanup: Optional[Callable[[], Any]] = None,
        progress: "bool | Progress | None" = None,
    ) -> "MemoryModel":
        """Finds out what batches need: runs ``step(count, length)`` on ``points`` small batches, fits a first model, runs it on ``points`` more that this
        model predicts to take a third to nine tenths of the budget, and fits the model to those.

        Args:
            step: runs a training step on a batch of ``count`` samples of padded length ``length``.
            shortest, longest: range of the padded lengths.
            device: see :class:`Probe`.
            budget: bytes that the batches will have; the device's total by default.
            max_count: most samples in a batch.
            points: steps in each of the two rounds.
            degree, coverage: see :meth:`fit`.
            cleanup: see :func:`collect_peak`.
        """

        def measure(where: list[tuple[int, float]]) -> Peaks:
            def work(point: tuple[int, float]) -> tuple[int, float]:
                step(*point)
                return point

            return collect_peak(work, where, probe, cleanup=cleanup, progress=progress)

        with _probe_of(device) as probe:
            limit = budget or probe.stats().total
            if limit <= 0:
                raise ValueError("budget = None: the device does not know its total: a budget must be given")
            try:
                step(1, shortest)  # what a framework makes once, such as the state of an optimizer
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                raise DeviceMemoryError(f"out of memory: not enough even for a batch of one: a sample of length {shortest:g} does not fit") from error
            small = measure(measurement_points(shortest, longest, max_count, points, degree=degree))
            first = cls.fit(small.features, small.peaks, degree=degree, coverage=coverage)
            large = measure(measurement_points(shortest, longest, max_count, points, degree=degree, model=first, budget=limit))
        model = cls.fit(large.features, large.peaks, degree=degree, coverage=coverage)
        model.measured = large
        return model

    def _predict(self, features: Any, which: int) -> npt.NDArray[np.float64]:
        rows = np.ascontiguousarray(features, np.float64).reshape(-1, self.info.feature_count)
        made = np.empty(len(rows))
        room = [ffi.NULL, ffi.NULL]
        room[which] = ffi.cast("double *", made.ctypes.data)
        check(lib.sab_memory_model_predict(self._handle, ffi.cast("double *", rows.ctypes.data), len(rows), *room))
        return made

    def predict(self, features: Any) -> npt.NDArray[np.float64]:
        """Expected peaks of rows of features, in bytes."""
        return self._predict(features, 0)

    def predict_upper(self, features: Any) -> npt.NDArray[np.float64]:
        """Peaks with the margin: the stated share of batches stays under them."""
        return self._predict(features, 1)

    @property
    def terms(self) -> list[tuple[float, tuple[int, ...]]]:
        """(coefficient, power of each feature) of each term."""
        coefficient, powers, terms = ffi.new("double *"), ffi.new("uint32_t[]", self.info.feature_count), []
        for index in range(self.info.term_count):
            check(lib.sab_memory_model_get_term(self._handle, index, coefficient, powers))
            terms.append((coefficient[0], tuple(powers)))
        return terms

    def _cost_terms(self) -> Any:
        count = ffi.new("size_t *")
        check(lib.sab_memory_model_cost_terms(self._handle, ffi.NULL, 0, count))
        terms = ffi.new("sab_cost_term[]", count[0])
        check(lib.sab_memory_model_cost_terms(self._handle, terms, count[0], count))
        return terms

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Writes the model to a file that :meth:`open` reads; replaced in one step."""
        check(lib.sab_memory_model_save(self._handle, os.fsencode(path)))

    @classmethod
    def open(cls, path: "str | os.PathLike[str]") -> "MemoryModel":
        """Reads a file of :meth:`save`."""
        handle = ffi.new("sab_memory_model **")
        check(lib.sab_memory_model_open(os.fsencode(path), handle))
        return cls(handle[0])

    def to_bytes(self) -> bytes:
        """The model's file image."""
        size = ffi.new("size_t *")
        check(lib.sab_memory_model_write(self._handle, ffi.NULL, 0, size))
        image = bytearray(size[0])
        check(lib.sab_memory_model_write(self._handle, ffi.from_buffer(image), len(image), size))
        return bytes(image)

    @classmethod
    def from_bytes(cls, image: bytes) -> "MemoryModel":
        """A model from :meth:`to_bytes`."""
        handle = ffi.new("sab_memory_model **")
        check(lib.sab_memory_model_read(ffi.from_buffer(image), len(image), handle))
        return cls(handle[0])

    def __reduce__(self) -> Any:
        return MemoryModel.from_bytes, (self.to_bytes(),)

    def __str__(self) -> str:
        names = ("count", "length") if self.info.kind == lib.SAB_MODEL_BATCH else [f"f{i}" for i in range(self.info.feature_count)]
        parts = []
        for coefficient, powers in self.terms:
            factors = [name if power == 1 else f"{name}^{power}" for name, power in zip(names, powers) if power]
            parts.append(" * ".join([f"{coefficient:,.4g}", *factors]))
        return f"{' + '.join(parts)} bytes, {100 * self.info.margin:.2f} % margin for {100 * self.info.coverage:.0f} % of batches"


def _reduce_function(reduce: "str | Reduce | None") -> Optional[Reduce]:
    if reduce != "torch":
        if reduce is not None and not callable(reduce):
            raise ValueError(f"reduce = {reduce!r}: must be 'torch' or a function")
        return reduce

    def least(values: Sequence[int]) -> Sequence[int]:
        import torch

        dist: Any = torch.distributed
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        tensor = torch.tensor(list(values), dtype=torch.int64, device=device)
        dist.all_reduce(tensor, dist.ReduceOp.MIN)
        return tensor.tolist()  # type: ignore[no-any-return]

    return least


class MaxBatch(NamedTuple):
    """What :func:`find_max_batch` found."""

    batch_size: int  # for the longest length
    batch_sizes: list[int]  # for each length
    trials: int
    out_of_memory: int
    peak: float
    budget: int


def find_max_batch(
    trial: Callable[..., Any],
    device: DeviceLike = "cuda",
    *,
    lengths: Optional[Sequence[float]] = None,
    search: str = "predict",
    maximum: int = 100_000,
    budget: Optional[int] = None,
    rounding: "str | int | None" = None,
    reduce: "str | Reduce | None" = None,
    progress: "bool | Progress | None" = None,
) -> MaxBatch:
    """Finds the largest batch whose step fits the device.

    The random generators are as before when it returns; model and optimizer are the caller's to put back.

    Args:
        trial: runs one training step: ``trial(count)``, or ``trial(count, length)`` when lengths are given.
        device: see :class:`Probe`.
        lengths: find a batch size for each of these padded lengths; the longest is tried first.
        search: ``"predict"`` (without running out), ``"difference"`` (memory(2) - memory(1)), ``"binary"`` or ``"halve"`` (by running out).
        maximum: never larger.
        budget: peaks must not be larger; the device's total by default.
        rounding: ``"power_of_two"``, or a number to be a multiple of.
        reduce: where ranks train together: ``"torch"`` for torch.distributed, or a function from a list of int to the least over the ranks.
        progress: True for a bar, or ``progress(done, total)``.

    Raises:
        DeviceMemoryError: not even one sample fits. Whatever ``trial`` raises, but for running out of memory.
    """
    calls = _Work(
        progress,
        "find_max_batch",
        trial=trial if lengths is not None else lambda count, length: trial(count),
        reduce=_reduce_function(reduce),
    )
    options = new_options("sab_find_max_batch_options")
    options.search, options.maximum, options.budget = one_of("search", search, _SEARCHES), maximum, budget or 0
    if rounding == "power_of_two":
        options.rounding = lib.SAB_ROUND_POWER_OF_TWO
    elif isinstance(rounding, int):
        options.rounding, options.multiple = lib.SAB_ROUND_MULTIPLE, rounding
    elif rounding is not None:
        raise ValueError(f"rounding = {rounding!r}: must be 'power_of_two' or a number")
    if lengths is not None:
        if len(lengths) == 0:
            raise ValueError("lengths is empty: must have at least one")
        array = ffi.new("double[]", [float(length) for length in lengths])
        options.lengths, options.length_count = array, len(lengths)
    if reduce is not None:
        options.reduce, options.reduce_ctx = lib.sab_py_reduce, calls.handle
    options.progress, options.progress_ctx = lib.sab_py_progress, calls.handle
    sizes = ffi.new("uint64_t[]", 1 if lengths is None else len(lengths))
    result = ffi.new("sab_max_batch *")
    result.struct_size = ffi.sizeof("sab_max_batch")
    with _probe_of(device) as probe:
        probe._check(lib.sab_find_max_batch(probe._handle, lib.sab_py_trial, calls.handle, options, sizes, result), calls)
    return MaxBatch(int(result.batch_size), [int(size) for size in sizes], result.trials, result.out_of_memory, result.peak, result.budget)


def find_executable_batch_size(
    function: Optional[Callable[..., Any]] = None, starting_batch_size: int = 128, reduce_batch_size_fn: Optional[Callable[..., int]] = None
) -> Any:
    """Decorator: calls the function with a batch size as first argument, and again with a smaller one whenever it runs out of memory.

    As accelerate's. The batch size found is kept for the next call. The tensors of a failed try are let go before the next; each lowering is
    logged.

    Args:
        starting_batch_size: of the first call.
        reduce_batch_size_fn: the next batch size, from the one that failed (or from nothing, as accelerate's); nine tenths by default.

    Raises:
        DeviceMemoryError: a batch size of 1 does not fit.
    """
    if function is None:
        return functools.partial(find_executable_batch_size, starting_batch_size=starting_batch_size, reduce_batch_size_fn=reduce_batch_size_fn)
    if starting_batch_size < 1:
        raise ValueError(f"starting_batch_size = {starting_batch_size}: must be at least 1")
    reduce = reduce_batch_size_fn
    takes_size = reduce is not None and len(inspect.signature(reduce).parameters) > 0
    batch_size = starting_batch_size

    @functools.wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        nonlocal batch_size
        while batch_size >= 1:
            try:
                return function(batch_size, *arguments, **options)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                _forget(error)
            _release_caches()
            failed = batch_size
            batch_size = failed * 9 // 10 if reduce is None else reduce(failed) if takes_size else reduce()
            log.warning("batch size %d runs out of memory: trying %d", failed, batch_size)
        raise DeviceMemoryError("no executable batch size found: not enough memory even for a batch of one")

    return run


def _release_caches() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _step_options(
    calls: _Work, begin: Optional[Callable[[], Any]], weights: Optional[Sequence[float]], count: int, chunk_size: Optional[int]
) -> tuple[Any, Any]:
    """The options of a chunked step, and what they point to."""
    options = new_options("sab_chunked_step_options")
    options.chunk, options.ctx, options.chunk_size = lib.sab_py_chunk, calls.handle, chunk_size or 0
    if begin is not None:
        options.begin = lib.sab_py_begin
    array = None
    if weights is not None:
        array = np.ascontiguousarray(weights, np.float64)
        if array.shape != (count,):
            raise ValueError(f"weights has shape {array.shape}: must have one number for each of the {count} samples")
        options.sample_weights = ffi.cast("double *", array.ctypes.data)
    return options, array


def chunked_step(
    chunk: Callable[[int, int, float], Any],
    count: int,
    device: DeviceLike = "cuda",
    *,
    begin: Optional[Callable[[], Any]] = None,
    weights: Optional[Sequence[float]] = None,
    chunk_size: Optional[int] = None,
) -> int:
    """Runs forward and backward of a batch in parts that fit: halves them until none runs out of memory, each time from the same random state.

    Args:
        chunk: ``chunk(first, count, weight)`` runs the samples from ``first`` on, their mean loss times ``weight``; gradients add up.
        count: samples in the batch.
        device: see :class:`Probe`.
        begin: before each try, such as ``optimizer.zero_grad``.
        weights: what each sample counts in the loss, such as its tokens.
        chunk_size: largest part of the first try; the whole batch by default.

    Returns:
        The size of part that fitted. The optimizer's step is the caller's.
    """
    if count < 1:
        raise ValueError(f"count = {count}: must be at least 1")
    calls = _Work(chunk=chunk, begin=begin)
    options, kept = _step_options(calls, begin, weights, count, chunk_size)
    fitted = ffi.new("uint64_t *")
    with _probe_of(device) as probe:
        probe._check(lib.sab_chunked_step(probe._handle, count, options, fitted), calls)
    del kept
    if fitted[0] < min(chunk_size or count, count):
        log.warning("a step of %d samples ran out of memory and was run in parts of %d", count, fitted[0])
    return int(fitted[0])


def grow_batch(batch_increase_function: Callable[[int, int], int], epoch: int, current: int, maximum: int) -> int:
    """The batch size of an epoch: ``current`` plus what the function of (epoch, current) says, unless that is more than ``maximum``.

    >>> grow_batch(lambda epoch, size: 32 if epoch in (2, 4) else 0, 2, 64, 100)
    96
    """
    calls = _Work(increase=batch_increase_function)
    size = ffi.new("uint64_t *")
    check(lib.sab_grow_batch(lib.sab_py_increase, calls.handle, epoch, current, maximum, size), calls)
    return int(size[0])


def grow_linear(epoch: int, start: int, amount: int, period: int, maximum: int) -> int:
    """The batch size of an epoch that grows by ``amount`` every ``period`` epochs, up to ``maximum``."""
    size = ffi.new("uint64_t *")
    check(lib.sab_grow_linear(epoch, start, amount, period, maximum, size))
    return int(size[0])


def grow_doubling(epoch: int, start: int, milestones: Sequence[int], maximum: int) -> int:
    """The batch size of an epoch that doubles at each milestone, up to ``maximum``."""
    size = ffi.new("uint64_t *")
    check(lib.sab_grow_doubling(epoch, start, ffi.new("uint64_t[]", list(milestones)), len(milestones), maximum, size))
    return int(size[0])


class Verification(NamedTuple):
    """What the dry run of a plan saw."""

    batches: int
    peak: int
    total: int


def verify(
    plan: Plan, run: Callable[[Batch], Any], device: DeviceLike = "cuda", *, count: int = 16, progress: "bool | Progress | None" = None
) -> Verification:
    """Runs the ``count`` worst batches of a plan before training, costliest first.

    Raises:
        DeviceMemoryError: a batch ran out of memory. Whatever else ``run`` raises.
    """
    calls = _Work(progress, "verify", run=run)
    result = ffi.new("sab_verification *")
    result.struct_size = ffi.sizeof("sab_verification")
    with _probe_of(device) as probe:
        status = lib.sab_plan_verify(plan._handle, probe._handle, count, lib.sab_py_batch, calls.handle, lib.sab_py_progress, calls.handle, result)
        probe._check(status, calls)
    return Verification(result.batches, result.peak, result.total)


class MemoryGuardInfo(NamedTuple):
    """What a guard has seen and done: the fields of ``sab_memory_guard_info``."""

    steps: int
    out_of_memory: int
    lowered: int
    budget: float
    peak: int
    mean_peak: float
    creep: float


class MemoryGuard:
    """Keeps a run within its memory: watches the peaks of real steps, lowers the sampler's budget before a creeping run fails, and survives an
    out-of-memory error in a step by splitting its batch. Each lowering is logged.

    Args:
        sampler: of a plan whose cost is no callable. Batches that a loader has fetched already keep their size.
        device: see :class:`Probe`.
        limit: bytes that peaks are to stay under; the device's total by default.
        interval: judged every so many steps, the same on all ranks.
        window: by the last so many steps.
        reduce: where ranks train together: ``"torch"``, or a function from a list of int to the least over the ranks.
    """

    def __init__(
        self,
        sampler: _RandomAccessSampler,
        device: DeviceLike = "cuda",
        *,
        limit: Optional[int] = None,
        interval: int = 16,
        window: int = 64,
        reduce: "str | Reduce | None" = None,
    ) -> None:
        self._sampler = sampler
        self._owns_probe = not isinstance(device, Probe)
        self._probe: Probe = device if isinstance(device, Probe) else Probe(device)
        self._reduce = _Work(reduce=_reduce_function(reduce))
        options = new_options("sab_memory_guard_options")
        options.limit, options.interval, options.window = limit or 0, interval, window
        if reduce is not None:
            options.reduce, options.reduce_ctx = lib.sab_py_reduce, self._reduce.handle
        handle = ffi.new("sab_memory_guard **")
        self._probe._check(lib.sab_memory_guard_new(self._probe._handle, sampler._handle, options, handle))
        self._handle = ffi.gc(handle[0], lib.sab_memory_guard_free)

    def _shape(self, batch: Any) -> Any:
        shape = _new_batch()
        if isinstance(batch, Batch):
            shape.count, shape.padded_length = batch.count, batch.padded_length
        else:
            shape.count, shape.padded_length = batch
        return shape

    def _ended(self, status: int, calls: _Work, before: float) -> None:
        if calls.exception is None:
            calls.exception, self._reduce.exception = self._reduce.exception, None
        self._probe._check(status, calls)
        info = self.info
        if info.budget != before:
            log.warning(
                "memory is scarcer than planned: the budget of the batches to come is lowered from %.6g to %.6g after step %d (largest peak %d bytes)",
                before,
                info.budget,
                info.steps,
                info.peak,
            )

    def step(
        self,
        batch: "Batch | tuple[int, float]",
        chunk: Callable[[int, int, float], Any],
        *,
        begin: Optional[Callable[[], Any]] = None,
        weights: Optional[Sequence[float]] = None,
    ) -> None:
        """Runs a step: ``chunk(0, count, 1.0)``, or, when that runs out of memory, in halves; see :func:`chunked_step`.

        Args:
            batch: from ``sampler.batches()``, or (count, padded length).
        """
        shape = self._shape(batch)
        calls = _Work(chunk=chunk, begin=begin)
        options, kept = _step_options(calls, begin, weights, int(shape.count), None)
        with self._sampler._changing_budget():
            before = self.info
            self._ended(lib.sab_memory_guard_step(self._handle, shape, options), calls, before.budget)
        del kept
        if self.info.out_of_memory > before.out_of_memory:
            log.warning("step %d, %d samples of padded length %g, ran out of memory and was split", before.steps, shape.count, shape.padded_length)

    @contextlib.contextmanager
    def watch(self, batch: "Batch | tuple[int, float]") -> Iterator[None]:
        """For loops that run their own step: ``with guard.watch(batch): ...``. An out-of-memory error is noted and comes out."""
        shape = self._shape(batch)
        self._probe._check(lib.sab_memory_guard_begin(self._handle))
        try:
            yield
        except Exception as error:
            if is_out_of_memory(error):
                self._end(shape, True)
            raise
        self._end(shape, False)

    def _end(self, shape: Any, ran_out: bool) -> None:
        with self._sampler._changing_budget():
            self._ended(lib.sab_memory_guard_end(self._handle, shape, ran_out), _Work(), self.info.budget)

    @property
    def info(self) -> MemoryGuardInfo:
        """What the guard has seen and done."""
        info = ffi.new("sab_memory_guard_info *")
        info.struct_size = ffi.sizeof("sab_memory_guard_info")
        check(lib.sab_memory_guard_get_info(self._handle, info))
        return MemoryGuardInfo(*(getattr(info, field) for field in MemoryGuardInfo._fields))

    def close(self) -> None:
        """Frees the guard, and its probe where it made it; the sampler keeps its budget."""
        handle, self._handle = self._handle, ffi.NULL
        if handle != ffi.NULL:
            ffi.release(handle)
            if self._owns_probe:
                self._probe.close()

    def __enter__(self) -> "MemoryGuard":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
