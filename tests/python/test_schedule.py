"""Schedules: the batches of all ranks of an epoch, through Arrow."""

import gc
import weakref

import numpy as np
import pytest

import sab

SIZES = np.arange(1, 201) % 40 + 1


def samplers(**ranks):
    plan = sab.plan(SIZES, budget=200)
    return [
        sab.BucketSampler(plan, seed=3, micro_batches=2, **ranks),
        sab.SequentialSampler(plan, last_step="wrap", **ranks),
        sab.PackedSampler(SIZES, capacity=64, **ranks),
        sab.BalancedSampler(SIZES, budget=100, **ranks),
        sab.OrderedSampler(None, SIZES, budget=100, last_step="drop", **ranks),
        sab.BaguaSampler(SIZES, batch_size=4, **ranks),
    ]


def rows_of(sampler):
    """The rows that the ranks walk."""
    kinds = [type(each) for each in samplers()]
    each_rank = [samplers(rank=rank, world_size=2)[kinds.index(type(sampler))] for rank in range(2)]
    rows = [
        (batch.step, rank, position, batch.indices.tolist(), batch.padded_length)
        for rank, walked in enumerate(each_rank)
        for position, batch in enumerate(walked.batches())
    ]
    return sorted(rows, key=lambda row: (row[2], row[1]))


@pytest.mark.parametrize(
    "sampler", samplers(rank=1, world_size=2), ids=lambda each: type(each).__name__
)
def test_a_data_frame_has_the_batches_of_all_ranks(sampler):
    polars = pytest.importorskip("polars")
    table = polars.DataFrame(sampler)
    assert table.columns == ["step", "rank", "batch", "indices", "padded_length"]
    assert table.rows() == rows_of(sampler)


def test_tables_and_sql():
    pa = pytest.importorskip("pyarrow")
    duckdb = pytest.importorskip("duckdb")
    sampler = samplers(world_size=2)[0]
    table = pa.table(sampler)
    assert list(zip(*table.to_pydict().values())) == rows_of(sampler)
    assert table.schema.field("indices").type == pa.list_(pa.field("item", pa.int64(), False))
    counted = duckdb.sql("select sum(len(indices)), max(rank) from sampler").fetchall()
    assert counted == [(200, 1)]


def test_a_schedule_is_of_the_current_epoch_and_moves_nothing():
    polars = pytest.importorskip("polars")
    sampler = sab.BucketSampler(sab.plan(SIZES, budget=200))
    first, batches = polars.DataFrame(sampler), iter(sampler)
    assert next(batches).tolist() == first["indices"][0].to_list()
    assert polars.DataFrame(sampler).equals(first)
    assert next(batches).tolist() == first["indices"][1].to_list()
    sampler.set_epoch(1)
    assert not polars.DataFrame(sampler).equals(first)


def test_a_stream_keeps_the_sizes_of_its_sampler():
    pa = pytest.importorskip("pyarrow")
    sampler = sab.OrderedSampler(None, SIZES.copy(), budget=100)
    expected = [each.tolist() for each in sampler]
    alive = weakref.ref(sampler)
    reader = pa.RecordBatchReader.from_stream(sampler)
    del sampler
    gc.collect()
    assert alive() is not None
    assert reader.read_all()["indices"].to_pylist() == expected
    del reader
    gc.collect()
    assert alive() is None


def test_a_capsule_that_nobody_reads_is_released():
    sampler = samplers()[0]
    alive = weakref.ref(sampler)
    capsule = sampler.__arrow_c_stream__()
    del sampler
    gc.collect()
    assert alive() is not None
    del capsule
    assert alive() is None


def test_samplers_without_random_access_have_no_schedule():
    stream = sab.BionemoSizeAwareStream([0, 1], [3, 4], budget=9)
    assert not stream.capabilities.schedule
    with pytest.raises(sab.UnsupportedError, match="has no random access: read its batches one"):
        stream.__arrow_c_stream__()
