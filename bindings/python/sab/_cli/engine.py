"""The command ``sab engine``: the phases of more than one machine, one process a task."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import pathlib
from collections.abc import Collection, Generator
from typing import Any, cast

import numpy as np

import sab
from sab._batch_files import (
    Job,
    Measure,
    arrow,
    begin,
    damage_of,
    finish,
    make_job,
    parquet,
    write_file,
)
from sab._cli.inputs import InputError
from sab._cli.options import Commands, columns_of
from sab._cli.quantities import quantity, whole
from sab._cli.tables import print_table, print_text

_Parts = list[tuple[str, sab.Histogram]]  # shards, and what was counted
_SHARDS = "the Parquet files of the data set, in the same order in all phases"


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    engine = commands.add_parser(
        "engine", help="plan and write the batches of a data set in shards, by tasks of a cluster"
    )
    phases = engine.add_subparsers(required=True, metavar="PHASE")
    counting = phases.add_parser("histogram", help="count the sizes of shards")
    counting.add_argument("shards", nargs="+", metavar="SHARD", help="Parquet files")
    counting.add_argument("--output", required=True, metavar="FOLDER", help="for a file each")
    counting.set_defaults(run=_histogram)
    planning = phases.add_parser("plan", help="make a plan of all shards")
    planning.add_argument("shards", nargs="+", metavar="SHARD", help=_SHARDS)
    planning.add_argument(
        "--histograms", required=True, metavar="FOLDER", help="that of sab engine histogram"
    )
    planning.add_argument("--save", required=True, metavar="FILE", help="the plan")
    planning.add_argument(
        "--budget", type=quantity, default=16384, help="padded size of a batch (default: 16384)"
    )
    planning.add_argument(
        "--oversize",
        default="error",
        choices=["skip", "error", "single"],
        help="samples over the budget alone (default: error)",
    )
    planning.add_argument(
        "--repeat",
        nargs="+",
        type=float,
        metavar="NUMBER",
        help="of a mixture: how often a sample of each of --sources appears (default: once)",
    )
    planning.add_argument(
        "--epoch", type=whole, default=0, help="the epoch of the mixture (default: 0)"
    )
    planning.set_defaults(run=_plan)
    writing = phases.add_parser("write", help="write the files of one task")
    _add_writing(writing)
    for phase in (counting, planning, writing):
        phase.add_argument(
            "--column",
            action="append",
            required=True,
            help="the column with the sizes; one a --column for samples with several sizes",
        )
        phase.add_argument("--source", help="of a mixture: the column with the source of each row")
        phase.add_argument(
            "--sources", nargs="+", metavar="NAME", help="all sources, the same in all phases"
        )


def _add_writing(writing: argparse.ArgumentParser) -> None:
    writing.add_argument("shards", nargs="+", metavar="SHARD", help=_SHARDS)
    writing.add_argument("--histograms", required=True, metavar="FOLDER")
    rule = writing.add_mutually_exclusive_group(required=True)
    rule.add_argument("--plan", metavar="FILE", help="that of sab engine plan")
    rule.add_argument("--capacity", type=whole, help="in place of a plan: pack rows of this size")
    writing.add_argument(
        "--max-sequences", type=whole, help="samples in a packed row (default: no limit)"
    )
    writing.add_argument(
        "--oversize",
        choices=["skip", "error"],
        help="samples longer than a packed row (default: error)",
    )
    writing.add_argument("--output", required=True, metavar="FOLDER", help="for the batches")
    writing.add_argument("--task", type=whole, default=0, help="number of this task (default: 0)")
    writing.add_argument("--tasks", type=whole, default=1, help="number of tasks (default: 1)")
    writing.add_argument(
        "--finish",
        action="store_true",
        help="after all tasks: check all files and write the manifest",
    )
    writing.add_argument(
        "--columns", nargs="*", help="columns to write (default: all; none: the indices of samples)"
    )
    writing.add_argument("--seed", type=whole, default=0, help="seed of the shuffle (default: 0)")
    writing.add_argument("--epoch", type=whole, default=0, help="epoch (default: 0)")
    writing.add_argument("--world-size", type=whole, default=1, help="ranks (default: 1)")
    writing.add_argument(
        "--micro-batches", type=whole, default=1, help="batches of a rank in a step (default: 1)"
    )
    writing.add_argument(
        "--last-step",
        default="split",
        choices=["split", "drop", "wrap"],
        help="a last step with fewer batches than ranks: split them, drop or repeat (default: "
        "split)",
    )
    writing.add_argument(
        "--costliest-first",
        type=whole,
        default=0,
        help="steps at the beginning with the costliest batches (default: 0)",
    )
    writing.add_argument(
        "--batches-per-file", type=whole, default=1024, help="batches in a file (default: 1024)"
    )
    writing.set_defaults(run=_write)


def _measure(options: argparse.Namespace) -> Measure:
    if (options.source is None) != (options.sources is None):
        raise InputError("--source and --sources: must be given together")
    return Measure.checked(columns_of(options), options.source, options.sources)


def _measured(options: argparse.Namespace) -> list[str]:
    """The columns that are measured."""
    return [*columns_of(options), *([options.source] if options.source is not None else [])]


@contextlib.contextmanager
def _errors_of(shard: str) -> Generator[None]:
    """Errors of a shard name it."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{shard}: does not exist") from None
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{shard}: {error}") from None


