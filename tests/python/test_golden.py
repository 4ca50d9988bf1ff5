"""The golden vectors that every binding reads: tests/golden of the repository, whose README.md
describes the format."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import sab

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
WORDS = {"cost", "balance", "tail", "oversize", "shapes", "method", "last_step"}


class Case:
    """The lines of a case."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.columns: list[Any] = []
        self.sampler: list[str] = []
        self.mixture: list[list[str]] = []
        self.plan: dict[str, Any] = {}
        self.pack: dict[str, Any] = {}
        self.balanced: dict[str, Any] = {}
        self.option: dict[str, Any] = {}
        self.epochs: list[tuple[int, list[list[str]]]] = []

    @property
    def sizes(self) -> Any:
        if self.mixture:
            return mixture_of(self.plain_sizes, self.mixture)
        return self.plain_sizes

    @property
    def plain_sizes(self) -> Any:
        if len(self.columns) == 1:
            return self.columns[0]
        return {str(j): column for j, column in enumerate(self.columns)}


def mixture_of(sizes: Any, lines: list[list[str]]) -> sab.Mixture:
    given: dict[str, Any] = {"schedule": []}
    for key, *values in lines:
        if key == "sources":
            given[key] = np.repeat(np.arange(len(values)), np.array(values, int))
        elif key == "repeats":
            given["repeat"] = dict(enumerate(map(float, values)))
        elif key == "schedule":
            given[key].append((int(values[0]), dict(enumerate(map(float, values[1:])))))
        else:
            given[key] = int(values[0])
    return sab.Mixture(sizes, **given)


def sizes_by_rule(count: int, modulus: int) -> Any:
    x, made = 1, []
    for _ in range(count):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        made.append(1 + (x >> 33) % modulus)
    return np.array(made, np.uint32)


def add_keywords(given: dict[str, Any], key: str, values: list[str], columns: int) -> None:
    """Adds an option of a constructor; a second budget makes a list."""
    made = keywords(key, values, columns)
    if key == "budget" and key in given:
        earlier = given[key]
        made[key] = [*(earlier if isinstance(earlier, list) else [earlier]), made[key]]
    given.update(made)


def keywords(key: str, values: list[str], columns: int) -> dict[str, Any]:
    """An option of a constructor."""
    if key == "boundaries":
        edges = np.array(values, float)
        return {key: edges if columns == 1 else edges.reshape(-1, columns)}
    if key in ("length_multiples", "row_multiples", "capacities"):
        name = {"capacities": "capacity"}.get(key, key[:-1])
        return {name: {str(j): int(value) for j, value in enumerate(values)}}
    if key == "budget" and len(values) > 1:
        weights = {str(j): float(weight) for j, weight in enumerate(values[1:])}
        return {key: sab.Budget(float(values[0]), cost=weights)}
    if key in ("separate_by", "id_shapes"):
        return {key: [int(value) for value in values]}
    if key == "fill":
        return {key: float(values[0])}
    if key == "buckets":
        return {key: int(values[1])}
    return {key: values[0] if key in WORDS else int(values[0])}


def cases() -> Iterator[Case]:
    case = Case("")
    for path in sorted(GOLDEN.glob("*.txt")):
        for line in path.read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            key, *values = line.split()
            if key == "case":
                case = Case(values[0])
            elif key == "sizes":
                case.columns.append(np.array(values, np.uint32))
            elif key == "sizes_rule":
                case.columns.append(sizes_by_rule(int(values[0]), int(values[1])))
            elif key == "mixture":
                case.mixture.append(values)
            elif key == "sampler":
                case.sampler = values
            elif key in ("plan", "pack", "balanced", "option"):
                add_keywords(getattr(case, key), values[0], values[1:], len(case.columns))
            elif key == "epoch":
                case.epochs.append((int(values[0]), []))
            elif key == "end":
                yield case
            else:
                case.epochs[-1][1].append([key, *values])


def made_sampler(case: Case) -> Any:
    kind, options = case.sampler[0], case.option
    if "id_shapes" in case.plan:
        ids = sorted(set(case.plan["separate_by"]))
        case.plan["max_shapes"] = dict(zip(ids, case.plan.pop("id_shapes")))
    if kind == "packed":
        return sab.PackedSampler(case.sizes, **case.pack, **options)
    if kind == "balanced":
        return sab.BalancedSampler(case.sizes, **case.balanced, **options)
    if kind == "sharded":
        return sab.ShardedSampler(
            case.sizes, gather=lambda mine: [mine] * options["world_size"], **case.plan, **options
        )
    if kind == "ordered":
        budget = float(case.sampler[1])
        return sab.OrderedSampler(None, case.sizes, budget=budget, **options)
    make = getattr(sab, kind.title().replace("_", "") + "Sampler")
    source = sab.plan(case.sizes, **case.plan) if case.plan else case.sizes
    return make(source, *map(int, case.sampler[1:]), **options)


def fnv(batches: Iterable[Any]) -> str:
    value = 14695981039346656037
    for batch in batches:
        for byte in np.array([len(batch), *batch], "<u8").tobytes():
            value = (value ^ byte) * 1099511628211 % 2**64
    return f"{value:016x}"


def words(key: str, *values: Any) -> list[str]:
    return [key, *map(str, values)]


def lines(sampler: Any, case: Case) -> Iterator[list[str]]:
    """The lines of the epoch that begins."""
    for batch in sampler.batches():
        yield words("batch", *batch.indices)
        several = len(case.columns) > 1

        def each(numbers: Any, several: bool = several) -> list[Any]:
            return list(numbers.values()) if several else [numbers]

        if several or any("multiple" in key for key in (*case.pack, *case.balanced)):
            yield words("padded_length", *map(int, each(batch.padded_length)))
        for name in ("cu_seqlens", "cu_seqlens_unpadded"):
            if getattr(batch, name) is not None:
                yield from (words(name, *ends) for ends in each(getattr(batch, name)))
        if batch.starts is not None:
            yield words("starts", *batch.starts)
        if "micro_batches" in case.option:
            micro_batches, samples, total = sampler.step()
            totals = total.values() if several else [total]
            values = batch.step, batch.micro_batch, micro_batches, samples
            yield words("step", *values, *map(int, totals))


@pytest.mark.filterwarnings("ignore::sab.SkippedWarning")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_golden_vectors(case: Case) -> None:
    if case.sampler == ["bionemo"]:
        pytest.skip("drawn by sab.compat.bionemo, whose documented outputs are tested")
    sampler = made_sampler(case)
    for epoch, expected in case.epochs:
        sampler.set_epoch(epoch)
        if expected and expected[0][0] == "digest":
            batches = list(sampler)
            assert [words("digest", len(batches), fnv(batches))] == expected
        else:
            assert list(lines(sampler, case)) == expected
