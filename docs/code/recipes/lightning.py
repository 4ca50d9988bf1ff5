"""Lightning: ranks, epochs, and a checkpoint in the middle of an epoch.

needs: pytorch_lightning
"""

import functools
import logging
import tempfile
import warnings

import pytorch_lightning as pl
import torch
from toy import Model, collate, dataset, sizes
from torch.nn import functional
from torch.utils.data import DataLoader

import sab


# [data]
class Data(pl.LightningDataModule):
    """Batches for any number of ranks; its state goes into Lightning's checkpoints."""

    saved = None

    def train_dataloader(self):  # called for each epoch: see reload_dataloaders_every_n_epochs
        plan = sab.plan(sizes, budget=1024)
        self.sampler = sab.BucketSampler(
            plan, seed=0, rank=self.trainer.global_rank, world_size=self.trainer.world_size
        )
        self.sampler.set_epoch(self.trainer.current_epoch)
        self.step = 0
        if self.saved is not None:
            self.sampler.load_state_dict(self.saved["sampler"])
            self.step = self.saved["step"]
            self.saved = None
        return DataLoader(dataset, batch_sampler=self.sampler, collate_fn=collate, num_workers=2)

    def on_before_batch_transfer(self, batch, dataloader_index):
        # Called when the step of a batch begins. Workers and Lightning have fetched more.
        self.step += self.trainer.training
        return batch

    def state_dict(self):
        # With a step the state is not that of a finished epoch: Lightning begins the next one.
        return {"step": self.step, "sampler": self.sampler.state_dict(step=self.step)}

    def load_state_dict(self, state):
        self.saved = state


# [end]


class Training(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.model, self.seen = Model(), []

    def _register_sharded_tensor_state_dict_hooks_if_available(self):
        """Not with torch 1.13.1 on Python 3.11, which cannot import that part of torch."""

    def training_step(self, batch, batch_index):
        words, labels = batch
        self.seen.append(int(words.sum()))
        return functional.cross_entropy(self.model(words), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main(folder):
    # [options]
    options = dict(
        use_distributed_sampler=False,  # keep this sampler: it knows its rank
        reload_dataloaders_every_n_epochs=1,  # a sampler for each epoch, with its number
    )
    # [end]
    options.update(
        accelerator="cpu",
        devices=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )

    # [fit]
    keep = functools.partial(
        pl.callbacks.ModelCheckpoint,
        folder,
        "step-{step}",
        every_n_train_steps=10,
        save_top_k=-1,
        auto_insert_metric_name=False,
        enable_version_counter=False,
    )

    whole = Training()
    pl.Trainer(max_epochs=2, callbacks=[keep()], **options).fit(whole, datamodule=Data())

    for step in (10, 20, 40):  # 20 and 40 as saved by the run that was resumed before
        resumed = Training()
        pl.Trainer(max_epochs=2, callbacks=[keep()], **options).fit(
            resumed, datamodule=Data(), ckpt_path=f"{folder}/step-{step}.ckpt"
        )
        # The same batches as without the stop, to the end of the second epoch.
        assert resumed.seen == whole.seen[step:]
    # [end]
    assert (
        whole.seen[: len(whole.seen) // 2] != whole.seen[len(whole.seen) // 2 :]
    )  # another order in the second epoch
    print(
        f"{len(whole.seen)} steps in two epochs, the same {len(resumed.seen)} after the third "
        f"stop, at step 40"
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        main(name)
