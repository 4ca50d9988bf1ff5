"""Packed bins through the Python layer."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sab

METHODS = ("best_fit", "histogram", "first_fit")


def rows(sampler):
    """(index, start, length) of each sequence of each bin."""
    for batch in sampler.batches():
        lengths = np.diff(batch.cu_seqlens)
        assert (
            batch.cu_seqlens.dtype == np.int32
            and batch.cu_seqlens[0] == 0
            and len(lengths) == batch.count
        )
        starts = np.zeros(batch.count, np.int64) if batch.starts is None else batch.starts
        yield list(zip(batch.indices.tolist(), starts.tolist(), lengths.tolist()))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=120),
    st.integers(1, 300),
    st.sampled_from(METHODS),
    st.integers(0, 4),
    st.integers(1, 9),
    st.integers(1, 5),
)
def test_every_token_once_over_all_ranks(sizes, capacity, method, most, window, world_size):
    seen = [np.zeros(size, int) for size in sizes]
    times = np.zeros(len(sizes), int)
    steps = set()
    for rank in range(world_size):
        sampler = sab.PackedSampler(
            sizes,
            capacity,
            method=method,
            max_sequences=most,
            split=True,
            window=window,
            seed=3,
            rank=rank,
            world_size=world_size,
        )
        steps.add(len(sampler))
        bins = list(rows(sampler))
        assert len(bins) == len(sampler)
        for sequences in bins:
            assert sum(length for *_, length in sequences) <= capacity and (
                most == 0 or len(sequences) <= most
            )
            for index, start, length in sequences:
                seen[index][start : start + length] += 1
                times[index] += 1
    assert len(steps) == 1 and all((each == 1).all() for each in seen)
    assert times.tolist() == [max(1, -(-size // capacity)) for size in sizes]
    info = sampler.info
    assert (
        info.sequences == times.sum() and info.total == sum(sizes) and info.lower_bound <= info.bins
    )
    assert info.split == sum(size > capacity for size in sizes) and info.fill == pytest.approx(
        info.total / (info.bins * capacity)
    )


def best_fit_decreasing(sizes, capacity):
    rooms = []
    for size in sorted(sizes, reverse=True):
        fits = [i for i, room in enumerate(rooms) if room >= size]
        if fits:
            rooms[min(fits, key=rooms.__getitem__)] -= size
        else:
            rooms.append(capacity - size)
    return sorted(rooms)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=100), st.integers(60, 130))
def test_best_fit_is_the_textbook_s(sizes, capacity):
    sampler = sab.PackedSampler(sizes, capacity)
    assert sorted(capacity - batch.total for batch in sampler.batches()) == best_fit_decreasing(
        sizes, capacity
    )


@pytest.mark.parametrize("method", METHODS)
def test_state_epochs_and_pickle(method):
    sizes = np.random.default_rng(0).integers(1, 100, 2000)
    make = lambda: sab.PackedSampler(sizes, 512, method=method, seed=5)  # noqa: E731
    whole = [batch.tolist() for batch in make()]
    sampler = make()
    first = [batch.tolist() for _, batch in zip(range(7), sampler)]
    other = make()
    other.load_state_dict(sampler.state_dict())
    assert first + [batch.tolist() for batch in other] == whole
    assert [
        batch.tolist() for batch in pickle.loads(pickle.dumps(sampler))
    ] == whole  # a pass that was broken off begins again
    assert [batch.tolist() for batch in make()] == whole  # the same again
    again = make()
    list(again)
    following = [batch.tolist() for batch in again]
    assert following != whole and sorted(map(len, following)) == sorted(map(len, whole))
    assert again[3].tolist() == following[3] and sorted(sum(following, [])) == list(range(2000))


def test_empty_shares_have_their_arrays():
    batches = [
        next(sab.PackedSampler([3, 2], 10, split=True, rank=rank, world_size=4).batches())
        for rank in range(4)
    ]
    batch, other = (batch for batch in batches if batch.count == 0)
    assert (
        other.cu_seqlens.tolist() == [0]
        and batch.count == 0
        and batch.cu_seqlens.tolist() == [0]
        and batch.starts.tolist() == []
        and batch.padded_total == 0
    )


def test_errors_and_skipped():
    with pytest.raises(ValueError, match=r"sizes\[1\] = 20: must be at most the capacity, 10"):
        sab.PackedSampler([5, 20], 10)
    with pytest.raises(ValueError, match=r"sizes\[0\] = 2.5: must be a whole number"):
        sab.PackedSampler([2.5, 3], 10)
    with pytest.raises(ValueError, match=r"^capacity = 0"):
        sab.PackedSampler([1], 0)
    with pytest.raises(ValueError, match="capacity = -1"):
        sab.PackedSampler([1], -1)
    with pytest.raises(ValueError, match=f"capacity = {10**30}: must be below"):
        sab.PackedSampler([1], 10**30)
    with pytest.raises(TypeError, match="split = 'no': must be True or False"):
        sab.PackedSampler([1], 10, split="no")
    with pytest.raises(TypeError, match=r"seed = 1.5"):
        sab.PackedSampler([1], 10, seed=1.5)
    with pytest.raises(TypeError, match=r"capacity = 1.5"):
        sab.PackedSampler([1], 1.5)
    with pytest.raises(ValueError, match="method = 'worst'"):
        sab.PackedSampler([1], 10, method="worst")
    with pytest.raises(ValueError, match="oversize = 'single'"):
        sab.PackedSampler([1], 10, oversize="single")
    with pytest.raises(sab.UnsupportedError, match="not a plan's"):
        sab.PackedSampler([1], 10).set_budget(3)
    with pytest.raises(sab.Cancelled):
        sab.PackedSampler([1], 10, progress=lambda done, total: False)
    with pytest.warns(sab.SkippedWarning, match="2 of 3"):
        sampler = sab.PackedSampler([30, 5, 20], 10, oversize="skip")
    assert (
        sampler.skipped.tolist() == [2, 0]
        and sampler.skipped_count == 2
        and [batch.tolist() for batch in sampler] == [[1]]
    )
