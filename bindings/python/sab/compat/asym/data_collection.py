"""``asym.data_collection``: data that are padded, run and put back group by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch as _loaded_torch

from sab._columns import Column, mask_like, offsets_without_empty, ragged_mask
from sab._group import Grouping
from sab.compat.asym.annotated_module import AnnotatedModule
from sab.compat.asym.data import TensorData, has_keys
from sab.compat.asym.grouper import (
    DataListGrouper,
    LengthBasedGrouper,
    PredefinedGrouper,
    UniGrouper,
)
from sab.compat.asym.padding import PadderData, column_of, rule_of
from sab.compat.asym.shape_signature import (
    BDim,
    Dim,
    LDim,
    ShapeSignature,
    ShapeSignatureData,
)

__all__ = ["DataCollection", "IncompatibleDataCollectionError"]

torch: Any = _loaded_torch
Tensor = Any
Partition = list[list[int]]
Lengths = dict[str, list[list[int]]]


class IncompatibleDataCollectionError(Exception):
    """Collections are not grouped alike."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class _Column:
    """The tensors of one leaf of the data: a list of them, or a column that makes one when
    asked.
    """

    def __init__(self, tensors: Sequence[Tensor] | None, column: Column | None) -> None:
        self._tensors, self.column = tensors, column

    @property
    def tensors(self) -> Sequence[Tensor]:
        if self._tensors is None:
            assert self.column is not None
            self._tensors = self.column.tensors()
        return self._tensors

    def lengths(self, idx: int) -> list[int]:
        if self.column is not None:
            own: list[int] = self.column.shapes[:, idx].tolist()
            return own
        return [tensor.shape[idx] for tensor in self.tensors]


def _leaf_paths(value: Any) -> list[tuple[str, ...]]:
    return (
        [(key, *path) for key, below in value.items() for path in _leaf_paths(below)]
        if has_keys(value)
        else [()]
    )


def _nested(value: Any, leaves: dict[tuple[str, ...], Any], path: tuple[str, ...] = ()) -> Any:
    """What has keys as ``value`` has, from what stands at each path."""
    return (
        {key: _nested(below, leaves, (*path, key)) for key, below in value.items()}
        if has_keys(value)
        else leaves[path]
    )