def _columns_in(shard: str) -> list[str]:
    with _errors_of(shard):
        names: list[str] = parquet().read_schema(shard).names
    return names


def _table(shard: str, columns: list[str]) -> Any:
    names = _columns_in(shard)
    for column in columns:
        if column not in names:
            raise InputError(f"{shard}: has no column {column}; it has {', '.join(names)}")
    with _errors_of(shard):
        return parquet().read_table(shard, columns=columns)


def _file_of(folder: str, shard: str) -> pathlib.Path:
    return pathlib.Path(folder) / f"{pathlib.Path(shard).name}.histogram"


def _check_shards(shards: list[str]) -> None:
    names = [pathlib.Path(shard).name for shard in shards]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"{shards[index]}: a shard with the name {name} is given twice")


def _check_sources(folder: str, options: argparse.Namespace) -> None:
    """A histogram has numbers for the sources. Their names are in a file beside the histograms."""
    path = pathlib.Path(folder) / "sources.json"
    with damage_of(str(path)):
        read: Any = json.loads(path.read_bytes()) if path.exists() else None
        known = cast("list[str] | None", read)
        if not (read is None or isinstance(read, list)) or any(
            not isinstance(name, str) for name in known or []
        ):
            raise ValueError(f"is {read!r:.60}: must be a list of names")
    if known is not None and options.sources is None:
        raise InputError(f"--source: must be given in all phases or in none; see {path}")
    if known is not None and known != options.sources:
        raise InputError(
            f"--sources {' '.join(options.sources)}: must be those of the histograms, in their "
            f"order: {' '.join(known)}; see {path}"
        )


def _histogram(options: argparse.Namespace) -> None:
    _check_shards(options.shards)
    measure, columns = _measure(options), _measured(options)
    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    _check_sources(options.output, options)
    if options.sources is not None:
        _replace(folder / "sources.json", json.dumps(options.sources).encode())
    rows: list[list[str]] = []
    for shard in options.shards:
        histogram = measure.histogram(_table(shard, columns), shard)
        _replace(_file_of(options.output, shard), histogram.to_bytes())
        rows.append([shard, f"{histogram.sample_count:,}", f"{histogram.total:,.0f}"])
    print_table("Sizes", ["", "samples", "total"], rows)


def _replace(path: pathlib.Path, data: bytes) -> None:
    """Tasks may write the same file at once."""
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_bytes(data)
    partial.replace(path)


