"""Epochs of a number of steps in trainers: they go on where the last one stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sab
import sab.torch

LENGTHS = np.random.default_rng(0).integers(3, 20, 120)


def data(epochs: int, **options: Any) -> list[list[int]]:
    sampler = sab.BucketSampler(LENGTHS, budget=80, seed=3, **options)
    return [batch.tolist() for _ in range(epochs) for batch in sampler]


class Dataset(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return len(LENGTHS)

    def __getitem__(self, index: int) -> dict[str, Any]:
        tokens = torch.full((int(LENGTHS[index]),), index % 20 + 1)
        return {"input_ids": tokens, "labels": index % 2, "index": index}


class Collate:
    """Pads, and remembers which samples it got."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def __call__(self, samples: list[Any]) -> dict[str, Any]:
        self.seen.append([each["index"] for each in samples])
        tokens = [each["input_ids"] for each in samples]
        ids = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True)
        labels = torch.tensor([each["labels"] for each in samples])
        return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": labels}


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_epochs_of_a_trainer(tmp_path: Path, micro_batches: int) -> None:
    transformers: Any = pytest.importorskip("transformers")
    import sab.transformers

    def train(checkpoint: str | None) -> tuple[Any, list[list[int]]]:
        small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
        config = transformers.BertConfig(vocab_size=30, intermediate_size=8, **small)
        args = transformers.TrainingArguments(
            str(tmp_path),
            num_train_epochs=4,
            gradient_accumulation_steps=micro_batches,
            save_steps=7,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            remove_unused_columns=False,
        )
        collate = Collate()
        trainer = transformers.Trainer(
            transformers.BertForSequenceClassification(config),
            args,
            train_dataset=Dataset(),
            data_collator=collate,
        )
        sab.transformers.prepare(
            trainer, budget=80, lengths=lambda _: LENGTHS, seed=3, steps_per_epoch=10
        )
        trainer.train(resume_from_checkpoint=checkpoint)
        return trainer.state, collate.seen

    expected = data(9, micro_batches=micro_batches)
    state, seen = train(None)
    assert (state.global_step, state.max_steps, state.epoch) == (40, 40, 4)
    assert seen == expected[: 40 * micro_batches]
    state, seen = train(str(tmp_path / "checkpoint-14"))
    assert state.global_step == 40
    assert seen == expected[14 * micro_batches : 40 * micro_batches]


def test_epochs_of_lightning(tmp_path: Path) -> None:
    lightning: Any = pytest.importorskip("lightning.pytorch")
    import sab.lightning

    collate = Collate()

    class Data(sab.lightning.DataModuleMixin, lightning.LightningDataModule):
        def train_dataloader(self) -> Any:
            sampler = sab.BucketSampler(LENGTHS, budget=80, seed=3, steps_per_epoch=15)
            return sab.torch.DataLoader(Dataset(), sampler, collate_fn=collate)

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            return self.layer(batch["labels"].float()[:, None]).mean()

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.01)
            total = self.trainer.estimated_stepping_batches
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=total)
            return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(Model(), Data())
    assert trainer.global_step == 45
    assert collate.seen == data(3)[:45]


def test_epochs_of_accelerate() -> None:
    accelerate: Any = pytest.importorskip("accelerate")
    sampler = sab.BucketSampler(LENGTHS, budget=80, seed=3, steps_per_epoch=15)
    collate = Collate()
    loader = sab.torch.DataLoader(Dataset(), sampler, collate_fn=collate)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    prepared = accelerate.Accelerator(cpu=True).prepare(model, optimizer, loader)[2]
    assert len(prepared) == 15
    assert sum(len(list(prepared)) for _ in range(3)) == 45
    assert collate.seen == data(3)[:45]
