from collections.abc import Iterator

import numpy as np
import torch

from bench.peers import Batch, Peer, Work


class Bionemo(Peer):
    name = "bionemo BucketBatchSampler"
    distribution = "bionemo-size-aware-batching"
    setting = "30 quantile buckets, `SizeAwareBatchSampler` up to the budget with the padded size"
    source = "https://nvidia.github.io/bionemo-framework/API_reference/bionemo/size_aware_batching/sampler"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        from bionemo.size_aware_batching.sampler import BucketBatchSampler, SizeAwareBatchSampler

        if work.world_size > 1:
            raise NotImplementedError("has no ranks")
        lengths = work.lengths
        quantiles = np.quantile(lengths, np.arange(30) / 30, method="higher")
        edges = np.unique([*quantiles, lengths.max() + 1])
        padded = (edges[np.searchsorted(edges, lengths, side="right")] - 1).tolist()
        self.generator = torch.Generator()
        self.sampler = BucketBatchSampler(
            torch.from_numpy(lengths),
            torch.from_numpy(edges),
            SizeAwareBatchSampler,
            {"sizeof": padded.__getitem__, "max_total_size": work.budget},
            {},
            generator=self.generator,
        )

    def epoch(self, number: int) -> Iterator[Batch]:
        self.generator.manual_seed(self.work.seed + number)
        return iter(self.sampler)