def _parts(options: argparse.Namespace) -> tuple[_Parts, sab.Histogram]:
    """The shards with rows, and the histogram of all."""
    _check_shards(options.shards)
    _check_sources(options.histograms, options)
    columns, parts, whole_set = tuple(columns_of(options)), _Parts(), sab.Histogram()
    for shard in options.shards:
        path = _file_of(options.histograms, shard)
        if not path.exists():
            raise InputError(f"{path}: is missing: run sab engine histogram {shard}")
        with damage_of(str(path)):
            part = sab.Histogram.from_bytes(path.read_bytes())
        if part.sample_count > 0:
            if part.columns != columns:
                own, given = (", ".join(names) for names in (part.columns, columns))
                raise InputError(
                    f"--column {given}: must be that of sab engine histogram; {path} has {own}"
                )
            if (part.sources is None) != (options.source is None):
                raise InputError(f"--source: must be given in all phases or in none; see {path}")
            whole_set.merge(part)
            parts.append((shard, part))
    return parts, whole_set


def _plan(options: argparse.Namespace) -> None:
    _measure(options)
    if options.source is None and (options.repeat is not None or options.epoch != 0):
        raise InputError("--repeat and --epoch are for a mixture, with --source")
    histogram = _parts(options)[1]
    if options.source is not None:
        repeat = 1.0 if options.repeat is None else options.repeat
        histogram = histogram.epoch(options.epoch, repeat=repeat)
    plan = sab.plan(histogram, options.budget, oversize=options.oversize)
    plan.save(options.save)
    print_text(
        f"{plan.sample_count:,} samples in {plan.batch_count:,} batches, at least "
        f"{plan.lower_bound:,}; {plan.skipped_count:,} are left out"
    )


def _plan_or_packing(
    options: argparse.Namespace, histogram: sab.Histogram
) -> sab.Plan | sab.Packing:
    if options.capacity is not None:
        return sab.Packing(
            histogram,
            options.capacity,
            max_sequences=options.max_sequences or 0,
            oversize=options.oversize or "error",
        )
    for name in ("max_sequences", "oversize"):
        if vars(options)[name] is not None:
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} {vars(options)[name]}: is for --capacity, not for --plan")
    return sab.Plan.open(options.plan)


def _write(options: argparse.Namespace) -> None:
    if options.task >= options.tasks:
        raise InputError(f"--task {options.task}: must be below --tasks {options.tasks}")
    parts, whole_set = _parts(options)
    columns = options.columns
    if columns is None:
        columns = _columns_in(options.shards[0])
    job = make_job(
        _plan_or_packing(options, whole_set),
        whole_set,
        [pathlib.Path(shard).name for shard, _ in parts],
        columns,
        {
            "seed": options.seed,
            "epoch": options.epoch,
            "world_size": options.world_size,
            "micro_batches": options.micro_batches,
            "last_step": options.last_step,
            "costliest_first": options.costliest_first,
        },
        options.batches_per_file,
    )
    mine: Collection[int] = [] if options.finish else job.files[options.task :: options.tasks]
    own = begin(options.output, job, mine, read=True)
    wanted = np.zeros(len(job.files), bool)
    wanted[own] = True
    if own:
        _write_files(options.output, job, _rows(options, job, parts, wanted))
    if options.finish:
        manifest = finish(options.output, job, _places(options, job, parts))
        print_text(f"{manifest['samples']:,} samples in {len(manifest['files']):,} files")


def _rows(options: argparse.Namespace, job: Job, parts: _Parts, wanted: Any) -> list[Any]:
    """The rows of the wanted files, of each shard."""
    before = sab.Histogram()
    tables: list[Any] = []
    for shard, part in parts:
        table = _table(shard, sorted({*job.columns, *_measured(options)}))
        rows = _measure(options).counted_rows(table, part, shard)
        tables.append(job.rows_of_files(table, rows, before, wanted)[0])
    return tables


def _places(options: argparse.Namespace, job: Job, parts: _Parts) -> int:
    """The samples of the epoch, with those that are repeated."""
    before, count = sab.Histogram(), 0
    for shard, part in parts:
        table = _table(shard, _measured(options))
        rows = _measure(options).counted_rows(table, part, shard)
        count += job.places_of(rows, before)
    return count


def _write_files(path: str, job: Job, tables: list[Any]) -> None:
    """Writes the files whose rows the tables have."""
    compute = importlib.import_module("pyarrow.compute")
    rows = arrow().concat_tables(tables)
    for number in compute.unique(rows.column("sab_file")).to_pylist():
        own = rows.filter(compute.field("sab_file") == number)
        print_text(job.name_of(write_file(path, job, own)))
