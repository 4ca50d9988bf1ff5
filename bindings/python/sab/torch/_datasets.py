"""Streams as datasets of torch: for DataLoader, and torchdata's StatefulDataLoader."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch.utils.data
from torch.utils.data import IterableDataset

from sab._display import one_line
from sab._streams import Stream
from sab._walk import fetching_kinds

__all__ = ["StreamDataset"]

_torch: Any = torch.utils.data


class _Nothing:
    """Stands for the empty list that ends a share, behind a transform."""

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()


class _OfRecords:
    """A transform that is not called with the empty list that ends a share."""

    def __init__(self, transform: Any) -> None:
        self._transform = transform

    def __call__(self, record: Any) -> Any:
        return NOTHING if _is_empty(record) else self._transform(record)


def _is_empty(record: Any) -> bool:
    return type(record) is list and not record


def _is_nothing(record: Any) -> bool:
    return record is NOTHING


class _Records:
    """The records of a worker's share, without the empty list that gives it as many as others have.
    It has the state of the stream.
    """

    def __init__(self, stream: Any, is_end: Any) -> None:
        self._stream, self._is_end = stream, is_end

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        record = next(self._stream)
        while self._is_end(record):
            record = next(self._stream)
        return record

    def state_dict(self) -> dict[str, Any]:
        return self._stream.state_dict()  # type: ignore[no-any-return]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._stream.load_state_dict(state_dict)


def _pools_of(dataset: object) -> list[Any]:
    """The iterators of loaders whose workers run a copy of this dataset. Nothing else knows them:
    torch tells a dataset nothing when it starts workers.
    """
    kinds = fetching_kinds()
    return [
        each
        for each in gc.get_objects()
        if issubclass(type(each), kinds)
        and getattr(each, "_dataset", None) is dataset
        and not getattr(each, "_shutdown", True)
    ]


class StreamDataset(IterableDataset[Any]):
    """A stream as an ``IterableDataset``: ``DataLoader(sab.torch.StreamDataset(stream),
    batch_size=None)`` for a stream of batches.

    Each worker process of a loader runs the stream and keeps its share of the records: worker w of
    n of rank r of W is rank ``r * n + w`` of ``W * n`` (:meth:`sab.Stream.rank`), so that together
    they give each record once. With several ranks, all ranks and workers give as many: at the end
    some give an empty list. Costly maps belong behind, in ``transform``.

    Args:
        stream: is not touched: the dataset makes its own of the same recipe.
        rank, world_size: where ranks train together.
        transform: of each record, in the worker, after the split.

    ``state_dict`` and ``load_state_dict`` are those of the worker that is asked, as
    StatefulDataLoader does for each; a state goes from any number of ranks and workers to any
    other. Where the dataset has begun in this process, workers go on from there. Load a state
    before workers start: :meth:`load_state_dict` refuses it later, or warns. A loader without
    persistent workers begins again each epoch: keep them for a stream that goes on for ever.
    """

    def __init__(
        self, stream: Stream, *, rank: int = 0, world_size: int = 1, transform: Any = None
    ) -> None:
        self._stream, self._rank, self._world_size, self._transform = (
            stream,
            rank,
            world_size,
            transform,
        )
        self._running: Any = None
        self._place: Any = None
        self._loaded: Any = None

    def __repr__(self) -> str:
        return one_line(self, [f"rank {self._rank} of {self._world_size}", repr(self._stream)])

    def _run(self) -> Any:
        info = _torch.get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        place = os.getpid(), worker, workers
        if self._place != place:  # a worker that was forked has what the parent ran
            if self._running is not None:
                self._loaded = self._running.state_dict()
            self._place = place
            own = Stream(self._stream._recipe, self._stream._is_text).rank(
                self._rank * workers + worker, self._world_size * workers
            )
            self._running = own if self._transform is None else own.map(self._mapped())
            if self._loaded is not None:
                self._running.load_state_dict(self._loaded)
                self._loaded = None
        return self._running

    def _mapped(self) -> Any:
        return self._transform if self._world_size > 1 else _OfRecords(self._transform)

    def __iter__(self) -> Iterator[Any]:
        running: Iterator[Any] = iter(self._run())
        if self._world_size > 1:
            return running
        is_end = _is_empty if self._transform is None else _is_nothing
        return _Records(running, is_end)

    def state_dict(self) -> dict[str, Any]:
        """Where this process's share stands."""
        return self._run().state_dict()  # type: ignore[no-any-return]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on there. Workers of a loader that run already do not get the state: a pass that is
        under way goes on where it is, with a UserWarning, and the next pass begins at the state.

        Raises:
            RuntimeError: persistent workers run already, which also make the next pass.
        """
        is_worker = _torch.get_worker_info() is not None
        for pool in () if is_worker else _pools_of(self):
            if pool._persistent_workers:
                raise RuntimeError(
                    "load_state_dict() after persistent workers of a DataLoader have started: they "
                    "have a copy of the dataset; load the state before the first pass over the "
                    "loader, or make another loader"
                )
            warnings.warn(
                "load_state_dict() while workers of a DataLoader run: the pass under way goes on "
                "where it is; begin another pass over the loader",
                stacklevel=2,
            )
        if self._running is None and not is_worker:
            self._loaded = state_dict  # the worker that will run it is not there yet
        else:
            self._run().load_state_dict(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "_running": None,
            "_place": None,
            "_loaded": self._loaded if self._running is None else self._running.state_dict(),
        }
