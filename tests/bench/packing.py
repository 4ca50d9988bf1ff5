"""Packing in C beside a counting sort and a copy, and how even the rows of ranks are: packing.py
C_PROGRAM [SAMPLES...].

Lengths shaped like wikitext-103's paragraphs and like proteins (log-normal, median 270), cut at the
capacity. bench.sh compares packing with other libraries.
"""

import json
import subprocess
import sys
import tempfile

import numpy as np

import sab
from lengths import lengths


def wikitext(count, capacity):
    made = [lengths(seed=seed) for seed in range(-(-count // 1_164_464))]
    return np.minimum(np.concatenate(made)[:count], capacity).astype(np.int32)


def proteins(count, capacity):
    drawn = np.random.default_rng(0).lognormal(np.log(270), 0.8, count)
    return np.clip(drawn, 20, capacity).astype(np.int32)


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
    program, counts = sys.argv[1], [int(word) for word in sys.argv[2:]] or [1_000_000, 10_000_000]
    shapes = {"wikitext-103": wikitext, "proteins": proteins}
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
                    for method, name in enumerate(("shuffled", "best_fit", "histogram")):
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
