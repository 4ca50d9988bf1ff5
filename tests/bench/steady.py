"""Steady steps: how much successive steps differ in cost, with and without `steady`: steady.py.

8 ranks with 4 micro-batches of at most 16,384 tokens; the cost of a sample, or of a padded batch,
is quadratic. Lengths are those of 20,000 proteins (Debian: mmseqs2-examples) and of wikitext-103's
shape. All figures are of the walked epoch, over all ranks, without its last step: the standard
deviation of the costs of steps and the largest difference from the mean, both to the mean; how much
longer the slowest ranks take than the mean of all (waiting); the most steps that a sample moved,
where both orders have the same batches; seconds to make a sampler, the least of three.
"""

import pathlib
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bench.data import proteins, wikitext

import sab

RANKS, MICRO_BATCHES, TOKENS, STEADY = 8, 4, 16_384, 16
QUADRATIC = sab.Cost.terms([(1.0, 1, 2)])


def walk(sampler, lengths, is_padded):
    """The cost of each rank in each whole step but the last; the step of each sample."""
    costs, steps = [], np.zeros(len(lengths), int)
    copies = [sampler(rank) for rank in range(RANKS)]
    for copy in copies:
        of_rank = []
        for position, batch in enumerate(copy):
            own = lengths[batch].astype(float)
            of_rank.append(len(own) * own.max(initial=0) ** 2 if is_padded else (own**2).sum())
            steps[batch] = position // MICRO_BATCHES
        costs.append(of_rank)
    count = (len(costs[0]) - 1) // MICRO_BATCHES
    whole = np.array(costs)[:, : count * MICRO_BATCHES]
    return whole.reshape(RANKS, count, MICRO_BATCHES).sum(2), steps


def samplers(lengths):
    plan = sab.plan(lengths, budget=[sab.Budget(1e15, cost=QUADRATIC), TOKENS])
    order = {"world_size": RANKS, "micro_batches": MICRO_BATCHES}
    rows = {"balance": QUADRATIC, **order}
    return {
        "balanced": lambda rank, steady: sab.BalancedSampler(
            lengths, budget=TOKENS, rank=rank, steady=steady, **rows
        ),
        "packed": lambda rank, steady: sab.PackedSampler(
            lengths, TOKENS, rank=rank, steady=steady, **rows
        ),
        "bucket": lambda rank, steady: sab.BucketSampler(plan, rank=rank, steady=steady, **order),
    }


def main():
    data = {"wikitext-103's shape": wikitext(), "proteins": proteins()}
    print(f"{'':32}{'steady':>7}{'steps':>7}{'deviation':>11}{'largest':>9}{'waiting':>9}"
          f"{'moved':>7}{'seconds':>9}")  # fmt: skip
    for title, lengths in data.items():
        if lengths is None:
            print(f"{title}: not installed")
            continue
        for kind, make in samplers(lengths).items():
            before = None
            for steady in (0, STEADY):
                seconds = []
                for _ in range(3):
                    begin = time.perf_counter()
                    make(0, steady)
                    seconds.append(time.perf_counter() - begin)
                costs, steps = walk(lambda rank: make(rank, steady), lengths, kind == "bucket")
                total = costs.sum(0) / costs.sum(0).mean()
                moved = "" if before is None or kind == "balanced" else abs(steps - before).max()
                print(
                    f"{title + ', ' + kind:32}{steady:>7}{len(total):>7}"
                    f"{100 * total.std():>9.2f} %{100 * abs(total - 1).max():>7.2f} %"
                    f"{100 * (costs.max(0).sum() * RANKS / costs.sum() - 1):>7.2f} %"
                    f"{moved:>7}{min(seconds):>9.3f}"
                )
                before = steps


if __name__ == "__main__":
    main()
