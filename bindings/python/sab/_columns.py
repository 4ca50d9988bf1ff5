"""Tensors of samples, one of each, moved between where they came from, one piece, and padded
groups: in the core for memory of the CPU, by torch elsewhere, with gradients.

A column is a tensor of every sample. Where its elements lie is a layout; grouping, ungrouping and
grouping anew are moves from one layout to another, and the gradient of a move is the move back.
Nothing here runs Python for each sample.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Callable, NamedTuple, Union

import numpy as np
import numpy.typing as npt
import torch as _loaded_torch

from sab._native import CData, check, ffi, lib, new_struct

torch: Any = _loaded_torch
Tensor = Any
Int64s = npt.NDArray[np.int64]

_CHUNK = 1024  # tensors that stay in a processor's cache while they are looked at several times
_only_torch = False  # for tests: on the CPU, too, torch moves what it moves elsewhere


class Rule(NamedTuple):
    """What stands where samples do not reach: a value (None: 0), along the dimensions `value_dims`
    of a sample an array of them; or the sample's last elements.
    """

    value: Tensor | None = None
    value_dims: tuple[int, ...] = ()
    repeat: bool = False


ZERO = Rule()


class Separate:
    """A tensor for each sample."""


class Flat:
    """One tensor of one dimension, in which samples lie end to end; `begins` where each does, if
    that is known.
    """

    def __init__(self, begins: Int64s | None = None) -> None:
        self.begins = begins


class Padded:
    """A tensor for each group, stacked along `batch_dim`. Groups without samples have none.

    Attributes:
        permutation, offsets: as of :class:`sab.Grouping`.
        sizes: (groups, dimensions): the shape that samples of a group are padded to.
    """

    def __init__(self, permutation: Int64s, offsets: Int64s, sizes: Int64s, batch_dim: int) -> None:
        self.permutation: Int64s = permutation
        self.offsets: Int64s = offsets
        self.sizes: Int64s = sizes
        self.batch_dim: int = batch_dim

    def indices(self, group: int) -> Int64s:
        """The samples of a group."""
        return self.permutation[self.offsets[group] : self.offsets[group + 1]]

    def shape(self, group: int, dims: int | None = None) -> list[int]:
        """The shape of a group's tensor, its samples having their first `dims` dimensions only."""
        shape: list[int] = self.sizes[group, :dims].tolist()
        shape.insert(self.batch_dim, int(self.offsets[group + 1] - self.offsets[group]))
        return shape


Layout = Union[Separate, Flat, Padded]


def offsets_without_empty(offsets: Int64s) -> Int64s:
    """Where groups begin, those without samples left out."""
    kept: Int64s = offsets[np.concatenate([[True], np.diff(offsets) > 0])]
    return kept


def _pointer(kind: str, array: npt.NDArray[Any]) -> Any:
    return ffi.cast(kind, array.ctypes.data)


def _begins(counts: Int64s) -> Int64s:
    begins = np.zeros(len(counts), np.int64)
    np.cumsum(counts[:-1], out=begins[1:])
    return begins


def _counts(shapes: Int64s) -> Int64s:
    """The number of elements of each sample."""
    counts: Int64s = shapes[:, 0] if shapes.shape[1] == 1 else shapes.prod(1)
    return counts


