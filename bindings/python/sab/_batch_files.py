"""Batches as Parquet files: what the tasks of an engine write, and what ranks read."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import hashlib
import importlib
import io
import json
import os
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from typing import Any, Callable, NamedTuple, TypedDict, Union, cast

import numpy as np
import numpy.typing as npt

from sab._arguments import kind_of, whole
from sab._cost import ONE_COLUMN
from sab._engine import Histogram, Places
from sab._mixture import Mixture, Name
from sab._native import FormatError, MismatchError, UnsupportedError
from sab._order import LastStep
from sab._pack import Packing, new_packing
from sab._plan import Plan
from sab._ranks import ranks
from sab._sizes import SizesLike

__all__ = ["BatchDataset"]

# The sizes of the rows of a table: a column, several columns, or a function of the table.
SizeOf = Union[str, Sequence[str], Callable[[Any], "npt.ArrayLike | Mapping[str, npt.ArrayLike]"]]
# The sources of the rows of a table: a column, or a function of the table.
SourceOf = Union[str, Callable[[Any], "npt.ArrayLike"]]
# One number or a row of numbers for each row of a table, or an array for each name of a column.
RowSizes = Union[npt.NDArray[np.float64], "dict[str, npt.NDArray[np.float64]]"]
MANIFEST, JOB = "manifest.json", "job.json"
_VERSION = 1
_PARTIAL = ".partial"
_ROW_GROUP = 64  # batches that are read together
_FILE, _BATCH, _SLOT, _LENGTH = "sab_file", "sab_batch", "sab_slot", "sab_length"
_INDICES, _CU_SEQLENS = "indices", "cu_seqlens"
_SAMPLES, _OWN = b"samples", b"own"  # in the metadata of a file
_BLOCK, _SUM = 1 << 16, 8  # bytes of pages with a checksum, and of the checksum


def _package(module: str) -> Any:
    """A module of a package that not all users need."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        package = module.partition(".")[0]
        raise ImportError(
            f"{package} is needed for folders of batches: pip install {package}", name=package
        ) from None


def arrow() -> Any:
    """The module pyarrow."""
    return _package("pyarrow")


def parquet() -> Any:
    """The module pyarrow.parquet."""
    return _package("pyarrow.parquet")


def file_system(path: str | os.PathLike[str]) -> tuple[Any, str]:
    """The file system of fsspec for a path or URL, and the path in it."""
    found: tuple[Any, str] = _package("fsspec").core.url_to_fs(os.fspath(path))
    return found


def _column(argument: str, table: Any, name: str, partition: str) -> Any:
    if name not in table.column_names:
        columns = ", ".join(table.column_names)
        raise ValueError(f"{argument} = {name!r}: must be a column of {partition}: {columns}")
    return table.column(name).to_numpy()


