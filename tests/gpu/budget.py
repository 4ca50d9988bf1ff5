"""Budget: budget="memory" of a loader, in a process that is limited to 8 GiB.

Before training the loader learns the memory of the loop's own step. An epoch of proteins is then
trained as it is planned, under the loader's guard. Of other transformers the planned batch of the
longest samples is compared with the largest that is possible, which is found by running out.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

import numpy as np
import torch

import sab
import sab.torch
from common import GIB, MIB, Part, percent, size_text
from models import fresh, networks, true_maximum
from workloads import SOURCE, Decoder, Trainer, lengths, plain_attention, random_words

SECONDS = 110
MEMORY = "cuda:0"


def digest(trainer: Trainer) -> str:
    """Of the network, its optimizer and the random generator."""
    found = hashlib.sha256()
    tensors: list[Any] = [torch.get_rng_state(), *trainer.network.state_dict().values()]
    for state in trainer.optimizer.state.values():
        tensors += [each for each in state.values() if isinstance(each, torch.Tensor)]
    for tensor in tensors:
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return found.hexdigest()


def collate(samples: list[int], batch: sab.Batch) -> tuple[int, int]:
    return batch.count, int(batch.padded_length)


class Learned:
    """A loader that has planned by the memory of its step, and what became of the state."""

    def __init__(self, trainer: Trainer, sizes: Any, budget: str, probe: sab.Probe) -> None:
        self.trainer, self.failed = trainer, 0
        self.sampler = sab.BucketSampler(sizes, budget=budget)
        self.loader = sab.torch.DataLoader(
            np.arange(len(sizes)),
            self.sampler,
            collate_fn=collate,
            step=self.step,
            restore=[trainer.network, trainer.optimizer],
            device=probe,
        )
        before, begin = digest(trainer), time.perf_counter()
        self.steps = len(self.loader)
        self.seconds = time.perf_counter() - begin
        self.is_kept = digest(trainer) == before

    def step(self, data: tuple[int, int]) -> None:
        try:
            self.trainer.trial(*data)
        except RuntimeError as error:
            self.failed += sab.is_out_of_memory(error)
            raise


def others(part: Part) -> list[tuple[Any, ...]]:
    """A row for each transformer of the part models."""
    shortest, longest = part.size((16, 1024), (4, 32))
    sizes = np.random.default_rng(0).integers(shortest, longest + 1, part.size(20_000, 500))
    rows: list[tuple[Any, ...]] = []
    for name, make in networks(part, longest).items():
        if "transformer" not in name or part.is_over(0.75, name):
            continue
        with part.attempt(name), fresh():
            torch.manual_seed(0)
            trainer = make()
            with sab.Probe(MEMORY, total_bytes=part.size(8 * GIB, 4 * MIB)) as probe:
                learned = Learned(trainer, sizes, "memory:1", probe)
                bucket = max(learned.sampler.plan.buckets, key=lambda each: each.padded_length)
                planned, length = bucket.batch_size, int(bucket.padded_length)
                del learned.loader  # and its guard
                failed = learned.failed
                largest = true_maximum(trainer, length, planned)
            share = planned / largest
            rows.append(
                (name, f"{planned} of {largest}", percent(share), failed, f"{learned.seconds:.1f}")
            )
            figure = f"{name}: share of the largest batch"
            part.figure(figure, "at least 97 %", percent(share), share >= 0.97)
            part.figure(f"{name}: out of memory", "at most 1", failed, failed <= 1)
            kept = learned.is_kept
            part.figure(f"{name}: state afterwards", "the same bits", kept, kept, exact=True)
    return rows


def main() -> None:
    with Part("budget", SECONDS) as part:
        total = part.size(8 * GIB, 4 * MIB)
        words = part.size(8192, 64)
        shape = part.size((512, 8, 8), (16, 1, 2))
        sizes = lengths("proteins", *part.size((20_000, 2048, 1, 64), (1000, 32, 64)))
        with sab.Probe(MEMORY, total_bytes=total) as probe:
            torch.manual_seed(0)
            network = Decoder(shape, words, part.size(2048, 256), plain_attention)
            made = random_words(words, part.device)
            trainer = Trainer(network, made, part.device, half=not part.dry_run)

            learned = Learned(trainer, sizes, "memory", probe)
            sampler, loader = learned.sampler, learned.loader
            budget = sampler.plan.budgets[0]
            peaks, done = [], 0
            for data in loader:
                learned.step(data)
                peaks.append(torch.cuda.max_memory_reserved())
                done += data[0]
                if part.time_left(0.4) < 0:
                    break
            assert loader.guard is not None
            guard = loader.guard.info
            counts = [bucket.batch_size for bucket in sampler.plan.buckets]
        part.table(
            f"Proteins under {size_text(total)}: {SOURCE}. Mean and largest: reserved bytes at the "
            "peak of a step, share of the limit",
            ("batch", "planned", "learned in", "steps", "failed", "lowered", "mean", "largest"),
            [
                (
                    f"{min(counts)} to {max(counts)}",
                    size_text(budget),
                    f"{learned.seconds:.1f} s",
                    f"{len(peaks):,} of {learned.steps:,}",
                    guard.out_of_memory,
                    guard.lowered,
                    percent(float(np.mean(peaks)) / total),
                    percent(max(peaks) / total),
                )
            ],
        )
        kept = learned.is_kept
        part.figure("state after learning", "the same bits", kept, kept, exact=True)
        failed = guard.out_of_memory
        part.figure("out of memory", "0", failed, failed == 0, exact=True)
        share = float(np.mean(peaks)) / total
        part.figure("mean reserved", "at least 80 %", percent(share), share >= 0.8)
        part.figure("learned in", "at most 60 s", f"{learned.seconds:.1f} s", learned.seconds <= 60)
        part.table(
            "Transformers by all memory that is free. Batch: of the longest samples, and the "
            "largest that is possible; failed: steps that ran out while the memory was learned",
            ("network", "batch", "share", "failed", "seconds"),
            others(part),
        )


if __name__ == "__main__":
    main()
