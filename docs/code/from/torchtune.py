"""torchtune's RFC on adaptive batching.

needs: torch
"""

import torch

# [imports]
from sab.compat.torchtune import find_max_batch_size, is_oom_exception, next_batch_size, train_step
# [end]

import sab

layer = torch.nn.Linear(256, 256)


def step(batch_size):
    layer(torch.rand(batch_size, 256)).sum().backward()
    layer.zero_grad()


device = sab.Probe("cpu", total_bytes=8 << 20)

# [same]
max_batch_size = find_max_batch_size(
    step, device
)  # offline: use_maximum_batch_size; rounded down to a power of two, as the RFC says
batch_size = 32
for epoch in range(4):  # online: batch_increase_function
    batch_size = next_batch_size(
        lambda epoch, current_batch_size: 16 if epoch in (1, 3) else 0,
        epoch,
        batch_size,
        max_batch_size,
    )
assert batch_size == 64
# [end]

# [native]
largest = sab.find_max_batch(step, device)  # not rounded
assert max_batch_size <= largest.batch_size < 2 * max_batch_size
# [end]
assert not is_oom_exception(ValueError()) and callable(train_step)
