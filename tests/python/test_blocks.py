"""Many batches at once: `Sampler.blocks`, and the batches that are read from blocks."""

import pathlib
import pickle
import sys

import numpy as np
import pytest

import sab

SIZES = np.random.default_rng(3).integers(1, 60, 500)


def bucket(**options):
    return sab.BucketSampler(sab.plan(SIZES, budget=400), seed=5, **options)


def boxes(**options):
    sizes = {"source": SIZES, "target": SIZES[::-1]}
    return sab.BucketSampler(sab.plan(sizes, budget=800), seed=5, **options)


def packed(**options):
    return sab.PackedSampler(SIZES, capacity=100, seed=5, **options)


def balanced(**options):
    return sab.BalancedSampler(SIZES, budget=400, seed=5, **options)


def mixed(**options):
    mixture = sab.Mixture({"a": SIZES, "b": SIZES[:100]}, repeat={"b": 2.5})
    return sab.BucketSampler(sab.plan(mixture, budget=400), seed=5, **options)


KINDS = [bucket, boxes, packed, balanced, mixed]


def of_column(value):
    return list(value.values()) if isinstance(value, dict) else [value]


def assert_same(batch, expected):
    for name, mine, theirs in zip(batch._fields, batch, expected):
        for each, other in zip(of_column(mine), of_column(theirs)):
            assert type(each) is type(other), name
            np.testing.assert_array_equal(each, other, name)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("options", [{}, {"rank": 1, "world_size": 3, "micro_batches": 2}])
def test_batches_are_those_at_their_positions(make, options):
    sampler = make(**options)
    other = make(**options)
    count = 0
    for position, batch in enumerate(sampler.batches()):
        assert_same(batch, other.batch(position))
        assert_same(pickle.loads(pickle.dumps(batch)), batch)
        count += 1
    assert count == len(other)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("most", [1, 7, 1024])
def test_blocks_are_the_batches(make, most):
    sampler, other = make(rank=1, world_size=3), make(rank=1, world_size=3)
    walk = other.batches()
    for block in sampler.blocks(most):
        count = len(block.offsets) - 1
        assert 1 <= count <= most
        assert block.indices.dtype == block.offsets.dtype == np.int64
        for i in range(count):
            batch, begin, end = next(walk), block.offsets[i], block.offsets[i + 1]
            np.testing.assert_array_equal(block.indices[begin:end], batch.indices)
            for name in ("longest", "padded_length", "total"):
                mine = [array[i] for array in of_column(getattr(block, name))]
                assert mine == of_column(getattr(batch, name))
            for name in ("bucket", "step", "micro_batch", "id"):
                assert getattr(block, name)[i] == getattr(batch, name)
            assert (block.layout, block.epoch) == (batch.layout, batch.epoch)
            for array, part in zip(of_column(block.cu_seqlens), of_column(batch.cu_seqlens)):
                if array is not None:
                    np.testing.assert_array_equal(array[begin + i : end + i + 1], part)
        assert sampler.state_dict() == other.state_dict()
    assert next(walk, None) is None
    assert sampler.state_dict() == other.state_dict()


def test_a_pass_after_blocks_is_the_next_epoch_or_the_same_again():
    sampler = bucket()
    assert next(sampler.blocks(3)).epoch == 0
    assert next(sampler.blocks(3)).step.tolist() == [0, 1, 2]
    state = sampler.state_dict()
    assert sum(len(block.step) for block in sampler.blocks()) == len(sampler)
    assert next(sampler.blocks()).epoch == 1
    sampler.load_state_dict(state)
    assert next(sampler.blocks(3)).step.tolist() == [3, 4, 5]


def test_a_budget_set_among_batches_holds_for_the_next_one():
    sampler = bucket()
    seen = []
    for batch in sampler.batches():
        seen.extend(batch.indices.tolist())
        if batch.step == 2:
            sampler.set_budget(200)
        if batch.step > 2:
            assert batch.padded_total <= 200
    assert sorted(seen) == list(range(500))


def test_without_random_access_a_block_is_a_batch():
    stream = sab.BionemoSizeAwareStream([7, 8, 9], lambda index: 2, budget=4)
    assert [block.indices.tolist() for block in stream.blocks()] == [[7, 8], [9]]


def test_batches_before_an_error_are_given():
    def size(index):
        if index == 3:
            raise KeyError(index)
        return 2

    stream = sab.BionemoSizeAwareStream([0, 1, 2, 3], size, budget=2)
    blocks = stream.blocks()
    assert [next(blocks).indices.tolist() for _ in range(2)] == [[0], [1]]
    with pytest.raises(KeyError):
        next(blocks)


@pytest.mark.parametrize("most", [0, -1])
def test_a_block_has_at_least_one_batch(most):
    with pytest.raises(ValueError, match=f"batches = {most}: must be at least 1"):
        bucket().blocks(most)


def resident(path):
    """Bytes of the file that this process has touched or that were mapped with those."""
    lines = iter(pathlib.Path("/proc/self/smaps").read_text().splitlines())
    kilobytes = 0
    for line in lines:
        if line.endswith(str(path)):
            kilobytes += next(int(of.split()[1]) for of in lines if of.startswith("Rss:"))
    return 1024 * kilobytes


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("begin", [iter, sab.BucketSampler.batches])
def test_the_first_batch_reads_little_of_a_plan_file(begin, tmp_path):
    path = tmp_path / "plan"
    sizes = np.random.default_rng(4).integers(1, 2000, 1 << 24, np.uint16)
    sab.plan(sizes, budget=20000).save(path)
    sampler = sab.BucketSampler(sab.Plan.open(path))
    before = resident(path)
    batches = begin(sampler)
    next(batches)
    first = resident(path) - before
    for _ in range(126):
        next(batches)
    assert 0 < first < (resident(path) - before) / 4  # a page of the order, and those around it
