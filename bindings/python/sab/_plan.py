"""Plans: which batches there are."""

from __future__ import annotations

import os
import warnings
from typing import Any, Callable, NamedTuple, Optional, Protocol, Sequence, Union

import numpy as np
import numpy.typing as npt

from sab._arguments import one_of, whole
from sab._batch import Batch, batches_of
from sab._native import Calls, Progress, SkippedWarning, check, ffi, lib, new_options, path_bytes
from sab._probe import DeviceLike, probe_of
from sab._sizes import SizesLike, as_sizes
from sab._work import Work


class CostModel(Protocol):
    """A cost that the library evaluates itself, such as a :class:`sab.MemoryModel`."""

    def _cost_terms(self) -> Any: ...


_COSTS = {"padded": lib.SAB_COST_PADDED, "quadratic": lib.SAB_COST_QUADRATIC}
_TAILS = {
    "keep": lib.SAB_TAIL_KEEP,
    "merge": lib.SAB_TAIL_MERGE,
    "drop": lib.SAB_TAIL_DROP,
    "wrap": lib.SAB_TAIL_WRAP,
}
_OVERSIZE = {
    "skip": lib.SAB_OVERSIZE_SKIP,
    "error": lib.SAB_OVERSIZE_ERROR,
    "single": lib.SAB_OVERSIZE_SINGLE,
}
LAST_STEPS = {
    "split": lib.SAB_LAST_STEP_SPLIT,
    "drop": lib.SAB_LAST_STEP_DROP,
    "wrap": lib.SAB_LAST_STEP_WRAP,
}

Cost = Union[str, Sequence[float], Callable[[int, float], float], CostModel]


class Bucket(NamedTuple):
    """One bucket of a plan: the fields of ``sab_bucket``."""

    lower: float
    upper: float
    shortest: float
    longest: float
    padded_length: float
    total: float
    cost: float
    samples: int
    batch_size: int
    batches: int


class Report(NamedTuple):
    """What an epoch is like, before any training: the fields of ``sab_report``, and the plan's buckets. Prints as a table."""

    samples: int
    skipped: int
    dropped: int
    repeated: int
    batches: int
    steps: int
    lower_bound: int
    shapes: int
    total: float
    padded_total: float
    padding: float
    rank_imbalance: float
    meet_again: float
    partners: float
    length_correlation: float
    variance_ratio: float
    nearest_target: float
    target_met: bool
    buckets: list[Bucket]

    def __str__(self) -> str:
        over = self.batches / self.lower_bound if self.lower_bound else 1.0
        target = (
            f"{'yes' if self.target_met else 'no'} ({100 * self.nearest_target:.2f} %)"
            if self.nearest_target
            else "no target"
        )
        rows = [
            ("samples", f"{self.samples:,}"),
            (
                "skipped, dropped, repeated",
                f"{self.skipped:,}, {self.dropped:,}, {self.repeated:,}",
            ),
            ("batches (over the lower bound)", f"{self.batches:,} ({over:.4f})"),
            ("steps of each rank", f"{self.steps:,}"),
            ("padding", f"{100 * self.padding:.2f} %"),
            ("target met (nearest within reach)", target),
            ("distinct shapes", f"{self.shapes:,}"),
            ("rank imbalance (1: none)", f"{self.rank_imbalance:.4f}"),
            ("batch mates that meet again next epoch", f"{100 * self.meet_again:.2f} %"),
            ("possible batch mates of a sample", f"{self.partners:,.0f}"),
            ("correlation of successive lengths", f"{self.length_correlation:.3f}"),
            ("variance between batches (1: random)", f"{self.variance_ratio:.2f}"),
        ]
        lines = [f"{name:<40}{value:>22}" for name, value in rows]
        lines.append(
            f"{'bucket':>8}{'shortest':>10}{'longest':>10}{'samples':>12}{'batch size':>12}{'batches':>10}"
        )
        shown = list(enumerate(self.buckets))
        for number, bucket in shown if len(shown) <= 12 else shown[:6]:
            lines.append(_bucket_line(number, bucket))
        if len(shown) > 12:
            lines.append(f"{'...':>8}")
            lines.extend(_bucket_line(number, bucket) for number, bucket in shown[-6:])
        return "\n".join(lines)


