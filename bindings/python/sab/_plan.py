"""Plans: which batches there are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Literal, NamedTuple, TypedDict, Union, cast

import numpy as np
import numpy.typing as npt

from sab._arguments import (
    elements,
    flag,
    function,
    indices_of,
    integer,
    is_array,
    kind_of,
    one_dimension,
    one_of,
    real,
    real_array,
    shown,
    whole,
)
from sab._batch import Batch, PerColumn, batches_of, per_column
from sab._cost import ONE_COLUMN, BudgetLike, CostLike, column_of, set_budgets
from sab._display import Facts, as_html, one_line, plain, record_line
from sab._engine import Histogram, Places, column_names, located, sources_pointer
from sab._mixture import SOURCE, Mixture, Name, SourceReport, reports_of, source_table
from sab._native import (
    Calls,
    CData,
    Progress,
    check,
    ffi,
    lib,
    new_options,
    new_struct,
    warn_of_skipped,
)
from sab._pictures import axes_of, draw_buckets, draw_padding
from sab._probe import DeviceLike, probe_of
from sab._saved import Saved
from sab._sizes import Sizes, SizesLike, as_sizes
from sab._work import Work

__all__ = ["Bucket", "Plan", "Report", "Verification", "create_buckets", "plan", "verify"]

_TAILS = {
    "keep": lib.SAB_TAIL_KEEP,
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

Tail = Literal["keep", "drop", "wrap"]
Oversize = Literal["skip", "error", "single"]
LastStep = Literal["split", "drop", "wrap"]


# Edges, in one dimension; of several columns a row for each corner, or the edges of each column.
BoundariesLike = Union[npt.ArrayLike, Mapping[str, npt.ArrayLike]]
_MOST_BOXES = 1 << 16  # that edges of several columns may make
WHY_SKIPPED = "outside the boundaries or over the budget"
_LENGTHS = ("lower", "upper", "shortest", "longest", "padded_length", "total")


class Bucket(NamedTuple):
    """One bucket of a plan: the fields of ``sab_bucket``. Of sizes with several columns the first
    six are dictionaries by the name of the column. ``id`` is that of ``separate_by``, else 0.
    """

    lower: PerColumn
    upper: PerColumn
    shortest: PerColumn
    longest: PerColumn
    padded_length: PerColumn
    total: PerColumn
    cost: float
    samples: int
    batch_size: int
    batches: int
    id: int


class Report(NamedTuple):
    """Statistics of an epoch, known before training: the fields of ``sab_plan_report``, the plan's
    buckets and, of a mixture, its sources (:class:`sab.SourceReport`). Prints as a table.
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
    totals: dict[str, float]
    padded_totals: dict[str, float]
    buckets: list[Bucket]
    sources: dict[Name, SourceReport]

    def __str__(self) -> str:
        header, rows = bucket_table(self.buckets)
        if len(self.totals) == 1:
            widths = [6, 10, 10, 12, 12, 10]
        else:
            widths = [2 + max(map(len, column)) for column in zip(header, *rows)]
            widths[0] = 6
        lines = (
            "".join(f"{cell:>{width}}" for cell, width in zip(row, widths)).rstrip()
            for row in (header, *rows)
        )
        return "\n".join([report_facts(self), *lines, *source_lines(self.sources)])

    def __repr__(self) -> str:
        return record_line(self)

    def _repr_html_(self) -> str:
        title = f"{100 * self.padding:.2f} % padding in {self.batches:,} batches"
        return as_html(
            title, _facts_of(self), bucket_table(self.buckets), source_table(self.sources)
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as numbers, texts, lists and dictionaries, which ``json.dumps`` takes.

        >>> import sab
        >>> report = sab.plan([3, 1, 2, 3], budget=12).report()
        >>> report.to_dict()["buckets"][0]["samples"]
        4
        """
        return cast("dict[str, Any]", plain(self))

    def plot(self, *, ax: Any = None) -> Any:
        """Draws the padding of each bucket with matplotlib. Returns the axes.

        Args:
            ax: axes to draw on; None: those of a new figure.

        Raises:
            ImportError: matplotlib is not installed.
        """
        axes = axes_of(ax, 3.4)
        draw_padding(axes, self)
        return axes


def report_facts(report: Report) -> str:
    """The lines of a report above its buckets."""
    return "\n".join(f"{name}{value:>{60 - len(name)}}" for name, value in _facts_of(report))


def _facts_of(report: Report) -> Facts:
    over = report.batches / report.lower_bound if report.lower_bound else 1.0
    target = f"met: {100 * report.nearest_target:.2f} %"
    if report.nearest_target == 0:
        target = "none"
    elif not report.target_met:
        target = f"reached: {100 * max(report.padding, over - 1):.2f} %"
    rows: Facts = [
        ("samples", f"{report.samples:,}"),
        (
            "skipped, dropped, repeated",
            f"{report.skipped:,}, {report.dropped:,}, {report.repeated:,}",
        ),
        ("batches (× minimum)", f"{report.batches:,} ({over:.4f})"),
        ("steps of each rank", f"{report.steps:,}"),
        ("padding", f"{100 * report.padding:.2f} %"),
    ]
    if len(report.totals) > 1:
        for name, padded in report.padded_totals.items():
            padding = 1 - report.totals[name] / padded if padded else 0.0
            rows.append((f"padding of {name}", f"{100 * padding:.2f} %"))
    rows += [
        ("target (padding, extra batches)", target),
        ("distinct shapes", f"{report.shapes:,}"),
        ("rank imbalance (1: none)", f"{report.rank_imbalance:.4f}"),
        ("batch mates that meet again next epoch", f"{100 * report.meet_again:.2f} %"),
        ("possible batch mates of a sample", f"{report.partners:,.0f}"),
        ("correlation of successive lengths", f"{report.length_correlation:.3f}"),
        ("variance between batches (1: random)", f"{report.variance_ratio:.2f}"),
    ]
    return rows


def source_lines(sources: Mapping[Name, SourceReport]) -> list[str]:
    """The table of the sources of a mixture, if there are any."""
    if not sources:
        return []
    header, rows = source_table(sources)
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    return [
        "",
        *(
            f"{row[0]:<{widths[0]}}"
            + "".join(f"{cell:>{width + 2}}" for cell, width in zip(row[1:], widths[1:]))
            for row in (header, *rows)
        ),
        *(
            f"{name} does not appear: its repeats give no sample"
            for name, each in sources.items()
            if each.samples == 0
        ),
    ]


def bucket_table(buckets: Sequence[Bucket]) -> tuple[list[str], list[list[str]]]:
    """A header, and a row for each bucket: its shortest and longest, or of several columns the
    sides of its box. Many buckets have rows for the first and last six.
    """
    boxes = isinstance(buckets[0].longest, dict) if buckets else False
    columns = list(buckets[0].longest) if boxes else ["shortest", "longest"]
    cells: list[list[str]] = []
    for number, bucket in enumerate(buckets):
        low, high = bucket.shortest, bucket.longest
        if boxes:
            sides = [f"{low[name]:g} to {high[name]:g}" for name in columns]
        else:
            sides = [f"{low:g}", f"{high:g}"]
        counts = [f"{n:,}" for n in (bucket.samples, bucket.batch_size, bucket.batches)]
        cells.append([f"{number}", *sides, *counts])
    header = ["bucket", *columns, "samples", "batch size", "batches"]
    if len(cells) > 12:
        cells[6:-6] = [["...", *[""] * (len(header) - 1)]]
    return header, cells


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
    Do not overwrite it either: a sampler would raise FormatError or, of pages that were read
    before, may give other samples. To replace the file, rename a new one over it, as
    :meth:`Plan.save` does.
    """

    _mixture: Mixture | None = None
    _made_from: tuple[BudgetLike | None, PlanOptions] = (None, {})  # of a mixture
    _of_mixture: int | None = None  # the fingerprint of the histogram whose epoch it is of

    def check(self) -> None:
        """Reads the whole plan, and raises FormatError if a checksum or a rule is broken.

        :meth:`open` reads the header, the names and the budgets, so its time does not depend on the
        number of samples. The first sampler reads the buckets. Each batch verifies the pages of
        4 KiB that it reads; a damaged page is a FormatError of each batch that needs it. Ctrl-C
        takes effect after the call.
        """
        check(lib.sab_plan_check(self._handle))

    def copy(self) -> Plan:
        """The same plan in memory of its own, in huge pages where the system grants them.

        Batches of a plan with many samples in a mapped file take longer than those of its copy.
        """
        handle = ffi.new("sab_plan **")
        check(lib.sab_plan_copy_new(self._handle, handle))
        return Plan(handle[0])

    def __init__(self, handle: CData) -> None:
        self._handle = self._owned(handle, lib.sab_plan_free, "sab.plan(sizes, budget)")
        info = new_struct("sab_plan_info")
        check(lib.sab_plan_get_info(self._handle, info))
        self._info = info
        names = [lib.sab_plan_column_name(self._handle, j) for j in range(info.columns)]
        self._columns = column_names(names)

    @property
    def sample_count(self) -> int:
        """Samples in the sizes; of a mixture those of epoch 0, with repeats."""
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
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the sizes; ``("",)`` for one column without a name."""
        return self._columns

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
            lengths = [per_column(getattr(bucket, name), self._columns) for name in _LENGTHS]
            others = [getattr(bucket, name) for name in Bucket._fields[len(_LENGTHS) :]]
            buckets.append(Bucket(*lengths, *others))
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
        micro_batches: int = 1,
        progress: bool | Progress | None = None,
    ) -> Report:
        """Statistics of an epoch of :class:`sab.BucketSampler` with these arguments: give
        ``world_size`` for the steps of several ranks. Walks this epoch and the next one.

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
        options.micro_batches = whole("micro_batches", micro_batches, 1)
        report = new_struct("sab_plan_report")
        calls = Calls(progress=progress, what="report")
        check(
            lib.sab_plan_get_report(
                self._handle, options, lib.sab_py_progress, calls.handle, report
            ),
            calls,
        )
        others = ("totals", "padded_totals", "buckets", "sources")
        fields = {name: getattr(report, name) for name in Report._fields if name not in others}
        fields["target_met"] = bool(report.target_met)
        for name in ("totals", "padded_totals"):
            numbers = ffi.unpack(getattr(report, name), report.columns)
            fields[name] = dict(zip(self._columns, numbers))
        return Report(**fields, buckets=self.buckets, sources=self._source_reports(options, calls))

    def locate(
        self,
        sizes: npt.ArrayLike,
        numbers: npt.ArrayLike,
        *,
        sources: npt.ArrayLike | None = None,
        which: npt.ArrayLike | None = None,
        seed: int = 0,
        epoch: int = 0,
        world_size: int = 1,
        micro_batches: int = 1,
        last_step: LastStep = "split",
        costliest_first: int = 0,
    ) -> Places:
        """Tells where samples are in an epoch: the inverse of :class:`sab.BucketSampler` with these
        arguments. Takes time in proportion to the buckets, so pass many samples at once.

        Args:
            sizes: the size of each sample; of several columns a row of sizes for each.
            numbers: the number of each within its size, such as of :meth:`sab.Histogram.number`:
                how many samples of the same size come before it in the data set.
            sources: the source of each sample, for the plan of an epoch of a mixture:
                :meth:`sab.Histogram.epoch`. ``epoch`` must be this epoch.
            which: the number of the place that is asked for, of each sample, from 0. For samples
                that a mixture, ``tail="wrap"`` or ``last_step="wrap"`` repeats. 0 by default.

        Raises:
            ValueError: a sample that the plan does not have.
            UnsupportedError: a plan of several columns that is not of a histogram, and a plan of
                ``separate_by`` or of a mixture without its epoch.

        >>> import sab
        >>> plan = sab.plan([3, 1, 2, 3], budget=6, boundaries=[1, 3, 4])
        >>> places = plan.locate([3, 1, 2, 3], [0, 0, 0, 1])
        >>> batches = list(sab.BucketSampler(plan))
        >>> all(batches[b][k] == i for i, (b, k) in enumerate(zip(places.batches, places.slots)))
        True
        """
        options = new_options("sab_sampler_options")
        options.seed = whole("seed", seed)
        options.epoch = whole("epoch", epoch)
        options.world_size = whole("world_size", world_size, 1)
        options.micro_batches = whole("micro_batches", micro_batches, 1)
        options.costliest_first = whole("costliest_first", costliest_first)
        options.last_step = one_of("last_step", last_step, LAST_STEPS)
        columns = len(self._columns)

        def locate(plan: CData, order: CData, *arrays: Any) -> int:
            count = arrays[3]
            return int(lib.sab_plan_locate(plan, order, sources_pointer(sources, count), *arrays))

        return located(locate, self._handle, options, sizes, numbers, which, columns)

    def _source_reports(self, options: CData, calls: Calls) -> dict[Name, SourceReport]:
        if self._mixture is None:
            return {}
        handle = ffi.new("sab_sampler **")
        check(lib.sab_bucket_sampler_new(self._handle, options, handle))
        sampler = ffi.gc(handle[0], lib.sab_sampler_free)
        return reports_of(self._mixture, sampler, calls)

    def costliest_batches(self, count: int = 1) -> list[Batch]:
        """The costliest batches (:class:`sab.Batch`) that an epoch can have, costliest first. Run
        them once before training.
        """
        handle = ffi.new("sab_sampler **")
        check(lib.sab_costliest_sampler_new(self._handle, whole("count", count), handle))
        sampler = ffi.gc(handle[0], lib.sab_sampler_free)
        return list(batches_of(sampler, columns=self._columns))

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
        function("run", run, optional=False)
        calls = Work(progress, "verify", run=run, columns=self._columns)
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

    def plot(self, sizes: SizesLike | None = None, *, ax: Any = None) -> Any:
        """Draws the buckets with matplotlib, over how many samples have which size. Returns the
        axes. Samples with several sizes have boxes over the first two.

        Args:
            sizes: those that the plan was made of, for a finer picture; None: each bucket's samples
                are spread evenly over its sizes.
            ax: axes to draw on; None: those of a new figure.

        Raises:
            ImportError: matplotlib is not installed.
        """
        values: npt.NDArray[Any] | None = None
        if sizes is not None:
            source = as_sizes(sizes)
            if (len(source), source.columns) != (self.sample_count, self.columns):
                raise ValueError(
                    f"sizes has {len(source)} samples with the columns {source.columns}: must be "
                    f"those of the plan, {self.sample_count} with {self.columns}"
                )
            values = np.asarray(source.values())
        axes = axes_of(ax, 3.4 if len(self.columns) == 1 else 5.4)
        draw_buckets(axes, self.buckets, values)
        return axes

    def __reduce__(self) -> tuple[Any, ...]:
        if self._mixture is None:
            return super().__reduce__()
        return new_plan, (self._mixture, *self._made_from)

    def __repr__(self) -> str:
        parts = [
            f"{self.sample_count:,} samples in {self.batch_count:,} batches",
            f"{self._info.buckets:,} buckets",
        ]
        if self.budgets:
            parts.append(f"budget {' and '.join(f'{limit:,.10g}' for limit in self.budgets)}")
        if self.skipped_count:
            parts.append(f"{self.skipped_count:,} skipped")
        return one_line(self, parts)

    def _repr_html_(self) -> str:
        over = self.batch_count / self.lower_bound if self.lower_bound else 1.0
        facts = [
            ("samples", f"{self.sample_count:,}"),
            ("skipped", f"{self.skipped_count:,}"),
            ("batches (× minimum)", f"{self.batch_count:,} ({over:.4f})"),
            *((f"budget {i}", f"{limit:,.10g}") for i, limit in enumerate(self.budgets)),
            ("buckets", f"{self._info.buckets:,}"),
        ]
        if len(self.columns) > 1:
            facts.append(("columns", ", ".join(self.columns)))
        return as_html("Plan", facts, bucket_table(self.buckets))


class PlanOptions(TypedDict, total=False):
    """The options of :func:`plan` that samplers of sizes take, too."""

    padding: float
    boundaries: BoundariesLike | None
    buckets: int | None
    bucket_batches: int | None
    batch_size: int | Sequence[int] | None
    cost: CostLike | None
    max_batch_size: int | None
    min_batch_size: int
    batch_size_multiple: int
    length_multiple: float | Mapping[str, float]
    tail: Tail
    drop_last: bool
    oversize: Oversize
    max_shapes: int | Mapping[int, int] | None
    separate_by: npt.ArrayLike | Literal["source"] | None
    threads: int
    progress: bool | Progress | None


def check_names(given: PlanOptions) -> None:
    """Refuses what is no option of a plan, where they are given to a sampler by name."""
    unknown = given.keys() - PlanOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"{min(unknown)}: is no option of the sampler or of a plan")


