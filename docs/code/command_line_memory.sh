# sab memory on a step of a few lines.
cat > step.py <<'PYTHON'
import torch

layer = torch.nn.Linear(64, 64)


def step(count, length):
    layer(torch.rand(count, int(length), 64)).relu().sum().backward()
    layer.zero_grad()
PYTHON
# [memory]
sab memory step.py:step --device cpu --shortest 8 --longest 256 --budget 16MiB
# [end]
