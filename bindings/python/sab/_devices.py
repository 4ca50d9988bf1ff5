"""The memory of devices, asked of the framework that the user has loaded, and what counts as
running out of it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import re
import sys
import tempfile
import threading
from collections.abc import Generator
from typing import Any

import numpy as np

from sab._display import public_name
from sab._native import (
    DeviceMemoryError,
    MismatchError,
    UnsupportedError,
    check,
    ffi,
    lib,
    new_struct,
)

__all__ = ["Device", "is_out_of_memory"]

_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "RESOURCE_EXHAUSTED",
)


# Messages of Kineto, torch's tracer, that a session begins, has a stage behind it, or ends. Their
# severity is above that of errors, so that no level of its log leaves out only them.
_SESSION_LINES = re.compile(
    rb"^(?:STAGE|USDT):\d+-\d+-\d+ \d+:\d+:\d+ \d+:\d+ \w+\.cpp:\d+\] .*\n?", re.MULTILINE
)
_stderr_lock = threading.Lock()


@contextlib.contextmanager
def _no_session_lines() -> Generator[None, None, None]:
    """Leaves Kineto's messages of sessions out of standard error. All other lines are written, at
    the end.
    """
    with _stderr_lock, tempfile.TemporaryFile() as lines:
        try:
            stderr = os.dup(2)
        except OSError:  # there is none
            yield
            return
        os.dup2(lines.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            lines.seek(0)
            rest = _SESSION_LINES.sub(b"", lines.read())
            while rest:
                rest = rest[os.write(2, rest) :]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that a device's memory did not suffice: torch's and jax's errors,
    Python's MemoryError, and :class:`DeviceMemoryError`.
    """
    if isinstance(error, (MemoryError, DeviceMemoryError)):
        return True
    torch = sys.modules.get("torch")
    if torch is not None:
        for kind in (
            getattr(torch, "OutOfMemoryError", None),
            getattr(torch.cuda, "OutOfMemoryError", None),
        ):
            if kind is not None and kind is not RuntimeError and isinstance(error, kind):
                return True
    if not isinstance(error, RuntimeError):
        return False
    try:
        return any(words in str(error) for words in _OUT_OF_MEMORY)
    except Exception:  # of its own __str__
        return False


class Device:
    """A device's memory; the base of a probe of one's own. ``reset``, ``current`` and ``peak`` must
    be given.
    """

    def reset(self) -> None:
        """The peak begins again at what is held now."""
        raise NotImplementedError

    def current(self) -> int:
        """Bytes held now."""
        raise NotImplementedError

    def peak(self) -> int:
        """Most bytes held since the last reset."""
        raise NotImplementedError

    def reserved(self) -> tuple[int, int]:
        """Most bytes that the allocator kept since the last reset, and its largest free block; -1
        where not known.
        """
        return -1, -1

    def total(self) -> int:
        """Bytes of the device; -1: not known."""
        return -1

    def available(self) -> int:
        """Bytes that this process holds or can still get; by default :meth:`total`. Less where
        other processes use the device.
        """
        return self.total()

    def release_cache(self) -> None:
        """Gives cached blocks back to the device."""

    def rng_state(self) -> Any:
        """The state of the random generators."""
        return _python_rng()

    def set_rng_state(self, state: Any) -> None:
        """Goes back to a state of :meth:`rng_state`."""
        _set_python_rng(state)

    def close(self) -> None:
        """Called once, when the probe is freed."""

    def __repr__(self) -> str:
        return f"<{public_name(self)}>"


def _python_rng() -> Any:
    torch = sys.modules.get("torch")
    # As bytes: a tensor would count among those of the work.
    return (
        random.getstate(),
        np.random.get_state(),
        None if torch is None else torch.get_rng_state().numpy().tobytes(),
    )


def _set_python_rng(state: Any) -> None:
    random.setstate(state[0])
    np.random.set_state(state[1])
    if state[2] is not None:
        torch = sys.modules["torch"]
        torch.set_rng_state(torch.frombuffer(bytearray(state[2]), dtype=torch.uint8))


