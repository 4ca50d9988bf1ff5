"""Epochs: training of a transformer of about 100 million parameters, in bfloat16.

The same samples once each, with as many samples a step on the average in all rows: what differs is
which samples meet in a batch, and what is padded. The loss is that of held-out samples afterwards.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

import sab
from common import GIB, Part, percent, timed
from workloads import (
    SOURCE,
    Decoder,
    Packed,
    Texts,
    lengths,
    packed_attention,
)

# Indices, padded length; or, packed, indices and where samples begin.
Batches = list[tuple[Any, int, Any]]


def positions(batch: tuple[Any, int, Any]) -> int:
    """Tokens and padding."""
    indices, length, starts = batch
    return len(indices) * length if starts is None else int(starts[-1])


class Case(NamedTuple):
    name: str
    sizes: npt.NDArray[np.int64]  # those to train on come first
    train: int
    each_step: int  # samples, on the average


def cases(part: Part) -> Iterator[Case]:
    """Glosses and proteins, with held-out samples behind those to train on. Steps are smaller on
    devices of less than 80 GiB."""
    share = min(1.0, torch.cuda.get_device_properties(0).total_memory / (80 * GIB))
    for name, count, each_step, longest in (
        ("glosses", 60_000, 512, 82),
        ("proteins", 8_000, 32, 2048),
    ):
        full = (count, 1024, max(int(each_step * share), 1))
        train, held, each_step = part.size(full, (96, 16, 8))
        sizes = lengths(name, train + held, *part.size((longest,), (32, 4)))
        yield Case(name, sizes, train, each_step)


def in_batches(order: npt.NDArray[np.int64], case: Case) -> Batches:
    cut = [order[i : i + case.each_step] for i in range(0, len(order), case.each_step)]
    return [(chosen, int(case.sizes[chosen].max()), None) for chosen in cut]


def static(case: Case) -> Batches:
    return in_batches(np.random.default_rng(0).permutation(case.train), case)


def sorted_windows(case: Case) -> Batches:
    """Windows of 50 batches of shuffled samples, each sorted, its batches shuffled."""
    random = np.random.default_rng(0)
    order = random.permutation(case.train)
    found: Batches = []
    for first in range(0, len(order), 50 * case.each_step):
        window = order[first : first + 50 * case.each_step]
        batches = in_batches(window[np.argsort(case.sizes[window], kind="stable")], case)
        found += [batches[i] for i in random.permutation(len(batches))]
    return found


def length_grouping(case: Case) -> Batches:
    from transformers.trainer_pt_utils import LengthGroupedSampler

    generator = torch.Generator().manual_seed(0)
    sampler = LengthGroupedSampler(
        case.each_step, lengths=case.sizes[: case.train].tolist(), generator=generator
    )
    return in_batches(np.array(list(sampler)), case)


def by_bisection(case: Case, batches_of: Callable[[int], Batches]) -> Batches:
    """With the budget that gives as many steps as the static batches have, or the next fewer."""
    steps = -(-case.train // case.each_step)
    low, high = int(case.sizes.max()), int(case.sizes[: case.train].sum()) + 1
    while high - low > max(1, low // 200):
        middle = (low + high) // 2
        low, high = (middle, high) if len(batches_of(middle)) > steps else (low, middle)
    return batches_of(high)


def padded(case: Case) -> Batches:
    def batches_of(budget: int) -> Batches:
        plan = sab.plan(case.sizes[: case.train], budget=budget)
        every = sab.BucketSampler(plan, seed=0).batches()
        return [(batch.indices, int(batch.padded_length), None) for batch in every]

    return by_bisection(case, batches_of)


def packed(case: Case) -> Batches:
    def batches_of(capacity: int) -> Batches:
        every = sab.PackedSampler(case.sizes[: case.train], capacity=capacity, seed=0).batches()
        return [(batch.indices, 0, batch.cu_seqlens) for batch in every]

    return by_bisection(case, batches_of)


SYSTEMS: dict[str, Callable[[Case], Batches]] = {
    "static": static,
    "sorted windows": sorted_windows,
    "length grouping (transformers)": length_grouping,
    "libsab, padded": padded,
    "libsab, packed": packed,
}


class Run:
    """A network, and what training it on batches was like."""

    def __init__(self, part: Part, case: Case, texts: Texts, words: int) -> None:
        torch.manual_seed(0)
        longest = int(case.sizes.max()) + 1
        self.network = Decoder(part.size((768, 12, 12), (16, 1, 2)), words, longest)
        self.network.packed_attention = packed_attention(part.device)[1]
        self.network.to(part.device)
        self.parameters = sum(each.numel() for each in self.network.parameters())
        fused: dict[str, Any] = part.size({"fused": True}, {})
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=3e-4, **fused)
        self.part, self.case, self.texts = part, case, texts

    def loss(self, indices: Any, length: int, cu_seqlens: Any) -> torch.Tensor:
        device = self.part.device
        with torch.autocast(device.type, torch.bfloat16):
            if cu_seqlens is None:
                return self.network(*self.texts.padded(indices, length))
            starts = torch.from_numpy(np.asarray(cu_seqlens)).to(device)
            longest = int(self.case.sizes[np.asarray(indices)].max())
            return self.network(*self.texts.packed(indices), Packed(starts, longest))

    def step(self, batch: tuple[Any, int, Any]) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(*batch).backward()
        self.optimizer.step()

    def train(self, batches: Batches, seconds: float) -> tuple[int, float]:
        """(batches run, seconds). The largest batch and an eighth of all are run before, not
        counted: in the first steps the allocator asks the driver for blocks of each new shape."""
        for batch in (max(batches, key=positions), *batches[::8]):
            self.loss(*batch).backward()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        ran = 0
        for batch in batches:
            self.step(batch)
            ran += 1
            if ran % 16 == 0:
                torch.cuda.synchronize()
                if time.perf_counter() - begin > seconds:
                    break
        torch.cuda.synchronize()
        return ran, time.perf_counter() - begin

    def held_out_loss(self) -> float:
        held = np.arange(self.case.train, len(self.case.sizes))
        held = held[np.argsort(self.case.sizes[held], kind="stable")]
        total = tokens = 0.0
        self.network.eval()
        with torch.no_grad():
            for first in range(0, len(held), 32):
                chosen = held[first : first + 32]
                length = int(self.case.sizes[chosen].max())
                told = int((self.case.sizes[chosen] - 1).sum())
                if told > 0:
                    total += float(self.loss(chosen, length, None)) * told
                    tokens += told
        return total / max(tokens, 1)


def ceiling(part: Part) -> float:
    """Operations a second of a large bfloat16 product, the most that a step can have."""
    size = part.size(8192, 64)
    a, b = (torch.randn(size, size, device=part.device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    return 2 * size**3 / timed(10, lambda: a @ b)


def measure(
    part: Part, case: Case, name: str, peak: float, seconds: float
) -> tuple[list[Any], float] | None:
    """A row, and samples a second."""
    words = part.size(16_384, 64)
    try:
        batches = SYSTEMS[name](case)
    except ImportError as error:
        part.leave_out(f"{name}: {error}")
        return None
    texts = Texts(case.sizes, words, part.device)
    run = Run(part, case, texts, words)
    ran, spent = run.train(batches, seconds)
    if ran < len(batches):
        part.leave_out(f"{case.name}, {name}: stopped after {ran} of {len(batches)} steps")
    done = batches[:ran]
    samples = sum(len(indices) for indices, *_ in done)
    real = sum(int(case.sizes[np.asarray(indices)].sum()) for indices, *_ in done)
    held = sum(map(positions, done))
    # Forward and backward of each parameter and token; attention, small here, is left out.
    used = 6 * run.parameters * real / spent / peak
    row = [
        name,
        ran,
        f"{samples / ran:.0f}",
        percent(real / held),
        f"{samples / spent:,.0f}",
        percent(used),
        f"{run.held_out_loss():.3f}",
    ]
    return row, samples / spent


def main() -> None:
    with Part("epochs", 270) as part:
        peak = ceiling(part)
        for case in cases(part):
            rows, rates = [], {}
            for name in SYSTEMS:
                if part.is_over(0.9, f"{case.name}, {name}"):
                    continue
                found = None
                with part.attempt(f"{case.name}, {name}"):
                    found = measure(part, case, name, peak, 60)
                gc.collect()
                torch.cuda.empty_cache()
                if found is not None:
                    rows.append(found[0])
                    rates[name] = found[1]
            columns = ("batches", "steps", "each", "real", "samples/s", "used", "loss")
            part.table(
                f"{case.name}: {case.train:,} samples, {int(case.sizes[: case.train].sum()):,} "
                "tokens. Each: samples a step; real: share of positions that hold a token; used: "
                f"share of {peak / 1e12:.0f} TFLOP/s that tokens use; loss: of held-out samples",
                columns,
                rows,
            )
            base = rates.get("static")
            for name in ("libsab, padded", "libsab, packed"):
                if base is not None and name in rates:
                    ratio = rates[name] / base
                    figure = f"{case.name}: {name}, times static's samples a second"
                    part.figure(figure, "more than 1", f"{ratio:.2f}", ratio > 1)
        part.note(f"{SOURCE}; attention of packed rows: {packed_attention(part.device)[0]}")


if __name__ == "__main__":
    main()
