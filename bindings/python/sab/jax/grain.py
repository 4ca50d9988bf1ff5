"""The batches of a sampler as a data set of grain, for its threads, processes and checkpoints."""

from __future__ import annotations

import copy
import math
from typing import Any, Callable

import grain

from sab._arguments import whole
from sab._native import UnsupportedError
from sab._random_access import RandomAccessSampler
from sab.jax._loader import Arrays

__all__ = ["IterDataset"]

_grain: Any = grain


class IterDataset(_grain.IterDataset):  # type: ignore[misc]
    """The batches of :class:`sab.jax.DataLoader` as a ``grain.IterDataset``.

    Iterators have exact states (``get_state``, ``set_state``, grain's checkpoints), also behind
    ``mp_prefetch`` and ``grain.experimental.ThreadPrefetchIterDataset``. The order does not depend
    on the number of processes. A state without ``mp_prefetch`` may be of another number of ranks.
    A ``collate_fn`` of your own may put ``batch.sample_weight`` into the data, for the loss.

    Args:
        dataset, sampler, collate_fn, rank, world_size: as for :class:`sab.jax.DataLoader`. Each
            iterator walks a copy of the sampler, from where the sampler is when it is made.
        epochs: number of epochs to walk, from the epoch of the sampler on; None: without end.
    """

    def __init__(
        self,
        dataset: Any,
        sampler: RandomAccessSampler,
        *,
        collate_fn: Callable[..., Any],
        rank: int = 0,
        world_size: int = 1,
        epochs: int | None = 1,
    ) -> None:
        super().__init__()
        self._arrays = Arrays(dataset, sampler, collate_fn, rank, world_size)
        if len(sampler) == 0:
            raise ValueError("sampler: has no batches")
        self._sampler = sampler
        self._end = math.inf if epochs is None else sampler.epoch + whole("epochs", epochs, 1)
        self._first, self._stride = 0, 1

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Called by grain in each of its processes: every n-th batch belongs to it."""
        if sequential_slice or sl.stop is not None:
            raise UnsupportedError(
                f"slice = {sl}: must be every n-th batch; leave sequential_slice out"
            )
        self._first, self._stride = sl.start or 0, sl.step or 1

    def __deepcopy__(self, memo: Any) -> IterDataset:
        return copy.copy(self)  # what it refers to is not changed

    def __iter__(self) -> _Iterator:
        own = self._sampler._of_rank(self._sampler.rank, self._sampler.world_size)
        own.load_state_dict(self._sampler.state_dict())
        return _Iterator(self._arrays, own, self._first, self._stride, self._end)

    def __str__(self) -> str:
        return f"sab.jax.grain.IterDataset({type(self._sampler).__name__})"


class _Iterator(_grain.DatasetIterator):  # type: ignore[misc]
    """Yields every `stride`-th batch, `first` batches after the iterator's place. So the places of
    all processes are alike, as grain needs it, and none has its own start in its state.
    """

    def __init__(
        self,
        arrays: Arrays,
        sampler: RandomAccessSampler,
        first: int,
        stride: int,
        end: float,
    ) -> None:
        super().__init__()
        self._arrays, self._sampler = arrays, sampler
        self._first, self._stride, self._end = first, stride, end
        self._position = sampler._start()[1]
        self._move(0)

    def _move(self, by: int) -> None:
        """Moves the place by a number of batches, into the next epochs."""
        self._position += by
        while self._position >= len(self._sampler) and self._sampler.epoch < self._end:
            self._position -= len(self._sampler)
            self._sampler.set_epoch(self._sampler.epoch + 1)
        if self._sampler.epoch >= self._end:
            self._position = 0

    def __next__(self) -> Any:
        place = None
        if self._position + self._first >= len(self._sampler):  # the batch is of a later epoch
            place = self.get_state()
            self._move(self._first)
            at = self._position
        else:
            at = self._position + self._first
        is_over = self._sampler.epoch >= self._end
        batch = None if is_over else self._sampler.batch(at)
        if place is not None:
            self.set_state(place)
        if batch is None:
            raise StopIteration
        data = self._arrays(batch)
        self._move(self._stride)
        return data

    def get_state(self) -> dict[str, Any]:
        return {"state": self._sampler.state_dict(step=self._position)["state"].hex()}

    def set_state(self, state: dict[str, Any]) -> None:
        self._sampler.load_state_dict({"state": bytes.fromhex(state["state"])})
        self._position = self._sampler._tell()[1]
        self._move(0)

    def __str__(self) -> str:
        return f"sab.jax.grain iterator({type(self._sampler).__name__})"
