"""What sizes are read from, and sizes in arrays and lists."""

from __future__ import annotations

import enum
import numbers
import os
import re
from collections.abc import Iterator, Mapping, Set, ValuesView
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from sab._arguments import brief, is_array, kind_of
from sab._data_sets import is_data_set
from sab._native import lib

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
# A text that is a number, as the library has it.
_NUMBER = re.compile(
    rb"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity)\s*", re.I
)
RULE = "must be the size of each sample, as an array or a list of numbers"
_ARROW = ("__arrow_c_stream__", "__arrow_c_array__", "to_reader")


class Kind(enum.Enum):
    """What sizes are read from."""

    COLUMNS = enum.auto()  # a dictionary of columns
    FILES = enum.auto()  # a path, a pattern or a list of paths
    FUNCTION = enum.auto()
    DATA_SET = enum.auto()  # of Hugging Face
    ARROW = enum.auto()  # what gives its data through Arrow's PyCapsule interface
    ARRAY = enum.auto()  # a list, or what numpy reads


def kind_of_source(source: Any, name: str = "sizes", rule: str = RULE) -> Kind:
    """What kind of sizes an object is. Refuses what is of none, or that has no order or can be read
    only once.
    """
    is_arrow = any(hasattr(source, each) for each in _ARROW)
    _refuse_no_sizes(source, is_arrow, name, rule)
    has_columns = hasattr(source, "column_names")
    is_function = callable(source) and not hasattr(source, "__array__")
    if isinstance(source, Mapping) and not (has_columns or is_arrow):
        return Kind.COLUMNS
    if _is_files(source):
        return Kind.FILES
    if is_function:
        return Kind.FUNCTION
    if _is_of_datasets(source) and is_data_set(source):
        return Kind.DATA_SET
    if is_arrow:
        return Kind.ARROW
    if not (has_columns or _is_of_datasets(source) or is_array(source)):
        raise TypeError(
            f"{name} is {kind_of(source)}: {rule}; make them with [len(s) for s in samples]"
        )
    return Kind.ARRAY


def _is_files(source: Any) -> bool:
    if isinstance(source, (list, tuple)):
        paths = cast("list[object]", source)
        return bool(paths) and all(isinstance(path, os.PathLike) for path in paths)
    return isinstance(source, (str, os.PathLike))


def _is_of_datasets(source: Any) -> bool:
    return type(source).__module__.startswith("datasets.")


def _refuse_no_sizes(source: Any, is_arrow: bool, name: str, rule: str) -> None:
    """Refuses what could be taken for sizes, but is none."""
    kind = kind_of(source)
    if source is None or isinstance(source, (numbers.Number, np.generic)) or _is_number(source):
        raise TypeError(f"{name} = {brief(source)}: {rule}")
    owner = source if isinstance(source, type) else type(source)
    if owner.__module__.partition(".")[0] == "sab":
        what = f"the class {owner.__name__}" if source is owner else f"a sab.{owner.__name__}"
        raise TypeError(f"{name} is {what}: {rule}")
    if isinstance(source, (Set, ValuesView)):
        raise TypeError(f"{name} is {kind}, which has no order: pass a list")
    if not is_arrow and isinstance(source, Iterator):
        raise TypeError(
            f"{name} is {kind}, which can be read only once: pass list({name}), or a function "
            "size(index) with count="
        )
    if _is_of_datasets(source) and hasattr(source, "_ex_iterable"):
        raise TypeError(
            f"{name} is an iterable data set, which has no length: pass a data set of "
            "load_dataset(streaming=False), or use sab.Stream.from_iterable()"
        )
    if isinstance(source, (bytes, bytearray)):
        raise TypeError(f"{name} is {kind}: {rule}; numpy.frombuffer() makes one")
    first = cast("list[Any]", source)[0] if isinstance(source, (list, tuple)) and source else None
    if isinstance(first, str) and len(first) < 4096 and "\0" not in first and os.path.isfile(first):
        raise ValueError(
            f"sizes[0] = {first!r} is the name of a file: pass pathlib.Path(name) for files; "
            "a list of str is a list of texts"
        )


def array_of(source: Any, column: str | None, unit: int, zero_nulls: bool) -> npt.NDArray[Any]:
    """The sizes in an object, as an array of one dimension."""
    if isinstance(source, Mapping):  # of data sets
        raise TypeError(f"sizes is {kind_of(cast('object', source))}: pass one of its values")
    if column is not None:
        raise TypeError(
            f"column = {column!r}: sizes of type {type(source).__name__} have no columns"
        )
    is_list = isinstance(source, (list, tuple))
    if is_list:
        lengths = _lengths_of_list(cast("list[Any]", source), unit, zero_nulls)
        if lengths is not None:
            return lengths
        _check_numbers(cast("list[Any]", source[:1]))
    if isinstance(source, np.ma.MaskedArray):
        source = _without_mask(source, zero_nulls)
    try:
        array = _as_array(source)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        _check_numbers(cast("list[Any]", source if is_list else []))
        raise TypeError(f"sizes is {kind_of(source)} that numpy cannot read: {error}") from error
    if is_list and (array.dtype.kind not in "biufc" or array.ndim != 1):
        _check_numbers(cast("list[Any]", source))
    if array.dtype.kind in "OUS" and array.ndim == 1 and not is_list:
        return array_of(array.tolist(), None, unit, zero_nulls)
    return _checked(array, is_given=isinstance(source, np.ndarray))


