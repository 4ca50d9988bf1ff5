"""How full packed rows are, and how well they mix."""

import math
import time

import numpy as np

from bench import count
from bench.peers import Peer, Work
from bench.questions import Settings, cells_of
from bench.report import MACHINE, Answer, Cell, Column, Table

TEXT = """Samples are laid end to end in rows of a fixed capacity; longer samples are cut to it \
before. Fill is the share of the rows that holds samples. The lower bound is the total of all \
lengths over the capacity. Each row is counted: every sample is in one row, no row is over the \
capacity. Mates that meet again are pairs of samples that share a row in one epoch and in the \
next. The deviation is that of the mean length of a row, where 1 is that of random rows: shuffled \
samples, each row until the next sample does not fit. trl moves the tokens, too, and its rows are \
the same in all epochs."""
CAPACITIES = (2048, 8192)
MOST = 200_000  # samples of a data set
COLUMNS = [
    Column("fill", "{:.3%}", "most"),
    Column("rows, bound = 1", "{:.5f}", "least"),
    Column("mates that meet again", "{:.3%}", "least"),
    Column("deviation of a row's mean length, random = 1", "{:.2f}", "least"),
    Column(f"time, libsab = 1{MACHINE}", "{:,.1f}", "least"),
]


def packed(
    peer: type[Peer], lengths: count.Ints, capacity: int, epoch: int
) -> tuple[count.Counted, float]:
    """The rows of an epoch, after counting what is in them, and seconds."""
    packer = peer(Work(lengths, int(lengths.max())))
    begin = time.perf_counter()
    rows = packer.pack(capacity, epoch)  # type: ignore[attr-defined]
    seconds = time.perf_counter() - begin
    counted = count.gather(rows)
    if count.lost_and_repeated(count.deliveries([counted], len(lengths))) != (0, 0):
        raise ValueError("loses or repeats samples")
    if counted.sums(lengths).max() > capacity:
        raise ValueError("a row is over the capacity")
    return counted, seconds


def deviation(rows: count.Counted, lengths: count.Ints) -> float:
    """Standard deviation of the mean length of a row."""
    return float(np.std(rows.sums(lengths) / rows.counts))


def random_rows(lengths: count.Ints, capacity: int) -> count.Counted:
    rows: list[list[int]] = [[]]
    total = 0
    for index in np.random.default_rng(0).permutation(len(lengths)).tolist():
        if total + lengths[index] > capacity:
            rows.append([])
            total = 0
        rows[-1].append(index)
        total += int(lengths[index])
    return count.gather(rows)


def fill_of(peers: list[type[Peer]], lengths: count.Ints, capacity: int) -> list[list[Cell]]:
    """The cells of each peer. The peers take turns, twice; the first is the base of the times."""
    bound = math.ceil(lengths.sum() / capacity)
    best = dict.fromkeys(peers, math.inf)
    at_random = deviation(random_rows(lengths, capacity), lengths)

    def ask(peer: type[Peer]) -> list[Cell]:
        rows, seconds = packed(peer, lengths, capacity, 0)
        best[peer] = min(best[peer], seconds)
        others, _ = packed(peer, lengths, capacity, 1)
        return [
            float(lengths.sum() / capacity / len(rows.begins)),
            len(rows.begins) / bound,
            count.meet_again(rows, others, len(lengths)),
            deviation(rows, lengths) / at_random,
            best[peer] / best[peers[0]],
        ]

    for peer in peers:
        cells_of(lambda: ask(peer), len(COLUMNS))
    return [cells_of(lambda: ask(peer), len(COLUMNS)) for peer in peers]


def run(settings: Settings) -> Answer:
    tables = []
    peers = [peer for peer in settings.peers if hasattr(peer, "pack")]
    for data in settings.data[: 1 if settings.quick else 3]:
        lengths = data.lengths[:MOST]
        for capacity in CAPACITIES:
            title = f"{data.name}, {len(lengths):,} samples, rows of {capacity:,}"
            table = Table(title, COLUMNS)
            cells = fill_of(peers, np.minimum(lengths, capacity), capacity)
            for peer, each in zip(peers, cells):
                table.rows[peer.name] = each
            tables.append(table)
    return Answer("packing", "Packing", TEXT, tables)


def check(answer: Answer) -> list[str]:
    return [
        f"{table.title}: {cells[0]}"
        for table in answer.tables
        for name, cells in table.rows.items()
        if name.startswith("libsab") and not isinstance(cells[0], float)
    ]
