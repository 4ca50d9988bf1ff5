"""Samples with two sizes: padded pairs, graphs under two caps, ranks that share two costs."""

import math
import time
from collections.abc import Iterable
from typing import Any, Callable

import numpy as np

import sab
from bench import count, data
from bench.peers import Peer, Work
from bench.questions import Settings, cells_of
from bench.report import MACHINE, Answer, Cell, Column, Table

TEXT = """Pairs: messages of programs and their translations. A batch costs its samples times the \
sum of its longest source and its longest target, in characters. The lower bound is the total of \
all sizes over the budget, 16,384. Ready is the time until the sampler is made. Both times are of \
the processor. Graphs: molecules, with a node for each atom and two edges for each bond. No batch \
may exceed 512 nodes or 1,104 edges. Fill is the share of these caps that holds graphs. A graph is \
lost when no batch has it. Ranks: images and tokens of drawn image-text samples, 128 a rank and \
step. The table has the costliest rank of a step over the mean rank, as the mean of the steps and \
of the worst step. Random: the same shuffled samples, equally many a rank. The rows of NeMo, jraph \
and fairseq follow their documented algorithms here; PyG's is the package."""
PAIRS = [
    Column("batches, lower bound = 1", "{:.4f}", "least"),
    Column("batches over the budget", "{:.2%}", "least"),
    Column("pairs that meet again", "{:.2%}", "least"),
    Column("samples lost or repeated", "{:,}", "least"),
    Column(f"ready after, seconds{MACHINE}", "{:,.2f}", "least"),
    Column(f"million samples a second{MACHINE}", "{:.3g}", "most"),
]
GRAPHS = [
    Column("fill of nodes", "{:.2%}", "most"),
    Column("fill of edges", "{:.2%}", "most"),
    Column("batches, lower bound = 1", "{:.4f}", "least"),
    Column("batches over a cap", "{:.2%}", "least"),
    Column("pairs that meet again", "{:.2%}", "least"),
    Column("graphs lost", "{:,}", "least"),
]
RANKS = [
    Column("images, mean", "{:.4f}", "least"),
    Column("images, worst", "{:.4f}", "least"),
    Column("tokens, mean", "{:.4f}", "least"),
    Column("tokens, worst", "{:.4f}", "least"),
]
BUDGET, CAPS = 16384, (512, 1104)


def seconds_of(epoch: Callable[[int], Iterable[Any]], number: int) -> float:
    """What an epoch takes whose batches are used and let go."""
    begin = time.process_time()
    for _ in epoch(number):
        pass
    return time.process_time() - begin


def pairs_row(peer: type[Peer], sizes: count.Ints) -> list[Cell]:
    ready = spent = math.inf
    for number in range(5):
        begin = time.process_time()
        sampler: Any = peer(Work(sizes, BUDGET))
        ready = min(ready, time.process_time() - begin)
        spent = min(spent, seconds_of(sampler.pairs, number))
    first, second = (count.gather(sampler.pairs(number)) for number in (0, 1))
    costs = first.counts * sum(first.longest(column) for column in sizes.T)
    return [
        len(costs) / math.ceil(sizes.sum() / BUDGET),
        float((costs > BUDGET).mean()),
        count.meet_again(first, second, len(sizes)),
        sum(count.lost_and_repeated(count.deliveries([first], len(sizes)))),
        ready,
        len(sizes) / spent / 1e6,
    ]


def graphs_row(peer: type[Peer], sizes: count.Ints) -> list[Cell]:
    sampler: Any = peer(Work(sizes, CAPS[0], capacity=CAPS))
    first, second = (count.gather(sampler.graphs(number)) for number in (0, 1))
    sums = np.stack([first.sums(column) for column in sizes.T], axis=1)
    fill = sums.sum(0) / len(sums) / CAPS
    bound = max(math.ceil(total / cap) for total, cap in zip(sizes.sum(0), CAPS))
    lost, _ = count.lost_and_repeated(count.deliveries([first], len(sizes)))
    return [
        *fill.tolist(),
        len(sums) / bound,
        float((sums > CAPS).any(1).mean()),
        count.meet_again(first, second, len(sizes)),
        lost,
    ]


def ranks_table(ranks: int, steps: int) -> Table:
    images, tokens = data.image_text(128 * ranks * steps)
    sizes = {"images": images, "tokens": tokens}
    table = Table(f"image-text, {ranks} ranks", RANKS)
    samplers = [
        sab.BalancedSampler(
            sizes,
            samples=128 * ranks,
            balance=[{"images": 1}, {"tokens": 1}],
            world_size=ranks,
            rank=rank,
        )
        for rank in range(ranks)
    ]
    batches = [[sampler.batch(step).indices for sampler in samplers] for step in range(steps)]
    order = np.random.default_rng(0).permutation(len(images)).reshape(steps, ranks, -1)
    for name, chosen in (("libsab BalancedSampler", batches), ("random", order)):
        cells: list[Cell] = []
        for column in (images, tokens):
            costs = np.array([[column[rank].sum() for rank in step] for step in chosen])
            over = costs.max(1) / costs.mean(1)
            cells += [float(over.mean()), float(over.max())]
        table.rows[name] = cells
    return table


def run(settings: Settings) -> Answer:
    tables = []
    few = 20_000 if settings.quick else None
    for name, drawn, columns, method, row in (
        ("pairs", data.two_sizes(settings.quick), PAIRS, "pairs", pairs_row),
        ("graphs", data.graphs(settings.quick), GRAPHS, "graphs", graphs_row),
    ):
        if drawn is None:
            continue
        sizes = drawn[:few]
        table = Table(f"{name}, {len(sizes):,} samples", columns)
        for peer in settings.peers:
            if hasattr(peer, method):
                table.rows[peer.name] = cells_of(lambda: row(peer, sizes), len(columns))
        over, lost = (1, 3) if columns == PAIRS else (3, 5)
        table.fair = {
            name for name, cells in table.rows.items() if cells[over] == 0 and cells[lost] == 0
        }
        tables.append(table)
    tables += [ranks_table(ranks, 4) for ranks in ((8,) if settings.quick else (8, 64))]
    return Answer("columns", "Samples with several sizes", TEXT, tables)


def check(answer: Answer) -> list[str]:
    """No batch of libsab is over a limit, none of its samples is lost, and both costs are even."""
    wrong = []
    for table in answer.tables:
        for name, cells in table.rows.items():
            if not name.startswith("libsab"):
                continue
            if table.columns == RANKS:
                is_right = max(float(str(cell)) for cell in cells) <= 1.01
            elif table.columns == PAIRS:
                is_right = cells[1] == 0 and cells[3] == 0
            else:
                is_right = cells[3] == 0 and cells[5] == 0
            if not is_right:
                wrong.append(f"{table.title}: {name}: {cells}")
    return wrong
