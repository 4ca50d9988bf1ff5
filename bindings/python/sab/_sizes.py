"""Sizes of samples, from whatever holds them."""

from __future__ import annotations

import glob
import os
from typing import Any, Callable, Literal, Union, cast

import numpy as np
import numpy.typing as npt

from sab._arguments import flag, one_of, whole
from sab._arrow import arrow_sizes, is_arrow, table_format, table_reader
from sab._native import (
    Calls,
    CData,
    Progress,
    check,
    ffi,
    lib,
    new_options,
    path_bytes,
    unpicklable,
)
from sab._sources import DTYPES, Nulls, arrays_of

__all__ = ["Sizes"]

Missing = Literal["error", "skip"]
_MISSING = {"error": lib.SAB_MISSING_REFUSE, "skip": lib.SAB_MISSING_SKIP}
SizesLike = Union["Sizes", npt.ArrayLike, str, "os.PathLike[str]", Callable[[int], float]]


class Sizes:
    """The size of each sample (tokens, residues, frames, seconds, nodes): finite, from 0 to 2**53.

    Args:
        source: one of these:

            - a 1-D array, buffer, torch tensor, DLPack object or list, of any integer or floating
              type. It is borrowed, not copied, with any stride; keep it unchanged. float16 and
              bfloat16 are copied;
            - a list of lists, whose sizes are their lengths, or a list of texts, whose sizes are
              their UTF-8 bytes;
            - an object with ``__arrow_c_array__`` or ``__arrow_c_stream__``: tables, arrays and
              scanners of pyarrow, data frames of polars and pandas, relations of DuckDB. Numbers
              are sizes; texts, binary values and lists have their lengths. Nothing is copied;
            - a Hugging Face data set, in the order of its shuffle and select;
            - the path of a file, a list of :class:`pathlib.Path`, or a pattern such as
              ``"sizes-*.npy"``. Several files are one data set. ``.npy`` files and the indexes of
              Megatron, fairseq and datatrove are mapped. JSON lines, numbers, texts and FASTA are
              read, also from gzip and Zstandard. Parquet, Arrow IPC and CSV need pyarrow.
              Do not truncate or overwrite a mapped file; to replace it, rename a new file over it;
            - a function ``size(index)``.
        column: the column of a data set or the field of JSON lines, ``"audio.frames"`` for a field
            of a struct.
        format: of a file, found from its content by default: ``"npy"``, ``"megatron"``,
            ``"fairseq"``, ``"datatrove"``, ``"jsonl"``, ``"numbers"``, ``"text"``, ``"fasta"``,
            ``"parquet"``, ``"arrow"``, ``"csv"``.
        words: True counts the words of texts: runs of bytes that are not ASCII white space.
        nulls: ``"error"`` refuses None and nulls, ``"zero"`` counts them as 0.
        missing: ``"error"`` refuses a JSON line without the field, ``"skip"`` leaves it out.
        count: number of samples, with a function only.
        progress: True for a bar, or ``progress(done, total)``, with a file or a function.

    Raises:
        ValueError: for a size that breaks the rule, naming the index; TypeError: for an object that
            cannot be read, saying what to pass; OSError, FormatError: for a file.

    >>> len(Sizes([3, 1, 2]))
    3
    >>> Sizes(["one", "two words"], words=True)[1]
    2.0
    """

    def __init__(
        self,
        source: SizesLike,
        *,
        column: str | None = None,
        format: str | None = None,
        words: bool = False,
        nulls: Nulls = "error",
        missing: Missing = "error",
        count: int | None = None,
        progress: bool | Progress | None = None,
    ) -> None:
        words = flag("words", words)
        self._keep: list[npt.NDArray[Any]] = []
        one_of("nulls", nulls, {"error": 0, "zero": 1})
        missing_rule = one_of("missing", missing, _MISSING)
        self._files: list[str] = _files_of(source)
        is_function = callable(source) and not hasattr(source, "__array__")
        if column is not None and is_function:
            raise ValueError(f"column = {column!r}: a function has no columns")
        if format is not None and not self._files:
            raise ValueError(f"format = {format!r}: is for files only")
        if self._files:
            parts = [
                _read(path, column, format, words, nulls, missing_rule, progress)
                for path in self._files
            ]
        elif is_function:
            parts = [_called(source, count, progress)]
        elif is_arrow(source):
            parts = [arrow_sizes(source, column, words, nulls == "zero")]
        else:
            self._keep = arrays_of(source, column, words, nulls)
            parts = [_borrowed(array) for array in self._keep]
        self._handle = parts[0] if len(parts) == 1 else _joined(parts)

    @property
    def description(self) -> str:
        """Text that says what the sizes were read from."""
        return ffi.string(lib.sab_sizes_description(self._handle)).decode(errors="replace")

    def source(self, index: int) -> tuple[str | int, int]:
        """Where a sample is: the file, or the number of the part, and the row in it.

        >>> Sizes([3, 1, 2]).source(1)
        (0, 1)
        """
        place = self._place(index)
        part, row = ffi.new("size_t *"), ffi.new("size_t *")
        check(lib.sab_sizes_source(self._handle, place, part, row))
        number = int(part[0])
        return self._files[number] if self._files else number, int(row[0])

    def __copy__(self) -> Sizes:
        return self  # immutable

    def __deepcopy__(self, memo: dict[int, Any]) -> Sizes:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        raise unpicklable(self, "pickle the array, list or path that it was made from")

    def __len__(self) -> int:
        return int(lib.sab_sizes_count(self._handle))

    def __getitem__(self, index: int) -> float:
        place = self._place(index)
        size = ffi.new("double *")
        check(lib.sab_sizes_get(self._handle, place, size))
        return float(size[0])

    def values(self) -> npt.NDArray[Any]:
        """The sizes as one array: of the caller's type if they are in memory, else float64."""
        if len(self._keep) == 1:
            return self._keep[0]
        if self._keep:
            return np.concatenate(self._keep)
        return np.array([self[index] for index in range(len(self))])

    def _place(self, index: int) -> int:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"index = {index}: there are {count} sizes")
        return index % count


