"""Percent and rate of a read, on a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from sab._cli.tables import terminal_width

_INTERVAL = 0.1  # seconds between two lines


class Meter:
    """One line on standard error that is rewritten, and removed at the end. Prints nothing if
    standard error is no terminal.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._begin = self._last = time.monotonic()
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        """Shows the bytes that are read, of all bytes; 0: their number is not known."""
        now = time.monotonic()
        if now - self._last < _INTERVAL or not sys.stderr.isatty():
            return
        self._last, self._shown = now, True
        share = f"{100 * done // total} %" if total else f"{done / 1e6:,.0f} MB"
        line = f"{self._what}: {share}, {done / 1e6 / (now - self._begin):,.0f} MB/s"
        sys.stderr.write(f"\r\x1b[K{line[: terminal_width() - 1]}")
        sys.stderr.flush()

    def __enter__(self) -> Meter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: TracebackType | None,
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
