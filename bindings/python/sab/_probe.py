"""Probes: the memory of a device, the library's own or one of Python."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Generator
from typing import Any, NamedTuple, Protocol, Union

from sab._arguments import whole
from sab._devices import Device, open_device
from sab._native import (
    Calls,
    CData,
    UnsupportedError,
    check,
    ffi,
    keep_exception,
    lib,
    new_struct,
    record_of,
    unpicklable,
)

__all__ = ["Probe", "ProbeStats"]


class TorchDevice(Protocol):
    """A device of a framework, such as a ``torch.device``: its text names it."""

    @property
    def type(self) -> str: ...

    @property
    def index(self) -> Any: ...


DeviceLike = Union["Probe", Device, str, TorchDevice]


class _DeviceCalls(Calls):
    """A Python device under a probe."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device
        self.states: dict[int, object] = {}


# The devices of the probes that the library has, and may go on using after Probe.close().
_open: set[_DeviceCalls] = set()


@atexit.register
def _close_all() -> None:
    while _open:
        with contextlib.suppress(Exception):
            _open.pop().device.close()


def _device(ctx: CData) -> Device:
    return ffi.from_handle(ctx).device  # type: ignore[no-any-return]


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_device_reset(ctx: CData) -> int:
    _device(ctx).reset()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_device_current(ctx: CData, value: CData) -> int:
    value[0] = _device(ctx).current()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_device_peak(ctx: CData, value: CData) -> int:
    value[0] = _device(ctx).peak()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_device_reserved(ctx: CData, reserved_peak: CData, largest_free: CData) -> int:
    reserved_peak[0], largest_free[0] = _device(ctx).reserved()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_device_total(ctx: CData, value: CData) -> int:
    value[0] = _device(ctx).total()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_device_release_cache(ctx: CData) -> int:
    _device(ctx).release_cache()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_device_rng_save(ctx: CData, depth: int) -> int:
    ffi.from_handle(ctx).states[depth] = _device(ctx).rng_state()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_device_rng_restore(ctx: CData, depth: int) -> int:
    _device(ctx).set_rng_state(ffi.from_handle(ctx).states[depth])
    return 0


@ffi.def_extern(onerror=keep_exception)
def sab_py_device_release(ctx: CData) -> None:
    calls = next((calls for calls in _open if calls.handle == ctx), None)
    if calls is not None:  # else the interpreter is on its way out and has closed it
        _open.remove(calls)
        calls.device.close()


class ProbeStats(NamedTuple):
    """What a probe sees, in bytes; -1 where it cannot: the fields of ``sab_probe_stats``."""

    current: int
    peak: int
    reserved_peak: int
    largest_free: int
    total: int


class Probe:
    """Reads the memory statistics of a device.

    Args:
        device: ``"host"``: resident memory of this process. ``"cpu"``: bytes of CPU tensors that
            torch allocates from now on, in this thread and in backward. ``"cuda"``, ``"cuda:N"``,
            ``"xpu:N"`` or a ``torch.device``: torch's caching allocator. ``"jax:N"``: a device of
            JAX. Or a :class:`sab.Device` of the caller.
        total_bytes: limits the device to this many bytes. An allocation beyond them raises torch's
            out-of-memory error. ``"cuda:N"`` uses torch's memory fraction. ``"cpu"`` emulates the
            limit and needs libsab's LibTorch component, built for that torch (SAB_TORCH_LIBRARY).

    ``"cpu"`` uses torch's profiler, which takes a tenth of the time of a small step. It takes less
    with libsab's LibTorch component, if SAB_TORCH_LIBRARY names it.

    A probe is for one thread at a time. A ``"cpu"`` probe is for the thread that made it. Close
    such probes in reverse order.
    """

    def __copy__(self) -> Probe:
        """Another reference to the same probe."""
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __reduce__(self) -> tuple[object, ...]:
        raise unpicklable(self, "make a probe in each process that needs one")

    def __init__(
        self, device: Device | str | TorchDevice, *, total_bytes: int | None = None
    ) -> None:
        self._calls: _DeviceCalls | None = None
        self._handle = ffi.NULL
        if total_bytes is not None:
            total_bytes = whole("total_bytes", total_bytes, 1, bits=63)
        if total_bytes is not None and isinstance(device, Device):
            raise UnsupportedError(
                f"total_bytes = {total_bytes}: a device of one's own has the total that it says"
            )
        handle = ffi.new("sab_probe **")
        self._device = device
        own = device if isinstance(device, Device) else open_device(str(device), total_bytes or 0)
        if own is None:
            options = new_struct("sab_probe_options")
            options.total_bytes = total_bytes or 0
            check(lib.sab_probe_new(str(device).encode(), options, handle))
        else:
            self._calls = _DeviceCalls(own)
            callbacks = new_struct("sab_probe_callbacks")
            callbacks.ctx = self._calls.handle
            for name in (
                "reset",
                "current",
                "peak",
                "reserved",
                "total",
                "release_cache",
                "rng_save",
                "rng_restore",
                "release",
            ):
                setattr(callbacks, name, getattr(lib, f"sab_py_device_{name}"))
            check(lib.sab_probe_callbacks_new(callbacks, handle))
            _open.add(self._calls)
        self._handle = ffi.gc(handle[0], lib.sab_probe_free)

    def _check(self, status: int, calls: Calls | None = None) -> int:
        """As check(), also for an exception of the device's own functions."""
        mine = self._calls
        if mine is None:
            return check(status, calls)
        if calls is None:
            return check(status, mine)
        if mine.exception is not None:
            calls.keep(mine.exception)
            mine.exception = None
        return check(status, calls)

    def reset(self) -> None:
        """Lets the peak begin again at what is held now."""
        self._check(lib.sab_probe_reset(self._handle))

    def stats(self) -> ProbeStats:
        """Reads what the probe sees."""
        stats = new_struct("sab_probe_stats")
        self._check(lib.sab_probe_get_stats(self._handle, stats))
        return record_of(ProbeStats, stats)

    def _available(self) -> int:
        """Bytes that this process holds or can still get; -1: not known."""
        return self.stats().total if self._calls is None else self._calls.device.available()

    def release_cache(self) -> None:
        """Gives cached blocks back to the device."""
        self._check(lib.sab_probe_release_cache(self._handle))

    def __repr__(self) -> str:
        return (
            "<sab.Probe, closed>" if self._handle == ffi.NULL else f"<sab.Probe of {self._device}>"
        )

    def close(self) -> None:
        """Frees the probe; the device has its own size again. Also done by ``with`` and when it is
        collected.
        """
        self._handle = ffi.NULL  # freed when no call and no guard uses it any more
        if self._calls is not None:
            self._calls.raise_kept()

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@contextlib.contextmanager
def probe_of(device: DeviceLike) -> Generator[Probe, None, None]:
    """A probe for one call: the caller's, or one that is closed after it."""
    if isinstance(device, Probe):
        yield device
        return
    probe = Probe(device)
    try:
        yield probe
    finally:
        probe.close()
