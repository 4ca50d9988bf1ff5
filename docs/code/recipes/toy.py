"""What the recipes share: sentences of random words and lengths, labelled by whether word 1 is in
them, and a small model."""

# [toy]
import numpy as np
import torch
from torch import nn

random = np.random.default_rng(0)
sizes = np.minimum(random.lognormal(2.5, 0.6, 2000).astype(int) + 1, 100)  # words in each sentence
sentences = [torch.from_numpy(random.integers(1, 30, size)) for size in sizes]
dataset = [(words, int((words == 1).any())) for words in sentences]


def collate(samples):
    """A padded tensor of words, and the labels."""
    words, labels = zip(*samples)
    return nn.utils.rnn.pad_sequence(words, batch_first=True), torch.tensor(labels)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16, padding_idx=0)
        self.output = nn.Linear(16, 2)

    def forward(self, words):
        return self.output(self.embedding(words).max(1).values)


# [end]
