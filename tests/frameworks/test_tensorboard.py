"""`sab.torch.TensorBoard`: what it wrote is read back from the event files."""

import pytest

pytest.importorskip("torch")
accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
from torch.utils.tensorboard import SummaryWriter

import sab
import sab.torch


def read(folder):
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: [(each.step, each.value) for each in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_metrics_of_a_run(tmp_path):
    plan = sab.plan([3, 5, 8, 8, 2, 9] * 20, budget=40)
    sampler = sab.BucketSampler(plan)
    with sab.torch.TensorBoard(tmp_path) as writer:
        meter = sab.Meter(writer, interval=4, budget=40)
        for batch in sampler.batches():
            meter.on_batch(batch)
            meter.on_step(sampler.step())
    scalars = read(tmp_path)
    names = ("padding", "tokens_per_second", "samples_per_second", "fill")
    assert set(scalars) == {f"sab/{name}" for name in names}
    assert [step for step, _ in scalars["sab/fill"]] == list(range(4, len(sampler) + 1, 4))
    first = [sampler.batch(position) for position in range(4)]
    fill = sum(batch.padded_total for batch in first) / 4 / 40
    assert scalars["sab/fill"][0][1] == pytest.approx(fill, rel=1e-6)


def test_a_writer_of_the_caller_stays_open(tmp_path):
    with SummaryWriter(tmp_path) as summary:
        with sab.torch.TensorBoard(summary, prefix="batches/") as writer:
            writer.log(1, {"padding": 0.25})
        summary.add_scalar("loss", 2.0, 1)
    assert read(tmp_path) == {"batches/padding": [(1, 0.25)], "loss": [(1, 2.0)]}


def test_other_writers_are_refused():
    with pytest.raises(TypeError, match="writer is a int: must be a SummaryWriter or a folder"):
        sab.torch.TensorBoard(3)
