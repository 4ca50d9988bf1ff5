"""Trains two epochs. Started again, it goes on after the last checkpoint."""

import pathlib

import torch
from toy import Model, collate, dataset, sizes
from torch.nn import functional

import sab
import sab.torch

# DataLoader(dataset, batch_size=32, shuffle=True, collate_fn=collate, num_workers=2) before
sampler = sab.BucketSampler(sizes, budget=1024, seed=0)
loader = sab.torch.DataLoader(dataset, sampler, collate_fn=collate, num_workers=2)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
parts = {"model": model, "optimizer": optimizer, "loader": loader}
checkpoint = pathlib.Path("last.pt")
for name, state in torch.load(checkpoint).items() if checkpoint.exists() else ():
    parts[name].load_state_dict(state)
for epoch in range(loader.epoch, 2):
    for words, labels in loader:
        loss = functional.cross_entropy(model(words), labels)
        optimizer.zero_grad()
        (loss * loader.sample_weight).backward()  # each sample of the epoch counts the same
        optimizer.step()
        if loader.position % 10 == 0:
            print(f"epoch {epoch}, batch {loader.position}: loss {loss.item():.4f}")
            torch.save({name: part.state_dict() for name, part in parts.items()}, checkpoint)