def _files_of(source: Any) -> list[str]:
    """The names of files, if the source is a path, a pattern or a list of paths."""
    if isinstance(source, str):
        if not glob.has_magic(source) or os.path.exists(source):
            return [source]
        found = sorted(glob.glob(source, recursive=True))
        if not found:
            raise FileNotFoundError(f"no file matches {source!r}")
        return found
    if isinstance(source, os.PathLike):
        return [os.fsdecode(cast("os.PathLike[str]", source))]
    if not isinstance(source, (list, tuple)):
        return []
    values = cast("list[object]", source)
    if values and all(isinstance(value, os.PathLike) for value in values):
        return [os.fsdecode(cast("os.PathLike[str]", value)) for value in values]
    first = values[0] if values else None
    if isinstance(first, str) and len(first) < 4096 and "\0" not in first and os.path.isfile(first):
        raise ValueError(
            f"sizes[0] = {first!r} is the name of a file: pass pathlib.Path(name) for files; "
            "a list of str is a list of texts"
        )
    return []


def _owned(handle: CData) -> CData:
    return ffi.gc(handle[0], lib.sab_sizes_free)


def _read(
    path: str,
    column: str | None,
    format: str | None,
    words: bool,
    nulls: Nulls,
    missing: int,
    progress: bool | Progress | None,
) -> CData:
    table = table_format(path, format)
    if table is not None:
        return arrow_sizes(table_reader(path, table, column), column, words, nulls == "zero")
    options = new_options("sab_sizes_file_options")
    calls = Calls(progress=progress, what=f"reading {path}")
    for name, value in (("column", column), ("format", format)):
        if value is not None:
            if not isinstance(value, str):
                raise TypeError(f"{name} = {value!r}: must be a text")
            text = ffi.new("char[]", path_bytes(value, name))
            calls.kept.append(text)
            setattr(options, name, text)
    options.text_unit = lib.SAB_TEXT_WORDS if words else lib.SAB_TEXT_BYTES
    options.missing = missing
    options.progress, options.progress_ctx = lib.sab_py_progress, calls.handle
    handle = ffi.new("sab_sizes **")
    check(lib.sab_sizes_file_new(path_bytes(path), options, handle), calls)
    return _owned(handle)


def _called(size: Any, count: int | None, progress: bool | Progress | None) -> CData:
    if count is None:
        raise TypeError("count must be given with a function of sizes")
    calls = Calls(size=size, progress=progress, what="sizes")
    handle = ffi.new("sab_sizes **")
    status = lib.sab_sizes_callback_new(
        whole("count", count),
        lib.sab_py_size,
        calls.handle,
        lib.sab_py_progress,
        calls.handle,
        handle,
    )
    check(status, calls)
    return _owned(handle)


def _borrowed(array: npt.NDArray[Any]) -> CData:
    handle = ffi.new("sab_sizes **")
    options = new_options("sab_sizes_options")
    # A stride of 0 means dense to the library; numpy has it only for a broadcast scalar.
    options.copy = array.strides[0] == 0 and array.size > 1
    options.stride = array.strides[0]
    if options.copy:
        array = np.ascontiguousarray(array)
        options.stride = array.strides[0]
    data = ffi.cast("void *", array.__array_interface__["data"][0])
    check(lib.sab_sizes_new(data, array.size, DTYPES[array.dtype.name], options, handle))
    return _owned(handle)


def _joined(parts: list[CData]) -> CData:
    handle = ffi.new("sab_sizes **")
    check(lib.sab_sizes_join_new(ffi.new("sab_sizes *[]", parts), len(parts), handle))
    return _owned(handle)


def as_sizes(sizes: SizesLike) -> Sizes:
    return sizes if isinstance(sizes, Sizes) else Sizes(sizes)
