"""Sizes of samples, from whatever holds them."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Literal, NamedTuple, Protocol, Union, cast, overload

import numpy as np
import numpy.typing as npt

from sab._arguments import brief, elements, flag, kind_of, one_of, place_of, whole
from sab._arrow import ArrowArray, ArrowStream, arrow_sizes, values_of
from sab._cost import ONE_COLUMN
from sab._data_sets import data_set_sizes
from sab._display import one_line
from sab._native import (
    Calls,
    CData,
    Progress,
    check,
    ffi,
    lib,
    new_struct,
    path_bytes,
    unpicklable,
)
from sab._sources import DTYPES, RULE, Kind, array_of, kind_of_source
from sab._tables import table_format, table_sizes

__all__ = ["Sizes"]

Units = Literal["bytes", "words", "value"]
_UNITS = {
    "bytes": lib.SAB_TEXT_ALL_BYTES,
    "words": lib.SAB_TEXT_WORDS,
    "value": lib.SAB_TEXT_VALUE,
}
Missing = Literal["error", "skip"]
_MISSING = {"error": lib.SAB_MISSING_REFUSE, "skip": lib.SAB_MISSING_SKIP}
Nulls = Literal["error", "zero"]
_NULLS = {"error": 0, "zero": 1}


class _How(NamedTuple):
    """How sizes are read: the options of :class:`Sizes`, with the constants of C."""

    column: str | None = None
    format: str | None = None
    unit: int = lib.SAB_TEXT_BYTES
    zero_nulls: bool = False
    missing: int = lib.SAB_MISSING_REFUSE
    samples: int | None = None
    progress: bool | Progress | None = None


class DataSet(Protocol):
    """A data set with columns, as those of Hugging Face."""

    @property
    def column_names(self) -> Any: ...
    def __len__(self) -> int: ...


SizesLike = Union[
    "Sizes",
    npt.ArrayLike,
    ArrowStream,
    ArrowArray,
    DataSet,
    str,
    "os.PathLike[str]",
    "Sequence[os.PathLike[str]]",
    Callable[[int], float],
    "Mapping[str, SizesLike]",
]


class Sizes:
    """The size of each sample (tokens, residues, frames, seconds, nodes): finite, from 0 to 2**53.

    Args:
        source: one of these:

            - a 1-D array, buffer, torch tensor, DLPack object or list, of any integer or floating
              type. It is borrowed, not copied, with any stride; keep it unchanged. float16 and
              bfloat16 are copied;
            - a list of lists, whose sizes are their lengths, or a list of texts, whose sizes are
              their UTF-8 bytes. Lists that all hold a single list are refused;
            - an object with ``__arrow_c_array__`` or ``__arrow_c_stream__``: tables, arrays and
              scanners of pyarrow, data frames of polars and pandas, relations of DuckDB. Numbers
              are sizes; texts, binary values and lists have their lengths. Nothing is copied;
            - a Hugging Face data set, in the order of its shuffle and select;
            - the path of a file, a list of :class:`pathlib.Path`, or a pattern such as
              ``"sizes-*.npy"``. Several files are one data set. ``.npy`` files and the indexes of
              Megatron, fairseq and datatrove are mapped. JSON lines, numbers, texts, FASTA, and
              ``utt2dur`` and ``utt2num_frames`` of Kaldi, ``speech_shape`` and ``text_shape`` of
              ESPnet are read, also from gzip and Zstandard.
              Parquet, Arrow IPC (mapped) and CSV, also with
              tabs (``.tsv``) or compressed, need pyarrow. ``"-"`` is standard input; CSV from it is
              copied to a temporary file. Do not truncate or overwrite a mapped file; to replace
              it, rename a new file over it;
            - a function ``size(index)``;
            - a dictionary of columns for samples with several sizes, such as ``{"source": s,
              "target": t}``, with any of these as values; or a 2-D array, whose columns are named
              ``"0"``, ``"1"`` and so on.
        columns: the columns of a data set or file, for samples with several sizes.
        column: the column of a data set or the field of JSON lines, ``"audio.frames"`` for a field
            of a struct.
        format: of a file, found from its content by default: ``"npy"``, ``"megatron"``,
            ``"fairseq"``, ``"datatrove"``, ``"jsonl"``, ``"numbers"``, ``"text"``, ``"kaldi"``,
            ``"fasta"``, ``"parquet"``, ``"arrow"``, ``"csv"``.
        words: True counts the words of texts: runs of bytes that are not ASCII white space.
        units: what the size of a text is: ``"bytes"``, ``"words"``, or ``"value"``, the number
            that it is, such as ``"3.25"``. None: its bytes, or its words with ``words``; texts
            that are all numbers are refused then.
        nulls: ``"error"`` refuses None, nulls and masked values, ``"zero"`` counts them as 0.
        missing: ``"error"`` refuses a JSON line without the field, ``"skip"`` leaves it out.
        count: number of samples, with a function only.
        progress: True for a bar, or ``progress(done, total)``, with a file or a function.

    Raises:
        ValueError: for a size that breaks the rule, naming the index, and for a file without a
            sample; TypeError: for an object that cannot be read, saying what to pass; OSError,
            FormatError: for a file.

    >>> len(Sizes([3, 1, 2]))
    3
    >>> Sizes(["one", "two words"], words=True)[1]
    2.0
    """

    _handle: CData

    def __init__(
        self,
        source: SizesLike,
        *,
        columns: Sequence[str] | None = None,
        column: str | None = None,
        format: str | None = None,
        words: bool = False,
        units: Units | None = None,
        nulls: Nulls = "error",
        missing: Missing = "error",
        count: int | None = None,
        progress: bool | Progress | None = None,
    ) -> None:
        if isinstance(source, Sizes):
            if _info_of(source._handle).sources:
                raise TypeError("sizes is a sab.Mixture: pass it as it is, in the place of sizes")
            source = source._parts or source.values()
        kind = kind_of_source(source)
        for name, value in (("column", column), ("format", format)):
            if not (value is None or isinstance(value, str)):
                raise TypeError(f"{name} = {brief(value)}: must be a text")
        how = _How(
            column,
            format,
            _unit_of(flag("words", words), units),
            bool(one_of("nulls", nulls, _NULLS)),
            one_of("missing", missing, _MISSING),
            count,
            progress,
        )
        self._read(source, kind, how, columns)

    def _read(
        self, source: Any, kind: Kind, how: _How, columns: Sequence[str] | None = None
    ) -> None:
        """Makes the handle, and what belongs to it."""
        self._keep: npt.NDArray[Any] | None = None  # what the handle borrows
        self._description: str | None = None  # in place of that of the handle
        self._files: list[str] = []
        self._parts: dict[str, Sizes] = {}  # the columns, if they have names
        named = _columns_of(source, kind, columns, how.column)
        if named is not None:
            self._parts = {
                name: _column_of(name, each, None if of is None else kind, how._replace(column=of))
                for name, (each, of) in named.items()
            }
            self._handle = _together(self._parts)
            return
        if how.column is not None and kind is Kind.FUNCTION:
            raise ValueError(f"column = {how.column!r}: a function has no columns")
        if how.format is not None and kind is not Kind.FILES:
            raise ValueError(f"format = {how.format!r}: is for files only")
        if kind is Kind.FILES:
            self._files = files_of(source)
            made = [_read_file(path, how) for path in self._files]
            self._handle = made[0][0] if len(made) == 1 else _joined([part for part, _ in made])
            self._description = made[0][1] if len(made) == 1 else None
        elif kind is Kind.FUNCTION:
            self._handle = _called(source, how.samples, how.progress)
        elif kind is Kind.DATA_SET:
            self._handle = data_set_sizes(source, how.column, how.unit, how.zero_nulls)
        elif kind is Kind.ARROW:
            self._handle = arrow_sizes(source, how.column, how.unit, how.zero_nulls)
        else:
            self._keep = array_of(source, how.column, how.unit, how.zero_nulls)
            self._handle = _borrowed(self._keep)

    @classmethod
    def _of(cls, source: Any, kind: Kind, how: _How) -> Sizes:
        """The sizes in an object of this kind."""
        made = cls.__new__(cls)
        made._read(source, kind, how)
        return made

    @classmethod
    def _of_files(cls, parts: list[Sizes]) -> Sizes:
        """The sizes of files, of which each was read."""
        if len(parts) == 1:
            return parts[0]
        joined = cls.__new__(cls)
        joined._keep = joined._description = None
        joined._parts = {}
        joined._files = [name for part in parts for name in part._files]
        joined._handle = _joined([part._handle for part in parts])
        return joined

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns; ``("",)`` for one column without a name.

        >>> Sizes({"source": [3, 1], "target": [2, 2]}).columns
        ('source', 'target')
        """
        return tuple(self._parts) or ONE_COLUMN

    def column(self, name: str) -> Sizes:
        """The sizes of a column."""
        if name not in self._parts:
            if not self._parts:
                raise KeyError(f"column {name!r}: the sizes have no named columns")
            raise KeyError(f"column {name!r}: the columns are {', '.join(map(repr, self._parts))}")
        return self._parts[name]

    @property
    def description(self) -> str:
        """Text that says what the sizes were read from."""
        text = ffi.string(_info_of(self._handle).description).decode(errors="replace")
        return text if self._description is None else self._description

    def source(self, index: int) -> tuple[str | int, int]:
        """Where a sample is: the file, or the number of the part, and the row in it.

        >>> Sizes([3, 1, 2]).source(1)
        (0, 1)
        """
        place = place_of("index", index, len(self), f"there are {len(self)} sizes")
        part, row = ffi.new("size_t *"), ffi.new("size_t *")
        check(lib.sab_sizes_locate(self._handle, place, part, row))
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

    def __repr__(self) -> str:
        return one_line(self, [self.description])

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> npt.NDArray[np.float64]: ...
    def __getitem__(self, index: int | slice) -> float | npt.NDArray[np.float64]:
        """The size of a sample, or the sizes of a slice as an array."""
        if len(self.columns) > 1:
            raise TypeError("sizes have several columns: use sizes.column(name)[index]")
        if isinstance(index, slice):
            chosen = range(len(self))[index]
            if not chosen:
                return np.empty(0)
            first, last = min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1])
            return values_of(self._handle, first, last - first + 1)[:: chosen.step]
        place = place_of("index", index, len(self), f"there are {len(self)} sizes")
        size = ffi.new("double *")
        check(lib.sab_sizes_get(self._handle, place, 1, size))
        return float(size[0])

    def values(self) -> npt.NDArray[Any]:
        """The sizes as one array: of the caller's type if they are in memory, else float64. Several
        columns are those of a 2-D array.
        """
        if self._parts:
            each = [part.values() for part in self._parts.values()]
            return each[0] if len(each) == 1 else np.stack(each, axis=1)
        if self._keep is not None:
            return self._keep
        return values_of(self._handle, 0, len(self))


