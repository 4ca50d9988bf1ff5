"""Samples split over ranks: sab.plan_context against longest-first and Megatron's rule:
context.py [STEPS].

64 ranks, lengths from 1,024 to 262,144 tokens of three distributions, budgets of 8,192 and 16,384
tokens a rank, STEPS steps (60) of each kind. A step has samples until one, two or four capacities
are full, a capacity being the budget of all ranks. A sample costs 24,576 L + L^2, the work of a
transformer with 4,096 channels. Splitting is free, or each rank of a group after the first costs as
much as the linear work of 64 tokens.

- *longest-first*: each sample on the smallest power of two of ranks that holds it, longest first,
  in the aligned group that is free first. Column: how much less makespan libsab has, in the mean.
- *Megatron's rule*: the scheduler of hybrid context parallelism in Megatron-LM, written down from
  its description. The same column.

Makespans are simulated with the cost above. Processor time: the mean over steps, each the least of
five runs, and the longest of these.
"""

import math
import statistics
import sys
import time

import numpy as np

import sab

RANKS, SHORTEST, LONGEST = 64, 1024, 262144
LINEAR = 24576
COST = [0, 0, LINEAR, 1]
OVERHEADS = {"none": 0, "64 tokens": 64 * LINEAR}


def draw(random, shape, tokens):
    """Lengths of a step that has at most so many tokens."""
    lengths = []
    while True:
        if shape == "log-uniform":
            length = SHORTEST * (LONGEST / SHORTEST) ** random.random()
        elif shape == "Pareto":
            length = SHORTEST / (1 - random.random())
        else:
            length = math.exp(math.log(8192) + 1.3 * random.standard_normal())
        if not SHORTEST <= length <= LONGEST:
            continue
        tokens -= int(length)
        if tokens < 0:
            return lengths
        lengths.append(int(length))


def fewest_ranks(length, budget):
    ranks = 1
    while ranks * budget < length:
        ranks *= 2
    return ranks


def seconds_of(length, ranks, overhead):
    return (LINEAR * length + length**2) / ranks + overhead * (ranks - 1)


def longest_first(lengths, budget, overhead):
    ends = np.zeros(RANKS)
    for length in sorted(lengths, reverse=True):
        ranks = fewest_ranks(length, budget)
        starts = ends.reshape(-1, ranks).max(1)
        group = int(starts.argmin())
        end = starts[group] + seconds_of(length, ranks, overhead)
        ends[group * ranks : (group + 1) * ranks] = end
    return ends.max()


def buckets_of(lengths, budget):
    """Samples, longest first, in as many runs of about equal work as there are sizes of groups."""
    works = [length**2 / fewest_ranks(length, budget) for length in lengths]
    wanted = len({fewest_ranks(length, budget) for length in lengths})
    most = 1.1 * sum(works) / wanted
    made, run, held, closed = [], [], 0.0, 0
    for place, (length, work) in enumerate(zip(lengths, works)):
        left_buckets = wanted - 2 * closed  # it counts a closed bucket twice
        if run and (held + work > most or len(lengths) - place <= left_buckets):
            made.append(run)
            run, held, closed = [], 0.0, closed + 1
        run.append(length)
        held += work
    return [*made, run]


class Group:
    def __init__(self, ranks):
        self.ranks, self.load, self.samples = ranks, 0.0, []


def next_group(buckets, groups, budget):
    """The bucket of the next sample that has a place, and its group; None if none has."""
    free = RANKS - sum(group.ranks for group in groups)
    for bucket in buckets:
        ranks = fewest_ranks(bucket[0], budget)
        same = [group for group in groups if group.ranks == ranks]
        least = min(same, key=lambda group: group.load, default=None)
        if free >= ranks and (least is None or least.load > 0):
            groups.append(Group(ranks))
            return bucket, groups[-1]
        if least is not None:
            return bucket, least
    return None


def megatron_micro_batch(buckets, budget):
    """Takes samples out of the buckets: groups of ranks, each with its samples. Work is taken to be
    L^2 / ranks."""
    groups, first_ranks = [], None
    while buckets and (found := next_group(buckets, groups, budget)):
        bucket, group = found
        first_ranks = first_ranks or group.ranks
        length = bucket.pop(0)
        group.samples.append(length)
        group.load += length**2 / group.ranks
        while buckets and not buckets[0]:
            buckets.pop(0)
        buckets[:] = [each for each in buckets if each]
        loads = [each.load for each in groups]
        if sum(each.ranks for each in groups) < RANKS:
            loads.append(0.0)
        if group.ranks < first_ranks and max(loads) - min(loads) <= 0.05 * max(loads):
            break
    left = [length for bucket in buckets for length in bucket]
    if sum(group.ranks for group in groups) == RANKS:
        trim(groups, left)
    fill(groups)
    return groups, left


