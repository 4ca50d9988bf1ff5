from collections.abc import Iterator

import numpy as np
import torch

from bench.peers import Batch, Peer, Work, alone

TOKENS, SQUARES = 24576.0, 1.0  # of `calculate_workload`
NEEDED = "verl.protocol", "verl.utils.device", "verl.utils.tensordict_utils"


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
        self.balancing = alone("verl.utils.seqlen_balancing", *NEEDED)
        self.cut = self.balancing.get_seqlen_balanced_partitions

    def epoch(self, number: int) -> Iterator[Batch]:
        work, generator = self.work, torch.Generator().manual_seed(self.work.seed + number)
        order = torch.randperm(len(work.lengths), generator=generator).numpy()
        step = work.count * work.world_size
        for at in range(0, len(order) - step + 1, step):
            samples = order[at : at + step]
            costs = self.balancing.calculate_workload(work.lengths[samples]).tolist()
            yield samples[self.cut(costs, work.world_size, True)[work.rank]]

    def step(self) -> list[list[Batch]]:  # as `rearrange_micro_batches`: all ranks have as many
        costs = self.balancing.calculate_workload(self.work.lengths)
        ranks = [np.array(r) for r in self.cut(costs.tolist(), self.work.world_size, True)]
        count = -(-max(int(self.work.lengths[r].sum()) for r in ranks) // self.work.budget)
        return [[r[part] for part in self.cut(costs[r].tolist(), count, False)] for r in ranks]
