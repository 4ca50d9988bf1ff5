"""How even ranks are, and what waiting for the slowest costs: ranks.py [LENGTHS.NPY].

Imbalance: mean over the steps of an epoch of (cost of the slowest rank / mean cost of the ranks),
on 8 ranks, for cost by length (a packed or padded-free linear model) and by its square (attention).
The same lengths, cost and tokens a batch for all. Then, for real lengths (WordNet's glosses, in
words; proteins where mmseqs2-examples is installed), how much of the time of an epoch is spent
waiting at 8, 64 and 1,024 ranks: a simulation of steps that end when the costliest rank does. On
paper: a rank of n random samples whose costs have mean m and deviation d costs n m, give or take d
sqrt(n), so the slowest of W takes about e(W) d / (m sqrt(n)) longer than the mean, with e(W) the
expected largest of W normal numbers; more where few samples cost most.
"""

import gzip
import pathlib
import sys

import numpy as np

import sab
from lengths import lengths as wikitext
from sab.compat.bagua.contrib import LoadBalancingDistributedSampler
from streams import glosses

COSTS = {"linear": 1, "quadratic": 2}


def of_ranks(per_rank, cost):
    """Cost of each (step, rank) from lists of batches of each rank."""
    steps = min(map(len, per_rank))
    return np.array([[cost[batch].sum() for batch in rank[:steps]] for rank in per_rank]).T


def balanced(sizes, power, world_size, most):
    report = sab.BalancedSampler(
        sizes, budget=most, balance=[0] * (power + 1) + [1], world_size=world_size
    ).report()
    return report.rank_imbalance, report.time / report.least_time


def bucket(sizes, power, world_size, most, cost):
    budget = (
        most if power == 1 else max(most * cost.mean() / sizes.mean(), cost.max())
    )  # as many tokens a batch on the average, and room for the longest
    plan = sab.plan(
        sizes, budget=budget, cost="quadratic" if power == 2 else "padded", padding=0.02
    )
    return imbalance_of(
        [
            list(sab.BucketSampler(plan, rank=rank, world_size=world_size))
            for rank in range(world_size)
        ],
        cost,
    )


def imbalance_of(per_rank, cost):
    costs = of_ranks(per_rank, cost)
    slowest, mean = costs.max(1), costs.mean(1)
    kept = mean > 0
    return (slowest[kept] / mean[kept]).mean(), slowest.sum() / mean.sum()


def by_count(indices_of_ranks, count, cost):
    return imbalance_of(
        [
            [indices[i : i + count] for i in range(0, len(indices) - count + 1, count)]
            for indices in indices_of_ranks
        ],
        cost,
    )


def bagua(sizes, world_size, count, cost):
    class Data:
        def __len__(self):
            return len(sizes)

        def __getitem__(self, index):
            return int(sizes[index])

    return by_count(
        [
            np.array(
                list(LoadBalancingDistributedSampler(Data(), lambda size: size, world_size, rank))
            )
            for rank in range(world_size)
        ],
        count,
        cost,
    )


def distributed(sizes, world_size, count, cost):
    """torch's DistributedSampler: a permutation, dealt out in turn."""
    order = np.random.default_rng(0).permutation(len(sizes))
    order = order[: len(order) // world_size * world_size]
    return by_count([order[rank::world_size] for rank in range(world_size)], count, cost)


def proteins(count=1_000_000, seed=0):
    return np.clip(
        np.exp(np.random.default_rng(seed).normal(np.log(270), 1.02, count)), 1, 35_000
    ).astype(np.int32)


def on_paper(cost, count, world_size):
    largest = np.random.default_rng(0).standard_normal((2000, world_size)).max(1).mean()
    return largest * cost.std() / (cost.mean() * np.sqrt(count))


def real():
    yield "glosses, words", np.array([len(line.split()) for line in glosses()], np.int32), 1024
    path = pathlib.Path("/usr/share/doc/mmseqs2/example-data/DB.fasta.gz")
    if path.exists():
        with gzip.open(path, "rt") as file:
            records = file.read().split(">")[1:]
        found = [len("".join(record.split("\n")[1:])) for record in records]
        yield "proteins, residues", np.array(found, np.int32), 2 * max(found)


def main():
    world_size = 8
    data = {
        "wikitext-103's shape": (np.load(sys.argv[1]) if len(sys.argv) > 1 else wikitext(), 16384),
        "proteins, lognormal to 35,000": (proteins(), 65536),
    }
    print(f"| slowest rank / mean rank, {world_size} ranks | linear | quadratic |\n|---|---:|---:|")
    for name, (sizes, most) in data.items():
        count = max(1, int(most / sizes.mean()))
        rows = {
            "BalancedSampler": [],
            "BucketSampler": [],
            "Bagua's sampler": [],
            "DistributedSampler": [],
        }
        for power in COSTS.values():
            cost = sizes.astype(np.float64) ** power
            rows["BalancedSampler"].append(balanced(sizes, power, world_size, most)[0])
            rows["BucketSampler"].append(bucket(sizes, power, world_size, most, cost)[0])
            rows["Bagua's sampler"].append(bagua(sizes, world_size, count, cost)[0])
            rows["DistributedSampler"].append(distributed(sizes, world_size, count, cost)[0])
        for row, values in rows.items():
            print(
                f"| {name}: {row} | " + " | ".join(f"{value:.4f}" for value in values) + " |",
                flush=True,
            )
    print()
    print(
        "| time lost to waiting, of an epoch without any | ranks | on paper | DistributedSampler "
        "| BalancedSampler | saved |\n|---|---:|---:|---:|---:|---:|"
    )
    for name, sizes, most in real():
        for kind, power in COSTS.items():
            for world_size in (8, 64, 1024):
                # An epoch must have steps: the data many times over, as the next epochs bring it.
                copies = -(-world_size * most * 20 // int(sizes.sum()))
                all_sizes = np.tile(sizes, copies)
                cost = all_sizes.astype(np.float64) ** power
                count = max(1, int(most / sizes.mean()))
                before = distributed(all_sizes, world_size, count, cost)[1]
                after = balanced(all_sizes, power, world_size, most)[1]
                paper = on_paper(cost, count, world_size)
                print(
                    f"| {name}, {kind} | {world_size:,} | {100 * paper:.1f} % | "
                    f"{100 * (before - 1):.1f} % | {100 * (after - 1):.2f} % | "
                    f"{100 * (1 - after / before):.1f} % |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
