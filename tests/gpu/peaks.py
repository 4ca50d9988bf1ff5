"""Peaks: what libsab records against torch's own statistics, and what recording costs.

Random programs take and drop tensors and train small networks: on the default stream, on another
stream, and as CUDA graphs that are captured and replayed. Each runs three times from the same
state: under torch's statistics alone, under sab.collect_peak, and under
bionemo's collect_cuda_peak_alloc.
"""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

import sab
from common import KIB, MIB, Part, median, percent, timed
from sab.compat.bionemo.utils import collect_cuda_peak_alloc
from workloads import Decoder, Trainer, random_words

KINDS = ("default stream", "another stream", "CUDA graph")
MEMORY = "cuda:0"


class Program(NamedTuple):
    """Steps (name, number): take so many bytes, drop a tensor, train on so many rows."""

    kind: str
    steps: list[tuple[str, int]]


def program(seed: int, most: int) -> Program:
    random = np.random.default_rng(seed)
    steps: list[tuple[str, int]] = []
    for _ in range(int(random.integers(5, 40))):
        name = str(random.choice(["take", "take", "take", "drop", "drop", "train"]))
        largest = {"take": most, "drop": 100, "train": 512}[name]
        steps.append((name, int(np.exp(random.uniform(0, np.log(largest))))))
    return Program(KINDS[int(random.choice(3, p=[0.7, 0.15, 0.15]))], steps)


class Runner:
    """Runs programs on a device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.network = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).to(device)
        self.stream = torch.cuda.Stream()

    def steps(self, steps: list[tuple[str, int]]) -> None:
        held: list[torch.Tensor] = []
        for name, number in steps:
            if name == "take":
                held.append(torch.zeros(number, dtype=torch.uint8, device=self.device))
            elif name == "drop" and held:
                held.pop(number % len(held))
            elif name == "train":
                rows = torch.ones(number, 64, device=self.device)
                self.network(rows).square().mean().backward()
                self.network.zero_grad(set_to_none=True)

    def __call__(self, made: Program) -> tuple[float]:
        if made.kind == "another stream":
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                self.steps(made.steps)
            torch.cuda.current_stream().wait_stream(self.stream)
        elif made.kind == "CUDA graph":
            graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                self.steps([step for step in made.steps if step[0] != "train"])
            for _ in range(3):
                graph.replay()
            del graph
        else:
            self.steps(made.steps)
        torch.cuda.synchronize()
        return (0.0,)


def largest_free_block() -> int:
    blocks = [
        block["size"]
        for segment in torch.cuda.memory_snapshot()
        for block in segment["blocks"]
        if block["state"] == "inactive"
    ]
    return max(blocks, default=0)


def by_torch(run: Runner, programs: list[Program]) -> list[tuple[int, int, int]]:
    """(peak, reserved peak, largest free block) of each program."""
    found = []
    for each in programs:
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        run(each)
        peaks = (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
        found.append((*peaks, largest_free_block()))
    torch.cuda.empty_cache()  # reserved bytes of the programs to come do not begin with these
    return found


def exactness(part: Part) -> None:
    programs = [program(seed, part.size(64 * MIB, 64 * KIB)) for seed in range(part.size(200, 24))]
    run = Runner(part.device)
    for kind in KINDS:  # what libraries allocate once, such as a workspace for each stream
        run(Program(kind, [("take", 512), ("train", 512)]))
    torchs = by_torch(run, programs)
    ours = sab.collect_peak(run, programs, MEMORY)
    _, bionemos = collect_cuda_peak_alloc(programs, run, torch.device(MEMORY))
    pairs = {
        "sab.collect_peak, allocated": (ours.peaks, [each[0] for each in torchs]),
        "sab.collect_peak, reserved": (ours.reserved_peaks, [each[1] for each in torchs]),
        "sab.collect_peak, largest free": (ours.largest_free, [each[2] for each in torchs]),
        "bionemo's collect_cuda_peak_alloc": (bionemos, [each[0] for each in torchs]),
    }
    rows = []
    for name, (found, expected) in pairs.items():
        equal = np.asarray(found) == np.asarray(expected)
        counts = [
            sum(bool(same) for same, each in zip(equal, programs) if each.kind == kind)
            for kind in KINDS
        ]
        rows.append((name, *counts, int(equal.sum())))
        part.figure(
            f"{name}: programs equal",
            f"{len(programs)} of {len(programs)}",
            f"{int(equal.sum())} of {len(programs)}",
            bool(equal.all()),
            exact=True,
        )
    totals = [sum(each.kind == kind for each in programs) for kind in KINDS]
    rows.append(("programs", *totals, len(programs)))
    part.table("Programs whose bytes equal torch's own", ("", *KINDS, "all"), rows)


def step_trainer(part: Part) -> tuple[Trainer, int, int]:
    """A training step of some tens of milliseconds, and its shape."""
    count, length = part.size((16, 512), (8, 16))
    network = Decoder(part.size((768, 6, 12), (16, 2, 2)), part.size(8192, 64), 512)
    made = random_words(part.size(8192, 64), part.device)
    return Trainer(network, made, part.device), count, length


def overhead(part: Part) -> None:
    """Seconds of a step alone and watched, in rounds that take turns."""
    trainer, count, length = step_trainer(part)
    plan = sab.plan(np.full(4096, length), budget=count * length)
    sampler = sab.BucketSampler(plan, seed=0)
    calls = part.size(10, 2)

    def alone() -> None:
        trainer.trial(count, length)

    with sab.Probe(MEMORY) as probe, sab.MemoryGuard(sampler, probe) as guard:

        def probed() -> None:
            probe.reset()
            alone()
            probe.stats()

        def guarded() -> None:
            with guard.measure((count, length)):
                alone()

        def collected(thorough: bool) -> float:
            def all_of_them() -> None:
                sab.collect_peak(
                    lambda _: alone(),
                    range(calls),
                    probe,
                    collect_garbage=thorough,
                    release_cache=thorough,
                )

            return timed(1, all_of_them) / calls

        systems: dict[str, Any] = {
            "alone": lambda: timed(calls, alone),
            "sab.Probe: reset and stats": lambda: timed(calls, probed),
            "sab.MemoryGuard.measure": lambda: timed(calls, guarded),
            "sab.collect_peak, cache kept": lambda: collected(False),
            "sab.collect_peak, as it is": lambda: collected(True),
        }
        seconds: dict[str, list[float]] = {name: [] for name in systems}
        alone()
        for round_ in range(part.size(15, 2)):
            if round_ > 2 and part.is_over(0.9, f"overhead, rounds after {round_} of 15"):
                break
            for name, measure in systems.items():
                seconds[name].append(measure())
    base = median(seconds["alone"])
    rows = []
    for name, each in seconds.items():
        over = median(each) / base - 1
        rows.append((name, f"{1e3 * median(each):.2f}", percent(over, 2)))
        if name in ("sab.MemoryGuard.measure", "sab.collect_peak, cache kept"):
            part.figure(f"{name}: overhead", "at most 1 %", percent(over, 2), over <= 0.01)
    part.table(
        "A training step, median (as it is, collect_peak also collects garbage and empties the "
        "allocator's cache after each item)",
        ("", "ms", "overhead"),
        rows,
    )


def main() -> None:
    with Part("peaks", 100) as part:
        with part.attempt("exactness"):
            exactness(part)
        with part.attempt("overhead"):
            overhead(part)


if __name__ == "__main__":
    main()
