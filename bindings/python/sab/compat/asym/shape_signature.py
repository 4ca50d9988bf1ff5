"""``asym.shape_signature``: what the dimensions of tensors mean, such as ``(B, L_sequence, 3,
M_hidden)``; in modules' annotations ``(b, l_seq, .., m_1)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

from sab.compat.asym.data import Data, has_keys

__all__ = [
    "ADim",
    "BDim",
    "CDim",
    "Dim",
    "LDim",
    "MDim",
    "PreBDim",
    "PreCDim",
    "PreDim",
    "PreLDim",
    "PreMDim",
    "PreShapeSignature",
    "PreShapeSignatureData",
    "ShapeSignature",
    "ShapeSignatureData",
]


class _AnyDim:
    """A dimension; equal to those of its class with the same label or number."""

    letter = ""

    def _what(self) -> Any:
        return None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _AnyDim)
            and type(other) is type(self)
            and other._what() == self._what()
        )

    def __hash__(self) -> int:
        return hash((type(self), self._what()))

    def __str__(self) -> str:
        return self.letter

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self._what() is None else repr(self._what())})"


class _Labelled(_AnyDim):
    def __init__(self, label: str) -> None:
        self.label = label

    def _what(self) -> Any:
        return self.label

    def __str__(self) -> str:
        return f"{self.letter}_{self.label}"


class _Number(_AnyDim):
    def __init__(self, num: int) -> None:
        self.num = num

    def _what(self) -> Any:
        return self.num

    def __str__(self) -> str:
        return str(self.num)


class PreDim(_AnyDim):
    """A dimension of an annotation."""


class Dim(_AnyDim):
    """A dimension of tensors."""


class ADim(PreDim):
    """``..`` or ``.label.``: any dimensions, abbreviated. All are equal."""

    def __init__(self, label: str) -> None:
        self.label = label

    def __str__(self) -> str:
        return f".{self.label}."


class PreBDim(PreDim):
    """``b``: the batch."""

    letter = "b"


class BDim(Dim):
    """``B``: the batch."""

    letter = "B"


class PreMDim(_Labelled, PreDim):
    """``m_label``: a size that the model knows."""

    letter = "m"


class MDim(_Labelled, Dim):
    """``M_label``: a size that is the same in all data."""

    letter = "M"


class PreLDim(_Labelled, PreDim):
    """``l_label``: a length."""

    letter = "l"


class LDim(_Labelled, Dim):
    """``L_label``: a length, which may differ between data."""

    letter = "L"


class PreCDim(_Number, PreDim):
    """A number: a dimension of that size."""


class CDim(_Number, Dim):
    """A number: a dimension of that size."""


def _split(s: str) -> list[str]:
    if s[:1] != "(" or s[-1:] != ")":
        raise ValueError(f"shape annotation {s!r}: must stand in parentheses")
    return [word.strip() for word in s[1:-1].split(",")]


def _labelled(word: str, letter: str) -> bool:
    return word[:1] == letter and word[1:2] == "_"


class PreShapeSignature:
    """The dimensions of an annotation, in ``list``."""

    def __init__(self, l: list[PreDim], come_from: str = "input") -> None:  # noqa: E741
        self.list: list[PreDim] = l
        self.come_from = come_from
        self.validate_list()
        self.bdim_idx: int = self.find_bdim()

    @classmethod
    def parse(cls, s: str, come_from: str = "input") -> PreShapeSignature:
        return cls([cls.parse_atom(word) for word in _split(s)], come_from=come_from)

    @classmethod
    def parse_atom(cls, s: str) -> PreDim:
        if s.startswith(".") and s.endswith(".") and len(s) >= 2:
            return ADim(s[1:-1])
        if s == "b":
            return PreBDim()
        if s.isnumeric():
            return PreCDim(int(s))
        if _labelled(s, "m"):
            return PreMDim(s[2:])
        if _labelled(s, "l"):
            return PreLDim(s[2:])
        raise ValueError(
            f"dimension {s!r}: must be b, l_label, m_label, a number, or .. with a label or none "
            "between the dots"
        )

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.list))})"

    def __len__(self) -> int:
        return len(self.list)

    def validate_list(self) -> None:
        kinds = [type(dim) for dim in self.list]
        if kinds.count(PreBDim) != 1:
            raise ValueError("There must be exactly one batch dimension")
        if self.come_from == "input" and kinds.count(ADim) > 1:
            raise ValueError("There can be at most one abbreviated dimension")

    def find_bdim(self) -> int:
        return next((i for i, dim in enumerate(self.list) if type(dim) is PreBDim), -1)

    def find_adim(self) -> int | None:
        return next((i for i, dim in enumerate(self.list) if type(dim) is ADim), None)


class PreShapeSignatureData(Data):
    """Annotations nested in dictionaries."""

    @property
    def batched(self) -> bool:
        return bool(self.get_any_leaf_value().bdim_idx != -1)

    @property
    def leaf_type(self) -> Any:
        return PreShapeSignature

    @classmethod
    def parse(cls, shape_annot: Any, come_from: str = "input") -> PreShapeSignatureData:
        return cls(_parsed(shape_annot, lambda s: PreShapeSignature.parse(s, come_from=come_from)))


def _parsed(shape_annot: Any, parse: Callable[[str], Any]) -> Any:
    if isinstance(shape_annot, str):
        return parse(shape_annot)
    if not has_keys(shape_annot):
        raise TypeError(f"shape annotation {shape_annot!r}: must be a text or a dictionary of such")
    return {key: _parsed(below, parse) for key, below in shape_annot.items()}


class ShapeSignature:
    """The dimensions of a tensor, in ``list``."""

    def __init__(self, l: list[Dim]) -> None:  # noqa: E741
        self.list: list[Dim] = l
        self.validate_list()
        self.bdim_idx: int = self.find_bdim()

    def bdim_removed(self) -> ShapeSignature:
        if self.bdim_idx == -1:
            raise ValueError("No Bdim")
        return ShapeSignature(self.list[: self.bdim_idx] + self.list[self.bdim_idx + 1 :])

    @classmethod
    def parse(cls, s: str) -> ShapeSignature:
        return cls([cls.parse_atom(word) for word in _split(s)])

    @classmethod
    def parse_atom(cls, s: str) -> Dim:
        if s == "B":
            return BDim()
        if s.isnumeric():
            return CDim(int(s))
        if _labelled(s, "M"):
            return MDim(s[2:])
        if _labelled(s, "L"):
            return LDim(s[2:])
        raise ValueError(f"dimension {s!r}: must be B, L_label, M_label or a number")

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.list))})"

    def __len__(self) -> int:
        return len(self.list)

    def validate_list(self) -> None:
        if [type(dim) for dim in self.list].count(BDim) > 1:
            raise ValueError("There must be at most one batch dimension")

    def find_bdim(self) -> int:
        return next((i for i, dim in enumerate(self.list) if type(dim) is BDim), -1)

    def iter_cdim_idx(self) -> Iterator[int]:
        return (i for i, dim in enumerate(self.list) if type(dim) is CDim)

    def iter_ldim_idx_label(self) -> Iterator[tuple[int, str]]:
        return ((i, dim.label) for i, dim in enumerate(self.list) if type(dim) is LDim)


class ShapeSignatureData(Data):
    """Signatures nested in dictionaries."""

    @property
    def leaf_type(self) -> Any:
        return ShapeSignature

    @classmethod
    def parse(cls, shape_annot: Any) -> ShapeSignatureData:
        return cls(_parsed(shape_annot, ShapeSignature.parse))

    @property
    def batched(self) -> bool:
        return bool(self.get_any_leaf_value().bdim_idx != -1)

    @property
    def bdim_loc(self) -> tuple[list[str], int] | None:
        """Position of a batch dimension, as keys and the number of the dimension."""
        return self.get_bdim_loc() if self.batched else None

    @property
    def ldim_map(self) -> dict[str, tuple[list[str], int]]:
        """First position of each length, as keys and the number of the dimension."""
        return self.get_ldim_map()

    @property
    def prestack_ldim_map(self) -> dict[str, tuple[list[str], int]] | None:
        """The same in data that are not stacked."""
        return self.get_ldim_map(prestack=True) if self.batched else None

    def get_bdim_loc(self) -> tuple[list[str], int]:
        keys, value = self.get_any_leaf_item()
        return keys, value.bdim_idx

    def get_ldim_map(self, prestack: bool = False) -> dict[str, tuple[list[str], int]]:
        found: dict[str, tuple[list[str], int]] = {}

        def search(value: Any, keys: list[str]) -> None:
            if has_keys(value):
                for key, below in value.items():
                    search(below, [*keys, key])
                return
            if prestack and value.bdim_idx == -1:
                raise ValueError("No batch index while it is expected to be there")
            for idx, label in value.iter_ldim_idx_label():
                found.setdefault(
                    label, (keys, idx - 1 if prestack and value.bdim_idx < idx else idx)
                )

        search(self.value, [])
        return found
