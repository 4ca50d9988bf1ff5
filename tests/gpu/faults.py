"""Faults: a leak, a step that runs out of memory, and another process on the card."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from typing import Any, NamedTuple

import numpy as np
import torch

import sab
from common import GIB, MIB, Part, percent, size_text
from workloads import (
    Decoder,
    Texts,
    Trainer,
    guarded_step,
    lengths,
    random_words,
)

MEMORY = "cuda:0"
WORDS = 512


class Setting(NamedTuple):
    """A plan by memory, and what trains on it."""

    trainer: Trainer
    texts: Texts
    plan: sab.Plan
    probe: sab.Probe


def setting(part: Part, probe: sab.Probe, budget: int) -> Setting:
    torch.manual_seed(0)
    longest = part.size(512, 32)
    network = Decoder(part.size((512, 6, 8), (16, 1, 2)), WORDS, longest)
    trainer = Trainer(network, random_words(WORDS, part.device), part.device)
    # None so short that a batch has more than 65,535 samples, the most that attention takes.
    sizes = lengths("proteins", *part.size((40_000, 512, 1, 32), (6000, 32, 64)))
    texts = Texts(sizes, WORDS, part.device)  # on the device, like the network, from now on
    model = sab.MemoryModel.learn(
        trainer.trial,
        probe,
        shortest=int(sizes.min()),
        longest=int(sizes.max()),
        budget=budget,
        cleanup=trainer.clear,
    )
    return Setting(trainer, texts, sab.plan(sizes, cost=model, budget=budget), probe)


class Outcome(NamedTuple):
    steps: int
    samples: int
    info: sab.MemoryGuardInfo
    last_peaks: float  # mean of the last tenth of the steps


def epoch(part: Part, made: Setting, steps: int, before_step: Any) -> Outcome:
    """Steps under a guard. `before_step(step)` may take memory."""
    trainer, texts, plan, probe = made
    samples = 0
    peaks: list[int] = []
    sampler = sab.BucketSampler(plan, seed=0)
    with sab.MemoryGuard(sampler, probe, interval=8, window=32) as guard:
        for batch in sampler.batches():
            if len(peaks) == steps or part.is_over(0.9, f"steps after {len(peaks)} of {steps}"):
                break
            before_step(len(peaks))
            guarded_step(guard, batch, texts, trainer)
            trainer.optimizer.step()
            samples += batch.count
            peaks.append(probe.stats().peak)
        return Outcome(len(peaks), samples, guard.info, float(np.mean(peaks[-steps // 10 :])))


def leak(part: Part) -> list[Any]:
    """A share of the device is taken, little by little, and never given back."""
    limit = part.size(4 * GIB, 4 * MIB)
    steps = part.size(300, 40)
    with sab.Probe(MEMORY, total_bytes=limit) as probe:
        made = setting(part, probe, limit)
        leaked: list[torch.Tensor] = []
        piece = int(0.3 * limit / (0.8 * steps))

        def take(step: int) -> None:
            if step >= 0.1 * steps and len(leaked) < 0.8 * steps:
                leaked.append(torch.zeros(piece, dtype=torch.uint8, device=part.device))

        outcome = epoch(part, made, steps, take)
        lost = piece * len(leaked) / limit
    finished = f"{outcome.steps} of {steps} steps, {percent(lost)} leaked"
    met = outcome.steps == steps and lost >= 0.295
    part.figure("leak of 30 %: survived", f"{steps} steps", finished, met, exact=True)
    return ["leak of 30 %", *row_of(outcome)]


def row_of(outcome: Outcome) -> list[Any]:
    info = outcome.info
    return [outcome.steps, info.out_of_memory, info.lowered, size_text(outcome.last_peaks)]


def gradient_of(trainer: Trainer) -> torch.Tensor:
    gradient = max(trainer.network.parameters(), key=torch.numel).grad
    assert gradient is not None
    return gradient


def split(part: Part) -> list[Any]:
    """One batch that is too large: its gradients are those of its parts."""
    limit = part.size(4 * GIB, 4 * MIB)
    with sab.Probe(MEMORY, total_bytes=limit) as probe:
        made = setting(part, probe, limit // 2)
        trainer, _, plan, _ = made
        bucket = max(plan.buckets, key=lambda each: each.batch_size)
        length = int(bucket.padded_length)
        count = 3 * bucket.batch_size
        # Of one length each, so that the mean over the tokens is the mean over the samples.
        words = torch.randint(0, WORDS, (count, length), device=part.device)

        def gradients(chunk: int) -> torch.Tensor:
            trainer.clear()
            for first in range(0, count, chunk):
                rows = words[first : first + chunk]
                trainer.part((rows, rows), len(rows) / count)
            return gradient_of(trainer).clone()

        expected = gradients(max(bucket.batch_size // 2, 1))
        sampler = sab.BucketSampler(plan, seed=0)
        with sab.MemoryGuard(sampler, probe) as guard:
            guard.step(
                (count, length),
                lambda first, size, weight: trainer.part(
                    (words[first : first + size], words[first : first + size]), weight
                ),
                begin=trainer.clear,
            )
            info = guard.info
        found = gradient_of(trainer)
        error = float((found - expected).norm() / expected.norm())
        peak = probe.stats().peak
    met = info.out_of_memory == 1 and error < 1e-3
    measured = f"{info.out_of_memory} split, gradients differ by {error:.0e}"
    part.figure("a step that runs out", "1 split, under 1e-3", measured, met, exact=True)
    return [f"a step of {count} samples", 1, info.out_of_memory, info.lowered, size_text(peak)]


def occupy(part: Part, count: int) -> tuple[Any, Any]:
    """Starts a process that holds so many bytes of the device."""
    if part.dry_run:  # its memory is this process's own
        return None, torch.zeros(count, dtype=torch.uint8)
    program = (
        "import sys, torch\n"
        f"held = torch.zeros({count}, dtype=torch.uint8, device='cuda:0')\n"
        "torch.cuda.synchronize()\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        raise RuntimeError("the other process did not start")
    return process, None


def another_process(part: Part) -> list[Any]:
    """In the middle of the run another process takes all but two thirds of what the plan needs."""
    steps = part.size(200, 30)
    budget = part.size(12 * GIB, 4 * MIB)
    held: list[Any] = []

    def take(step: int) -> None:
        if step == steps // 4:
            torch.cuda.empty_cache()
            free = torch.cuda.mem_get_info()[0]
            own = torch.cuda.memory_reserved()
            held.append(occupy(part, max(free + own - 2 * budget // 3, 0)))

    with sab.Probe(MEMORY, total_bytes=part.size(None, budget)) as probe:
        made = setting(part, probe, budget)
        try:
            outcome = epoch(part, made, steps, take)
        finally:
            for process, _ in held:
                if process is not None:
                    process.stdin.close()
                    process.wait(timeout=30)
            held.clear()
    finished = f"{outcome.steps} of {steps} steps"
    met = outcome.steps == steps
    part.figure("another process: survived", f"{steps} steps", finished, met, exact=True)
    return ["another process on the card", *row_of(outcome)]


def main() -> None:
    with Part("faults", 110) as part:
        begin = time.perf_counter()
        rows = []
        for fault in (leak, split, another_process):
            with part.attempt(fault.__name__):
                rows.append(fault(part))
            gc.collect()
            torch.cuda.empty_cache()
        columns = ("fault", "steps", "split", "budget lowered", "last peaks")
        seconds = time.perf_counter() - begin
        part.table(f"Training under a guard, {seconds:.0f} s", columns, rows)


if __name__ == "__main__":
    main()
