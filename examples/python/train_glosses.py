"""Trains a small model to tell the part of speech of a WordNet gloss, one epoch with static batches
and one with libsab's.

Both see the same glosses, models, learning rule and average number of glosses a step; only the
batches differ. With libsab the loss of a batch is multiplied by its weight, so that each gloss of
the epoch counts the same.
"""

import argparse
import time

import numpy as np
import torch
from torch import nn

import sab
from wordnet import PARTS, glosses

WORDS = 1 << 14
STATIC = 64  # glosses of a static batch


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


def batches_of(train, sizes, seed):
    """Static batches of random glosses and those of libsab, as pairs of indices and weight."""
    order = np.random.default_rng(seed).permutation(train)
    static = [(order[i : i + STATIC], 1.0) for i in range(0, len(order), STATIC)]
    # The budget that gives as many glosses a step on average.
    plan = sab.plan(sizes[train], budget=STATIC * float(sizes[train].mean()) * 1.02)
    batches = sab.BucketSampler(plan, seed=seed).batches()
    ours = [(train[batch.indices], batch.sample_weight) for batch in batches]
    return {f"static batches of {STATIC}": static, "libsab": ours}


def run(batches, words, parts, test, seed):
    """Trains on the batches; gives seconds, padding, and loss and accuracy on the test batches."""
    torch.manual_seed(seed)
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
    lost = right = count = 0
    with torch.no_grad():
        for indices in test:
            told = model(pad([words[i] for i in indices]))
            lost += float(nn.functional.cross_entropy(told, parts[indices], reduction="sum"))
            right += int((told.argmax(1) == parts[indices]).sum())
            count += len(indices)
    return seconds, 1 - real / padded, lost / count, right / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--glosses", type=int, default=None, help="use only so many (default: all)")
    parser.add_argument("--seeds", type=int, default=1, help="train so many times (default: 1)")
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

    found: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(options.seeds):
        for name, batches in batches_of(train, sizes, seed).items():
            found.setdefault(name, []).append(run(batches, words, parts, test, seed))
    print(f"{len(train):,} glosses to train on, {held_out:,} held out; one epoch each")
    print(f"mean and standard error of {options.seeds} seeds")
    print(f"{'':<24}{'seconds':>9}{'padding':>9}{'loss':>18}{'accuracy':>10}")
    means = {}
    for name, runs in found.items():
        means[name] = seconds, padding, loss, accuracy = np.mean(runs, 0)
        error = np.std(runs, 0, ddof=1)[2] / len(runs) ** 0.5 if len(runs) > 1 else np.nan
        print(
            f"{name:<24}{seconds:>9.1f}{padding:>9.1%}{f'{loss:.3f} ± {error:.3f}':>18}"
            f"{accuracy:>10.1%}"
        )
    static_seconds, our_seconds = (each[0] for each in means.values())
    print(f"With libsab, an epoch is {static_seconds / our_seconds:.1f} times as fast.")


if __name__ == "__main__":
    main()
