"""Shapes of batches, and the padding that they need."""

import functools
import math
from typing import Any

import numpy as np

import sab
from bench import count
from bench.data import Data
from bench.peers import Peer, Work
from bench.questions import Settings, cells_of
from bench.report import Answer, Cell, Column, Table

TEXT = """Two shuffled epochs on each of two ranks. A shape is a pair of the samples of a batch \
and the length that they are padded to: compilers and CUDA graphs build something for each. Peers \
pad to the longest sample. Lists of lengths are those of vLLM and of Megatron: each sample is \
padded to the next length of the list, and a batch has as many as the budget allows. Bold is the \
best of at most 64 shapes."""
MOST = 200_000  # samples of a data set
FEW = 64
COLUMNS = [
    Column("shapes", "{:,}", "least"),
    Column("padding", "{:.2%}", "least"),
    Column("batches, lower bound = 1", "{:.3f}", "least"),
    Column("batches without a sample", "{:,}"),
    Column("samples lost or repeated", "{:,}", "least"),
]
RANKS = 2
Counts = list[tuple[int, float]]


def cells(data: Data, shapes: Counts, empty: int, lost: int) -> list[Cell]:
    total = 2 * float(data.lengths.sum())
    padded = sum(samples * length for samples, length in shapes)
    return [
        len(set(shapes)),
        1 - total / padded,
        len(shapes) / 2 / math.ceil(data.lengths.sum() / data.budget),
        empty,
        lost,
    ]


def row_of_peer(peer: type[Peer], data: Data) -> list[Cell]:
    shapes: Counts = []
    lost = empty = 0
    for epoch in (0, 1):
        parts = []
        for rank in range(RANKS):
            sampler = peer(Work(data.lengths, data.budget, rank=rank, world_size=RANKS))
            batches = list(sampler.epoch(epoch))  # type: ignore[attr-defined]
            empty += sum(len(batch) == 0 for batch in batches)
            parts.append(count.gather(batches))
            longest = parts[-1].longest(data.lengths)
            shapes += zip(parts[-1].counts.tolist(), longest.tolist())
        lost += sum(count.lost_and_repeated(count.deliveries(parts, len(data.lengths))))
    return cells(data, shapes, empty, lost)


def row_of_plan(plan: sab.Plan, data: Data) -> list[Cell]:
    shapes: Counts = []
    lost = empty = 0
    for epoch in (0, 1):
        parts = []
        for rank in range(RANKS):
            sampler = sab.BucketSampler(plan, rank=rank, world_size=RANKS)
            sampler.set_epoch(epoch)
            batches = list(sampler.batches())
            empty += sum(batch.count == 0 for batch in batches)
            parts.append(count.gather(batch.indices for batch in batches))
            shapes += [(batch.count, batch.padded_length) for batch in batches if batch.count]
        lost += sum(count.lost_and_repeated(count.deliveries(parts, len(data.lengths))))
    return cells(data, shapes, empty, lost)


def row_of_list(list_of: list[int], data: Data) -> list[Cell]:
    """Buckets with the tail of each; one rank, whose last step is full."""
    shapes: Counts = []
    edges = [edge for edge in list_of if edge < data.lengths.max()]
    edges.append(next(edge for edge in list_of if edge >= data.lengths.max()))
    where = np.searchsorted(edges, data.lengths)
    for bucket, samples in enumerate(np.bincount(where, minlength=len(edges)).tolist()):
        size = max(1, data.budget // edges[bucket])
        shapes += 2 * samples // (2 * size) * 2 * [(size, float(edges[bucket]))]
        shapes += 2 * [(samples % size, float(edges[bucket]))] if samples % size else []
    return cells(data, shapes, 0, 0)


def run(settings: Settings) -> Answer:
    tables = []
    for data in settings.data:
        data = Data(data.name, data.lengths[:MOST], data.budget)
        title = f"{data.name}, {len(data.lengths):,} samples, budget {data.budget:,}"
        table = Table(title, COLUMNS)
        lists = {
            "lengths of a list: powers of two": [1 << power for power in range(24)],
            "lengths of a list: multiples of 64": list(range(64, 1 << 22, 64)),
        }
        for name, list_of in lists.items():
            table.rows[name] = cells_of(functools.partial(row_of_list, list_of, data), len(COLUMNS))
        for peer in settings.peers:
            if hasattr(peer, "epoch") and peer.padded:
                table.rows[peer.name] = cells_of(lambda: row_of_peer(peer, data), len(COLUMNS))
        few: list[dict[str, Any]] = [{"max_shapes": most} for most in (8, 16, 64)]
        for options in [*few, {"shapes": "auto"}]:
            name = "libsab, " + ", ".join(f"{key}={value!r}" for key, value in options.items())
            plan = sab.plan(data.lengths, data.budget, **options)
            table.rows[name] = cells_of(functools.partial(row_of_plan, plan, data), len(COLUMNS))
        table.fair = {
            name
            for name, row in table.rows.items()
            if isinstance(row[0], int) and row[0] <= FEW and row[4] == 0
        }
        tables.append(table)
    return Answer("shapes", "Shapes", TEXT, tables, picture=1)


def check(answer: Answer) -> list[str]:
    wrong = []
    for table in answer.tables:
        rows: Any = table.rows
        for name, row in rows.items():
            most = int(name.rpartition("=")[2]) if name.startswith("libsab, max_shapes") else None
            if most is not None and (row[0] > most or row[4] != 0):
                wrong.append(f"{table.title}: {name}: {row[0]} shapes, {row[4]} lost or repeated")
        # Few samples may have no room for the target of 1 %.
        auto, many = (rows[f"libsab, {name}"][1] for name in ("shapes='auto'", "max_shapes=64"))
        if auto > max(0.01, many):
            wrong.append(f"{table.title}: shapes='auto': {auto:.2%} of padding")
    return wrong
