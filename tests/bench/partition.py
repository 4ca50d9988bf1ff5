"""Items to parts: sab.partition against Karmarkar-Karp in Python, as training frameworks run it
between steps: partition.py.

4,096 samples of log-normal lengths on 64 ranks; cost by length and by its square; with and without
equal counts. The Python rows are a heap of states written out below, and verl's own where
`verl.utils.seqlen_balancing` can be imported. Imbalance is the costliest part over the mean. Times
are the best of several runs, taken in turns.
"""

import heapq
import sys
import time

import numpy as np

import sab

SAMPLES, RANKS = 4096, 64


def karmarkar_karp(costs, parts, equal_counts):
    """A heap of states, each a list of (sum, items) by falling sum; the two of the largest spread
    are joined."""
    order = sorted(range(len(costs)), key=costs.__getitem__)
    heap = []
    for first in range(0, len(order), parts if equal_counts else 1):
        some = order[first : first + (parts if equal_counts else 1)]
        state = [(costs[item], [item]) for item in reversed(some)] + [(0, [])] * (parts - len(some))
        heap.append((state[-1][0] - state[0][0], first, state))
    heapq.heapify(heap)
    while len(heap) > 1:
        (_, name, left), (_, _, right) = heapq.heappop(heap), heapq.heappop(heap)
        state = sorted(
            ((a + b, x + y) for (a, x), (b, y) in zip(left, reversed(right))),
            key=lambda part: -part[0],
        )
        heapq.heappush(heap, (state[-1][0] - state[0][0], name, state))
    return [items for _, items in heap[0][2]]


def verl():
    try:
        from verl.utils.seqlen_balancing import karmarkar_karp as theirs
    except ImportError:
        return None
    return lambda costs, parts, equal_counts: theirs(costs, parts, equal_size=equal_counts)


def best(runs, *calls):
    """The shortest time of each in seconds, and what it gave."""
    times, results = [float("inf")] * len(calls), [None] * len(calls)
    for _ in range(runs):
        for i, call in enumerate(calls):
            begin = time.perf_counter()
            results[i] = call()
            times[i] = min(times[i], time.perf_counter() - begin)
    return zip(times, results)


def main():
    lengths = np.clip(np.random.default_rng(0).lognormal(6.5, 0.9, SAMPLES), 16, 8192).astype(
        np.int64
    )
    peers = {"Karmarkar-Karp in Python": karmarkar_karp, "verl": verl()}
    slowest = float("inf")
    print(
        f"| {SAMPLES} samples on {RANKS} ranks, Python {sys.version.split()[0]} | ms | ratio | "
        f"costliest - cheapest | imbalance |\n|---|---:|---:|---:|---:|"
    )
    for cost, costs in (("length", lengths), ("length²", lengths**2)):
        given = costs.tolist()
        for equal_counts in (False, True):
            rows = {
                "libsab": lambda: sab.partition(costs, RANKS, equal_counts=equal_counts),
            }
            rows |= {
                name: lambda call=call: call(given, RANKS, equal_counts)
                for name, call in peers.items()
                if call is not None
            }
            results = dict(zip(rows, best(3, *rows.values())))
            ours = results["libsab"][0]
            for name, (seconds, parts) in results.items():
                sums = [int(costs[part].sum()) for part in parts]
                even = ", equal counts" if equal_counts else ""
                print(
                    f"| {cost}{even}: {name} | {1e3 * seconds:.2f} | {seconds / ours:.1f} | "
                    f"{max(sums) - min(sums)} | {max(sums) / np.mean(sums):.6f} |"
                )
                if name in peers and not equal_counts:
                    slowest = min(slowest, seconds / ours)
    print(
        f"\nAt least {slowest:.0f} times as fast as the fastest in Python, without equal counts "
        f"(aim: 50)."
    )


if __name__ == "__main__":
    main()
