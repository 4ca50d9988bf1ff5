"""The raw library, its statuses as exceptions, and the callbacks that run Python."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
import weakref
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from sab._arguments import brief
from sab._messages import Parts, in_python
from sab._names import CHOICES
from sab._sab import ffi, lib

if TYPE_CHECKING:
    from sab._sab import CData
else:
    CData = ffi.CData

__all__ = [
    "CData",
    "Calls",
    "Cancelled",
    "DeviceMemoryError",
    "Error",
    "FormatError",
    "MismatchError",
    "SkippedWarning",
    "UnsupportedError",
    "check",
    "ffi",
    "keep_exception",
    "lib",
    "path_bytes",
]

_NOTEBOOK_INTERVAL = 0.1  # seconds between two updates of a line

Progress = Callable[[int, int], Any]
Record = TypeVar("Record", bound="tuple[Any, ...]")


class Error(Exception):
    """A failure of the library; the base of those that have no Python exception of their own."""


class FormatError(Error, ValueError):
    """Bytes are truncated, damaged, or of another format or version."""


class MismatchError(Error, ValueError):
    """A state is well formed but belongs to another plan, seed or sampler."""


class UnsupportedError(Error, NotImplementedError):
    """This kind of sampler cannot do that."""


class DeviceMemoryError(Error, RuntimeError):
    """The device's memory does not suffice even for a batch of one."""


class Cancelled(Error):
    """A progress callback asked to stop without raising."""


class SkippedWarning(UserWarning):
    """Samples are outside the boundaries or over the budget and were left out."""


def choices(prefix: str) -> dict[str, int]:
    """The words of a choice, by the prefix of its constants, and their numbers."""
    return {word: getattr(lib, name) for name, word in CHOICES.items() if name.startswith(prefix)}


_EXCEPTIONS: dict[int, type[Exception]] = {
    lib.SAB_E_ARGUMENT: ValueError,
    lib.SAB_E_NO_MEMORY: MemoryError,
    lib.SAB_E_CANCELLED: Cancelled,
    lib.SAB_E_FORMAT: FormatError,
    lib.SAB_E_MISMATCH: MismatchError,
    lib.SAB_E_UNSUPPORTED: UnsupportedError,
    lib.SAB_E_DEVICE_MEMORY: DeviceMemoryError,
    lib.SAB_E_TIMEOUT: TimeoutError,
}


class Calls:
    """The Python functions that one call of the library may run, and the exception that one of them
    raised.

    The library sees `handle`. An exception ends the library's call with a code; check() raises it
    again, with its traceback.
    """

    def __init__(
        self,
        size: Callable[[int], float] | None = None,
        source: Callable[[int, int], tuple[int, float] | None] | None = None,
        progress: bool | Progress | None = None,
        what: str = "",
        gather: Callable[[bytes], Sequence[bytes]] | None = None,
        load: Callable[[], Any] | None = None,
    ) -> None:
        self.size, self.source, self.gather, self.load = size, source, gather, load
        self.made: Any = None  # what a load gave, until the call is over
        self.kept: list[object] = []  # memory and handles that the options point to
        self.names: dict[str, str] = {}  # fields of the options: what the caller calls them
        if not (progress is None or isinstance(progress, bool) or callable(progress)):
            raise TypeError(
                f"progress = {brief(progress)}: must be True, False, None or a function"
            )
        self.bar = _bar(what) if progress is True else None
        self.progress = progress if callable(progress) else self.bar
        self.exception: BaseException | None = None
        self.ran_out: BaseException | None = None  # the last time that memory ran out
        # Weak, so that the functions, and with them the tensors of a step, go when the call is over
        # and not when garbage is collected.
        self.handle = ffi.new_handle(weakref.proxy(self))

    def options(self, kind: str = "sab_progress_options") -> CData:
        """Options with their defaults, but for progress, which these calls are told of."""
        options = new_struct(kind)
        options.progress, options.progress_ctx = lib.sab_py_progress, self.handle
        return options

    def keep(self, exception: BaseException) -> None:
        """The first one is told, but for what must never be swallowed, such as Ctrl-C."""
        if self.exception is None or not isinstance(exception, Exception):
            self.exception = exception

    def raise_kept(self) -> None:
        exception, self.exception = self.exception, None
        try:
            if exception is not None:
                raise exception
        finally:
            del exception  # this frame and the exception would hold each other


