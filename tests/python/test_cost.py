"""Costs and budgets: what they take, what a plan keeps, and how errors name them."""

import pickle
import threading
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sab

# The library without its types, to give it what a type checker would refuse.
untyped: Any = sab
SIZES = np.minimum(np.random.default_rng(5).lognormal(4, 0.8, 2000).astype(np.int64) + 1, 400)


def squares(count, length):
    return count * length**2


def model():
    rows = [(count, length) for count in (1, 2, 4, 8) for length in (10, 50, 100, 200)]
    return sab.MemoryModel.fit(rows, [1000 + 5 * count * length for count, length in rows])


@pytest.mark.parametrize(
    "cost, expected",
    [
        (sab.Cost.padded(), 30),
        (sab.Cost.padded([0.5]), 15),
        (sab.Cost.terms([(2, 0, 0), (1.5, 1, 2)]), 452),
        (sab.Cost.terms([(1, 2, [1])]), 90),
        (sab.Cost(squares), 300),
        (sab.Cost(lambda count, length: count + length), 13),
    ],
)
def test_a_cost_can_be_called(cost, expected):
    assert cost(3, 10) == expected


@pytest.mark.parametrize(
    "cost, expected",
    [
        (sab.Cost.padded([1, 2.5]), 3 * (10 + 2.5 * 20)),
        (sab.Cost.terms([(1, 1, [1, 1])]), 3 * 10 * 20),
        (sab.Cost(lambda count, lengths, totals: sum(lengths) + totals[1]), 30 + 60),
    ],
)
def test_a_cost_of_several_columns_can_be_called(cost, expected):
    assert cost(3, [10, 20]) == expected


def test_a_model_is_a_cost():
    cost = model().cost()
    assert cost(4, 50) == pytest.approx(model().predict_upper([(4, 50)])[0])


def test_costs_are_pickled():
    for cost in (sab.Cost.padded([2]), sab.Cost.terms([(1, 1, 2)]), sab.Cost(squares)):
        copy = pickle.loads(pickle.dumps(cost))
        assert copy(3, 10) == cost(3, 10) and repr(copy) == repr(cost)
    assert pickle.loads(pickle.dumps(model().cost()))(3, 10) == model().cost()(3, 10)


def test_all_ways_to_give_a_cost_make_the_same_plan():
    attention = sab.Cost.terms([(1, 1, 2)])
    plans = [
        sab.plan(SIZES, budget=10**6, cost=cost)
        for cost in ("quadratic", [0, 0, 0, 1], squares, sab.Cost(squares), attention)
    ]
    plans.append(sab.plan(SIZES, budget=sab.Budget(10**6, cost="quadratic")))
    plans.append(sab.plan(SIZES, budget=[sab.Budget(10**6, attention)]))
    assert all(plan.buckets == plans[0].buckets for plan in plans)
    padded = [sab.plan(SIZES, 4096, cost=cost) for cost in (None, "padded", sab.Cost.padded())]
    assert len({plan.fingerprint for plan in padded}) == 1


def test_a_batch_keeps_all_budgets():
    plan = sab.plan(
        SIZES, budget=[8192, sab.Budget(500_000, cost=squares), sab.Budget(40_000, cost=model())]
    )
    assert plan.budgets == [8192, 500_000, 40_000] and plan.budget == 8192
    upper = model().cost()
    for batch in sab.BucketSampler(plan).batches():
        assert batch.count * batch.padded_length <= 8192
        assert squares(batch.count, batch.padded_length) <= 500_000
        assert upper(batch.count, batch.padded_length) <= 40_000
    alone = [sab.plan(SIZES, budget=each) for each in (8192, sab.Budget(500_000, squares))]
    assert plan.batch_count > max(each.batch_count for each in alone)
    assert plan.lower_bound >= max(each.lower_bound for each in alone)


def test_a_plan_without_a_budget_has_none():
    plan = sab.plan(SIZES, batch_size=8)
    assert plan.budget is None and plan.budgets == []
    sampler = sab.BucketSampler(plan)
    assert sampler.budget == 0
    sampler.set_budget(1000)  # of the padded total
    assert max(b.padded_total for b in sampler.batches() if b.count > 1) <= 1000


def test_budgets_are_saved_with_the_plan(tmp_path):
    plan = sab.plan(SIZES, budget=[8192, sab.Budget(10**6, cost="quadratic")])
    plan.save(tmp_path / "plan")
    read = sab.Plan.open(tmp_path / "plan")
    assert read.budgets == plan.budgets and read.fingerprint == plan.fingerprint
    sampler = sab.BucketSampler(read)
    sampler.set_budget(500_000, index=1)
    assert max(squares(b.count, b.padded_length) for b in sampler.batches()) <= 500_000


