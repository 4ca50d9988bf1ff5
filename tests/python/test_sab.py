"""The Python package: batches, passes, states, inputs and errors."""

import copy
import doctest
import importlib
import itertools
import os
import pathlib
import pickle
import signal
import threading

import numpy as np
import pytest

import sab


def walk(sampler):
    return [batch.tolist() for batch in sampler]


def flat(batches):
    return [index for batch in batches for index in batch]


# Contracts


@pytest.mark.parametrize("length_multiple", [0, 8])
@pytest.mark.parametrize("cost, power", [("padded", 1), ("quadratic", 2)])
def test_batches_have_the_numbers_of_their_samples(cost, power, length_multiple):
    sizes = np.random.default_rng(1).integers(0, 60, 120)
    budget = 100**power
    plan = sab.plan(sizes, budget=budget, cost=cost, length_multiple=length_multiple)
    for batch in sab.BucketSampler(plan, seed=3, rank=1, world_size=2).batches():
        own, length = sizes[batch.indices], batch.padded_length
        assert (batch.total, batch.longest) == (own.sum(), own.max())
        assert length >= batch.longest and (not length_multiple or length % length_multiple == 0)
        assert batch.padded_total == batch.count * length
        assert batch.count * length**power <= budget


def test_resume_at_every_step_equals_uninterrupted():
    plan = sab.plan(np.random.default_rng(0).integers(1, 90, 400), budget=300)
    whole = walk(sab.BucketSampler(plan, seed=4, rank=1, world_size=3))
    for step in range(len(whole) + 1):
        first = sab.BucketSampler(plan, seed=4, rank=1, world_size=3)
        passing = iter(first)
        head = [next(passing).tolist() for _ in range(step)]
        second = sab.BucketSampler(plan, seed=4, rank=1, world_size=3)
        second.load_state_dict(first.state_dict())
        assert first.state_dict() == second.state_dict() == first.state_dict(step)
        rest = walk(second)
        assert head + rest == whole


def test_fewer_samples_than_ranks_gives_empty_batches():
    plan = sab.plan([1, 1], budget=4)
    walks = [walk(sab.BucketSampler(plan, rank=rank, world_size=5)) for rank in range(5)]
    assert [len(each) for each in walks] == [1] * 5
    assert sorted(flat(flat(walks))) == [0, 1]


# Passes and epochs


def test_epochs_differ_and_come_back():
    sampler = sab.BucketSampler(sab.plan(np.arange(1, 300) % 50 + 1, budget=200), seed=1)
    first, second = walk(sampler), walk(sampler)
    assert first != second and sampler.epoch == 1
    sampler.set_epoch(0)
    assert walk(sampler) == first
    sampler.set_epoch(0)
    assert walk(sampler) == first


def test_a_broken_off_pass_begins_again():
    sampler = sab.BucketSampler(sab.plan([3] * 50, budget=9))
    whole = walk(sampler)
    sampler.set_epoch(0)
    next(iter(sampler))
    assert walk(sampler) == whole


def test_two_passes_at_once_do_not_disturb_each_other():
    sampler = sab.BucketSampler(sab.plan(np.arange(1, 900) % 50 + 1, budget=60))
    pairs = [(a.tolist(), b.tolist()) for a, b in zip(iter(sampler), iter(sampler))]
    assert all(a == b for a, b in pairs) and len(pairs) == len(sampler)


def test_a_pass_that_gave_its_last_batch_is_over_though_nobody_asked_for_more():
    sampler = sab.BucketSampler(sab.plan(np.arange(1, 200), budget=256))
    for output in (iter, lambda it: (batch.indices for batch in it.batches())):
        sampler.set_epoch(0)
        passes = [
            [batch.tolist() for batch in itertools.islice(output(sampler), len(sampler))]
            for _ in range(2)
        ]
        sampler.set_epoch(1)
        assert passes[0] != passes[1] == [batch.tolist() for batch in sampler]
    sampler.set_epoch(0)
    list(itertools.islice(sampler, len(sampler) - 1))
    assert (
        len(list(sampler)) == len(sampler) and sampler.epoch == 0
    )  # broken off before: begins again
    sampler.set_epoch(0)
    list(itertools.islice(sampler, len(sampler)))
    state = sampler.state_dict()
    assert next(iter(sampler)).tolist() == passes[1][0]
    sampler.load_state_dict(state)
    assert (
        list(sampler) == [] and next(iter(sampler)).tolist() == passes[1][0]
    )  # what is left of the epoch that is resumed: nothing


