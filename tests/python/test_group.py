"""Thresholds, groupings and sab.compat.asym."""

import math
import pickle
import random

import numpy as np
import pytest

import sab
from sab.compat.asym import grouper, precompute_grouper_thresholds as asym


def group_costs(lengths, thresholds, cost):
    """What each group costs, one that is empty nothing."""
    edges = [-1, *thresholds, math.inf]
    groups = [
        [length for length in lengths if low < length <= high]
        for low, high in zip(edges, edges[1:])
    ]
    return [cost(len(group), max(group)) if group else 0 for group in groups]


def test_asym_takes_the_best_of_its_trials(capsys):
    rng = random.Random(3)
    lengths = [rng.randint(1, 60) for _ in range(300)]
    random.seed(11)
    found, max_diff = asym.find_thresholds(
        lengths, lambda x: x**2, 4, None, True, num_trials=30, return_max_diff=True
    )
    statuses = eval(capsys.readouterr().out)
    random.seed(11)
    trials = [asym._find_thresholds(lengths, lambda x: x**2, 4) for _ in range(30)]
    best = min(range(30), key=lambda i: trials[i][1])
    assert (found, max_diff) == trials[best][:2] and isinstance(max_diff, int)
    assert (
        statuses == {status: [trial[2] for trial in trials].count(status) for status in statuses}
        and sum(statuses.values()) == 30
    )
    # The seed of the library draws what Python's generator does.
    starts = random.Random(11)
    rows = [starts.sample(range(len(set(lengths))), 4) for _ in range(30)]
    native = sab.find_thresholds(
        lengths, 4, cost="quadratic", method="randomised", num_trials=30, seed=11
    )
    assert native.thresholds.tolist() == found
    assert (
        native.thresholds.tolist()
        == sab.find_thresholds(
            lengths, 4, cost="quadratic", method="randomised", num_trials=30, starts=rows
        ).thresholds.tolist()
    )


def test_seeds_draw_what_python_draws_from_many_lengths():
    lengths = np.arange(1, 500)
    for k in (1, 5, 6, 20, 100):
        draw = random.Random(7)
        rows = [draw.sample(range(499), k) for _ in range(5)]
        by_seed = sab.find_thresholds(lengths, k, method="randomised", num_trials=5, seed=7)
        by_start = sab.find_thresholds(lengths, k, method="randomised", num_trials=5, starts=rows)
        assert by_seed.thresholds.tolist() == by_start.thresholds.tolist()


def test_the_example_of_the_reference():
    rng = np.random.default_rng(0)
    weights = np.array([1, 1 / 4, 1 / 16, 1 / 64])
    lengths = rng.choice([1, 4, 16, 64], 1024, p=weights / weights.sum()).tolist()
    assert asym.find_thresholds(lengths, cost_fn=lambda x: x, k=3, num_trials=100) == [1, 4, 16]
    with pytest.raises(ValueError, match="4 is too big"):
        asym.find_thresholds(lengths, cost_fn=lambda x: x, k=4)
    with pytest.raises(ValueError, match="lengths must be positive integers"):
        asym.find_thresholds([0, *lengths], cost_fn=lambda x: x, k=3)


def test_a_memory_model_is_a_cost():
    counts, lengths = np.meshgrid([1, 2, 4, 8], [16, 32, 64, 128])
    features = np.stack([counts.ravel(), lengths.ravel()], 1)
    model = sab.MemoryModel.fit(features, 1000 + 10 * features[:, 0] * features[:, 1])
    data = np.random.default_rng(0).integers(16, 128, 1000)
    found = sab.find_thresholds(data, 3, cost=model)
    assert found.thresholds.tolist() == sab.find_thresholds(data, 3).thresholds.tolist()
    assert found.total == pytest.approx(4 * 1000 + 10 * sab.find_thresholds(data, 3).total, rel=0.1)


