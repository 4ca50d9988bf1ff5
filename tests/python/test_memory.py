"""Memory from Python: peaks to the byte, models, the largest batch of real models on an emulated
device, steps that survive, and the guard."""

import gc
import os
import pathlib
import pickle
import random
import re
import shutil
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

import sab

torch = pytest.importorskip("torch")
import contextlib

from torch import nn

MIB = 1 << 20


class Pretend(sab.Device):
    """A device whose memory is a number."""

    def __init__(self, total=-1):
        self.held = self.most = 0
        self.limit, self.calls, self.closed = total, [], False

    def take(self, count):
        if 0 < self.limit < self.held + count:
            raise RuntimeError(f"out of memory: {count} bytes, {self.held} held")
        self.most = max(self.most, self.held + count)

    def reset(self):
        self.most = self.held
        self.calls.append("reset")

    def current(self):
        return self.held

    def peak(self):
        return self.most

    def total(self):
        return self.limit

    def release_cache(self):
        self.calls.append("release")

    def close(self):
        self.closed = True


def numbers(seed):
    return np.random.default_rng(seed)


# Probes


def programs(count):
    """Random programs of allocations: what they do, and the peak computed by hand."""
    for seed in range(count):
        draw = random.Random(seed)
        held, current, peak, steps = [], 0, 0, []
        for _ in range(draw.randrange(1, 30)):
            if held and draw.random() < 0.4:
                index = draw.randrange(len(held))
                current -= held.pop(index)
                steps.append(("free", index))
            else:
                size = 4 * draw.randrange(1, 50_000)
                held.append(size)
                current += size
                steps.append(("take", size))
            peak = max(peak, current)
        yield steps, current, peak


