"""sab.lightning with the real package: each sample once, resumes, and loaders without the mixin."""

import json
import subprocess
import sys

import lightning as L
import lightning_jobs as jobs
import pytest
import torch
from lightning.pytorch.callbacks import OnExceptionCheckpoint

import sab
import sab.lightning

pytestmark = pytest.mark.filterwarnings("ignore")
ALL = list(range(len(jobs.TEXTS)))


def fit(folder, callbacks=(), data=None, checkpoint=None, stop=None, epochs=2, **options):
    """What a run did: (what, epoch, samples) of each batch."""
    done = []
    model = jobs.Model(lambda *each: done.append(each), stop)
    jobs.trainer(folder, callbacks, max_epochs=epochs, **options).fit(
        model, datamodule=data or jobs.Data(), ckpt_path=checkpoint
    )
    return done


def of(what, done, epoch=None):
    return [ids for kind, each, ids in done if kind == what and epoch in (None, each)]


def samples(batches):
    return sorted(sample for batch in batches for sample in batch)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_stopped_goes_on_as_if_it_had_not(workers, tmp_path):
    def data():
        return jobs.Data(lambda: jobs.training_loader(workers))

    whole = fit(tmp_path, [jobs.keep_each(tmp_path, 1)], data())
    count = len(jobs.training_loader())
    assert [samples(of("train", whole, epoch)) for epoch in (0, 1)] == [ALL] * 2
    assert of("train", whole, 0) != of("train", whole, 1)
    assert samples(of("validate", whole, 1)) == list(jobs.HELD_OUT)
    for step in (1, count - 1, count, count + 1) if workers == 0 else (count // 2, count + 2):
        rest = fit(tmp_path, (), data(), tmp_path / f"step-{step}.ckpt")
        assert of("train", rest) == of("train", whole)[step:], step


def test_random_steps_with_accumulation(tmp_path):
    def sampler():
        return sab.BalancedSampler(jobs.SIZES, budget=300, padded=True, micro_batches=4, seed=1)

    def data():
        return jobs.Data(
            lambda: sab.torch.DataLoader(jobs.Glosses(), sampler(), collate_fn=jobs.collate)
        )

    options = {"epochs": 1, "accumulate_grad_batches": 4}
    whole = of("train", fit(tmp_path, [jobs.keep_each(tmp_path, 3)], data(), **options))
    assert whole == [batch.tolist() for batch in sampler()]
    rest = of("train", fit(tmp_path, (), data(), tmp_path / "step-3.ckpt", **options))
    assert rest == whole[12:]


def test_a_batch_whose_step_failed_comes_again(tmp_path):
    def fail(epoch, step):
        if (epoch, step) == (1, 5):
            raise RuntimeError("stop here")

    whole = of("train", fit(tmp_path))
    with pytest.raises(RuntimeError, match="stop here"):
        fit(tmp_path, [OnExceptionCheckpoint(tmp_path)], stop=fail)
    rest = fit(tmp_path, checkpoint=tmp_path / "on_exception.ckpt")
    count = len(jobs.training_loader())
    assert of("train", rest) == whole[count + 5 :]


def test_several_loaders_have_their_own_places(tmp_path):
    class Both(jobs.Model):
        def training_step(self, batch, batch_idx):
            return self.loss(batch["long"]) + self.loss(batch["short"])

        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.record("train", self.current_epoch, batch["long"]["ids"].tolist())
            self.record("short", self.current_epoch, batch["short"]["ids"].tolist())

    def run(callbacks, checkpoint=None):
        done = []
        data = jobs.Data(
            lambda: {"long": jobs.training_loader(), "short": jobs.validation_loader()}
        )
        jobs.trainer(tmp_path, callbacks, max_epochs=1).fit(
            Both(lambda *each: done.append(each)), datamodule=data, ckpt_path=checkpoint
        )
        return done

    whole = run([jobs.keep_each(tmp_path, 10)])
    assert samples(of("train", whole)) == ALL
    rest = run([], tmp_path / "step-10.ckpt")
    assert of("train", rest) == of("train", whole)[10:]
    assert of("short", rest) == of("short", whole)[10:]
    with pytest.raises(ValueError, match="has the states of 2 training loaders"):
        fit(tmp_path, checkpoint=tmp_path / "step-10.ckpt")


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("is_whole", [False, True])
def test_steps_of_a_resumed_run_are_estimated(accumulation, is_whole, tmp_path):
    def run(checkpoint=None, epochs=2, **options):
        model, keep = jobs.Model(lambda *each: None), []
        if checkpoint is None:
            keep = [jobs.keep_each(tmp_path, 1)]
        options["accumulate_grad_batches"] = accumulation
        trainer = jobs.trainer(tmp_path, keep, max_epochs=epochs, **options)
        trainer.fit(model, datamodule=jobs.Data(), ckpt_path=checkpoint)
        trainer.save_checkpoint(tmp_path / "ended.ckpt")
        return model.estimated, trainer.global_step

    limits = {} if is_whole else {"limit_train_batches": 7}
    estimated, steps = run(**limits)
    assert estimated == steps
    assert run(tmp_path / "ended.ckpt", epochs=3, **limits) == (steps * 3 // 2,) * 2
    for at in (1, steps // 2, steps // 2 + 1):
        assert run(tmp_path / f"step-{at}.ckpt", epochs=3, **limits) == (steps * 3 // 2,) * 2
    assert run(tmp_path / "step-1.ckpt", max_steps=steps - 1, **limits) == (steps - 1,) * 2


@pytest.mark.parametrize("look", ["the same", "another", "the data module"])
def test_a_look_at_a_batch_leaves_training_where_it_is(look, tmp_path):
    class Looks(L.Callback):
        def on_train_batch_end(self, trainer, *_):
            loader = {
                "the same": lambda: trainer.train_dataloader,
                "another": trainer.datamodule.train,
                "the data module": trainer.datamodule.train_dataloader,
            }[look]()
            next(iter(loader))

    whole = of("train", fit(tmp_path))
    seen = of("train", fit(tmp_path, [Looks(), jobs.keep_each(tmp_path, 5)]))
    assert seen == whole
    for step in (5, 10):
        rest = fit(tmp_path, [Looks()], checkpoint=tmp_path / f"step-{step}.ckpt")
        assert of("train", rest) == whole[step:]


def test_overfitting_has_the_same_batches_again(tmp_path):
    done = fit(tmp_path, overfit_batches=3, limit_val_batches=0)
    first, second = of("train", done, 0), of("train", done, 1)
    assert len(first) == 3 and first == second


def test_limits_of_the_trainer_hold(tmp_path):
    done = fit(tmp_path, limit_train_batches=4, limit_val_batches=1)
    assert [len(of("train", done, epoch)) for epoch in (0, 1)] == [4, 4]
    assert of("train", done, 0) != of("train", done, 1)
    assert len(of("validate", done)) == 2


def test_predictions_are_of_each_sample_once(tmp_path):
    done = []
    model = jobs.Model(lambda *each: done.append(each))
    counts = jobs.trainer(tmp_path).predict(model, datamodule=jobs.Data())
    assert samples(of("predict", done)) == list(jobs.HELD_OUT)
    assert sum(counts) == len(jobs.HELD_OUT)


def test_a_lowered_budget_loses_nothing(tmp_path):
    lowered = []

    class Lower(L.Callback):
        def on_train_batch_end(self, trainer, *_):
            if trainer.global_step == 6:
                trainer.train_dataloader.source.set_budget(300)
                lowered.append(trainer.num_training_batches)

    done = fit(tmp_path, [Lower()], jobs.Data(lambda: jobs.training_loader(workers=1)))
    for epoch in (0, 1):
        assert samples(of("train", done, epoch)) == ALL
        assert samples(of("validate", done, epoch)) == list(jobs.HELD_OUT)
    assert len(of("train", done, 0)) > lowered[0]


def test_ranks_of_the_sampler_must_be_those_of_the_trainer(tmp_path):
    data = jobs.Data(lambda: jobs.training_loader(rank=1, world_size=4))
    with pytest.raises(ValueError, match="the trainer has rank 0 of 1; make the sampler without"):
        fit(tmp_path, data=data)


class Pretend(sab.Device):
    """A device whose memory is a number."""

    def __init__(self, limit):
        self.limit, self.most = limit, 0

    def take(self, count):
        if count > self.limit:
            raise RuntimeError(f"out of memory: {count} bytes")
        self.most = max(self.most, count)

    def reset(self):
        self.most = 0

    def current(self):
        return 0

    def peak(self):
        return self.most

    def total(self):
        return self.limit


def test_runs_that_run_out_of_memory_go_on_with_smaller_batches(tmp_path):
    device = Pretend(4000)

    class Large(jobs.Model):
        def training_step(self, batch, batch_idx):
            device.take(10 * batch["words"].numel())
            return super().training_step(batch, batch_idx)

    written = []

    def log(step, values):
        written.append((step, values))

    done, checkpoint, failures = [], None, 0
    while failures < 10:
        monitor = sab.lightning.Monitor(
            sab.Meter(log), guard=lambda sampler: sab.MemoryGuard(sampler, device, interval=1)
        )
        run = jobs.trainer(tmp_path, [monitor, OnExceptionCheckpoint(tmp_path)], max_epochs=1)
        try:
            model = Large(lambda *each: done.append(each))
            run.fit(model, datamodule=jobs.Data(), ckpt_path=checkpoint)
            break
        except RuntimeError as error:
            assert "out of memory" in str(error) and monitor.guard.info.out_of_memory == 1
            failures, checkpoint = failures + 1, tmp_path / "on_exception.ckpt"
    assert 0 < failures < 10
    assert samples(of("train", done)) == ALL
    assert [step for step, _ in written] == list(range(1, len(of("train", done)) + 1))
    assert 0 < written[-1][1]["guard_limit"] < 600 and 0 <= written[-1][1]["padding"] < 1


def test_the_learning_rate_follows_the_tokens_of_a_step(tmp_path):
    rates = []

    class Rates(torch.optim.SGD):
        def step(self, closure=None):
            loss = closure()
            rates.append(self.param_groups[0]["lr"])
            super().step()
            return loss

    class Scaled(jobs.Model):
        def configure_optimizers(self):
            return Rates(self.parameters(), lr=2.0)

    fit_model = Scaled(lambda *each: None)
    run = jobs.trainer(
        tmp_path,
        [sab.lightning.LearningRateCallback(500.0)],
        max_epochs=1,
        accumulate_grad_batches=2,
    )
    data = jobs.Data(lambda: jobs.training_loader(micro_batches=2))
    run.fit(fit_model, datamodule=data)
    sampler = jobs.training_loader(micro_batches=2).source
    expected = [2 * sampler.step(position).total / 500 for position in range(0, len(sampler), 2)]
    assert rates == pytest.approx(expected)
    assert run.optimizers[0].param_groups[0]["lr"] == 2.0
    callback = sab.lightning.LearningRateCallback(500.0)
    other = jobs.trainer(tmp_path, [callback], max_epochs=1, accumulate_grad_batches=2)
    with pytest.raises(ValueError, match=r"batches = 2: .* give it micro_batches=2"):
        other.fit(fit_model, datamodule=jobs.Data())


def test_the_last_metrics_are_written_at_the_end(tmp_path):
    steps = []
    meter = sab.Meter(lambda step, values: steps.append(step), interval=1000)
    done = fit(tmp_path, [sab.lightning.Monitor(meter)], epochs=1)
    assert steps == [len(of("train", done))]


def lines_of(folder):
    """What the ranks of a run wrote."""
    texts = [file.read_text() for file in sorted(folder.glob("*.jsonl"))]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def test_one_rank_then_two_then_one(tmp_path):
    """A run in the middle of an epoch goes on with two ranks, is killed, and goes on with one.
    The two ranks also try loaders without the mixin."""
    whole = fit(tmp_path, [jobs.keep_each(tmp_path, 3)], epochs=1)
    count = len(of("train", whole))
    first = max(step for step in range(0, count - 6, 3))
    arguments = {"checkpoint": str(tmp_path / f"step-{first}.ckpt"), "at": 6}
    command = [sys.executable, jobs.__file__, "two_ranks", str(tmp_path), json.dumps(arguments)]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=300, start_new_session=True
    )
    assert ended.returncode == -9, ended.stderr
    epochs = [[line for line in lines_of(tmp_path) if line["epoch"] == epoch] for epoch in (0, 1)]
    rest = [line["ids"] for line in epochs[0] if line["what"] == "train"]
    assert samples(of("train", whole)[:first] + rest) == ALL
    validated = [line["ids"] for line in epochs[0] if line["what"] == "validate"]
    assert samples(validated) == list(jobs.HELD_OUT)
    last = max(int(file.stem.split("-")[1]) for file in tmp_path.glob("step-*.ckpt"))
    kept = [line["ids"] for line in epochs[1] if line["step"] <= last]
    assert 0 < len(samples(kept)) < len(ALL)
    done = []
    model, run = jobs.Model(lambda *each: done.append(each)), jobs.trainer(tmp_path, max_epochs=3)
    run.fit(model, datamodule=jobs.Data(), ckpt_path=tmp_path / f"step-{last}.ckpt")
    assert model.estimated == run.global_step
    assert samples(kept + of("train", done, 1)) == ALL
    assert samples(of("train", done, 2)) == ALL  # of the usual length again
    assert samples(of("validate", done, 1)) == list(jobs.HELD_OUT)
    check_loaders_without_the_mixin(lines_of(tmp_path / "without_mixin"))


def check_loaders_without_the_mixin(lines):
    refused = [line["what"] for line in lines if not line["ids"]]
    assert len(refused) == 4
    assert sum("use_distributed_sampler=False" in each for each in refused) == 2
    assert sum("rank and world_size: the sampler has none" in each for each in refused) == 2
    for epoch in (0, 1):
        for what, expected in (("train", ALL), ("validate", list(jobs.HELD_OUT))):
            found = [line for line in lines if (line["what"], line["epoch"]) == (what, epoch)]
            assert samples(line["ids"] for line in found) == expected
