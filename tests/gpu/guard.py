"""Guard: 1,200 training steps on proteins in a process that is limited to 4 GiB.

libsab plans batches in bytes and trains under a MemoryGuard. Beside it: a static batch, the largest
that the longest protein allows, and a budget in tokens that fits proteins of the mean length. Each
run is a process of its own; with and without the allocator's expandable segments. One more run has
the whole device.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import sab
from common import FIRST_USE, GIB, MIB, Part, StepLog, first_use, in_process, percent, size_text
from workloads import (
    SOURCE,
    Decoder,
    Texts,
    Trainer,
    guarded_step,
    lengths,
    plain_attention,
    random_words,
)

MEMORY = "cuda:0"
SECONDS = 160
STEPS = 1200
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
# name: (batches, expandable segments, whole device, share of the steps, seconds)
RUNS: dict[str, tuple[str, bool, bool, float, float]] = {
    "libsab": ("libsab", False, False, 1.0, 40),
    "libsab, expandable": ("libsab", True, False, 1.0, 40),
    "tokens": ("tokens", False, False, 0.2, 8),
    "tokens, expandable": ("tokens", True, False, 0.2, 8),
    "static": ("static", False, False, 0.2, 8),
    "libsab, whole device": ("libsab", False, True, 0.05, 20),
}


class Batches:
    """(sample indices, padded length) of one epoch after another, and the guard's view of them."""

    def __init__(
        self, kind: str, sizes: npt.NDArray[np.int64], trainer: Trainer, probe: sab.Probe
    ) -> None:
        self.sizes, self.probe = sizes, probe
        self.longest, self.mean = int(self.sizes.max()), int(self.sizes.mean())
        self.plan: sab.Plan | None = None
        self.size = ""
        if kind == "static":
            found = sab.find_max_batch(trainer.trial, probe, lengths=[self.longest])
            self.count = found.batch_size
            self.size = str(self.count)
        elif kind == "tokens":
            found = sab.find_max_batch(trainer.trial, probe, lengths=[self.mean])
            budget = max(found.batch_size * self.mean, self.longest)
            self.plan = sab.plan(self.sizes, budget=budget)
            self.size = f"{budget:,} tokens"
        else:
            model = sab.MemoryModel.learn(
                trainer.trial,
                probe,
                shortest=int(self.sizes.min()),
                longest=self.longest,
                cleanup=trainer.clear,
            )
            self.plan = sab.plan(self.sizes, cost=model, budget=probe.stats().total)
            counts = [bucket.batch_size for bucket in self.plan.buckets]
            self.size = f"{min(counts)} to {max(counts)}"
        trainer.clear()
        gc.collect()
        torch.cuda.empty_cache()

    def static(self) -> Iterator[tuple[Any, int]]:
        random = np.random.default_rng(0)
        while True:
            order = random.permutation(len(self.sizes))
            for first in range(0, len(order) - self.count + 1, self.count):
                chosen = order[first : first + self.count]
                yield chosen, int(self.sizes[chosen].max())


class Run:
    """What a run saw, step by step."""

    def __init__(self) -> None:
        self.samples = self.steps = self.failed = 0
        self.allocated: list[int] = []
        self.reserved: list[int] = []
        self.seconds = 0.0
        self.log = StepLog()

    def saw(self, count: int, length: int) -> None:
        self.log.step([(count, length)])
        self.steps += 1
        self.samples += count
        self.allocated.append(torch.cuda.max_memory_allocated())
        self.reserved.append(torch.cuda.max_memory_reserved())

    def result(self, total: int) -> dict[str, Any]:
        allocated, reserved = np.array(self.allocated, float), np.array(self.reserved, float)
        return {
            "samples": self.samples,
            "steps": self.steps,
            "failed": self.failed,
            "log": self.log.rows(),
            "seconds": self.seconds,
            "total": total,
            "allocated": float(allocated.mean() / total),
            "reserved": float(reserved.mean() / total),
            "largest": float(reserved.max() / total),
            "fragmentation": float(1 - (allocated / np.maximum(reserved, 1)).mean()),
            "retries": int(torch.cuda.memory_stats().get("num_alloc_retries", 0)),
            "expandable": any(
                segment.get("is_expandable") for segment in torch.cuda.memory_snapshot()
            ),
        }


def guarded(
    run: Run, batches: Batches, texts: Texts, trainer: Trainer, steps: int, seconds: float
) -> None:
    """Epochs of the plan under a guard; a step that runs out is split and counted."""
    assert batches.plan is not None
    end = time.perf_counter() + seconds
    sampler = sab.BucketSampler(batches.plan, seed=0)
    with sab.MemoryGuard(sampler, batches.probe) as guard:
        while run.steps < steps and time.perf_counter() < end:
            for batch in sampler.batches():
                guarded_step(guard, batch, texts, trainer)
                trainer.optimizer.step()
                run.saw(batch.count, int(batch.padded_length))
                if run.steps == steps or time.perf_counter() > end:
                    break
        run.failed = guard.info.out_of_memory


