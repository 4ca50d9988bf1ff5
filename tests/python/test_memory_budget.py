"""budget="memory": a loader learns the memory of a training step and leaves no trace."""

import random
import re
import warnings

import numpy as np
import pytest

import sab

torch = pytest.importorskip("torch")
from torch import nn

import sab.torch

MIB = 1 << 20
SIZES = np.minimum(np.random.default_rng(0).lognormal(2.5, 0.6, 400).astype(int) + 3, 40)
DATA = [torch.full((int(size),), int(size) % 30) for size in SIZES]


class Pretend(sab.Device):
    """A device on which a step needs what a function of its data says."""

    def __init__(self, total, need=lambda count, length: 1000 + 40 * count * length):
        self.limit, self.need, self.most, self.shapes = total, need, 0, []

    def step(self, data):
        self.shapes.append(tuple(data.shape))
        self.most = int(self.need(*data.shape))
        if self.most > self.limit:
            raise RuntimeError(f"out of memory: {self.most} bytes of {self.limit}")

    def reset(self):
        self.most = 0

    def current(self):
        return 0

    def peak(self):
        return self.most

    def total(self):
        return self.limit


def loader_on(
    device, budget="memory", step=None, data=DATA, sizes=SIZES, collate=None, workers=0, **options
):
    sampler = sab.BucketSampler(sizes, budget, seed=3, **options)
    return sab.torch.DataLoader(
        data,
        sampler,
        collate_fn=collate or sab.torch.PadCollate(),
        step=step or device.step,
        restore=[],
        device=device,
        num_workers=workers,
    )


def padded(batches):
    return [batch.count * batch.padded_length for batch in batches]


def test_the_plan_fills_the_share_of_the_free_memory():
    device = Pretend(60_000)
    loader = loader_on(device)
    assert repr(loader) == "<sab.torch.DataLoader of <sab.BucketSampler: budget memory>>"
    assert device.shapes == []
    batches = list(loader.source.batches())
    assert loader.source.plan.budget == 54_000
    assert 0.95 * 53_000 < 40 * max(padded(batches)) <= 53_000
    assert sorted(index for batch in batches for index in batch.indices) == list(range(400))
    lower = loader_on(Pretend(60_000), "memory:0.5")
    assert len(lower) > len(loader) and lower.source.plan.budget == 30_000


