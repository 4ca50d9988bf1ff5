"""Two ranks: torchrun --nproc-per-node 2 ddp.py. Started again, also with another number of ranks,
it goes on after the last checkpoint. flags: -m torch.distributed.run --nproc-per-node 2
"""

import pathlib

import torch
import torch.distributed as dist
from toy import Model, collate, dataset, sizes
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import sab
import sab.torch

dist.init_process_group("gloo")
rank, world_size = sab.ranks()  # of torch.distributed
sampler = sab.BucketSampler(sizes, budget=1024, seed=0, rank=rank, world_size=world_size)
loader = sab.torch.DataLoader(dataset, sampler, collate_fn=collate, num_workers=2)
model = DistributedDataParallel(Model())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
parts = {"model": model, "optimizer": optimizer, "loader": loader}
checkpoint = pathlib.Path("last.pt")
for name, state in torch.load(checkpoint).items() if checkpoint.exists() else ():
    parts[name].load_state_dict(state)
sab.check_ranks(sampler, timeout=60)  # all ranks have the same sizes, seed and place
for epoch in range(loader.epoch, 2):
    for words, labels in loader:
        loss = functional.cross_entropy(model(words), labels, reduction="sum")
        loss = loss / max(len(labels), 1)  # a rank may have no sample in the last step
        optimizer.zero_grad()
        (loss * loader.sample_weight).backward()  # each sample of the epoch counts the same
        optimizer.step()
        if loader.position % 5 == 0 and rank == 0:
            print(f"epoch {epoch}, step {loader.position}: loss {loss.item():.4f} of rank 0")
            torch.save({name: part.state_dict() for name, part in parts.items()}, checkpoint)
dist.destroy_process_group()
