"""Checks of arguments: each gives the value, or raises an error that names argument, value and
rule.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

_ARRAYS = ("__array__", "__array_interface__", "__array_struct__", "__dlpack__")


def brief(value: Any) -> str:
    """A value in one line of at most 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def kind_of(value: Any) -> str:
    """The type of a value, with an article."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def integer(name: str, value: Any) -> int:
    """A whole number, or an error that names it. True and False are none."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"{name} = {brief(value)}: must be a whole number")


def whole(name: str, value: Any, least: int = 0, bits: int = 64) -> int:
    """A whole number from `least` to below 2**bits, or an error that names it."""
    number = integer(name, value)
    if not least <= number < 1 << bits:
        raise ValueError(
            f"{name} = {number}: must be "
            f"{f'at least {least}' if number < least else f'below 2**{bits}'}"
        )
    return number


def place_of(name: str, value: Any, count: int, what: str) -> int:
    """The place of one of `count` elements; negative values count from the end. `what` says in the
    error how many there are.
    """
    number = integer(name, value)
    if not -count <= number < count:
        raise IndexError(f"{name} = {number}: {what}")
    return number % count


def real(name: str, value: Any, zero: str = "") -> float:
    """A number, or an error that names it. `zero`: the rule that 0 breaks, where the library takes
    it for its default.
    """
    try:
        number = math.ldexp(value, 0)  # unlike float(), takes no text
    except OverflowError:
        raise ValueError(f"{name}: is too large for a floating-point number") from None
    except (TypeError, ValueError, RuntimeError):  # the last two of tensors
        raise TypeError(f"{name} = {brief(value)}: must be a number") from None
    if zero and number == 0:
        raise ValueError(f"{name} = 0: {zero}")
    return number


def shown(value: Any) -> str:
    """A number as the library shows it in messages: in full, whole ones without a fraction."""
    return repr(float(value)).removesuffix(".0")


def flag(name: str, value: Any) -> bool:
    """True or False, or an error that names it: "no" would be true."""
    if not isinstance(value, (bool, int, np.bool_)) or value not in (0, 1):
        raise TypeError(f"{name} = {brief(value)}: must be True or False")
    return bool(value)


def function(name: str, value: Any, *, optional: bool = True) -> Any:
    """A function or, where it is optional, None; or an error that names it."""
    if not (callable(value) or (optional and value is None)):
        raise TypeError(f"{name} = {brief(value)}: must be a function")
    return value


def elements(name: str, values: Any) -> list[Any]:
    """The elements of a list or another iterable, or an error that names it."""
    is_text = isinstance(values, (str, bytes))
    if is_text or not hasattr(values, "__iter__") or getattr(values, "ndim", 1) == 0:
        raise TypeError(f"{name} = {brief(values)}: must be a list")
    return list(values)


def iterable(name: str, values: Any) -> Any:
    """What can be iterated over, or an error that names it."""
    if not (hasattr(values, "__iter__") or hasattr(values, "__getitem__")):
        raise TypeError(f"{name} is {kind_of(values)}: must be iterable")
    return values


def one_of(name: str, value: Any, choices: Mapping[str, int]) -> int:
    """The library's constant of a choice, or an error that lists the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} = {brief(value)}: must be one of {', '.join(map(repr, choices))}")
    return choices[value]


def is_array(value: Any) -> bool:
    """Whether numpy can read an object as an array. Of another one with a length, such as a data
    set, it would read samples until memory runs out.
    """
    if isinstance(value, Sequence) or any(hasattr(value, name) for name in _ARRAYS):
        return True
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def real_array(name: str, values: Any, rule: str) -> npt.NDArray[np.float64]:
    """Numbers as a contiguous array of any shape, or an error with a rule that names them."""
    try:
        return np.ascontiguousarray(values if is_array(values) else object(), np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last one of tensors
        raise TypeError(f"{name} = {brief(values)}: {rule}") from None


def one_dimension(name: str, values: npt.ArrayLike, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Values as a contiguous array of one dimension, or an error that names them."""
    try:
        array = np.ascontiguousarray(values if is_array(values) else object(), dtype)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last one of tensors
        raise TypeError(f"{name} = {brief(values)}: must be numbers in one dimension") from None
    if array.ndim != 1 or np.ndim(values) != 1:
        raise ValueError(f"{name} has {np.ndim(values)} dimensions: must have one")
    return array


def indices_of(name: str, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Whole numbers as an array of one dimension, or an error that names them."""
    if not is_array(values):
        raise TypeError(f"{name} = {brief(values)}: must be whole numbers in one dimension")
    try:
        array: npt.NDArray[Any] = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # the last one of tensors
        array = np.empty((0, 0), object)
    given: list[Any] = []  # what may be too large for the type of the array, or for that of C
    if array.dtype.kind in "fO" and isinstance(values, (list, tuple)):
        given = list(cast("list[Any]", values))
    elif array.dtype == np.uint64 and array.size:
        given = [int(array.max())]
    for each in given:
        if isinstance(each, int) and not -(1 << 63) <= each < 1 << 63:
            raise ValueError(f"{name} has {each}: must have numbers from -2**63 to below 2**63")
    if array.dtype.kind == "O":
        raise TypeError(f"{name} = {brief(values)}: must be whole numbers in one dimension")
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise TypeError(
            f"{name} has dtype {array.dtype} and {array.ndim} dimensions: "
            "must be whole numbers in one dimension"
        )
    return np.ascontiguousarray(array, np.int64)


def saved_state(state_dict: Any) -> bytes:
    """The state in what `state_dict()` gave, or an error that says what it must be."""
    rule = "must be what state_dict() of the same kind gave"
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"state_dict = {brief(state_dict)}: {rule}")
    given = cast("Mapping[str, Any]", state_dict)
    state = given.get("state")
    if isinstance(state, (bytes, bytearray, memoryview)):
        return bytes(cast("bytes", state))
    what = f"'state' is {kind_of(state)}, not bytes" if "state" in given else "has no 'state'"
    keys = f"its keys are {', '.join(map(brief, list(given)[:8]))}" if given else "it is empty"
    inner = [key for key, value in given.items() if _has_state(value)]
    advice = f"; pass state_dict[{inner[0]!r}]" if inner else ""
    raise TypeError(f"state_dict: {what}: {rule}; {keys}{advice}")


def _has_state(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(
        cast("Mapping[str, Any]", value).get("state"), bytes
    )