@contextlib.contextmanager
def damage_of(name: str) -> Generator[None]:
    """Errors of the content of a file are those of a damaged file, with its name."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OSError) as error:
        if isinstance(error, FileNotFoundError) or getattr(error, "errno", None) is not None:
            raise  # of the system: an error of Arrow has no number
        if isinstance(error, FormatError):
            why = str(error).removeprefix("data: ")
        else:
            why = f"is damaged: {'has no ' * isinstance(error, KeyError)}{error}"
        raise FormatError(f"{name}: {why}") from None


class Rows(NamedTuple):
    """The rows of a table as a plan has them."""

    sizes: RowSizes
    sources: npt.NDArray[np.int64] | None = None  # their numbers
    source_count: int = 0

    @property
    def to_count(self) -> SizesLike:
        """What a histogram takes."""
        if self.sources is None:
            return self.sizes
        return Mixture(self.sizes, sources=self.sources, all_sources=range(self.source_count))

    @property
    def array(self) -> npt.NDArray[np.float64]:
        """The size of each row, or a row of sizes."""
        sizes = self.sizes
        array = np.column_stack(list(sizes.values())) if isinstance(sizes, dict) else sizes
        return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


@dataclasses.dataclass(frozen=True)
class Measure:
    """How the rows of a table are measured."""

    size: SizeOf
    source: SourceOf | None = None  # of a mixture
    sources: tuple[Name, ...] = ()

    @staticmethod
    def checked(size: SizeOf, source: SourceOf | None, sources: Sequence[Name] | None) -> Measure:
        """Of the arguments of a user."""
        if (source is None) != (sources is None):
            raise ValueError("source and sources: must be given together")
        names = () if sources is None else tuple(sources)
        if source is not None and (len(names) == 0 or len(set(names)) != len(names)):
            raise ValueError(f"sources = {list(names)}: must be different names, at least one")
        return Measure(size, source, names)

    def rows(self, table: Any, name: str) -> Rows:
        """Of a table. `name`: of the partition, in messages."""
        sizes = self._sizes(table, name)
        if self.source is None:
            return Rows(sizes)
        return Rows(sizes, self._source_numbers(table, name), len(self.sources))

    def _sizes(self, table: Any, name: str) -> RowSizes:
        given: Any
        if isinstance(self.size, str):
            given = _column("size", table, self.size, name)
        elif callable(self.size):
            given = self.size(table)
        else:
            given = {column: _column("size", table, column, name) for column in self.size}

        def checked(values: Any, what: str, dimensions: tuple[int, ...]) -> npt.NDArray[np.float64]:
            try:
                sizes = np.ascontiguousarray(values, np.float64)
            except (TypeError, ValueError):
                raise ValueError(f"{name}: {what} must give numbers, not {values!r:.60}") from None
            if sizes.ndim not in dimensions or len(sizes) != table.num_rows:
                raise ValueError(
                    f"{name}: {what} gave an array of shape {sizes.shape} for {table.num_rows} "
                    "rows: must give one number for each row, or a row of numbers"
                )
            return sizes

        if isinstance(given, Mapping):
            columns = cast("Mapping[str, Any]", given)
            return {key: checked(columns[key], f"size[{key!r}]", (1,)) for key in columns}
        return checked(given, "size", (1, 2))

    def _source_numbers(self, table: Any, name: str) -> npt.NDArray[np.int64]:
        assert self.source is not None
        if isinstance(self.source, str):
            given = np.asarray(_column("source", table, self.source, name))
        else:
            given = np.asarray(self.source(table))
        if given.shape != (table.num_rows,):
            raise ValueError(
                f"{name}: source gave an array of shape {given.shape} for {table.num_rows} rows: "
                "must give one source for each row"
            )
        numbers = {source: number for number, source in enumerate(self.sources)}
        found, inverse = np.unique(given, return_inverse=True)
        for source in found.tolist():
            if source not in numbers:
                raise ValueError(
                    f"{name} has the source {source!r}: must be one of sources, "
                    f"{list(self.sources)}"
                )
        return np.array([numbers[source] for source in found.tolist()], np.int64)[inverse]

    def histogram(self, table: Any, name: str) -> Histogram:
        """Counts the rows."""
        return Histogram(self.rows(table, name).to_count) if table.num_rows > 0 else Histogram()

    def counted_rows(self, table: Any, counted: Histogram, name: str) -> Rows:
        """The rows, whose sizes must be those that were counted."""
        rows = self.rows(table, name)
        if Histogram(rows.to_count) != counted:
            raise MismatchError(f"{name}: its sizes are not those of its histogram")
        return rows


def digest_of(table: Any) -> str:
    """Of the rows of a partition, in their order."""
    pa, hashed = arrow(), hashlib.blake2b(digest_size=16)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    hashed.update(sink.getvalue())
    return hashed.hexdigest()


def _sum_of(block: bytes) -> bytes:
    return hashlib.blake2b(block, digest_size=_SUM).digest()


def _with_sums(content: bytes) -> bytes:
    """A Parquet file with checksums before its footer, where no reader looks: of each block of the
    pages, and of the footer. Parquet itself verifies neither footers nor the headers of pages.
    """
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    pages, footer = content[:end], content[end:]
    blocks = [pages[at : at + _BLOCK] for at in range(0, end, _BLOCK)]
    return b"".join((pages, *map(_sum_of, [*blocks, footer]), footer))


class _Verified(io.RawIOBase):
    """A file that :func:`_with_sums` made. Each block is verified when it is read."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream, self._size, self._at = stream, stream.seek(0, io.SEEK_END), 0
        stream.seek(max(self._size - 8, 0))
        footer = 8 + int.from_bytes(stream.read(4), "little")
        blocks = -((footer + _SUM - self._size) // (_BLOCK + _SUM))
        self._end = self._size - footer - (blocks + 1) * _SUM  # of the pages
        stream.seek(max(self._end, 0))
        self._tail = stream.read()  # the checksums and the footer
        if self._end < 0 or _sum_of(self._tail[-footer:]) != self._tail[-footer - _SUM : -footer]:
            raise ValueError("its end is damaged")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        number, inside = divmod(self._at, _BLOCK)
        if self._at < self._end:
            part = self._block(number)[inside : inside + len(buffer)]
        else:
            part = self._tail[self._at - self._end :][: len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)

    def _block(self, number: int) -> bytes:
        begin, end = number * _BLOCK, min((number + 1) * _BLOCK, self._end)
        self._stream.seek(begin)
        block: bytes = self._stream.read(end - begin)
        if _sum_of(block) != self._tail[number * _SUM : (number + 1) * _SUM]:
            raise ValueError(f"bytes {begin} to {end} have another checksum")
        return block


class EpochOrder(TypedDict):
    """The arguments of :meth:`sab.Plan.locate` that choose the order of an epoch."""

    seed: int
    epoch: int
    world_size: int
    micro_batches: int
    last_step: LastStep
    costliest_first: int


def _check_version(version: object) -> None:
    if version != _VERSION:
        raise FormatError(f"version = {version}: this library reads {_VERSION}")


def _object(text: bytes) -> dict[str, Any]:
    given: Any = json.loads(text)
    if not isinstance(given, dict):
        raise ValueError(f"has {kind_of(given)}: must have a JSON object")
    return cast("dict[str, Any]", given)


@dataclasses.dataclass(frozen=True)
class Job:
    """What the files of one epoch are made from: equal jobs write equal files."""

    image: bytes  # of the plan; or of the histogram of the packing
    packing: dict[str, Any] | None  # its other arguments; None: a plan
    partitions: tuple[str, ...]  # a digest or a name of each, in their order
    columns: tuple[str, ...]  # of the samples; none: their indices
    order: EpochOrder
    batches_per_file: int

    def to_json(self) -> str:
        """As the file of the job has it."""
        fields = dataclasses.asdict(self)
        fields["image"] = base64.b64encode(self.image).decode()
        return json.dumps({"version": _VERSION, **fields}, indent=1)

    @functools.cached_property
    def digest(self) -> str:
        """Of all fields."""
        return _sum_of(self.to_json().encode()).hex()

    @staticmethod
    def from_json(text: bytes, path: str) -> Job:
        """Read again."""
        with damage_of(path):
            fields = _object(text)
            _check_version(fields.pop("version"))
            for field in dataclasses.fields(Job):
                fields[field.name]  # raises the error that names it
            fields["image"] = base64.b64decode(fields["image"], validate=True)
            for name in ("columns", "partitions"):
                fields[name] = tuple(fields[name])
            job = Job(**fields)
            if isinstance(job.plan, Plan):
                job.plan.check()
            if job.order.keys() != EpochOrder.__annotations__.keys():
                raise ValueError(f"order has {', '.join(job.order)}")
            whole("world_size", job.world_size, 1)
            whole("batches_per_file", job.batches_per_file, 1)
            whole("batch_count", job.batch_count)  # locate() takes the other fields
        return job

    @functools.cached_property
    def plan(self) -> Plan | Packing:
        """Which samples share a batch."""
        if self.packing is None:
            return Plan.from_bytes(self.image)
        return new_packing(self.image, cast("Any", self.packing))

    @property
    def fingerprint(self) -> int:
        """Of the plan or packing."""
        return self.plan.fingerprint if isinstance(self.plan, Plan) else self.plan.info.fingerprint

    @property
    def lists(self) -> tuple[str, ...]:
        """The columns that have a list of values of the samples of a batch."""
        return self.columns or (_INDICES,)

    @property
    def world_size(self) -> int:
        """Number of ranks that take the batches."""
        return self.order["world_size"]

    def locate(self, rows: Rows, numbers: npt.ArrayLike, which: int = 0) -> Places:
        """The places of samples."""
        sizes = rows.array
        asked = np.full(len(sizes), which, np.uint64)
        sources: dict[str, Any] = {} if rows.sources is None else {"sources": rows.sources}
        return self.plan.locate(sizes, numbers, which=asked, **sources, **self.order)

    @functools.cached_property
    def batch_count(self) -> int:
        """Batches of each rank."""
        columns = len(self.plan.columns) if isinstance(self.plan, Plan) else 1
        none = np.empty((0, columns) if columns > 1 else 0)
        return self.locate(Rows(none), np.empty(0, np.uint64)).batch_count

    @property
    def files_per_rank(self) -> int:
        """A file has the batches of a range of positions."""
        return -(-self.batch_count // self.batches_per_file)

    @property
    def files(self) -> range:
        """The numbers of the files."""
        return range(self.world_size * self.files_per_rank)

    def name_of(self, number: int) -> str:
        """Of a file, in the folder."""
        rank, part = divmod(number, self.files_per_rank)
        first = part * self.batches_per_file
        last = min(first + self.batches_per_file, self.batch_count) - 1
        return f"rank-{rank:05}/batches-{first:010}-{last:010}.parquet"

    @functools.cached_property
    def _files_digest(self) -> str:
        """Of all fields but the partitions: any division of the rows gives the same files."""
        return dataclasses.replace(self, partitions=()).digest

    def mark_of(self, name: str) -> bytes:
        """What only this file of this job has in its metadata."""
        return f"{self._files_digest} {name}".encode()

    def places_of(self, rows: Rows, before: Histogram) -> int:
        """The number of places of samples. `before`: the sizes of the partitions before, to which
        these are added.
        """
        return int(self.locate(rows, before.number(rows.to_count)).counts.sum())

    def rows_of_files(
        self, table: Any, rows: Rows, before: Histogram, wanted: npt.NDArray[np.bool_]
    ) -> tuple[Any, int]:
        """The rows of a partition that belong to the wanted files, as often as the epoch has them,
        with their places; and the number of places of all rows. `before`: the sizes of the
        partitions before, to which these are added.
        """
        first = before.sample_count
        numbers = before.number(rows.to_count)
        pa, parts, which, most, count = arrow(), [], 0, 1, 0
        own = table.select(list(self.columns))
        if not self.columns:
            own = pa.table({_INDICES: np.arange(first, first + table.num_rows)})
        if self.packing is not None:
            own = own.append_column(_LENGTH, pa.array(rows.array.astype(np.int32)))
        while which < most:
            places = self.locate(rows, numbers, which)
            most = int(places.counts.max(initial=0))
            count = int(places.counts.sum())
            files = places.ranks * self.files_per_rank + places.batches // self.batches_per_file
            taken = np.flatnonzero((places.batches >= 0) & wanted[np.maximum(files, 0)])
            part = own.take(pa.array(taken))
            for column, values in ((_FILE, files), (_BATCH, places.batches), (_SLOT, places.slots)):
                part = part.append_column(column, pa.array(values[taken]))
            parts.append(part)
            which += 1
        return pa.concat_tables(parts), count

    def file_of(self, table: Any) -> tuple[int, Any]:
        """The number and content of a file, of all its rows: a row for each batch."""
        pa = arrow()
        number = int(table.column(_FILE)[0].as_py())
        part = number % self.files_per_rank
        first = part * self.batches_per_file
        table = table.sort_by([(_BATCH, "ascending"), (_SLOT, "ascending")]).combine_chunks()
        batches, slots = (table.column(name).to_numpy() for name in (_BATCH, _SLOT))
        begins = np.flatnonzero(slots == 0)
        counts = np.diff(np.append(begins, len(slots)))
        expected = np.arange(len(slots)) - np.repeat(begins, counts)
        positions = batches[begins]
        if (
            len(begins) == 0
            or begins[0] != 0
            or (slots != expected).any()
            or (positions != first + np.arange(len(positions))).any()
            or (batches != np.repeat(positions, counts)).any()
        ):
            raise MismatchError(
                f"{self.name_of(number)}: samples of its batches are missing or twice; were the "
                "rows of a partition changed, or is a partition given twice?"
            )
        edges = np.append(begins, len(slots))
        columns = {"batch": pa.array(positions)}
        columns["step"] = pa.array(positions // self.order["micro_batches"])
        for name in self.lists:
            values = table.column(name).combine_chunks()
            columns[name] = pa.LargeListArray.from_arrays(pa.array(edges, pa.int64()), values)
        if self.packing is not None:
            columns[_CU_SEQLENS] = _cu_seqlens(table.column(_LENGTH).to_numpy(), edges)
        own = self.mark_of(self.name_of(number))
        return number, pa.table(columns, metadata={_SAMPLES: str(len(slots)), _OWN: own})


def _cu_seqlens(lengths: npt.NDArray[np.int32], edges: npt.NDArray[np.int64]) -> Any:
    """The cumulative lengths of each batch, from 0. `edges`: of the batches, in samples."""
    pa, batches = arrow(), np.arange(len(edges) - 1)
    sums = np.append(0, np.cumsum(lengths, dtype=np.int64))
    counts: npt.NDArray[np.int64] = np.diff(edges) + 1  # of the numbers of each batch
    places = np.arange(int(counts.sum())) - np.repeat(batches, counts)
    numbers = sums[places] - np.repeat(sums[edges[:-1]], counts)
    offsets = edges + np.arange(len(edges))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(numbers, pa.int32()))


def order_of(path: str, partitions: Sequence[str]) -> list[int]:
    """The numbers of the partitions in the order in which a folder was begun, if they are the same:
    an engine may give them in another order the next time. Otherwise in their own order.
    """
    files, root = file_system(path)
    name, own = f"{root}/{JOB}", list(range(len(partitions)))
    kept = partitions
    if files.exists(name):
        kept = Job.from_json(files.cat_file(name), name).partitions
    if sorted(kept) != sorted(partitions):
        return own
    order = own.copy()
    for place, number in zip(
        sorted(own, key=lambda k: kept[k]), sorted(own, key=lambda k: partitions[k])
    ):
        order[place] = number
    return order


def begin(path: str, job: Job, own: Collection[int], *, read: bool) -> list[int]:
    """Begins to write a folder, or goes on. Returns those of the files `own` that are missing or
    damaged. `read`: reads all of each file, not only its end.
    """
    files, root = file_system(path)
    files.makedirs(root, exist_ok=True)
    name = f"{root}/{JOB}"
    if files.exists(name):
        if Job.from_json(files.cat_file(name), name) != job:
            raise MismatchError(
                f"{name}: is of another plan, epoch or order, or of a data set whose rows came in "
                "another order or in other blocks: use another folder"
            )
    else:
        _replace(files, name, job.to_json().encode())
    present = set(files.find(root))
    names = {number: job.name_of(number) for number in own}
    return [
        number
        for number, name in names.items()
        if not (_is_in(present, f"{root}/{name}") and _is_whole(files, root, job, name, read))
    ]


def _is_whole(files: Any, root: str, job: Job, name: str, read: bool) -> bool:
    try:
        with _opened(files, root, job, name) as (_, content):
            content.seek(0)
            while read and content.read(_BLOCK):
                pass
    except FormatError:
        return False
    return True


@contextlib.contextmanager
def _opened(files: Any, root: str, job: Job, name: str) -> Generator[tuple[Any, Any]]:
    """A file of batches and its bytes, which are verified where they are read."""
    with damage_of(f"{root}/{name}"), files.open(f"{root}/{name}", "rb") as stream:
        content = io.BufferedReader(_Verified(stream), _BLOCK)
        file = parquet().ParquetFile(content)
        if file.metadata.metadata[_OWN] != job.mark_of(name):
            raise ValueError(f"has other batches than {JOB} says")
        yield file, content


def _facts_of(file: Any) -> tuple[int, int]:
    """The batches and samples of a file, which are at its end."""
    return file.metadata.num_rows, int(file.metadata.metadata[_SAMPLES])


def _is_in(present: set[str], name: str) -> bool:
    return name in present or name.lstrip("/") in present


def _replace(files: Any, name: str, content: bytes) -> None:
    """Writes a file in one step: a task that is killed leaves the old file or none."""
    files.makedirs(name.rpartition("/")[0], exist_ok=True)
    if "file" in (files.protocol if isinstance(files.protocol, tuple) else (files.protocol,)):
        partial = f"{name}.{os.getpid()}{_PARTIAL}"
        files.pipe_file(partial, content)
        os.replace(partial, name)
    else:  # object stores show an object when all of it is there
        files.pipe_file(name, content)


def write_file(path: str, job: Job, table: Any) -> int:
    """Writes a file of all its rows. Returns its number."""
    number, content = job.file_of(table)
    sink = arrow().BufferOutputStream()
    parquet().write_table(content, sink, row_group_size=_ROW_GROUP)
    files, root = file_system(path)
    _replace(files, f"{root}/{job.name_of(number)}", _with_sums(sink.getvalue().to_pybytes()))
    return number


def finish(path: str, job: Job, samples: int) -> dict[str, Any]:
    """Writes the manifest. Refuses files that are missing or damaged, and other than `samples` in
    all of them.
    """
    files, root = file_system(path)
    parts: list[dict[str, Any]] = []
    found = 0
    for number in job.files:
        name = job.name_of(number)
        if not files.exists(f"{root}/{name}"):
            if (number + 1) % job.files_per_rank != 0:  # the last batch of a rank may be empty
                raise MismatchError(f"{path}: the file {name} is missing")
            continue
        with _opened(files, root, job, name) as (file, _):
            batches, here = _facts_of(file)
        found += here
        parts.append({"name": name, "batches": batches, "samples": here})
    if found != samples:
        raise MismatchError(f"{path}: has {found} samples: must have {samples}, those of the epoch")
    for name in files.find(root):
        if name.endswith(_PARTIAL):  # of a task that was killed
            files.rm_file(name)
    manifest: dict[str, Any] = {
        "version": _VERSION,
        "job": job.digest,
        "fingerprint": f"{job.fingerprint:016x}",
        "packing": job.packing,
        "columns": job.lists,
        "batch_count": job.batch_count,
        "samples": found,
        "files": parts,
    }
    _replace(files, f"{root}/{MANIFEST}", json.dumps(manifest, indent=1).encode())
    return manifest


def _values(values: Any) -> Any:
    """The values of a column in a batch: an array, or a list of one for each sample."""
    if arrow().types.is_nested(values.type):
        return [value.values.to_numpy(zero_copy_only=False) for value in values]
    return values.to_numpy(zero_copy_only=False)


def _listed(content: bytes, path: str, job: Job) -> set[str]:
    """The names of the files in a manifest."""
    with damage_of(path):
        manifest = _object(content)
        _check_version(manifest["version"])
        own = {
            "job": job.digest,
            "fingerprint": f"{job.fingerprint:016x}",
            "columns": list(job.lists),
            "batch_count": job.batch_count,
        }
        for name, value in own.items():
            if manifest[name] != value:
                raise ValueError(f"{name} = {manifest[name]}: must be that of {JOB}, {value}")
        samples = {part["name"]: part["samples"] for part in manifest["files"]}
        if sum(samples.values()) != manifest["samples"]:
            raise ValueError(f"samples = {manifest['samples']}: must be those of all files")
        names = [job.name_of(number) for number in job.files]
        unlisted = {name for k, name in enumerate(names, 1) if k % job.files_per_rank} - {*samples}
        if unlisted or not samples.keys() <= {*names}:
            raise ValueError(f"files: must be those of {JOB}")
    return set(samples)


class BatchDataset:
    """Batches that :func:`sab.ray.write_batches` or ``sab engine write`` wrote, in training order.

    A data set of the batches of one rank: with random access for a DataLoader with
    ``batch_size=None``, and iterable with a state. Any number of ranks can read the files. The
    state is the same on all ranks, and another number of ranks can go on with it: no batch is lost
    or repeated. Then the last batches, fewer than ranks, are left out.

    A batch is a dictionary: ``batch`` and ``step`` (numbers), and an array or a list of arrays for
    each column of the samples, or ``indices``. Rows of a :class:`sab.Packing` also have
    ``cu_seqlens``: an int32 array, where each sample begins and ends in the row.

    Args:
        path: the folder; a path, or a URL of fsspec.
        rank: of this process; None: that of :func:`sab.ranks`.
        world_size: number of ranks; None: that of :func:`sab.ranks`.

    Raises:
        ValueError: there are fewer batches than ranks. FormatError: the folder is not complete, or
            a file is missing or damaged. Each batch verifies what it reads.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        own = ranks() if rank is None or world_size is None else (0, 1)
        self._rank = own[0] if rank is None else whole("rank", rank)
        self._world_size = own[1] if world_size is None else whole("world_size", world_size, 1)
        if self._rank >= self._world_size:
            raise ValueError(f"rank = {rank}: must be below the world size, {self._world_size}")
        self._path = os.fspath(path)
        files, self._root = file_system(path)
        for name in (MANIFEST, JOB):
            if not files.exists(f"{self._root}/{name}"):
                raise FormatError(f"{path}: has no {name}: the batches are not written to the end")
        name = f"{self._root}/{JOB}"
        self._job = Job.from_json(files.cat_file(name), name)
        name = f"{self._root}/{MANIFEST}"
        self._present = _listed(files.cat_file(name), name, self._job)
        existing = set(files.find(self._root))
        for part in sorted(self._present):
            if not _is_in(existing, f"{self._root}/{part}"):
                raise FormatError(f"{path}: the file {part} is missing")
        batches = self._job.batch_count * self._job.world_size
        if batches < self._world_size:
            raise ValueError(
                f"world_size = {self._world_size}: must be at most {batches}, the batches of the "
                "epoch, so that each rank has one"
            )
        self._taken = 0  # batches of all ranks before the next one
        self._position = 0  # batches that this rank took since the last state or epoch began
        self._last: tuple[tuple[str, int], Any] | None = None

    @property
    def fingerprint(self) -> int:
        """Of the plan or packing."""
        return self._job.fingerprint

    def __repr__(self) -> str:
        return (
            f"<sab.BatchDataset: {self._path}, rank {self._rank} of {self._world_size}, "
            f"{len(self):,} batches>"
        )

    def __len__(self) -> int:
        """Batches of this rank from the restored state on."""
        job = self._job
        all_batches = job.batch_count * job.world_size - self._taken
        return all_batches // self._world_size

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The batch at a position of this rank, counted from the restored state on."""
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"index = {index}: must be below {count}")
        number = self._taken + index % count * self._world_size + self._rank
        position, rank = divmod(number, self._job.world_size)
        return self._read(rank, position)

    def _read(self, rank: int, position: int) -> dict[str, Any]:
        job = self._job
        part, row = divmod(position, job.batches_per_file)
        name = job.name_of(rank * job.files_per_rank + part)
        step = position // job.order["micro_batches"]
        batch: dict[str, Any] = {"batch": position, "step": step}
        group, inside = divmod(row, _ROW_GROUP)
        rows = self._rows(name, group) if name in self._present else None
        names = [*job.lists, *([_CU_SEQLENS] if job.packing is not None else [])]
        values: dict[str, Any]
        if rows is not None and inside < rows.num_rows:
            values = {name: _values(rows.column(name)[inside].values) for name in names}
        else:  # the last step has fewer samples than ranks
            values = {name: np.zeros(1, np.int32) if name == _CU_SEQLENS else [] for name in names}
        return {**batch, **values}

    def _rows(self, name: str, group: int) -> Any:
        """Batches that are read together: positions usually follow each other."""
        if self._last is None or self._last[0] != (name, group):
            files, _ = file_system(self._path)
            with _opened(files, self._root, self._job, name) as (file, _):
                is_there = group < file.num_row_groups
                rows = file.read_row_group(group) if is_there else file.schema_arrow.empty_table()
            self._last = (name, group), rows
        return self._last[1]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Goes on after the last batch that was given. After the end it begins again."""
        while self._position < len(self):
            self._position += 1
            yield self[self._position - 1]
        self._position = self._taken = 0

    def state_dict(self) -> dict[str, int]:
        """Where the iteration is; the same on all ranks that took as many batches."""
        taken = self._taken + self._position * self._world_size
        return {"version": _VERSION, "fingerprint": self.fingerprint, "taken": taken}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Goes on where a state was saved, also on another number of ranks."""
        if not isinstance(state, Mapping):
            raise TypeError(f"state is {kind_of(state)}: must be that of state_dict()")
        missing = {"version", "fingerprint", "taken"} - state.keys()
        if missing or state["version"] != _VERSION:
            raise FormatError(f"state = {dict(state)}: is not that of a BatchDataset")
        if state["fingerprint"] != self.fingerprint:
            raise MismatchError("state: belongs to the batches of another plan")
        most, taken = self._job.batch_count * self._job.world_size, whole("taken", state["taken"])
        if taken > most:
            raise FormatError(f"state: {taken} batches were taken: must be at most {most}")
        self._taken, self._position = taken, 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}  # for workers of loaders


