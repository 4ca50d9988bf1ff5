"""Trains a small encoder-decoder on translated messages of programs, with static batches and with
libsab's.

The pairs come from the .mo files of Debian's gcc-12-locales, gimp-data and git. Texts are read as
bytes. Both runs see the same pairs, model, seed, learning rule and average number of pairs a step;
only the batches differ.
"""

import argparse
import pathlib
import struct
import time

import numpy as np
import torch
from torch import nn

import sab

PAD, BEGIN, END = 256, 257, 258
Texts = list[tuple[bytes, bytes]]


def messages(path: pathlib.Path) -> Texts:
    """The pairs of an .mo file, without its header and empty translations."""
    data = path.read_bytes()
    order = "<" if data[:4] == b"\xde\x12\x04\x95" else ">"
    count, *tables = struct.unpack(f"{order}3I", data[8:20])
    texts = []
    for table in tables:
        places = struct.unpack(f"{order}{2 * count}I", data[table : table + 8 * count])
        texts.append([data[p : p + n] for n, p in zip(places[::2], places[1::2])])
    return [(source, target) for source, target in zip(*texts) if source and target]


def pad(texts: "list[list[int]]") -> torch.Tensor:
    padded = np.full((len(texts), max(map(len, texts))), PAD)
    for row, text in zip(padded, texts):
        row[: len(text)] = text
    return torch.from_numpy(padded)


class Model(nn.Module):
    """Convolutions that read, and convolutions that write and attend to what was read."""

    def __init__(self, width: int = 48, reach: int = 7) -> None:
        super().__init__()
        self.reach = reach
        self.embedding = nn.Embedding(259, width, padding_idx=PAD)
        self.read = nn.ModuleList(nn.Conv1d(width, width, 2 * reach + 1) for _ in range(2))
        self.write = nn.ModuleList(nn.Conv1d(width, width, reach + 1) for _ in range(2))
        self.tell = nn.Linear(2 * width, 259)

    def _through(self, layers: nn.ModuleList, bytes_: torch.Tensor, ahead: int) -> torch.Tensor:
        """Each position sees those before it, and some ahead."""
        there = (bytes_ != PAD).unsqueeze(1)
        data = self.embedding(bytes_).transpose(1, 2)
        for layer in layers:
            made = layer(nn.functional.pad(data, (self.reach, ahead)))
            data = (data + made.relu()) * there
        return data.transpose(1, 2)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The mean cross entropy of the bytes of the target."""
        read = self._through(self.read, source, self.reach)
        written = self._through(self.write, target[:, :-1], 0)
        scores = written @ read.transpose(1, 2)
        weights = scores.masked_fill((source == PAD).unsqueeze(1), -1e9).softmax(2)
        told = self.tell(torch.cat([written, weights @ read], 2))
        return nn.functional.cross_entropy(
            told.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD
        )


def tensors(pairs: Texts, indices: np.ndarray) -> "tuple[torch.Tensor, torch.Tensor]":
    sources = pad([list(pairs[i][0]) for i in indices])
    targets = pad([[BEGIN, *pairs[i][1], END] for i in indices])
    return sources, targets


def run(batches, pairs, test):
    """Trains on pairs of indices and weight; gives CPU seconds, padding, positions of the largest
    batch, and the loss on the test batches."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    real = padded = largest = 0
    start = time.process_time()
    for indices, weight in batches:
        source, target = tensors(pairs, indices)
        loss = model(source, target)
        optimizer.zero_grad(set_to_none=True)
        (loss * weight).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        positions = source.numel() + target.numel()
        real += int((source != PAD).sum() + (target != PAD).sum())
        padded += positions
        largest = max(largest, positions)
    seconds = time.process_time() - start
    model.eval()
    with torch.no_grad():
        loss = sum(float(model(*tensors(pairs, indices))) * len(indices) for indices in test)
    return seconds, 1 - real / padded, largest, loss / sum(map(len, test))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="/usr/share/locale", help="where the .mo files are")
    parser.add_argument("--steps", type=int, default=300, help="of each run (default: 300)")
    parser.add_argument("--batch-size", type=int, default=32, help="pairs a step (default: 32)")
    options = parser.parse_args()

    files = sorted(pathlib.Path(options.folder).rglob("*.mo"))
    pairs = [pair for path in files for pair in messages(path)]
    random = np.random.default_rng(0)
    count = options.steps * options.batch_size
    chosen = random.permutation(len(pairs))[: count + count // 10]
    pairs = [pairs[i] for i in chosen]
    source = np.array([len(pair[0]) for pair in pairs])
    target = np.array([len(pair[1]) + 2 for pair in pairs])  # with its begin and end
    train = np.arange(min(count, len(pairs) * 10 // 11))
    test_sizes = {"source": source[len(train) :], "target": target[len(train) :]}
    test_plan = sab.plan(test_sizes, budget=16384, oversize="single")
    test = [indices + len(train) for indices in sab.SequentialSampler(test_plan)]

    order = random.permutation(train)
    each = options.batch_size
    static = [(order[i : i + each], 1.0) for i in range(0, len(order), each)]
    # The budget that gives as many pairs a step on average.
    mean = float((source[train] + target[train]).mean())
    sizes = {"source": source[train], "target": target[train]}
    plan = sab.plan(sizes, budget=each * mean * 1.1, oversize="single")
    batches = sab.BucketSampler(plan, seed=0).batches()
    # The loss is a mean over the words of the target.
    ours = [(batch.indices, batch.token_weight["target"]) for batch in batches]

    print(f"{len(train):,} pairs to train on, {len(pairs) - len(train):,} held out")
    print(f"{'':<24}{'steps':>8}{'CPU s':>10}{'padding':>10}{'largest':>10}{'loss':>8}")
    for name, runs in ((f"static batches of {each}", static), ("libsab", ours)):
        seconds, padding, largest, loss = run(runs, pairs, test)
        print(
            f"{name:<24}{len(runs):>8,}{seconds:>10.1f}{100 * padding:>9.1f}%{largest:>10,}"
            f"{loss:>8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
