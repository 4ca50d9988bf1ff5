"""Samples that are split over ranks."""

import pickle

import pytest

import sab

# The same in the tests of C and of Rust.
COMMON_LENGTHS = [1 + i * i * 7919 % 9973 for i in range(40)]
COMMON = {"world_size": 16, "budget": 1000, "cost": [0, 0, 1, 2.0**-12], "overhead": 16}
COMMON_MAKESPAN = 32181.948364257812
COMMON_SUM = 41329840


def test_parts_of_causal_attention_have_the_same_work():
    [part], *_ = plan = sab.plan_context([1024], world_size=8, budget=128)
    assert part.offsets == ((0, 64), (960, 1024))
    pairs = [
        sum(end * (end + 1) - begin * (begin + 1) for begin, end in parts[0].offsets)
        for parts in plan
    ]
    assert len(set(pairs)) == 1


def test_the_plan_is_the_same_in_all_languages():
    plan = sab.plan_context(COMMON_LENGTHS, **COMMON)
    places = [part.sample * 64 + part.part for parts in plan for part in parts]
    assert plan.makespan == COMMON_MAKESPAN
    assert sum((i + 1) * place for i, place in enumerate(places)) == COMMON_SUM


def test_a_plan_can_be_pickled():
    plan = sab.plan_context([40, 8, 8], world_size=4, budget=16)
    copy = pickle.loads(pickle.dumps(plan))
    assert list(copy) == list(plan) and repr(copy) == repr(plan)
    assert plan[-1] == plan[3]
    with pytest.raises(IndexError, match="rank = 4: there are 4 ranks"):
        plan[4]
    with pytest.raises(TypeError, match=r"made by sab\.plan_context"):
        sab.ContextPlan()


def test_cost_is_any_cost():
    lengths = [300, 20, 10, 5]
    given = {"world_size": 4, "budget": 100, "overhead": 2}
    plans = [
        sab.plan_context(lengths, cost=cost, **given)
        for cost in ([0, 0, 1, 0.5], sab.Cost.terms([(1, 1, 1), (0.5, 1, 2)]), slow_cost)
    ]
    assert all(list(plan) == list(plans[0]) for plan in plans)


def slow_cost(count, length):
    return count * (length + 0.5 * length**2)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"world_size": 0}, "world_size = 0: must be from 1 to 65536"),
        ({"budget": 0}, r"budget = 0: must be from 1 to 2\^53"),
        ({"budget": 4}, r"lengths\[0\] = 40: must be at most 16, what 4 ranks hold"),
        ({"cost": [0, 0, -1, 1]}, r"cost\[2\] = -1.0: must be finite and at least 0"),
        ({"cost": lambda count, length: -length}, r"cost\(1, 40\) = -40: must be finite and not"),
        ({"overhead": -1}, "overhead = -1: must be finite and at least 0"),
        ({"overhead": float("nan")}, "overhead = nan: must be finite and at least 0"),
        ({"groups": "two"}, "groups = 'two': must be one of 'powers_of_two', 'any_number'"),
    ],
)
def test_wrong_context_plans_are_refused(changed, words):
    with pytest.raises(ValueError, match=words):
        sab.plan_context([40, 3], **{"world_size": 4, "budget": 16, **changed})


def test_wrong_lengths_are_refused():
    with pytest.raises(ValueError, match=r"lengths\[1\] = 0.5: must be a whole number"):
        sab.plan_context([1, 0.5], world_size=1, budget=1)
    with pytest.raises(ValueError, match=r"lengths\[0\] = -1: must not be negative"):
        sab.plan_context([-1], world_size=1, budget=1)


def test_searches_can_be_cancelled():
    lengths = [37, 20, 11, 5, 3, 2, 2, 1, 40, 9]
    with pytest.raises(sab.Cancelled):
        sab.plan_context(
            lengths, world_size=4, budget=16, overhead=0.7, progress=lambda done, total: False
        )
