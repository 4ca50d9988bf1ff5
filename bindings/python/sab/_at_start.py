"""Ctrl-C while the command ``sab`` imports the package: it ends, without a traceback. The first
module of the package that is imported.
"""

from __future__ import annotations

import os
import signal
import sys

EXIT_CODE = 130  # after Ctrl-C, as of a shell


def _end(*_: object) -> None:
    os._exit(EXIT_CODE)


def _is_command() -> bool:
    """Whether this process runs ``sab`` or ``python -m sab.cli``."""
    program = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    return program == "sab" or (program == "-m" and "sab.cli" in getattr(sys, "orig_argv", ()))


def raise_interrupts() -> None:
    """Ctrl-C raises KeyboardInterrupt again, if the command has begun."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
