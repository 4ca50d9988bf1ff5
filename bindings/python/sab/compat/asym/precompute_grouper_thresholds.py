"""``asym.precompute_grouper_thresholds``: length thresholds between groups of about the same cost,
draw for draw from Python's ``random``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

import sab

__all__ = ["find_thresholds"]

_STATUSES = {
    "perfect": "even",
    "repeated": "repeated",
    "could not tolerate": "not_tolerated",
    "extreme": "extreme",
    "narrow gap": "narrow",
}


def _search(
    l: Sequence[int],  # noqa: E741  # asym's name
    cost_fn: Callable[[int], Any],
    k: int,
    tolerate: int | None,
    num_trials: int,
) -> tuple[list[int], Any, sab.Thresholds]:
    lengths: npt.NDArray[Any] = np.asarray(l)
    if lengths.size == 0 or lengths.dtype.kind not in "iu" or lengths.min() <= 0:
        raise ValueError("lengths must be positive integers")
    xs = np.unique(lengths)
    if len(xs) < k + 1:
        raise ValueError(f"{k} is too big")
    starts = [random.sample(range(len(xs)), k) for _ in range(num_trials)]
    costs: dict[int, Any] = {}

    def cost(count: int, length: float) -> float:
        costs[int(length)] = cost_fn(int(length))
        return float(costs[int(length)])

    found = sab.find_thresholds(
        lengths,
        k,
        cost=cost,
        method="randomised",
        cost_per_sample=True,
        num_trials=num_trials,
        tolerate=tolerate,
        starts=starts,
    )
    thresholds = [int(threshold) for threshold in found.thresholds]
    counts = np.bincount(np.searchsorted(thresholds, lengths), minlength=k + 1).tolist()
    of_groups = [
        costs[x] * count for x, count in zip([*thresholds, int(xs[-1])], counts)
    ]  # in the type of cost_fn's numbers
    return thresholds, max(abs(b - a) for a, b in zip(of_groups, of_groups[1:])), found


def _find_thresholds(  # pyright: ignore[reportUnusedFunction]  # a name of asym's
    l: Sequence[int],  # noqa: E741  # asym's name
    cost_fn: Callable[[int], Any],
    k: int,
    tolerate: int | None = None,
) -> tuple[list[int], Any, str]:
    """One search: the thresholds, the largest difference of cost between neighbouring groups, and
    how the search ended.
    """
    thresholds, max_diff, found = _search(l, cost_fn, k, tolerate, 1)
    return (
        thresholds,
        max_diff,
        next(status for status, field in _STATUSES.items() if getattr(found, field)),
    )


def find_thresholds(
    l: Sequence[int],  # noqa: E741  # asym's name
    cost_fn: Callable[[int], Any],
    k: int,
    tolerate: int | None = None,
    print_status: bool = False,
    num_trials: int = 100,
    return_max_diff: bool = False,
) -> list[int] | tuple[list[int], Any]:
    """Thresholds between ``k + 1`` groups of about the same cost ``cost_fn(longest) * count``: the
    best of ``num_trials`` searches.

    For the same state of Python's ``random`` the thresholds are those of asym, and ``random`` is
    left as asym leaves it. :func:`sab.find_thresholds` finds those that cost least, exactly.

    Args:
        l: the lengths, positive whole numbers.
        cost_fn: the cost of a batch of one, of its length; not negative; called once for each
            distinct length.
        k: number of thresholds.
        tolerate: steps of a search that need not make the largest difference smaller; by default
            twice the number of distinct lengths.
        print_status: print how many searches ended how.
        num_trials: number of searches.
        return_max_diff: give the largest difference of cost between neighbouring groups, too.

    Raises:
        ValueError: lengths are not positive integers, or there are not more distinct ones than
            ``k``.

    >>> lengths = [1] * 64 + [4] * 16 + [16] * 4 + [64]
    >>> find_thresholds(lengths, cost_fn=lambda x: x, k=3, return_max_diff=True)
    ([1, 4, 16], 0)
    """
    thresholds, max_diff, found = _search(l, cost_fn, k, tolerate, num_trials)
    if print_status:
        print(
            {
                status: getattr(found, field)
                for status, field in _STATUSES.items()
                if getattr(found, field)
            }
        )
    return (thresholds, max_diff) if return_max_diff else thresholds
