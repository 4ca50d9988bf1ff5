"""Sizes in columns of Parquet, Arrow IPC and CSV, which pyarrow reads, and of data sets."""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, Protocol

from sab._arrow import arrow_sizes
from sab._native import Calls, Cancelled, CData, FormatError, lib

TABLE_FORMATS = ("parquet", "arrow", "csv")
_MAGIC = {b"PAR1": "parquet", b"ARRO": "arrow", b"\xff\xff\xff\xff": "arrow"}
_ENDINGS = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".tsv": "csv",
}
_MEASURES = {
    lib.SAB_TEXT_BYTES: "sizes in bytes",
    lib.SAB_TEXT_ALL_BYTES: "sizes in bytes",
    lib.SAB_TEXT_WORDS: "sizes in words",
    lib.SAB_TEXT_VALUE: "values",
}
_TITLES = {"parquet": "Parquet", "arrow": "Arrow IPC", "csv": "CSV"}


class Leaf(NamedTuple):
    """A column of numbers, texts or lists: its type, and the names that lead to it."""

    type: Any
    path: tuple[str, ...]

    def of(self, array: Any) -> Any:
        """The column in the array that has the first name."""
        for name in self.path[1:]:
            array = importlib.import_module("pyarrow.compute").struct_field(array, name)
        return array


class _Table(Protocol):
    """A file that is open."""

    schema: Any

    def batches(self, leaf: Leaf) -> Iterator[Any]:
        """The rows, with this column at least."""
        ...

    def done(self, rows: int) -> tuple[int, int]:
        """The bytes that were read when these rows were, and those of the file; 0: unknown."""
        ...


def table_format(path: str, format: str | None) -> str | None:
    """The format of a file of columns; None for the formats that the library reads."""
    if format is not None:
        return format if format in TABLE_FORMATS else None
    if path == "-":  # a look into a pipe takes bytes out of it
        return None
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
    except OSError:  # the library says why
        return None
    return _MAGIC.get(magic) or _ENDINGS.get(_ending(path))


def _ending(path: str) -> str:
    """The end of the name, in lower case; of a compressed CSV file, what is before .gz."""
    *_, inner, last = ["", "", *pathlib.PurePath(path.lower()).suffixes]
    return inner if last in (".gz", ".zst") and _ENDINGS.get(inner) == "csv" else last


def table_sizes(
    path: str, format: str, column: str | None, unit: int, zero_nulls: bool, calls: Calls
) -> tuple[CData, str]:
    """The handle of the sizes in a column of a file, and text that says what they were read from.
    Of texts and lists only the lengths are kept.
    """
    try:
        pa: Any = importlib.import_module("pyarrow")
    except ImportError:
        raise ImportError(
            f"{path}: pyarrow is needed to read the format {format}: pip install pyarrow",
            name="pyarrow",
        ) from None
    if path != "-":
        os.stat(path)  # raises the error that names the file
    try:
        with contextlib.ExitStack() as opened:
            table = _OPENERS[format](pa, path, opened)
            leaf = find_leaf(table.schema, column)
            name = ".".join(leaf.path)
            reader = _reader(pa, table, leaf, name, unit, calls)
            handle = arrow_sizes(reader, name, unit, zero_nulls, calls)
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "filename", None) is not None:
            raise
        raise FormatError(f"{path}: {str(error).splitlines()[0]}") from None
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    what = f", {_MEASURES[unit]}" if _noun(pa, leaf.type) == "text" else ""
    count = int(lib.sab_sizes_count(handle))
    nouns = f"{_noun(pa, leaf.type)}{'' if count == 1 else 's'}"
    return handle, f'{_TITLES[format]}, column "{name}"{what}: {count:,} {nouns}'


def find_leaf(schema: Any, column: str | None) -> Leaf:
    """The column with a path such as "audio.frames", or the only one; an error that names the
    columns if there is none.
    """
    if column is None and len(schema.names) == 1:
        column = schema.names[0]
    leaf = None if column is None else _find(list(schema), column)
    if leaf is None:
        rule = f"must be one of {', '.join(_paths(list(schema)))}"
        raise ValueError(f"column = {column!r}: {rule}")
    return leaf