def plan_options(
    budget: BudgetLike | None,
    given: PlanOptions,
    columns: Sequence[str] = ONE_COLUMN,
    source: Sizes | None = None,
) -> tuple[CData, Calls]:
    """The options in C of a plan of sizes with these columns, and the functions among them.
    `source` may be a mixture, whose sources separate_by may name.
    """
    check_names(given)
    options = new_options("sab_plan_options")
    calls = Calls(progress=given.get("progress"), what="plan")
    set_budgets(options, budget, given.get("cost"), calls, columns)
    if budget is None and given.get("batch_size") is None:
        raise ValueError(
            "budget = None and batch_size = None: a budget or a batch size must be given, such as "
            "budget=16384"
        )
    options.padding_target = real("padding", given.get("padding", options.padding_target))
    _set_buckets(options, given, calls, columns)
    most = given.get("max_batch_size")
    options.max_batch_size = 0 if most is None else whole("max_batch_size", most, 1)
    options.min_batch_size = whole("min_batch_size", given.get("min_batch_size", 0))
    multiple = given.get("batch_size_multiple", 1)
    options.batch_size_multiple = whole("batch_size_multiple", multiple, 1)
    _set_multiples(options, given.get("length_multiple", 0), calls, columns)
    tail = given.get("tail", "keep")
    if flag("drop_last", given.get("drop_last", False)):
        if tail not in ("keep", "drop"):
            raise ValueError(f"drop_last = True and tail = {tail!r}: only one may be given")
        tail = "drop"
        calls.names["tail"] = "drop_last = True, tail"
    options.tail = one_of("tail", tail, _TAILS)
    if "oversize" in given:
        options.oversize = one_of("oversize", given["oversize"], OVERSIZE)
    _set_ids(options, given, calls, source)
    options.threads = whole("threads", given.get("threads", 1), 0)
    options.progress, options.progress_ctx = lib.sab_py_progress, calls.handle
    return options, calls


