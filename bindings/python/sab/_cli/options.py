"""Options that several commands have, and the files that they name."""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import sab
from sab._arrow import TABLE_FORMATS
from sab._cli.inputs import InputError
from sab._cli.meter import Meter
from sab._cli.quantities import quantity, whole
from sab._cli.tables import print_text

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = Any


_FORMATS = ("npy", "megatron", "fairseq", "datatrove", "jsonl", "numbers", "text", "fasta")


def add_inputs(parser: argparse.ArgumentParser, least: str = "+") -> None:
    """Adds the files, and how they are read."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs=least,
        help=".npy; index of Megatron, fairseq or datatrove; JSON lines, numbers, texts, FASTA, "
        "also gzip or zstd; Parquet, Arrow IPC, CSV (with pyarrow); - for standard input",
    )
    parser.add_argument(
        "--column", help="column, or field of JSON lines, such as length or audio.frames"
    )
    parser.add_argument(
        "--format",
        choices=[*_FORMATS, *TABLE_FORMATS],
        help="format of the files (default: found from their content)",
    )
    parser.add_argument(
        "--words", action="store_true", help="count the words of a text, not its UTF-8 bytes"
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


def read(options: argparse.Namespace) -> npt.NDArray[Any]:
    """The sizes in the files. Prints how they were read."""
    parts: list[npt.NDArray[Any]] = []
    for path in options.files:
        with Meter(f"reading {path}") as progress:
            sizes = sab.Sizes(
                pathlib.Path(path),
                column=options.column,
                format=options.format,
                words=options.words,
                missing=options.missing,
                progress=progress,
            )
        print_text(f"{path}: read as {sizes.description}", sys.stderr if options.json else None)
        if len(sizes) == 0:
            raise InputError(f"{path}: has no sample")
        parts.append(sizes.values())
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def read_to_plan(options: argparse.Namespace) -> npt.NDArray[Any]:
    """As read(), for commands that plan with a budget and draw a picture."""
    check_picture(options)
    if not options.budget > 0:
        raise InputError(f"--budget {options.budget:g}: must be above 0")
    return read(options)
