"""Mixtures: their forms, names and proportions, reports, copies, and what is refused."""

import collections
import concurrent.futures
import copy
import functools
import importlib
import json
import pickle
import re
import threading
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

sab: Any = importlib.import_module("sab")  # whose types would refuse the mistakes

RANDOM = np.random.default_rng(5)
WIKI = RANDOM.integers(1, 500, 1200)
CODE = RANDOM.integers(1, 900, 320)
WEB = RANDOM.integers(1, 100, 2000)
SOURCES = {"wiki": WIKI, "code": CODE, "web": WEB}
REPEAT = {"code": 2.5, "web": 0.3}
MIXTURE = sab.Mixture(SOURCES, repeat=REPEAT)


def three(**given):
    return sab.Mixture(SOURCES, **given) if given else MIXTURE


def made(kind, mixture, **given):
    """A sampler of a kind over a mixture."""
    if kind == "packed":
        return sab.PackedSampler(mixture, 1024, **given)
    if kind == "balanced":
        return sab.BalancedSampler(mixture, budget=4096, **given)
    if kind == "sources apart":
        return sab.BucketSampler(sab.plan(mixture, 4096, separate_by="source"), **given)
    return sab.BucketSampler(sab.plan(mixture, 4096), **given)


KINDS = ["plan", "sources apart", "packed", "balanced"]


@functools.lru_cache
def source_numbers(mixture):
    return np.array([mixture.names.index(mixture.source(i)[0]) for i in range(len(mixture))])


def counted(mixture, batches):
    """How often each sample appears in batches."""
    return np.bincount(np.concatenate([*batches, []]).astype(int), minlength=len(mixture))


# States and schedules


def test_a_state_of_sizes_that_are_no_mixture_is_refused():
    sizes = np.concatenate([WIKI, CODE, WEB])
    state = sab.BucketSampler(sab.plan(sizes, 4096)).state_dict(3)
    with pytest.raises(ValueError, match="state: was saved without a mixture"):
        made("plan", three(repeat=1)).load_state_dict(state)


def test_a_state_names_the_repeats_of_its_epoch():
    mixture = three(repeat=REPEAT, schedule=[(2, {"code": 3})])
    sampler = made("plan", mixture)
    sampler.set_epoch(2)
    state = sampler.state_dict(3)
    with pytest.raises(ValueError, match=r"code had 3 repeats in epoch 2, this sampler has 2\.5$"):
        made("plan", three()).load_state_dict(state)
    again = made("plan", mixture)
    again.load_state_dict(state)
    assert again.epoch == 2


def test_a_schedule_changes_the_repeats_from_its_epochs_on():
    mixture = three(repeat=REPEAT, schedule=[(2, {"code": 1}), (5, {"web": 0}), (6, 0.5)])
    assert [mixture.repeats(epoch)["code"] for epoch in range(7)] == [2.5] * 2 + [1] * 4 + [0.5]
    assert mixture.repeats(5) == {"wiki": 1, "code": 1, "web": 0}
    assert mixture.samples(5) == {"wiki": 1200, "code": 320, "web": 0}
    assert mixture.repeats(10**15) == {"wiki": 0.5, "code": 0.5, "web": 0.5}
    sampler = made("plan", mixture)
    for epoch in (0, 2, 5):
        sampler.set_epoch(epoch)
        assert (counted(mixture, sampler) == mixture.counts(epoch)).all()


# Proportions


def test_proportions_are_of_samples():
    mixture = three(proportions={"wiki": 2, "code": 1, "web": 1})
    assert mixture.samples() == {"wiki": 1760, "code": 880, "web": 880}
    assert sum(three(proportions={"wiki": 1, "code": 1, "web": 1}).samples().values()) == 3519
    assert three(proportions={"wiki": 1, "code": 0, "web": 0}).samples()["wiki"] == 3520


def test_proportions_are_of_the_size():
    shares = {"wiki": 0.5, "code": 0.3, "web": 0.2}
    mixture = three(proportions=shares, by="size")
    report = made("plan", mixture).plan.report()
    for name, share in shares.items():
        assert report.sources[name].proportion == pytest.approx(share, abs=0.01)
    total = sum(each.sum() for each in SOURCES.values())
    for name, repeat in mixture.repeats().items():
        assert repeat == pytest.approx(shares[name] * total / SOURCES[name].sum())


