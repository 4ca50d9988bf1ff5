"""Collections: samples of one or several tensors each, described by shape signatures, padded and
run group by group.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    NamedTuple,
    TypeVar,
)

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sab._columns import Column, Rule


from sab._group import Grouping
from sab._signature import (
    Jagged,
    Leaf,
    ShapeSignature,
    Signature,
    built,
    check_keys,
    check_shapes,
    check_strided,
    copied_signature,
    items_of,
    leaves_of,
    name_of,
    picked,
    read_leaf,
    rule_of,
    value_at,
)

__all__ = ["Collection", "Grouped"]

Own = TypeVar("Own", bound="_Tensors")


class _Parts(NamedTuple):
    signature: Signature
    leaves: list[Leaf]
    columns: list[Column]
    rules: list[Rule]
    lengths: dict[str, npt.NDArray[np.int64]]
    samples: int


class _Tensors:
    """What collections and grouped collections have in common."""

    signature: Signature

    def __init__(self, parts: _Parts) -> None:
        self.signature = parts.signature
        self._leaves = parts.leaves
        self._columns = parts.columns
        self._rules = parts.rules
        self._lengths = parts.lengths
        self._count = parts.samples

    def __len__(self) -> int:
        """Number of samples."""
        return self._count

    def lengths(self, name: str) -> npt.NDArray[np.int64]:
        """The length that dimensions ``L_name`` have in each sample, in the original order: int64.

        Raises:
            KeyError: no dimension has that name.
        """
        if name not in self._lengths:
            raise KeyError(
                f"name = {name!r}: must be a length of the signature: "
                f"{', '.join(map(repr, self._lengths)) or 'it has none'}"
            )
        return self._lengths[name].copy()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the lengths."""
        return tuple(self._lengths)

    def grouping(self, **thresholds: npt.ArrayLike) -> Grouping:
        """Groups by one or several lengths: ``collection.grouping(residue=[128, 256], atom=[32])``;
        see :meth:`sab.Grouping.by_thresholds`.
        """
        return Grouping.by_thresholds(
            *((self.lengths(name), cuts) for name, cuts in thresholds.items())
        )

    def _part(self, key: Any) -> tuple[Signature, list[int]]:
        if isinstance(self.signature, str) or not (
            key in self.signature
            if isinstance(self.signature, dict)
            else isinstance(key, int) and 0 <= key < len(self.signature)
        ):
            raise KeyError(f"key = {key!r}: the signature is {self.signature!r}")
        below: Signature = dict(items_of(self.signature))[key]
        return below, [at for at, leaf in enumerate(self._leaves) if leaf.path[0] == key]

    def _parts_at(self, key: Any) -> _Parts:
        signature, which = self._part(key)
        leaves = [Leaf(self._leaves[at].path[1:], self._leaves[at].signature) for at in which]
        names = {dim.name for leaf in leaves for dim in leaf.signature.own if dim.kind == "L"}
        lengths = {name: sizes for name, sizes in self._lengths.items() if name in names}
        return _Parts(
            signature,
            leaves,
            [self._columns[at] for at in which],
            [self._rules[at] for at in which],
            lengths,
            self._count,
        )

    def _parts(self, columns: list[Column]) -> _Parts:
        """The same samples in other columns."""
        return _Parts(
            self.signature, self._leaves, columns, self._rules, self._lengths, self._count
        )

    def _copied(self: Own, copy: Callable[[Any], Any]) -> Own:
        made = self.__class__.__new__(self.__class__)
        made.__dict__.update(self.__dict__)
        made._columns = [column.copied(copy) for column in self._columns]
        made._rules = [
            rule._replace(value=None if rule.value is None else copy(rule.value))
            for rule in self._rules
        ]
        return made

    def to(self: Own, device: Any, non_blocking: bool = False) -> Own:
        """The same on a device."""
        return self._copied(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self: Own) -> Own:
        """The same in memory from which a GPU copies by itself; a ``DataLoader`` with
        ``pin_memory=True`` calls it.
        """
        return self._copied(lambda tensor: tensor.pin_memory())

    def _stacked_by(self, grouping: Grouping) -> Grouped:
        from sab._columns import offsets_without_empty

        if not isinstance(grouping, Grouping):
            raise TypeError(f"grouping is a {type(grouping).__name__}: must be a sab.Grouping")
        if grouping.permutation.size != self._count:
            raise ValueError(
                f"grouping has {grouping.permutation.size} samples: the collection has "
                f"{self._count}"
            )
        offsets = offsets_without_empty(grouping.offsets)
        columns = [
            column.grouped(grouping.permutation, offsets, leaf.signature.batch_dim, rule)
            for leaf, column, rule in zip(self._leaves, self._columns, self._rules)
        ]
        return Grouped(self._parts(columns), grouping)


