"""States that belong to something else: the message says what is missing or differs, with both
values."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import sab

SIZES = np.random.default_rng(3).integers(1, 60, 200)
OTHERS = SIZES[::-1].copy()


def of_plan(kind):
    return lambda sizes, **options: kind(sab.plan(sizes, budget=256), **options)


SAMPLERS: Mapping[str, Any] = {
    "BucketSampler": of_plan(sab.BucketSampler),
    "SequentialSampler": of_plan(sab.SequentialSampler),
    "PackedSampler": lambda sizes, **options: sab.PackedSampler(sizes, 64, **options),
    "BalancedSampler": lambda sizes, **options: sab.BalancedSampler(sizes, samples=9, **options),
    "ShardedSampler": lambda sizes, **options: sab.ShardedSampler(sizes, 256, **options),
    "OrderedSampler": lambda sizes, **options: sab.OrderedSampler(
        None, sizes, budget=256, **options
    ),
    "BaguaSampler": sab.BaguaSampler,
    "BaguaBatchSampler": lambda sizes, **options: sab.BaguaBatchSampler(
        sizes, budget=256, **options
    ),
}
WITH_SEED = sorted(set(SAMPLERS) - {"SequentialSampler", "OrderedSampler"})
OTHER_BUDGET = (
    "; for another budget within an epoch make the sampler with the plan of the state, restore it, "
    "and call set_budget()"
)
WAYS = {
    "BucketSampler": OTHER_BUDGET,
    "SequentialSampler": OTHER_BUDGET,
    "PackedSampler": (
        "; the rows of an epoch keep their capacity: restore it with that capacity, or begin the "
        "next epoch with set_epoch()"
    ),
    "OrderedSampler": (
        "; the batches of an epoch keep their budget: restore it with that budget, or begin the "
        "next epoch with set_epoch()"
    ),
}
DIFFERENCES = {
    "BucketSampler": "another plan or balance",
    "SequentialSampler": "another plan",
    "PackedSampler": "other sizes or options of the packing",
    "BalancedSampler": "other sizes",
    "ShardedSampler": "another plan or other shards",
    "OrderedSampler": "other indices, other sizes or another budget",
    "BaguaSampler": "other complexities or options",
    "BaguaBatchSampler": "other complexities or options",
}


def refused(sampler, state):
    """The message of a refused state, which changes nothing."""
    before = sampler.state_dict()
    with pytest.raises((TypeError, sab.MismatchError)) as caught:
        sampler.load_state_dict(state)
    assert sampler.state_dict() == before
    return str(caught.value)


@pytest.mark.parametrize("saved", SAMPLERS)
@pytest.mark.parametrize("loaded", SAMPLERS)
def test_a_state_of_another_kind_names_both_kinds(saved, loaded):
    state = SAMPLERS[saved](SIZES).state_dict()
    if saved == loaded:
        SAMPLERS[loaded](SIZES).load_state_dict(state)
        return
    # One constructor makes both of Bagua's.
    kinds = [name.replace("BaguaBatch", "Bagua") for name in (saved, loaded)]
    message = refused(SAMPLERS[loaded](SIZES), state)
    if kinds[0] == kinds[1]:
        assert message.startswith(f"state: was saved with {DIFFERENCES[saved]}: fingerprint ")
        return
    assert message == (
        f"state: was saved by another kind of sampler: it is of sab.{kinds[0]}, this sampler of "
        f"sab.{kinds[1]}"
    )


@pytest.mark.parametrize("kind", SAMPLERS)
def test_a_state_of_other_sizes_names_what_differs_and_both_fingerprints(kind):
    state = SAMPLERS[kind](OTHERS + 1).state_dict()
    found = re.fullmatch(
        rf"state: was saved with {DIFFERENCES[kind]}: fingerprint (\d+), this sampler has (\d+)"
        + re.escape(WAYS.get(kind, "")),
        refused(SAMPLERS[kind](SIZES), state),
    )
    assert found is not None and found[1] != found[2]


def test_the_fingerprints_are_those_of_the_plans():
    one, other = sab.BucketSampler(SIZES, budget=256), sab.BucketSampler(SIZES, budget=128)
    assert refused(one, other.state_dict()) == (
        f"state: was saved with another plan or balance: fingerprint {other.plan.fingerprint}, "
        f"this sampler has {one.plan.fingerprint}{OTHER_BUDGET}"
    )


@pytest.mark.parametrize("kind", WITH_SEED)
def test_a_state_of_another_seed_names_both_seeds(kind):
    state = SAMPLERS[kind](SIZES, seed=2**64 - 1).state_dict()
    words = f"state: was saved with seed {2**64 - 1}, this sampler has 7"
    assert refused(SAMPLERS[kind](SIZES, seed=7), state) == words


def test_a_state_of_another_last_step_names_both():
    state = sab.BucketSampler(SIZES, 256, last_step="drop").state_dict()
    words = "state: was saved with last_step 'drop', this sampler has 'wrap'"
    assert refused(sab.BucketSampler(SIZES, 256, last_step="wrap"), state) == words


RULE = "must be what state_dict() of the same kind gave"


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize(
    "given, words",
    [
        ({}, f"state_dict: has no 'state': {RULE}; it is empty"),
        (None, f"state_dict = None: {RULE}"),
        (b"SABS", f"state_dict = b'SABS': {RULE}"),
        ({"state": "text"}, f"state_dict: 'state' is a str, not bytes: {RULE}; its keys are 's"),
        ({"state": {0: 1}, "param_groups": []}, f"'state' is a dict, not bytes: {RULE}; its keys"),
        ({"epoch": 1, 2: 3}, f"state_dict: has no 'state': {RULE}; its keys are 'epoch', 2"),
        ({"model": {}, "sampler": {"state": b"x"}}, "'sampler'; pass state_dict['sampler']"),
    ],
)
def test_a_foreign_dictionary_says_what_is_missing(kind, given, words):
    assert words in refused(SAMPLERS[kind](SIZES), given)


def test_a_foreign_dictionary_of_a_stream():
    stream = sab.Stream.from_items([1, 2, 3])
    with pytest.raises(TypeError, match="has no 'state': must be what state_dict"):
        stream.load_state_dict({"finished": True})


def test_states_of_torch_are_foreign():
    torch = pytest.importorskip("torch")
    sampler = SAMPLERS["BucketSampler"](SIZES)
    optimizer = torch.optim.Adam([torch.zeros(2, requires_grad=True)])
    words = "state_dict: 'state' is a dict, not bytes: must be what state_dict() of the same kind "
    assert refused(sampler, optimizer.state_dict()).startswith(words)
    assert "its keys are 'weight', 'bias'" in refused(sampler, torch.nn.Linear(2, 2).state_dict())


def test_the_state_of_a_stateful_data_loader_is_foreign():
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    loader = torchdata.StatefulDataLoader(list(range(10)), batch_size=2)
    next(iter(loader))
    message = refused(SAMPLERS["BucketSampler"](SIZES), loader.state_dict())
    assert message.startswith("state_dict: has no 'state': must be what state_dict() of the same")
    assert f"its keys are {next(iter(loader.state_dict()))!r}" in message
