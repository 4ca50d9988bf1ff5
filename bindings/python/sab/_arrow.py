"""Sizes in Arrow arrays and streams."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sab._native import Calls, CData, check, ffi, lib, new_struct, path_bytes

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


class ArrowStream(Protocol):
    """What gives its columns as a stream of Arrow arrays: tables, data frames, relations."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """What gives itself as one Arrow array: arrays, record batches."""

    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...


def arrow_sizes(
    source: Any, column: str | None, unit: int, zero_nulls: bool, calls: Calls | None = None
) -> CData:
    """The handle of sizes in an Arrow object, which are not copied."""
    options = new_struct("sab_sizes_arrow_options")
    options.nulls = lib.SAB_NULLS_ZERO if zero_nulls else lib.SAB_NULLS_REFUSE
    options.text_unit = unit
    name = ffi.NULL if column is None else ffi.new("char[]", path_bytes(column, "column"))
    handle = ffi.new("sab_sizes **")
    if not hasattr(source, "__arrow_c_array__") and hasattr(source, "to_reader"):
        # Scanners of pyarrow have no method of the interface.
        source = source.to_reader()
    if hasattr(source, "__arrow_c_stream__"):
        capsule = source.__arrow_c_stream__()
        stream = _struct("struct ArrowArrayStream *", capsule, b"arrow_array_stream")
        check(lib.sab_sizes_arrow_stream_new(stream, name, options, handle), calls)
    else:
        capsules = source.__arrow_c_array__()
        schema = _struct("struct ArrowSchema *", capsules[0], b"arrow_schema")
        array = _struct("struct ArrowArray *", capsules[1], b"arrow_array")
        check(lib.sab_sizes_arrow_new(array, schema, name, options, handle), calls)
    return ffi.gc(handle[0], lib.sab_sizes_free)


def _struct(kind: str, capsule: object, name: bytes) -> CData:
    return ffi.cast(kind, _pointer_of(capsule, name))


def values_of(handle: CData, first: int, count: int) -> npt.NDArray[np.float64]:
    """Copies of some sizes of a handle of one column."""
    values = np.empty(count)
    room = ffi.cast("double *", values.__array_interface__["data"][0])
    check(lib.sab_sizes_get(handle, first, count, room))
    return values