class Collection(_Tensors):
    """Samples of one or several tensors each, whose shapes differ. Immutable; picklable; needs
    torch.

    A signature gives the meaning of the dimensions of stacked samples, such as ``"(B, L_residue, 3,
    M_hidden)"``. ``B``: the samples. ``L_name``: a length, which may differ between samples, but
    not between the tensors of one sample. A number: this size. ``M`` or ``M_name``: any size, the
    same in all samples. Dictionaries and tuples of signatures describe nested samples.

    Args:
        samples: a list with an entry for each sample, nested like the signature, of tensors on any
            device, numpy arrays or numbers. Or one structure, nested like the signature, with the
            data of all samples at each place: a list of tensors, a nested tensor, a
            :class:`sab.Jagged` of values and offsets, or a stacked tensor.
        signature: a text, or dictionaries and tuples of texts.
        padding: the value at padded places. A number; ``"repeat"``: the sample's last element along
            each dimension; or a tensor over the dimensions that are numbers, such as the identity
            for rotations of ``"(B, L_residue, 3, 3)"``. One value for all, or nested like the
            signature, where missing keys mean 0. The tensor may be a parameter and gets its
            gradient.
        lengths: for stacked samples: the lengths of the samples by name. By default each sample has
            the full length of the tensor.

    Gradients pass through all operations to the given tensors; second derivatives work, too. The
    shapes of the given tensors must not change afterwards. A collection cannot be used inside
    ``torch.compile``: compile the module that is applied.

    Raises:
        ValueError: a tensor is not as the signature says, or another rule is broken.

    >>> import sab, torch
    >>> samples = [torch.ones(4), torch.ones(1), torch.ones(2)]
    >>> collection = sab.Collection(samples, "(B, L_sequence)")
    >>> grouped = collection.group(collection.grouping(sequence=[2]))
    >>> [tuple(group.shape) for group in grouped.groups]
    [(2, 2), (1, 4)]
    >>> grouped.apply(lambda x, mask: (x * mask).sum(1), output="(B)", mask="sequence").join()
    tensor([4., 1., 2.])
    """

    def __init__(
        self,
        samples: Any,
        signature: Signature,
        *,
        padding: Any = 0,
        lengths: Mapping[str, Any] | None = None,
    ) -> None:
        leaves = leaves_of(signature, "signature")
        signature = copied_signature(signature, leaves)
        if lengths is not None and not isinstance(lengths, collections.abc.Mapping):
            raise TypeError(
                f"lengths is a {type(lengths).__name__}: must be a dictionary of names and whole "
                "numbers"
            )
        given_lengths = (
            {}
            if lengths is None
            else {name: _lengths_given(name, each) for name, each in lengths.items()}
        )
        is_by_sample = isinstance(samples, list)
        columns = [
            read_leaf(
                picked(samples, leaf.path)
                if is_by_sample
                else value_at(samples, leaf.path, "samples"),
                leaf,
                given_lengths,
            )
            for leaf in leaves
        ]
        counts = {len(column): leaf for leaf, column in zip(leaves, columns)}
        if len(counts) > 1:
            found = " but ".join(
                f"{count} in {name_of('', leaf.path)}" for count, leaf in counts.items()
            )
            raise ValueError(f"samples: {found}: must be as many everywhere")
        known = {name: (sizes, "lengths") for name, sizes in given_lengths.items()}
        for leaf, column in zip(leaves, columns):
            check_shapes(column, leaf, known)
        unknown = [
            name
            for name in given_lengths
            if not any(
                dim.kind == "L" and dim.name == name
                for leaf in leaves
                for dim in leaf.signature.own
            )
        ]
        if unknown:
            raise ValueError(f"lengths has {unknown[0]!r}, which the signature has not")
        check_keys(padding, signature)
        rules = [rule_of(padding, leaf, column) for leaf, column in zip(leaves, columns)]
        sizes_of = {name: sizes for name, (sizes, _) in known.items()}
        super().__init__(_Parts(signature, leaves, columns, rules, sizes_of, next(iter(counts))))

    @classmethod
    def _made(cls, parts: _Parts) -> Collection:
        made = cls.__new__(cls)
        _Tensors.__init__(made, parts)
        return made

    def group(self, grouping: Grouping | None = None) -> Grouped:
        """Samples stacked group by group, each tensor padded to the longest of its group. By
        default all in one group.

        Raises:
            ValueError: the grouping is of another number of samples.
        """
        return self._stacked_by(Grouping.uni(len(self)) if grouping is None else grouping)

    def samples(self) -> list[Any]:
        """The samples, in their original order, nested as the signature. Where they were taken out
        of groups, tensors share memory: they are not to be written.
        """
        return _by_sample(
            self.signature, iter([list(column.tensors()) for column in self._columns]), len(self)
        )

    def jagged(self) -> Any:
        """Nested as the signature, values and offsets (int64, on the values' device) of each
        tensor, such as ``torch.nested.nested_tensor_from_jagged`` takes: a :class:`sab.Jagged`.

        Raises:
            ValueError: a signature has a length in another place than the first beside ``B``, or
                none there.
        """
        from sab._columns import torch

        made: list[Jagged] = []
        for leaf, column in zip(self._leaves, self._columns):
            kinds = [dim.kind for dim in leaf.signature.own]
            if kinds[:1] != ["L"] or "L" in kinds[1:]:
                raise ValueError(
                    f'"{leaf.signature.text}" has no values and offsets: must have one length, '
                    "before the other dimensions beside B"
                )
            offsets = np.zeros(len(self) + 1, np.int64)
            np.cumsum(column.shapes[:, 0], out=offsets[1:])
            sizes = (
                column.shapes[0, 1:].tolist()
                if len(self)
                else [dim.size for dim in leaf.signature.own[1:]]
            )
            made.append(
                Jagged(
                    column.in_one_piece().buffers[0].reshape(int(offsets[-1]), *sizes),
                    torch.from_numpy(offsets).to(column.device),
                )
            )
        return built(self.signature, iter(made))

    def __getitem__(self, key: Any) -> Collection:
        """What stands at a key of the signature, where that is a dictionary or tuple."""
        return Collection._made(self._parts_at(key))

    def __repr__(self) -> str:
        return f"<sab.Collection: {len(self):,} samples of {self.signature!r}>"


