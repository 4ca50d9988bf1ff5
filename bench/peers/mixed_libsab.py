from collections.abc import Iterator
from typing import Literal, Optional

import numpy as np

import sab
from bench.peers import Batch, Peer, Work


class Mixed(Peer):
    name = "libsab Mixture"
    distribution = "libsab"
    setting = "mixture: `sab.plan(sab.Mixture(sizes, repeat=...), budget)`, defaults"
    source = "guide/mixing.md"
    separate: Optional[Literal["source"]] = None

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        ids = np.repeat(np.arange(len(work.sources)), work.sources)
        repeat = dict(enumerate(work.repeats))
        mixture = sab.Mixture(work.lengths, sources=ids, repeat=repeat)
        plan = sab.plan(mixture, work.budget, separate_by=self.separate)
        self.sampler = sab.BucketSampler(plan, seed=work.seed)

    def mixed(self, number: int) -> Iterator[Batch]:
        self.sampler.set_epoch(number)
        return iter(self.sampler)

    def state(self, number: int, taken: int) -> object:
        return self.sampler.state_dict()

    def resume(self, state: dict[str, object]) -> Iterator[Batch]:
        self.sampler.load_state_dict(state)
        return iter(self.sampler)


class MixedApart(Mixed):
    name = "libsab Mixture, sources apart"
    setting = "mixture: the same, with `separate_by='source'`"
    separate = "source"