def _set_multiples(
    options: CData, given: float | Mapping[str, float], calls: Calls, columns: Sequence[str]
) -> None:
    """Sets the multiple of all lengths, or that of some columns."""
    if not isinstance(given, Mapping):
        options.length_multiple = real("length_multiple", given)
        return
    each = [0.0] * len(columns)
    for key, multiple in given.items():
        name, column = f"length_multiple[{key!r}]", column_of("length_multiple", key, columns)
        each[column] = real(name, multiple)
        calls.names[f"length_multiples[{column}]"] = name
    numbers = ffi.new("double[]", each)
    calls.kept.append(numbers)
    options.length_multiples = numbers


def _texts(ids: Any) -> list[str] | None:
    """The ids of samples that are texts; None for others."""
    if ids is None or isinstance(ids, str) or not hasattr(ids, "__iter__"):
        return None
    if not isinstance(next(iter(ids), None), str):
        return None
    given = list(ids)
    return given if all(isinstance(each, str) for each in given) else None


def _shapes_of_texts(shapes: Mapping[Any, int], known: list[str]) -> dict[int, int]:
    """The most shapes of each number that stands for a text."""
    if set(shapes) != set(known):
        raise ValueError(
            f"max_shapes has the ids {sorted(map(str, shapes))!r:.60}: must have those of "
            f"separate_by, {known!r:.60}"
        )
    return {number: shapes[text] for number, text in enumerate(known)}


