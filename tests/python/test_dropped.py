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
