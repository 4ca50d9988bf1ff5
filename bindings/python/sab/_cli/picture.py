"""The pictures: sizes with bucket boundaries and the padding of each system; memory measured
against predicted, and batch sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sab._cli.batch_sizes import Answer
from sab._cli.inputs import InputError
from sab._cli.measure import Row

INK, MUTED, OURS, OTHERS = (
    "#222222",
    "#8a8a8a",
    "#0072b2",
    "#b9c4cc",
)  # Okabe-Ito blue beside greys: safe for colour-blind eyes


def _pyplot() -> Any:
    """matplotlib.pyplot for files, in the style of the pictures."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("--picture needs matplotlib: pip install 'libsab[cli]'") from None

    matplotlib.use("Agg")
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
    boundaries: Sequence[float],
    rows: Sequence[Row],
) -> None:
    """Writes a .png or .svg; ``rows`` may be empty."""
    plt = _pyplot()
    height = 3.4 + (0.9 + 0.42 * len(rows) if rows else 0)
    figure, axes = plt.subplots(
        2 if rows else 1,
        1,
        figsize=(9, height),
        height_ratios=[3, 0.7 + 0.42 * len(rows)] if rows else [1],
        layout="constrained",
        squeeze=False,
    )
    figure.suptitle(title, x=0.012, ha="left", fontsize=15, fontweight="bold")
    _histogram(axes[0][0], sizes, boundaries)
    if rows:
        _bars(axes[1][0], rows)
    _save(plt, figure, path)


def draw_memory(path: str, found: Answer, predicted: npt.NDArray[np.float64]) -> None:
    """Writes a .png or .svg of what was measured against what the model says, and of the batch size
    of each length.
    """
    plt = _pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    info, mebibyte = found.model.info, 1 << 20
    figure.suptitle(
        f"{100 * info.residual:.2f} % off on average, {100 * info.margin:.1f} % margin",
        x=0.012,
        ha="left",
        fontsize=15,
        fontweight="bold",
    )
    measured = found.peaks.peaks / mebibyte
    line = np.array([0, 1.05 * max(measured.max(), found.budget / mebibyte)])
    left.fill_between(line, line, line * (1 + info.margin), color=OURS, alpha=0.15, linewidth=0)
    left.plot(line, line, color=OURS, linewidth=1)
    left.axhline(found.budget / mebibyte, color=MUTED, linewidth=0.9, linestyle="--")
    left.text(0, found.budget / mebibyte, " budget", va="bottom", color=MUTED)
    left.plot(predicted / mebibyte, measured, "o", color=INK, markersize=5)
    left.set(
        xlim=(0, line[1]), ylim=(0, line[1] * 1.06), xlabel="predicted, MiB", ylabel="measured, MiB"
    )
    right.plot(
        [size.length for size in found.sizes],
        [size.batch_size for size in found.sizes],
        "o-",
        color=OURS,
        markersize=4,
        linewidth=1,
    )
    right.set(xscale="log", yscale="log", xlabel="padded length", ylabel="largest batch")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=INK)
    _save(plt, figure, path)


def _bare(axis: Any) -> None:
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(length=0, colors=INK)


def _histogram(axis: Any, sizes: npt.NDArray[Any], boundaries: Sequence[float]) -> None:
    array = np.asarray(sizes)
    top = float(np.quantile(array, 0.999)) * 1.05 + 1
    whole = np.issubdtype(array.dtype, np.integer)
    bins = (
        np.arange(0, top + 1, max(1, round(top / 160))) - 0.5 if whole else np.linspace(0, top, 160)
    )
    axis.hist(array, bins=bins, color=OTHERS, zorder=2)
    shown = [boundary for boundary in boundaries if boundary <= top]
    axis.vlines(
        shown, 0, 0.06, transform=axis.get_xaxis_transform(), color=OURS, linewidth=0.9, zorder=3
    )
    axis.set_xlim(0, top)
    axis.set_yticks([])
    _bare(axis)
    axis.set_xlabel("size of a sample")
    beyond = int((array > top).sum())
    note = f"{len(array):,} samples" + (f", {beyond:,} longer ones not shown" if beyond else "")
    axis.text(1, 0.97, note, transform=axis.transAxes, ha="right", va="top", color=INK)
    axis.text(
        1,
        0.86,
        f"{len(boundaries):,} bucket boundaries",
        transform=axis.transAxes,
        ha="right",
        va="top",
        color=OURS,
    )


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
    _bare(axis)
    axis.set_title(
        "padding: share of what is computed that is nothing", loc="left", fontsize=11, color=INK
    )
