"""How full packed rows are."""

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
capacity. trl moves the tokens, too."""
CAPACITIES = (2048, 8192)
MOST = 200_000  # samples of a data set
COLUMNS = [
    each
    for capacity in CAPACITIES
    for each in (
        Column(f"{capacity:,}: fill", "{:.3%}", "most"),
        Column("rows, bound = 1", "{:.5f}", "least"),
        Column(f"time, libsab = 1{MACHINE}", "{:,.1f}", "least"),
    )
]


def packed(peer: type[Peer], lengths: count.Ints, capacity: int) -> tuple[int, float]:
    """Number of rows, after counting what is in them, and seconds."""
    packer = peer(Work(lengths, int(lengths.max())))
    begin = time.perf_counter()
    rows = packer.pack(capacity)  # type: ignore[attr-defined]
    seconds = time.perf_counter() - begin
    counted = count.gather(rows)
    if count.lost_and_repeated(count.deliveries([counted], len(lengths))) != (0, 0):
        raise ValueError("loses or repeats samples")
    if counted.sums(lengths).max() > capacity:
        raise ValueError("a row is over the capacity")
    return len(counted.begins), seconds


def fill_of(peers: list[type[Peer]], lengths: count.Ints, capacity: int) -> list[list[Cell]]:
    """Three cells of each peer. The peers take turns, twice; the first is the base of the times."""
    bound = math.ceil(lengths.sum() / capacity)
    best = dict.fromkeys(peers, math.inf)

    def ask(peer: type[Peer]) -> list[Cell]:
        rows, seconds = packed(peer, lengths, capacity)
        best[peer] = min(best[peer], seconds)
        fill = float(lengths.sum() / capacity / rows)
        return [fill, rows / bound, best[peer] / best[peers[0]]]

    for peer in peers:
        cells_of(lambda: ask(peer), 3)
    return [cells_of(lambda: ask(peer), 3) for peer in peers]


def run(settings: Settings) -> Answer:
    tables = []
    peers = [peer for peer in settings.peers if hasattr(peer, "pack")]
    for data in settings.data[: 1 if settings.quick else 3]:
        lengths = data.lengths[:MOST]
        table = Table(f"{data.name}, {len(lengths):,} samples", COLUMNS)
        cells = [fill_of(peers, np.minimum(lengths, each), each) for each in CAPACITIES]
        for peer, first, second in zip(peers, *cells):
            table.rows[peer.name] = first + second
        tables.append(table)
    return Answer("packing", "Packing", TEXT, tables)


def check(answer: Answer) -> list[str]:
    return [
        f"{table.title}: {cells[0]}"
        for table in answer.tables
        for name, cells in table.rows.items()
        if name.startswith("libsab") and not isinstance(cells[0], float)
    ]