def test_what_a_second_loop_over_a_sampler_gives():
    """The table of decision 3."""
    plan = sab.plan([1 + i * 7 % 30 for i in range(60)], budget=100)

    def fresh(state=None):
        sampler = sab.BucketSampler(plan, seed=3)
        if state is not None:
            sampler.load_state_dict(state)
        return sampler

    def of_epoch(epoch):
        sampler = fresh()
        sampler.set_epoch(epoch)
        return walk(sampler)

    def records(sampler):
        return [batch.indices.tolist() for batch in sampler.batches()]

    first, second = of_epoch(0), of_epoch(1)
    assert len(first) > 4 and first != second
    for loop in (walk, records):
        sampler = fresh()  # nothing was taken; the last pass was finished
        iter(sampler), sampler.batches()
        assert loop(sampler) == first and loop(sampler) == second
        sampler = fresh()  # it was broken off
        assert [batch.tolist() for batch in itertools.islice(sampler, 2)] == first[:2]
        middle = sampler.state_dict()
        assert loop(sampler) == first
        ended = sampler.state_dict()
        sampler = fresh(middle)  # a state was restored, its end had not been reported
        iter(sampler)
        assert loop(sampler) == first[2:] and loop(sampler) == second
        sampler = fresh(middle)
        next(iter(sampler))
        assert loop(sampler) == first
        sampler = fresh()  # nothing may be left
        list(itertools.islice(sampler, len(first)))
        sampler = fresh(sampler.state_dict())
        assert loop(sampler) == [] and loop(sampler) == second
        assert loop(fresh(ended)) == second  # its end had been reported
        assert loop(fresh(sampler.state_dict(len(first)))) == []  # not with a number of batches


def test_a_state_after_some_batches_changes_nothing():
    plan = sab.plan([1 + i * 7 % 30 for i in range(60)], budget=100)
    sampler = sab.BucketSampler(plan)
    first = walk(sampler)
    sampler.state_dict(2)
    second = walk(sampler)
    assert second != first  # the end stays reported
    sampler.set_epoch(0)
    passing = iter(sampler)
    assert next(passing).tolist() == first[0]
    state = sampler.state_dict(3)
    assert [batch.tolist() for batch in passing] == first[1:]
    sampler.load_state_dict(state)
    sampler.state_dict(1)
    assert walk(sampler) == first[3:]  # what is left is still to come


def test_copies_go_on_like_the_original():
    sampler = sab.BucketSampler(sab.plan([1 + i * 7 % 30 for i in range(60)], budget=100))
    first = walk(sampler)
    second = walk(pickle.loads(pickle.dumps(sampler)))
    assert second != first
    next(iter(sampler))
    copied = pickle.loads(pickle.dumps(sampler))
    assert copied.state_dict() == sampler.state_dict()
    assert walk(copied) == walk(sampler) == second


def test_capabilities():
    sampler = sab.BucketSampler(sab.plan([3, 4], budget=9))
    assert sampler.capabilities == (True, True, True, True)
    packed = sab.PackedSampler([3, 4], capacity=9)
    assert packed.capabilities.random_access and not packed.capabilities.budget
    assert not any(sab.BionemoSizeAwareStream([1], [3, 4], budget=9).capabilities)


