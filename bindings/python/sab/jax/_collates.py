"""Functions that make numpy arrays of a batch: padded, or laid end to end in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union, cast

import numpy as np
import numpy.typing as npt

from sab._arguments import real
from sab._batch import Batch
from sab._display import attributes_line

__all__ = ["PackCollate", "PadCollate"]

Array = npt.NDArray[Any]
Columns = Union[str, Sequence[Union[str, None]]]


def _padding_of(padding: Any) -> dict[str, float]:
    if not isinstance(padding, Mapping) or not padding:
        raise TypeError(
            f"padding = {padding!r:.60}: must be a dictionary of fields and values, such as "
            "{'input_ids': 0}"
        )
    given = cast("Mapping[str, Any]", padding)
    return {field: real(f"padding[{field!r}]", value) for field, value in given.items()}


def _fields_of(samples: Sequence[Any], padding: Mapping[str, float]) -> list[str]:
    """The names of the fields of the samples, which have those of `padding`."""
    for sample in samples:
        if not isinstance(sample, Mapping):
            raise TypeError(
                f"a sample is a {type(sample).__name__}: must be a dictionary of fields; or give a "
                "collate_fn of your own"
            )
    fields = list(cast("Mapping[str, Any]", samples[0]))
    missing = [field for field in padding if field not in fields]
    if missing:
        raise ValueError(f"padding has {missing[0]!r}: the samples have {fields!r:.60}")
    return fields


def _arrays_of(samples: Sequence[Any], field: str) -> tuple[list[Array], Any]:
    """A field of each sample as an array, and their common element type."""
    values = [np.asarray(sample[field]) for sample in samples]
    filled = [value.dtype for value in values if value.size] or [values[0].dtype]
    dtype: Any = np.result_type(*filled) if len(set(filled)) > 1 else filled[0]
    if dtype.kind not in "biufcV":  # V: such as bfloat16
        raise TypeError(
            f"field {field!r} has dtype {dtype}: must be numbers; leave it out of the samples"
        )
    return values, dtype


def _length(lengths: Any, column: str | None, field: str) -> int:
    """The length of one column of what a batch has for each."""
    if not isinstance(lengths, dict):
        return int(lengths)
    known = cast("dict[str, float]", lengths)
    name = field if column is None else column
    if name not in known:
        raise ValueError(
            f"columns: {name!r} of field {field!r} is not among the columns of the sizes, "
            f"{', '.join(map(repr, known))}"
        )
    return int(known[name])


def _refuse(index: int, value: Array, field: str, shape: Sequence[int]) -> None:
    raise ValueError(
        f"sample {index} has shape {value.shape} in field {field!r}, but its batch has "
        f"{tuple(shape)}: the sizes must be those of the data set"
    )


class PadCollate:
    """Pads samples to ``batch.padded_length``, and fills the batch up with empty rows.

    Samples are dictionaries of numbers, lists of numbers or numpy arrays. The data is a dictionary
    of numpy arrays whose first dimension is the number of rows: the fields, and ``weights``.

    Args:
        padding: the fields that are padded, and the value at the padded places of each:
            ``{"input_ids": 0, "labels": -100}``. The others have the same shape in all samples. In
            empty rows they are 0.
        columns: of sizes with several columns, the column that says how long the first dimension
            of a field is: ``{"input_ids": "source", "labels": "target"}``; without one, the column
            with the field's name. A tuple has one for each dimension, None where the dimension is
            not padded: ``{"pixels": ("height", "width", None)}``.
        mask: the name of a field to add: bool of shape (rows, length), true at places of the
            samples, for the first field of ``padding``.
        weights: the name of the field that tells samples from empty rows: float32 of shape
            (rows,), 1 for a sample and 0 for an empty row.
    """

    def __init__(
        self,
        padding: Mapping[str, float],
        *,
        columns: Mapping[str, Columns] | None = None,
        mask: str | None = None,
        weights: str = "weights",
    ) -> None:
        self.padding = _padding_of(padding)
        self.columns = {} if columns is None else dict(columns)
        self.mask = mask
        self.weights = weights

    def __repr__(self) -> str:
        return attributes_line(self)

    def __call__(self, samples: Sequence[Any], batch: Batch, rows: int) -> dict[str, Array]:
        """The arrays of a batch.

        Args:
            samples: of the batch; of an empty batch one sample, of which only the types count.
            batch: its samples, and the length to pad to.
            rows: of the arrays; at least ``batch.count``.
        """
        fields = _fields_of(samples, self.padding)
        for added in (self.weights, self.mask):
            if added in fields:
                raise ValueError(
                    f"the samples have a field {added!r}: give mask or weights another name"
                )
        made: dict[str, Array] = {}
        for field in fields:
            values, dtype = _arrays_of(samples, field)
            shape = self._shape(values[0], field, batch)
            array = np.full((rows, *shape), self.padding.get(field, 0), dtype)
            for row, value in enumerate(values[: batch.count]):
                self._put(array, row, value, field, batch)
            made[field] = array
        if self.mask is not None:
            made[self.mask] = self._mask(samples, batch, made)
        weights = np.zeros(rows, np.float32)
        weights[: batch.count] = 1
        made[self.weights] = weights
        return made

    def _padded_dimensions(self, field: str) -> dict[int, str | None]:
        """The column of each padded dimension of a field; None: the only one, or of its name."""
        if field not in self.padding:
            return {}
        columns = self.columns.get(field)
        if columns is None or isinstance(columns, str):
            return {0: columns}
        return {place: column for place, column in enumerate(columns) if column is not None}

    def _shape(self, value: Array, field: str, batch: Batch) -> list[int]:
        shape = list(value.shape)
        for place, column in self._padded_dimensions(field).items():
            if place >= len(shape):
                raise ValueError(
                    f"field {field!r} has {len(shape)} dimensions: dimension {place} cannot be "
                    "padded"
                )
            shape[place] = _length(batch.padded_length, column, field)
        return shape

    def _put(self, array: Array, row: int, value: Array, field: str, batch: Batch) -> None:
        shape, padded = array.shape[1:], self._padded_dimensions(field)
        if value.ndim != len(shape) or any(
            own > due if place in padded else own != due
            for place, (own, due) in enumerate(zip(value.shape, shape))
        ):
            _refuse(int(batch.indices[row]), value, field, shape)
        array[(row, *(slice(own) for own in value.shape))] = value

    def _mask(self, samples: Sequence[Any], batch: Batch, made: dict[str, Array]) -> Array:
        field = next(iter(self.padding))
        rows, length = made[field].shape[:2]
        lengths = np.zeros(rows, np.int64)
        lengths[: batch.count] = [len(sample[field]) for sample in samples[: batch.count]]
        return cast(Array, np.arange(length) < lengths[:, None])


def _of_column(ends: Any, column: str) -> Any:
    """The cumulative lengths of a column; None where there are none."""
    return cast("dict[str, Any]", ends)[column] if isinstance(ends, dict) else ends


class PackCollate:
    """Lays the samples of a row of :class:`sab.PackedSampler` end to end. All batches have one
    shape.

    Samples are dictionaries of lists of numbers or numpy arrays. The data is a dictionary, with
    three arrays for each field of ``padding``, as grain's packing names them:

    - ``field``: of shape (1, length, ...);
    - ``field_segment_ids``: int32 of shape (1, length); 1, 2, ... for the samples, 0 at padding;
    - ``field_positions``: int32 of shape (1, length), from 0 in each sample.

    The other fields are left out. Pieces of samples that the sampler splits are cut out of them.

    Args:
        padding: the fields that are laid end to end, and the value at the padded places of each.
        columns: of sizes with several columns, the column of each field; without one, the column
            with the field's name.
    """

    def __init__(
        self, padding: Mapping[str, float], *, columns: Mapping[str, str] | None = None
    ) -> None:
        self.padding = _padding_of(padding)
        self.columns = {} if columns is None else dict(columns)

    def __repr__(self) -> str:
        return attributes_line(self)

    def __call__(self, samples: Sequence[Any], batch: Batch, rows: int) -> dict[str, Array]:
        """The arrays of a row: as for :class:`PadCollate`, with ``rows`` 1."""
        if batch.layout != "row":
            raise ValueError("the batch is padded: PackCollate needs rows, of sab.PackedSampler")
        _fields_of(samples, self.padding)
        made: dict[str, Array] = {}
        for field, padding in self.padding.items():
            values, dtype = _arrays_of(samples, field)
            if values[0].ndim == 0:
                raise ValueError(f"field {field!r} is a number: must have a length")
            length = _length(batch.padded_length, self.columns.get(field), field)
            array = np.full((length, *values[0].shape[1:]), padding, dtype)
            segments, positions = np.zeros((2, length), np.int32)
            for number, (begin, end, value) in enumerate(self._pieces(values, batch, field)):
                array[begin:end] = value
                segments[begin:end] = number + 1
                positions[begin:end] = np.arange(end - begin)
            made[field] = array[None]
            made[f"{field}_segment_ids"] = segments[None]
            made[f"{field}_positions"] = positions[None]
        return made

    def _pieces(
        self, values: list[Array], batch: Batch, field: str
    ) -> list[tuple[int, int, Array]]:
        """Where each piece of the row begins and ends, and its values. What its length is rounded
        up by is padding.
        """
        if batch.count == 0:
            return []
        column = self.columns.get(field, field)
        laid = _of_column(batch.cu_seqlens, column)
        true = _of_column(batch.cu_seqlens_unpadded, column)
        begins: list[int] = laid[:-1].tolist()
        lengths: list[int] = np.diff(laid if true is None else true).tolist()
        pieces: list[tuple[int, int, Array]] = []
        for place in range(batch.count):
            begin, value = begins[place], values[place]
            end = begin + lengths[place]
            if batch.starts is not None:
                start = int(batch.starts[place])
                value = value[start : start + end - begin]
            if len(value) != end - begin or value.shape[1:] != values[0].shape[1:]:
                due = end - begin, *values[0].shape[1:]
                _refuse(int(batch.indices[place]), values[place], field, due)
            pieces.append((begin, end, value))
        return pieces