def _bucket_line(number: int, bucket: Bucket) -> str:
    return f"{number:>8}{bucket.shortest:>10g}{bucket.longest:>10g}{bucket.samples:>12,}{bucket.batch_size:>12,}{bucket.batches:>10,}"


class Verification(NamedTuple):
    """What the dry run of a plan saw."""

    batches: int
    peak: int
    total: int


class Plan:
    """Batches, decided: immutable, shareable between threads, picklable. Made by :func:`sab.plan` or :meth:`Plan.open`."""

    def __init__(self, handle: Any) -> None:
        self._handle = ffi.gc(handle, lib.sab_plan_free)
        info = ffi.new("sab_plan_info *")
        info.struct_size = ffi.sizeof("sab_plan_info")
        check(lib.sab_plan_get_info(self._handle, info))
        self._info = info

    @property
    def sample_count(self) -> int:
        """Samples in the sizes."""
        return int(self._info.samples)

    @property
    def batch_count(self) -> int:
        """Batches an epoch on one rank."""
        return int(self._info.batches)

    @property
    def lower_bound(self) -> int:
        """No plan of these samples under this budget has fewer batches."""
        return int(self._info.lower_bound)

    @property
    def fingerprint(self) -> int:
        """Equal only for equal plans: compare it between ranks and runs."""
        return int(self._info.fingerprint)

    @property
    def buckets(self) -> list[Bucket]:
        """The buckets, by ascending size."""
        bucket = ffi.new("sab_bucket *")
        bucket.struct_size = ffi.sizeof("sab_bucket")
        buckets = []
        for index in range(self._info.buckets):
            check(lib.sab_plan_get_bucket(self._handle, index, bucket))
            buckets.append(Bucket(*(getattr(bucket, field) for field in Bucket._fields)))
        return buckets

    @property
    def skipped(self) -> npt.NDArray[np.int64]:
        """Indices of the samples left out as outside the boundaries or over the budget, by ascending size."""
        count = ffi.new("size_t *")
        indices = np.empty(self._info.skipped, np.int64)
        check(
            lib.sab_plan_skipped(
                self._handle, ffi.cast("int64_t *", indices.ctypes.data), indices.size, count
            )
        )
        return indices

    def report(
        self,
        seed: int = 0,
        world_size: int = 1,
        epoch: int = 0,
        last_step: str = "split",
        worst_first: int = 0,
        progress: "bool | Progress | None" = None,
    ) -> Report:
        """Walks an epoch of :class:`sab.BucketSampler` with these arguments, and the next, and says what it is like.

        >>> import sab
        >>> round(sab.plan([3, 1, 2, 3], budget=6, boundaries=[1, 3, 4]).report().padding, 3)
        0.1
        """
        options = new_options("sab_sampler_options")
        options.seed, options.world_size, options.epoch, options.worst_first = (
            seed,
            world_size,
            epoch,
            worst_first,
        )
        options.last_step = one_of("last_step", last_step, LAST_STEPS)
        report = ffi.new("sab_report *")
        report.struct_size = ffi.sizeof("sab_report")
        calls = Calls(progress=progress, what="report")
        check(
            lib.sab_plan_report(self._handle, options, lib.sab_py_progress, calls.handle, report),
            calls,
        )
        fields = {field: getattr(report, field) for field in Report._fields if field != "buckets"}
        fields["target_met"] = bool(report.target_met)
        return Report(**fields, buckets=self.buckets)

    def worst_batches(self, count: int = 1) -> list[Batch]:
        """The costliest batches (:class:`sab.Batch`) that an epoch can have, costliest first: run them once before training."""
        handle = ffi.new("sab_sampler **")
        check(lib.sab_plan_worst_batches(self._handle, count, handle))
        return list(batches_of(ffi.gc(handle[0], lib.sab_sampler_free)))

    def verify(
        self,
        run: Callable[[Batch], Any],
        device: DeviceLike = "cuda",
        *,
        count: int = 16,
        progress: "bool | Progress | None" = None,
    ) -> Verification:
        """Runs the ``count`` worst batches before training, costliest first.

        Raises:
            DeviceMemoryError: a batch ran out of memory. Whatever else ``run`` raises.
        """
        calls = Work(progress, "verify", run=run)
        result = ffi.new("sab_verification *")
        result.struct_size = ffi.sizeof("sab_verification")
        with probe_of(device) as probe:
            status = lib.sab_plan_verify(
                self._handle,
                probe._handle,
                whole("count", count, 1),
                lib.sab_py_batch,
                calls.handle,
                lib.sab_py_progress,
                calls.handle,
                result,
            )
            probe._check(status, calls)
        return Verification(result.batches, result.peak, result.total)

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Writes the plan to a file that :meth:`open` maps; replaced in one step."""
        check(lib.sab_plan_save(self._handle, path_bytes(path)))

    @classmethod
    def open(cls, path: "str | os.PathLike[str]") -> "Plan":
        """Maps a file of :meth:`save`; all processes that open it share its memory.

        While the plan or a sampler on it lives, do not truncate the file (the process would stop with SIGBUS) and do not overwrite it (a
        sampler would raise FormatError, or give other samples). To replace it, rename a new file over it, as :meth:`save` does.
        """
        handle = ffi.new("sab_plan **")
        check(lib.sab_plan_open(path_bytes(path), handle))
        return cls(handle[0])

    def to_bytes(self) -> bytes:
        """The plan's file image."""
        size = ffi.new("size_t *")
        check(lib.sab_plan_write(self._handle, ffi.NULL, 0, size))
        image = bytearray(size[0])
        check(lib.sab_plan_write(self._handle, ffi.from_buffer(image), len(image), size))
        return bytes(image)

    @classmethod
    def from_bytes(cls, image: bytes) -> "Plan":
        """A plan from :meth:`to_bytes`."""
        handle = ffi.new("sab_plan **")
        check(lib.sab_plan_read(ffi.from_buffer(image), len(image), handle))
        return cls(handle[0])

    def __reduce__(self) -> Any:
        return Plan.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return f"<sab.Plan: {self.sample_count:,} samples in {self.batch_count:,} batches, {self._info.buckets:,} buckets>"


