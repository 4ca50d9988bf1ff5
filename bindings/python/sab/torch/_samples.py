"""What loaders of torch need to load the batches of a sampler."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Callable

import torch.utils.data

from sab._batch import Batch
from sab._display import one_line
from sab._native import UnsupportedError
from sab._random_access import RandomAccessSampler
from sab._sampler import Sampler
from sab._walk import Walk
from sab.torch._collates import PackCollate, PadCollate, without_rows

__all__ = ["Samples", "Tickets", "loader_options"]

_torch: Any = torch.utils.data


class Samples(torch.utils.data.Dataset[Any]):
    """A data set that also takes a :class:`sab.Batch` as index, and gives its samples with it.

    ``len()``, whole-number indices and other attributes are those of ``dataset``. Samples are
    fetched by its ``__getitems__`` where it has one.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __repr__(self) -> str:
        return one_line(self, [f"data set {type(self.dataset).__name__}"])

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, Batch):
            return self.dataset[index]
        dataset, indices = self.dataset, index.indices.tolist()
        fetch = getattr(dataset, "__getitems__", None)
        samples = [dataset[each] for each in indices] if fetch is None else fetch(indices)
        return samples, index, None if samples else dataset[0]

    def __getattr__(self, name: str) -> Any:
        # Not those of the language, such as __getitems__, nor what a copy does not have yet.
        if name.startswith("__") or name == "dataset":
            raise AttributeError(name)
        return getattr(self.dataset, name)


class Tickets:
    """The batches of a sampler for ``DataLoader(batch_sampler=...)``: each is a list of one
    :class:`sab.Batch`, which :class:`Samples` takes as index.
    """

    def __init__(self, sampler: Sampler) -> None:
        self.source = sampler  # not `sampler`: Lightning sets epochs there
        self._begun: Any = None  # the last pass
        self._taken: Any = None  # passes that begin now append their batches and steps here

    def __repr__(self) -> str:
        return one_line(self, [repr(self.source)])

    def __iter__(self) -> Iterator[list[Batch]]:
        walk = self.source._begin()
        self._begun = walk
        batches = self.source._walk(walk)
        if self._taken is not None:
            batches = _noted(walk, batches, self.source, self._taken)
        return ([batch] for batch in batches)

    def __len__(self) -> int:
        if not isinstance(self.source, RandomAccessSampler):
            raise TypeError(f"{type(self.source).__name__} has no len()")
        return len(self.source)

    @property
    def drop_last(self) -> bool:
        """As the sampler's."""
        source: Any = self.source
        return bool(source.drop_last)

    def set_epoch(self, epoch: int) -> None:
        """As the sampler's."""
        self.source.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """As the sampler's."""
        return random_access(self.source, "state_dict()").state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As the sampler's."""
        random_access(self.source, "load_state_dict()").load_state_dict(state_dict)


def _noted(walk: Walk, batches: Iterator[Batch], source: Sampler, taken: Any) -> Iterator[Batch]:
    """Batches, each noted with its step where that is not known after a change of the budget."""
    known = source if isinstance(source, RandomAccessSampler) else None
    known = known if known is not None and known.capabilities.budget else None
    for batch in batches:
        taken.append((batch, None if known is None else known.step(walk.step - 1)))
        yield batch


def random_access(sampler: Sampler, what: str) -> RandomAccessSampler:
    if not isinstance(sampler, RandomAccessSampler):
        raise UnsupportedError(f"{what}: {type(sampler).__name__} has no random access")
    return sampler


class Collate:
    """Calls a collate function with the samples that `Samples` fetched."""

    def __init__(self, collate_fn: Callable[..., Any] | None) -> None:
        self.collate_fn = collate_fn
        self.takes_batch = collate_fn is not None and takes_batch(collate_fn)

    def __call__(self, fetched: list[tuple[list[Any], Batch, Any]]) -> Any:
        [(samples, batch, spare)] = fetched  # spare: a sample, where the batch has none
        if isinstance(self.collate_fn, PadCollate) and not samples:
            return self.collate_fn.empty(spare)
        if isinstance(self.collate_fn, PackCollate) and not samples:
            return self.collate_fn([spare], batch)
        if batch.starts is not None and not self.takes_batch:
            raise ValueError(
                "collate_fn gets whole samples, but the sampler gives pieces of them: use "
                "sab.torch.PackCollate, or a function of the samples and the batch"
            )
        if self.takes_batch:
            return self.collate_fn(samples, batch)  # type: ignore[misc]
        return self._collated(samples) if samples else without_rows(self._collated([spare]))

    def _collated(self, samples: list[Any]) -> Any:
        if self.collate_fn is not None:
            return self.collate_fn(samples)
        try:
            return _torch.default_collate(samples)
        except RuntimeError as error:
            raise ValueError(
                "collate_fn = None: the samples differ in size; pad them with "
                f"sab.torch.PadCollate, or give a function (torch: {error})"
            ) from error


def takes_batch(collate_fn: Any) -> bool:
    if not callable(collate_fn):
        raise TypeError(f"collate_fn = {collate_fn!r:.60}: must be a function")
    try:
        parameters = inspect.signature(collate_fn).parameters.values()
    except (TypeError, ValueError):  # a function of C
        return False
    positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    required = [each for each in parameters if each.default is each.empty]
    count = sum(each.kind in positional for each in required)
    if count > 2:
        raise TypeError(
            f"collate_fn = {collate_fn!r:.60}: needs {count} arguments: must take the samples, or "
            "the samples and the batch"
        )
    return count == 2


def loader_options(
    dataset: Any, sampler: Sampler, collate_fn: Callable[..., Any] | None = None
) -> dict[str, Any]:
    """What any class of loaders needs to load the batches of a sampler, and to give each batch to
    the collate function: ``StatefulDataLoader(**loader_options(dataset, sampler, collate))``.

    Args:
        dataset, sampler, collate_fn: as for :class:`DataLoader`.

    Returns:
        ``dataset``, ``batch_sampler`` and ``collate_fn``.
    """
    if not isinstance(sampler, Sampler):
        raise TypeError(
            f"sampler is a {type(sampler).__name__}: must be a sampler of libsab, such as "
            "sab.BucketSampler"
        )
    if isinstance(dataset, _torch.IterableDataset) or not hasattr(dataset, "__getitem__"):
        raise TypeError(
            f"dataset is a {type(dataset).__name__}: must have samples by their index; for streams "
            "there is sab.torch.StreamDataset"
        )
    samples = sampler._sample_count()
    if samples is not None and hasattr(dataset, "__len__") and len(dataset) != samples:
        raise ValueError(f"dataset has {len(dataset)} samples: the sampler was made of {samples}")
    if isinstance(collate_fn, PackCollate):
        collate_fn = collate_fn.of(sampler)
    return {
        "dataset": Samples(dataset),
        "batch_sampler": Tickets(sampler),
        "collate_fn": Collate(collate_fn),
    }
