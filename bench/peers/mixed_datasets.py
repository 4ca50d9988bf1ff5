import itertools
from collections.abc import Iterator

import numpy as np

from bench.peers import Batch, Peer, Work, chunks


class Interleaved(Peer):
    name = "datasets.interleave_datasets"
    distribution = "datasets"
    setting = "mixture: `probabilities`, `stopping_strategy='all_exhausted'`; resumed by skipping"
    source = "https://huggingface.co/docs/datasets/process#interleave"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        from datasets import Dataset

        parts = itertools.pairwise(np.cumsum([0, *work.sources]).tolist())
        self.sets = [Dataset.from_dict({"place": [*range(*part)]}) for part in parts]

    def mixed(self, number: int) -> Iterator[Batch]:
        from datasets import interleave_datasets

        asked = self.work.asked
        mixed = interleave_datasets(
            [each.shuffle(seed=number) for each in self.sets],
            probabilities=[each / sum(asked) for each in asked],
            seed=number,
            stopping_strategy="all_exhausted",
        )
        return chunks(mixed["place"], self.work.count)

    def state(self, number: int, taken: int) -> tuple[int, int]:
        return number, taken

    def resume(self, state: tuple[int, int]) -> Iterator[Batch]:
        return itertools.islice(self.mixed(state[0]), state[1], None)
