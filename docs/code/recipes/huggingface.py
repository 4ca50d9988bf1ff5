"""Trains two epochs. Started again, it goes on after the last checkpoint.
needs: datasets, transformers"""

import pathlib

import torch
from toy_text import dataset, make_model, tokenizer
from transformers import DataCollatorWithPadding

import sab
import sab.torch


def tokenise(rows):
    tokens = tokenizer(rows["text"], truncation=True)
    return {**tokens, "length": [len(ids) for ids in tokens["input_ids"]]}


dataset = dataset.map(tokenise, batched=True, remove_columns=["text"])
lengths = sab.Sizes(dataset, column="length")
dataset = dataset.remove_columns("length")  # the model does not take it
sampler = sab.BucketSampler(lengths, budget=16 * 128, seed=0)  # padded tokens a batch
collate = DataCollatorWithPadding(tokenizer)
loader = sab.torch.DataLoader(dataset, sampler, collate_fn=collate, num_workers=2)
model = make_model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
parts = {"model": model, "optimizer": optimizer, "loader": loader}
checkpoint = pathlib.Path("last.pt")
for name, state in torch.load(checkpoint).items() if checkpoint.exists() else ():
    parts[name].load_state_dict(state)
for epoch in range(loader.epoch, 2):
    for batch in loader:
        loss = model(**batch).loss
        optimizer.zero_grad()
        (loss * loader.sample_weight).backward()  # each sample of the epoch counts the same
        optimizer.step()
        if loader.position % 10 == 0:
            print(f"epoch {epoch}, batch {loader.position}: loss {loss.item():.4f}")
            torch.save({name: part.state_dict() for name, part in parts.items()}, checkpoint)