def test_a_batch_in_one_row_has_its_rows():
    for sampler in (
        sab.PackedSampler([3, 9, 4], capacity=9),
        sab.BalancedSampler([3, 9, 4], budget=9),
    ):
        for batch in sampler.batches():
            assert batch.layout == "row" and batch.padded_total == batch.padded_length
            assert batch.cu_seqlens.tolist()[:: batch.count] == [0, batch.total]
    fractions = sab.BalancedSampler([0.5, 1.5], budget=9)
    assert fractions.batch(0).cu_seqlens is None
    padded = sab.BucketSampler(sab.plan([3, 4], budget=9)).batch(0)
    assert (padded.layout, padded.cu_seqlens, padded.starts) == ("padded", None, None)


def test_a_step_before_any_batch_is_an_error():
    sampler = sab.BucketSampler(sab.plan([3, 4], budget=9))
    with pytest.raises(ValueError, match="no batch"):
        sampler.step()
    with pytest.raises(IndexError, match="position = 1"):
        sampler.step(1)


def test_moving_the_epoch_under_a_pass_is_an_error():
    sampler = sab.BucketSampler(sab.plan(np.arange(1, 9000) % 50 + 1, budget=60))
    passing = iter(sampler)
    next(passing)
    sampler.set_epoch(5)
    with pytest.raises(RuntimeError, match="moved to epoch 5"):
        for _ in passing:
            pass


def test_random_access_and_list_output():
    plan = sab.plan(np.arange(1, 300) % 50 + 1, budget=200)
    arrays, lists = sab.BucketSampler(plan), sab.BucketSampler(plan, output="list")
    whole = walk(arrays)
    assert list(lists) == whole and type(whole[0][0]) is int
    arrays.set_epoch(0)
    assert [arrays[k].tolist() for k in range(len(arrays))] == whole
    assert arrays[-1].tolist() == whole[-1] and arrays.batch(2).step == 2
    with pytest.raises(IndexError):
        arrays[len(arrays)]


def test_state_at_the_end_goes_on_with_the_next_epoch():
    sampler = sab.BucketSampler(sab.plan([3] * 50, budget=9))
    walk(sampler)
    second = walk(sampler)
    other = sab.BucketSampler(sab.plan([3] * 50, budget=9))
    walk(other)
    fresh = sab.BucketSampler(sab.plan([3] * 50, budget=9))
    fresh.load_state_dict(other.state_dict())
    assert walk(fresh) == second


def test_pickle_of_plan_and_samplers():
    plan = pickle.loads(pickle.dumps(sab.plan(np.arange(1, 300) % 50 + 1, budget=200)))
    for sampler in (
        sab.BucketSampler(plan, seed=3),
        sab.SequentialSampler(plan),
        sab.OrderedSampler(None, np.arange(10), budget=12),
    ):
        copy = pickle.loads(pickle.dumps(sampler))
        assert walk(copy) == walk(sampler)


# Size-aware


def test_size_aware_warns_of_skipped_samples():
    with pytest.warns(sab.SkippedWarning, match="2 of 4 samples are over budget"):
        assert walk(sab.OrderedSampler(None, [1, 9, 2, 8], budget=4)) == [[0, 2]]


def test_size_aware_samplers_of_which_nothing_is_left():
    with pytest.raises(ValueError) as caught:
        sab.OrderedSampler([2, 1], [1, 9, 8], budget=4)
    rule = "must leave a batch; all 2 samples are over it, also the smallest, 8"
    assert str(caught.value) == f"budget = 4: {rule}"
    stream = sab.BionemoSizeAwareStream([2, 1], [1, 9, 8], budget=4)
    for walk_of in (iter, iter, sab.BionemoSizeAwareStream.batches, sab.Sampler.blocks):
        with pytest.warns(sab.SkippedWarning, match="2 of 2 samples are over budget"):
            assert list(walk_of(stream)) == []


