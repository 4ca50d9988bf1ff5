"""Weights of batches: their mean over all ranks' batches of an epoch is 1."""

import numpy as np
import pytest

import sab

RANDOM = np.random.default_rng(11)
SIZES = np.minimum(RANDOM.lognormal(3, 0.8, 700).astype(int) + 1, 400)
BOTH = {"source": SIZES, "target": SIZES[::-1] / 2 + 1}


def bucket(**options):
    return sab.BucketSampler(SIZES, budget=900, **options)


def fewest(**options):
    return sab.BucketSampler(SIZES, budget=900, min_batch_size=2, **options)


def boxes(**options):
    return sab.BucketSampler(sab.plan(BOTH, budget=2000), **options)


def sequential(**options):
    options.pop("seed")
    return sab.SequentialSampler(sab.plan(SIZES, budget=900), **options)


def packed(**options):
    return sab.PackedSampler(SIZES, capacity=400, **options)


def best_fit(**options):
    return sab.PackedSampler(SIZES, capacity=400, method="best_fit", **options)


def concatenated(**options):
    return sab.PackedSampler(SIZES, capacity=400, method="concat", **options)


def rows(**options):
    return sab.PackedSampler(
        {"a": SIZES, "b": SIZES[::-1]}, capacity={"a": 400, "b": 500}, **options
    )


def balanced(**options):
    return sab.BalancedSampler(SIZES, budget=900, **options)


def mixture():
    return sab.Mixture({"a": SIZES, "b": SIZES[:100]}, repeat={"b": 2.5})


def mixed(**options):
    return sab.BucketSampler(sab.plan(mixture(), budget=900), **options)


def mixed_rows(**options):
    return sab.PackedSampler(mixture(), capacity=400, **options)


def mixed_balanced(**options):
    return sab.BalancedSampler(mixture(), budget=900, **options)


KINDS = [bucket, fewest, boxes, sequential, packed, best_fit, concatenated, rows, balanced, mixed]
KINDS += [mixed_rows, mixed_balanced]
LOWERABLE = [bucket, fewest, boxes, sequential, mixed]


def numbers(value):
    return np.array(list(value.values()) if isinstance(value, dict) else [value])


def check(batches):
    """The mean is 1, and weights are proportional to what the batches hold."""
    for weight, amount in (("sample_weight", "count"), ("token_weight", "total")):
        weights = np.array([numbers(getattr(batch, weight)) for batch in batches])
        amounts = np.array([numbers(getattr(batch, amount)) for batch in batches])
        np.testing.assert_allclose(weights.mean(axis=0), 1, rtol=1e-9)
        np.testing.assert_allclose(weights, amounts / amounts.mean(axis=0), rtol=1e-9)


def job(make, world_size, **options):
    return [make(rank=r, world_size=world_size, seed=4, **options) for r in range(world_size)]


def batches_of(samplers):
    return [batch for sampler in samplers for batch in sampler.batches()]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("last_step", ["split", "drop", "wrap"])
@pytest.mark.parametrize(("world_size", "micro_batches"), [(1, 1), (3, 1), (2, 4), (5, 3)])
def test_the_mean_of_an_epoch_is_one(make, last_step, world_size, micro_batches):
    samplers = job(make, world_size, micro_batches=micro_batches, last_step=last_step)
    for _ in range(2):
        check(batches_of(samplers))


@pytest.mark.parametrize("make", KINDS)
def test_other_ranks_weigh_by_the_mean_of_the_rest(make):
    for last_step in ("split", "drop", "wrap"):
        for steps in (1, 3, 5):
            (old,) = job(make, 1, last_step=last_step)
            batches = old.batches()
            taken = [next(batches) for _ in range(len(old) * steps // 6)]
            samplers = job(make, 3, micro_batches=2, last_step=last_step)
            for sampler in samplers:
                sampler.load_state_dict(old.state_dict())
            rest = batches_of(samplers)
            assert rest or last_step == "drop"
            if rest:
                check(rest)
            (same,) = job(make, 1, last_step=last_step)
            same.load_state_dict(old.state_dict())
            check(taken + list(same.batches()))


@pytest.mark.parametrize("make", LOWERABLE)
def test_lowered_budgets_weigh_by_the_mean_of_the_rest(make):
    samplers = job(make, 2)
    walks = [sampler.batches() for sampler in samplers]
    for limit in (700, 500, 600):
        for walk, sampler in zip(walks, samplers):
            for _ in range(3):
                next(walk)
            sampler.set_budget(limit)
    check([batch for walk in walks for batch in walk])
    check(batches_of(samplers))  # the next epoch


def test_empty_batches_count_and_weigh_nothing():
    samplers = [sab.BucketSampler([5, 7], budget=20, rank=r, world_size=4) for r in range(4)]
    batches = batches_of(samplers)
    assert sorted(batch.sample_weight for batch in batches) == [0, 0, 2, 2]
    assert sorted(batch.token_weight for batch in batches) == pytest.approx(
        [0, 0, 20 / 12, 28 / 12]
    )


def test_one_column_has_a_number_and_several_a_dictionary():
    (batch, *_) = bucket().batches()
    assert type(batch.sample_weight) is float
    assert type(batch.token_weight) is float
    (batch, *_) = boxes().batches()
    assert type(batch.sample_weight) is float
    assert list(batch.token_weight) == ["source", "target"]
    block = next(boxes().blocks(3))
    assert block.sample_weight.shape == block.token_weight["target"].shape == (3,)
    assert block.sample_weight[0] == batch.sample_weight


def test_a_loss_by_weights_is_that_of_the_epoch():
    """The mean over ranks and micro-batches of weighted means is that of all samples."""
    losses = RANDOM.random(len(SIZES))
    for make in (bucket, packed, balanced):
        batches = batches_of(job(make, 3, micro_batches=2))
        means = [losses[b.indices].mean() * b.sample_weight if b.count else 0 for b in batches]
        assert np.mean(means) == pytest.approx(losses.mean())
        means = [
            np.average(losses[b.indices], weights=SIZES[b.indices]) * b.token_weight
            if b.count
            else 0
            for b in batches
        ]
        assert np.mean(means) == pytest.approx(np.average(losses, weights=SIZES))
