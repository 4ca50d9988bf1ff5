"""infinibatch's checkpointable iterators over libsab's streams.

With the same seeds the orders are infinibatch's. Checkpoints are dicts of libsab's own: those of
infinibatch itself cannot be read. Each iterator has a pipeline of its own from its source on: an
iterator that was given to another as its source can go on being used.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import multiprocessing
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, Callable

from sab._streams import Stream

__all__: list[str] = [
    "BlockwiseShuffleIterator",
    "BucketedReadaheadBatchIterator",
    "BufferedShuffleIterator",
    "CheckpointableIterator",
    "ChunkedSourceIterator",
    "FixedBatchIterator",
    "InfinitePermutationSourceIterator",
    "MapIterator",
    "MultiplexIterator",
    "NativeCheckpointableIterator",
    "ParallelMapIterator",
    "PrefetchIterator",
    "RandomIterator",
    "RecurrentIterator",
    "SamplingRandomMapIterator",
    "SelectManyIterator",
    "WindowedIterator",
    "ZipIterator",
    "create_source_iterator",
]

log: logging.Logger = logging.getLogger("sab")


class CheckpointableIterator(Iterator[Any]):
    """An iterator whose place can be saved; the base of all, and of iterators of one's own."""

    def __iter__(self) -> CheckpointableIterator:
        return self

    @abstractmethod
    def getstate(self) -> dict[str, Any]:
        """A checkpoint of the whole pipeline."""

    @abstractmethod
    def setstate(self, checkpoint: dict[str, Any] | None) -> None:
        """Goes to a checkpoint; None: to the beginning."""

    def __getstate__(self) -> dict[str, Any]:
        return self.getstate()

    def __setstate__(self, checkpoint: dict[str, Any] | None) -> None:
        self.setstate(checkpoint)

    @abstractmethod
    def __next__(self) -> Any: ...

    @abstractmethod
    def close(self) -> None:
        """Ends the threads and processes of the pipeline."""


class _StreamIterator(CheckpointableIterator):
    """An iterator over a stream."""

    _stream: Stream
    _is_closed = False  # only where it prefetches
    _state_at_close: dict[str, Any] | None = None

    def getstate(self) -> dict[str, Any]:
        return self._stream.state_dict() if self._state_at_close is None else self._state_at_close

    def setstate(self, checkpoint: dict[str, Any] | None) -> None:
        self._refuse_closed()
        if checkpoint is None:
            self._stream.rewind()
        else:
            self._stream.load_state_dict(checkpoint)

    def __next__(self) -> Any:
        if self._is_closed:
            self._refuse_closed()
        return next(self._stream)

    def close(self) -> None:
        if not self._is_closed and _prefetches(self._stream):
            with contextlib.suppress(Exception):  # a stream that failed may have no state
                self._state_at_close = self._stream.state_dict()
            self._is_closed = True
        self._stream.close()

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise RuntimeError(
                "the iterator is closed: one that prefetches, or has a source that does, cannot "
                "be used again"
            )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any] | None) -> None:
        self.__dict__.update(state or {})


def _prefetches(stream: Stream) -> bool:
    """Whether one of the steps does, also in the other sources of a step."""
    given: list[Any] = []
    for _, _, *arguments in stream._recipe:
        for argument in arguments:
            given += argument if issubclass(type(argument), tuple) else ()
    return any(step[0] == "prefetch" for step in stream._recipe) or any(
        isinstance(each, Stream) and _prefetches(each) for each in given
    )


def _source(
    source_iterator: Any, name: str = "source_iterator has to be a CheckpointableIterator"
) -> Stream:
    if not isinstance(source_iterator, CheckpointableIterator):
        raise ValueError(name)
    kind = type(source_iterator)
    if isinstance(source_iterator, _StreamIterator) and all(
        getattr(kind, name) is getattr(_StreamIterator, name)
        for name in ("__next__", "getstate", "setstate")
    ):
        return source_iterator._stream
    return Stream.from_iterable(source_iterator)


