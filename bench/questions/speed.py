"""Samples a second, and memory. Run as a program, it measures the memory of one peer."""

import math
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from bench.data import Data
from bench.peers import Batch, Peer, Work, all_peers
from bench.questions import Settings, cells_of
from bench.report import MACHINE, Answer, Cell, Column, Table

TEXT = """One shuffled epoch on one rank, batches used and let go, as in training. An epoch is \
cut short after 4 seconds; a sampler whose later batches are faster, such as PyG's, then looks \
up to twice as slow as it is. Ready is the time until the first batch of a new sampler. Memory \
is the peak of a process of its own, beyond the lengths and what the imports take."""
COLUMNS = [
    Column(f"million samples a second{MACHINE}", "{:.3g}", "most"),
    Column(f"time of a sample, libsab = 1{MACHINE}", "{:,.1f}", "least"),
    Column(f"ready after, seconds{MACHINE}", "{:,.3f}", "least"),
    Column(f"memory, MiB{MACHINE}", "{:,.0f}", "least"),
]
LONG = 4.0  # seconds after which an epoch is cut short; a peer that takes so long runs twice


def memory(peer: type[Peer], data: Data) -> float:
    """MiB that an epoch takes, by a child process."""
    path = "build/bench-lengths.npy"
    np.save(path, data.lengths)
    command = [sys.executable, "-W", "ignore", "-m", __name__, peer.name, path, str(data.budget)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(output.splitlines()[-1])


def status(name: str) -> float:
    """MiB of resident memory: VmRSS now, VmHWM at its peak."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) / 1024


def iterate(batches: Iterator[Batch]) -> int:
    """Uses batches for at most LONG; the number of samples in them."""
    samples, end = 0, time.perf_counter() + LONG
    for batch in batches:
        samples += len(batch)
        if time.perf_counter() > end:
            break
    return samples


class Timed:
    """The shortest times of one peer: seconds until the first batch, seconds a sample."""

    def __init__(self, peer: type[Peer], data: Data) -> None:
        self.peer, self.data = peer, data
        self.sample = self.ready = math.inf
        self.runs, self.cut = 0, False

    def run(self) -> None:
        if self.runs >= 2 and self.cut:
            return
        begin = time.perf_counter()
        sampler = self.peer(Work(self.data.lengths, self.data.budget))
        next(sampler.epoch(0))  # type: ignore[attr-defined]
        self.ready = min(self.ready, time.perf_counter() - begin)
        begin = time.perf_counter()
        samples = iterate(sampler.epoch(1))  # type: ignore[attr-defined]
        spent = time.perf_counter() - begin
        self.sample = min(self.sample, spent / samples)
        self.runs, self.cut = self.runs + 1, spent > LONG


def run(settings: Settings) -> Answer:
    data = settings.data[0]
    table = Table(f"{data.name}, {len(data.lengths):,} samples", COLUMNS)
    timed = {peer: Timed(peer, data) for peer in settings.peers if hasattr(peer, "epoch")}

    def turn(peer: type[Peer]) -> list[Cell]:
        timed[peer].run()
        return []

    for _ in range(3 if settings.quick else 7):
        for peer in timed:
            cells_of(lambda: turn(peer), 0)  # ask() reports what fails
    base = next(iter(timed.values())).sample

    def ask(peer: type[Peer]) -> list[Cell]:
        if not timed[peer].runs:
            timed[peer].run()  # raises again what it raised before
        seconds = timed[peer].sample
        return [1e-6 / seconds, seconds / base, timed[peer].ready, memory(peer, data)]

    for peer in timed:
        table.rows[peer.name] = cells_of(lambda: ask(peer), len(COLUMNS))
    return Answer("speed", "Speed and memory", TEXT, [table], logarithmic=True)


def check(answer: Answer) -> list[str]:
    (table,) = answer.tables
    return [
        f"{name}: {cells}"
        for name, cells in table.rows.items()
        if name.startswith("libsab") and not all(isinstance(cell, float) for cell in cells)
    ]


def main() -> None:
    name, path, budget = sys.argv[1:]
    peer = next(each for each in all_peers() if each.name == name)
    peer(Work(np.arange(1, 65), 64)).epoch(0)  # type: ignore[attr-defined]  # imports what it needs
    work = Work(np.load(path), int(budget))
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before = status("VmRSS")
    iterate(peer(work).epoch(0))  # type: ignore[attr-defined]
    print(status("VmHWM") - before)


if __name__ == "__main__":
    main()
