"""sab.torch.DataLoader: states that count what was yielded, collate functions, ranks."""

import functools
import multiprocessing.queues
import multiprocessing.reduction
import os
import pickle
import random
import types
import warnings

import numpy as np
import pytest

import sab

torch = pytest.importorskip("torch")
pytest.importorskip("sab.torch")
_advice = pytest.importorskip("sab.torch._advice")

numbers = random.Random(0)
SIZES = [numbers.randint(1, 60) for _ in range(600)]
WORDS = [torch.arange(size) + 1 for size in SIZES]
PLAN = sab.plan(SIZES, budget=300)


class Words:
    """WORDS, without tensors that are sent to workers one by one."""

    def __len__(self):
        return len(SIZES)

    def __getitem__(self, index):
        return torch.arange(SIZES[index]) + 1


def indices(samples, batch):
    assert [len(each) for each in samples] == [SIZES[index] for index in batch.indices]
    return batch.indices.tolist()


def test_workers_get_each_array_once(monkeypatch, tmp_path):
    log = tmp_path / "log"
    log.touch()

    class Pickler(multiprocessing.reduction.ForkingPickler):
        @classmethod
        def dumps(cls, obj, protocol=None):
            data = super().dumps(obj, protocol)
            with log.open("a") as file:
                print(os.getpid(), bytes(data).count(b"numpy"), file=file)
            return data

    monkeypatch.setattr(multiprocessing.queues, "_ForkingPickler", Pickler)
    loader = make(collate_fn=len_of_batch, num_workers=2, multiprocessing_context="fork")
    assert sum(loader) == len(SIZES)
    pickled = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    assert sum(has_arrays > 0 for _, has_arrays in pickled) == len(loader)
    assert all(process == os.getpid() for process, has_arrays in pickled if has_arrays)


def len_of_batch(samples, batch):
    return len(samples)


def only_samples(samples, return_tensors=None):
    assert return_tensors is None
    return len(samples)


def make(sampler=None, collate_fn=indices, **options):
    return sab.torch.DataLoader(
        Words(), sampler or sab.BucketSampler(PLAN, seed=3), collate_fn=collate_fn, **options
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_workers": 2},
        {"num_workers": 3, "prefetch_factor": 5, "persistent_workers": True},
        {"num_workers": 2, "multiprocessing_context": "fork", "pin_memory": True},
        {"num_workers": 1, "multiprocessing_context": "spawn"},
        {"num_workers": 1, "multiprocessing_context": "forkserver"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")  # of pinned memory without a device
def test_resume_is_uninterrupted(options):
    loader = make(**options)
    epochs = [list(loader), list(loader)]
    assert epochs[0] != epochs[1]
    assert sorted(sum(epochs[0], [])) == list(range(len(SIZES)))
    for at in (0, 5, len(loader) - 1, len(loader)) if len(options) < 2 else (5,):
        stopped = make(**options)
        walk = iter(stopped)
        head = [next(walk) for _ in range(at)]
        assert stopped.position == at
        state = pickle.loads(pickle.dumps(stopped.state_dict()))
        resumed = make(**options)
        resumed.load_state_dict(state)
        assert (resumed.epoch, resumed.position) == (0, at)
        assert head + list(resumed) == epochs[0]
        assert list(resumed) == epochs[1]
        assert head + list(walk) == epochs[0]  # a state changes nothing
    assert make().state_dict() == sab.BucketSampler(PLAN, seed=3).state_dict()


@pytest.mark.parametrize("workers", [0, 2])
def test_passes(workers):
    loader = make(num_workers=workers)
    first = list(loader)
    for _ in zip(range(len(loader)), loader):  # stops after len() batches
        pass
    assert loader.epoch == 1
    walk = iter(loader)
    broken_off = [next(walk) for _ in range(4)]
    assert loader.epoch == 2 and loader.position == 4
    del walk
    again = list(loader)
    assert again[:4] == broken_off and loader.epoch == 2
    loader.set_epoch(0)
    assert list(loader) == first
    next(iter(loader))
    loader.source.set_epoch(0)  # of the sampler, as many scripts do
    assert (loader.epoch, loader.position) == (0, 0) and list(loader) == first


def test_set_epoch_after_a_restore():
    loader = make()
    whole = [list(loader) for _ in range(3)]
    loader.set_epoch(1)
    for _ in zip(range(7), loader):
        pass
    state = loader.state_dict(step=7)
    resumed = make()
    resumed.load_state_dict(state)
    resumed.set_epoch(1)
    assert resumed.position == 7 and list(resumed) == whole[1][7:]
    resumed.load_state_dict(state)
    resumed.set_epoch(2)
    assert list(resumed) == whole[2]
    resumed.load_state_dict(state)
    list(resumed)
    resumed.set_epoch(1)  # the state is used up
    assert list(resumed) == whole[1]


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1), (1, 4)])
def test_resume_on_other_ranks(before, after):
    def of(rank, world_size):
        sampler = sab.BucketSampler(PLAN, seed=3, rank=rank, world_size=world_size)
        return make(sampler, num_workers=1)

    seen = []
    for rank in range(before):
        loader = of(rank, before)
        seen += [next(walk) for walk in [iter(loader)] for _ in range(5)]
        state = loader.state_dict()
    for rank in range(after):
        loader = of(rank, after)
        loader.load_state_dict(state)
        assert loader.position > 0 and loader.batch is None
        with pytest.raises(ValueError, match="sample_weight: no batch of this epoch has been"):
            assert loader.sample_weight
        seen += list(loader)
    assert sorted(sum(seen, [])) == list(range(len(SIZES)))


