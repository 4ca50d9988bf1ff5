"""Balanced work: items assigned to parts, samples assigned to ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Callable, Literal

import numpy as np
import numpy.typing as npt

from sab._arguments import flag, indices_of, one_dimension, one_of, real, whole
from sab._batch import Indices
from sab._native import (
    Calls,
    CData,
    Progress,
    check,
    ffi,
    keep_exception,
    lib,
    new_options,
)
from sab._samplers import Order, Output, RandomAccessSampler, sampler_options
from sab._sizes import SizesLike, as_sizes

__all__ = ["BaguaBatchSampler", "BaguaSampler", "partition"]

PartitionMethod = Literal["karmarkar_karp", "longest_first"]
PARTITION_METHODS = {
    "karmarkar_karp": lib.SAB_PARTITION_KARMARKAR_KARP,
    "longest_first": lib.SAB_PARTITION_LONGEST_FIRST,
}


def partition(
    costs: npt.ArrayLike,
    parts: int,
    *,
    method: PartitionMethod = "karmarkar_karp",
    equal_counts: bool = False,
    weights: npt.ArrayLike | None = None,
    capacity: float | None = None,
    progress: bool | Progress | None = None,
) -> list[Indices]:
    """Assigns items to parts so that the largest sum of costs is small: the indices of each part,
    ascending.

    Args:
        costs: what each item costs, finite, at least 0.
        parts: number of parts.
        method: ``"karmarkar_karp"`` (largest differencing), or ``"longest_first"``, which is faster
            and less even. Either is followed by exchanges between the costliest and cheaper parts
            while they help.
        equal_counts: every part gets as many items; their number must be a multiple of ``parts``.
        weights, capacity: a hard cap: the weights (tokens, bytes) of no part, added up in the order
            of the items, sum to more than ``capacity``.
        progress: True for a bar, or ``progress(done, total)``, which stops the call by returning
            False or raising.

    Raises:
        ValueError: an argument breaks a rule, or no assignment under the capacity was found.

    >>> import sab
    >>> [part.tolist() for part in sab.partition([4, 5, 6, 7, 8], 2)]
    [[0, 1, 2], [3, 4]]
    """
    cost_array = one_dimension("costs", costs, np.float64)
    weight_array = None if weights is None else one_dimension("weights", weights, np.float64)
    if weight_array is not None and weight_array.size != cost_array.size:
        raise ValueError(
            f"weights has {weight_array.size} numbers: must have as many as costs, "
            f"{cost_array.size}"
        )
    calls = Calls(progress=progress, what="partition")
    options = new_options("sab_partition_options")
    options.progress, options.progress_ctx = lib.sab_py_progress, calls.handle
    options.method = one_of("method", method, PARTITION_METHODS)
    options.equal_counts = flag("equal_counts", equal_counts)
    if weight_array is not None:
        options.weights = ffi.cast("double *", weight_array.ctypes.data)
    options.capacity = 0 if capacity is None else real("capacity", capacity)
    part_of = np.empty(cost_array.size, np.uint32)
    parts = whole("parts", parts, 1)
    check(
        lib.sab_items_partition(
            ffi.cast("double *", cost_array.ctypes.data),
            cost_array.size,
            parts,
            options,
            ffi.cast("uint32_t *", part_of.ctypes.data),
        ),
        calls,
    )
    order = np.argsort(part_of.astype(np.uint16), kind="stable")  # of 16 bits by radix
    if parts > 1 << 16:
        order = order[np.argsort((part_of >> 16).astype(np.uint16)[order], kind="stable")]
    edges = [0, *np.cumsum(np.bincount(part_of, minlength=parts)).tolist()]
    return [order[begin:end] for begin, end in zip(edges, edges[1:])]


def _balancing_options(shuffle: bool, drop_last: bool, random_level: float) -> CData:
    options = new_options("sab_bagua_options")
    options.shuffle, options.drop_last = flag("shuffle", shuffle), flag("drop_last", drop_last)
    options.random_level = real("random_level", random_level)
    return options


class BaguaSampler(RandomAccessSampler):
    """Samples of nearly equal complexity for the ranks of each step, in the order of Bagua's
    ``LoadBalancingDistributedSampler``, without torch.

    Samples sorted by complexity are cut into chunks of ``world_size``, one sample for each rank;
    the chunks are shuffled by torch's generator, seeded with seed + epoch, seed for seed. All ranks
    take the same number of steps.

    Args:
        complexity: the work that each sample makes: anything that :class:`sab.Sizes` takes.
        rank, world_size: this rank among the ranks.
        shuffle: the steps in another order each epoch, or by complexity.
        seed: the same on all ranks.
        drop_last: leave out the samples that do not fill the last step, instead of filling it with
            the least complex ones.
        random_level: from 0 (best balance) to 1 (most random): noise before sorting, as a share of
            the range of complexities.
        batch_size: successive samples of the rank in a batch.
        micro_batches, output: as for :class:`sab.BucketSampler`.

    >>> import sab
    >>> sampler = sab.BaguaSampler([5, 1, 4, 2], rank=1, world_size=2, shuffle=False)
    >>> [batch.tolist() for batch in sampler]
    [[3], [0]]
    """

    def __init__(
        self,
        complexity: SizesLike,
        *,
        rank: int = 0,
        world_size: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        random_level: float = 0.0,
        batch_size: int = 1,
        micro_batches: int = 1,
        output: Output = "numpy",
    ) -> None:
        balancing = _balancing_options(shuffle, drop_last, random_level)
        balancing.batch_size = whole("batch_size", batch_size, 1)
        order: Order = {
            "seed": seed,
            "rank": rank,
            "world_size": world_size,
            "micro_batches": micro_batches,
        }
        sizes = as_sizes(complexity)
        self._construct(
            output, lib.sab_bagua_sampler_new, sizes._handle, balancing, sampler_options(order)
        )
        self._made_from = (
            (complexity,),
            {
                "shuffle": shuffle,
                "drop_last": drop_last,
                "random_level": random_level,
                "batch_size": batch_size,
                **order,
                "output": output,
            },
        )


MakeBatches = Callable[[Indices], Iterable[npt.ArrayLike]]


class _BatchCalls(Calls):
    def __init__(self, make_batches: MakeBatches) -> None:
        super().__init__()
        self.make_batches = make_batches


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_make_batches(ctx: CData, indices: CData, count: int, batches: CData) -> int:
    given = (
        np.frombuffer(ffi.buffer(indices, count * 8), np.int64).copy()
        if count
        else np.empty(0, np.int64)
    )
    for each in ffi.from_handle(ctx).make_batches(given):
        array = indices_of("a batch", each)
        check(
            lib.sab_bagua_batches_add(batches, ffi.cast("int64_t *", array.ctypes.data), array.size)
        )
    return 0


class BaguaBatchSampler(RandomAccessSampler):
    """Batches of variable size, as many on each rank, of the samples that
    :class:`BaguaSampler` deals out to it.

    Ranks with fewer batches than others see their first ones again, or, with ``drop_last``, the
    others leave out their last ones: what the document of Bagua's
    ``LoadBalancingDistributedBatchSampler`` says.

    Args:
        complexity, rank, world_size, shuffle, seed, random_level: as for
            :class:`BaguaSampler`.
        make_batches: ``make_batches(indices)`` gives the batches of a rank's samples; called for
            each rank here and whenever an epoch begins. Must give the same batches for the same
            indices.
        budget: instead: a batch closes before its complexities would sum to more.
        drop_last: leave out batches that not all ranks have.
        micro_batches, output: as for :class:`sab.BucketSampler`.

    Raises:
        ValueError: an argument breaks a rule, or a rank gets no batch while others do; and whatever
            ``make_batches`` raises.

    >>> import sab
    >>> sampler = sab.BaguaBatchSampler([5, 1, 4, 2], budget=6, shuffle=False)
    >>> [batch.tolist() for batch in sampler]
    [[1, 3], [2], [0]]
    """

    def __init__(
        self,
        complexity: SizesLike,
        make_batches: MakeBatches | None = None,
        *,
        budget: float | None = None,
        rank: int = 0,
        world_size: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        random_level: float = 0.0,
        micro_batches: int = 1,
        output: Output = "numpy",
    ) -> None:
        balancing = _balancing_options(shuffle, drop_last, random_level)
        balancing.budget = 0 if budget is None else real("budget", budget)
        if make_batches is not None:
            if not callable(make_batches):
                raise TypeError(f"make_batches = {make_batches!r}: must be a function")
            self._calls = _BatchCalls(make_batches)
            balancing.make_batches = lib.sab_py_make_batches
            balancing.make_batches_ctx = self._calls.handle
        order: Order = {
            "seed": seed,
            "rank": rank,
            "world_size": world_size,
            "micro_batches": micro_batches,
        }
        sizes = as_sizes(complexity)
        self._construct(
            output,
            lib.sab_bagua_batch_sampler_new,
            sizes._handle,
            balancing,
            sampler_options(order),
            calls=self._calls,
        )
        self._made_from = (
            (complexity, make_batches),
            {
                "budget": budget,
                "shuffle": shuffle,
                "drop_last": drop_last,
                "random_level": random_level,
                **order,
                "output": output,
            },
        )