def unguarded(
    run: Run, batches: Batches, texts: Texts, trainer: Trainer, steps: int, seconds: float
) -> None:
    """The other batches; a step that runs out is skipped and counted."""
    end = time.perf_counter() + seconds

    def planned(plan: sab.Plan) -> Iterator[tuple[Any, int]]:
        sampler = sab.BucketSampler(plan, seed=0)
        while True:
            for batch in sampler.batches():
                yield batch.indices, int(batch.padded_length)

    plan = batches.plan
    for indices, length in batches.static() if plan is None else planned(plan):
        if run.steps + run.failed == steps or time.perf_counter() > end:
            break
        torch.cuda.reset_peak_memory_stats()
        trainer.clear()
        try:
            trainer.part(texts.padded(indices, length))
        except RuntimeError as error:
            if not sab.is_out_of_memory(error):
                raise
            run.failed += 1
            continue
        trainer.optimizer.step()
        run.saw(len(indices), length)


def train(part: Part, name: str) -> dict[str, Any]:
    """One run, in this process."""
    kind, _, whole, share, seconds = RUNS[name]
    all_bytes = torch.cuda.get_device_properties(0).total_memory
    # Of a whole device some is the context's and other processes'.
    total = int(0.95 * all_bytes) if whole else 4 * GIB
    if part.dry_run:
        total = 8 * MIB if whole else 4 * MIB
    words = part.size(8192, 64)
    shape = part.size((512, 8, 8), (16, 1, 2))
    with sab.Probe(MEMORY, total_bytes=total) as probe:
        torch.manual_seed(0)
        network = Decoder(shape, words, part.size(2048, 256), plain_attention)
        made = random_words(words, part.device)
        trainer = Trainer(network, made, part.device, half=not part.dry_run)
        # None so short that a batch has more than 65,535 matrices, which kernels may not take.
        sizes = lengths("proteins", *part.size((100_000, 2048, 1, 64), (2000, 32, 64)))
        texts = Texts(sizes, words, part.device)  # on the device, like the network, from now on
        batches = Batches(kind, sizes, trainer, probe)
        run = Run()
        steps = max(part.size(int(STEPS * share), 12), 1)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loop = guarded if kind == "libsab" else unguarded
        loop(run, batches, texts, trainer, steps, part.size(seconds, 3600))
        torch.cuda.synchronize()
        run.seconds = time.perf_counter() - begin
        return {**run.result(total), "size": batches.size, "asked": steps}


def row_of(name: str, found: dict[str, Any]) -> tuple[Any, ...]:
    return (
        name,
        found["size"],
        f"{found['steps']:,}",
        found["failed"],
        percent(found["reserved"]),
        percent(found["largest"]),
        percent(found["fragmentation"]),
        found["retries"],
        f"{found['samples'] / found['seconds']:.0f}",
    )


def judge(part: Part, name: str, found: dict[str, Any]) -> None:
    if name == "libsab, whole device":
        # Without a target: the share is to be known.
        return
    complete = found["steps"] == found["asked"]
    part.figure(
        f"{name}: steps finished",
        f"{found['asked']:,}",
        f"{found['steps']:,}",
        complete,
        exact=True,
    )
    failed = found["failed"]
    part.figure(f"{name}: out of memory", "0", failed, failed == 0, exact=True)
    share = found["reserved"]
    part.figure(f"{name}: mean reserved", "at least 92 %", percent(share), share >= 0.92)


def main() -> None:
    with Part("guard", SECONDS) as part:
        if part.arguments.run:
            print(json.dumps(train(part, part.arguments.run)), flush=True)
            raise SystemExit(0)  # the parent prints and writes
        rows, logs = [], []
        for name in RUNS:
            if part.is_over(0.85, name):
                continue
            with part.attempt(name):
                # What comes before the steps takes longer where there is more memory.
                settings = EXPANDABLE if RUNS[name][1] else {}
                found = in_process(part, name, RUNS[name][4], settings)
                rows.append(row_of(name, found))
                logs.append(first_use(name, [found["log"]]))
                if RUNS[name][1] and not found["expandable"]:
                    part.leave_out(f"{name}: the allocator has no expandable segments here")
                if name.startswith("libsab"):
                    judge(part, name, found)
        limit = size_text(part.size(4 * GIB, 4 * MIB))
        columns = ("run", "batch", "steps", "failed", "mean", "largest", "unused", "retries", "/s")
        part.table(
            f"Proteins under {limit}: {SOURCE}. Mean and largest: reserved bytes at the peak of a "
            "step, share of the limit; unused: share of the reserved bytes that no tensor had; "
            "retries: times that the allocator emptied its cache; /s: samples a second",
            columns,
            rows,
        )
        part.table(
            f"Proteins, first use. {FIRST_USE.capitalize()}",
            ("run", "steps", "new", "ms new", "ms known", "blocks"),
            logs,
        )


if __name__ == "__main__":
    main()
