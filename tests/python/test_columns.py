"""Sizes, plans and samplers of several columns."""

import numpy as np
import pytest

import sab


def pairs(count=2000, seed=0):
    random = np.random.default_rng(seed)
    source = random.integers(0, 200, count)
    return source, source // 2 + random.integers(1, 60, count)


def test_fractions_whose_rounding_differs_are_planned():
    first = [0.1, 0.1, 0.1, 0.3, 0.1, 0.4, 0.1, 0.3, 0.1, 0.4, 0.1, 0.1]
    second = [0.1, 0.2, 0.2, 0.1, 0.1, 0.2, 0.3, 0.4, 0.2, 0.2, 0.1, 0.3]
    assert sab.plan({"a": first, "b": second}, budget=2.1).sample_count == 12


def test_costs_that_change_from_call_to_call_end():
    random = np.random.default_rng(1)
    source, target = pairs(300)
    for _ in range(20):
        try:
            sab.plan(
                {"a": source, "b": target},
                budget=5000,
                cost=lambda count, lengths, totals: count * sum(lengths) * random.uniform(0.9, 1.1),
                bucket_batches=1,
            )
        except ValueError as error:
            assert "must not be less" in str(error)


def test_a_sample_of_zeros_costs_no_more_than_others():
    sizes = {"a": [0, 1000, 0], "b": [0, 0, 5]}
    assert sab.plan(sizes, budget=1000).skipped_count == 0
    sizes = {"a": [0, 1000, 0, 0], "b": [0, 0, 1000, 5]}
    assert sab.plan(sizes, budget=1503, cost=lambda count, lengths, totals: max(totals)).batch_count


def test_max_batch_size_holds_with_boundaries():
    corners = [[0, 0], [5, 5], [9, 9]]
    sizes = np.tile([[1, 2], [6, 7]], (20, 1))
    plan = sab.plan(sizes, boundaries=corners, batch_size=64, max_batch_size=2)
    assert [bucket.batch_size for bucket in plan.buckets] == [2, 2]


def test_columns_keep_their_names_from_sizes_to_batches():
    source, target = pairs()
    sizes = sab.Sizes({"source": source, "target": target.tolist()})
    assert sizes.columns == ("source", "target") and len(sizes) == 2000
    assert sizes.column("target")[3] == target[3]
    assert (sizes.values() == np.stack([source, target], axis=1)).all()
    plan = sab.plan(sizes, budget=4096, length_multiple={"target": 8})
    assert plan.columns == ("source", "target")
    seen = np.zeros(2000, int)
    sampler = sab.BucketSampler(plan, seed=3)
    for batch in sampler.batches():
        seen[batch.indices] += 1
        assert batch.longest == {
            "source": source[batch.indices].max(),
            "target": target[batch.indices].max(),
        }
        assert batch.total["target"] == target[batch.indices].sum()
        assert batch.padded_length["target"] % 8 == 0
        assert batch.padded_total <= 4096
    assert (seen == 1).all()
    report = plan.report()
    assert report.totals == {"source": source.sum(), "target": target.sum()}
    assert report.padded_total == sum(report.padded_totals.values())
    assert plan.buckets[0].longest.keys() == {"source", "target"}


def test_a_table_gives_columns_by_their_names():
    source, target = pairs(50)
    table = np.stack([source, target], axis=1)
    assert sab.Sizes(table).columns == ("0", "1")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": source, "b": target, "c": target})
    if hasattr(frame, "__arrow_c_stream__"):
        assert (sab.Sizes(frame, columns=["a", "c"]).values() == table).all()


def test_costs_of_several_columns():
    height, width = pairs(500)
    sizes = {"height": height + 1, "width": width}
    plan = sab.plan(sizes, budget=65536, cost="product")
    for batch in sab.BucketSampler(plan).batches():
        area = batch.padded_length["height"] * batch.padded_length["width"]
        assert batch.count * area <= 65536
    plan = sab.plan(sizes, budget=5000, cost={"height": 1.0, "width": 2.5})
    for batch in sab.BucketSampler(plan).batches():
        length = batch.padded_length
        assert batch.count * (length["height"] + 2.5 * length["width"]) <= 5000

    def cost(count, lengths, totals):
        assert totals == tuple(count * length for length in lengths)
        return count * max(lengths)

    plan = sab.plan(sizes, budget=4000, cost=cost)
    for batch in sab.BucketSampler(plan).batches():
        assert batch.count * max(batch.padded_length.values()) <= 4000


def test_ids_separate_samples_and_have_shapes_of_their_own():
    source, target = pairs()
    ids = np.arange(2000) % 3
    plan = sab.plan(
        {"source": source, "target": target},
        budget=4096,
        separate_by=ids,
        max_shapes={0: 4, 1: 6, 2: 8},
    )
    for batch in sab.BucketSampler(plan).batches():
        assert set(ids[batch.indices]) == {plan.buckets[batch.bucket].id}
    assert plan.report().shapes <= 18


