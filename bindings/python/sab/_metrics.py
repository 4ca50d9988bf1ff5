"""Metrics of a run: how full its batches are, and how fast it is."""

from __future__ import annotations

import math
import time
from typing import Callable, Literal, cast

import numpy as np

from sab._arguments import function, real, whole
from sab._batch import Batch, PerColumn, Step
from sab._cost import ONE_COLUMN, Budget, Cost, _cost_of
from sab._display import one_line
from sab._guard import MemoryGuard
from sab._ranks import Gather, _torch_gather

__all__ = ["Meter"]

Log = Callable[[int, dict[str, float]], object]


def _sum(lengths: PerColumn) -> float:
    """A number of each column, added up."""
    if isinstance(lengths, dict):
        return float(sum(cast("dict[str, float]", lengths).values()))
    return float(lengths)


class Meter:
    """Computes metrics of the batches of a run and gives them to a logger.

    Tell it of each batch, and of each step of the optimizer when it ends. In a loop over
    ``sab.torch.DataLoader`` these are ``loader.batch`` and ``loader.step()``.

    Every ``interval`` steps it calls ``log(step, values)`` with the number of the step and a
    dictionary of the metrics of the steps since then:

    - ``padding``: share of this rank's positions that hold no data.
    - ``tokens_per_second``: sum of the sizes over wall time, of all ranks if the totals of the
      steps are known, else of this rank. Several columns are added up.
    - ``samples_per_second``: as ``tokens_per_second``.
    - ``fill``, with ``budget``: mean cost of this rank's batches, as a share of the budget.
    - ``imbalance``, with ``gather``: cost of the costliest rank of a step over the mean of the
      ranks, averaged over the steps.
    - with ``guard``, since it was made: ``guard_out_of_memory`` (steps that ran out of memory and
      were retried), ``guard_lowered`` (how often the budget was lowered), ``guard_limit`` (the
      budget now), ``guard_peak`` (bytes).

    Args:
        log: a function ``log(step, values)``, such as ``lambda step, values: wandb.log(values,
            step)``. The names of the metrics are the same at each step. None: nothing is logged;
            such ranks are for ``gather``.
        interval: steps between two calls of ``log``.
        budget: of the batches: a number, or a :class:`sab.Budget` with a cost. Rows are measured by
            the sum of their sizes only.
        guard: a :class:`sab.MemoryGuard`.
        gather: all ranks call it every ``interval`` steps: a function from this rank's bytes to
            those of all ranks, such as mpi4py's ``comm.allgather``; ``"torch"`` for
            torch.distributed.

    Attributes:
        steps: number of steps so far. Set it after a resume.
        guard: the guard; may be set later.

    >>> import sab
    >>> def log(step, values):
    ...     print(step, {name: values[name] for name in ("padding", "fill")})
    >>> meter = sab.Meter(log, interval=2, budget=10)
    >>> sampler = sab.BucketSampler([5, 4, 3, 3], budget=10, boundaries=[3, 4, 6])
    >>> for batch in sampler.batches():
    ...     meter.on_batch(batch)
    ...     meter.on_step(sampler.step())
    2 {'padding': 0.0625, 'fill': 0.8}
    """

    def __init__(
        self,
        log: Log | None = None,
        *,
        interval: int = 1,
        budget: float | Budget | None = None,
        guard: MemoryGuard | None = None,
        gather: Gather | Literal["torch"] | None = None,
    ) -> None:
        if not (guard is None or isinstance(guard, MemoryGuard)):
            raise TypeError(f"guard is a {type(guard).__name__}: must be a sab.MemoryGuard")
        self._log: Log | None = function("log", log)
        self._interval = whole("interval", interval, 1)
        is_number = not (budget is None or isinstance(budget, Budget))
        self._budget = (
            Budget(real("budget", budget)) if is_number else cast("Budget | None", budget)
        )
        if self._budget is not None:
            limit = real("budget", getattr(self._budget, "limit", budget))
            if not 0 < limit < math.inf:
                raise ValueError(f"budget = {limit:g}: must be finite and above 0")
        self._cost: Cost | None = None  # made for the columns of the first batch
        self._gather: Gather | None = (
            _torch_gather(None, 300) if gather == "torch" else function("gather", gather)
        )
        self.guard = guard
        self.steps = 0
        self._begin_interval()

    def __repr__(self) -> str:
        return one_line(self, [f"{self.steps:,} steps"])

    def _begin_interval(self) -> None:
        self._begin = time.monotonic()
        self._first_step = self.steps
        self._batches, self._samples = 0, 0
        self._total = self._padded_total = self._costs = 0.0  # of this rank
        self._all_samples, self._all_total = 0, 0.0  # of all ranks, if all steps are known
        self._are_steps_known = True
        self._step_cost, self._step_costs = 0.0, list[float]()

    def on_batch(self, batch: Batch) -> None:
        """Tells of a batch of this rank, whose step has not ended."""
        total, padded_total = _sum(batch.total), batch.padded_total
        self._batches += 1
        self._samples += batch.count
        self._total += total
        self._padded_total += padded_total
        if self._budget is not None and self._budget.cost is not None:
            cost = self._evaluate(batch)
        else:
            cost = total if batch.layout == "row" else padded_total
        self._costs += cost
        self._step_cost += cost

    def _evaluate(self, batch: Batch) -> float:
        if batch.layout == "row":
            raise ValueError(
                "budget has a cost: must be a number for rows, whose cost is their sum"
            )
        length = batch.padded_length
        named = cast("dict[str, float]", length if isinstance(length, dict) else {"": length})
        if self._cost is None:
            columns = tuple(named) if isinstance(length, dict) else ONE_COLUMN
            self._cost = _cost_of("budget.cost", cast(Budget, self._budget).cost, columns)
        return self._cost(batch.count, list(named.values()))

    def on_step(self, step: Step | None = None) -> None:
        """Tells of the end of a step of the optimizer.

        Args:
            step: its totals over all ranks, such as ``loader.step()``; None if not known.
        """
        self.steps += 1
        total = -1.0 if step is None else _sum(step.total)
        if step is None or step.samples < 0 or total < 0:
            self._are_steps_known = False
        else:
            self._all_samples += step.samples
            self._all_total += total
        self._step_costs.append(self._step_cost)
        self._step_cost = 0.0
        if self.steps % self._interval == 0:
            self.write()

    def write(self) -> None:
        """Logs the metrics of the steps since the last call of ``log``, such as at the end of a
        run. With ``gather`` on all ranks.
        """
        if not self._step_costs:
            return
        values = self._values()
        if self._log is not None:
            self._log(self.steps, values)
        self._begin_interval()

    def _values(self) -> dict[str, float]:
        seconds = max(time.monotonic() - self._begin, 1e-9)
        known = self._are_steps_known
        values = {
            "padding": 1 - self._total / self._padded_total if self._padded_total > 0 else 0.0,
            "tokens_per_second": (self._all_total if known else self._total) / seconds,
            "samples_per_second": (self._all_samples if known else self._samples) / seconds,
        }
        if self._budget is not None:
            values["fill"] = self._costs / max(1, self._batches) / self._budget.limit
        if self._gather is not None:
            values["imbalance"] = self._imbalance(self._gather)
        if self.guard is not None:
            info = self.guard.info
            values["guard_out_of_memory"] = info.out_of_memory
            values["guard_lowered"] = info.lowered
            values["guard_limit"] = info.limit
            values["guard_peak"] = info.peak
        return values

    def _imbalance(self, gather: Gather) -> float:
        gathered = gather(np.array(self._step_costs, np.float64).tobytes())
        costs = np.stack([np.frombuffer(each, np.float64) for each in gathered])  # ranks, steps
        means = costs.mean(0)
        return float(np.where(means > 0, costs.max(0) / np.where(means > 0, means, 1), 1).mean())
