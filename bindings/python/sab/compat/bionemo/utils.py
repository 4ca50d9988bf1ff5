"""``bionemo.size_aware_batching.utils``: bucket boundaries, and peaks of CUDA memory."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import (
    Any,
    Callable,
    NamedTuple,
    TypeVar,
)

import torch

import sab

log: logging.Logger = logging.getLogger(__name__)

__all__: Sequence[str] = ("Buckets", "collect_cuda_peak_alloc", "create_buckets")

Data = TypeVar("Data")
Feature = TypeVar("Feature")

INTEGER_DTYPES = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


class Buckets(NamedTuple):
    """Bucket boundaries, ascending, and the number of elements in each bucket: 1-D int64
    tensors.
    """

    bucket_boundaries: torch.Tensor
    bucket_sizes: torch.Tensor


def create_buckets(sizes: torch.Tensor, max_width: int, min_bucket_count: int) -> Buckets:
    """Cuts integer sizes into the narrowest buckets of ``min_bucket_count`` elements, none wider
    than ``max_width``.

    Args:
        sizes: a 1-D tensor of integers.
        max_width: widest bucket, a positive integer.
        min_bucket_count: elements a bucket should hold, a positive integer; fewer where it would
            get wider than ``max_width``.

    Raises:
        TypeError: sizes is no tensor. ValueError: sizes is empty, not 1-D or not integers; another
            argument is no positive integer.
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
    boundaries, counts = sab.create_buckets(
        sizes.to(torch.int64) - least, max_width=max_width, min_bucket_count=min_bucket_count
    )
    return Buckets(torch.from_numpy(boundaries).add(least), torch.from_numpy(counts))


def collect_cuda_peak_alloc(
    dataset: Iterable[Data],
    work: Callable[[Data], Feature],
    device: torch.device,
    cleanup: Callable[[], None] | None = None,
) -> tuple[list[Feature], list[int]]:
    """Runs ``work`` on each element of ``dataset`` and collects what it returns, and the peak of
    CUDA memory meanwhile, in bytes.

    Elements that run out of memory are left out of both lists. :func:`sab.collect_peak` says which,
    takes any device, and records more.

    Args:
        dataset: the elements.
        work: returns the features of an element, such as its size, after a training step on it.
        device: a CUDA device.
        cleanup: called after each element, before garbage is collected.

    Raises:
        ValueError: the device is no CUDA device.
    """
    if device.type != "cuda":
        raise ValueError("This function is intended for CUDA devices only.")
    peaks = sab.collect_peak(lambda data: _AsItIs(work(data)), dataset, device, cleanup=cleanup)
    if peaks.out_of_memory:
        log.warning("CUDA out of memory: elements %s were skipped", peaks.out_of_memory)
    return [feature.value for feature in peaks.features], peaks.peaks.tolist()


class _AsItIs:
    """A feature that is not looked into: each may be of another kind and length."""

    def __init__(self, value: Any) -> None:
        self.value = value
