from collections.abc import Iterator
from types import SimpleNamespace

import torch

from bench.peers import Batch, Peer, Work, alone


class Megatron(Peer):
    name = "Megatron hybrid CP scheduler"
    distribution = "megatron-core"
    setting = "`BalancedCPScheduler`, random steps of all ranks, each sample on one rank"
    source = "https://docs.nvidia.com/megatron-core/developer-guide/latest/apidocs/core/core.pipeline_parallel.hybrid_cp_schedule.html"
    padded = False

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        module = alone(
            "megatron.core.pipeline_parallel.hybrid_cp_schedule",
            "megatron.core.parallel_state",
            "megatron.core.rerun_state_machine",
        )
        group = SimpleNamespace(size=lambda: work.world_size)
        self.scheduler = module.BalancedCPScheduler(int(work.lengths.max()), group)

    def epoch(self, number: int) -> Iterator[Batch]:
        work = self.work
        generator = torch.Generator().manual_seed(work.seed + number)
        order = torch.randperm(len(work.lengths), generator=generator).numpy()
        step = work.count * work.world_size
        for at in range(0, len(order), step):
            samples = order[at : at + step]
            sizes = list(zip(samples.tolist(), work.lengths[samples].tolist()))
            for ranks in self.scheduler.get_groups_and_subsamples(sizes, None)[1]:
                yield ranks[work.rank]
