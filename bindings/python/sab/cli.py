"""The command ``sab``: ``sab sizes FILE``, ``sab plan FILE``, ``sab compare FILE``, ``sab pack
FILE``, ``sab memory MODULE:FUNCTION`` and ``sab engine PHASE``.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Sequence
from typing import NoReturn

import sab
from sab._at_start import EXIT_CODE, raise_interrupts
from sab._cli import compare, engine, memory, pack, plan, sizes
from sab._cli.batch_sizes import StepError
from sab._cli.inputs import InputError
from sab._messages import tokens


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit code: 0; 2 for an invalid input or option; 130 after
    Ctrl-C; 141 if the reader of the output has ended.
    """
    names: Iterable[str] = ()
    try:
        raise_interrupts()
        _open_closed_streams()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # names of files, lines of tables
        options = _parser().parse_args(arguments)
        names = vars(options).keys()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sab.SkippedWarning)  # the tables say how many
            options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_CODE
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # for the flush when Python ends
        return 141
    except Exception as error:
        cause = error.__cause__
        if isinstance(error, StepError) and cause is not None:
            traceback.print_exception(type(cause), cause, cause.__traceback__)
        print(f"sab: {_for_options(_words_of(error), names)}", file=sys.stderr)
        return 2
    return 0


def _open_closed_streams() -> None:
    """Standard streams that the caller has closed (``>&-``) are as ``/dev/null``."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 until the process ends


def _words_of(error: Exception) -> str:
    """The message of an error, with its kind where the message alone does not say enough."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return f'"{error.filename}": {error.strerror}'
    if isinstance(error, MemoryError):
        return str(error) or "out of memory"
    expected = (InputError, ValueError, OSError, ImportError, sab.Error)
    return str(error) if isinstance(error, expected) else f"{type(error).__name__}: {error}"


def _for_options(message: str, names: Iterable[str]) -> str:
    """A message about arguments in Python as one about options.

    >>> _for_options("padding = 2: must be below 1. Set tail to 'keep'", ["padding", "tail"])
    '--padding 2: must be below 1. Set --tail to keep'
    >>> _for_options("column = None: must be one of a, b", ["column"])
    '--column: must be one of a, b'
    """
    options = {name: f"--{name.replace('_', '-')}" for name in names}
    words, at = list(tokens(message)), 0
    said: list[str] = []
    while at < len(words):
        name, bracket, index = words[at].partition("[")
        option = options.get(name)
        rest = "".join(words[at + 1 :])
        at += 1
        if option is None:
            said.append(name + bracket + index)
        elif rest.startswith(" = "):
            said.append(option + bracket + index)
            value = rest[3:]
            at += 3  # to the value
            if value.startswith("None:"):
                at += 1
            else:
                said.append(" ")
                at = _unquote(words, at, said)
        elif rest.startswith("='"):
            said += [option, " "]
            at = _unquote(words, at + 1, said)
        elif "".join(said).endswith("len(") and rest.startswith(")"):
            said[-2:] = ["number of ", option]
            at += 1
        elif not said and rest.startswith(": "):
            said.append(option)
        elif "".join(said).endswith("Set ") and rest.startswith(" to "):
            said += [option, " to "]
            at = _unquote(words, at + 3, said)
        else:
            said.append(name + bracket + index)
    return "".join(said)


def _unquote(words: Sequence[str], at: int, said: list[str]) -> int:
    """Adds the value there without its quotes; gives the place behind it."""
    if words[at : at + 1] == ["'"] and "'" in words[at + 1 :]:
        end = words.index("'", at + 1)
        said.append("".join(words[at + 1 : end]))
        return end + 1
    return at


class _Parser(argparse.ArgumentParser):
    """Prints an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Ends the command."""
        self.exit(2, f"sab: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="sab", description="Which samples go into which batch, when samples differ in size."
    )
    parser.add_argument("--version", action="version", version=f"libsab {sab.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    for command in (sizes, plan, compare, pack, memory, engine):
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