def _lengths_given(name: str, given: Any) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[Any] = np.asarray(given.cpu() if hasattr(given, "cpu") else given)
    if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
        raise ValueError(
            f"lengths[{name!r}] has dtype {lengths.dtype} and {lengths.ndim} dimensions: must be "
            "whole numbers in one dimension"
        )
    return lengths.astype(np.int64)


def _by_sample(signature: Signature, columns: Iterator[list[Any]], count: int) -> list[Any]:
    if isinstance(signature, dict):
        parts = [_by_sample(below, columns, count) for below in signature.values()]
        return [dict(zip(signature, values)) for values in zip(*parts)]
    if isinstance(signature, tuple):
        return list(zip(*[_by_sample(below, columns, count) for below in signature]))
    return next(columns)


class Grouped(_Tensors):
    """Samples stacked in groups, which :meth:`sab.Collection.group` makes. Immutable; picklable.

    Attributes:
        grouped_by: the grouping. Groups without samples are left out of all that follows.
    """

    def __init__(self, parts: _Parts, grouping: Grouping) -> None:
        super().__init__(parts)
        self.grouped_by = grouping

    @property
    def _indices(self) -> list[npt.NDArray[np.int64]]:
        return [indices for indices in self.grouped_by if indices.size]

    @property
    def groups(self) -> list[Any]:
        """The stacked tensors of each group, nested as the signature."""
        return [
            built(self.signature, iter([column.buffers[group] for column in self._columns]))
            for group in range(len(self._indices))
        ]

    def masks(self, hint: str | Sequence[str] = "copy") -> list[Any]:
        """For each group which places are samples' own, not padding: bool, true where a place is
        within the sample's length along all dimensions.

        Args:
            hint: the name of a length, for masks of shape (B, length); several names, for (B,
                length, length, ...); or ``"copy"``, for masks nested and shaped as the groups.

        Raises:
            KeyError: there is no such length.
        """
        from sab._columns import mask_like, ragged_mask

        if isinstance(hint, str) and hint == "copy":
            masks: list[Any] = []
            for group, indices in enumerate(self._indices):
                of_leaves: list[Any] = []
                for leaf, column in zip(self._leaves, self._columns):
                    own = [at for at, dim in enumerate(leaf.signature.own) if dim.kind == "L"]
                    dims = [at + (at >= leaf.signature.batch_dim) for at in own]
                    of_leaves.append(
                        mask_like(
                            column.buffers[group],
                            leaf.signature.batch_dim,
                            dims,
                            column.shapes[indices][:, own],
                        )
                    )
                masks.append(built(self.signature, iter(of_leaves)))
            return masks
        if not isinstance(hint, (str, list, tuple)) or not hint:
            raise ValueError(
                f'hint = {hint!r}: must be the name of a length, several in a list, or "copy"'
            )
        names = [hint] if isinstance(hint, str) else list(hint)
        lengths = np.stack([self.lengths(name) for name in names], 1)
        return [
            ragged_mask(lengths[indices], lengths[indices].max(0), device=self._columns[0].device)
            for indices in self._indices
        ]

    def apply(
        self,
        module: Callable[..., Any],
        output: Signature,
        *,
        mask: str | Sequence[str] | None = None,
        padding: Any = 0,
    ) -> Grouped:
        """Calls ``module(group)``, or ``module(group, mask)``, for each group. The outputs are a
        collection in the same groups, which can be ungrouped, joined or grouped again.

        Args:
            module: a module of torch or another function.
            output: the signature of the outputs. Lengths are those of the samples, by name; new
                ones are not allowed.
            mask: what :meth:`masks` takes; None: no masks.
            padding: of the outputs, if they are grouped again; as for :class:`sab.Collection`.

        Raises:
            ValueError: an output does not match its signature. Exceptions of the module pass.
        """
        leaves = leaves_of(output, "output")
        output = copied_signature(output, leaves)
        for leaf in leaves:
            for dim in leaf.signature.own:
                if dim.kind == "L":
                    self.lengths(dim.name)
        groups = self.groups
        outputs = (
            [module(group) for group in groups]
            if mask is None
            else [module(group, each) for group, each in zip(groups, self.masks(mask))]
        )
        return self._of_outputs(outputs, output, leaves, padding)

    def _of_outputs(
        self, outputs: list[Any], output: Signature, leaves: list[Leaf], padding: Any
    ) -> Grouped:
        from sab._columns import Column, offsets_without_empty, torch

        indices = self._indices
        offsets = offsets_without_empty(self.grouped_by.offsets)
        columns: list[Column] = []
        for leaf in leaves:
            tensors = [
                value_at(given, leaf.path, f"output of group {group}")
                for group, given in enumerate(outputs)
            ]
            shapes = np.empty((self._count, len(leaf.signature.own)), np.int64)
            for group, tensor in enumerate(tensors):
                what = name_of(f"output of group {group}", leaf.path)
                if not isinstance(tensor, torch.Tensor):
                    raise TypeError(f"{what} is a {type(tensor).__name__}: must be a tensor")
                check_strided(tensor, what)
                if (tensor.dtype, tensor.device) != (tensors[0].dtype, tensors[0].device):
                    raise ValueError(
                        f"{what} is of {tensor.dtype} on {tensor.device}: must be of "
                        f"{tensors[0].dtype} on {tensors[0].device}, as that of group 0"
                    )
                self._check_output(tensor, leaf.signature, indices[group], what, tensors[0])
                for at, dim in enumerate(leaf.signature.own):
                    own = tensor.shape[at + (at >= leaf.signature.batch_dim)]
                    shapes[indices[group], at] = (
                        self._lengths[dim.name][indices[group]] if dim.kind == "L" else own
                    )
            columns.append(
                Column.padded(
                    tensors,
                    self.grouped_by.permutation,
                    offsets,
                    leaf.signature.batch_dim,
                    shapes,
                    self._columns[0],
                )
            )
        check_keys(padding, output)
        rules = [rule_of(padding, leaf, column) for leaf, column in zip(leaves, columns)]
        names = {dim.name for leaf in leaves for dim in leaf.signature.own if dim.kind == "L"}
        lengths = {name: sizes for name, sizes in self._lengths.items() if name in names}
        return Grouped(
            _Parts(output, leaves, columns, rules, lengths, self._count), self.grouped_by
        )

    def _check_output(
        self,
        tensor: Any,
        signature: ShapeSignature,
        indices: npt.NDArray[np.int64],
        what: str,
        first: Any,
    ) -> None:
        shape = tuple(tensor.shape)
        if len(shape) != len(signature.dims):
            raise ValueError(
                f"{what} has shape {shape}: must have {len(signature.dims)} dimensions, as "
                f'"{signature.text}"'
            )
        for at, (dim, size) in enumerate(zip(signature.dims, shape)):
            if dim.kind == "B":
                must, why = len(indices), "the samples of the group"
            elif dim.kind == "L":
                must, why = (
                    int(self._lengths[dim.name][indices].max()),
                    f"the longest {dim.name!r} of the group",
                )
            elif dim.kind == "number":
                must, why = dim.size, f'as "{signature.text}" says'
            else:
                must, why = first.shape[at], "as that of group 0"
            if size != must:
                raise ValueError(f"{what} has shape {shape}: dimension {at} must be {must}, {why}")

    def regroup(self, grouping: Grouping) -> Grouped:
        """The same samples in other groups, in one pass.

        Raises:
            ValueError: the grouping is of another number of samples.
        """
        return self._stacked_by(grouping)

    def ungroup(self) -> Collection:
        """The samples without padding, in their original order."""
        return Collection._made(self._parts([column.in_one_piece() for column in self._columns]))

    def join(self) -> Any:
        """All samples stacked in their original order, padded to the longest of all; nested as the
        signature.
        """
        if len(self):
            return self.regroup(Grouping.uni(len(self))).groups[0]
        from sab._columns import torch

        empty = (
            torch.empty(
                [dim.size for dim in leaf.signature.dims], dtype=column.dtype, device=column.device
            )
            for leaf, column in zip(self._leaves, self._columns)
        )
        return built(self.signature, empty)

    def __getitem__(self, key: Any) -> Grouped:
        """What stands at a key of the signature, where that is a dictionary or tuple."""
        return Grouped(self._parts_at(key), self.grouped_by)

    def __repr__(self) -> str:
        return (
            f"<sab.Grouped: {len(self):,} samples of {self.signature!r} in {len(self._indices):,} "
            "groups>"
        )
