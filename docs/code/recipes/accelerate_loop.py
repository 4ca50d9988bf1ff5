"""Two processes: torchrun --nproc-per-node 2 accelerate_loop.py. Started again, it goes on after
the last checkpoint. flags: -m torch.distributed.run --nproc-per-node 2
"""

import pathlib

import torch
from accelerate import Accelerator
from toy import Model, collate, dataset, sizes
from torch.nn import functional

import sab
import sab.torch

accelerator = Accelerator(cpu=True)
sampler = sab.BucketSampler(sizes, budget=1024)
loader = sab.torch.DataLoader(dataset, sampler, collate_fn=collate)
torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
if pathlib.Path("state").exists():
    accelerator.load_state("state")
for epoch in range(loader.epoch, 2):
    for words, labels in loader:
        loss = functional.cross_entropy(model(words), labels, reduction="sum")
        loss = loss / max(len(labels), 1)  # a process may have no sample in the last step
        accelerator.backward(loss * loader.sample_weight)  # each sample counts the same
        optimizer.step()
        optimizer.zero_grad()
        if loader.position % 5 == 0:
            accelerator.print(f"epoch {epoch}, step {loader.position} of {len(loader)}")
            accelerator.save_state("state")
accelerator.save_state("state")
accelerator.wait_for_everyone()
accelerator.end_training()