def _seed(seed: Any) -> int:
    """A seed of `random.Random` as the streams take it: None is one of the system's."""
    if seed is None:
        return int.from_bytes(os.urandom(8), "little")
    if isinstance(seed, bool) or not isinstance(seed, int) or abs(seed) >= 1 << 64:
        raise ValueError(f"seed = {seed!r}: must be a whole number below 2**64, or None")
    number: int = abs(seed)  # as random.Random has it
    return number


class NativeCheckpointableIterator(_StreamIterator):
    """A checkpointable iterator of an iterable; a checkpoint counts items."""

    def __init__(self, iterable: Iterable[Any]) -> None:
        if iter(iterable) is iterable:
            raise ValueError(
                "It looks like you are passing an iterator instead of an iterable. This is not "
                "supported and can cause undefined behavior when used with checkpointing."
            )
        self._stream = Stream.from_iterable(_Plain(iterable))


class _Plain:
    """An iterable and nothing else: not called, not asked for a state."""

    def __init__(self, iterable: Iterable[Any]) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable)


def create_source_iterator(
    source_items: list[Any],
    train: bool = True,
    seed: int | None = None,
    shuffle: bool = True,
    num_instances: int = 1,
    instance_rank: int = 0,
) -> CheckpointableIterator:
    """Permutations for ever for training, this instance's chunk once otherwise."""
    if not train and shuffle:
        raise ValueError("shuffling is not supported when train=False")
    if train:
        return InfinitePermutationSourceIterator(
            source_items,
            seed=seed,
            shuffle=shuffle,
            num_instances=num_instances,
            instance_rank=instance_rank,
        )
    return ChunkedSourceIterator(
        source_items, num_instances=num_instances, instance_rank=instance_rank
    )


class _Items(_StreamIterator):
    def __init__(self, stream: Stream) -> None:
        self._stream = stream


def ChunkedSourceIterator(
    source_items: list[Any], num_instances: int = 1, instance_rank: int = 0
) -> CheckpointableIterator:
    """The items of this instance: consecutive parts that differ by at most 1, so that the instances
    in order give the list.
    """
    if instance_rank >= num_instances:
        raise ValueError("invalid instance_rank")
    return _Items(Stream.from_items(source_items, rank=instance_rank, world_size=num_instances))


class InfinitePermutationSourceIterator(_StreamIterator):
    """Permutations of a list for ever, every num_instances-th item of them."""

    def __init__(
        self,
        source_items: list[Any],
        seed: int | None = 0,
        shuffle: bool = True,
        num_instances: int = 1,
        instance_rank: int = 0,
    ) -> None:
        if not source_items:
            raise ValueError("source must not be empty")
        if instance_rank >= num_instances:
            raise ValueError("invalid instance_rank")
        items = copy.deepcopy(source_items)
        self._stream = Stream.from_items(
            items,
            shuffle=shuffle,
            infinite=True,
            seed=_seed(seed),
            rank=instance_rank,
            world_size=num_instances,
        )


class MultiplexIterator(_StreamIterator):
    """Items of several iterators; a control iterator gives the index of the one that is next."""

    def __init__(
        self,
        control_iterator: CheckpointableIterator,
        source_iterators: list[CheckpointableIterator],
    ) -> None:
        words = "control_iterator and source_iterators have to be CheckpointableIterators"
        control, sources = (
            _source(control_iterator, words),
            [_source(source, words) for source in source_iterators],
        )
        self._stream = control.map(_Index(len(sources))).multiplex(*sources)


class _Index:
    """As a list takes an index: negative ones count from the end."""

    def __init__(self, count: int) -> None:
        self._indices = range(count)

    def __call__(self, index: int) -> int:
        return self._indices[index]


class SelectManyIterator(_StreamIterator):
    """The items of what collection_selector gives for each item, or of the items themselves."""

    def __init__(
        self,
        source_iterator: CheckpointableIterator,
        collection_selector: Callable[[Any], Iterable[Any]] | None = None,
    ) -> None:
        self._stream = _source(source_iterator).select_many(collection_selector)


