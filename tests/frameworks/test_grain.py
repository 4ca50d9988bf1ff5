"""`sab.jax.grain.IterDataset` with grain's threads, processes and checkpoints."""

import itertools
import json

import numpy as np
import pytest

grain = pytest.importorskip("grain")
from absl import flags
from etils import epath

import sab
import sab.jax
import sab.jax.grain

flags.FLAGS.mark_as_parsed()  # grain's processes read them; programs have absl.app for that
RANDOM = np.random.default_rng(0)
SIZES = np.minimum(RANDOM.lognormal(2.5, 0.6, 400).astype(int) + 1, 100)
DATASET = [
    {"words": RANDOM.integers(1, 30, size), "label": index} for index, size in enumerate(SIZES)
]


def make(epochs=1, sampler=None, **order):
    if sampler is None:
        sampler = sab.BucketSampler(sab.plan(SIZES, budget=512, max_shapes=4), seed=1, **order)
    collate = sab.jax.PadCollate({"words": 0})
    return sab.jax.grain.IterDataset(DATASET, sampler, collate_fn=collate, epochs=epochs)


def in_threads(dataset):
    return grain.experimental.ThreadPrefetchIterDataset(dataset, prefetch_buffer_size=4)


def in_processes(dataset):
    return dataset.mp_prefetch(
        grain.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=2)
    )


def plain(dataset):
    return dataset


def labels(data):
    return data["label"][data["weights"] == 1].tolist()


DUE = [labels(data) for data in make(epochs=2)]
EPOCH = len(make()._sampler)


def test_epochs():
    assert len(DUE) == 2 * EPOCH
    for epoch in (DUE[:EPOCH], DUE[EPOCH:]):
        assert sorted(sum(epoch, [])) == list(range(len(SIZES)))
    assert DUE[:EPOCH] != DUE[EPOCH:]
    endless = itertools.islice(make(epochs=None), 3 * EPOCH)
    assert [labels(data) for data in endless][: 2 * EPOCH] == DUE


def test_two_iterators_are_independent():
    dataset = make()
    first, second = iter(dataset), iter(dataset)
    next(first)
    assert labels(next(second)) == DUE[0]
    assert labels(next(first)) == DUE[1]


@pytest.mark.parametrize("around", [plain, in_threads, in_processes])
def test_states_are_exact(around):
    iterator = iter(around(make(epochs=2)))
    states, seen = [json.dumps(iterator.get_state())], []
    for data in iterator:
        seen.append(labels(data))
        states.append(json.dumps(iterator.get_state()))
    iterator.close()
    assert seen == DUE
    steps = (0, 1, EPOCH - 1, EPOCH, EPOCH + 2, 2 * EPOCH - 1, 2 * EPOCH)
    for step in steps if around is not in_processes else (EPOCH - 1,):
        iterator = iter(around(make(epochs=2)))
        iterator.set_state(json.loads(states[step]))
        assert [labels(data) for data in iterator] == DUE[step:], step
        iterator.close()


def test_state_is_set_while_iterating():
    iterator = iter(in_threads(make()))
    for _ in range(3):
        next(iterator)
    state = iterator.get_state()
    for _ in range(2):
        next(iterator)
    iterator.set_state(state)
    assert [labels(data) for data in iterator] == DUE[3:EPOCH]
    iterator.close()


def test_resume_on_other_ranks():
    seen, states = [], []
    for rank in range(2):
        iterator = iter(make(rank=rank, world_size=2))
        seen += sum((labels(next(iterator)) for _ in range(3)), [])
        states.append(iterator.get_state())
    assert states[0] == states[1]
    for rank in range(3):
        iterator = iter(make(rank=rank, world_size=3))
        iterator.set_state(states[0])
        seen += sum((labels(data) for data in iterator), [])
    assert sorted(seen) == list(range(len(SIZES)))


def test_a_data_set_begins_where_the_sampler_is():
    sampler = make()._sampler
    for _ in zip(range(4), sampler):
        pass
    assert [labels(data) for data in make(sampler=sampler)] == DUE[4:EPOCH]


def test_transformations_come_after():
    total = sum(make().map(lambda data: int(data["weights"].sum())))
    assert total == len(SIZES)


def test_other_slices_are_refused():
    dataset = make()
    with pytest.raises(sab.UnsupportedError, match="must be every n-th batch"):
        dataset.set_slice(slice(0, None, 2), sequential_slice=True)


def test_checkpoints_of_grain(tmp_path):
    handler = grain.checkpoint.CheckpointHandler()
    iterator = iter(in_threads(make()))
    for _ in range(5):
        next(iterator)
    handler.save(epath.Path(tmp_path), iterator)
    iterator.close()
    restored = handler.restore(epath.Path(tmp_path), iter(in_threads(make())))
    assert [labels(data) for data in restored] == DUE[5:EPOCH]
    restored.close()