def _without_mask(source: Any, zero_nulls: bool) -> npt.NDArray[Any]:
    """The values of a masked array, with 0 in place of what is masked."""
    mask: Any = source.mask  # one False if nothing is masked
    masked = np.flatnonzero(np.broadcast_to(mask, source.shape))
    if masked.size and not zero_nulls:
        raise ValueError(f"sizes[{masked[0]}] is masked: nulls='zero' counts it as 0")
    values: npt.NDArray[Any] = source.filled(0) if masked.size else source.data
    return values


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
        raise ValueError(
            f"sizes has the shape {array.shape}: must have one dimension; several sizes a sample "
            "are a dictionary of columns, or a numpy array with a row a sample"
        )
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
            "array.astype(array.dtype.newbyteorder('='))"
        )
    return array


def _is_number(value: Any) -> bool:
    """Whether it is an array or a tensor of one number."""
    return not isinstance(value, type) and getattr(value, "ndim", None) == 0


def _check_numbers(source: list[Any] | tuple[Any, ...]) -> None:
    """Refuses a list whose elements are no numbers, such as one of samples."""
    for index, value in enumerate(source):
        if isinstance(value, numbers.Number) or value is None:
            continue
        if _is_number(value):
            continue
        shape = getattr(value, "shape", None)
        what, length = f"is {kind_of(value)}", "len(s)"
        if shape is not None:
            axis = 1 if len(shape) == 2 and shape[0] == 1 else 0
            what, length = f"has the shape {tuple(shape)}", f"s.shape[{axis}]"
        elif isinstance(value, Mapping):
            sample = cast("Mapping[object, Any]", value)
            key = next((each for each in sample if _is_list(sample[each])), None)
            length = "len(s)" if key is None else f"len(s[{key!r}])"
        raise TypeError(
            f"sizes[{index}] {what}: must be a number; pass [{length} for s in samples]"
        )


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, range)) or getattr(value, "ndim", None) == 1


def _lengths_of_list(
    source: list[Any] | tuple[Any, ...], unit: int, zero_nulls: bool
) -> npt.NDArray[Any] | None:
    """The lengths of lists or texts; None for a list of numbers."""
    first = next((value for value in source if value is not None), None)
    is_text = isinstance(first, (str, bytes))
    if not is_text and not _is_list(first):
        if any(value is None for value in source):
            _check_nulls(source, zero_nulls)
            return np.asarray([0 if value is None else value for value in source])
        return None
    lengths = np.zeros(len(source), np.float64 if is_text and _is_value(unit) else np.int64)
    doubt = unit == lib.SAB_TEXT_BYTES if is_text else True
    for index, value in enumerate(source):
        if value is None:
            _check_nulls(source, zero_nulls)
        elif is_text and isinstance(value, (str, bytes)):
            text = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            lengths[index] = _size_of_text(index, text, unit)
            doubt = doubt and (not text.strip() or _NUMBER.fullmatch(text) is not None)
        elif not is_text and _is_list(value):
            lengths[index] = len(value)
            doubt = doubt and len(value) == 1 and _is_list(value[0])
        else:
            raise TypeError(
                f"sizes[{index}] has type {type(value).__name__}: must be a "
                f"{'text' if is_text else 'list'}, as those before it"
            )
    if doubt:
        _refuse_doubtful(source)
    return lengths


def _is_value(unit: int) -> bool:
    return unit == lib.SAB_TEXT_VALUE


def _size_of_text(index: int, text: bytes, unit: int) -> float:
    if _is_value(unit):
        if _NUMBER.fullmatch(text) is None:
            raise ValueError(
                f"sizes[{index}] = {brief(text.decode(errors='replace'))}: must be a number"
            )
        return float(text)
    return len(text.split()) if unit == lib.SAB_TEXT_WORDS else len(text)


def _refuse_doubtful(source: list[Any] | tuple[Any, ...]) -> None:
    """Refuses texts that are all numbers, and lists that all hold a single list. Texts may be
    empty beside two numbers.
    """
    texts = [value for value in source if isinstance(value, (str, bytes))]
    has_empty = not all(text.strip() for text in texts)
    if texts and sum(bool(text.strip()) for text in texts) < 1 + has_empty:
        return
    for index, value in enumerate(source):
        if isinstance(value, (str, bytes)) and value.strip():
            raise ValueError(
                f"units = None: all texts are numbers, such as sizes[{index}] = {brief(value)}: "
                "units='value' reads them as numbers, units='bytes' counts their bytes"
            )
        if value is not None and not isinstance(value, (str, bytes)):
            raise TypeError(
                f"sizes[{index}] has the shape (1, {len(value[0])}): must be a list of values; "
                "pass [len(s[0]) for s in samples]"
            )


def _check_nulls(source: list[Any] | tuple[Any, ...], zero_nulls: bool) -> None:
    if not zero_nulls:
        index = next(index for index, value in enumerate(source) if value is None)
        raise ValueError(f"sizes[{index}] is None: nulls='zero' counts it as 0")
