"""Packing: samples laid end to end in rows of a fixed capacity."""

from __future__ import annotations

from typing import Literal, NamedTuple

from sab._arguments import flag, one_of, whole
from sab._cost import CostLike, set_balance
from sab._native import (
    Calls,
    Progress,
    check,
    lib,
    new_options,
    new_struct,
    record_of,
    warn_of_skipped,
)
from sab._plan import SKIP_OR_ERROR, LastStep
from sab._samplers import Order, Output, RandomAccessSampler, sampler_options
from sab._sizes import SizesLike, as_sizes

__all__ = ["PackedInfo", "PackedSampler"]

PackMethod = Literal["best_fit", "histogram", "first_fit"]
_METHODS = {
    "best_fit": lib.SAB_PACK_BEST_FIT,
    "histogram": lib.SAB_PACK_HISTOGRAM,
    "first_fit": lib.SAB_PACK_FIRST_FIT,
}


class PackedInfo(NamedTuple):
    """Facts of a packing: the fields of ``sab_packed_info``."""

    samples: int
    skipped: int
    split: int
    sequences: int
    bins: int
    lower_bound: int
    most_sequences: int
    fingerprint: int
    total: float
    fill: float


class PackedSampler(RandomAccessSampler):
    """Bins of a fixed capacity for packed training: each batch is one row of samples laid end to
    end.

    The constructor decides which lengths share a bin. Each epoch assigns the samples of equal
    length to the bins again and permutes the bins. So a sample shares its bin with other samples in
    each epoch, while every bin stays exactly as full. A bin is a pure function of sizes, options,
    seed, epoch and position. The bins of one step have nearly the same cost, by default the sum of
    squared lengths.

    Iterating gives arrays of sample indices. :meth:`batches` gives :class:`sab.Batch` with
    ``cu_seqlens``: int32, where each sequence begins and ends in the row, for variable-length
    attention. With ``split`` it also has ``starts``: where each piece begins in its sample.

    Args:
        sizes: anything that :class:`sab.Sizes` takes; whole numbers.
        capacity: largest sum of lengths in a bin.
        method: ``"best_fit"``: best-fit decreasing, the fewest bins. ``"histogram"``:
            shortest-pack-first, which spreads lengths more evenly and needs fewer bins if
            ``max_sequences`` limits them. ``"first_fit"``: online, in the order of the samples,
            with ``window`` open bins.
        max_sequences: sequences in a bin at most; 0 for no limit.
        split: cut samples longer than ``capacity`` into pieces of it and a remainder.
        oversize: samples longer than ``capacity`` that are not split: ``"error"``, or ``"skip"``
            with a SkippedWarning.
        window: bins that ``"first_fit"`` keeps open at once.
        balance: the cost that the bins of one step have in common: a cost as for :func:`sab.plan`,
            summed over the samples of a bin. ``"quadratic"`` by default: attention inside each
            sample.
        seed, rank, world_size, last_step, costliest_first, micro_batches, output: as for
            :class:`sab.BucketSampler`.
        progress: True for a bar, or ``progress(done, total)``.

    >>> import sab
    >>> sampler = sab.PackedSampler([7, 3, 6, 2, 2], capacity=10)
    >>> sorted(batch.tolist() for batch in sampler), sampler.info.fill
    ([[0, 1], [2, 4, 3]], 1.0)
    >>> sampler.batch(0).cu_seqlens.dtype
    dtype('int32')
    """

    def __init__(
        self,
        sizes: SizesLike,
        capacity: int,
        *,
        method: PackMethod = "best_fit",
        max_sequences: int = 0,
        split: bool = False,
        oversize: Literal["error", "skip"] = "error",
        window: int = 256,
        balance: CostLike | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        last_step: LastStep = "split",
        costliest_first: int = 0,
        micro_batches: int = 1,
        output: Output = "numpy",
        progress: bool | Progress | None = None,
    ) -> None:
        pack = new_options("sab_packed_options")
        pack.method = one_of("method", method, _METHODS)
        pack.capacity = whole("capacity", capacity)
        pack.max_sequences = whole("max_sequences", max_sequences)
        pack.window = whole("window", window)
        pack.split = flag("split", split)
        pack.oversize = one_of("oversize", oversize, SKIP_OR_ERROR)
        calls = Calls(progress=progress, what="packing")
        set_balance(pack, balance, calls)
        pack.progress, pack.progress_ctx = lib.sab_py_progress, calls.handle
        order: Order = {
            "seed": seed,
            "rank": rank,
            "world_size": world_size,
            "last_step": last_step,
            "costliest_first": costliest_first,
            "micro_batches": micro_batches,
        }
        self._construct(
            output,
            lib.sab_packed_sampler_new,
            as_sizes(sizes)._handle,
            pack,
            sampler_options(order),
            calls=calls,
        )
        warn_of_skipped(self.info.skipped, self.info.samples, "longer than the capacity")
        self._made_from = (
            (sizes, capacity),
            {
                "method": method,
                "max_sequences": max_sequences,
                "split": split,
                "oversize": oversize,
                "window": window,
                "balance": balance,
                **order,
                "output": output,
            },
        )

    @property
    def info(self) -> PackedInfo:
        """Number of bins, fill, and the lower bound of any packing."""
        info = new_struct("sab_packed_info")
        check(lib.sab_packed_sampler_get_info(self._handle, info))
        return record_of(PackedInfo, info)
