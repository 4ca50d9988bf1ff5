"""What others do with the same sizes: an epoch as a list of batches of indices. Each is a plain
re-telling of a published method. Sizes with several columns are the rows of a 2-D array; a batch
then costs its count times the sum of the longest of each column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Batches = list[Indices]


def rows_of(sizes: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Sizes as rows with a number for each column."""
    return np.asarray(sizes, np.float64).reshape(len(sizes), -1)


def static(sizes: npt.NDArray[Any], batch_size: int, rng: np.random.Generator) -> Batches:
    """A shuffle cut into batches of one size: torch's ``DataLoader(shuffle=True,
    batch_size=...)``.
    """
    order = rng.permutation(len(sizes))
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]


def greedy(order: Indices, sizes: npt.NDArray[Any], budget: float) -> Batches:
    """``order`` cut so that no batch's count times longest exceeds the budget."""
    batches: Batches = []
    ordered = rows_of(sizes)[order]
    begin, count = 0, len(ordered)
    while begin < count:
        # No more than budget / first fit after the first; within that, the first place where (count
        # * longest) is over the budget.
        window = int(max(1, min(count - begin, budget // max(float(ordered[begin].sum()), 1e-300))))
        longest = np.maximum.accumulate(ordered[begin : begin + window]).sum(1)
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
    order, lengths = rng.permutation(len(sizes)), rows_of(sizes).sum(1)
    batches: Batches = []
    for begin in range(0, len(order), window):
        part = order[begin : begin + window]
        longest_first = np.argsort(-lengths[part], kind="stable")
        made: Batches = greedy(part[longest_first], sizes, budget)
        shuffled: list[int] = rng.permutation(len(made)).tolist()
        batches.extend(made[i] for i in shuffled)
    return batches


def quantile_buckets(
    sizes: npt.NDArray[Any],
    budget: float,
    rng: np.random.Generator,
    counts: tuple[int, ...] = (30, 5),
) -> Batches:
    """Buckets with equally many samples, each shuffled, batches of ``budget // longest``, shuffled:
    what bionemo and lhotse users set up. Buckets by the first column have buckets by the next one
    inside, as NeMo's of two dimensions.
    """
    rows = rows_of(sizes)
    bucket_of, longest = np.zeros(len(rows), np.int64), np.zeros((1, 0))
    for column, size in enumerate(rows.T):
        count = counts[min(column, len(counts) - 1)]
        bucket_of, longest = _cut(size, count, bucket_of, longest)
    batches: Batches = []
    for bucket, padded in enumerate(longest.sum(1).tolist()):
        members = rng.permutation(np.flatnonzero(bucket_of == bucket))
        batch_size = int(max(1, budget // max(padded, 1e-300)))
        batches.extend(members[i : i + batch_size] for i in range(0, len(members), batch_size))
    return [batches[i] for i in rng.permutation(len(batches))]


def _cut(
    size: npt.NDArray[np.float64],
    count: int,
    bucket_of: Indices,
    longest: npt.NDArray[np.float64],
) -> tuple[Indices, npt.NDArray[np.float64]]:
    """Each bucket cut at quantiles of one column; with the longest of the new buckets."""
    made, ends = np.empty_like(bucket_of), list[npt.NDArray[np.float64]]()
    for bucket, before in enumerate(longest):
        members = np.flatnonzero(bucket_of == bucket)
        shares = np.linspace(0, 1, count + 1)[1:]
        edges = np.unique(np.quantile(size[members], shares, method="higher"))
        made[members] = len(ends) + np.searchsorted(edges, size[members], side="left")
        ends += [np.append(before, edge) for edge in edges]
    return made, np.array(ends)


def whole_sort(sizes: npt.NDArray[Any], budget: float, rng: np.random.Generator) -> Batches:
    """All samples sorted once and cut by the budget, batches shuffled: fairseq's ``batch_by_size``.
    Samples that are equal in the first column are sorted by the next one. Batch mates never change.
    """
    order = np.lexsort(rows_of(sizes).T[::-1])
    made = greedy(order, sizes, budget)
    return [made[i] for i in rng.permutation(len(made))]