def _find(fields: list[Any], column: str) -> Leaf | None:
    named = [field for field in fields if field.name == column]
    if len(named) > 1:
        raise ValueError(f"column = {column!r}: {len(named)} columns have this name")
    if named and not _children(named[0]):
        return Leaf(named[0].type, (named[0].name,))
    for field in fields:
        if column.startswith(f"{field.name}."):  # names may have dots
            leaf = _find(_children(field), column[len(field.name) + 1 :])
            if leaf is not None:
                return Leaf(leaf.type, (field.name, *leaf.path))
    return None


def _children(field: Any) -> list[Any]:
    types: Any = importlib.import_module("pyarrow").types
    if not types.is_struct(field.type):
        return []
    return [field.type.field(index) for index in range(field.type.num_fields)]


def _paths(fields: list[Any], prefix: str = "") -> list[str]:
    """The columns that have sizes."""
    paths: list[str] = []
    for field in fields:
        children = _children(field)
        name = f"{prefix}{field.name}"
        paths.extend(_paths(children, f"{name}.") if children else [name])
    return paths


def _noun(pa: Any, kind: Any) -> str:
    """What the samples of a column are."""
    types = pa.types
    if types.is_dictionary(kind):
        return _noun(pa, kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "value"
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return "list" if is_list else "size"


def _lengths_of(pa: Any, array: Any) -> Any:
    """The lengths of texts, binary values and lists, without their values; other arrays
    unchanged.
    """
    compute: Any = importlib.import_module("pyarrow.compute")
    if pa.types.is_dictionary(array.type) or str(array.type) == "string_view":
        return array
    noun = _noun(pa, array.type)
    if noun == "size":
        return array
    return (compute.list_value_length if noun == "list" else compute.binary_length)(array)


def _doubt(array: Any, name: str, unit: int) -> ValueError | None:
    """Why the library refuses the values of an array as what they are measured as, if it does."""
    table: Any = importlib.import_module("pyarrow").table([array], [name])
    try:
        arrow_sizes(table, name, unit, zero_nulls=True)
    except ValueError as error:
        return error
    return None


def _reader(pa: Any, table: _Table, leaf: Leaf, name: str, unit: int, calls: Calls) -> Any:
    """A reader of the lengths in a column, one batch after the other. Words are counted and values
    are read by the library, which does not keep texts then.
    """
    is_read = unit in (lib.SAB_TEXT_WORDS, lib.SAB_TEXT_VALUE)

    def measured(array: Any) -> Any:
        return array if is_read and _noun(pa, leaf.type) != "list" else _lengths_of(pa, array)

    schema = pa.schema([(name, measured(pa.nulls(0, leaf.type)).type)])

    def batches() -> Iterator[Any]:
        rows = 0
        doubt, is_first = None, True
        try:
            for batch in table.batches(leaf):
                array = leaf.of(batch.column(leaf.path[0]))
                lengths = measured(array)
                if lengths is not array and len(array) and (is_first or doubt is not None):
                    doubt, is_first = _doubt(array, name, unit), False
                yield pa.RecordBatch.from_arrays([lengths], schema=schema)
                rows += batch.num_rows
                if calls.progress is not None and calls.progress(*table.done(rows)) is False:
                    raise Cancelled("cancelled by the progress callback")
            if doubt is not None:  # of every batch
                raise doubt
        except (Exception, KeyboardInterrupt) as error:
            calls.keep(error)  # through the library, which knows only that the stream failed
            raise

    return pa.RecordBatchReader.from_batches(schema, batches())


class _Parquet:
    def __init__(self, pa: Any, path: str, opened: contextlib.ExitStack) -> None:
        if path == "-":
            raise ValueError("Parquet is read from its end, which standard input does not have")
        parquet: Any = importlib.import_module("pyarrow.parquet")
        self._file = opened.enter_context(parquet.ParquetFile(path))
        self._size = os.path.getsize(path)
        self.schema: Any = self._file.schema_arrow

    def batches(self, leaf: Leaf) -> Iterator[Any]:
        yield from self._file.iter_batches(columns=[".".join(leaf.path)])

    def done(self, rows: int) -> tuple[int, int]:
        return self._size * rows // max(1, self._file.metadata.num_rows), self._size


class _Arrow:
    """A file is mapped: it may be larger than memory, and numbers are used in place."""

    def __init__(self, pa: Any, path: str, opened: contextlib.ExitStack) -> None:
        self._ipc: Any = importlib.import_module("pyarrow.ipc")
        self._is_mapped = path != "-"
        if self._is_mapped:
            self._source = opened.enter_context(pa.memory_map(path))
            self._has_footer = self._source.read(6) == b"ARROW1"
        else:
            self._source = pa.PythonFile(sys.stdin.buffer, "r")
            self._has_footer = False  # it would be at the end
        self._reader = self._open()
        self.schema: Any = self._reader.schema

    def _open(self, columns: list[int] | None = None) -> Any:
        if self._is_mapped:
            self._source.seek(0)
        open_ = self._ipc.open_file if self._has_footer else self._ipc.open_stream
        return open_(self._source, options=self._ipc.IpcReadOptions(included_fields=columns))

    def batches(self, leaf: Leaf) -> Iterator[Any]:
        reader = self._reader
        if self._is_mapped:
            reader = self._open([self.schema.names.index(leaf.path[0])])
        if self._has_footer:
            yield from map(reader.get_batch, range(reader.num_record_batches))
        else:
            yield from reader

    def done(self, rows: int) -> tuple[int, int]:
        if not self._is_mapped or self._has_footer:
            return 0, 0
        return self._source.tell(), self._source.size()


def _named(path: str, opened: contextlib.ExitStack) -> str:
    """The path of a file that pyarrow opens by itself. Standard input is copied to a temporary
    file.
    """
    if path != "-":
        return path
    copy = os.path.join(opened.enter_context(tempfile.TemporaryDirectory()), "standard_input")
    with open(copy, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return copy


class _Csv:
    """pyarrow reads ahead in a thread, which goes on for a moment when the reader is gone, and its
    close() does not end it. So each reader has a file of its own, which is none of Python: the
    thread does not need the interpreter. The file is not closed here, since the next file could
    get its descriptor: it is closed with the last of its users.
    """

    _file: Any
    _stream: Any

    def __init__(self, pa: Any, path: str, opened: contextlib.ExitStack) -> None:
        self._pa = pa
        self._csv: Any = importlib.import_module("pyarrow.csv")
        self._path = _named(path, opened)
        self._size = os.path.getsize(self._path)
        self._delimiter = "\t" if _ending(path) == ".tsv" else ","
        opened.callback(self._end)
        self._open([])
        self.schema: Any = self._reader.schema

    def _content(self) -> tuple[Any, Any]:
        """The file, and what it holds without compression."""
        file: Any = self._pa.OSFile(os.fsencode(self._path))
        magic = file.read(4)
        file.seek(0)
        if not magic.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
            return file, file
        kind = "gzip" if magic[0] == 0x1F else "zstd"
        return file, self._pa.CompressedInputStream(file, kind)

    def _open(self, columns: list[str]) -> None:
        self._file, self._stream = self._content()
        parse = self._csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        convert = self._csv.ConvertOptions(include_columns=columns)
        self._reader: Any = self._csv.open_csv(
            self._stream, parse_options=parse, convert_options=convert
        )

    def _end(self) -> None:
        self._reader = self._stream = self._file = None  # frames that an error keeps have none

    def batches(self, leaf: Leaf) -> Iterator[Any]:
        self._end()
        self._open([leaf.path[0]])
        rows = 0
        while self._reader is not None:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                self._check_lines(rows)
                return
            rows += batch.num_rows
            yield batch

    def _check_lines(self, rows: int) -> None:
        """Refuses quotes that are not closed, each of which takes all rows up to the next quote.
        Values may have several lines, so where there are more lines than rows all is read again,
        and where lines end with a carriage return alone.
        """
        _, content = self._content()
        newlines, last = 0, b"\n"
        while block := content.read(1 << 20):
            newlines, last = newlines + block.count(b"\n"), block[-1:]
        if newlines + (last != b"\n") == rows + 1:
            return
        limit = csv.field_size_limit(sys.maxsize)
        checked = csv.reader(self._lines(), delimiter=self._delimiter, strict=True)
        try:
            for _ in checked:
                pass
        except csv.Error:
            raise FormatError(
                f"line {checked.line_num:,}: a quote is not closed; remove the quotes of texts, or "
                "double each inside of a quoted text"
            ) from None
        finally:
            csv.field_size_limit(limit)

    def _lines(self) -> io.TextIOWrapper:
        _, content = self._content()
        return io.TextIOWrapper(content, "latin-1", newline="")

    def done(self, rows: int) -> tuple[int, int]:
        return self._file.tell(), self._size


_OPENERS: dict[str, Callable[[Any, str, contextlib.ExitStack], _Table]] = {
    "parquet": _Parquet,
    "arrow": _Arrow,
    "csv": _Csv,
}
