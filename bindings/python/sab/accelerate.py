"""libsab for accelerate: ``accelerator.prepare(model, optimizer, loader)`` takes a
:class:`sab.torch.DataLoader`. This module need not be imported.
"""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from sab.torch._frameworks import take_ranks
from sab.torch._samples import Samples, random_access

__all__ = ["prepare"]

_state: Any = importlib.import_module("accelerate.state")
_utils: Any = importlib.import_module("accelerate.utils")
DataLoader = Any  # that of sab.torch, which imports this module


class Place(NamedTuple):
    """A position in the epoch, as an index of :class:`Batches`."""

    position: int


class Batches(Samples):
    """A data set of the batches of a prepared loader, on its device. They are indexed by
    :class:`Place`; other indices are those of the samples.

    ``accelerate.skip_first_batches`` makes another loader of the data set and the batch sampler.
    With these that loader walks the prepared one.
    """

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader.dataset)
        self._loader = loader
        self._walk: Iterator[Any] | None = None
        self._next = 0  # position of the batch that the walk yields next

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, Place):
            return self.dataset[index]
        if self._walk is None or index.position != self._next:
            self._loader.load_state_dict(self._loader.state_dict(index.position))
            walk: Iterator[Any] = iter(self._loader)
            self._walk = walk
        self._next = index.position + 1
        return next(self._walk)

    def begin(self) -> None:
        """Before a pass: it may begin at any place of the epoch."""
        self._walk = None
        self._loader._choose_epoch()

    def end(self) -> None:
        """After a pass: ends that of the loader, too."""
        if self._walk is not None:
            next(self._walk, None)
        self._walk = None


class Places:
    """The batch sampler of :class:`Batches`: all positions of the epoch, one a batch."""

    even_batches = False  # join_uneven_inputs() sets it

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches._loader.source)

    def __iter__(self) -> Iterator[list[Place]]:
        self._batches.begin()
        position = 0
        while position < len(self):  # it grows when a budget is lowered
            yield [Place(position)]
            position += 1
        self._batches.end()


def only(batches: list[Any]) -> Any:
    """The collate function of :class:`Batches`."""
    [batch] = batches
    return batch


class Preparation:
    """Walks a prepared loader."""

    def __init__(self, loader: DataLoader, device: Any) -> None:
        self.fetching = copy.copy(loader)  # with the attributes that the loader had
        self._device = device

    def move(self, batch: Any) -> Any:
        """The batch on the device."""
        return _utils.send_to_device(batch, self._device)

    def walk(self, loader: Any, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches on the device. ``accumulate`` and ``gather_for_metrics`` find the loader."""
        gradient_state = _state.GradientState()
        is_inner = any(each is loader for each in gradient_state.dataloader_references)
        before = is_inner and loader.end_of_dataloader
        loader.end_of_dataloader = False
        if not is_inner:
            gradient_state._add_dataloader(loader)
        try:
            for batch in batches:
                loader.end_of_dataloader = loader.position == len(loader)
                yield self.move(batch)
        finally:
            if is_inner:  # a pass within another one, which goes on
                loader.end_of_dataloader = before
            else:
                gradient_state._remove_dataloader(loader)


# A loader of batches that are there needs nothing of these.
PLAIN: dict[str, Any] = {
    "num_workers": 0,
    "prefetch_factor": None,
    "persistent_workers": False,
    "_DataLoader__multiprocessing_context": None,
    "worker_init_fn": None,
    "timeout": 0,
    "pin_memory": False,
}


def _sharing(mesh: Any) -> int:
    """How many processes get the same batches: those of tensor and context parallelism."""
    if mesh is None:
        return 1
    names: tuple[str, ...] = mesh.mesh_dim_names
    sizes: tuple[int, ...] = tuple(mesh.mesh.shape)
    return math.prod(size for name, size in zip(names, sizes) if not name.startswith("dp"))


def prepare(loader: DataLoader) -> DataLoader:
    """Does what ``accelerator.prepare`` does with a :class:`sab.torch.DataLoader`, once:

    - The sampler gets the ranks of the accelerator. One that was made with ranks must have these.
      Each sample is in one batch of one process, whatever ``split_batches``, ``dispatch_batches``
      and ``even_batches`` say.
    - Batches are moved to the accelerator's device.
    - ``accumulate`` steps at the end of the loader, and ``gather_for_metrics`` keeps all samples.
    - ``save_state`` and ``load_state`` have the place in the epoch, for any number of processes.
    - ``skip_first_batches(loader, count)`` gives the batches of the epoch from position ``count``,
      also after ``load_state``.

    Returns:
        the same loader.

    Raises:
        ValueError: the sampler has other ranks; UnsupportedError: it has no random access.
    """
    if loader._framework is not None:
        return loader
    state = _state.AcceleratorState()
    shared = _sharing(getattr(state, "ds_device_mesh", None) or state.device_mesh)
    take_ranks(loader, state.process_index // shared, state.num_processes // shared, "accelerate")
    random_access(loader._source, "accelerate")
    loader._framework = Preparation(loader, state.device)
    batches = Batches(loader)
    # torch refuses to set some of these, and accelerate reads the last two.
    loader.__dict__.update(PLAIN, dataset=batches, batch_sampler=Places(batches), collate_fn=only)
    loader.__dict__.update(use_stateful_dataloader=True, remainder=0)
    return loader
