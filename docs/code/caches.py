"""Samples made once."""

import numpy as np

import sab

# [cache]
made = []


def preprocess(index):
    made.append(index)
    return np.arange(index)


with sab.Cache(
    "lmdb:samples.mdb", dataset_name="numbers"
) as cache:  # or "redis://host:port,host:port", "memory:"
    for _ in range(2):
        for index in range(100):
            assert len(cache.get_or_load(index, preprocess)) == index
assert len(made) == 100  # not once more in the second epoch, nor in another process
# [end]


# [dataset]
class Squares:
    def __len__(self):
        return 100

    def __getitem__(self, index):
        return index**2


dataset = sab.CachedDataset(
    Squares(), "lmdb:squares.mdb", dataset_name="squares", writer_buffer_size=20
)  # for a DataLoader
assert dataset[7] == dataset[7] == 49
# [end]
assert dataset.cache.stats().loads == 1
