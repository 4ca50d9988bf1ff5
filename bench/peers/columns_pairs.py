from collections.abc import Iterator

import numpy as np

from bench.peers import Batch, Peer
from sab._cli import baselines


class StaticPairs(Peer):
    name = "static batches of 32 pairs"
    distribution = "torch"
    setting = "pairs: a shuffle cut into batches of 32"
    source = "https://pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader"

    def pairs(self, number: int) -> Iterator[Batch]:
        return iter(baselines.static(self.work.lengths, 32, np.random.default_rng(number)))


class FairseqPairs(Peer):
    name = "fairseq's order of pairs"
    distribution = "fairseq"
    setting = "pairs: `ordered_indices()` of `LanguagePairDataset`, cut at the budget"
    source = "https://fairseq.readthedocs.io/en/latest/tasks.html"

    def pairs(self, number: int) -> Iterator[Batch]:
        random = np.random.default_rng(number)
        return iter(baselines.whole_sort(self.work.lengths, self.work.budget, random))
