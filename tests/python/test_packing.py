"""Packed bins through the Python layer."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sab

METHODS = ("shuffled", "best_fit", "histogram")


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


@settings(max_examples=20, deadline=None)
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
            window=window if method == "shuffled" else 0,
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


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=100), st.integers(60, 130))
def test_best_fit_is_the_textbook_s(sizes, capacity):
    sampler = sab.PackedSampler(sizes, capacity, method="best_fit")
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
    assert following != whole and len(following) == pytest.approx(len(whole), abs=1)
    if method != "shuffled":  # whose rows have other lengths in each epoch
        assert sorted(map(len, following)) == sorted(map(len, whole))
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


def test_concat_gives_every_token_once_and_full_rows():
    sizes = np.random.default_rng(1).integers(0, 90, 300)
    sampler = sab.PackedSampler(sizes, 64, method="concat", seed=4)
    orders = []
    for _ in range(2):
        seen = [np.zeros(size, int) for size in sizes]
        bins = list(rows(sampler))
        assert len(bins) == len(sampler) == -(-sizes.sum() // 64)
        for sequences in bins:
            for index, start, length in sequences:
                seen[index][start : start + length] += 1
        assert all((each == 1).all() for each in seen)
        assert sum(sum(length for *_, length in each) == 64 for each in bins) >= len(bins) - 1
        orders.append(bins)
    assert orders[0] != orders[1] and sampler.info.fill > 0.99


def images_and_tokens(count=1500, seed=0):
    random = np.random.default_rng(seed)
    images = random.integers(0, 12, count)
    return {"images": images, "tokens": 20 + 40 * images + random.integers(0, 300, count)}


CAPACITY = {"images": 20, "tokens": 1500}


def test_rows_keep_the_capacity_of_each_column():
    sizes = images_and_tokens()
    sampler = sab.PackedSampler(sizes, CAPACITY, seed=2)
    for _ in range(2):
        seen = np.zeros(1500, int)
        batches = list(sampler.batches())
        assert len(batches) == len(sampler) == sampler.info.bins
        for batch in batches:
            seen[batch.indices] += 1
            assert batch.padded_length == CAPACITY and batch.layout == "row"
            for name, numbers in sizes.items():
                assert np.diff(batch.cu_seqlens[name]).tolist() == numbers[batch.indices].tolist()
                assert batch.total[name] == batch.cu_seqlens[name][-1] <= CAPACITY[name]
                assert batch.longest[name] == numbers[batch.indices].max()
        assert (seen == 1).all()
        assert sampler.info.bins <= 1.03 * sampler.info.lower_bound


@pytest.mark.parametrize("same", [lambda sizes: np.stack(list(sizes.values()), axis=1), sab.Sizes])
def test_columns_of_any_source_give_the_same_rows(same):
    sizes = images_and_tokens(200)
    expected = [batch.tolist() for batch in sab.PackedSampler(sizes, CAPACITY)]
    rows = [batch.tolist() for batch in sab.PackedSampler(same(sizes), [20, 1500])]
    assert rows == expected
    one = sab.PackedSampler({"tokens": sizes["tokens"]}, {"tokens": 1500})
    plain = sab.PackedSampler(sizes["tokens"], 1500)
    assert [batch.tolist() for batch in one] == [batch.tolist() for batch in plain]


@pytest.mark.parametrize("given", [{}, {"method": "concat"}])
def test_a_state_of_rows_resumes_on_other_ranks(given):
    sizes = images_and_tokens()
    capacity = CAPACITY
    if given:
        sizes, capacity = sizes["tokens"], 1500

    def make(rank, world_size):
        return sab.PackedSampler(sizes, capacity, seed=7, rank=rank, world_size=world_size, **given)

    samplers = [make(rank, 3) for rank in range(3)]
    for sampler in samplers:
        sampler.set_epoch(4)
    taken = []
    for sampler in samplers:
        walk = iter(sampler)
        taken += [next(walk).tolist() for _ in range(5)]
    state = pickle.loads(pickle.dumps(samplers[0].state_dict()))
    assert len(state["state"]) < 500  # holds no rows
    for rank in range(2):
        sampler = make(rank, 2)
        sampler.load_state_dict(state)
        rest = list(sampler)
        assert sampler.epoch == 4 and sampler[len(sampler) - 1].tolist() == rest[-1].tolist()
        taken += [batch.tolist() for batch in rest]
    counts = np.bincount(sum(taken, []), minlength=1500)
    if not given:
        assert (counts == 1).all()
    else:  # a sample that was cut is in several rows
        assert counts.min() >= 1
    whole = make(0, 1)
    whole.set_epoch(4)
    rows = {tuple(sorted(batch.tolist())) for batch in whole}
    # those of the last step may be split between ranks
    assert sum(tuple(sorted(batch)) in rows for batch in taken) >= len(rows) - 5


def test_rows_follow_window_tries_max_sequences_and_balance():
    sizes = images_and_tokens(400)
    default = [batch.tolist() for batch in sab.PackedSampler(sizes, CAPACITY)]
    named = sab.PackedSampler(sizes, CAPACITY, window=1000, tries=100)
    assert [batch.tolist() for batch in named] == default
    assert len(sab.PackedSampler(sizes, CAPACITY, tries=1)) >= len(named)
    few = sab.PackedSampler(sizes, CAPACITY, max_sequences=3)
    assert few.info.most_sequences == 3
    balanced = sab.PackedSampler(
        sizes, CAPACITY, balance={"images": 1.0}, costliest_first=10**6, world_size=4
    )
    costs = [batch.total["images"] for batch in balanced.batches()]
    assert costs[:-1] == sorted(costs[:-1], reverse=True)


@pytest.mark.parametrize(
    "sizes, capacity, options, error, message",
    [
        ({}, {"text": 9}, {}, ValueError, r"capacity\['text'\]: must be one of 'images', 'tokens'"),
        ({}, {"images": 9}, {}, ValueError, "capacity has no 'tokens': must have all columns"),
        ({}, 9, {}, ValueError, "capacity = 9: must have one for each column, 'images', 'tokens'"),
        ({}, [9], {}, ValueError, r"len\(capacity\) = 1: must be 2"),
        ({}, [9, 2.5], {}, TypeError, r"capacity\[1\] = 2.5: must be a whole number"),
        ({}, {"images": 0, "tokens": 9}, {}, ValueError, r"capacity\['images'\] = 0: must be at"),
        ({}, {"images": 9, "tokens": 2**31}, {}, ValueError, r"capacity\['tokens'\] = 2147483648"),
        (
            {},
            [9, 4],
            {},
            ValueError,
            r'sizes\["tokens"\]\[1\] = 5: must be at most the capacity, 4',
        ),
        (
            {"images": [1, 0.5]},
            [9, 9],
            {},
            ValueError,
            r'sizes\["images"\]\[1\] = 0.5: must be a wh',
        ),
        (
            {"images": [1]},
            [9, 9],
            {},
            ValueError,
            r"sizes\['tokens'\] has 2 samples: must have",
        ),
        ({}, [9, 9], {"method": "concat"}, ValueError, "method = 'concat': must be 'shuffled'"),
        ({}, [9, 9], {"split": True}, ValueError, "split = 1: must be 0 for several"),
        ({}, [9, 9], {"tries": 2**21}, ValueError, "tries = 2097152"),
        ({}, [9, 9], {"balance": []}, ValueError, r"balance = \[\]: must have at least one cost"),
        ({}, [9, 9], {"balance": {"text": 1}}, ValueError, r"balance\['text'\]"),
    ],
)
def test_bad_capacities_are_named(sizes, capacity, options, error, message):
    with pytest.raises(error, match=message):
        sab.PackedSampler({"images": [1, 2], "tokens": [3, 5], **sizes}, capacity, **options)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"window": 9, "method": "best_fit"}, "window = 9: must be 0 except with 'shuffled'$"),
        ({"tries": 9, "method": "concat"}, "tries = 9: must be 0 except with 'shuffled'$"),
    ],
)
def test_options_without_effect_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        sab.PackedSampler([3, 1], 4, **options)


def test_nine_columns_and_states_of_other_columns_are_refused():
    with pytest.raises(ValueError, match="9"):
        sab.PackedSampler(np.ones((3, 9), int), [9] * 9)
    with pytest.warns(sab.SkippedWarning, match="1 of 3 samples are longer than a capacity"):
        sampler = sab.PackedSampler(
            {"a": [1, 2, 3], "b": [1, 9, 1]}, {"a": 4, "b": 5}, oversize="skip"
        )
    assert sampler.skipped.tolist() == [1]
    sizes = images_and_tokens(100)
    state = sab.PackedSampler(sizes, CAPACITY).state_dict()
    swapped = {"tokens": sizes["tokens"], "images": sizes["images"]}
    for other, capacity in ((swapped, CAPACITY), (sizes["tokens"], 1500)):
        with pytest.raises(sab.MismatchError):
            sab.PackedSampler(other, capacity).load_state_dict(state)


def costs_of_steps(sizes, world_size, **options):
    """The squared lengths of each rank in each step of a walk."""
    samplers = [
        sab.PackedSampler(sizes, 256, rank=rank, world_size=world_size, **options)
        for rank in range(world_size)
    ]
    each = [[np.square(np.diff(b.cu_seqlens)).sum() for b in one.batches()] for one in samplers]
    return np.array(each).T


@pytest.mark.parametrize("world_size", [1, 3, 8])
def test_the_report_is_what_walking_all_ranks_finds(world_size):
    sizes = np.random.default_rng(5).integers(1, 200, 3000)
    sampler = sab.PackedSampler(sizes, 256, world_size=world_size, last_step="drop")
    report, info = sampler.report(), sampler.info
    costs = costs_of_steps(sizes, world_size, last_step="drop")
    imbalance = costs.max(axis=1) / costs.mean(axis=1)
    assert report.steps == len(sampler) == len(costs)
    of_steps = [sampler.step(position).samples for position in range(len(sampler))]
    assert (report.least_step_samples, report.most_step_samples) == (min(of_steps), max(of_steps))
    assert report.step_samples_deviation == pytest.approx(np.std(of_steps))
    assert report.rank_imbalance == pytest.approx(imbalance.mean())
    assert report.largest_rank_imbalance == pytest.approx(imbalance.max())
    assert report.micro_batch_imbalance == pytest.approx(report.rank_imbalance)
    assert report.time == pytest.approx(costs.max(axis=1).sum())
    assert report.least_time == pytest.approx(costs.mean(axis=1).sum())
    assert (report.samples, report.bins, report.fill) == (info.samples, info.bins, info.fill)
    assert report.lower_bound <= report.bins == len(sab.PackedSampler(sizes, 256))
    assert report.bins - report.steps * world_size < world_size


@pytest.mark.parametrize("method", METHODS)
def test_the_report_counts_row_mates_that_meet_again(method):
    sizes = np.random.default_rng(6).integers(1, 200, 1000)
    sampler = sab.PackedSampler(sizes, 1024, method=method, seed=3)
    report = sampler.report()
    epochs = [list(sampler), list(sampler)]
    pairs = [
        {pair for row in rows for pair in itertools.combinations(sorted(row.tolist()), 2)}
        for rows in epochs
    ]
    assert report.meet_again == pytest.approx(len(pairs[0] & pairs[1]) / len(pairs[0]))
    means = [sizes[row].mean() for row in epochs[0]]
    assert report.length_deviation == pytest.approx(np.std(means))
    assert 0 < report.random_meet_again < 0.02 and report.random_length_deviation > 0
    if method == "shuffled":
        assert report.meet_again < 2 * report.random_meet_again
    assert "row mates that meet again" in str(report)


def test_the_report_counts_what_is_left_out_and_cut():
    with pytest.warns(sab.SkippedWarning):
        sampler = sab.PackedSampler([3, 9, 4, 4, 2], 5, oversize="skip", world_size=2)
    assert sampler.report()[:3] == (5, 1, 0)
    sampler = sab.PackedSampler([7, 5, 5], 5, split=True, world_size=4, last_step="drop")
    report = sampler.report()  # four bins: 5, 5, 5 and 2
    assert (report.split, report.sequences, report.bins, report.dropped) == (1, 4, 4, 0)
    report = sab.PackedSampler([5] * 7, 5, world_size=4, last_step="drop").report()
    assert (report.steps, report.dropped, report.total) == (1, 3, 20)


def test_the_report_of_several_columns_prints_a_table():
    sizes = images_and_tokens(300)
    report = sab.PackedSampler(sizes, CAPACITY, world_size=3).report()
    assert report.total == {name: float(np.sum(numbers)) for name, numbers in sizes.items()}
    lines = str(report).splitlines()
    assert lines[0].split() == ["samples", "300"] and len({len(line) for line in lines}) == 1
    assert any(line.startswith("total images") for line in lines)
    assert any(line.startswith("bins (× minimum)") for line in lines)


def test_the_report_does_not_move_the_pass_and_can_be_stopped():
    sampler = sab.PackedSampler(np.random.default_rng(5).integers(1, 200, 3000), 256)
    walk = iter(sampler)
    first = [next(walk).tolist() for _ in range(3)]
    with pytest.raises(sab.Cancelled):
        sampler.report(progress=lambda done, total: False)
    with pytest.raises(ZeroDivisionError):
        sampler.report(progress=lambda done, total: 1 / 0)
    sampler.report()
    rest = [row.tolist() for row in walk]
    sampler.set_epoch(0)
    assert first + rest == [row.tolist() for row in sampler]
