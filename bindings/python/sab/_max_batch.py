"""The largest batch, growing ones, and steps in parts."""

from __future__ import annotations

import functools
import gc
import inspect
import logging
import operator
import sys
from collections.abc import Sequence
from typing import Any, Callable, Literal, NamedTuple

import numpy as np

from sab._arguments import elements, function, one_dimension, one_of, real, whole
from sab._devices import is_out_of_memory
from sab._native import CData, DeviceMemoryError, Progress, choices, ffi, lib, new_struct
from sab._probe import DeviceLike, probe_of
from sab._work import Reduce, Work, forget, reduce_function

__all__ = [
    "MaxBatch",
    "find_executable_batch_size",
    "find_max_batch",
    "grow_batch_size",
    "grow_batch_size_doubling",
    "grow_batch_size_linear",
    "step_in_chunks",
]

log: logging.Logger = logging.getLogger("sab")

Search = Literal["predict", "difference", "binary", "halve"]
_SEARCHES = choices("SAB_SEARCH_")


class MaxBatch(NamedTuple):
    """What :func:`find_max_batch` found."""

    batch_size: int  # for the longest length
    batch_sizes: list[int]  # for each length
    trials: int
    out_of_memory: int
    peak: float
    budget: int


def find_max_batch(
    trial: Callable[..., Any],
    device: DeviceLike = "cuda",
    *,
    lengths: Sequence[float] | None = None,
    search: Search = "predict",
    max_batch_size: int = 100_000,
    budget: int | None = None,
    rounding: Literal["power_of_two"] | int | None = None,
    reduce: Literal["torch"] | Reduce | None = None,
    progress: bool | Progress | None = None,
) -> MaxBatch:
    """Finds the largest batch whose step fits the device.

    The random generators are as before when it returns; model and optimizer are the caller's to put
    back.

    Args:
        trial: runs one training step: ``trial(count)``, or ``trial(count, length)`` when lengths
            are given.
        device: see :class:`Probe`.
        lengths: find a batch size for each of these padded lengths; the longest is tried first.
        search: ``"predict"`` (seldom runs out), ``"difference"`` (memory(2) - memory(1)),
            ``"binary"`` or ``"halve"`` (by running out).
        max_batch_size: never larger.
        budget: peaks must not be larger; the device's total by default.
        rounding: ``"power_of_two"``, or a number to be a multiple of.
        reduce: where ranks train together: ``"torch"`` for torch.distributed, or a function from a
            list of int to the least over the ranks.
        progress: True for a bar, or ``progress(done, total)``.

    Raises:
        DeviceMemoryError: not even one sample fits. Whatever ``trial`` raises, but for running out
            of memory.
    """
    function("trial", trial, optional=False)
    calls = Work(
        progress,
        "find_max_batch",
        trial=trial if lengths is not None else _without_length(trial),
        reduce=reduce_function(reduce),
    )
    options = calls.options("sab_max_batch_options")
    options.search = one_of("search", search, _SEARCHES)
    options.max_batch_size = whole("max_batch_size", max_batch_size, 1)
    options.limit = 0 if budget is None else whole("budget", budget, 1)
    if rounding == "power_of_two":
        options.rounding = lib.SAB_ROUND_POWER_OF_TWO
    elif isinstance(rounding, (str, bool)):
        raise ValueError(f"rounding = {rounding!r}: must be 'power_of_two' or a number")
    elif rounding is not None:
        options.rounding, options.multiple = lib.SAB_ROUND_MULTIPLE, whole("rounding", rounding, 1)
    if lengths is not None:
        lengths = elements("lengths", lengths)
        if len(lengths) == 0:
            raise ValueError("lengths is empty: must have at least one")
        array = ffi.new("double[]", [real("lengths", length) for length in lengths])
        options.lengths, options.length_count = array, len(lengths)
    if reduce is not None:
        options.reduce, options.reduce_ctx = lib.sab_py_reduce, calls.handle
    sizes = ffi.new("uint64_t[]", 1 if lengths is None else len(lengths))
    result = new_struct("sab_max_batch")
    with probe_of(device) as probe:
        probe._check(
            lib.sab_max_batch_find(
                probe._handle, lib.sab_py_trial, calls.handle, options, sizes, result
            ),
            calls,
        )
    return MaxBatch(
        int(result.batch_size),
        [int(size) for size in sizes],
        result.trials,
        result.out_of_memory,
        result.peak,
        result.limit,
    )


def _without_length(trial: Callable[[int], Any]) -> Callable[[int, float], Any]:
    return lambda count, length: trial(count)


