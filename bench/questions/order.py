"""How random the order is, key by key."""

import itertools
import math

import numpy as np

from bench import count
from bench.data import Data
from bench.peers import Peer, Work
from bench.questions import Settings, cells_of
from bench.report import Answer, Cell, Column, Table

SAMPLES, BATCH, LENGTH = 1024, 16, 64
CHANCE = 1e-6  # that one of all limits below is exceeded by a random order
TEXT = f"""{SAMPLES:,} samples of equal length in batches of {BATCH}, so that a random \
permutation would do. Each epoch of each seed is a test of its own, as in the test of libsab's \
order. It counts pairs of samples at a fixed distance that share a batch. It counts how many \
samples of each quarter of the data come in each quarter of the epoch. And it counts pairs that \
share a batch in two successive epochs. A distance is the difference, or the exclusive or, of two \
indices. \
An epoch fails when a count is one that a random permutation exceeds with a chance of {CHANCE:g} \
over all tests. The correlation is that of the mean lengths of neighbouring batches on real \
lengths: 0 is random; a sawtooth of lengths shows as a large number."""
COLUMNS = [
    Column("epochs tested", "{:,}"),
    Column("fail: pairs of a distance", "{:.1%}", "least"),
    Column("fail: places", "{:.1%}", "least"),
    Column("fail: meet again", "{:.1%}", "least"),
    Column("correlation of neighbours", "{:+.3f}"),
]


def log_choose(n: float, k: float) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def forest_limit(edges: int, hits: int, samples: int, log_chance: float) -> int:
    """The largest number of hits among `edges` pairs that form a forest on the samples that is not
    less likely than the chance. That k given pairs all share a batch has a chance of at most
    prod hits / (samples - 2 j + 1), so P(X >= t) <= E[C(X, k)] / C(t, k) for every k <= t."""
    for t in range(1, edges + 1):
        log_product, least = 0.0, 0.0
        for k in range(1, t + 1):
            left = samples - 2 * k + 1
            log_product += math.log(hits / left) if left > hits else 0
            least = min(least, log_choose(edges, k) + log_product - log_choose(t, k))
        if least < log_chance:
            return t - 1
    return edges


def hypergeometric_limits(quarter: int, log_chance: float) -> tuple[int, int]:
    """From where to where the number of samples of a quarter goes, in a quarter of the epoch."""
    chances = np.array(
        [
            log_choose(quarter, x)
            + log_choose(SAMPLES - quarter, quarter - x)
            - log_choose(SAMPLES, quarter)
            for x in range(quarter + 1)
        ]
    )
    kept = np.flatnonzero(np.cumsum(np.exp(chances)) >= math.exp(log_chance))
    kept_from_above = np.flatnonzero(np.cumsum(np.exp(chances[::-1])) >= math.exp(log_chance))
    return int(kept[0]), int(quarter - kept_from_above[0])


def meeting_limit(log_chance: float) -> int:
    """The most pairs that share a batch in both of two epochs, by Chernoff's bound, as if the cells
    (a batch of one epoch and one of the other) were independent."""
    cells = (SAMPLES / BATCH) ** 2
    held = np.arange(2, BATCH + 1)
    rate = cells * np.exp(
        [
            log_choose(BATCH, c)
            + log_choose(SAMPLES - BATCH, BATCH - c)
            - log_choose(SAMPLES, BATCH)
            for c in held
        ]
    )
    pairs = held * (held - 1) / 2
    limit = int((rate * pairs).sum())
    steps = np.geomspace(1e-3, 8, 450)
    with np.errstate(over="ignore"):  # infinity is not the least
        growth = (rate * np.expm1(np.outer(steps, pairs))).sum(1)
    while (growth - steps * (limit + 1)).min() >= log_chance:
        limit += 1
    return limit


class Limits:
    def __init__(self, epochs: int) -> None:
        tests = epochs * (2 * SAMPLES + 32 + 1)
        chance = math.log(CHANCE / tests)
        self.exclusive_or = forest_limit(SAMPLES // 2, BATCH - 1, SAMPLES, chance)
        self.cyclic = forest_limit(SAMPLES, BATCH - 1, SAMPLES, chance)
        self.places = hypergeometric_limits(SAMPLES // 4, chance)
        self.meetings = meeting_limit(chance)


def failures(epoch: count.Counted, before: count.Counted, limits: Limits) -> list[bool]:
    """Whether pairs of a distance, places, and pairs that meet again are outside the limits."""
    grid = np.full((len(epoch.begins), int(epoch.counts.max())), -1)
    grid[np.arange(grid.shape[1]) < epoch.counts[:, None]] = epoch.indices
    a, b = np.triu_indices(grid.shape[1], 1)
    first, second = grid[:, a].ravel(), grid[:, b].ravel()
    first, second = first[(first >= 0) & (second >= 0)], second[(first >= 0) & (second >= 0)]
    exclusive_or = np.bincount(first ^ second, minlength=SAMPLES)
    distance = np.abs(first - second)
    cyclic = np.bincount(np.minimum(distance, SAMPLES - distance), minlength=SAMPLES)
    # The pairs of an odd distance form one circle; those of others short ones.
    paired = exclusive_or.max() > limits.exclusive_or or cyclic[1::2].max() > limits.cyclic
    quarters = epoch.indices * 4 // SAMPLES
    cells = np.array(
        [np.bincount(each, minlength=4) for each in np.array_split(quarters, 4)], np.int64
    )
    low, high = limits.places
    pairs = int((epoch.counts * (epoch.counts - 1) // 2).sum())
    met = round(count.meet_again(epoch, before, SAMPLES) * pairs)
    return [bool(paired), bool(cells.min() < low or cells.max() > high), met > limits.meetings]


def correlation(peer: type[Peer], data: Data) -> float:
    batches = count.gather(peer(Work(data.lengths, data.budget)).epoch(0))  # type: ignore[attr-defined]
    means = batches.sums(data.lengths) / batches.counts
    return float(np.corrcoef(means[:-1], means[1:])[0, 1])


def row(peer: type[Peer], data: Data, seeds: int, epochs: int) -> list[Cell]:
    limits = Limits(seeds * epochs)
    found = []
    for seed in range(seeds):
        sampler = peer(Work(np.full(SAMPLES, LENGTH), BATCH * LENGTH, seed=seed))
        made = [count.gather(sampler.epoch(number)) for number in range(epochs + 1)]  # type: ignore[attr-defined]
        found += [failures(now, before, limits) for before, now in itertools.pairwise(made)]
    shares = np.mean(found, 0).tolist()
    return [len(found), *shares, correlation(peer, data)]


def run(settings: Settings) -> Answer:
    seeds, epochs = (2, 5) if settings.quick else (8, 25)
    data = settings.data[-1 if settings.quick else min(1, len(settings.data) - 1)]
    data = Data(data.name, data.lengths[:20_000], data.budget)
    table = Table(f"correlation on {data.name}, {len(data.lengths):,} samples", COLUMNS)
    for peer in settings.peers:
        if hasattr(peer, "epoch"):
            table.rows[peer.name] = cells_of(lambda: row(peer, data, seeds, epochs), len(COLUMNS))
    return Answer("order", "Randomness of the order", TEXT, [table], picture=3)


def check(answer: Answer) -> list[str]:
    (table,) = answer.tables
    return [
        f"{name}: {cells}"
        for name, cells in table.rows.items()
        if name.startswith("libsab") and cells[1:4] != [0, 0, 0]
    ]