def _unit_of(words: bool, units: str | None) -> int:
    """The constant of C for the size of a text."""
    if units is None:
        return int(lib.SAB_TEXT_WORDS if words else lib.SAB_TEXT_BYTES)
    if words and units != "words":
        raise ValueError(f"units = {units!r}: must not be given with words=True")
    return int(one_of("units", units, _UNITS))


def _columns_of(
    source: Any, kind: Kind, columns: Sequence[str] | None, column: str | None
) -> dict[str, tuple[Any, str | None]] | None:
    """What each column is read from, and its name there; None for sizes of one column."""
    if kind is Kind.COLUMNS:
        given = dict(cast("Mapping[object, object]", source))
        for name in given:
            if not isinstance(name, str) or not name or "\0" in name:
                raise TypeError(f"sizes has the key {name!r}: the name of a column must be a text")
            if any("\ud800" <= character <= "\udfff" for character in name):
                raise ValueError(f"sizes has the key {name!r}: must not have a lone surrogate")
        named: dict[str, tuple[Any, str | None]] = {str(k): (v, None) for k, v in given.items()}
        if not named:
            raise ValueError("sizes = {}: must have at least one column")
    elif columns is not None:
        names = elements("columns", columns)
        if not all(isinstance(name, str) for name in names):
            raise TypeError(f"columns = {brief(columns)}: must be a list of names")
        named = {name: (source, name) for name in columns}
        if len(named) != len(columns) or not named:
            raise ValueError(f"columns = {columns!r}: must be at least one name, no two the same")
        columns = None
    elif isinstance(source, np.ndarray) and cast("npt.NDArray[Any]", source).ndim == 2:
        table = cast("npt.NDArray[Any]", source)
        named = {str(j): (table[:, j], None) for j in range(table.shape[1])}
        if not named:
            raise ValueError("sizes has the shape (samples, 0): must have at least one column")
    else:
        return None
    if columns is not None or column is not None:
        name = "column" if columns is None else "columns"
        raise ValueError(f"{name} = {columns or column!r}: sizes are columns already")
    if len(named) > lib.SAB_MAX_COLUMNS:
        raise ValueError(f"sizes has {len(named)} columns: must have at most {lib.SAB_MAX_COLUMNS}")
    return named


