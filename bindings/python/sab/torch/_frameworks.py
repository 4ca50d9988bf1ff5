"""What frameworks find at a loader."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Callable

_data: Any = importlib.import_module("torch.utils.data")
_distributed: Any = importlib.import_module("torch.distributed")


class Epochs(_data.SequentialSampler):  # type: ignore[misc]
    """What a framework finds as the sampler of a loader: it only takes the epoch. Lightning leaves
    a sequential sampler in place where it would replace one that shuffles.
    """

    def __init__(self, set_epoch: Callable[[int], None]) -> None:
        self.set_epoch = set_epoch


class RankedEpochs(Epochs, _data.distributed.DistributedSampler):  # type: ignore[misc]
    """:class:`Epochs` of a loader with ranks. Frameworks leave a distributed sampler in place."""

    def __init__(self, set_epoch: Callable[[int], None], rank: int, world_size: int) -> None:
        super().__init__(set_epoch)
        self.rank, self.num_replicas = rank, world_size


def epochs_of(loader: Any) -> Epochs:
    """The attribute `sampler` of a loader. Lightning calls its `set_epoch` before each epoch."""
    rank, world_size = ranks_of(loader._source)

    def set_epoch(epoch: int) -> None:
        processes = processes_of_group()
        if world_size == 1 and processes > 1:
            raise ValueError(
                f"rank and world_size: the sampler has none, so each of the {processes} processes "
                "would get all samples; give them to it, or use sab.lightning.DataModuleMixin"
            )
        loader.set_epoch(epoch)
        first, length = loader._first_length, len(loader)
        is_read_once = not {"lightning.pytorch", "pytorch_lightning"}.isdisjoint(sys.modules)
        if is_read_once and first not in (-1, length):
            raise ValueError(
                f"epoch {epoch} has {length} batches: len() was {first} before, and Lightning "
                "reads it once; use sab.lightning.DataModuleMixin"
            )

    return Epochs(set_epoch) if world_size == 1 else RankedEpochs(set_epoch, rank, world_size)


def processes_of_group() -> int:
    is_ready = _distributed.is_available() and _distributed.is_initialized()
    return int(_distributed.get_world_size()) if is_ready else 1


def ranks_of(source: Any) -> tuple[int, int]:
    """Rank and world size of a sampler. Samplers without random access have one rank."""
    return getattr(source, "rank", 0), getattr(source, "world_size", 1)


def has_ranks(source: Any, rank: int, world_size: int, owner: str) -> bool:
    """Whether a sampler has the ranks of a framework. One that has ranks must have these."""
    given = ranks_of(source)
    if given != (rank, world_size) and given[1] != 1:
        raise ValueError(
            f"rank = {given[0]}, world_size = {given[1]}: the sampler has these, but {owner} has "
            f"rank {rank} of {world_size}; make the sampler without them"
        )
    return given == (rank, world_size)


def take_ranks(loader: Any, rank: int, world_size: int, owner: str) -> None:
    """Gives a loader the ranks of a framework. A sampler that has ranks must have these."""
    if not has_ranks(loader._source, rank, world_size, owner):
        loader.set_ranks(rank, world_size)
