from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.peers import Batch, Peer


class Infinibatch(Peer):
    name = "infinibatch BucketedReadahead"
    distribution = "infinibatch"
    setting = "`read_ahead=10_000`, batch size: budget over longest; `ChunkedSourceIterator`"
    source = "https://github.com/microsoft/infinibatch"

    def iterator(self, number: int) -> Any:
        from infinibatch.iterators import BucketedReadaheadBatchIterator, ChunkedSourceIterator

        work, length = self.work, self.work.lengths.tolist().__getitem__
        seed = work.seed + number
        order = np.random.default_rng(seed).permutation(len(work.lengths)).tolist()
        return BucketedReadaheadBatchIterator(
            ChunkedSourceIterator(order, work.world_size, work.rank),
            read_ahead=10_000,
            key=length,
            batch_size=lambda longest: max(1, work.budget // length(longest)),
            seed=seed,
        )

    def epoch(self, number: int) -> Iterator[Batch]:
        self.running = self.iterator(number)
        return iter(self.running)

    def state(self, number: int, taken: int) -> object:
        return number, self.running.getstate()

    def resume(self, state: tuple[int, object]) -> Iterator[Batch]:
        self.running = self.iterator(state[0])
        self.running.setstate(state[1])
        return iter(self.running)
