"""Samplers of a plan that are given sizes: they make the plan themselves."""

import pickle
import re
import warnings

import numpy as np
import pytest

import sab

SIZES = np.random.default_rng(7).integers(1, 90, 500)
KINDS = [sab.BucketSampler, sab.SequentialSampler]
PAIRS = {"source": SIZES, "target": SIZES[::-1].copy()}


def walk(sampler):
    return [batch.tolist() for batch in sampler]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "sizes, options",
    [
        (SIZES, {"budget": 256}),
        (SIZES.tolist(), {"batch_size": 7}),
        (sab.Sizes(SIZES), {"budget": 256, "tail": "wrap", "max_shapes": 9}),
        (PAIRS, {"budget": 512, "length_multiple": {"source": 8}}),
        (np.stack([SIZES, SIZES], axis=1), {"budget": {"0": 300, "1": 400}}),
    ],
    ids=["array", "list", "Sizes", "columns", "2-D array"],
)
def test_sizes_give_the_batches_of_their_plan(kind, sizes, options):
    plan = sab.plan(sizes, **options)
    sampler = kind(sizes, rank=1, world_size=3, **options)
    assert sampler.plan.fingerprint == plan.fingerprint
    assert walk(sampler) == walk(kind(plan, rank=1, world_size=3))


@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_that_was_given_is_the_samplers(kind):
    plan = sab.plan(SIZES, budget=256)
    assert kind(plan).plan is plan


@pytest.mark.parametrize("kind", KINDS)
def test_pickling_keeps_the_made_plan(kind):
    sizes = SIZES.copy()
    sampler = kind(sizes, budget=256, cost=lambda count, length: count * length)  # no pickle of it
    walked = walk(sampler)
    sizes[:] = 1
    other = pickle.loads(pickle.dumps(sampler))
    assert other.plan.fingerprint == sampler.plan.fingerprint
    other.set_epoch(0)
    assert walk(other) == walked


@pytest.mark.parametrize("kind", KINDS)
def test_skipped_samples_of_a_new_plan_are_warned_of_where_the_sampler_is_made(kind):
    with pytest.warns(sab.SkippedWarning, match="2 of 4 samples") as caught:
        sampler = kind([3, 50, 60, 4], 20, oversize="skip")
    assert caught[0].filename == __file__
    assert sampler.skipped_count == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(sampler.plan)  # of which the caller knows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "given, options, words",
    [
        (sab.plan(SIZES, 256), {"budget": 256}, "budget: must not be given with a plan"),
        (sab.plan(SIZES, 256), {"tail": "drop", "padding": 0.1}, "tail, padding: must not be"),
        (sab.plan(SIZES, 256), {"sed": 1}, "sed: is no option of the sampler or of a plan"),
        (SIZES, {"budget": 256, "sed": 1}, "sed: is no option of the sampler or of a plan"),
        (SIZES, {}, "a budget or a batch size must be given, such as budget=16384"),
        (SIZES, {"padding": 0.1}, "a budget or a batch size must be given"),
    ],
)
def test_what_does_not_go_together_is_refused(kind, given, options, words):
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        kind(given, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_of_a_given_function_passes_through(kind):
    def cost(count, length):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        kind(SIZES, budget=256, cost=cost)
    with pytest.raises(sab.Cancelled):
        kind(SIZES, budget=256, progress=lambda done, total: False)
