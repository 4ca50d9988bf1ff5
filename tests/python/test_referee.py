"""What the referee counts (bench/count.py), by hand and by brute force."""

import itertools
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bench import count
from bench.peers import columns_nemo
from bench.questions import columns, order
from bench.report import Answer, Column, Table, best_cells, from_json, holes, markdown, to_json


def test_costs_of_batches_are_counted():
    lengths = np.array([5, 3, 4, 1])
    counted = count.gather([[0, 1], [], np.array([3])])
    assert counted.counts.tolist() == [2, 1]
    assert counted.longest(lengths).tolist() == [5, 1]
    assert counted.sums(lengths).tolist() == [8, 1]


def test_what_libsab_does_not_keep_is_named():
    def wrong(what, cells):
        table = Table("t", what, {"libsab": cells, "a peer": cells})
        return columns.check(Answer("columns", "", "", [table]))

    assert wrong(columns.PAIRS, [1.05, 0.0, 0.1, 0, 0.1, 50.0]) == []
    assert len(wrong(columns.PAIRS, [1.05, 0.1, 0.1, 0, 0.1, 50.0])) == 1
    assert len(wrong(columns.GRAPHS, [0.9, 0.9, 1.0, 0.0, 0.1, 1])) == 1
    assert wrong(columns.RANKS, [1.0, 1.01, 1.0, 1.0]) == []
    assert len(wrong(columns.RANKS, [1.0, 1.02, 1.0, 1.0])) == 1


def test_bins_of_equal_totals():
    assert columns_nemo.edges(np.array([1, 1, 1, 3, 6]), 2).tolist() == [3, 6]


def test_no_batches_are_refused():
    with pytest.raises(ValueError, match="no batches"):
        count.gather([[], []])


def test_lost_and_repeated_samples_are_counted():
    parts = [count.gather([[0, 1, 1], [3]]), count.gather([[1, 0]])]
    assert count.lost_and_repeated(count.deliveries(parts, 5)) == (2, 3)


@pytest.mark.parametrize("index", [-1, 4])
def test_an_index_outside_the_data_is_refused(index):
    with pytest.raises(ValueError, match="must be"):
        count.deliveries([count.gather([[0, index]])], 4)


def test_pairs_that_meet_again_equal_a_count_of_all_pairs():
    random = np.random.default_rng(0)
    first, second = (np.array_split(random.permutation(60), 9) for _ in range(2))

    def pairs(batches):
        return {pair for batch in batches for pair in itertools.combinations(sorted(batch), 2)}

    expected = len(pairs(first) & pairs(second)) / len(pairs(first))
    assert count.meet_again(count.gather(first), count.gather(second), 60) == expected > 0
    assert count.meet_again(count.gather(first), count.gather(first), 60) == 1


def test_random_orders_are_accepted_and_others_are_not():
    random, limits = np.random.default_rng(0), order.Limits(20)

    def epoch(samples):
        return count.gather(samples.reshape(-1, order.BATCH))

    shuffled = [epoch(random.permutation(order.SAMPLES)) for _ in range(20)]
    for before, now in itertools.pairwise(shuffled):
        assert order.failures(now, before, limits) == [False, False, False]
    whole = np.arange(order.SAMPLES)
    assert order.failures(epoch(whole), shuffled[0], limits) == [True, True, False]
    batches = random.permutation(whole.reshape(-1, order.BATCH))
    assert order.failures(epoch(batches), epoch(whole), limits)[2]
    nearly = np.concatenate([random.permutation(whole[::2]), random.permutation(whole[1::2])])
    assert not order.failures(epoch(nearly), shuffled[0], limits)[1]
    halves = np.concatenate([random.permutation(whole[:512]), random.permutation(whole[512:])])
    assert order.failures(epoch(halves), shuffled[0], limits)[1]


def test_the_best_is_marked_among_fair_rows_and_ties_share_the_mark():
    columns = [Column("a", "{:.1f}", "least"), Column("b")]
    rows = {"x": [1.04, 2], "y": [1.01, None], "z": [0.5, "refuses"]}
    table = Table("t", columns, rows, {"x", "y"})
    assert best_cells(table) == ["1.0", None]
    lines = markdown(table).splitlines()[2:]
    assert lines == ["| x | **1.0** | 2 |", "| y | **1.0** | no |", "| z | 0.5 | refuses |"]
    answers = [Answer("q", "Q", "text", [table], picture=1, measured="now")]
    assert from_json(to_json(answers, {"versions": {}})) == answers


def test_missing_cells_are_found():
    table = Table("t", [Column("a"), Column("b")], {"x": [1, 2], "y": [1], "z": [1, float("nan")]})
    assert [each.split(": ")[1] for each in holes(table)] == ["y", "z"]
