"""``bagua.torch_api.contrib``: samplers that give the ranks of a step samples of nearly equal complexity, seed for seed."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional, Tuple

import numpy as np

import sab

__all__ = ["LoadBalancingDistributedBatchSampler", "LoadBalancingDistributedSampler"]

if TYPE_CHECKING:

    class _TorchSampler:
        pass

else:
    try:
        from torch.utils.data import Sampler as _TorchSampler
    except ImportError:
        _TorchSampler = object


def _distributed() -> Any:
    """The module that knows the default process group."""
    try:
        from torch import distributed
    except ImportError:
        raise RuntimeError("Requires distributed package to be available") from None
    if not distributed.is_available():
        raise RuntimeError("Requires distributed package to be available")
    return distributed


class LoadBalancingDistributedSampler(_TorchSampler):
    """Indices of a dataset for one rank: in each step the ranks get samples of nearly equal complexity.

    Complexities stay what ``complexity_fn`` gave: where those are tensors and ``random_level`` is above 0, the original adds its noise to them in place, so
    that every epoch adds to the noise of those before, in the dataset too where they are views of it.

    Args:
        dataset: what ``len()`` and an index work on.
        complexity_fn: gives the complexity of a sample, a number; called once for each.
        num_replicas, rank: by default those of torch's process group.
        shuffle: another order each epoch (see :meth:`set_epoch`), or by complexity.
        seed: the same on all ranks.
        drop_last: leave out samples that do not fill a step, instead of adding some to fill it.
        random_level: from 0 (best balance) to 1.

    Raises:
        ValueError: the rank or the random level is out of range. RuntimeError: there is no process group to ask.
    """

    def __init__(
        self,
        dataset: Any,
        complexity_fn: Callable[..., Any],
        num_replicas: Optional[int] = None,
        rank: Optional[int] = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        random_level: float = 0,
    ) -> None:
        if num_replicas is None:
            num_replicas = int(_distributed().get_world_size())
        if rank is None:
            rank = int(_distributed().get_rank())
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.shuffle, self.seed, self.drop_last = dataset, num_replicas, rank, shuffle, seed, drop_last
        self.epoch = 0
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

        self.item_complexity_map = {index: complexity_fn(dataset[index]) for index in range(count)}
        self.ordered_item_complexity_map = OrderedDict(sorted(self.item_complexity_map.items(), key=lambda item: item[1]))
        most, least = max(self.item_complexity_map.values()), min(self.item_complexity_map.values())
        if random_level < 0.0 or random_level > 1.0:
            raise ValueError(f"Invalid random level {random_level}, shoule be in the range [0.0, 1.0]")
        self.random_number = int((most - least) * random_level + 1)

        # Only differences matter: shifted, negative complexities are numbers that the core takes.
        shift = least if least < 0 else 0
        self._complexity = np.array([float(each - shift) for each in self.item_complexity_map.values()])
        self._random_level = random_level

    def _of_rank(self, rank: int) -> List[int]:
        # One batch is the whole epoch of a rank. The order depends on the sum of seed and epoch alone.
        core = sab.LoadBalancingSampler(
            self._complexity,
            rank,
            self.num_replicas,
            self.shuffle,
            (self.seed + self.epoch) % 2**64,
            self.drop_last,
            self._random_level,
            batch_size=max(1, self.num_samples),
            output="list",
        )
        return [index for batch in core for index in batch]

    def shuffle_chunks(self) -> Tuple[List[List[int]], List[int]]:
        """The chunks of this epoch, each a sample for each rank, and the order to take them in."""
        chunks = zip(*(self._of_rank(rank) for rank in range(self.num_replicas)))
        return [list(chunk) for chunk in chunks], list(range(self.num_samples))

    def __iter__(self) -> Iterator[int]:
        return iter(self._of_rank(self.rank))

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next iteration; the same on all ranks."""
        self.epoch = epoch


class LoadBalancingDistributedBatchSampler(_TorchSampler):
    """Batches of variable size that ``batch_fn`` makes of the indices of each rank, as many on every rank.

    With ``drop_last`` ranks leave out the last batches that others do not have, as the original's document says (its code lengthens
    the ranks instead); otherwise ranks that lack batches take their first ones again, as often as it needs.

    Args:
        sampler: a :class:`LoadBalancingDistributedSampler` without ``drop_last``.
        batch_fn: ``batch_fn(indices)`` gives a list of lists; called for each rank, here and by :meth:`set_epoch`.
        drop_last: see above.

    Raises:
        ValueError: the sampler is of another type, or drops; an index of a batch is none of the dataset; a rank has no batch while others do.
    """

    def __init__(self, sampler: LoadBalancingDistributedSampler, batch_fn: Callable[[List[int]], Any], drop_last: bool = False) -> None:
        if not isinstance(sampler, LoadBalancingDistributedSampler):
            raise ValueError("sampler should be of LoadBalancingDistributedSampler type.")
        if sampler.drop_last:
            raise ValueError("drop_last of sampler should be False")
        self.sampler, self.batch_fn, self.drop_last = sampler, batch_fn, drop_last
        self.num_replicas, self.rank = sampler.num_replicas, sampler.rank
        self.generate_batches()

    def _of_rank(self, rank: int) -> List[List[int]]:
        core = sab.LoadBalancingBatchSampler(
            self.sampler._complexity,
            lambda indices: self.batch_fn(indices.tolist()),
            rank=rank,
            world_size=self.num_replicas,
            shuffle=self.sampler.shuffle,
            seed=(self.sampler.seed + self.sampler.epoch) % 2**64,
            drop_last=self.drop_last,
            random_level=self.sampler._random_level,
            output="list",
        )
        return list(core)

    def generate_batches(self) -> None:
        """Makes the batches of the sampler's epoch."""
        self._batches = self._of_rank(self.rank)
        self.total_batch = len(self._batches)

    @property
    def padded_batches(self) -> List[List[List[int]]]:
        """The batches of every rank."""
        return [self._of_rank(rank) for rank in range(self.num_replicas)]

    def __iter__(self) -> Iterator[List[int]]:
        return iter(self._batches)

    def __len__(self) -> int:
        return self.total_batch

    def set_epoch(self, epoch: int) -> None:
        """Makes the batches of an epoch; the same on all ranks."""
        self.sampler.set_epoch(epoch)
        self.generate_batches()
