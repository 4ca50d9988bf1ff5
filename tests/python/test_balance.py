"""Partitions and load-balancing samplers; the order of sab.compat.bagua against its rule written
out with the installed torch."""

import math
import random
import subprocess
import sys

import numpy as np
import pytest

import sab

# Partitions


def test_partition_keeps_the_capacity():
    rng = np.random.default_rng(0)
    weights = rng.lognormal(5, 1, 640)
    costs = weights**2
    capacity = weights.sum() / 8 * 1.05
    parts = sab.partition(costs, 8, weights=weights, capacity=capacity)
    assert max(weights[part].sum() for part in parts) <= capacity
    assert (
        max(costs[part].sum() for part in parts) < 1.2 * costs.sum() / 8
    )  # unlike one by one, several for one get there
    with pytest.raises(ValueError, match="the weights sum to"):
        sab.partition(costs, 8, weights=weights, capacity=capacity / 1.06)
    with pytest.raises(ValueError, match="must have as many as costs"):
        sab.partition(costs, 8, weights=weights[1:], capacity=capacity)
    with pytest.raises(ValueError, match=r"costs\[0\] has 2 dimensions"):
        sab.partition([[[1.0]]], 1)


def test_partition_evens_out_several_costs():
    rng = np.random.default_rng(0)
    images = rng.integers(1, 6, 2048)
    costs = {"images": images, "tokens": 256 * images + rng.integers(0, 500, 2048)}
    weights = {"nodes": rng.random(2048), "edges": rng.integers(0, 50, 2048)}
    capacity = {name: 1.03 * each.sum() / 32 for name, each in weights.items()}
    parts = sab.partition(costs, 32, weights=weights, capacity=capacity)
    assert sorted(np.concatenate(parts)) == list(range(2048))
    for each in costs.values():
        assert max(each[part].sum() for part in parts) <= 1.01 * each.sum() / 32
    for name, each in weights.items():
        assert max(each[part].sum() for part in parts) <= capacity[name]
    table = np.stack(list(costs.values()), 1)
    for other in (list(costs.values()), table):
        again = sab.partition(
            other, 32, weights=list(weights.values()), capacity=[*capacity.values()]
        )
        assert all(map(np.array_equal, parts, again))


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: sab.partition({}, 2), ValueError, "costs = {}: must have at least one array"),
        (lambda: sab.partition([[1], [1, 2]], 2), ValueError, r"costs\[1\] has 2 numbers"),
        (
            lambda: sab.partition([[1]] * 9, 2),
            ValueError,
            "costs has 9 numbers for each item: must",
        ),
        (
            lambda: sab.partition({"a": [1, 2], "b": [1, float("nan")]}, 2),
            ValueError,
            r"costs\['b'\]\[1\] = nan: must be finite and at least 0",
        ),
        (
            lambda: sab.partition([1, 2], 2, weights={"a": [1, 5]}, capacity={"a": 3}),
            ValueError,
            r"capacity\['a'\] = 3: weights\['a'\]\[1\] = 5 alone is more",
        ),
        (
            lambda: sab.partition([1], 2, weights={"a": [1], "b": [1]}, capacity={"a": 3, "b": 0}),
            ValueError,
            r"capacity\['b'\] = 0: must be finite and above 0",
        ),
        (lambda: sab.partition([1], 2, capacity=3), ValueError, "capacity = 3: needs weights"),
        (
            lambda: sab.partition([1], 2, weights=[[1], [1]], capacity=[3]),
            ValueError,
            r"capacity = \[3\]: must be 2 numbers",
        ),
        (
            lambda: sab.partition([1], 2, weights={"a": [1]}, capacity={"b": 3}),
            ValueError,
            "capacity = {'b': 3}: must have the keys of weights, 'a'",
        ),
    ],
)
def test_errors_of_several_costs(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_partition_lets_ctrl_c_through_all_the_way():
    costs = np.random.default_rng(0).random(400_000)
    expected = sab.partition(costs, 100)
    seen = []
    parts = sab.partition(costs, 100, progress=lambda done, total: seen.append((done, total)))
    assert all((part == other).all() for part, other in zip(parts, expected))
    assert len(seen) >= 10 * costs.size >> 16  # called for every 65,536 items looked at
    assert seen == sorted(seen) and all(done <= total for done, total in seen)
    for at in (1, len(seen) // 2, len(seen)):
        calls = iter(range(1, at + 1))

        def interrupt(done, total):
            if next(calls) == at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sab.partition(costs, 100, progress=interrupt)
    with pytest.raises(sab.Cancelled):
        sab.partition(costs, 100, progress=lambda done, total: False)


def test_wrong_arguments_are_named():
    sampler, batches = sab.BaguaSampler, sab.BaguaBatchSampler
    for call, error, words in (
        (lambda: sab.partition(5, 2), TypeError, "costs = 5: must be numbers in one"),
        (
            lambda: sab.partition([5], 2**64),
            ValueError,
            r"parts = 18446744073709551616: must be below 2\*\*64",
        ),
        (
            lambda: sab.partition([5], 2, weights=[1], capacity="x"),
            TypeError,
            "capacity = 'x': must be a number",
        ),
        (
            lambda: sab.partition([5], 2, equal_counts="no"),
            TypeError,
            "equal_counts = 'no': must be True or False",
        ),
        (lambda: sampler([1], seed=1.5), TypeError, "seed = 1.5: must be a whole number"),
        (lambda: sampler([1], rank=1.0), TypeError, "rank = 1.0: must be a whole number"),
        (lambda: sampler([1], batch_size=2**64), ValueError, "batch_size = 18446744073709551616"),
        (lambda: sampler([1], random_level="x"), TypeError, "random_level = 'x': must be a number"),
        (lambda: sampler([1], shuffle="no"), TypeError, "shuffle = 'no': must be True or False"),
        (lambda: sampler([1], drop_last=2), TypeError, "drop_last = 2: must be True or False"),
        (lambda: sampler([1, math.nan]), ValueError, r"complexity\[1\] = -?nan: must be a number"),
        (lambda: batches([1], budget="x"), TypeError, "budget = 'x': must be a number"),
        (lambda: batches([1], 5), TypeError, "make_batches = 5: must be a function"),
    ):
        with pytest.raises(error, match=words):
            call()
    assert len(sampler([1, 2], shuffle=np.True_, drop_last=0, random_level=np.float32(0.5))) == 2


# Samplers

COMPLEXITY = [(index * 7919) % 97 for index in range(150)]


def by_rule(complexities, ranks, seed, shuffle=True, drop_last=False, random_level=0.0):
    """The samples of each rank, by the published rule."""
    torch = pytest.importorskip("torch")
    count = len(complexities)
    steps = count // ranks if drop_last else math.ceil(count / ranks)
    order, chunks = list(range(count)), list(range(steps))
    noise = [0] * count
    if shuffle:
        generator = torch.Generator().manual_seed(seed)
        most = int((max(complexities) - min(complexities)) * random_level + 1)
        noise = torch.randint(most, (count,), generator=generator).tolist()
        chunks = torch.randperm(steps, generator=generator).tolist()
    order.sort(key=lambda index: complexities[index] + noise[index])
    return [[order[(chunk * ranks + rank) % count] for chunk in chunks] for rank in range(ranks)]


def cases():
    rng = random.Random(3)
    for _ in range(150):
        count = rng.choice([1, 2, 3, 7, 8, 40, 150, 301])
        draw = rng.choice(
            [
                lambda: rng.randrange(1000),
                lambda: rng.randrange(3),
                rng.random,
                lambda: rng.randrange(-50, 50),
            ]
        )
        yield (
            [draw() for _ in range(count)],
            rng.choice([1, 2, 3, 4, 8, 17]),
            dict(
                seed=rng.choice([0, 1, 7, 2**32 + 5]),
                shuffle=rng.random() < 0.8,
                drop_last=rng.random() < 0.4,
                random_level=rng.choice([0, 0, 0.1, 0.5, 1]),
            ),
        )


def test_bagua_order_is_that_of_the_rule():
    contrib = pytest.importorskip("sab.compat.bagua.contrib")
    for complexities, ranks, options in cases():
        expected = {
            epoch: by_rule(complexities, ranks, **{**options, "seed": options["seed"] + epoch})
            for epoch in (0, 3)
        }
        for rank in {0, ranks - 1}:
            sampler = contrib.LoadBalancingDistributedSampler(
                complexities, lambda sample: sample, num_replicas=ranks, rank=rank, **options
            )
            for epoch in (0, 3):
                sampler.set_epoch(epoch)
                assert list(sampler) == expected[epoch][rank], (
                    complexities,
                    ranks,
                    rank,
                    options,
                    epoch,
                )
                assert len(sampler) == sampler.num_samples == len(expected[epoch][rank])
                assert sampler.total_size == sampler.num_samples * ranks and sampler.epoch == epoch
                chunks, order = sampler.shuffle_chunks()
                assert [chunks[i][rank] for i in order] == expected[epoch][rank]


def test_bagua_takes_numbers_of_any_type():
    contrib = pytest.importorskip("sab.compat.bagua.contrib")
    torch = pytest.importorskip("torch")
    rng = random.Random(8)
    narrow = [rng.randrange(-128, 128) for _ in range(60)]
    types = [np.int8, np.int16, np.int32] + [
        lambda each, dtype=dtype: torch.tensor(each, dtype=dtype)
        for dtype in (torch.int8, torch.int16, torch.int32)
    ]
    tiny = [-1.0 + each * 2.0**-53 for each in rng.sample(range(1000), 60)] + [-1e9, 5.0]
    huge = [2**60 + each for each in rng.sample(range(1000), 60)] + [-(2**70)]
    for values, convert, levels in [(narrow, each, (0, 0.3, 1)) for each in types] + [
        (tiny, float, (0, 1e-8)),
        (tiny[:60], float, (0, 1)),
        (huge, int, (0,)),
        (huge[:60], int, (0, 0.5)),
    ]:
        for level in levels:
            for shuffle in (True, False):
                expected = by_rule(values, 3, 11, shuffle, random_level=level)
                sampler = contrib.LoadBalancingDistributedSampler(
                    [convert(each) for each in values],
                    lambda each: each,
                    3,
                    1,
                    shuffle,
                    11,
                    random_level=level,
                )
                assert list(sampler) == expected[1]
                batches = contrib.LoadBalancingDistributedBatchSampler(
                    sampler, lambda indices: [indices]
                )
                assert batches.padded_batches == [[each] for each in expected]


def test_bagua_batches_of_an_epoch_are_made_once():
    contrib = pytest.importorskip("sab.compat.bagua.contrib")
    calls = []

    def batch_fn(indices):
        calls.append(indices)
        if len(calls) == 5:
            raise KeyError("lost")
        return uneven(indices)

    sampler = contrib.LoadBalancingDistributedSampler(list(range(20)), lambda each: each, 3, 1)
    batches = contrib.LoadBalancingDistributedBatchSampler(sampler, batch_fn)
    before = batches.padded_batches
    assert before == batches.padded_batches and before[1] == list(batches) and len(calls) == 3
    with pytest.raises(KeyError, match="lost"):
        batches.set_epoch(1)
    assert sampler.epoch == 0 and batches.padded_batches == before and list(batches) == before[1]
    batches.set_epoch(1)
    assert sampler.epoch == 1 and batches.padded_batches != before


def uneven(indices):
    """Batches of 1, 2, 3, 1, 2, ... samples, beginning where the first index says."""
    batches, size = [], 1 + (indices[0] if indices else 0) % 3
    while indices:
        batches.append(indices[:size])
        indices, size = indices[size:], 1 + size % 3
    return batches


def test_bagua_batches_are_those_of_the_rule():
    contrib = pytest.importorskip("sab.compat.bagua.contrib")
    for complexities, ranks, options in cases():
        made = [
            uneven(indices)
            for indices in by_rule(complexities, ranks, **{**options, "drop_last": False})
        ]
        for drop_last in (False, True):
            count = (min if drop_last else max)(map(len, made))
            for rank in {0, ranks - 1}:
                sampler = contrib.LoadBalancingDistributedSampler(
                    complexities,
                    lambda sample: sample,
                    ranks,
                    rank,
                    **{**options, "drop_last": False},
                )
                batches = contrib.LoadBalancingDistributedBatchSampler(sampler, uneven, drop_last)
                assert list(batches) == [made[rank][i % len(made[rank])] for i in range(count)]
                assert len(batches) == batches.total_batch == count
        assert batches.padded_batches[ranks - 1] == list(batches)
        batches.set_epoch(5)
        assert sampler.epoch == 5 and len(batches) == batches.total_batch


def test_bagua_is_a_sampler_of_torch():
    torch = pytest.importorskip("torch")
    from sab.compat.bagua.contrib import (
        LoadBalancingDistributedBatchSampler,
        LoadBalancingDistributedSampler,
    )

    dataset = torch.utils.data.TensorDataset(
        torch.arange(60.0).reshape(30, 2), torch.arange(30).flip(0)
    )
    sampler = LoadBalancingDistributedSampler(
        dataset, complexity_fn=lambda sample: sample[1], num_replicas=1, rank=0, shuffle=False
    )
    assert isinstance(sampler, torch.utils.data.Sampler)
    assert [
        labels.item() for _, labels in torch.utils.data.DataLoader(dataset, sampler=sampler)
    ] == list(range(30))
    batches = LoadBalancingDistributedBatchSampler(sampler, uneven)
    assert isinstance(batches, torch.utils.data.Sampler)
    labels = [
        labels.tolist() for _, labels in torch.utils.data.DataLoader(dataset, batch_sampler=batches)
    ]
    assert sum(labels, []) == list(range(30)) and len(labels) == len(batches)


def test_bagua_without_torch():
    program = """
import sys
sys.modules["torch"] = None
from sab.compat.bagua import contrib
sampler = contrib.LoadBalancingDistributedSampler(
    [3, 1, 2, 5], lambda sample: sample, num_replicas=2, rank=1, shuffle=False
)
batches = contrib.LoadBalancingDistributedBatchSampler(sampler, lambda indices: [indices])
print(list(sampler), list(batches))
try:
    contrib.LoadBalancingDistributedSampler([1], lambda sample: sample)
except RuntimeError as error:
    print(error)
"""
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert said == "[2, 3] [[2, 3]]\nRequires distributed package to be available\n"


def test_bagua_asks_the_process_group(tmp_path):
    torch = pytest.importorskip("torch")
    from sab.compat.bagua.contrib import LoadBalancingDistributedSampler

    if not torch.distributed.is_available():
        pytest.skip("torch is built without torch.distributed")
    with pytest.raises((RuntimeError, ValueError), match="process group"):
        LoadBalancingDistributedSampler([1], lambda sample: sample)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        sampler = LoadBalancingDistributedSampler([3, 1, 2], lambda sample: sample, shuffle=False)
        assert (sampler.num_replicas, sampler.rank, list(sampler)) == (1, 0, [1, 2, 0])
    finally:
        torch.distributed.destroy_process_group()


def test_bagua_refuses_what_the_original_does():
    contrib = pytest.importorskip("sab.compat.bagua.contrib")
    make, identity = contrib.LoadBalancingDistributedSampler, lambda sample: sample
    for rank in (2, -1):
        with pytest.raises(
            ValueError, match=rf"Invalid rank {rank}, rank should be in the interval \[0, 1\]"
        ):
            make([1, 2], identity, num_replicas=2, rank=rank)
    for level in (-0.1, 1.5):
        with pytest.raises(
            ValueError, match=rf"Invalid random level {level}, shoule be in the range \[0.0, 1.0\]"
        ):
            make([1, 2], identity, num_replicas=2, rank=0, random_level=level)
    with pytest.raises(
        ValueError, match=r"sampler should be of LoadBalancingDistributedSampler type."
    ):
        contrib.LoadBalancingDistributedBatchSampler([1, 2], uneven)
    with pytest.raises(ValueError, match="drop_last of sampler should be False"):
        contrib.LoadBalancingDistributedBatchSampler(
            make([1, 2], identity, 2, 0, drop_last=True), uneven
        )


def test_what_a_callback_raises_comes_through_and_changes_nothing():
    fails = False

    def make_batches(indices):
        if fails:
            raise KeyError("lost")
        return uneven(indices.tolist())

    sampler = sab.BaguaBatchSampler(COMPLEXITY, make_batches, world_size=2, seed=3)
    before = sampler[4].tolist()
    fails = True
    with pytest.raises(KeyError, match="lost"):
        sampler.set_epoch(1)
    with pytest.raises(KeyError, match="lost"):
        sab.BaguaBatchSampler(COMPLEXITY, make_batches)
    assert sampler.epoch == 0 and sampler[4].tolist() == before
    for wrong, error, words in (
        (
            lambda indices: [[len(COMPLEXITY)]],
            ValueError,
            r"indices\[0\] = 150: must be from 0 to below the number of samples, 150",
        ),
        (lambda indices: [[]], ValueError, "count = 0: must be at least 1"),
        (lambda indices: [[0.5]], TypeError, "must be whole numbers"),
        (lambda indices: 7, TypeError, "not iterable"),
    ):
        with pytest.raises(error, match=words):
            sab.BaguaBatchSampler(COMPLEXITY, wrong)
    with pytest.raises(ValueError, match="make_batches = None and budget = None: one must"):
        sab.BaguaBatchSampler(COMPLEXITY)