def _set_ids(options: CData, given: PlanOptions, calls: Calls, source: Sizes | None) -> None:
    """Sets which samples are separate, and the most shapes, which may be given for each id."""
    ids, shapes = given.get("separate_by"), given.get("max_shapes")
    distinct: list[int] = []
    if isinstance(ids, str) and (ids != SOURCE or not isinstance(source, Mixture)):
        raise ValueError(
            f"separate_by = {ids!r}: must be whole numbers, or {SOURCE!r} for a sab.Mixture; or a "
            "text for each sample"
        )
    if (names := _texts(ids)) is not None:
        known, ids = np.unique(names, return_inverse=True)
        if isinstance(shapes, Mapping):
            shapes = _shapes_of_texts(cast("Mapping[Any, int]", shapes), known.tolist())
    if ids is not None:
        if isinstance(source, Mixture) and isinstance(ids, str):
            array, distinct = source._source_numbers(), source._numbers_of_sources()
        else:
            array = indices_of("separate_by", ids)
            distinct = np.unique(array).tolist()
        calls.kept.append(array)
        options.separate_by = ffi.cast("int64_t *", array.ctypes.data)
        options.separate_by_count = array.size
    if not isinstance(shapes, Mapping):
        options.max_shapes = 0 if shapes is None else whole("max_shapes", shapes, 1)
        return
    for key in shapes:
        integer("id of max_shapes", key)
    if sorted(shapes) != distinct:
        raise ValueError(
            f"max_shapes has the ids {sorted(shapes)!r:.60}: must have those of separate_by, "
            f"{distinct!r:.60}"
        )
    each = [whole(f"max_shapes[{i}]", shapes[i], 1) for i in distinct]
    # Ids of samples that are all left out need no shape, which only the library can say.
    keeps_tail = options.tail == _TAILS["keep"]
    if keeps_tail and options.oversize == OVERSIZE["error"] and 1 in each:
        raise ValueError(
            f"max_shapes[{distinct[each.index(1)]}] = 1: must be at least 2: one for full batches, "
            "one for the tail, which is kept"
        )
    numbers = ffi.new("size_t[]", each)
    calls.kept.append(numbers)
    options.id_shapes, options.id_shape_count = numbers, len(distinct)


