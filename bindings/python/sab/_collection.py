"""Collections: samples of one or several tensors each, described by shape signatures, padded and run group by group."""

from __future__ import annotations

import collections.abc
import operator
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

import numpy as np
import numpy.typing as npt

from sab._group import Grouping
from sab._native import whole

if TYPE_CHECKING:
    from sab._columns import Column, Rule

Signature = Union[str, Dict[str, Any], Tuple[Any, ...]]
Path = Tuple[Any, ...]


class Jagged(NamedTuple):
    """Samples in one piece: sample ``i`` is ``values[offsets[i]:offsets[i + 1]]``. ``offsets`` are whole numbers, one more than there are samples."""

    values: Any
    offsets: Any


class _Dimension(NamedTuple):
    kind: str  # "B", "L", "M" or "number"
    name: str
    size: int

    def __str__(self) -> str:
        return (
            str(self.size)
            if self.kind == "number"
            else f"{self.kind}_{self.name}"
            if self.name
            else self.kind
        )


class _Signature:
    """ "(B, L_residue, 3, M)", read."""

    def __init__(self, text: str, what: str) -> None:
        def refuse(rule: str) -> None:
            raise ValueError(f'{what} = "{text}": {rule}')

        self.text = text
        if not (text.startswith("(") and text.endswith(")")):
            refuse('must stand in parentheses, such as "(B, L_length, 3)"')
        words = [word.strip() for word in text[1:-1].split(",")]
        if words[-1] == "" and len(words) > 1:  # "(B,)"
            words.pop()
        self.dims: list[_Dimension] = []
        for word in words:
            if word in ("B", "M"):
                self.dims.append(_Dimension(word, "", 0))
            elif word[:2] in ("L_", "M_") and len(word) > 2:
                self.dims.append(_Dimension(word[0], word[2:], 0))
            elif word.isdecimal() and word.isascii():
                self.dims.append(_Dimension("number", "", int(word)))
            else:
                refuse(f'"{word}" must be B, L_ and a name, M, M_ and a name, or a number')
        kinds = [dim.kind for dim in self.dims]
        if kinds.count("B") != 1:
            refuse("must have B exactly once")
        if len(kinds) > 17:
            refuse("has more than 16 dimensions beside B")
        self.batch_dim = kinds.index("B")
        self.own = [dim for dim in self.dims if dim.kind != "B"]  # a sample's
        self.numbers = tuple(at for at, dim in enumerate(self.own) if dim.kind == "number")


class _Leaf(NamedTuple):
    path: Path
    signature: _Signature


def _leaves(signature: Any, what: str, path: Path = ()) -> "list[_Leaf]":
    if isinstance(signature, str):
        return [_Leaf(path, _Signature(signature, what))]
    if not isinstance(signature, (dict, tuple)) or not signature:
        raise TypeError(
            f"{what} = {signature!r}: must be a text, or a dictionary or tuple of signatures"
        )
    items = signature.items() if isinstance(signature, dict) else enumerate(signature)
    return [
        leaf for key, below in items for leaf in _leaves(below, f"{what}[{key!r}]", (*path, key))
    ]


def _built(signature: Signature, values: Iterator[Any]) -> Any:
    """What a signature is of, from what each of its leaves is of."""
    if isinstance(signature, dict):
        return {key: _built(below, values) for key, below in signature.items()}
    if isinstance(signature, tuple):
        return tuple([_built(below, values) for below in signature])
    return next(values)


def _copied(signature: Signature, leaves: "list[_Leaf]") -> Signature:
    made: Signature = _built(signature, (leaf.signature.text for leaf in leaves))
    return made


def _name(what: str, path: Path) -> str:
    return what + "".join(f"[{key!r}]" for key in path)


def _picked(samples: "list[Any]", path: Path) -> "list[Any]":
    """What each sample has at a path."""
    for depth, key in enumerate(path):
        try:
            samples = list(map(operator.itemgetter(key), samples))
        except (LookupError, TypeError):
            for number, sample in enumerate(samples):
                try:
                    sample[key]
                except (LookupError, TypeError):
                    raise ValueError(
                        f"{_name('samples', (number, *path[:depth]))} has no {key!r}, as the signature says"
                    ) from None
            raise
    return samples


