"""Options that several commands have, and the input that they name."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Callable

import numpy.typing as npt

from sab._cli.inputs import InputError, read_sizes

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = Any


def common_options() -> argparse.ArgumentParser:
    """Options of the commands that read sizes and plan with a budget."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "input",
        metavar="INPUT",
        help=".npy of sizes, text (a sample a line), FASTA, gzip of these, or - for standard input",
    )
    common.add_argument(
        "--bytes", action="store_true", help="count the bytes of a line of text, not its words"
    )
    common.add_argument(
        "--budget", type=float, default=16384, help="padded size of a batch (default: 16384)"
    )
    common.add_argument("--seed", type=int, default=0, help="seed of the shuffles (default: 0)")
    common.add_argument("--json", action="store_true", help="print JSON instead of a table")
    common.add_argument("--picture", metavar="FILE", help="write a .png or .svg picture")
    return common


def check_picture(options: argparse.Namespace) -> None:
    """Refuses the name of a picture of another format."""
    if options.picture and not options.picture.endswith((".png", ".svg")):
        raise InputError(f"--picture {options.picture}: must end in .png or .svg")


@contextlib.contextmanager
def _progress(what: str) -> Generator[Callable[[int], None] | None, None, None]:
    """A line of progress on a terminal for reads that take long; None elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    try:
        from rich.console import Console
    except ImportError:
        yield None
        return
    with Console(stderr=True).status(what) as status:
        yield lambda done: status.update(f"{what}: {done / 1e6:,.0f} MB")


def read(options: argparse.Namespace) -> tuple[npt.NDArray[Any], str]:
    """The sizes of the input, and their unit."""
    with _progress(f"reading {options.input}") as progress:
        return read_sizes(options.input, options.bytes, progress)


def read_to_plan(options: argparse.Namespace) -> tuple[npt.NDArray[Any], str]:
    """As read(), for commands that plan with a budget and draw a picture."""
    check_picture(options)
    if not options.budget > 0:
        raise InputError(f"--budget {options.budget:g}: must be above 0")
    return read(options)
