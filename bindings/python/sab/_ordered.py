"""A sampler of batches in an order of the caller's."""

from __future__ import annotations

import numpy.typing as npt

from sab._arguments import indices_of, real
from sab._native import Calls, ffi, lib, warn_of_skipped
from sab._order import LastStep, order_of, sampler_options
from sab._random_access import RandomAccessSampler
from sab._sampler import Output
from sab._sizes import SizesLike, as_sizes

__all__ = ["OrderedSampler"]


class OrderedSampler(RandomAccessSampler):
    """Greedy batches in the order of ``indices``, an order of your own: a batch closes before its
    total would exceed ``budget``. The rule is that of BioNeMo's ``SizeAwareBatchSampler``.

    A sample over the budget alone is skipped with a SkippedWarning (see :attr:`skipped_count`). If
    all samples are, ValueError is raised.

    For indices that are read while batches are made, or sizes from a function, see
    :class:`sab.BionemoSizeAwareStream`.

    Args:
        indices: order of the samples: an array or a list, or None for 0, 1, 2, ...
        sizes: anything that :class:`sab.Sizes` takes.
        budget: largest sum of the sizes of a batch.
        rank, world_size, last_step, micro_batches, steps_per_epoch, output: as for
            :class:`sab.BucketSampler`.

    >>> import sab
    >>> sampler = sab.OrderedSampler(None, [2, 2, 2, 2, 2], budget=4)
    >>> [batch.tolist() for batch in sampler]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        indices: npt.ArrayLike | None,
        sizes: SizesLike,
        *,
        budget: float,
        rank: int = 0,
        world_size: int = 1,
        last_step: LastStep = "split",
        micro_batches: int = 1,
        steps_per_epoch: int = 0,
        output: Output = "numpy",
    ) -> None:
        order = order_of(locals())
        calls = Calls()
        calls.names["limit"] = "budget"
        self._sizes = as_sizes(sizes)
        array = None if indices is None else indices_of("indices", indices)
        count = len(self._sizes) if array is None else array.size
        self._construct(
            output,
            lib.sab_ordered_sampler_new,
            ffi.NULL if array is None else ffi.cast("int64_t *", array.ctypes.data),
            count,
            self._sizes._handle,
            real("budget", budget),
            sampler_options(order),
            calls=calls,
        )
        warn_of_skipped(self.skipped_count, count, "over budget")
        options = {"budget": budget, **order, "output": output}
        self._made_from = (array, sizes), options
