"""Resume in the middle of an epoch, on another number of ranks."""

import itertools
import pickle

import numpy as np

from bench import count
from bench.data import Data
from bench.peers import Peer, Work
from bench.questions import Settings, short_epochs
from bench.report import Answer, Cell, Column

RANKS, OTHERS, EPOCH = 4, (2, 3), 3
TEXT = f"""As before, but {RANKS} ranks stop and {OTHERS[0]} or {OTHERS[1]} go on. Rank r goes \
on from the state that rank r had saved. Batches of a fixed number of samples keep the samples \
of a step of all ranks. *Exact*: each sample of the epoch is given once. *Refuses*: the peer \
raises an error."""
COLUMNS = [
    each
    for ranks in OTHERS
    for each in (
        Column(f"{RANKS} ranks to {ranks}"),
        Column(f"lost with {ranks}", "{:,}", "least"),
        Column(f"repeated with {ranks}", "{:,}", "least"),
    )
]


def resumed(peer: type[Peer], data: Data, ranks: int) -> list[Cell]:
    count_of_step = int(data.budget / data.lengths.mean()) * RANKS // 12 * 12

    def work(rank: int, world_size: int) -> Work:
        return Work(data.lengths, data.budget, 1, rank, world_size, max(12, count_of_step))

    old = [peer(work(rank, RANKS)) for rank in range(RANKS)]
    epochs = [[np.array(batch) for batch in each.epoch(EPOCH)] for each in old]  # type: ignore[attr-defined]
    stop = min(map(len, epochs)) // 3
    given, states = [], []
    for each in old:
        given += [np.array(batch) for batch in itertools.islice(each.epoch(EPOCH), stop)]  # type: ignore[attr-defined]
        states.append(pickle.dumps(each.state(EPOCH, stop)))  # type: ignore[attr-defined]
    try:
        for rank in range(ranks):
            after = peer(work(rank, ranks)).resume(pickle.loads(states[rank]))  # type: ignore[attr-defined]
            given += [np.array(batch) for batch in after]
    except (AssertionError, ValueError, RuntimeError):
        return ["refuses", None, None]
    lost, repeated = count.lost_and_repeated(
        count.deliveries([count.gather(given)], len(data.lengths))
    )
    return ["approximate" if lost or repeated else "exact", lost, repeated]


def row(peer: type[Peer], data: Data) -> list[Cell]:
    if not hasattr(peer, "state"):
        return ["none", None, None] * len(OTHERS)
    return [cell for ranks in OTHERS for cell in resumed(peer, data, ranks)]


def run(settings: Settings) -> Answer:
    table = short_epochs(settings, COLUMNS, row)
    return Answer("elastic", "Resume on another number of ranks", TEXT, [table], picture=4)


def check(answer: Answer) -> list[str]:
    (table,) = answer.tables
    return [
        f"{name}: {cells}"
        for name, cells in table.rows.items()
        if name.startswith("libsab") and cells != ["exact", 0, 0] * len(OTHERS)
    ]
