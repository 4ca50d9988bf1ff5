"""Hugging Face's Trainer, with its own checkpoints and its own resume.

needs: transformers, accelerate
"""

import tempfile

import torch
from toy import dataset, sizes
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)

import sab


def pad(samples):
    words = pad_sequence([words for words, _ in samples], batch_first=True)
    return {
        "input_ids": words,
        "attention_mask": (words != 0).long(),
        "labels": torch.tensor([label for _, label in samples]),
    }


# [trainer]
class Loader(DataLoader):
    def set_epoch(self, epoch):  # called by Trainer when an epoch begins, also after a resume
        self.batch_sampler.set_epoch(epoch)


class BudgetTrainer(Trainer):
    """Trainer with batches by a budget of padded tokens, in the place of
    per_device_train_batch_size."""

    def get_train_dataloader(self):
        plan = sab.plan(sizes, budget=1024)
        sampler = sab.BucketSampler(
            plan,
            seed=self.args.data_seed or 0,
            rank=self.args.process_index,
            world_size=self.args.world_size,
        )
        return Loader(self.train_dataset, batch_sampler=sampler, collate_fn=self.data_collator)

    # [end]

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.seen = []

    def training_step(self, model, inputs, *rest):
        self.seen.append(inputs["input_ids"].sum().item())
        return super().training_step(model, inputs, *rest)


def train(folder, **arguments):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=100,
    )
    common = dict(
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        num_train_epochs=2,
        save_strategy="steps",
        save_steps=20,
        logging_strategy="no",
    )
    trainer = BudgetTrainer(
        BertForSequenceClassification(config), TrainingArguments(folder, **common), pad, dataset
    )
    trainer.seen = []
    trainer.remove_callback(PrinterCallback)
    trainer.train(**arguments)
    return trainer


def main(folder):
    whole = train(folder)
    # [resume]
    resumed = train(folder, resume_from_checkpoint=f"{folder}/checkpoint-20")
    assert resumed.seen == whole.seen[20:]  # the same batches as without the stop
    # [end]
    print(f"{len(whole.seen)} steps in two epochs, the same {len(resumed.seen)} after step 20")


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        main(name)
