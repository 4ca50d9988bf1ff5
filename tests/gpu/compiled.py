"""Compiled: torch.compile and CUDA graphs of at most K shapes, against eager steps."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from torch import nn

import sab
import sab.torch
from common import Part, percent
from workloads import SOURCE, lengths

WORDS = 64


class Network(nn.Module):
    """An encoder of 10 million parameters: small enough to wait for launches of kernels."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.output = nn.Linear(width, 2)

    def forward(self, words: Any) -> Any:
        return self.output(self.layers(self.words(words)).mean(1))


def loader_of(part: Part, shapes: int) -> tuple[sab.torch.DataLoader, float]:
    """The loader, and the padding of its plan."""
    sizes = lengths("glosses", part.size(20_000, 60), 82)
    random = np.random.default_rng(0)
    dataset = [(torch.from_numpy(random.integers(1, WORDS, size)), size % 2) for size in sizes]
    plan = sab.plan(sizes, budget=part.size(4096, 128), max_shapes=shapes)
    collate = sab.torch.PadCollate({0: 0})
    loader = sab.torch.DataLoader(dataset, sab.BucketSampler(plan), collate_fn=collate)
    return loader, plan.report().padding


def train(part: Part, shapes: int, compiled: bool) -> tuple[list[Any], float, int]:
    """An epoch after the warm-up: a row of the table, steps a second and graphs."""
    torch.manual_seed(0)
    model: Any = Network(*part.size((320, 8), (16, 1))).to(part.device)
    parameters = sum(each.numel() for each in model.parameters())
    current: Any = torch  # what current versions have
    optimizer = current.optim.AdamW(model.parameters(), lr=1e-4, fused=not part.dry_run)
    current._dynamo.reset()
    graphs = current._dynamo.utils.counters["stats"]
    graphs.clear()
    if compiled:
        how = part.size({"mode": "reduce-overhead"}, {"backend": "eager"})
        model.compile(dynamic=False, **how)

    def step(data: Any) -> None:
        words, labels = (each.to(part.device) for each in data)
        with torch.autocast(part.device.type, torch.bfloat16):
            loss = nn.functional.cross_entropy(model(words).float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    loader, _ = loader_of(part, shapes)
    begin = time.perf_counter()
    for _ in range(part.size(3, 1)):  # CUDA graphs are recorded on the second call of a shape
        found = sab.torch.warm_up(loader, step, restore=[model, optimizer])
    torch.cuda.synchronize()
    warm_up = time.perf_counter() - begin
    batches = [[each.to(part.device) for each in data] for data in loader]
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for data in batches:
        step(data)
    torch.cuda.synchronize()
    speed = len(batches) / (time.perf_counter() - begin)
    count = graphs["unique_graphs"]
    name = "compiled" if compiled else "eager"
    row = [name, f"{parameters / 1e6:.1f} M", found, count, f"{warm_up:.1f}", f"{speed:.1f}"]
    return row, speed, count


def main() -> None:
    with Part("compiled", 120) as part:
        shapes = part.size(8, 4)
        if part.dry_run:  # the compiler asks an accelerator for its stream
            current: Any = torch
            current.accelerator.is_available = lambda: False
        eager, slow, _ = train(part, shapes, compiled=False)
        rows = [eager]
        with part.attempt("compiled"):
            compiled, fast, graphs = train(part, shapes, compiled=True)
            rows.append(compiled)
            asked = f"at most {shapes}"
            part.figure("graphs compiled", asked, graphs, 0 < graphs <= shapes, exact=True)
            times = fast / slow
            part.figure("compiled: steps", "1.5 times eager", f"{times:.2f}", times >= 1.5)
        columns = ("steps", "parameters", "shapes", "graphs", "warm-up, s", "steps a second")
        padding = percent(loader_of(part, shapes)[1])
        part.table(f"Glosses, {padding} of padding: {SOURCE}", columns, rows)


if __name__ == "__main__":
    main()