def run_program(steps):
    held = []
    for what, number in steps:
        if what == "take":
            held.append(torch.empty(number // 4))
        else:
            del held[number]
    return held


@pytest.fixture(params=["profiled", "component", "emulated"])
def total_bytes(request, monkeypatch):
    """The three ways to see CPU tensors."""
    if request.param == "profiled":
        monkeypatch.delenv("SAB_TORCH_LIBRARY", raising=False)
    return 64 * MIB if request.param == "emulated" else None


def test_cpu_probe_is_exact_to_the_byte(total_bytes):
    with sab.Probe("cpu", total_bytes=total_bytes) as probe:
        for steps, current, peak in programs(20):
            probe.reset()
            before = probe.stats().current
            held = run_program(steps)
            stats = probe.stats()
            assert (stats.current - before, stats.peak - before) == (current, peak)
            del held
        assert probe.stats().current == 0


def test_cpu_probe_leaves_what_was_there_before_out(total_bytes):
    with sab.Probe("cpu", total_bytes=total_bytes):
        foreign = torch.empty(1000)
    with sab.Probe("cpu", total_bytes=total_bytes) as probe:
        del foreign
        own = torch.empty(10)
        assert probe.stats()[:2] == (40, 40)
        del own


def test_only_messages_of_profiler_sessions_are_left_out(monkeypatch, capfd):
    monkeypatch.delenv("SAB_TORCH_LIBRARY", raising=False)
    end = torch.autograd._disable_profiler
    at = b"2026-01-02 03:04:05 6:7 Handler.cpp:46] "

    def end_with_messages():
        os.write(2, b"USDT:" + at + b"profiler_stop\nERROR:" + at + b"no such device\n")
        os.write(2, b"STAGE:" + at + b"Completed Stage: Collection\nmine: USDT:" + at + b"x\n")
        return end()

    monkeypatch.setattr(torch.autograd, "_disable_profiler", end_with_messages)
    with sab.Probe("cpu") as probe:
        assert probe.stats().current == 0
    printed = capfd.readouterr().err.splitlines()
    others = [f"ERROR:{at.decode()}no such device", f"mine: USDT:{at.decode()}x"]
    assert printed[-2:] == others and set(printed) == set(others)


def test_a_probe_without_the_component_says_how_to_get_it(tmp_path):
    made = subprocess.run(
        [sys.executable, "-c", "import sab; sab.Probe('cpu', total_bytes=1 << 20)"],
        env={**os.environ, "SAB_TORCH_LIBRARY": str(tmp_path / "none.so")},
        capture_output=True,
        text=True,
    )
    error = made.stderr.split("OSError: ", 1)[1]
    assert "none.so" in error.splitlines()[0]
    root = pathlib.Path(torch.__file__).parent
    assert f"-DSAB_BUILD_TORCH=ON -DSAB_TORCH_ROOT={root}" in error
    assert "build/lib/src/torch/component/libsab_torch.so.0" in error


OPENS = """
import ctypes, sys, sab
ctypes.CDLL(sys.argv[1])
status = sab._lib.sab_torch_open(sab._ffi.NULL, sab._ffi.NULL)
print(status, sab._ffi.string(sab._lib.sab_last_error_message()).decode())
"""


@pytest.mark.parametrize("variable", ["SAB_TORCH_LIBRARY", "LD_LIBRARY_PATH"])
def test_a_component_of_another_torch_is_refused_before_it_is_loaded(tmp_path, variable):
    """Both in one process end it. Here they are empty: only names are read."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    loaded, component = tmp_path / "libc10.so.9", tmp_path / "libsab_torch.so.0"
    subprocess.run(["gcc", "-shared", "-o", loaded, "-x", "c", os.devnull], check=True)
    component.write_bytes(b"sab_torch_component_1\0SAB_TORCH_BUILT_FOR=1.2.3\0")
    environment = {**os.environ, "LD_LIBRARY_PATH": "", "SAB_TORCH_LIBRARY": ""}
    environment[variable] = str(component if variable == "SAB_TORCH_LIBRARY" else tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", OPENS, loaded], env=environment, capture_output=True, text=True
    )
    message = f'-7 "(.*)" was built for LibTorch [0-9.]+, but .*, "{loaded}"\n'
    found = re.fullmatch(message, done.stdout)
    assert found, done
    # One beside libsab comes before one on the path.
    assert variable == "LD_LIBRARY_PATH" or "for LibTorch 1.2.3," in done.stdout


def test_cpu_probes_agree_on_a_training_step(monkeypatch):
    model, data = (
        nn.Sequential(nn.Linear(40, 300), nn.ReLU(), nn.Linear(300, 7)),
        torch.randn(50, 40),
    )
    peaks = []
    for total_bytes in (64 * MIB, None):
        if total_bytes is None:
            monkeypatch.delenv("SAB_TORCH_LIBRARY", raising=False)
        with sab.Probe("cpu", total_bytes=total_bytes) as probe:
            for _ in range(2):
                model.zero_grad(set_to_none=True)
                probe.reset()
                model(data).square().mean().backward()
                peaks.append(probe.stats().peak)
            model.zero_grad(set_to_none=True)
    assert peaks[0] == peaks[1] == peaks[2] == peaks[3] > 50 * 300 * 4


def test_emulated_device_raises_torchs_own_error():
    with sab.Probe("cpu", total_bytes=MIB) as probe:
        held = torch.empty(MIB // 8)
        with pytest.raises(RuntimeError, match="out of memory") as caught:
            torch.empty(MIB // 4)
        assert sab.is_out_of_memory(caught.value) and probe.stats().total == MIB
        assert probe.stats().current == MIB // 2
        torch.empty(MIB // 8)
        del held
    torch.empty(MIB)  # no limit any more


def test_host_probe_sees_what_is_touched():
    try:
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")
    except OSError:  # some systems have no way to let the peak begin again
        with pytest.raises(sab.UnsupportedError, match="clear_refs"):
            sab.Probe("host")
        return
    with sab.Probe("host") as probe:
        probe.reset()
        before = probe.stats()
        np.ones(8 * MIB)
        assert probe.stats().peak - before.current >= 60 * MIB and before.total > before.current


def test_probe_of_a_device_that_is_not_there():
    for device, words in (
        ("cuda:99", "sees"),
        ("abacus", "no memory statistics"),
        ("", "must be"),
        ("cuda:x", "must be"),
        ("cuda:-1", "must be"),
    ):
        with pytest.raises(ValueError, match=words):
            sab.Probe(device)
    with pytest.raises(sab.UnsupportedError, match="cannot be limited"):
        sab.Probe("host", total_bytes=MIB)
    with pytest.raises(ValueError, match="total_bytes = 0"):
        sab.Probe("cpu", total_bytes=0)


def test_device_of_ones_own():
    device = Pretend(100)
    with sab.Probe(device) as probe:
        device.held = 5
        device.take(20)
        assert probe.stats() == sab.ProbeStats(5, 25, -1, -1, 100)
        device.current = lambda: 1 / 0
        with pytest.raises(ZeroDivisionError):
            probe.stats()
    assert device.closed


class PretendCuda(types.SimpleNamespace):
    """As much of torch.cuda as a probe asks."""

    def __init__(self):
        super().__init__(
            held=0, most=0, fraction=None, emptied=0, state=torch.zeros(4, dtype=torch.uint8)
        )

    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 2)
    current_device = staticmethod(lambda: 1)
    OutOfMemoryError = torch.cuda.OutOfMemoryError

    def get_device_properties(self, device):
        return types.SimpleNamespace(total_memory=1000)

    def set_per_process_memory_fraction(self, fraction, device):
        self.fraction = fraction

    def memory_stats(self, device):
        return {}

    def memory_allocated(self, device):
        return self.held

    def max_memory_allocated(self, device):
        return self.most

    def max_memory_reserved(self, device):
        return 512

    def memory_snapshot(self):
        return [
            {
                "device": 1,
                "blocks": [
                    {"size": 30, "state": "inactive"},
                    {"size": 60, "state": "active_allocated"},
                ],
            },
            {"device": 0, "blocks": [{"size": 90, "state": "inactive"}]},
        ]

    def reset_peak_memory_stats(self, device):
        self.most = self.held

    def empty_cache(self):
        self.emptied += 1

    def get_rng_state(self, device):
        return self.state

    def set_rng_state(self, state, device):
        self.state = state


def test_cuda_probe_asks_torch(monkeypatch):
    cuda = PretendCuda()
    monkeypatch.setattr(torch, "cuda", cuda)
    with sab.Probe(torch.device("cuda:1"), total_bytes=500) as probe:
        assert cuda.fraction == 0.5
        cuda.held, cuda.most = 7, 11
        assert probe.stats() == sab.ProbeStats(7, 11, 512, 30, 500)
        probe.reset()
        assert probe.stats().peak == 7
    assert cuda.fraction == 1.0
    with pytest.raises(ValueError, match="sees 2 such devices"):
        sab.Probe("cuda:2")
    with pytest.raises(ValueError, match="the device has 1000"):
        sab.Probe("cuda:1", total_bytes=2000)


def test_jax_probe_asks_jax(monkeypatch):
    statistics = {"bytes_in_use": 3, "peak_bytes_in_use": 8, "bytes_limit": 64}
    device = types.SimpleNamespace(memory_stats=lambda: statistics)
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(local_devices=lambda: [device]))
    with sab.Probe("jax") as probe:
        assert probe.stats() == sab.ProbeStats(3, 8, -1, -1, 64)
    with pytest.raises(ValueError, match="jax sees 1 devices"):
        sab.Probe("jax:1")
    statistics.clear()
    with pytest.raises(sab.UnsupportedError, match="no memory statistics"):
        sab.Probe("jax:0")


# Peaks


def test_collect_peak_records_features_and_peaks():
    device, order = Pretend(1000), []

    def work(size):
        order.append(size)
        device.take(size)
        return [size, 2 * size]

    peaks = sab.collect_peak(
        work, iter([10, 2000, 30, 40]), device, cleanup=lambda: order.append("cleanup")
    )
    assert peaks.features == [[10, 20], [30, 60], [40, 80]]
    assert (
        peaks.peaks.tolist() == [10, 30, 40]
        and peaks.items.tolist() == [0, 2, 3]
        and peaks.out_of_memory == [1]
    )
    assert order == [10, "cleanup", 2000, "cleanup", 30, "cleanup", 40, "cleanup"]
    assert sab.collect_peak(work, [10, 20, 30], device, warm_up=2).items.tolist() == [2]


def test_collect_peak_gives_other_errors_back_unchanged():
    device = Pretend()

    def work(size):
        if size == 3:
            raise KeyError("three")
        device.take(size)
        return size

    with pytest.raises(KeyError, match="three") as caught:
        sab.collect_peak(work, [1, 2, 3, 4], device)
    assert caught.value.collected.features == [1, 2]
    with pytest.raises(ValueError, match="must be as many"):
        sab.collect_peak(lambda size: [1.0] * size, [1, 2], Pretend())
    with pytest.raises(ValueError, match="must be finite"):
        sab.collect_peak(lambda size: float("nan"), [1], Pretend())
    with pytest.raises(ZeroDivisionError):
        sab.collect_peak(lambda size: size, [1], Pretend(), cleanup=lambda: 1 / 0)


def test_collect_peak_can_be_stopped():
    seen = []
    with pytest.raises(sab.Cancelled):
        sab.collect_peak(seen.append, range(9), Pretend(), progress=lambda done, total: done < 3)
    assert seen == [0, 1, 2]


def test_collect_peak_lets_frames_of_a_failed_item_go():
    with sab.Probe("cpu", total_bytes=8 * MIB) as probe:

        def work(size):
            held = torch.empty(MIB)  # 4 MiB, which a frame kept alive would take from the next item
            torch.empty(size)
            del held
            return size

        peaks = sab.collect_peak(work, [4 * MIB, 3 * MIB // 4, 4 * MIB, MIB // 2], probe)
    assert peaks.out_of_memory == [0, 2] and peaks.peaks.tolist() == [7 * MIB, 6 * MIB]


def test_bionemo_collect_cuda_peak_alloc(monkeypatch):
    from sab.compat.bionemo.utils import collect_cuda_peak_alloc

    with pytest.raises(ValueError, match=r"This function is intended for CUDA devices only."):
        collect_cuda_peak_alloc([1], lambda data: data, torch.device("cpu"))
    cuda = PretendCuda()
    monkeypatch.setattr(torch, "cuda", cuda)
    cleaned = []

    def work(data):
        if data == 3:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        cuda.most = cuda.held + 100 * data
        return "feature", [data] * data

    features, peaks = collect_cuda_peak_alloc(
        [1, 2, 3, 4], work, torch.device("cuda:0"), cleanup=lambda: cleaned.append(1)
    )
    assert features == [("feature", [1]), ("feature", [2, 2]), ("feature", [4] * 4)] and peaks == [
        100,
        200,
        400,
    ]
    assert len(cleaned) == 4 and cuda.emptied >= 4


# The model


def bytes_of(count, length):
    return 5e6 + 3e4 * count * (length - 1) + 20 * count * length**2


def test_model_is_the_cost_of_a_plan():
    points = sab.measurement_points(4, 90, max_count=1000)
    model = sab.MemoryModel.fit(points, [bytes_of(*point) for point in points])
    assert model.info.residual < 1e-6 and model.predict([(7, 33)])[0] == pytest.approx(
        bytes_of(7, 33)
    )
    sizes = numbers(0).integers(4, 90, 3000)
    plan = sab.plan(sizes, cost=model, budget=40e6)
    peaks = [
        bytes_of(batch.count, batch.padded_length) for batch in sab.BucketSampler(plan).batches()
    ]
    assert max(peaks) <= 40e6 and np.mean(peaks) > 0.9 * 40e6
    with pytest.raises(ValueError, match="constant term"):
        sab.plan(sizes, cost=model, budget=4e6)


def test_model_is_saved_and_pickled(tmp_path):
    points = sab.measurement_points(4, 90, max_count=1000)
    model = sab.MemoryModel.fit(
        points,
        [bytes_of(*point) * (1 + 0.01 * (i % 3)) for i, point in enumerate(points)],
        coverage=0.8,
    )
    model.save(tmp_path / "model")
    for same in (
        sab.MemoryModel.open(tmp_path / "model"),
        pickle.loads(pickle.dumps(model)),
        sab.MemoryModel.from_bytes(model.to_bytes()),
    ):
        assert same.terms == model.terms and same.info == model.info and str(same) == str(model)
        assert same.predict_upper([(3, 50)]) > same.predict([(3, 50)])
    with pytest.raises(sab.FormatError):
        sab.MemoryModel.from_bytes(model.to_bytes()[:-1])


def test_model_refuses_what_says_too_little():
    points = sab.measurement_points(4, 90, max_count=1000)
    with pytest.raises(ValueError, match="measure 4 more"):
        sab.MemoryModel.fit(points[:3], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="length is 10 in all"):
        sab.MemoryModel.fit([(n, 10) for n in range(1, 13)], np.arange(1.0, 13.0))
    with pytest.raises(ValueError, match=r"features\[2\]\[0\] = nan"):
        sab.MemoryModel.fit([*points[:2], (float("nan"), 3), *points[2:]], [1.0] * 13)
    with pytest.raises(ValueError, match="peaks has shape"):
        sab.MemoryModel.fit(points, [1.0])
    model = sab.MemoryModel.fit(points, [bytes_of(*point) for point in points])
    for wrong in ([1.0, 2.0], [[1.0]], [[1.0, 2.0, 3.0]]):
        with pytest.raises(ValueError, match="features has shape"):
            model.predict(wrong)


# The largest batch


class Attention(nn.Module):
    """With all scores in memory, as without flash attention."""

    def __init__(self):
        super().__init__()
        self.all = nn.Linear(16, 48)

    def forward(self, data):
        query, key, value = self.all(data).chunk(3, -1)
        return (query @ key.transpose(1, 2) / 4).softmax(-1) @ value


def test_find_max_batch_predicts_what_fits():
    with sab.Probe("cpu", total_bytes=24 * MIB) as probe:
        torch.manual_seed(0)
        model = Attention()
        optimizer = torch.optim.AdamW(model.parameters())
        fits = {}

        def step(count):
            optimizer.zero_grad(set_to_none=True)  # noqa: F821 (deleted at the end)
            model(torch.randn(count, 64, 16)).square().mean().backward()  # noqa: F821 (deleted at the end)
            optimizer.step()  # noqa: F821 (deleted at the end)

        def trial(count):
            try:
                step(count)
                fits[count] = True
            except RuntimeError:
                fits[count] = False
                raise

        step(1)  # the optimizer's state
        state = torch.get_rng_state()
        found = sab.find_max_batch(trial, probe)
        assert torch.equal(torch.get_rng_state(), state)
        assert found.out_of_memory == 0 and all(fits.values()) and found.trials == len(fits) <= 6
        optimizer.zero_grad(set_to_none=True)
        best = sab.find_max_batch(step, probe, search="binary").batch_size
        assert 0.97 * best <= found.batch_size <= best and best > 30
        del model, optimizer


def test_find_max_batch_for_each_length():
    with sab.Probe("cpu", total_bytes=8 * MIB) as probe:
        model = Attention()

        def step(count, length):
            model.zero_grad(set_to_none=True)  # noqa: F821 (deleted at the end)
            model(torch.randn(count, int(length), 16)).square().mean().backward()  # noqa: F821 (deleted at the end)

        step(1, 5)
        lengths = [10, 80, 20, 40]
        found = sab.find_max_batch(step, probe, lengths=lengths)
        best = sab.find_max_batch(step, probe, lengths=lengths, search="binary")
        assert found.out_of_memory == 0 and found.batch_size == found.batch_sizes[1]
        assert all(0.97 * b <= f <= b for f, b in zip(found.batch_sizes, best.batch_sizes))
        assert sab.find_max_batch(step, probe, lengths=lengths, rounding=8).batch_sizes == [
            size // 8 * 8 for size in found.batch_sizes
        ]
        model.zero_grad(set_to_none=True)
        del model


def test_find_max_batch_of_pretend_devices():
    device = Pretend(1000)
    for search, expected in (("binary", 99), ("halve", 97), ("difference", 100)):
        found = sab.find_max_batch(
            lambda count: device.take(10 + 10 * count), device, search=search
        )
        assert found.batch_size == expected, search
    assert (
        sab.find_max_batch(
            lambda count: device.take(10 * count), device, rounding="power_of_two"
        ).batch_size
        == 64
    )
    assert (
        sab.find_max_batch(lambda count: device.take(10 * count), device, budget=300).batch_size
        == 30
    )
    with pytest.raises(sab.DeviceMemoryError, match="not enough memory even for a batch of one"):
        sab.find_max_batch(lambda count: device.take(2000), device)
    with pytest.raises(KeyError):
        sab.find_max_batch(lambda count: {}[count], device)
    with pytest.raises(ValueError, match="search = 'guess'"):
        sab.find_max_batch(lambda count: None, device, search="guess")
    with pytest.raises(ValueError, match="budget = 0: must be given"):
        sab.find_max_batch(lambda count: None, Pretend())
    with pytest.raises(ValueError, match="max_batch_size = -1"):
        sab.find_max_batch(lambda count: None, device, max_batch_size=-1)
    with pytest.raises(TypeError, match="sampler is a list"):
        sab.MemoryGuard([1], device)


def test_find_executable_batch_size_as_accelerates(caplog):
    sizes = []

    @sab.find_executable_batch_size(starting_batch_size=100)
    def train(batch_size, name, *, option):
        sizes.append(batch_size)
        if batch_size > 75:
            raise RuntimeError("CUDA out of memory. Tried to allocate")
        return name, option, batch_size

    assert train("model", option=1) == ("model", 1, 72) and sizes == [100, 90, 81, 72]
    assert train("model", option=1)[2] == 72 and len(sizes) == 5  # kept
    assert "batch size 100 runs out of memory: trying 90" in caplog.text
    with pytest.raises(sab.DeviceMemoryError, match="no executable batch size found"):
        sab.find_executable_batch_size(
            lambda batch_size: (_ for _ in ()).throw(MemoryError()),
            4,
            reduce_batch_size_fn=lambda size: size // 2,
        )()
    with pytest.raises(KeyError):
        sab.find_executable_batch_size(lambda batch_size: {}[0])()


def test_growth():
    from sab.compat.torchtune import next_batch_size

    assert [
        sab.grow_batch_size_linear(epoch, start=8, amount=4, period=2, max_batch_size=15)
        for epoch in range(6)
    ] == [8, 8, 12, 12, 15, 15]
    assert [
        sab.grow_batch_size_doubling(epoch, start=8, milestones=[1, 3], max_batch_size=30)
        for epoch in range(5)
    ] == [8, 16, 16, 30, 30]
    with pytest.raises(ZeroDivisionError):
        sab.grow_batch_size(lambda epoch, size: 1 // 0, 0, current=8, max_batch_size=100)
    with pytest.raises(ValueError, match="increase = -1"):
        sab.grow_batch_size(lambda epoch, size: -1, 0, current=8, max_batch_size=100)
    size, seen = 8, []
    for epoch in range(5):
        size = next_batch_size(lambda epoch, current: current if epoch % 2 else 0, epoch, size, 20)
        seen.append(size)
    assert seen == [8, 16, 16, 16, 16] and next_batch_size(None, 1, 8, 20) == 8


# Steps that do not fail


@pytest.mark.parametrize("room", [24, 3, 2])
def test_chunked_step_gives_the_gradient_of_the_whole_batch(room, caplog):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(32, 512), nn.Tanh(), nn.Linear(512, 4))
    data, target = torch.randn(600, 32), torch.randn(600, 4)
    weights = numbers(0).integers(1, 9, 600)
    per_sample = torch.tensor(weights / weights.sum(), dtype=torch.float32)
    (((model(data) - target) ** 2).mean(1) * per_sample).sum().backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    with sab.Probe("cpu", total_bytes=room * MIB) as probe:

        def chunk(first, count, weight):
            part = slice(first, first + count)
            share = per_sample[part] / per_sample[part].sum()
            (((model(data[part]) - target[part]) ** 2).mean(1) * share).sum().mul(weight).backward()

        fitted = sab.step_in_chunks(
            chunk, 600, probe, begin=lambda: model.zero_grad(set_to_none=True), weights=weights
        )
        assert (fitted == 600) == (room == 24) and ("ran out of memory" in caplog.text) == (
            room != 24
        )
        for parameter, gradient in zip(model.parameters(), expected):
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)
        model.zero_grad(set_to_none=True)


def test_torchtune_train_step():
    from sab.compat.torchtune import find_max_batch_size, is_oom_exception, train_step

    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = torch.randn(64, 8)
    losses = []
    for chunk_size in (None, 16):
        torch.manual_seed(0)
        nn.init.ones_(model.weight), nn.init.zeros_(model.bias)
        device = Pretend(1000)

        def step(chunk):
            device.take(100 * len(chunk))
            return model(chunk), torch.zeros(len(chunk), 1)

        loss, fitted = train_step(data, step, nn.functional.mse_loss, optimizer, chunk_size, device)
        assert fitted == 8
        losses.append((float(loss), model.weight.detach().clone()))
    assert losses[0][0] == pytest.approx(float((data.sum(1) ** 2).mean()), rel=1e-5)
    torch.testing.assert_close(losses[0], losses[1])
    with pytest.raises(RuntimeError, match="not enough memory even for a batch of one"):
        train_step(data, lambda chunk: device.take(5000), None, optimizer, None, device)
    assert find_max_batch_size(lambda count: device.take(10 * count), device) == 64
    assert is_oom_exception(MemoryError())


def test_verify_runs_the_costliest_batches():
    sizes = numbers(0).integers(1, 90, 2000)
    plan, device = sab.plan(sizes, budget=1000), Pretend(11_000)
    seen = []

    def run(batch):
        seen.append(batch.padded_total)
        device.take(int(10 * batch.padded_total))

    result = plan.verify(run, device, count=5)
    assert result == sab.Verification(5, int(10 * max(seen)), 11_000) and seen == sorted(
        seen, reverse=True
    )
    device.limit = 5000
    with pytest.raises(sab.DeviceMemoryError, match="samples padded to"):
        plan.verify(run, device)
    with pytest.raises(KeyError):
        plan.verify(lambda batch: {}[0], device)


# The guard


def test_guard_splits_a_step_that_runs_out(caplog):
    plan = sab.plan([10] * 400, budget=400)
    device = Pretend(10_000)
    sampler = sab.BucketSampler(plan)
    parts = []

    def chunk(first, count, weight):
        device.take(count * (400 if len(parts) < 3 else 100))
        parts.append((first, count, weight))

    with sab.MemoryGuard(sampler, device) as guard:
        guard.step(next(sampler.batches()), chunk)
        assert parts == [(0, 20, 0.5), (20, 20, 0.5)] and guard.info.out_of_memory == 1
        assert "ran out of memory and was split" in caplog.text
        with pytest.raises(KeyError):
            guard.step((4, 10), lambda first, count, weight: {}[0])
        with pytest.raises(RuntimeError, match="out of memory"), guard.measure((4, 10)):
            device.take(20_000)
        assert guard.info.out_of_memory == 2


def test_errors_in_work_leave_nothing_behind():
    """Exceptions in hooks of all kinds: the RNG and the peak are as before, and no reference is
    kept."""
    import weakref

    class Thing:
        pass

    def failing(*arguments):
        raise KeyError("x")

    device = Pretend(1000)
    plan = sab.plan([1] * 10, budget=5)
    for call in (
        lambda thing: sab.collect_peak(lambda item: failing(thing), [1], device),
        lambda thing: sab.find_max_batch(lambda count: failing(thing), device),
        lambda thing: sab.step_in_chunks(lambda *part: failing(thing), 4, device),
        lambda thing: plan.verify(lambda batch: failing(thing), device),
    ):
        thing = Thing()
        alive = weakref.ref(thing)
        state = np.random.get_state()[1].tolist()
        with pytest.raises(KeyError):
            call(thing)
        assert np.random.get_state()[1].tolist() == state and device.most == device.held
        del thing
        gc.collect()
        assert alive() is None


RANK = """
import sys, numpy as np, sab, torch.distributed as dist
sys.path.insert(0, sys.argv[1])
from test_memory import Pretend

rank = int(sys.argv[3])
meeting = f"file://{sys.argv[2]}/meeting"
dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
device = Pretend(1000 * (rank + 1))
found = sab.find_max_batch(
    lambda count: device.take(10 * count), device, search="binary", reduce="torch"
)
sizes = np.random.default_rng(0).integers(1, 60, 4000)
plan = sab.plan(sizes, budget=600)
device = Pretend(8000 if rank else 100_000)  # one rank has little room
sampler = sab.BucketSampler(plan, rank=rank, world_size=2)
seen = []
with sab.MemoryGuard(sampler, device, interval=4, reduce="torch") as guard:
    for batch in sampler.batches():
        def step(first, count, weight):
            device.take(int(2000 + 12 * count * batch.padded_length))
        guard.step(batch, step)
        seen += batch.indices.tolist()
    info = guard.info
    print(found.batch_size, info.lowered, info.limit, info.steps, info.out_of_memory)
print(*seen)
"""


def test_two_processes_lower_alike(tmp_path):
    import pathlib
    import subprocess

    here = str(pathlib.Path(__file__).parent)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, here, str(tmp_path), str(rank)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        for rank in range(2)
    ]
    lines = [rank.communicate(timeout=120)[0].splitlines() for rank in ranks]
    facts = [line[0].split() for line in lines]
    assert facts[0][:4] == facts[1][:4] and facts[0][0] == "100"
    assert (
        int(facts[0][1]) > 0
        and float(facts[0][2]) <= 500
        and (facts[0][4], int(facts[1][4]) <= 4) == ("0", True)
    )
    assert sorted(int(index) for line in lines for index in line[1].split()) == list(range(4000))


# What a call holds on to, and what is closed under it


@pytest.fixture
def no_garbage_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def guarded():
    with sab.Probe("cpu", total_bytes=24 * MIB) as probe:
        sampler = sab.BucketSampler(sab.plan([5, 3, 5, 4] * 100, budget=100), seed=1)
        yield probe, sampler, sab.MemoryGuard(sampler, probe, interval=1)


def test_calls_let_go_of_what_their_functions_hold(guarded, no_garbage_collector):
    probe, _, guard = guarded

    def run(call):
        x = torch.ones(MIB // 4)
        with contextlib.suppress(ValueError, ZeroDivisionError):
            call(lambda *arguments: (x * 2).sum())

    def failing(call):
        def fail(*arguments):
            raise ZeroDivisionError

        def guard_of(function):
            kept = function  # noqa: F841
            call(fail)

        return guard_of

    calls = [
        lambda chunk: guard.step((1, 5.0), chunk),
        lambda chunk: sab.step_in_chunks(chunk, 3, probe),
        lambda trial: sab.find_max_batch(trial, probe, max_batch_size=3),
        lambda work: sab.collect_peak(work, range(3), probe),
        lambda run: sab.verify(sab.plan([3] * 9, budget=9), run, probe, count=1),
    ]
    for call in calls + [failing(call) for call in calls]:
        for _ in range(3):
            run(call)
        assert probe.stats().current < MIB


def test_a_probe_closed_in_its_own_use_is_used_to_the_end():
    for total in (None, 1 << 28):
        probe = sab.Probe("cpu", total_bytes=total)

        def work(item):
            probe.close()
            torch.ones(1000)
            return (item,)

        assert sab.collect_peak(work, range(3), probe).peaks.tolist() == [4000] * 3
    device = Pretend(1000)
    probe = sab.Probe(device)
    sampler = sab.BucketSampler(sab.plan([5, 3], budget=100))
    guard = sab.MemoryGuard(sampler, probe)
    probe.close()
    assert not device.closed  # the guard has it
    guard.step((1, 5.0), lambda *part: device.take(5))
    assert guard.info.peak == 5
    guard.close()
    assert device.closed
    with pytest.raises(ValueError, match="probe"):
        probe.stats()


def test_a_sampler_closed_under_its_guard(guarded):
    _, sampler, guard = guarded
    sampler.close()
    assert guard.info.steps == 0
    with pytest.raises(ValueError, match="sampler"):
        guard.step((1, 5.0), lambda *part: None)


@pytest.mark.parametrize("what", ["guard", "sampler"])
def test_what_is_closed_in_its_own_step(guarded, what):
    _, sampler, guard = guarded
    with pytest.raises(ValueError, match=what):
        for _ in range(2):
            guard.step((1, 5.0), lambda *part: (guard if what == "guard" else sampler).close())


def test_copies_of_a_probe_are_the_probe():
    import copy

    device = Pretend(1000)
    probe = sab.Probe(device)
    other = copy.copy(probe)
    del probe
    assert other.stats().total == 1000 and not device.closed
    other.close()
    assert device.closed
    with pytest.raises(TypeError):
        copy.deepcopy(sab.Probe(Pretend()))


def test_an_error_that_is_its_own_cause_ends():
    device = Pretend()

    def work(item):
        try:
            raise RuntimeError("out of memory")
        except RuntimeError as error:
            raise error from error

    assert sab.collect_peak(work, range(2), device).out_of_memory == [0, 1]


def test_the_first_error_is_told_and_is_the_users_own():
    class Mute(RuntimeError):
        def __str__(self):
            raise ValueError

    def fail(error):
        raise error

    with pytest.raises(Mute):
        sab.collect_peak(lambda item: fail(Mute()), range(2), Pretend())
    with pytest.raises(KeyError):
        sab.collect_peak(
            lambda item: fail(KeyError()),
            range(2),
            Pretend(),
            cleanup=lambda: fail(ZeroDivisionError()),
        )
    with pytest.raises(KeyboardInterrupt):
        sab.collect_peak(
            lambda item: fail(KeyError()),
            range(2),
            Pretend(),
            cleanup=lambda: fail(KeyboardInterrupt()),
        )


def test_running_out_while_inputs_are_made_is_no_answer_of_the_device():
    def inputs():
        yield 1
        raise MemoryError("of the loader")

    with pytest.raises(MemoryError, match="of the loader") as failed:
        sab.collect_peak(lambda item: (item,), inputs(), Pretend())
    assert failed.value.collected.features == [(1,)]
    assert failed.value.collected.out_of_memory == []


def test_arguments_that_cannot_be():
    class Endless:
        def __len__(self):
            raise NotImplementedError

        def __iter__(self):
            return iter([1, 2])

    assert sab.collect_peak(lambda item: (item,), Endless(), Pretend()).features == [(1,), (2,)]
    with pytest.raises(sab.UnsupportedError, match="total_bytes = 5"):
        sab.Probe(Pretend(), total_bytes=5)
    with pytest.raises(TypeError):
        sab.Probe("cpu", total_bytes=1.5)
    with pytest.raises(ValueError, match="cpu:7"):
        sab.Probe("cpu:7")
    with pytest.raises(TypeError, match="progress = 3"):
        sab.collect_peak(lambda item: item, range(2), Pretend(), progress=3)
    with pytest.raises(ValueError, match="must be finite"):
        sab.collect_peak(lambda item: (10**400,), range(2), Pretend())
    with pytest.raises(ValueError, match="64"):
        sab.collect_peak(lambda item: range(65), range(2), Pretend())
    with pytest.raises(TypeError, match=r"budget = 0.5"):
        sab.find_max_batch(lambda count: None, Pretend(1000), budget=0.5)
    with pytest.raises(ValueError, match="rounding = -1"):
        sab.find_max_batch(lambda count: None, Pretend(1000), rounding=-1)
    with pytest.raises(ValueError, match="milestones = -1"):
        sab.grow_batch_size_doubling(1, start=2, milestones=[-1], max_batch_size=8)
    with pytest.raises(ValueError, match="points = 1000000000000"):
        sab.measurement_points(1, 2, max_count=3, points=10**12)
    with pytest.raises(ValueError, match="null character"):
        sab.MemoryModel.open("a\0b")


def test_learn_tells_of_all_its_steps_as_one_progress():
    device, told = Pretend(1 << 40), []

    def step(count, length):
        device.take(5000 + 30 * count * length)

    def learn(progress):
        return sab.MemoryModel.learn(
            step, device, shortest=5, longest=100, budget=10**6, points=7, progress=progress
        )

    learn(lambda done, total: told.append((done, total)))
    assert told == [(done, 15) for done in range(15)]
    with pytest.raises(sab.Cancelled):
        learn(lambda done, total: done < 9)
    with pytest.raises(TypeError, match="progress = 3"):
        learn(3)


def test_budgets_and_lengths_that_nothing_can_be_learned_of():
    device = Pretend(1 << 40)

    def step(count, length):
        device.take(5000 + 30 * count * length)

    def learn(**options):
        return sab.MemoryModel.learn(
            step,
            shortest=options.pop("shortest", 5),
            longest=options.pop("longest", 100),
            device=device,
            **options,
        )

    with pytest.raises(ValueError, match="budget = 10: one sample of length 5 costs"):
        learn(budget=10)
    with pytest.raises(ValueError, match="no batch costs a third of it: 4 samples of length 100"):
        learn(max_count=4, budget=10**9)
    with pytest.raises(ValueError, match="of one length find_max_batch"):
        learn(shortest=100)
    with pytest.raises(ValueError, match="budget = -5"):
        learn(budget=-5)
    state = torch.get_rng_state(), random.getstate()
    sab.collect_peak(lambda item: (torch.rand(3).sum().item(), random.random()), range(3), device)
    assert torch.equal(torch.get_rng_state(), state[0]) and random.getstate() == state[1]


@pytest.mark.parametrize("how", ["step", "measure", "failing step"])
def test_each_lowering_is_logged_and_no_sample_comes_twice(how, caplog):
    device = Pretend(220)
    sampler = sab.BucketSampler(sab.plan([5] * 400, budget=100), seed=2)
    guard = sab.MemoryGuard(sampler, sab.Probe(device), interval=1)
    seen = []
    for indices in sampler:
        seen += indices.tolist()
        device.held = min(device.held + 10, 150)
        batch = len(indices), 5.0
        if how == "measure":
            with guard.measure(batch):
                device.take(5 * len(indices))
        elif how == "step" or len(seen) > 60:
            guard.step(batch, lambda first, count, weight: device.take(5 * count))
        else:

            def fail(*part):
                raise MemoryError

            with pytest.raises(sab.DeviceMemoryError):
                guard.step(batch, fail)
    assert sorted(seen) == list(range(400))
    assert (
        sum("lowered from" in record.message for record in caplog.records) == guard.info.lowered > 0
    )


def test_a_measured_step_that_fails_is_counted():
    device = Pretend(1000)
    guard = sab.MemoryGuard(sab.BucketSampler(sab.plan([5, 3], budget=100)), sab.Probe(device))
    with pytest.raises(KeyError), guard.measure((1, 5.0)):
        raise KeyError
    assert guard.info.steps == 1 and guard.info.out_of_memory == 0
    with pytest.raises(ValueError, match=r"padded_length\[0\] = nan"):
        guard.step((3, float("nan")), lambda *part: None)


def test_find_executable_batch_size_that_cannot_go_on():
    def always(batch_size, model=None):
        raise MemoryError

    stuck = sab.find_executable_batch_size(always, 8, reduce_batch_size_fn=lambda size: size)
    with pytest.raises(ValueError, match="gives 8 after 8"):
        stuck()
    run = sab.find_executable_batch_size(
        lambda batch_size: batch_size if room[0] >= batch_size else always(batch_size), 8
    )
    room = [0]
    with pytest.raises(sab.DeviceMemoryError):
        run()
    room = [4]
    assert run() == 4
    with pytest.raises(TypeError, match="leave it out of the call"):
        sab.find_executable_batch_size(always)(32, "model")

    @sab.find_executable_batch_size(starting_batch_size=4)
    def nested(batch_size):
        sab.step_in_chunks(
            lambda first, count, weight: always(count) if batch_size > 2 else None, 3, Pretend()
        )
        return batch_size

    assert nested() == 2


def test_profiled_probes_of_several_threads(monkeypatch):
    monkeypatch.delenv("SAB_TORCH_LIBRARY", raising=False)
    wrong = []

    def run(length):
        with sab.Probe("cpu") as probe:
            peaks = sab.collect_peak(
                lambda item: (torch.ones(length).sum().item(),), range(20), probe
            ).peaks
        if set(peaks.tolist()) != {4 * length + 4}:
            wrong.append(peaks)

    threads = [threading.Thread(target=run, args=(100 * i,)) for i in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_component_probe_is_of_its_thread():
    with sab.Probe("cpu", total_bytes=1 << 20) as probe:
        failures = []

        def elsewhere():
            with pytest.raises(RuntimeError, match="make one in this thread"):
                probe.stats()
            failures.append(None)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert failures == [None]


# Several sizes a sample

PAIR_HELD = 10_000_000  # parameters and optimizer
SHORTEST, LONGEST = {"source": 4, "target": 4}, {"source": 200, "target": 300}


def pair_bytes(count, lengths):
    """Of a training step: activations, and attention from target to source."""
    source, target = lengths["source"], lengths["target"]
    return 3e3 * count * (source + target) + 20 * count * source * target


def pair_sizes(count, seed=0):
    draw = numbers(seed)
    source = np.clip(draw.lognormal(3.3, 0.7, count).astype(int) + 4, 4, 200)
    target = np.clip((source * draw.lognormal(0.1, 0.3, count)).astype(int) + 1, 4, 300)
    return {"source": source, "target": target}


def pair_device(total=200_000_000):
    device = Pretend(total)
    device.held = device.most = PAIR_HELD
    return device


@pytest.fixture(scope="module")
def exact_pairs():
    points = sab.measurement_points(SHORTEST, LONGEST, max_count=999)
    return sab.MemoryModel.fit(points, [PAIR_HELD + pair_bytes(*point) for point in points])


@pytest.fixture(scope="module")
def noisy_pairs():
    device, draw = pair_device(), numbers(3)

    def step(count, lengths):
        device.take(int(pair_bytes(count, lengths) * (1 + 0.02 * draw.normal())))

    return sab.MemoryModel.learn(step, device, shortest=SHORTEST, longest=LONGEST, points=18)


def random_pairs(count):
    draw = numbers(4)
    return [
        (int(draw.integers(1, 200)), {k: int(draw.integers(4, LONGEST[k] + 1)) for k in LONGEST})
        for _ in range(count)
    ]


def test_model_of_pairs_is_learned(exact_pairs, noisy_pairs):
    assert exact_pairs.columns == ("source", "target") and exact_pairs.info.margin < 1e-6
    assert str(exact_pairs).startswith("1e+07 + 3,000 * count * source + 3,000 * count * target")
    count, lengths = noisy_pairs.measured.features[0]
    assert len(noisy_pairs.measured.features) == 18 and count >= 1 and list(lengths) == [*SHORTEST]
    shapes = random_pairs(500)
    true = np.array([PAIR_HELD + pair_bytes(*shape) for shape in shapes])
    assert exact_pairs.predict(shapes) == pytest.approx(true, rel=1e-6)
    assert 0 < noisy_pairs.info.margin < 0.1
    noise = 1 + 0.02 * numbers(5).normal(size=500)
    under = PAIR_HELD + (true - PAIR_HELD) * noise <= noisy_pairs.predict_upper(shapes)
    assert under.mean() >= noisy_pairs.info.coverage - 0.05


def test_model_of_pairs_is_fitted_to_rows_saved_and_pickled(tmp_path):
    points = sab.measurement_points(SHORTEST, LONGEST, max_count=99)
    assert len(points) == 24 and points[0][1].keys() == SHORTEST.keys()
    peaks = [1e7 + pair_bytes(*point) for point in points]
    model = sab.MemoryModel.fit(points, peaks)
    rows = [(count, *lengths.values()) for count, lengths in points]
    assert sab.MemoryModel.fit(rows, peaks, columns=["source", "target"]).terms == model.terms
    assert sab.MemoryModel.fit(rows, peaks).columns == ("0", "1")
    assert model.predict(points) == pytest.approx(model.predict(rows))
    model.save(tmp_path / "model")
    for same in (sab.MemoryModel.open(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert (same.terms, same.info, same.columns) == (model.terms, model.info, model.columns)
    near = sab.measurement_points(SHORTEST, LONGEST, max_count=999, budget=9e7, cost=model)
    assert all(3e7 <= model.cost()(n, [*lengths.values()]) <= 8.1e7 for n, lengths in near)


def test_peaks_of_pairs_are_collected_and_fitted(exact_pairs):
    device = pair_device()

    def work(point):
        device.take(int(pair_bytes(*point)))
        return point

    points = sab.measurement_points(SHORTEST, LONGEST, max_count=99)
    seen = sab.collect_peak(work, points, device, collect_garbage=False)
    model = sab.MemoryModel.fit(seen.features, seen.peaks)
    assert model.columns == ("source", "target")
    shapes = random_pairs(20)
    assert model.predict(shapes) == pytest.approx(exact_pairs.predict(shapes), rel=1e-5)


def test_a_guard_takes_the_lengths_of_pairs(exact_pairs):
    plan = sab.plan(pair_sizes(200), budget=100_000_000, cost=exact_pairs)
    device, sampler = pair_device(), sab.BucketSampler(plan, seed=1)

    def part(first, count, weight):
        device.take(100 * count)

    with sab.MemoryGuard(sampler, device) as guard:
        for batch in sampler.batches():
            guard.step(batch, part)
        with guard.measure((2, {"source": 5, "target": 7})):
            device.take(100)
        assert guard.info.steps == len(sampler) + 1
        for wrong in (5.0, {"source": 5}, {"source": 5, "tokens": 7}):
            with pytest.raises(ValueError, match="dictionary with the columns 'source', 'target'"):
                guard.step((2, wrong), part)


def test_ranges_and_rows_of_columns_that_cannot_be():
    points = sab.measurement_points(SHORTEST, LONGEST, max_count=99)
    peaks = [1e7 + pair_bytes(*point) for point in points]
    for shortest, longest in ((SHORTEST, 9), (SHORTEST, {"source": 9}), ({}, {})):
        with pytest.raises(ValueError, match="dictionaries with the same columns"):
            sab.measurement_points(shortest, longest, max_count=99)
    with pytest.raises(ValueError, match=r"shortest\['target'\] = -1: must be finite and at least"):
        sab.measurement_points({**SHORTEST, "target": -1}, LONGEST, max_count=99)
    nine = {str(j): 5 for j in range(9)}
    with pytest.raises(ValueError, match=r"len\(shortest\) = 9: must be at most 8"):
        sab.measurement_points(nine, dict.fromkeys(nine, 50), max_count=99)
    with pytest.raises(ValueError, match=r"shortest\['target'\] = longest\['target'\] = 300: a m"):
        sab.MemoryModel.learn(
            print, pair_device(), shortest={**SHORTEST, "target": 300}, longest=LONGEST
        )
    with pytest.raises(ValueError, match=r"features\[1\]\[1\] has the columns 'source': must have"):
        sab.MemoryModel.fit([points[0], (1, {"source": 4}), *points[2:]], peaks)
    with pytest.raises(TypeError, match=r"features\[1\] = \(1, 4, 5\): must be a count and a dict"):
        sab.MemoryModel.fit([points[0], (1, 4, 5), *points[2:]], peaks)
    for columns, words in (
        (["source"], r"len\(columns\) = 1: must be 2"),
        (["source", "source"], r"columns\[1\] = \"source\": must not be the name of another"),
        (["source", ""], r"columns\[1\] = \"\": must have 1 to 63 bytes"),
    ):
        rows = [(count, *lengths.values()) for count, lengths in points]
        with pytest.raises(ValueError, match=words):
            sab.MemoryModel.fit(rows, peaks, columns=columns)
    alike = [(n, {"source": L["source"], "target": 2 * L["source"]}) for n, L in points]
    with pytest.raises(ValueError, match=r"vary together: measure also count = .*length\[\"target"):
        sab.MemoryModel.fit(alike, peaks)