class _TorchAccelerator(Device):
    """A device of torch with a caching allocator: ``torch.cuda``, or ``torch.xpu`` and others
    where that torch has them.
    """

    def __init__(self, torch: Any, kind: str, index: int, total_bytes: int) -> None:
        self.torch, self.index = torch, index
        self.module: Any = getattr(torch, kind, None)
        if self.module is None or not hasattr(self.module, "memory_stats"):
            raise ValueError(
                f"device = '{kind}:{index}': torch {torch.__version__} has no memory statistics "
                "of such devices"
            )
        count = self.module.device_count() if self.module.is_available() else 0
        if not 0 <= index < count:
            raise ValueError(
                f"device = '{kind}:{index}': torch {torch.__version__} sees {count} such devices"
            )
        self.device = torch.device(kind, index)
        self.all_bytes = int(self.module.get_device_properties(self.device).total_memory)
        self.limited = total_bytes > 0
        if self.limited:
            if total_bytes > self.all_bytes:
                raise ValueError(f"total_bytes = {total_bytes}: the device has {self.all_bytes}")
            self.module.set_per_process_memory_fraction(total_bytes / self.all_bytes, self.device)
        self.total_bytes = total_bytes or self.all_bytes

    def reset(self) -> None:
        self.module.reset_peak_memory_stats(self.device)

    def current(self) -> int:
        return int(self.module.memory_allocated(self.device))

    def peak(self) -> int:
        return int(self.module.max_memory_allocated(self.device))

    def reserved(self) -> tuple[int, int]:
        largest = -1
        if hasattr(self.module, "memory_snapshot"):
            blocks = (
                block["size"]
                for segment in self.module.memory_snapshot()
                if segment.get("device", self.index) == self.index
                for block in segment["blocks"]
                if block["state"] == "inactive"
            )
            largest = max(blocks, default=0)
        return int(self.module.max_memory_reserved(self.device)), largest

    def total(self) -> int:
        return self.total_bytes

    def available(self) -> int:
        if not hasattr(self.module, "mem_get_info"):
            return self.total_bytes
        free, _ = self.module.mem_get_info(self.device)
        return min(self.total_bytes, int(free + self.module.memory_reserved(self.device)))

    def release_cache(self) -> None:
        self.module.empty_cache()

    def rng_state(self) -> Any:
        return super().rng_state(), self.module.get_rng_state(self.device)

    def set_rng_state(self, state: Any) -> None:
        super().set_rng_state(state[0])
        self.module.set_rng_state(state[1], self.device)

    def close(self) -> None:
        if self.limited:
            self.module.set_per_process_memory_fraction(1.0, self.device)


class _TorchProfiledCpu(Device):
    """Bytes of CPU tensors, as torch's own memory profiler counts them: exact, and in the threads
    of backward too.

    The profiler runs as long as the probe is open; while it does, another torch profiler cannot be
    opened in this thread.
    """

    def __init__(self, torch: Any) -> None:
        from torch.autograd import profiler

        self.autograd: Any = torch.autograd
        self.profiler: Any = profiler
        self.held: int = 0
        self.blocks: dict[int, int] = {}
        self.seen: int | None = None
        self._begin()

    def _begin(self) -> None:
        self.running = self.profiler.profile(use_kineto=True, profile_memory=True)
        with _no_session_lines():
            self.running.__enter__()

    def _end(self) -> Any:
        with _no_session_lines():
            return self.autograd._disable_profiler()

    def _read(self) -> None:
        """Ends a stretch of profiling, counts it, and begins the next."""
        result = self._end()
        reports: list[tuple[int, Any]] = []
        waiting = list(result.experimental_event_tree())
        while waiting:
            event = waiting.pop()
            waiting.extend(event.children)
            if event.name == "[memory]" and str(event.extra_fields.device) == "cpu":
                reports.append((event.start_time_ns, event.extra_fields))
        self._begin()
        most = self.held
        # What was there before the probe and is freed now is no part of that.
        reports.sort(key=lambda report: report[0])
        for _, fields in reports:
            if fields.alloc_size > 0:
                self.blocks[fields.ptr] = fields.alloc_size
                self.held += fields.alloc_size
            else:
                self.held -= self.blocks.pop(fields.ptr, 0)
            most = max(most, self.held)
        self.seen = max(self.seen or 0, most)

    def reset(self) -> None:
        self._read()
        self.seen = self.held

    def current(self) -> int:
        self._read()
        return self.held

    def peak(self) -> int:
        self._read()
        return int(self.seen or 0)

    def total(self) -> int:
        with open("/proc/meminfo") as lines:
            return 1024 * int(
                next(line for line in lines if line.startswith("MemTotal")).split()[1]
            )

    def close(self) -> None:
        self._end()


