"""What new users pass by mistake: one sentence names the argument, what was given, and what to
pass."""

import array
import collections
import importlib
import pathlib
import re
import types
from typing import Any

import numpy as np
import pytest

sab: Any = importlib.import_module("sab")  # whose types would refuse the mistakes

LENGTHS = [3, 1, 2, 4, 5]
SIZES = sab.Sizes(LENGTHS)
PLAN = sab.plan(LENGTHS, budget=10)
SAMPLER = sab.BucketSampler(PLAN)
SHAPES = [(count, length) for count in (1, 2, 4, 8) for length in (10, 50, 100)]
MODEL = sab.MemoryModel.fit(SHAPES, [1e6 + 300 * count * length for count, length in SHAPES])


class DataSet:
    """As a data set of torch: with a length, and samples, but no end that numpy would see."""

    asked = 0

    def __len__(self):
        return 5

    def __getitem__(self, index):
        self.asked += 1
        assert self.asked < 100, "somebody reads all samples"
        return {"input_ids": [1] * index}


class Walk:
    """As a sampler or a DataLoader of torch."""

    def __len__(self):
        return 5

    def __iter__(self):
        return iter(range(5))


SAMPLES = [{"id": 7, "input_ids": [1, 2]}, {"id": 8, "input_ids": [1]}]
WRONG_SIZES = {
    "None": (None, "{} = None: must be"),
    "number": (5, "{} = 5: must be"),
    "array of no dimension": (np.array(3), "{} = array(3): must be"),
    "data set": (DataSet(), "{} is a DataSet: must be"),
    "loader": (Walk(), "{} is a Walk: must be"),
    "plan's class": (sab.Plan, "{} is the class Plan: must be"),
    "sampler": (SAMPLER, "{} is a sab.BucketSampler: must be"),
    "model": (MODEL, "{} is a sab.MemoryModel: must be"),
    "budget": (sab.Budget(16), "{} is a sab.Budget: must be"),
    "generator": (iter(LENGTHS), "{} is a list_iterator, which can be read only once: pass list("),
    "set": ({1, 2}, "{} is a set, which has no order: pass a list"),
    "values of a dictionary": ({1: 2}.values(), "{} is a dict_values, which has no order: pass a"),
    "bytes": (b"abc", "{} is a bytes: must be"),
    "object": (types.SimpleNamespace(), "{} is a SimpleNamespace: must be"),
}
WRONG_PARTS = {
    "samples": (SAMPLES, "sizes[0] is a dict: must be a number; pass [len(s['input_ids']) for s"),
    "data sets": ([DataSet()], "sizes[0] is a DataSet: must be a number; pass [len(s) for s in"),
    "matrices": ([np.zeros((2, 3))] * 2, "sizes[0] has the shape (2, 3): must be a number; pass ["),
    "number and text": ([1, "a"], "sizes[1] is a str: must be a number; pass [len(s) for s in s"),
    "list and number": ([[1], 2], "sizes[1] has type int: must be a list, as those before it"),
    "cube": (np.ones((3, 2, 2)), "sizes has the shape (3, 2, 2): must have one dimension; several"),
    "ragged columns": (
        {"a": [1, 2, 3], "b": [1, 2]},
        "sizes['b'] has 2 samples: must have as many as sizes['a'], 3",
    ),
    "samples by name": ({"a": 5, "b": 6}, "sizes['a'] = 5: must be the size of each sample"),
    "data set as column": ({"a": DataSet()}, "sizes['a'] is a DataSet: must be the size of each"),
    "samples by number": ({0: 5}, "sizes has the key 0: the name of a column must be a text"),
    "no columns": ({}, "sizes = {}: must have at least one column"),
    "function": (len, "sizes is a builtin_function_or_method: count must be given with a function"),
    "no such file": (pathlib.Path("none.npy"), "[Errno 2] No such file or directory: 'none.npy'"),
}
TAKE_SIZES = {
    "plan": (lambda given: sab.plan(given, budget=20), "sizes"),
    "BucketSampler": (lambda given: sab.BucketSampler(given, budget=20), "plan"),
    "SequentialSampler": (lambda given: sab.SequentialSampler(given, budget=20), "plan"),
    "PackedSampler": (lambda given: sab.PackedSampler(given, 16), "sizes"),
    "BalancedSampler": (lambda given: sab.BalancedSampler(given, budget=16), "sizes"),
    "ShardedSampler": (lambda given: sab.ShardedSampler(given, budget=16), "sizes"),
    "OrderedSampler": (
        lambda given: sab.OrderedSampler(None, given, budget=16),
        "sizes",
    ),
    "BaguaSampler": (sab.BaguaSampler, "complexity"),
    "BaguaBatchSampler": (lambda given: sab.BaguaBatchSampler(given, budget=16), "complexity"),
    "find_thresholds": (lambda given: sab.find_thresholds(given, 1), "lengths"),
    "Mixture": (lambda given: sab.Mixture(given, sources=[0] * 5), "sizes"),
    "Mixture's source": (lambda given: sab.Mixture({"a": given}), "sizes['a']"),
}


