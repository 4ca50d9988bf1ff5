"""A pass over the batches of a sampler: where it is, and which loader takes the batches."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from types import FrameType
from typing import Any, NamedTuple


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
        *("epoch", "fetched", "first", "is_exact", "is_held", "is_open", "kept", "loader"),
        *("outer", "placed", "step"),
    )

    def __init__(self, sampler: object, placed: int, epoch: int, step: int) -> None:
        self.epoch, self.step = epoch, step
        self.first = step  # the place at which it began
        self.placed = placed  # the sampler's count of placements
        self.is_open = True  # it may give more batches
        self.is_held = False  # by a loader, which gives them later
        self.outer: Walk | None = None  # the pass that was under way when it began
        self.kept: Kept | None = None  # while another pass is under way
        loader = _fetching_loader()
        # Weak, since the loader holds the pass and ends its workers when it goes.
        self.loader = None if loader is None else weakref.ref(loader)
        # Of the loader: the batches that training was not given yet. Outlives it.
        self.fetched: Mapping[int, Any] = {}
        # Whether the loader takes these batches themselves, in their order.
        index_sampler = getattr(loader, "_index_sampler", None)
        self.is_exact: bool = getattr(loader, "_in_order", True) and (
            index_sampler is sampler or getattr(index_sampler, "source", None) is sampler
        )


def _fetching_loader() -> Any:
    """The iterator of torch's DataLoader that begins a pass and has workers, which fetch batches
    ahead of training; None without one.
    """
    name = "torch.utils.data.dataloader"
    if name not in sys.modules:
        return None
    torch: Any = sys.modules[name]
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is torch.__dict__:
            owner = frame.f_locals.get("self")
            if isinstance(owner, torch._MultiProcessingDataLoaderIter):
                return owner
        frame = frame.f_back
    return None
