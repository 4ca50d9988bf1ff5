"""Manual pages on 16 ranks: long ones are split over several ranks, as context parallelism does.

Debian's packages bring manual pages, /usr/share/man. The length of a page is its number of words.
Each step takes random pages until their words fill the ranks once. A page costs 24,576 L + L^2, as
a transformer with 4,096 channels; each rank of a group after the first costs the linear work of 64
words. Prints how long a step takes with the fewest ranks that hold each page, longest first, and
with sab.plan_context.
"""

import argparse
import gzip
import pathlib
import sys

import numpy as np

import sab

LINEAR = 24576
OVERHEAD = 64 * LINEAR


def page_lengths(folder: pathlib.Path) -> "list[int]":
    """Words of each manual page below a folder. Pages that only name another page are left out."""
    found = []
    for path in sorted(folder.glob("man*/*.gz")):
        text = gzip.decompress(path.read_bytes()).split()
        if len(text) > 2:
            found.append(len(text))
    return found


def seconds_of(length: int, ranks: int) -> float:
    return (LINEAR * length + length**2) / ranks + OVERHEAD * (ranks - 1)


def longest_first(lengths: "list[int]", world_size: int, budget: int) -> float:
    """When the last rank ends, if each page has the fewest ranks that hold it."""
    ends = np.zeros(world_size)
    for length in sorted(lengths, reverse=True):
        ranks = 1
        while ranks * budget < length:
            ranks *= 2
        starts = ends.reshape(-1, ranks).max(axis=1)
        group = int(starts.argmin())
        end = starts[group] + seconds_of(length, ranks)
        ends[group * ranks : (group + 1) * ranks] = end
    return float(ends.max())


def steps_of(lengths: "list[int]", words: int) -> "list[list[int]]":
    """Pages in random order, cut into steps of at most so many words."""
    steps: list[list[int]] = [[]]
    for place in np.random.default_rng(0).permutation(len(lengths)):
        length = lengths[place]
        if length > words:
            continue
        if sum(steps[-1]) + length > words:
            steps.append([])
        steps[-1].append(length)
    return steps[:-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, default="/usr/share/man")
    parser.add_argument("--world-size", type=int, default=16, help="ranks, a power of two")
    parser.add_argument("--budget", type=int, default=4096, help="words that a rank holds")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    world_size, budget = options.world_size, options.budget
    lengths = page_lengths(options.folder)
    if not lengths:
        sys.exit(f"{options.folder} has no manual pages: pass another folder as --folder")
    steps = steps_of(lengths, world_size * budget)[: options.steps]
    if not steps:
        sys.exit("the pages do not fill a step: pass a smaller --budget or --world-size")
    rows: dict[str, list[float]] = {"longest first": [], "plan_context": [], "bound": []}
    split = 0
    for step in steps:
        plan = sab.plan_context(
            step,
            world_size=world_size,
            budget=budget,
            cost=[0, 0, LINEAR, 1],
            overhead=OVERHEAD,
        )
        rows["longest first"].append(longest_first(step, world_size, budget))
        rows["plan_context"].append(plan.makespan)
        rows["bound"].append(plan.lower_bound)
        split += sum(part.of > 1 and part.part == 0 for parts in plan for part in parts)
    pages = sum(map(len, steps))
    print(f"{len(steps)} steps, {pages:,} pages of up to {max(map(max, steps)):,} words")
    print(f"{'':<16}{'mean step':>12}{'longest step':>14}{'over the bound':>16}")
    bound = sum(rows.pop("bound"))
    for name, makespans in rows.items():
        mean, longest = np.mean(makespans) / LINEAR, max(makespans) / LINEAR
        over = f"{100 * (sum(makespans) / bound - 1):.1f}%"
        print(f"{name:<16}{mean:>12,.0f}{longest:>14,.0f}{over:>16}")
    print(f"steps: as long as the linear work of so many words; {split:,} pages were split")


if __name__ == "__main__":
    main()
