"""Trains a small transformer to write WordNet glosses on a device of 1 GiB: with static batches
that never fail, and with batches by libsab's memory model.

The device is emulated: CPU tensors beyond its size raise torch's out-of-memory error (--device
cuda:0 caps a real one instead). Nothing is known beforehand of what the model needs: libsab finds
out by running a few steps, and plans the epoch so that the device is nearly full.
"""

import argparse
import time

import numpy as np
import torch
from torch import nn

import sab
from wordnet import glosses

WORDS = 1 << 13


class Model(nn.Module):
    """Tells the next word of a gloss from those before it: a layer of attention."""

    def __init__(self, width: int = 32, longest: int = 512) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=0)
        self.places = nn.Embedding(longest, width)
        self.layer = nn.TransformerEncoderLayer(
            width, 2, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.tell = nn.Linear(width, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        length = words.shape[1]
        before = torch.full((length, length), float("-inf"), device=words.device).triu(1)
        return self.tell(
            self.layer(
                self.words(words) + self.places(torch.arange(length, device=words.device)), before
            )
        )


class Trainer:
    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        self.device = torch.device(device)
        self.model = Model().to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)
        self.loss = 0.0

    def part(self, words: torch.Tensor, share: float, weight: float = 1.0) -> None:
        """Forward and backward of a part of a batch, which has this share and weight."""
        words = words.to(self.device)
        told = self.model(words[:, :-1])
        loss = nn.functional.cross_entropy(
            told.flatten(0, 1), words[:, 1:].flatten(), ignore_index=0
        )
        (loss * share * weight).backward()
        self.loss += float(loss.detach()) * share

    def clear(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.loss = 0.0

    def step(self, words: torch.Tensor) -> None:
        self.clear()
        self.part(words, 1.0)
        self.optimizer.step()

    def trial(self, count: int, length: float) -> None:
        """A step on a batch of that shape. What the words are does not matter to the memory it
        takes."""
        self.step(torch.ones(count, int(length), dtype=torch.int64))


def pad(samples: "list[np.ndarray]") -> torch.Tensor:
    padded = np.zeros((len(samples), max(map(len, samples))), np.int64)
    for row, words in zip(padded, samples):
        row[: len(words)] = words
    return torch.from_numpy(padded)


class Run:
    """What an epoch was like."""

    def __init__(self) -> None:
        self.size, self.samples, self.failed = "", 0, 0
        self.peaks: list[int] = []
        self.common: list[int] = []  # peaks of the steps without the longest 1 % of the glosses
        self.loss, self.seconds = 0.0, 0.0


def static(trainer: Trainer, words: "list[np.ndarray]", probe: sab.Probe, rare: float) -> Run:
    """Batches of one size, the largest that fits when all glosses in it are of the greatest
    length."""
    run = Run()
    found = sab.find_max_batch(trainer.trial, probe, lengths=[max(map(len, words))])
    run.size = str(found.batch_size)
    order = np.random.default_rng(0).permutation(len(words))
    start = time.perf_counter()
    for first in range(0, len(order), found.batch_size):
        chosen = [words[i] for i in order[first : first + found.batch_size]]
        probe.reset()
        try:
            trainer.step(pad(chosen))
        except RuntimeError as error:
            if not sab.is_out_of_memory(error):
                raise
            run.failed += 1
        run.samples += len(chosen)
        run.peaks.append(probe.stats().peak)
        if max(map(len, chosen)) <= rare:
            run.common.append(run.peaks[-1])
    run.seconds, run.loss = time.perf_counter() - start, trainer.loss
    return run


def by_memory(trainer: Trainer, words: "list[np.ndarray]", probe: sab.Probe, rare: float) -> Run:
    """Batches whose predicted peak is at most the device's memory, under a guard."""
    run = Run()
    lengths = np.array([len(each) for each in words])
    start = time.perf_counter()
    model = sab.MemoryModel.learn(
        trainer.trial,
        shortest=float(lengths.min()),
        longest=float(lengths.max()),
        device=probe,
        cleanup=trainer.clear,
    )
    print(
        f"memory model, from 25 steps in {time.perf_counter() - start:.1f} s: {model}", flush=True
    )
    plan = sab.plan(lengths, cost=model, budget=probe.stats().total)
    sampler = sab.BucketSampler(plan, seed=0)
    sizes = [bucket.batch_size for bucket in plan.buckets]
    run.size = f"{min(sizes)} to {max(sizes)}"
    start = time.perf_counter()
    with sab.MemoryGuard(sampler, probe) as guard:
        for batch in sampler.batches():
            data = pad([words[i] for i in batch.indices])
            weight = batch.token_weight

            def part(first, count, share, data=data, weight=weight):
                return trainer.part(data[first : first + count], share, weight)

            guard.step(batch, part, begin=trainer.clear)
            trainer.optimizer.step()
            run.samples += batch.count
            run.peaks.append(probe.stats().peak)
            if batch.longest <= rare:
                run.common.append(run.peaks[-1])
        run.failed = guard.info.out_of_memory
    run.seconds, run.loss = time.perf_counter() - start, trainer.loss
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--glosses", type=int, default=6000, help="glosses of the epoch (default: 6000)"
    )
    parser.add_argument("--device", default="cpu", help="cpu: emulated; cuda:N")
    parser.add_argument(
        "--mebibytes", type=int, default=1024, help="memory of the device (default: 1024)"
    )
    options = parser.parse_args()
    texts = glosses()
    ids: dict[str, int] = {}
    chosen = np.random.default_rng(0).permutation(len(texts))[: options.glosses]
    words = [
        np.array(
            [1]
            + [
                2 + ids.setdefault(word, len(ids)) % (WORDS - 2)
                for word in texts[i][0].lower().split()
            ]
        )
        for i in chosen
    ]
    words = [each for each in words if len(each) > 1]
    lengths = np.array([len(each) for each in words])
    rare = float(np.quantile(lengths, 0.99))
    print(
        f"{len(words):,} glosses of {lengths.min()} to {lengths.max()} words, "
        f"{lengths.mean():.1f} on average; device of {options.mebibytes:,} MiB"
    )
    rows = []
    for name, train in (("static, never fails", static), ("libsab, by memory", by_memory)):
        with sab.Probe(options.device, total_bytes=options.mebibytes << 20) as probe:
            trainer = Trainer(options.device)
            total = probe.stats().total
            rows.append((name, train(trainer, words, probe, rare)))
            trainer.clear()
            del trainer
    print(
        f"{'':<20}{'batch size':>14}{'steps':>8}{'out of memory':>15}{'mean peak':>11}"
        f"{'common':>10}{'largest':>10}{'seconds':>9}{'samples/s':>11}"
    )
    for name, run in rows:
        shares = (np.mean(run.peaks) / total, np.mean(run.common) / total, max(run.peaks) / total)
        percents = [100 * float(share) for share in shares]
        cells = "".join(f"{share:>{width}.1f} %" for share, width in zip(percents, (9, 8, 8)))
        print(
            f"{name:<20}{run.size:>14}{len(run.peaks):>8}{run.failed:>15}{cells}"
            f"{run.seconds:>9.1f}{run.samples / run.seconds:>11.1f}"
        )
    print(
        "peaks: share of the device's memory; common: of the steps without the longest 1 % of the "
        "glosses."
    )
    before, after = (run.samples / run.seconds for _, run in rows[:2])
    print(f"libsab trains {after / before:.2f} times as many samples a second.")


if __name__ == "__main__":
    main()
