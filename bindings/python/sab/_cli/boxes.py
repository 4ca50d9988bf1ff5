"""Boxes of a plan over the density of samples with several sizes, in a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import sab
from sab._cli.tables import print_text, terminal_width
from sab._pictures import sides_of

_SHADES = " ·░▒▓"
_WIDEST, _HEIGHT = 80, 20


def print_boxes(sizes: npt.NDArray[Any], buckets: Sequence[sab.Bucket]) -> None:
    """Prints how many samples there are by the first two columns, on logarithmic axes, and the
    buckets with the most samples as boxes. Boxes without room, or over others, are left out.
    """
    across, up, *others = buckets[0].longest
    points = np.log1p(np.asarray(sizes, np.float64)[:, :2])
    low, high = points.min(0), points.max(0)
    marks = [_mark(each) for each in (high[1], (low[1] + high[1]) / 2, low[1])]
    margin = max(map(len, marks)) + 1
    cells = np.array([min(_WIDEST, terminal_width()) - margin, _HEIGHT])

    def place(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        shares = (values - low) / np.where(high > low, high - low, 1)
        found: npt.NDArray[np.int64] = np.clip((shares * cells).astype(np.int64), 0, cells - 1)
        return found

    picture = _shades(place(points), cells)
    ordered = [sides_of(b) for b in sorted(buckets, key=lambda bucket: -bucket.samples)]
    drawn = _draw(picture, [(place(np.log1p(a)), place(np.log1p(b))) for a, b in ordered])
    boxes = f"{drawn:,} of {len(buckets):,} boxes"
    rest = f"; {', '.join(others)} not shown" if others else ""
    print_text(f"Samples by {across} (to the right) and {up} (up), with {boxes}{rest}:")
    names = {0: marks[0], _HEIGHT // 2: marks[1], _HEIGHT - 1: marks[2]}
    for number, line in enumerate(picture[::-1]):
        print(f"{names.get(number, ''):>{margin - 1}} {''.join(line)}".rstrip())
    left, right = _mark(low[0]), _mark(high[0])
    print(f"{'':>{margin}}{left}{right:>{int(cells[0]) - len(left)}}")


def _mark(logarithm: float) -> str:
    size = float(np.expm1(logarithm))
    return f"{size:,.0f}" if size >= 10 else f"{size:.2g}"


def _shades(places: npt.NDArray[np.int64], cells: npt.NDArray[np.int64]) -> npt.NDArray[np.str_]:
    """A sign for each cell: the more samples, the darker."""
    counts = np.zeros((cells[1], cells[0]))
    np.add.at(counts, (places[:, 1], places[:, 0]), 1)
    share = np.log(np.maximum(counts, 1)) / max(1.0, float(np.log(counts.max())))
    darkness = np.minimum(share * (len(_SHADES) - 1), len(_SHADES) - 2).astype(int) + 1
    picture: npt.NDArray[np.str_] = np.array(list(_SHADES))[np.where(counts > 0, darkness, 0)]
    return picture


def _draw(picture: npt.NDArray[np.str_], boxes: Sequence[Any]) -> int:
    """Draws the boxes that have room, and returns how many. A box that touches another one is drawn
    smaller by a cell.
    """
    used, drawn = np.zeros(picture.shape, bool), 0
    for low, high in boxes:
        for smaller in itertools.product((0, 1), repeat=4):
            (x, y), (x_end, y_end) = low + smaller[:2], high - smaller[2:]
            if x_end > x and y_end > y and not used[y : y_end + 1, x : x_end + 1].any():
                used[y : y_end + 1, [x, x_end]] = used[[y, y_end], x : x_end + 1] = True
                picture[[y, y_end], x : x_end + 1] = "─"
                picture[y : y_end + 1, [x, x_end]] = "│"
                picture[[y, y, y_end, y_end], [x, x_end, x, x_end]] = list("└┘┌┐")
                drawn += 1
                break
    return drawn
