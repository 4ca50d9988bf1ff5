"""Batches cut into groups of like lengths."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from sab._native import Calls, Progress, check, ffi, lib, new_options, whole
from sab._plan import Cost, set_cost
from sab._sizes import SizesLike, as_sizes

_METHODS = {"least_total": lib.SAB_THRESHOLDS_LEAST_TOTAL, "least_worst": lib.SAB_THRESHOLDS_LEAST_WORST, "randomised": lib.SAB_THRESHOLDS_RANDOMISED}


class Thresholds(NamedTuple):
    """What :func:`find_thresholds` found, and what the groups cost, each being one batch.

    The last five count how searches of ``method="randomised"`` ended: with groups of the same cost, in circles, by ``tolerate``, at the shortest or longest
    length, beside another threshold.
    """

    thresholds: npt.NDArray[np.float64]
    total: float
    worst: float
    largest_difference: float
    even: int
    repeated: int
    not_tolerated: int
    extreme: int
    narrow: int


def find_thresholds(
    lengths: SizesLike,
    k: int,
    cost: Cost = "padded",
    *,
    method: str = "least_total",
    cost_per_sample: bool = False,
    num_trials: int = 100,
    tolerate: Optional[int] = None,
    seed: int = 0,
    starts: Optional[npt.ArrayLike] = None,
    progress: "bool | Progress | None" = None,
) -> Thresholds:
    """Finds ``k`` lengths that cut a data set into ``k + 1`` groups: up to the first, above it up to the second, ..., above the last.

    Args:
        lengths: anything that :class:`sab.Sizes` takes.
        k: number of thresholds, below the number of distinct lengths.
        cost: what a group costs, of its count and its longest length: as for :func:`sab.plan`.
        method: ``"least_total"``: the groups that cost least in sum, exactly; ``"least_worst"``: those whose costliest costs least, exactly;
            ``"randomised"``: groups of about the same cost, by asym's greedy search from random places.
        cost_per_sample: a group costs ``count * cost(1, longest)``; a function is then called once for each distinct length only.
        num_trials, tolerate: of ``"randomised"``: searches, and how many steps of each need not make the largest difference between neighbours smaller (by default twice the
            number of distinct lengths).
        seed: of ``"randomised"``: searches begin at ``random.Random(seed).sample(range(distinct lengths), k)``.
        starts: instead, an array of ``num_trials`` rows of ``k`` numbers of distinct lengths.
        progress: True for a bar, or ``progress(done, total)``.

    Raises:
        ValueError: an argument breaks a rule; and whatever the cost raises.

    >>> import sab
    >>> sab.find_thresholds([1] * 64 + [4] * 16 + [16] * 4 + [64], k=3).thresholds.tolist()
    [1.0, 4.0, 16.0]
    """
    if method not in _METHODS:
        raise ValueError(f"method = {method!r}: must be one of {', '.join(map(repr, _METHODS))}")
    k = whole("k", k, 1)
    options = new_options("sab_thresholds_options")
    calls = Calls(cost=cost if callable(cost) else None, progress=progress, what="thresholds")
    keep = set_cost(options, cost, calls)
    options.method = _METHODS[method]
    options.cost_per_sample = bool(cost_per_sample)
    options.num_trials = whole("num_trials", num_trials, 1)
    if tolerate is not None:
        options.tolerate = whole("tolerate", tolerate)
    options.seed = whole("seed", seed)
    if starts is not None:
        rows: npt.NDArray[Any] = np.asarray(starts)
        if rows.shape != (num_trials, k) or rows.dtype.kind not in "iu" or (rows < 0).any():
            raise ValueError(f"starts has shape {rows.shape} and dtype {rows.dtype}: must be ({num_trials}, {k}) whole numbers of at least 0")
        rows = np.ascontiguousarray(rows, np.uint64)
        keep.append(rows)
        options.starts = ffi.cast("uint64_t *", rows.ctypes.data)
    options.progress, options.progress_ctx = lib.sab_py_progress, calls.handle
    sizes = as_sizes(lengths)
    # Checked by the library as well, but not before there is room for them.
    if k >= max(len(sizes), 1):
        raise ValueError(f"k = {k}: must be below the number of lengths, {len(sizes)}")
    thresholds = np.empty(k, np.float64)
    info = ffi.new("sab_thresholds_info *")
    info.struct_size = ffi.sizeof("sab_thresholds_info")
    check(lib.sab_find_thresholds(sizes._handle, k, options, ffi.cast("double *", thresholds.ctypes.data), info), calls)
    return Thresholds(thresholds, *(getattr(info, field) for field in Thresholds._fields[1:]))
