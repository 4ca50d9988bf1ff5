"""sab.compat.bionemo against the published documentation of bionemo-size-aware-batching 1.0.0:
outputs word for word, errors, loggers."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import BatchSampler, Sampler, SequentialSampler, default_collate

from sab.compat.bionemo import sampler as sampler_module
from sab.compat.bionemo.sampler import (
    BucketBatchSampler,
    SizeAwareBatchSampler,
    size_aware_batching,
)
from sab.compat.bionemo.utils import Buckets, create_buckets

BOUNDARIES = torch.tensor([0, 6, 15, 25])
DATASET = [torch.tensor(pair) for pair in ([1, 2], [3, 4], [5, 6], [7, 8], [9, 10])]


def bucket_sampler(
    shuffle=True,
    seed=0,
    base=BatchSampler,
    shared=None,
    individual=None,
    sizes=None,
    boundaries=BOUNDARIES,
):
    return BucketBatchSampler(
        sizes=torch.arange(25) if sizes is None else sizes,
        bucket_boundaries=boundaries,
        base_batch_sampler_class=base,
        base_batch_sampler_shared_kwargs={"drop_last": False} if shared is None else shared,
        base_batch_sampler_individual_kwargs={"batch_size": [2, 3, 5]}
        if individual is None
        else individual,
        shuffle=shuffle,
        generator=torch.Generator().manual_seed(seed) if shuffle else None,
    )


def test_create_buckets_documented():
    sizes = torch.tensor([1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 22, 22, 22, 22])
    buckets = create_buckets(sizes, max_width=5, min_bucket_count=10)
    assert isinstance(buckets, Buckets)
    assert str(buckets.bucket_boundaries) == "tensor([ 1,  6, 11, 16, 21, 23])"
    assert str(buckets.bucket_sizes) == "tensor([12,  0,  0,  0,  4])"
    buckets = create_buckets(torch.arange(20), max_width=10, min_bucket_count=5)
    assert str(buckets.bucket_boundaries) == "tensor([ 0,  5, 10, 15, 20])"
    assert str(buckets.bucket_sizes) == "tensor([5, 5, 5, 5])"


def test_create_buckets_takes_negative_integers():
    assert create_buckets(torch.arange(20) - 7, 10, 5).bucket_boundaries.tolist() == [
        -7,
        -2,
        3,
        8,
        13,
    ]


@pytest.mark.parametrize(
    "arguments, error",
    [
        (([1, 2], 1, 1), TypeError),
        ((torch.ones(2, 2, dtype=torch.int64), 1, 1), ValueError),
        ((torch.tensor([1.5]), 1, 1), ValueError),
        ((torch.tensor([], dtype=torch.int64), 1, 1), ValueError),
        ((torch.arange(3), 0, 1), ValueError),
        ((torch.arange(3), 1.5, 1), ValueError),
        ((torch.arange(3), 1, 0), ValueError),
        ((torch.arange(3), 1, "1"), ValueError),
    ],
)
def test_create_buckets_errors(arguments, error):
    with pytest.raises(error):
        create_buckets(*arguments)


def test_size_aware_batching_documented():
    batches = list(size_aware_batching(DATASET, lambda x: x.numel(), 4, collate_fn=default_collate))
    assert (
        str(batches)
        == "[tensor([[1, 2],\n        [3, 4]]), tensor([[5, 6],\n        [7, 8]]), tensor([[ 9, "
        "10]])]"
    )


def test_size_aware_batch_sampler_documented():
    batch_sampler = SizeAwareBatchSampler(
        sampler=SequentialSampler(DATASET), sizeof=lambda i: DATASET[i].numel(), max_total_size=4
    )
    assert str(list(batch_sampler)) == "[[0, 1], [2, 3], [4]]"


def test_size_aware_skips_with_a_warning_and_reports():
    warned, told = [], []
    batches = list(
        size_aware_batching(
            [1, 9, 2, 3], lambda x: x, 4, info_logger=told.append, warn_logger=warned.append
        )
    )
    assert batches == [[1, 2], [3]]
    assert warned[0] == "Size of element 9 exceeds max_total_size (9 > 4), skipping"
    assert warned[1].startswith("3 samples were batched from 4 of the input data.")
    assert told[0].startswith("Batched 3 samples into 2 batches.")


def test_size_aware_errors():
    with pytest.raises(TypeError):
        list(size_aware_batching([1], 3, 4))
    with pytest.raises(TypeError):
        SizeAwareBatchSampler("abc", lambda i: 1, 4)
    with pytest.raises(TypeError):
        SizeAwareBatchSampler(3, lambda i: 1, 4)
    with pytest.raises(TypeError):
        SizeAwareBatchSampler([1], 3, 4)
    with pytest.raises(ValueError):
        SizeAwareBatchSampler([1], lambda i: 1, "4")
    with pytest.raises(
        RuntimeError, match="sizeof raises error at data=1: division by zero"
    ) as caught:
        list(size_aware_batching([1], lambda x: x / 0, 4))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_bucket_batch_sampler_unshuffled_documented():
    assert (
        str(list(bucket_sampler(shuffle=False)))
        == "[[0, 1], [2, 3], [4, 5], [6, 7, 8], [9, 10, 11], [12, 13, 14], [15, 16, 17, 18, 19], "
        "[20, 21, 22, 23, 24]]"
    )


def test_bucket_batch_sampler_shuffled_documented():
    batch_sampler = bucket_sampler()
    assert str(list(batch_sampler)) == (
        "[[24, 17, 16, 22, 19], [2, 5], [12, 10, 11], [3, 0], [15, 18, 20, 21, 23], [7, 13, 6], "
        "[14, 9, 8], [1, 4]]"
    )
    assert str(list(batch_sampler)) == (
        "[[14, 9, 13], [23, 16, 20, 21, 15], [5, 0], [8, 10, 11], [17, 24, 22, 18, 19], [12, 6, "
        "7], [4, 2], [3, 1]]"
    )


def test_bucket_batch_sampler_of_size_aware_documented():
    item_costs = torch.arange(25).tolist()
    batch_sampler = bucket_sampler(
        base=SizeAwareBatchSampler,
        shared={"sizeof": lambda index: item_costs[index], "max_total_size": 40},
        individual={},
    )
    assert str(list(iter(batch_sampler))) == (
        "[[24], [2, 5, 3, 0, 1, 4], [12, 10, 11, 7], [13, 6, 14], [17, 16], [22], [19, 15], [9, "
        "8], [18, 20], [21], [23]]"
    )


def test_loggers_do_not_change_the_batches():
    costs, warned = torch.arange(25).tolist(), []
    shared = {"sizeof": lambda index: costs[index], "max_total_size": 20}
    quiet = bucket_sampler(base=SizeAwareBatchSampler, shared=shared, individual={})
    told = bucket_sampler(
        base=SizeAwareBatchSampler, shared={**shared, "warn_logger": warned.append}, individual={}
    )
    assert list(quiet) == list(told)
    assert sum("exceeds max_total_size" in line for line in warned) == 4


def test_attributes():
    batch_sampler = bucket_sampler(shuffle=False, boundaries=torch.tensor([25, 15, 0, 6]))
    assert batch_sampler.bucket_boundaries.tolist() == [0, 6, 15, 25]
    assert (
        batch_sampler.num_buckets == 3
        and batch_sampler.num_samples == 25
        and len(batch_sampler) == 8
    )
    assert batch_sampler.bucket_sizes.tolist() == [6, 9, 10]
    assert batch_sampler.bucket_element_indices[0] == [0, 1, 2, 3, 4, 5]
    assert [base.batch_size for base in batch_sampler.base_batch_samplers] == [2, 3, 5]
    assert sorted(sampler_module.__all__) == [
        "BucketBatchSampler",
        "Real",
        "SizeAwareBatchSampler",
        "size_aware_batching",
    ]


class Plain(BatchSampler):
    """A base class that the core does not know, so that the plain path runs."""


@pytest.mark.parametrize("drop_last", [False, True])
def test_core_and_plain_path_agree_unshuffled(drop_last):
    sizes = torch.from_numpy(
        np.random.default_rng(0).normal(0, 10, 200)
    )  # negative and fractional sizes
    boundaries = torch.tensor([-10.5, 0, 3, 20])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        passes = [
            list(
                bucket_sampler(
                    False,
                    base=base,
                    shared={"drop_last": drop_last},
                    sizes=sizes,
                    boundaries=boundaries,
                )
            )
            for base in (BatchSampler, Plain)
        ]
    assert passes[0] == passes[1]


@pytest.mark.parametrize("base", [BatchSampler, Plain])
def test_shuffled_pass_covers_every_element_once(base):
    batch_sampler = bucket_sampler(base=base, sizes=torch.randint(0, 25, (500,)))
    for _ in range(3):
        batches = list(batch_sampler)
        assert sorted(sum(batches, [])) == list(range(500))
        assert len(batches) == len(batch_sampler)


def test_generator_goes_on_where_a_pass_ended():
    first, second = bucket_sampler(seed=5), bucket_sampler(seed=5)
    one = [list(first), list(first)]
    two = [list(second)]
    fresh = torch.Generator()
    fresh.set_state(second.generator.get_state())
    second.generator = fresh
    two.append(list(second))
    assert one == two
    assert torch.rand(1, generator=first.generator) == torch.rand(1, generator=second.generator)


def test_outside_elements_warn_and_are_skipped():
    with pytest.warns(
        UserWarning, match="5 elements are outside the buckets provided and will be skipped"
    ):
        batch_sampler = bucket_sampler(shuffle=False, sizes=torch.arange(30))
    assert sorted(sum(batch_sampler, [])) == list(range(25))
    with pytest.raises(RuntimeError, match="outside the bucket ranges"):
        bucket_sampler(sizes=torch.arange(30) + 100)


def test_sizeof_that_raises_comes_through_the_core():
    def sizeof(index):
        raise KeyError(index)

    batch_sampler = bucket_sampler(
        base=SizeAwareBatchSampler, shared={"sizeof": sizeof, "max_total_size": 40}, individual={}
    )
    with pytest.raises(RuntimeError, match="sizeof raises error at data=") as caught:
        list(batch_sampler)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    "change, error",
    [
        ({"sizes": [1, 2]}, TypeError),
        ({"sizes": torch.ones(2, 2)}, ValueError),
        ({"sizes": torch.ones(2, dtype=torch.bool)}, ValueError),
        ({"boundaries": [1, 2]}, TypeError),
        ({"boundaries": torch.ones(2, 2)}, ValueError),
        ({"boundaries": torch.tensor([1])}, ValueError),
        ({"boundaries": torch.tensor([0, 6, 6, 25])}, ValueError),
        ({"boundaries": torch.tensor([True, False])}, ValueError),
        ({"shuffle": 1}, TypeError),
        ({"base": int}, TypeError),
        ({"shared": [1]}, TypeError),
        ({"shared": {1: 2}}, TypeError),
        ({"individual": [1]}, TypeError),
        ({"individual": {1: [2]}}, TypeError),
        ({"individual": {"batch_size": [1, 2]}}, ValueError),
    ],
)
def test_bucket_batch_sampler_errors(change, error):
    with pytest.raises(error):
        bucket_sampler(**change)


def test_a_sampler_subclass_of_ones_own():
    class Pairs(Sampler):
        def __init__(self, data_source):
            self.data_source = data_source

        def __iter__(self):
            return iter([self.data_source[i : i + 2] for i in range(0, len(self.data_source), 2)])

    batch_sampler = bucket_sampler(base=Pairs, shared={}, individual={})
    assert sorted(sum(batch_sampler, [])) == list(range(25))
    with pytest.raises(TypeError):
        len(batch_sampler)