def _how_to_get_component(torch: Any) -> str:
    version = ffi.string(lib.sab_version_string()).decode()
    return (
        "A wheel of libsab has no LibTorch component: it must be built for the torch in use, here "
        f"{torch.__version__}. In a checkout of libsab {version}:\n"
        "  cmake -B build/lib -DSAB_BUILD_TORCH=ON "
        f"-DSAB_TORCH_ROOT={os.path.dirname(torch.__file__)}\n"
        "  cmake --build build/lib --target sab_torch\n"
        '  export SAB_TORCH_LIBRARY="$PWD/build/lib/src/torch/component/libsab_torch.so.0"\n'
        "docs/install.md, LibTorch, has more."
    )


class _ComponentCpu(Device):
    """CPU tensors, under a limit where one is given: libsab's LibTorch component, over the torch
    that is loaded.
    """

    def __init__(self, total_bytes: int) -> None:
        torch: Any = importlib.import_module("torch")  # the one that the component is to find

        try:
            check(lib.sab_torch_open(ffi.NULL, ffi.NULL))
        except (OSError, MismatchError) as error:
            kind = OSError if isinstance(error, OSError) else MismatchError
            raise kind(f"{error}\n{_how_to_get_component(torch)}") from None
        options = new_struct("sab_probe_options")
        options.total_bytes = total_bytes
        handle = ffi.new("sab_probe **")
        check(lib.sab_probe_new(b"cpu", options, handle))
        self.handle = handle[0]
        self.thread = threading.get_ident()

    def _check_thread(self) -> None:
        if threading.get_ident() != self.thread:
            raise RuntimeError(
                "a 'cpu' probe sees the thread that made it: make one in this thread"
            )

    def _stats(self) -> Any:
        self._check_thread()
        stats = new_struct("sab_probe_stats")
        check(lib.sab_probe_get_stats(self.handle, stats))
        return stats

    def reset(self) -> None:
        self._check_thread()
        check(lib.sab_probe_reset(self.handle))

    def current(self) -> int:
        return int(self._stats().current)

    def peak(self) -> int:
        return int(self._stats().peak)

    def total(self) -> int:
        return int(self._stats().total)

    def close(self) -> None:
        lib.sab_probe_free(self.handle)


class _Jax(Device):
    """A device of jax. Its statistics have no reset: a peak is that of the process so far, so
    measure in ascending order of size.
    """

    def __init__(self, jax: Any, index: int) -> None:
        devices = jax.local_devices()
        if not 0 <= index < len(devices):
            raise ValueError(f"device = 'jax:{index}': jax sees {len(devices)} devices")
        self.device = devices[index]
        if not self.device.memory_stats():
            raise UnsupportedError(
                f"device = 'jax:{index}': jax has no memory statistics of {self.device}"
            )

    def reset(self) -> None:
        pass

    def current(self) -> int:
        return int(self.device.memory_stats()["bytes_in_use"])

    def peak(self) -> int:
        return int(self.device.memory_stats()["peak_bytes_in_use"])

    def total(self) -> int:
        return int(self.device.memory_stats().get("bytes_limit", -1))


def open_device(name: str, total_bytes: int) -> Device | None:
    """The device of a name; None where the library's own probe is meant."""
    found = re.fullmatch(r"([a-z]+)(?::(\d+))?", name)
    if found is None:
        raise ValueError(
            f"device = {name!r}: must be 'host', 'cpu', 'cuda', 'cuda:N', 'jax' or the like"
        )
    kind, index = found[1], int(found[2] or 0)
    if kind == "host":
        return None
    if kind == "jax":
        import jax  # type: ignore[import-not-found,unused-ignore]

        if total_bytes:
            raise UnsupportedError(
                f"total_bytes = {total_bytes}: jax takes its limit from "
                "XLA_PYTHON_CLIENT_MEM_FRACTION only"
            )
        return _Jax(jax, index)
    if kind == "cpu" and index != 0:
        raise ValueError(f"device = {name!r}: there is one CPU")
    import torch

    if kind != "cpu":
        return _TorchAccelerator(torch, kind, index, total_bytes)
    # The component sees the same at a fraction of the profiler's cost; where it is not named,
    # nothing must be built to measure.
    return (
        _ComponentCpu(total_bytes)
        if total_bytes or os.environ.get("SAB_TORCH_LIBRARY")
        else _TorchProfiledCpu(torch)
    )
