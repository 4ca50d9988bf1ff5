"""Packing: fill and speed beside textbook best-fit decreasing and histogram packing in Python, and
beside a counting sort and a copy: packing.py [C_PROGRAM [SAMPLES...]].

Lengths shaped like wikitext-103's paragraphs and like proteins (log-normal, median 270), cut at the
capacity. Best-fit decreasing is what trl's `pack_dataset` does (a segment tree over the room left),
histogram packing what Krell et al. 2021 publish; both are written out here, and trl is measured too
where it is installed.
"""

import collections
import json
import subprocess
import sys
import tempfile
import time

import numpy as np

import sab
from lengths import lengths


def wikitext(count, capacity):
    made = [lengths(seed=seed) for seed in range(-(-count // 1_164_464))]
    return np.minimum(np.concatenate(made)[:count], capacity).astype(np.int32)


def proteins(count, capacity):
    drawn = np.random.default_rng(0).lognormal(np.log(270), 0.8, count)
    return np.clip(drawn, 20, capacity).astype(np.int32)


def best_fit_decreasing(sizes, capacity):
    """Sample by sample, longest first, with a segment tree over the room left: bins as lists of
    samples."""
    leaves = 1 << capacity.bit_length()
    tree = [0] * (2 * leaves)  # the largest room below each node that some bin has left
    by_room = collections.defaultdict(list)
    bins = []

    def set_leaf(room, value):
        node = leaves + room
        tree[node] = value
        node //= 2
        while node:
            left, right = tree[2 * node], tree[2 * node + 1]
            tree[node] = left if left > right else right
            node //= 2

    for index in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[index])
        # The least room of at least `size`: up from its leaf to the first right neighbour that has
        # some, then down.
        node = leaves + size
        if not tree[node]:
            while node > 1 and (node & 1 or not tree[node + 1]):
                node //= 2
            if node > 1:
                node += 1
                while node < leaves:
                    node = 2 * node if tree[2 * node] else 2 * node + 1
        if node > 1:
            room = node - leaves
            which = by_room[room].pop()
            if not by_room[room]:
                set_leaf(room, 0)
            bins[which].append(index)
        else:
            room, which = capacity, len(bins)
            bins.append([index])
        room -= size
        if room > 0:
            by_room[room].append(which)
            if len(by_room[room]) == 1:
                set_leaf(room, room)
    return bins


def histogram_packing(sizes, capacity):
    """Shortest-pack-first over the histogram of the lengths, then samples dealt to the packs: bins
    as lists of samples."""
    counts = np.bincount(sizes, minlength=capacity + 1)
    packs = collections.defaultdict(list)  # by room left: [times, lengths]
    for length in range(capacity, 0, -1):
        left, room = int(counts[length]), capacity
        while left:
            if packs.get(room):
                times, pack = packs[room].pop()
                if times > left:
                    packs[room].append((times - left, pack))
                    times = left
                packs[room - length].append((times, [*pack, length]))
                left -= times
                continue
            room -= 1
            if room < length:
                packs[capacity - length].append((left, [length]))
                left = 0
    order = np.argsort(sizes, kind="stable").tolist()
    next_of = np.concatenate([[0], np.cumsum(counts)]).tolist()
    bins = []
    for kinds in packs.values():
        for times, pack in kinds:
            for _ in range(times):
                made = []
                for length in pack:
                    made.append(order[next_of[length]])
                    next_of[length] += 1
                bins.append(made)
    return bins


def trl_packing(sizes, capacity):
    """With its tokens, which it moves too, and by its own default in batches of 1,000 samples."""
    import datasets
    import pyarrow
    from trl import pack_dataset

    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    tokens = pyarrow.ListArray.from_arrays(offsets, np.zeros(offsets[-1], np.int32))
    data = datasets.Dataset(pyarrow.table({"input_ids": tokens}))
    begin = time.perf_counter()
    return len(pack_dataset(data, capacity, "bfd")), time.perf_counter() - begin


def timed(pack, sizes, capacity):
    begin = time.perf_counter()
    bins = pack(sizes, capacity)
    spent = time.perf_counter() - begin
    assert sorted(index for each in bins for index in each) == list(range(len(sizes)))
    assert max(int(sizes[each].sum()) for each in bins[:1000]) <= capacity
    return len(bins), spent


def ours(method):
    def run(sizes, capacity):
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            sampler = sab.PackedSampler(sizes, capacity, method=method)
            times.append(time.perf_counter() - begin)
        return sampler.info.bins, min(times)

    return run


def imbalance(sizes, capacity, ranks=8):
    """Sum over steps of the costliest rank's squared lengths, over that of the mean rank: of the
    order as it is, and of a random one."""
    costs = []
    for rank in range(ranks):
        sampler = sab.PackedSampler(sizes, capacity, seed=1, rank=rank, world_size=ranks)
        costs.append(
            [
                float(np.square(np.diff(row.cu_seqlens), dtype=np.float64).sum())
                for row in sampler.batches()
            ][:-1]
        )  # the last step is split
    costs = np.array(costs)
    shuffled = np.random.default_rng(0).permutation(costs.ravel()).reshape(costs.shape)
    return [each.max(axis=0).sum() / each.mean(axis=0).sum() for each in (costs, shuffled)]


def main():
    program, counts = (
        sys.argv[1] if len(sys.argv) > 1 else None,
        [int(word) for word in sys.argv[2:]] or [1_000_000, 10_000_000],
    )
    shapes = {"wikitext-103": wikitext, "proteins": proteins}
    print("| packing 1 million | bins | over the bound | fill | seconds | times best_fit's |")
    print("|---|---:|---:|---:|---:|---:|")
    for shape, make in shapes.items():
        for capacity in (2048, 8192):
            sizes = make(1_000_000, capacity)
            bound = sab.PackedSampler(sizes, capacity).info.lower_bound
            base = None
            systems = [
                (f"sab {method}", ours(method)) for method in ("best_fit", "histogram", "first_fit")
            ]
            systems.append(
                ("best-fit decreasing, Python", lambda *a: timed(best_fit_decreasing, *a))
            )
            systems.append(("histogram packing, Python", lambda *a: timed(histogram_packing, *a)))
            try:
                import trl  # noqa: F401

                systems.append(("trl", trl_packing))
            except ImportError:
                pass
            for name, run in systems:
                bins, seconds = run(sizes, capacity)
                base = base or seconds
                fill = int(sizes.sum(dtype=np.int64)) / (bins * capacity)
                print(
                    f"| {shape}, {capacity:,}: {name} | {bins:,} | {bins / bound:.5f} | "
                    f"{100 * fill:.3f} % | {seconds:.4f} | {seconds / base:.1f} |",
                    flush=True,
                )
    print()
    print("| costliest of 8 ranks over their mean, quadratic cost | libsab | random order |")
    print("|---|---:|---:|")
    for shape, make in shapes.items():
        for capacity in (2048, 8192):
            print(
                "| {}, {:,} | {:.3f} | {:.3f} |".format(
                    shape, capacity, *imbalance(make(1_000_000, capacity), capacity)
                ),
                flush=True,
            )
    if program is None:
        return
    print()
    print(
        "| packing in C | pack, ms | counting sort, ms | copy, ms | pack / (4 sorts + 10 copies) "
        "| fill | epoch, ns a sample |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for count in counts:
        for shape, make in shapes.items():
            for capacity in (2048, 8192):
                with tempfile.NamedTemporaryFile() as file:
                    make(count, capacity).tofile(file)
                    file.flush()
                    for method, name in enumerate(("best_fit", "histogram", "first_fit")):
                        said = json.loads(
                            subprocess.run(
                                [program, file.name, str(count), str(method), str(capacity)],
                                check=True,
                                capture_output=True,
                            ).stdout
                        )
                        limit = 4 * said["sort"] + 10 * said["copy"]
                        print(
                            f"| {shape}, {count:,} into {capacity:,}, {name} | "
                            f"{1e3 * said['pack']:.1f} | {1e3 * said['sort']:.1f} | "
                            f"{1e3 * said['copy']:.1f} "
                            f"| {said['pack'] / limit:.2f} | {100 * said['fill']:.3f} % | "
                            f"{1e9 * said['epoch'] / count:.0f} |",
                            flush=True,
                        )


if __name__ == "__main__":
    main()
