"""Batches, as the library shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sab._native import Calls, CData, check, ffi, lib, new_struct

__all__ = ["Batch", "Capabilities", "Step"]

Indices = npt.NDArray[np.int64]
Layout = Literal["padded", "row"]


class Batch(NamedTuple):
    """One batch.

    Attributes:
        indices: its samples.
        count: number of its samples.
        layout: ``"padded"``: each sample is padded to ``padded_length``; ``"row"``: the samples lie
            end to end in one row.
        longest: largest size in the batch.
        padded_length: length to pad to; of a row, its length: the capacity in the packed sampler,
            ``total`` in the balanced sampler.
        total: sum of the sizes.
        bucket: the bucket of the plan; -1 where there are none.
        epoch: epoch of the batch.
        step: step of the optimizer in the epoch, from 0.
        micro_batch: which of this rank's batches of the step, from 0.
        cu_seqlens: of a row of whole-number sizes: cumulative lengths, ``count + 1`` of them.
        starts: of a row of a sampler that splits samples: where each piece begins in its sample.
    """

    indices: Indices
    count: int  # type: ignore[assignment]  # the field's own name, not tuple.count
    layout: Layout
    longest: float
    padded_length: float
    total: float
    bucket: int
    epoch: int
    step: int
    micro_batch: int
    cu_seqlens: npt.NDArray[np.int32] | None
    starts: Indices | None

    @property
    def padded_total(self) -> float:
        """Positions of the batch, padding included. This is ``count * padded_length``; of a row its
        padded length.
        """
        return self.padded_length if self.layout == "row" else self.count * self.padded_length


class Step(NamedTuple):
    """A step of the optimizer, over all ranks and micro-batches. A loss is a mean over the samples
    of the step with the weight ``batch.count / step.samples``, and over its tokens with
    ``batch.total / step.total``. -1: not known.

    Attributes:
        micro_batches: batches that each rank takes in the step.
        samples: number of samples.
        total: sum of the sizes.
    """

    micro_batches: int
    samples: int
    total: float


class Capabilities(NamedTuple):
    """What a sampler supports beside what all samplers do."""

    batch_count: bool
    random_access: bool
    budget: bool


def new_batch() -> CData:
    return new_struct("sab_batch")


def copied(pointer: CData, count: int, dtype: Any) -> Any:
    made = np.empty(count, dtype)
    if count > 0:
        ffi.memmove(made, pointer, made.nbytes)
    return made


def batch_of(b: CData, handle: CData) -> Batch:
    """The batch that the sampler showed last."""
    cu_seqlens = starts = None
    if b.layout == lib.SAB_LAYOUT_ROW:
        rows = new_struct("sab_rows")
        check(lib.sab_batch_rows(handle, rows))
        if rows.cu_seqlens:
            cu_seqlens = copied(rows.cu_seqlens[0], b.count + 1, np.int32)
        if rows.starts:
            starts = copied(rows.starts, b.count, np.int64)
    # Written out, and in order: getattr() by name would take as long as all the rest.
    return Batch(
        copied(b.indices, b.count, np.int64),
        b.count,
        "row" if b.layout == lib.SAB_LAYOUT_ROW else "padded",
        b.longest[0],
        b.padded_length[0],
        b.total[0],
        b.bucket,
        b.epoch,
        b.step,
        b.micro_batch,
        cu_seqlens,
        starts,
    )


def step_of(handle: CData) -> Step:
    """The step of the batch that the sampler showed last."""
    step = new_struct("sab_step")
    check(lib.sab_batch_step(handle, step))
    return Step(step.micro_batches, step.samples, step.totals[0])


def batches_of(handle: CData, calls: Calls | None = None) -> Iterator[Batch]:
    """The batches of a raw sampler from where it stands."""
    batch = new_batch()
    while check(lib.sab_next_batch(handle, batch), calls) != lib.SAB_END:
        yield batch_of(batch, handle)
