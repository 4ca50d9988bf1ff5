import sab
from bench.peers import Batch, Peer
from bench.peers.verl_ import SQUARES, TOKENS


class Steps(Peer):
    name = "libsab plan_step"
    distribution = "libsab"
    setting = "`plan_step(lengths, world_size, budget, balance)`, `balance` as the workload of verl"
    source = "guide/reinforcement_learning.md"
    padded = False

    def step(self) -> list[list[Batch]]:
        work = self.work
        cost = sab.Cost.terms([(TOKENS, 1, 1), (SQUARES, 1, 2)])
        plan = sab.plan_step(
            work.lengths, world_size=work.world_size, budget=work.budget, balance=cost
        )
        return [plan.rank(rank) for rank in range(work.world_size)]
