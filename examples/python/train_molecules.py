"""Trains a small message-passing network on molecules, with static batches and in rows under caps
of atoms and bonds.

It predicts the polar surface area of the molecules of molecules.py. Each batch is padded to the
caps, so that all have one shape, as compilers want. Static batches hold as many molecules as never
exceed the caps. Both runs see the same molecules, model, seed and learning rule.
"""

import argparse
import pathlib
import time

import numpy as np
import torch
from torch import nn

import sab
from molecules import FOLDER, molecules


class Model(nn.Module):
    """Each atom hears its neighbours three times; the sum over the atoms tells."""

    def __init__(self, elements: int, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(elements, width)
        self.hear = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(3))
        self.tell = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, atoms, bonds, graph_of, graphs):
        data = self.embedding(atoms)
        for layer in self.hear:
            heard = torch.zeros_like(data).index_add(0, bonds[1], data[bonds[0]])
            data = data + layer(torch.cat([data, heard], 1)).relu()
        told = self.tell(data).squeeze(1)
        return torch.zeros(graphs).index_add(0, graph_of, told)


def tensors(graphs, nodes, edges):
    """Graphs end to end, padded to so many nodes and edges. Padding is a graph of its own."""
    atoms = torch.zeros(nodes, dtype=torch.long)
    bonds = torch.full((2, edges), nodes - 1)
    graph_of = torch.full((nodes,), len(graphs))
    node = edge = 0
    for number, (elements, pairs) in enumerate(graphs):
        atoms[node : node + len(elements)] = torch.tensor(elements)
        graph_of[node : node + len(elements)] = number
        if pairs:
            ends = torch.tensor(pairs).T + node
            bonds[:, edge : edge + 2 * len(pairs)] = torch.cat([ends, ends.flip(0)], 1)
        node, edge = node + len(elements), edge + 2 * len(pairs)
    return atoms, bonds, graph_of


def run(batches, graphs, areas, capacity, test):
    """Trains on pairs of indices and weight; gives CPU seconds and the error on the test
    batches."""
    nodes, edges = capacity["nodes"] + 1, capacity["edges"]  # a node for the edges of padding
    torch.manual_seed(0)
    model = Model(1 + max(max(elements) for elements, _ in graphs))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / len(batches))

    def told(indices):
        chosen = [graphs[i] for i in indices]
        return model(*tensors(chosen, nodes, edges), len(chosen) + 1)[:-1]

    start = time.process_time()
    for indices, weight in batches:
        loss = nn.functional.l1_loss(told(indices), areas[indices])
        optimizer.zero_grad(set_to_none=True)
        (loss * weight).backward()
        optimizer.step()
        falling.step()
    seconds = time.process_time() - start
    model.eval()
    with torch.no_grad():
        error = sum(float((told(indices) - areas[indices]).abs().sum()) for indices in test)
    return seconds, error / sum(map(len, test))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER, help="of the SMILES")
    parser.add_argument("--molecules", type=int, help="use only so many (default: all)")
    parser.add_argument("--epochs", type=int, default=3, help="of each run (default: 3)")
    options = parser.parse_args()

    read = molecules(options.folder)
    chosen = np.random.default_rng(0).permutation(len(read))[: options.molecules]
    ids: dict[str, int] = {}
    graphs = [
        ([ids.setdefault(element, len(ids)) for element in read[i][0][0]], read[i][0][1])
        for i in chosen
    ]
    areas = torch.tensor([read[i][1] / 100 for i in chosen])
    nodes = np.array([len(elements) for elements, _ in graphs])
    edges = np.array([2 * len(bonds) for _, bonds in graphs])  # one for each direction
    capacity = {"nodes": max(512, int(nodes.max())), "edges": max(1104, int(edges.max()))}

    held_out = len(graphs) // 10
    train = np.arange(held_out, len(graphs))
    rows = sab.PackedSampler(
        {"nodes": nodes[train], "edges": edges[train]}, capacity=capacity, seed=0
    )
    test_rows = sab.PackedSampler(
        {"nodes": nodes[:held_out], "edges": edges[:held_out]}, capacity=capacity
    )
    ours = [
        (train[batch.indices], batch.sample_weight)
        for _ in range(options.epochs)
        for batch in rows.batches()
    ]
    orders = [np.random.default_rng(epoch).permutation(train) for epoch in range(options.epochs)]

    def static(size):
        return [(order[i : i + size], 1.0) for order in orders for i in range(0, len(order), size)]

    def fits(batches):
        return all(
            sizes[indices].sum() <= capacity[name]
            for name, sizes in (("nodes", nodes), ("edges", edges))
            for indices, _ in batches
        )

    size = next(size for size in range(len(train), 0, -1) if fits(static(size)))
    print(
        f"{len(train):,} molecules to train on, {held_out:,} held out; at most "
        f"{capacity['nodes']:,} nodes and {capacity['edges']:,} edges a batch"
    )
    print(f"{'':<24}{'steps':>8}{'CPU s':>8}{'nodes':>10}{'edges':>10}{'error':>8}")
    for name, batches in ((f"static batches of {size}", static(size)), ("libsab", ours)):
        seconds, error = run(batches, graphs, areas, capacity, list(test_rows))
        fill = [
            100 * options.epochs * sizes[train].sum() / len(batches) / capacity[of]
            for of, sizes in (("nodes", nodes), ("edges", edges))
        ]
        print(
            f"{name:<24}{len(batches):>8,}{seconds:>8.1f}{fill[0]:>9.1f}%{fill[1]:>9.1f}%"
            f"{100 * error:>8.1f}",
            flush=True,
        )
    print("nodes, edges: how full the batches are; error: mean, of the surface area in square Å")


if __name__ == "__main__":
    main()
