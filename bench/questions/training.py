"""The model at the end: held-out loss, and the time until it is that of static batches."""

import concurrent.futures
import functools
import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable, NamedTuple, Union

import numpy as np
import numpy.typing as npt
import torch

import sab
from bench.peers import Work
from bench.peers.static import Static
from bench.peers.transformers_group import GroupByLength
from bench.peers.transformers_rebalance import BatchRebalance
from bench.peers.trl_ import Trl
from bench.questions import Settings
from bench.report import Answer, Cell, Column, Table
from bench.tasks import Indices, Model, Task, loss_of, tasks

LOOKS = 24  # at the held-out samples, in a run
GOALS = {  # what the mean difference to static batches may be, besides two standard errors
    "libsab, random steps of 8": 0.005,
    "libsab, random steps of 16": 0.005,
    "libsab, weighted": 0.01,
    "libsab, weighted, 8 micro-batches": 0.01,
}
SEEDS = {"glosses, part of speech": 8, "glosses, next word": 8, "functions, module": 8}
TEXT = """A small model is trained on the same samples with the same number of steps, Adam, and \
learning rates that are the best for static batches. The seed is that of the model and of the \
order. The difference is that of the held-out loss to that of static batches of the same seed. It \
and its standard error are shares of the loss of static batches. The goal is at most 0.5 % for \
random steps and 1 % for weighted batches, and two standard errors. Seconds are those of a \
processor, with the time to make batches. The last column is the time until the mean held-out loss \
is at most 0.5 % above the last one of static batches. Packed rows hold as many samples as a \
static batch, and are weighted. Those of trl are the same in all epochs, in another order."""
COLUMNS = [
    Column("steps", "{:,}"),
    Column("held-out loss", "{:.4f}", "least"),
    Column("±", "{:.4f}"),
    Column("difference to static", "{:+.1%}", "least"),
    Column("± ", "{:.1%}"),
    Column("goal"),
    Column("seconds", "{:.1f}", "least"),
    Column("seconds to the loss of static", "{:.1f}", "least"),
]


class Batch(NamedTuple):
    indices: Indices
    weight: float
    packed: bool = False


Step = Sequence[Batch]  # its micro-batches; the gradient is that of the mean of their losses
Epoch = Iterable[Step]


