"""The pictures: sizes with bucket boundaries and the padding of each system; memory measured
against predicted, and batch sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import sab
from sab._cli.batch_sizes import Answer
from sab._cli.measure import Row
from sab._pictures import (
    INK,
    MUTED,
    OTHERS,
    OURS,
    bare,
    draw_buckets,
    in_bytes,
    logarithmic,
    matplotlib_module,
)


def _pyplot() -> Any:
    """matplotlib.pyplot for files, in the style of the pictures."""
    matplotlib_module().use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "font.size": 11,
            "text.color": INK,
            "axes.edgecolor": MUTED,
            "svg.hashsalt": "sab",
        }
    )
    return plt


def _save(plt: Any, figure: Any, path: str) -> None:
    figure.savefig(path, dpi=160, metadata={"Date": None} if path.endswith(".svg") else None)
    plt.close(figure)


def draw(
    path: str,
    title: str,
    sizes: npt.NDArray[Any],
    buckets: Sequence[sab.Bucket],
    rows: Sequence[Row],
) -> None:
    """Writes a .png or .svg; ``rows`` may be empty."""
    plt = _pyplot()
    top = 3.4 if np.ndim(sizes) == 1 else 5.4
    height = top + (0.9 + 0.42 * len(rows) if rows else 0)
    figure, axes = plt.subplots(
        2 if rows else 1,
        1,
        figsize=(9, height),
        height_ratios=[top - 0.4, 0.7 + 0.42 * len(rows)] if rows else [1],
        layout="constrained",
        squeeze=False,
    )
    figure.suptitle(title, x=0.012, ha="left", fontsize=15, fontweight="bold")
    draw_buckets(axes[0][0], buckets, np.asarray(sizes))
    if rows:
        _bars(axes[1][0], rows)
    _save(plt, figure, path)


def draw_memory(path: str, found: Answer, predicted: npt.NDArray[np.float64]) -> None:
    """Writes a .png or .svg of what was measured against what the model says, and of the batch size
    of each length.
    """
    plt = _pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    info = found.model.info
    figure.suptitle(
        f"{100 * info.residual:.2f} % off on average, {100 * info.margin:.1f} % margin",
        x=0.012,
        ha="left",
        fontsize=15,
        fontweight="bold",
    )
    largest = max(found.peaks.peaks.max(), found.budget)
    unit, symbol = in_bytes(left, "xy", largest)
    measured, budget = found.peaks.peaks / unit, found.budget / unit
    line = np.array([0, 1.05 * largest / unit])
    left.fill_between(line, line, line * (1 + info.margin), color=OURS, alpha=0.15, linewidth=0)
    left.plot(line, line, color=OURS, linewidth=1)
    left.axhline(budget, color=MUTED, linewidth=0.9, linestyle="--")
    left.text(0, budget, f" budget: {budget:,.4g} {symbol}", va="bottom", color=MUTED)
    left.plot(predicted / unit, measured, "o", color=INK, markersize=5)
    left.set(xlim=(0, line[1]), ylim=(0, line[1] * 1.06))
    left.set(xlabel=f"predicted, {symbol}", ylabel=f"measured, {symbol}")
    lengths = [size.length for size in found.sizes]
    counts = [size.batch_size for size in found.sizes]
    right.plot(lengths, counts, "o-", color=OURS, markersize=4, linewidth=1)
    logarithmic(right, "x", min(lengths), max(lengths))
    logarithmic(right, "y", max(1, min(counts)), max(counts))
    right.set(xlabel="padded length", ylabel="largest batch")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=INK)
    _save(plt, figure, path)


def _bars(axis: Any, rows: Sequence[Row]) -> None:
    places = np.arange(len(rows))[::-1]
    padding = [100 * row.padding for row in rows]
    axis.barh(
        places,
        padding,
        height=0.66,
        color=[OURS if row.system == "libsab" else OTHERS for row in rows],
    )
    most = max(padding) or 1
    for place, row, share in zip(places, rows, padding):
        weight = "bold" if row.system == "libsab" else "normal"
        label = f" {share:.1f} %   {row.batches:,} batches" + (
            "   (batch mates never change)" if row.meet_again > 0.99 else ""
        )
        axis.text(share, place, label, va="center", ha="left", fontweight=weight)
    axis.set_yticks(places, [row.system for row in rows])
    axis.set_xlim(0, most * 1.45)
    axis.set_xticks([])
    axis.spines["bottom"].set_visible(False)
    bare(axis)
    axis.set_title(
        "padding: share of what is computed that is nothing", loc="left", fontsize=11, color=INK
    )
