"""BalancedSampler(padded=True): steps that are random samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sab


def lengths(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(3, 0.7, count).astype(np.int64) + 1


def test_batches_are_padded_and_steps_are_random_samples() -> None:
    sizes = lengths(4000)
    samplers = [
        sab.BalancedSampler(
            sizes, samples=256, micro_batches=4, world_size=2, rank=rank, seed=1, padded=True
        )
        for rank in range(2)
    ]
    seen = np.zeros(len(sizes), int)
    counts = np.zeros(16, int)
    padded = 0.0
    for sampler in samplers:
        for batch in sampler.batches():
            assert batch.layout == "padded"
            assert batch.padded_length == sizes[batch.indices].max()
            np.add.at(seen, batch.indices, 1)
            counts[batch.step] += batch.count
            padded += batch.padded_total
    assert (seen == 1).all()
    assert counts.tolist() == [256] * 15 + [4000 - 15 * 256]
    report = samplers[0].report()
    assert (report.total, report.padded_total) == (sizes.sum(), padded)
    assert report.padding == pytest.approx(1 - sizes.sum() / padded)
    assert 0 < report.padding < 0.25
    assert "padding" in str(report)


def test_budget_and_costs_are_of_padded_batches() -> None:
    sizes = lengths(3000)
    model = sab.Cost.transformer(hidden=64, layers=2)
    samples = sab.Budget(30, cost=sab.Cost.terms([(1.0, 1, 0)]))
    sampler = sab.BalancedSampler(
        sizes, budget=[2000, samples], balance=model, micro_batches=8, padded=True
    )
    for batch in sampler.batches():
        assert batch.padded_total <= 2000
        assert 0 < batch.count <= 30
    assert sampler.report().rank_imbalance == 1


def test_len_is_the_same_in_every_epoch() -> None:
    for padded in (False, True):
        sampler = sab.BalancedSampler(lengths(900), budget=400, micro_batches=4, padded=padded)
        length = len(sampler)
        assert sum(1 for _ in sampler) == length
        for epoch in range(1, 20):
            sampler.set_epoch(epoch)
            assert len(sampler) == length


def test_a_state_goes_on_with_other_ranks() -> None:
    sizes = lengths(1000)
    options: dict[str, Any] = {"budget": 800, "padded": True, "micro_batches": 2}
    begun = sab.BalancedSampler(sizes, **options)
    seen = [index for _, batch in zip(range(6), begun) for index in batch]
    state = begun.state_dict()
    for rank in range(3):
        rest = sab.BalancedSampler(sizes, rank=rank, world_size=3, **options)
        rest.load_state_dict(state)
        seen += [index for batch in rest for index in batch]
    assert sorted(seen) == list(range(1000))


def test_columns_and_mixtures() -> None:
    random = np.random.default_rng(2)
    sizes = {"images": random.integers(0, 4, 600), "tokens": lengths(600)}
    sampler = sab.BalancedSampler(
        sizes, budget={"images": 12, "tokens": 900}, micro_batches=4, padded=True
    )
    for batch in sampler.batches():
        assert batch.count * batch.padded_length["images"] <= 12
        assert batch.count * batch.padded_length["tokens"] <= 900
    assert sampler.report().padded_total["tokens"] >= sampler.report().total["tokens"]
    mixture = sab.Mixture({"a": lengths(300, 1), "b": lengths(500, 2)}, repeat={"a": 2, "b": 0.5})
    mixed = sab.BalancedSampler(mixture, budget=800, micro_batches=8, padded=True)
    steps = len(mixed)
    mixed.set_epoch(3)
    assert len(mixed) == steps
    report = mixed.report()
    assert report.samples == 850
    assert all(source.deviation < 0.3 for source in report.sources.values())


def test_wrong_arguments_are_refused() -> None:
    sizes = lengths(1000)
    with pytest.raises(ValueError, match=r"samples = 500: step 0 of epoch \d needs \d+ micro-"):
        sab.BalancedSampler(sizes, samples=500, budget=600, micro_batches=4, padded=True)
    with pytest.raises(ValueError, match=r"fill = 0.5: must be 0 with padded"):
        sab.BalancedSampler(sizes, samples=64, fill=0.5, padded=True)
    by_function: dict[str, Any] = {"budget": 600, "cost": lambda count, length: count * length}
    with pytest.raises(ValueError, match="is a callback: padded micro-batches"):
        sab.BalancedSampler(sizes, **by_function, padded=True)
    with pytest.raises(TypeError, match="padded"):
        sab.BalancedSampler(sizes, budget=600, padded="yes")  # type: ignore[arg-type]
