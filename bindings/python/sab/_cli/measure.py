"""One row of the comparison: a system, its batches, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Callable, NamedTuple

import numpy as np
import numpy.typing as npt

from sab._cli.baselines import rows_of


class Row(NamedTuple):
    """Figures of one system. ``largest_batch`` is the largest padded total of a batch,
    ``meet_again`` the share of batch mates that are in one batch again in the next epoch.
    """

    system: str
    batches: int
    padding: float
    over_lower_bound: float
    largest_batch: float
    meet_again: float
    seconds: float


def measure(
    system: str,
    sizes: npt.NDArray[Any],
    budget: float,
    epoch: Callable[[int], Iterable[npt.NDArray[np.int64]]],
) -> Row:
    """Runs two epochs, times the first, and counts."""
    start = time.perf_counter()
    batches = list(epoch(0))
    seconds = time.perf_counter() - start
    counts = np.array([len(batch) for batch in batches])
    order = np.concatenate(batches)
    ordered = rows_of(sizes)[order]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    padded = counts * np.maximum.reduceat(ordered, starts).sum(1)
    total = float(ordered.sum())

    batch_of = np.empty(len(sizes), np.int64)
    for number, batch in enumerate(epoch(1)):
        batch_of[batch] = number
    # Pairs of this epoch that share a batch of the next: equal (batch now, batch then) in a sorted
    # list.
    keys = np.sort(
        np.repeat(np.arange(len(counts)), counts) * np.int64(len(sizes)) + batch_of[order]
    )
    together = np.unique(keys, return_counts=True)[1].astype(np.float64)
    pairs = float((counts * (counts - 1.0)).sum())
    meet = float((together * (together - 1)).sum()) / pairs if pairs else 0.0
    bound = max(1, int(np.ceil(total / budget)))
    return Row(
        system,
        len(batches),
        1 - total / float(padded.sum()) if padded.sum() else 0.0,
        len(batches) / bound,
        float(padded.max()),
        meet,
        seconds,
    )