def keep_exception(kind: Any, exception: BaseException, traceback: Any) -> None:
    # Called by cffi for whatever a callback raises. A try statement inside the callbacks would miss
    # Ctrl-C in their first instant, which is where Python delivers it after a long stretch of C.
    ffi.from_handle(traceback.tb_frame.f_locals["ctx"]).keep(exception)


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_size(ctx: CData, index: int, size: CData) -> int:
    given = ffi.from_handle(ctx).size(index)
    try:
        size[0] = given
    except TypeError:
        raise TypeError(f"sizes({index}) gave {brief(given)}: must be a number") from None
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_index(ctx: CData, epoch: int, position: int, index: CData, size: CData) -> int:
    given = ffi.from_handle(ctx).source(epoch, position)
    if given is None:
        return int(lib.SAB_END)
    index[0], size[0] = given
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_all_gather(ctx: CData, mine: CData, size: int, all_ranks: CData) -> int:
    gathered = ffi.from_handle(ctx).gather(bytes(ffi.buffer(mine, size)))
    for rank, given in enumerate(gathered):
        if len(given) != size:
            raise ValueError(
                f"gather: rank {rank} gave {len(given)} bytes, this one {size}: they do not call "
                "the same"
            )
    ffi.memmove(all_ranks, b"".join(gathered), size * len(gathered))
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_progress(ctx: CData, done: int, total: int) -> int:
    # Also without a progress function this is where Ctrl-C comes through: running Python lets its
    # signal handlers run.
    progress = ffi.from_handle(ctx).progress
    return 1 if progress is not None and progress(done, total) is False else 0


def unpicklable(value: Any, instead: str) -> TypeError:
    """The error of a `__reduce__`, which pickle and copy call, of what exists in this process
    only.
    """
    return TypeError(f"sab.{type(value).__name__} cannot be pickled or deep-copied: {instead}")


