"""Balanced work: items assigned to parts, samples assigned to ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, Union, cast

import numpy as np
import numpy.typing as npt

from sab._arguments import (
    brief,
    elements,
    flag,
    indices_of,
    is_array,
    one_dimension,
    real,
    shown,
    whole,
)
from sab._batch import Indices
from sab._native import (
    Calls,
    CData,
    Progress,
    check,
    ffi,
    keep_exception,
    lib,
    new_struct,
)
from sab._order import options_of, order_of, sampler_options
from sab._random_access import RandomAccessSampler
from sab._sampler import Output
from sab._sizes import SizesLike, as_sizes

__all__ = ["BaguaBatchSampler", "BaguaSampler", "partition"]

NumbersOfItems = Union[npt.ArrayLike, Mapping[str, npt.ArrayLike], Sequence[npt.ArrayLike]]


def _kinds(name: str, given: Any) -> list[tuple[str, Any]]:
    """Each kind of numbers of the items, with its name in messages."""
    if isinstance(given, Mapping):
        named = cast("Mapping[object, Any]", given)
        return [(f"{name}[{key!r}]", values) for key, values in named.items()]
    if getattr(given, "ndim", 0) == 2:  # a row an item
        return [(f"{name}[:, {i}]", given[:, i]) for i in range(given.shape[1])]
    if isinstance(given, (list, tuple)):
        rows = cast("Sequence[Any]", given)
        if rows and is_array(rows[0]) and np.ndim(rows[0]) > 0:
            return [(f"{name}[{i}]", values) for i, values in enumerate(rows)]
    return [(name, given)]


def _table(name: str, given: Any, items: int | None = None) -> npt.NDArray[np.float64]:
    """Numbers of the items, a row a kind."""
    rows: list[npt.NDArray[np.float64]] = []
    kinds = _kinds(name, given)
    if len(kinds) > lib.SAB_MAX_BUDGETS:
        raise ValueError(
            f"{name} has {len(kinds)} numbers for each item: must have at most "
            f"{lib.SAB_MAX_BUDGETS}"
        )
    for each, values in kinds:
        row = one_dimension(each, values, np.float64)
        if items is not None and row.size != items:
            raise ValueError(f"{each} has {row.size} numbers: must have as many as costs, {items}")
        items = row.size
        wrong = np.flatnonzero(~((row >= 0) & (row < np.inf)))
        if wrong.size:
            raise ValueError(
                f"{each}[{wrong[0]}] = {shown(row[wrong[0]])}: must be finite and at least 0"
            )
        rows.append(row)
    if not rows:
        raise ValueError(f"{name} = {brief(given)}: must have at least one array")
    return rows[0].reshape(1, -1) if len(rows) == 1 else np.stack(rows)


def _capacities(weights: Any, capacity: Any) -> list[tuple[str, float]]:
    """The capacity of each weight, with its name in messages."""
    names = [name for name, _ in _kinds("weights", weights)]
    if isinstance(weights, Mapping) and isinstance(capacity, Mapping):
        keys = list(cast("Mapping[object, Any]", weights))
        limits = cast("Mapping[object, Any]", capacity)
        if set(limits) != set(keys):
            raise ValueError(
                f"capacity = {brief(limits)}: must have the keys of weights, "
                f"{', '.join(map(repr, keys))}"
            )
        named = [(f"capacity[{key!r}]", limits[key]) for key in keys]
        return [(name, real(name, limit)) for name, limit in named]
    if len(names) == 1 and (isinstance(capacity, str) or not hasattr(capacity, "__iter__")):
        return [("capacity", 0.0 if capacity is None else real("capacity", capacity))]
    given = elements("capacity", capacity)
    if isinstance(capacity, Mapping) or len(given) != len(names):
        raise ValueError(
            f"capacity = {brief(capacity)}: must be {len(names)} numbers, one for each weight"
        )
    if len(given) == 1:
        return [("capacity", real("capacity", given[0]))]
    return [(f"capacity[{i}]", real(f"capacity[{i}]", each)) for i, each in enumerate(given)]


def _check_capacities(
    weights: Any, table: npt.NDArray[np.float64], capacities: Sequence[tuple[str, float]]
) -> None:
    """Refuses an item that is over a capacity alone."""
    kinds = _kinds("weights", weights)
    for (each, _), row, (name, capacity) in zip(kinds, table, capacities):
        if not capacity > 0:
            return  # which the library refuses
        over = np.flatnonzero(row > capacity)
        if over.size:
            weight = f"{each}[{over[0]}] = {shown(row[over[0]])}"
            raise ValueError(f"{name} = {shown(capacity)}: {weight} alone is more")


def partition(
    costs: NumbersOfItems,
    parts: int,
    *,
    equal_counts: bool = False,
    weights: NumbersOfItems | None = None,
    capacity: float | Sequence[float] | Mapping[str, float] | None = None,
    progress: bool | Progress | None = None,
) -> list[Indices]:
    """Assigns items to parts so that the largest sum of costs is small: the indices of each part,
    ascending. The method of Karmarkar and Karp assigns them, and exchanges between the costliest
    part and cheaper parts follow.

    Args:
        costs: what each item costs, finite, at least 0. Several costs of each item, which are all
            balanced, are a dictionary or a list of arrays, or a 2-D array with a row an item.
        parts: number of parts.
        equal_counts: every part gets as many items; their number must be a multiple of ``parts``.
        weights, capacity: the weights (tokens, bytes) of no part, added up in the order of the
            items, sum to more than ``capacity``. Several weights are given as ``costs``, with a
            capacity each: a list, or a dictionary with the same keys.
        progress: True for a bar, or ``progress(done, total)``, which stops the call by returning
            False or raising.

    Raises:
        ValueError: an argument breaks a rule, or no assignment under the capacities was found.

    >>> import sab
    >>> [part.tolist() for part in sab.partition([4, 5, 6, 7, 8], 2)]
    [[0, 1, 2], [3, 4]]
    >>> both = sab.partition({"images": [3, 1, 3, 1], "tokens": [2, 4, 2, 4]}, 2)
    >>> sorted(len(part) for part in both)
    [2, 2]
    """
    cost_table = _table("costs", costs)
    count = cost_table.shape[1]
    if weights is None and capacity is not None:
        raise ValueError(f"capacity = {brief(capacity)}: needs weights")
    weight_table = None if weights is None else _table("weights", weights, count)
    capacities = None if weights is None else _capacities(weights, capacity)
    calls = Calls(progress=progress, what="partition")
    options = calls.options("sab_partition_options")
    options.equal_counts = flag("equal_counts", equal_counts)
    options.cost_count = len(cost_table)
    if weight_table is not None and capacities:
        options.weights = ffi.cast("double *", weight_table.ctypes.data)
        _check_capacities(weights, weight_table, capacities)
        limits = ffi.new("double[]", [limit for _, limit in capacities])
        calls.kept.append(limits)
        options.capacities, options.capacity_count = limits, len(capacities)
        for index, (name, _) in enumerate(capacities):
            calls.names[f"capacities[{index}]"] = name
    part_of = np.empty(count, np.uint32)
    parts = whole("parts", parts, 1)
    check(
        lib.sab_items_partition(
            ffi.cast("double *", cost_table.ctypes.data),
            count,
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
    options = new_struct("sab_bagua_options")
    options.no_shuffle, options.drop_last = (
        not flag("shuffle", shuffle),
        flag("drop_last", drop_last),
    )
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
            the least complex ones. Fewer samples than ranks are then no batch, as in Bagua.
        random_level: from 0 (best balance) to 1 (most random): noise before sorting, as a share of
            the range of complexities.
        batch_size: successive samples of the rank in a batch.
        micro_batches, steps_per_epoch, output: as for :class:`sab.BucketSampler`.

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
        steps_per_epoch: int = 0,
        output: Output = "numpy",
    ) -> None:
        own, order = options_of(locals(), "complexity"), order_of(locals())
        balancing = _balancing_options(shuffle, drop_last, random_level)
        balancing.batch_size = whole("batch_size", batch_size, 1)
        sizes = as_sizes(complexity, "complexity")
        self._construct(
            output, lib.sab_bagua_sampler_new, sizes._handle, balancing, sampler_options(order)
        )
        self._made_from = (complexity,), own


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
        micro_batches, steps_per_epoch, output: as for :class:`sab.BucketSampler`.

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
        steps_per_epoch: int = 0,
        output: Output = "numpy",
    ) -> None:
        own, order = options_of(locals(), "complexity", "make_batches"), order_of(locals())
        balancing = _balancing_options(shuffle, drop_last, random_level)
        zero = "must be finite and above 0"
        balancing.limit = 0 if budget is None else real("budget", budget, zero)
        if make_batches is None and budget is None:
            raise ValueError("make_batches = None and budget = None: one must be given")
        if make_batches is not None:
            if not callable(make_batches):
                raise TypeError(f"make_batches = {make_batches!r}: must be a function")
            self._calls = _BatchCalls(make_batches)
            balancing.make_batches = lib.sab_py_make_batches
            balancing.make_batches_ctx = self._calls.handle
        sizes = as_sizes(complexity, "complexity")
        self._construct(
            output,
            lib.sab_bagua_sampler_new,
            sizes._handle,
            balancing,
            sampler_options(order),
            calls=self._calls,
        )
        self._made_from = (complexity, make_batches), own
