"""Epochs: training of a transformer of about 100 million parameters, in bfloat16.

The same samples once an epoch, with as many samples a step on the average in all rows: what differs
is which samples meet in a batch, and what is padded. Each method is a process of its own, so that
none finds built what another one used. Three epochs are apart: in the first one kernels are chosen
and blocks are allocated for shapes that are new. The loss is that of held-out samples afterwards.

The limit is the speed of the same network, in the same process, on full batches of one shape
without padding: the best of several shapes.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, Callable, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

import sab
from common import FIRST_USE, GIB, Part, StepLog, first_use, in_process, percent
from workloads import (
    SOURCE,
    Decoder,
    Packed,
    Texts,
    lengths,
    packed_attention,
    random_words,
)

EPOCHS = 3
SETTINGS: dict[str, dict[str, str]] = {
    "": {},
    "cuDNN last": {"TORCH_CUDNN_SDPA_DEPRIORITIZED": "1"},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
}


class Batch(NamedTuple):
    """What is computed at once; the padded length, or, of a row, where samples begin."""

    indices: npt.NDArray[np.int64]
    length: int
    starts: npt.NDArray[np.int32] | None = None
    weight: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        if self.starts is None:
            return len(self.indices), self.length
        return int(self.starts[-1]), len(self.starts), self.length

    @property
    def positions(self) -> int:
        """Tokens and padding."""
        if self.starts is not None:
            return int(self.starts[-1])
        return len(self.indices) * self.length


Step = Sequence[Batch]  # its micro-batches


class Case(NamedTuple):
    name: str
    sizes: npt.NDArray[np.int64]  # those to train on come first
    train: int
    each_step: int  # samples, on the average

    @property
    def trained(self) -> npt.NDArray[np.int64]:
        return self.sizes[: self.train]


def case_of(part: Part, name: str) -> Case:
    """Held-out samples are behind those to train on. The second and third epoch together have at
    least 1,000 steps. Steps are smaller on devices of less than 80 GiB."""
    share = min(1.0, torch.cuda.get_device_properties(0).total_memory / (80 * GIB))
    count, each_step, longest = {"glosses": (60_000, 112, 82), "proteins": (8_000, 15, 2048)}[name]
    full = (count, 1024, max(int(each_step * share), 1))
    train, held, each_step = part.size(full, (96, 16, 8))
    return Case(
        name, lengths(name, train + held, *part.size((longest,), (32, 4))), train, each_step
    )


def in_batches(order: npt.NDArray[np.int64], case: Case) -> list[Step]:
    cut = [order[i : i + case.each_step] for i in range(0, len(order), case.each_step)]
    return [[Batch(chosen, int(case.sizes[chosen].max()))] for chosen in cut]


def static(case: Case) -> Iterator[list[Step]]:
    random = np.random.default_rng(0)
    while True:
        yield in_batches(random.permutation(case.train), case)


def sorted_windows(case: Case) -> Iterator[list[Step]]:
    """Windows of 50 batches of shuffled samples, each sorted, its batches shuffled."""
    random = np.random.default_rng(0)
    while True:
        order, found = random.permutation(case.train), []
        for first in range(0, len(order), 50 * case.each_step):
            window = order[first : first + 50 * case.each_step]
            batches = in_batches(window[np.argsort(case.sizes[window], kind="stable")], case)
            found += [batches[i] for i in random.permutation(len(batches))]
        yield found


def length_grouping(case: Case) -> Iterator[list[Step]]:
    from transformers.trainer_pt_utils import LengthGroupedSampler

    generator = torch.Generator().manual_seed(0)
    sampler = LengthGroupedSampler(
        case.each_step, lengths=case.trained.tolist(), generator=generator
    )
    while True:
        yield in_batches(np.array(list(sampler)), case)


def steps_of(sampler: Any, weighted: bool = True) -> Iterator[list[Step]]:
    while True:
        steps: dict[int, list[Batch]] = {}
        for each in sampler.batches():
            is_row = each.layout == "row"
            length = int(each.longest if is_row else each.padded_length)
            starts = np.asarray(each.cu_seqlens) if is_row else None
            weight = float(each.token_weight) if weighted else 1.0
            made = Batch(np.asarray(each.indices), length, starts, weight)
            steps.setdefault(each.step, []).append(made)
        yield list(steps.values())


def by_bisection(case: Case, sampler_of: Callable[[int], Any]) -> Any:
    """With the budget that gives as many batches as the static ones are, or the next fewer."""
    steps = -(-case.train // case.each_step)
    low, high = int(case.sizes.max()), int(case.trained.sum()) + 1
    while high - low > max(1, low // 200):
        middle = (low + high) // 2
        low, high = (middle, high) if len(sampler_of(middle)) > steps else (low, middle)
    return sampler_of(high)


def bucketed(case: Case, **options: Any) -> Any:
    return by_bisection(
        case, lambda budget: sab.BucketSampler(sab.plan(case.trained, budget=budget, **options))
    )


def random_steps(case: Case) -> Any:
    parts = min(8, case.each_step)
    return sab.BalancedSampler(
        case.trained, samples=case.each_step, padded=True, micro_batches=parts, seed=0
    )


def packed(case: Case) -> Any:
    return by_bisection(
        case, lambda capacity: sab.PackedSampler(case.trained, capacity=capacity, seed=0)
    )


FEW = "libsab, 16 shapes, warm-up"
PADDED, PACKED = "libsab, padded", "libsab, packed"
METHODS: dict[str, Callable[[Case], Iterator[list[Step]]]] = {
    "static": static,
    "sorted windows": sorted_windows,
    "length grouping": length_grouping,  # of transformers
    PADDED: lambda case: steps_of(bucketed(case)),
    FEW: lambda case: steps_of(bucketed(case, max_shapes=16)),
    PACKED: lambda case: steps_of(packed(case)),
    "libsab, plain means": lambda case: steps_of(bucketed(case), weighted=False),
    "libsab, random steps of 8": lambda case: steps_of(random_steps(case)),
}
# What a part that is short of time measures comes first.
RUNS = [
    *(("glosses", method, "") for method in METHODS),
    *(("glosses", PADDED, setting) for setting in SETTINGS if setting),
    *(("glosses", "length grouping", setting) for setting in SETTINGS if setting),
    *(("proteins", method, "") for method in METHODS),
]
AGAIN = ("length grouping", PADDED, FEW, PACKED)  # what is measured once more


class Run:
    """A network, and what each step of its training was like."""

    def __init__(self, part: Part, case: Case) -> None:
        torch.manual_seed(0)
        self.words = part.size(16_384, 64)
        longest = int(case.sizes.max()) + 1
        self.network = Decoder(part.size((768, 12, 12), (16, 1, 2)), self.words, longest)
        self.network.packed_attention = packed_attention(part.device)[1]
        self.network.to(part.device)
        fused: dict[str, Any] = part.size({"fused": True}, {})
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=3e-4, **fused)
        self.part, self.case = part, case
        self.texts = Texts(case.sizes, self.words, part.device)
        self.log = StepLog()

    def loss(self, batch: Batch) -> torch.Tensor:
        device = self.part.device
        with torch.autocast(device.type, torch.bfloat16):
            if batch.starts is None:
                return self.network(*self.texts.padded(batch.indices, batch.length))
            starts = torch.from_numpy(batch.starts).to(device)
            return self.network(*self.texts.packed(batch.indices), Packed(starts, batch.length))

    def step(self, step: Step) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        for batch in step:
            if len(batch.indices):
                (self.loss(batch) * (batch.weight / len(step))).backward()
        self.optimizer.step()

    def warm_up(self, steps: list[Step]) -> float:
        """Each shape once, largest first; seconds."""
        begin = time.perf_counter()
        each = {batch.shape: batch for step in steps for batch in step if len(batch.indices)}
        for batch in sorted(each.values(), key=lambda batch: -batch.positions):
            self.loss(batch).backward()
        self.log.seen |= set(each)
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    def epoch(self, steps: list[Step]) -> dict[str, Any]:
        begin = time.perf_counter()
        self.log.begin()
        ran = 0
        for step in steps:
            self.step(step)
            self.log.step({batch.shape for batch in step})
            ran += 1
            if ran % 16 == 0 and self.part.time_left() < 0:
                self.part.leave_out(f"stopped after {ran} of {len(steps)} steps")
                break
        torch.cuda.synchronize()
        batches = [batch for step in steps[:ran] for batch in step]
        return {
            "seconds": time.perf_counter() - begin,
            "tokens": sum(int(self.case.sizes[batch.indices].sum()) for batch in batches),
            "positions": sum(batch.positions for batch in batches),
            "steps": self.log.rows(),
        }

    def held_out_loss(self) -> float:
        held = np.arange(self.case.train, len(self.case.sizes))
        held = held[np.argsort(self.case.sizes[held], kind="stable")]
        total = tokens = 0.0
        self.network.eval()
        with torch.no_grad():
            for first in range(0, len(held), 32):
                chosen = held[first : first + 32]
                told = int((self.case.sizes[chosen] - 1).sum())
                if told > 0:
                    lost = self.loss(Batch(chosen, int(self.case.sizes[chosen].max())))
                    total += float(lost) * told
                    tokens += told
        self.network.train()
        return total / max(tokens, 1)

    def limit(self) -> float:
        """Tokens a second of full batches of one shape."""
        tokens = self.case.each_step * float(self.case.trained.mean())
        made = random_words(self.words, self.part.device)
        best = 0.0
        for length in np.unique(np.quantile(self.case.trained, [0.25, 0.5, 0.75, 1])).astype(int):
            count = max(round(tokens / length), 1)
            words = made(count, int(length))
            for timed in (False, True):
                steps = self.part.size(40 if timed else 8, 1)
                torch.cuda.synchronize()
                begin = time.perf_counter()
                for _ in range(steps):
                    self.optimizer.zero_grad(set_to_none=True)
                    with torch.autocast(self.part.device.type, torch.bfloat16):
                        lost = self.network(*words)
                    lost.backward()
                    self.optimizer.step()
                torch.cuda.synchronize()
                rate = steps * count * int(length) / (time.perf_counter() - begin)
            best = max(best, rate)
        return best


def train(part: Part, case_name: str, method: str) -> dict[str, Any]:
    """One run, in this process."""
    case = case_of(part, case_name)
    epochs = METHODS[method](case)
    try:
        first = next(epochs)
    except ImportError as error:
        return {"epochs": [], "left_out": [str(error)]}
    run = Run(part, case)
    warm = run.warm_up(first) if method == FEW else 0.0
    found = [run.epoch(first)]
    while len(found) < EPOCHS and not part.left_out:
        found.append(run.epoch(next(epochs)))
    loss = run.held_out_loss()
    return {
        "warm_up": warm,
        "epochs": found,
        "loss": loss,
        "limit": run.limit(),
        "left_out": part.left_out,
    }


def rate(found: dict[str, Any]) -> float:
    """Real tokens a second in the steady state: of the epochs after the first."""
    steady = found["epochs"][1:] or found["epochs"]
    return sum(each["tokens"] for each in steady) / sum(each["seconds"] for each in steady)


def total(found: dict[str, Any]) -> float:
    """Seconds of all epochs, with the warm-up."""
    return found["warm_up"] + sum(each["seconds"] for each in found["epochs"])


def speed_row(name: str, found: dict[str, Any]) -> list[Any]:
    epochs = found["epochs"]
    real = sum(each["tokens"] for each in epochs) / sum(each["positions"] for each in epochs)
    return [
        name,
        percent(real),
        *(f"{each['seconds']:.1f}" for each in epochs),
        *["-"] * (EPOCHS - len(epochs)),
        f"{total(found):.1f}",
        f"{rate(found):,.0f}",
        percent(rate(found) / found["limit"]),
        f"{found['loss']:.3f}",
    ]


def judge(part: Part, case: str, runs: dict[str, dict[str, Any]]) -> None:
    """The goals, of the runs without a setting."""
    for name, asked in ((PADDED, 0.95), (FEW, 0.95), (PACKED, 0.97)):
        if name in runs:
            share = rate(runs[name]) / runs[name]["limit"]
            figure = f"{case}: {name}, share of the fixed-shape limit"
            part.figure(figure, f"at least {asked}", f"{share:.3f}", share >= asked)
    ours = [name for name in (PADDED, FEW, PACKED) if name in runs]
    theirs = [name for name in runs if not name.startswith("libsab")]
    if not ours or not theirs:
        return
    for figure, key, sign in (("tokens a second", rate, 1), ("seconds of three epochs", total, -1)):
        best, other = (max(sign * key(runs[name]) for name in names) for names in (ours, theirs))
        part.figure(
            f"{case}: libsab's best, {figure}",
            f"better than {sign * other:,.1f}",
            f"{sign * best:,.1f}",
            best > other,
        )


def tables(part: Part, case: str, found: dict[str, dict[str, Any]]) -> None:
    part.table(
        f"{case}, seconds of {EPOCHS} epochs apart. Real: share of positions that hold a token; "
        "all: with the warm-up; tokens/s: real ones, after the first epoch; limit: share of the "
        "fixed-shape limit; loss: of held-out samples, one seed",
        (
            "batches",
            "real",
            *(str(i + 1) for i in range(EPOCHS)),
            "all",
            "tokens/s",
            "limit",
            "loss",
        ),
        [speed_row(name, each) for name, each in found.items()],
    )
    part.table(
        f"{case}, first use in each epoch. {FIRST_USE.capitalize()}",
        ("batches", "steps", "new", "ms new", "ms known", "blocks"),
        [
            first_use(name, [epoch["steps"] for epoch in each["epochs"]])
            for name, each in found.items()
        ],
    )


def main() -> None:
    with Part("epochs", 260) as part:
        if part.arguments.run:
            case, method = part.arguments.run.split("|")
            print(json.dumps(train(part, case, method)), flush=True)
            raise SystemExit(0)  # the parent prints and writes
        runs = [each for each in RUNS if not part.again or each[1] in AGAIN]
        if part.dry_run:  # of proteins the code is that of glosses
            runs = [each for each in runs if each[0] == "glosses" or each[1] == PACKED]
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for case, method, setting in runs:
            name = f"{method}, {setting}" if setting else method
            if part.is_over(0.92, f"{case}, {name}"):
                continue
            with part.attempt(f"{case}, {name}"):
                made = in_process(part, f"{case}|{method}", 40, SETTINGS[setting])
                for text in made.pop("left_out"):
                    part.leave_out(f"{case}, {name}: {text}")
                if made["epochs"]:
                    found.setdefault(case, {})[name] = made
        for case, of_case in found.items():
            tables(part, case, of_case)
            judge(part, case, {name: each for name, each in of_case.items() if name in METHODS})
        steps = pathlib.Path(part.arguments.results, f"{part.name}_steps.json")
        steps.write_text(json.dumps(found) + "\n")
        part.note(f"{SOURCE}; attention of packed rows: {packed_attention(part.device)[0]}")


if __name__ == "__main__":
    main()
