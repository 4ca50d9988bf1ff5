"""Trains eight epochs of ten steps each."""

import torch
from toy import Model, collate, dataset, sizes
from torch.nn import functional

import sab
import sab.torch

sampler = sab.BucketSampler(sizes, budget=1024, seed=0, steps_per_epoch=10)
loader = sab.torch.DataLoader(dataset, sampler, collate_fn=collate)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=8 * len(loader))
for epoch in range(8):
    for words, labels in loader:  # ten batches
        loss = functional.cross_entropy(model(words), labels)
        optimizer.zero_grad()
        (loss * loader.sample_weight).backward()
        optimizer.step()
        schedule.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")  # evaluate and save here
