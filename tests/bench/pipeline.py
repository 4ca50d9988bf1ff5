"""Orders of the micro-batches of a pipeline: pipeline.py [STEPS].

8 stages, 32 micro-batches whose cost is heavy-tailed; STEPS steps (20) of each kind. A micro-batch
costs the sum of a L + b L^2 over packed documents of Pareto or log-normal length, or is Pareto
itself. The backward pass takes twice the time of the forward pass. Schedules: 1F1B, and the
interleaved one with two chunks on each rank.

Columns: mean makespan over the lower bound, for the order found, a random order (the mean of 20),
ascending and descending. The last is the mean idle share of the order found and of the random one.
"""

import math
import statistics
import sys
import time

import numpy as np

import sab

STAGES, MICRO_BATCHES, TOKENS, LINEAR = 8, 32, 32768, 24576


def packed(random, next_length):
    """Cost of a micro-batch of documents that fill its tokens."""
    left, cost = TOKENS, 0.0
    while left > 0:
        length = min(left, int(next_length()))
        cost += LINEAR * length + length**2
        left -= length
    return cost / LINEAR / TOKENS


def costs_of(random, shape):
    if shape == "Pareto":
        return np.minimum(1 / (1 - random.random(MICRO_BATCHES)), 50)
    if shape == "packed, Pareto":
        return [packed(random, lambda: 512 / (1 - random.random())) for _ in range(MICRO_BATCHES)]
    wide = [math.log(4096), 1.3]
    return [packed(random, lambda: 1 + random.lognormal(*wide)) for _ in range(MICRO_BATCHES)]


def measure(random, shape, chunks):
    """Makespans over the lower bound, and idle shares."""
    costs = np.asarray(costs_of(random, shape))
    begin = time.thread_time()
    found = sab.find_pipeline_order(costs, stages=STAGES, chunks=chunks)
    seconds = time.thread_time() - begin

    def simulated(order):
        return sab.simulate_pipeline(costs, stages=STAGES, chunks=chunks, order=order)

    drawn = [simulated(random.permutation(MICRO_BATCHES)) for _ in range(20)]
    ascending = np.argsort(costs, kind="stable")
    checked = simulated(found.order)
    assert checked.makespan == found.makespan
    bound = found.lower_bound
    return {
        "found": found.makespan / bound,
        "random": statistics.mean(each.makespan for each in drawn) / bound,
        "ascending": simulated(ascending).makespan / bound,
        "descending": simulated(ascending[::-1]).makespan / bound,
        "idle": found.idle,
        "idle, random": statistics.mean(each.idle for each in drawn),
        "seconds": seconds,
    }


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(
        f"| {STAGES} stages, {MICRO_BATCHES} micro-batches | found | random | ascending "
        "| descending | idle: found, random |\n|---|---:|---:|---:|---:|---:|"
    )
    slowest, lowest = 0.0, math.inf
    for chunks in (1, 2):
        for shape in ("Pareto", "packed, Pareto", "packed, log-normal"):
            random = np.random.default_rng(0)
            rows = [measure(random, shape, chunks) for _ in range(steps)]
            mean = {key: statistics.mean(row[key] for row in rows) for key in rows[0]}
            slowest = max(slowest, *(row["seconds"] for row in rows))
            lowest = min(lowest, *(row["random"] / row["found"] for row in rows))
            kind = "1F1B" if chunks == 1 else f"interleaved, {chunks} chunks"
            print(
                f"| {kind}; {shape} | {mean['found']:.4f} | {mean['random']:.4f} "
                f"| {mean['ascending']:.4f} | {mean['descending']:.4f} "
                f"| {100 * mean['idle']:.1f} %, {100 * mean['idle, random']:.1f} % |",
                flush=True,
            )
    print(
        f"\nA random order takes at least {lowest:.3f} times the makespan of the order found. "
        f"Longest search: {1e3 * slowest:.0f} ms of processor time."
    )


if __name__ == "__main__":
    main()
