import itertools
import random
from collections.abc import Iterator

import numpy as np

from bench.peers import Batch, Peer, Work


class LhotseMux(Peer):
    name = "lhotse CutSet.mux"
    distribution = "lhotse"
    setting = "mixture: `CutSet.mux` of repeated, shuffled sets with `weights`; `DynamicCutSampler`"
    source = "https://lhotse.readthedocs.io/en/latest/cuts.html"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        from lhotse import CutSet
        from lhotse.cut import PaddingCut

        cuts = [PaddingCut(str(i), 1.0, 16000, 0.0) for i in range(sum(work.sources))]
        parts = itertools.pairwise(np.cumsum([0, *work.sources]).tolist())
        self.cuts = [CutSet.from_cuts(cuts[first:end]) for first, end in parts]

    def mixed(self, number: int) -> Iterator[Batch]:
        return self.resume((number, 0, {}))

    def state(self, number: int, taken: int) -> object:
        return number, taken, self.sampler.state_dict()

    def resume(self, state: tuple[int, int, dict[str, object]]) -> Iterator[Batch]:
        from lhotse.dataset.sampling import DynamicCutSampler

        shuffled = [c.repeat().shuffle(random.Random(state[0]), 10_000) for c in self.cuts]
        mux = self.cuts[0].mux(*shuffled, weights=list(self.work.asked), seed=state[0])
        self.sampler = DynamicCutSampler(mux, max_cuts=self.work.count, seed=self.work.seed)
        if state[1]:
            self.sampler.load_state_dict(state[2])
        rest = itertools.islice(self.sampler, self.work.steps - state[1])
        return ([int(cut.id.split("_")[0]) for cut in batch] for batch in rest)
