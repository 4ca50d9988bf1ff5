"""Shape signatures, and the tensors that are given for them."""

from __future__ import annotations

import collections.abc
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    Union,
)

import numpy as np
import numpy.typing as npt

from sab._display import record_line

if TYPE_CHECKING:
    from sab._columns import Column, Rule

__all__ = ["Jagged"]

Signature = Union[str, dict[str, Any], tuple[Any, ...]]
Path = tuple[Any, ...]


class Jagged(NamedTuple):
    """Samples in one piece: sample ``i`` is ``values[offsets[i]:offsets[i + 1]]``. ``offsets`` are
    whole numbers, one more than there are samples.
    """

    values: Any
    offsets: Any

    def __repr__(self) -> str:
        return record_line(self)


class Dimension(NamedTuple):
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


class ShapeSignature:
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
        self.dims: list[Dimension] = []
        for word in words:
            if word in ("B", "M"):
                self.dims.append(Dimension(word, "", 0))
            elif word[:2] in ("L_", "M_") and len(word) > 2:
                self.dims.append(Dimension(word[0], word[2:], 0))
            elif word.isdecimal() and word.isascii():
                self.dims.append(Dimension("number", "", int(word)))
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


def is_nested(value: Any) -> bool:
    """Whether it is a dictionary or a tuple."""
    return isinstance(value, (dict, tuple))


def keys_of(nested: Any) -> list[Any]:
    """The keys of a dictionary, or the numbers of the elements of a list or tuple."""
    return list(nested) if hasattr(nested, "keys") else list(range(len(nested)))


def items_of(nested: Any) -> Iterable[tuple[Any, Any]]:
    """Keys and values of a dictionary or a tuple."""
    return [(key, nested[key]) for key in keys_of(nested)]


class Leaf(NamedTuple):
    path: Path
    signature: ShapeSignature


def leaves_of(signature: Any, what: str, path: Path = ()) -> list[Leaf]:
    if isinstance(signature, str):
        return [Leaf(path, ShapeSignature(signature, what))]
    if not is_nested(signature) or not signature:
        raise TypeError(
            f"{what} = {signature!r}: must be a text, or a dictionary or tuple of signatures"
        )
    return [
        leaf
        for key, below in items_of(signature)
        for leaf in leaves_of(below, f"{what}[{key!r}]", (*path, key))
    ]


def built(signature: Signature, values: Iterator[Any]) -> Any:
    """What a signature is of, from what each of its leaves is of."""
    if isinstance(signature, dict):
        return {key: built(below, values) for key, below in signature.items()}
    if isinstance(signature, tuple):
        return tuple([built(below, values) for below in signature])
    return next(values)


def copied_signature(signature: Signature, leaves: list[Leaf]) -> Signature:
    made: Signature = built(signature, (leaf.signature.text for leaf in leaves))
    return made


def name_of(what: str, path: Path) -> str:
    return what + "".join(f"[{key!r}]" for key in path)


def picked(samples: list[Any], path: Path) -> list[Any]:
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
                        f"{name_of('samples', (number, *path[:depth]))} has no {key!r}, as the "
                        "signature says"
                    ) from None
            raise
    return samples


def _has_key(given: Any, key: Any) -> bool:
    if issubclass(type(given), (tuple, list)):
        return isinstance(key, int) and key < len(given)
    return issubclass(type(given), collections.abc.Mapping) and key in given


def value_at(given: Any, path: Path, what: str) -> Any:
    for depth, key in enumerate(path):
        if not _has_key(given, key):
            raise ValueError(f"{name_of(what, path[:depth])} has no {key!r}, as the signature says")
        given = given[key]
    return given


def check_strided(tensor: Any, what: str) -> None:
    from sab._columns import torch

    if tensor.layout is not torch.strided:
        raise ValueError(f"{what} has the layout {tensor.layout}: must have torch.strided")


def column_of_tensors(given: Any, what: str, rank: int | None = None) -> Column:
    """A tensor of each sample, or what makes one."""
    from sab._columns import Column, UnlikeTensors, torch

    try:
        tensors: list[Any] = list(given)
        if not all(issubclass(kind, torch.Tensor) for kind in set(map(type, tensors))):
            tensors = list(map(torch.as_tensor, tensors))
        return Column.separate(tensors, rank)
    except UnlikeTensors as error:
        raise ValueError(f"{what}: tensors {error}") from None
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{what}: must be tensors, or what torch.as_tensor takes: {error}"
        ) from error


def read_leaf(given: Any, leaf: Leaf, lengths: Mapping[str, npt.NDArray[np.int64]]) -> Column:
    """The tensors of a leaf: a list of them, a stacked or nested tensor, or values and offsets."""
    from sab._columns import torch

    what, signature = name_of("samples", leaf.path), leaf.signature
    rank = len(signature.own)
    if isinstance(given, torch.Tensor):
        if given.is_nested:
            given = unnested(given)
        elif given.dim() != rank + 1:
            raise ValueError(
                f"{what} has shape {tuple(given.shape)}: must have {rank + 1} dimensions, as "
                f'"{signature.text}"'
            )
        else:
            return _stacked(given, leaf, lengths)
    if isinstance(given, Jagged):
        return column_of_jagged(given, leaf)
    column = column_of_tensors(given, what, rank)
    if column.shapes.shape[1] != rank:
        raise ValueError(
            f"{what}: tensors have {column.shapes.shape[1]} dimensions: must have {rank} beside "
            f'B, as "{signature.text}"'
        )
    return column