def test_set_ranks():
    loader = make()
    loader.set_ranks(1, 2)
    assert (loader.source.rank, loader.source.world_size) == (1, 2)
    assert list(loader) == list(make(sab.BucketSampler(PLAN, seed=3, rank=1, world_size=2)))
    walk = iter(loader)
    seen = [next(walk) for _ in range(3)]
    seen += [next(walk) for walk in [iter(of_rank(0, 2, epoch=1))] for _ in range(3)]
    for rank in range(3):
        state = loader.state_dict()
        other = make()
        other.load_state_dict(state)
        other.set_ranks(rank, 3)
        seen += list(other)
    assert sorted(sum(seen, [])) == list(range(len(SIZES)))


def of_rank(rank, world_size, epoch):
    loader = make(sab.BucketSampler(PLAN, seed=3, rank=rank, world_size=world_size))
    loader.set_epoch(epoch)
    return loader


@pytest.mark.parametrize("workers", [0, 2])
def test_a_budget_that_is_lowered_while_workers_fetch_ahead(workers):
    loader = make(num_workers=workers)
    walk = iter(loader)
    seen = [next(walk) for _ in range(6)]
    for limit in (200, 150):
        loader.source.set_budget(limit)
        assert loader.step().samples == len(seen[-1])
        seen.append(next(walk))
        assert loader.batch.indices.tolist() == seen[-1]
        assert loader.step().samples == len(seen[-1])
    state = loader.state_dict()
    rest = list(walk)
    resumed = make(num_workers=workers)
    resumed.load_state_dict(state)
    assert resumed.position == 8 and resumed.source.budget == 150
    for batches in (rest, list(resumed)):
        assert sorted(sum(seen + batches, [])) == list(range(len(SIZES)))
    again = list(resumed)  # the next epoch, with the lower budget
    assert max(len(batch) * max(SIZES[index] for index in batch) for batch in again) <= 150
    loader.set_epoch(1)
    assert list(loader) == again


@pytest.mark.parametrize("workers", [0, 1])
def test_a_rank_without_samples_in_the_last_step(workers):
    samples = [{"ids": [1] * 5, "at": at} for at in range(3)]

    def last(collate_fn, data=samples):
        sampler = sab.BucketSampler([5, 5, 5], budget=5, rank=1, world_size=2)
        options = {"collate_fn": collate_fn, "num_workers": workers}
        _, empty = sab.torch.DataLoader(data, sampler, **options)
        return empty

    padded = last(sab.torch.PadCollate({"ids": 0}, mask="mask"))
    assert padded["ids"].shape == padded["mask"].shape == (0, 5) and padded["at"].shape == (0,)
    assert padded["ids"].dtype == padded["mask"].dtype == torch.int64
    assert last(sab.torch.PadCollate(), torch.ones(3, 5, 2)).shape == (0, 5, 2)
    pairs = [([1] * 5, at) for at in range(3)]
    ids, at = last(sab.torch.PadCollate({0: 0}), pairs)
    assert ids.shape == (0, 5) and at.shape == (0,)
    assert last(None, torch.ones(3, 5)).shape == (0, 5)
    assert last(lambda many: {"x": torch.ones(len(many), 2)})["x"].shape == (0, 2)
    assert last(lambda many, batch: (len(many), batch.count)) == (0, 0)