def _at(given: Any, path: Path, what: str) -> Any:
    for depth, key in enumerate(path):
        if not (
            isinstance(given, collections.abc.Mapping)
            and key in given
            or isinstance(given, (tuple, list))
            and isinstance(key, int)
            and key < len(given)
        ):
            raise ValueError(f"{_name(what, path[:depth])} has no {key!r}, as the signature says")
        given = given[key]
    return given


def _check_strided(tensor: Any, what: str) -> None:
    from sab._columns import torch

    if tensor.layout is not torch.strided:
        raise ValueError(f"{what} has the layout {tensor.layout}: must have torch.strided")


def _of_tensors(given: Any, what: str, rank: Optional[int] = None) -> "Column":
    """A tensor of each sample, or what makes one."""
    from sab._columns import Column, UnlikeTensors, torch

    try:
        tensors = list(given)
        if not all(issubclass(kind, torch.Tensor) for kind in set(map(type, tensors))):
            tensors = list(map(torch.as_tensor, tensors))
        return Column.separate(tensors, rank)
    except UnlikeTensors as error:
        raise ValueError(f"{what}: tensors {error}") from None
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{what}: must be tensors, or what torch.as_tensor takes: {error}"
        ) from error


def _read(given: Any, leaf: _Leaf, lengths: "Mapping[str, npt.NDArray[np.int64]]") -> "Column":
    """The tensors of a leaf: a list of them, a stacked or nested tensor, or values and offsets."""
    from sab._columns import torch

    what, signature = _name("samples", leaf.path), leaf.signature
    rank = len(signature.own)
    if isinstance(given, torch.Tensor):
        if given.is_nested:
            given = _unnested(given)
        elif given.dim() != rank + 1:
            raise ValueError(
                f'{what} has shape {tuple(given.shape)}: must have {rank + 1} dimensions, as "{signature.text}"'
            )
        else:
            return _stacked(given, leaf, lengths)
    if isinstance(given, Jagged):
        return _jagged(given, leaf)
    column = _of_tensors(given, what, rank)
    if column.shapes.shape[1] != rank:
        raise ValueError(
            f'{what}: tensors have {column.shapes.shape[1]} dimensions: must have {rank} beside B, as "{signature.text}"'
        )
    return column


def _unnested(given: Any) -> Any:
    """A nested tensor as values and offsets where it has them, else as its tensors."""
    from sab._columns import torch

    jagged = getattr(torch, "jagged", None)
    if (
        jagged is not None
        and given.layout is jagged
        and getattr(given, "_ragged_idx", 1) == 1
        and (not hasattr(given, "lengths") or given.lengths() is None)
    ):
        return Jagged(given.values(), given.offsets())
    return given.unbind()


def _stacked(given: Any, leaf: _Leaf, lengths: "Mapping[str, npt.NDArray[np.int64]]") -> "Column":
    from sab._columns import Column

    what, signature = _name("samples", leaf.path), leaf.signature
    _check_strided(given, what)
    count = given.shape[signature.batch_dim]
    sizes = [size for at, size in enumerate(given.shape) if at != signature.batch_dim]
    shapes = np.tile(np.array(sizes, np.int64), (count, 1))
    for at, (dim, size) in enumerate(zip(signature.own, sizes)):
        if dim.kind == "L" and dim.name in lengths:
            own = lengths[dim.name]
            if len(own) != count:
                raise ValueError(
                    f"lengths[{dim.name!r}] has {len(own)} numbers: {what} has {count} samples"
                )
            if count and not (0 <= own.min() and own.max() <= size):
                raise ValueError(
                    f"lengths[{dim.name!r}] goes from {own.min()} to {own.max()}: must be from 0 to {size}, which {what} has there"
                )
            shapes[:, at] = own
    offsets = np.array([0, count] if count else [0], np.int64)
    return Column.padded(
        [given] if count else [], np.arange(count), offsets, signature.batch_dim, shapes, given
    )