def of_peer(peer: Any, accumulated: int = 1) -> Callable[[Task, int], Iterator[Epoch]]:
    def epochs(task: Task, seed: int) -> Iterator[Epoch]:
        lengths = task.sizes[task.held :]
        made = peer(Work(lengths, 0, seed=seed, global_count=task.step // accumulated))
        for number in range(task.epochs):
            batches = [
                Batch([int(i) + task.held for i in each], 1.0) for each in made.epoch(number)
            ]
            yield [batches[i : i + accumulated] for i in range(0, len(batches), accumulated)]

    return epochs


def windows(task: Task, seed: int) -> Iterator[Epoch]:
    """The samples of 50 steps are sorted, and the order of their batches is random."""
    random = np.random.default_rng(seed)
    for _ in range(task.epochs):
        order = random.permutation(np.arange(task.held, len(task.words)))
        steps: list[Step] = []
        for first in range(0, len(order), 50 * task.step):
            window = order[first : first + 50 * task.step]
            window = window[np.argsort(task.sizes[window], kind="stable")]
            cut = np.split(window, range(task.step, len(window), task.step))
            steps += [[Batch(cut[i], 1.0)] for i in random.permutation(len(cut))]
        yield steps


def of_sampler(
    make: Callable[[npt.NDArray[np.int64], Task, int], Sequence[Any]], weighted: bool = True
) -> Callable[[Task, int], Iterator[Epoch]]:
    """`make` gives the samplers of all ranks."""

    def epochs(task: Task, seed: int) -> Iterator[Epoch]:
        samplers = make(task.sizes[task.held :], task, seed)
        for _ in range(task.epochs):
            steps: dict[int, list[Batch]] = {}
            for sampler in samplers:
                for batch in sampler.batches():
                    weight = batch.sample_weight if task.labels is not None else batch.token_weight
                    indices = batch.indices + task.held
                    made = Batch(indices, weight if weighted else 1.0, batch.layout == "row")
                    steps.setdefault(batch.step, []).append(made)
            yield list(steps.values())

    return epochs


def bucketed(parts: int = 1, world_size: int = 1, **options: Any) -> Any:
    """The budget holds as many samples a step, on average, as static batches have."""

    def make(sizes: npt.NDArray[np.int64], task: Task, seed: int) -> list[Any]:
        budget = 1.02 * task.step * float(sizes.mean()) / parts
        plan = sab.plan(sizes, budget=max(budget, float(sizes.max())))
        return [
            sab.BucketSampler(plan, seed=seed, rank=rank, world_size=world_size, **options)
            for rank in range(world_size)
        ]

    return make


def random_steps(parts: int) -> Any:
    def make(sizes: npt.NDArray[np.int64], task: Task, seed: int) -> list[Any]:
        options: Any = {"samples": task.step, "padded": True, "micro_batches": parts}
        return [sab.BalancedSampler(sizes, seed=seed, **options)]

    return make


def row_of(task: Task, sizes: npt.NDArray[np.int64]) -> int:
    """The capacity of a row."""
    return int(1.01 * task.step * float(sizes.mean()))


def packed(**options: Any) -> Any:
    def make(sizes: npt.NDArray[np.int64], task: Task, seed: int) -> list[Any]:
        return [sab.PackedSampler(sizes, row_of(task, sizes), seed=seed, **options)]

    return make


def trl(sizes: npt.NDArray[np.int64], capacity: int, _: int) -> Sequence[Indices]:
    return Trl(Work(sizes, 0)).pack(capacity, 0)


def first_fit(sizes: npt.NDArray[np.int64], capacity: int, seed: int) -> Sequence[Indices]:
    """Shuffled samples, each in the first row that has room."""
    rows: list[list[int]] = []
    room = np.full(len(sizes), capacity)
    for index in np.random.default_rng(seed).permutation(len(sizes)).tolist():
        row = int(np.argmax(room >= sizes[index]))
        if row == len(rows):
            rows.append([])
        rows[row].append(index)
        room[row] -= sizes[index]
    return rows


def of_rows(
    pack: Callable[[npt.NDArray[np.int64], int, int], Sequence[Indices]],
) -> Callable[[Task, int], Iterator[Epoch]]:
    def epochs(task: Task, seed: int) -> Iterator[Epoch]:
        sizes = task.sizes[task.held :]
        for number in range(task.epochs):
            rows = pack(sizes, row_of(task, sizes), seed + 1000 * number)
            counted = [sizes[row].sum() if task.labels is None else len(row) for row in rows]
            order = np.random.default_rng(seed + 1000 * number).permutation(len(rows))
            mean = float(np.mean(counted))
            yield [[Batch(np.asarray(rows[i]) + task.held, counted[i] / mean, True)] for i in order]

    return epochs


METHODS: dict[str, Callable[[Task, int], Iterator[Epoch]]] = {
    "static batches (torch)": of_peer(Static),
    "transformers group_by_length": of_peer(GroupByLength),
    "transformers batch_rebalance": of_peer(BatchRebalance, 4),
    "sorted windows of 50 batches": windows,
    "libsab, plain means": of_sampler(bucketed(), weighted=False),
    "libsab, weighted": of_sampler(bucketed()),
    "libsab, weighted, 8 micro-batches": of_sampler(bucketed(8, micro_batches=8)),
    "libsab, weighted, 8 ranks of like lengths": of_sampler(bucketed(8, world_size=8)),
    "libsab, weighted, 8 ranks, mix_lengths": of_sampler(
        bucketed(8, world_size=8, mix_lengths=True)
    ),
    "libsab, random steps of 8": of_sampler(random_steps(8)),
    "libsab, random steps of 16": of_sampler(random_steps(16)),
    "libsab, packed rows": of_sampler(packed()),
    "libsab, packed rows, best fit": of_sampler(packed(method="best_fit")),
    "packed rows, first fit": of_rows(first_fit),
    "trl pack_dataset": of_rows(trl),
}


class Run(NamedTuple):
    steps: int
    seconds: npt.NDArray[np.float64]  # of this process's processor, until each look
    losses: npt.NDArray[np.float64]  # at each look


Outcome = Union[Run, str]  # a text where a method cannot


def judge(model: Model, task: Task, batches: Sequence[npt.NDArray[np.int64]]) -> float:
    """The loss of held-out samples: a mean over samples, or over words."""
    lost = weights = 0.0
    with torch.no_grad():
        for indices in batches:
            words = sum(len(task.words[i]) for i in indices)
            weight = words if task.labels is None else len(indices)
            lost += weight * float(loss_of(model, task, indices, packed=False))
            weights += weight
    return lost / weights


def train(task: Task, method: str, seed: int) -> Run:
    """Adam, with a rate that falls to 0. The seed is that of model and order."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = Model(task)
    optimizer = torch.optim.Adam(model.parameters(), lr=task.rate)
    held = sab.plan(task.sizes[: task.held], budget=16384)
    looks = list(sab.SequentialSampler(held))
    epochs = METHODS[method](task, seed)
    steps, seconds = 0, 0.0
    found: list[tuple[float, float]] = []
    for number in range(task.epochs):
        started = time.process_time()
        epoch = list(next(epochs))
        seconds += time.process_time() - started
        parts = max(map(len, epoch))  # the last step may have fewer
        for at, step in enumerate(epoch):
            done = (number + at / len(epoch)) / task.epochs
            if done * LOOKS >= len(found) + 1:
                found.append((seconds, judge(model, task, looks)))
            started = time.process_time()
            for group in optimizer.param_groups:
                group["lr"] = task.rate * (1 - done)
            optimizer.zero_grad(set_to_none=True)
            for batch in step:
                if len(batch.indices):
                    loss = loss_of(model, task, batch.indices, batch.packed)
                    (loss * (batch.weight / parts)).backward()
            optimizer.step()
            seconds += time.process_time() - started
        steps += len(epoch)
    found.append((seconds, judge(model, task, looks)))
    curve = np.array(found)
    return Run(steps, curve[:, 0], curve[:, 1])


@functools.cache
def tasks_of_process(quick: bool) -> list[Task]:
    return tasks(quick)


def all_methods(quick: bool, task: int, seed: int) -> dict[str, Outcome]:
    """All with the same seed, one after the other; a text where a method cannot."""
    runs: dict[str, Outcome] = {}
    for method in METHODS:
        try:
            runs[method] = train(tasks_of_process(quick)[task], method, seed)
        except Exception as error:  # of a peer that is not installed
            runs[method] = f"{type(error).__name__}: {error}"[:100].replace("|", " ")
    return runs


def row(runs: Sequence[Outcome], static: Sequence[Outcome], method: str) -> list[Cell]:
    failed = [each for each in [*runs, *static] if isinstance(each, str)]
    if failed:
        return [failed[0], *["-"] * (len(COLUMNS) - 1)]
    losses = np.array([each.losses for each in runs])  # type: ignore[union-attr]
    theirs = np.array([each.losses[-1] for each in static])  # type: ignore[union-attr]
    seconds = np.array([each.seconds for each in runs]).mean(0)  # type: ignore[union-attr]
    root = len(runs) ** 0.5
    difference = (losses[:, -1] - theirs) / theirs.mean()
    error = float(difference.std(ddof=1)) / root
    mean = float(difference.mean())
    goal = "-" if method not in GOALS else "met" if mean <= GOALS[method] + 2 * error else "missed"
    reached = np.flatnonzero(losses.mean(0) <= theirs.mean() * 1.005)
    return [
        int(np.mean([each.steps for each in runs])),  # type: ignore[union-attr]
        float(losses[:, -1].mean()),
        float(losses[:, -1].std(ddof=1)) / root,
        mean,
        error,
        goal,
        float(seconds[-1]),
        float(seconds[reached[0]]) if len(reached) else "never",
    ]


def run(settings: Settings) -> Answer:
    found = []
    context = multiprocessing.get_context("spawn")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes
    workers = 1 if settings.quick else os.cpu_count()
    with concurrent.futures.ProcessPoolExecutor(workers, context) as pool:
        for number, task in enumerate(tasks_of_process(settings.quick)):
            seeds = 2 if settings.quick else SEEDS[task.name]
            ask = functools.partial(all_methods, settings.quick, number)
            runs = list(pool.map(ask, range(seeds)))
            samples = f"{len(task.words) - task.held:,} samples, {task.epochs} epochs"
            table = Table(f"{task.name}: {samples}, {seeds} seeds", COLUMNS)
            static = [each["static batches (torch)"] for each in runs]
            for method in METHODS:
                table.rows[method] = row([each[method] for each in runs], static, method)
            found.append(table)
    return Answer("training", "The trained model", TEXT, found, picture=7)


def check(answer: Answer) -> list[str]:
    return [
        f"{table.title}: {name}: {row[0]}"
        for table in answer.tables
        for name, row in table.rows.items()
        if name.startswith("libsab") and isinstance(row[0], str)
    ]
