"""Three data sets in chosen proportions; and what a mixture of many sources costs."""

import itertools
import math
import pickle
import time
from typing import Any, Callable, Optional

import numpy as np
import numpy.typing as npt

import sab
from bench import data
from bench.peers import Peer, Work
from bench.questions import Settings, cells_of
from bench.report import MACHINE, Answer, Cell, Column, Table

REPEATS = {"WordNet glosses": 1.0, ".mo pairs": 0.5, "proteins": 3.0}
SOURCES = 64
LONG = 4.0  # seconds of an epoch that is timed once only
TEXT = """The sources are WordNet's glosses, translated messages and proteins, with the repeats 1, \
0.5 and 3. An epoch asks for n samples times the repeat of each. Off the epoch: how far the share \
of a source, of the samples of an epoch, is from what was asked for, in percentage points; the \
source that is farthest counts. Off any 100 batches: how far its share of the sizes of 100 batches \
in a row is from that of the epoch. Batches of the peers have the number of samples that fills the \
budget on average. Resume is after a third of the epoch, in a new object: *exact* gives the rest \
of the epoch without a stop. The second table has what a plan and an epoch of the same samples in \
64 sources, all with the repeat 1, take: the time over that without a mixture, of runs in turn."""
COLUMNS = [
    Column("off the epoch, points", "{:.4f}", "least"),
    Column("off any 100 batches, points", "{:.2f}", "least"),
    Column(f"million samples a second{MACHINE}", "{:.3g}", "most"),
    Column("resume"),
]
COST = [
    Column(f"plan, without = 1{MACHINE}", "{:.2f}", "least"),
    Column(f"epoch, without = 1{MACHINE}", "{:.2f}", "least"),
]


def three(quick: bool) -> Optional[list[tuple[npt.NDArray[Any], float]]]:
    """The sizes and repeats of the sources. Where quick, drawn ones."""
    if quick:
        random = np.random.default_rng(0)
        drawn = (random.gamma(2, 6, 6000), random.gamma(2, 40, 9000), random.gamma(2, 150, 1000))
        return [
            (1 + sizes.astype(np.int64), repeat) for sizes, repeat in zip(drawn, REPEATS.values())
        ]
    pairs, proteins = data.pairs(), data.proteins()
    if pairs is None or proteins is None:
        return None
    return list(zip((data.glosses(), pairs, proteins), REPEATS.values()))


def resumed(peer: type[Peer], work: Work) -> str:
    if not hasattr(peer, "state"):
        return "none"
    first: Any = peer(work)
    whole = [np.array(batch) for batch in first.mixed(1)]
    stop, second, third = len(whole) // 3, peer(work), peer(work)
    for _ in itertools.islice(second.mixed(1), stop):  # type: ignore[attr-defined]
        pass
    saved = pickle.loads(pickle.dumps(second.state(1, stop)))  # type: ignore[attr-defined]
    rest = [np.array(batch) for batch in third.resume(saved)]  # type: ignore[attr-defined]
    same = len(rest) == len(whole) - stop and all(map(np.array_equal, rest, whole[stop:]))
    return "exact" if same else "approximate"


def row(peer: type[Peer], work: Work) -> list[Cell]:
    number_of = np.repeat(np.arange(len(work.sources)), work.sources)
    sampler: Any = peer(work)
    spent = math.inf
    batches: list[npt.NDArray[Any]] = []
    for number in range(3):
        begin = time.perf_counter()
        samples = sum(len(batch) for batch in sampler.mixed(number))
        seconds = time.perf_counter() - begin
        spent = min(spent, seconds / samples)
        if seconds > LONG:
            break
    batches = [np.asarray(batch) for batch in sampler.mixed(0)]
    places, sizes = number_of[np.concatenate(batches)], work.lengths[np.concatenate(batches)]
    counts = np.bincount(places, minlength=len(work.sources))
    asked = np.array(work.asked)
    off = np.abs(counts / counts.sum() - asked / asked.sum()).max()
    ends = np.cumsum([0, *map(len, batches)])
    sums = np.stack([np.cumsum([0, *(sizes * (places == s))])[ends] for s in range(len(asked))])
    windows = sums[:, 100:] - sums[:, :-100]
    due = (sums[:, -1] / sums[:, -1].sum())[:, None]
    far = np.abs(windows / windows.sum(0) - due).max()
    return [float(100 * off), float(100 * far), 1e-6 / spent, resumed(peer, work)]


def least_ratio(with_: Callable[[], object], without: Callable[[], object]) -> float:
    """Of the shortest times of two functions that run in turn."""
    times = [math.inf, math.inf]
    for _ in range(7):
        for place, function in enumerate((with_, without)):
            begin = time.perf_counter()
            function()
            times[place] = min(times[place], time.perf_counter() - begin)
    return times[0] / times[1]


def cost(lengths: npt.NDArray[np.int64], budget: int) -> list[Cell]:
    ids = np.random.default_rng(0).integers(0, SOURCES, len(lengths))
    mixture, sizes = sab.Mixture(lengths, sources=ids), sab.Sizes(lengths)
    samplers = [sab.BucketSampler(sab.plan(each, budget)) for each in (mixture, sizes)]

    def epoch(sampler: sab.BucketSampler) -> None:
        sampler.set_epoch(sampler.epoch + 1)
        for _ in sampler:
            pass

    return [
        least_ratio(lambda: sab.plan(mixture, budget), lambda: sab.plan(sizes, budget)),
        least_ratio(lambda: epoch(samplers[0]), lambda: epoch(samplers[1])),
    ]


def run(settings: Settings) -> Answer:
    tables = []
    sources = three(settings.quick)
    if sources is not None:
        sizes = np.concatenate([each for each, _ in sources])
        work = Work(
            sizes,
            1 << int(sizes.max()).bit_length(),
            sources=tuple(len(each) for each, _ in sources),
            repeats=tuple(repeat for _, repeat in sources),
        )
        table = Table(f"three sources, {sum(work.asked):,} samples", COLUMNS)
        for peer in settings.peers:
            if hasattr(peer, "mixed"):
                table.rows[peer.name] = cells_of(lambda: row(peer, work), len(COLUMNS))
        tables.append(table)
    first = settings.data[0]
    table = Table(f"{first.name}, {len(first.lengths):,} samples", COST)
    table.rows[f"libsab Mixture of {SOURCES}"] = cost(first.lengths, first.budget)
    return Answer("mixture", "Mixtures of data sets", TEXT, [*tables, table], picture=1)


def check(answer: Answer) -> list[str]:
    """Counts of libsab are exact, and any 100 batches are within 2 points."""
    wrong = []
    for table in answer.tables:
        for name, cells in table.rows.items():
            if name.startswith("libsab") and table.columns == COLUMNS:
                off, far, _, resume = cells
                if off != 0 or float(str(far)) > 2 or resume != "exact":
                    wrong.append(f"{table.title}: {name}: {cells}")
    return wrong