def test_callbacks_are_asked_once_a_length_and_their_exceptions_come_through():
    data = np.random.default_rng(0).integers(1, 20000, 300_000)
    asked = []

    def one(count, length):
        asked.append(length)
        return count * length**1.5

    found = sab.find_thresholds(data, 7, cost=one, cost_per_sample=True)
    assert sorted(asked) == np.unique(data).tolist()
    assert found.total == pytest.approx(
        sum(
            group_costs(
                data.tolist(), found.thresholds.tolist(), lambda count, length: count * length**1.5
            )
        )
    )
    with pytest.raises(ZeroDivisionError):
        sab.find_thresholds(data, 7, cost=lambda count, length: 1 / 0)


def test_functions_of_count_and_length_are_asked_about_few_groups_where_that_is_enough():
    lengths = np.random.default_rng(0).lognormal(5, 0.8, 5000)
    asked = 0

    def cost(count, length):
        nonlocal asked
        asked += 1
        return count * length

    for data, k, method, most in (
        (lengths, 1, "least_total", 3),
        (lengths, 15, "least_largest", 2),
        (lengths[:1000], 15, "least_largest", 5),
    ):
        asked = 0
        found = sab.find_thresholds(data, k, cost=cost, method=method)
        assert (
            found.thresholds.tolist()
            == sab.find_thresholds(data, k, method=method).thresholds.tolist()
        )
        assert asked < most * len(data)


def test_find_thresholds_refusals():
    for arguments, words in (
        (dict(k=0), "k = 0: must be at least 1"),
        (dict(k=3), "k = 3: must be below the number of lengths, 3"),
        (dict(k=2, method="best"), "'least_total', 'least_largest', 'randomised'"),
        (dict(k=2, method="randomised", num_trials=0), "num_trials = 0"),
        (dict(k=2, method="randomised", tolerate=-1), "tolerate = -1"),
        (dict(k=2, method="randomised", num_trials=1, starts=[[0, 3]]), r"^starts\[1\] = 3"),
        (
            dict(k=2, method="randomised", num_trials=2, starts=[[0, 1]]),
            r"starts has shape \(1, 2\)",
        ),
        (dict(k=2, starts=[[0, 1]] * 100), "goes with 'randomised' only"),
        (dict(k=2, cost=[[1.0]]), "cost has 2 dimensions"),
        (dict(k=2, num_trials=2**32), r"num_trials = 4294967296: must be below 2\*\*32"),
        (dict(k=2, tolerate=2**63), r"tolerate = 9223372036854775808: must be below 2\*\*63"),
    ):
        with pytest.raises(ValueError, match=words):
            sab.find_thresholds([1, 2, 3], **arguments)
    with pytest.raises(TypeError, match="cost_per_sample = 'no': must be True or False"):
        sab.find_thresholds([1, 2, 3], 1, cost_per_sample="no")
    with pytest.raises(
        ValueError, match="k = 2: must be at least 1 and below the number of distinct lengths, 2"
    ):
        sab.find_thresholds([1, 2, 2], 2)
    with pytest.raises(sab.Cancelled):
        sab.find_thresholds(range(1, 100), 5, progress=lambda done, total: False)


# Groupings


def check_grouping(grouping, samples):
    """What holds of every grouping."""
    assert (
        grouping.offsets[0] == 0
        and grouping.offsets[-1] == samples
        and len(grouping) == len(grouping.offsets) - 1
    )
    assert (
        grouping.permutation[grouping.inverse].tolist()
        == grouping.inverse[grouping.permutation].tolist()
        == list(range(samples))
    )
    for number, indices in enumerate(grouping):
        assert (grouping.group_of[indices] == number).all()
    values = np.arange(samples) * 7
    assert (values[grouping.permutation][grouping.inverse] == values).all()
    copy = pickle.loads(pickle.dumps(grouping))
    assert [indices.tolist() for indices in copy] == [indices.tolist() for indices in grouping]


def test_groups_by_two_lengths():
    lengths = [[3, 25, 12, 25, 11], np.array([3, 25, 12, 25, 11], np.uint8)]
    grouping = sab.Grouping.by_thresholds((lengths[0], [10, 20]), (lengths[1], [11.5]))
    assert [indices.tolist() for indices in grouping] == [[0], [4], [2], [1, 3]]
    assert grouping.intervals.tolist() == [[0, 0], [1, 0], [1, 1], [2, 1]]
    check_grouping(grouping, 5)


