"""The command ``sab sizes``: quantiles and a histogram."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from sab._cli.options import Commands, add_inputs, read
from sab._cli.tables import print_table, print_text, terminal_width

_QUANTILES = (0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1)
_ROWS = 12  # of the histogram
_WIDEST_BAR = 50


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    sizes = commands.add_parser("sizes", help="print quantiles and a histogram of the sizes")
    add_inputs(sizes)
    sizes.add_argument("--json", action="store_true", help="print JSON instead of a table")
    sizes.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    sizes = read(options)
    total = float(np.sum(sizes, dtype=np.float64))
    found: list[float] = np.quantile(sizes, _QUANTILES, method="inverted_cdf").tolist()
    if options.json:
        facts = {
            "samples": len(sizes),
            "total": total,
            "mean": total / len(sizes),
            "quantiles": {f"{share:g}": value for share, value in zip(_QUANTILES, found)},
        }
        print(json.dumps(facts, indent=2))
        return
    print_table(
        f"{len(sizes):,} samples, total size {total:,.0f}, mean {total / len(sizes):,.1f}",
        ["samples up to this size", "size"],
        [[_name(share), f"{value:,.10g}"] for share, value in zip(_QUANTILES, found)],
    )
    _print_histogram(sizes, found)


def _name(share: float) -> str:
    return {0: "smallest", 0.5: "50 % (median)", 1: "largest"}.get(share, f"{100 * share:g} %")


def _print_histogram(sizes: npt.NDArray[Any], quantiles: list[float]) -> None:
    """Prints samples in intervals of equal width up to the 99 % quantile, and in one above it."""
    low, high = quantiles[0], quantiles[_QUANTILES.index(0.99)]
    if low == high:
        return
    edges = np.linspace(low, high, _ROWS + 1)
    if all(float(value).is_integer() for value in quantiles):
        edges = np.unique(np.ceil(edges))
    counts: list[int] = np.histogram(sizes, edges)[0].tolist()
    beyond = int(np.count_nonzero(np.asarray(sizes) > high))
    labels = [f"{edge:,.6g}" for edge in edges.tolist()]
    names = [f"{left} to {right}" for left, right in zip(labels, labels[1:])]
    if beyond:
        names.append(f"above {labels[-1]}")
        counts.append(beyond)
    wide, digits = max(map(len, names)), max(len(f"{count:,}") for count in counts)
    room = min(_WIDEST_BAR, max(1, terminal_width() - wide - digits - 4))
    print_text("Samples by size:")
    for name, count in zip(names, counts):
        bar = "█" * round(room * count / max(counts))
        print(f"{name:>{wide}}  {count:>{digits},}  {bar}".rstrip())
