from collections.abc import Iterator
from types import SimpleNamespace

import torch

from bench.peers import Batch, Peer, Work, alone


class PygGraphs(Peer):
    name = "PyG DynamicBatchSampler, nodes"
    distribution = "torch_geometric"
    setting = "graphs: `max_num` of the nodes, `shuffle=True`; edges have no cap"
    source = "https://pytorch-geometric.readthedocs.io/en/latest/modules/loader.html#torch_geometric.loader.DynamicBatchSampler"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.sampler_class = alone(
            "torch_geometric.loader.dynamic_batch_sampler", "torch_geometric.data"
        ).DynamicBatchSampler
        self.data = [SimpleNamespace(num_nodes=each) for each in work.lengths[:, 0].tolist()]

    def graphs(self, number: int) -> Iterator[Batch]:
        torch.manual_seed(number)
        return iter(self.sampler_class(self.data, self.work.capacity[0], shuffle=True))
