"""The command ``sab engine``: the phases of more than one machine, one process a task."""

from __future__ import annotations

import argparse
import importlib
import pathlib
from typing import Any

import numpy as np

import sab
from sab._batch_files import Job, begin, counted_sizes_of, finish, make_job, sizes_of, write_file
from sab._cli.inputs import InputError
from sab._cli.options import Commands
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
    planning.set_defaults(run=_plan)
    writing = phases.add_parser("write", help="write the files of one task")
    writing.add_argument("shards", nargs="+", metavar="SHARD", help=_SHARDS)
    writing.add_argument("--histograms", required=True, metavar="FOLDER")
    writing.add_argument("--plan", required=True, metavar="FILE", help="that of sab engine plan")
    writing.add_argument("--output", required=True, metavar="FOLDER", help="for the batches")
    writing.add_argument("--task", type=whole, default=0, help="number of this task (default: 0)")
    writing.add_argument("--tasks", type=whole, default=1, help="number of tasks (default: 1)")
    writing.add_argument(
        "--finish",
        action="store_true",
        help="after all tasks: check all files and write the manifest",
    )
    writing.add_argument("--columns", nargs="+", help="columns to write (default: all)")
    writing.add_argument("--seed", type=whole, default=0, help="seed of the shuffle (default: 0)")
    writing.add_argument("--epoch", type=whole, default=0, help="epoch (default: 0)")
    writing.add_argument("--world-size", type=whole, default=1, help="ranks (default: 1)")
    writing.add_argument(
        "--batches-per-file", type=whole, default=1024, help="batches in a file (default: 1024)"
    )
    writing.set_defaults(run=_write)
    for phase in (counting, planning, writing):
        phase.add_argument("--column", required=True, help="the column with the sizes")


def _table(shard: str, columns: list[str]) -> Any:
    parquet = importlib.import_module("pyarrow.parquet")
    try:
        return parquet.read_table(shard, columns=columns)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{shard}: {error}") from None


def _file_of(folder: str, shard: str) -> pathlib.Path:
    return pathlib.Path(folder) / f"{pathlib.Path(shard).name}.histogram"


def _check_shards(shards: list[str]) -> None:
    names = [pathlib.Path(shard).name for shard in shards]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"{shards[index]}: a shard with the name {name} is given twice")


def _histogram(options: argparse.Namespace) -> None:
    _check_shards(options.shards)
    pathlib.Path(options.output).mkdir(parents=True, exist_ok=True)
    rows: list[list[str]] = []
    for shard in options.shards:
        sizes = sizes_of(_table(shard, [options.column]), options.column, shard)
        histogram = sab.Histogram(sizes)
        target = _file_of(options.output, shard)
        partial = target.with_suffix(".partial")
        partial.write_bytes(histogram.to_bytes())
        partial.replace(target)
        rows.append([shard, f"{histogram.sample_count:,}", f"{histogram.total:,.0f}"])
    print_table("Sizes", ["", "samples", "total"], rows)


def _parts(options: argparse.Namespace) -> _Parts:
    _check_shards(options.shards)
    parts: _Parts = []
    for shard in options.shards:
        path = _file_of(options.histograms, shard)
        if not path.exists():
            raise InputError(f"{path}: is missing: run sab engine histogram {shard}")
        parts.append((shard, sab.Histogram.from_bytes(path.read_bytes())))
    return parts


def _plan(options: argparse.Namespace) -> None:
    whole_set = sab.Histogram()
    for _, part in _parts(options):
        whole_set.merge(part)
    plan = sab.plan(whole_set, options.budget, oversize=options.oversize)
    plan.save(options.save)
    print_text(
        f"{plan.sample_count:,} samples in {plan.batch_count:,} batches, at least "
        f"{plan.lower_bound:,}; {plan.skipped_count:,} are left out"
    )


def _write(options: argparse.Namespace) -> None:
    if options.task >= options.tasks:
        raise InputError(f"--task {options.task}: must be below --tasks {options.tasks}")
    parts, whole_set = _parts(options), sab.Histogram()
    for _, part in parts:
        whole_set.merge(part)
    parquet = importlib.import_module("pyarrow.parquet")
    columns = options.columns or parquet.read_schema(options.shards[0]).names
    job = make_job(
        sab.Plan.open(options.plan),
        whole_set,
        [pathlib.Path(shard).name for shard, _ in parts],
        columns,
        seed=options.seed,
        epoch=options.epoch,
        world_size=options.world_size,
        micro_batches=1,
        last_step="split",
        batches_per_file=options.batches_per_file,
    )
    missing = begin(options.output, job)
    own = [] if options.finish else [n for n in missing if n % options.tasks == options.task]
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
        table = _table(shard, sorted({*job.columns, options.column}))
        sizes = counted_sizes_of(table, options.column, part, shard)
        tables.append(job.rows_of_files(table, sizes, before, wanted)[0])
    return tables


def _places(options: argparse.Namespace, job: Job, parts: _Parts) -> int:
    """The samples of the epoch, with those that are repeated."""
    before, count = sab.Histogram(), 0
    for shard, part in parts:
        sizes = counted_sizes_of(_table(shard, [options.column]), options.column, part, shard)
        count += int(job.locate(sizes, before.number(sizes)).counts.sum())
    return count


def _write_files(path: str, job: Job, tables: list[Any]) -> None:
    """Writes the files whose rows the tables have."""
    pa = importlib.import_module("pyarrow")
    compute = importlib.import_module("pyarrow.compute")
    rows = pa.concat_tables(tables)
    for number in compute.unique(rows.column("sab_file")).to_pylist():
        own = rows.filter(compute.field("sab_file") == number)
        print_text(job.name_of(write_file(path, job, own)))
