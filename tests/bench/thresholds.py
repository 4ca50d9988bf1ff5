"""Thresholds: the exact methods against the randomised one, in 1,000 random cases: thresholds.py
[LENGTHS.npy].

A case is 100 to 10,000 log-normal lengths up to at most 2,048, 1 to 15 thresholds, cost by count *
length, count * length² or one with constants. The randomised method runs asym's 100 searches, here
in this library, and, where `asym` can be imported, there. Ratios are exact over randomised: at most
1 throughout is the promise. With LENGTHS.npy, times on all of those follow.
"""

import random
import sys
import time

import numpy as np

import sab

CASES = 1000
COSTS = {
    "count * length": "padded",
    "count * length²": "quadratic",
    "50 + count * (4 + length + length²)": [50, 4, 1, 1],
}


def timed(call, runs=2):
    """The shortest time in seconds, and the result."""
    least = float("inf")
    for _ in range(runs):
        begin = time.perf_counter()
        result = call()
        least = min(least, time.perf_counter() - begin)
    return least, result


def theirs():
    try:
        from asym.precompute_grouper_thresholds import find_thresholds
    except ImportError:
        return None
    return find_thresholds


def cases():
    rng = np.random.default_rng(0)
    for case in range(CASES):
        lengths = np.clip(
            rng.lognormal(rng.uniform(2, 5.5), rng.uniform(0.3, 1.2), int(10 ** rng.uniform(2, 4))),
            1,
            2048,
        ).astype(np.int64)
        k = min(int(rng.integers(1, 16)), len(np.unique(lengths)) - 1)
        yield case, lengths, k, list(COSTS)[case % len(COSTS)]


def main():
    rows = {"least total": [], "least worst": []}
    speed = {"least total": [], "least worst": []}
    peer, peer_speed = theirs(), []
    for case, lengths, k, name in cases():
        cost = COSTS[name]
        sizes = sab.Sizes(lengths)
        greedy_time, greedy = timed(
            lambda: sab.find_thresholds(sizes, k, cost=cost, method="randomised", seed=case)
        )
        total_time, total = timed(lambda: sab.find_thresholds(sizes, k, cost=cost))
        worst_time, worst = timed(
            lambda: sab.find_thresholds(sizes, k, cost=cost, method="least_largest")
        )
        rows["least total"].append(total.total / greedy.total)
        rows["least worst"].append(worst.largest / greedy.largest)
        speed["least total"].append(greedy_time / total_time)
        speed["least worst"].append(greedy_time / worst_time)
        if peer and case % 50 == 0 and name != list(COSTS)[2]:  # it takes seconds
            random.seed(case)
            listed = lengths.tolist()
            peer_speed.append(
                timed(
                    lambda: peer(
                        listed, (lambda x: x) if cost == "padded" else (lambda x: x * x), k
                    ),
                    runs=1,
                )[0]
                / total_time
            )
    print(
        f"| {CASES} cases, exact against 100 searches | cost ratio: mean | least | largest | "
        f"worse | times as fast: least | median |\n|---|---:|---:|---:|---:|---:|---:|"
    )
    for name, ratios in rows.items():
        worse = sum(ratio > 1 + 1e-12 for ratio in ratios)
        print(
            f"| {name} | {np.mean(ratios):.3f} | {min(ratios):.3f} | {max(ratios):.3f} | {worse} "
            f"| {min(speed[name]):.1f} | {np.median(speed[name]):.1f} |"
        )
    if peer_speed:
        print(
            f"\nLeast total against asym itself, {len(peer_speed)} cases: {min(peer_speed):,.0f} "
            f"to {max(peer_speed):,.0f} times as fast, median {np.median(peer_speed):,.0f}."
        )
    if len(sys.argv) > 1:
        lengths = np.load(sys.argv[1], mmap_mode="r")
        print(
            f"\n| {len(lengths):,} lengths, {len(np.unique(lengths)):,} distinct, 15 thresholds | "
            f"ms |\n|---|---:|"
        )
        for method in ("least_total", "least_largest", "randomised"):
            for name, cost in (
                *COSTS.items(),
                ("function of the length, in Python", lambda count, length: count * length**1.5),
            ):
                best, _ = timed(
                    lambda: sab.find_thresholds(
                        lengths, 15, cost=cost, method=method, cost_per_sample=callable(cost)
                    )
                )
                print(f"| {method}, {name} | {1000 * best:.1f} |")


if __name__ == "__main__":
    main()