@pytest.mark.parametrize("workers", [0, 2])
def test_steps_that_are_random_samples(workers):
    sampler = sab.BalancedSampler(SIZES, budget=300, micro_batches=8, padded=True)
    loader = sab.torch.DataLoader(
        WORDS, sampler, collate_fn=sab.torch.PadCollate(), num_workers=workers
    )
    lengths = set()
    for _ in range(3):
        lengths.add(len(loader))
        shapes = [tuple(data.shape) for data in loader]
        given = [sampler.batch(position) for position in range(len(loader))]
        assert shapes == [(batch.count, int(batch.padded_length)) for batch in given]
        assert sum(count for count, _ in shapes) == len(SIZES)
    assert lengths == {len(sampler)}


def test_batch_and_step():
    sampler = sab.BucketSampler(PLAN, seed=3, rank=1, world_size=2, micro_batches=2)
    loader = make(sampler, num_workers=2)
    with pytest.raises(ValueError, match=r"step\(\): no batch of this epoch has been yielded"):
        loader.step()
    assert loader.batch is None
    with pytest.raises(ValueError, match="sample_weight: no batch of this epoch has been yielded"):
        _ = loader.sample_weight
    same = sab.BucketSampler(PLAN, seed=3, rank=1, world_size=2, micro_batches=2)
    for seen, batch in zip(loader, same.batches()):
        assert loader.batch.indices.tolist() == seen == batch.indices.tolist()
        assert loader.step() == same.step()
        weights = batch.sample_weight, batch.token_weight
        assert (loader.sample_weight, loader.token_weight) == weights
    loader = make(sab.BucketSampler(PLAN, seed=3))
    loader.load_state_dict(same.state_dict(step=4))  # of two ranks
    assert loader.batch is None
    for given in (loader, loader.source):
        with pytest.raises(
            ValueError, match=r"must not be before position \d+, where a state of other ranks"
        ):
            given.step()


def test_collate_functions():
    counts = [len(each) for each in make()]
    assert list(make(collate_fn=only_samples)) == counts
    bound = functools.partial(lambda extra, samples, batch: batch.count + extra, 1)
    assert list(make(collate_fn=bound)) == [count + 1 for count in counts]
    assert sum(map(len, make(collate_fn=list))) == len(SIZES)  # a function of C
    with pytest.raises(TypeError, match=r"collate_fn = .* needs 3 arguments"):
        make(collate_fn=lambda a, b, c: None)
    with pytest.raises(TypeError, match="collate_fn = 5: must be a function"):
        make(collate_fn=5)
    with pytest.raises(ValueError, match=r"differ in size; pad them with sab\.torch\.PadCollate"):
        list(make(collate_fn=None))


def test_what_is_refused():
    sampler = sab.BucketSampler(PLAN)
    for name, value in (("batch_size", 8), ("shuffle", True), ("drop_last", True)):
        with pytest.raises(TypeError, match=f"{name}: the sampler decides it"):
            make(**{name: value})
    with pytest.raises(TypeError, match="batch_sampler: give the sampler of libsab"):
        make(batch_sampler=sampler)
    with pytest.raises(ValueError, match="in_order = False"):
        make(in_order=False)
    with pytest.raises(TypeError, match="sampler is a list: must be a sampler of libsab"):
        sab.torch.DataLoader(WORDS, [[0]])
    with pytest.raises(TypeError, match="dataset is a generator: must have samples by their index"):
        sab.torch.DataLoader((word for word in WORDS), sampler)
    with pytest.raises(ValueError, match=r"dataset has 5 samples: the sampler was made of 600"):
        sab.torch.DataLoader(WORDS[:5], sampler)
    stream = sab.BionemoSizeAwareStream(range(9), lambda index: 2, budget=4)
    loader = sab.torch.DataLoader(WORDS, stream, collate_fn=only_samples)
    assert list(loader) == [2, 2, 2, 2, 1]
    with pytest.raises(sab.UnsupportedError, match=r"state_dict\(\): .* has no random access"):
        loader.state_dict()


class Fetches:
    """A data set with the method that fetches many samples at once."""

    name = "of this"

    def __len__(self):
        return len(WORDS)

    def __getitem__(self, index):
        raise AssertionError("one by one")

    def __getitems__(self, several):
        return [WORDS[index] for index in several]


