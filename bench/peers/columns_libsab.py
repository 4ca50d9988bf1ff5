from collections.abc import Iterator

import sab
from bench.peers import Batch, Peer, Work


class Pairs4(Peer):
    name = "libsab, at least 4 batches a box"
    distribution = "libsab"
    setting = "pairs: `sab.plan(sizes, budget, bucket_batches=4)`"
    source = "guide/several_sizes.md"
    least = 4

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        plan = sab.plan(work.lengths, work.budget, bucket_batches=self.least)
        self.sampler = sab.BucketSampler(plan)

    def pairs(self, number: int) -> Iterator[Batch]:
        self.sampler.set_epoch(number)
        return iter(self.sampler)


class Pairs8(Pairs4):
    name, least = "libsab, at least 8 batches a box", 8
    setting = "pairs: `bucket_batches=8`"


class Pairs16(Pairs4):
    name, least = "libsab, at least 16 batches a box", 16
    setting = "pairs: `bucket_batches=16`"
