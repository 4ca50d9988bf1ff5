"""Budget: budget="memory" of a loader, on proteins in a process that is limited to 8 GiB.

Before training the loader learns the memory of the loop's own step. The epoch is then trained as it
is planned, under the loader's guard.
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
from workloads import SOURCE, Decoder, Trainer, lengths, plain_attention, random_words

SECONDS = 240


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


def main() -> None:
    with Part("budget", SECONDS) as part:
        total = part.size(8 * GIB, 4 * MIB)
        words = part.size(8192, 64)
        shape = part.size((512, 8, 8), (16, 1, 2))
        sizes = lengths("proteins", *part.size((20_000, 2048, 1, 64), (1000, 32, 64)))
        with sab.Probe("cuda:0", total_bytes=total) as probe:
            torch.manual_seed(0)
            network = Decoder(shape, words, part.size(2048, 256), plain_attention)
            made = random_words(words, part.device)
            trainer = Trainer(network, made, part.device, half=not part.dry_run)

            def step(data: tuple[int, int]) -> None:
                trainer.trial(*data)

            sampler = sab.BucketSampler(sizes, budget="memory")
            loader = sab.torch.DataLoader(
                np.arange(len(sizes)),
                sampler,
                collate_fn=collate,
                step=step,
                restore=[trainer.network, trainer.optimizer],
                device=probe,
            )
            before, begin = digest(trainer), time.perf_counter()
            steps = len(loader)
            learned = time.perf_counter() - begin
            is_kept = digest(trainer) == before
            budget = sampler.plan.budgets[0]
            peaks, done = [], 0
            for data in loader:
                step(data)
                peaks.append(torch.cuda.max_memory_reserved())
                done += data[0]
                if part.time_left() < 20:
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
                    f"{learned:.1f} s",
                    f"{len(peaks):,} of {steps:,}",
                    guard.out_of_memory,
                    guard.lowered,
                    percent(float(np.mean(peaks)) / total),
                    percent(max(peaks) / total),
                )
            ],
        )
        part.figure("state after learning", "the same bits", is_kept, is_kept, exact=True)
        failed = guard.out_of_memory
        part.figure("out of memory", "0", failed, failed == 0, exact=True)
        share = float(np.mean(peaks)) / total
        part.figure("mean reserved", "at least 80 %", percent(share), share >= 0.8)
        part.figure("learned in", "at most 60 s", f"{learned:.1f} s", learned <= 60)


if __name__ == "__main__":
    main()
