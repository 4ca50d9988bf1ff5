"""What a step takes whose samples share their first tokens: prompts with several responses."""

import functools
import heapq
import time
from collections.abc import Iterator

import numpy as np

import sab
from bench.questions import Settings, cells_of
from bench.report import MACHINE, Answer, Cell, Column, Table

BUDGET, MEAN, STEPS = 16384, 1000, 3
SHAPES = [(512, 8, 8), (512, 8, 64), (64, 64, 8), (64, 64, 64)]  # prompts, responses, ranks
PREFIXES = (0.2, 1, 4)  # to the mean response
TEXT = f"""Log-normal responses of {MEAN:,} tokens on average go to ranks and to micro-batches of \
at most {BUDGET:,} tokens. A micro-batch computes a prompt once for all of its responses to it. \
Tokens are those that are computed, over the least with which no micro-batch exceeds the budget. \
The costliest rank is compared with the mean of that least. Micro-batches are those of a rank, \
over the lower bound. Numbers are means over {STEPS} steps. Without sharing, each sample is \
computed as a whole. *Longest first* gives whole groups to the rank with the fewest tokens, and \
packs them into its micro-batches by first fit. Groups that exceed the budget are cut. \
*In sequence* takes the samples in their order, cuts at the budget and deals out \
the micro-batches. With prompts of 4 mean responses, 8 responses each, almost all groups exceed \
half of a micro-batch: each needs one, or is cut and computes its prompt again. With 1 % more \
tokens than the least, 16 of 512 prompts can be computed again, so that 8 ranks need at least 59 \
micro-batches each."""
COLUMNS = [
    Column("tokens, least = 1", "{:.4f}", "least"),
    Column("costliest rank, least mean = 1", "{:.4f}", "least"),
    Column("micro-batches, fewest = 1", "{:.3f}", "least"),
    Column(f"ms a step{MACHINE}", "{:,.2f}", "least"),
]


class Step:
    def __init__(self, prompts: int, responses: int, ranks: int, prefix: float, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.ranks, self.groups = ranks, np.arange(prompts).repeat(responses)
        self.prefix = np.full(prompts * responses, int(prefix * MEAN))
        drawn = random.lognormal(np.log(MEAN) - 0.32, 0.8, prompts * responses)
        self.own = np.clip(drawn, 1, BUDGET - self.prefix).astype(np.int64)

    @property
    def least(self) -> float:
        own = np.bincount(self.groups, self.own)
        prefix = self.prefix[np.unique(self.groups, return_index=True)[1]]
        return float((own + prefix * np.ceil(own / (BUDGET - prefix))).sum())

    def cut(self, samples: np.ndarray) -> "Iterator[np.ndarray]":
        """Samples in sequence, cut at the budget."""
        first, sum_, known = 0, 0, set[int]()
        for at, i in enumerate(samples):
            more = self.own[i] + (0 if self.groups[i] in known else self.prefix[i])
            if sum_ + more > BUDGET:
                yield samples[first:at]
                first, sum_, known = at, 0, set()
                more = self.own[i] + self.prefix[i]
            known.add(self.groups[i])
            sum_ += more
        yield samples[first:]

    def tokens(self, samples: np.ndarray) -> int:
        firsts = np.unique(self.groups[samples], return_index=True)[1]
        return int(self.own[samples].sum() + self.prefix[samples][firsts].sum())


def planned(step: Step) -> "list[list[np.ndarray]]":
    plan = sab.plan_step(
        step.own + step.prefix,
        world_size=step.ranks,
        budget=BUDGET,
        groups=step.groups,
        prefix=step.prefix,
    )
    return [plan.rank(rank) for rank in range(step.ranks)]


def longest_first(step: Step) -> "list[list[np.ndarray]]":
    groups = np.split(np.arange(len(step.groups)), np.flatnonzero(np.diff(step.groups)) + 1)
    ranks: list[list[list[np.ndarray]]] = [[] for _ in range(step.ranks)]
    heap = [(0, rank) for rank in range(step.ranks)]
    for group in sorted(groups, key=step.tokens, reverse=True):
        sum_, rank = heapq.heappop(heap)
        for part in step.cut(group):
            sum_ += step.tokens(part)
            for held in ranks[rank]:
                if sum(map(step.tokens, held)) + step.tokens(part) <= BUDGET:
                    held.append(part)
                    break
            else:
                ranks[rank].append([part])
        heapq.heappush(heap, (sum_, rank))
    return [[np.concatenate(held) for held in own] for own in ranks]


def in_sequence(step: Step) -> "list[list[np.ndarray]]":
    parts = list(step.cut(np.arange(len(step.groups))))
    return [parts[rank :: step.ranks] for rank in range(step.ranks)]


def without_sharing(step: Step) -> "list[list[np.ndarray]]":
    plan = sab.plan_step(step.own + step.prefix, world_size=step.ranks, budget=BUDGET)
    return [plan.rank(rank) for rank in range(step.ranks)]


WAYS = {
    "libsab plan_step, prefix": planned,
    "without sharing": without_sharing,
    "longest first": longest_first,
    "in sequence": in_sequence,
}


def row(name: str, steps: "list[Step]") -> list[Cell]:
    found = []
    for step in steps:
        begin = time.process_time()
        ranks = WAYS[name](step)
        seconds = time.process_time() - begin
        samples = np.concatenate([part for own in ranks for part in own])
        if not np.array_equal(np.sort(samples), np.arange(len(step.groups))):
            raise ValueError("loses or repeats samples")
        whole = name == "without sharing"
        count = (lambda part, s=step: int((s.own + s.prefix)[part].sum())) if whole else step.tokens
        sums = np.array([sum(map(count, own)) for own in ranks])
        if max(count(part) for own in ranks for part in own) > BUDGET:
            raise ValueError("exceeds the budget")
        found.append([
            sums.sum() / step.least,
            sums.max() * step.ranks / step.least,
            max(map(len, ranks)) / np.ceil(step.least / BUDGET / step.ranks),
            1000 * seconds,
        ])  # fmt: skip
    return [float(number) for number in np.mean(found, 0)]


def run(settings: Settings) -> Answer:
    tables = []
    for prompts, responses, ranks in SHAPES[:: 3 if settings.quick else 1]:
        for prefix in PREFIXES[:: 2 if settings.quick else 1]:
            title = f"{prompts} prompts of {prefix} mean responses, {responses} each, {ranks} ranks"
            steps = [
                Step(prompts, responses, ranks, prefix, seed)
                for seed in range(1 if settings.quick else STEPS)
            ]
            table = Table(title, COLUMNS)
            for name in WAYS:
                table.rows[name] = cells_of(functools.partial(row, name, steps), len(COLUMNS))
            tables.append(table)
    return Answer("prefixes", "Shared prefixes", TEXT, tables)


def check(answer: Answer) -> list[str]:
    """The costliest rank is never costlier than that of another way."""
    wrong = []
    for table in answer.tables:
        costs = {name: cells[1] for name, cells in table.rows.items()}
        ours = costs.pop(next(iter(WAYS)))
        numbers = [cost for cost in costs.values() if isinstance(cost, float)]
        if not isinstance(ours, float) or ours > min(numbers) * 1.0001:
            wrong.append(f"{table.title}: {ours}")
    return wrong
