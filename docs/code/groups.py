"""Batches in groups.

needs: torch
"""

import numpy as np
import torch

import sab

torch.manual_seed(0)

# [thresholds]
lengths = np.random.default_rng(0).choice([1, 4, 16, 64], 10_000, p=[0.75, 0.19, 0.05, 0.01])
thresholds = sab.find_thresholds(lengths, k=3).thresholds  # for the data set, once
assert thresholds.tolist() == [1, 4, 16]
# [end]

# [grouping]
batch = [torch.rand(length, 8) for length in lengths[:256]]
grouping = sab.Grouping.by_thresholds(([len(sample) for sample in batch], thresholds))
outputs = []
for padded, mask in zip(grouping.pad(batch), grouping.masks([len(sample) for sample in batch])):
    outputs.append(
        (padded.sum(2) * mask).sum(1)
    )  # a model of the group; padded to the group's longest
in_order = grouping.join(outputs)
assert torch.allclose(in_order, torch.stack([sample.sum() for sample in batch]), rtol=1e-4)
# [end]
print([tuple(padded.shape) for padded in grouping.pad(batch)])

# [collection]
collection = sab.Collection(
    batch, "(B, L_word, 8)"
)  # several tensors a sample: dictionaries and tuples of these
grouped = collection.group(collection.grouping(word=thresholds))
sums = grouped.apply(lambda group, mask: (group.sum(2) * mask).sum(1), output="(B)", mask="word")
assert torch.allclose(sums.join(), in_order)
# [end]
