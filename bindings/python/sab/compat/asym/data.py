"""``asym.data``: values nested in dictionaries."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import (
    Any,
    Callable,
    TypeVar,
)

__all__ = ["Data", "DataTemplate", "TensorData"]

Own = TypeVar("Own", bound="Data")


class Data:
    """A value, or dictionaries of values, in ``value``."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.is_leaf: bool = not has_keys(value)

    @classmethod
    def from_data_dict(cls: type[Own], data_dict: dict[str, Data]) -> Own:
        return cls({key: data.value for key, data in data_dict.items()})

    def _branches(self) -> dict[str, Any]:
        if self.is_leaf:
            raise TypeError("The data is a leaf")
        branches: dict[str, Any] = self.value
        return branches

    def __getitem__(self: Own, key: str) -> Own:
        return type(self)(self._branches()[key])

    def __setitem__(self, key: str, sub: Data) -> None:
        branches = self._branches()
        if type(sub) is not type(self):
            raise TypeError(f"sub is a {type(sub).__name__}: must be a {type(self).__name__}")
        branches[key] = sub.value

    def __contains__(self, key: str) -> bool:
        return key in self._branches()

    def __iter__(self) -> Iterator[str]:
        return iter(self._branches())

    def keys(self) -> list[str]:
        return list(self._branches())

    @property
    def leaf_type(self) -> Any:
        """The type of the values."""
        return None

    def get(self: Own, keys: list[str]) -> Own:
        """What stands at keys, outermost first."""
        below = self
        for key in keys:
            below = below[key]
        return below

    def get_any_leaf_item(self, acc: list[str] | None = None) -> tuple[list[str], Any]:
        """The first value and the keys that lead to it, after those in ``acc``."""
        keys, value = list(acc or ()), self.value
        while has_keys(value):
            key = next(iter(value))
            keys.append(key)
            value = value[key]
        return keys, value

    def get_any_leaf_keys(self, acc: list[str] | None = None) -> list[str]:
        return self.get_any_leaf_item(acc)[0]

    def get_any_leaf_value(self) -> Any:
        return self.get_any_leaf_item()[1]

    def get_template(self, max_depth: int = 5) -> DataTemplate:
        """The same keys, without values."""

        def emptied(value: Any, depth: int) -> Any:
            if depth > max_depth:
                raise ValueError(f"The data dictionary is too deep (depth > {max_depth})")
            return (
                {key: emptied(below, depth + 1) for key, below in value.items()}
                if has_keys(value)
                else None
            )

        return DataTemplate(emptied(self.value, 0))

    def keys_converted(self: Own, key_conv: Any, reversed: bool = False) -> Own:
        """With other keys: ``key_conv`` has for some of them the new one and the conversion below
        it, or None; ``reversed``: from the new ones back.
        """

        def turned(conversion: Any) -> Any:
            return (
                None
                if conversion is None
                else {new: (old, turned(below)) for old, (new, below) in conversion.items()}
            )

        def converted(value: Any, conversion: Any) -> Any:
            if conversion is None or not has_keys(value):
                return value
            made: dict[str, Any] = {}
            for key, below in value.items():
                new, further = conversion.get(key, (key, None))
                made[new] = converted(below, further)
            return made

        return type(self)(converted(self.value, turned(key_conv) if reversed else key_conv))

    @classmethod
    def leaf_zip_left(cls, data1: Data, data2: Data) -> Generator[tuple[Any, Any], None, None]:
        """Pairs of values: all those of ``data1``, with those of ``data2`` at the same keys."""
        yield from _pairs(data1.value, data2.value, "leaf_zip_left(data1, data2)", "data1", "data2")

    @classmethod
    def leaf_zip_right(cls, data1: Data, data2: Data) -> Generator[tuple[Any, Any], None, None]:
        """Pairs of values: all those of ``data2``, with those of ``data1`` at the same keys."""
        for one, other in _pairs(
            data2.value, data1.value, "leaf_zip_right(data1, data2)", "data2", "data1"
        ):
            yield other, one

    @classmethod
    def map(cls: type[Own], f: Callable[[Any], Any], data: Data) -> Own:
        """``f`` of each value."""

        def mapped(value: Any) -> Any:
            return (
                {key: mapped(below) for key, below in value.items()}
                if has_keys(value)
                else f(value)
            )

        return cls(mapped(data.value))

    @classmethod
    def map2(cls: type[Own], f: Callable[[Any, Any], Any], data1: Data, data2: Data) -> Own:
        """``f`` of each value of ``data1`` and that of ``data2`` at the same keys."""

        def mapped(one: Any, other: Any) -> Any:
            return (
                {key: mapped(below, other[key]) for key, below in one.items()}
                if has_keys(one)
                else f(one, other)
            )

        return cls(mapped(data1.value, data2.value))


def has_keys(value: Any) -> bool:
    """Whether a value is a dictionary of values."""
    return type(value) is dict


def _pairs(
    small: Any, large: Any, call: str, small_name: str, large_name: str
) -> Generator[tuple[Any, Any], None, None]:
    if not has_keys(small):
        if has_keys(large):
            raise ValueError(
                f"In {call}, {small_name} has a value where {large_name} has keys: {list(large)}"
            )
        yield small, large
        return
    for key, below in small.items():
        if not has_keys(large) or key not in large:
            raise ValueError(
                f"In {call}, {large_name} does not have the key {key!r} of "
                f"{small_name}\n{small_name}: {small},\n{large_name}: {large}"
            )
        yield from _pairs(below, large[key], call, small_name, large_name)


class DataTemplate(Data):
    """Keys without values."""

    @property
    def leaf_type(self) -> Any:
        return type(None)


class TensorData(Data):
    """Tensors."""

    @property
    def leaf_type(self) -> Any:
        import torch

        return torch.Tensor

    def to_device(self, device: Any) -> TensorData:
        return TensorData.map(lambda tensor: tensor.to(device=device), self)
