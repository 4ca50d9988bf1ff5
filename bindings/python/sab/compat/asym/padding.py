"""``asym.padding``: what stands where data do not reach."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any

import torch as _loaded_torch

from sab._columns import Column, Rule, UnlikeTensors
from sab._group import Grouping
from sab.compat.asym.data import Data, DataTemplate
from sab.compat.asym.shape_signature import ShapeSignature

__all__ = ["CDimPadder", "Padder", "PadderData", "ZeroPadder"]

torch: Any = _loaded_torch
Tensor = Any


class Padder(metaclass=ABCMeta):
    """Base of padders: override :meth:`pad` and :meth:`to_device`."""

    @abstractmethod
    def pad(self, t: Tensor, shapesig: ShapeSignature, target_shape: tuple[int, ...]) -> Tensor:
        """A tensor, whose signature has no batch dimension, padded to a shape."""

    @abstractmethod
    def to_device(self, device: Any) -> Padder:
        """The same for tensors on a device."""

    def merge_tensors(self, tensors: list[Tensor], shapesig: ShapeSignature) -> Tensor:
        """Tensors stacked, each padded to the longest along the dimensions that are lengths."""
        column = column_of(tensors)
        rule = None if column is None else rule_of(self, shapesig, column)
        if column is not None and rule is not None:
            grouping = Grouping.uni(len(tensors))
            return column.grouped(
                grouping.permutation, grouping.offsets, shapesig.bdim_idx, rule
            ).buffers[0]
        if not len(tensors):
            raise ValueError("tensors: must be at least one")
        own = shapesig.bdim_removed()
        target_shape = list(tensors[0].shape)
        for idx, _ in own.iter_ldim_idx_label():
            target_shape[idx] = max(tensor.shape[idx] for tensor in tensors)
        return torch.stack(
            [self.pad(tensor, own, tuple(target_shape)) for tensor in tensors],
            dim=shapesig.bdim_idx,
        )


class ZeroPadder(Padder):
    """Zeros."""

    def pad(self, t: Tensor, shapesig: ShapeSignature, target_shape: tuple[int, ...]) -> Tensor:
        if len(t.shape) != len(target_shape):
            raise ValueError("shape length does not match")
        ends: list[int] = []
        for size, target in zip(reversed(t.shape), reversed(target_shape)):
            ends += [0, target - size]
        return torch.nn.functional.pad(t, ends, mode="constant", value=0)

    def to_device(self, device: Any) -> ZeroPadder:
        return self


class CDimPadder(Padder):
    """A tensor over the dimensions of constant size: at each padded place of the others."""

    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.value = value

    def pad(self, t: Tensor, shapesig: ShapeSignature, target_shape: tuple[int, ...]) -> Tensor:
        if t.device != self.value.device:
            raise ValueError(f"a tensor is on {t.device}: the padding is on {self.value.device}")
        constant = list(shapesig.iter_cdim_idx())
        for number, idx in enumerate(constant):
            if not t.shape[idx] == target_shape[idx] == self.value.shape[number]:
                raise ValueError(
                    f"a tensor has shape {tuple(t.shape)}: must be as the padding of shape "
                    f"{tuple(self.value.shape)} in dimension {idx}"
                )
        value = self.value.reshape(
            [size if idx in constant else 1 for idx, size in enumerate(target_shape)]
        )
        for idx, size in enumerate(target_shape):
            if idx not in constant:
                more = value.broadcast_to(
                    [*t.shape[:idx], size - t.shape[idx], *t.shape[idx + 1 :]]
                )
                t = torch.cat([t, more], dim=idx)
        return t

    def to_device(self, device: Any) -> CDimPadder:
        return CDimPadder(self.value.to(device=device))


def rule_of(padder: Any, shapesig: ShapeSignature, column: Column) -> Rule | None:
    """What a padder of this module does, as a rule of the library; None where it must be asked:
    others, and sizes and dtypes of no common kind.
    """
    own = shapesig.bdim_removed()
    lengths = {idx for idx, _ in own.iter_ldim_idx_label()}
    shapes = column.shapes
    if any(
        (shapes[:, dim] != shapes[0, dim]).any()
        for dim in range(shapes.shape[1])
        if dim not in lengths
    ):
        return None
    if isinstance(padder, ZeroPadder) and type(padder).pad is ZeroPadder.pad:
        return Rule()
    if isinstance(padder, CDimPadder) and type(padder).pad is CDimPadder.pad:
        constant = tuple(own.iter_cdim_idx())
        value = padder.value
        if (
            max(constant, default=-1) < shapes.shape[1]
            and (value.dtype, value.device) == (column.dtype, column.device)
            and tuple(value.shape) == tuple(shapes[0, list(constant)].tolist())
        ):
            return Rule(value, constant)
    return None


def column_of(tensors: list[Tensor]) -> Column | None:
    """Tensors as the library has them; None where there are none, or they are of no common kind."""
    try:
        return Column.separate(tensors) if tensors else None
    except (UnlikeTensors, TypeError):
        return None


class PadderData(Data):
    """Padders nested in dictionaries; with ``template`` those that are left out are zeros."""

    def __init__(self, padding: Any, template: DataTemplate | None = None) -> None:
        super().__init__(
            padding
            if template is None
            else PadderData.padding_with_default_added(padding, template)
        )

    @classmethod
    def padding_with_default_added(cls, padding: Any, template: DataTemplate) -> Any:
        if template.is_leaf:
            if padding is not None and not isinstance(padding, Padder):
                raise TypeError(
                    f"padding = {padding!r}: must be a Padder where the data have a tensor"
                )
            return ZeroPadder() if padding is None else padding
        return {
            key: cls.padding_with_default_added(
                None if padding is None or key not in padding else padding[key], template[key]
            )
            for key in template.keys()  # noqa: SIM118  # no dictionary
        }

    @property
    def leaf_type(self) -> Any:
        return Padder

    def to_device(self, device: Any) -> PadderData:
        return PadderData.map(lambda padder: padder.to_device(device), self)