def test_given_groups():
    for grouping, expected in (
        (sab.Grouping.uni(3), [[0, 1, 2]]),
        (sab.Grouping.predefined([2, 0, 2]), [[1], [], [0, 2]]),
        (sab.Grouping.predefined(np.array([0, 1, 0], np.uint8), groups=3), [[0, 2], [1], []]),
        (sab.Grouping.partition([[2, 0], [], [1]]), [[2, 0], [], [1]]),
        (sab.Grouping.partition([]), []),
        (sab.Grouping.consecutive([1, 0, 2]), [[0], [], [1, 2]]),
        (sab.Grouping.predefined([]), []),
    ):
        assert [indices.tolist() for indices in grouping] == expected
        assert grouping.intervals.shape == (len(expected), 0)
        check_grouping(grouping, sum(map(len, expected)))
    assert repr(sab.Grouping.uni(3)) == "<sab.Grouping: 3 samples in 1 groups>"


def test_groupings_refusals():
    for call, words in (
        (sab.Grouping.by_thresholds, "dimensions are none: must be at least one pair"),
        (
            lambda: sab.Grouping.by_thresholds(([1, 2], [1]), ([1], [1])),
            r"dimensions\[1\].lengths.count = 1",
        ),
        (lambda: sab.Grouping.by_thresholds(([1, 2], [1, 1])), "1 stands there twice"),
        (
            lambda: sab.Grouping.by_thresholds(([1, 2], [[1]])),
            "thresholds of dimension 0 have 2 dimensions",
        ),
        (lambda: sab.Grouping.by_thresholds(([1, -2], [1])), r"sizes\[1\] = -2"),
        (lambda: sab.Grouping.predefined([0, -1]), r"group_of\[1\] = -1"),
        (lambda: sab.Grouping.predefined([0.5]), "group_of has dtype float64"),
        (
            lambda: sab.Grouping.partition([[0, 1], [1]]),
            r"indices\[2\] = 1: stands there for the second time",
        ),
        (lambda: sab.Grouping.partition([[0, 1], [3]]), r"indices\[2\] = 3"),
        (lambda: sab.Grouping.consecutive([1, -1]), "counts holds -1"),
        (lambda: sab.Grouping.uni(-1), "samples = -1"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="made by by_thresholds"):
        sab.Grouping()


class Shaped:
    """A datum as asym's groupers see it."""

    def __init__(self, shape):
        self.shape = shape
        self.value = self

    def get(self, keys):
        assert keys == ["protein"]
        return self


class Signature:
    prestack_ldim_map = {"res": (["protein"], 1)}


def test_asym_groupers():
    data = [Shaped((8, length)) for length in (10, 20, 12, 30)]
    assert grouper.LengthThresholdGrouper("res", [25, 15]).get_data_partition(
        data, Signature()
    ) == [[0, 2], [1], [3]]
    assert grouper.LengthThresholdGrouper("res", [5, 12]).get_data_partition(data, Signature()) == [
        [0, 2],
        [1, 3],
    ]
    assert [
        grouper.LengthThresholdGrouper("res", [5, 12]).get_subgroup_idx(length)
        for length in (4, 5, 6, 12, 13)
    ] == [0, 0, 1, 1, 2]
    assert grouper.LengthThresholdGrouper("res", [5]).get_partition_from_lengths([]) == []
    assert grouper.UniGrouper().get_data_partition(data, None) == [[0, 1, 2, 3]]
    assert grouper.PredefinedGrouper([[3, 0], [1, 2]]).get_data_partition(data, None) == [
        [3, 0],
        [1, 2],
    ]
    assert grouper.PredefinedConsecutiveGrouper([1, 3]).get_data_partition(data, None) == [
        [0],
        [1, 2, 3],
    ]
    with pytest.raises(ValueError, match="the partition is one of 3"):
        grouper.PredefinedConsecutiveGrouper([1, 2]).get_data_partition(data, None)
    for wrong in ([], [3, 3]):
        with pytest.raises(ValueError, match="must be at least one, no two equal"):
            grouper.LengthThresholdGrouper("res", wrong)
