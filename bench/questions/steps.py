"""How even the ranks of one step are whose samples are known only when it begins."""

import math
import time

import numpy as np

from bench.peers import Peer, Work
from bench.peers.verl_ import SQUARES, TOKENS
from bench.questions import Settings, cells_of
from bench.report import MACHINE, Answer, Cell, Column, Table

BUDGET, STEPS = 16384, 8
SHAPES = {(4096, 64): (0.9, 0.97), (1024, 8): (0.9,)}  # samples and ranks: loads
TEXT = f"""Log-normal lengths of one step, such as those of responses, go to ranks and to \
micro-batches of at most {BUDGET:,} tokens. The load is the share of the least number of \
micro-batches that tokens fill. A sample of n tokens costs 24,576 n + n², verl's estimate. Rank \
imbalance is the cost of the costliest rank over the mean; micro-step imbalance is that of the \
costliest micro-batches, summed over the micro-steps. Both are means over {STEPS} steps. Fewest: \
micro-batches of a rank over the lower bound. Time is that of the processor for a step. verl's row \
is its partition to ranks of equally many samples, then of each rank as \
`rearrange_micro_batches` does it."""
COLUMNS = [
    Column("rank imbalance", "{:.5f}", "least"),
    Column("micro-step imbalance", "{:.4f}", "least"),
    Column("micro-batches, fewest = 1", "{:.3f}", "least"),
    Column("micro-batches over the budget", "{:.2%}", "least"),
    Column(f"ms a step{MACHINE}", "{:,.2f}", "least"),
]


def row(peer: type[Peer], steps: "list[np.ndarray]", ranks: int) -> list[Cell]:
    found = []
    for lengths in steps:
        planner = peer(Work(lengths, BUDGET, world_size=ranks))
        begin = time.process_time()
        plan = planner.step()  # type: ignore[attr-defined]
        seconds = time.process_time() - begin
        samples = np.concatenate([part for rank in plan for part in rank])
        if not np.array_equal(np.sort(samples), np.arange(len(lengths))):
            raise ValueError("loses or repeats samples")
        costs = TOKENS * lengths + SQUARES * lengths.astype(float) ** 2
        parts = np.array([sorted(costs[part].sum() for part in rank) for rank in plan])
        tokens = np.array([lengths[part].sum() for rank in plan for part in rank])
        mean = parts.sum() / ranks
        found.append([
            parts.sum(1).max() / mean,
            parts.max(0).sum() / mean,
            parts.shape[1] / math.ceil(lengths.sum() / BUDGET / ranks),
            (tokens > BUDGET).mean(),
            1000 * seconds,
        ])  # fmt: skip
    return [float(number) for number in np.mean(found, 0)]


def run(settings: Settings) -> Answer:
    random = np.random.default_rng(0)
    tables = []
    for (samples, ranks), loads in SHAPES.items():
        for load in loads[: 1 if settings.quick else 2]:
            steps = []
            for number in range(2 if settings.quick else STEPS):
                drawn = random.lognormal(0, 0.8, samples)
                tokens = load * (1 + number % 4) * ranks * BUDGET
                steps.append(np.clip(drawn * tokens / drawn.sum(), 1, BUDGET).astype(np.int64))
            table = Table(f"{samples:,} samples, {ranks} ranks, load {load:g}", COLUMNS)
            for peer in settings.peers:
                if hasattr(peer, "step"):
                    table.rows[peer.name] = cells_of(lambda: row(peer, steps, ranks), len(COLUMNS))
            tables.append(table)
    return Answer("steps", "Step plans", TEXT, tables)


def check(answer: Answer) -> list[str]:
    return [
        f"{table.title}: {name}: {cells}"
        for table in answer.tables
        for name, cells in table.rows.items()
        if name.startswith("libsab") and (not isinstance(cells[3], float) or cells[3] > 0)
    ]
