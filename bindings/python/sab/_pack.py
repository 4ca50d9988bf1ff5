"""Packing: samples laid end to end in rows of a fixed capacity."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from sab._arguments import flag, one_of, whole
from sab._batch import Indices
from sab._native import Calls, Progress, SkippedWarning, check, ffi, lib, new_options
from sab._samplers import RandomAccessSampler, sampler_options
from sab._sizes import SizesLike, as_sizes

_METHODS = {
    "best_fit": lib.SAB_PACK_BEST_FIT,
    "histogram": lib.SAB_PACK_HISTOGRAM,
    "first_fit": lib.SAB_PACK_FIRST_FIT,
}
_OVERSIZE = {"error": lib.SAB_OVERSIZE_ERROR, "skip": lib.SAB_OVERSIZE_SKIP}


class PackInfo(NamedTuple):
    """Facts of a packing: the fields of ``sab_pack_info``."""

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
    """Bins of a fixed capacity for packed training: each batch is one row of samples laid end to end.

    Which lengths share a bin is decided once. Each epoch deals the samples of equal length out to the bins anew and permutes the bins, so that bin
    mates change while every bin stays exactly as full; any bin is a pure function of sizes, options, seed, epoch and step. Bins of near-equal
    cost, the sum of squared lengths, make a step of the ranks.

    Iterating gives arrays of sample indices; :meth:`batches` gives :class:`sab.Batch` with ``cu_seqlens`` (int32, where each sequence begins and ends
    in the row, as variable-length attention takes it) and, with ``split``, ``starts`` (where each piece begins in its sample).

    Args:
        sizes: anything that :class:`sab.Sizes` takes; whole numbers.
        capacity: tokens in a bin.
        method: ``"best_fit"`` (best-fit decreasing, the fewest bins), ``"histogram"`` (shortest-pack-first, which spreads lengths more evenly and
            needs fewer bins where ``max_sequences`` binds) or ``"first_fit"`` (online, in the order of the samples, ``window`` bins open at once).
        max_sequences: sequences in a bin at most; 0 for no limit.
        split: cut samples longer than ``capacity`` into pieces of it and a remainder.
        oversize: samples longer than ``capacity`` that are not split: ``"error"``, or ``"skip"`` with a SkippedWarning.
        window: bins that ``"first_fit"`` keeps open at once.
        seed, rank, world_size, last_step, worst_first, step_totals, output: as for :class:`sab.BucketSampler`.
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
        method: str = "best_fit",
        max_sequences: int = 0,
        split: bool = False,
        oversize: str = "error",
        window: int = 256,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        last_step: str = "split",
        worst_first: int = 0,
        step_totals: bool = True,
        output: str = "numpy",
        progress: "bool | Progress | None" = None,
    ) -> None:
        pack = new_options("sab_pack_options")
        pack.method = one_of("method", method, _METHODS)
        for name, value in (
            ("capacity", capacity),
            ("max_sequences", max_sequences),
            ("window", window),
        ):
            setattr(pack, name, whole(name, value))
        pack.split = flag("split", split)
        pack.oversize = one_of("oversize", oversize, _OVERSIZE)
        calls = Calls(progress=progress, what="packing")
        pack.progress, pack.progress_ctx = lib.sab_py_progress, calls.handle
        options = sampler_options(seed, rank, world_size, last_step, worst_first, step_totals)
        handle = ffi.new("sab_sampler **")
        check(lib.sab_packed_sampler_new(as_sizes(sizes)._handle, pack, options, handle), calls)
        self._adopt(handle, output)
        if self.info.skipped:
            warnings.warn(
                f"{self.info.skipped} of {self.info.samples} samples are longer than the capacity and are skipped",
                SkippedWarning,
                stacklevel=2,
            )
        how = (
            method,
            max_sequences,
            split,
            oversize,
            window,
            seed,
            rank,
            world_size,
            last_step,
            worst_first,
            step_totals,
            output,
        )
        self._make = type(self), (sizes, capacity, *how), {}

    @property
    def info(self) -> PackInfo:
        """Bins, fill and what no packing can do better than."""
        info = ffi.new("sab_pack_info *")
        info.struct_size = ffi.sizeof("sab_pack_info")
        check(lib.sab_pack_get_info(self._handle, info))
        return PackInfo(*(getattr(info, field) for field in PackInfo._fields))

    @property
    def skipped(self) -> Indices:
        """The samples that were left out, by ascending size."""
        count = ffi.new("size_t *")
        check(lib.sab_pack_skipped(self._handle, ffi.NULL, 0, count))
        indices = np.empty(count[0], np.int64)
        check(
            lib.sab_pack_skipped(
                self._handle, ffi.cast("int64_t *", indices.ctypes.data), indices.size, count
            )
        )
        return indices