class BufferedShuffleIterator(_StreamIterator):
    """Each item takes a random place in a buffer, and what was there goes on. A checkpoint holds
    the buffer.
    """

    def __init__(
        self, source_iterator: CheckpointableIterator, buffer_size: int, seed: int | None = 0
    ) -> None:
        self._stream = _source(source_iterator).buffered_shuffle(buffer_size, seed=_seed(seed))


class MapIterator(_StreamIterator):
    """Each item turned into another."""

    def __init__(
        self, source_iterator: CheckpointableIterator, transform: Callable[[Any], Any]
    ) -> None:
        self._stream = _source(source_iterator).map(transform)


class ParallelMapIterator(_StreamIterator):
    """Each item turned into another by a pool of processes, order kept; transform must be
    picklable.

    Args:
        num_processes: of the pool, which starts with the first item.
        num_items_per_process: items that a process is given at a time.
    """

    def __init__(
        self,
        source_iterator: CheckpointableIterator,
        transform: Callable[[Any], Any],
        num_processes: int,
        num_items_per_process: int,
    ) -> None:
        self._pool = _Pool(transform, num_processes)
        self._stream = (
            _source(source_iterator)
            .batch(num_processes * num_items_per_process)
            .map(self._pool)
            .select_many()
        )

    def close(self) -> None:
        super().close()
        self._pool.close()


class _Pool:
    def __init__(self, transform: Callable[[Any], Any], processes: int) -> None:
        self._transform, self._processes = transform, processes
        self._pool: Any = None
        self._owner = 0

    def __call__(self, items: list[Any]) -> list[Any]:
        if self._pool is None or self._owner != os.getpid():
            self._pool, self._owner = multiprocessing.Pool(self._processes), os.getpid()
        return self._pool.map(self._transform, items)  # type: ignore[no-any-return]

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None and self._owner == os.getpid():
            pool.terminate()
            pool.join()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "_transform": self._transform,
            "_processes": self._processes,
            "_pool": None,
            "_owner": 0,
        }


class ZipIterator(_StreamIterator):
    """Tuples of an item of each iterator; ends with the first that ends."""

    def __init__(self, *source_iterators: CheckpointableIterator) -> None:
        sources = [
            _source(source, "all iterators in source_iterators have to be CheckpointableIterator")
            for source in source_iterators
        ]
        self._stream = (
            sources[0].zip(*sources[1:]).map(tuple) if sources else Stream.from_iterable(())
        )


class WindowedIterator(_StreamIterator):
    """Tuples of width consecutive items, each one item further."""

    def __init__(self, source_iterator: CheckpointableIterator, width: int) -> None:
        self._stream = _source(source_iterator).window(width).map(tuple)


class FixedBatchIterator(_StreamIterator):
    """Lists of batch_size consecutive items."""

    def __init__(self, source_iterator: CheckpointableIterator, batch_size: int) -> None:
        source = _source(source_iterator)
        if batch_size <= 0:
            raise ValueError("batch_size has to be positive")
        self._stream = source.batch(batch_size)


class RandomIterator(_StreamIterator):
    """Random floats in [0, 1) for ever."""

    def __init__(self, seed: int | None = 0) -> None:
        self._stream = Stream.random(_seed(seed))


class RecurrentIterator(_StreamIterator):
    """``state, output = step_function(state, item)``; the state is part of a checkpoint."""

    def __init__(
        self,
        source_iterator: CheckpointableIterator,
        step_function: Callable[[Any, Any], tuple[Any, Any]],
        initial_state: Any = None,
    ) -> None:
        self._stream = _source(source_iterator).recurrent(
            step_function, copy.deepcopy(initial_state)
        )


