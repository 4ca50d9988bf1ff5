"""Plans: which batches there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

import numpy as np
import numpy.typing as npt

from sab._arguments import function, kind_of, whole
from sab._batch import Batch, Shape, batches_of, per_column, shapes_of
from sab._cost import BalanceLike, BudgetLike
from sab._display import as_html, one_line
from sab._engine import Places, located, sources_pointer
from sab._mixture import Mixture, Name, SourceReport, reports_of
from sab._native import Calls, CData, Progress, check, column_names, ffi, lib, new_struct, record_of
from sab._order import LastStep, order_of, sampler_options
from sab._pictures import axes_of, draw_buckets
from sab._plan_options import PlanOptions, plan_options
from sab._probe import DeviceLike, probe_of
from sab._report import Bucket, Report, bucket_table
from sab._saved import Saved
from sab._sizes import Sizes, SizesLike, as_sizes
from sab._work import Work

__all__ = ["Plan", "Verification", "verify"]

_LENGTHS = ("lower", "upper", "shortest", "longest", "padded_length", "total")


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
        self._columns = column_names(info.column_names, info.columns)

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
        return [float(self._info.limits[index]) for index in range(self._info.budget_count)]

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
        """The buckets, by ascending size: of all epochs or, where there are
        :attr:`second_buckets`, of those with even numbers.
        """
        return self._buckets(0, self._info.buckets)

    @property
    def second_buckets(self) -> list[Bucket]:
        """The buckets of epochs with odd numbers, if these have buckets of their own, with other
        borders and as many batches; else none. :attr:`Batch.bucket` numbers them after
        :attr:`buckets`.
        """
        return self._buckets(self._info.buckets, self._info.second_buckets)

    def _buckets(self, first: int, count: int) -> list[Bucket]:
        bucket = new_struct("sab_bucket")
        buckets: list[Bucket] = []
        for index in range(first, first + count):
            check(lib.sab_plan_get_bucket(self._handle, index, bucket))
            lengths = {name: per_column(getattr(bucket, name), self._columns) for name in _LENGTHS}
            buckets.append(record_of(Bucket, bucket, **lengths))
        return buckets

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the full batches and of the tails of all buckets: tuples of count and
        padded length, the costliest first. With several sizes a sample the length is a tuple of
        lengths.

        With ``max_shapes`` or ``shapes="auto"`` all samplers on the plan have these shapes only, on
        any number of ranks. The batches after ``set_budget``, in this epoch and the following ones,
        have others, which may be more: see ``shapes`` of the sampler. So has each epoch of a
        mixture. Without these options, a batch may be padded to less.

        >>> import sab
        >>> sab.plan([5, 3, 5, 4, 3, 4, 2], budget=10, max_shapes=3).shapes
        [(2, 5.0), (3, 3.0)]
        """
        return shapes_of(lib.sab_plan_get_shape, self._handle, self._columns)

    @property
    def shape_paddings(self) -> list[tuple[int, float]]:
        """The numbers of shapes that ``shapes="auto"`` tried, and the padding with each. Not kept
        in files and copies, and not with several ids.
        """
        shapes, padding = ffi.new("uint64_t *"), ffi.new("double *")
        found: list[tuple[int, float]] = []
        while (
            check(lib.sab_plan_get_shape_padding(self._handle, len(found), shapes, padding))
            != lib.SAB_END
        ):
            found.append((int(shapes[0]), float(padding[0])))
        return found

    @property
    def skipped(self) -> npt.NDArray[np.int64]:
        """Indices of the samples left out as outside the boundaries or over the budget, by
        ascending size.
        """
        count = ffi.new("size_t *")
        indices = np.empty(self._info.skipped, np.int64)
        check(
            lib.sab_plan_get_skipped(
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
        mix_lengths: bool = False,
        balance: BalanceLike | None = None,
        progress: bool | Progress | None = None,
    ) -> Report:
        """Statistics of an epoch of :class:`sab.BucketSampler` with these arguments: give
        ``world_size`` for the steps of several ranks. Walks this epoch and the next one. The
        imbalance of ranks is that of ``balance``.

        >>> import sab
        >>> round(sab.plan([3, 1, 2, 3], budget=6, boundaries=[1, 3, 4]).report().padding, 3)
        0.1
        """
        order = order_of(locals())
        calls = Calls(progress=progress, what="report")
        options = sampler_options(order, balance, calls, self._columns)
        report = new_struct("sab_plan_report")
        totals = [ffi.new("double[]", len(self._columns)) for _ in range(2)]
        report.totals, report.padded_totals = totals
        check(lib.sab_plan_get_report(self._handle, options, calls.options(), report), calls)
        own, padded = (dict(zip(self._columns, numbers)) for numbers in totals)
        return record_of(
            Report,
            report,
            target_met=bool(report.target_met),
            totals=own,
            padded_totals=padded,
            shape_paddings=self.shape_paddings,
            buckets=self.buckets,
            sources=self._source_reports(options, calls),
        )

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
        mix_lengths: bool = False,
        balance: BalanceLike | None = None,
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
        order = order_of(locals())
        calls = Calls()
        options = sampler_options(order, balance, calls, self._columns)

        def locate(plan: CData, options: CData, *arrays: Any) -> int:
            count = arrays[3]
            return int(
                lib.sab_histogram_plan_locate(
                    plan, options, sources_pointer(sources, count), *arrays
                )
            )

        return located(
            locate, self._handle, options, sizes, numbers, which, len(self._columns), calls
        )

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
        options = calls.options("sab_verification_options")
        options.count = whole("count", count, 1)
        result = new_struct("sab_verification")
        with probe_of(device) as probe:
            status = lib.sab_plan_verify(
                self._handle,
                probe._handle,
                lib.sab_py_batch,
                calls.handle,
                options,
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