def message_of(call):
    """The message of the error of a wrong argument, which must be one sentence."""
    with pytest.raises((TypeError, ValueError, OSError)) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and len(message) < 240, message
    return message


@pytest.mark.parametrize("mistake", WRONG_SIZES)
@pytest.mark.parametrize("name", TAKE_SIZES)
def test_what_is_no_sizes(name, mistake):
    call, argument = TAKE_SIZES[name]
    given, words = WRONG_SIZES[mistake]
    message = message_of(lambda: call(given))
    assert message.startswith(words.format(argument))
    if "must be" in words:
        rule = "must be a sab.Plan, or the size" if argument == "plan" else "must be the size"
        assert f": {rule} of each sample, as an array or a list of numbers" in message


@pytest.mark.parametrize("mistake", WRONG_PARTS)
@pytest.mark.parametrize("name", TAKE_SIZES)
def test_what_has_wrong_sizes(name, mistake):
    given, words = WRONG_PARTS[mistake]
    message = message_of(lambda: TAKE_SIZES[name][0](given))
    assert message.startswith(words)


@pytest.mark.parametrize("name", sorted(set(TAKE_SIZES) - {"BucketSampler", "SequentialSampler"}))
def test_a_plan_is_no_sizes(name):
    call, argument = TAKE_SIZES[name]
    rule = "must be the size of each sample, as an array or a list of numbers"
    assert message_of(lambda: call(PLAN)) == f"{argument} is a sab.Plan: {rule}"


@pytest.mark.parametrize(
    "given",
    [
        np.array(LENGTHS),
        tuple(LENGTHS),
        range(1, 6),
        array.array("i", LENGTHS),
        memoryview(array.array("i", LENGTHS)),
        collections.UserList(LENGTHS),
        collections.deque(LENGTHS),
        [np.array(length) for length in LENGTHS],
        [np.int8(length) for length in LENGTHS],
        SIZES,
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_is_like_a_list_is_sizes(given):
    assert sorted(sab.Sizes(given).values().tolist()) == [1, 2, 3, 4, 5]


def test_sizes_of_sizes_keep_their_columns():
    pairs = sab.Sizes({"a": [1, 2], "b": [3, 4]})
    assert sab.Sizes(pairs).columns == ("a", "b")
    assert sab.Sizes(pairs).values().tolist() == pairs.values().tolist()


def test_a_data_set_with_columns_needs_the_name_of_one():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"ids": [[1, 2], [3]], "text": ["a", "b"]})
    words = "sizes has columns: pass sab.Sizes(sizes, column=name), whose name must be one of "
    assert message_of(lambda: sab.plan(table, budget=8)) == words + '"ids", "text"'
    words = words.replace("sizes", "plan").replace("Sizes(sizes", "Sizes(plan")
    assert message_of(lambda: sab.BucketSampler(table, budget=8)) == words + '"ids", "text"'
    assert "pass sab.Sizes" not in message_of(lambda: sab.Sizes(table))


