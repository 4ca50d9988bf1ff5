"""Batches, as the library shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sab._native import Calls, CData, check, ffi, lib, new_struct

Indices = npt.NDArray[np.int64]


class Batch(NamedTuple):
    """One batch with all that is known of it: the fields of ``sab_batch``."""

    indices: Indices
    count: int  # type: ignore[assignment]  # the field's own name, not tuple.count
    longest: float
    total: float
    padded_length: float
    padded_total: float
    bucket: int
    epoch: int
    step: int
    step_samples: int
    step_total: float
    micro_batch: int
    micro_batches: int
    cu_seqlens: npt.NDArray[np.int32] | None
    starts: Indices | None


def new_batch() -> CData:
    batch = new_struct("sab_batch")
    return batch


def copied(pointer: CData, count: int, dtype: Any) -> Any:
    made = np.empty(count, dtype)
    if count > 0:
        ffi.memmove(made, pointer, made.nbytes)
    return made


def batch_of(b: CData) -> Batch:
    # Written out, and in order: getattr() by name would take as long as all the rest.
    return Batch(
        copied(b.indices, b.count, np.int64),
        b.count,
        b.longest,
        b.total,
        b.padded_length,
        b.padded_total,
        b.bucket,
        b.epoch,
        b.step,
        b.step_samples,
        b.step_total,
        b.micro_batch,
        b.micro_batches,
        copied(b.cu_seqlens, b.count + 1, np.int32) if b.cu_seqlens else None,
        copied(b.starts, b.count, np.int64) if b.starts else None,
    )


def batches_of(handle: CData, calls: Calls | None = None) -> Iterator[Batch]:
    """The batches of a raw sampler from where it stands."""
    batch = new_batch()
    while check(lib.sab_next_batch(handle, batch), calls) != lib.SAB_END:
        yield batch_of(batch)