def test_each_budget_is_lowered_by_its_index():
    plan = sab.plan(SIZES, budget=[8192, sab.Budget(10**6, "quadratic"), sab.Budget(9e9, squares)])
    sampler = sab.BucketSampler(plan, seed=3)
    seen = []
    for step, batch in enumerate(sampler):
        seen.extend(batch.tolist())
        if step == 3:
            sampler.set_budget(400_000, 1)
            assert (sampler.budget, sampler.get_budget(1)) == (8192, 400_000)
    assert sorted(seen) == list(range(len(SIZES)))
    resumed = sab.BucketSampler(plan, seed=3)
    resumed.load_state_dict(sampler.state_dict(5))
    assert resumed.get_budget(1) == 400_000
    for arguments, error, words in (
        ((5, 2), sab.UnsupportedError, "function|callback"),
        ((5, 3), ValueError, "index = 3"),
        ((5, -1), ValueError, "index = -1"),
        ((-1, 1), ValueError, "limit = -1"),
    ):
        with pytest.raises(error, match=words):
            sampler.set_budget(*arguments)
    assert sampler.get_budget(1) == 400_000


@pytest.mark.parametrize("last_step", ["split", "drop", "wrap"])
@pytest.mark.parametrize("limit", [0, 4096])
def test_the_limit_that_holds_can_be_set_at_every_step(limit, last_step):
    sampler = sab.BucketSampler(sab.plan(SIZES, budget=8192), micro_batches=3, last_step=last_step)
    sampler.set_budget(limit)
    expected = [batch.indices.tolist() for batch in sampler.batches()]
    sampler.set_epoch(0)
    seen = []
    for batch in sampler:
        seen.append(batch.tolist())
        sampler.set_budget(limit)
    assert seen == expected


def test_a_budget_is_any_real_number():
    for number in (100, 100.0, np.float32(100), np.array(100), Fraction(100)):
        assert sab.plan([3, 5, 8], budget=number).budgets == [100.0]
    with pytest.raises(ValueError, match="budget: is too large"):
        sab.plan([3, 5, 8], budget=10**400)


def test_packed_rows_are_balanced_by_any_cost():
    lengths = SIZES[SIZES <= 256]

    def walk(**options):
        sampler = sab.PackedSampler(lengths, 1024, seed=1, world_size=4, **options)
        return [batch.tolist() for batch in sampler]

    assert walk() == walk(balance="quadratic") == walk(balance=squares)
    assert walk() != walk(balance=[0, 1, 0])  # the number of sequences
    copy = pickle.loads(pickle.dumps(sab.PackedSampler(lengths, 1024, balance="padded")))
    assert [each.tolist() for each in copy] == [
        each.tolist() for each in sab.PackedSampler(lengths, 1024, balance="padded")
    ]


def test_measurements_near_a_budget():
    points = sab.measurement_points(1, 200, max_count=1000, budget=60_000, cost=model())
    costs = [model().cost()(count, length) for count, length in points]
    assert min(costs) >= 0.3 * 60_000 and max(costs) <= 0.95 * 60_000
    small = sab.measurement_points(1, 200, max_count=1000, budget=500)
    assert max(count * length for count, length in small) <= 500


class Mine(Exception):
    pass


def raises(*arguments):
    raise Mine(arguments)


@pytest.mark.parametrize(
    "call",
    [
        lambda: sab.Cost(raises)(1, 2),
        lambda: sab.plan(SIZES, 9000, cost=raises),
        lambda: sab.plan(SIZES, [9000, sab.Budget(9000, raises)]),
        lambda: sab.find_thresholds(SIZES, 3, cost=sab.Cost(raises)),
        lambda: sab.PackedSampler(SIZES, 1024, balance=raises),
        lambda: sab.BalancedSampler(SIZES, budget=2000, balance=raises),
        lambda: sab.BalancedSampler(SIZES, budget=sab.Budget(2000, raises)),
        lambda: sab.ShardedSampler(SIZES, 9000, cost=raises),
        lambda: sab.measurement_points(1, 9, max_count=20, budget=50, cost=raises),
    ],
)
def test_an_exception_of_a_cost_comes_back_as_itself(call):
    with pytest.raises(Mine):
        call()


