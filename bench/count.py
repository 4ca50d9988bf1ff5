"""Counts what batches hold. Nothing that a peer reports of itself is used."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Counted:
    """Batches end to end: `indices`, and the first place of each batch in them."""

    indices: Ints
    begins: Ints

    @property
    def counts(self) -> Ints:
        return np.diff(self.begins, append=len(self.indices))

    def longest(self, lengths: Ints) -> Ints:
        return np.maximum.reduceat(lengths[self.indices], self.begins)

    def sums(self, values: Any) -> Any:
        return np.add.reduceat(values[self.indices], self.begins)


def gather(batches: Iterable[Any]) -> Counted:
    """Batches that a peer yields; empty ones are left out."""
    arrays = [np.asarray(batch, np.int64) for batch in batches if len(batch) > 0]
    if not arrays:
        raise ValueError("the peer gave no batches")
    counts = np.array([len(each) for each in arrays])
    return Counted(np.concatenate(arrays), np.cumsum(counts) - counts)


def deliveries(parts: Iterable[Counted], samples: int) -> Ints:
    """How many times each sample was given."""
    indices = np.concatenate([part.indices for part in parts])
    if indices.min() < 0 or indices.max() >= samples:
        raise ValueError(f"index {indices.max()}: must be below {samples}")
    return np.bincount(indices, minlength=samples)


def lost_and_repeated(given: Ints) -> tuple[int, int]:
    return int((given == 0).sum()), int((given - 1).clip(0).sum())


def meet_again(first: Counted, second: Counted, samples: int) -> float:
    """Share of the pairs in a batch of the first epoch that share one of the second, too."""

    def batch_of(epoch: Counted) -> Ints:
        found = np.full(samples, -1)
        found[epoch.indices] = np.repeat(np.arange(len(epoch.begins)), epoch.counts)
        return found

    def pairs(counts: Ints) -> int:
        return int((counts * (counts - 1) // 2).sum())

    before, after = batch_of(first), batch_of(second)
    both = (before >= 0) & (after >= 0)
    cells = before[both] * (len(second.begins) + 1) + after[both]
    return pairs(np.unique(cells, return_counts=True)[1]) / max(1, pairs(first.counts))