def _takes_sources(plan: Plan, epoch: int) -> bool:
    """Whether the plan is of this epoch of a mixture."""
    none = np.empty((0, len(plan.columns)) if len(plan.columns) > 1 else 0)
    try:
        plan.locate(none, [], sources=[], epoch=epoch)
    except ValueError:
        return False
    return True


def _check_mixture(plan: Plan | Packing, histogram: Histogram, epoch: int) -> None:
    """Refuses a mixture without the plan of its epoch, and the other way round."""
    has_sources = histogram.sources is not None
    if isinstance(plan, Packing):
        if has_sources:
            raise UnsupportedError("source: must be None for a packing: it has no sources")
    elif has_sources:
        if plan._of_mixture not in (None, histogram.fingerprint):
            raise MismatchError("plan is of an epoch of other data")
    elif _takes_sources(plan, epoch):
        raise ValueError("source and sources: must be given: the plan is of an epoch of a mixture")


def _check_histogram(
    plan: Plan | Packing, histogram: Histogram, rows: Sequence[str], epoch: int
) -> None:
    """Refuses the plan of other data."""
    _check_mixture(plan, histogram, epoch)
    if isinstance(plan, Plan):
        kind, samples, own = "plan", plan.sample_count, plan.columns
    else:
        kind, samples, own = "packing", plan.info.samples, ONE_COLUMN
    if histogram.sources is None and histogram.sample_count != samples:
        first = {row: number for number, row in reversed(list(enumerate(rows)))}
        twice = [(first[row], number) for number, row in enumerate(rows) if first[row] != number]
        raise MismatchError(
            f"plan: was made of {samples} samples, the data set has "
            f"{histogram.sample_count}: it is the {kind} of other data"
            + (f"; partitions {twice[0][0]} and {twice[0][1]} have the same rows" if twice else "")
        )
    if samples == 0:
        return
    given = histogram.columns
    if len(own) != len(given) or (own != given and ONE_COLUMN not in (own, given)):
        raise MismatchError(
            f"plan is the {kind} of the columns {own}, the data set has {given}: must be the same"
        )
    # As many samples in all, so each size has as many in both if none has more here.
    mixed: dict[str, Any] = {}
    if histogram.sources is not None:
        mixed = {"sources": histogram.sources, "epoch": epoch}
    try:
        plan.locate(histogram.sizes, histogram.counts - np.uint64(1), **mixed)
    except ValueError as error:
        raise MismatchError(f"plan is of other data: {error}") from None