def test_samples_are_fetched_together():
    loader = sab.torch.DataLoader(Fetches(), sab.BucketSampler(PLAN, seed=3), collate_fn=indices)
    assert list(loader) == list(make())
    assert loader.dataset.name == "of this" and len(loader.dataset) == len(WORDS)


def test_a_loader_made_anew_of_its_parts():
    loader = make()
    remade = torch.utils.data.DataLoader(
        loader.dataset, batch_sampler=loader.batch_sampler, collate_fn=loader.collate_fn
    )
    assert list(remade) == list(make())
    assert loader.dataset[3].tolist() == WORDS[3].tolist()


def test_pad_collate():
    samples = [
        {"ids": word.tolist(), "labels": word.numpy(), "at": at} for at, word in enumerate(WORDS)
    ]
    collate = sab.torch.PadCollate({"ids": 0, "labels": -100}, mask="attention_mask")
    loader = sab.torch.DataLoader(samples, sab.BucketSampler(PLAN), collate_fn=collate)
    for data in loader:
        batch = loader.batch
        shape = (batch.count, int(batch.padded_length))
        assert data["at"].tolist() == batch.indices.tolist()
        assert data["ids"].shape == data["labels"].shape == data["attention_mask"].shape == shape
        for row, index in enumerate(batch.indices):
            size = SIZES[index]
            assert data["ids"][row].tolist() == WORDS[index].tolist() + [0] * (shape[1] - size)
            assert data["labels"][row, size:].eq(-100).all()
            assert data["attention_mask"][row].tolist() == [1] * size + [0] * (shape[1] - size)
    pairs = [(word, word[:1]) for word in WORDS]
    words, firsts, mask = next(
        iter(
            sab.torch.DataLoader(
                pairs,
                sab.BucketSampler(PLAN),
                collate_fn=sab.torch.PadCollate({0: 0}, mask="mask"),
            )
        )
    )
    assert words.shape == mask.shape and firsts.shape == (len(words), 1)


def test_pad_collate_of_several_columns():
    sizes = {name: [numbers.randint(1, 9) for _ in range(300)] for name in ("height", "width")}
    pictures = [torch.ones(3, h, w) for h, w in zip(*sizes.values())]
    sampler = sab.BucketSampler(sab.plan(sizes, cost="product", budget=400))
    collate = sab.torch.PadCollate(columns=(None, "height", "width"))
    loader = sab.torch.DataLoader(pictures, sampler, collate_fn=collate)
    total = 0
    for data in loader:
        length = loader.batch.padded_length
        assert data.shape == (loader.batch.count, 3, int(length["height"]), int(length["width"]))
        total += int(data.sum())
    assert total == sum(each.numel() for each in pictures)
    with pytest.raises(ValueError, match=r"columns: None is not among .* 'height', 'width'"):
        next(iter(sab.torch.DataLoader(pictures, sampler, collate_fn=sab.torch.PadCollate())))


@pytest.mark.parametrize("options", [{}, {"split": True}, {"method": "concat"}], ids=str)
def test_pack_collate(options):
    samples = [{"ids": word, "labels": word, "at": at} for at, word in enumerate(WORDS)]
    sampler = sab.PackedSampler(SIZES, capacity=50 if options else 80, **options)
    collate = sab.torch.PackCollate({"ids": 0, "labels": -100}, first={"labels": -1}, mask="mask")
    seen = []
    loader = sab.torch.DataLoader(samples, sampler, collate_fn=collate, num_workers=1)
    for row in loader:
        batch = loader.batch
        capacity = int(batch.padded_length)
        assert row["ids"].shape == row["position_ids"].shape == (1, capacity)
        ends = row["cu_seqlens"].tolist()
        assert ends[: batch.count + 1] == batch.cu_seqlens.tolist() and ends[-1] == capacity
        assert row["cu_seqlens"].dtype == torch.int32
        assert row["max_seqlen"] == max(np.diff(ends))
        expected = [place for size in np.diff(ends) for place in range(size)]
        assert row["position_ids"][0].tolist() == expected
        sequence = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        assert (row["mask"][0, 0].numpy() == (sequence[:, None] == sequence)).all()
        for index, begin, end in zip(batch.indices, ends, ends[1:]):
            ids = row["ids"][0, begin:end].tolist()
            assert row["labels"][0, begin:end].tolist() == [-1, *ids[1:]]
            seen += [(int(index), token) for token in ids]
    assert sorted(seen) == [(at, token) for at, word in enumerate(WORDS) for token in word.tolist()]


