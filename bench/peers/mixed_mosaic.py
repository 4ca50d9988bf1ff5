from collections.abc import Iterator

import numpy as np

from bench.peers import Batch, Peer, Work, alone
from bench.peers.mosaic import Mosaic as WithoutStreams


class MosaicStreams(Peer):
    name = "mosaicml-streaming Stream"
    distribution = "mosaicml-streaming"
    setting = "mixture: `Stream(proportion)`, `batching_method='random'`, `py1e`, shards of 4,096"
    source = "https://docs.mosaicml.com/projects/streaming/en/latest/dataset_configuration/mixing_data_sources.html"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.within = WithoutStreams(work)
        data = self.within.dataset
        data.epoch_size, data.resample_streams = sum(work.asked), self.resampled

    def resampled(self, epoch: int) -> tuple[Batch, Batch]:  # as StreamingDataset's, line by line
        random, units, ids = np.random.default_rng(9176 + epoch), list[int](), list[Batch]()
        get_sampling, at = alone("streaming.base.sampling").get_sampling, 0
        for samples, asked in zip(self.work.sources, self.work.asked):
            shards = np.diff([*range(0, samples, 4096), samples])
            for n, choose in zip(shards, get_sampling(shards, asked, 1, 9176, epoch, True)):
                units += [n] * (choose // n) + [choose % n] * (choose % n > 0)
                ids += [at + np.arange(n)] * (choose // n)
                ids.append(at + np.sort(random.choice(n, choose % n, False)))
                at += n
        return np.array(units), np.concatenate(ids)

    def mixed(self, number: int) -> Iterator[Batch]:
        return self.within.epoch(number)

    def state(self, number: int, taken: int) -> object:
        return self.within.state(number, taken)

    def resume(self, state: tuple[int, int]) -> Iterator[Batch]:
        return self.within.resume(state)
