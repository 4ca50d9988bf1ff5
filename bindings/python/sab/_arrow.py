"""Sizes in Arrow arrays and streams, and in the files that pyarrow reads."""

from __future__ import annotations

import ctypes
import importlib
import pathlib
from typing import Any

from sab._native import CData, check, ffi, lib, new_options, path_bytes

TABLE_FORMATS = ("parquet", "arrow", "csv")
_MAGIC = {b"PAR1": "parquet", b"ARRO": "arrow"}
_ENDINGS = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".csv": "csv"}

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


def is_arrow(source: Any) -> bool:
    """Whether an object gives its data through Arrow's PyCapsule interface."""
    return any(
        hasattr(source, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "to_reader")
    )


def arrow_sizes(source: Any, column: str | None, words: bool, zero_nulls: bool) -> CData:
    """The handle of sizes in an Arrow object, which are not copied."""
    options = new_options("sab_sizes_arrow_options")
    options.nulls = lib.SAB_NULLS_ZERO if zero_nulls else lib.SAB_NULLS_REFUSE
    options.text_unit = lib.SAB_TEXT_WORDS if words else lib.SAB_TEXT_BYTES
    name = ffi.NULL if column is None else ffi.new("char[]", path_bytes(column, "column"))
    handle = ffi.new("sab_sizes **")
    if not hasattr(source, "__arrow_c_array__") and hasattr(source, "to_reader"):
        # Scanners of pyarrow have no method of the interface.
        source = source.to_reader()
    if hasattr(source, "__arrow_c_stream__"):
        capsule = source.__arrow_c_stream__()
        stream = _struct("struct ArrowArrayStream *", capsule, b"arrow_array_stream")
        check(lib.sab_sizes_arrow_stream_new(stream, name, options, handle))
    else:
        capsules = source.__arrow_c_array__()
        schema = _struct("struct ArrowSchema *", capsules[0], b"arrow_schema")
        array = _struct("struct ArrowArray *", capsules[1], b"arrow_array")
        check(lib.sab_sizes_arrow_new(array, schema, name, options, handle))
    return ffi.gc(handle[0], lib.sab_sizes_free)


def _struct(kind: str, capsule: object, name: bytes) -> CData:
    return ffi.cast(kind, _pointer_of(capsule, name))


def table_format(path: str, format: str | None) -> str | None:
    """The format of a file of columns; None for the formats that the library reads."""
    if format is not None:
        return format if format in TABLE_FORMATS else None
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
    except OSError:  # the library says why
        return None
    return _MAGIC.get(magic) or _ENDINGS.get(pathlib.PurePath(path).suffix)


def table_reader(path: str, format: str, column: str | None) -> Any:
    """A reader of the batches of a column, through pyarrow."""
    try:
        dataset: Any = importlib.import_module("pyarrow.dataset")
    except ImportError:
        raise ImportError(
            f"{path}: pyarrow is needed to read the format {format}: pip install pyarrow",
            name="pyarrow",
        ) from None
    table = dataset.dataset(path, format=format)
    names: list[str] = table.schema.names
    chosen = column if column in names else (column or "").split(".")[0]
    if column is None and len(names) == 1:
        chosen = names[0]
    if chosen not in names:
        raise ValueError(f"{path}: column = {column!r}: must be one of {', '.join(names)}")
    return table.scanner(columns=[chosen]).to_reader()