def _packing_arguments(packing: Packing) -> tuple[bytes, dict[str, Any] | None]:
    """The bytes of its histogram, and its other arguments as JSON gives them back."""
    image, options = packing._made_from
    try:
        return image, json.loads(json.dumps(options))
    except TypeError:
        raise UnsupportedError(
            f"plan: its balance is {kind_of(options['balance'])}: must be a name or coefficients, "
            "which can be written into the folder"
        ) from None


def make_job(
    plan: Plan | Packing,
    histogram: Histogram,
    partitions: Sequence[str],
    columns: Sequence[str],
    order: EpochOrder,
    batches_per_file: int,
) -> Job:
    """The job of a plan, checked. `partitions`: a digest or a name of each."""
    _check_histogram(plan, histogram, partitions, whole("epoch", order["epoch"]))
    own = {"batch", "step", _FILE, _BATCH, _SLOT}
    if isinstance(plan, Packing):
        own |= {_CU_SEQLENS, _LENGTH}
        image, packing = _packing_arguments(plan)
    else:
        image, packing = plan.to_bytes(), None
    for name in columns:
        if name in own:
            raise ValueError(
                f"columns: {name!r} is the name of a column that the files have: rename it"
            )
    checked: dict[str, Any] = {**order}
    for name in checked.keys() - {"last_step"}:
        least = 1 if name in ("world_size", "micro_batches") else 0
        checked[name] = whole(name, checked[name], least)
    return Job(
        image,
        packing,
        tuple(partitions),
        tuple(columns),
        cast("EpochOrder", checked),
        whole("batches_per_file", batches_per_file, 1),
    )
