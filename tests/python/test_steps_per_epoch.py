"""Epochs of a number of steps: each goes on where the one before stopped."""

from __future__ import annotations

import itertools
import pickle
import warnings
from typing import Any, Callable

import numpy as np
import pytest

import sab

LENGTHS = np.random.default_rng(3).integers(1, 90, 400)


def bucket(**options: Any) -> Any:
    return sab.BucketSampler(LENGTHS, budget=300, seed=2, **options)


def complexities(**options: Any) -> Any:
    return sab.BaguaSampler(LENGTHS, batch_size=3, seed=2, **options)


KINDS: dict[str, Callable[..., Any]] = {
    "bucket": bucket,
    "sequential": lambda **options: sab.SequentialSampler(LENGTHS, budget=300, **options),
    "packed": lambda **options: sab.PackedSampler(LENGTHS, 300, seed=2, **options),
    "balanced": lambda **options: sab.BalancedSampler(LENGTHS, budget=300, seed=2, **options),
    "ordered": lambda **options: sab.OrderedSampler(None, LENGTHS, budget=300, **options),
    "sharded": lambda **options: sab.ShardedSampler(
        LENGTHS, budget=300, gather=lambda each: [each], rank=0, world_size=1, **options
    ),
    "bagua": complexities,
    "bagua batches": lambda **options: sab.BaguaBatchSampler(LENGTHS, budget=300, **options),
}


def epochs_of(sampler: Any, count: int) -> list[list[int]]:
    return [batch.tolist() for _ in range(count) for batch in sampler]


@pytest.mark.parametrize("kind", KINDS)
def test_epochs_are_those_of_the_data(kind: str) -> None:
    data = epochs_of(KINDS[kind](), 4)
    sampler = KINDS[kind](steps_per_epoch=13)
    assert len(sampler) == 13
    for epoch in range(len(data) // 13):
        assert epochs_of(sampler, 1) == data[13 * epoch : 13 * (epoch + 1)]
        assert sampler.epoch == epoch
    sampler.set_epoch(2)
    assert sampler[-1].tolist() == data[38]
    assert epochs_of(sampler, 1) == data[26:39]


def test_fields_count_steps_of_the_epoch() -> None:
    sampler = bucket(steps_per_epoch=7, micro_batches=3)
    assert len(sampler) == 21
    for epoch in range(4):
        places = [(each.epoch, each.step, each.micro_batch) for each in sampler.batches()]
        assert places == [(epoch, at // 3, at % 3) for at in range(21)]
    block = next(bucket(steps_per_epoch=7, micro_batches=3).blocks(100))
    assert (block.epoch, len(block.offsets)) == (0, 22)


@pytest.mark.parametrize("given", [0, 3, 30, 50])
def test_states_go_on(given: int) -> None:
    sampler = bucket(steps_per_epoch=50)
    expected = epochs_of(bucket(steps_per_epoch=50), 3)
    walk = sampler.batches()
    for _ in range(given):
        next(walk)
    for state in (sampler.state_dict(), sampler.state_dict(step=given)):
        resumed = bucket(steps_per_epoch=50)
        resumed.load_state_dict(state)
        assert epochs_of(resumed, 3)[: 150 - given] == expected[given:][: 150 - given]
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy.state_dict() == sampler.state_dict() and len(copy) == 50


def test_wrong_numbers_are_refused() -> None:
    for wrong in (-1, 2.5, "5"):
        with pytest.raises((TypeError, ValueError), match="steps_per_epoch"):
            bucket(steps_per_epoch=wrong)
    with pytest.raises(ValueError, match=r"steps_per_epoch = 8589934592: must be at most 2\^32"):
        bucket(steps_per_epoch=1 << 33)


def test_a_schedule_of_arrow_has_the_epoch_of_the_data() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    sampler = bucket(steps_per_epoch=5)
    epochs_of(sampler, 2)
    table: Any = pyarrow.table(sampler)
    assert table.num_rows == len(bucket())


# Passes that are broken off


def take(walk: Any, batches: int) -> None:
    for _ in zip(range(batches), walk):
        pass


def test_breaking_off_twice_at_one_place_warns_once() -> None:
    sampler = bucket()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        take(sampler, 3)
    with pytest.warns(UserWarning, match=r"steps_per_epoch=.*set_epoch\(\)"):
        take(sampler, 3)


def test_breaking_off_passes_of_a_number_of_steps_has_other_advice() -> None:
    sampler = bucket(steps_per_epoch=10)
    take(sampler, 4)
    with pytest.warns(UserWarning, match=r"give steps_per_epoch= the steps that a pass takes"):
        take(sampler, 4)


@pytest.mark.parametrize("between", ["set_epoch", "another place", "one batch", "all", "within"])
def test_breaking_off_does_not_warn(between: str) -> None:
    sampler = bucket()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for turn in range(3):
            if between == "set_epoch":
                sampler.set_epoch(turn)
            batches = {"another place": 3 + turn, "one batch": 1, "all": len(sampler)}
            if between == "within":
                for _ in itertools.islice(sampler, 4 + turn):
                    take(sampler, 2)
            else:
                take(sampler, batches.get(between, 3))


# Loaders

torch = pytest.importorskip("torch")
import sab.torch


def indices(samples: list[Any]) -> list[int]:
    return samples


def loader_of(sampler: Any, **options: Any) -> Any:
    return sab.torch.DataLoader(range(400), sampler, collate_fn=indices, **options)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_goes_on(workers: int) -> None:
    data = epochs_of(bucket(), 3)
    loader = loader_of(bucket(steps_per_epoch=25), num_workers=workers)
    assert len(loader) == 25
    given: list[Any] = []
    for epoch in range(4):
        loader.set_epoch(epoch)
        for batch in loader:
            given.append(batch)
            at = len(given) - 25 * epoch
            assert (loader.epoch, loader.position) == (epoch, at)
            assert loader.batch.indices.tolist() == batch
            assert loader.step().samples == len(batch)
            if len(given) in (60, 75):  # near where an epoch of the data ends, and at the end
                resumed = loader_of(bucket(steps_per_epoch=25))
                resumed.load_state_dict(loader.state_dict())
                left = [*resumed, *resumed]
                expected = data[len(given) : len(given) + len(left)]
                assert left == expected and len(left) == 50 - at
    assert given == data[:100]


def test_breaking_off_a_loader_warns() -> None:
    loader = loader_of(bucket())
    take(loader, 3)
    with pytest.warns(UserWarning, match="steps_per_epoch="):
        take(loader, 3)


def test_a_schedule_of_learning_rates_has_all_steps() -> None:
    loader = loader_of(bucket(steps_per_epoch=17))
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=5 * len(loader))
    for _ in range(5):
        for _ in loader:
            optimizer.step()
            schedule.step()
    with pytest.raises(ValueError, match="step"):
        schedule.step()