def _column_of(name: str, source: Any, kind: Kind | None, how: _How) -> Sizes:
    """The sizes of a column. Without a kind the source is the column, whose kind is not known."""
    if kind is None and not isinstance(source, Sizes):
        kind = kind_of_source(source, f"sizes[{name!r}]")
        dimensions = getattr(source, "ndim", 1)
        if isinstance(dimensions, int) and dimensions not in (1, 2):  # a table may have one column
            raise ValueError(f"sizes[{name!r}] has {dimensions} dimensions: must have one")
    made = source if kind is None else Sizes._of(source, kind, how)
    if len(made.columns) > 1:
        raise ValueError(f"sizes[{name!r}] has {len(made.columns)} columns: must have one")
    return made


def _info_of(handle: CData) -> CData:
    info = new_struct("sab_sizes_info")
    check(lib.sab_sizes_get_info(handle, info))
    return info


def _together(parts: dict[str, Sizes]) -> CData:
    """The handle of named columns."""
    first = next(iter(parts))
    for name, part in parts.items():
        if len(part) != len(parts[first]):
            raise ValueError(
                f"sizes[{name!r}] has {len(part)} samples: must have as many as "
                f"sizes[{first!r}], {len(parts[first])}"
            )
    handle = ffi.new("sab_sizes **")
    columns = ffi.new("sab_sizes *[]", [part._handle for part in parts.values()])
    texts = [ffi.new("char[]", name.encode()) for name in parts]
    check(lib.sab_sizes_columns_new(columns, ffi.new("char *[]", texts), len(texts), handle))
    return owned(handle)


