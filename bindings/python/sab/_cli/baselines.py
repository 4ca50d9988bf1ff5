"""What others do with the same sizes: an epoch as a list of batches of indices. Each is a plain
re-telling of a published method.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Batches = list[Indices]


def static(sizes: npt.NDArray[Any], batch_size: int, rng: np.random.Generator) -> Batches:
    """A shuffle cut into batches of one size: torch's ``DataLoader(shuffle=True,
    batch_size=...)``.
    """
    order = rng.permutation(len(sizes))
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]


def greedy(order: Indices, sizes: npt.NDArray[Any], budget: float) -> Batches:
    """``order`` cut so that no batch's count times longest exceeds the budget."""
    batches: Batches = []
    ordered = np.asarray(sizes)[order].astype(np.float64)
    begin, count = 0, len(ordered)
    while begin < count:
        # No more than budget / first fit after the first; within that, the first place where (count
        # * longest) is over the budget.
        window = int(max(1, min(count - begin, budget // max(float(ordered[begin]), 1e-300))))
        longest = np.maximum.accumulate(ordered[begin : begin + window])
        over = longest * np.arange(1, window + 1) > budget
        end = begin + max(1, int(over.argmax()) if over.any() else window)
        batches.append(order[begin:end])
        begin = end
    return batches


def sorted_windows(
    sizes: npt.NDArray[Any], budget: float, rng: np.random.Generator, window: int = 10_000
) -> Batches:
    """Windows of a shuffle, each sorted and cut by the budget, batches shuffled: infinibatch's
    ``BucketedReadaheadBatchIterator``.
    """
    order = rng.permutation(len(sizes))
    batches: Batches = []
    for begin in range(0, len(order), window):
        part = order[begin : begin + window]
        longest_first = np.argsort(-np.asarray(sizes, np.float64)[part], kind="stable")
        made: Batches = greedy(part[longest_first], sizes, budget)
        shuffled: list[int] = rng.permutation(len(made)).tolist()
        batches.extend(made[i] for i in shuffled)
    return batches


def quantile_buckets(
    sizes: npt.NDArray[Any], budget: float, rng: np.random.Generator, count: int = 30
) -> Batches:
    """Buckets with equally many samples, each shuffled, batches of ``budget // longest``, shuffled:
    what bionemo and lhotse users set up.
    """
    array = np.asarray(sizes)
    edges = np.unique(np.quantile(array, np.linspace(0, 1, count + 1)[1:], method="higher"))
    bucket_of = np.searchsorted(edges, array, side="left")
    batches: Batches = []
    for bucket, edge in enumerate(edges.tolist()):
        members = rng.permutation(np.flatnonzero(bucket_of == bucket))
        batch_size = int(max(1, budget // max(edge, 1e-300)))
        batches.extend(members[i : i + batch_size] for i in range(0, len(members), batch_size))
    return [batches[i] for i in rng.permutation(len(batches))]


def whole_sort(sizes: npt.NDArray[Any], budget: float, rng: np.random.Generator) -> Batches:
    """All samples sorted once and cut by the budget, batches shuffled: fairseq's ``batch_by_size``.
    Batch mates never change.
    """
    made = greedy(np.argsort(np.asarray(sizes), kind="stable"), sizes, budget)
    return [made[i] for i in rng.permutation(len(made))]
