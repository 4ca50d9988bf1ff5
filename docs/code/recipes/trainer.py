"""Trains two epochs. Started again, it goes on after the last checkpoint.
needs: datasets, transformers, accelerate"""

import pathlib

from toy_text import dataset, make_model, tokenizer
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import sab.transformers


def tokenise(rows):
    tokens = tokenizer(rows["text"], truncation=True)
    return {**tokens, "length": [len(ids) for ids in tokens["input_ids"]]}


dataset = dataset.map(tokenise, batched=True, remove_columns=["text"])
dataset = dataset.train_test_split(0.1, seed=0)
arguments = TrainingArguments(
    "run", num_train_epochs=2, save_steps=10, use_cpu=True, disable_tqdm=True, report_to=[]
)
collate = DataCollatorWithPadding(tokenizer)
trainer = Trainer(make_model(), arguments, collate, dataset["train"], dataset["test"])
sab.transformers.prepare(trainer, budget=16 * 128)  # padded tokens a batch
checkpoint = get_last_checkpoint("run") if pathlib.Path("run").is_dir() else None
trainer.train(resume_from_checkpoint=checkpoint)
loss = trainer.evaluate()["eval_loss"]
print(f"step {trainer.state.global_step}, epoch {trainer.state.epoch}, loss {loss:.2f}")
