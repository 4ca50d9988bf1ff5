from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DistributedSampler

from bench.peers import Batch, Peer, Work


class Static(Peer):
    name = "static batches (torch)"
    distribution = "torch"
    setting = "`DistributedSampler`, `BatchSampler` of the samples that fill the budget on average"
    source = (
        "https://pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler"
    )

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        samples: Any = range(len(work.lengths))
        self.sampler: Any = DistributedSampler(samples, work.world_size, work.rank, seed=work.seed)
        self.batches = BatchSampler(self.sampler, work.count, drop_last=False)

    def epoch(self, number: int) -> Iterator[Batch]:
        self.sampler.set_epoch(number)
        return iter(self.batches)

    def pack(self, capacity: int, epoch: int) -> list[Batch]:
        """Rows filled in random order, each until the next sample does not fit."""
        torch.manual_seed(self.work.seed + epoch)
        order = torch.randperm(len(self.work.lengths)).numpy()
        rows: list[list[int]] = [[]]
        total = 0
        for index, length in zip(order.tolist(), self.work.lengths[order].tolist()):
            if total + length > capacity:
                rows.append([])
                total = 0
            rows[-1].append(index)
            total += length
        return [*rows]
