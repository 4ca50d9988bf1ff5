"""What sizes are read from: arrays, lists, columns of Hugging Face data sets."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Set
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from sab._native import lib

Nulls = Literal["error", "zero"]

DTYPES = {
    "int8": lib.SAB_INT8,
    "int16": lib.SAB_INT16,
    "int32": lib.SAB_INT32,
    "int64": lib.SAB_INT64,
    "uint8": lib.SAB_UINT8,
    "uint16": lib.SAB_UINT16,
    "uint32": lib.SAB_UINT32,
    "uint64": lib.SAB_UINT64,
    "float32": lib.SAB_FLOAT32,
    "float64": lib.SAB_FLOAT64,
}
_HALF = ("float16", "bfloat16")
_WORD = r"[^\t\n\v\f\r ]+"


def arrays_of(source: Any, column: str | None, words: bool, nulls: Nulls) -> list[npt.NDArray[Any]]:
    """The sizes in an object, as arrays of one dimension, one after the other."""
    found = _data_set_of(source, column)
    if found is not None:
        return _lengths_of_rows(*found, words, nulls)
    _refuse(source)
    if column is not None:
        raise TypeError(
            f"column = {column!r}: sizes of type {type(source).__name__} have no columns"
        )
    if isinstance(source, (list, tuple)):
        lengths = _lengths_of_list(cast("list[Any]", source), words, nulls)
        if lengths is not None:
            return [lengths]
    array = _as_array(source)
    if array.dtype.kind in "OUS" and array.ndim == 1 and not isinstance(source, (list, tuple)):
        return arrays_of(array.tolist(), None, words, nulls)
    return [_checked(array, is_given=isinstance(source, np.ndarray))]


def _refuse(source: Any) -> None:
    """Raises for an object that cannot be read several times, or not in an order."""
    kind = type(source).__name__
    if isinstance(source, Mapping):
        keys: list[object] = list(cast("Mapping[object, object]", source))
        names = ", ".join(map(repr, keys[:5]))
        raise TypeError(
            f"sizes is a {kind}: pass one of its values, such as sizes[name] of {names}"
        )
    if isinstance(source, Set):
        raise TypeError(f"sizes is a {kind}, which has no order: pass a list")
    if isinstance(source, Iterator):
        raise TypeError(
            f"sizes is a {kind}, which can be read only once: pass list(sizes), or a function "
            "size(index) with count="
        )
    if type(source).__module__.startswith("datasets.") and hasattr(source, "_ex_iterable"):
        raise TypeError(
            "sizes is an iterable data set, which has no length: pass a data set of "
            "load_dataset(streaming=False), or use sab.Stream"
        )


def _as_array(source: Any) -> npt.NDArray[Any]:
    if hasattr(source, "detach") and hasattr(source, "numpy"):  # a torch tensor
        tensor = source.detach().cpu()
        if str(tensor.dtype) in ("torch.float16", "torch.bfloat16"):
            tensor = tensor.float()
        array: npt.NDArray[Any] = tensor.numpy()
    elif hasattr(source, "__dlpack__") and not isinstance(source, np.ndarray):
        array = np.from_dlpack(source)
    else:
        array = np.asarray(cast("object", source))
    return array


def _checked(array: npt.NDArray[Any], is_given: bool) -> npt.NDArray[Any]:
    if array.ndim != 1:
        raise ValueError(f"sizes has {array.ndim} dimensions: must have one")
    if array.size == 0 and not is_given:
        array = array.astype(np.int64)
    if array.dtype.name in _HALF:
        array = array.astype(np.float32)
    if array.dtype.name not in DTYPES:
        raise TypeError(
            f"sizes has dtype {array.dtype}: must be an integer of 1 to 8 bytes, float16, "
            "bfloat16, float32 or float64"
        )
    if not array.dtype.isnative:
        raise ValueError(
            f"sizes has dtype {array.dtype.str}, which is not in this machine's byte order: use "
            "sizes.astype(sizes.dtype.newbyteorder('='))"
        )
    return array


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, range)) or getattr(value, "ndim", None) == 1


def _lengths_of_list(
    source: list[Any] | tuple[Any, ...], words: bool, nulls: Nulls
) -> npt.NDArray[Any] | None:
    """The lengths of lists or texts; None for a list of numbers."""
    first = next((value for value in source if value is not None), None)
    is_text = isinstance(first, (str, bytes))
    if not is_text and not _is_list(first):
        if any(value is None for value in source):
            _refuse_null(source, nulls)
            return np.asarray([0 if value is None else value for value in source])
        return None
    lengths = np.zeros(len(source), np.int64)
    for index, value in enumerate(source):
        if value is None:
            _refuse_null(source, nulls)
        elif is_text and isinstance(value, (str, bytes)):
            text = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            lengths[index] = len(text.split()) if words else len(text)
        elif not is_text and _is_list(value):
            lengths[index] = len(value)
        else:
            raise TypeError(
                f"sizes[{index}] has type {type(value).__name__}: must be a "
                f"{'text' if is_text else 'list'}, as those before it"
            )
    return lengths


def _refuse_null(source: list[Any] | tuple[Any, ...], nulls: Nulls) -> None:
    if nulls == "error":
        index = next(index for index, value in enumerate(source) if value is None)
        raise ValueError(f"sizes[{index}] is None: nulls='zero' counts it as 0")


def _data_set_of(source: Any, column: str | None) -> tuple[Any, str] | None:
    """The Hugging Face data set and the path of the column that an object stands for, if it is
    one.
    """
    if not type(source).__module__.startswith("datasets."):
        return None
    names: list[str] = [] if column is None else [column]
    while hasattr(source, "column_name"):  # datasets.Column, what dataset["name"] gives
        names.insert(0, source.column_name)
        source = source.source
    if not hasattr(source, "_indices"):
        return None
    if not names:
        choice = ", ".join(source.column_names)
        if len(source.column_names) != 1:
            raise ValueError(f"column: must be given for a data set with the columns {choice}")
        names = list(source.column_names)
    return source, ".".join(names)


def _lengths_of_rows(
    data_set: Any, column: str, words: bool, nulls: Nulls
) -> list[npt.NDArray[Any]]:
    """The sizes in a column of a Hugging Face data set, in its order. Formats and transforms are
    not applied.
    """
    pa: Any = importlib.import_module("pyarrow")
    pc: Any = importlib.import_module("pyarrow.compute")

    found: Any = data_set.data.table
    name, *fields = column.split(".") if column not in found.column_names else [column]
    if name not in found.column_names:
        choice = ", ".join(found.column_names)
        raise ValueError(f"column = {column!r}: the data set has the columns {choice}")
    found = found.column(name)
    for field in fields:
        if not pa.types.is_struct(found.type) or found.type.get_field_index(field) < 0:
            raise ValueError(f"column = {column!r}: there is no field {field!r} in {found.type}")
        found = pc.struct_field(found, field)
    kind = found.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        count = pc.count_substring_regex if words else pc.binary_length
        found = count(found, _WORD) if words else count(found)
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        found = pc.binary_length(found)
    elif (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        found = pc.list_value_length(found)
    elif not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
        raise TypeError(f"column = {column!r} has type {kind}: must be numbers, texts or lists")
    if data_set._indices is not None:
        rows = data_set._indices.column(0).combine_chunks()
        found = pa.chunked_array([found.combine_chunks().take(rows)])
    if found.null_count:
        if nulls == "error":
            row = pc.index(pc.is_null(found), True).as_py()
            raise ValueError(f"column = {column!r}: row {row} is null; nulls='zero' counts it as 0")
        found = pc.fill_null(found, 0)
    return [_checked(chunk.to_numpy(zero_copy_only=False), True) for chunk in found.chunks]
