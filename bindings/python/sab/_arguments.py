"""Checks of arguments: each gives the value, or raises an error that names argument, value and
rule.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt


def integer(name: str, value: Any) -> int:
    """A whole number, or an error that names it."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} = {value!r}: must be a whole number") from None


def whole(name: str, value: Any, least: int = 0, bits: int = 64) -> int:
    """A whole number from `least` to below 2**bits, or an error that names it."""
    number = integer(name, value)
    if not least <= number < 1 << bits:
        raise ValueError(
            f"{name} = {number}: must be "
            f"{f'at least {least}' if number < least else f'below 2**{bits}'}"
        )
    return number


def real(name: str, value: Any) -> float:
    """A number, or an error that names it."""
    try:
        return math.ldexp(value, 0)  # unlike float(), takes no text
    except TypeError:
        raise TypeError(f"{name} = {value!r}: must be a number") from None
    except OverflowError:
        raise ValueError(f"{name}: is too large for a floating-point number") from None


def flag(name: str, value: Any) -> bool:
    """True or False, or an error that names it: "no" would be true."""
    if not isinstance(value, (bool, int, np.bool_)) or value not in (0, 1):
        raise TypeError(f"{name} = {value!r}: must be True or False")
    return bool(value)


def function(name: str, value: Any) -> Any:
    """A function or None, or an error that names it."""
    if not (value is None or callable(value)):
        raise TypeError(f"{name} = {value!r:.60}: must be a function")
    return value


def elements(name: str, values: Any) -> list[Any]:
    """The elements of a list or another iterable, or an error that names it."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{name} = {values!r:.60}: must be a list")
    return list(values)


def one_of(name: str, value: Any, choices: Mapping[str, int]) -> int:
    """The library's constant of a choice, or an error that lists the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} = {value!r}: must be one of {', '.join(map(repr, choices))}")
    return choices[value]


def one_dimension(name: str, values: npt.ArrayLike, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Values as a contiguous array of one dimension, or an error that names them."""
    try:
        array = np.ascontiguousarray(values, dtype)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} = {values!r:.60}: must be numbers in one dimension") from None
    if array.ndim != 1 or np.ndim(values) != 1:
        raise ValueError(f"{name} has {np.ndim(values)} dimensions: must have one")
    return array


def indices_of(name: str, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Whole numbers as an array of one dimension, or an error that names them."""
    array: npt.NDArray[Any] = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise TypeError(
            f"{name} has dtype {array.dtype} and {array.ndim} dimensions: "
            "must be whole numbers in one dimension"
        )
    return np.ascontiguousarray(array, np.int64)


def saved_state(state_dict: Any) -> bytes:
    """The state in what `state_dict()` gave, or an error that says what it must be."""
    state: Any = (
        cast("Mapping[str, Any]", state_dict).get("state")
        if isinstance(state_dict, Mapping)
        else None
    )
    if not isinstance(state, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"state_dict = {state_dict!r:.60}: must be a dictionary of state_dict(), whose 'state' "
            "is bytes"
        )
    return bytes(cast("bytes", state))