def _jagged(given: Jagged, leaf: _Leaf) -> "Column":
    from sab._columns import Column, torch

    what, rank = _name("samples", leaf.path), len(leaf.signature.own)
    values = (
        given.values if isinstance(given.values, torch.Tensor) else torch.as_tensor(given.values)
    )
    offsets = np.asarray(
        given.offsets.cpu() if isinstance(given.offsets, torch.Tensor) else given.offsets
    )
    if offsets.ndim != 1 or offsets.size == 0 or offsets.dtype.kind not in "iu":
        raise ValueError(
            f"{what}.offsets has shape {offsets.shape} and dtype {offsets.dtype}: must be at least one whole number, in one dimension"
        )
    offsets = offsets.astype(np.int64)  # which the giver's may go on changing
    if rank == 0:
        raise ValueError(
            f'{what} has values and offsets: "{leaf.signature.text}" has no dimension that they can have'
        )
    if values.dim() != rank:
        raise ValueError(
            f'{what}.values has {values.dim()} dimensions: must have {rank}, as "{leaf.signature.text}" without B'
        )
    _check_strided(values, f"{what}.values")
    counts = np.diff(offsets)
    if offsets[0] < 0 or offsets[-1] > len(values) or counts.size and counts.min() < 0:
        raise ValueError(
            f"{what}.offsets must ascend from at least 0 to at most the number of values, {len(values)}"
        )
    shapes = counts.reshape(-1, 1)
    if rank > 1:
        shapes = np.hstack(
            [shapes, np.tile(np.array(values.shape[1:], np.int64), (len(counts), 1))]
        )
    is_from_zero = rank == 1 and offsets[0] == 0
    return Column.flat(
        values[int(offsets[0]) : int(offsets[-1])], shapes, offsets[:-1] if is_from_zero else None
    )


def _check_shapes(
    column: "Column",
    leaf: _Leaf,
    lengths: "dict[str, tuple[npt.NDArray[np.int64], str]]",
    what: str = "samples",
) -> None:
    """Whether shapes are as a signature says; new lengths are kept."""
    for at, dim in enumerate(leaf.signature.own):
        sizes = column.shapes[:, at]
        if dim.kind == "L":
            known, where = lengths.setdefault(dim.name, (sizes.copy(), _name(what, leaf.path)))
            if len(known) != len(sizes) or (wrong := np.flatnonzero(known != sizes)).size:
                raise ValueError(
                    f"{_of_sample(what, int(wrong[0]), leaf, column)}: dimension {at} must be {known[wrong[0]]}, the length {dim.name!r} of the sample in {where}"
                )
        elif len(sizes):
            size = dim.size if dim.kind == "number" else int(sizes[0])
            if (wrong := np.flatnonzero(sizes != size)).size:
                rule = (
                    f'as "{leaf.signature.text}" says'
                    if dim.kind == "number"
                    else "as that of the first sample"
                )
                raise ValueError(
                    f"{_of_sample(what, int(wrong[0]), leaf, column)}: dimension {at} must be {size}, {rule}"
                )


def _of_sample(what: str, number: int, leaf: _Leaf, column: "Column") -> str:
    return f"{_name(what, (number, *leaf.path))} has shape {tuple(column.shapes[number].tolist())}"


def _rule(padding: Any, leaf: _Leaf, column: "Column", what: str = "padding") -> "Rule":
    """The rule of a leaf, out of rules nested as the signature, which may leave out keys, or one for all."""
    from sab._columns import Rule, torch

    for depth, key in enumerate(leaf.path):
        if isinstance(padding, dict):
            padding = padding.get(key, 0)
        elif isinstance(padding, tuple):
            padding = padding[key] if key < len(padding) else 0
        else:
            break
        what = f"{what}[{key!r}]"
    if isinstance(padding, str):
        if padding != "repeat":
            raise ValueError(f'{what} = {padding!r}: must be a number, a tensor or "repeat"')
        return Rule(repeat=True)
    if not isinstance(padding, torch.Tensor):
        return Rule(_scalar(padding, column, what))
    if padding.dtype != column.dtype or padding.device != column.device:
        raise ValueError(
            f"{what} is of {padding.dtype} on {padding.device}: must be of {column.dtype} on {column.device}, as {_name('samples', leaf.path)}"
        )
    sizes = tuple(leaf.signature.own[at].size for at in leaf.signature.numbers)
    if padding.dim() and tuple(padding.shape) != sizes:
        raise ValueError(
            f'{what} has shape {tuple(padding.shape)}: must have {sizes}, the numbers in "{leaf.signature.text}", or be one number'
        )
    return Rule(padding, leaf.signature.numbers if padding.dim() else ())