def _check_edges(name: str, edges: npt.NDArray[np.float64]) -> None:
    """Refuses sorted edges of one column that are no intervals."""
    if edges.size < 2:
        raise ValueError(f"len({name}) = {edges.size}: must be at least 2")
    if np.isnan(edges[-1]):  # which sorts last
        raise ValueError(f"{name} has nan: must be numbers")
    equal = np.flatnonzero(edges[1:] == edges[:-1])
    if equal.size:
        raise ValueError(f"{name} has {shown(edges[equal[0]])} twice: must have each number once")


def _corners(boundaries: Any, columns: Sequence[str]) -> npt.NDArray[np.float64]:
    """The ends of the buckets: one number each or, of several columns, one a column. Edges for each
    column make a grid.
    """
    if isinstance(boundaries, Mapping):
        edges = cast("Mapping[str, Any]", boundaries)
        for name in edges:
            column_of("boundaries", name, columns)
        missing = [name for name in columns if name not in edges]
        if missing:
            raise ValueError(f"boundaries has no {missing[0]!r}: must have all columns")
        each = [
            np.sort(one_dimension(f"boundaries[{name!r}]", edges[name], np.float64))
            for name in columns
        ]
        for name, sorted_edges in zip(columns, each):
            _check_edges(f"boundaries[{name!r}]", sorted_edges)
        if len(each) == 1:
            return each[0]
        boxes = math.prod(one.size - 1 for one in each)
        if boxes > _MOST_BOXES:
            raise ValueError(
                f"boundaries: make {boxes} boxes: must make at most {_MOST_BOXES}; rows of numbers "
                "give only those that are needed"
            )
        grid = np.stack(np.meshgrid(*(one[1:] for one in each), indexing="ij"), axis=-1)
        first = np.array([[one[0] for one in each]])
        return np.concatenate([first, grid.reshape(-1, len(columns))])
    if len(columns) == 1:
        return one_dimension("boundaries", boundaries, np.float64)
    rule = "must be rows of numbers, one for each column"
    rows = real_array("boundaries", boundaries, rule)
    if rows.ndim != 2 or rows.shape[1] != len(columns):
        raise ValueError(
            f"boundaries has the shape {rows.shape}: must have one number for each of the "
            f"{len(columns)} columns in each row"
        )
    return rows


