"""Runs of Lightning on the glosses of WordNet: lightning_jobs.py JOB FOLDER [ARGUMENTS AS JSON].

Lightning starts the other ranks with the same command. Each rank appends a line of JSON for each
batch to FOLDER/RANK.jsonl when its step ends: what it was for, the epoch and the samples.
"""

import json
import os
import pathlib
import signal
import sys
import warnings
from zlib import crc32

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn import functional

import sab
import sab.lightning
import sab.torch

sys.path.append(str(pathlib.Path(__file__).parents[2] / "examples/python"))
import wordnet

GLOSSES = wordnet.glosses()[::100]  # 1,177
TEXTS = [torch.tensor([1 + crc32(w.encode()) % 499 for w in text.split()]) for text, _ in GLOSSES]
LABELS = [part for _, part in GLOSSES]
SIZES = np.array([len(text) for text in TEXTS])
HELD_OUT = range(200)


class Glosses(torch.utils.data.Dataset):
    def __len__(self):
        return len(TEXTS)

    def __getitem__(self, index):
        return TEXTS[index], LABELS[index]


def collate(samples, batch):
    words, labels = zip(*samples)
    padded = torch.nn.utils.rnn.pad_sequence(words, batch_first=True)
    assert padded.shape[1] <= batch.padded_length
    return {"words": padded, "labels": torch.tensor(labels), "ids": torch.tensor(batch.indices)}


def training_loader(workers=0, **options):
    sampler = sab.BucketSampler(sab.plan(SIZES, budget=600), seed=1, **options)
    return sab.torch.DataLoader(Glosses(), sampler, collate_fn=collate, num_workers=workers)


def validation_loader(**options):
    sampler = sab.SequentialSampler(sab.plan(SIZES[HELD_OUT], budget=600), **options)
    held_out = torch.utils.data.Subset(Glosses(), HELD_OUT)
    return sab.torch.DataLoader(held_out, sampler, collate_fn=collate)


class Model(L.LightningModule):
    """Records the samples of each step that has ended. `stop(epoch, step)` may end the run."""

    def __init__(self, record=None, stop=None):
        super().__init__()
        self.embedding = torch.nn.EmbeddingBag(500, 4, mode="mean", padding_idx=0)
        self.record = self.append if record is None else record
        self.stop = stop

    def append(self, what, epoch, ids):
        line = json.dumps({"what": what, "epoch": epoch, "step": self.global_step, "ids": ids})
        with open(self.folder / f"{self.global_rank}.jsonl", "a") as file:
            file.write(line + "\n")

    def loss(self, batch):
        return functional.cross_entropy(self.embedding(batch["words"]), batch["labels"])

    def training_step(self, batch, batch_idx):
        if self.stop is not None:
            self.stop(self.current_epoch, batch_idx)
        loader = self.trainer.train_dataloader
        if isinstance(loader, sab.lightning.TrainerLoader):
            assert loader.batch.indices.tolist() == batch["ids"].tolist()
            return self.loss(batch) * loader.sample_weight
        return self.loss(batch)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.record("train", self.current_epoch, batch["ids"].tolist())

    def validation_step(self, batch, batch_idx):
        if not self.trainer.sanity_checking:
            self.record("validate", self.current_epoch, batch["ids"].tolist())
        self.log("loss", self.loss(batch), batch_size=len(batch["ids"]), sync_dist=True)

    def predict_step(self, batch, batch_idx):
        self.record("predict", self.current_epoch, batch["ids"].tolist())
        return len(batch["ids"])

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        # Lightning makes the loaders for this number, before it restores its loops.
        self.estimated = steps = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / (steps + 1))
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Data(sab.lightning.DataModuleMixin, L.LightningDataModule):
    def __init__(self, train=training_loader, validate=validation_loader):
        super().__init__()
        self.train, self.validate = train, validate

    def train_dataloader(self):
        return self.train()

    def val_dataloader(self):
        return self.validate()

    def predict_dataloader(self):
        return self.validate()


def trainer(folder, callbacks=(), **options):
    return L.Trainer(
        accelerator="cpu",
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
        **options,
    )


def keep_each(folder, steps, **options):
    """Checkpoints of each `steps` steps: step-10.ckpt, step-20.ckpt."""
    return ModelCheckpoint(
        folder,
        "step-{step}",
        every_n_train_steps=steps,
        save_top_k=-1,
        auto_insert_metric_name=False,
        enable_version_counter=False,
        **options,
    )


def without_mixin(folder):
    """Loaders that the model itself gives: first without ranks, then with them."""
    model = Model()
    model.folder = folder
    model.train_dataloader = training_loader
    options = {"max_epochs": 2, "devices": 2, "strategy": "ddp"}
    for use in (True, False):
        try:
            trainer(folder, use_distributed_sampler=use, **options).fit(model)
        except (TypeError, ValueError) as error:
            model.append(str(error), 0, [])

    def ranks():
        return {"rank": model.trainer.global_rank, "world_size": model.trainer.world_size}

    model.train_dataloader = lambda: training_loader(**ranks())
    model.val_dataloader = lambda: validation_loader(**ranks())
    trainer(folder, **options).fit(model)


def killed(folder, checkpoint, at):
    """Goes on from a checkpoint. All processes are killed in a step of the second epoch."""

    def stop(epoch, step):
        if (epoch, step) == (1, at):
            os.killpg(0, signal.SIGKILL)

    model = Model(stop=stop)
    model.folder = folder
    trainer(folder, [keep_each(folder, 2)], max_epochs=2, devices=2, strategy="ddp").fit(
        model, datamodule=Data(), ckpt_path=checkpoint
    )


def two_ranks(folder, checkpoint, at):
    """Both: a start of processes takes longer than either."""
    (folder / "without_mixin").mkdir(exist_ok=True)
    without_mixin(folder / "without_mixin")
    killed(folder, checkpoint, at)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    job, where, *given = sys.argv[1:]
    globals()[job](pathlib.Path(where), **json.loads(given[0] if given else "{}"))
