"""Resume in the middle of an epoch, on the same number of ranks."""

import itertools
import pickle

import numpy as np

from bench import count
from bench.data import Data
from bench.peers import Peer, Work
from bench.questions import Settings, short_epochs
from bench.report import Answer, Cell, Column

RANKS, EPOCH = 4, 3
TEXT = f"""{RANKS} ranks stop after a third of the steps of an epoch and go on from their states \
in new objects. *Exact*: the rest of the batches is that of the epoch without a stop. \
*Approximate*: it is not. *None*: the peer has no state to go on from. Lost are samples of the \
epoch that are given neither before nor after the stop; repeated are those given more than once."""
COLUMNS = [
    Column("resume"),
    Column("lost", "{:,}", "least"),
    Column("repeated", "{:,}", "least"),
    Column("the same without a stop"),
    Column("bytes of a state", "{:,}", "least"),
]


def row(peer: type[Peer], data: Data) -> list[Cell]:
    if not hasattr(peer, "state"):
        return ["none", None, None, None, None]
    works = [
        Work(data.lengths, data.budget, seed=1, rank=rank, world_size=RANKS)
        for rank in range(RANKS)
    ]
    whole = [[np.array(batch) for batch in peer(work).epoch(EPOCH)] for work in works]  # type: ignore[attr-defined]
    stop = min(map(len, whole)) // 3
    given, exact, size = [], True, 0
    for work, batches in zip(works, whole):
        sampler = peer(work)
        epoch = sampler.epoch(EPOCH)  # type: ignore[attr-defined]
        before = [np.array(batch) for batch in itertools.islice(epoch, stop)]
        saved = pickle.dumps(sampler.state(EPOCH, stop))  # type: ignore[attr-defined]
        after = [np.array(batch) for batch in peer(work).resume(pickle.loads(saved))]  # type: ignore[attr-defined]
        given += before + after
        same = len(before + after) == len(batches)
        exact &= same and all(map(np.array_equal, before + after, batches))
        size = max(size, len(saved))
    samples = len(data.lengths)
    lost, repeated = count.lost_and_repeated(count.deliveries([count.gather(given)], samples))
    uninterrupted = count.gather(itertools.chain(*whole))
    before_lost, before_repeated = count.lost_and_repeated(
        count.deliveries([uninterrupted], samples)
    )
    verdict = "exact" if exact else "approximate"
    return [verdict, lost, repeated, f"{before_lost:,}, {before_repeated:,}", size]


def run(settings: Settings) -> Answer:
    table = short_epochs(settings, COLUMNS, row)
    return Answer("resume", "Resume in the middle of an epoch", TEXT, [table], picture=1)


def check(answer: Answer) -> list[str]:
    (table,) = answer.tables
    return [
        f"{name}: {cells[:3]}"
        for name, cells in table.rows.items()
        if name.startswith("libsab") and cells[:3] != ["exact", 0, 0]
    ]
