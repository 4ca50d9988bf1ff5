"""How even ranks are, and what waiting for the slowest costs."""

import contextlib
import signal
from collections.abc import Iterator

import numpy as np

from bench import count
from bench.data import Data
from bench.peers import Peer, Work
from bench.questions import Settings, cells_of
from bench.report import Answer, Cell, Column, Table

TEXT = """A step ends when its costliest rank does. Imbalance is the cost of the costliest rank \
over the mean rank, averaged over the steps. Time lost is the share of an epoch that the mean \
rank waits. Padded: a batch costs its samples times its longest. Squares: it costs the sum of \
its squared lengths, as attention over packed samples does. Steps are those of the rank with the \
fewest and of the one with the most; a job whose ranks differ hangs, or drops batches. libsab's \
BucketSampler is given a plan of padded cost, BalancedSampler balances squares."""
STEPS = {8: 12, 64: 3}
MOST = 2.0  # seconds of the processor for one rank
COLUMNS = [
    Column("imbalance, padded", "{:.4f}", "least"),
    Column("time lost, padded", "{:.2%}", "least"),
    Column("imbalance, squares", "{:.4f}", "least"),
    Column("time lost, squares", "{:.2%}", "least"),
    Column("steps"),
]


def lost(costs: "np.ndarray") -> list[Cell]:
    """Of costs (steps, ranks)."""
    slowest, mean = costs.max(1), costs.mean(1)
    return [float((slowest / mean).mean()), float(1 - mean.sum() / slowest.sum())]


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Ends what takes more time of the processor: one of 64 ranks should not take minutes."""

    def stop(*_: object) -> None:
        raise NotImplementedError(f"over {seconds:g} s a rank")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def row(peer: type[Peer], data: Data, ranks: int) -> list[Cell]:
    peer(Work(data.lengths[:1000], data.budget, world_size=ranks))  # imports what it needs
    padded, squares = [], []
    for rank in range(ranks):
        work = Work(data.lengths, data.budget, rank=rank, world_size=ranks)
        with limited(MOST):
            batches = count.gather(peer(work).epoch(0))  # type: ignore[attr-defined]
        padded.append(batches.counts * batches.longest(data.lengths))
        squares.append(batches.sums(data.lengths**2))
    fewest, most = min(map(len, padded)), max(map(len, padded))
    cells: list[Cell] = []
    for costs in (padded, squares):
        cells += lost(np.array([each[:fewest] for each in costs]).T)
    return [*cells, f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"]


def table_of(settings: Settings, data: Data, ranks: int) -> Table:
    # Where the data has fewer steps, the next epochs are added to it.
    wanted = ranks * STEPS[ranks] * data.budget
    lengths = np.tile(data.lengths, -(-wanted // int(data.lengths.sum())))
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), wanted)) + 1]
    used = Data(data.name, lengths, data.budget)
    table = Table(f"{data.name}, {ranks} ranks", COLUMNS)
    for peer in settings.peers:
        if hasattr(peer, "epoch"):
            table.rows[peer.name] = cells_of(lambda: row(peer, used, ranks), len(COLUMNS))
    return table


def run(settings: Settings) -> Answer:
    chosen = settings.data[-1:] if settings.quick else settings.data[1:3] or settings.data
    sizes = (8,) if settings.quick else (8, 64)
    tables = [table_of(settings, data, ranks) for data in chosen for ranks in sizes]
    return Answer("ranks", "Balanced ranks", TEXT, tables, picture=3)


def check(answer: Answer) -> list[str]:
    return [
        f"{table.title}: {name}: {cells[4]} steps"
        for table in answer.tables
        for name, cells in table.rows.items()
        if name.startswith("libsab") and (not isinstance(cells[0], float) or "to" in str(cells[4]))
    ]
