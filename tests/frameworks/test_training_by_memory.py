"""budget="memory" with the real Trainer, Lightning, accelerate and DistributedDataParallel, on
emulated devices.
"""

import json
import re
import socket
import subprocess
import sys

import lightning as L
import memory_jobs as jobs
import pytest
import torch
import transformers
from lightning.pytorch.callbacks import ModelCheckpoint
from memory_jobs import DATA, MIB, SIZES, digest
from torch.nn import functional

import sab
import sab.lightning
import sab.transformers

pytestmark = pytest.mark.filterwarnings("ignore")
LINE = r"batches of \d+ to \d+ samples, {} of {} MiB, learned {}\n"
ALL = list(range(len(SIZES)))


def samples(batches):
    return sorted(sample for batch in batches for sample in batch)


# Several ranks


def launched(job, folder):
    """Runs a job in two processes; what each wrote."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, jobs.__file__, job, str(folder)]
    started = [
        subprocess.Popen([*command, str(rank), "2", str(port)], stderr=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    errors = [each.communicate(timeout=600)[1] for each in started]
    assert [each.returncode for each in started] == [0, 0], "\n".join(errors)
    told = [line for line in "".join(errors).splitlines() if line.startswith("batches of")]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)], told


def test_ranks_with_accelerate_have_the_plan_of_the_smallest_device(tmp_path):
    ranks, told = launched("accelerated", tmp_path)
    first, rest = ([rank[part] for rank in ranks] for part in ("first", "rest"))
    for each in (*first, *rest):
        assert each["is_kept"] and each["budget"] == int(0.9 * 2 * MIB) and each["lowered"] == 0
        assert each["plan"] == first[0]["plan"] and each["length"] == first[0]["length"] > 3
    assert all(each["steps_before"] > 20 and each["state"] == 0 for each in first)
    assert all(each["steps_before"] == 0 and each["state"] > 0 for each in rest)
    assert samples(each for rank in (*first, *rest) for each in rank["ids"]) == ALL
    assert [line.rsplit(" ", 1)[1] for line in told][1:] == ["before"]


def test_ranks_with_distributed_data_parallel(tmp_path):
    ranks, told = launched("data_parallel", tmp_path)
    assert all(rank["is_kept"] and rank["budget"] == int(0.9 * 2 * MIB) for rank in ranks)
    assert ranks[0]["length"] == ranks[1]["length"] > 3
    assert samples(each for rank in ranks for each in rank["ids"]) == ALL
    assert len(told) == 1


def test_ranks_of_a_trainer(tmp_path):
    ranks, told = launched("trained", tmp_path)
    assert samples(each for rank in ranks for each in rank["ids"]) == sorted(ALL * 2)
    assert [rank["budget"] for rank in ranks] == [int(0.9 * 2 * MIB)] * 2
    assert ranks[0]["at_start"] == ranks[1]["at_start"] and ranks[0]["end"] == ranks[1]["end"]
    assert [rank["failed"] for rank in ranks] == [0, 0] and len(told) == 1


# Trainer


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = jobs.Model()
        self.dropout = torch.nn.Dropout(0.1)

    def forward(self, words, labels, ids):
        logits = self.inner(words)
        loss = functional.cross_entropy(self.dropout(logits), labels)
        return transformers.modeling_outputs.SequenceClassifierOutput(loss=loss, logits=logits)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return len(DATA)

    def __getitem__(self, index):
        return {"words": DATA[index][0].tolist(), "label": DATA[index][1], "ids": index}


def collate(rows):
    words = [torch.tensor(row.pop("words")) for row in rows]  # changes the rows that it is given
    return {
        "words": torch.nn.utils.rnn.pad_sequence(words, batch_first=True),
        "labels": torch.tensor([row.pop("label") for row in rows]),
        "ids": torch.tensor([row.pop("ids") for row in rows]),
    }


class Seen(transformers.TrainerCallback):
    def __init__(self, model):
        self.batches, self.at_start = [], None
        model.register_forward_pre_hook(self.look, with_kwargs=True)

    def look(self, model, args, inputs):
        if self.at_start is not None and model.training:
            self.batches.append(inputs["ids"].tolist())

    def on_train_begin(self, args, state, control, model, optimizer, **given):
        self.at_start = digest(model, torch.get_rng_state()), len(optimizer.state)
        assert all(each.grad is None for each in model.parameters())


GIVEN = ("cost", "eval_budget", "optimizers", "max_batch_size")  # not arguments of Trainer


def make_trainer(folder, device, budget="memory", **options):
    given = {name: options.pop(name) for name in GIVEN if name in options}
    optimizers = given.pop("optimizers", (None, None))
    arguments = transformers.TrainingArguments(
        str(folder),
        **{
            "num_train_epochs": 2,
            "use_cpu": True,
            "report_to": [],
            "disable_tqdm": True,
            "save_strategy": "no",
            "logging_strategy": "no",
            "dataloader_pin_memory": False,
            "remove_unused_columns": False,
            **options,
        },
    )
    torch.manual_seed(0)
    model = Network()
    seen = Seen(model)
    trainer = transformers.Trainer(
        model,
        arguments,
        data_collator=collate,
        train_dataset=Rows(),
        eval_dataset=Rows(),
        callbacks=[seen],
        optimizers=optimizers if optimizers[0] is None else (optimizers[0](model), None),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.seen = seen
    lengths = lambda dataset: SIZES  # noqa: E731
    if budget == "memory" or device is not None:
        given["device"] = device
    return sab.transformers.prepare(trainer, budget, lengths=lengths, **given)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gradient_accumulation_steps": 3, "max_grad_norm": 0.0, "num_train_epochs": 1},
        {"optimizers": (sgd, None), "num_train_epochs": 1},
    ],
    ids=["plain", "accumulation", "own optimizer"],
)
def test_a_trainer_trains_as_with_the_same_plan(tmp_path, capfd, options):
    with sab.Probe("cpu", total_bytes=2 * MIB) as probe:
        trainer = make_trainer(tmp_path, probe, **options)
        keys = set(vars(trainer))
        trainer.train()
        memory = trainer.training_step.__self__
        assert re.search(LINE.format(r"1\.8", r"2\.0", r"in \d+ s"), capfd.readouterr().err)
        assert memory.guard.info.steps == len(trainer.seen.batches) > 4
        assert memory.guard.info.out_of_memory == 0
        # On a CPU the batches of a step that wait count, too.
        waiting = 1.02 if "gradient_accumulation_steps" in options else 1
        assert memory.guard.info.peak <= waiting * memory.found.budget
        assert memory.found.budget == int(0.9 * 2 * MIB)
        assert trainer.evaluate()["eval_loss"] > 0
    plain = make_trainer(tmp_path, None, memory.found.budget, cost=memory.found.model, **options)
    plain.train()
    assert plain.seen.at_start == trainer.seen.at_start
    assert plain.seen.batches == trainer.seen.batches
    assert digest(plain.model) == digest(trainer.model)
    assert plain.state.global_step == trainer.state.global_step
    assert samples(trainer.seen.batches) == sorted(ALL * options.get("num_train_epochs", 2))
    assert keys <= set(vars(trainer))


def test_a_trainer_that_resumes_does_not_learn_again(tmp_path, capfd):
    options = {"save_strategy": "steps", "save_steps": 3, "num_train_epochs": 1}
    with sab.Probe("cpu", total_bytes=2 * MIB) as probe:
        whole = make_trainer(tmp_path, probe, **options)
        whole.train()
        capfd.readouterr()
        resumed = make_trainer(tmp_path, probe, **options)
        resumed.train(resume_from_checkpoint=f"{tmp_path}/checkpoint-3")
        assert "1.8 of 2.0 MiB, learned before" in capfd.readouterr().err
        assert resumed.seen.batches == whole.seen.batches[3:]
        assert digest(resumed.model) == digest(whole.model)
    with sab.Probe("cpu", total_bytes=int(1.5 * MIB)) as probe:  # less is free now
        lowered = make_trainer(tmp_path, probe, **options)
        lowered.train(resume_from_checkpoint=f"{tmp_path}/checkpoint-3")
        assert samples([*whole.seen.batches[:3], *lowered.seen.batches]) == ALL
        assert len(lowered.seen.batches) > len(resumed.seen.batches)


class Pretend(sab.Device):
    """A device that says how much a step needs: in training more after each of its first steps."""

    def __init__(self):
        self.steps, self.most, self.is_scarce = 0, 0, False

    def step(self, module, args, inputs):
        count, length = inputs["words"].shape
        self.steps += self.is_scarce and self.steps < 20
        self.most = max(self.most, 1000 + 40 * count * length + 900 * self.steps)

    def reset(self):
        self.most = 0

    def current(self):
        return 0

    def peak(self):
        return self.most

    def total(self):
        return 60_000


@pytest.mark.parametrize(("workers", "accumulated"), [(2, 1), (0, 3)])
def test_a_trainer_goes_on_when_the_guard_lowers_the_budget(tmp_path, workers, accumulated):
    device = Pretend()
    trainer = make_trainer(
        tmp_path,
        device,
        num_train_epochs=1,
        gradient_accumulation_steps=accumulated,
        dataloader_num_workers=workers,
        max_batch_size=3,
    )
    trainer.model.register_forward_pre_hook(device.step, with_kwargs=True)
    told = []

    class Told(sab.Meter):
        def on_batch(self, batch):
            told.append(batch.indices.tolist())
            super().on_batch(batch)

    trainer.add_callback(sab.transformers.MetricsCallback(Told()))

    class Scarce(transformers.TrainerCallback):
        def on_train_begin(self, *args, **given):
            device.is_scarce = True

    trainer.add_callback(Scarce())
    trainer.train()
    assert trainer.training_step.__self__.guard.info.lowered > 0
    assert samples(trainer.seen.batches) == ALL
    assert told == trainer.seen.batches


def test_what_a_trainer_refuses(tmp_path):
    with pytest.raises(ValueError, match=r"the model is on the CPU.* sab\.Probe\('cpu', total"):
        make_trainer(tmp_path, None).train()
    with pytest.raises(TypeError, match="device: for budget='memory' only"):
        make_trainer(tmp_path, "cpu", 100)
    with pytest.raises(ValueError, match="cost: must not be given"):
        make_trainer(tmp_path, None, cost="quadratic").train()
    with pytest.raises(ValueError, match=r"is not known before training; give eval_budget"):
        make_trainer(tmp_path, None).evaluate()
    with sab.Probe("cpu", total_bytes=MIB // 16) as probe:
        trainer = make_trainer(tmp_path, probe)
        with pytest.raises(sab.DeviceMemoryError, match=r"on one sample of length \d+ runs out"):
            trainer.train()
        assert trainer.optimizer is None


def test_models_that_are_divided_among_ranks_are_refused():
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    try:
        model = torch.distributed.fsdp.fully_shard(jobs.Model())
        sampler = sab.BucketSampler(SIZES, "memory")
        given = {"step": model, "restore": [model], "device": Pretend()}
        loader = sab.torch.DataLoader(DATA, sampler, collate_fn=jobs.collate, **given)
        with pytest.raises(ValueError, match="budget = 'memory': is not supported with FSDPModule"):
            len(loader)
    finally:
        torch.distributed.destroy_process_group()


# Lightning


class Module(L.LightningModule):
    def __init__(self, is_automatic=True, schedule=False):
        super().__init__()
        torch.manual_seed(0)
        self.model = jobs.Model()
        self.automatic_optimization = is_automatic
        self.schedule = schedule
        self.batches, self.at_start, self.steps, self.fails_at = [], None, 0, None

    def training_step(self, batch, batch_index):
        self.steps += 1
        if self.steps == self.fails_at:
            raise KeyError("no such word")
        if self.at_start is not None:
            self.batches.append(batch["ids"].tolist())
        loss = functional.cross_entropy(self.model(batch["words"]), batch["labels"])
        self.log("loss", loss, on_step=True, on_epoch=True)
        loss = loss * self.trainer.train_dataloader.sample_weight
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return loss

    def on_train_start(self):
        optimizer = self.trainer.optimizers[0]
        self.at_start = digest(self, torch.get_rng_state()), len(optimizer.state)
        assert self.trainer.global_step == 0 or len(optimizer.state) > 0

    def configure_optimizers(self):
        if self.schedule:
            assert self.trainer.estimated_stepping_batches
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Data(sab.lightning.DataModuleMixin, L.LightningDataModule):
    def __init__(self, device, budget="memory", count=1, **options):
        super().__init__()
        self.given, self.count, self.options = (device, budget), count, options

    def train_dataloader(self):
        device, budget = self.given
        loaders = [
            sab.torch.DataLoader(
                DATA,
                sab.BucketSampler(SIZES, budget, seed=1, **self.options),
                collate_fn=jobs.collate,
                **({} if device is None else {"device": device}),
            )
            for _ in range(self.count)
        ]
        return loaders[0] if self.count == 1 else loaders


class Started(L.Callback):
    """What callbacks are told of."""

    def __init__(self):
        self.batches = 0

    def on_before_optimizer_step(self, *arguments):
        self.batches += 1


def fit(folder, module, data, checkpoint=None, callbacks=(), **options):
    trainer = L.Trainer(
        accelerator="cpu",
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
        **{"max_epochs": 2, "enable_checkpointing": bool(callbacks), **options},
    )
    trainer.fit(module, datamodule=data, ckpt_path=checkpoint)
    return trainer


@pytest.mark.parametrize(
    ("automatic", "options"),
    [
        (True, {}),
        (False, {"max_epochs": 1}),
        (True, {"accumulate_grad_batches": 2, "gradient_clip_val": 0.5, "max_epochs": 1}),
    ],
    ids=["automatic", "manual", "accumulation"],
)
def test_lightning_trains_as_with_the_same_plan(tmp_path, capfd, automatic, options):
    started = Started()
    with sab.Probe("cpu", total_bytes=2 * MIB) as probe:
        module = Module(automatic)
        trainer = fit(tmp_path, module, Data(probe), callbacks=[started], **options)
        assert re.search(LINE.format(r"1\.8", r"2\.0", r"in \d+ s"), capfd.readouterr().err)
        loader = trainer.train_dataloader.loader
        guard, plan = loader.guard, loader.source.plan
        assert guard.info.steps == len(module.batches) > 4
        assert guard.info.out_of_memory == guard.info.lowered == 0
        assert guard.info.peak <= plan.budget == int(0.9 * 2 * MIB)
        assert module.steps == len(module.batches)  # an attribute that steps count in
        assert len([each for each in trainer.callbacks if "Memory" in type(each).__name__]) == 1
    assert started.batches == trainer.global_step
    plain = Module(automatic)

    class Planned(Data):
        def train_dataloader(self):
            sampler = sab.BucketSampler(plan, seed=1)
            return sab.torch.DataLoader(DATA, sampler, collate_fn=jobs.collate)

    other = fit(tmp_path, plain, Planned(None), **options)
    assert plain.at_start == module.at_start
    assert plain.batches == module.batches and other.global_step == trainer.global_step
    assert digest(plain) == digest(module)
    assert other.callback_metrics["loss_epoch"] == trainer.callback_metrics["loss_epoch"]


def test_lightning_goes_on_without_learning_again(tmp_path, capfd):
    keep = ModelCheckpoint(
        tmp_path, "{step}", every_n_train_steps=3, save_top_k=-1, enable_version_counter=False
    )
    with sab.Probe("cpu", total_bytes=2 * MIB) as probe:
        whole = Module()
        fit(tmp_path, whole, Data(probe), callbacks=[keep], max_epochs=1)
        capfd.readouterr()
        rest = Module()
        fit(tmp_path, rest, Data(probe), tmp_path / "step=3.ckpt", max_epochs=1)
        assert "1.8 of 2.0 MiB, learned before" in capfd.readouterr().err
    assert rest.steps == len(rest.batches)
    assert rest.batches == whole.batches[3:]


def test_what_lightning_refuses(tmp_path):
    with pytest.raises(ValueError, match="the model is on the CPU"):
        fit(tmp_path, Module(), Data(None))
    with sab.Probe("cpu", total_bytes=2 * MIB) as probe:
        with pytest.raises(ValueError, match="needs one training loader of libsab: there are 2"):
            fit(tmp_path, Module(), Data(probe, count=2))
        with pytest.raises(ValueError, match=r"configure_optimizers reads the number of batches"):
            fit(tmp_path, Module(schedule=True), Data(probe))
        module = Module()
        module.fails_at = 5
        with pytest.raises(KeyError, match="no such word"):
            fit(tmp_path, module, Data(probe))
        assert module.steps == 0
