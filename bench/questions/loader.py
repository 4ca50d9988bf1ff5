"""What a loader costs beyond torch's own, with the same samples, batches and collate function."""

import math
import resource
from typing import Any

import torch

import sab.torch
from bench.questions import Settings
from bench.report import MACHINE, Answer, Column, Table

RUNS = 9
TEXT = f"""An epoch of sab.torch.DataLoader, and one of torch's DataLoader over a list of the same \
batches. Both pad with torch's pad_sequence. Time is that of the processor, with all workers, the \
least of {RUNS} epochs of each in turn."""
COLUMNS = [
    Column(f"no workers, microseconds a batch{MACHINE}", "{:,.0f}", "least"),
    Column("over torch's", "{:.3f}", "least"),
    Column(f"2 workers, microseconds a batch{MACHINE}", "{:,.0f}", "least"),
    Column("over torch's", "{:.3f}", "least"),
]


def seconds_of(loader: Any) -> float:
    """Of the processor, for an epoch and its workers, which end with it."""

    def spent() -> float:
        who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
        return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, who))

    begin = spent()
    for _ in loader:
        pass
    return spent() - begin


def pad(samples: Any) -> Any:
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)


def run(settings: Settings) -> Answer:
    data = settings.data[-1 if settings.quick else min(1, len(settings.data) - 1)]
    lengths = data.lengths[: 20_000 if settings.quick else 100_000]
    samples: Any = [torch.zeros(length, dtype=torch.int64) for length in lengths.tolist()]
    plan = sab.plan(lengths, budget=data.budget)
    batches = [batch.tolist() for batch in sab.BucketSampler(plan)]
    rows: dict[str, list[Any]] = {"torch": [], "libsab": []}
    for workers in (0, 2):
        theirs = torch.utils.data.DataLoader(
            samples, batch_sampler=batches, collate_fn=pad, num_workers=workers
        )
        ours = sab.torch.DataLoader(
            samples, sab.BucketSampler(plan), collate_fn=pad, num_workers=workers
        )
        least = {"torch": math.inf, "libsab": math.inf}
        for _ in range(2 if settings.quick else RUNS):
            ours.set_epoch(0)
            for name, loader in (("torch", theirs), ("libsab", ours)):
                least[name] = min(least[name], seconds_of(loader))
        for name, seconds in least.items():
            rows[name] += [1e6 * seconds / len(batches), seconds / least["torch"]]
    title = f"{data.name}, {len(lengths):,} samples, {len(batches):,} batches"
    return Answer("loader", "What the loader costs", TEXT, [Table(title, COLUMNS, rows)])


def check(answer: Answer) -> list[str]:
    return []  # times are no promise on a machine that others use, too
