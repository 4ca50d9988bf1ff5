from collections.abc import Iterator

import numpy as np

from bench.count import Ints
from bench.peers import Batch, Peer


def edges(sizes: Ints, bins: int) -> Ints:
    """Upper edges of bins with equal totals."""
    ordered = np.sort(sizes)
    below = np.cumsum(ordered)
    places = np.searchsorted(below, below[-1] * np.arange(1, bins + 1) / bins)
    return np.unique(ordered[np.minimum(places, len(ordered) - 1)])


class NemoPairs(Peer):
    name = "NeMo's buckets of two sizes"
    distribution = "nemo_toolkit"
    setting = "pairs: 30 buckets of equal source, 5 of equal target in each; a batch size for each"
    source = "https://docs.nvidia.com/nemo-framework/user-guide/latest/nemotoolkit/asr/datasets.html#d-bucketing"

    def pairs(self, number: int) -> Iterator[Batch]:
        random, (source, target) = np.random.default_rng(number), self.work.lengths.T
        batches: list[Batch] = []
        shortest = 0
        for longest in edges(source, 30).tolist():
            inside = np.flatnonzero((source > shortest) & (source <= longest))
            lower, shortest = 0, longest
            for upper in edges(target[inside], 5).tolist():
                chosen = (target[inside] > lower) & (target[inside] <= upper)
                members, lower = random.permutation(inside[chosen]), upper
                size = max(1, self.work.budget // (longest + upper))
                batches += [members[i : i + size] for i in range(0, len(members), size)]
        return (batches[i] for i in random.permutation(len(batches)))
