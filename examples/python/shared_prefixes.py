"""Samples that share tokens, trained with a tree mask: a transformer on the CPU.

Conversations branch: each turn is a node of a forest, and each leaf is the end of a sample. The
plan says which segments a micro-batch has. Each token attends to the tokens before it in its own
segment, and to those of the segments above. The gradients are those of whole samples, one by one,
and fewer tokens are computed.

    shared_prefixes.py [--trees 6] [--steps 3]
"""

import argparse

import torch
from torch.nn import functional

import sab

VOCABULARY, WIDTH, HEADS, LONGEST, BUDGET = 50, 32, 4, 256, 256


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.behind = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.mix, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = torch.nn.Linear(WIDTH, 64), torch.nn.Linear(64, WIDTH)

    def forward(self, hidden, mask):
        heads = self.mix(self.before(hidden)).view(len(hidden), 3, HEADS, -1).permute(1, 2, 0, 3)
        queries, keys, values = heads
        scores = queries @ keys.transpose(1, 2) / (WIDTH // HEADS) ** 0.5
        seen = scores.masked_fill(~mask, -torch.inf).softmax(-1) @ values
        hidden = hidden + self.out(seen.transpose(0, 1).reshape(len(hidden), WIDTH))
        return hidden + self.narrow(functional.gelu(self.wide(self.behind(hidden))))


class Model(torch.nn.Module):
    """The logits of the next token, of a row of tokens with their positions and a mask."""

    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.positions = torch.nn.Embedding(LONGEST, WIDTH)
        self.layers = torch.nn.ModuleList([Layer(), Layer()])
        self.out = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, positions, mask):
        hidden = self.tokens(tokens) + self.positions(positions)
        for layer in self.layers:
            hidden = layer(hidden, mask)
        return self.out(hidden)


def make_forest(trees, generator):
    """The parent and the tokens of each node."""
    parents, tokens = [], []

    def draw(least, most):
        return int(torch.randint(least, most, (), generator=generator))

    def add(parent, depth):
        node = len(parents)
        parents.append(parent)
        tokens.append(torch.randint(VOCABULARY, (draw(5, 40),), generator=generator))
        for _ in range(draw(2, 4) if depth > 1 else 0):
            add(node, depth - 1)

    for _ in range(trees):
        add(-1, draw(2, 5))
    return parents, tokens


def tree_mask(segments):
    """Whether each token of a micro-batch sees each other one."""
    count = int(segments.length.sum())
    mask = torch.zeros(count, count, dtype=torch.bool)
    spans = [slice(o, o + n) for o, n in zip(segments.offset.tolist(), segments.length.tolist())]
    for own, parent in zip(spans, segments.parent.tolist()):
        mask[own, own] = torch.ones(own.stop - own.start, own.stop - own.start).tril() > 0
        if parent >= 0:  # whose row is done: parents come first
            above = spans[parent]
            mask[own] |= mask[above.stop - 1]
    return mask


def shared_loss(model, segments, tokens, weights):
    """The weighted sum of the samples' losses in a micro-batch, which has their common tokens once.

    A token predicts the next one of its node, or the first one of each node below. The weight of
    a token is the sum over the samples that have it.
    """
    row = torch.cat([tokens[node] for node in segments.node.tolist()])
    places = zip(segments.position.tolist(), segments.length.tolist())
    positions = torch.cat([torch.arange(first, first + count) for first, count in places])
    logs = model(row, positions, tree_mask(segments)).log_softmax(-1)
    spans = list(zip(segments.offset.tolist(), segments.length.tolist()))
    counted = [weights[node] for node in segments.node.tolist()]  # 0 but for leaves
    for k in range(len(spans) - 1, -1, -1):
        if (parent := int(segments.parent[k])) >= 0:
            counted[parent] = counted[parent] + counted[k]
    loss = 0.0
    for (offset, count), parent, weight in zip(spans, segments.parent.tolist(), counted):
        before = torch.arange(offset - 1, offset + count - 1)  # what predicts each token
        targets = row[offset : offset + count]
        if parent >= 0:
            before[0] = sum(spans[parent]) - 1
        else:
            before, targets = before[1:], targets[1:]
        loss = loss - weight * logs[before, targets].sum()
    return loss


def whole_sample(parents, tokens, leaf):
    """The tokens of all nodes from the root to a leaf."""
    above = [] if parents[leaf] < 0 else [whole_sample(parents, tokens, parents[leaf])]
    return torch.cat([*above, tokens[leaf]])


def plain_loss(model, row, weight):
    """The same of one whole sample."""
    mask = torch.ones(len(row), len(row)).tril() > 0
    logs = model(row, torch.arange(len(row)), mask).log_softmax(-1)
    return -weight * logs[torch.arange(len(row) - 1), row[1:]].sum()


def gradients_of(model, losses):
    model.zero_grad()
    for loss in losses:
        loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=6, help="conversations of a step")
    parser.add_argument("--steps", type=int, default=3, help="steps of the optimizer")
    arguments = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    print("step  samples  micro-batches  tokens  without sharing  largest difference")
    for step in range(arguments.steps):
        parents, tokens = make_forest(arguments.trees, generator)
        plan = sab.plan_step([len(each) for each in tokens], budget=BUDGET, parent=parents)
        samples = {
            leaf: whole_sample(parents, tokens, leaf) for leaf in sorted(plan.indices.tolist())
        }
        without = sum(len(row) for row in samples.values())
        weights = [1 / without if node in samples else 0.0 for node in range(len(parents))]
        expected = gradients_of(
            model, (plain_loss(model, row, 1 / without) for row in samples.values())
        )
        micro_batches = (each for each in plan.segments(0) if len(each.node) > 0)
        found = gradients_of(
            model, (shared_loss(model, each, tokens, weights) for each in micro_batches)
        )
        difference = float((found - expected).abs().max() / expected.abs().max())
        assert difference < 1e-5
        optimizer.step()
        print(
            f"{step:>4}  {len(samples):>7}  {plan.micro_batches:>13}  {int(plan.costs.sum()):>6}  "
            f"{without:>15}  {difference:>18.1e}"
        )


if __name__ == "__main__":
    main()