def _set_buckets(options: CData, given: PlanOptions, calls: Calls, columns: Sequence[str]) -> None:
    """Sets which buckets there are and how many samples their batches have."""
    boundaries, buckets = given.get("boundaries"), given.get("buckets")
    if boundaries is not None and buckets is not None:
        raise ValueError("boundaries and buckets: only one may be given")
    if buckets is not None and len(columns) > 1:
        raise ValueError(f"buckets = {buckets!r}: is for sizes of one column, not {len(columns)}")
    if boundaries is not None:
        edges = _corners(boundaries, columns)
        calls.kept.append(edges)
        options.bucket_rule = lib.SAB_BUCKETS_BOUNDARIES
        options.boundaries = ffi.cast("double *", edges.ctypes.data)
        calls.names.update(
            {f"in column {j}": f"in column {name!r}" for j, name in enumerate(columns)}
        )
        options.boundary_count = edges.size if edges.ndim == 1 else len(edges)
    elif buckets is not None:
        options.bucket_rule = lib.SAB_BUCKETS_OPTIMAL
        options.bucket_count = whole("buckets", buckets, 1)
    batches, batch_size = given.get("bucket_batches"), given.get("batch_size")
    options.bucket_batches = 0 if batches is None else whole("bucket_batches", batches, 1)
    if batch_size is not None:
        is_one = not is_array(batch_size) or np.ndim(cast("Any", batch_size)) == 0
        each = [batch_size] if is_one else elements("batch_size", batch_size)
        counts = np.array([whole("batch_size", count, 1) for count in each], np.uint64)
        calls.kept.append(counts)
        options.batch_sizes = ffi.cast("uint64_t *", counts.ctypes.data)
        options.batch_size_count = counts.size


