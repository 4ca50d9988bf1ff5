"""infinibatch's ready-made datasets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

from sab.compat.infinibatch.iterators import (
    BlockwiseShuffleIterator,
    BufferedShuffleIterator,
    CheckpointableIterator,
    MapIterator,
    PrefetchIterator,
    SelectManyIterator,
    create_source_iterator,
)

__all__ = ["bump_seed", "chunked_dataset_iterator"]


def bump_seed(seed: int | None, step: int = 1) -> int | None:
    """The seed of a next stage; None stays None."""
    return None if seed is None else seed + 1


def chunked_dataset_iterator(
    chunk_refs: list[Any],
    read_chunk_fn: Callable[[Any], Iterable[Any]],
    buffer_size: int,
    train: bool = True,
    seed: int | None = None,
    shuffle: bool = True,
    use_windowed: bool = False,
    transform: Callable[[Any], Any] | None = None,
    prefetch: bool = False,
    num_instances: int = 1,
    instance_rank: int = 0,
) -> CheckpointableIterator:
    """The items of chunks: for training in permutations for ever, strided over the instances, and
    shuffled; otherwise once, in order, a consecutive part of the chunks for each instance.

    Args:
        chunk_refs: such as the names of files.
        read_chunk_fn: the items of a chunk.
        buffer_size: items of a shuffled block, and of the prefetch buffer.
        train, shuffle: ``shuffle`` must be False where ``train`` is.
        seed: None: the system's.
        use_windowed: shuffle through a buffer instead of in blocks.
        transform: of each item.
        prefetch: read in a thread.
        num_instances, instance_rank: of this instance.
    """
    if not train and shuffle:
        raise ValueError("shuffling is not supported when train=False")
    chunks = create_source_iterator(
        chunk_refs,
        train=train,
        seed=seed,
        shuffle=shuffle,
        num_instances=num_instances,
        instance_rank=instance_rank,
    )
    samples: CheckpointableIterator = SelectManyIterator(chunks, read_chunk_fn)
    if prefetch:
        samples = PrefetchIterator(samples, buffer_size)
    if shuffle:
        shuffled = BufferedShuffleIterator if use_windowed else BlockwiseShuffleIterator
        samples = shuffled(samples, buffer_size, bump_seed(seed, 1))
    if transform is not None:
        samples = MapIterator(samples, transform)
    return samples
