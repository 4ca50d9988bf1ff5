"""Numpy batches of few shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

from sab._arguments import whole
from sab._batch import Batch, PerColumn, Step
from sab._pack import PackedSampler
from sab._random_access import RandomAccessSampler
from sab._samplers import PlanSampler

__all__ = ["Arrays", "DataLoader"]


class Arrays:
    """Fetches the samples of a batch, or this process's share of them, and makes arrays of one of a
    few shapes: a batch of a plan gets the rows and the length of the full batches of its bucket.
    """

    def __init__(
        self,
        dataset: Any,
        sampler: RandomAccessSampler,
        collate_fn: Callable[..., Any],
        rank: int,
        world_size: int,
    ) -> None:
        if not isinstance(sampler, (PlanSampler, PackedSampler)):
            raise TypeError(
                f"sampler is a {type(sampler).__name__}: must be a sab.BucketSampler, "
                "sab.SequentialSampler or sab.PackedSampler, whose batches have few shapes"
            )
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise TypeError(
                f"dataset is a {type(dataset).__name__}: must have len() and samples by their index"
            )
        if not callable(collate_fn):
            raise TypeError(f"collate_fn = {collate_fn!r:.60}: must be a function")
        samples = sampler._sample_count()
        if len(dataset) != samples:
            raise ValueError(f"dataset has {len(dataset)} samples: the sampler has {samples}")
        self._world_size = whole("world_size", world_size, 1)
        self._rank = whole("rank", rank)
        if self._rank >= self._world_size:
            raise ValueError(f"rank = {rank}: must be below world_size = {world_size}")
        if self._world_size > 1 and sampler.world_size > 1:
            raise ValueError(
                f"world_size = {world_size}: the sampler has a world size of its own, "
                f"{sampler.world_size}; give only one of them"
            )
        if self._world_size > 1 and not isinstance(sampler, PlanSampler):
            raise ValueError(
                f"world_size = {world_size}: rows are not divided; give the sampler its rank"
            )
        self.dataset = dataset
        self.collate_fn = collate_fn
        # Rows and padded length of the batches of each bucket; of rows, one for all.
        self._boxes: list[tuple[int, PerColumn]] = []
        if isinstance(sampler, PlanSampler):
            plan = sampler.plan
            for bucket in (*plan.buckets, *plan.second_buckets):
                rows = -(-bucket.batch_size // self._world_size)
                self._boxes.append((rows, bucket.padded_length))
        else:
            self._boxes.append((1, sampler._capacity()))
        self.shapes: list[tuple[int, PerColumn]] = []  # distinct
        for box in self._boxes:
            if box not in self.shapes:
                self.shapes.append(box)

    def __call__(self, batch: Batch) -> Any:
        rows, padded_length = self._boxes[max(batch.bucket, 0)]
        indices = batch.indices
        if self._world_size > 1:
            indices = indices[self._rank * rows : (self._rank + 1) * rows]
        own = batch._replace(indices=indices, count=len(indices), padded_length=padded_length)
        # Of an empty batch a sample says what the fields are.
        wanted = indices.tolist() or [0]
        fetch = getattr(self.dataset, "__getitems__", None)
        samples = [self.dataset[each] for each in wanted] if fetch is None else fetch(wanted)
        return self.collate_fn(samples, own, rows)


class DataLoader:
    """Numpy batches of at most as many shapes as the plan has buckets, those of epochs with odd
    numbers included: at most K with a plan of ``max_shapes=K``, also in the last step and for
    batches that are not full.

    A batch has the rows and the length of the full batches of its bucket. Rows that hold no sample
    have the weight 0. With :class:`sab.PackedSampler` each batch is one row of its capacity.

    A ``for`` loop is a pass over the sampler, with the same rules: after a finished pass the next
    epoch, after one that was broken off the same epoch from its start, and after
    :meth:`load_state_dict` what is left. Samples are fetched when a batch is due; for threads and
    processes that fetch ahead there is :class:`sab.jax.grain.IterDataset`.

    Args:
        dataset: samples by their index, as many as the sampler was made of. Its ``__getitems__`` is
            used where there is one.
        sampler: :class:`sab.BucketSampler`, :class:`sab.SequentialSampler` or
            :class:`sab.PackedSampler`.
        collate_fn: :class:`PadCollate` or :class:`PackCollate`; or a function ``collate_fn(samples,
            batch, rows)``, called as that of PadCollate.
        rank, world_size: of this process among those that run one program together
            (``jax.process_index()``, ``jax.process_count()``). Each gets its rows of the same
            batch, of the same shape. The sampler has no ranks then, and its budget is that of all.
            The rows of a bucket are rounded up to a multiple: use ``batch_size_multiple``.

    Attributes:
        source: the sampler.
        batch: the :class:`sab.Batch` of the data that was given last, over all ranks of the
            loader; None before the first.

    >>> import sab, sab.jax
    >>> words = [{"words": [1] * size} for size in (5, 3, 5, 4, 3, 4, 2)]
    >>> plan = sab.plan([5, 3, 5, 4, 3, 4, 2], budget=10, max_shapes=3)
    >>> loader = sab.jax.DataLoader(
    ...     words, sab.BucketSampler(plan), collate_fn=sab.jax.PadCollate({"words": 0})
    ... )
    >>> {data["words"].shape for data in loader} <= set(loader.shapes)
    True
    >>> sum(int(data["weights"].sum()) for data in loader)
    7
    """

    def __init__(
        self,
        dataset: Any,
        sampler: RandomAccessSampler,
        *,
        collate_fn: Callable[..., Any],
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self._arrays = Arrays(dataset, sampler, collate_fn, rank, world_size)
        self.source = sampler
        self.batch: Batch | None = None
        self._is_loaded = False

    @property
    def shapes(self) -> list[tuple[int, PerColumn]]:
        """The shapes that batches can have: number of rows, and padded length."""
        return list(self._arrays.shapes)

    @property
    def epoch(self) -> int:
        """The epoch of the pass, or of the next one where it was set or loaded."""
        return self.source.epoch

    @property
    def position(self) -> int:
        """Batches of the epoch that were given."""
        return self.source._given()  # the cursor runs ahead

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[Any]:
        self._is_loaded = False
        return self._walk(self.source.batches())

    def _walk(self, batches: Iterator[Batch]) -> Iterator[Any]:
        for batch in batches:
            self.batch = batch
            yield self._arrays(batch)

    def _known_batch(self, asked: str) -> Batch:
        if self.batch is None:
            raise ValueError(f"{asked}: no batch has been given")
        return self.batch

    @property
    def sample_weight(self) -> float:
        """The weight of the batch that was given last, for a loss that is a mean over its samples:
        see :attr:`sab.Batch.sample_weight`.
        """
        return self._known_batch("sample_weight").sample_weight

    @property
    def token_weight(self) -> PerColumn:
        """The same for a mean over its tokens: see :attr:`sab.Batch.token_weight`."""
        return self._known_batch("token_weight").token_weight

    def step(self) -> Step:
        """The totals of the optimizer's step of the data that was given last: see
        :class:`sab.Step`.
        """
        return self.source.step()

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass; the same on all ranks. The epoch of a state that was
        just loaded keeps its position, so that a training loop may set each epoch.
        """
        if not (self._is_loaded and self.epoch == epoch and self.position > 0):
            self.source.set_epoch(epoch)
            self._is_loaded = False

    def state_dict(self) -> dict[str, Any]:
        """The place after the batches that were given: that of the sampler, and the same on all
        ranks. Holds plain values: ``state`` (bytes).
        """
        return self.source.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues there with the next pass; the state may be of another number of ranks.

        Raises:
            FormatError, MismatchError: as for samplers.
        """
        self.source._load_next(state_dict)
        self._is_loaded = True

    def __repr__(self) -> str:
        return f"<sab.jax.DataLoader of {self.source!r}>"
