from collections.abc import Iterator
from types import SimpleNamespace

import torch

from bench.peers import Batch, Peer, Work, alone


class Pyg(Peer):
    name = "PyG DynamicBatchSampler"
    distribution = "torch_geometric"
    setting = "`max_num` of the budget in nodes, `shuffle=True`; a sample is a graph of its length"
    source = "https://pytorch-geometric.readthedocs.io/en/latest/modules/loader.html#torch_geometric.loader.DynamicBatchSampler"
    padded = False

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        if work.world_size > 1:
            raise NotImplementedError("has no ranks")
        self.sampler_class = alone(
            "torch_geometric.loader.dynamic_batch_sampler", "torch_geometric.data"
        ).DynamicBatchSampler
        self.graphs = [SimpleNamespace(num_nodes=length) for length in work.lengths.tolist()]

    def epoch(self, number: int) -> Iterator[Batch]:
        torch.manual_seed(self.work.seed + number)
        return iter(self.sampler_class(self.graphs, self.work.budget, shuffle=True))

    def pack(self, capacity: int, epoch: int) -> list[Batch]:
        torch.manual_seed(self.work.seed + epoch)
        return list(iter(self.sampler_class(self.graphs, capacity, shuffle=True)))
