"""Reports: what an epoch of a plan has, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from sab._batch import PerColumn
from sab._display import Facts, as_html, plain, record_line
from sab._mixture import Name, SourceReport, source_table
from sab._pictures import axes_of, draw_padding

__all__ = ["Bucket", "Report"]

# Fields of a balanced report that have a number for each balanced cost.
OF_EACH_BALANCE = (
    "rank_imbalance",
    "largest_rank_imbalance",
    "micro_batch_imbalance",
    "time",
    "least_time",
)


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
    empty_batches: int
    steps: int
    least_step_samples: int
    most_step_samples: int
    step_samples_deviation: float
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
    shape_paddings: list[tuple[int, float]]
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
        step_samples_fact(report),
        ("padding", f"{100 * report.padding:.2f} %"),
    ]
    if len(report.totals) > 1:
        for name, padded in report.padded_totals.items():
            padding = 1 - report.totals[name] / padded if padded else 0.0
            rows.append((f"padding of {name}", f"{100 * padding:.2f} %"))
    rows += [
        ("target (padding, extra batches)", target),
        ("distinct shapes", f"{report.shapes:,}"),
    ]
    if report.empty_batches:
        rows.append(("batches without a sample", f"{report.empty_batches:,}"))
    rows += [
        (f"padding with {shapes:,} shapes", f"{100 * padding:.2f} %")
        for shapes, padding in report.shape_paddings
    ]
    rows += [
        ("rank imbalance (1: none)", f"{report.rank_imbalance:.4f}"),
        ("batch mates that meet again next epoch", f"{100 * report.meet_again:.2f} %"),
        ("possible batch mates of a sample", f"{report.partners:,.0f}"),
        ("correlation of successive lengths", f"{report.length_correlation:.3f}"),
        ("variance between batches (1: random)", f"{report.variance_ratio:.2f}"),
    ]
    return rows


def step_samples_fact(report: Any) -> tuple[str, str]:
    """Of a report of a plan, a balanced or a packed sampler."""
    return (
        "samples of a step, over all ranks",
        f"{report.least_step_samples:,} to {report.most_step_samples:,} "
        f"(± {report.step_samples_deviation:,.1f})",
    )


def report_text(facts: Facts, sources: Mapping[Name, SourceReport]) -> str:
    """A line for each fact of a balanced, packed or sharded sampler, then the table of sources."""
    lines = [f"{name}{value:>{62 - len(name)}}" for name, value in facts]
    return "\n".join([*lines, *source_lines(sources)])


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