@pytest.mark.parametrize(
    "make, rule",
    [
        (lambda given: sab.plan(LENGTHS, budget=given), "budget = {}: must be a number"),
        (lambda given: sab.BucketSampler(LENGTHS, budget=given), "budget = {}: must be a number"),
        (lambda given: sab.BalancedSampler(LENGTHS, budget=given), "budget = {}: must be a number"),
        (lambda given: sab.plan(LENGTHS, [16, given]), "budget[1] = {}: must be a number"),
        (sab.Budget, "limit = {}: must be a number"),
        (lambda given: sab.PackedSampler(LENGTHS, given), "capacity = {}: must be a whole number"),
        (lambda given: sab.BucketSampler(PLAN, rank=given), "rank = {}: must be a whole number"),
        (
            lambda given: sab.BucketSampler(PLAN, world_size=given),
            "world_size = {}: must be a whole number",
        ),
        (lambda given: sab.BucketSampler(PLAN, seed=given), "seed = {}: must be a whole number"),
        (SAMPLER.set_epoch, "epoch = {}: must be a whole number"),
        (SAMPLER.set_budget, "limit = {}: must be a number"),
        (lambda given: SAMPLER[given], "position = {}: must be a whole number"),
        (PLAN.costliest_batches, "count = {}: must be a whole number"),
        (lambda given: sab.plan(LENGTHS, batch_size=given), "batch_size"),
        (
            lambda given: sab.plan(LENGTHS, 16, max_batch_size=given),
            "max_batch_size = {}: must be a whole number",
        ),
    ],
)
@pytest.mark.parametrize("given", ["16k", "0", PLAN, MODEL, DataSet()], ids=type)
def test_what_is_no_number(make, rule, given):
    shown = " ".join(repr(given).split())
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    message = message_of(lambda: make(given))
    assert message.startswith(rule.format(shown))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: sab.plan(LENGTHS, MODEL), "the cost is given as cost="),
        (lambda: sab.plan(LENGTHS, 20, cost=sab.MemoryModel), "cost is the class MemoryModel: "),
        (lambda: sab.plan(LENGTHS, 20, cost=5), "cost = 5: must be 'padded', 'quadratic', "),
        (lambda: sab.plan(LENGTHS, {"tokens": 16}), "budget['tokens']: the sizes have no named co"),
        (lambda: sab.PackedSampler(LENGTHS, {"tokens": 16}), "capacity = {'tokens': 16}: must be "),
        (lambda: sab.BalancedSampler(LENGTHS, budget=16, balance=[None]), "balance[0] = None: mu"),
        (lambda: sab.plan(LENGTHS, 16, boundaries="auto"), "boundaries = 'auto': must be numbers"),
        (lambda: sab.plan(LENGTHS, 16, separate_by=DataSet()), "separate_by = <"),
        (lambda: sab.plan(LENGTHS, 16, max_shapes=True), "max_shapes = True: must be a whole "),
        (lambda: sab.plan(LENGTHS, 16, progress="bar"), "progress = 'bar': must be True, False,"),
        (lambda: sab.Plan(LENGTHS), "sab.Plan: is made by sab.plan(sizes, budget), not by its con"),
        (lambda: sab.MemoryModel(5), "sab.MemoryModel: is made by sab.MemoryModel.fit() or learn("),
        (lambda: sab.Stream(LENGTHS), "sab.Stream: is made by from_items(), from_iterable(), fro"),
        (lambda: sab.Plan.open(5), "path = 5: must be the name of a file"),
        (lambda: sab.Plan.from_bytes("x"), "image is a str: must be the bytes of to_bytes()"),
        (lambda: sab.verify(SAMPLER, print, "host"), "plan is a BucketSampler: must be a sab.Plan"),
        (lambda: sab.verify(PLAN, None, "host"), "run = None: must be a function"),
        (lambda: sab.collect_peak(None, [1], "host"), "work = None: must be a function"),
        (lambda: sab.collect_peak(len, 5, "host"), "inputs is an int: must be iterable"),
        (lambda: sab.find_max_batch(4, "host"), "trial = 4: must be a function"),
        (lambda: sab.step_in_chunks(4, 4, "host"), "chunk = 4: must be a function"),
        (lambda: sab.MemoryModel.fit("x", [1.0]), "features = 'x': must be rows of numbers"),
        (lambda: sab.MemoryModel.fit([(1, 2)], "x"), "peaks = 'x': must be one number for each ro"),
        (lambda: sab.MemoryModel.fit(DataSet(), [1.0]), "features = <"),
        (lambda: sab.MemoryGuard(PLAN, "host"), "sampler is a Plan: must be a BucketSampler or"),
        (lambda: sab.check_ranks(PLAN), "sampler is a Plan: must be a sampler with random access"),
        (lambda: sab.ranks_from_mesh(5), "mesh = 5: must be a dictionary with the length of each"),
        (lambda: sab.Cache(5), "url = 5: must be a text or the path of a folder"),
        (lambda: sab.BaguaBatchSampler(LENGTHS), "make_batches = None and budget = None: one must"),
        (lambda: sab.Grouping.by_thresholds(5), "dimensions has 5: must be pairs of lengths and"),
        (lambda: sab.Grouping.by_thresholds((LENGTHS, "x")), "thresholds = 'x': must be numbers"),
        (
            lambda: sab.OrderedSampler(Walk(), LENGTHS, budget=9),
            "indices = <",
        ),
        (lambda: sab.BionemoSizeAwareStream(5, len, budget=9), "indices is an int: must be iterab"),
        (lambda: sab.BionemoSizeAwareStream([1], 5, budget=9), "size is an int: must be a functio"),
        (lambda: sab.Sizes(LENGTHS, column=5), "column = 5: must be a text"),
        (lambda: SIZES.column("x"), "the sizes have no named columns"),
    ],
)
def test_what_else_is_mistaken(call, words):
    with pytest.raises((TypeError, ValueError, KeyError), match=re.escape(words)) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_length_that_rounding_makes_too_large_is_explained():
    with pytest.raises(ValueError, match=r"510 \(lengths are rounded up to multiples of 8\)"):
        sab.plan([100, 510], budget=510, length_multiple=8)
    with pytest.raises(ValueError, match=r"100 \(lengths are rounded up to multiples of 128\)"):
        sab.plan([10, 20], budget=100, length_multiple=128, oversize="skip")


