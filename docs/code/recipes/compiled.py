"""Three epochs with at most eight compilations on a rank: torchrun --nproc-per-node 2 compiled.py
flags: -m torch.distributed.run --nproc-per-node 2
"""

import torch
from toy import Model, dataset, sizes
from torch import nn

import sab
import sab.torch

has_gpu = torch.cuda.is_available()
torch.distributed.init_process_group("nccl" if has_gpu else "gloo")
rank, world_size = sab.ranks()
device = torch.device("cuda", rank) if has_gpu else torch.device("cpu")
plan = sab.plan(sizes, budget=1024, max_shapes=8)
sampler = sab.BucketSampler(plan, rank=rank, world_size=world_size, last_step="drop")
collate = sab.torch.PadCollate({0: 0})  # pads the words to the length of the batch's bucket
loader = sab.torch.DataLoader(dataset, sampler, collate_fn=collate)
model = Model().to(device)
model.compile(dynamic=False, **({"mode": "reduce-overhead"} if has_gpu else {"backend": "eager"}))
parallel = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)


def step(data, weight=1.0):
    loss = nn.functional.cross_entropy(parallel(data[0].to(device)), data[1].to(device))
    optimizer.zero_grad()
    (loss * weight).backward()
    optimizer.step()


every_shape = sab.torch.DataLoader(dataset, sab.BucketSampler(plan), collate_fn=collate)
shapes = sab.torch.warm_up(every_shape, step, restore=[model, optimizer])
torch.compiler.set_stance("fail_on_recompile")  # from here on a new shape is an error
for _ in range(3):
    for data in loader:
        step(data, loader.sample_weight)
print(f"{3 * len(loader)} steps of {shapes} shapes, each compiled once")
torch.distributed.destroy_process_group()