def _plan_of_histogram(source: Histogram, budget: BudgetLike | None, given: PlanOptions) -> Plan:
    options, calls = plan_options(budget, given, source.columns or ONE_COLUMN)
    handle = ffi.new("sab_plan **")
    check(lib.sab_histogram_plan_new(source._handle, options, handle), calls)
    made = Plan(handle[0])
    made._of_mixture = source._of_mixture
    return made


def new_plan(
    source: Sizes,
    budget: BudgetLike | None,
    given: PlanOptions,
    limits: Sequence[float] = (),
) -> Plan:
    """The plan of :func:`plan`, without a warning. `limits`: in the place of those of the budgets,
    which are as many.
    """
    options, calls = plan_options(budget, given, source.columns, source)
    for i, limit in enumerate(limits):
        options.budgets[i].limit = limit
    handle = ffi.new("sab_plan **")
    check(lib.sab_plan_new(source._handle, options, handle), calls)
    made = Plan(handle[0])
    if isinstance(source, Mixture):
        made._mixture = source
        made._made_from = budget, {**given, "progress": None}
    return made


def plan(
    sizes: SizesLike | Histogram,
    budget: BudgetLike | None = None,
    *,
    padding: float = 0.01,
    boundaries: BoundariesLike | None = None,
    buckets: int | None = None,
    bucket_batches: int | None = None,
    batch_size: int | Sequence[int] | None = None,
    cost: CostLike | None = None,
    max_batch_size: int | None = None,
    min_batch_size: int = 0,
    batch_size_multiple: int = 1,
    length_multiple: float | Mapping[str, float] = 0,
    tail: Tail = "keep",
    drop_last: bool = False,
    oversize: Oversize = "error",
    max_shapes: int | Mapping[int, int] | None = None,
    separate_by: npt.ArrayLike | Literal["source"] | None = None,
    threads: int = 1,
    progress: bool | Progress | None = None,
) -> Plan:
    """Makes a plan: which batches there are.

    Args:
        sizes: anything that :class:`sab.Sizes` takes. Or a :class:`sab.Histogram`: the plan then
            has no sample indices, and :meth:`Plan.locate` tells the batches of its samples.
        budget: the largest cost of a batch, in the unit of ``cost``: padded tokens by default. A
            :class:`sab.Budget` has a cost of its own. A batch keeps all budgets of a list; the
            batches of a step have nearly the same cost by the first one.
        padding: without boundaries or buckets: buckets as large as possible whose padding stays
            under this share, and whose batches stay under ``1 + padding`` times the lower bound.
            :meth:`Plan.report` says whether it was met, and what the best plan tried reaches.
        boundaries: numbers ``b0, b1, ...``: the buckets are ``[b0, b1)``, ``[b1, b2)``, ... In any
            order. With several sizes a sample: rows with one number a column. The first is the
            lower end of all sizes. Each other one is the upper end of a bucket, which holds what no
            bucket before does. Or a dictionary with such numbers for each column, none twice, whose
            buckets are all combinations, at most 65,536.
        buckets: that many intervals of size that pad least.
        bucket_batches: without boundaries or buckets: the fewest batches that a bucket may have.
            Without it 16, fewer where the padding is out of reach. Any number down to 1 where that
            saves more than a quarter of the batches or of the padded total.
        batch_size: samples a batch, for all buckets, or, with boundaries, one for each; with a
            budget the smaller size is used.
        cost: the cost of a batch if ``budget`` is a single number. ``"padded"``: count * length,
            the default. ``"quadratic"``: count * length**2. Coefficients ``c``: ``c[0] + count *
            (c[1] + c[2] * length + ...)``. A :class:`sab.MemoryModel`: the budget is in bytes. Or a
            function ``cost(count, length)`` that never decreases, or a :class:`sab.Cost`. With
            several sizes a sample the default is count * the sum of the padded lengths;
            ``"product"``: count * their product; a dictionary: count * their sum with these
            weights; a function: ``cost(count, lengths, totals)``; a memory model: one of these
            sizes.
        max_batch_size: no batch has more samples.
        min_batch_size: no batch has fewer samples, such as 2 for batch normalization; not with
            boundaries, buckets or ``max_shapes``, and not for mixtures. Samples that this leaves no
            room for are skipped, and a last step in which ranks would get fewer is left out. Under
            a lowered budget batches may be smaller.
        batch_size_multiple: batch sizes from the budget are rounded down to a multiple, where one
            fits.
        length_multiple: lengths are padded to a multiple of this, such as 8 for tensor cores. A
            dictionary has the multiples of some columns.
        tail: how samples of a bucket that fill no batch are treated: ``"keep"``, ``"drop"``,
            ``"wrap"``.
        drop_last: the same as ``tail="drop"``.
        oversize: samples outside the boundaries or over the budget alone: ``"error"`` refuses
            them, ``"skip"`` leaves them out with a SkippedWarning, ``"single"`` makes a batch of
            each.
        max_shapes: largest number of distinct (count, padded length), for compilers and CUDA
            graphs; padding is as small as possible with them. The tail of ``"keep"`` needs one
            shape, and ``"single"`` batches need at least one. With ``separate_by`` also a
            dictionary with a number for each id.
        separate_by: a whole number or a text for each sample: samples that differ in it never share
            a batch. ``Batch.id`` is their number, of texts the place in their sorted order.
            ``"source"`` separates the sources of a
            :class:`sab.Mixture`; the number is then the place in ``mixture.names``, or the number
            that was given.
        threads: threads that sort the sizes, at most 256. The plan is the same for any number.
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
        "min_batch_size": min_batch_size,
        "batch_size_multiple": batch_size_multiple,
        "length_multiple": length_multiple,
        "tail": tail,
        "drop_last": drop_last,
        "oversize": oversize,
        "max_shapes": max_shapes,
        "separate_by": separate_by,
        "threads": threads,
        "progress": progress,
    }
    if isinstance(sizes, Histogram):
        made = _plan_of_histogram(sizes, budget, given)
    else:
        made = new_plan(as_sizes(sizes), budget, given)
    why = WHY_SKIPPED if min_batch_size <= 1 else f"{WHY_SKIPPED}, or too few for min_batch_size,"
    warn_of_skipped(made.skipped_count, made.sample_count, why)
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
    if not isinstance(plan, Plan):
        raise TypeError(f"plan is {kind_of(plan)}: must be a sab.Plan")
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
