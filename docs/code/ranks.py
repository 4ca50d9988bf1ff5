"""Ranks: equal steps, nearly equal cost."""

import numpy as np

import sab

random = np.random.default_rng(0)
sizes = np.minimum(random.lognormal(3, 0.7, 20_000).astype(int) + 1, 500)

# [ranks]
rank, world_size = (
    sab.ranks()
)  # of torch.distributed, torchrun, SLURM or MPI; (0, 1) in a process of its own
sampler = sab.BucketSampler(sab.plan(sizes, budget=4096), seed=0, rank=rank, world_size=world_size)
# [end]
assert (rank, world_size) == (0, 1)

# [shares]
plan = sab.plan(sizes, budget=4096)
samplers = [sab.BucketSampler(plan, seed=0, rank=rank, world_size=8) for rank in range(8)]
steps = {len(sampler) for sampler in samplers}
assert len(steps) == 1  # all ranks take as many steps
seen = np.concatenate([indices for sampler in samplers for indices in sampler])
assert sorted(seen.tolist()) == list(range(20_000))  # each sample on one rank
# [end]
print(
    f"{steps.pop()} steps, costliest rank over mean: {plan.report(world_size=8).rank_imbalance:.4f}"
)

# [accumulation]
sampler = sab.BucketSampler(plan, seed=0, rank=0, world_size=8, micro_batches=4)
for batch in sampler.batches():
    step = sampler.step()  # totals of the step, over all ranks and micro-batches
    weight = batch.count / step.samples  # of a mean over samples; of tokens: total / step.total
    is_last = batch.micro_batch + 1 == step.micro_batches  # now the optimizer steps
# [end]
assert is_last and 0 < weight <= 1

# [balanced]
sampler = sab.BalancedSampler(
    sizes, budget=8192, balance="quadratic", micro_batches=2, rank=0, world_size=8
)
report = sampler.report()
assert report.rank_imbalance < 1.01
for batch in sampler.batches():
    assert sizes[batch.indices].sum() <= 8192
    assert batch.cu_seqlens[-1] == sizes[batch.indices].sum()  # cumulative lengths
    # Of the sum of its tokens' losses: DDP's mean of that is the mean over the step's tokens.
    weight = 8 / sampler.step().total
# [end]
print(f"balanced, quadratic: {report.rank_imbalance:.4f}, fill {report.fill:.1%}")

# [mesh]
assert sab.ranks_from_mesh({"pp": 2, "dp": 4, "tp": 8}, rank=45) == (
    1,
    4,
)  # ranks of one model-parallel group take the same samples
# [end]
