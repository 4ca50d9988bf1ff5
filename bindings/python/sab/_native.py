"""The raw library, its statuses as exceptions, and the callbacks that run Python."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional

from sab._sab import ffi, lib  # type: ignore[import-not-found,unused-ignore]

__all__ = ["Cancelled", "Error", "FormatError", "MismatchError", "SkippedWarning", "UnsupportedError", "Calls", "check", "ffi", "lib"]

Progress = Callable[[int, int], Any]


class Error(Exception):
    """A failure of the library; the base of those that have no Python exception of their own."""


class FormatError(Error, ValueError):
    """Bytes are truncated, damaged, or of another format or version."""


class MismatchError(Error, ValueError):
    """A state is well formed but belongs to another plan, seed or sampler."""


class UnsupportedError(Error, NotImplementedError):
    """This kind of sampler cannot do that."""


class Cancelled(Error):
    """A progress callback asked to stop without raising."""


class SkippedWarning(UserWarning):
    """Samples are outside the boundaries or over the budget and were left out."""


_EXCEPTIONS: dict[int, type[Exception]] = {
    lib.SAB_E_ARGUMENT: ValueError,
    lib.SAB_E_NO_MEMORY: MemoryError,
    lib.SAB_E_CANCELLED: Cancelled,
    lib.SAB_E_IO: OSError,
    lib.SAB_E_FORMAT: FormatError,
    lib.SAB_E_MISMATCH: MismatchError,
    lib.SAB_E_UNSUPPORTED: UnsupportedError,
}


class Calls:
    """The Python functions that one call of the library may run, and the exception that one of them raised.

    The library sees `handle`. An exception ends the library's call with a code; check() raises it again, with its traceback.
    """

    def __init__(
        self,
        size: Optional[Callable[[int], float]] = None,
        cost: Optional[Callable[[int, float], float]] = None,
        source: Optional[Callable[[int, int], Optional[tuple[int, float]]]] = None,
        progress: Optional[Progress] = None,
    ) -> None:
        self.size, self.cost, self.source, self.progress = size, cost, source, progress
        self.exception: Optional[BaseException] = None
        self.handle = ffi.new_handle(self)

    def failed(self, exception: BaseException) -> int:
        self.exception = exception
        return -1


@ffi.def_extern()  # type: ignore[misc]
def sab_py_size(ctx: Any, index: int, size: Any) -> int:
    calls: Calls = ffi.from_handle(ctx)
    try:
        size[0] = calls.size(index)  # type: ignore[misc]
        return 0
    except BaseException as exception:
        return calls.failed(exception)


@ffi.def_extern()  # type: ignore[misc]
def sab_py_cost(ctx: Any, count: int, length: float, cost: Any) -> int:
    calls: Calls = ffi.from_handle(ctx)
    try:
        cost[0] = calls.cost(count, length)  # type: ignore[misc]
        return 0
    except BaseException as exception:
        return calls.failed(exception)


@ffi.def_extern()  # type: ignore[misc]
def sab_py_index(ctx: Any, epoch: int, position: int, index: Any, size: Any) -> int:
    calls: Calls = ffi.from_handle(ctx)
    try:
        given = calls.source(epoch, position)  # type: ignore[misc]
        if given is None:
            return int(lib.SAB_END)
        index[0], size[0] = given
        return 0
    except BaseException as exception:
        return calls.failed(exception)


@ffi.def_extern()  # type: ignore[misc]
def sab_py_progress(ctx: Any, done: int, total: int) -> int:
    # Also without a progress function this is where Ctrl-C comes through: running Python lets its signal handlers run.
    calls: Calls = ffi.from_handle(ctx)
    try:
        return 1 if calls.progress is not None and calls.progress(done, total) is False else 0
    except BaseException as exception:
        return calls.failed(exception)


def check(status: int, calls: Optional[Calls] = None) -> int:
    """Raises what a negative status stands for; gives the others back."""
    if status >= 0:
        return status
    message = ffi.string(lib.sab_last_error_message()).decode(errors="replace")
    if calls is not None and calls.exception is not None:
        exception, calls.exception = calls.exception, None
        raise exception
    raise _EXCEPTIONS.get(status, Error)(message)


class _LineProgress:
    """Progress as one rewritten line on a terminal, where rich is not installed."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self, done: int, total: int) -> None:
        if sys.stderr.isatty():
            end = "\n" if done >= total else ""
            print(f"\r{self.what} {100 * done // max(total, 1)} %", end=end, file=sys.stderr, flush=True)


def progress_of(progress: "bool | Progress | None", what: str) -> Optional[Progress]:
    """A function to follow a call with: the caller's own, a bar for True, none for False or None."""
    if progress is None or progress is False:
        return None
    if callable(progress):
        return progress
    try:
        from rich.progress import Progress as Bar
    except ImportError:
        return _LineProgress(what)
    bar = Bar(transient=True)
    task = bar.add_task(what, total=None)

    def follow(done: int, total: int) -> None:
        if not bar.live.is_started:
            bar.start()
        bar.update(task, completed=done, total=total)
        if done >= total:
            bar.stop()

    return follow
