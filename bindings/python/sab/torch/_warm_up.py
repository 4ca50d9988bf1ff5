"""Each shape once before training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, cast

import numpy as np

from sab._arguments import function
from sab._batch import Batch, Shape
from sab._plan import Plan
from sab._random_access import RandomAccessSampler
from sab._samplers import BucketSampler, PlanSampler
from sab.torch._loader import DataLoader
from sab.torch._memory import data_of
from sab.torch._trace import without_trace

__all__ = ["warm_up"]


def warm_up(
    source: DataLoader | RandomAccessSampler | Plan,
    step: Callable[[Any], Any],
    *,
    restore: Sequence[Any],
) -> int:
    """Runs a training step on each shape of an epoch once, largest first, so that compilers,
    kernels and the allocator have seen all of them before training begins.

    Where the batches have the shapes of :attr:`sab.BucketSampler.shapes`, as with ``max_shapes`` or
    ``shapes="auto"`` of the plan, these are run, also those that only other ranks have. Else they
    are those of the epoch at hand, of this rank. After a state of other ranks or another budget in
    this epoch they are those of the rest.

    Args:
        source: a loader, whose place is left as it is; a sampler; or a plan, for the batches of a
            :class:`sab.BucketSampler` on it.
        step: a training step: ``step(data)`` with a loader, else ``step(batch)`` of a
            :class:`sab.Batch`.
        restore: what the step changes, such as ``[model, optimizer, scaler]``. These and the random
            generators are afterwards bit for bit what they were, as with ``budget="memory"``.

    Returns:
        The number of shapes.

    >>> import sab, sab.torch
    >>> plan = sab.plan([5, 3, 5, 4, 3, 4], budget=10, boundaries=[3, 4, 5, 6])
    >>> sab.torch.warm_up(
    ...     plan, lambda batch: print(batch.count, batch.padded_length), restore=[]
    ... )
    2 5.0
    2 4.0
    2 3.0
    3
    """
    function("step", step, optional=False)
    loader = source if isinstance(source, DataLoader) else None
    sampler: Any = loader.source if loader is not None else source
    if isinstance(sampler, Plan):
        sampler = BucketSampler(sampler)
    if not isinstance(sampler, RandomAccessSampler):
        raise TypeError(
            f"source is a {type(source).__name__}: must be a sab.torch.DataLoader, a sampler with "
            "random access, or a sab.Plan"
        )
    batches = _of_planned_shapes(sampler) or _first_of_each_shape(sampler)
    with without_trace(restore):
        for batch in batches:
            step(batch if loader is None else data_of(loader, batch))
    return len(batches)


def _begin_of_known(sampler: RandomAccessSampler) -> int:
    """The first batch to look at: the next one where those before are of other ranks or budgets."""
    try:
        sampler.batch(0)
    except ValueError:
        return sampler._tell()[1]
    return 0


def _shape_of(batch: Batch) -> Shape:
    lengths = batch.padded_length
    if isinstance(lengths, dict):
        lengths = tuple(cast("dict[str, float]", lengths).values())
    return batch.count, lengths


def _of_planned_shapes(sampler: RandomAccessSampler) -> list[Batch]:
    """A batch of each shape of the sampler; none where its batches have others."""
    if not isinstance(sampler, PlanSampler):
        return []
    shapes = sampler.shapes
    known = set(shapes)
    found: dict[Shape, Batch] = {}
    for position in range(_begin_of_known(sampler), len(sampler)):
        batch = sampler.batch(position)
        if batch.count and _shape_of(batch) not in known:
            return []
        if batch.count:
            found.setdefault(_shape_of(batch), batch)
    # Shapes that this rank does not have: the first samples of a batch of the whole plan.
    plan = BucketSampler(sampler.plan, seed=sampler._order().get("seed", 0))
    plan.set_epoch(sampler.epoch)
    missing = [shape for shape in shapes if shape not in found]
    for batch in plan.batches():
        if not missing:
            break
        count, lengths = _shape_of(batch)
        for shape in missing:
            if shape[0] <= count and shape[1] == lengths:
                found[shape] = batch._replace(indices=batch.indices[: shape[0]], count=shape[0])
        missing = [shape for shape in missing if shape not in found]
    return [found[shape] for shape in shapes if shape in found]


def _first_of_each_shape(sampler: RandomAccessSampler) -> list[Batch]:
    """A batch of each shape, largest first."""
    found: dict[tuple[int, str], Batch] = {}
    for position in range(_begin_of_known(sampler), len(sampler)):
        batch = sampler.batch(position)
        if batch.count:
            found.setdefault((batch.count, str(batch.padded_length)), batch)
    order = np.argsort([-batch.padded_total for batch in found.values()], kind="stable")
    return [[*found.values()][each] for each in order]