def test_an_executable_batch_size_that_is_not_found_has_the_last_failure_as_its_cause():
    failures = []

    def train(batch_size):
        failures.append(MemoryError(f"of {batch_size}"))
        raise failures[-1]

    with pytest.raises(sab.DeviceMemoryError) as caught:
        sab.find_executable_batch_size(train, 4)()
    assert caught.value.__cause__ is failures[-1] and len(failures) > 1
    with pytest.raises(ValueError, match="must be smaller") as caught:
        sab.find_executable_batch_size(train, 4, reduce_batch_size_fn=lambda size: size)()
    assert caught.value.__cause__ is failures[-1]


@pytest.mark.parametrize(
    "run",
    [
        lambda step: sab.step_in_chunks(step, 8, "host"),
        lambda step: sab.find_max_batch(step, "host", max_batch_size=8, budget=1 << 40),
        lambda step: sab.plan([1, 2, 3], budget=6).verify(step, "host"),
    ],
    ids=["step_in_chunks", "find_max_batch", "verify"],
)
def test_an_error_of_memory_has_the_last_failure_as_its_cause(run):
    failures = []

    def step(*arguments):
        failures.append(MemoryError(f"number {len(failures)}"))
        raise failures[-1]

    with pytest.raises(sab.DeviceMemoryError) as caught:
        run(step)
    assert caught.value.__cause__ is failures[-1]


def arrow_texts(ids):
    return pytest.importorskip("pyarrow").array(ids).dictionary_encode()


@pytest.mark.parametrize("made", [list, np.array, lambda ids: np.array(ids, object), arrow_texts])
def test_samples_are_separated_by_texts(made):
    languages = ["de", "en", "fr", "en"] * 10
    sizes = list(range(1, 41))
    plan = sab.plan(sizes, budget=100, separate_by=made(languages))
    same = sab.plan(sizes, budget=100, separate_by=[0, 1, 2, 1] * 10)
    assert plan.fingerprint == same.fingerprint
    for batch in sab.BucketSampler(plan).batches():
        assert {languages[i] for i in batch.indices} == {["de", "en", "fr"][batch.id]}
    shapes = {"de": 2, "en": 3, "fr": 2}
    given = sab.plan(sizes, budget=100, separate_by=made(languages), max_shapes=shapes)
    same = sab.plan(sizes, budget=100, separate_by=[0, 1, 2, 1] * 10, max_shapes={0: 2, 1: 3, 2: 2})
    assert given.fingerprint == same.fingerprint
    with pytest.raises(ValueError, match="max_shapes has the ids"):
        sab.plan(sizes, budget=100, separate_by=made(languages), max_shapes={"de": 2})
    with pytest.raises(TypeError, match=r"separate_by\[1\] = 1: must be a text"):
        sab.plan([1, 2], budget=100, separate_by=["de", 1])


