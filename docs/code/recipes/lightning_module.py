"""A run that stops in the middle of an epoch, and goes on. needs: lightning"""

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from toy import Model, collate, dataset, sizes

import sab
import sab.lightning
import sab.torch


class Data(sab.lightning.DataModuleMixin, L.LightningDataModule):
    def train_dataloader(self):
        sampler = sab.BucketSampler(sizes, budget=1024)
        return sab.torch.DataLoader(dataset, sampler, collate_fn=collate)


class Training(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model, self.samples = Model(), 0

    def training_step(self, batch, batch_index):
        words, labels = batch
        self.samples += len(labels)
        loss = torch.nn.functional.cross_entropy(self.model(words), labels, reduction="sum")
        return loss / max(len(labels), 1) * self.trainer.train_dataloader.sample_weight

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


for steps, checkpoint in ((10, None), (-1, "last.ckpt")):
    training, keep = Training(), ModelCheckpoint(".", every_n_train_steps=5, save_last=True)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = L.Trainer(max_epochs=1, max_steps=steps, callbacks=[keep], **quiet)
    trainer.fit(training, datamodule=Data(), ckpt_path=checkpoint)
    print(f"{training.samples} of {len(dataset)} samples, until step {trainer.global_step}")
