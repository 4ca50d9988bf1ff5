"""Places that are chosen while a pass is under way, and states under torch's own DataLoader."""

import itertools
import warnings

import numpy as np
import pytest

import sab

SIZES = np.random.default_rng(0).integers(1, 100, 400)
PLAN = sab.plan(SIZES, budget=500)
SAMPLERS = {
    "bucket": lambda: sab.BucketSampler(PLAN, seed=3),
    "list": lambda: sab.BucketSampler(PLAN, seed=3, output="list"),
    "sequential": lambda: sab.SequentialSampler(PLAN),
    "packed": lambda: sab.PackedSampler(SIZES, capacity=500),
    "balanced": lambda: sab.BalancedSampler(SIZES, budget=500),
    "sharded": lambda: sab.ShardedSampler(SIZES, budget=500),
    "bionemo": lambda: sab.OrderedSampler(None, SIZES, budget=500),
    "bagua": lambda: sab.BaguaSampler(SIZES, batch_size=8),
}
LOOPS = {
    "indices": iter,
    "batches": lambda sampler: (each.indices for each in sampler.batches()),
    "blocks": lambda sampler: (
        indices
        for block in sampler.blocks(2)
        for indices in np.split(block.indices, block.offsets[1:-1])
    ),
}


def lists(batches):
    return [list(map(int, batch)) for batch in batches]


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("before", [0, 4])
def test_a_pass_goes_on_at_a_state_that_is_loaded_later(make, loop, before):
    sampler = make()
    whole = lists(sampler)
    state = sampler.state_dict(12)
    sampler.set_epoch(0)
    passing = loop(sampler)
    assert lists(itertools.islice(passing, before)) == whole[:before]
    sampler.load_state_dict(state)
    assert lists(passing) == whole[12:]
    assert lists(sampler) == lists(sampler_of_epoch(make, 1))
    passing = loop(sampler)  # of an epoch that has ended, the next one
    sampler.load_state_dict(sampler_of_epoch(make, 0, ends=True).state_dict())
    assert lists(passing) == lists(sampler_of_epoch(make, 1))


def sampler_of_epoch(make, epoch, ends=False):
    sampler = make()
    sampler.set_epoch(epoch)
    assert not ends or list(sampler)
    return sampler


def test_passes_that_began_before_a_state_was_loaded_do_not_disturb_each_other():
    sampler = SAMPLERS["bucket"]()
    whole = lists(sampler)
    state = sampler.state_dict(12)
    sampler.set_epoch(0)
    passes = [iter(sampler), iter(sampler)]
    sampler.load_state_dict(state)
    passes.append(iter(sampler))
    given = [lists(each) for each in zip(*passes)]
    assert given == [[batch] * 3 for batch in whole[12:]]


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_pass_that_has_given_nothing_goes_on_with_the_epoch_that_is_set(loop):
    sampler = SAMPLERS["bucket"]()
    passing = loop(sampler)
    sampler.set_epoch(5)
    assert lists(passing) == lists(sampler_of_epoch(SAMPLERS["bucket"], 5))
    for epoch in (6, 8):  # the one of the pass, and another
        passing = loop(sampler)
        next(passing)
        sampler.set_epoch(epoch)
        with pytest.raises(RuntimeError, match=f"moved to epoch {epoch} by set_epoch"):
            list(passing)


def test_a_stream_sampler_goes_on_with_the_epoch_that_is_set():
    sampler = sab.BionemoSizeAwareStream(range(400), SIZES, budget=500)
    whole = lists(sampler)
    passing = iter(sampler)
    sampler.set_epoch(0)
    assert lists(passing) == whole
    passing = iter(sampler)
    next(passing)
    sampler.set_epoch(sampler.epoch)
    with pytest.raises(RuntimeError, match="by set_epoch"):
        next(passing)


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_budget_that_is_set_under_a_pass_holds_for_its_next_batch(loop):
    sampler = SAMPLERS["bucket"]()
    passing = loop(sampler)
    sampler.set_budget(250)
    seen = [next(passing) for _ in range(4)]
    sampler.set_budget(125)
    seen += passing
    assert all(len(batch) * SIZES[batch].max() <= 250 for batch in seen)
    assert all(len(batch) * SIZES[batch].max() <= 125 for batch in seen[4:])
    assert sorted(np.concatenate(seen)) == list(range(400))


# Under torch.utils.data.DataLoader


def loader_of(sampler, **options):
    torch = pytest.importorskip("torch")
    return torch.utils.data.DataLoader(
        range(400), batch_sampler=sampler, collate_fn=list, **options
    )


WORKERS = [{}, {"num_workers": 2}, {"num_workers": 1, "persistent_workers": True}]


