"""Padding, batches over the bound, pairs that meet again."""

import math

from bench import count
from bench.data import Data
from bench.peers import Peer, Work
from bench.questions import Settings, cells_of
from bench.report import Answer, Cell, Column, Table

TEXT = """One shuffled epoch on one rank. Padding is the share of a batch, its samples times its \
longest, that holds no sample. The lower bound is the total of all lengths over the budget. A \
batch over the budget may run out of memory. Pairs that meet again share a batch in this epoch \
and in the next. Samplers that make batches without padding have no padding to count; there a \
batch costs the sum of its lengths. Bold is the best of those that keep the budget and give each \
sample once."""
MOST = 200_000  # samples of a data set
COLUMNS = [
    Column("padding", "{:.2%}", "least"),
    Column("batches, lower bound = 1", "{:.3f}", "least"),
    Column("batches over the budget", "{:.2%}", "least"),
    Column("largest batch, budget = 1", "{:.3f}"),
    Column("pairs that meet again", "{:.2%}", "least"),
    Column("samples lost or repeated", "{:,}", "least"),
]


def row(peer: type[Peer], data: Data) -> list[Cell]:
    lengths = data.lengths
    sampler = peer(Work(lengths, data.budget))
    first, second = (count.gather(sampler.epoch(number)) for number in (0, 1))  # type: ignore[attr-defined]
    sums = first.sums(lengths)
    costs = first.counts * first.longest(lengths) if peer.padded else sums
    lost, repeated = count.lost_and_repeated(count.deliveries([first], len(lengths)))
    return [
        float(1 - sums.sum() / costs.sum()) if peer.padded else "none",
        len(costs) / math.ceil(lengths.sum() / data.budget),
        float((costs > data.budget).mean()),
        float(costs.max() / data.budget),
        count.meet_again(first, second, len(lengths)),
        lost + repeated,
    ]


def run(settings: Settings) -> Answer:
    tables = []
    for data in settings.data:
        data = Data(data.name, data.lengths[:MOST], data.budget)
        title = f"{data.name}, {len(data.lengths):,} samples, budget {data.budget:,}"
        table = Table(title, COLUMNS)
        for peer in settings.peers:
            if hasattr(peer, "epoch"):
                table.rows[peer.name] = cells_of(lambda: row(peer, data), len(COLUMNS))
        table.fair = {name for name, cells in table.rows.items() if cells[2] == 0 and cells[5] == 0}
        tables.append(table)
    return Answer("padding", "Padding, bounds and batch mates", TEXT, tables)


def check(answer: Answer) -> list[str]:
    wrong = []
    for table in answer.tables:
        for name in ("libsab BucketSampler", "libsab BalancedSampler"):
            over, lost = table.rows[name][2], table.rows[name][5]
            if over != 0 or lost != 0:
                wrong.append(f"{table.title}: {name}: {over} over the budget, {lost} lost")
    return wrong
