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


def run(settings: Settings) -> Answer:
    tables = []
    peers = [peer for peer in settings.peers if hasattr(peer, "pack")]
    for data in settings.data[: 1 if settings.quick else 3]:
        table = Table(f"{data.name}, {min(len(data.lengths), 200_000):,} samples", COLUMNS)
        table.rows = {peer.name: [] for peer in peers}
        for capacity in CAPACITIES:
            lengths = np.minimum(data.lengths[:200_000], capacity)
            bound = math.ceil(lengths.sum() / capacity)
            fill = lengths.sum() / capacity
            base = min(packed(peers[0], lengths, capacity)[1] for _ in range(3))

            def ask(peer: type[Peer]) -> list[Cell]:
                rows, seconds = packed(peer, lengths, capacity)
                seconds = base if peer is peers[0] else seconds
                return [float(fill / rows), rows / bound, seconds / base]

            for peer in peers:
                table.rows[peer.name] += cells_of(lambda: ask(peer), 3)
        tables.append(table)
    return Answer("packing", "Packing", TEXT, tables)


def check(answer: Answer) -> list[str]:
    return [
        f"{table.title}: {cells[0]}"
        for table in answer.tables
        for name, cells in table.rows.items()
        if name.startswith("libsab") and not isinstance(cells[0], float)
    ]