def test_stream_source_that_fails_can_go_on():
    fails = [True]

    def size(index):
        if index == 2 and fails.pop() if fails else False:
            raise KeyError("once")
        return 1

    stream = sab.BionemoSizeAwareStream([0, 1, 2, 3], size, budget=10)
    with pytest.raises(KeyError, match="once"):
        walk(stream)
    assert walk(stream) == [[0, 1, 2, 3]]
    with pytest.raises(sab.UnsupportedError):
        sab._native.check(sab._native.lib.sab_sampler_seek(stream._handle, 3))


# Plans


def test_report_is_true():
    sizes = np.random.default_rng(4).integers(1, 300, 5000)
    plan = sab.plan(sizes, budget=4096, padding=0.02)
    report = plan.report()
    batches = walk(sab.BucketSampler(plan))
    padded = sum(len(batch) * sizes[batch].max() for batch in batches)
    assert report.batches == len(batches) == report.steps and report.padded_total == padded
    assert report.padding == pytest.approx(1 - sizes.sum() / padded)
    assert report.shapes == len({(len(batch), sizes[batch].max()) for batch in batches})
    assert report.lower_bound == -(-int(sizes.sum()) // 4096)
    assert "padding" in str(report) and len(report.buckets) == len(plan.buckets)


def test_shapes_on_ranks():
    sizes = np.random.default_rng(5).integers(1, 300, 5000)
    plan = sab.plan(sizes, budget=4096, max_shapes=8)
    lengths = [bucket.padded_length for bucket in plan.buckets]
    assert len(plan.shapes) <= 8 and {length for _, length in plan.shapes} == set(lengths)
    seen = set()
    for rank in range(16):
        sampler = sab.BucketSampler(plan, rank=rank, world_size=16)
        assert sampler.shapes == plan.shapes
        seen |= {(batch.count, batch.padded_length) for batch in sampler.batches()}
    assert seen <= set(plan.shapes)
    assert plan.report(world_size=16).empty_batches == 0
    sampler = sab.BucketSampler(plan)
    sampler.set_budget(3000)
    assert max(count * length for count, length in sampler.shapes) <= 3000
    with pytest.raises(sab.UnsupportedError, match="not a plan's"):
        from_rows = sab.PackedSampler(sizes, capacity=4096)
        sab._batch.shapes_of(sab._native.lib.sab_sampler_get_shape, from_rows._handle, ("",))


def test_shapes_auto():
    sizes = np.random.default_rng(5).integers(1, 300, 5000)
    plan = sab.plan(sizes, budget=4096, shapes="auto", padding=0.05)
    report = plan.report()
    tried = dict(report.shape_paddings)
    chosen = min(shapes for shapes, padding in tried.items() if padding <= 0.05)
    assert report.shapes == len(plan.shapes) <= chosen and report.padding <= 0.05
    assert f"padding with {chosen} shapes" in str(report)
    assert sab.plan(sizes, budget=4096).shape_paddings == []
    two = {"a": sizes, "b": sizes[::-1]}
    boxes = sab.plan(two, budget=8192, shapes="auto", padding=0.2, max_shapes=40)
    assert all(len(lengths) == 2 for _, lengths in boxes.shapes)
    assert len(boxes.shapes) <= 40 and boxes.shape_paddings
    ids = sab.plan(sizes, budget=4096, shapes="auto", padding=0.05, separate_by=sizes % 2)
    assert ids.report().padding <= 0.05 and ids.shape_paddings == []
    with pytest.raises(ValueError, match="shapes = 'few': must be one of 'auto'"):
        sab.plan(sizes, budget=4096, shapes="few")


def test_oversize_policies():
    sizes = [1, 2, 50, 3]
    with pytest.warns(sab.SkippedWarning, match="1 of 4"):
        plan = sab.plan(sizes, budget=10, oversize="skip")
    assert plan.skipped.tolist() == [2]
    with pytest.raises(
        ValueError,
        match=r"sizes\[2\] = 50: must cost at most the budget, 10, in a batch of one; 1 .* Set "
        "oversize to 'skip' or 'single', or use a larger budget",
    ):
        sab.plan(sizes, budget=10)
    plan = sab.plan(sizes, budget=10, oversize="single")
    assert sorted(flat(walk(sab.BucketSampler(plan)))) == [0, 1, 2, 3]


def test_costliest_batches_come_first_and_cost_most():
    sizes = np.random.default_rng(6).integers(1, 300, 5000)
    plan = sab.plan(sizes, budget=4096)
    costliest = plan.costliest_batches(3)
    most = max(batch.padded_total for batch in sab.BucketSampler(plan).batches())
    assert len(costliest) == 3 and costliest[0].padded_total >= most
    costs = [bucket.cost for bucket in plan.buckets]
    first = next(iter(sab.BucketSampler(plan, costliest_first=1).batches()))
    assert plan.buckets[first.bucket].cost == max(costs)


def test_save_open_and_damage(tmp_path):
    path = tmp_path / "plan"
    plan = sab.plan(np.arange(1, 300) % 50 + 1, budget=200)
    plan.save(path)
    assert sab.Plan.open(path).fingerprint == plan.fingerprint
    image = bytearray(path.read_bytes())
    for place in range(0, len(image), 97):
        damaged = bytearray(image)
        damaged[place] ^= 1
        with pytest.raises(sab.FormatError):
            sab.Plan.from_bytes(bytes(damaged))
    path.write_bytes(image[:-1])
    with pytest.raises(sab.FormatError):
        sab.Plan.open(path)
    with pytest.raises(OSError, match="nowhere"):
        sab.Plan.open(tmp_path / "nowhere")


def test_polynomial_and_function_costs_agree():
    sizes = np.random.default_rng(7).integers(1, 300, 2000)
    by_numbers = sab.plan(sizes, budget=50000, cost=[100, 3, 0.5, 0.01])
    by_function = sab.plan(
        sizes,
        budget=50000,
        cost=lambda count, length: 100 + count * (3 + length * (0.5 + length * 0.01)),
    )
    for one, other in zip(by_numbers.buckets, by_function.buckets):
        assert one._replace(cost=0) == other._replace(cost=0)
        assert one.cost == pytest.approx(other.cost)  # whose terms are added in another order


# Sizes

DTYPES = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_dtypes_and_strides_give_the_same_plan(dtype, tmp_path):
    sizes = np.random.default_rng(8).integers(0, 100, 300).astype(dtype)
    expected = sab.plan(sizes.tolist(), budget=300).fingerprint
    readonly = sizes.copy()
    readonly.flags.writeable = False
    strided, reverse = np.empty((300, 3), dtype), sizes[::-1].copy()[::-1]
    strided[:, 1] = sizes
    np.save(tmp_path / "sizes.npy", sizes)
    for source in (
        sizes,
        readonly,
        strided[:, 1],
        reverse,
        memoryview(sizes),
        tmp_path / "sizes.npy",
        str(tmp_path / "sizes.npy"),
    ):
        assert sab.plan(source, budget=300).fingerprint == expected
    assert (
        sab.plan(sab.Sizes(lambda index: sizes[index], count=300), budget=300).fingerprint
        == expected
    )


def test_torch_tensors_and_dlpack_without_a_copy():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(1, 300) % 50 + 1
    expected = sab.plan(tensor.tolist(), budget=200).fingerprint
    assert sab.plan(tensor, budget=200).fingerprint == expected
    sizes = sab.Sizes(tensor)
    tensor[0] = 17
    assert sizes[0] == 17, "borrowed, not copied"

    class Exporter:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    array = np.arange(1, 10)
    sizes = sab.Sizes(Exporter(array))
    array[3] = 77
    assert sizes[3] == 77, "borrowed, not copied"


@pytest.mark.parametrize(
    "sizes, error, message",
    [
        ([1.0, float("nan")], ValueError, r"sizes\[1\] = nan: must be a number"),
        ([float("inf")], ValueError, r"sizes\[0\] = inf: must be finite"),
        ([3, -2], ValueError, r"sizes\[1\] = -2: must not be negative"),
        ([2**53 + 1], ValueError, r"must be at most 2\^53"),
        ([], ValueError, r"^len\(sizes\) = 0"),
        (np.array([[[1, 2]]]), ValueError, "must have one dimension"),
        ([True], TypeError, "dtype bool"),
        ([1j], TypeError, "complex"),
        (np.array([1], ">i4"), ValueError, "byte order"),
    ],
)
def test_bad_sizes(sizes, error, message):
    with pytest.raises(error, match=message):
        sab.plan(sizes, budget=8)


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "a budget or a batch size must be given"),
        ({"budget": 0}, "budget = 0"),
        ({"budget": float("nan")}, "budget = nan"),
        ({"budget": 8, "padding": 1}, "^padding = 1"),
        ({"budget": 8, "boundaries": [1]}, r"^len\(boundaries\) = 1"),
        ({"budget": 8, "boundaries": [1, 1, 2]}, "1 stands there twice"),
        ({"budget": 8, "boundaries": [1, 2], "buckets": 3}, "only one may be given"),
        ({"budget": 8, "buckets": 0}, "buckets = 0"),
        ({"budget": 8, "buckets": 3, "bucket_batches": 2}, "bucket_batches = 2: must not be given"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"batch_size": [1, 2]}, r"^len\(batch_size\) = 2"),
        ({"budget": 8, "cost": "cubic"}, "cost = 'cubic'"),
        ({"budget": 8, "cost": [1, -1]}, r"^cost\[1\] = -1"),
        ({"budget": 8, "tail": "cut"}, "tail = 'cut'"),
        ({"budget": 8, "tail": "wrap", "drop_last": True}, "only one"),
        ({"budget": 8, "oversize": "hide"}, "oversize = 'hide'"),
        ({"budget": 8, "max_shapes": 1}, "max_shapes = 1"),
        ({"budget": 8, "batch_size_multiple": 0}, "batch_size_multiple = 0"),
        ({"budget": 8, "length_multiple": -1}, "length_multiple = -1"),
        ({"budget": 0.5, "oversize": "skip"}, "no sample is left"),
    ],
)
def test_bad_plan_options(options, message):
    with pytest.raises(ValueError, match=message):
        sab.plan([1, 2, 3], **options)