def _product(shape: Iterable[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


class _Ragged:
    """A sab_ragged, and what it points to."""

    def __init__(
        self,
        shapes: Int64s,
        element_size: int,
        values: int = 0,
        offsets: Int64s | None = None,
        data: Int64s | None = None,
        strides: Int64s | None = None,
    ) -> None:
        self.struct = new_struct("sab_ragged")
        self.struct.samples, self.struct.dimensions = shapes.shape
        self.struct.element_size = element_size
        shapes = np.ascontiguousarray(shapes)
        self.keep = shapes, values, offsets, data, strides
        if shapes.shape[1]:
            self.struct.shapes = _pointer("int64_t *", shapes)
            if strides is not None:
                self.struct.strides = _pointer("int64_t *", strides)
        if data is not None:
            self.struct.data = _pointer("void *const *", data)
        else:
            self.struct.values = ffi.cast("void *", values)
            if offsets is not None:
                self.struct.offsets = _pointer("int64_t *", offsets)


def _pad(
    ragged: _Ragged,
    indices: Int64s,
    shape: Int64s,
    batch_dim: int,
    padded: int,
    value: int = 0,
    value_dims: Sequence[int] = (),
    repeat: bool = False,
) -> None:
    options = new_struct("sab_pad_options")
    options.batch_dim = batch_dim
    options.padding = lib.SAB_PADDING_REPEAT if repeat else lib.SAB_PADDING_CONSTANT
    options.value, options.value_dims = (
        ffi.cast("void *", value),
        sum(1 << dim for dim in value_dims),
    )
    options.threads = torch.get_num_threads()
    shape = np.ascontiguousarray(shape)
    check(
        lib.sab_ragged_pad(
            ragged.struct,
            _pointer("int64_t *", indices),
            len(indices),
            _pointer("int64_t *", shape),
            options,
            ffi.cast("void *", padded),
        )
    )


def _unpad(padded: int, indices: Int64s, shape: Int64s, batch_dim: int, ragged: _Ragged) -> None:
    options = new_struct("sab_pad_options")
    options.batch_dim = batch_dim
    options.threads = torch.get_num_threads()
    shape = np.ascontiguousarray(shape)
    check(
        lib.sab_ragged_unpad(
            ffi.cast("void *", padded),
            _pointer("int64_t *", shape),
            _pointer("int64_t *", indices),
            len(indices),
            options,
            ragged.struct,
        )
    )


def _plain(tensor: Tensor) -> Tensor:
    """With its elements in memory as they are."""
    return tensor.resolve_conj().resolve_neg()


_transforms = getattr(
    getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None
)  # torch 2
_dtype, _device, _layout, _is_cpu, _requires_grad = map(
    operator.attrgetter, ("dtype", "device", "layout", "is_cpu", "requires_grad")
)


class _Look:
    """What tensors are, asked in chunks and without Python for each."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.dtypes: set[Any] = set()
        self.devices: set[Any] = set()
        self.layouts: set[Any] = set()
        self.ranks: set[int] = set()
        shapes: list[Int64s] = []
        for begin in range(0, len(tensors), _CHUNK):
            chunk = tensors[begin : begin + _CHUNK]
            self.dtypes.update(map(_dtype, chunk))
            self.devices.update(map(_device, chunk[:1] if all(map(_is_cpu, chunk)) else chunk))
            self.layouts.update(map(_layout, chunk))
            self.ranks.update(map(torch.Tensor.dim, chunk))
            shapes.append(
                np.fromiter(itertools.chain.from_iterable(map(torch.Tensor.size, chunk)), np.int64)
            )
        self.shapes = _joined(shapes)  # all in a row


def _addresses(tensors: Sequence[Tensor], shapes: Int64s, dtype: Any) -> tuple[Int64s, bool] | None:
    """Where tensors lie, and whether all are contiguous; None where the memory of one does not have
    its values.
    """
    of = torch.Tensor
    addresses: list[Int64s] = []
    is_contiguous = is_as_before = True
    counts = _counts(shapes)
    for begin in range(0, len(tensors), _CHUNK):
        chunk = tensors[begin : begin + _CHUNK]
        addresses.append(np.fromiter(map(of.data_ptr, chunk), np.uint64, len(chunk)).view(np.int64))
        if ((dtype.is_floating_point or dtype.is_complex) and any(map(of.is_neg, chunk))) or (
            dtype.is_complex and any(map(of.is_conj, chunk))
        ):
            return None
        is_contiguous = is_contiguous and all(map(of.is_contiguous, chunk))
        is_as_before = (
            is_as_before and all(map(_is_cpu, chunk)) and set(map(_dtype, chunk)) == {dtype}
        )
        is_as_before = (
            is_as_before
            and (
                np.fromiter(map(of.numel, chunk), np.int64, len(chunk))
                == counts[begin : begin + _CHUNK]
            ).all()
        )
    if not (is_as_before and (is_contiguous or (_Look(tensors).shapes == shapes.ravel()).all())):
        raise ValueError(
            "samples have changed their shapes, dtypes or devices since the collection was made "
            "of them"
        )  # whose memory would not be theirs
    return _joined(addresses), is_contiguous


def _joined(arrays: list[Int64s]) -> Int64s:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)


class UnlikeTensors(ValueError):
    """Tensors that cannot be one column."""


class Column:
    """A tensor of every sample. Immutable.

    Attributes:
        shapes: (samples, dimensions), the shape of each.
        layout: where they lie.
        buffers: the tensors of the layout.
    """

    def __init__(
        self, shapes: Int64s, layout: Layout, buffers: Sequence[Tensor], dtype: Any, device: Any
    ) -> None:
        self.shapes: Int64s = shapes
        self.layout: Layout = layout
        self.buffers: Sequence[Tensor] = buffers
        self.dtype: Any = dtype
        self.device: Any = device

    @classmethod
    def separate(cls, tensors: Sequence[Tensor], dimensions: int | None = None) -> Column:
        """A tensor for each sample; `dimensions` where there may be none."""
        look = _Look(tensors)
        if len(look.ranks) > 1:
            raise UnlikeTensors(
                f"have {' and '.join(map(str, sorted(look.ranks)))} dimensions: must have as many "
                "each"
            )
        for what, found in ("dtypes", look.dtypes), ("devices", look.devices):
            if len(found) > 1:
                raise UnlikeTensors(
                    f"have the {what} {' and '.join(sorted(map(str, found)))}: must have the same"
                )
        if look.layouts - {torch.strided}:
            raise UnlikeTensors(
                f"have the layout {next(iter(look.layouts - {torch.strided}))}: must have "
                "torch.strided"
            )
        dtype, device = (
            next(iter(look.dtypes), torch.get_default_dtype()),
            next(iter(look.devices), torch.device("cpu")),
        )
        shapes = look.shapes.reshape(len(tensors), next(iter(look.ranks), dimensions or 0))
        return cls(shapes, Separate(), tensors, dtype, device)

    @classmethod
    def flat(cls, values: Tensor, shapes: Int64s, begins: Int64s | None = None) -> Column:
        """Samples end to end."""
        return cls(shapes, Flat(begins), (values.reshape(-1),), values.dtype, values.device)

    @classmethod
    def padded(
        cls,
        groups: Sequence[Tensor],
        permutation: Int64s,
        offsets: Int64s,
        batch_dim: int,
        shapes: Int64s,
        like: Any = None,
    ) -> Column:
        """A tensor for each group that has samples."""
        like = groups[0] if groups else like
        if any((group.dtype, group.device) != (like.dtype, like.device) for group in groups):
            raise ValueError(
                "groups are of "
                f"{', '.join(f'{group.dtype} on {group.device}' for group in groups)}: must be of "
                "the same"
            )
        sizes = np.array(
            [[*group.shape[:batch_dim], *group.shape[batch_dim + 1 :]] for group in groups],
            np.int64,
        ).reshape(len(groups), shapes.shape[1])
        counts = np.diff(offsets)
        if [group.shape[batch_dim] for group in groups] != counts.tolist() or (
            shapes[permutation] > np.repeat(sizes, counts, axis=0)
        ).any():
            raise ValueError(
                "groups do not have the samples' shapes"
            )  # whose memory would not be theirs
        return cls(
            shapes,
            Padded(permutation, offsets, sizes, batch_dim),
            tuple(groups),
            like.dtype,
            like.device,
        )

    def __len__(self) -> int:
        return len(self.shapes)

    def _moved(self, layout: Layout, rule: Rule = ZERO) -> Column:
        if len(self):
            buffers = _move(self.shapes, self.layout, layout, rule, self.buffers)
        else:
            buffers = (
                (torch.empty(0, dtype=self.dtype, device=self.device),)
                if isinstance(layout, Flat)
                else ()
            )
        return Column(self.shapes, layout, buffers, self.dtype, self.device)

    def grouped(
        self, permutation: Int64s, offsets: Int64s, batch_dim: int, rule: Rule = ZERO
    ) -> Column:
        """Samples stacked in groups, each padded to its longest along each dimension; offsets are
        those of :func:`offsets_without_empty`.
        """
        ragged = _Ragged(self.shapes, 1)
        sizes = np.zeros((len(offsets) - 1, self.shapes.shape[1]), np.int64)
        for group, (begin, end) in enumerate(zip(offsets, offsets[1:])):
            indices = permutation[begin:end]
            check(
                lib.sab_ragged_get_padded_shape(
                    ragged.struct,
                    _pointer("int64_t *", indices),
                    len(indices),
                    _pointer("int64_t *", sizes[group]),
                )
            )
        return self._moved(Padded(permutation, offsets, sizes, batch_dim), rule)

    def in_one_piece(self) -> Column:
        """The same samples end to end."""
        return self if isinstance(self.layout, Flat) else self._moved(Flat())

    def tensors(self) -> Sequence[Tensor]:
        """A tensor for each sample."""
        return (
            self.buffers
            if isinstance(self.layout, Separate)
            else _split(self.in_one_piece().buffers[0], self.shapes)
        )

    def copied(self, copy: Callable[[Tensor], Tensor]) -> Column:
        """The same in copies of its tensors, on another device, say."""
        own = self.in_one_piece() if isinstance(self.layout, Separate) else self
        buffers = tuple(map(copy, own.buffers))
        device = (buffers[0] if buffers else copy(torch.empty(0, device=own.device))).device
        return Column(own.shapes, own.layout, buffers, own.dtype, device)

    def __reduce__(self) -> Any:
        own = self
        if isinstance(self.layout, Separate) and not any(map(_requires_grad, self.buffers)):
            own = (
                self.in_one_piece()
            )  # a tensor each would be a piece of shared memory each, between processes
        return Column, (own.shapes, own.layout, own.buffers, own.dtype, own.device)


def _split(flat: Tensor, shapes: Int64s) -> Sequence[Tensor]:
    pieces: Sequence[Tensor] = torch.split(flat, _counts(shapes).tolist())
    return (
        pieces
        if shapes.shape[1] == 1
        else list(map(torch.Tensor.view, pieces, map(tuple, shapes.tolist())))
    )


# ---- Moves ----


def _move(
    shapes: Int64s, source: Layout, target: Layout, rule: Rule, buffers: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Samples moved from one layout to another. Gradients go back through it, to a learned value of
    the rule, too.
    """
    if isinstance(source, Separate) and isinstance(target, Flat):
        return (torch.cat([buffer.ravel() for buffer in buffers]),)
    if _is_transformed():
        return _run_by_torch(shapes, source, target, rule, buffers)
    has_grad = torch.is_grad_enabled() and any(map(_requires_grad, buffers))
    if rule.value is not None and rule.value.requires_grad and torch.is_grad_enabled():
        assert isinstance(target, Padded)
        return _with_learned_value(
            shapes, target, rule, _move(shapes, source, target, ZERO, buffers)
        )
    if not has_grad:
        with torch.no_grad():
            return _run(shapes, source, target, rule, buffers)
    if rule.repeat:  # torch adds up what several places have of one element
        return _run_by_torch(shapes, source, target, rule, buffers)
    return _Move.apply(shapes, source, target, rule, *buffers)  # type: ignore[no-any-return]


def _is_transformed() -> bool:
    """Whether tensors may be other than their memory: tangents of forward mode, torch.func."""
    return torch.autograd.forward_ad._current_level >= 0 or (
        _transforms is not None and _transforms() is not None
    )


class _Move(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: CData, shapes: Int64s, source: Layout, target: Layout, rule: Rule, *buffers: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.move = shapes, source, target
        return _run(shapes, source, target, rule, buffers)

    @staticmethod
    def backward(ctx: CData, *gradients: Tensor) -> tuple[Any, ...]:
        shapes, source, target = ctx.move
        if isinstance(source, Separate):
            back: Any = _split(_move(shapes, target, Flat(), ZERO, gradients)[0], shapes)
        else:
            back = _move(shapes, target, source, ZERO, gradients)
        return (None, None, None, None, *back)


def _with_learned_value(
    shapes: Int64s, target: Padded, rule: Rule, padded: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    dimensions = shapes.shape[1]
    given: Tensor = rule.value
    value = given.reshape(
        [
            given.shape[rule.value_dims.index(dim)] if dim in rule.value_dims else 1
            for dim in range(dimensions)
        ]
    )
    masks = (
        ragged_mask(
            shapes[target.indices(group)], target.sizes[group], target.batch_dim, each.device
        )
        for group, each in enumerate(padded)
    )
    return tuple(
        torch.where(mask, each, value.unsqueeze(target.batch_dim))
        for mask, each in zip(masks, padded)
    )


def _run(
    shapes: Int64s, source: Layout, target: Layout, rule: Rule, buffers: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    if isinstance(source, Padded):
        for group, buffer in enumerate(buffers):
            if list(buffer.shape) != source.shape(group) or (buffer.dtype, buffer.device) != (
                buffers[0].dtype,
                buffers[0].device,
            ):
                raise ValueError(
                    "groups have changed their shapes, dtypes or devices since the collection was "
                    "made of them"
                )  # whose memory would not be theirs
    if _only_torch or buffers[0].device.type != "cpu":
        return tuple(
            each.data for each in _run_by_torch(shapes, source, target, rule, buffers)
        )  # no views, which could not be written
    if isinstance(target, Flat):
        assert isinstance(source, Padded)
        counts = _counts(shapes)
        flat = torch.empty(int(counts.sum()), dtype=buffers[0].dtype, device="cpu")
        ragged = _Ragged(shapes, flat.element_size(), flat.data_ptr(), _begins(counts))
        for group, buffer in enumerate(buffers):
            buffer = _plain(buffer).contiguous()
            _unpad(
                buffer.data_ptr(),
                source.indices(group),
                source.sizes[group],
                source.batch_dim,
                ragged,
            )
        return (flat,)
    assert isinstance(target, Padded)
    ragged, keep = _source(shapes, source, buffers)
    value = None if rule.value is None else _plain(rule.value.detach()).contiguous()
    padded = tuple(
        torch.empty(target.shape(group), dtype=buffers[0].dtype, device="cpu")
        for group in range(len(target.sizes))
    )
    for group, each in enumerate(padded):
        _pad(
            ragged,
            target.indices(group),
            target.sizes[group],
            target.batch_dim,
            each.data_ptr(),
            0 if value is None else value.data_ptr(),
            rule.value_dims,
            rule.repeat,
        )
    del keep
    return padded


def _source(shapes: Int64s, source: Layout, buffers: Sequence[Tensor]) -> tuple[_Ragged, Any]:
    """Where samples lie, and the tensors that lie there."""
    element_size = buffers[0].element_size()
    if isinstance(source, Flat):
        values = _plain(buffers[0]).contiguous()
        return _Ragged(
            shapes,
            element_size,
            values.data_ptr(),
            _begins(_counts(shapes)) if source.begins is None else source.begins,
        ), values
    if isinstance(source, Separate):
        found = _addresses(buffers, shapes, buffers[0].dtype)
        if found is None:
            buffers = [_plain(buffer) for buffer in buffers]
            found = _addresses(buffers, shapes, buffers[0].dtype)
        assert found is not None
        addresses, is_contiguous = found
        strides = (
            None
            if is_contiguous
            else np.fromiter(
                (step for buffer in buffers for step in buffer.stride()), np.int64, shapes.size
            )
        )
        return _Ragged(shapes, element_size, data=addresses, strides=strides), buffers
    buffers = [_plain(buffer) for buffer in buffers]
    counts = np.diff(source.offsets)
    strides_of = np.array([buffer.stride() for buffer in buffers], np.int64)
    step = np.repeat(strides_of[:, source.batch_dim] * element_size, counts)
    data, strides = np.empty(len(shapes), np.int64), np.empty(shapes.shape, np.int64)
    places = np.arange(len(shapes)) - np.repeat(source.offsets[:-1], counts)
    data[source.permutation] = (
        np.repeat(
            np.array([buffer.data_ptr() for buffer in buffers], np.uint64).view(np.int64), counts
        )
        + places * step
    )
    strides[source.permutation] = np.repeat(
        np.delete(strides_of, source.batch_dim, 1), counts, axis=0
    )
    return _Ragged(shapes, element_size, data=data, strides=strides), buffers


def _run_by_torch(
    shapes: Int64s, source: Layout, target: Layout, rule: Rule, buffers: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The same by an index: the core moves the numbers of rows as it would move rows, and torch
    gathers them, on any device, with its own gradients.
    """
    if isinstance(source, Separate):
        source, buffers = Flat(), (torch.cat([buffer.ravel() for buffer in buffers]),)
    # A row is what the trailing dimensions have that are the same everywhere.
    layouts = [layout for layout in (source, target) if isinstance(layout, Padded)]
    everywhere = np.concatenate([shapes, *(layout.sizes for layout in layouts)])
    varied = np.flatnonzero((everywhere != everywhere[0]).any(0))
    dims = max(
        [int(varied[-1]) + 1 if len(varied) else 0, *(layout.batch_dim for layout in layouts)]
    )
    row = everywhere[0, dims:].tolist()
    width = _product(row)
    own = shapes[:, :dims]
    counts = _counts(own)
    where = np.arange(int(counts.sum()))  # each row of the samples, taken end to end, in the source
    rows = [
        buffer.reshape(
            _product(buffer.shape[: dims + 1]) if isinstance(source, Padded) else len(where), width
        )
        for buffer in buffers
    ]
    numbers = _Ragged(own, 8, where.ctypes.data, _begins(counts))
    if isinstance(source, Padded):
        begin = 0
        for group in range(len(buffers)):
            places = np.arange(begin, begin + len(rows[group]))
            begin += len(places)
            _unpad(
                places.ctypes.data,
                source.indices(group),
                source.sizes[group, :dims],
                source.batch_dim,
                numbers,
            )
    device = buffers[0].device
    if isinstance(target, Flat):
        return (torch.cat(rows).index_select(0, torch.from_numpy(where).to(device)).reshape(-1),)
    assert isinstance(target, Padded)
    leading = [dim for dim in rule.value_dims if dim < dims]
    value = buffers[0].new_zeros(()) if rule.value is None else rule.value.detach()
    lead = everywhere[0, leading].tolist()
    ones = [size if dim in rule.value_dims else 1 for dim, size in enumerate(row, dims)]
    values = value.reshape([*lead, *ones]).expand([*lead, *row]).reshape(_product(lead), width)
    padding = np.arange(len(values)) + sum(map(len, rows))
    all_rows = torch.cat([*rows, values])
    padded: list[Tensor] = []
    for group in range(len(target.sizes)):
        shape = target.shape(group, dims)
        index = np.empty(shape, np.int64)
        _pad(
            numbers,
            target.indices(group),
            target.sizes[group, :dims],
            target.batch_dim,
            index.ctypes.data,
            padding.ctypes.data,
            leading,
            rule.repeat,
        )
        padded.append(
            all_rows.index_select(0, torch.from_numpy(index.ravel()).to(device)).reshape(
                target.shape(group)
            )
        )
    return tuple(padded)


def ragged_mask(
    lengths: Int64s, shape: Int64s, batch_dim: int = 0, device: Any = None, is_any: bool = False
) -> Tensor:
    """Which places of padded samples are within their lengths, (samples, dimensions); of no lengths
    all are.
    """
    lengths, shape = np.ascontiguousarray(lengths, np.int64), np.ascontiguousarray(shape, np.int64)
    count, dimensions = lengths.shape
    if dimensions == 0:
        return torch.ones(count, dtype=torch.bool, device=device)
    mask = torch.empty([count, *shape.tolist()], dtype=torch.bool, device="cpu")
    rule = lib.SAB_MASK_ANY if is_any else lib.SAB_MASK_ALL
    if mask.numel():
        check(
            lib.sab_ragged_mask(
                _pointer("int64_t *", lengths),
                count,
                _pointer("int64_t *", shape),
                dimensions,
                rule,
                ffi.cast("uint8_t *", mask.data_ptr()),
            )
        )
    return mask.movedim(0, batch_dim).to(device)


def mask_like(
    tensor: Tensor, batch_dim: int, dims: Sequence[int], lengths: Int64s, is_any: bool = False
) -> Tensor:
    """A mask of a padded tensor's shape, by the lengths (samples, len(dims)) along some of its
    dimensions.
    """
    shape = [size if at in (batch_dim, *dims) else 1 for at, size in enumerate(tensor.shape)]
    mask = ragged_mask(
        lengths, np.array([tensor.shape[dim] for dim in dims], np.int64), 0, tensor.device, is_any
    )
    before = sum(dim < batch_dim for dim in dims)
    return mask.movedim(0, before).reshape(shape).expand(tensor.shape)