def test_boundaries_are_corners_or_edges_of_each_column():
    source, target = pairs()
    sizes = {"source": source, "target": target}
    edges = {"source": [0, 50, 400], "target": [0, 60, 400]}
    grid = sab.plan(sizes, budget=4096, boundaries=edges)
    corners = [[0, 0], [50, 60], [50, 400], [400, 60], [400, 400]]
    assert grid.fingerprint == sab.plan(sizes, budget=4096, boundaries=corners).fingerprint
    assert [bucket.upper["target"] for bucket in grid.buckets] == [60, 400, 60, 400]


@pytest.mark.parametrize(
    "sizes, options, error, message",
    [
        ({}, {}, ValueError, "at least one column"),
        ({"a": [1], "b": [1, 2]}, {}, ValueError, r"sizes\['b'\] has 2 samples: must have"),
        ({"a": [1, -1], "b": [1, 2]}, {}, ValueError, r'sizes\["a"\]\[1\] = -1'),
        (np.ones((3, 9)), {}, ValueError, "sizes has 9 columns: must have at most 8"),
        ({"a": None, "b": [1]}, {}, TypeError, r"sizes\['a'\] = None: must be"),
        ({"a": np.ones((1, 2)), "b": [1]}, {}, ValueError, r"sizes\['a'\] has 2 columns"),
        ({"a": sab.Sizes({"x": [1], "y": [1]})}, {}, ValueError, r"sizes\['a'\] has 2 columns"),
        ({"\ud800": [1]}, {}, ValueError, "key '.*': must not have a lone surrogate"),
        ({"a": [1], "b": [1]}, {"cost": {"c": 1}}, ValueError, r"cost\['c'\]"),
        (
            {"a": [1], "b": [1]},
            {"length_multiple": {"c": 8}},
            ValueError,
            r"length_multiple\['c'\]",
        ),
        ({"a": [1], "b": [1]}, {"buckets": 3}, ValueError, "one column"),
        ({"a": [1], "b": [1]}, {"boundaries": [0, 5]}, ValueError, "shape"),
        (
            {"a": [1], "b": [1]},
            {"length_multiple": {"b": -8}},
            ValueError,
            r"length_multiple\['b'\] = -8: must be from 0",
        ),
        (
            {"a": [1], "b": [1]},
            {"boundaries": [[0, 0], [9, float("nan")]]},
            ValueError,
            r"boundaries\[1\]\['b'\] = nan: must be a number",
        ),
        (
            {"a": [1], "b": [1]},
            {"boundaries": {"a": [0, 9], "b": [float("nan"), 0]}},
            ValueError,
            r"boundaries\['b'\] has nan: must be numbers",
        ),
        (
            {"a": [1], "b": [1]},
            {"boundaries": {"a": [0, 9, 9], "b": [0, 9]}},
            ValueError,
            r"boundaries\['a'\] has 9 twice",
        ),
        (
            np.ones((1, 8)),
            {"boundaries": {str(column): range(12) for column in range(8)}},
            ValueError,
            f"boundaries: make {11**8} boxes: must make at most 65536",
        ),
        ({"a": [1], "b": [1]}, {"separate_by": [1, 2]}, ValueError, r"len\(separate_by\) = 2"),
        ([1, 2], {"separate_by": [2**63, 0]}, ValueError, f"separate_by has {2**63}: must"),
        ([1], {"separate_by": np.array([2**63], np.uint64)}, ValueError, "separate_by has 9"),
        (
            [1, 2],
            {"separate_by": [0, 1], "max_shapes": {"0": 1, 1: 3}},
            TypeError,
            "id of max_shapes = '0': must be a whole number",
        ),
        (
            [1, 2],
            {"separate_by": [0, 1], "max_shapes": {0: 3, 1: 1}},
            ValueError,
            r"max_shapes\[1\] = 1: must be at least 2",
        ),
        ({"a": [1], "b": [1]}, {"max_shapes": {1: 2}}, ValueError, "separate_by"),
        (
            [1, 2],
            {"separate_by": [0, 1], "max_shapes": {0: 2, 1: 2}, "buckets": 1},
            ValueError,
            r"^len\(max_shapes\) = 2: must not be given with boundaries or a number of buckets",
        ),
        ({1: [1]}, {}, TypeError, "must be a text"),
    ],
)
def test_bad_columns_are_named(sizes, options, error, message):
    with pytest.raises(error, match=message):
        sab.plan(sizes, budget=64, **options)


def test_a_report_of_several_columns_prints_boxes():
    random = np.random.default_rng(5)
    sizes = {"height": random.integers(1, 90, 3000), "width": random.integers(1, 90, 3000)}
    plan = sab.plan(sizes, budget=2000, boundaries={"height": [1, 30, 90], "width": [1, 90]})
    lines = str(plan.report()).splitlines()
    header = next(i for i, line in enumerate(lines) if line.split()[0] == "bucket")
    assert lines[header].split()[1:3] == ["height", "width"]
    low, high = plan.buckets[0].shortest, plan.buckets[0].longest
    assert lines[header + 1].split()[1:4] == [f"{low['height']:g}", "to", f"{high['height']:g}"]
    assert any(line.startswith("padding of width ") for line in lines[:header])