def unnested(given: Any) -> Any:
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


def _stacked(given: Any, leaf: Leaf, lengths: Mapping[str, npt.NDArray[np.int64]]) -> Column:
    from sab._columns import Column

    what, signature = name_of("samples", leaf.path), leaf.signature
    check_strided(given, what)
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
            if count and not (own.min() >= 0 and own.max() <= size):
                raise ValueError(
                    f"lengths[{dim.name!r}] goes from {own.min()} to {own.max()}: must be from 0 "
                    f"to {size}, which {what} has there"
                )
            shapes[:, at] = own
    offsets = np.array([0, count] if count else [0], np.int64)
    return Column.padded(
        [given] if count else [],
        np.arange(count, dtype=np.int64),
        offsets,
        signature.batch_dim,
        shapes,
        given,
    )


def column_of_jagged(given: Jagged, leaf: Leaf) -> Column:
    from sab._columns import Column, torch

    what, rank = name_of("samples", leaf.path), len(leaf.signature.own)
    values = (
        given.values if isinstance(given.values, torch.Tensor) else torch.as_tensor(given.values)
    )
    offsets = np.asarray(
        given.offsets.cpu() if isinstance(given.offsets, torch.Tensor) else given.offsets
    )
    if offsets.ndim != 1 or offsets.size == 0 or offsets.dtype.kind not in "iu":
        raise ValueError(
            f"{what}.offsets has shape {offsets.shape} and dtype {offsets.dtype}: must be at "
            "least one whole number, in one dimension"
        )
    offsets = offsets.astype(np.int64)  # which the giver's may go on changing
    if rank == 0:
        raise ValueError(
            f'{what} has values and offsets: "{leaf.signature.text}" has no dimension that they '
            "can have"
        )
    if values.dim() != rank:
        raise ValueError(
            f"{what}.values has {values.dim()} dimensions: must have {rank}, as "
            f'"{leaf.signature.text}" without B'
        )
    check_strided(values, f"{what}.values")
    counts = np.diff(offsets)
    if offsets[0] < 0 or offsets[-1] > len(values) or (counts.size and counts.min() < 0):
        raise ValueError(
            f"{what}.offsets must ascend from at least 0 to at most the number of values, "
            f"{len(values)}"
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


def check_shapes(
    column: Column,
    leaf: Leaf,
    lengths: dict[str, tuple[npt.NDArray[np.int64], str]],
    what: str = "samples",
) -> None:
    """Whether shapes are as a signature says; new lengths are kept."""
    for at, dim in enumerate(leaf.signature.own):
        sizes = column.shapes[:, at]
        if dim.kind == "L":
            known, where = lengths.setdefault(dim.name, (sizes.copy(), name_of(what, leaf.path)))
            wrong = np.flatnonzero(known != sizes) if len(known) == len(sizes) else [0]
            if len(wrong):
                raise ValueError(
                    f"{_of_sample(what, int(wrong[0]), leaf, column)}: dimension {at} must be "
                    f"{known[wrong[0]]}, the length {dim.name!r} of the sample in {where}"
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
                    f"{_of_sample(what, int(wrong[0]), leaf, column)}: dimension {at} must be "
                    f"{size}, {rule}"
                )


def _of_sample(what: str, number: int, leaf: Leaf, column: Column) -> str:
    return (
        f"{name_of(what, (number, *leaf.path))} has shape {tuple(column.shapes[number].tolist())}"
    )


def rule_of(padding: Any, leaf: Leaf, column: Column, what: str = "padding") -> Rule:
    """The rule of a leaf, out of rules nested as the signature, which may leave out keys, or one
    for all.
    """
    from sab._columns import Rule, torch

    for key in leaf.path:
        if not is_nested(padding):
            break
        padding = dict(items_of(padding)).get(key, 0)
        what = f"{what}[{key!r}]"
    if isinstance(padding, str):
        if padding != "repeat":
            raise ValueError(f'{what} = {padding!r}: must be a number, a tensor or "repeat"')
        return Rule(repeat=True)
    if not isinstance(padding, torch.Tensor):
        return Rule(_scalar(padding, column, what))
    if padding.dtype != column.dtype or padding.device != column.device:
        raise ValueError(
            f"{what} is of {padding.dtype} on {padding.device}: must be of {column.dtype} on "
            f"{column.device}, as {name_of('samples', leaf.path)}"
        )
    sizes = tuple(leaf.signature.own[at].size for at in leaf.signature.numbers)
    if padding.dim() and tuple(padding.shape) != sizes:
        raise ValueError(
            f"{what} has shape {tuple(padding.shape)}: must have {sizes}, the numbers in "
            f'"{leaf.signature.text}", or be one number'
        )
    return Rule(padding, leaf.signature.numbers if padding.dim() else ())


def _scalar(number: Any, column: Column, what: str) -> Any:
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


def check_keys(padding: Any, signature: Any, what: str = "padding") -> None:
    """A rule for what is not there is a mistake."""
    if is_nested(padding):
        if not isinstance(signature, dict if isinstance(padding, dict) else tuple):
            raise ValueError(
                f"{what} = {padding!r}: must be nested as the signature, {signature!r}"
            )
        for key, below in items_of(padding):
            if key not in dict(items_of(signature)):
                raise ValueError(f"{what} has {key!r}, which the signature has not")
            check_keys(below, signature[key], f"{what}[{key!r}]")
