"""The command ``sab sizes``: quantiles and a histogram."""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt

import sab
from sab._cli.options import Commands, add_inputs, read
from sab._cli.tables import print_json, print_table, print_text, terminal_width

_QUANTILES = (0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1)
_ROWS = 12  # of the histogram
_WIDEST_BAR = 50
_PART = 1 << 20  # sizes in memory at a time


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    sizes = commands.add_parser("sizes", help="print quantiles and a histogram of the sizes")
    add_inputs(sizes)
    sizes.add_argument("--json", action="store_true", help="print JSON instead of a table")
    sizes.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    sizes, counts = _distinct(read(options))
    samples, total = int(counts.sum()), float(sizes @ counts)
    found = _quantiles(sizes, counts)
    if options.json:
        facts = {
            "samples": samples,
            "total": total,
            "mean": total / samples,
            "quantiles": {f"{share:g}": value for share, value in zip(_QUANTILES, found)},
        }
        print_json(facts)
        return
    print_table(
        f"{samples:,} samples, total size {total:,.0f}, mean {total / samples:,.1f}",
        ["samples up to this size", "size"],
        [[_name(share), f"{value:,.10g}"] for share, value in zip(_QUANTILES, found)],
    )
    _print_histogram(sizes, counts, found)


def _distinct(sizes: sab.Sizes) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The sizes that occur, ascending, and how often; in the memory of these and of a part of all
    sizes.
    """
    values, counts = np.empty(0), np.empty(0, np.int64)
    for begin in range(0, len(sizes), _PART):
        part, part_counts = np.unique(sizes[begin : begin + _PART], return_counts=True)
        merged, places = np.unique(np.concatenate([values, part]), return_inverse=True)
        both = np.concatenate([counts, part_counts])
        counts = np.zeros(len(merged), np.int64)
        np.add.at(counts, places, both)
        values = merged
    return values, counts


def _quantiles(sizes: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]) -> list[float]:
    """For each share the smallest size that at least this share of the samples does not exceed."""
    below = np.cumsum(counts)
    places = np.searchsorted(below, [share * int(below[-1]) for share in _QUANTILES])
    found: list[float] = sizes[places].tolist()
    return found


def _name(share: float) -> str:
    return {0: "smallest", 0.5: "50 % (median)", 1: "largest"}.get(share, f"{100 * share:g} %")


def _print_histogram(
    sizes: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], quantiles: list[float]
) -> None:
    """Prints samples in intervals of equal width up to the 99 % quantile, and in one above it."""
    low, high = quantiles[0], quantiles[_QUANTILES.index(0.99)]
    if low == high:
        return
    edges = np.linspace(low, high, _ROWS + 1)
    if all(float(value).is_integer() for value in quantiles):
        edges = np.unique(np.ceil(edges))
    heights: list[int] = np.histogram(sizes, edges, weights=counts)[0].tolist()
    beyond = int(counts[sizes > high].sum())
    labels = [f"{edge:,.6g}" for edge in edges.tolist()]
    names = [f"{left} to {right}" for left, right in zip(labels, labels[1:])]
    if beyond:
        names.append(f"above {labels[-1]}")
        heights.append(beyond)
    wide, digits = max(map(len, names)), max(len(f"{height:,}") for height in heights)
    room = min(_WIDEST_BAR, max(1, terminal_width() - wide - digits - 4))
    print_text("Samples by size:")
    for name, height in zip(names, heights):
        bar = "█" * round(room * height / max(heights))
        print(f"{name:>{wide}}  {height:>{digits},}  {bar}".rstrip())
