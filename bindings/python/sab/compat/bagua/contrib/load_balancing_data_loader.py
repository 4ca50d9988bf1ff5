"""``bagua.torch_api.contrib``: samplers that give the ranks of a step samples of nearly equal
complexity, seed for seed.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable

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


def _places(values: list[Any]) -> np.ndarray[Any, Any]:
    """The place of each among the distinct values, in the order of Python's comparison."""
    order = sorted(range(len(values)), key=values.__getitem__)
    places, place = np.zeros(len(values)), 0
    for before, index in zip(order, order[1:]):
        place += values[before] < values[index]
        places[index] = place
    return places


class LoadBalancingDistributedSampler(_TorchSampler):
    """Indices of a dataset for one rank: in each step the ranks get samples of nearly equal
    complexity.

    Complexities stay what ``complexity_fn`` gave: where those are tensors and ``random_level`` is
    above 0, the original adds its noise to them in place, so that every epoch adds to the noise of
    those before, in the dataset too where they are views of it. Tensors and numpy's numbers are
    compared, subtracted and added to as Python's are, so a narrow type does not wrap. Noise of a
    range of 2^28 or more is drawn as current versions of torch do (1.13 drew it otherwise), and is
    then added to negative numbers as far as the least of them is exactly taken away.

    Args:
        dataset: what ``len()`` and an index work on.
        complexity_fn: gives the complexity of a sample, a number; called once for each.
        num_replicas, rank: by default those of torch's process group.
        shuffle: another order each epoch (see :meth:`set_epoch`), or by complexity.
        seed: the same on all ranks.
        drop_last: leave out samples that do not fill a step, instead of adding some to fill it.
        random_level: from 0 (best balance) to 1.

    Raises:
        ValueError: the rank or the random level is out of range. RuntimeError: there is no process
            group to ask.
    """

    def __init__(
        self,
        dataset: Any,
        complexity_fn: Callable[..., Any],
        num_replicas: int | None = None,
        rank: int | None = None,
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
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset: Any = dataset
        self.num_replicas: int = num_replicas
        self.rank: int = rank
        self.shuffle: bool = shuffle
        self.seed: int = seed
        self.drop_last: bool = drop_last
        self.epoch: int = 0
        count = len(dataset)
        self.num_samples: int = (
            count // num_replicas if drop_last else math.ceil(count / num_replicas)
        )
        self.total_size: int = self.num_samples * num_replicas

        self.item_complexity_map: dict[int, Any] = {
            index: complexity_fn(dataset[index]) for index in range(count)
        }
        self.ordered_item_complexity_map: OrderedDict[int, Any] = OrderedDict(
            sorted(self.item_complexity_map.items(), key=lambda item: item[1])
        )
        values = [
            each.item() if hasattr(each, "item") else each
            for each in self.item_complexity_map.values()
        ]
        most, least = max(values), min(values)
        if random_level < 0.0 or random_level > 1.0:
            raise ValueError(
                f"Invalid random level {random_level}, shoule be in the range [0.0, 1.0]"
            )
        self.random_number: int = int((most - least) * random_level + 1)

        # The core takes numbers of at least 0 and adds noise to them in double. Of others it gets
        # what stands for their order, noise and all.
        self._values: list[Any] | None = None
        self._random_level = float(random_level)
        if all(isinstance(each, (int, float)) and 0 <= each <= 2**52 for each in values):
            self._complexity = np.array(values, np.float64)
        elif not shuffle or self.random_number == 1:
            self._complexity, self._random_level = _places(values), 0.0
        elif self.random_number < 2**28:
            self._values = values
        else:
            self._complexity = np.array([float(each - least) for each in values])

    def _balancing(self) -> tuple[np.ndarray[Any, Any], float]:
        """The complexities of this epoch and the random level, for the core."""
        if self._values is None:
            return self._complexity, self._random_level
        # The words that torch draws for this noise are those that the core draws, one for each,
        # when there is none.
        words = np.random.RandomState((self.seed + self.epoch) % 2**32).randint(
            0, 2**32, len(self._values), np.uint32
        )
        noise = (words % np.uint32(self.random_number)).tolist()
        return _places([value + more for value, more in zip(self._values, noise)]), 0.0

    def _of_rank(self, rank: int) -> list[int]:
        # One batch is the whole epoch of a rank. The order depends on the sum of seed and epoch
        # alone.
        complexity, random_level = self._balancing()
        core = sab.BaguaSampler(
            complexity,
            rank=rank,
            world_size=self.num_replicas,
            shuffle=self.shuffle,
            seed=(self.seed + self.epoch) % 2**64,
            drop_last=self.drop_last,
            random_level=random_level,
            batch_size=max(1, self.num_samples),
            output="list",
        )
        return [index for batch in core for index in batch]

    def shuffle_chunks(self) -> tuple[list[list[int]], list[int]]:
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
    """Batches of variable size that ``batch_fn`` makes of the indices of each rank, as many on
    every rank.

    With ``drop_last`` ranks leave out the last batches that others do not have, as the original's
    document says (its code lengthens the ranks instead); otherwise ranks that lack batches take
    their first ones again, as often as it needs.

    Args:
        sampler: a :class:`LoadBalancingDistributedSampler` without ``drop_last``.
        batch_fn: ``batch_fn(indices)`` gives a list of lists; called for each rank, here and by
            :meth:`set_epoch`, which changes nothing where it fails.
        drop_last: see above.

    Raises:
        ValueError: the sampler is of another type, or drops; an index of a batch is none of the
            dataset; a rank has no batch while others do.
    """

    def __init__(
        self,
        sampler: LoadBalancingDistributedSampler,
        batch_fn: Callable[[list[int]], Any],
        drop_last: bool = False,
    ) -> None:
        if not isinstance(sampler, LoadBalancingDistributedSampler):
            raise ValueError("sampler should be of LoadBalancingDistributedSampler type.")
        if sampler.drop_last:
            raise ValueError("drop_last of sampler should be False")
        self.sampler: LoadBalancingDistributedSampler = sampler
        self.batch_fn: Callable[[list[int]], Any] = batch_fn
        self.drop_last: bool = drop_last
        self.num_replicas: int = sampler.num_replicas
        self.rank: int = sampler.rank
        self.generate_batches()

    def generate_batches(self) -> None:
        """Makes the batches of the sampler's epoch."""
        made: list[list[list[int]]] = []

        def make_batches(indices: Any) -> list[Any]:
            batches = [np.asarray(batch) for batch in self.batch_fn(indices.tolist())]
            made.append([batch.tolist() for batch in batches])
            return batches

        complexity, random_level = self.sampler._balancing()
        core = sab.BaguaBatchSampler(
            complexity,
            make_batches,
            rank=self.rank,
            world_size=self.num_replicas,
            shuffle=self.sampler.shuffle,
            seed=(self.sampler.seed + self.sampler.epoch) % 2**64,
            drop_last=self.drop_last,
            random_level=random_level,
        )
        self.total_batch: int = len(core)
        self._made = made

    def _of_rank(self, rank: int) -> list[list[int]]:
        made = self._made[rank]
        return [made[i % len(made)] for i in range(self.total_batch)]

    @property
    def padded_batches(self) -> list[list[list[int]]]:
        """The batches of every rank."""
        return [self._of_rank(rank) for rank in range(self.num_replicas)]

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._of_rank(self.rank))

    def __len__(self) -> int:
        return self.total_batch

    def set_epoch(self, epoch: int) -> None:
        """Makes the batches of an epoch; the same on all ranks."""
        before = self.sampler.epoch
        self.sampler.set_epoch(epoch)
        try:
            self.generate_batches()
        except BaseException:
            self.sampler.set_epoch(before)
            raise
