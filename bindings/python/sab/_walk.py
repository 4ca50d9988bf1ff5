"""A pass over the batches of a sampler: where it is, and which loader takes the batches."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from types import FrameType
from typing import Any, NamedTuple

# Classes of loaders that fetch batches ahead of training, by their module.
_AHEAD = {
    "torch.utils.data.dataloader": "_MultiProcessingDataLoaderIter",
    "torchdata.stateful_dataloader.stateful_dataloader": "_StatefulMultiProcessingDataLoaderIter",
    "accelerate.data_loader": "DataLoaderStateMixin",
}
_IS_AT_END = "end_of_dataloader"  # of loaders of accelerate: whether nothing is fetched ahead


class Kept(NamedTuple):
    """What a sampler has of the pass that is under way."""

    state: bytes
    step: int
    under_way: bool
    last: Walk | None
    limits: Mapping[int, float]


class Walk:
    """Where a pass over the batches of a sampler is."""

    __slots__ = (
        *("accelerated", "epoch", "fetched", "first", "is_exact", "is_held", "is_open", "kept"),
        *("loader", "outer", "placed", "step"),
    )

    def __init__(self, sampler: object, placed: int, epoch: int, step: int) -> None:
        self.epoch, self.step = epoch, step
        self.first = step  # the place at which it began
        self.placed = placed  # the sampler's count of placements
        self.is_open = True  # it may give more batches
        self.is_held = False  # by a loader, which gives them later
        self.outer: Walk | None = None  # the pass that was under way when it began
        self.kept: Kept | None = None  # while another pass is under way
        found = _fetching_loaders()
        # Weak, since the loader holds the pass and ends its workers when it goes.
        self.accelerated = [weakref.ref(each) for each in found if hasattr(each, _IS_AT_END)]
        loader = next((each for each in found if not hasattr(each, _IS_AT_END)), None)
        self.loader = None if loader is None else weakref.ref(loader)
        # Of the loader: the batches that training was not given yet. Outlives it.
        self.fetched: Mapping[int, Any] = {}
        # Whether the loader takes these batches themselves, in their order. That of torchdata asks
        # for the state that counts what it fetched, to save it beside what its workers have.
        index_sampler = getattr(loader, "_index_sampler", None)
        self.is_exact: bool = (
            getattr(loader, "_in_order", True)
            and not type(loader).__module__.startswith("torchdata.")
            and (index_sampler is sampler or getattr(index_sampler, "source", None) is sampler)
        )

    def ahead(self) -> int:
        """The batches that count as given, though training has not had them yet."""
        loaders = [each() for each in self.accelerated]
        waiting = any(each is not None and not getattr(each, _IS_AT_END) for each in loaders)
        return waiting + (0 if self.is_exact else len(self.fetched))


def fetching_kinds() -> tuple[type[Any], ...]:
    """Those of the loaders that fetch ahead whose packages are imported."""
    return tuple(
        getattr(sys.modules[name], kind) for name, kind in _AHEAD.items() if name in sys.modules
    )


def _fetching_loaders() -> list[Any]:
    """The loaders that begin a pass, and fetch batches ahead of training: iterators of torch's and
    torchdata's loaders with workers, and the loaders of accelerate, which fetch one.
    """
    kinds = {id(vars(sys.modules[kind.__module__])): kind for kind in fetching_kinds()}
    found: list[Any] = []
    frame: FrameType | None = sys._getframe(1) if kinds else None
    while frame is not None:
        kind = kinds.get(id(frame.f_globals))
        owner = None if kind is None else frame.f_locals.get("self")
        if kind is not None and isinstance(owner, kind) and not any(owner is x for x in found):
            found.append(owner)
        frame = frame.f_back
    return found


def is_called_by(package: str) -> bool:
    """Whether this package was called by another one, and not by the user's program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _package_of(frame) == "sab":
        frame = frame.f_back
    return frame is not None and _package_of(frame) == package


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