def find_executable_batch_size(
    function: Callable[..., Any] | None = None,
    starting_batch_size: int = 128,
    *,
    reduce_batch_size_fn: Callable[..., int] | None = None,
) -> Any:
    """Decorator: calls the function with a batch size as first argument, and again with a smaller
    one whenever it runs out of memory.

    Works like accelerate's decorator. The batch size found is kept for the next call. The tensors
    of a failed try are freed before the next one. Each lowering is logged.

    Args:
        starting_batch_size: of the first call.
        reduce_batch_size_fn: the next batch size, from the one that failed (or from nothing, as
            accelerate's); nine tenths by default.

    Raises:
        DeviceMemoryError: a batch size of 1 does not fit. Its ``__cause__`` is the exception of the
            last try.
    """
    if function is None:
        return functools.partial(
            find_executable_batch_size,
            starting_batch_size=starting_batch_size,
            reduce_batch_size_fn=reduce_batch_size_fn,
        )
    starting_batch_size = batch_size = whole("starting_batch_size", starting_batch_size, 1)
    reduce = reduce_batch_size_fn
    takes_size = reduce is not None and len(inspect.signature(reduce).parameters) > 0
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind <= parameter.VAR_POSITIONAL
    ]
    most_arguments = (
        None
        if any(parameter.kind == parameter.VAR_POSITIONAL for parameter in parameters)
        else len(parameters)
    )

    @functools.wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        nonlocal batch_size
        if most_arguments is not None and len(arguments) + 1 > most_arguments:
            raise TypeError(
                f"{function.__name__}() is given its batch size, as first argument, by "
                "find_executable_batch_size: leave it out of the call"
            )
        cause: Exception | None = None
        while batch_size >= 1:
            try:
                return function(batch_size, *arguments, **options)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                forget(error)
                cause = error
            _release_caches()
            failed = batch_size
            smaller = (
                failed * 9 // 10 if reduce is None else reduce(failed) if takes_size else reduce()
            )
            batch_size = whole("what reduce_batch_size_fn gives", smaller)
            if batch_size >= failed:
                batch_size = starting_batch_size
                raise ValueError(
                    f"reduce_batch_size_fn gives {smaller} after {failed}: must be smaller"
                ) from cause
            if batch_size >= 1:
                log.warning("batch size %d runs out of memory: trying %d", failed, batch_size)
        batch_size = starting_batch_size  # of the next call: memory may be had then
        raise DeviceMemoryError(
            "no executable batch size found: not enough memory even for a batch of one"
        ) from cause

    return run


def _release_caches() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def step_options(
    calls: Work,
    begin: Callable[[], Any] | None,
    weights: Sequence[float] | None,
    count: int,
    chunk_size: int | None,
) -> tuple[CData, object]:
    """The options of a chunked step, and what they point to."""
    options = new_struct("sab_step_in_chunks_options")
    options.chunk, options.ctx = lib.sab_py_chunk, calls.handle
    options.chunk_size = 0 if chunk_size is None else whole("chunk_size", chunk_size, 1)
    if begin is not None:
        options.begin = lib.sab_py_begin
    array = None
    if weights is not None:
        array = one_dimension("weights", weights, np.float64)
        if array.shape != (count,):
            raise ValueError(
                f"weights has shape {array.shape}: must have one number for each of the {count} "
                "samples"
            )
        options.sample_weights = ffi.cast("double *", array.ctypes.data)
    return options, array


def step_in_chunks(
    chunk: Callable[[int, int, float], Any],
    count: int,
    device: DeviceLike = "cuda",
    *,
    begin: Callable[[], Any] | None = None,
    weights: Sequence[float] | None = None,
    chunk_size: int | None = None,
) -> int:
    """Runs forward and backward of a batch in parts that fit: halves them until none runs out of
    memory, each time from the same random state.

    Args:
        chunk: ``chunk(first, count, weight)`` runs the samples from ``first`` on, their mean loss
            times ``weight``; gradients add up.
        count: samples in the batch.
        device: see :class:`Probe`.
        begin: before each try, such as ``optimizer.zero_grad``.
        weights: weight of each sample in the loss, such as its tokens.
        chunk_size: largest part of the first try; the whole batch by default.

    Returns:
        The size of part that fitted. The optimizer's step is the caller's.
    """
    count = whole("count", count, 1)
    function("chunk", chunk, optional=False)
    calls = Work(chunk=chunk, begin=function("begin", begin))
    options, kept = step_options(calls, begin, weights, count, chunk_size)
    fitted = ffi.new("uint64_t *")
    with probe_of(device) as probe:
        probe._check(lib.sab_step_run_in_chunks(probe._handle, count, options, fitted), calls)
    del kept
    if fitted[0] < min(chunk_size or count, count):
        log.warning(
            "a step of %d samples ran out of memory and was run in parts of %d", count, fitted[0]
        )
    return int(fitted[0])


def grow_batch_size(
    batch_increase_function: Callable[[int, int], int],
    epoch: int,
    *,
    current: int,
    max_batch_size: int,
) -> int:
    """The batch size of an epoch: ``current`` plus what the function of (epoch, current) says,
    unless that is more than ``max_batch_size``.

    >>> grow_batch_size(lambda epoch, size: 32 * (epoch == 2), 2, current=64, max_batch_size=100)
    96
    """
    function("batch_increase_function", batch_increase_function, optional=False)
    epoch, current = whole("epoch", epoch), whole("current", current, 1)
    most = whole("max_batch_size", max_batch_size)
    more = operator.index(batch_increase_function(epoch, current))
    if more < 0:
        raise ValueError(f"increase = {more}: must be at least 0")
    return current + more if current + more <= most else current


def grow_batch_size_linear(
    epoch: int, *, start: int, amount: int, period: int, max_batch_size: int
) -> int:
    """The batch size of an epoch that grows by ``amount`` every ``period`` epochs, up to
    ``max_batch_size``.
    """
    epoch, start, most = _growing(epoch, start, max_batch_size)
    times = epoch // whole("period", period, 1)
    return min(start + times * whole("amount", amount), most)


def grow_batch_size_doubling(
    epoch: int, *, start: int, milestones: Sequence[int], max_batch_size: int
) -> int:
    """The batch size of an epoch that doubles at each milestone, up to ``max_batch_size``."""
    epoch, start, most = _growing(epoch, start, max_batch_size)
    given = [whole("milestones", each) for each in elements("milestones", milestones)]
    return min(start << sum(milestone <= epoch for milestone in given), most)


def _growing(epoch: int, start: int, max_batch_size: int) -> tuple[int, int, int]:
    epoch, start = whole("epoch", epoch), whole("start", start, 1)
    most = whole("max_batch_size", max_batch_size)
    if most < start:
        raise ValueError(f"max_batch_size = {most}: must be at least start, {start}")
    return epoch, start, most
