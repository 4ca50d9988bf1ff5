"""Peaks, collected."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Callable, NamedTuple

import numpy as np
import numpy.typing as npt

from sab._arguments import brief, flag, function, iterable, whole
from sab._display import record_line
from sab._native import Progress, check, ffi, lib, new_struct
from sab._probe import DeviceLike, probe_of
from sab._work import Work

__all__ = ["Peaks", "collect_peak"]


class Peaks(NamedTuple):
    """Measurements: one entry for each recorded item, in bytes; -1 if not known."""

    features: list[Any]  # what `work` returned
    peaks: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]
    reserved_peaks: npt.NDArray[np.int64]
    largest_free: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    out_of_memory: list[int]  # numbers of the items that ran out

    def __repr__(self) -> str:
        return record_line(self)


def _column(pointer: Any, count: int) -> npt.NDArray[np.int64]:
    return (
        np.frombuffer(ffi.buffer(pointer, count * 8), np.int64).copy()
        if count
        else np.empty(0, np.int64)
    )


def collect_peak(
    work: Callable[[Any], Any],
    inputs: Iterable[Any],
    device: DeviceLike = "cuda",
    *,
    cleanup: Callable[[], Any] | None = None,
    warm_up: int = 0,
    collect_garbage: bool = True,
    release_cache: bool = True,
    progress: bool | Progress | None = None,
) -> Peaks:
    """Runs ``work`` on each input. Records the peak of memory and the features of the input, which
    ``work`` returns.

    Inputs that run out of memory are listed in ``out_of_memory`` and skipped. Any other exception
    passes through unchanged. Its attribute ``collected`` has the measurements made before it.

    Args:
        work: runs an input, such as a training step, and returns what describes it: a sequence of
            as many finite numbers for each input, at most 64, or anything else, which is kept as it
            is, such as (count, dictionary of lengths) for :meth:`MemoryModel.fit`.
        inputs: read one at a time.
        device: see :class:`Probe`.
        cleanup: called after each input, also after one that failed, to release the memory that
            ``work`` holds.
        warm_up: the first so many inputs are run but not recorded.
        collect_garbage, release_cache: after each input, so that a peak does not depend on the
            inputs before.
        progress: True for a bar, or ``progress(done, total)``, which stops by returning False or
            raising.
    """
    function("work", work, optional=False)
    source = iter(iterable("inputs", inputs))
    returned: dict[int, Any] = {}
    failed: list[BaseException] = []  # of the inputs

    def run(item: int) -> Sequence[float] | bool | None:
        try:
            data = next(source)
        except StopIteration:
            return None
        except BaseException as error:  # not the device's, whatever it is
            failed.append(error)
            return False
        returned[item] = work(data)
        return _numbers(returned[item])

    warm_up = whole("warm_up", warm_up)
    handle = ffi.new("sab_peaks **")
    check(lib.sab_peaks_new(handle))
    peaks = ffi.gc(handle[0], lib.sab_peaks_free)
    function("cleanup", cleanup)
    calls = Work(progress, "collect_peak", work=run, cleanup=cleanup)
    options = calls.options("sab_collect_peak_options")
    with contextlib.suppress(Exception):  # many have no length, and say so in as many ways
        options.item_count = len(inputs)  # type: ignore[arg-type]
    options.work, options.ctx, options.warm_up = lib.sab_py_work, calls.handle, warm_up
    options.keep_cache = not flag("release_cache", release_cache)
    if cleanup is not None:
        options.cleanup = lib.sab_py_cleanup
    if flag("collect_garbage", collect_garbage):
        options.collect_garbage = lib.sab_py_collect_garbage

    def collected() -> Peaks:
        view = new_struct("sab_peaks_view")
        check(lib.sab_peaks_get_view(peaks, view))
        columns = {
            name: _column(getattr(view, name), view.count)
            for name in ("peaks", "before", "reserved_peaks", "largest_free", "items")
        }
        out_of_memory = _column(view.out_of_memory, view.out_of_memory_count).tolist()
        return Peaks(
            [returned[item] for item in columns["items"]], **columns, out_of_memory=out_of_memory
        )

    with probe_of(device) as probe:
        try:
            status = lib.sab_collect_peak(probe._handle, options, peaks)
            if failed:
                calls.keep(failed.pop())
            probe._check(status, calls)
        except BaseException as error:
            with contextlib.suppress(AttributeError, TypeError):
                error.collected = collected()  # type: ignore[attr-defined]
            raise
    return collected()


def _numbers(features: Any) -> Sequence[float]:
    """Features as numbers where they are such; none where they are anything else."""
    if features is None or isinstance(features, (str, bytes)):
        return ()
    try:
        numbers = np.asarray(features, np.float64)
    except OverflowError:
        raise ValueError(f"features = {brief(features)}: must be finite") from None
    except Exception:
        return ()
    return numbers.tolist() if numbers.ndim == 1 else (float(numbers),) if numbers.ndim == 0 else ()