def trim(groups, left):
    """Takes the last sample from the fullest group while that makes loads more even."""
    while True:
        loads = [group.load for group in groups]
        slack = max(loads) - min(loads)
        fullest = groups[loads.index(max(loads))]
        if slack <= 0.05 * max(loads) or len(fullest.samples) < 2:
            return
        fullest.load -= fullest.samples[-1] ** 2 / fullest.ranks
        loads = [group.load for group in groups]
        if max(loads) - min(loads) >= slack:
            fullest.load += fullest.samples[-1] ** 2 / fullest.ranks
            return
        left.append(fullest.samples.pop())


def fill(groups):
    """Doubles the first of the smallest groups while ranks are idle. It then has the load of its
    first sample only."""
    while (idle := RANKS - sum(group.ranks for group in groups)) > 0:
        smallest = min(groups, key=lambda group: group.ranks)
        smallest.ranks += min(smallest.ranks, idle)
        smallest.load = smallest.samples[0] ** 2 / smallest.ranks


def megatron(lengths, budget, overhead):
    """Micro-batches one after another. All ranks wait for the slowest in each."""
    left, makespan = sorted(lengths, reverse=True), 0.0
    while left:
        groups, left = megatron_micro_batch(buckets_of(left, budget), budget)
        makespan += max(
            sum(seconds_of(length, group.ranks, overhead) for length in group.samples)
            for group in groups
        )
    return makespan


def measure(lengths, budget, overhead):
    """The plan, and the least processor time of five in milliseconds."""
    best = math.inf
    for _ in range(5):
        begin = time.thread_time()
        plan = sab.plan_context(
            lengths, world_size=RANKS, budget=budget, cost=COST, overhead=overhead
        )
        best = min(best, time.thread_time() - begin)
    return plan, 1e3 * best


def row(shape, budget, load, overhead, steps):
    random = np.random.default_rng(0)
    less, less_than_rule, gaps, times = [], [], [], []
    for _ in range(steps):
        lengths = draw(random, shape, load * RANKS * budget)
        plan, milliseconds = measure(lengths, budget, overhead)
        less.append(1 - plan.makespan / longest_first(lengths, budget, overhead))
        less_than_rule.append(1 - plan.makespan / megatron(lengths, budget, overhead))
        gaps.append(plan.makespan / plan.lower_bound)
        times.append(milliseconds)
    return less, less_than_rule, gaps, times


def target(name, measured, aim, is_met):
    print(f"| {name} | {aim} | {measured} | {'met' if is_met else 'NOT MET'} |")


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    print(
        "| budget, capacities, overhead, lengths | below longest-first | below Megatron's rule "
        "| over the bound: median, largest | ms: mean, longest |\n|---|---:|---:|---:|---:|"
    )
    found = {}
    for budget in (8192, 16384):
        for load in (1, 2, 4):
            for name, overhead in OVERHEADS.items():
                for shape in ("log-uniform", "Pareto", "log-normal"):
                    less, rule, gaps, times = row(shape, budget, load, overhead, steps)
                    found[budget, load, name, shape] = less, gaps, times
                    print(
                        f"| {budget:,}, {load}, {name}, {shape} "
                        f"| {100 * statistics.mean(less):.1f} % "
                        f"| {100 * statistics.mean(rule):.1f} % "
                        f"| {statistics.median(gaps):.4f}, {max(gaps):.3f} "
                        f"| {statistics.mean(times):.2f}, {max(times):.2f} |",
                        flush=True,
                    )
    print("\n| figure, worst of all rows | target | measured | |\n|---|---|---:|---|")
    chosen = [value for key, value in found.items() if key[1:3] == (1, "none")]
    worst = min(statistics.mean(less) for less, _, _ in chosen)
    target(
        "one capacity, no overhead: below longest-first",
        f"{100 * worst:.1f} %",
        "at least 15 %",
        worst >= 0.15,
    )
    gap = max(statistics.median(gaps) for _, gaps, _ in chosen)
    target("the same: median over the bound", f"{gap:.4f}", "at most 1.02", gap <= 1.02)
    chosen = [value for key, value in found.items() if key[1:3] == (1, "64 tokens")]
    worst = min(statistics.mean(less) for less, _, _ in chosen)
    target(
        "one capacity, 64 tokens: below longest-first",
        f"{100 * worst:.1f} %",
        "at least 7 %",
        worst >= 0.07,
    )
    gap = max(statistics.median(gaps) for key, (_, gaps, _) in found.items() if key[1] > 1)
    target(
        "two capacities or more: median over the bound", f"{gap:.4f}", "at most 1.05", gap <= 1.05
    )
    worst = min(min(less) for less, _, _ in found.values())
    target("any step: below longest-first", f"{100 * worst:.2f} %", "never worse", worst >= -1e-12)
    slowest = max(max(times) for _, _, times in found.values())
    target("longest time of a plan", f"{slowest:.2f} ms", "at most 5.5 ms", slowest <= 5.5)


if __name__ == "__main__":
    main()
