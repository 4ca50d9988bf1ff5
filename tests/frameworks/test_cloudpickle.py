"""Pickling with cloudpickle, as grain and Ray do for their processes."""

import pickle

import pytest

cloudpickle = pytest.importorskip("cloudpickle")

import sab

SIZES = [3, 5, 8, 2]
ROWS = [(count, length) for count in (1, 2, 4, 8) for length in (10, 50, 100)]
PEAKS = [1e6 + 300 * count * length for count, length in ROWS]


@pytest.mark.parametrize(
    "made",
    [
        sab.plan(SIZES, budget=16),
        sab.Cost.padded(),
        sab.Cost.terms([(2.0, 1, 1)]),
        sab.MemoryModel.fit(ROWS, PEAKS).cost(),
        sab.Budget(16, cost=sab.Cost.padded()),
        sab.MemoryModel.fit(ROWS, PEAKS),
        sab.BucketSampler(SIZES, budget=16),
        sab.PackedSampler(SIZES, 8),
        sab.BalancedSampler(SIZES, budget=[sab.Budget(16, cost=sab.Cost.padded())]),
    ],
    ids=lambda made: type(made).__name__,
)
def test_nothing_of_the_package_is_copied(made):
    image = cloudpickle.dumps(made)
    assert b"cffi" not in image and b"def_extern" not in image
    again = pickle.loads(image)
    assert type(again) is type(made)
    if isinstance(made, sab.BucketSampler):
        assert [batch.tolist() for batch in again] == [batch.tolist() for batch in made]
    elif isinstance(made, sab.Cost):
        assert again(2, 3.0) == made(2, 3.0)
