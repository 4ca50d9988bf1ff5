"""States that are loaded by samplers with another budget, as after an out-of-memory error."""

import itertools
import pickle
import re

import numpy as np
import pytest

import sab

SIZES = np.random.default_rng(1).integers(1, 60, 400)
KINDS = [sab.BucketSampler, sab.SequentialSampler]


def padded(batch):
    return len(batch) * SIZES[batch].max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("taken", [0, 1, 5, -1])
def test_the_rest_of_the_epoch_keeps_the_lowered_budget(kind, ranks, taken):
    larger = [kind(SIZES, 250, rank=rank, world_size=2) for rank in range(2)]
    taken %= len(larger[0]) + 1
    seen = [batch for sampler in larger for batch in itertools.islice(sampler, taken)]
    states = [sampler.state_dict(taken) for sampler in larger]
    assert states[0] == states[1]
    smaller = [kind(SIZES, 125, rank=rank, world_size=ranks) for rank in range(ranks)]
    for sampler in smaller:
        sampler.load_state_dict(states[0])
    assert len({len(sampler) for sampler in smaller}) == 1
    rest = [batch for sampler in smaller for batch in sampler]
    assert all(padded(batch) <= 125 for batch in rest)
    assert sorted(np.concatenate(seen + rest)) == list(range(400))
    following = np.concatenate([batch for sampler in smaller for batch in sampler])
    assert sorted(following) == list(range(400))  # the next epoch
    assert all(sampler.epoch == 1 and sampler.budget == 125 for sampler in smaller)


@pytest.mark.parametrize("kind", KINDS)
def test_a_budget_that_is_lowered_again_and_again(kind):
    seen, state = [], None
    for budget in (250, 200, 200, 90):
        sampler = kind(SIZES, budget)
        if state is not None:
            sampler.load_state_dict(state)
        sampler = pickle.loads(pickle.dumps(sampler))
        passing = iter(sampler)
        taken = list(itertools.islice(passing, 7))
        assert all(padded(batch) <= budget for batch in taken)
        seen += taken
        state = sampler.state_dict()
        assert state["budgets"] == [250]  # of the plan whose buckets these are
    seen += passing
    assert sorted(np.concatenate(seen)) == list(range(400))


def test_several_budgets_and_costs():
    def budgets(padded, quadratic):
        return [padded, sab.Budget(quadratic, cost="quadratic")]

    larger = sab.BucketSampler(SIZES, budgets(250, 9000), length_multiple=2, seed=3)
    seen = list(itertools.islice(larger, 9))
    smaller = sab.BucketSampler(SIZES, budgets(250, 4000), length_multiple=2, seed=3)
    smaller.load_state_dict(larger.state_dict())
    assert [smaller.get_budget(i) for i in range(2)] == [250, 4000]
    rest = list(smaller)
    assert all(len(batch) * SIZES[batch].max() ** 2 <= 4000 for batch in rest)
    assert sorted(np.concatenate(seen + rest)) == list(range(400))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_lowered_budget_is_refused_and_changes_nothing(kind):
    state = kind(SIZES, 250).state_dict(3)
    others = [
        kind(SIZES, 300),  # a larger one
        kind(SIZES[::-1], 125),
        kind(SIZES, 125, length_multiple=8),
        kind(SIZES, [125, sab.Budget(10**6)]),
        kind(sab.plan(SIZES, 125)),  # made already
    ]
    for sampler in others:
        before, plan = sampler.state_dict(), sampler.plan
        with pytest.raises(sab.MismatchError, match=re.escape("restore it, and call set_budget")):
            sampler.load_state_dict(state)
        assert sampler.state_dict() == before
        assert sampler.plan is plan
    damaged = {**state, "budgets": ["250"]}
    with pytest.raises(sab.MismatchError, match="another plan"):
        kind(SIZES, 125).load_state_dict(damaged)


def test_samplers_whose_budget_holds_until_the_epoch_ends_say_what_to_do():
    packed = sab.PackedSampler(SIZES, 250)
    state = packed.state_dict(len(packed))
    with pytest.raises(sab.MismatchError, match="begin the next epoch with set_epoch") as refused:
        sab.PackedSampler(SIZES, 125).load_state_dict(state)
    assert "sab_" not in str(refused.value)
    with pytest.raises(sab.UnsupportedError, match=r"^set_budget: .* make a sampler with the new"):
        packed.set_budget(125)
    balanced = sab.BalancedSampler(SIZES, budget=250)
    with pytest.raises(sab.UnsupportedError, match=r"^set_budget: .* restore its state into"):
        balanced.set_budget(125)
    smaller = sab.BalancedSampler(SIZES, budget=125)
    seen = list(itertools.islice(balanced, 3))
    smaller.load_state_dict(balanced.state_dict())
    assert sorted(np.concatenate(seen + list(smaller))) == list(range(400))
