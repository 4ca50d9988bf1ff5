"""Options that several commands have, and the files that they name."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

import sab
from sab._cli.inputs import InputError
from sab._cli.meter import Meter
from sab._cli.quantities import quantity, whole
from sab._cli.tables import print_text
from sab._native import lib
from sab._sizes import files_of
from sab._tables import TABLE_FORMATS

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = Any


_FORMATS = (
    *("npy", "megatron", "fairseq", "datatrove", "jsonl", "numbers", "text", "kaldi", "fasta"),
    *TABLE_FORMATS,
)


def add_inputs(parser: argparse.ArgumentParser, least: str = "+") -> None:
    """Adds the files, and how they are read."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs=least,
        help=".npy; index of Megatron, fairseq or datatrove; JSON lines, numbers, texts, FASTA, "
        "also gzip or zstd; Parquet, Arrow IPC, CSV, TSV (with pyarrow); - for standard input",
    )
    parser.add_argument(
        "--column",
        action="append",
        help="column, or field of JSON lines, such as length or audio.frames; plan and compare "
        "take several, one a --column, for samples with several sizes",
    )
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        metavar="FORMAT",  # the choices alone are wider than a terminal
        help=f"format of the files (default: found from their content): {', '.join(_FORMATS)}",
    )
    parser.add_argument(
        "--words", action="store_true", help="count the words of a text, not its UTF-8 bytes"
    )
    parser.add_argument(
        "--units",
        choices=["bytes", "words", "value"],
        help="size of a text: its UTF-8 bytes, its words, or the number that it is (default: "
        "bytes, but texts that are all numbers are refused)",
    )
    parser.add_argument(
        "--nulls",
        default="error",
        choices=["error", "zero"],
        help="nulls in JSON lines and tables: refuse with an error, or count as 0 (default: error)",
    )
    parser.add_argument(
        "--missing",
        default="error",
        choices=["error", "skip"],
        help="JSON lines without the field: refuse with an error, or skip (default: error)",
    )


def common_options() -> argparse.ArgumentParser:
    """Options of the commands that read sizes and plan with a budget."""
    common = argparse.ArgumentParser(add_help=False)
    add_inputs(common)
    common.add_argument(
        "--budget", type=quantity, default=16384, help="padded size of a batch (default: 16384)"
    )
    common.add_argument("--seed", type=whole, default=0, help="seed of the shuffles (default: 0)")
    common.add_argument("--json", action="store_true", help="print JSON instead of a table")
    common.add_argument("--picture", metavar="FILE", help="write a .png or .svg picture")
    return common


def check_picture(options: argparse.Namespace) -> None:
    """Refuses the name of a picture of another format."""
    if options.picture and not options.picture.endswith((".png", ".svg")):
        raise InputError(f"--picture {options.picture}: must end in .png or .svg")


def read(options: argparse.Namespace) -> sab.Sizes:
    """The sizes in the files. Prints how they were read."""
    columns = columns_of(options)
    if len(columns) > 1:
        raise InputError(f"--column {columns[1]}: this command takes one column")
    return _read_column(options, columns[0] if columns else None)


def columns_of(options: argparse.Namespace) -> list[str]:
    """The names that --column gives."""
    columns: list[str] = options.column or []
    for index, name in enumerate(columns):
        if name in columns[:index]:
            raise InputError(f"--column {name}: is given twice")
    if len(columns) > lib.SAB_MAX_COLUMNS:
        raise InputError(
            f"number of --column {len(columns)}: must be at most {lib.SAB_MAX_COLUMNS}"
        )
    return columns


def _read_column(options: argparse.Namespace, column: str | None) -> sab.Sizes:
    """One column of the files."""
    parts: list[sab.Sizes] = []
    for path in [name for given in options.files for name in files_of(given)]:
        with Meter(f"reading {path}") as progress:
            sizes = sab.Sizes(
                path,
                column=column,
                format=options.format,
                words=options.words,
                units=options.units,
                nulls=options.nulls,
                missing=options.missing,
                progress=progress,
            )
        print_text(f"{path}: read as {sizes.description}", sys.stderr if options.json else None)
        parts.append(sizes)
    return sab.Sizes._of_files(parts)


def read_to_plan(options: argparse.Namespace) -> sab.Sizes:
    """As read(), for commands that plan with a budget and draw a picture. The sizes may have
    several columns.
    """
    check_picture(options)
    if not options.budget > 0:
        raise InputError(f"--budget {options.budget:g}: must be above 0")
    columns = columns_of(options)
    if len(columns) < 2:
        return read(options)
    if "-" in options.files:
        raise InputError("-: several columns need a file; the standard input can be read once")
    return sab.Sizes({name: _read_column(options, name) for name in columns})
