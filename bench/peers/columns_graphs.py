from collections.abc import Iterator

import numpy as np

import sab
from bench.peers import Batch, Peer


class Graphs(Peer):
    name = "libsab PackedSampler, two caps"
    distribution = "libsab"
    setting = "graphs: `PackedSampler(sizes, capacity)`, defaults"
    source = "guide/several_sizes.md"

    def graphs(self, number: int) -> Iterator[Batch]:
        sampler = sab.PackedSampler(self.work.lengths, self.work.capacity)
        sampler.set_epoch(number)
        return iter(sampler)


class Jraph(Peer):
    name = "jraph dynamically_batch"
    distribution = "jraph"
    setting = "graphs: shuffled, put in until a cap is reached; a node is kept for the padding"
    source = "https://jraph.readthedocs.io/en/latest/api.html#jraph.dynamically_batch"

    def graphs(self, number: int) -> Iterator[Batch]:
        caps = np.array(self.work.capacity) - (1, 0)
        batch: list[int] = []
        for index in np.random.default_rng(number).permutation(len(self.work.lengths)).tolist():
            batch.append(index)
            if (self.work.lengths[batch].sum(0) > caps).any():
                yield batch[:-1]
                batch = [index]
        yield batch