def set_cost(options: Any, cost: Any, calls: Calls, names: dict[str, int] = _COSTS) -> "list[Any]":
    """Sets the cost of any options that have one; gives what they then point to."""
    if callable(cost):
        options.cost, options.cost_fn, options.cost_ctx = (
            lib.SAB_COST_CALLBACK,
            lib.sab_py_cost,
            calls.handle,
        )
        return []
    if hasattr(cost, "_cost_terms"):
        terms = cost._cost_terms()
        options.cost, options.cost_terms, options.cost_term_count = (
            lib.SAB_COST_TERMS,
            terms,
            len(terms),
        )
        return [terms]
    if isinstance(cost, str):
        options.cost = one_of("cost", cost, names)
        return []
    coefficients = np.ascontiguousarray(cost, np.float64)
    if coefficients.ndim != 1:
        raise ValueError(f"cost has {coefficients.ndim} dimensions: coefficients must have one")
    options.cost = lib.SAB_COST_POLYNOMIAL
    options.coefficients, options.coefficient_count = (
        ffi.cast("double *", coefficients.ctypes.data),
        coefficients.size,
    )
    return [coefficients]


def plan_options(
    budget: Optional[float] = None,
    *,
    padding: float = 0.01,
    boundaries: Optional[npt.ArrayLike] = None,
    buckets: "int | str | None" = None,
    bucket_batches: Optional[int] = None,
    batch_size: "int | Sequence[int] | None" = None,
    cost: Cost = "padded",
    max_batch_size: Optional[int] = None,
    batch_size_multiple: int = 1,
    length_multiple: float = 0,
    tail: str = "keep",
    drop_last: bool = False,
    oversize: str = "skip",
    max_shapes: Optional[int] = None,
    progress: "bool | Progress | None" = None,
) -> "tuple[Any, Calls, list[Any]]":
    """The options of :func:`plan` as the library has them, the functions among them, and the arrays that they point to."""
    options = new_options("sab_plan_options")
    calls = Calls(cost=cost if callable(cost) else None, progress=progress, what="plan")
    keep: list[Any] = []

    def array(values: Any, dtype: Any, ctype: str) -> tuple[Any, int]:
        values = np.ascontiguousarray(values, dtype)
        if values.ndim != 1:
            raise ValueError(
                f"boundaries and batch_size must have one dimension, not {values.ndim}"
            )
        keep.append(values)
        return ffi.cast(ctype, values.ctypes.data), values.size

    if budget is not None:
        if not budget > 0:
            raise ValueError(f"budget = {budget}: must be above 0")
        options.budget = budget
    options.padding_target = padding
    if boundaries is not None and buckets is not None:
        raise ValueError("boundaries and buckets: only one may be given")
    if boundaries is not None:
        options.buckets = lib.SAB_BUCKETS_BOUNDARIES
        options.boundaries, options.boundary_count = array(boundaries, np.float64, "double *")
    elif buckets == "rank":
        options.buckets = lib.SAB_BUCKETS_RANK
    elif isinstance(buckets, str):
        raise ValueError(f"buckets = {buckets!r}: must be a number or 'rank'")
    elif buckets is not None:
        if buckets < 1:
            raise ValueError(f"buckets = {buckets}: must be at least 1")
        options.buckets = lib.SAB_BUCKETS_OPTIMAL
        options.bucket_count = buckets
    if bucket_batches is not None:
        options.bucket_batches = bucket_batches
    if batch_size is not None:
        numbers = np.atleast_1d(np.asarray(batch_size))
        if numbers.dtype.kind not in "iu" or (numbers < 1).any():
            raise ValueError(f"batch_size = {batch_size}: must be whole numbers of at least 1")
        options.batch_sizes, options.batch_size_count = array(numbers, np.uint64, "uint64_t *")
    keep.extend(set_cost(options, cost, calls))
    if max_batch_size is not None:
        if max_batch_size < 1:
            raise ValueError(f"max_batch_size = {max_batch_size}: must be at least 1")
        options.max_batch_size = max_batch_size
    options.batch_size_multiple = batch_size_multiple
    options.length_multiple = length_multiple
    if drop_last and tail not in ("keep", "drop"):
        raise ValueError(f"drop_last = True and tail = {tail!r}: only one may be given")
    options.tail = one_of("tail", "drop" if drop_last else tail, _TAILS)
    options.oversize = one_of("oversize", oversize, _OVERSIZE)
    if max_shapes is not None:
        if max_shapes < 1:
            raise ValueError(f"max_shapes = {max_shapes}: must be at least 1")
        options.max_shapes = max_shapes
    options.progress, options.progress_ctx = lib.sab_py_progress, calls.handle
    return options, calls, keep


