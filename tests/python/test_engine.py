"""More than one machine: histograms, plans of histograms, places."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import sab

NUMBERS = 1 + np.arange(1000) * 7919 % 90


def parts(count: int = 8) -> list[sab.Histogram]:
    return [sab.Histogram(part) for part in np.array_split(NUMBERS, count)]


def test_merging_in_any_order_gives_the_same_bytes() -> None:
    whole, merged = sab.Histogram(NUMBERS), sab.Histogram()
    for part in reversed(parts()):
        merged.merge(part)
    assert merged == whole
    assert merged.to_bytes() == whole.to_bytes()
    assert merged.fingerprint == whole.fingerprint
    assert merged.sample_count == 1000
    assert merged.total == NUMBERS.sum()
    sizes, counts = np.unique(NUMBERS, return_counts=True)
    assert (merged.sizes == sizes).all()
    assert (merged.counts == counts).all()
    merged.subtract(parts()[0])
    assert merged.sample_count == 875
    assert merged != whole


def test_bytes_and_pickles_make_the_histogram_again() -> None:
    whole = sab.Histogram(NUMBERS)
    assert sab.Histogram.from_bytes(whole.to_bytes()) == whole
    assert pickle.loads(pickle.dumps(whole)) == whole
    assert sab.Histogram.from_bytes(sab.Histogram().to_bytes()).sizes.size == 0
    with pytest.raises(sab.FormatError, match="checksum"):
        sab.Histogram.from_bytes(whole.to_bytes()[:-1] + b"x")
    with pytest.raises(TypeError, match="to_bytes"):
        sab.Histogram.from_bytes("text")  # type: ignore[arg-type]


def test_columns_and_sources_are_kept_apart() -> None:
    pairs = sab.Histogram(sab.Sizes({"source": [5, 5, 2], "target": [1, 2, 9]}))
    assert pairs.sizes.tolist() == [[2, 9], [5, 1], [5, 2]]
    assert pairs.sources is None
    assert pairs.columns == ("source", "target")
    assert sab.Histogram([1]).columns == ("",)
    assert sab.Histogram(np.ones((2, 3))).columns == ("0", "1", "2")
    assert sab.Histogram().columns == ()
    mixed = sab.Histogram(sab.Mixture({"a": [5, 2], "b": [5]}))
    assert mixed.sources is not None
    assert mixed.sources.tolist() == [0, 0, 1]
    with pytest.raises(sab.MismatchError, match=r"columns"):
        pairs.merge(mixed)
    with pytest.raises(sab.UnsupportedError, match="mixture"):
        sab.plan(mixed, budget=100)  # without an epoch
    with pytest.raises(TypeError, match=r"must be a sab\.Histogram"):
        pairs.merge([1])  # type: ignore[arg-type]


def test_places_of_several_columns_are_those_of_the_samplers() -> None:
    pairs = np.column_stack([NUMBERS, NUMBERS[::-1]])
    histogram, columns = sab.Histogram(), {"source": NUMBERS, "target": NUMBERS[::-1]}
    numbers = histogram.number(columns)
    budget = {"source": 300, "target": 400}
    plan, counted = (sab.plan(each, budget=budget) for each in (columns, histogram))
    assert counted.columns == ("source", "target")
    assert [bucket[:-1] for bucket in counted.buckets] == [bucket[:-1] for bucket in plan.buckets]
    copy = pickle.loads(pickle.dumps(counted))
    places = copy.locate(pairs, numbers, seed=5, world_size=3)
    for rank in range(3):
        for position, batch in enumerate(sab.BucketSampler(plan, seed=5, world_size=3, rank=rank)):
            assert (places.ranks[batch] == rank).all()
            assert (places.batches[batch] == position).all()
            assert (places.slots[batch] == np.arange(len(batch))).all()
    with pytest.raises(ValueError, match=r"shape \(1000,\): must have a row for each sample, of 2"):
        counted.locate(NUMBERS, numbers)
    with pytest.raises(ValueError, match=r"sizes\[1\] = \(1, 91\): must be the size"):
        counted.locate([pairs[0], [1, 91]], [0, 0])
    with pytest.raises(sab.UnsupportedError, match="2 columns and sample indices"):
        plan.locate(pairs, numbers)


def test_plans_of_histograms_refuse_what_needs_indices() -> None:
    plan = sab.plan(sab.Histogram(NUMBERS), budget=500)
    copy = pickle.loads(pickle.dumps(plan))
    assert copy.fingerprint == plan.fingerprint
    with pytest.raises(sab.UnsupportedError, match="histogram"):
        sab.BucketSampler(plan)
    with pytest.raises(sab.UnsupportedError, match="histogram"):
        plan.report()
    with pytest.raises(ValueError, match="must be the size of samples"):
        plan.locate([0.5], [0])
    with pytest.raises(ValueError, match="must be below the number of samples of size 1"):
        plan.locate([1], [1000])
    with pytest.raises(ValueError, match="numbers: has 2"):
        plan.locate([1], [0, 1])
    with pytest.warns(sab.SkippedWarning):
        assert sab.plan(sab.Histogram(NUMBERS), budget=50, oversize="skip").skipped_count > 0


def test_packings_refuse_what_they_cannot_do() -> None:
    histogram = sab.Histogram(NUMBERS)
    assert repr(sab.Packing(histogram, 1000)).startswith("Packing(1,000 sequences in ")
    for method in ("shuffled", "concat"):
        with pytest.raises(sab.UnsupportedError, match="in their order"):
            sab.Packing(histogram, 200, method=method)
    with pytest.raises(sab.UnsupportedError, match="mixture"):
        sab.Packing(sab.Histogram(sab.Mixture({"a": [5, 2], "b": [5]})), 200)
    with pytest.raises(ValueError, match="capacity"):
        sab.Packing(histogram, 0)
    with pytest.raises(ValueError, match="must be at most the capacity, 50"):
        sab.Packing(histogram, 50)
    with pytest.warns(sab.SkippedWarning):
        assert sab.Packing(histogram, 50, oversize="skip").info.skipped > 0
    with pytest.raises(TypeError, match=r"must be a sab\.Histogram"):
        sab.Packing([1, 2], 50)  # type: ignore[arg-type]
    pieces = sab.Packing(histogram, 50, split=True)
    assert pieces.info.split > 0
    with pytest.raises(sab.UnsupportedError, match="samples are split"):
        pieces.locate([1], [0])
    with pytest.raises(ValueError, match="must be the size of samples of the packing"):
        sab.Packing(histogram, 200).locate([0.5], [0])


SOURCES = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
SIZES = np.array([3, 5, 3, 9, 5, 3, 7, 9, 3, 5])


def test_places_of_an_epoch_of_a_mixture_are_those_of_c() -> None:
    histogram = sab.Histogram()
    within = histogram.number(sab.Mixture(SIZES, sources=SOURCES))
    plan = sab.plan(histogram.epoch(1, repeat=[1, 1.4], seed=7), budget=18)
    copy = pickle.loads(pickle.dumps(plan))
    for each in (plan, copy):
        places = each.locate(SIZES, within, sources=SOURCES, seed=5, epoch=1)
        assert places.counts.tolist() == [1, 1, 1, 1, 1, 1, 1, 2, 2, 1]
        assert places.batches.tolist() == [3, 3, 0, 2, 0, 1, 2, 4, 0, 1]
        assert places.slots.tolist() == [1, 0, 1, 0, 0, 0, 1, 1, 2, 1]


def test_epochs_refuse_what_they_cannot_do() -> None:
    histogram = sab.Histogram(sab.Mixture(SIZES, sources=SOURCES))
    assert histogram.epoch().sample_count == 10
    assert histogram.epoch(repeat=2).sample_count == 20
    with pytest.raises(ValueError, match=r"^len\(repeat\) = 3: must be the number of sources, 2"):
        histogram.epoch(repeat=[1, 2, 3])
    with pytest.raises(ValueError, match=r"^repeat\[1\] = -1: must be at least 0"):
        histogram.epoch(repeat=[1, -1])
    with pytest.raises(ValueError, match=r"^repeat: give 0 samples: must give at least 1"):
        histogram.epoch(repeat=0)
    with pytest.raises(ValueError, match="must be of a mixture"):
        sab.Histogram(SIZES).epoch()
    with pytest.raises(sab.UnsupportedError, match="of an epoch"):
        histogram.epoch().to_bytes()
    plan = sab.plan(histogram.epoch(), budget=100)
    with pytest.raises(ValueError, match="sources"):
        plan.locate(SIZES, np.zeros(10, int))
    with pytest.raises(ValueError, match="must have one for each size"):
        plan.locate(SIZES, np.zeros(10, int), sources=[1])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"numbers": [-1]}, "numbers has -1: must have numbers from 0 to"),
        ({"numbers": [0.9]}, "numbers has dtype float64"),
        ({"which": [-1]}, "which has -1: must have numbers from 0 to"),
        ({"sources": [1 << 32]}, "sources has 4294967296: must have numbers from 0 to 4294967295"),
        ({"sources": [0.9]}, "sources has dtype float64"),
        ({"sources": [-1]}, "sources has -1: must have numbers from 0 to 4294967295"),
    ],
)
def test_numbers_that_locate_would_have_to_change_are_refused(given, words):
    histogram = sab.Histogram(sab.Mixture({"a": [3, 4], "b": [3]}))
    plan = sab.plan(histogram.epoch(0), 10)
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        plan.locate([3], **{"numbers": [0], "sources": [0], **given})
