"""A run kept within its memory."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Callable, Literal, NamedTuple, cast

from sab._arguments import brief, whole
from sab._batch import Batch, PerColumn, new_batch
from sab._devices import is_out_of_memory
from sab._display import plain
from sab._max_batch import step_options
from sab._native import (
    CData,
    check,
    ffi,
    lib,
    new_struct,
    record_of,
    unpicklable,
)
from sab._probe import DeviceLike, Probe
from sab._random_access import RandomAccessSampler
from sab._work import Reduce, Work, reduce_function

__all__ = ["MemoryGuard", "MemoryGuardInfo"]

log: logging.Logger = logging.getLogger("sab")


class MemoryGuardInfo(NamedTuple):
    """Statistics of a guard: the fields of ``sab_memory_guard_info``."""

    steps: int
    out_of_memory: int
    lowered: int
    limit: float
    peak: int
    mean_peak: float
    creep: float

    def to_dict(self) -> dict[str, Any]:
        """The statistics as a dictionary of numbers, which ``json.dumps`` takes."""
        return cast("dict[str, Any]", plain(self))


class MemoryGuard:
    """Keeps a run within its memory: measures the peaks of real steps, lowers the sampler's budget
    before memory runs out, and retries an out-of-memory step in halves. Each lowering is logged.

    Args:
        sampler: of a plan whose first budget has a cost that is no function; that budget is
            lowered. Batches that a loader has already fetched keep their size.
        device: see :class:`Probe`.
        budget: bytes that peaks are to stay under; the device's total by default.
        interval: steps between two checks; the same on all ranks.
        window: number of last steps that a check uses.
        reduce: if ranks train together: ``"torch"``, or a function from a list of int to the
            minimum of each over the ranks.
    """

    def __reduce__(self) -> tuple[object, ...]:
        raise unpicklable(
            self, "make it in the process that trains; the sampler's state_dict() has its budget"
        )

    def __init__(
        self,
        sampler: RandomAccessSampler,
        device: DeviceLike = "cuda",
        *,
        budget: int | None = None,
        interval: int = 16,
        window: int = 64,
        reduce: Literal["torch"] | Reduce | None = None,
    ) -> None:
        if not isinstance(sampler, RandomAccessSampler):
            raise TypeError(
                f"sampler is a {type(sampler).__name__}: must be a BucketSampler or "
                "SequentialSampler"
            )
        self._sampler = sampler
        self._owns_probe = not isinstance(device, Probe)
        self._probe: Probe = device if isinstance(device, Probe) else Probe(device)
        self._reduce = Work(reduce=reduce_function(reduce))
        options = new_struct("sab_memory_guard_options")
        options.limit = 0 if budget is None else whole("budget", budget, 1)
        options.interval, options.window = (
            whole("interval", interval, 1),
            whole("window", window, 1),
        )
        if reduce is not None:
            options.reduce, options.reduce_ctx = lib.sab_py_reduce, self._reduce.handle
        self._padded_length = ffi.new("double[]", len(sampler._columns))  # of the batch of the step
        handle = ffi.new("sab_memory_guard **")
        self._probe._check(
            lib.sab_memory_guard_new(self._probe._handle, sampler._handle, options, handle)
        )
        self._handle = ffi.gc(handle[0], lib.sab_memory_guard_free)
        self._kept = sampler._handle  # the guard uses it even after the sampler is closed

    def _shape(self, batch: Batch | tuple[int, PerColumn]) -> CData:
        count, padded_length = (
            (batch.count, batch.padded_length) if isinstance(batch, Batch) else batch
        )
        given = cast("Mapping[str, float]", padded_length)
        shape, columns = new_batch(), self._sampler._columns
        if len(columns) == 1:
            self._padded_length[0] = padded_length
        elif isinstance(padded_length, Mapping) and set(given) == set(columns):
            for index, column in enumerate(columns):
                self._padded_length[index] = given[column]
        else:
            raise ValueError(
                f"padded_length = {brief(padded_length)}: must be a dictionary with the columns "
                f"{', '.join(map(repr, columns))}"
            )
        shape.count, shape.padded_length = count, self._padded_length
        shape.columns = len(columns)
        return shape

    def _ended(self, status: int, calls: Work, before: float) -> None:
        if self._reduce.exception is not None:
            calls.keep(self._reduce.exception)
            self._reduce.exception = None
        try:
            self._probe._check(status, calls)
        finally:  # a step that failed is judged too
            self._tell(before)

    def _tell(self, before: float) -> None:
        if self._handle == ffi.NULL:
            return
        info = self.info
        if info.limit != before:
            log.warning(
                "memory is scarcer than planned: the budget of the batches to come is lowered "
                "from %.6g to %.6g after step %d (largest peak %d bytes)",
                before,
                info.limit,
                info.steps,
                info.peak,
            )

    def step(
        self,
        batch: Batch | tuple[int, PerColumn],
        chunk: Callable[[int, int, float], Any],
        *,
        begin: Callable[[], Any] | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        """Runs a step: ``chunk(0, count, 1.0)``, or, when that runs out of memory, in halves; see
        :func:`step_in_chunks`.

        Args:
            batch: from ``sampler.batches()``, or (count, padded length), which is a dictionary for
                samples with several sizes.
        """
        shape = self._shape(batch)
        calls = Work(chunk=chunk, begin=begin)
        options, kept = step_options(calls, begin, weights, int(shape.count), None)
        with self._sampler._changing_budget():
            before = self.info
            self._ended(
                lib.sab_memory_guard_step(self._handle, shape, options), calls, before.limit
            )
        del kept
        if self.info.out_of_memory > before.out_of_memory:
            log.warning(
                "step %d, %d samples of padded length %s, ran out of memory and was split",
                before.steps,
                shape.count,
                ", ".join(f"{length:g}" for length in self._padded_length),
            )

    @contextlib.contextmanager
    def measure(self, batch: Batch | tuple[int, PerColumn]) -> Generator[None, None, None]:
        """For loops that run their own step: ``with guard.measure(batch): ...``. An out-of-memory
        error is recorded and raised again. Any other error is raised, too, and the step is only
        counted, since other ranks may count it.
        """
        shape = self._begin(batch)
        try:
            yield
        except BaseException as error:
            ran_out = is_out_of_memory(error)
            if not ran_out:
                shape.count = 0
            with contextlib.suppress(Exception):  # what the step failed with is told
                self._end(shape, ran_out)
            raise
        self._end(shape, False)

    def _begin(self, batch: Batch | tuple[int, PerColumn]) -> CData:
        shape = self._shape(batch)
        self._probe._check(lib.sab_memory_guard_begin(self._handle))
        return shape

    def _end(self, shape: CData, ran_out: bool) -> None:
        with self._sampler._changing_budget():
            before = self.info.limit
            self._ended(lib.sab_memory_guard_end(self._handle, shape, ran_out), Work(), before)

    @property
    def info(self) -> MemoryGuardInfo:
        """What the guard has seen and done."""
        info = new_struct("sab_memory_guard_info")
        check(lib.sab_memory_guard_get_info(self._handle, info))
        return record_of(MemoryGuardInfo, info)

    def __repr__(self) -> str:
        return (
            "<sab.MemoryGuard, closed>"
            if self._handle == ffi.NULL
            else f"<sab.MemoryGuard: {self.info}>"
        )

    def close(self) -> None:
        """Frees the guard, and its probe where it made it; the sampler keeps its budget."""
        self._handle = ffi.NULL  # freed when no call uses it any more
        if self._owns_probe:
            self._probe.close()

    def __enter__(self) -> MemoryGuard:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
