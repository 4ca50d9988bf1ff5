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
WORDS = {"cost", "balance", "tail", "oversize", "method", "last_step"}


class Case:
    """The lines of a case."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sizes: Any = None
        self.sampler: list[str] = []
        self.plan: dict[str, Any] = {}
        self.pack: dict[str, Any] = {}
        self.balanced: dict[str, Any] = {}
        self.option: dict[str, Any] = {}
        self.epochs: list[tuple[int, list[list[str]]]] = []


def sizes_by_rule(count: int, modulus: int) -> Any:
    x, made = 1, []
    for _ in range(count):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        made.append(1 + (x >> 33) % modulus)
    return np.array(made, np.uint32)


def keywords(key: str, values: list[str]) -> dict[str, Any]:
    """An option of a constructor."""
    if key == "boundaries":
        return {key: [float(value) for value in values]}
    if key == "buckets" and values[0] == "equal":
        return {key: "equal", "bucket_batches": int(values[1])}
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
                case.sizes = np.array(values, np.uint32)
            elif key == "sizes_rule":
                case.sizes = sizes_by_rule(int(values[0]), int(values[1]))
            elif key == "sampler":
                case.sampler = values
            elif key in ("plan", "pack", "balanced", "option"):
                getattr(case, key).update(keywords(values[0], values[1:]))
            elif key == "epoch":
                case.epochs.append((int(values[0]), []))
            elif key == "end":
                yield case
            else:
                case.epochs[-1][1].append([key, *values])


def made_sampler(case: Case) -> Any:
    kind, options = case.sampler[0], case.option
    if kind == "packed":
        return sab.PackedSampler(case.sizes, **case.pack, **options)
    if kind == "balanced":
        return sab.BalancedSampler(case.sizes, **case.balanced, **options)
    if kind == "sharded":
        return sab.ShardedSampler(
            case.sizes, gather=lambda mine: [mine] * options["world_size"], **case.plan, **options
        )
    if kind == "bionemo_size_aware":
        budget = float(case.sampler[1])
        return sab.BionemoSizeAwareSampler(None, case.sizes, budget=budget, **options)
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
        if batch.cu_seqlens is not None:
            yield words("cu_seqlens", *batch.cu_seqlens)
        if batch.starts is not None:
            yield words("starts", *batch.starts)
        if "micro_batches" in case.option:
            micro_batches, samples, total = sampler.step()
            values = batch.step, batch.micro_batch, micro_batches, samples, int(total)
            yield words("step", *values)


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