def test_bad_sampler_options():
    plan = sab.plan([1, 2, 3], budget=8)
    for options, message in (
        ({"rank": 1}, "rank = 1"),
        ({"world_size": 0}, "world_size = 0"),
        ({"seed": -1}, "seed = -1"),
        ({"last_step": "x"}, "last_step"),
    ):
        with pytest.raises(ValueError, match=message):
            sab.BucketSampler(plan, **options)
    state = sab.BucketSampler(plan).state_dict()
    with pytest.raises(sab.MismatchError, match="seed 0, this sampler has 1"):
        sab.BucketSampler(plan, seed=1).load_state_dict(state)
    with pytest.raises(sab.MismatchError, match="fingerprint"):
        sab.BucketSampler(sab.plan([1, 2], budget=8)).load_state_dict(state)
    with pytest.raises(sab.FormatError):
        sab.BucketSampler(plan).load_state_dict({"state": state["state"][:-1]})


def test_values_of_other_types_are_named():
    sampler = sab.BucketSampler(sab.plan([1, 2, 3], budget=8))
    stream = sab.Stream.from_items(["a", "b"])
    for damaged in ({}, {"state": "abc"}, "abc", None):
        for resumed in (sampler, stream):
            with pytest.raises(TypeError, match=r"must be what state_dict"):
                resumed.load_state_dict(damaged)
    for position in ("a", 1.0, None):
        with pytest.raises(TypeError, match=r"position = .*: must be a whole number"):
            sampler[position]
    nothing = lambda *arguments: None  # noqa: E731  # a function of the user that gives nothing
    with pytest.raises(TypeError, match=r"sizes\(0\) gave None: must be a number"):
        sab.Sizes(nothing, count=3)
    with pytest.raises(TypeError, match=r"cost\(\d+, \d+\) gave None: must be a number"):
        sab.plan([1, 2, 3], budget=8, cost=nothing)
    with pytest.raises(TypeError, match=r"size\(5\) = None: must be a number"):
        list(sab.BionemoSizeAwareStream([5], nothing, budget=8))
    with pytest.raises(TypeError, match=r"an index = 'a': must be a whole number"):
        list(sab.BionemoSizeAwareStream(["a"], nothing, budget=8))


