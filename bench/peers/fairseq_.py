from collections.abc import Iterator

import numpy as np
import torch

from bench.peers import Batch, Peer, Work, alone


class Fairseq(Peer):
    name = "fairseq batch_by_size"
    distribution = "fairseq"
    setting = "`--max-tokens` of the budget, sorted; `EpochBatchIterator`, `--grouped-shuffling`"
    source = "https://fairseq.readthedocs.io/en/latest/command_line_tools.html"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        utils = alone("fairseq.data.data_utils", "fairseq.file_io", "fairseq.utils")
        order = np.argsort(work.lengths, kind="stable")
        batches = utils.batch_by_size(order, None, work.lengths[order], work.budget)
        self.iterator = alone("fairseq.data.iterators").EpochBatchIterator(
            torch.utils.data.Dataset(),
            collate_fn=None,
            batch_sampler=batches,
            seed=work.seed,
            num_shards=work.world_size,
            shard_id=work.rank,
            grouped_shuffling=True,
        )

    def epoch(self, number: int) -> Iterator[Batch]:
        return self.resume(self.state(number, 0))

    def state(self, number: int, taken: int) -> dict[str, object]:
        return {"version": 2, "epoch": number + 1, "iterations_in_epoch": taken, "shuffle": True}

    def resume(self, state: dict[str, object]) -> Iterator[Batch]:
        self.iterator.load_state_dict(state)
        self.iterator.next_epoch_itr()
        return iter(self.iterator.batch_sampler)
