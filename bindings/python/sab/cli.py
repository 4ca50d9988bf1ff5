"""The command ``sab``: ``sab compare INPUT``, ``sab plan INPUT``, ``sab pack INPUT`` and ``sab
memory MODULE:FUNCTION``.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Sequence

import sab
from sab._cli import compare, memory, pack, plan
from sab._cli.batch_sizes import StepError
from sab._cli.inputs import InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit code: 0; 2 for an invalid input or option; 130 after
    Ctrl-C; 141 if the reader of the output has ended.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
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
    except (InputError, ValueError, OSError, sab.Error) as error:
        cause = error.__cause__
        if isinstance(error, StepError) and cause is not None:
            traceback.print_exception(type(cause), cause, cause.__traceback__)
        print(f"sab: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"sab: {error.name} is needed for this: pip install 'libsab[cli]'", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sab", description="Which samples go into which batch, when samples differ in size."
    )
    parser.add_argument("--version", action="version", version=f"libsab {sab.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    for command in (compare, plan, pack, memory):
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