@pytest.mark.parametrize("options", WORKERS, ids=str)
@pytest.mark.parametrize("kind", ["bucket", "packed", "balanced"])
def test_a_state_counts_what_the_loop_was_given(kind, options):
    make = SAMPLERS[kind]
    whole = lists(make())
    for at in (1, 7, len(whole) - 1):
        sampler = make()
        loader = loader_of(sampler, **options)
        given = []
        for batch in loader:
            given.append(batch)
            if len(given) == at:
                state = sampler.state_dict()
                break
        assert given == whole[:at] and sampler.state_dict() == state  # the loop is left
        resumed = make()
        resumed.load_state_dict(state)
        assert lists(loader_of(resumed, **options)) == whole[at:]
        assert lists(loader) == whole and sampler.epoch == 0  # broken off: begins again
        assert lists(loader) != whole and sampler.epoch == 1


@pytest.mark.parametrize("options", WORKERS, ids=str)
def test_a_state_changes_nothing_of_what_workers_fetched_ahead(options):
    sampler = SAMPLERS["bucket"]()
    whole = lists(sampler)
    sampler.set_epoch(0)
    given = []
    for batch in loader_of(sampler, **options):
        given.append(batch)
        assert sampler.step().samples == len(batch)
        resumed = SAMPLERS["bucket"]()
        resumed.load_state_dict(sampler.state_dict())
        if len(given) < len(whole):
            assert lists(resumed) == whole[len(given) :]
    assert given == whole
    resumed.load_state_dict(sampler.state_dict())
    assert lists(resumed) == lists(sampler_of_epoch(SAMPLERS["bucket"], 1))


def test_a_budget_that_is_set_while_workers_fetch_ahead_loses_nothing():
    sampler = SAMPLERS["bucket"]()
    passing = iter(loader_of(sampler, num_workers=2))
    seen = [next(passing) for _ in range(5)]
    sampler.set_budget(200)
    seen += [next(passing) for _ in range(2)]
    resumed = SAMPLERS["bucket"]()
    resumed.load_state_dict(sampler.state_dict())
    for rest in (resumed, passing):
        assert sorted(np.concatenate([*seen, *rest])) == list(range(400))


class OneByOne:
    """A batch sampler around another one."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        yield from self.sampler


def test_a_state_under_a_wrapper_that_workers_read_ahead_warns():
    sampler = SAMPLERS["bucket"]()
    for workers in (0, 2):
        for _ in loader_of(OneByOne(sampler), num_workers=workers):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                sampler.state_dict()
            assert [warning.filename for warning in caught] == [__file__] * (workers > 0)
            break
    assert "fetched 4 batches ahead of training" in str(caught[0].message)


def test_a_loaders_pass_goes_on_at_a_state_or_raises():
    sampler = SAMPLERS["bucket"]()
    whole = lists(sampler)
    state = sampler.state_dict(12)
    sampler.set_epoch(0)
    passing = iter(loader_of(sampler))
    sampler.load_state_dict(state)
    assert lists(passing) == whole[12:]
    for moving in (lambda: sampler.load_state_dict(state), lambda: sampler.set_epoch(7)):
        passing = iter(loader_of(sampler, num_workers=1))
        moving()
        with pytest.raises(RuntimeError, match="while workers of a DataLoader had fetched"):
            next(passing)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_epoch_of_a_pass_may_be_set_before_its_first_batch(workers):
    """Lightning begins the pass first."""
    sampler = SAMPLERS["bucket"]()
    loader = loader_of(sampler, num_workers=workers)
    for epoch in range(2):
        passing = iter(loader)
        sampler.set_epoch(epoch)
        state = sampler.state_dict()
        assert lists(passing) == lists(sampler_of_epoch(SAMPLERS["bucket"], epoch))
        assert state == sampler_of_epoch(SAMPLERS["bucket"], epoch).state_dict()
    passing = iter(loader)
    next(passing)
    sampler.set_epoch(2)
    with pytest.raises(RuntimeError, match="set_epoch"):
        next(passing)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_pass_of_the_librarys_loader_goes_on_at_a_state_or_raises(workers):
    pytest.importorskip("sab.torch")
    whole = lists(SAMPLERS["bucket"]())

    def make():
        return sab.torch.DataLoader(
            range(400), SAMPLERS["bucket"](), collate_fn=list, num_workers=workers
        )

    loader = make()
    for _ in zip(range(12), loader):
        pass
    state = loader.state_dict()
    for before in (0, 3):
        loader = make()
        passing = iter(loader)
        assert [next(passing) for _ in range(before)] == whole[:before]
        loader.load_state_dict(state)
        assert loader.position == 12
        if workers and before:
            with pytest.raises(RuntimeError, match="while workers of a DataLoader had fetched"):
                next(passing)
            continue
        assert next(passing) == whole[12]
        assert loader.position == 13
        resumed = make()
        resumed.load_state_dict(loader.state_dict())
        assert lists(passing) == lists(resumed) == whole[13:]


def test_two_passes_of_the_librarys_loader_at_once():
    pytest.importorskip("sab.torch")
    loader = sab.torch.DataLoader(range(400), SAMPLERS["bucket"](), collate_fn=list)
    whole = list(loader)
    loader.set_epoch(0)
    first = iter(loader)
    given = [next(first) for _ in range(3)]
    assert lists(loader) == whole == given + list(first)
