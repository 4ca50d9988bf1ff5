"""`sab.jax.DataLoader` and its collate functions, which need only numpy."""

import numpy as np
import pytest

import sab
import sab.jax

RANDOM = np.random.default_rng(0)
SIZES = np.minimum(RANDOM.lognormal(2.5, 0.6, 1500).astype(int) + 1, 100)
DATASET = [
    {"words": RANDOM.integers(1, 30, size), "label": index} for index, size in enumerate(SIZES)
]


def loader_of(sampler, rank=0, world_size=1, mask=None):
    collate = sab.jax.PadCollate({"words": 0}, mask=mask)
    return sab.jax.DataLoader(
        DATASET, sampler, collate_fn=collate, rank=rank, world_size=world_size
    )


def labels(data):
    return data["label"][data["weights"] == 1].tolist()


@pytest.mark.parametrize("world_size", [1, 3])
@pytest.mark.parametrize("shapes", [2, 5, 8])
def test_at_most_k_shapes_and_each_sample_once(shapes, world_size):
    plan = sab.plan(SIZES, budget=1024, max_shapes=shapes)
    seen, found = [], set()
    for rank in range(world_size):
        loader = loader_of(sab.BucketSampler(plan, rank=rank, world_size=world_size))
        assert len(loader.shapes) <= shapes
        for data in loader:
            found.add(data["words"].shape)
            assert data["words"].shape in loader.shapes
            assert data["words"].size <= 1024
            seen += labels(data)
    assert sorted(seen) == list(range(len(SIZES)))
    assert len(found) <= shapes


def test_lowered_budgets_add_no_shapes():
    sampler = sab.BucketSampler(sab.plan(SIZES, budget=1024, max_shapes=6))
    loader = loader_of(sampler)
    seen = []
    for number, data in enumerate(loader):
        if number == 3:
            sampler.set_budget(500)
        assert data["words"].shape in loader.shapes
        seen += labels(data)
    assert sorted(seen) == list(range(len(SIZES)))


def test_arrays_hold_the_samples():
    loader = loader_of(sab.BucketSampler(sab.plan(SIZES, budget=512, max_shapes=4)), mask="mask")
    short = 0
    for data in loader:
        batch = loader.batch
        weights = batch.sample_weight, batch.token_weight
        assert (loader.sample_weight, loader.token_weight) == weights
        short += batch.count < len(data["words"])
        for row, index in enumerate(batch.indices.tolist()):
            words = DATASET[index]["words"]
            assert np.array_equal(data["words"][row, : len(words)], words)
            assert not data["words"][row, len(words) :].any()
            assert data["mask"][row].sum() == len(words)
        assert not data["words"][batch.count :].any() and not data["mask"][batch.count :].any()
        assert data["weights"].tolist() == [1] * batch.count + [0] * (
            len(data["words"]) - batch.count
        )
    assert short > 0


def test_the_position_counts_the_batches_that_were_given():
    loader = loader_of(sab.BucketSampler(SIZES, budget=512, seed=3))
    assert [loader.position for _ in loader] == list(range(1, len(loader) + 1))
    loader.set_epoch(4)
    assert (loader.epoch, loader.position) == (4, 0)


@pytest.mark.parametrize("step", [1, 7, "last"])
def test_resume_is_exact(step):
    def make(rank, world_size):
        plan = sab.plan(SIZES, budget=512, max_shapes=4)
        return loader_of(sab.BucketSampler(plan, seed=3, rank=rank, world_size=world_size))

    loaders = [make(rank, 2) for rank in range(2)]
    step = len(loaders[0]) if step == "last" else step
    seen = []
    for loader in loaders:
        for _, data in zip(range(step), loader):
            seen += labels(data)
    states = [loader.state_dict() for loader in loaders]
    assert states[0] == states[1]
    (loader,) = [make(0, 1)]
    loader.load_state_dict(states[0])
    loader.set_epoch(0)  # as a training loop does: keeps the position
    for data in loader:  # nothing after the last batch
        seen += labels(data)
    assert sorted(seen) == list(range(len(SIZES)))
    loader.set_epoch(0)
    assert sorted(sum((labels(data) for data in loader), [])) == list(range(len(SIZES)))


def test_processes_divide_the_rows_of_one_batch():
    plan = sab.plan(SIZES, budget=2048, max_shapes=4)
    whole = loader_of(sab.BucketSampler(plan))
    parts = [loader_of(sab.BucketSampler(plan), rank, 3) for rank in range(3)]
    empty = 0
    for data, *own in zip(whole, *parts):
        assert len({each["words"].shape for each in own}) == 1
        assert own[0]["words"].shape in parts[0].shapes
        assert sum((labels(each) for each in own), []) == labels(data)
        assert parts[2].batch.indices.tolist() == whole.batch.indices.tolist()
        empty += not labels(own[2])
    assert empty > 0  # a rank without samples has the same fields
    assert parts[0].state_dict() == parts[2].state_dict()
    multiple = sab.plan(SIZES, budget=2048, max_shapes=4, batch_size_multiple=3)
    rows = loader_of(sab.BucketSampler(multiple), 0, 3).shapes
    assert [(3 * count, length) for count, length in rows] == loader_of(
        sab.BucketSampler(multiple)
    ).shapes


