"""Epochs of which nothing is left."""

import numpy as np
import pytest

import sab

SEVENS = np.full(100, 7)
LEFT = "must leave a batch; no bucket fills one, the fullest has 100 of the 101 samples of a batch"


@pytest.mark.parametrize(
    ("options", "given"),
    [({"drop_last": True}, "drop_last = True, tail = 'drop'"), ({"tail": "drop"}, "tail = 'drop'")],
)
@pytest.mark.parametrize("make", [sab.plan, sab.BucketSampler, sab.SequentialSampler])
def test_a_plan_that_drops_all_samples_is_refused(make, options, given):
    with pytest.raises(ValueError) as caught:
        make(SEVENS, batch_size=101, **options)
    assert str(caught.value) == f"{given}: {LEFT}"
    assert len(list(sab.BucketSampler(SEVENS, batch_size=100, **options))) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda **ranks: sab.BucketSampler([7, 7, 7], budget=8, **ranks),
        lambda **ranks: sab.SequentialSampler([7, 7, 7], budget=8, **ranks),
        lambda **ranks: sab.PackedSampler([7, 7, 7], capacity=8, **ranks),
        lambda **ranks: sab.PackedSampler([7, 7, 7], capacity=8, method="concat", **ranks),
        lambda **ranks: sab.BalancedSampler([7, 7, 7], budget=8, **ranks),
        lambda **ranks: sab.OrderedSampler(None, [7, 7, 7], budget=8, **ranks),
        lambda **ranks: sab.PackedSampler(
            {"a": [7, 7, 7], "b": [1, 1, 1]}, capacity={"a": 8, "b": 8}, **ranks
        ),
    ],
)
def test_ranks_that_drop_all_batches_are_refused(make):
    for ranks in ({"world_size": 7}, {"world_size": 2, "micro_batches": 2}):
        with pytest.raises(ValueError, match=r"^last_step = 'drop': must leave a step; epoch 0"):
            make(last_step="drop", **ranks)
        assert len(make(**ranks)) > 0
    assert len(make(last_step="drop", world_size=2)) > 0


def test_an_epoch_of_a_mixture_that_drops_all_samples_is_refused_when_it_begins():
    sizes = {"a": [7] * 9, "b": [7] * 2}
    mixture = sab.Mixture(sizes, schedule=[(1, {"a": 0, "b": 1})])
    sampler = sab.BucketSampler(mixture, batch_size=4, drop_last=True)
    assert len(list(sampler)) == 2
    with pytest.raises(ValueError, match="tail = 'drop': must leave a batch"):
        sampler.set_epoch(1)
    assert sampler.epoch == 0


def test_no_batch_is_smaller_than_the_least():
    with pytest.warns(sab.SkippedWarning, match="1 of 4 samples are .*, or too few for min_batch"):
        plan = sab.plan([5, 7, 3, 100], budget=100, min_batch_size=2)
    assert plan.skipped.tolist() == [3]
    sizes = [9] * 61
    batches = list(sab.BucketSampler(sizes, budget=36, min_batch_size=2))
    assert sorted(map(len, batches))[:2] == [2, 3] and len(batches) == 16
    ranks = [sab.BucketSampler(sizes, 36, min_batch_size=2, rank=r, world_size=3) for r in range(3)]
    assert min(len(batch) for rank in ranks for batch in rank) >= 2
    with pytest.raises(ValueError, match="min_batch_size = 2: does not go with"):
        sab.plan(sizes, budget=36, min_batch_size=2, oversize="single")


def test_min_batch_size_holds_under_a_lowered_budget_and_in_mixtures():
    sampler = sab.BucketSampler([10] * 41, budget=100, min_batch_size=8)
    assert sampler.plan.batch_count == 5 and sampler.skipped_count == 0
    sampler.set_budget(80)
    batches = list(sampler)
    assert {len(batch) for batch in batches} == {8} and len(batches) == 5
    seen = np.concatenate([*batches, sampler.skipped])
    assert sorted(seen) == list(range(41))
    with pytest.raises(ValueError, match="must pay for 8 samples, the plan's min_batch_size"):
        sampler.set_budget(79)
    mixture = sab.Mixture({"a": [3] * 30, "b": [4, 5, 6]}, repeat={"b": 3})
    for rank in range(2):
        own = sab.BucketSampler(mixture, budget=40, min_batch_size=3, rank=rank, world_size=2)
        assert min(map(len, own)) >= 3


def test_samples_of_size_0_cost_nothing_but_count():
    sizes = [0] * 50 + [100]
    assert sab.plan(sizes, budget=100).batch_count == 2
    assert sab.plan(sizes, budget=100, max_batch_size=10).batch_count == 6
    assert sab.plan([0, 0, 0], budget=1).report().lower_bound == 1
