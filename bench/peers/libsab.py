from collections.abc import Iterator

import sab
from bench.peers import Batch, Peer, Work


class Libsab(Peer):
    name = "libsab BucketSampler"
    distribution = "libsab"
    setting = "`sab.plan(lengths, budget)` and `BucketSampler`, defaults"
    source = "guide/which.md"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.sampler = sab.BucketSampler(
            sab.plan(work.lengths, work.budget),
            seed=work.seed,
            rank=work.rank,
            world_size=work.world_size,
        )

    def epoch(self, number: int) -> Iterator[Batch]:
        self.sampler.set_epoch(number)
        return iter(self.sampler)

    def state(self, number: int, taken: int) -> object:
        return self.sampler.state_dict()

    def resume(self, state: dict[str, object]) -> Iterator[Batch]:
        self.sampler.load_state_dict(state)
        return iter(self.sampler)