def plan(
    sizes: SizesLike,
    budget: Optional[float] = None,
    *,
    padding: float = 0.01,
    boundaries: Optional[npt.ArrayLike] = None,
    buckets: "int | str | None" = None,
    bucket_batches: Optional[int] = None,
    batch_size: "int | Sequence[int] | None" = None,
    cost: Cost = "padded",
    max_batch_size: Optional[int] = None,
    batch_size_multiple: int = 1,
    length_multiple: float = 0,
    tail: str = "keep",
    drop_last: bool = False,
    oversize: str = "skip",
    max_shapes: Optional[int] = None,
    progress: "bool | Progress | None" = None,
) -> Plan:
    """Decides which batches there are.

    Args:
        sizes: anything that :class:`sab.Sizes` takes.
        budget: the largest cost of a batch, in the unit of the cost: padded tokens by default.
        padding: without boundaries or buckets: buckets as large as possible whose padding stays under this share, and whose batches stay under
            ``1 + padding`` times the lower bound. :meth:`Plan.report` says whether it was met, and what can be reached.
        boundaries: edges ``b0, b1, ...`` of left-closed, right-open buckets, in any order.
        buckets: a number: that many intervals of size that pad least; ``"rank"``: runs of ``bucket_batches`` whole batches.
        bucket_batches: batches in a bucket (``"rank"``), or the fewest that a bucket may have (by padding; 16, fewer where the padding is out of reach).
        batch_size: samples a batch, for all buckets, or, with boundaries, one for each; with a budget the smaller wins.
        cost: ``"padded"`` (count * length), ``"quadratic"`` (count * length**2), coefficients ``c`` of
            ``c[0] + count * (c[1] + c[2] * length + ...)``, a :class:`sab.MemoryModel` (the budget is bytes then), or a function ``cost(count, length)`` that never decreases.
        max_batch_size: no batch has more samples.
        batch_size_multiple: batch sizes from the budget are rounded down to a multiple, where one fits.
        length_multiple: lengths are padded to a multiple of this, such as 8 for tensor cores.
        tail: what becomes of the samples of a bucket that fill no batch: ``"keep"``, ``"merge"`` into the next bucket, ``"drop"``, ``"wrap"``.
        drop_last: the same as ``tail="drop"``.
        oversize: samples outside the boundaries or over the budget alone: ``"skip"`` (with a SkippedWarning), ``"error"``, ``"single"`` batches.
        max_shapes: at most this many distinct (count, padded length), with the least padding, for compilers and CUDA graphs. The tail that ``"keep"`` and
            ``"merge"`` leave needs one, ``"single"`` batches at least one.
        progress: True for a bar, or ``progress(done, total)``, which stops the build by returning False or raising.

    Raises:
        ValueError: naming the argument, its value and the rule; and whatever a function given here raises.

    >>> import sab
    >>> sab.plan([1, 2, 3, 4, 5, 6], budget=12, boundaries=[1, 4, 7]).batch_count
    3
    """
    options, calls, keep = plan_options(
        budget,
        padding=padding,
        boundaries=boundaries,
        buckets=buckets,
        bucket_batches=bucket_batches,
        batch_size=batch_size,
        cost=cost,
        max_batch_size=max_batch_size,
        batch_size_multiple=batch_size_multiple,
        length_multiple=length_multiple,
        tail=tail,
        drop_last=drop_last,
        oversize=oversize,
        max_shapes=max_shapes,
        progress=progress,
    )
    source = as_sizes(sizes)  # keeps the borrowed memory alive during the call
    handle = ffi.new("sab_plan **")
    check(lib.sab_plan_new(source._handle, options, handle), calls)
    del keep
    made = Plan(handle[0])
    if made._info.skipped:
        warnings.warn(
            f"{made._info.skipped} of {made.sample_count} samples are outside the boundaries or over the budget and are skipped",
            SkippedWarning,
            stacklevel=2,
        )
    return made