def files_of(source: str | os.PathLike[str] | Sequence[os.PathLike[str]]) -> list[str]:
    """The names of the files of a path, a pattern or a list of paths."""
    if isinstance(source, str):
        if not glob.has_magic(source) or os.path.exists(source):
            return [source]
        found = sorted(glob.glob(source, recursive=True))
        if not found:
            raise FileNotFoundError(f"no file matches {source!r}")
        return found
    if isinstance(source, os.PathLike):
        return [_name_of(source)]
    return [_name_of(path) for path in source]


def _name_of(path: os.PathLike[str]) -> str:
    """The name of a file; of one called "-", a name that is not standard input."""
    name = os.fsdecode(path)
    return os.path.join(".", "-") if name == "-" else name


def owned(handle: CData) -> CData:
    """A new handle, which is freed when it is collected."""
    return ffi.gc(handle[0], lib.sab_sizes_free)


def _read_file(path: str, how: _How) -> tuple[CData, str | None]:
    """The handle of the sizes in a file, and its description if the handle does not have it."""
    calls = Calls(progress=how.progress, what=f"reading {path}")
    if path != "-" and os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise ValueError(f'{path}: is not a regular file; read a pipe as "-", the standard input')
    table = table_format(path, how.format)
    if table is not None:
        handle, description = table_sizes(path, table, how.column, how.unit, how.zero_nulls, calls)
    else:
        handle = _read_by_library(path, how, calls)
        description = None
    if lib.sab_sizes_count(handle) == 0:
        raise ValueError(f"{path}: has no sample")
    return handle, description


def _read_by_library(path: str, how: _How, calls: Calls) -> CData:
    options = calls.options("sab_sizes_file_options")
    for name, value in (("column", how.column), ("format", how.format)):
        if value is not None:
            text = ffi.new("char[]", path_bytes(value, name))
            calls.kept.append(text)
            setattr(options, name, text)
    options.text_unit = how.unit
    options.missing = how.missing
    options.nulls = lib.SAB_NULLS_ZERO if how.zero_nulls else lib.SAB_NULLS_REFUSE
    handle = ffi.new("sab_sizes **")
    check(lib.sab_sizes_file_new(path_bytes(path), options, handle), calls)
    return owned(handle)


def _called(size: Any, count: int | None, progress: bool | Progress | None) -> CData:
    if count is None:
        raise TypeError(
            f"sizes is {kind_of(size)}: count must be given with a function of sizes, as "
            "in sab.Sizes(function, count=n)"
        )
    calls = Calls(size=size, progress=progress, what="sizes")
    handle = ffi.new("sab_sizes **")
    count = whole("count", count)
    status = lib.sab_sizes_callback_new(
        count, lib.sab_py_size, calls.handle, calls.options(), handle
    )
    check(status, calls)
    return owned(handle)


def _borrowed(array: npt.NDArray[Any]) -> CData:
    handle = ffi.new("sab_sizes **")
    options = new_struct("sab_sizes_options")
    # A stride of 0 means dense to the library; numpy has it only for a broadcast scalar.
    options.copy = array.strides[0] == 0 and array.size > 1
    options.stride = array.strides[0]
    if options.copy:
        array = np.ascontiguousarray(array)
        options.stride = array.strides[0]
    data = ffi.cast("void *", array.__array_interface__["data"][0])
    check(lib.sab_sizes_new(data, array.size, DTYPES[array.dtype.name], options, handle))
    return owned(handle)


def _joined(parts: list[CData]) -> CData:
    handle = ffi.new("sab_sizes **")
    check(lib.sab_sizes_join_new(ffi.new("sab_sizes *[]", parts), len(parts), handle))
    return owned(handle)


def as_sizes(sizes: SizesLike, name: str = "sizes", rule: str = RULE) -> Sizes:
    """The sizes that a caller gave as an argument with this name."""
    if isinstance(sizes, Sizes):
        return sizes
    kind = kind_of_source(sizes, name, rule)
    try:
        return Sizes._of(sizes, kind, _How())
    except ValueError as error:
        if "units = None: " in str(error):
            raise ValueError(f"{error}; pass sab.Sizes({name}, units='value')") from None
        missing, _, rule = str(error).partition("column = None: ")
        if missing or not rule:
            raise
        raise ValueError(
            f"{name} has columns: pass sab.Sizes({name}, column=name), whose name {rule}"
        ) from None