# Callbacks, interrupts, threads, processes


def test_exceptions_of_callbacks_come_back_as_themselves():
    class Mine(Exception):
        pass

    def raises(*arguments):
        raise Mine(arguments)

    with pytest.raises(Mine):
        sab.Sizes(raises, count=3)
    with pytest.raises(Mine):
        sab.plan([1, 2], budget=3, cost=raises)
    with pytest.raises(Mine):
        sab.plan([1, 2], budget=3, progress=raises)
    with pytest.raises(sab.Cancelled):
        sab.plan([1, 2], budget=3, progress=lambda done, total: False)
    with pytest.raises(ValueError, match="must not be less"):
        sab.plan([1] * 50, budget=30, cost=lambda count, length: 20 - count if count > 2 else 10)


def test_ctrl_c_comes_through_a_long_build():
    def size(index):
        if index == 1000:
            os.kill(os.getpid(), signal.SIGINT)
        return index % 50

    with pytest.raises(KeyboardInterrupt):
        sab.Sizes(size, count=10**7)
    sent = []

    def progress(done, total):
        if not sent:
            sent.append(os.kill(os.getpid(), signal.SIGINT))

    with pytest.raises(KeyboardInterrupt):
        sab.plan(np.arange(3_000_000) % 500, budget=16384, progress=progress)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_from_outside_is_never_swallowed():
    # The signal arrives while C runs, so that Python raises in the first instant of the progress
    # callback.
    sizes = np.arange(3_000_000) % 500
    for attempt in range(5):
        timer = threading.Timer(0.02 + 0.003 * attempt, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            for _ in range(300):
                sab.plan(sizes, budget=16384)
        timer.join()


def test_progress_bar_ends_with_its_call():
    pytest.importorskip("rich")
    before = threading.active_count()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            sab.plan(range(1, 50), budget=90, cost=lambda count, length: 1 / 0, progress=True)
        assert threading.active_count() == before
    sab.plan(range(1, 50), budget=90, progress=True).report(progress=True)


def test_two_threads_on_one_plan():
    plan = sab.plan(np.arange(1, 20000) % 50 + 1, budget=200)
    expected, results = walk(sab.BucketSampler(plan)), [None] * 4

    def run(slot):
        results[slot] = walk(sab.BucketSampler(plan))

    threads = [threading.Thread(target=run, args=(slot,)) for slot in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_fork_with_a_live_sampler():
    sampler = sab.BucketSampler(sab.plan(np.arange(1, 2000) % 50 + 1, budget=200))
    whole = walk(sampler)
    sampler.set_epoch(0)
    passing = iter(sampler)
    next(passing)
    child = os.fork()
    if child == 0:
        rest = [batch.tolist() for batch in passing]
        sampler.close()
        os._exit(0 if rest == whole[1:] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [batch.tolist() for batch in passing] == whole[1:]


def test_close_and_with():
    with sab.BucketSampler(sab.plan([1, 2], budget=3)) as sampler:
        assert len(sampler) == 2
    sampler.close()
    with pytest.raises(ValueError, match="sampler = None"):
        len(sampler)


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader(workers):
    torch = pytest.importorskip("torch")
    sizes = np.random.default_rng(9).integers(1, 50, 400)

    class Dataset(torch.utils.data.Dataset):
        def __len__(self):
            return len(sizes)

        def __getitem__(self, index):
            return int(index), torch.ones(int(sizes[index]))

    def collate(samples):
        return [index for index, _ in samples], torch.nn.utils.rnn.pad_sequence(
            [data for _, data in samples], batch_first=True
        )

    sampler = sab.BucketSampler(sab.plan(sizes, budget=512))
    loader = torch.utils.data.DataLoader(
        Dataset(), batch_sampler=sampler, num_workers=workers, collate_fn=collate
    )
    passes = []
    for _ in range(2):
        batches = list(loader)
        assert len(batches) == len(loader)
        assert all(padded.numel() <= 512 for _, padded in batches)
        assert sorted(flat(indices for indices, _ in batches)) == list(range(400))
        passes.append([indices for indices, _ in batches])
    assert passes[0] != passes[1]


# The package itself


def modules_with_examples():
    source = pathlib.Path(sab.__file__).parent
    names = (
        ".".join(path.relative_to(source.parent).with_suffix("").parts)
        for path in sorted(source.rglob("*.py"))
        if ">>> " in path.read_text()
    )
    return [name.removesuffix(".__init__") for name in names]


@pytest.mark.parametrize("name", modules_with_examples())
def test_doctests(name, tmp_path, monkeypatch):
    if name.startswith("sab.torch.") or name in (
        "sab._group",
        "sab._collection",
        "sab.compat.torchtune",
        "sab.compat.verl.seqlen_balancing",
    ):
        pytest.importorskip("torch")
    if name == "sab.compat.torchtune" and not os.environ.get("SAB_TORCH_LIBRARY"):
        pytest.skip("an emulated device needs the LibTorch component: SAB_TORCH_LIBRARY names it")
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0 and result.failed == 0


def test_docstrings_hold_no_code_that_is_not_run():
    for path in pathlib.Path(sab.__file__).parent.rglob("*.py"):
        blocks = [line for line in path.read_text().splitlines() if line.endswith("::")]
        assert not blocks, f"{path}: an example begins with >>>"


@pytest.mark.parametrize(
    "make, words",
    [
        (
            lambda: sab.BionemoSizeAwareStream([1, 2], lambda index: 1, budget=4),
            "BionemoSizeAwareStream cannot be pickled or deep-copied: it has no state",
        ),
        (
            lambda: sab.Probe("host"),
            "Probe cannot be pickled or deep-copied: make a probe in each process",
        ),
        (
            lambda: sab.MemoryGuard(sab.BucketSampler(sab.plan([1, 2], 4)), "host", budget=2**40),
            "MemoryGuard cannot be pickled or deep-copied: make it in the process that trains",
        ),
    ],
)
def test_what_lives_in_one_process_is_not_pickled_or_copied(make, words):
    for attempt in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match=words):
            attempt(make())


def test_sizes_are_copied_but_not_pickled():
    sizes = sab.Sizes([3, 1])
    assert copy.copy(sizes) is sizes and copy.deepcopy([sizes])[0] is sizes
    with pytest.raises(
        TypeError, match="Sizes cannot be pickled or deep-copied: pickle the array, list or path"
    ):
        pickle.dumps(sizes)


def test_what_can_be_made_again_is_pickled_and_copied():
    plan = sab.plan([1, 2, 3, 4], 8)
    for sampler in (
        sab.BucketSampler(plan),
        sab.SequentialSampler(plan),
        sab.OrderedSampler(None, [1, 2, 3], budget=3),
        sab.PackedSampler([1, 2, 3], 4),
        sab.BalancedSampler([1, 2, 3, 4], samples=2),
    ):
        expected = [batch.tolist() for batch in sampler]
        sampler.set_epoch(0)
        for again in (
            pickle.loads(pickle.dumps(sampler)),
            copy.copy(sampler),
            copy.deepcopy(sampler),
        ):
            assert [batch.tolist() for batch in again] == expected


def test_a_target_that_is_met_exactly_is_met():
    report = sab.plan(
        [7] * 21, budget=15.0, padding=0.1
    ).report()  # 11 batches, at least 10 are needed
    assert report.target_met and report.nearest_target == 0.1