def test_one_line_says_what_was_found(capsys):
    loader = loader_on(Pretend(60 * MIB, lambda count, length: MIB * count * length // 40))
    counts = [bucket.batch_size for bucket in loader.source.plan.buckets]
    told = capsys.readouterr().err
    line = f"batches of {min(counts)} to {max(counts)} samples, 54.0 of 60.0 MiB, learned in "
    assert re.fullmatch(re.escape(line) + r"\d+ s\n", told)
    list(loader)
    assert capsys.readouterr().err == ""


def test_batches_before_training_are_one_sample_repeated():
    seen = []

    def collate(samples, batch):
        seen.append((len(samples), batch))
        assert len(batch.indices) == batch.count == len(samples)
        return sab.torch.PadCollate()(samples, batch)

    device = Pretend(60_000)
    loader = loader_on(device, collate=collate, length_multiple=8)
    assert len(loader) > 0
    for count, batch in seen[:-1]:
        assert len(set(batch.indices.tolist())) == 1
        assert batch.longest == SIZES[batch.indices[0]] and batch.total == count * batch.longest
        assert batch.padded_length == -(-batch.longest // 8) * 8
    assert {length for _, length in device.shapes[:-1]} <= {8, 16, 24, 32, 40}
    [costliest] = loader.source.plan.costliest_batches(1)
    assert device.shapes[-1] == (costliest.count, costliest.padded_length)
    assert seen[-1][1].indices.tolist() == costliest.indices.tolist()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.norm = nn.BatchNorm1d(16)
        self.steps, self.losses = 0, []

    def forward(self, words):
        self.steps += 1
        return self.norm(self.layer(self.embedding(words)).transpose(1, 2)).square().mean(2).sum()


class Training:
    def __init__(self):
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        self.model = Model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.extra = {"count": 0, "tensor": torch.zeros(2)}

    def step(self, data):
        noise = random.random() + np.random.rand()
        self.optimizer.zero_grad()
        loss = self.model(data) * noise
        loss.backward()
        self.optimizer.step()
        self.model.losses.append(float(loss))
        self.extra["count"] += 1
        self.extra["tensor"] += 1

    def loader(self, **options):
        """On an emulated device, whose probe counts from now on."""
        self.probe = sab.Probe("cpu", total_bytes=6 * MIB)
        restore = [self.model, self.optimizer, self.extra]
        sampler = sab.BucketSampler(SIZES, "memory", seed=3, **options)
        collate = sab.torch.PadCollate()
        return sab.torch.DataLoader(
            DATA,
            sampler,
            collate_fn=collate,
            step=self.step,
            restore=restore,
            device=self.probe,
        )

    def state(self):
        """All that a step changes, as bytes and numbers."""
        tensors = {**self.model.state_dict(), "extra": self.extra["tensor"]}
        for index, parameter in enumerate(self.model.parameters()):
            tensors[f"grad{index}"] = parameter.grad
            for name, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"{index}.{name}"] = value
        return (
            {
                name: None if each is None else torch.as_tensor(each).detach().numpy().tobytes()
                for name, each in tensors.items()
            },
            (self.model.steps, list(self.model.losses), self.extra["count"]),
            (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()),
            [{**group, "params": len(group["params"])} for group in self.optimizer.param_groups],
        )


@pytest.mark.parametrize("has_trained", [False, True])
def test_nothing_is_changed_by_the_steps_before_training(has_trained):
    training = Training()
    if has_trained:
        training.step(torch.ones(3, 7, dtype=torch.int64))
    kept = [id(each) for each in (*training.model.parameters(), training.model.losses)]
    before = training.state()
    loader = training.loader()
    assert len(loader) > 2
    assert training.state() == before
    assert kept == [id(each) for each in (*training.model.parameters(), training.model.losses)]
    training.probe.close()


def test_training_is_that_of_the_same_plan_and_stays_within_the_memory():
    measured = Training()
    loader = measured.loader()
    peaks = []
    for data in loader:
        measured.probe.reset()
        measured.step(data)
        peaks.append(measured.probe.stats().peak)
        del data
    assert max(peaks) <= loader.source.plan.budget == int(0.9 * 6 * MIB)
    assert max(peaks) > 0.8 * 6 * MIB
    guard = loader.guard
    assert (guard.info.steps, guard.info.out_of_memory) == (len(loader), 0)
    measured.probe.close()
    plain = Training()
    sampler = sab.BucketSampler(loader.source.plan, seed=3)
    for data in sab.torch.DataLoader(DATA, sampler, collate_fn=sab.torch.PadCollate()):
        plain.step(data)
    assert measured.state()[:3] == plain.state()[:3]


def test_a_step_that_fails_leaves_no_trace_either():
    training = Training()
    before = training.state()

    def step(data):
        training.step(data)
        if training.extra["count"] == 3:
            raise KeyError("no such word")

    with sab.Probe("cpu", total_bytes=6 * MIB) as probe:
        loader = sab.torch.DataLoader(
            DATA,
            sab.BucketSampler(SIZES, "memory"),
            collate_fn=sab.torch.PadCollate(),
            step=step,
            restore=[training.model, training.optimizer, training.extra],
            device=probe,
        )
        with pytest.raises(KeyError, match="no such word"):
            len(loader)
        assert training.state() == before


class Scaler:
    """As a gradient scaler: skips steps while its scale is too large."""

    def __init__(self):
        self.scale = torch.tensor(65536.0)

    def get_scale(self):
        return float(self.scale)

    def state_dict(self):
        return {"scale": self.get_scale()}

    def load_state_dict(self, state):
        self.scale.fill_(state["scale"])


def test_gradient_scalers_skip_no_step():
    device, scaler, scales = Pretend(60_000), Scaler(), set()

    def step(data):
        scales.add(scaler.get_scale())
        device.step(data)

    loader = sab.torch.DataLoader(
        DATA,
        sab.BucketSampler(SIZES, "memory"),
        collate_fn=sab.torch.PadCollate(),
        step=step,
        restore=[scaler],
        device=device,
    )
    assert len(loader) > 0 and scales == {1.0} and scaler.get_scale() == 65536


def test_a_run_that_goes_on_does_not_learn_again(capsys):
    first = loader_on(Pretend(60_000))
    whole = [data.shape for data in first]
    first.set_epoch(0)
    walk = iter(first)
    for _ in range(3):
        next(walk)
    state = first.state_dict()
    capsys.readouterr()
    device = Pretend(60_000)
    second = loader_on(device)
    second.load_state_dict(state)
    assert device.shapes == []
    assert [data.shape for data in second] == whole[3:]
    assert capsys.readouterr().err.endswith(", 54000 of 60000 bytes, learned before\n")
    assert second.state_dict()["memory"] == state["memory"]


def test_where_less_memory_is_free_now_the_rest_of_the_epoch_has_smaller_batches():
    first = loader_on(Pretend(60_000))
    walk = iter(first)
    assert next(walk) is not None and next(walk) is not None
    done = [first.source.batch(position).indices.tolist() for position in (0, 1)]
    second = loader_on(Pretend(40_000))
    second.load_state_dict(first.state_dict())
    rest = []
    for data in second:
        assert 40 * data.shape[0] * data.shape[1] <= 36_000
        rest.append(second.batch.indices.tolist())
    assert sorted(index for batch in (*done, *rest) for index in batch) == list(range(400))


def test_the_plan_is_lowered_until_its_costliest_batch_fits():
    # More than the steps tell that were measured, in which one sample is repeated.
    device = Pretend(60_000)
    plain = device.step

    def step(data):
        plain(data)
        if len(set(data[:, 0].tolist())) > 1 and device.most > 40_000:
            raise RuntimeError("out of memory: of real samples")

    loader = loader_on(device, step=step)
    assert 36_000 < loader.source.plan.budget < 42_000


def test_the_guard_lowers_the_budget_before_memory_runs_out(caplog):
    device = Pretend(60_000)
    loader = loader_on(device, bucket_batches=200, max_batch_size=3)
    device.need = lambda count, length: 1000 + 40 * count * length + 900 * len(device.shapes)
    assert len(loader) > 100
    device.shapes.clear()
    guard = None
    for data in loader:
        device.step(data)
        guard = loader.guard
        if guard.info.lowered:
            break
    assert guard.info.lowered == 1 and "memory is scarcer than planned" in caplog.text


@pytest.mark.parametrize("workers", [0, 2])
def test_training_goes_on_when_the_guard_lowers_the_budget(workers):
    device = Pretend(60_000)
    loader = loader_on(device, workers=workers, bucket_batches=200, max_batch_size=3)
    assert len(loader) > 100
    device.shapes.clear()
    scarce = 900  # more bytes after each step
    device.need = lambda count, length: 1000 + 40 * count * length + scarce * len(device.shapes)
    seen = []
    for data in loader:
        device.step(data)
        assert tuple(data.shape) == (loader.batch.count, loader.batch.padded_length)
        assert loader.step().samples == loader.batch.count
        seen += loader.batch.indices.tolist()
        if loader.guard.info.lowered:
            scarce = 0
    assert loader.guard.info.lowered == 1 and loader.source.budget < 54_000
    assert sorted(seen) == list(range(400))


def test_samples_with_several_sizes():
    draw = np.random.default_rng(1)
    sizes = {"source": SIZES, "target": draw.permutation(SIZES)}
    data = list(zip(*(each.tolist() for each in sizes.values())))

    def collate(samples, batch):
        return torch.zeros([batch.count, *(int(each) for each in batch.padded_length.values())])

    device = Pretend(60_000, lambda count, source, target: 100 + count * source * target)
    loader = loader_on(device, data=data, sizes=sizes, collate=collate)
    batches = list(loader.source.batches())
    needs = [device.need(each.count, *each.padded_length.values()) for each in batches]
    assert 0.7 * 54_000 < max(needs) <= 54_000


def test_two_lengths_are_enough():
    sizes = np.where(np.arange(400) % 3, 10, 20)
    loader = loader_on(Pretend(60_000), sizes=sizes, data=[torch.ones(each) for each in sizes])
    assert 0.9 * 53_000 < 40 * max(padded(loader.source.batches())) <= 53_000


def test_no_step_has_more_samples_than_a_batch_may_have():
    for options in ({"max_batch_size": 3}, {"batch_size": 3}):
        device = Pretend(60_000)
        loader = loader_on(device, **options)
        assert max(batch.count for batch in loader.source.batches()) == 3
        assert max(count for count, _ in device.shapes) == 3


def test_min_batch_size_is_the_fewest_samples_of_a_step():
    device = Pretend(60_000)
    assert len(loader_on(device, min_batch_size=2)) > 0
    assert min(count for count, _ in device.shapes) == 2


def test_the_sampler_has_no_batches_before_the_memory_is_measured():
    sampler = sab.BucketSampler(SIZES, budget="memory")
    for use in (len, iter, lambda each: each.plan, lambda each: each.state_dict()):
        with pytest.raises(ValueError, match=r"no batches before the memory .* is measured"):
            use(sampler)
    with pytest.raises(ValueError, match=r"no batches before the memory .* is measured"):
        assert sampler.epoch == 0
    assert repr(sampler) == "<sab.BucketSampler: budget memory>"
    assert (sampler.rank, sampler.world_size) == (0, 1)


def test_ranks_may_be_set_before_the_memory_is_measured():
    device = Pretend(60_000)
    loader = loader_on(device)
    loader.set_ranks(1, 2)
    assert device.shapes == []
    assert (loader.source.rank, loader.source.world_size) == (1, 2)


@pytest.mark.parametrize(
    "budget", ["memory:", "memory:0", "memory:1.5", "memory:x", "memory:nan", "memori", "1000"]
)
def test_wrong_budgets(budget):
    with pytest.raises(ValueError, match=r"must be a number or 'memory'"):
        sab.BucketSampler(SIZES, budget)


def test_what_contradicts_a_budget_of_memory():
    with pytest.raises(TypeError, match="must not be given with a plan"):
        sab.BucketSampler(sab.plan(SIZES, 100), "memory")
    with pytest.raises(ValueError, match=r"cost: must not be given with budget = 'memory'"):
        sab.BucketSampler(SIZES, "memory", cost="quadratic")
    for make in (sab.plan, sab.SequentialSampler):
        with pytest.raises(TypeError, match="budget = 'memory': must be a number"):
            make(SIZES, "memory")


WRONG = [
    {"maxbatch": 3},
    {"oversize": "x"},
    {"tail": "x"},
    {"padding": -1},
    {"output": "x"},
    {"boundaries": [50, 10]},
    {"max_batch_size": -1},
    {"min_batch_size": -1},
    {"min_batch_size": 5, "max_batch_size": 3},
    {"rank": 5, "world_size": 2},
    {"balance": "x"},
]


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_wrong_options_are_refused_before_anything_is_measured(options):
    with pytest.raises((TypeError, ValueError)):
        sab.BucketSampler(SIZES, "memory", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"min_batch_size": 4},
        {"tail": "drop", "last_step": "drop", "world_size": 8},
        {"boundaries": [0, 10, 30], "oversize": "skip", "batch_size": [5, 3]},
        {"max_shapes": 3, "batch_size_multiple": 8},
        {"separate_by": SIZES % 3, "max_shapes": {0: 2, 1: 3, 2: 4}},
    ],
    ids=str,
)
def test_right_options_are_taken_without_a_warning_and_a_bar(options, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler = sab.BucketSampler(SIZES, "memory", progress=True, **options)
    assert repr(sampler) == "<sab.BucketSampler: budget memory>"
    assert capfd.readouterr() == ("", "")


def test_arguments_of_the_loader():
    sampler = sab.BucketSampler(SIZES, "memory")
    with pytest.raises(TypeError, match="step, restore: must be given together"):
        sab.torch.DataLoader(DATA, sampler, step=print)
    with pytest.raises(TypeError, match="step"):
        sab.torch.DataLoader(DATA, sampler, step=3, restore=[])
    with pytest.raises(TypeError, match="step, device: for a sampler with budget='memory' only"):
        sab.torch.DataLoader(DATA, sab.BucketSampler(SIZES, 100), step=print, device="cpu")
    loader = sab.torch.DataLoader(DATA, sampler, device=Pretend(60_000))
    with pytest.raises(ValueError, match="has no step to measure; give it step= and restore="):
        len(loader)


def test_a_device_without_memory_to_measure():
    def loader(**options):
        sampler = sab.BucketSampler(SIZES, "memory")
        return sab.torch.DataLoader(DATA, sampler, step=print, **options)

    with pytest.raises(ValueError, match=r"the model is on the CPU.* sab\.Probe\('cpu', total_"):
        len(loader(restore=[nn.Linear(2, 2)]))
    with pytest.raises(ValueError, match="no module is in restore"):
        len(loader(restore=[]))
    with pytest.raises(ValueError, match="does not know its memory; give device="):
        len(loader(restore=[], device=Pretend(-1)))


def test_a_model_too_large_for_one_sample():
    with pytest.raises(
        sab.DeviceMemoryError, match=r"one sample of length 40 runs out of the 1500 bytes"
    ):
        len(loader_on(Pretend(1500)))
    with pytest.raises(sab.DeviceMemoryError, match="costliest batch runs out of memory, also in"):
        device = Pretend(60_000)

        def step(data):
            device.step(data)
            if len(set(data[:, 0].tolist())) > 1:
                raise RuntimeError("out of memory")

        len(loader_on(device, step=step))


def test_memory_for_few_samples_of_the_greatest_length():
    for total in (2900, 4000, 6000):
        loader = loader_on(Pretend(total))
        largest = 1000 + 40 * max(padded(loader.source.batches()))
        assert largest <= loader.source.plan.budget == int(0.9 * total)
    with pytest.raises(ValueError, match=r"sizes\[\d+\] = 40: must cost at most .* 2430"):
        len(loader_on(Pretend(2700)))


def test_one_length_is_refused():
    with pytest.raises(ValueError, match=r"all samples have the length 5; .*find_max_batch"):
        len(loader_on(Pretend(60_000), sizes=[5] * 10, data=[torch.ones(5)] * 10))


# Warm-up


def test_a_warm_up_runs_each_shape_once_largest_first():
    training = Training()
    sampler = sab.BucketSampler(SIZES, 300, max_shapes=6, seed=3)
    loader = sab.torch.DataLoader(DATA, sampler, collate_fn=sab.torch.PadCollate())
    walk = iter(loader)
    next(walk)
    shapes, before, place = [], training.state(), loader.position

    def step(data):
        shapes.append(tuple(data.shape))
        training.step(data)

    restore = [training.model, training.optimizer, training.extra]
    count = sab.torch.warm_up(loader, step, restore=restore)
    assert training.state() == before and loader.position == place
    areas = [count * length for count, length in shapes]
    assert areas == sorted(areas, reverse=True)
    assert len(set(shapes)) == count == len(shapes) <= 6
    seen = {(batch.count, batch.longest) for batch in sampler.batches()}
    assert {count for count, _ in seen} == {count for count, _ in shapes}
    given = []
    assert sab.torch.warm_up(sampler.plan, given.append, restore=[]) == count
    assert [each.padded_total for each in given] == sorted(
        (each.padded_total for each in given), reverse=True
    )


def test_a_warm_up_that_fails_leaves_no_trace():
    training = Training()
    before = training.state()

    def step(data):
        training.step(data)
        raise KeyError("no such word")

    loader = sab.torch.DataLoader(
        DATA, sab.BucketSampler(SIZES, 300), collate_fn=sab.torch.PadCollate()
    )
    with pytest.raises(KeyError):
        restore = [training.model, training.optimizer, training.extra]
        sab.torch.warm_up(loader, step, restore=restore)
    assert training.state() == before
    with pytest.raises(TypeError, match="source is a list: must be a"):
        sab.torch.warm_up([1], step, restore=[])
    with pytest.raises(TypeError, match="step"):
        sab.torch.warm_up(loader, None, restore=[])


def test_a_warm_up_of_the_rest_of_an_epoch():
    first = sab.BucketSampler(SIZES, 300, seed=3)
    walk = first.batches()
    for _ in range(4):
        next(walk)
    other = sab.BucketSampler(SIZES, 300, seed=3, world_size=2)
    other.load_state_dict(first.state_dict())
    first.set_budget(200)
    for sampler, rest in ((other, other.batches()), (first, walk)):
        given, shapes, place = [], [], sampler.state_dict()
        loader = sab.torch.DataLoader(DATA, sampler, collate_fn=sab.torch.PadCollate())
        sab.torch.warm_up(sampler, given.append, restore=[])
        sab.torch.warm_up(loader, lambda data: shapes.append(tuple(data.shape)), restore=[])
        assert sampler.state_dict() == place
        assert shapes == [(batch.count, batch.padded_length) for batch in given]
        # and those that only other ranks have
        assert set(shapes) >= {(batch.count, batch.padded_length) for batch in rest}


@pytest.mark.parametrize("limit", [40, 60, 110])
def test_a_warm_up_after_a_lower_budget_runs_the_shapes_of_all_ranks(limit):
    sizes = np.random.default_rng(5).integers(1, 40, 60)
    plan = sab.plan(sizes, 200, max_shapes=8)
    for rank in range(3):
        sampler = sab.BucketSampler(plan, rank=rank, world_size=3)
        sampler.set_budget(limit)
        given = []
        sab.torch.warm_up(sampler, given.append, restore=[])
        assert [(batch.count, batch.padded_length) for batch in given] == sampler.shapes
        for batch in given:
            assert batch.indices.size == batch.count
            assert sizes[batch.indices].max() <= batch.padded_length


def test_a_warm_up_of_samples_with_several_sizes():
    sizes = {"source": SIZES, "target": SIZES[::-1].copy()}
    plan = sab.plan(sizes, 600, max_shapes=9)
    given = []
    assert sab.torch.warm_up(plan, given.append, restore=[]) == len(given) <= 9