@pytest.mark.parametrize(
    "call, rule",
    [
        (lambda: sab.plan(LENGTHS, 16, padding=0), "padding = 0: must be above 0 and below 1"),
        (lambda: sab.plan(LENGTHS, 16, max_shapes=0), "max_shapes = 0: must be at least 1"),
        (
            lambda: sab.plan(LENGTHS, 16, batch_size_multiple=0),
            "batch_size_multiple = 0: must be at least 1",
        ),
        (lambda: sab.BucketSampler(PLAN, world_size=0), "world_size = 0: must be at least 1"),
        (lambda: sab.BucketSampler(PLAN, micro_batches=0), "micro_batches = 0: must be at least 1"),
        (
            lambda: sab.BalancedSampler(LENGTHS, budget=16, fill=0),
            "fill = 0: must be above 0 and at most 1",
        ),
        (
            lambda: sab.BaguaBatchSampler(LENGTHS, budget=0),
            "budget = 0: must be finite and above 0",
        ),
        (lambda: sab.plan_step(LENGTHS, budget=16, multiple=0), "multiple = 0: must be at least 1"),
        (
            lambda: sab.measurement_points(1, 9, max_count=4, degree=0),
            "degree = 0: must be at least 1",
        ),
        (
            lambda: sab.MemoryModel.fit([(1, 2)], [1.0], coverage=0),
            "coverage = 0: must be above 0 and below 1",
        ),
        (lambda: sab.find_thresholds(LENGTHS, 1, num_trials=0), "num_trials = 0: must be at least"),
        (lambda: sab.Cache("memory:", flush_interval=0), "flush_interval = 0: must be above 0"),
        (lambda: sab.Cache("memory:", timeout=0), "timeout = 0: must be above 0 and at most 1000"),
        (lambda: sab.Stream.random().readahead(read_ahead=0, budget=9), "read_ahead = 0: must be"),
        (lambda: sab.Stream.random().pack(9, read_ahead=0), "read_ahead = 0: must be at least 1"),
    ],
)
def test_zero_is_no_default(call, rule):  # as it is in C
    assert message_of(call).startswith(rule)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: sab.plan(LENGTHS, 16, buckets=2, padding=0.05),
            "padding = 0.05: must not be given with boundaries or a number of buckets",
        ),
        (
            lambda: sab.plan(LENGTHS, 16, buckets=2, max_shapes=3),
            "max_shapes = 3: must not be given with boundaries or a number of buckets",
        ),
        (
            lambda: sab.find_thresholds(LENGTHS, 1, num_trials=7),
            "num_trials = 7: goes with 'randomised' only",
        ),
        (
            lambda: sab.find_thresholds(LENGTHS, 1, tolerate=7),
            "tolerate + 1 = 8: goes with 'randomised' only",
        ),
        (lambda: sab.find_thresholds(LENGTHS, 1, seed=7), "seed = 7: goes with 'randomised' only"),
        (
            lambda: sab.OrderedSampler(None, LENGTHS, budget=-1),
            "budget = -1: must be finite and at least 0",
        ),
        (lambda: sab.Cache("memory:", load_wait=-1), "load_wait = -1: must be at least 0"),
        (
            lambda: next(sab.Stream.from_items([1, 2]).pack(-1, key=float)),
            "capacity = -1: must be finite and above 0",
        ),
    ],
)
def test_options_without_an_effect_or_out_of_range(call, message):
    assert message_of(call) == message


def test_a_cache_does_not_wait():
    assert sab.Cache("memory:", load_wait=0).get_or_load("a", lambda key: key + "b") == "ab"
