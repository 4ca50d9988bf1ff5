"""Rounded lengths of packed and balanced samplers: conversion, errors and layouts of them."""

import pickle

import numpy as np
import pytest

import sab

SIZES = np.random.default_rng(0).integers(1, 60, 300)


@pytest.mark.parametrize("method", ["shuffled", "best_fit", "concat"])
def test_batches_and_blocks_say_both_lengths(method):
    sampler = sab.PackedSampler(SIZES, 96, method=method, length_multiple=8, row_multiple=32)
    batches = list(sampler.batches())
    for batch in batches:
        true, laid = np.diff(batch.cu_seqlens_unpadded), np.diff(batch.cu_seqlens)
        assert (laid == -(-true // 8) * 8).all() and true.sum() == batch.total
        assert batch.padded_length == -(-batch.cu_seqlens[-1] // 32) * 32 <= 96
    again = pickle.loads(pickle.dumps(sampler))
    assert again.batch(0).cu_seqlens_unpadded.tolist() == batches[0].cu_seqlens_unpadded.tolist()
    sampler.set_epoch(0)
    block = next(sampler.blocks())
    begin = int(block.offsets[1]) + 1
    part = block.cu_seqlens_unpadded[begin : begin + batches[1].count + 1]
    assert part.tolist() == batches[1].cu_seqlens_unpadded.tolist()
    plain = sab.PackedSampler(SIZES, 96, method=method).batch(0)
    assert plain.cu_seqlens_unpadded is None


def test_columns_have_multiples_each():
    sizes = {"images": SIZES % 4, "tokens": SIZES}
    for sampler in (
        sab.PackedSampler(
            sizes, {"images": 8, "tokens": 96}, length_multiple={"tokens": 16}, row_multiple=4
        ),
        sab.BalancedSampler(
            sizes, budget={"images": 8, "tokens": 96}, length_multiple={"tokens": 16}
        ),
    ):
        batch = sampler.batch(0)
        assert (np.diff(batch.cu_seqlens["tokens"]) % 16 == 0).all()
        images = batch.cu_seqlens["images"].tolist()
        assert batch.cu_seqlens_unpadded["images"].tolist() == images


def test_a_packing_has_the_bins_of_the_sampler():
    packing = sab.Packing(sab.Histogram(SIZES), 96, length_multiple=8)
    rows = list(sab.PackedSampler(SIZES, 96, method="best_fit", length_multiple=8))
    numbers = [int((SIZES[:place] == size).sum()) for place, size in enumerate(SIZES)]
    places = packing.locate(SIZES, numbers)
    found = zip(places.batches, places.slots)
    assert all(rows[row][slot] == place for place, (row, slot) in enumerate(found))
    assert pickle.loads(pickle.dumps(packing)).info == packing.info


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: sab.PackedSampler([3], 40, length_multiple=16),
            r"^capacity = 40: must be a multiple of length_multiple = 16",
        ),
        (
            lambda: sab.PackedSampler(
                {"a": [3], "b": [3]}, {"a": 9, "b": 40}, row_multiple={"b": 16}
            ),
            r"^capacities\[1\] = 40: must be a multiple of row_multiple\['b'\] = 16",
        ),
        (
            lambda: sab.PackedSampler([3], 40, row_multiple=2.5),
            r"^row_multiple = 2.5: must be a whole number",
        ),
        (
            lambda: sab.BalancedSampler([3], budget=9, length_multiple=-1),
            r"^length_multiple = -1: must be",
        ),
        (
            lambda: sab.BalancedSampler([3], budget=9, padded=True, row_multiple=4),
            r"^row_multiple = 4: must be 0 with padded",
        ),
        (
            lambda: sab.PackedSampler({"a": [3], "b": [3]}, [9, 9], length_multiple={"c": 2}),
            r"length_multiple",
        ),
    ],
)
def test_wrong_multiples_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("options", [{}, {"method": "concat"}], ids=str)
def test_collates_lay_samples_out_by_them(options):
    jax = pytest.importorskip("sab.jax")
    torch = pytest.importorskip("sab.torch")
    sampler = sab.PackedSampler(SIZES, 96, length_multiple=8, **options)
    for batch in sampler.batches():
        samples = [{"x": np.arange(SIZES[index]) + 1} for index in batch.indices]
        row = torch.PackCollate({"x": 0})(samples, batch)
        ours = jax.PackCollate({"x": 0})(samples, batch, 1)
        assert row["x"].tolist() == ours["x"].tolist()
        true, laid = row["cu_seqlens_unpadded"].tolist(), row["cu_seqlens"].tolist()
        assert len(true) == len(laid) and true[: batch.count + 1] == (
            batch.cu_seqlens_unpadded.tolist()
        )
        for place, sample in enumerate(samples):
            start = 0 if batch.starts is None else int(batch.starts[place])
            length = true[place + 1] - true[place]
            begin, end = laid[place], laid[place + 1]
            expected = sample["x"][start : start + length].tolist() + [0] * (end - begin - length)
            assert row["x"][0, begin:end].tolist() == expected
            segments = ours["x_segment_ids"][0, begin:end].tolist()
            assert segments == [place + 1] * length + [0] * (end - begin - length)
