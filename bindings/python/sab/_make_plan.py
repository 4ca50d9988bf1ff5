"""Makes plans of sizes and of histograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy.typing as npt

from sab._cost import ONE_COLUMN, BudgetLike, CostLike
from sab._engine import Histogram
from sab._native import Progress, check, ffi, lib, warn_of_skipped
from sab._plan import Plan, new_plan
from sab._plan_options import (
    BoundariesLike,
    Oversize,
    PlanOptions,
    Tail,
    plan_options,
    why_skipped,
)
from sab._sizes import SizesLike, as_sizes

__all__ = ["plan"]


def _plan_of_histogram(source: Histogram, budget: BudgetLike | None, given: PlanOptions) -> Plan:
    options, calls = plan_options(budget, given, source.columns or ONE_COLUMN)
    handle = ffi.new("sab_plan **")
    check(lib.sab_histogram_plan_new(source._handle, options, handle), calls)
    made = Plan(handle[0])
    made._of_mixture = source._of_mixture
    return made


def plan(
    sizes: SizesLike | Histogram,
    budget: BudgetLike | None = None,
    *,
    padding: float = 0.01,
    boundaries: BoundariesLike | None = None,
    buckets: int | None = None,
    bucket_batches: int | None = None,
    batch_size: int | Sequence[int] | None = None,
    cost: CostLike | None = None,
    max_batch_size: int | None = None,
    min_batch_size: int = 0,
    batch_size_multiple: int = 1,
    length_multiple: float | Mapping[str, float] = 0,
    tail: Tail = "keep",
    drop_last: bool = False,
    oversize: Oversize = "error",
    shapes: Literal["auto"] | None = None,
    max_shapes: int | Mapping[int, int] | None = None,
    separate_by: npt.ArrayLike | Literal["source"] | None = None,
    threads: int = 1,
    progress: bool | Progress | None = None,
) -> Plan:
    """Makes a plan: which batches there are.

    Args:
        sizes: anything that :class:`sab.Sizes` takes. Or a :class:`sab.Histogram`: the plan then
            has no sample indices, and :meth:`Plan.locate` tells the batches of its samples.
        budget: the largest cost of a batch, in the unit of ``cost``: padded tokens by default. A
            :class:`sab.Budget` has a cost of its own. A batch keeps all budgets of a list; the
            batches of a step have nearly the same cost by the first one.
        padding: without boundaries or buckets, with ``max_shapes`` only if ``shapes="auto"``:
            buckets as large as possible whose padding stays under this share, and whose batches
            stay under ``1 + padding`` times the lower bound.
            :meth:`Plan.report` says whether it was met, and what the best plan tried reaches.
        boundaries: numbers ``b0, b1, ...``: the buckets are ``[b0, b1)``, ``[b1, b2)``, ... In any
            order. With several sizes a sample: rows with one number a column. The first is the
            lower end of all sizes. Each other one is the upper end of a bucket, which holds what no
            bucket before does. Or a dictionary with such numbers for each column, none twice, whose
            buckets are all combinations, at most 65,536.
        buckets: that many intervals of size that pad least.
        bucket_batches: without boundaries, buckets or shapes: the fewest batches that a bucket may
            have. Without it 16, fewer where the padding is out of reach. Any number down to 1 where
            that saves more than a quarter of the batches or of the padded total.
        batch_size: samples a batch, for all buckets, or, with boundaries, one for each; with a
            budget the smaller size is used.
        cost: the cost of a batch if ``budget`` is a single number. ``"padded"``: count * length,
            the default. ``"quadratic"``: count * length**2. Coefficients ``c``: ``c[0] + count *
            (c[1] + c[2] * length + ...)``. A :class:`sab.MemoryModel`: the budget is in bytes. Or a
            function ``cost(count, length)`` that never decreases, or a :class:`sab.Cost`. With
            several sizes a sample the default is count * the sum of the padded lengths;
            ``"product"``: count * their product; a dictionary: count * their sum with these
            weights; a function: ``cost(count, lengths, totals)``; a memory model: one of these
            sizes.
        max_batch_size: no batch has more samples.
        min_batch_size: no batch has fewer samples, such as 2 for batch normalization; not with
            boundaries, buckets, ``shapes`` or ``max_shapes``. Samples that this leaves no room for
            are skipped, also under a lowered budget. A last step in which ranks would get fewer is
            left out.
        batch_size_multiple: batch sizes from the budget are rounded down to a multiple, where one
            fits.
        length_multiple: lengths are padded to a multiple of this, such as 8 for tensor cores. A
            dictionary has the multiples of some columns.
        tail: how samples of a bucket that fill no batch are treated: ``"keep"``, ``"drop"``,
            ``"wrap"``.
        drop_last: the same as ``tail="drop"``.
        oversize: samples outside the boundaries or over the budget alone: ``"error"`` refuses
            them, ``"skip"`` leaves them out with a SkippedWarning, ``"single"`` makes a batch of
            each.
        shapes: ``"auto"``: the fewest distinct (count, padded length) whose padding is at most
            ``padding``, at most ``max_shapes`` or 1,024. The report shows the padding with each
            number that was tried.
        max_shapes: largest number of distinct (count, padded length), for compilers and CUDA
            graphs; padding is as small as possible with them. All samplers on the plan keep to
            :attr:`Plan.shapes`. The tail of ``"keep"`` needs one
            shape, and ``"single"`` batches need at least one. With ``separate_by`` also a
            dictionary with a number for each id.
        separate_by: a whole number or a text for each sample: samples that differ in it never share
            a batch. ``Batch.id`` is their number, of texts the place in their sorted order.
            ``"source"`` separates the sources of a
            :class:`sab.Mixture`; the number is then the place in ``mixture.names``, or the number
            that was given.
        threads: threads that sort the sizes, at most 256. The plan is the same for any number.
        progress: True for a bar, or ``progress(done, total)``, which stops the build by returning
            False or raising.

    Raises:
        ValueError: an argument breaks a rule. Exceptions of the given functions pass through.

    >>> import sab
    >>> sab.plan([1, 2, 3, 4, 5, 6], budget=12, boundaries=[1, 4, 7]).batch_count
    3
    """
    given: PlanOptions = {
        "padding": padding,
        "boundaries": boundaries,
        "buckets": buckets,
        "bucket_batches": bucket_batches,
        "batch_size": batch_size,
        "cost": cost,
        "max_batch_size": max_batch_size,
        "min_batch_size": min_batch_size,
        "batch_size_multiple": batch_size_multiple,
        "length_multiple": length_multiple,
        "tail": tail,
        "drop_last": drop_last,
        "oversize": oversize,
        "shapes": shapes,
        "max_shapes": max_shapes,
        "separate_by": separate_by,
        "threads": threads,
        "progress": progress,
    }
    if isinstance(sizes, Histogram):
        made = _plan_of_histogram(sizes, budget, given)
    else:
        made = new_plan(as_sizes(sizes), budget, given)
    warn_of_skipped(made.skipped_count, made.sample_count, why_skipped(min_batch_size))
    return made
