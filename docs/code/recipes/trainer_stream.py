"""Trains on a streaming data set.
needs: datasets, transformers, accelerate"""

from toy_text import dataset, make_model, tokenizer
from torch.nn import functional
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

import sab
import sab.torch


def loss_of(outputs, labels, num_items_in_batch=None):  # a sum: each sample counts the same
    return functional.cross_entropy(outputs.logits, labels, reduction="sum") / 64


rows = dataset.to_iterable_dataset().map(
    lambda rows: tokenizer(rows["text"], truncation=True), batched=True, remove_columns=["text"]
)
stream = sab.Stream.from_iterable(rows).readahead(
    400, budget=16 * 128, key=lambda row: len(row["input_ids"])
)
collate = DataCollatorWithPadding(tokenizer)
arguments = TrainingArguments(
    "run_stream",
    max_steps=20,
    per_device_train_batch_size=1,  # one batch of the stream
    use_cpu=True,
    disable_tqdm=True,
    report_to=[],
)
trainer = Trainer(
    make_model(),
    arguments,
    data_collator=lambda batches: collate(batches[0]),
    train_dataset=sab.torch.StreamDataset(stream),
    compute_loss_func=loss_of,
)
trainer.train()
print(f"step {trainer.state.global_step}")
