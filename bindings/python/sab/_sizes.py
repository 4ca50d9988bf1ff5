"""Sizes of samples, from whatever holds them."""

from __future__ import annotations

import os
from typing import Any, Callable, Union

import numpy as np
import numpy.typing as npt

from sab._arguments import whole
from sab._native import Calls, Progress, check, ffi, lib, new_options, path_bytes, unpicklable

__all__ = ["Sizes"]

_DTYPES = {
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

SizesLike = Union["Sizes", npt.ArrayLike, str, "os.PathLike[str]", Callable[[int], float]]


def _is_array(sizes: object) -> bool:
    return isinstance(sizes, np.ndarray)


def _as_array(sizes: Any) -> npt.NDArray[Any]:
    if hasattr(sizes, "detach") and hasattr(sizes, "numpy"):  # a torch tensor
        array: npt.NDArray[Any] = sizes.detach().cpu().numpy()
    elif hasattr(sizes, "__dlpack__") and not _is_array(sizes):
        array = np.from_dlpack(sizes)
    else:
        array = np.asarray(sizes)
    if array.ndim != 1:
        raise ValueError(f"sizes has {array.ndim} dimensions: must have one")
    if array.size == 0 and not _is_array(sizes):
        array = array.astype(np.int64)
    if array.dtype.name not in _DTYPES:
        raise TypeError(
            f"sizes has dtype {array.dtype}: must be an integer of 1 to 8 bytes, float32 or float64"
        )
    if not array.dtype.isnative:
        raise ValueError(
            f"sizes has dtype {array.dtype.str}, which is not in this machine's byte order: use "
            "sizes.astype(sizes.dtype.newbyteorder('='))"
        )
    return array


class Sizes:
    """The size of each sample (tokens, residues, frames, seconds, nodes): finite, from 0 to 2**53.

    Args:
        sizes: a 1-D array, buffer, torch tensor, DLPack object or list, of any integer type,
            float32 or float64. It is borrowed, not copied, with any stride; keep it unchanged. Or
            the path of a ``.npy`` file, which is mapped. Do not truncate or overwrite a mapped
            file; to replace it, rename a new file over it. Or a function ``size(index)``.
        count: number of samples, with a function only.
        progress: True for a bar, or ``progress(done, total)``, with a function only.

    Raises:
        ValueError: for a size that breaks the rule, naming the index; TypeError: for another dtype;
            OSError, FormatError: for a file.

    >>> len(Sizes([3, 1, 2]))
    3
    """

    def __init__(
        self,
        sizes: SizesLike,
        *,
        count: int | None = None,
        progress: bool | Progress | None = None,
    ) -> None:
        handle = ffi.new("sab_sizes **")
        self._keep: Any = None
        calls = None
        if isinstance(sizes, (str, os.PathLike)):
            status = lib.sab_sizes_npy_new(path_bytes(os.fspath(sizes)), handle)
        elif callable(sizes) and not hasattr(sizes, "__array__"):
            if count is None:
                raise TypeError("count must be given with a function of sizes")
            count = whole("count", count)
            calls = Calls(size=sizes, progress=progress, what="sizes")
            status = lib.sab_sizes_callback_new(
                count, lib.sab_py_size, calls.handle, lib.sab_py_progress, calls.handle, handle
            )
        else:
            array = _as_array(sizes)
            options = new_options("sab_sizes_options")
            # A stride of 0 means dense to the library; numpy has it only for a broadcast scalar.
            if array.strides[0] == 0 and array.size > 1:
                array = np.ascontiguousarray(array)
            options.stride = array.strides[0]
            self._keep = array
            data = ffi.cast("void *", array.__array_interface__["data"][0])
            status = lib.sab_sizes_new(data, array.size, _DTYPES[array.dtype.name], options, handle)
        check(status, calls)
        self._handle = ffi.gc(handle[0], lib.sab_sizes_free)

    def __copy__(self) -> Sizes:
        return self  # immutable

    def __deepcopy__(self, memo: dict[int, Any]) -> Sizes:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        raise unpicklable(self, "pickle the array, list or path that it was made from")

    def __len__(self) -> int:
        return int(lib.sab_sizes_count(self._handle))

    def __getitem__(self, index: int) -> float:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"index = {index}: there are {count} sizes")
        size = ffi.new("double *")
        check(lib.sab_sizes_get(self._handle, index % count, size))
        return float(size[0])


def as_sizes(sizes: SizesLike) -> Sizes:
    return sizes if isinstance(sizes, Sizes) else Sizes(sizes)
