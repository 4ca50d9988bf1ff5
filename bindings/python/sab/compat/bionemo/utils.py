"""``bionemo.size_aware_batching.utils``: bucket boundaries."""

from __future__ import annotations

from typing import NamedTuple, Sequence

import torch

import sab

__all__: Sequence[str] = ("Buckets", "create_buckets")

INTEGER_DTYPES = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


class Buckets(NamedTuple):
    """Bucket boundaries, ascending, and the number of elements in each bucket: 1-D int64 tensors."""

    bucket_boundaries: torch.Tensor
    bucket_sizes: torch.Tensor


def create_buckets(sizes: torch.Tensor, max_width: int, min_bucket_count: int) -> Buckets:
    """Cuts integer sizes into the narrowest buckets of ``min_bucket_count`` elements, none wider than ``max_width``.

    Args:
        sizes: a 1-D tensor of integers.
        max_width: widest bucket, a positive integer.
        min_bucket_count: elements a bucket should hold, a positive integer; fewer where it would get wider than ``max_width``.

    Raises:
        TypeError: sizes is no tensor. ValueError: sizes is empty, not 1-D or not integers; another argument is no positive integer.
    """
    if not isinstance(sizes, torch.Tensor):
        raise TypeError(f"sizes should be a torch tensor, but got sizes={sizes}")
    if sizes.ndim != 1:
        raise ValueError(f"sizes should be a 1D tensor, but got sizes with shape {sizes.shape}")
    if sizes.dtype not in INTEGER_DTYPES:
        raise ValueError(f"sizes should contain only integers, but got sizes.dtype={sizes.dtype}")
    if len(sizes) == 0:
        raise ValueError("sizes should not be empty")
    for name, value in (("max_width", max_width), ("min_bucket_count", min_bucket_count)):
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"{name} should be a positive integer but got {name}={value}")
    # Only differences of sizes matter: shifted, they are all sizes that the core takes.
    least = int(sizes.min())
    boundaries, counts = sab.create_buckets(sizes.to(torch.int64) - least, max_width, min_bucket_count)
    return Buckets(torch.from_numpy(boundaries).add(least), torch.from_numpy(counts))