def path_bytes(path: str | os.PathLike[str], name: str = "path") -> bytes:
    """A file name, or a text with one in it, as C has it."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} = {brief(path)}: must be the name of a file")
    data = os.fsencode(path)
    if b"\0" in data:  # where C would see the end
        raise ValueError(f"{name} = {path!r}: must not have a null character")
    return data


def new_struct(kind: str) -> CData:
    """A struct for the library: options with their defaults, or one that a function fills."""
    return ffi.new(f"{kind} *", {"struct_size": ffi.sizeof(kind)})


def record_of(kind: type[Record], struct: CData, **others: Any) -> Record:
    """The named tuple of ``others``, and for the rest of the fields of a struct by their names."""
    names: Sequence[str] = getattr(kind, "_fields")  # noqa: B009  # of any named tuple
    return kind(*(others[name] if name in others else getattr(struct, name) for name in names))


def column_names(names: CData, count: int) -> tuple[str, ...]:
    """The names that the library gives for columns; NULL for columns without names."""
    if names == ffi.NULL:
        return ("",) if count == 1 else tuple(map(str, range(count)))
    return tuple(ffi.string(names[j]).decode() for j in range(count))


def check(status: int, calls: Calls | None = None) -> int:
    """Raises what a negative status stands for; gives the others back."""
    if calls is not None and calls.bar is not None:
        calls.bar.stop(status >= 0)
    if status >= 0:
        if calls is not None:
            calls.exception = None  # of a call back whose failure the library has dealt with
        return status
    error = _error(status, calls.names if calls is not None else {})
    if calls is not None:
        calls.raise_kept()
        raise error from (calls.ran_out if status == lib.SAB_E_DEVICE_MEMORY else None)
    raise error


def _error(status: int, names: Mapping[str, str]) -> Exception:
    """The exception of the last failure of this thread."""
    file = ffi.string(lib.sab_last_error_value())
    message, argument, rule = (
        ffi.string(text).decode(errors="replace")
        for text in (
            lib.sab_last_error_message(),
            lib.sab_last_error_argument(),
            lib.sab_last_error_rule(),
        )
    )
    if status == lib.SAB_E_IO:
        code = lib.sab_last_error_code()
        return OSError(code, rule, os.fsdecode(file)) if code and file else OSError(message)
    parts = Parts(message, argument, file.decode(errors="replace"), rule)
    return _EXCEPTIONS.get(status, Error)(in_python(parts, names))


def written(write: Callable[[CData, int, CData], object]) -> bytes:
    """What a function of the library writes where there is room for it. ``write(room, capacity,
    size)`` calls it, and checks what it returns.
    """
    size = ffi.new("size_t *")
    write(ffi.NULL, 0, size)
    room = bytearray(size[0])
    write(ffi.from_buffer(room), len(room), size)
    return bytes(room)


def warn_of_skipped(skipped: int, samples: int, why: str) -> None:
    """Warns the caller of the public function or constructor that calls this, if any were."""
    if skipped:
        text = f"{skipped} of {samples} samples are {why} and are skipped"
        warnings.warn(text, SkippedWarning, stacklevel=3)


def _progress_text(what: str, done: int, total: int) -> str:
    return f"{what}: {100 * done // total} %" if total else f"{what}: {done:,}"


class _NotebookLine:
    """Progress as one line of a notebook's output, which is updated in place."""

    def __init__(self, what: str, display: Callable[..., Any]) -> None:
        self.what, self.display = what, display
        self.line: Any = None  # from the first report on
        self.text: str = ""
        self.shown_at: float = 0.0

    def __call__(self, done: int, total: int) -> None:
        self.text = _progress_text(self.what, done, total)
        now = time.monotonic()
        if self.line is None:
            self.line = self.display(self._data(), raw=True, display_id=True)
        elif now - self.shown_at < _NOTEBOOK_INTERVAL:
            return
        else:
            self.line.update(self._data(), raw=True)
        self.shown_at = now

    def stop(self, is_done: bool) -> None:
        if self.line is not None:
            self.text = f"{self.what}: done" if is_done else self.text
            self.line.update(self._data(), raw=True)

    def _data(self) -> dict[str, str]:
        return {"text/plain": self.text}


class _Line:
    """Progress as one rewritten line on a terminal, where rich is not installed."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.shown = False

    def __call__(self, done: int, total: int) -> None:
        if sys.stderr.isatty():
            self.shown = True
            text = _progress_text(self.what, done, total)
            print(f"\r{text}", end="", file=sys.stderr, flush=True)

    def stop(self, is_done: bool) -> None:
        if self.shown:
            print(file=sys.stderr)


class _RichBar:
    """Progress as a bar of rich, shown from the first report on."""

    def __init__(self, what: str) -> None:
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        self.bar = Progress(console=console, transient=True, disable=not console.is_terminal)
        self.task = self.bar.add_task(what, total=None)

    def __call__(self, done: int, total: int) -> None:
        if not self.bar.live.is_started:
            self.bar.start()
        self.bar.update(self.task, completed=done, total=total)

    def stop(self, is_done: bool) -> None:
        if self.bar.live.is_started:
            self.bar.stop()


@contextlib.contextmanager
def one_bar(progress: bool | Progress | None, what: str) -> Generator[bool | Progress | None]:
    """What to tell of progress in a call that makes several: True gives one bar for all of them."""
    if progress is not True:
        yield progress
        return
    bar = _bar(what)
    is_done = False
    try:
        yield bar
        is_done = True
    finally:
        bar.stop(is_done)


def _bar(what: str) -> _NotebookLine | _Line | _RichBar:
    ipython: Any = sys.modules.get("IPython")  # which each notebook has loaded
    if ipython is not None and hasattr(ipython.get_ipython(), "kernel"):
        return _NotebookLine(what, ipython.display.display)
    try:
        return _RichBar(what)
    except ImportError:
        return _Line(what)
