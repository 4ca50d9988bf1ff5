"""Rows without padding."""

import numpy as np

import sab

random = np.random.default_rng(0)
sizes = np.minimum(random.lognormal(5, 0.9, 50_000).astype(int) + 1, 2048)

# [pack]
sampler = sab.PackedSampler(sizes, capacity=2048, seed=0)
print(
    f"{sampler.info.bins:,} rows, {sampler.info.fill:.2%} full; no packing has fewer than "
    f"{sampler.info.lower_bound:,}"
)
for row in sampler.batches():
    offsets = row.cu_seqlens  # int32: sequence i is at offsets[i] to offsets[i + 1] of the row
    assert (np.diff(offsets) == sizes[row.indices]).all() and offsets[-1] <= 2048
# [end]

# [split]
sampler = sab.PackedSampler(sizes, capacity=1024, split=True)  # samples longer than a row are cut
pieces = {}
for row in sampler.batches():
    for index, length in zip(row.indices.tolist(), np.diff(row.cu_seqlens).tolist()):
        pieces[index] = pieces.get(index, 0) + length
assert all(pieces[index] == size for index, size in enumerate(sizes))
# [end]

# [mates]
first = [set(row.tolist()) for row in sampler]
second = [
    set(row.tolist()) for row in sampler
]  # the next epoch: other mates in rows that are as full
assert first != second and len(first) == len(second)
# [end]

# [stream]
rows = sab.Stream.from_items(sizes.tolist(), infinite=False).pack(
    2048, key=lambda size: size
)  # lengths that nobody knew beforehand
assert all(sum(row) <= 2048 for row in rows)
# [end]