@pytest.mark.parametrize("by", ["samples", "size"])
def test_a_temperature_evens_the_shares(by):
    amounts = np.array([len(each) if by == "samples" else each.sum() for each in SOURCES.values()])
    for temperature in (0.5, 1, 2, 1000):
        mixture = three(temperature=temperature, by=by)
        powers = (amounts / amounts.max()) ** (1 / temperature)
        expected = powers / powers.sum() * amounts.sum() / amounts
        assert list(mixture.repeats().values()) == pytest.approx(list(expected))
    assert three(temperature=1, by=by).samples() == {"wiki": 1200, "code": 320, "web": 2000}


@pytest.mark.parametrize("temperature", [1e-300, 1e-3, 0.01])
def test_a_low_temperature_leaves_the_largest_source(temperature):
    assert three(temperature=temperature).samples() == {"wiki": 0, "code": 0, "web": 3520}


def test_proportions_of_any_magnitude_are_divided_by_their_sum():
    shares = {"wiki": 1e308, "code": 1e308, "web": 1e308}
    assert (
        three(proportions=shares).samples()
        == three(proportions=dict.fromkeys(shares, 0.1)).samples()
    )


def test_a_number_repeats_all_sources():
    assert three(repeat=2).samples() == {"wiki": 2400, "code": 640, "web": 4000}
    assert three(repeat=1).samples() == sab.Mixture(SOURCES).samples()


# Forms of mixtures


def test_the_flat_form_has_the_ids_as_names():
    ids = RANDOM.choice([7, 2, 40], 900)
    sizes = RANDOM.integers(1, 90, 900)
    mixture = sab.Mixture(sizes, sources=ids, repeat={7: 0.5, 40: 2.5})
    assert mixture.names == (2, 7, 40) and mixture.columns == ("",)
    counts = {name: int((ids == name).sum()) for name in mixture.names}
    assert mixture.samples() == {
        2: counts[2],
        7: round(counts[7] * 0.5),
        40: round(counts[40] * 2.5),
    }
    rows = collections.Counter()
    for index, name in enumerate(ids.tolist()):
        assert mixture.source(index) == (name, rows[name])
        rows[name] += 1
    plan = sab.plan(mixture, 400, separate_by="source")
    batches = list(sab.BucketSampler(plan).batches())
    assert all(set(ids[batch.indices]) == {batch.id} for batch in batches)
    assert (counted(mixture, [batch.indices for batch in batches]) == mixture.counts()).all()


def test_both_forms_have_the_same_samples():
    flat = sab.Mixture(
        np.concatenate(list(SOURCES.values())),
        sources=np.repeat([0, 1, 2], [1200, 320, 2000]),
        repeat={1: 2.5, 2: 0.3},
    )
    for epoch in range(3):
        assert (flat.counts(epoch) == three().counts(epoch)).all()
    flat_batches, batches = (made("plan", each, seed=3) for each in (flat, three()))
    assert [each.tolist() for each in flat_batches] == [each.tolist() for each in batches]


def test_indices_are_positions_in_the_concatenation():
    mixture = three()
    assert len(mixture) == 3520
    assert mixture.source(0) == ("wiki", 0) and mixture.source(1200) == ("code", 0)
    assert mixture.source(1519) == ("code", 319) and mixture.source(-1) == ("web", 1999)
    places = [("wiki", 1199), ("code", 0), ("web", 1999)]
    assert mixture.source([1199, 1200, -1]) == mixture.source(np.array([1199, 1200, -1])) == places
    assert mixture.source(np.array(1200)) == ("code", 0) and mixture.source([]) == []
    assert (mixture.values() == np.concatenate(list(SOURCES.values()))).all()
    assert mixture[1200] == CODE[0] and (mixture[1199:1201] == [WIKI[-1], CODE[0]]).all()


def test_batches_of_separate_sources_say_which():
    mixture = three()
    plan = sab.plan(mixture, 4096, separate_by="source", max_shapes={0: 8, 1: 12, 2: 4})
    numbers, shapes = source_numbers(mixture), collections.defaultdict(set)
    for batch in sab.BucketSampler(plan, rank=1, world_size=3).batches():
        assert set(numbers[batch.indices]) == {batch.id}
        assert plan.buckets[batch.bucket].id == batch.id
    for bucket in plan.buckets:
        shapes[bucket.id].add((bucket.batch_size, bucket.padded_length))
    assert [len(shapes[s]) for s in range(3)] <= [8, 12, 4]
    wholes = np.arange(3520) % 2  # other ids may be given, too
    for batch in sab.BucketSampler(sab.plan(mixture, 4096, separate_by=wholes)).batches():
        assert set(wholes[batch.indices]) == {batch.id}