def test_threads_share_a_cost():
    """Each gets the exception that its own call raised."""
    barrier = threading.Barrier(4)
    told = {}

    def price(count, length):
        raise Mine(threading.get_ident())

    shared = sab.Cost(price)

    def work():
        barrier.wait(60)
        for _ in range(20):
            try:
                shared(1, 2)
            except Mine as error:
                told.setdefault(threading.get_ident(), set()).add(error.args[0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 4 and all(seen == {thread} for thread, seen in told.items())


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: untyped.Cost(5), TypeError, "^function = 5: must be a function"),
        (lambda: untyped.Cost(None), TypeError, "^function = None: must be a function"),
        (lambda: untyped.Cost.padded([1, -1]), ValueError, r"^weights\[1\] = -1"),
        (lambda: untyped.Cost.padded("x"), TypeError, "^weights = 'x'"),
        (lambda: untyped.Cost.terms([]), ValueError, "count = 0"),
        (lambda: untyped.Cost.terms(5), TypeError, "^terms = 5: must be a list"),
        (lambda: untyped.Cost.terms([(1, 2)]), ValueError, r"^len\(terms\[0\]\) = 2"),
        (lambda: untyped.Cost.terms([(1, 1, [0] * 9)]), ValueError, r"^len\(terms\[0\]\[2\]\) = 9"),
        (lambda: untyped.Cost.terms([(1, 1, 1), (1, 9, 1)]), ValueError, r"^terms\[1\]"),
        (lambda: untyped.Cost.terms([("x", 1, 1)]), TypeError, r"^terms\[0\]\[0\] = 'x'"),
        (lambda: untyped.Cost.terms([(1, 1.5, 1)]), TypeError, r"^terms\[0\]\[1\] = 1.5"),
        (lambda: untyped.Cost.terms([(-1, 1, 1)]), ValueError, r"^terms\[0\].coefficient = -1"),
        (lambda: untyped.Cost.padded()(0, 1), ValueError, "count = 0"),
        (lambda: untyped.plan([1], cost="padded"), ValueError, "^cost: goes with a budget"),
        (lambda: untyped.plan([1], []), ValueError, "a budget or a batch size must be given"),
        (lambda: untyped.plan([1], "x"), TypeError, "^budget = 'x': must be a number"),
        (lambda: untyped.plan([1], {"a": 9}), ValueError, r"^budget\['a'\]: the sizes have no"),
        (lambda: untyped.plan([1], {}), ValueError, "^budget = {}: must have at least one"),
        (lambda: untyped.plan([1], 9, cost={"a": 1}), ValueError, r"^cost\['a'\]: the sizes"),
        (lambda: untyped.plan([1], 9, cost="x"), ValueError, "^cost = 'x': must be one of"),
        (lambda: untyped.Cost.padded([1])(1, "x"), TypeError, r"^length\[0\] = 'x'"),
        (lambda: untyped.plan([1], 9, cost=5), TypeError, "^cost = 5: must be .padded"),
        (lambda: untyped.plan([1], 9, cost=[1]), ValueError, r"^len\(cost\) = 1"),
        (lambda: untyped.plan([1], 9, cost=[1] * 11), ValueError, r"^len\(cost\) = 11"),
        (lambda: untyped.plan([1], 9, cost=object()), TypeError, "^cost = <object"),
        (
            lambda: untyped.plan([1], untyped.Budget(9, object())),
            TypeError,
            "^budget.cost = <object",
        ),
        (lambda: untyped.plan([1], [1, untyped.Budget(0)]), ValueError, r"^budget\[1\].limit = 0"),
        (lambda: untyped.plan([1], [1] * 9), ValueError, r"^len\(budget\) = 9"),
        (
            lambda: untyped.plan([1], [9, untyped.Budget(9, untyped.Cost.padded([1, 1]))]),
            ValueError,
            r"^budget\[1\].cost: uses 2 columns",
        ),
        (
            lambda: untyped.plan([1], 9, cost=lambda count, length: -1),
            ValueError,
            r"^cost\(1, 1\) = -1: must be finite and not negative",
        ),
        (
            lambda: untyped.plan([1], 9, cost=untyped.Cost.padded([1, 1])),
            ValueError,
            "^cost: uses 2 columns",
        ),
        (
            lambda: untyped.measurement_points(1, 9, max_count=8, budget=[9, 9]),
            ValueError,
            r"^len\(budget\) = 2",
        ),
        (
            lambda: untyped.measurement_points(1, 9, max_count=8, cost=model()),
            ValueError,
            "^cost: goes with a budget",
        ),
    ],
)
def test_errors_name_what_was_given(make, error, words):
    with pytest.raises(error, match=words):
        make()
