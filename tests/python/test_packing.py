"""Packed bins through the Python layer."""

import itertools
import pickle

import numpy as np
import pytest

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
        ({}, [9, 9], {"split": True}, ValueError, "split = True: must be False for several"),
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