class _Sample:
    """A step whose state is that of a random generator."""

    def __init__(self, transform: Callable[[Random, Any], Any]) -> None:
        self._transform, self._random = transform, Random()

    def __call__(self, state: Any, item: Any) -> tuple[Any, Any]:
        self._random.setstate(state)
        output = self._transform(self._random, item)
        return self._random.getstate(), output


def SamplingRandomMapIterator(
    source_iterator: CheckpointableIterator, transform: Callable[[Random, Any], Any], seed: Any = 0
) -> CheckpointableIterator:
    """``transform(random, item)``; the generator is part of a checkpoint."""
    return RecurrentIterator(
        source_iterator, _Sample(transform), initial_state=Random(seed).getstate()
    )


class BlockwiseShuffleIterator(_StreamIterator):
    """Blocks of consecutive items, each block shuffled."""

    def __init__(
        self, source_iterator: CheckpointableIterator, block_size: int, seed: int | None = 0
    ) -> None:
        source = _source(source_iterator)
        if block_size <= 0:
            raise ValueError("batch_size has to be positive")
        self._stream = source.block_shuffle(block_size, seed=_seed(seed))


class PrefetchIterator(_StreamIterator):
    """The same items, taken ahead of time by a thread.

    Args:
        buffer_size: most items taken ahead.
        buffer_in_main_process, log_empty_buffer_warning: without effect: the buffer is always in
            this process.
    """

    def __init__(
        self,
        source_iterator: CheckpointableIterator,
        buffer_size: int,
        buffer_in_main_process: bool = False,
        log_empty_buffer_warning: bool = False,
    ) -> None:
        source = _source(source_iterator)
        if buffer_size <= 0:
            raise ValueError("buffer_size must be positive")
        self._stream = source.prefetch(buffer_size)


class _Batches:
    """Batches of a window whose key may be anything that can be compared."""

    def __init__(self, key: Any, batch_size: Any, boundary_key: Any, shuffle: bool) -> None:
        self._key, self._batch_size, self._boundary_key, self._shuffle = (
            key,
            batch_size,
            boundary_key,
            shuffle,
        )

    def __call__(self, random: Random, items: list[Any]) -> list[list[Any]]:
        if self._key:
            items = sorted(items, key=self._key, reverse=True)  # stable: what was shuffled stays so
        batches: list[list[Any]] = []
        room, last = 0, None
        for item in items:
            key = None
            if self._boundary_key:
                key = self._boundary_key(item)
                assert key is not None
            if room <= 0 or key != last:
                room = (
                    self._batch_size
                    if isinstance(self._batch_size, int)
                    else self._batch_size(item)
                )
                batches.append([])
            batches[-1].append(item)
            room, last = room - 1, key
        if self._shuffle:
            random.shuffle(batches)
        return batches


class BucketedReadaheadBatchIterator(_StreamIterator):
    """Batches of items of like length: reads a window, sorts it by key, longest first and stably,
    cuts it into batches and shuffles them.

    With ``len`` itself as the key all of that is native.

    Args:
        read_ahead: items of a window.
        key: what is sorted by; None: not at all.
        batch_size: in items, or a function that says so of the first, longest item.
        boundary_key: items of different keys never share a batch. Never None.
        shuffle: the batches of a window.
        seed: of the shuffles.
    """

    def __init__(
        self,
        source_iterator: CheckpointableIterator,
        read_ahead: int,
        key: Callable[[Any], Any] | None,
        batch_size: int | Callable[[Any], int],
        boundary_key: Callable[[Any], Any] | None = None,
        shuffle: bool = True,
        seed: int | None = 0,
    ) -> None:
        source = _source(source_iterator)
        if key is len and boundary_key is None:
            self._stream = source.readahead(
                read_ahead, key="len", batch_size=batch_size, shuffle=shuffle, seed=_seed(seed)
            )
            return
        batches = _Sample(_Batches(key, batch_size, boundary_key, shuffle))
        self._stream = (
            source.batch(read_ahead).recurrent(batches, Random(seed).getstate()).select_many()
        )
