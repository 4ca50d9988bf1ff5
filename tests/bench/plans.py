"""Automatic buckets beside equal runs, on ten distributions of lengths: plans.py [FOLDER OF .mo
FILES]. Prints two tables in Markdown.

Three are real: glosses of WordNet in words, messages of translated programs in bytes (many are very
short), and lines of Python's standard library in characters. Where a source is not installed, its
row is left out. Batches are given over the lower bound, with the share of padding when each sample
is padded to its bucket's longest.
"""

import pathlib
import struct
import sys
import sysconfig
from typing import Any

import numpy as np

import sab
from lengths import lengths


def glosses() -> "list[int]":
    return [
        len(line.rsplit("| ", 1)[1].split())
        for file in pathlib.Path("/usr/share/wordnet").glob("data.*")
        for line in file.read_text().splitlines()
        if "| " in line
    ]


def messages(folder: str) -> "list[int]":
    found = []
    for path in sorted(pathlib.Path(folder).rglob("*.mo")):
        data = path.read_bytes()
        order = "<" if data[:4] == b"\xde\x12\x04\x95" else ">"
        count, _, table = struct.unpack(f"{order}3I", data[8:20])
        for i in range(1, count):  # the first is a header
            length, begin = struct.unpack_from(f"{order}2I", data, table + 8 * i)
            found += [
                len(line)
                for line in data[begin : begin + length].replace(b"\0", b"\n").split(b"\n")
                if line
            ]
    return found


def lines() -> "list[int]":
    files = sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    return [
        len(line)
        for file in files
        for line in file.read_text(errors="replace").splitlines()
        if line
    ]


def synthetic() -> "dict[str, tuple[np.ndarray, int]]":
    random, count = np.random.default_rng(0), 300_000
    text = np.clip(random.lognormal(3.2, 0.7, count), 1, 500)
    made = {
        "log-normal": (np.clip(random.lognormal(3.1, 0.8, count), 1, 2000), 16384),
        "gamma, 2 longest a batch": (np.clip(random.gamma(2, 40, count), 1, 2000), 2),
        "exponential, 2 longest a batch": (np.clip(random.exponential(20, count), 1, 600), 2),
        "uniform": (random.integers(1, 513, count), 16384),
        "60 % of 1 to 3, log-normal": (
            np.where(random.random(count) < 0.6, random.integers(1, 4, count), text),
            4000,
        ),
        "Pareto": (np.clip(20 * random.pareto(2, count), 1, 4096), 16384),
    }
    return {
        name: (
            np.asarray(sizes).astype(int),
            budget * (1 if budget > 2 else sizes.max().astype(int)),
        )
        for name, (sizes, budget) in made.items()
    }


def equal_runs(sizes: np.ndarray, budget: float, batches: int) -> "tuple[int, float]":
    """Batches and padded total of runs of so many whole batches, from the longest sample down. What
    is too little for another run joins the last one."""
    longest_first = np.sort(sizes)[::-1]
    count, padded, begin = 0, 0.0, 0
    while begin < len(sizes):
        size, left = int(budget // longest_first[begin]), len(sizes) - begin
        run = size * min(batches, left // size) or left
        if run < left and (left - run) // (budget // longest_first[begin + run]) < batches:
            run = left
        count += -(-run // size)
        padded += float(longest_first[begin]) * run
        begin += run
    return count, padded


def cells(sizes: np.ndarray, budget: float) -> "tuple[list[str], list[str]]":
    """Cells of the table beside equal runs, and of the table of default options."""

    usual = sab.plan(sizes, budget)

    def wasted(batches: int, padded: float) -> str:
        return f"{batches / usual.lower_bound:.4f} ({1 - sizes.sum() / padded:.2%})"

    def over(plan: sab.Plan) -> str:
        padded = sum(bucket.padded_length * bucket.samples for bucket in plan.buckets)
        return wasted(plan.batch_count, padded)

    beside = []
    for least in (16, 4):
        beside.append(wasted(*equal_runs(sizes, budget, least)))
        beside.append(over(sab.plan(sizes, budget, padding=1e-6, bucket_batches=least)))
    report = usual.report()
    return beside, [
        f"{len(sizes):,}",
        f"{usual.lower_bound:,}",
        over(usual),
        f"{report.nearest_target:.2%}",
        f"{report.meet_again:.1%}",
    ]


def main() -> None:
    sources: dict[str, tuple[Any, int]] = {
        "glosses of WordNet": (glosses(), 4096),
        "messages of programs": (
            messages(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/locale"),
            16384,
        ),
        "lines of Python's library": (lines(), 16384),
        "wikitext-103, drawn": (lengths(), 16384),
        **synthetic(),
    }
    rows = {
        name: cells(np.asarray(sizes), budget)
        for name, (sizes, budget) in sources.items()
        if len(sizes) > 0
    }
    titles = (
        ["equal runs of 16", "automatic, at least 16", "equal runs of 4", "automatic, at least 4"],
        ["samples", "bound", "batches (padding)", "in reach", "meet again"],
    )
    for table, columns in enumerate(titles):
        print("| lengths |", " | ".join(columns), "|")
        print("|---|" + "---:|" * len(columns))
        for name, both in rows.items():
            print(f"| {name} |", " | ".join(both[table]), "|")
        print()


if __name__ == "__main__":
    main()
