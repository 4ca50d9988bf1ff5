"""Functions that make tensors of a batch: padded, or laid end to end in a row."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Union, cast

import numpy as np
import torch
import torch.utils.data

from sab._arguments import flag, real
from sab._batch import Batch
from sab._display import attributes_line
from sab.torch._static_rows import StaticRows, checked

__all__ = ["PackCollate", "PadCollate"]

_torch: Any = torch
_data: Any = torch.utils.data
Field = Union[str, int]
Columns = Union[str, Sequence[Union[str, None]]]


def _padding_of(padding: Any) -> dict[Any, float] | float:
    if isinstance(padding, Mapping):
        if not padding:
            raise ValueError("padding = {}: must have the fields that are padded")
        given = cast("Mapping[object, Any]", padding)
        return {field: real(f"padding[{field!r}]", value) for field, value in given.items()}
    return real("padding", padding)


def _of_field(samples: Sequence[Any], field: Any) -> list[Any]:
    """A field of each sample as tensors; without a field the samples themselves."""
    values = samples if field is None else [_value(sample, field) for sample in samples]
    return [_torch.as_tensor(value) for value in values]


def _value(sample: Any, field: Any) -> Any:
    try:
        return sample[field]
    except (KeyError, IndexError, TypeError):
        what = f"is a {type(sample).__name__}"
        if isinstance(sample, Mapping):
            fields = cast("Mapping[object, Any]", sample)
            what = f"has the fields {', '.join(map(repr, fields))}"
        raise ValueError(f"padding has {field!r}: a sample {what}") from None


def _others(samples: Sequence[Any], fields: Sequence[Any]) -> dict[Any, Any]:
    """The fields that are not among `fields`, collated as torch does."""
    first: Any = samples[0] if samples else {}
    names = (
        list(cast("Mapping[object, Any]", first))
        if isinstance(first, Mapping)
        else range(len(first))
    )
    return {
        name: _data.default_collate([sample[name] for sample in samples])
        for name in names
        if name not in fields
    }


def without_rows(data: Any) -> Any:
    """The tensors of a batch, in dictionaries, lists and tuples, without any row."""
    if isinstance(data, torch.Tensor):
        return data[:0] if data.dim() else data
    if isinstance(data, Mapping):
        named = cast("Mapping[object, Any]", data)
        return {name: without_rows(each) for name, each in named.items()}
    if isinstance(data, (list, tuple)):
        several: Any = [without_rows(each) for each in cast("Sequence[Any]", data)]
        kind = cast("Any", type(cast("object", data)))
        return kind(*several) if hasattr(kind, "_fields") else kind(several)
    return data


def _length(lengths: Any, column: Any) -> int:
    """One column of what a batch has for each."""
    if not isinstance(lengths, dict):
        return int(lengths)
    known = cast("dict[str, float]", lengths)
    if column not in known:
        raise ValueError(
            f"columns: {column!r} is not among the columns of the sizes: "
            f"{', '.join(map(repr, known))}; name one for each padded field"
        )
    return int(known[column])


def _filled(tensors: Sequence[Any], shape: Sequence[int], value: float) -> Any:
    """A tensor of padding, of a type that holds what all these tensors have."""
    dtype = functools.reduce(_torch.promote_types, [tensor.dtype for tensor in tensors])
    is_real = dtype.is_floating_point or dtype.is_complex
    if not is_real and float(_torch.tensor(float(value)).to(dtype)) != value:
        raise ValueError(f"padding = {value:g}: the samples are {dtype}, which has no such value")
    return tensors[0].new_full(tuple(shape), value, dtype=dtype)


class PadCollate:
    """Pads the samples of a batch to ``batch.padded_length``, so that a plan of K shapes gives
    tensors of K lengths.

    Samples are tensors, numpy arrays or lists of numbers; or dictionaries or tuples of them.

    Args:
        padding: the value at padded places. A dictionary has the fields that are padded, and the
            value of each: ``{"input_ids": 0, "labels": -100}``; with tuples their positions. The
            other fields are collated as torch does.
        columns: of sizes with several columns, the column that says how long the first dimension
            is: ``{"input_ids": "source", "labels": "target"}``. A tuple has one for each
            dimension, None where the dimension is not padded: ``(None, "height", "width")``. By
            default the column with the name of the field.
        mask: the name of a field to add, or to replace: int64 of shape (count, length), 1 at places
            of the samples and 0 at padding, for the first padded field.

    >>> import sab
    >>> plan = sab.plan([2, 3], budget=8, boundaries=[1, 4])
    >>> batch = sab.SequentialSampler(plan).batch(0)
    >>> sab.torch.PadCollate({"x": 0}, mask="mask")([{"x": [1, 2]}, {"x": [3, 4, 5]}], batch)
    {'x': tensor([[1, 2, 0],
            [3, 4, 5]]), 'mask': tensor([[1, 1, 0],
            [1, 1, 1]])}
    """

    def __init__(
        self,
        padding: float | Mapping[Any, float] = 0,
        *,
        columns: Columns | Mapping[Any, Columns] | None = None,
        mask: str | None = None,
    ) -> None:
        self.padding = _padding_of(padding)
        self.columns = columns
        self.mask = mask
        if mask is not None and not isinstance(self.padding, dict):
            raise ValueError(f"mask = {mask!r}: needs a dictionary of fields as padding")
        if isinstance(self.padding, dict) and mask in self.padding:
            raise ValueError(f"mask = {mask!r}: is a field of padding")

    def __repr__(self) -> str:
        return attributes_line(self)

    def __call__(self, samples: Sequence[Any], batch: Batch) -> Any:
        if batch.layout == "row":
            raise ValueError("the batch is a row: use sab.torch.PackCollate")
        if not isinstance(self.padding, dict):
            return self._padded(_of_field(samples, None), None, self.padding, batch)
        for field in self.padding if samples else ():
            _value(samples[0], field)  # before torch fails at a field that should be padded
        made = _others(samples, [*self.padding, self.mask])
        mask = None
        for field, value in self.padding.items():
            tensors = _of_field(samples, field)
            made[field] = self._padded(tensors, field, value, batch)
            if mask is None:
                lengths = _torch.tensor([tensor.shape[0] for tensor in tensors])
                places = _torch.arange(made[field].shape[1])
                mask = (places[None] < lengths[:, None]).to(_torch.int64)
        return self._joined(made, mask, samples[0])

    def empty(self, sample: Any) -> Any:
        """Tensors without rows, for the batch without samples that a rank may have in the last step
        of an epoch.

        Args:
            sample: any sample, which says what shapes and types the tensors have.
        """
        if not isinstance(self.padding, dict):
            return without_rows(_of_field([sample], None)[0][None])
        made = _others([sample], [*self.padding, self.mask])
        for field in self.padding:
            made[field] = _of_field([sample], field)[0][None]
        mask = torch.ones(made[next(iter(self.padding))].shape[:2], dtype=torch.int64)
        return without_rows(self._joined(made, mask, sample))

    def _joined(self, made: dict[Any, Any], mask: Any, sample: Any) -> Any:
        """All fields, and the mask, in the form of a sample."""
        if isinstance(sample, Mapping):
            return made if self.mask is None else {**made, self.mask: mask}
        fields = [made[field] for field in range(len(sample))]
        return tuple(fields if self.mask is None else [*fields, mask])

    def _columns_of(self, field: Any) -> dict[int, str | None]:
        """The column of each padded dimension of a field; None: the only column."""
        columns: Any = self.columns
        if isinstance(columns, Mapping):
            columns = cast("Mapping[object, Any]", columns).get(field)
        if columns is None or isinstance(columns, str):
            return {0: columns}
        return {dim: column for dim, column in enumerate(columns) if column is not None}

    def _padded(self, tensors: list[Any], field: Any, value: float, batch: Batch) -> Any:
        shape = list(tensors[0].shape)
        columns = self._columns_of(field)
        if max(columns) >= len(shape):
            raise ValueError(
                f"columns: dimension {max(columns)} of samples with {len(shape)} dimensions"
            )
        for dim, column in columns.items():
            shape[dim] = _length(batch.padded_length, field if column is None else column)
        made = _filled(tensors, (len(tensors), *shape), value)
        for at, tensor in enumerate(tensors):
            own = list(tensor.shape)
            if len(own) != len(shape) or any(
                own[dim] > shape[dim] if dim in columns else own[dim] != shape[dim]
                for dim in range(len(shape))
            ):
                raise ValueError(
                    f"sample {int(batch.indices[at])} has shape {tuple(tensor.shape)}"
                    f"{'' if field is None else f' in field {field!r}'}, but its batch is padded "
                    f"to {tuple(shape)}: the sizes must be those of the data set"
                )
            made[(at, *(slice(size) for size in own))] = tensor
        return made


class PackCollate:
    """Lays the samples of a row end to end, without padding between them, for attention of variable
    length.

    For batches of ``PackedSampler`` and ``BalancedSampler``. Samples are dictionaries, or tuples
    whose positions are the fields. Pieces of samples that the sampler splits are cut out of them.
    The data is a dictionary:

    - each field of ``padding`` of shape (1, length, ...); the other fields as torch collates them,
      one entry a sample;
    - ``position_ids``: int64 (1, length), from 0 in each sequence;
    - ``cu_seqlens``: int32, where each sequence begins and ends; ``max_seqlen``: the longest.

    A rank may have a batch without samples. Its row, which is all padding, has the types and the
    other dimensions of any sample, which is given in the place of the samples.

    What is left of the capacity is filled with padding, which counts as one more sequence. With
    several columns these have the column as an ending, such as ``cu_seqlens_tokens``.

    With ``length_multiple`` of the sampler each sample is padded to its rounded length, and counts
    as one sequence with this padding: ``cu_seqlens`` says where it lies. ``cu_seqlens_unpadded``
    has the cumulative lengths without any padding. TransformerEngine takes these as
    ``cu_seqlens``, and the others as ``cu_seqlens_padded``.

    Args:
        padding: the fields that are laid end to end, and the value of each at padded places:
            ``{"input_ids": 0, "labels": -100}``.
        first: values to put at the first position of each sequence: ``{"labels": -100}`` for models
            that predict the next token, which must not predict one of another sample.
        columns: of sizes with several columns, the column of each field; by default the one with
            its name.
        mask: the name of a field to add: bool (1, 1, length, length), true within each sequence.
        causal: in that mask, true only where a position looks at itself or back.
        static: True: all rows have one shape, so that compilers and CUDA graphs see one. A row has
            exactly the capacity, ``cu_seqlens`` as many numbers in each row, and ``max_seqlen`` is
            one number for all rows. Padding lies in sequences of its own, of at most this length,
            and what ``cu_seqlens`` has too much is repeated: sequences without tokens. The loader
            takes the shape from its sampler; without a loader give :class:`StaticRows`.

    >>> import sab
    >>> batch = sab.PackedSampler([2, 3], capacity=6).batch(0)
    >>> samples = [{"x": [7] * size} for size in ((2, 3)[index] for index in batch.indices)]
    >>> row = sab.torch.PackCollate({"x": 0})(samples, batch)
    >>> row["x"].tolist(), row["cu_seqlens"].tolist()
    ([[7, 7, 7, 7, 7, 0]], [0, 3, 5, 6])
    """

    def __init__(
        self,
        padding: Mapping[Any, float],
        *,
        first: Mapping[Any, float] | None = None,
        columns: Mapping[Any, str] | None = None,
        mask: str | None = None,
        causal: bool = False,
        static: bool | StaticRows = False,
    ) -> None:
        fields = _padding_of(padding)
        if not isinstance(fields, dict) or not fields:
            raise TypeError(f"padding = {padding!r}: must be a dictionary of fields and values")
        self.padding = fields
        self.first = {} if first is None else dict(first)
        unknown = [field for field in self.first if field not in fields]
        if unknown:
            raise ValueError(f"first has {unknown[0]!r}: must be one of the fields of padding")
        self.columns = {} if columns is None else dict(columns)
        self.mask = mask
        self.causal = causal
        self.static = checked(static) if isinstance(static, StaticRows) else flag("static", static)

    def __repr__(self) -> str:
        return attributes_line(self)

    def of(self, sampler: Any) -> PackCollate:
        """The same with the one shape of the rows of a sampler, if ``static`` is True."""
        if self.static is not True:
            return self
        made = copy.copy(self)
        made.static = StaticRows.of(sampler)
        return made

    def __call__(self, samples: Sequence[Any], batch: Batch) -> dict[Any, Any]:
        if self.static is True:
            raise ValueError(
                "static = True: needs a loader, which tells the sampler; or give "
                "sab.torch.StaticRows.of(sampler)"
            )
        if batch.layout != "row":
            raise ValueError(
                "the batch is padded: PackCollate needs rows, of PackedSampler or BalancedSampler"
            )
        if not samples:
            raise ValueError(
                "samples = []: of a batch without samples, give any one sample of the data set, "
                "which says what shapes and types the row has; the loaders of sab.torch do so"
            )
        made = _others(samples, [*self.padding, self.mask])
        if batch.count == 0:
            made = without_rows(made)
        edges: dict[str, tuple[Any, Any, int]] = {}
        for field, value in self.padding.items():
            several = isinstance(batch.padded_length, dict)
            column = self.columns.get(field, field if several else None)
            static = self._static_of(column)
            length = static.length if static else _length(batch.padded_length, column)
            tensors = _of_field(samples, field)
            pieces = _pieces(tensors, batch, column)
            ends = np.cumsum([0, *(len(piece) for piece in pieces)])
            name = "" if column is None else f"_{column}"
            _check_lengths(field, ends, batch, column, length)
            laid = _of_column(batch.cu_seqlens, column)
            laid = ends if laid is None else laid.astype(np.int64)
            if static is not None:
                _check_static(static, laid)
            row = _filled(tensors, (length, *tensors[0].shape[1:]), value)
            made[field] = self._laid(field, pieces, laid, row)[None]
            edges.setdefault(name, _with_padding(laid, ends, length, static))
        for name, (laid, ends, longest) in edges.items():
            self._add_places(made, name, laid, longest)
            if batch.cu_seqlens_unpadded is not None:
                made[f"cu_seqlens_unpadded{name}"] = _torch.from_numpy(ends.astype(np.int32))
        return made

    def _static_of(self, column: Any) -> StaticRows | None:
        if not isinstance(self.static, StaticRows):
            return None
        return StaticRows(*(_length(each, column) for each in self.static))

    def _laid(self, field: Any, pieces: list[Any], laid: Any, row: Any) -> Any:
        """The row of padding, with the pieces in it."""
        if pieces and laid[-1] == sum(map(len, pieces)):
            row[: laid[-1]] = _torch.cat(pieces)
        else:
            for begin, piece in zip(laid.tolist(), pieces):
                row[begin : begin + len(piece)] = piece
        if field in self.first:
            begins = laid[:-1][np.diff(laid) > 0]
            row[_torch.from_numpy(begins)] = _torch.tensor(self.first[field], dtype=row.dtype)
        return row

    def _add_places(self, made: dict[Any, Any], name: str, ends: Any, longest: int) -> None:
        lengths = np.diff(ends)
        sequence = _torch.from_numpy(np.repeat(np.arange(len(lengths)), lengths))
        begins = _torch.from_numpy(np.repeat(ends[:-1], lengths))
        made[f"position_ids{name}"] = (_torch.arange(int(ends[-1])) - begins)[None]
        made[f"cu_seqlens{name}"] = _torch.from_numpy(ends.astype(np.int32))
        made[f"max_seqlen{name}"] = longest
        if self.mask is not None:
            mask = sequence[:, None] == sequence[None]
            made[f"{self.mask}{name}"] = (mask.tril() if self.causal else mask)[None, None]


def _of_column(ends: Any, column: Any) -> Any:
    """The cumulative lengths of a column; None where there are none."""
    return ends if ends is None or column is None else ends[column]


def _true_ends(batch: Batch, column: Any) -> Any:
    unpadded = batch.cu_seqlens_unpadded
    return _of_column(batch.cu_seqlens if unpadded is None else unpadded, column)


def _pieces(tensors: list[Any], batch: Batch, column: Any) -> list[Any]:
    """The part of each sample that is in the row."""
    if batch.count == 0:
        return []
    if batch.starts is None:
        return tensors
    lengths = np.diff(_true_ends(batch, column)).tolist()
    return [
        tensor[start : start + length]
        for tensor, start, length in zip(tensors, batch.starts.tolist(), lengths)
    ]


def _with_padding(
    laid: Any, ends: Any, length: int, static: StaticRows | None
) -> tuple[Any, Any, int]:
    """Where sequences end, with those of the padding; their true ends; and the longest sequence."""
    longest = length if static is None else int(static.max_seqlen)
    end = int(laid[-1])
    if end < length:
        laid = np.concatenate([laid, [*range(end + longest, length, longest), length]])
    if static is None:
        longest = int(np.diff(laid).max(initial=0))
    else:
        due = static.sequences + math.ceil(length / longest) + 1
        laid = np.pad(laid, (0, due - len(laid)), mode="edge")
    return laid, np.pad(ends, (0, len(laid) - len(ends)), mode="edge"), longest


def _check_static(static: StaticRows, laid: Any) -> None:
    found = StaticRows(int(laid[-1]), len(laid) - 1, int(np.diff(laid).max(initial=0)))
    for name, own, most in zip(StaticRows._fields, found, static):
        if own > most:
            raise ValueError(f"static: {name} of a row is {own}: must be at most {most}")


def _check_lengths(field: Any, ends: Any, batch: Batch, column: Any, length: int) -> None:
    """Refuses a data set whose samples do not have the sizes that the sampler was made of."""
    planned = _true_ends(batch, column)
    agrees = ends[-1] <= length if planned is None else np.array_equal(ends, planned)
    if not agrees:
        raise ValueError(
            f"field {field!r}: the samples of the row are {np.diff(ends).tolist()} long, but the "
            f"sampler was made of {length if planned is None else np.diff(planned).tolist()}"
        )
