"""Pipelines: how long a step takes, and in which order its micro-batches take least."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sab._arguments import indices_of, one_dimension, real, whole
from sab._display import record_line
from sab._native import Calls, CData, Progress, check, ffi, lib, new_options, new_struct

__all__ = ["PipelineOrder", "PipelineSimulation", "find_pipeline_order", "simulate_pipeline"]

_TASK = np.dtype(
    [
        ("micro_batch", np.uint64),
        ("chunk", np.uint32),
        ("is_backward", np.int32),
        ("start", np.float64),
        ("end", np.float64),
    ]
)


class PipelineSimulation(NamedTuple):
    """What :func:`simulate_pipeline` found.

    Attributes:
        makespan: when the last task ends; the first begins at 0.
        lower_bound: no order of the micro-batches has a lower makespan.
        idle: share of the ranks' time until then in which they wait (the pipeline bubble).
        tasks: structured array of shape (stages, 2 * micro-batches * chunks): the tasks of each
            rank in the order in which it runs them. Fields: ``micro_batch``, ``chunk``,
            ``is_backward``, ``start`` and ``end``.
    """

    makespan: float
    lower_bound: float
    idle: float
    tasks: npt.NDArray[np.void]

    def __repr__(self) -> str:
        return record_line(self)


class PipelineOrder(NamedTuple):
    """What :func:`find_pipeline_order` found.

    Attributes:
        order: int64, the micro-batches in the order in which they begin.
        makespan, lower_bound, idle: as of :class:`PipelineSimulation`.
    """

    order: npt.NDArray[np.int64]
    makespan: float
    lower_bound: float
    idle: float

    def __repr__(self) -> str:
        return record_line(self)


class _Times:
    """Times of micro-batches as the library reads them."""

    def __init__(self, forward: npt.ArrayLike, backward: npt.ArrayLike | None) -> None:
        first = one_dimension("forward", forward, np.float64)
        self.count = first.size
        self.arrays = [first]  # kept as long as the pointers
        self.forward, self.backward = ffi.cast("double *", first.ctypes.data), ffi.NULL
        if backward is not None:
            second = one_dimension("backward", backward, np.float64)
            if second.size != self.count:
                raise ValueError(
                    f"backward has {second.size} numbers: must have as many as forward, "
                    f"{self.count}"
                )
            self.arrays.append(second)
            self.backward = ffi.cast("double *", second.ctypes.data)


def _options(chunks: int, transfer: float) -> CData:
    options = new_options("sab_pipeline_options")
    options.chunks = whole("chunks", chunks)
    options.transfer = real("transfer", transfer)
    return options


def simulate_pipeline(
    forward: npt.ArrayLike,
    backward: npt.ArrayLike | None = None,
    *,
    stages: int,
    chunks: int = 1,
    transfer: float = 0.0,
    order: npt.ArrayLike | None = None,
) -> PipelineSimulation:
    """Simulates one step of a pipeline: 1F1B, or with several chunks the interleaved schedule.

    Args:
        forward: time of the forward pass of each micro-batch on one rank.
        backward: the same of the backward pass. Default: twice the time of the forward pass.
        stages: number of ranks of the pipeline.
        chunks: parts of the model on each rank. With several, the number of micro-batches is a
            multiple of ``stages``.
        transfer: time from the end of a task to the earliest start of the task on another rank that
            needs its result.
        order: the micro-batches in the order in which they begin, each once. Default: as given.

    Raises:
        ValueError: an argument breaks a rule.

    >>> import sab
    >>> found = sab.simulate_pipeline([1, 1, 1, 1], stages=2)
    >>> found.makespan, found.idle
    (15.0, 0.19999999999999996)
    >>> found.tasks[1]["micro_batch"].tolist()
    [0, 0, 1, 1, 2, 2, 3, 3]
    """
    times = _Times(forward, backward)
    options = _options(chunks, transfer)
    stages = whole("stages", stages)
    places = ffi.NULL
    if order is not None:
        given = indices_of("order", order)
        if given.size != times.count:
            raise ValueError(
                f"order has {given.size} numbers: must have as many as forward, {times.count}"
            )
        wrong = np.flatnonzero((given < 0) | (given >= times.count))
        if wrong.size:
            raise ValueError(
                f"order[{wrong[0]}] = {given[wrong[0]]}: must be from 0 to below {times.count}"
            )
        numbers = given.astype(np.uint32)
        places = ffi.cast("uint32_t *", numbers.ctypes.data)
    report = new_struct("sab_pipeline_report")

    def simulate(tasks: CData) -> None:
        check(
            lib.sab_pipeline_simulate(
                times.forward,
                times.backward,
                times.count,
                stages,
                places,
                options,
                tasks,
                report,
            )
        )

    simulate(ffi.NULL)  # refuses what there is no room for
    tasks = np.empty((stages, 2 * times.count * options.chunks), _TASK)
    simulate(ffi.cast("sab_pipeline_task *", tasks.ctypes.data))
    return PipelineSimulation(report.makespan, report.lower_bound, report.idle, tasks)


def find_pipeline_order(
    forward: npt.ArrayLike,
    backward: npt.ArrayLike | None = None,
    *,
    stages: int,
    chunks: int = 1,
    transfer: float = 0.0,
    progress: bool | Progress | None = None,
) -> PipelineOrder:
    """Finds an order of the micro-batches for which the simulated makespan is low. It is never
    above that of the orders as given, ascending and descending.

    Args:
        forward, backward, stages, chunks, transfer: as for :func:`simulate_pipeline`.
        progress: True for a bar, or ``progress(done, total)``, which stops the call by returning
            False or raising.

    Raises:
        ValueError: an argument breaks a rule.

    >>> import sab
    >>> found = sab.find_pipeline_order([1, 8, 2, 4], stages=3)
    >>> found.order.tolist(), found.makespan
    ([2, 3, 1, 0], 80.0)
    >>> sab.simulate_pipeline([1, 8, 2, 4], stages=3).makespan
    89.0
    """
    times = _Times(forward, backward)
    options = _options(chunks, transfer)
    calls = Calls(progress=progress, what="pipeline order")
    options.progress, options.progress_ctx = lib.sab_py_progress, calls.handle
    order = np.empty(times.count, np.uint32)
    report = new_struct("sab_pipeline_report")
    check(
        lib.sab_pipeline_order_find(
            times.forward,
            times.backward,
            times.count,
            whole("stages", stages),
            options,
            ffi.cast("uint32_t *", order.ctypes.data),
            report,
        ),
        calls,
    )
    return PipelineOrder(order.astype(np.int64), report.makespan, report.lower_bound, report.idle)
