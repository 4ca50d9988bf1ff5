"""Plans: which batches there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Literal, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from sab._arguments import elements, flag, one_dimension, one_of, real, whole
from sab._batch import Batch, batches_of
from sab._cost import BudgetLike, CostLike, set_budgets
from sab._native import (
    Calls,
    CData,
    Progress,
    check,
    ffi,
    lib,
    new_options,
    new_struct,
    record_of,
    warn_of_skipped,
)
from sab._probe import DeviceLike, probe_of
from sab._saved import Saved
from sab._sizes import SizesLike, as_sizes
from sab._work import Work

__all__ = ["Bucket", "Plan", "Report", "Verification", "create_buckets", "plan", "verify"]

_TAILS = {
    "keep": lib.SAB_TAIL_KEEP,
    "merge": lib.SAB_TAIL_MERGE,
    "drop": lib.SAB_TAIL_DROP,
    "wrap": lib.SAB_TAIL_WRAP,
}
OVERSIZE = {
    "skip": lib.SAB_OVERSIZE_SKIP,
    "error": lib.SAB_OVERSIZE_ERROR,
    "single": lib.SAB_OVERSIZE_SINGLE,
}
SKIP_OR_ERROR = {"skip": lib.SAB_OVERSIZE_SKIP, "error": lib.SAB_OVERSIZE_ERROR}
LAST_STEPS = {
    "split": lib.SAB_LAST_STEP_SPLIT,
    "drop": lib.SAB_LAST_STEP_DROP,
    "wrap": lib.SAB_LAST_STEP_WRAP,
}

Tail = Literal["keep", "merge", "drop", "wrap"]
Oversize = Literal["skip", "error", "single"]
LastStep = Literal["split", "drop", "wrap"]


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
    """Statistics of an epoch, known before training: the fields of ``sab_plan_report``, and the
    plan's buckets. Prints as a table.
    """

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
            f"{'met' if self.target_met else 'missed'}: {100 * self.nearest_target:.2f} %"
            f"{'' if self.target_met else ' at best'}"
            if self.nearest_target
            else "none"
        )
        rows = [
            ("samples", f"{self.samples:,}"),
            (
                "skipped, dropped, repeated",
                f"{self.skipped:,}, {self.dropped:,}, {self.repeated:,}",
            ),
            ("batches (× minimum)", f"{self.batches:,} ({over:.4f})"),
            ("steps of each rank", f"{self.steps:,}"),
            ("padding", f"{100 * self.padding:.2f} %"),
            ("target (padding, extra batches)", target),
            ("distinct shapes", f"{self.shapes:,}"),
            ("rank imbalance (1: none)", f"{self.rank_imbalance:.4f}"),
            ("repeat pairs: together again next epoch", f"{100 * self.meet_again:.2f} %"),
            ("possible batch mates of a sample", f"{self.partners:,.0f}"),
            ("correlation of successive lengths", f"{self.length_correlation:.3f}"),
            ("variance between batches (1: random)", f"{self.variance_ratio:.2f}"),
        ]
        lines = [f"{name}{value:>{60 - len(name)}}" for name, value in rows]
        lines.append(
            f"{'bucket':>6}{'shortest':>10}{'longest':>10}"
            f"{'samples':>12}{'batch size':>12}{'batches':>10}"
        )
        shown = list(enumerate(self.buckets))
        for number, bucket in shown if len(shown) <= 12 else shown[:6]:
            lines.append(_bucket_line(number, bucket))
        if len(shown) > 12:
            lines.append(f"{'...':>6}")
            lines.extend(_bucket_line(number, bucket) for number, bucket in shown[-6:])
        return "\n".join(lines)


def _bucket_line(number: int, bucket: Bucket) -> str:
    return (
        f"{number:>6}{bucket.shortest:>10g}{bucket.longest:>10g}"
        f"{bucket.samples:>12,}{bucket.batch_size:>12,}{bucket.batches:>10,}"
    )


class Verification(NamedTuple):
    """What the dry run of a plan saw."""

    batches: int
    peak: int
    total: int


class Plan(Saved, kind="sab_plan"):
    """Which samples share a bucket, and how many make a batch. Immutable; threads may share it;
    picklable. Made by :func:`sab.plan` or :meth:`Plan.open`.

    :meth:`Plan.open` maps the file, and all processes that open it share its memory. Do not
    truncate the file while the plan or a sampler on it exists: the process would stop with SIGBUS.
    Do not overwrite it either: a sampler would raise FormatError or give other samples. To replace
    the file, rename a new one over it, as :meth:`Plan.save` does.
    """

    def __init__(self, handle: CData) -> None:
        self._handle = ffi.gc(handle, lib.sab_plan_free)
        info = new_struct("sab_plan_info")
        check(lib.sab_plan_get_info(self._handle, info))
        self._info = info

    @property
    def sample_count(self) -> int:
        """Samples in the sizes."""
        return int(self._info.samples)

    @property
    def skipped_count(self) -> int:
        """Samples left out as outside the boundaries or over the budget."""
        return int(self._info.skipped)

    @property
    def batch_count(self) -> int:
        """Batches an epoch on one rank."""
        return int(self._info.batches)

    @property
    def lower_bound(self) -> int:
        """No plan of these samples under these budgets has fewer batches."""
        return int(self._info.lower_bound)

    @property
    def budgets(self) -> list[float]:
        """The limits of the budgets that the plan was made with."""
        limit, limits = ffi.new("double *"), list[float]()
        for index in range(self._info.budget_count):
            check(lib.sab_plan_get_budget(self._handle, index, limit))
            limits.append(float(limit[0]))
        return limits

    @property
    def budget(self) -> float | None:
        """The limit of the first budget; None for a plan without a budget."""
        return next(iter(self.budgets), None)

    @property
    def fingerprint(self) -> int:
        """Is equal only for equal plans. Compare it between ranks and runs."""
        return int(self._info.fingerprint)

    @property
    def buckets(self) -> list[Bucket]:
        """The buckets, by ascending size."""
        bucket = new_struct("sab_bucket")
        buckets: list[Bucket] = []
        for index in range(self._info.buckets):
            check(lib.sab_plan_get_bucket(self._handle, index, bucket))
            buckets.append(record_of(Bucket, bucket))
        return buckets

    @property
    def skipped(self) -> npt.NDArray[np.int64]:
        """Indices of the samples left out as outside the boundaries or over the budget, by
        ascending size.
        """
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
        *,
        seed: int = 0,
        world_size: int = 1,
        epoch: int = 0,
        last_step: LastStep = "split",
        costliest_first: int = 0,
        progress: bool | Progress | None = None,
    ) -> Report:
        """Statistics of an epoch of :class:`sab.BucketSampler` with these arguments. Walks this
        epoch and the next one.

        >>> import sab
        >>> round(sab.plan([3, 1, 2, 3], budget=6, boundaries=[1, 3, 4]).report().padding, 3)
        0.1
        """
        options = new_options("sab_sampler_options")
        options.seed = whole("seed", seed)
        options.world_size = whole("world_size", world_size, 1)
        options.epoch = whole("epoch", epoch)
        options.costliest_first = whole("costliest_first", costliest_first)
        options.last_step = one_of("last_step", last_step, LAST_STEPS)
        report = new_struct("sab_plan_report")
        calls = Calls(progress=progress, what="report")
        check(
            lib.sab_plan_get_report(
                self._handle, options, lib.sab_py_progress, calls.handle, report
            ),
            calls,
        )
        fields = {field: getattr(report, field) for field in Report._fields if field != "buckets"}
        fields["target_met"] = bool(report.target_met)
        return Report(**fields, buckets=self.buckets)

    def costliest_batches(self, count: int = 1) -> list[Batch]:
        """The costliest batches (:class:`sab.Batch`) that an epoch can have, costliest first. Run
        them once before training.
        """
        handle = ffi.new("sab_sampler **")
        check(lib.sab_costliest_sampler_new(self._handle, whole("count", count), handle))
        return list(batches_of(ffi.gc(handle[0], lib.sab_sampler_free)))

    def verify(
        self,
        run: Callable[[Batch], Any],
        device: DeviceLike = "cuda",
        *,
        count: int = 16,
        progress: bool | Progress | None = None,
    ) -> Verification:
        """Runs the ``count`` costliest batches before training, costliest first.

        Raises:
            DeviceMemoryError: a batch ran out of memory. Other exceptions of ``run`` pass through.
        """
        calls = Work(progress, "verify", run=run)
        result = new_struct("sab_verification")
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

    def __repr__(self) -> str:
        return (
            f"<sab.Plan: {self.sample_count:,} samples in {self.batch_count:,} batches, "
            f"{self._info.buckets:,} buckets>"
        )


class PlanOptions(TypedDict, total=False):
    """The options of :func:`plan` that :class:`sab.ShardedSampler` takes, too."""

    padding: float
    boundaries: npt.ArrayLike | None
    buckets: int | Literal["equal"] | None
    bucket_batches: int | None
    batch_size: int | Sequence[int] | None
    cost: CostLike | None
    max_batch_size: int | None
    batch_size_multiple: int
    length_multiple: float
    tail: Tail
    drop_last: bool
    oversize: Oversize
    max_shapes: int | None
    progress: bool | Progress | None


def plan_options(budget: BudgetLike | None, given: PlanOptions) -> tuple[CData, Calls]:
    """The options of a plan in C, and the functions among them."""
    unknown = given.keys() - PlanOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"{min(unknown)}: is no option of a plan")
    options = new_options("sab_plan_options")
    calls = Calls(progress=given.get("progress"), what="plan")
    set_budgets(options, budget, given.get("cost"), calls)
    options.padding_target = real("padding", given.get("padding", options.padding_target))
    _set_buckets(options, given, calls)
    most = given.get("max_batch_size")
    options.max_batch_size = 0 if most is None else whole("max_batch_size", most, 1)
    multiple = given.get("batch_size_multiple", 1)
    options.batch_size_multiple = whole("batch_size_multiple", multiple, 1)
    options.length_multiple = real("length_multiple", given.get("length_multiple", 0))
    tail = given.get("tail", "keep")
    if flag("drop_last", given.get("drop_last", False)):
        if tail not in ("keep", "drop"):
            raise ValueError(f"drop_last = True and tail = {tail!r}: only one may be given")
        tail = "drop"
    options.tail = one_of("tail", tail, _TAILS)
    if "oversize" in given:
        options.oversize = one_of("oversize", given["oversize"], OVERSIZE)
    shapes = given.get("max_shapes")
    options.max_shapes = 0 if shapes is None else whole("max_shapes", shapes, 1)
    options.progress, options.progress_ctx = lib.sab_py_progress, calls.handle
    return options, calls


def _set_buckets(options: CData, given: PlanOptions, calls: Calls) -> None:
    """Sets which buckets there are and how many samples their batches have."""
    boundaries, buckets = given.get("boundaries"), given.get("buckets")
    if boundaries is not None and buckets is not None:
        raise ValueError("boundaries and buckets: only one may be given")
    if boundaries is not None:
        edges = one_dimension("boundaries", boundaries, np.float64)
        calls.kept.append(edges)
        options.bucket_rule = lib.SAB_BUCKETS_BOUNDARIES
        options.boundaries = ffi.cast("double *", edges.ctypes.data)
        options.boundary_count = edges.size
    elif buckets == "equal":
        options.bucket_rule = lib.SAB_BUCKETS_EQUAL
    elif isinstance(buckets, str):
        raise ValueError(f"buckets = {buckets!r}: must be a number or 'equal'")
    elif buckets is not None:
        options.bucket_rule = lib.SAB_BUCKETS_OPTIMAL
        options.bucket_count = whole("buckets", buckets, 1)
    batches, batch_size = given.get("bucket_batches"), given.get("batch_size")
    options.bucket_batches = 0 if batches is None else whole("bucket_batches", batches, 1)
    if batch_size is not None:
        is_one = np.ndim(batch_size) == 0  # type: ignore[arg-type,unused-ignore]
        each = [batch_size] if is_one else elements("batch_size", batch_size)
        counts = np.array([whole("batch_size", count, 1) for count in each], np.uint64)
        calls.kept.append(counts)
        options.batch_sizes = ffi.cast("uint64_t *", counts.ctypes.data)
        options.batch_size_count = counts.size


def plan(
    sizes: SizesLike,
    budget: BudgetLike | None = None,
    *,
    padding: float = 0.01,
    boundaries: npt.ArrayLike | None = None,
    buckets: int | Literal["equal"] | None = None,
    bucket_batches: int | None = None,
    batch_size: int | Sequence[int] | None = None,
    cost: CostLike | None = None,
    max_batch_size: int | None = None,
    batch_size_multiple: int = 1,
    length_multiple: float = 0,
    tail: Tail = "keep",
    drop_last: bool = False,
    oversize: Oversize = "error",
    max_shapes: int | None = None,
    progress: bool | Progress | None = None,
) -> Plan:
    """Makes a plan: which batches there are.

    Args:
        sizes: anything that :class:`sab.Sizes` takes.
        budget: the largest cost of a batch, in the unit of ``cost``: padded tokens by default. A
            :class:`sab.Budget` has a cost of its own. A batch keeps all budgets of a list; the
            batches of a step have nearly the same cost by the first one.
        padding: without boundaries or buckets: buckets as large as possible whose padding stays
            under this share, and whose batches stay under ``1 + padding`` times the lower bound.
            :meth:`Plan.report` says whether it was met, and what can be reached.
        boundaries: numbers ``b0, b1, ...``: the buckets are ``[b0, b1)``, ``[b1, b2)``, ... In any
            order.
        buckets: a number: that many intervals of size that pad least; ``"equal"``: runs of
            ``bucket_batches`` whole batches.
        bucket_batches: batches in a bucket (``"equal"``), or the fewest that a bucket may have (by
            padding; 16, fewer where the padding is out of reach).
        batch_size: samples a batch, for all buckets, or, with boundaries, one for each; with a
            budget the smaller size is used.
        cost: the cost of a batch if ``budget`` is a single number. ``"padded"``: count * length,
            the default. ``"quadratic"``: count * length**2. Coefficients ``c``: ``c[0] + count *
            (c[1] + c[2] * length + ...)``. A :class:`sab.MemoryModel`: the budget is in bytes. Or a
            function ``cost(count, length)`` that never decreases, or a :class:`sab.Cost`.
        max_batch_size: no batch has more samples.
        batch_size_multiple: batch sizes from the budget are rounded down to a multiple, where one
            fits.
        length_multiple: lengths are padded to a multiple of this, such as 8 for tensor cores.
        tail: how samples of a bucket that fill no batch are treated: ``"keep"``, ``"merge"``
            into the next bucket, ``"drop"``, ``"wrap"``.
        drop_last: the same as ``tail="drop"``.
        oversize: samples outside the boundaries or over the budget alone: ``"error"`` refuses
            them, ``"skip"`` leaves them out with a SkippedWarning, ``"single"`` makes a batch of
            each.
        max_shapes: largest number of distinct (count, padded length), for compilers and CUDA
            graphs; padding is as small as possible with them. The tail of ``"keep"`` and
            ``"merge"`` needs one shape, and ``"single"`` batches need at least one.
        progress: True for a bar, or ``progress(done, total)``, which stops the build by returning
            False or raising.

    Raises:
        ValueError: an argument breaks a rule. Exceptions of the given functions pass through.

    >>> import sab
    >>> sab.plan([1, 2, 3, 4, 5, 6], budget=12, boundaries=[1, 4, 7]).batch_count
    3
    """
    given: PlanOptions = {
        "padding": padding,
        "boundaries": boundaries,
        "buckets": buckets,
        "bucket_batches": bucket_batches,
        "batch_size": batch_size,
        "cost": cost,
        "max_batch_size": max_batch_size,
        "batch_size_multiple": batch_size_multiple,
        "length_multiple": length_multiple,
        "tail": tail,
        "drop_last": drop_last,
        "oversize": oversize,
        "max_shapes": max_shapes,
        "progress": progress,
    }
    options, calls = plan_options(budget, given)
    source = as_sizes(sizes)  # keeps the borrowed memory alive during the call
    handle = ffi.new("sab_plan **")
    check(lib.sab_plan_new(source._handle, options, handle), calls)
    made = Plan(handle[0])
    warn_of_skipped(
        made.skipped_count, made.sample_count, "outside the boundaries or over the budget"
    )
    return made


def verify(
    plan: Plan,
    run: Callable[[Batch], Any],
    device: DeviceLike = "cuda",
    *,
    count: int = 16,
    progress: bool | Progress | None = None,
) -> Verification:
    """Runs the ``count`` costliest batches of a plan before training: see :meth:`Plan.verify`."""
    return plan.verify(run, device, count=count, progress=progress)


def create_buckets(
    sizes: SizesLike, *, max_width: int, min_bucket_count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cuts whole-number sizes into the narrowest intervals of ``min_bucket_count`` samples, none
    wider than ``max_width``.

    Returns:
        (boundaries, samples in each interval): int64 arrays; interval i is ``[boundaries[i],
        boundaries[i + 1])``.

    >>> sizes = [1] * 3 + [2] * 4 + [3] * 5 + [22] * 4
    >>> boundaries, counts = create_buckets(sizes, max_width=5, min_bucket_count=10)
    >>> boundaries.tolist(), counts.tolist()
    ([1, 6, 11, 16, 21, 23], [12, 0, 0, 0, 4])
    """
    source = as_sizes(sizes)
    width, least = whole("max_width", max_width, 1), whole("min_bucket_count", min_bucket_count, 1)
    count = ffi.new("size_t *")
    check(
        lib.sab_bionemo_create_buckets(source._handle, width, least, ffi.NULL, ffi.NULL, 0, count)
    )
    boundaries, counts = np.empty(count[0] + 1, np.int64), np.empty(count[0], np.int64)
    check(
        lib.sab_bionemo_create_buckets(
            source._handle,
            width,
            least,
            ffi.cast("int64_t *", boundaries.ctypes.data),
            ffi.cast("int64_t *", counts.ctypes.data),
            count[0],
            count,
        )
    )
    return boundaries, counts
