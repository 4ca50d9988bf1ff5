from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np

from bench.peers import Batch, Peer, Work, alone


class Mosaic(Peer):
    name = "mosaicml-streaming random"
    distribution = "mosaicml-streaming"
    setting = "`batching_method='random'`, `shuffle_algo='py1e'`, shards of 4,096 samples; defaults"
    source = "https://docs.mosaicml.com/projects/streaming/en/latest/api_reference/generated/streaming.StreamingDataset.html"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.batching = alone("streaming.base.batching", "streaming.base.distributed")
        shards = np.diff([*range(0, len(work.lengths), 4096), len(work.lengths)])
        nodes = dict(num_canonical_nodes=1, initial_physical_nodes=1, partition_algo="relaxed")
        shuffle = dict(shuffle=True, shuffle_algo="py1e", shuffle_block_size=4_000_000)
        self.dataset = SimpleNamespace(
            **nodes,
            **shuffle,
            batch_size=work.count,
            epoch_size=len(work.lengths),
            shuffle_seed=9176 + work.seed,
            resample_streams=lambda epoch: (shards, np.arange(shards.sum())),
        )

    def epoch(self, number: int) -> Iterator[Batch]:
        return self.resume((number, 0))

    def state(self, number: int, taken: int) -> tuple[int, int]:
        return number, taken * self.work.count * self.work.world_size

    def resume(self, state: tuple[int, int]) -> Iterator[Batch]:
        work = self.work
        world = SimpleNamespace(num_nodes=1, ranks_per_node=work.world_size, workers_per_rank=1)
        samples = self.batching.generate_work("random", self.dataset, world, *state)
        return (row[row >= 0] for row in samples[0, work.rank, 0])
