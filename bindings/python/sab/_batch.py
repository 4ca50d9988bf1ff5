"""Batches, as the library shows them."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from sab._cost import ONE_COLUMN
from sab._display import record_line
from sab._native import Calls, CData, check, ffi, lib, new_struct

__all__ = ["Batch", "Block", "Capabilities", "Step"]

Indices = npt.NDArray[np.int64]
Layout = Literal["padded", "row"]
PerColumn = Any  # a number, or of several columns a dictionary of numbers
Shape = tuple[int, Any]  # a count, and a padded length or of several columns a tuple of them


class Batch(NamedTuple):
    """One batch. Of sizes with several columns, ``longest``, ``padded_length``, ``total``,
    ``cu_seqlens``, ``cu_seqlens_unpadded`` and ``token_weight`` are dictionaries by the name of the
    column. Lengths are floats, because sizes may have fractions.

    Attributes:
        indices: its samples.
        count: number of its samples.
        layout: ``"padded"``: each sample is padded to ``padded_length``; ``"row"``: the samples lie
            end to end in one row.
        longest: largest size in the batch.
        padded_length: length to pad to; of a row, its length: the capacity in the packed sampler,
            ``total`` in the balanced sampler, unless lengths are rounded.
        total: sum of the sizes.
        bucket: the bucket of the plan; -1 where there are none, or in an empty batch.
        epoch: epoch of the batch.
        step: step of the optimizer in the epoch, from 0.
        micro_batch: which of this rank's batches of the step, from 0.
        cu_seqlens: of a row of whole-number sizes: cumulative lengths, ``count + 1`` of them. With
            ``length_multiple`` those of the rounded lengths.
        starts: of a row of a sampler that splits samples: where each piece begins in its sample.
        id: the number that all its samples have in ``separate_by``; 0 without it.
        sample_weight: ``count`` over the mean of all batches of the epoch, of all ranks and
            micro-batches. Multiply a loss that is a mean over the samples by it, so that each
            sample of the epoch counts the same. Its mean is 1; an empty batch has 0.
        token_weight: ``total`` over the mean of all batches, in the same way: for a loss that is a
            mean over the tokens.
        cu_seqlens_unpadded: of a row with ``length_multiple``: cumulative lengths of the samples as
            they are. TransformerEngine calls these ``cu_seqlens``, and the rounded ones
            ``cu_seqlens_padded``.

    After a lowered budget, and after a state of other ranks or micro-batches, the mean is that of
    the batches from there to the end of the epoch. Samplers without ``len()`` take the mean of the
    batches of the epoch up to this one.
    """

    indices: Indices
    count: int  # type: ignore[assignment]  # the field's own name, not tuple.count
    layout: Layout
    longest: PerColumn
    padded_length: PerColumn
    total: PerColumn
    bucket: int
    epoch: int
    step: int
    micro_batch: int
    cu_seqlens: Any  # int32 arrays: one, or of several columns a dictionary of them
    starts: Indices | None
    id: int = 0
    sample_weight: float = 1.0
    token_weight: PerColumn = 1.0
    cu_seqlens_unpadded: Any = None

    def __repr__(self) -> str:
        return record_line(self)

    @property
    def padded_total(self) -> float:
        """Positions of the batch, padding included, over all columns. This is ``count *
        padded_length``; of a row its padded length.
        """
        length = self.padded_length
        if isinstance(length, dict):
            length = sum(cast("dict[str, float]", length).values())
        return float(length if self.layout == "row" else self.count * length)


# As Batch._make, in a third of the time.
_new_batch: Callable[[tuple[Any, ...]], Batch] = functools.partial(tuple.__new__, Batch)


class Block(NamedTuple):
    """Several batches, as arrays with an element for each. Of sizes with several columns,
    ``longest``, ``padded_length``, ``total``, ``cu_seqlens``, ``cu_seqlens_unpadded`` and
    ``token_weight`` are dictionaries by the name of the column.

    Attributes:
        indices: the samples of all batches, int64; those of batch i are
            ``indices[offsets[i]:offsets[i + 1]]``.
        offsets: int64, one more than there are batches; begins with 0.
        layout, epoch: as in :class:`Batch`, of all batches.
        longest, padded_length, total, sample_weight, token_weight: as in :class:`Batch`, float64
            arrays.
        bucket, step, micro_batch, id: as in :class:`Batch`, int64 arrays.
        cu_seqlens: as in :class:`Batch`, one batch after the other: those of batch i are
            ``cu_seqlens[offsets[i] + i : offsets[i + 1] + i + 1]``. So are ``cu_seqlens_unpadded``.
        starts: as in :class:`Batch`, beside ``indices``.
    """

    indices: Indices
    offsets: Indices
    layout: Layout
    longest: PerColumn
    padded_length: PerColumn
    total: PerColumn
    bucket: Indices
    epoch: int
    step: Indices
    micro_batch: Indices
    cu_seqlens: Any
    starts: Indices | None
    id: Indices
    sample_weight: npt.NDArray[np.float64]
    token_weight: PerColumn
    cu_seqlens_unpadded: Any = None

    def __repr__(self) -> str:
        return record_line(self)


class Step(NamedTuple):
    """A step of the optimizer, over all ranks and micro-batches. ``batch.count / step.samples`` is
    the share of a batch in the samples of the step, ``batch.total / step.total`` that in its
    tokens. For weights of losses see :attr:`Batch.sample_weight`. -1: not known.

    Attributes:
        micro_batches: batches that each rank takes in the step.
        samples: number of samples.
        total: sum of the sizes.
    """

    micro_batches: int
    samples: int
    total: PerColumn


class Capabilities(NamedTuple):
    """What a sampler supports beside what all samplers do."""

    batch_count: bool
    random_access: bool
    budget: bool
    schedule: bool


def new_batch() -> CData:
    return new_struct("sab_batch")


def copied(pointer: CData, count: int, dtype: Any) -> Any:
    made = np.empty(count, dtype)
    if count > 0:
        ffi.memmove(made, pointer, made.nbytes)
    return made


def per_column(numbers: CData, columns: Sequence[str]) -> Any:
    """One number of the only column, or a dictionary by the names of several."""
    if len(columns) == 1:
        return numbers[0]
    return dict(zip(columns, ffi.unpack(numbers, len(columns))))


def shapes_of(
    get: Callable[[CData, int, CData], int], handle: CData, columns: Sequence[str]
) -> list[Shape]:
    """The shapes that a function of the library gives one after the other."""
    shape = new_struct("sab_shape")
    shapes: list[Shape] = []
    while check(get(handle, len(shapes), shape)) != lib.SAB_END:
        lengths = tuple(ffi.unpack(shape.padded_length, len(columns)))
        shapes.append((shape.count, lengths if len(columns) > 1 else lengths[0]))
    return shapes


def _ends(ends: CData, count: int, columns: Sequence[str]) -> Any:
    """Cumulative lengths, of several columns a dictionary of them; None where there are none."""
    if not ends:
        return None
    arrays = [copied(ends[j], count, np.int32) for j in range(len(columns))]
    return arrays[0] if len(columns) == 1 else dict(zip(columns, arrays))


def batch_of(b: CData, handle: CData, columns: Sequence[str] = ONE_COLUMN) -> Batch:
    """The batch that the sampler showed last. `columns`: the names of the columns."""
    cu_seqlens = unpadded = starts = None
    if b.layout == lib.SAB_LAYOUT_ROW:
        rows = new_struct("sab_rows")
        check(lib.sab_sampler_get_rows(handle, rows))
        cu_seqlens = _ends(rows.cu_seqlens, b.count + 1, columns)
        unpadded = _ends(rows.cu_seqlens_unpadded, b.count + 1, columns)
        if rows.starts:
            starts = copied(rows.starts, b.count, np.int64)
    # Written out, and in order: getattr() by name would take as long as all the rest.
    return Batch(
        copied(b.indices, b.count, np.int64),
        b.count,
        "row" if b.layout == lib.SAB_LAYOUT_ROW else "padded",
        per_column(b.longest, columns),
        per_column(b.padded_length, columns),
        per_column(b.total, columns),
        b.bucket,
        b.epoch,
        b.step,
        b.micro_batch,
        cu_seqlens,
        starts,
        b.id,
        b.sample_weight,
        per_column(b.token_weight, columns),
        unpadded,
    )


def _arrays_per_column(numbers: CData, count: int, columns: Sequence[str]) -> Any:
    array = copied(numbers, count * len(columns), np.float64)
    if len(columns) == 1:
        return array
    return {name: array[j :: len(columns)] for j, name in enumerate(columns)}


def block_of(b: CData, columns: Sequence[str] = ONE_COLUMN) -> Block:
    """The batches that the sampler showed last. `columns`: the names of the columns."""
    count = b.count
    offsets = copied(b.offsets, count + 1, np.int64)
    samples = int(offsets[-1])
    return Block(
        copied(b.indices, samples, np.int64),
        offsets,
        "row" if b.layout == lib.SAB_LAYOUT_ROW else "padded",
        _arrays_per_column(b.longest, count, columns),
        _arrays_per_column(b.padded_length, count, columns),
        _arrays_per_column(b.total, count, columns),
        copied(b.bucket, count, np.int64),
        b.epoch,
        copied(b.step, count, np.int64),
        copied(b.micro_batch, count, np.int64),
        _ends(b.cu_seqlens, samples + count, columns),
        copied(b.starts, samples, np.int64) if b.starts else None,
        copied(b.id, count, np.int64),
        copied(b.sample_weight, count, np.float64),
        _arrays_per_column(b.token_weight, count, columns),
        _ends(b.cu_seqlens_unpadded, samples + count, columns),
    )


def _parts(array: Any, edges: Sequence[int], extra: int = 0) -> Iterator[Any]:
    """Of each batch its part of an array, which has `extra` elements more for each batch."""
    if extra:
        edges = [edge + extra * i for i, edge in enumerate(edges)]
    return map(array.__getitem__, map(slice, edges, edges[1:]))


def _numbers_per_column(numbers: CData, count: int, columns: Sequence[str]) -> Iterable[Any]:
    values = ffi.unpack(numbers, count * len(columns))
    if len(columns) == 1:
        return values
    rows = zip(*(values[j :: len(columns)] for j in range(len(columns))))
    return (dict(zip(columns, row)) for row in rows)


def batches_of_block(b: CData, columns: Sequence[str] = ONE_COLUMN) -> Iterator[Batch]:
    """The batches that the sampler showed last, one by one; their arrays are parts of larger
    ones."""
    count = b.count
    edges = ffi.unpack(b.offsets, count + 1)
    nothing: Iterator[Any] = itertools.repeat(None)
    starts = nothing

    def ends_of(ends: CData) -> Iterator[Any]:
        found = _ends(ends, edges[-1] + count, columns)
        if found is None:
            return nothing
        if len(columns) == 1:
            return _parts(found, edges, 1)
        each = [_parts(array, edges, 1) for array in found.values()]
        return (dict(zip(columns, at)) for at in zip(*each))

    if b.starts:
        starts = _parts(copied(b.starts, edges[-1], np.int64), edges)
    return map(
        _new_batch,
        zip(
            _parts(copied(b.indices, edges[-1], np.int64), edges),
            map(operator.sub, edges[1:], edges),
            itertools.repeat("row" if b.layout == lib.SAB_LAYOUT_ROW else "padded"),
            _numbers_per_column(b.longest, count, columns),
            _numbers_per_column(b.padded_length, count, columns),
            _numbers_per_column(b.total, count, columns),
            ffi.unpack(b.bucket, count),
            itertools.repeat(b.epoch),
            ffi.unpack(b.step, count),
            ffi.unpack(b.micro_batch, count),
            ends_of(b.cu_seqlens),
            starts,
            ffi.unpack(b.id, count),
            ffi.unpack(b.sample_weight, count),
            _numbers_per_column(b.token_weight, count, columns),
            ends_of(b.cu_seqlens_unpadded),
        ),
    )


def step_of(handle: CData, columns: Sequence[str] = ONE_COLUMN) -> Step:
    """The step of the batch that the sampler showed last."""
    step = new_struct("sab_step")
    check(lib.sab_sampler_get_step(handle, step))
    return Step(step.micro_batches, step.samples, per_column(step.totals, columns))


def batches_of(
    handle: CData, calls: Calls | None = None, columns: Sequence[str] = ONE_COLUMN
) -> Iterator[Batch]:
    """The batches of a raw sampler from where it stands."""
    batch = new_batch()
    while check(lib.sab_next_batch(handle, batch), calls) != lib.SAB_END:
        yield batch_of(batch, handle, columns)
