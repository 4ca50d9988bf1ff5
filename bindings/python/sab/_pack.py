"""Packing: samples laid end to end in rows of a fixed capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict, Union, cast

import numpy as np
import numpy.typing as npt

from sab._arguments import brief, elements, flag, kind_of, one_of, whole
from sab._batch import PerColumn, per_column
from sab._cost import ONE_COLUMN, CostLike, column_of, set_balance
from sab._display import Facts, as_html, plain
from sab._engine import Histogram, Places, array_of, located
from sab._mixture import Mixture, Name, SourceReport, reports_of, source_table
from sab._native import (
    Calls,
    CData,
    Progress,
    check,
    choices,
    ffi,
    lib,
    new_struct,
    record_of,
    warn_of_skipped,
)
from sab._order import LastStep, options_of, order_of, sampler_options
from sab._plan_options import SKIP_OR_ERROR, Multiple, set_multiples
from sab._random_access import RandomAccessSampler
from sab._report import OF_EACH_BALANCE, report_text, step_samples_fact
from sab._sampler import Output
from sab._sizes import SizesLike, as_sizes

__all__ = ["BinPatterns", "PackedInfo", "PackedReport", "PackedSampler", "Packing"]

PackMethod = Literal["shuffled", "best_fit", "histogram", "concat"]
Capacity = Union[int, Mapping[str, int], Sequence[int]]
_METHODS = choices("SAB_PACK_")


class PackedInfo(NamedTuple):
    """Facts of a packing: the fields of ``sab_packed_info``. Of several columns, ``total`` and
    ``fill`` are those of the fullest.
    """

    samples: int
    skipped: int
    split: int
    sequences: int
    bins: int
    lower_bound: int
    most_sequences: int
    fingerprint: int
    total: float
    fill: float

    def to_dict(self) -> dict[str, Any]:
        """The facts as a dictionary of numbers, which ``json.dumps`` takes."""
        return cast("dict[str, Any]", plain(self))

    def _repr_html_(self) -> str:
        over = self.bins / self.lower_bound if self.lower_bound else 1.0
        facts = [
            ("samples", f"{self.samples:,}"),
            ("skipped, split", f"{self.skipped:,}, {self.split:,}"),
            ("bins (× minimum)", f"{self.bins:,} ({over:.5f})"),
            ("sequences", f"{self.sequences:,}"),
            ("most sequences in a bin", f"{self.most_sequences:,}"),
            ("total size", f"{self.total:,.10g}"),
        ]
        return as_html(f"{100 * self.fill:.2f} % of the bins is filled", facts)


class PackedReport(NamedTuple):
    """What an epoch of packed rows is on all ranks: fields of ``sab_packed_info`` and
    ``sab_balanced_report``. Prints as a table.

    ``dropped`` are samples and pieces that ``last_step="drop"`` leaves out of this epoch. ``total``
    is the sum of the sizes in the steps; of several columns a dictionary. ``rank_imbalance`` is the
    mean over the steps of the cost of the costliest rank, divided by the mean cost of the ranks.
    ``time`` is the sum of the costliest ranks' costs, ``least_time`` what it would be without
    waiting. The cost is ``balance`` of the sampler.

    ``meet_again`` is the share of the pairs of samples in one row that share a row in the next
    epoch, too. ``length_deviation`` is the standard deviation of the mean length of a row. Beside
    them are those of random rows: shuffled samples, of which one that does not fit begins a row.
    """

    samples: int
    skipped: int
    dropped: int
    split: int
    sequences: int
    bins: int
    lower_bound: int
    most_sequences: int
    steps: int
    least_step_samples: int
    most_step_samples: int
    step_samples_deviation: float
    total: PerColumn
    fill: float
    rank_imbalance: float
    largest_rank_imbalance: float
    micro_batch_imbalance: float
    time: float
    least_time: float
    meet_again: float
    random_meet_again: float
    length_deviation: float
    random_length_deviation: float
    sources: dict[Name, SourceReport]

    def __str__(self) -> str:
        return report_text(self._facts(), self.sources)

    def _repr_html_(self) -> str:
        return as_html(f"Rows of {self.steps:,} steps", self._facts(), source_table(self.sources))

    def to_dict(self) -> dict[str, Any]:
        """The report as numbers and dictionaries, which ``json.dumps`` takes."""
        return cast("dict[str, Any]", plain(self))

    def _facts(self) -> Facts:
        over = self.bins / self.lower_bound if self.lower_bound else 1.0
        waiting = 100 * (1 - self.least_time / self.time) if self.time else 0.0
        totals: dict[str, float] = {"": self.total}
        if isinstance(self.total, dict):
            totals = cast("dict[str, float]", self.total)
        return [
            ("samples", f"{self.samples:,}"),
            ("skipped, dropped, split", f"{self.skipped:,}, {self.dropped:,}, {self.split:,}"),
            ("sequences", f"{self.sequences:,}"),
            ("bins (× minimum)", f"{self.bins:,} ({over:.4f})"),
            ("most sequences in a bin", f"{self.most_sequences:,}"),
            ("steps of each rank", f"{self.steps:,}"),
            step_samples_fact(self),
            *((f"total {name}".rstrip(), f"{total:,.10g}") for name, total in totals.items()),
            ("share of the bins that is filled", f"{100 * self.fill:.2f} %"),
            ("rank imbalance (1: none)", f"{self.rank_imbalance:.4f}"),
            ("largest rank imbalance", f"{self.largest_rank_imbalance:.3f}"),
            ("micro-batch imbalance", f"{self.micro_batch_imbalance:.4f}"),
            ("time spent waiting (%)", f"{waiting:.2f}"),
            (
                "row mates that meet again (random rows)",
                f"{100 * self.meet_again:.3f} % ({100 * self.random_meet_again:.3f} %)",
            ),
            (
                "deviation of a row's mean length (random)",
                f"{self.length_deviation:.4g} ({self.random_length_deviation:.4g})",
            ),
        ]


def capacities_of(capacity: Any, columns: Sequence[str]) -> list[int]:
    """What the caller gave as the capacity of each column."""
    is_one = isinstance(capacity, (str, bytes)) or not hasattr(capacity, "__iter__")
    is_one = is_one or getattr(capacity, "ndim", 1) == 0  # an array or a tensor of one number
    if len(columns) == 1 and (is_one or (isinstance(capacity, Mapping) and not columns[0])):
        return [whole("capacity", capacity)]
    if is_one:
        names = ", ".join(map(repr, columns))
        raise ValueError(f"capacity = {brief(capacity)}: must have one for each column, {names}")
    if isinstance(capacity, Mapping):
        numbers = cast("Mapping[object, Any]", capacity)
        each = {column_of("capacity", key, columns): key for key in numbers}
        missing = [name for j, name in enumerate(columns) if j not in each]
        if missing:
            raise ValueError(f"capacity has no {missing[0]!r}: must have all columns")
        named = [(f"capacity[{each[j]!r}]", numbers[each[j]]) for j in range(len(columns))]
    else:
        given = elements("capacity", capacity)
        if len(given) != len(columns):
            raise ValueError(
                f"len(capacity) = {len(given)}: must be {len(columns)}, one for each column"
            )
        named = [(f"capacity[{j}]", number) for j, number in enumerate(given)]
    return [whole(name, number, 1, 31) for name, number in named]


def _set_capacities(pack: CData, capacity: Any, columns: Sequence[str], calls: Calls) -> None:
    capacities = capacities_of(capacity, columns)
    array = ffi.new("uint64_t[]", capacities)
    calls.kept.append(array)
    pack.capacities, pack.capacity_count = array, len(capacities)
    if len(columns) == 1:
        calls.names["capacities[0]"] = "capacity"


def _pack_options(calls: Calls, given: PackingOptions, columns: Sequence[str]) -> CData:
    pack = calls.options("sab_packed_options")
    pack.method = one_of("method", given["method"], _METHODS)
    pack.max_sequences = whole("max_sequences", given["max_sequences"])
    pack.split = flag("split", given["split"])
    pack.oversize = one_of("oversize", given["oversize"], SKIP_OR_ERROR)
    _set_capacities(pack, given["capacity"], columns, calls)
    for what in ("length_multiple", "row_multiple"):
        set_multiples(pack, what, given[what], calls, columns)
    set_balance(pack, given["balance"], calls, columns)
    return pack


class PackedSampler(RandomAccessSampler):
    """Bins of a fixed capacity for packed training: each batch is one row of samples laid end to
    end.

    The samples are shuffled anew for each epoch. A bin takes samples in this order, and its last
    one to three are chosen so that they fill it. So bins mix lengths, and samples that share a bin
    rarely share one in the next epoch; :meth:`report` says how many do. An epoch is laid out when
    it begins. The bins are a pure function of sizes, options, seed and epoch. Their number may
    differ by some between epochs: ``len()`` and :attr:`info` are those of the present epoch. A
    state holds no bins, so it stays small. The bins of one step have nearly the same cost, by
    default the sum of squared lengths.

    Iterating gives arrays of sample indices. :meth:`batches` gives :class:`sab.Batch` with
    ``cu_seqlens``: int32, where each sequence begins and ends in the row, for variable-length
    attention. With ``split`` and ``"concat"`` it also has ``starts``: where each piece begins in
    its sample.

    Samples with several sizes are packed into bins with a capacity for each column, and
    ``cu_seqlens`` is a dictionary by the name of the column.

    Args:
        sizes: anything that :class:`sab.Sizes` takes; whole numbers. For samples with several
            sizes ``{"images": v, "tokens": t}``, a 2-D array, or
            ``sab.Sizes(table, columns=[...])``.
        capacity: largest sum of lengths in a bin; of several columns a dictionary with that of
            each, or a list in their order.
        method: ``"shuffled"``: see above; several columns need it. ``"best_fit"``: best-fit
            decreasing of the lengths. ``"histogram"``: shortest-pack-first of the lengths. These
            two decide once which lengths share a bin, and each epoch assigns the samples of equal
            length to the bins again: for more than 100 million samples, and as :class:`sab.Packing`
            has them. Their bins hold like lengths, and many samples share a bin again in the next
            epoch. ``"concat"``: the samples of each epoch in a shuffled order, end to end and cut
            at the capacity, so that all rows but one are full.
        max_sequences: sequences in a bin at most; 0 for no limit.
        split: cut samples longer than ``capacity`` into pieces of it and a remainder.
        oversize: samples longer than a capacity that are not split: ``"error"``, or ``"skip"``
            with a SkippedWarning.
        length_multiple: each sample is rounded up to a multiple of this in its row: twice the
            ranks of context parallelism, or 16 for FP8. The room counts in ``capacity``, which must
            be a multiple, too. Of several columns one number, or a dictionary.
        row_multiple: ``padded_length`` of a row is its total, rounded up to a multiple of this,
            instead of the capacity.
        window: samples that a bin is chosen from. 0: 1,000. For ``"shuffled"`` only.
        tries: how often the end of a bin is tried; of several columns, fillings of a bin, of which
            the best is kept. 0: 16, of several columns 100. For ``"shuffled"`` only.
        balance: the cost that the bins of one step have in common: a cost as for :func:`sab.plan`,
            summed over the samples of a bin. By default ``"quadratic"``: attention inside each
            sample. Of several columns it is the sum of the squared shares of the capacities.
        seed, rank, world_size, last_step, costliest_first, micro_batches, steps_per_epoch, output:
            as for :class:`sab.BucketSampler`.
        progress: True for a bar, or ``progress(done, total)``.

    >>> import sab
    >>> sampler = sab.PackedSampler([7, 3, 6, 2, 2], capacity=10)
    >>> sorted(batch.tolist() for batch in sampler), sampler.info.fill
    ([[0, 1], [2, 3, 4]], 1.0)
    >>> sampler.batch(0).cu_seqlens.dtype
    dtype('int32')
    >>> sizes = {"images": [1, 3, 2, 2], "tokens": [50, 10, 40, 60]}
    >>> both = sab.PackedSampler(sizes, capacity={"images": 4, "tokens": 100})
    >>> len(both), both.batch(0).total["tokens"] <= 100
    (2, True)
    """

    def __init__(
        self,
        sizes: SizesLike,
        capacity: Capacity,
        *,
        method: PackMethod = "shuffled",
        max_sequences: int = 0,
        split: bool = False,
        oversize: Literal["error", "skip"] = "error",
        length_multiple: Multiple = 0,
        row_multiple: Multiple = 0,
        window: int = 0,
        tries: int = 0,
        balance: CostLike | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        last_step: LastStep = "split",
        costliest_first: int = 0,
        micro_batches: int = 1,
        steps_per_epoch: int = 0,
        output: Output = "numpy",
        progress: bool | Progress | None = None,
    ) -> None:
        own, order = options_of(locals(), "sizes"), order_of(locals())
        calls = Calls(progress=progress, what="packing")
        source = as_sizes(sizes)
        self._mixture = source if isinstance(source, Mixture) else None
        self._columns = source.columns
        pack = _pack_options(calls, cast("PackingOptions", own), source.columns)
        pack.window = whole("window", window)
        pack.tries = whole("tries", tries)
        self._construct(
            output,
            lib.sab_packed_sampler_new,
            source._handle,
            pack,
            sampler_options(order),
            calls=calls,
        )
        warn_of_skipped(self.info.skipped, self.info.samples, "longer than a capacity")
        self._made_from = (sizes,), own

    def _capacity(self) -> PerColumn:
        """The capacity, or a dictionary with that of each column."""
        capacities = capacities_of(self._made_from[1]["capacity"], self._columns)
        return dict(zip(self._columns, capacities)) if len(capacities) > 1 else capacities[0]

    def _sample_count(self) -> int:
        return self.info.samples if self._mixture is None else len(self._mixture)

    @property
    def info(self) -> PackedInfo:
        """Number of bins, fill, and the lower bound of any packing."""
        info = new_struct("sab_packed_info")
        check(lib.sab_packed_sampler_get_info(self._handle, info))
        return record_of(PackedInfo, info)

    def report(self, *, progress: bool | Progress | None = None) -> PackedReport:
        """What the current epoch is on all ranks, before any training.

        >>> import sab
        >>> sab.PackedSampler([7, 3, 6, 2, 2], capacity=10, world_size=2).report().steps
        1
        """
        calls = Calls(progress=progress, what="report")
        report = new_struct("sab_balanced_report")
        check(lib.sab_balanced_sampler_get_report(self._handle, calls.options(), report), calls)
        info = self.info
        return record_of(
            PackedReport,
            report,
            split=info.split,
            sequences=info.sequences,
            bins=info.bins,
            lower_bound=info.lower_bound,
            most_sequences=info.most_sequences,
            total=per_column(report.totals, self._columns),
            **{name: getattr(report, name)[0] for name in OF_EACH_BALANCE},
            sources=reports_of(self._mixture, self._handle, calls),
        )


class BinPatterns(NamedTuple):
    """Bins that hold the same lengths: the arrays of ``sab_packing_get_patterns``.

    ``bins[i]`` bins of pattern ``i`` have ``sequences[p]`` sequences of ``lengths[p]`` tokens, for
    each ``p`` from ``begins[i]`` to ``begins[i + 1]``, the latter excluded.
    """

    bins: npt.NDArray[np.uint64]
    begins: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint32]
    sequences: npt.NDArray[np.uint32]


class PackingOptions(TypedDict):
    """The arguments of :class:`sab.Packing`, without the histogram."""

    capacity: Capacity
    method: PackMethod
    max_sequences: int
    split: bool
    oversize: Literal["error", "skip"]
    length_multiple: Multiple
    row_multiple: Multiple
    balance: CostLike | None


class Packing:
    """Which lengths share a bin, of samples that are only counted: up to 2^48 of them. Picklable.

    The bins are those of a :class:`sab.PackedSampler` of the same sizes with the same ``method``
    and other arguments. Time and memory depend on the number of distinct sizes. :meth:`locate`
    tells the bin of a sample.

    Args:
        histogram: of one column; whole numbers.
        capacity: largest sum of lengths in a bin.
        method: ``"best_fit"`` or ``"histogram"``. The other methods pack samples in a shuffled
            order, which a histogram does not have.
        max_sequences, split, oversize, length_multiple, row_multiple, balance, progress: as for
            :class:`sab.PackedSampler`.

    Raises:
        UnsupportedError: another method, several columns or a mixture.

    >>> import sab
    >>> packing = sab.Packing(sab.Histogram([7, 3, 6, 2, 2]), capacity=10)
    >>> packing.info.bins
    2
    >>> packing.patterns.bins.tolist(), packing.patterns.lengths.tolist()
    ([1, 1], [7, 3, 6, 2])
    """

    def __init__(
        self,
        histogram: Histogram,
        capacity: int,
        *,
        method: PackMethod = "best_fit",
        max_sequences: int = 0,
        split: bool = False,
        oversize: Literal["error", "skip"] = "error",
        length_multiple: float = 0,
        row_multiple: float = 0,
        balance: CostLike | None = None,
        progress: bool | Progress | None = None,
    ) -> None:
        if not isinstance(histogram, Histogram):
            raise TypeError(f"histogram is {kind_of(histogram)}: must be a sab.Histogram")
        options: PackingOptions = {
            "capacity": whole("capacity", capacity),
            "method": method,
            "max_sequences": whole("max_sequences", max_sequences),
            "split": flag("split", split),
            "oversize": oversize,
            "length_multiple": length_multiple,
            "row_multiple": row_multiple,
            "balance": balance,
        }
        self._make(histogram, options, progress)
        warn_of_skipped(self.info.skipped, self.info.samples, "longer than a capacity")

    def _make(
        self,
        histogram: Histogram,
        given: PackingOptions,
        progress: bool | Progress | None = None,
    ) -> None:
        calls = Calls(progress=progress, what="packing")
        pack = _pack_options(calls, given, ONE_COLUMN)
        handle = ffi.new("sab_packing **")
        check(lib.sab_histogram_packing_new(histogram._handle, pack, handle), calls)
        self._handle = ffi.gc(handle[0], lib.sab_packing_free)
        self._made_from = histogram.to_bytes(), given

    def __reduce__(self) -> tuple[Any, ...]:
        return new_packing, self._made_from

    @property
    def info(self) -> PackedInfo:
        """Number of bins, fill, and the lower bound of any packing."""
        info = new_struct("sab_packed_info")
        check(lib.sab_packing_get_info(self._handle, info))
        return record_of(PackedInfo, info)

    @property
    def patterns(self) -> BinPatterns:
        """A copy of the bin patterns, in descending order of the cost of a bin."""
        count = ffi.new("size_t *")
        bins, begins = ffi.new("const uint64_t **"), ffi.new("const uint64_t **")
        lengths, sequences = ffi.new("const uint32_t **"), ffi.new("const uint32_t **")
        check(lib.sab_packing_get_patterns(self._handle, count, bins, begins, lengths, sequences))
        parts = int(begins[0][count[0]])
        return BinPatterns(
            array_of(bins[0], count[0], np.uint64),
            array_of(begins[0], count[0] + 1, np.uint64),
            array_of(lengths[0], parts, np.uint32),
            array_of(sequences[0], parts, np.uint32),
        )

    def locate(
        self,
        sizes: npt.ArrayLike,
        numbers: npt.ArrayLike,
        *,
        which: npt.ArrayLike | None = None,
        seed: int = 0,
        epoch: int = 0,
        world_size: int = 1,
        micro_batches: int = 1,
        last_step: LastStep = "split",
        costliest_first: int = 0,
    ) -> Places:
        """Tells where samples are in an epoch: the inverse of :class:`sab.PackedSampler` with these
        arguments. A bin is a batch. Pass many samples at once, as to :meth:`sab.Plan.locate`, whose
        arguments these are.

        Raises:
            ValueError: a sample that the packing does not have.
            UnsupportedError: the packing has split samples.

        >>> import sab
        >>> packing = sab.Packing(sab.Histogram([7, 3, 6, 2, 2]), capacity=10)
        >>> places = packing.locate([7, 3, 6, 2, 2], [0, 0, 0, 0, 1])
        >>> rows = list(sab.PackedSampler([7, 3, 6, 2, 2], capacity=10, method="best_fit"))
        >>> all(rows[b][k] == i for i, (b, k) in enumerate(zip(places.batches, places.slots)))
        True
        """
        order = order_of(locals())
        options = sampler_options(order)
        return located(lib.sab_packing_locate, self._handle, options, sizes, numbers, which)

    def __repr__(self) -> str:
        info = self.info
        return f"Packing({info.sequences:,} sequences in {info.bins:,} bins)"


def new_packing(histogram: bytes, options: PackingOptions) -> Packing:
    """The packing of the bytes of a histogram, without a warning."""
    made = Packing.__new__(Packing)
    made._make(Histogram.from_bytes(histogram), options)
    return made