def _scalar(number: Any, column: "Column", what: str) -> Any:
    from sab._columns import torch

    try:
        value = torch.tensor(number, dtype=column.dtype, device=column.device)
        if value.dim() == 0 and (
            column.dtype.is_floating_point or column.dtype.is_complex or value.item() == number
        ):
            return value if number else None
    except (TypeError, ValueError, RuntimeError, OverflowError):
        pass
    raise ValueError(
        f'{what} = {number!r}: must be a number that {column.dtype} can hold, a tensor, or "repeat"'
    )


def _check_keys(padding: Any, signature: Any, what: str = "padding") -> None:
    """A rule for what is not there is a mistake."""
    if isinstance(padding, (dict, tuple)):
        if not isinstance(signature, dict if isinstance(padding, dict) else tuple):
            raise ValueError(
                f"{what} = {padding!r}: must be nested as the signature, {signature!r}"
            )
        for key, below in padding.items() if isinstance(padding, dict) else enumerate(padding):
            if not (key in signature if isinstance(signature, dict) else key < len(signature)):
                raise ValueError(f"{what} has {key!r}, which the signature has not")
            _check_keys(below, signature[key], f"{what}[{key!r}]")


Own = TypeVar("Own", bound="_Tensors")


class _Tensors:
    """What collections and grouped collections have in common."""

    signature: Signature

    def __init__(
        self,
        signature: Signature,
        leaves: "list[_Leaf]",
        columns: "list[Column]",
        rules: "list[Rule]",
        lengths: "dict[str, npt.NDArray[np.int64]]",
        count: int,
    ) -> None:
        self.signature = signature
        self._leaves, self._columns, self._rules, self._lengths, self._count = (
            leaves,
            columns,
            rules,
            lengths,
            count,
        )

    def __len__(self) -> int:
        """Number of samples."""
        return self._count

    def lengths(self, name: str) -> "npt.NDArray[np.int64]":
        """The length that dimensions ``L_name`` have in each sample, in the original order: int64.

        Raises:
            KeyError: no dimension has that name.
        """
        if name not in self._lengths:
            raise KeyError(
                f"name = {name!r}: must be a length of the signature: {', '.join(map(repr, self._lengths)) or 'it has none'}"
            )
        return self._lengths[name].copy()

    @property
    def names(self) -> "tuple[str, ...]":
        """The names of the lengths."""
        return tuple(self._lengths)

    def grouping(self, **thresholds: npt.ArrayLike) -> Grouping:
        """Groups by one or several lengths: ``collection.grouping(residue=[128, 256], atom=[32])``; see :meth:`sab.Grouping.by_thresholds`."""
        return Grouping.by_thresholds(
            *((self.lengths(name), cuts) for name, cuts in thresholds.items())
        )

    def _part(self, key: Any) -> "tuple[Signature, list[int]]":
        if isinstance(self.signature, str) or not (
            key in self.signature
            if isinstance(self.signature, dict)
            else isinstance(key, int) and 0 <= key < len(self.signature)
        ):
            raise KeyError(f"key = {key!r}: the signature is {self.signature!r}")
        return self.signature[key], [
            at for at, leaf in enumerate(self._leaves) if leaf.path[0] == key
        ]

    def _shared(
        self, key: Any
    ) -> "tuple[Signature, list[_Leaf], list[Column], list[Rule], dict[str, npt.NDArray[np.int64]], int]":
        signature, which = self._part(key)
        leaves = [_Leaf(self._leaves[at].path[1:], self._leaves[at].signature) for at in which]
        names = {dim.name for leaf in leaves for dim in leaf.signature.own if dim.kind == "L"}
        lengths = {name: sizes for name, sizes in self._lengths.items() if name in names}
        return (
            signature,
            leaves,
            [self._columns[at] for at in which],
            [self._rules[at] for at in which],
            lengths,
            self._count,
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
        """The same in memory from which a GPU copies by itself; a ``DataLoader`` with ``pin_memory=True`` calls it."""
        return self._copied(lambda tensor: tensor.pin_memory())

    def _stacked_by(self, grouping: Grouping) -> "Grouped":
        from sab._columns import offsets_without_empty

        if not isinstance(grouping, Grouping):
            raise TypeError(f"grouping is a {type(grouping).__name__}: must be a sab.Grouping")
        if grouping.permutation.size != self._count:
            raise ValueError(
                f"grouping has {grouping.permutation.size} samples: the collection has {self._count}"
            )
        offsets = offsets_without_empty(grouping.offsets)
        columns = [
            column.grouped(grouping.permutation, offsets, leaf.signature.batch_dim, rule)
            for leaf, column, rule in zip(self._leaves, self._columns, self._rules)
        ]
        return Grouped(
            self.signature, self._leaves, columns, self._rules, self._lengths, self._count, grouping
        )


class Collection(_Tensors):
    """Samples of one or several tensors each, whose shapes differ. Immutable; picklable; needs torch.

    A signature says what the dimensions mean when samples are stacked, such as ``"(B, L_residue, 3, M_hidden)"``: ``B`` the samples; ``L_name`` a length, which may differ between samples, but not
    between the tensors of one; a number that size; ``M`` or ``M_name`` any size, the same in all samples. Dictionaries and tuples of signatures describe samples that are such.

    Args:
        samples: a list with an entry for each sample, nested as the signature, of tensors on any device, numpy arrays or numbers. Or, nested as the signature, at each place all that samples have there:
            a list of tensors, a nested tensor, a :class:`sab.Jagged` of values and offsets, or a tensor that is stacked as the signature says.
        signature: a text, or dictionaries and tuples of texts.
        padding: what stands where samples do not reach: a number, ``"repeat"`` (the sample's last element along each dimension), or a tensor over the dimensions that are numbers, such as the identity for
            rotations of ``"(B, L_residue, 3, 3)"``; nested as the signature, where keys that are left out stand for 0, or one for all. Such a tensor may be a parameter: it gets its gradient.
        lengths: where samples are stacked: for names of lengths those of the samples; by default all of the tensor's.

    Gradients go through all of it to the tensors given, twice where need be. Tensors given must not change their shapes afterwards. It does not stand inside
    ``torch.compile``: compile the module that is applied.

    Raises:
        ValueError: a tensor is not as the signature says, or another rule is broken.

    >>> import sab, torch
    >>> collection = sab.Collection([torch.ones(4), torch.ones(1), torch.ones(2)], "(B, L_sequence)")
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
        lengths: Optional[Mapping[str, Any]] = None,
    ) -> None:
        leaves = _leaves(signature, "signature")
        signature = _copied(signature, leaves)
        if lengths is not None and not isinstance(lengths, collections.abc.Mapping):
            raise TypeError(
                f"lengths is a {type(lengths).__name__}: must be a dictionary of names and whole numbers"
            )
        given_lengths = (
            {}
            if lengths is None
            else {name: _lengths_given(name, each) for name, each in lengths.items()}
        )
        is_by_sample = isinstance(samples, list)
        columns = [
            _read(
                _picked(samples, leaf.path) if is_by_sample else _at(samples, leaf.path, "samples"),
                leaf,
                given_lengths,
            )
            for leaf in leaves
        ]
        counts = {len(column): leaf for leaf, column in zip(leaves, columns)}
        if len(counts) > 1:
            found = " but ".join(
                f"{count} in {_name('', leaf.path)}" for count, leaf in counts.items()
            )
            raise ValueError(f"samples: {found}: must be as many everywhere")
        known = {name: (sizes, "lengths") for name, sizes in given_lengths.items()}
        for leaf, column in zip(leaves, columns):
            _check_shapes(column, leaf, known)
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
        _check_keys(padding, signature)
        rules = [_rule(padding, leaf, column) for leaf, column in zip(leaves, columns)]
        super().__init__(
            signature,
            leaves,
            columns,
            rules,
            {name: sizes for name, (sizes, _) in known.items()},
            next(iter(counts)),
        )

    @classmethod
    def _made(cls, *parts: Any) -> "Collection":
        made = cls.__new__(cls)
        _Tensors.__init__(made, *parts)
        return made

    def group(self, grouping: Optional[Grouping] = None) -> "Grouped":
        """Samples stacked group by group, each tensor padded to the longest of its group. By default all in one group.

        Raises:
            ValueError: the grouping is of another number of samples.
        """
        return self._stacked_by(Grouping.uni(len(self)) if grouping is None else grouping)

    def samples(self) -> "list[Any]":
        """The samples, in their original order, nested as the signature. Where they were taken out of groups, tensors share memory: they are not to be written."""
        return _by_sample(
            self.signature, iter([list(column.tensors()) for column in self._columns]), len(self)
        )

    def jagged(self) -> Any:
        """Nested as the signature, values and offsets (int64, on the values' device) of each tensor, such as ``torch.nested.nested_tensor_from_jagged`` takes: a :class:`sab.Jagged`.

        Raises:
            ValueError: a signature has a length in another place than the first beside ``B``, or none there.
        """
        from sab._columns import torch

        made = []
        for leaf, column in zip(self._leaves, self._columns):
            kinds = [dim.kind for dim in leaf.signature.own]
            if kinds[:1] != ["L"] or "L" in kinds[1:]:
                raise ValueError(
                    f'"{leaf.signature.text}" has no values and offsets: must have one length, before the other dimensions beside B'
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
        return _built(self.signature, iter(made))

    def __getitem__(self, key: Any) -> "Collection":
        """What stands at a key of the signature, where that is a dictionary or tuple."""
        return Collection._made(*self._shared(key))

    def __repr__(self) -> str:
        return f"<sab.Collection: {len(self):,} samples of {self.signature!r}>"


def _lengths_given(name: str, given: Any) -> "npt.NDArray[np.int64]":
    lengths: npt.NDArray[Any] = np.asarray(given.cpu() if hasattr(given, "cpu") else given)
    if lengths.ndim != 1 or lengths.size and lengths.dtype.kind not in "iu":
        raise ValueError(
            f"lengths[{name!r}] has dtype {lengths.dtype} and {lengths.ndim} dimensions: must be whole numbers in one dimension"
        )
    return lengths.astype(np.int64)


def _by_sample(signature: Signature, columns: "Iterator[list[Any]]", count: int) -> "list[Any]":
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

    def __init__(
        self,
        signature: Signature,
        leaves: "list[_Leaf]",
        columns: "list[Column]",
        rules: "list[Rule]",
        lengths: "dict[str, npt.NDArray[np.int64]]",
        count: int,
        grouping: Grouping,
    ) -> None:
        super().__init__(signature, leaves, columns, rules, lengths, count)
        self.grouped_by = grouping

    @property
    def _indices(self) -> "list[npt.NDArray[np.int64]]":
        return [indices for indices in self.grouped_by if indices.size]

    @property
    def groups(self) -> "list[Any]":
        """The stacked tensors of each group, nested as the signature."""
        return [
            _built(self.signature, iter([column.buffers[group] for column in self._columns]))
            for group in range(len(self._indices))
        ]

    def masks(self, hint: Union[str, Sequence[str]] = "copy") -> "list[Any]":
        """For each group which places are samples' own, not padding: bool, true where a place is within the sample's length along all dimensions.

        Args:
            hint: the name of a length, for masks of shape (B, length); several names, for (B, length, length, ...); or ``"copy"``, for masks nested and shaped as the groups.

        Raises:
            KeyError: there is no such length.
        """
        from sab._columns import length_mask, mask_like

        if isinstance(hint, str) and hint == "copy":
            masks = []
            for group, indices in enumerate(self._indices):
                of_leaves = []
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
                masks.append(_built(self.signature, iter(of_leaves)))
            return masks
        if not isinstance(hint, (str, list, tuple)) or not hint:
            raise ValueError(
                f'hint = {hint!r}: must be the name of a length, several in a list, or "copy"'
            )
        names = [hint] if isinstance(hint, str) else list(hint)
        lengths = np.stack([self.lengths(name) for name in names], 1)
        return [
            length_mask(lengths[indices], lengths[indices].max(0), device=self._columns[0].device)
            for indices in self._indices
        ]

    def apply(
        self,
        module: Callable[..., Any],
        output: Signature,
        *,
        mask: Union[None, str, Sequence[str]] = None,
        padding: Any = 0,
    ) -> "Grouped":
        """Calls ``module(group)``, or ``module(group, mask)``, for each group, and keeps what it gives as a collection in the same groups: to be ungrouped, joined or grouped anew.

        Args:
            module: a module of torch or another function.
            output: the signature of what it gives back. Lengths are those of the samples, by name; new ones cannot appear.
            mask: what :meth:`masks` takes; None: no masks.
            padding: of the outputs, where they are grouped anew; as for :class:`sab.Collection`.

        Raises:
            ValueError: an output is not as its signature says; and whatever the module raises.
        """
        leaves = _leaves(output, "output")
        output = _copied(output, leaves)
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
        self, outputs: "list[Any]", output: Signature, leaves: "list[_Leaf]", padding: Any
    ) -> "Grouped":
        from sab._columns import Column, offsets_without_empty, torch

        indices = self._indices
        offsets = offsets_without_empty(self.grouped_by.offsets)
        columns = []
        for leaf in leaves:
            tensors = [
                _at(given, leaf.path, f"output of group {group}")
                for group, given in enumerate(outputs)
            ]
            shapes = np.empty((self._count, len(leaf.signature.own)), np.int64)
            for group, tensor in enumerate(tensors):
                what = _name(f"output of group {group}", leaf.path)
                if not isinstance(tensor, torch.Tensor):
                    raise TypeError(f"{what} is a {type(tensor).__name__}: must be a tensor")
                _check_strided(tensor, what)
                if (tensor.dtype, tensor.device) != (tensors[0].dtype, tensors[0].device):
                    raise ValueError(
                        f"{what} is of {tensor.dtype} on {tensor.device}: must be of {tensors[0].dtype} on {tensors[0].device}, as that of group 0"
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
        _check_keys(padding, output)
        rules = [_rule(padding, leaf, column) for leaf, column in zip(leaves, columns)]
        names = {dim.name for leaf in leaves for dim in leaf.signature.own if dim.kind == "L"}
        lengths = {name: sizes for name, sizes in self._lengths.items() if name in names}
        return Grouped(output, leaves, columns, rules, lengths, self._count, self.grouped_by)

    def _check_output(
        self,
        tensor: Any,
        signature: _Signature,
        indices: "npt.NDArray[np.int64]",
        what: str,
        first: Any,
    ) -> None:
        shape = tuple(tensor.shape)
        if len(shape) != len(signature.dims):
            raise ValueError(
                f'{what} has shape {shape}: must have {len(signature.dims)} dimensions, as "{signature.text}"'
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

    def regroup(self, grouping: Grouping) -> "Grouped":
        """The same samples in other groups, in one pass.

        Raises:
            ValueError: the grouping is of another number of samples.
        """
        return self._stacked_by(grouping)

    def ungroup(self) -> Collection:
        """The samples without padding, in their original order."""
        return Collection._made(
            self.signature,
            self._leaves,
            [column.in_one_piece() for column in self._columns],
            self._rules,
            self._lengths,
            self._count,
        )

    def join(self) -> Any:
        """All samples stacked in their original order, padded to the longest of all; nested as the signature."""
        if len(self):
            return self.regroup(Grouping.uni(len(self))).groups[0]
        from sab._columns import torch

        empty = (
            torch.empty(
                [dim.size for dim in leaf.signature.dims], dtype=column.dtype, device=column.device
            )
            for leaf, column in zip(self._leaves, self._columns)
        )
        return _built(self.signature, empty)

    def __getitem__(self, key: Any) -> "Grouped":
        """What stands at a key of the signature, where that is a dictionary or tuple."""
        return Grouped(*self._shared(key), self.grouped_by)

    def __repr__(self) -> str:
        return f"<sab.Grouped: {len(self):,} samples of {self.signature!r} in {len(self._indices):,} groups>"


# ---- Groupings of plain tensors ----


def pad_groups(grouping: Grouping, samples: Any, padding: Any, batch_dim: int) -> "list[Any]":
    """See :meth:`sab.Grouping.pad`."""
    from sab._columns import offsets_without_empty, torch

    batch_dim = whole("batch_dim", batch_dim)
    if isinstance(samples, torch.Tensor) and samples.is_nested:
        samples = _unnested(samples)
    if isinstance(samples, Jagged):
        values = (
            samples.values
            if isinstance(samples.values, torch.Tensor)
            else torch.as_tensor(samples.values)
        )
        column = _jagged(
            samples._replace(values=values),
            _Leaf((), _Signature(f"(B{', M' * values.dim()})", "samples")),
        )
    else:
        column = _of_tensors(samples, "samples")
    if len(column) != grouping.permutation.size:
        raise ValueError(f"samples are {len(column)}: the grouping has {grouping.permutation.size}")
    rank = column.shapes.shape[1]
    if batch_dim > rank:
        raise ValueError(
            f"batch_dim = {batch_dim}: must be from 0 to the samples' number of dimensions, {rank}"
        )
    rule = _rule(padding, _Leaf((), _Signature(f"(B{', M' * rank})", "samples")), column)
    return list(
        column.grouped(
            grouping.permutation, offsets_without_empty(grouping.offsets), batch_dim, rule
        ).buffers
    )


def join_groups(grouping: Grouping, outputs: Sequence[Any]) -> Any:
    """See :meth:`sab.Grouping.join`."""
    from sab._columns import torch

    outputs = list(outputs)
    counts = np.diff(grouping.offsets)
    counts = counts[counts > 0].tolist()
    if len(outputs) != len(counts):
        raise ValueError(
            f"outputs are {len(outputs)}: the grouping has {len(counts)} groups with samples"
        )
    inverse = torch.from_numpy(grouping.inverse)

    def joined(parts: "list[Any]", what: str) -> Any:
        first = parts[0]
        if isinstance(first, (dict, tuple, list)):
            keys: List[Any] = list(first) if isinstance(first, dict) else list(range(len(first)))
            for group, part in enumerate(parts):
                if (
                    type(part) is not type(first)
                    or (list(part) if isinstance(first, dict) else list(range(len(part)))) != keys
                ):
                    raise ValueError(f"{what} of group {group} is not nested as that of group 0")
            below = [joined([part[key] for part in parts], f"{what}[{key!r}]") for key in keys]
            return (
                dict(zip(keys, below))
                if isinstance(first, dict)
                else type(first)(below)
                if type(first) in (tuple, list)
                else type(first)(*below)
            )
        for group, (part, count) in enumerate(zip(parts, counts)):
            if not isinstance(part, torch.Tensor):
                raise TypeError(
                    f"{what} of group {group} is a {type(part).__name__}: must be a tensor"
                )
            if part.dim() == 0 or part.shape[0] != count or part.shape[1:] != first.shape[1:]:
                raise ValueError(
                    f"{what} of group {group} has shape {tuple(part.shape)}: must be {(count, *first.shape[1:])}, with the samples of the group first"
                )
        return torch.cat(parts).index_select(0, inverse.to(first.device))

    if not outputs:
        raise ValueError("outputs are none: there is nothing to join")
    return joined(outputs, "output")
