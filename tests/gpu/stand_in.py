"""What stands in for CUDA in a dry run: torch.cuda's functions over the CPU.

Bytes are those of CPU tensors, counted by libsab's LibTorch component, which refuses blocks beyond
the limit as a full device does. Nothing is cached, so that reserved bytes are allocated bytes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator
from typing import Any

import torch

import sab

TOTAL = 256 << 20


class Properties:
    name = "CPU as a device of 256 MiB"
    total_memory = TOTAL


class AnyStream:
    def wait_stream(self, _: AnyStream) -> None:
        pass

    def is_capturing(self) -> bool:
        return False


class Event:
    def __init__(self, enable_timing: bool = False) -> None:
        self.seconds = 0.0

    def record(self) -> None:
        self.seconds = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        return 1000 * (end.seconds - self.seconds)


class Graph:
    """What is captured runs at once; a replay does nothing."""

    def replay(self) -> None:
        pass


class StandIn:
    """torch.cuda of one device; what it lacks is torch.cuda's own."""

    CUDAGraph = Graph
    Event = Event

    def __init__(self, real: Any) -> None:
        self._real = real
        self._limit = TOTAL
        self._probe = sab.Probe("cpu", total_bytes=TOTAL)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def get_device_properties(self, _: Any = None) -> type[Properties]:
        return Properties

    def memory_allocated(self, _: Any = None) -> int:
        return self._probe.stats().current

    def max_memory_allocated(self, _: Any = None) -> int:
        return self._probe.stats().peak

    def memory_stats(self, _: Any = None) -> dict[str, int]:
        stats = self._probe.stats()
        made = {"num_alloc_retries": 0, "inactive_split_bytes.all.peak": 0}
        for kind in ("allocated_bytes", "reserved_bytes"):
            made[f"{kind}.all.peak"] = stats.peak
            made[f"{kind}.all.current"] = stats.current
        return made

    def memory_stats_as_nested_dict(self, _: Any = None) -> dict[str, Any]:
        return {}

    memory_reserved, max_memory_reserved = memory_allocated, max_memory_allocated

    def memory_snapshot(self) -> list[dict[str, Any]]:
        return []

    def reset_peak_memory_stats(self, _: Any = None) -> None:
        self._probe.reset()

    def mem_get_info(self, _: Any = None) -> tuple[int, int]:
        return self._limit - self.memory_allocated(), self._limit

    def set_per_process_memory_fraction(self, fraction: float, _: Any = None) -> None:
        """The limit from now on. Tensors that are there already do not count any more."""
        self._limit = int(fraction * TOTAL)
        self._probe.close()
        self._probe = sab.Probe("cpu", total_bytes=self._limit)

    def empty_cache(self) -> None:
        pass

    def synchronize(self, _: Any = None) -> None:
        pass

    def is_current_stream_capturing(self) -> bool:
        return False

    def get_rng_state(self, _: Any = None) -> bytes:
        return b""  # a tensor would be counted

    def set_rng_state(self, *_: Any) -> None:
        pass

    Stream = AnyStream

    def current_stream(self, _: Any = None) -> AnyStream:
        return AnyStream()

    @contextlib.contextmanager
    def stream(self, _: AnyStream) -> Generator[None, None, None]:
        yield

    @contextlib.contextmanager
    def graph(self, _: Graph) -> Generator[None, None, None]:
        yield


def install() -> None:
    """Replaces torch.cuda for this process."""
    torch.set_num_threads(1)  # tensors are small
    module: Any = torch
    module.cuda = StandIn(torch.cuda)
    if hasattr(module, "accelerator"):  # torch 2.15's optimizers ask its stream at each step
        module.accelerator.current_stream = AnyStream
