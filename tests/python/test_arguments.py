"""Arguments of public functions: options are keyword-only, and errors name them."""

import inspect
import math
import re

import pytest

import sab

SIZES = [3, 1, 2, 3, 4, 5, 6, 7]
PLAN = sab.plan(SIZES, budget=14)
ROWS = [(count, length) for count in (1, 2, 4, 8) for length in (10, 50, 100)]
PEAKS = [1e6 + 300 * count * length for count, length in ROWS]

# What is called, and arguments with which it succeeds.
CALLS = {
    "Sizes": (sab.Sizes, (float,), {"count": 3}),
    "plan": (sab.plan, (SIZES,), {"budget": 14}),
    "create_buckets": (sab.create_buckets, (SIZES,), {"max_width": 3, "min_bucket_count": 2}),
    "Plan.report": (PLAN.report, (), {}),
    "BucketSampler": (sab.BucketSampler, (PLAN,), {}),
    "SequentialSampler": (sab.SequentialSampler, (PLAN,), {}),
    "BucketSampler of sizes": (sab.BucketSampler, (SIZES,), {"budget": 14}),
    "SequentialSampler of sizes": (sab.SequentialSampler, (SIZES,), {"budget": 14}),
    "OrderedSampler": (sab.OrderedSampler, (None, SIZES), {"budget": 8}),
    "BionemoSizeAwareStream": (sab.BionemoSizeAwareStream, ([1], float), {"budget": 8}),
    "PackedSampler": (sab.PackedSampler, (SIZES, 8), {}),
    "BalancedSampler": (sab.BalancedSampler, (SIZES,), {"samples": 4}),
    "plan_step": (sab.plan_step, (SIZES,), {"budget": 64}),
    "StepPlan.loss_weights": (sab.plan_step(SIZES, budget=64).loss_weights, (), {}),
    "ShardedSampler": (sab.ShardedSampler, (SIZES,), {"budget": 14}),
    "BaguaSampler": (sab.BaguaSampler, (SIZES,), {}),
    "BaguaBatchSampler": (sab.BaguaBatchSampler, (SIZES,), {"budget": 9}),
    "partition": (sab.partition, ([1, 2, 3], 2), {}),
    "plan_context": (sab.plan_context, (SIZES,), {"world_size": 4, "budget": 8}),
    "find_thresholds": (sab.find_thresholds, (SIZES, 2), {}),
    "measurement_points": (sab.measurement_points, (1, 9), {"max_count": 8}),
    "MemoryModel.fit": (sab.MemoryModel.fit, (ROWS, PEAKS), {}),
    "find_max_batch": (sab.find_max_batch, (lambda *shape: None, "host"), {"max_batch_size": 4}),
    "step_in_chunks": (sab.step_in_chunks, (lambda *part: None, 4, "host"), {}),
    "collect_peak": (sab.collect_peak, (lambda item: item, [1], "host"), {}),
    "verify": (sab.verify, (PLAN, lambda batch: None, "host"), {}),
    "Probe": (sab.Probe, ("host",), {}),
    "MemoryGuard": (sab.MemoryGuard, (sab.BucketSampler(PLAN), "host"), {"budget": 1 << 40}),
    "grow_batch_size": (
        sab.grow_batch_size,
        (lambda *now: 1, 1),
        {"current": 1, "max_batch_size": 4},
    ),
    "grow_batch_size_linear": (
        sab.grow_batch_size_linear,
        (1,),
        {"start": 1, "amount": 1, "period": 2, "max_batch_size": 4},
    ),
    "grow_batch_size_doubling": (
        sab.grow_batch_size_doubling,
        (1,),
        {"start": 1, "milestones": [1], "max_batch_size": 4},
    ),
    "scale_learning_rate": (sab.scale_learning_rate, (0.1, 64), {"reference": 32}),
    "Meter": (sab.Meter, (), {}),
    "Cache": (sab.Cache, ("memory:",), {}),
    "ranks_from_mesh": (sab.ranks_from_mesh, ({"dp": 2, "tp": 2},), {"rank": 0}),
    "check_ranks": (sab.check_ranks, (sab.BucketSampler(PLAN),), {}),
}
WITH_PLAN_OPTIONS = ("ShardedSampler", "BucketSampler of sizes", "SequentialSampler of sizes")
WRONG = [-1, -1.5, math.nan, math.inf, 1 << 70, "nonsense", object(), [[1]], 0]
C_WORDS = re.compile(r"options\.|SAB_|ctype|cdata|an integer is required|to convert|struct")
ANY_VALUE = {("check_ranks", "group"), ("ShardedSampler", "group")}  # without torch.distributed


def keywords(name):
    parameters = list(inspect.signature(CALLS[name][0]).parameters.values())
    if name in WITH_PLAN_OPTIONS:
        parameters += inspect.signature(sab.plan).parameters.values()
    return [each.name for each in parameters if each.kind == each.KEYWORD_ONLY]


def errors(name, keyword):
    function, given, options = CALLS[name]
    for value in WRONG:
        try:
            function(*given, **{**options, keyword: value})
        except (ValueError, TypeError, OSError, sab.Error) as error:
            yield value, error


@pytest.mark.filterwarnings("ignore::sab.SkippedWarning")
@pytest.mark.parametrize(
    "name, keyword", [(name, keyword) for name in CALLS for keyword in keywords(name)]
)
def test_errors_name_the_keyword(name, keyword):
    found = list(errors(name, keyword))
    assert found or (name, keyword) in ANY_VALUE
    for value, error in found:
        assert re.search(rf"\b{keyword}\b", str(error)), f"{value!r}: {error}"
        assert not C_WORDS.search(str(error)), f"{value!r}: {error}"


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_this_file_succeed(name):
    function, given, options = CALLS[name]
    function(*given, **options)


def public_callables():
    for name in sab.__all__:
        value = getattr(sab, name)
        if name == "Grouped":  # made by Collection.group()
            continue
        if inspect.isclass(value) and issubclass(value, (tuple, Exception, Warning)):
            continue
        if inspect.isclass(value):
            methods = inspect.getmembers(value, inspect.isroutine)
            yield name, value
            yield from (
                (f"{name}.{method}", function)
                for method, function in methods
                if not method.startswith("_") and getattr(function, "__module__", "")
            )
        elif callable(value):
            yield name, value


@pytest.mark.parametrize(
    "name, function", list(public_callables()), ids=lambda each: str(each)[:60]
)
def test_options_are_keyword_only(name, function):
    """At most two positional arguments, and a device after them."""
    parameters = list(inspect.signature(function).parameters.values())
    if not inspect.isclass(function) and parameters and parameters[0].name == "self":
        parameters.pop(0)
    positional = [each.name for each in parameters if each.kind == each.POSITIONAL_OR_KEYWORD]
    assert len(positional) <= 2 or positional[2:] == ["device"], positional