def verify(
    plan: Plan,
    run: Callable[[Batch], Any],
    device: DeviceLike = "cuda",
    *,
    count: int = 16,
    progress: "bool | Progress | None" = None,
) -> Verification:
    """Runs the ``count`` worst batches of a plan before training: see :meth:`Plan.verify`."""
    return plan.verify(run, device, count=count, progress=progress)


def create_buckets(
    sizes: SizesLike, max_width: int, min_bucket_count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cuts whole-number sizes into the narrowest intervals of ``min_bucket_count`` samples, none wider than ``max_width``.

    Returns:
        (boundaries, samples in each interval): int64 arrays; interval i is ``[boundaries[i], boundaries[i + 1])``.

    >>> boundaries, counts = create_buckets([1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 22, 22, 22, 22], max_width=5, min_bucket_count=10)
    >>> boundaries.tolist(), counts.tolist()
    ([1, 6, 11, 16, 21, 23], [12, 0, 0, 0, 4])
    """
    source = as_sizes(sizes)
    count = ffi.new("size_t *")
    check(
        lib.sab_create_buckets(
            source._handle, max_width, min_bucket_count, ffi.NULL, ffi.NULL, 0, count
        )
    )
    boundaries, counts = np.empty(count[0] + 1, np.int64), np.empty(count[0], np.int64)
    pointers = [ffi.cast("int64_t *", array.ctypes.data) for array in (boundaries, counts)]
    check(
        lib.sab_create_buckets(
            source._handle, max_width, min_bucket_count, *pointers, count[0], count
        )
    )
    return boundaries, counts
