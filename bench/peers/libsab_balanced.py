from collections.abc import Iterator

import sab
from bench.peers import Batch, Peer, Work


class Balanced(Peer):
    name = "libsab BalancedSampler"
    distribution = "libsab"
    setting = "`BalancedSampler(lengths, budget, balance='quadratic')`; batches without padding"
    source = "guide/ranks.md"
    padded = False

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.sampler = sab.BalancedSampler(
            work.lengths,
            budget=work.budget,
            balance="quadratic",
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