def test_pack_collate_of_rows_without_capacity():
    sampler = sab.BalancedSampler(SIZES[:50], budget=200, micro_batches=3)
    samples = [{"ids": word, "at": at} for at, word in enumerate(WORDS[:50])]
    collate = sab.torch.PackCollate({"ids": 0}, mask="mask", causal=True)
    loader = sab.torch.DataLoader(samples, sampler, collate_fn=collate)
    rows = list(loader)
    assert sum(row["ids"].numel() for row in rows) == sum(SIZES[:50])
    assert not any(row["mask"].triu(1).any() for row in rows)
    few = sab.BalancedSampler([5, 5, 5], samples=2, micro_batches=2)
    empty = next(batch for batch in few.batches() if batch.count == 0)
    assert collate(samples[:1], empty)["ids"].shape == (1, 0)
    with pytest.raises(ValueError, match="give any one sample of the data set"):
        collate([], empty)


@pytest.mark.parametrize(
    "options", [{}, {"split": True}, {"method": "concat"}, {"max_sequences": 4}], ids=str
)
@pytest.mark.parametrize("multiple", [0, 8])
def test_static_rows_have_one_shape(options, multiple):
    samples = [{"ids": word, "labels": word} for word in WORDS]
    capacity = 48 if "split" in options or "method" in options else 80
    sampler = sab.PackedSampler(SIZES, capacity, length_multiple=multiple, world_size=3, **options)
    collate = sab.torch.PackCollate({"ids": 0, "labels": -100}, static=True)
    loader = sab.torch.DataLoader(samples, sampler, collate_fn=collate)
    shapes, seen, total, lengths = set(), 0, 0, set()
    for row in loader:
        batch, ends = loader.batch, row["cu_seqlens"].tolist()
        shapes.add((row["ids"].shape, row["position_ids"].shape, len(ends), row["max_seqlen"]))
        lengths.update(np.diff(ends))
        assert ends[: batch.count + 1] == batch.cu_seqlens.tolist() and ends[-1] == capacity
        true = ends if batch.cu_seqlens_unpadded is None else row["cu_seqlens_unpadded"].tolist()
        is_token = np.zeros(capacity, bool)
        for begin, length in zip(ends[: batch.count], np.diff(true)):
            is_token[begin : begin + length] = True
        assert ((row["labels"][0] != -100).numpy() == is_token).all()
        expected = [place for size in np.diff(ends) for place in range(size)]
        assert row["position_ids"][0].tolist() == expected
        seen += int(is_token.sum())
        total += batch.total
    [(shape, _, count, longest)] = shapes
    assert shape == (1, capacity) and max(lengths) <= longest
    assert "max_sequences" not in options or count == 4 + -(-capacity // longest) + 1
    assert seen == total


@pytest.mark.parametrize("static", [True, False])
def test_rows_without_samples_are_like_the_others(static):
    samples = [{"x": torch.zeros(5, 4), "y": np.zeros(5, np.int16), "z": 1.5}] * 2
    collate = sab.torch.PackCollate({"x": np.nan, "y": 7}, first={"y": 1}, static=static)
    rows = {}
    for rank in range(3):
        sampler = sab.BalancedSampler([5, 5], budget=10, world_size=3, rank=rank)
        [row] = sab.torch.DataLoader(samples, sampler, collate_fn=collate)
        rows[next(sampler.batches()).count] = row
    assert sorted(rows) == [0, 1]  # the empty one is the first that its rank sees
    assert [rows[count]["z"].shape for count in (0, 1)] == [(0,), (1,)]
    kinds = [
        {
            name: (each.dtype, each.shape if static else (1, *each.shape[2:]))
            for name, each in row.items()
            if name not in ("z", "max_seqlen")
        }
        for row in rows.values()
    ]
    assert kinds[0] == kinds[1]
    assert rows[0]["x"].isnan().all() and (rows[0]["y"] == 7).all()


def test_static_rows_of_other_samplers():
    for budget in (16, np.int64(16), [16.0], sab.Budget(16)):
        rows = sab.torch.StaticRows.of(sab.BalancedSampler([3, 9, 4], budget=budget, fill=1))
        assert rows == (16, 3, 9) and isinstance(rows.length, int)
    named = sab.BalancedSampler({"tokens": [3, 9]}, budget={"tokens": 16})
    assert sab.torch.StaticRows.of(named).length == 16
    sizes = {"images": [1, 3, 2, 2], "tokens": [50, 10, 40, 60]}
    packed = sab.PackedSampler(sizes, capacity={"images": 4, "tokens": 100})
    assert sab.torch.StaticRows.of(packed).sequences == {"images": 2, "tokens": 2}
    mixture = sab.Mixture({"a": [5, 4], "b": [7]}, repeat={"a": 2.0})
    assert sab.torch.StaticRows.of(sab.PackedSampler(mixture, capacity=16)).sequences == 4
    for sampler, error, message in (
        (sab.BalancedSampler([3, 4], samples=2), ValueError, "is no number of tokens"),
        (sab.BalancedSampler([3, 4], budget=[9, 9]), ValueError, "is no number of tokens"),
        (sab.BalancedSampler([3, 4], budget=9.5), ValueError, "budget = 9.5: must be a whole"),
        (sab.BucketSampler(PLAN), TypeError, "must be a PackedSampler or a BalancedSampler"),
    ):
        with pytest.raises(error, match=message):
            sab.torch.StaticRows.of(sampler)
    for shape, error, message in (
        (("a", 3, 7), TypeError, "length = 'a': must be a whole number"),
        ((8, 3.5, 7), TypeError, "sequences = 3.5: must be a whole number"),
        ((8, 3, {"tokens": 0}), ValueError, r"max_seqlen\['tokens'\] = 0: must be at least 1"),
    ):
        with pytest.raises(error, match=message):
            sab.torch.PackCollate({"x": 0}, static=sab.torch.StaticRows(*shape))
    batch = sab.PackedSampler([2, 3], capacity=6).batch(0)
    samples = [{"x": [1] * size} for size in ((2, 3)[index] for index in batch.indices)]
    with pytest.raises(ValueError, match="static = True: needs a loader"):
        sab.torch.PackCollate({"x": 0}, static=True)(samples, batch)
    with pytest.raises(ValueError, match="static: sequences of a row is 2: must be at most 1"):
        sab.torch.PackCollate({"x": 0}, static=sab.torch.StaticRows(6, 1, 3))(samples, batch)


class FewBytes:
    """torch.cuda of a process whose device is nearly full."""

    def __init__(self, reserved, is_expandable):
        self.reserved, self.is_expandable = reserved, is_expandable

    def is_initialized(self):
        return True

    def current_device(self):
        return 0

    def get_device_properties(self, device):
        return types.SimpleNamespace(total_memory=100)

    def memory_reserved(self, device):
        return self.reserved

    def memory_snapshot(self):
        return [{"is_expandable": self.is_expandable}]


@pytest.mark.parametrize(
    ("reserved", "is_expandable", "cudnn", "lengths", "expected"),
    [
        (95, False, False, 65, ["PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"]),
        (95, True, True, 65, ["TORCH_CUDNN_SDPA_DEPRIORITIZED=1"]),
        (95, False, True, 64, []),
        (50, False, False, 65, []),
    ],
)
def test_settings_that_many_shapes_make_dear_are_named_once(
    monkeypatch, reserved, is_expandable, cudnn, lengths, expected
):
    monkeypatch.setattr(_advice, "_given", set())
    monkeypatch.setattr(_advice, "_prefers_cudnn", lambda: cudnn)
    monkeypatch.setattr(torch, "cuda", FewBytes(reserved, is_expandable))
    words = [torch.ones(1 + place % lengths) for place in range(200)]
    plan = sab.plan([len(word) for word in words], batch_size=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            loader = sab.torch.DataLoader(
                words, sab.BucketSampler(plan), collate_fn=sab.torch.PadCollate()
            )
            assert sum(len(data) for data in loader) == 200
    assert len(caught) == len(expected)
    for warning, setting in zip(caught, expected):
        assert setting in str(warning.message) and warning.filename == __file__


def test_pack_collate_of_several_columns():
    sizes = {"images": [1, 3, 2, 2], "tokens": [50, 10, 40, 60]}
    samples = [{"pixels": torch.ones(v, 4), "tokens": [1] * t} for v, t in zip(*sizes.values())]
    sampler = sab.PackedSampler(sizes, capacity={"images": 4, "tokens": 100})
    collate = sab.torch.PackCollate({"pixels": 0, "tokens": 0}, columns={"pixels": "images"})
    for row in sab.torch.DataLoader(samples, sampler, collate_fn=collate):
        assert row["pixels"].shape == (1, 4, 4) and row["tokens"].shape == (1, 100)
        assert row["cu_seqlens_images"][-1] == 4 and row["cu_seqlens_tokens"][-1] == 100


def test_a_data_set_of_other_sizes_is_refused():
    longer = [torch.ones(size + 9) for size in SIZES]
    loader = sab.torch.DataLoader(
        longer, sab.BucketSampler(PLAN), collate_fn=sab.torch.PadCollate()
    )
    with pytest.raises(ValueError, match=r"sample \d+ has shape .* its batch is padded to"):
        list(loader)
    rows = [{"ids": each} for each in longer]
    packed = sab.torch.DataLoader(
        rows, sab.PackedSampler(SIZES, 60), collate_fn=sab.torch.PackCollate({"ids": 0})
    )
    with pytest.raises(ValueError, match=r"field 'ids': the samples of the row are .* made of"):
        next(iter(packed))
    with pytest.raises(ValueError, match="PackCollate needs rows"):
        sab.torch.PackCollate({"ids": 0})([], sab.BucketSampler(PLAN).batch(0))
    for arguments, message in (
        ({"padding": 0}, "must be a dictionary of fields"),
        ({"padding": {"a": 0}, "first": {"b": 1}}, "first has 'b'"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            sab.torch.PackCollate(**arguments)
    with pytest.raises(ValueError, match="mask = 'm': needs a dictionary of fields"):
        sab.torch.PadCollate(mask="m")
    uneven = [{"ids": [1], "label": 0}, {"ids": [1, 2], "label": 1}]
    with pytest.raises(
        ValueError, match="padding has 'words': a sample has the fields 'ids', 'label'"
    ):
        sab.torch.PadCollate({"words": 0})(uneven, sab.BucketSampler(PLAN).batch(0))
    with pytest.raises(ValueError, match="padding has 2: a sample is a tuple"):
        sab.torch.PadCollate({2: 0})([([1], 0)], sab.BucketSampler(PLAN).batch(0))
    with pytest.raises(ValueError, match=r"padding = \{\}: must have the fields that are padded"):
        sab.torch.PadCollate({})


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_training_loop_that_resumes_at_the_end_of_an_epoch(is_ended):
    loader = make()
    epochs = [list(loader), list(loader), list(loader)]
    first = make()
    walk = iter(first)
    seen = [next(walk) for _ in range(len(first))]
    assert seen == epochs[0] and (not is_ended or next(walk, None) is None)
    resumed = make()
    resumed.load_state_dict(first.state_dict())
    for epoch in range(resumed.epoch, 3):
        resumed.set_epoch(epoch)
        seen += list(resumed)
    assert seen == sum(epochs, [])


def test_types_of_padded_tensors():
    batch = sab.SequentialSampler(sab.plan([1, 2], budget=8, boundaries=[1, 3])).batch(0)
    assert sab.torch.PadCollate()([[1], [0.5, 0.7]], batch)[1, 0] == 0.5
    large = [torch.ones(1, dtype=torch.int32), torch.full((2,), 1 << 40)]
    assert sab.torch.PadCollate()(large, batch)[1, 1] == 1 << 40
    for value, samples in ((0.5, [[1], [2, 3]]), (-100, [[True], [False, True]])):
        with pytest.raises(ValueError, match="has no such value"):
            sab.torch.PadCollate(value)(samples, batch)
    tokenised = [{"ids": [1] * size, "mask": [1] * size} for size in (1, 2)]
    made = sab.torch.PadCollate({"ids": 0}, mask="mask")(tokenised, batch)
    assert made["mask"].tolist() == [[1, 0], [1, 1]]
    with pytest.raises(ValueError, match="mask = 'ids': is a field of padding"):
        sab.torch.PadCollate({"ids": 0}, mask="ids")


def test_rows_need_a_function_for_rows():
    sampler = sab.PackedSampler([20, 3, 5], capacity=6, split=True)
    samples = [torch.ones(size) for size in (20, 3, 5)]
    with pytest.raises(ValueError, match="sampler gives pieces of them"):
        list(sab.torch.DataLoader(samples, sampler, collate_fn=only_samples))
    with pytest.raises(ValueError, match=r"the batch is a row: use sab\.torch\.PackCollate"):
        list(sab.torch.DataLoader(samples, sampler, collate_fn=sab.torch.PadCollate()))


def test_a_data_set_that_ends_the_epoch():
    class Ends(Words):
        def __getitem__(self, index):
            if index == 17:
                raise StopIteration
            return super().__getitem__(index)

    loader = sab.torch.DataLoader(Ends(), sab.BucketSampler(PLAN), collate_fn=indices)
    with pytest.raises(RuntimeError, match=r"ended the epoch after \d+ of \d+ batches"):
        list(loader)


def test_a_sampler_without_ranks_in_a_process_group_warns_once(monkeypatch):
    # torch's own loader asks a group that is there
    monkeypatch.setattr("sab.torch._loader.processes_of_group", lambda: 4)
    loader = make()
    with pytest.warns(UserWarning, match="each of the 4 processes of the group gets all") as caught:
        list(loader)
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(loader)
        list(make(sab.BucketSampler(PLAN, rank=1, world_size=4)))


LOOKS = {
    "left": lambda loader, looks: next(iter(loader)),
    "kept": lambda loader, looks: next(looks.setdefault(0, iter(loader))),
    "kept, several": lambda loader, looks: next(looks.setdefault(len(looks), iter(loader))),
    "whole": lambda loader, looks: list(loader),
    "other loader": lambda loader, looks: next(iter(make(loader.source))),
    "sampler": lambda loader, looks: next(iter(loader.source)),
    "not begun": lambda loader, looks: looks.setdefault(
        len(looks), (iter(loader), iter(loader.source))
    ),
}


@pytest.mark.parametrize(
    ("look", "workers"),
    [(look, 0) for look in LOOKS] + [(look, 1) for look in ("left", "kept", "sampler")],
)
def test_a_look_within_a_loop_leaves_it_where_it_is(look, workers):
    whole = [list(each) for each in [make()] * 2]
    loader, looks, seen = make(num_workers=workers), {}, []
    for epoch in range(2):
        for batch in loader:
            assert (loader.epoch, loader.position) == (epoch, len(seen) % len(loader) + 1)
            seen.append(batch)
            if len(seen) % 7 == 0 or len(seen) == len(loader):
                LOOKS[look](loader, looks)
                if look in ("left", "other loader", "sampler", "not begun"):
                    place = len(seen) - epoch * len(loader)
                    assert (loader.epoch, loader.position) == (epoch, place)
                    assert loader.batch.indices.tolist() == batch
                    resumed = make()
                    resumed.load_state_dict(loader.state_dict())
                    assert (resumed.epoch, resumed.position) == (epoch, place)
        looks.clear()
    assert seen == sum(whole, [])


def test_a_look_within_a_loop_that_keeps_its_workers():
    loader = make(num_workers=1, persistent_workers=True)
    seen = []
    for batch in loader:
        seen.append(batch)
        if loader.position % 9 == 0:
            assert next(iter(loader)) == seen[0]
    assert seen == list(make())


@pytest.mark.parametrize("look", ["left", "kept", "sampler"])
def test_a_look_after_a_change_within_the_epoch(look):
    """The batches before a change of the ranks or of the budget cannot be given again."""
    seen = []
    for rank in range(2):
        loader = make(sab.BucketSampler(PLAN, seed=3, rank=rank, world_size=2))
        seen += [next(walk) for walk in [iter(loader)] for _ in range(5)]
    resumed, looks = make(), {}
    resumed.load_state_dict(loader.state_dict())
    for batch in resumed:
        seen.append(batch)
        LOOKS[look](resumed, looks)
        if resumed.position == 12:
            resumed.source.set_budget(200)
        if resumed.position > 12:
            assert len(batch) * max(SIZES[index] for index in batch) <= 200
    assert sorted(sum(seen, [])) == list(range(len(SIZES)))


def test_looks_within_a_pass_over_a_sampler():
    for passes in (iter, lambda sampler: sampler.batches(), lambda sampler: sampler.blocks(1)):
        sampler = sab.BucketSampler(PLAN, seed=3)
        count = 0
        for _ in passes(sampler):
            count += 1
            if count % 10 == 0:
                next(passes(sampler))
                same = sab.BucketSampler(PLAN, seed=3)
                same.load_state_dict(sampler.state_dict())
                assert same._tell() == (0, count)
        assert count == len(sampler) and sampler.epoch == 0
