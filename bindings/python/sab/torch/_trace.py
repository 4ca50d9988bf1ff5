"""Training steps that leave no trace: what they changed is put back bit for bit."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Generator, Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from sab._devices import _python_rng, _set_python_rng

_torch: Any = torch
_CONTAINERS = (dict, list, set, collections.deque)


def local_part(tensor: Any) -> Any:
    """The tensor of this rank, of one that is distributed."""
    part = getattr(tensor, "to_local", None)
    return tensor if part is None else part()


def _bytes_of(tensor: Any) -> npt.NDArray[np.uint8]:
    """A copy of a tensor's bytes in memory that no device is charged for, not even an emulated
    one.
    """
    found = local_part(tensor.detach()).cpu().contiguous().reshape(-1)
    return cast("npt.NDArray[np.uint8]", found.view(torch.uint8).numpy().copy())


def _put_back(tensor: Any, image: npt.NDArray[np.uint8]) -> None:
    target = local_part(tensor.detach())
    with torch.no_grad():
        target.copy_(torch.from_numpy(image).view(target.dtype).reshape(target.shape))


def _values_of(container: Any) -> Iterable[Any]:
    values = cast("Any", container).values() if isinstance(container, dict) else container
    return cast("Iterable[Any]", values)


def _is_scaler(value: Any) -> bool:
    return hasattr(value, "get_scale") and hasattr(value, "load_state_dict")


class Kept:
    """The state of objects: modules, optimizers, gradient scalers and others that a step changes.

    Of a module: parameters, buffers, gradients and attributes, with those of its modules. Of
    others: attributes, with the tensors and containers in them. Attributes that are objects of
    other kinds are bound to the same objects again.
    """

    def __init__(self, objects: Iterable[Any]) -> None:
        self._seen: dict[int, Any] = {}  # keeps what it has seen alive, so that ids stay unique
        self._tensors: list[tuple[Any, npt.NDArray[np.uint8] | None, Any]] = []
        self._containers: list[tuple[Any, Any]] = []
        for each in objects:
            self._see(each, with_tensors=True, is_given=True)

    def _see(self, value: Any, with_tensors: bool, is_given: bool = False) -> None:
        if isinstance(value, (int, float, str, bytes, type(None))) or id(value) in self._seen:
            return
        if isinstance(value, torch.Tensor):
            if with_tensors:
                self._see_tensor(value)
        elif isinstance(value, torch.nn.Module):
            self._see_module(value)
        elif isinstance(value, (*_CONTAINERS, tuple)):
            self._see_container(value, with_tensors)
        elif is_given or isinstance(value, torch.optim.Optimizer) or _is_scaler(value):
            self._seen[id(value)] = value
            self._see(getattr(value, "__dict__", {}), with_tensors=True)

    def _see_tensor(self, tensor: Any) -> None:
        self._seen[id(tensor)] = tensor
        gradient = tensor.grad if tensor.is_leaf else None
        # Steps cannot write to tensors whose elements share memory.
        is_plain = tensor.layout is torch.strided and not tensor.is_meta
        is_plain = is_plain and all(
            step > 0 or size < 2 for step, size in zip(tensor.stride(), tensor.shape)
        )
        image = _bytes_of(tensor) if is_plain else None
        self._tensors.append((tensor, image, gradient))
        if gradient is not None:
            self._see(gradient, with_tensors=True)

    def _see_module(self, module: Any) -> None:
        self._seen[id(module)] = module
        attributes = cast("dict[str, Any]", vars(module))
        self._containers.append((attributes, dict(attributes)))
        for name, value in attributes.items():
            # Not the tensors of lists, which may be a data set that the module has.
            is_own = name in ("_parameters", "_buffers") or isinstance(value, torch.Tensor)
            self._see(value, with_tensors=is_own)

    def _see_container(self, container: Any, with_tensors: bool) -> None:
        self._seen[id(container)] = container
        if not isinstance(container, tuple):
            self._containers.append((container, container.copy()))
        for value in _values_of(container):
            self._see(value, with_tensors)

    def scale_by_one(self) -> None:
        """Has gradient scalers skip no step: an optimizer makes its state in the first one."""
        for scaler in filter(_is_scaler, [*self._seen.values()]):
            state = scaler.state_dict()
            if state:  # it is enabled
                scaler.load_state_dict({**state, "scale": 1.0})

    def put_back(self) -> None:
        """Gives the objects the state that they had."""
        for container, before in self._containers:
            container.clear()
            getattr(container, "update" if hasattr(container, "update") else "extend")(before)
        for tensor, image, gradient in self._tensors:
            if image is not None:
                _put_back(tensor, image)
            if tensor.is_leaf:
                tensor.grad = gradient


def _random_state() -> Any:
    cuda = _torch.cuda
    has_cuda = hasattr(cuda, "is_initialized") and cuda.is_initialized()
    return _python_rng(), cuda.get_rng_state_all() if has_cuda else None


def _set_random_state(state: Any) -> None:
    _set_python_rng(state[0])
    if state[1] is not None:
        _torch.cuda.set_rng_state_all(state[1])


@contextlib.contextmanager
def without_trace(objects: Iterable[Any]) -> Generator[None, None, None]:
    """Puts the objects and the random generators of Python, numpy and torch back at the end."""
    state, kept = _random_state(), Kept(objects)
    try:
        kept.scale_by_one()
        yield
    finally:
        kept.put_back()
        _set_random_state(state)
