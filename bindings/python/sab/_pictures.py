"""Pictures of plans and of memory, with matplotlib: for ``plot()`` and for the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

Bucket = Any  # those of sab._report, which imports this module
Report = Any
# Okabe-Ito blue beside greys: safe for colour-blind eyes.
INK, MUTED, OURS, OTHERS = "#222222", "#8a8a8a", "#0072b2", "#b9c4cc"
Sides = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
_BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def matplotlib_module() -> Any:
    """matplotlib, or an error that says how to get it."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError('pictures need matplotlib: pip install "libsab[cli]"') from None
    return matplotlib


def axes_of(ax: Any, height: float) -> Any:
    """The caller's axes, or those of a new figure."""
    matplotlib_module()
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    _, made = plt.subplots(figsize=(9, height), layout="constrained")
    return made


def byte_unit(largest: float) -> tuple[float, str]:
    """The bytes of the unit in which the largest number of an axis has one to four digits, and its
    name.
    """
    power = min(int(np.log2(max(largest, 1)) // 10), len(_BYTE_UNITS) - 1)
    return float(1 << 10 * power), _BYTE_UNITS[power]


def round_numbers(low: float, high: float) -> list[float]:
    """From three to about seven round numbers of a logarithmic axis from `low` to `high`."""
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        made = [step * 10.0**decade for decade in decades for step in steps]
        inside = [number for number in made if low <= number <= high]
        if len(inside) >= 3:
            return inside[:: 1 + len(inside) // 8]
    from matplotlib.ticker import MaxNLocator

    ticks = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
    return [float(number) for number in ticks if low <= number <= high]


def logarithmic(axis: Any, name: str, low: float, high: float) -> None:
    """Makes one axis ("x" or "y") logarithmic, with round numbers from `low` to `high` as ticks."""
    from matplotlib.ticker import NullLocator

    getattr(axis, f"set_{name}scale")("log")
    ticks = round_numbers(low, high) if 0 < low < high else [high]
    getattr(axis, f"set_{name}ticks")(ticks, [f"{number:,.10g}" for number in ticks])
    getattr(axis, f"{name}axis").set_minor_locator(NullLocator())


def in_bytes(axis: Any, names: str, largest: float) -> tuple[float, str]:
    """Gives axes ("x", "y" or "xy") of up to so many bytes round ticks. Returns the bytes of their
    unit and its name.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    unit, symbol = byte_unit(largest)
    for name in names:
        each = getattr(axis, f"{name}axis")
        each.set_major_locator(MaxNLocator(5, steps=[1, 2, 4, 5, 8, 10]))
        each.set_major_formatter(FuncFormatter(_number))
    return unit, symbol


def _number(value: float, position: object) -> str:
    return f"{value:,g}"


def bare(axis: Any) -> None:
    """Leaves only the lower line of the axes."""
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(length=0, colors=INK)


def draw_buckets(axis: Any, buckets: Sequence[Bucket], sizes: npt.NDArray[Any] | None) -> None:
    """Draws buckets over the sizes of the samples; None: only how many each bucket has."""
    if buckets and isinstance(buckets[0].longest, dict):
        _boxes(axis, buckets, sizes)
    else:
        _histogram(axis, buckets, sizes)


def sides_of(bucket: Bucket) -> Sides:
    """The shortest and the longest of the first two columns."""
    ends: tuple[Any, Any] = bucket.shortest, bucket.longest
    low, high = (list(each.values())[:2] for each in ends)
    return np.array(low), np.array(high)


def spans_of(buckets: Sequence[Bucket]) -> Sides:
    """The left edge and the width of a bar for each bucket of one column. The bar of a bucket of
    one whole number is 1 wide.
    """
    ends: list[Any] = [(bucket.shortest, bucket.longest) for bucket in buckets]
    low, high = np.array(ends, np.float64).reshape(-1, 2).T
    if np.array_equal(low, np.floor(low)) and np.array_equal(high, np.floor(high)):
        return low - 0.5, high - low + 1
    gaps = np.diff(np.unique(np.concatenate([low, high])))
    return low, np.maximum(high - low, gaps.min(initial=np.inf))


def _histogram(axis: Any, buckets: Sequence[Bucket], sizes: npt.NDArray[Any] | None) -> None:
    boundaries: list[Any] = [bucket.longest for bucket in buckets]
    count, beyond = sum(bucket.samples for bucket in buckets), 0
    if sizes is None:
        left, widths = spans_of(buckets)
        heights = [bucket.samples for bucket in buckets] / widths
        axis.bar(left, heights, widths, align="edge", color=OTHERS, zorder=2)
        low, top = float(left.min(initial=0.0)), float((left + widths).max(initial=1.0))
    else:
        low, top = 0.0, float(np.quantile(sizes, 0.999)) * 1.05 + 1
        whole = np.array_equal(sizes, np.floor(sizes))
        bins = (
            np.arange(0, top + 1, max(1, round(top / 160))) - 0.5
            if whole
            else np.linspace(0, top, 160)
        )
        axis.hist(sizes, bins=bins, color=OTHERS, zorder=2)
        count, beyond = len(sizes), int((sizes > top).sum())
    shown = [boundary for boundary in boundaries if boundary <= top]
    axis.vlines(
        shown, 0, 0.06, transform=axis.get_xaxis_transform(), color=OURS, linewidth=0.9, zorder=3
    )
    axis.set_xlim(low, top)
    axis.set_ylim(0, 1.25 * axis.get_ylim()[1])  # room for the notes
    axis.set_yticks([])
    bare(axis)
    axis.set_xlabel("size of a sample")
    notes = (
        (0.97, INK, f"{count:,} samples" + (f", {beyond:,} longer ones not shown" * (beyond > 0))),
        (0.86, OURS, f"{len(boundaries):,} bucket boundaries"),
    )
    for height, color, note in notes:
        axis.text(
            1, height, note, transform=axis.transAxes, ha="right", va="top", color=color, zorder=4
        )


def _boxes(axis: Any, buckets: Sequence[Bucket], sizes: npt.NDArray[Any] | None) -> None:
    """The first two columns, on logarithmic axes."""
    import matplotlib.colors
    from matplotlib.patches import Rectangle

    sides = [sides_of(bucket) for bucket in buckets]
    count = sum(bucket.samples for bucket in buckets)
    corners = np.concatenate([np.array(each) for each in sides])
    points = corners if sizes is None else np.asarray(sizes, np.float64)[:, :2]
    offsets = (points.min(0) < 1).astype(int)  # a logarithmic axis has no 0
    if sizes is not None:
        count = len(points)
        bins = [_edges(each) for each in (points + offsets).T]
        shades = matplotlib.colors.LogNorm()
        axis.hist2d(*(points + offsets).T, bins=bins, cmap="Greys", norm=shades, zorder=2)
    for low, high in sides:
        side = Rectangle(
            low + offsets, *(high - low), fill=False, edgecolor=OURS, linewidth=0.7, zorder=3
        )
        axis.add_patch(side)
    names: Any = buckets[0].longest
    for name, column, offset, ends in zip("xy", names, offsets, (points + offsets).T):
        least, most = float(ends.min()), float(ends.max())
        logarithmic(axis, name, least, most)
        getattr(axis, f"set_{name}lim")(least / 1.1, most * 1.1)
        getattr(axis, f"set_{name}label")(f"{column}{' + 1' if offset else ''}")
    axis.spines[["top", "right"]].set_visible(False)
    note = f"{count:,} samples, {len(buckets):,} buckets (boxes)"
    axis.set_title(note, loc="left", fontsize=11, color=INK)


def _edges(sizes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Edges of equal width on a logarithmic axis; those of whole numbers are between them."""
    low, high = float(sizes.min()), float(sizes.max())
    edges: npt.NDArray[np.float64] = low * (high / low) ** np.linspace(0, 1, 120)
    if not np.array_equal(sizes, np.floor(sizes)):
        return edges
    return np.append(np.unique(np.round(edges)), sizes.max() + 1) - 0.5


def draw_padding(axis: Any, report: Report) -> None:
    """Draws the padding of each bucket, by the lengths of its samples, or by its number where they
    have several.
    """
    buckets = [bucket for bucket in report.buckets if bucket.samples]
    shares = [100 * _padding_of(bucket) for bucket in buckets]
    if len(report.totals) > 1:
        left, widths = np.arange(len(buckets)) - 0.5, np.ones(len(buckets))
        axis.set_xlabel("bucket")
    else:
        left, widths = spans_of(buckets)
        axis.set_xlabel("size of a sample")
    axis.bar(left, shares, widths, align="edge", color=OTHERS, edgecolor="white", linewidth=0.3)
    whole = 100 * report.padding
    axis.axhline(whole, color=OURS, linewidth=1)
    axis.text(
        1,
        whole,
        f"all: {whole:.2f} %",
        transform=axis.get_yaxis_transform(),
        ha="right",
        va="bottom",
        color=OURS,
    )
    axis.set_ylabel("padding, %")
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(colors=INK)
    note = f"{report.batches:,} batches in {len(report.buckets):,} buckets"
    axis.set_title(note, loc="left", fontsize=11, color=INK)


def _padding_of(bucket: Bucket) -> float:
    """The share of padding of a bucket's batches, over all columns."""
    total: Any = bucket.total
    length: Any = bucket.padded_length
    if isinstance(length, dict):
        total, length = sum(total.values()), sum(cast("dict[str, float]", length).values())
    padded = bucket.samples * length
    return 1 - total / padded if padded else 0.0