def test_several_columns():
    sources = {name: {"source": sizes, "target": sizes // 2 + 3} for name, sizes in SOURCES.items()}
    mixture = sab.Mixture(sources, repeat=REPEAT)
    assert mixture.columns == ("source", "target")
    assert (mixture.column("target").values() == mixture.values()[:, 1]).all()
    plan = sab.plan(mixture, budget={"source": 4096, "target": 5000})
    batches = list(sab.BucketSampler(plan, seed=2).batches())
    for batch in batches:
        padded = batch.padded_length
        assert batch.count * padded["source"] <= 4096 and batch.count * padded["target"] <= 5000
    assert (counted(mixture, [batch.indices for batch in batches]) == mixture.counts()).all()
    packed = sab.PackedSampler(mixture, {"source": 1024, "target": 600})
    assert (counted(mixture, packed) == mixture.counts()).all()
    for name, each in packed.report().sources.items():
        assert each.samples == mixture.samples()[name] and each.deviation < 1
    with pytest.raises(TypeError, match="several columns"):
        mixture[0]
    with pytest.raises(KeyError, match="'width': the columns are"):
        mixture.column("width")


def on_all(world_size, work):
    """`work(gather, rank)` on each rank, in threads."""
    barrier, box = threading.Barrier(world_size), [b""] * world_size

    def run(rank):
        def gather(mine):
            box[rank] = mine
            barrier.wait(60)
            every = list(box)
            barrier.wait(60)
            return every

        return work(gather, rank)

    with concurrent.futures.ThreadPoolExecutor(world_size) as pool:
        return list(pool.map(run, range(world_size)))


def test_shards_by_name_may_lack_sources():
    shards = [{"a": [3, 4, 5] * 20}, {"a": [], "b": [7] * 40}, {}]
    samplers = on_all(
        3,
        lambda gather, rank: sab.ShardedSampler(
            sab.Mixture(shards[rank], proportions={"a": 1, "b": 3}, all_sources=["a", "b"]),
            budget=40,
            gather=gather,
            rank=rank,
            world_size=3,
        ),
    )
    for sampler in samplers:
        report = sampler.report()
        assert [each.samples for each in report.sources.values()] == [25, 75]
        assert "off due" in str(report) and "micro-batches" in report._repr_html_()
        assert json.loads(json.dumps(report.to_dict())) == report.to_dict()


def test_a_sharded_sampler_of_one_data_set_knows_no_other_shard():
    sampler = sab.ShardedSampler([1, 2], budget=4, gather=lambda mine: [mine], rank=0, world_size=1)
    with pytest.raises(sab.UnsupportedError, match="report: the sizes are no mixture"):
        sampler.report()


def test_a_mixture_of_one_shard_has_no_epochs_of_its_own():
    mixture = sab.Mixture({"a": [1, 2]}, all_sources=["a", "b"])
    assert repr(mixture) == "<sab.Mixture: a shard of 2 sources, a: 2, b: 0>"
    assert mixture.names == ("a", "b") and mixture.source(1) == ("a", 1)
    again = pickle.loads(pickle.dumps(mixture))
    assert repr(again) == repr(mixture)
    for call in (mixture.samples, mixture.repeats, mixture.counts):
        with pytest.raises(ValueError, match="all_sources: the mixture is of one shard"):
            call()
    for call in (lambda: sab.plan(mixture, 9), lambda: sab.PackedSampler(mixture, 9)):
        with pytest.raises(ValueError, match="sizes: are a mixture of one shard"):
            call()


# Reports and displays


def report_of(kind, mixture):
    sampler = made(kind, mixture)
    return sampler.plan.report() if hasattr(sampler, "plan") else sampler.report()


@pytest.mark.parametrize("kind", KINDS)
def test_reports_have_the_facts_of_each_source(kind):
    mixture = three()
    report = report_of(kind, mixture)
    counts, values, numbers = mixture.counts(), mixture.values(), source_numbers(mixture)
    assert list(report.sources) == ["wiki", "code", "web"]
    for s, (name, each) in enumerate(report.sources.items()):
        mine = numbers == s
        assert each.samples == mixture.samples()[name]
        assert each.distinct == np.count_nonzero(counts[mine])
        assert each.most == counts[mine].max()
        assert each.total == (counts * values)[mine].sum()
        assert each.repeat == each.samples / each.distinct
        assert each.padding == pytest.approx(1 - each.total / each.padded_total)
    parts = report.sources.values()
    assert sum(each.proportion for each in parts) == pytest.approx(1)
    if kind in ("plan", "sources apart"):
        assert sum(each.padded_total for each in parts) == report.padded_total
    assert sum(each.total for each in parts) == report.total
    facts = report.to_dict()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["sources"]["code"]["samples"] == 800


@pytest.mark.parametrize("kind", KINDS)
def test_reports_show_a_row_for_each_source(kind):
    report = report_of(kind, three())
    lines = str(report).splitlines()
    (head,) = [i for i, line in enumerate(lines) if line.startswith("source ")]
    assert [line.split()[0] for line in lines[head + 1 : head + 4]] == ["wiki", "code", "web"]
    assert lines[head + 2].split()[1:3] == ["800", "2.50"]
    page = report._repr_html_()
    assert "wiki" in page and "off due" in page


def test_a_report_says_that_a_source_does_not_appear():
    mixture = sab.Mixture(
        {"big": [3] * 100, "tiny": [2], "none": [1]}, repeat={"tiny": 0.3, "none": 0}
    )
    report = sab.plan(mixture, 30).report()
    assert report.sources["tiny"] == sab.SourceReport(0, 0, 0, 0, 0, 0, 0, 0, 0)
    assert report.sources["tiny"].repeat == 0
    for name in ("tiny", "none"):
        assert f"{name} does not appear: its repeats give no sample" in str(report)
    assert "big does not appear" not in str(report)


def test_sizes_that_are_no_mixture_have_no_sources():
    report = sab.plan(WIKI, 4096).report()
    assert report.sources == {} and "off due" not in str(report)


def test_a_mixture_says_what_it_holds():
    assert repr(three()) == (
        "<sab.Mixture: 3 sources, wiki: 1,200 of 1,200, code: 800 of 320, web: 600 of 2,000>"
    )
    many = sab.Mixture([1] * 40, sources=range(40))
    assert repr(many).endswith("6: 1 of 1, ...>") and "40 sources" in repr(many)


# Copies


def test_copies_and_pickles_are_the_same_mixture():
    for mixture in (
        three(repeat=REPEAT, schedule=iter([(3, {"web": 1})]), seed=4),
        three(temperature=3, by="size"),
        three(proportions={"wiki": 1, "code": 2, "web": 0}),
        sab.Mixture([3, 1, 2, 5], sources=[4, 0, 4, 0], repeat={4: 0.5}),
        sab.Mixture({"a": {"x": [1, 2], "y": [3, 4]}, "b": {"x": [1], "y": [3]}}),
    ):
        assert copy.copy(mixture) is mixture and copy.deepcopy(mixture) is mixture
        again = pickle.loads(pickle.dumps(mixture))
        assert again.names == mixture.names and again.columns == mixture.columns
        assert repr(again) == repr(mixture) and (again.values() == mixture.values()).all()
        for epoch in (0, 2, 3):
            assert again.samples(epoch) == mixture.samples(epoch)
            assert (again.counts(epoch) == mixture.counts(epoch)).all()


def test_a_pickled_plan_is_the_same_plan():
    for options in ({}, {"separate_by": "source", "padding": 0.2}, {"cost": "padded"}):
        plan = sab.plan(three(), 4096, **options)
        again = pickle.loads(pickle.dumps(plan))
        assert again.fingerprint == plan.fingerprint
        assert again.report() == plan.report()


@pytest.mark.parametrize("kind", KINDS)
def test_a_pickled_sampler_goes_on_where_it_was(kind):
    sampler = made(kind, three(), seed=2, rank=1, world_size=2)
    batches = [each.tolist() for each in sampler]
    sampler.load_state_dict(sampler.state_dict(5))
    again = pickle.loads(pickle.dumps(sampler))
    assert [each.tolist() for each in again] == batches[5:]


def test_a_mixture_keeps_nothing_of_what_it_was_made_from():
    sizes, repeat = {"a": np.array([1, 2, 3]), "b": np.array([4, 5])}, {"a": 2.0}
    mixture = sab.Mixture(sizes, repeat=repeat)
    sizes["a"][:] = 9
    repeat["a"] = 5
    assert mixture.values().tolist() == [1, 2, 3, 4, 5]
    assert pickle.loads(pickle.dumps(mixture)).samples() == {"a": 6, "b": 2}


# With torch


def test_a_loader_of_torch_over_concatenated_data_sets():
    torch = pytest.importorskip("torch")
    from torch.utils.data import ConcatDataset

    import sab.torch

    sources = {"a": [2, 3, 4] * 9, "b": [5, 1] * 4}

    class Texts(torch.utils.data.Dataset):
        def __init__(self, name):
            self.name = name

        def __len__(self):
            return len(sources[self.name])

        def __getitem__(self, row):
            return self.name, row

    mixture = sab.Mixture(sources, repeat={"a": 0.5, "b": 2})
    sampler = sab.BucketSampler(sab.plan(mixture, 16))
    data = ConcatDataset([Texts(name) for name in sources])
    seen = collections.Counter()
    for batch in sab.torch.DataLoader(data, sampler, collate_fn=list):
        seen.update(batch)
    expected = zip(map(mixture.source, range(len(mixture))), mixture.counts().tolist())
    assert seen == {where: count for where, count in expected if count}


# What is refused

ONE = {"a": [1]}
TWO = {"a": [1], "b": [1]}
MISTAKES = [
    (
        lambda: sab.Mixture([1, 2]),
        "sizes is a list: must be a dictionary of data sets by name; the",
    ),
    (lambda: sab.Mixture(5), "sizes is an int: must be a dictionary of data sets by name; the s"),
    (lambda: sab.Mixture({}), "sizes = {}: must have at least one source"),
    (lambda: sab.Mixture({"a": []}), "sizes['a'] has no sample: must have at least one"),
    (lambda: sab.Mixture({"a": None}), "sizes['a'] = None: must be the size of each sample, as"),
    (lambda: sab.Mixture({"a": [-2]}), "sizes[0] = -2: must not be negative"),
    (lambda: sab.Mixture({"a": [float("nan")]}), "sizes[0] = nan: must be a number"),
    (lambda: sab.Mixture({1: [1]}), "sizes has the source 1: its name must be a text"),
    (lambda: sab.Mixture({"": [1]}), "sizes has the source '': its name must have 1 to 63 bytes"),
    (lambda: sab.Mixture({"é" * 32: [1]}), "sizes has the source 'é"),
    (lambda: sab.Mixture({"a\0b": [1]}), "sizes has the source 'a\\x00b': its name must have 1 to"),
    (lambda: sab.Mixture({"\ud800": [1]}), "sizes has the source '\\ud800': its name must have 1"),
    (lambda: sab.Mixture({"a": three()}), "sizes['a'] is a sab.Mixture: must be one data set"),
    (
        lambda: sab.Mixture({"a": [1], "b": {"x": [1]}}),
        "sizes['b'] has the columns ('x',): must be those of the first source, ('',)",
    ),
    (lambda: sab.Mixture(ONE, repeat=-1), "repeat = -1: must be a number of at least 0"),
    (lambda: sab.Mixture(ONE, repeat={"a": -0.5}), "repeat['a'] = -0.5: must be a number of at"),
    (lambda: sab.Mixture(ONE, repeat=float("nan")), "repeat = nan: must be a number of at least 0"),
    (lambda: sab.Mixture(ONE, repeat=float("inf")), "repeat = inf: must be a number of at least 0"),
    (lambda: sab.Mixture(ONE, repeat="2"), "repeat = '2': must be a number"),
    (lambda: sab.Mixture(ONE, repeat=[1]), "repeat = [1]: must be a number"),
    (lambda: sab.Mixture(ONE, repeat={"b": 1}), "repeat has the source 'b': the sources are 'a'"),
    (lambda: sab.Mixture(ONE, repeat=True), "repeat = True: must be a number, not True or False"),
    (lambda: sab.Mixture(ONE, repeat={"a": True}), "repeat['a'] = True: must be a number, not T"),
    (lambda: sab.Mixture(ONE, repeat=np.True_), "repeat = True: must be a number, not True or"),
    (lambda: sab.Mixture(ONE, proportions={"a": True}), "proportions['a'] = True: must be a num"),
    (lambda: sab.Mixture(ONE, temperature=True), "temperature = True: must be a number, not Tr"),
    (lambda: sab.Mixture(ONE, schedule=[(1, True)]), "schedule[0][1] = True: must be a number,"),
    (lambda: sab.Mixture(ONE, repeat=0), "repeat: is 0 for all sources: must be above 0 for at le"),
    (lambda: sab.Mixture(TWO, repeat={"a": 0, "b": 0}), "repeat: is 0 for all sources: must be ab"),
    (lambda: sab.Mixture(ONE, repeat=0.1), "repeat: epoch 0 has no sample: one source must give"),
    (
        lambda: sab.Mixture(ONE, repeat=1e12),
        "repeat: epoch 0 has 1000000000000 samples: must have at most 4294967295",
    ),
    (
        lambda: sab.Mixture(ONE, repeat=2, temperature=1),
        "repeat and temperature: only one may be given",
    ),
    (lambda: sab.Mixture(ONE, proportions=[1]), "proportions is a list: must be a dictionary by s"),
    (
        lambda: sab.Mixture(TWO, proportions={"a": 1}),
        "proportions has no 'b': must have all sources",
    ),
    (lambda: sab.Mixture(ONE, proportions={"c": 1}), "proportions has the source 'c': the sources"),
    (lambda: sab.Mixture(ONE, proportions={"a": -1}), "proportions['a'] = -1: must be a number of"),
    (lambda: sab.Mixture(ONE, proportions={"a": 0}), "proportions: is 0 for all sources: must be"),
    (
        lambda: sab.Mixture({"a": [1], "b": [0]}, proportions={"a": 1, "b": 1}, by="size"),
        "by = 'size': source b has the size 0, and cannot have a share of all sizes",
    ),
    (
        lambda: sab.Mixture({"a": [0], "b": [0]}, temperature=1, by="size"),
        "by = 'size': all sources have the size 0, and no shares of it",
    ),
    (lambda: sab.Mixture(ONE, temperature=0), "temperature = 0: must be a number above 0"),
    (lambda: sab.Mixture(ONE, temperature=-1), "temperature = -1: must be a number above 0"),
    (lambda: sab.Mixture(ONE, temperature=float("inf")), "temperature = inf: must be a number ab"),
    (lambda: sab.Mixture(ONE, temperature="hot"), "temperature = 'hot': must be a number"),
    (lambda: sab.Mixture(ONE, by="tokens"), "by = 'tokens': must be one of 'samples', 'size'"),
    (lambda: sab.Mixture(ONE, by="size"), "by = 'size': goes with proportions or temperature only"),
    (lambda: sab.Mixture(ONE, seed=-1), "seed = -1: must be at least 0"),
    (lambda: sab.Mixture(ONE, seed=1.5), "seed = 1.5: must be a whole number"),
    (lambda: sab.Mixture(ONE, schedule=5), "schedule = 5: must be a list"),
    (lambda: sab.Mixture(ONE, schedule=[1]), "schedule[0] = 1: must be (epoch, repeat)"),
    (lambda: sab.Mixture(ONE, schedule=[(0, 1)]), "schedule[0][0] = 0: must be at least 1"),
    (lambda: sab.Mixture(ONE, schedule=[("x", 1)]), "schedule[0][0] = 'x': must be a whole number"),
    (
        lambda: sab.Mixture(ONE, schedule=[(2, 1), (2, 2)]),
        "schedule[1][0] = 2: must be above the epoch before, 2",
    ),
    (
        lambda: sab.Mixture(ONE, schedule=[(1, -2)]),
        "schedule[0][1] = -2: must be a number of at le",
    ),
    (lambda: sab.Mixture(ONE, schedule=[(1, {"c": 2})]), "schedule[0][1] has the source 'c': the"),
    (lambda: sab.Mixture(ONE, schedule=[(1, 0)]), "schedule[0][1]: is 0 for all sources: must be"),
    (lambda: sab.Mixture(ONE, schedule=[(1, 0.1)]), "repeat: epoch 1 has no sample: one source m"),
    (
        lambda: sab.Mixture(ONE, schedule=[(1, 2)], temperature=2),
        "schedule: goes with repeat only, since it has repeats",
    ),
    (lambda: sab.Mixture([1, 2], sources=[0]), "sources has 1 numbers: must have one for each of"),
    (lambda: sab.Mixture([1, 2], sources=[0, -1]), "sources[1] = -1: must be at least 0"),
    (lambda: sab.Mixture([1, 2], sources=[0, 0.5]), "sources has dtype float64 and 1 dimensions"),
    (lambda: sab.Mixture([1, 2], sources={"a": 1}), "sources = {'a': 1}: must be whole numbers in"),
    (lambda: sab.Mixture([], sources=[]), "sizes has no sample: must have at least one"),
    (
        lambda: sab.Mixture(np.ones(70000), sources=np.arange(70000)),
        "sources has 70000 different numbers: must have at most 65535",
    ),
    (
        lambda: sab.Mixture([1, 2], sources=[0, 1], repeat={2: 1}),
        "repeat has the source 2: the sources are 0, 1",
    ),
    (lambda: sab.Mixture(TWO, all_sources=["a"]), "sizes has the source 'b': must be one of all_"),
    (lambda: sab.Mixture(ONE, all_sources=["a", "a"]), "all_sources has 'a' twice: must have each"),
    (lambda: sab.Mixture(ONE, all_sources=[]), "all_sources = []: must have at least one source"),
    (lambda: sab.Mixture(ONE, all_sources=[1]), "all_sources has the source 1: its name must be a"),
    (lambda: sab.Mixture(ONE, all_sources=5), "all_sources = 5: must be a list"),
    (
        lambda: sab.Mixture([1], sources=[3], all_sources=[1, 2]),
        "sources[0] = 3: must be one of all_sources",
    ),
    (lambda: sab.Mixture([1], sources=[3], all_sources=[-1]), "all_sources = -1: must be at least"),
    (lambda: sab.Mixture([], sources=[], all_sources=[]), "all_sources = []: must have at least"),
    (lambda: three().source(3520), "index = 3520: there are 3520 sizes"),
    (lambda: three().source([0, 3520]), "index = 3520: there are 3520 sizes"),
    (lambda: three().source([0.5]), "index has dtype float64"),
    (lambda: three().source("wiki"), "index = 'wiki': must be a whole number"),
    (lambda: three().counts(-1), "epoch = -1: must be at least 0"),
    (lambda: three().samples("x"), "epoch = 'x': must be a whole number"),
    (lambda: three().repeats(0.5), "epoch = 0.5: must be a whole number"),
    (
        lambda: sab.plan(three(), 4096, separate_by="sources"),
        "separate_by = 'sources': must be whole numbers, or 'source' for a sab.Mixture",
    ),
    (
        lambda: sab.plan([1, 2], 4096, separate_by="source"),
        "separate_by = 'source': must be whole numbers, or 'source' for a sab.Mixture",
    ),
    (
        lambda: sab.plan(three(), 4096, cost=lambda count, length: count * length),
        "cost: is a callback: the plan of a mixture is made again in each epoch, and must have co",
    ),
    (lambda: sab.plan(three(), 800), "sizes["),
    (lambda: sab.Sizes(three()), "sizes is a sab.Mixture: pass it as it is, in the place of sizes"),
]


@pytest.mark.parametrize("call, words", MISTAKES, ids=[words[:50] for _, words in MISTAKES])
def test_mistakes_are_named(call, words):
    with pytest.raises((TypeError, ValueError, IndexError)) as caught:
        call()
    message = str(caught.value)
    assert message.startswith(words) and "\n" not in message and len(message) < 240


@pytest.mark.parametrize(
    "call",
    [
        lambda mixture: sab.OrderedSampler(None, mixture, budget=999),
        sab.BaguaSampler,
        lambda mixture: sab.BaguaBatchSampler(mixture, budget=999),
        lambda mixture: sab.find_thresholds(mixture, 1),
        lambda mixture: sab.Mixture(mixture, sources=np.zeros(len(mixture), int)),
    ],
)
def test_others_refuse_a_mixture(call):
    with pytest.raises(ValueError, match="is a mixture: must be the sizes of one data set"):
        call(three())


@pytest.mark.parametrize("save", [sab.Plan.to_bytes, lambda plan: plan.save("none.plan")])
def test_a_plan_of_a_mixture_is_not_saved(save):
    with pytest.raises(
        sab.UnsupportedError, match="the plan is of a mixture, whose plan is made ag"
    ):
        save(sab.plan(three(), 4096))


def test_the_repeats_of_an_epoch_are_exact_fractions_of_the_samples():
    for repeat in (Fraction(1, 3), np.float32(0.5), np.int64(2)):
        assert sab.Mixture({"a": [1] * 9}, repeat=float(repeat)).samples()["a"] == round(9 * repeat)
        assert re.match(r"<sab\.Mixture: 1 sources", repr(sab.Mixture({"a": [1] * 9})))