class DataCollection:
    """Data of one or several tensors each, either ungrouped, in ``data_list``, or stacked in
    groups, in ``data_groups``.

    Args:
        shape_annot: what the dimensions of stacked data mean, such as ``"(B, L_sequence, 3)"``, or
            dictionaries of such.
        data_list: the data, each a tensor or dictionaries of tensors.
        data_groups, length_info, data_partition: instead of ``data_list``: stacked data, the
            lengths of each group's data by label, and the indices of each group's data, by default
            consecutive.
        padding: padders, nested as the data; zeros where they are left out. By default given to
            :meth:`group`.

    Attributes:
        is_grouped: whether it is.
        shapesig_data: the signatures, read.
        data_groups, length_info, data_partition: of groups; None while ungrouped.
        preset_padder_data: the padders, or None.
    """

    def __init__(
        self,
        shape_annot: Any,
        data_list: Sequence[Any] | None = None,
        data_groups: list[Any] | None = None,
        length_info: Lengths | None = None,
        data_partition: Partition | None = None,
        padding: Any = None,
        validate: bool = False,
    ) -> None:
        self.shapesig_data: ShapeSignatureData = (
            shape_annot
            if type(shape_annot) is ShapeSignatureData
            else ShapeSignatureData.parse(shape_annot)
        )
        self.preset_padder_data: PadderData | None = None
        if padding is not None:
            self.preset_padder_data = self._padders(padding)
        self._columns: dict[tuple[str, ...], _Column] | None = None
        self._data_list: list[TensorData] | None = None
        self.data_groups: list[TensorData] | None = None
        self.length_info: Lengths | None = None
        self.data_partition: Partition | None = None
        self.is_grouped: bool = data_list is None
        if data_list is not None:
            if data_groups is not None or length_info is not None or data_partition is not None:
                raise ValueError(
                    "either data_list or all of [data_groups, length_info, data_partition] should "
                    "be provided"
                )
            self._data_list = [
                data if type(data) is TensorData else TensorData(data) for data in data_list
            ]
            return
        if data_groups is None or length_info is None:
            raise ValueError(
                "either data_list or all of [data_groups, length_info] should be provided"
            )
        if not isinstance(data_groups, list) or not data_groups:
            raise ValueError("data_groups should be a non-empty list")
        self.data_groups = [
            group if type(group) is TensorData else TensorData(group) for group in data_groups
        ]
        self.length_info = length_info
        self.data_partition = (
            self.get_default_data_partition(self.data_groups, self.shapesig_data)
            if data_partition is None
            else data_partition
        )

    def _padders(self, padding: Any) -> PadderData:
        return PadderData(
            padding.value if type(padding) is PadderData else padding,
            template=self.shapesig_data.get_template(),
        )

    # ---- What it holds ----

    @property
    def data_list(self) -> list[TensorData] | None:
        """The data in their original order; None while grouped."""
        if self._data_list is None and self._columns is not None:
            tensors = {path: column.tensors for path, column in self._columns.items()}
            if list(tensors) == [()]:
                self._data_list = list(map(TensorData, tensors[()]))
            else:
                rows = zip(*tensors.values())
                self._data_list = [
                    TensorData(_nested(self.shapesig_data.value, dict(zip(tensors, row))))
                    for row in rows
                ]
        return self._data_list

    @data_list.setter
    def data_list(self, data_list: list[TensorData] | None) -> None:
        self._data_list, self._columns = data_list, None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_data_list": self.data_list, "_columns": None}

    def __len__(self) -> int:
        if self.is_grouped:
            keys, idx = self.shapesig_data.get_bdim_loc()
            return sum(group.get(keys).value.shape[idx] for group in self._groups())
        if self._data_list is None and self._columns is not None:
            return len(next(iter(self._columns.values())).column or ())
        return len(self._data_list or ())

    def _groups(self) -> list[TensorData]:
        if self.data_groups is None:
            raise ValueError("Already ungrouped, call group() first")
        return self.data_groups

    def _lengths_of(self, shapesig_data: ShapeSignatureData) -> dict[str, Any]:
        """The lengths of the dimensions that a signature has."""
        known = self.length_info or {}
        return {label: own for label, own in known.items() if label in shapesig_data.ldim_map}

    def get_group_hash(self) -> int:
        """Equal for collections that are grouped alike."""
        return hash(tuple(map(tuple, self.data_partition or ()))) if self.is_grouped else len(self)

    @classmethod
    def get_default_data_partition(
        cls, data_groups: list[TensorData], shapesig_data: ShapeSignatureData
    ) -> Partition:
        """Consecutive indices, as many as each group has data."""
        keys, idx = shapesig_data.get_bdim_loc()
        counts = [group.get(keys).value.shape[idx] for group in data_groups]
        return [indices.tolist() for indices in Grouping.consecutive(counts)]

    def validate(self) -> None:
        """Does nothing, as in asym."""

    def get_length_info(self, partition: Partition) -> Lengths:
        """For each length those of the data of each group."""
        if self.is_grouped:
            return self.length_info or {}
        columns = self._as_columns()
        info: Lengths = {}
        for label, (keys, idx) in self.shapesig_data.get_ldim_map(prestack=True).items():
            lengths = columns[tuple(keys)].lengths(idx)
            info[label] = [[lengths[i] for i in part] for part in partition]
        return info

    def get_group_length_info(self, i: int) -> dict[str, list[int]]:
        """For each length those of the data of a group."""
        self._groups()
        return {label: lengths[i] for label, lengths in (self.length_info or {}).items()}

    # ---- There and back ----

    def _as_columns(self) -> dict[tuple[str, ...], _Column]:
        if self._columns is not None and self._data_list is None:
            return self._columns
        columns: dict[tuple[str, ...], _Column] = {}
        for path in _leaf_paths(self.shapesig_data.value):
            tensors = [data.value for data in self._data_list or ()]
            for key in path:
                tensors = [tensor[key] for tensor in tensors]
            columns[path] = _Column(tensors, column_of(tensors))
        return columns

    def _partition_by(
        self, grouper: DataListGrouper, columns: dict[tuple[str, ...], _Column]
    ) -> Partition:
        asks = type(grouper).get_data_partition
        if asks in (UniGrouper.get_data_partition, PredefinedGrouper.get_data_partition):
            return grouper.get_data_partition(
                range(len(self)), self.shapesig_data
            )  # which are only counted
        if (
            isinstance(grouper, LengthBasedGrouper)
            and asks is LengthBasedGrouper.get_data_partition
        ):
            keys, idx = self.shapesig_data.get_ldim_map(prestack=True)[grouper.ldim_label]
            return grouper.get_partition_from_lengths(columns[tuple(keys)].lengths(idx))
        return grouper.get_data_partition(self.data_list or [], self.shapesig_data)

    def group(
        self, grouper: DataListGrouper, padding: Any = None, forget_order: bool = False
    ) -> None:
        """Stacks the data of each group that ``grouper`` makes; ``forget_order``: they are numbered
        anew, group by group.
        """
        if self.is_grouped:
            raise ValueError("Already grouped, call ungroup() first")
        if self.preset_padder_data is not None and padding is not None:
            raise ValueError("There are pre-set padders")
        padders = (
            self._padders(padding) if self.preset_padder_data is None else self.preset_padder_data
        )
        columns = self._as_columns()
        partition = self._partition_by(grouper, columns)
        lengths = self.get_length_info(partition)
        grouping = Grouping.partition([np.array(part, np.int64) for part in partition])
        groups: dict[tuple[str, ...], Sequence[Tensor]] = {}
        for path, column in columns.items():
            shapesig, padder = (
                self.shapesig_data.get(list(path)).value,
                padders.get(list(path)).value,
            )
            groups[path] = self._stacked(column, shapesig, padder, partition, grouping)
        self.data_groups = [
            TensorData(
                _nested(self.shapesig_data.value, {path: each[i] for path, each in groups.items()})
            )
            for i in range(len(partition))
        ]
        self.length_info = lengths
        self.data_partition = (
            self.get_default_data_partition(self.data_groups, self.shapesig_data)
            if forget_order
            else partition
        )
        self.data_list = None
        self.is_grouped = True

    def _stacked(
        self,
        column: _Column,
        shapesig: ShapeSignature,
        padder: Any,
        partition: Partition,
        grouping: Grouping,
    ) -> Sequence[Tensor]:
        if column.column is not None and all(partition):
            rule = rule_of(padder, shapesig, column.column)
            if rule is not None:
                return column.column.grouped(
                    grouping.permutation, grouping.offsets, shapesig.bdim_idx, rule
                ).buffers
        return [
            padder.merge_tensors([column.tensors[i] for i in part], shapesig) for part in partition
        ]

    def ungroup(self) -> None:
        """Takes the data out of their groups, without padding, in the order of
        ``data_partition``.
        """
        if not self.is_grouped:
            raise ValueError("Already ungrouped, call group() first")
        groups, partition = self._groups(), self.data_partition or []
        grouping = Grouping.partition([np.array(part, np.int64) for part in partition])
        offsets = offsets_without_empty(grouping.offsets)
        columns: dict[tuple[str, ...], _Column] = {}
        for path in _leaf_paths(self.shapesig_data.value):
            shapesig = self.shapesig_data.get(list(path)).value
            tensors = [
                group.get(list(path)).value for group, part in zip(groups, partition) if part
            ]
            columns[path] = _Column(None, self._unstacked(tensors, shapesig, grouping, offsets))
        self.data_groups = self.length_info = self.data_partition = None
        self.data_list = None
        self._columns = columns
        self.is_grouped = False

    def _unstacked(
        self, tensors: list[Tensor], shapesig: ShapeSignature, grouping: Grouping, offsets: Any
    ) -> Column:
        sizes = np.array([list(tensor.shape) for tensor in tensors], np.int64)
        sizes = (
            np.delete(sizes, shapesig.bdim_idx, 1)
            if len(tensors)
            else np.empty((0, len(shapesig) - 1), np.int64)
        )
        shapes = np.repeat(sizes, np.diff(offsets), axis=0)
        for idx, label in shapesig.bdim_removed().iter_ldim_idx_label():
            lengths = [
                length for of_group in (self.length_info or {})[label] for length in of_group
            ]
            if len(lengths) != len(shapes):
                raise ValueError(
                    f"length_info[{label!r}] has {len(lengths)} lengths: the groups have "
                    f"{len(shapes)} data"
                )
            shapes[:, idx] = lengths
        ordered = np.empty_like(shapes)
        ordered[grouping.permutation] = shapes
        return Column.padded(
            tensors, grouping.permutation, offsets, shapesig.bdim_idx, ordered, torch.empty(0)
        )

    def regroup(
        self, grouper: DataListGrouper, padding: Any = None, forget_order: bool = False
    ) -> None:
        """Ungroups and groups, in one pass."""
        self.ungroup()
        self.group(grouper, padding=padding, forget_order=forget_order)

    def get_data_list(self) -> list[TensorData]:
        """The data in their original order."""
        if not self.is_grouped:
            return self.data_list or []
        copy = DataCollection(
            self.shapesig_data,
            data_groups=self._groups(),
            length_info=self.length_info,
            data_partition=self.data_partition,
        )
        copy.ungroup()
        return copy.data_list or []

    def get_data_groups(self, partition: Partition, padder_data: PadderData) -> list[TensorData]:
        """The data stacked by a partition."""
        if self.is_grouped:
            return self._groups()
        data = self.data_list or []
        return [
            self.get_data_group([data[i] for i in part], self.shapesig_data, padder_data)
            for part in partition
        ]

    def get_data_group(
        self,
        data_sublist: list[TensorData],
        shapesig_data: ShapeSignatureData,
        padder_data: PadderData,
    ) -> TensorData:
        """Some data stacked."""
        if shapesig_data.is_leaf:
            return TensorData(
                padder_data.value.merge_tensors(
                    [data.value for data in data_sublist], shapesig_data.value
                )
            )
        return TensorData.from_data_dict(
            {
                key: self.get_data_group(
                    [data[key] for data in data_sublist], shapesig_data[key], padder_data[key]
                )
                for key in shapesig_data.keys()  # noqa: SIM118  # no dictionary
            }
        )

    # ---- Groups as they are ----

    def get_mask(
        self,
        i: int,
        key_conv: dict[str, Any] | None = None,
        mask_hint: str | list[str] = "copy",
    ) -> Any:
        """Which places of a group are within a length of their data along at least one dimension
        (of several): bool.

        Args:
            i: number of the group.
            key_conv: a conversion of the keys of masks.
            mask_hint: ``"copy"``: masks nested and shaped as the group; or lengths: one of these
                dimensions after the batch.
        """
        lengths, group = self.get_group_length_info(i), self._groups()[i]
        if mask_hint == "copy":

            def like(tensor: Tensor, shapesig: ShapeSignature) -> Tensor:
                places = list(shapesig.iter_ldim_idx_label())
                own = (
                    np.array([lengths[label] for _, label in places], np.int64)
                    .reshape(len(places), tensor.shape[shapesig.bdim_idx])
                    .T
                )
                dims = [idx for idx, _ in places]
                own = np.minimum(own, np.array([tensor.shape[dim] for dim in dims], np.int64))
                return mask_like(tensor, shapesig.bdim_idx, dims, own, is_any=True).contiguous()

            return TensorData.map2(like, group, self.shapesig_data).keys_converted(key_conv).value
        if not isinstance(mask_hint, list) or not mask_hint:
            raise ValueError("mask_hint should be a non-empty list of strings")
        for label in mask_hint:
            if label not in lengths:
                raise ValueError(f"The string {label} in the list mask_hint is not a LDim label")
        own = np.array([lengths[label] for label in mask_hint], np.int64).T
        return ragged_mask(own, own.max(0), device=group.get_any_leaf_value().device, is_any=True)

    def apply(
        self,
        module: AnnotatedModule,
        mask_hint: Any = "copy",
        input_key_conv: dict[str, Any] | None = None,
        output_key_conv: dict[str, Any] | None = None,
    ) -> DataCollection:
        """Runs a module on each group; a collection of the outputs, grouped alike. The mask hint is
        the module's.
        """
        if not self.is_grouped:
            raise ValueError(
                'Currently can apply AnnotatedModule only when the DataCollection is "grouped"'
            )
        shapesig_data, hint = module.get_output_shapesig_data_and_mask_hint(
            self.shapesig_data, input_key_conv=input_key_conv, output_key_conv=output_key_conv
        )
        outputs: list[TensorData] = []
        for i, group in enumerate(self._groups()):
            inputs = [group.keys_converted(input_key_conv).value]
            if hint is not None:
                inputs.append(self.get_mask(i, key_conv=input_key_conv, mask_hint=hint))
            outputs.append(TensorData(module(*inputs)).keys_converted(output_key_conv))
        return DataCollection(
            shapesig_data,
            data_groups=outputs,
            length_info=self._lengths_of(shapesig_data),
            data_partition=self.data_partition,
        )

    def _new_shapesig(self, shapesig: ShapeSignature, bdim_idx: int, label: str) -> ShapeSignature:
        if not -len(shapesig) - 1 <= bdim_idx <= len(shapesig):
            raise ValueError(
                f"new_bdim_idx {bdim_idx} is too {'big' if bdim_idx > 0 else 'small'} compared to "
                f"{shapesig}"
            )
        if any(isinstance(dim, LDim) and dim.label == label for dim in shapesig.list):
            raise ValueError(f"The LDim label {label} already exists in {shapesig}")
        dims: list[Dim] = [LDim(label) if isinstance(dim, BDim) else dim for dim in shapesig.list]
        dims.insert(
            0 if bdim_idx >= 0 else bdim_idx + len(shapesig) + 1, BDim()
        )  # asym puts it first wherever the number counts from there
        return ShapeSignature(dims)

    def _as_data(
        self, data: list[Any], bdim_idx: int, new_ldim_label: str, padding: Any
    ) -> DataCollection:
        shapesig_data = ShapeSignatureData.map(
            lambda shapesig: self._new_shapesig(shapesig, bdim_idx, new_ldim_label),
            self.shapesig_data,
        )
        return DataCollection(shapesig_data, data_list=data, padding=padding)

    def groups_as_data(
        self, bdim_idx: int, new_ldim_label: str, padding: Any = None
    ) -> DataCollection:
        """A collection whose data are the groups, their batch being a length, with a batch
        dimension in front (``bdim_idx >= 0``), or counted from the end.
        """
        if not self.is_grouped:
            raise ValueError(
                '"groups_as_data()" can be called only when the DataCollection is grouped'
            )
        return self._as_data(
            self._groups(),
            bdim_idx,
            new_ldim_label,
            self.preset_padder_data if padding is None else padding,
        )

    def masks_as_data(
        self, bdim_idx: int, new_ldim_label: str, padding: Any = None
    ) -> DataCollection:
        """The same of the groups' masks."""
        if not self.is_grouped:
            raise ValueError(
                '"masks_as_data()" can be called only when the DataCollection is grouped'
            )
        return self._as_data(
            [self.get_mask(i) for i in range(len(self._groups()))],
            bdim_idx,
            new_ldim_label,
            padding,
        )

    def to_device(self, device: Any) -> DataCollection:
        """The same on a device."""
        padding = (
            None if self.preset_padder_data is None else self.preset_padder_data.to_device(device)
        )
        if not self.is_grouped:
            return DataCollection(
                self.shapesig_data,
                data_list=[data.to_device(device) for data in self.data_list or ()],
                padding=padding,
            )
        groups = [group.to_device(device) for group in self._groups()]
        return DataCollection(
            self.shapesig_data,
            data_groups=groups,
            length_info=self.length_info,
            data_partition=self.data_partition,
            padding=padding,
        )

    # ---- Parts ----

    def __getitem__(self, key: str) -> DataCollection:
        if self.shapesig_data.is_leaf:
            raise TypeError("The data consists of tensors(not dicts)")
        if key not in self.shapesig_data:
            raise KeyError(f"No key {key}")
        shapesig_data = self.shapesig_data[key]
        if not self.is_grouped:
            return DataCollection(
                shapesig_data, data_list=[data[key] for data in self.data_list or ()]
            )
        return DataCollection(
            shapesig_data,
            data_groups=[group[key] for group in self._groups()],
            length_info=self._lengths_of(shapesig_data),
            data_partition=self.data_partition,
        )

    def __setitem__(self, key: str, sub: DataCollection) -> None:
        if self.is_grouped != sub.is_grouped or self.get_group_hash() != sub.get_group_hash():
            raise IncompatibleDataCollectionError(
                "It seems two DataCollections are not compatible, so you cannot __setitem__ one "
                "into another."
            )
        pairs = (
            zip(self._groups(), sub._groups())
            if self.is_grouped
            else zip(self.data_list or (), sub.data_list or ())
        )
        for data, below in pairs:
            data[key] = below
        if self.length_info is not None:
            self.length_info.update(sub.length_info or {})
        self.shapesig_data[key] = sub.shapesig_data
        self._columns = None

    @classmethod
    def from_dict(cls, d: dict[str, DataCollection]) -> DataCollection:
        """One collection of several that are grouped alike."""
        first = next(iter(d.values()))
        for number, dc in enumerate(d.values()):
            if dc.is_grouped != first.is_grouped or dc.get_group_hash() != first.get_group_hash():
                raise IncompatibleDataCollectionError(
                    f"It seems {number + 1}th DataCollection is incompatible with the first one, "
                    "so you cannot combine them into a single DataCollection"
                )
        shapesig_data = ShapeSignatureData.from_data_dict(
            {key: dc.shapesig_data for key, dc in d.items()}
        )
        padders = {
            key: dc.preset_padder_data.value
            for key, dc in d.items()
            if dc.preset_padder_data is not None
        }
        padding = padders or None
        if not first.is_grouped:
            rows = zip(*(dc.data_list or () for dc in d.values()))
            return DataCollection(
                shapesig_data,
                data_list=[TensorData.from_data_dict(dict(zip(d, row))) for row in rows],
                padding=padding,
            )
        lengths: Lengths = {}
        for dc in d.values():
            for label, own in (dc.length_info or {}).items():
                if lengths.setdefault(label, own) != own:
                    raise IncompatibleDataCollectionError(
                        f"length_info collision for ldim_label {label} - {dc} and something else"
                    )
        groups = [
            TensorData.from_data_dict(dict(zip(d, row)))
            for row in zip(*(dc._groups() for dc in d.values()))
        ]
        return DataCollection(
            shapesig_data,
            data_groups=groups,
            length_info=lengths,
            data_partition=first.data_partition,
            padding=padding,
        )
