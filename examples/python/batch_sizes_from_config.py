"""Training whose batch sizes come from a recipe's config, as the torchtune RFC on adaptive batching
has it.

needs: torch

`use_maximum_batch_size` begins with the largest batch size that fits the memory.
`batch_increase_function` names a function of (epoch, current batch size) that says by how much the
batch size grows, "module:function"; a growth beyond the largest that fits is left out. The learning
rate follows the mean words of a step, and weights of the loss even out the steps of an epoch. The
sentences are random, and the memory is that of a device of `memory_mib`, emulated on the CPU.
"""

import argparse
import importlib
import json
import pathlib
import time

import numpy as np
import torch
from torch import nn

import sab


def double_every_second_epoch(epoch, current_batch_size):
    return current_batch_size if epoch > 0 and epoch % 2 == 0 else 0


class Model(nn.Module):
    """Whether word 1 is in a sentence."""

    def __init__(self, words=100, width=32):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.output = nn.Linear(width, 2)

    def forward(self, words):
        return self.output(self.embedding(words).max(1).values)


def step_of(model, words, labels, weight=1.0):
    """Forward and backward of a batch."""
    model.zero_grad()
    loss = weight * nn.functional.cross_entropy(model(words), labels)
    loss.backward()
    return loss.item()


# [policy]
class BatchSizes:
    """The batch size of each epoch, as a recipe's config says."""

    def __init__(self, config, model, longest):
        name, is_maximum = config["batch_increase_function"], config["use_maximum_batch_size"]
        if name and is_maximum:
            raise ValueError("batch_increase_function: the maximum batch size cannot grow")
        self.increase = None
        if name:
            module, _, function = name.partition(":")
            self.increase = getattr(importlib.import_module(module), function)
        self.most = self.now = config["batch_size"]
        if name or is_maximum:
            self.most = self.find(model, longest, config["memory_mib"] << 20)
        if is_maximum:
            self.now = self.most

    def find(self, model, longest, memory):
        """The largest batch size of the longest sentences; the RFC rounds to a power of two."""

        def trial(count):
            step_of(model, torch.ones(count, longest, dtype=torch.int64), torch.zeros(count).long())

        found = sab.find_max_batch(trial, "cpu", budget=memory, rounding="power_of_two")
        return found.batch_size

    def begin(self, epoch):
        """The batch size of an epoch."""
        if self.increase is not None:
            self.now = sab.grow_batch_size(
                self.increase, epoch, current=self.now, max_batch_size=self.most
            )
        return self.now


# [end]


def train(config, sizes, sentences):
    """A row of figures for each epoch."""
    torch.manual_seed(0)
    model = Model()
    batch_sizes = BatchSizes(config, model, int(sizes.max()))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["learning_rate"])
    print(f"{len(sizes):,} sentences; at most {batch_sizes.most} of the longest in a batch")
    print(f"{'':<10}{'batch size':>12}{'steps':>8}{'learning rate':>15}{'seconds':>9}{'loss':>8}")
    of_words = {"reference": config["reference_words"], "rule": config["learning_rate_rule"]}
    for epoch in range(config["epochs"]):
        # [epoch]
        sampler = sab.BucketSampler(sizes, batch_size=batch_sizes.begin(epoch), seed=0)
        sampler.set_epoch(epoch)
        mean_words = sizes.sum() / len(sampler)  # of a step
        rate = sab.scale_learning_rate(config["learning_rate"], mean_words, **of_words)
        for group in optimizer.param_groups:
            group["lr"] = rate
        begin, losses = time.perf_counter(), []
        for batch in sampler.batches():
            words = nn.utils.rnn.pad_sequence([sentences[i] for i in batch.indices], True)
            labels = (words == 1).any(1).long()
            losses.append(step_of(model, words, labels, batch.sample_weight))
            optimizer.step()
        # [end]
        print(
            f"{f'epoch {epoch}':<10}{batch_sizes.now:>12}{len(sampler):>8}{rate:>15.3f}"
            f"{time.perf_counter() - begin:>9.1f}{np.mean(losses):>8.3f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    default = pathlib.Path(__file__).with_name("batch_sizes.json")
    parser.add_argument("--config", type=pathlib.Path, default=default)
    options = parser.parse_args()
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    sizes = np.minimum(random.lognormal(2.5, 0.6, 4000).astype(int) + 1, 60)
    sentences = [torch.from_numpy(random.integers(1, 100, size)) for size in sizes]
    train(json.loads(options.config.read_text()), sizes, sentences)


if __name__ == "__main__":
    main()
