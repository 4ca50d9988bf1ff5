"""Fused steps of many small parameters.

needs: torch
"""

import torch

import sab.torch

# [fuse]
torch.manual_seed(0)
plain = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(50)])
fused = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(50)])
fused.load_state_dict(plain.state_dict())
one = torch.optim.Adam(plain.parameters())
other = sab.torch.fuse_optimizer(torch.optim.Adam(fused.parameters()))
for _ in range(3):
    data = torch.rand(4, 8)
    for model, step in ((plain, one.step), (fused, other.fuse_step)):
        model.zero_grad()
        model(data).sum().backward()
        step()
assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), fused.parameters()))  # bit for bit
# [end]
