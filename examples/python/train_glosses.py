"""Trains a small model to tell the part of speech of a WordNet gloss, one epoch with static batches
and one with libsab's.

Both see the same glosses, model, seed, learning rule and average number of glosses a step; only the
batches differ.
"""

import argparse
import time

import numpy as np
import torch
from torch import nn

import sab
from wordnet import PARTS, glosses

WORDS = 1 << 14


class Model(nn.Module):
    """Embedding, a GRU over the words, a mean over the words that are there, and a linear layer."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, width, padding_idx=0)
        self.read = nn.GRU(width, width, batch_first=True)
        self.tell = nn.Linear(width, len(PARTS))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        there = (words != 0).unsqueeze(2)
        hidden, _ = self.read(self.embedding(words))
        return self.tell((hidden * there).sum(1) / there.sum(1))


def pad(samples: "list[np.ndarray]") -> torch.Tensor:
    padded = np.zeros((len(samples), max(map(len, samples))), np.int64)
    for row, words in zip(padded, samples):
        row[: len(words)] = words
    return torch.from_numpy(padded)


def run(batches, words, parts, test):
    """Trains on pairs of indices and weight; gives seconds, padding and accuracy on the test
    batches."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    real = padded = 0
    start = time.perf_counter()
    for indices, weight in batches:
        data = pad([words[i] for i in indices])
        loss = nn.functional.cross_entropy(model(data), parts[indices])
        optimizer.zero_grad(set_to_none=True)
        (loss * weight).backward()
        optimizer.step()
        real += int((data != 0).sum())
        padded += data.numel()
    seconds = time.perf_counter() - start
    model.eval()
    with torch.no_grad():
        right = sum(
            int((model(pad([words[i] for i in indices])).argmax(1) == parts[indices]).sum())
            for indices in test
        )
    return seconds, 1 - real / padded, right / sum(map(len, test))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--glosses", type=int, default=None, help="use only so many (default: all)")
    options = parser.parse_args()
    torch.set_num_threads(2)

    texts = glosses()
    chosen = np.random.default_rng(0).permutation(len(texts))[: options.glosses]
    ids: dict[str, int] = {}
    words = [
        np.array(
            [
                1 + ids.setdefault(word, len(ids)) % (WORDS - 1)
                for word in texts[i][0].lower().split()
            ]
            or [1]
        )
        for i in chosen
    ]
    parts = torch.tensor([texts[i][1] for i in chosen])
    sizes = np.array([len(each) for each in words])
    held_out = len(sizes) // 10
    train, test_sizes = np.arange(held_out, len(sizes)), sizes[:held_out]
    test = list(sab.SequentialSampler(sab.plan(test_sizes, budget=4096)))

    static_size = 64
    order = np.random.default_rng(1).permutation(train)
    static = [(order[i : i + static_size], 1.0) for i in range(0, len(order), static_size)]
    # The budget that gives as many glosses a step on average.
    plan = sab.plan(sizes[train], budget=static_size * float(sizes[train].mean()) * 1.02)
    batches = sab.BucketSampler(plan, seed=0).batches()
    ours = [(train[batch.indices], batch.sample_weight) for batch in batches]

    print(f"{len(train):,} glosses to train on, {held_out:,} held out; one epoch each")
    print(f"{'':<24}{'batches':>10}{'seconds':>10}{'padding':>10}{'accuracy':>10}")
    seconds = {}
    for name, batches in ((f"static batches of {static_size}", static), ("libsab", ours)):
        seconds[name], padding, accuracy = run(batches, words, parts, test)
        print(
            f"{name:<24}{len(batches):>10,}{seconds[name]:>10.1f}"
            f"{100 * padding:>9.1f}%{100 * accuracy:>9.1f}%",
            flush=True,
        )
    static_seconds, our_seconds = seconds.values()
    print(f"With libsab, an epoch is {static_seconds / our_seconds:.1f} times as fast.")


if __name__ == "__main__":
    main()
