"""The command ``sab``: ``sab sizes FILE``, ``sab plan FILE``, ``sab compare FILE``, ``sab pack
FILE`` and ``sab memory MODULE:FUNCTION``.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
import warnings
from collections.abc import Sequence

import sab
from sab._cli import compare, memory, pack, plan, sizes
from sab._cli.batch_sizes import StepError
from sab._cli.inputs import InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit code: 0; 2 for an invalid input or option; 130 after
    Ctrl-C; 141 if the reader of the output has ended.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # names of files, lines of tables
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sab.SkippedWarning)  # the tables say how many
            options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # for the flush when Python ends
        return 141
    except Exception as error:
        cause = error.__cause__
        if isinstance(error, StepError) and cause is not None:
            traceback.print_exception(type(cause), cause, cause.__traceback__)
        print(f"sab: {_words_of(error)}", file=sys.stderr)
        return 2
    return 0


def _words_of(error: Exception) -> str:
    """The message of an error, with its kind where the message alone does not say enough."""
    if isinstance(error, MemoryError):
        return str(error) or "out of memory"
    expected = (InputError, ValueError, OSError, ImportError, sab.Error)
    return str(error) if isinstance(error, expected) else f"{type(error).__name__}: {error}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sab", description="Which samples go into which batch, when samples differ in size."
    )
    parser.add_argument("--version", action="version", version=f"libsab {sab.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    for command in (sizes, plan, compare, pack, memory):
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
