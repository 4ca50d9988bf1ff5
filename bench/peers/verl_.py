from collections.abc import Iterator

import numpy as np
import torch

from bench.peers import Batch, Peer, Work, alone

TOKENS, SQUARES = 24576.0, 1.0  # of `calculate_workload`


class Verl(Peer):
    name = "verl seqlen_balancing"
    distribution = "verl"
    setting = (
        "`trainer.balance_batch=True`: random steps, dealt out to the ranks by "
        "`get_seqlen_balanced_partitions` of `calculate_workload`, equal counts"
    )
    source = "https://verl.readthedocs.io/en/latest/examples/config.html"
    padded = False

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.balancing = alone(
            "verl.utils.seqlen_balancing",
            "verl.protocol",
            "verl.utils.device",
            "verl.utils.tensordict_utils",
        )

    def epoch(self, number: int) -> Iterator[Batch]:
        work, balancing = self.work, self.balancing
        generator = torch.Generator().manual_seed(work.seed + number)
        order = torch.randperm(len(work.lengths), generator=generator).numpy()
        step = work.count * work.world_size
        for at in range(0, len(order) - step + 1, step):
            samples = order[at : at + step]
            workload = balancing.calculate_workload(work.lengths[samples]).tolist()
            ranks = balancing.get_seqlen_balanced_partitions(workload, work.world_size, True)
            yield samples[ranks[work.rank]]

    def step(self) -> list[list[Batch]]:
        work, balancing = self.work, self.balancing
        divide = balancing.get_seqlen_balanced_partitions
        workload = balancing.calculate_workload(work.lengths)
        ranks = [np.array(rank) for rank in divide(workload.tolist(), work.world_size, True)]
        # as `rearrange_micro_batches`, where all ranks have as many
        tokens = max(int(work.lengths[rank].sum()) for rank in ranks)
        count = balancing.ceildiv(tokens, work.budget)
        return [
            [rank[part] for part in divide(workload[rank].tolist(), count, False)] for rank in ranks
        ]