def test_columns():
    heights, widths = RANDOM.integers(2, 9, (2, 200))
    dataset = [
        {"pixels": np.ones((height, width, 3), np.uint8), "height": np.arange(height)}
        for height, width in zip(heights, widths)
    ]
    plan = sab.plan({"height": heights, "width": widths}, cost="product", budget=512, max_shapes=5)
    collate = sab.jax.PadCollate(
        {"pixels": 0, "height": -1}, columns={"pixels": ("height", "width", None)}
    )
    loader = sab.jax.DataLoader(dataset, sab.BucketSampler(plan), collate_fn=collate)
    pixels, shapes = 0, set()
    for data in loader:
        shapes.add(data["pixels"].shape)
        assert data["pixels"].dtype == np.uint8
        assert data["height"].shape == data["pixels"].shape[:2]
        pixels += int(data["pixels"].sum())
    assert len(shapes) <= 5 and pixels == 3 * int((heights * widths).sum())


@pytest.mark.parametrize("options", [{}, {"split": True}, {"method": "concat"}])
def test_rows_have_one_shape(options):
    sampler = sab.PackedSampler(SIZES, 64 if options else 128, world_size=2, **options)
    capacity = sampler.batch(0).padded_length
    loader = sab.jax.DataLoader(DATASET, sampler, collate_fn=sab.jax.PackCollate({"words": 0}))
    assert loader.shapes == [(1, capacity)]
    total = 0
    for data in loader:
        assert {array.shape for array in data.values()} == {(1, capacity)}
        segments, batch = data["words_segment_ids"][0], loader.batch
        for number, index in enumerate(batch.indices.tolist()):
            place = segments == number + 1
            start = 0 if batch.starts is None else batch.starts[number]
            piece = DATASET[index]["words"][start : start + place.sum()]
            assert np.array_equal(data["words"][0][place], piece)
            assert np.array_equal(data["words_positions"][0][place], np.arange(place.sum()))
        total += int((segments > 0).sum())
    other = sab.PackedSampler(SIZES, 64 if options else 128, world_size=2, rank=1, **options)
    assert total + sum(batch.total for batch in other.batches()) == SIZES.sum()


def test_empty_rows_of_the_last_step():
    sizes = [3] * 9
    dataset = [{"words": [1, 2, 3]} for _ in sizes]
    for rank in range(4):
        sampler = sab.PackedSampler(sizes, 6, rank=rank, world_size=4)
        loader = sab.jax.DataLoader(dataset, sampler, collate_fn=sab.jax.PackCollate({"words": 0}))
        last = list(loader)[-1]
        assert last["words"].shape == (1, 6) and last["words"].dtype == np.int64
        assert bool(last["words_segment_ids"].any()) == (loader.batch.count > 0)


def test_what_is_refused():
    plan = sab.plan(SIZES, budget=512, max_shapes=4)
    sampler = sab.BucketSampler(plan)
    with pytest.raises(TypeError, match="sampler is a BalancedSampler: must be a"):
        loader_of(sab.BalancedSampler(SIZES, budget=512))
    with pytest.raises(ValueError, match="world_size = 2: the sampler has a world size of its own"):
        loader_of(sab.BucketSampler(plan, world_size=2), 0, 2)
    with pytest.raises(ValueError, match="world_size = 2: rows are not divided"):
        loader_of(sab.PackedSampler(SIZES, 128), 0, 2)
    with pytest.raises(ValueError, match="rank = 2: must be below world_size = 2"):
        loader_of(sampler, 2, 2)
    collate = sab.jax.PadCollate({"words": 0})
    with pytest.raises(ValueError, match="dataset has 3 samples: the sampler has 1500"):
        sab.jax.DataLoader(DATASET[:3], sampler, collate_fn=collate)
    with pytest.raises(TypeError, match="padding = 0: must be a dictionary"):
        sab.jax.PadCollate(0)


@pytest.mark.parametrize(
    "sample, message",
    [
        ({"label": 3}, r"padding has 'words': the samples have \['label'\]"),
        ([1, 2], "a sample is a list: must be a dictionary"),
        ({"words": [1, 2], "text": "so"}, "field 'text' has dtype <U2: must be numbers"),
        ({"words": [1, 2], "weights": 1}, "the samples have a field 'weights'"),
        ({"words": [1] * 9}, r"sample 0 has shape \(9,\) in field 'words', .* has \(2,\)"),
        ({"words": 3}, "field 'words' has 0 dimensions: dimension 0 cannot be padded"),
    ],
)
def test_samples_that_do_not_fit_are_named(sample, message):
    sampler = sab.BucketSampler(sab.plan([2], budget=8, max_shapes=2))
    loader = sab.jax.DataLoader([sample], sampler, collate_fn=sab.jax.PadCollate({"words": 0}))
    with pytest.raises((ValueError, TypeError), match=message):
        next(iter(loader))
