"""Checks of arguments: each gives the value, or raises an error that names argument, value and rule."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np


def whole(name: str, value: Any, least: int = 0, bits: int = 64) -> int:
    """A whole number from `least` to below 2**bits, or an error that names it."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} = {value!r}: must be a whole number") from None
    if not least <= number < 1 << bits:
        raise ValueError(
            f"{name} = {number}: must be {f'at least {least}' if number < least else f'below 2**{bits}'}"
        )
    return number


def real(name: str, value: Any) -> float:
    """A number, or an error that names it."""
    try:
        return math.ldexp(value, 0)  # unlike float(), takes no text
    except TypeError:
        raise TypeError(f"{name} = {value!r}: must be a number") from None


def flag(name: str, value: Any) -> bool:
    """True or False, or an error that names it: "no" would be true."""
    if not isinstance(value, (bool, int, np.bool_)) or value not in (0, 1):
        raise TypeError(f"{name} = {value!r}: must be True or False")
    return bool(value)


def one_of(name: str, value: Any, choices: dict[str, int]) -> int:
    if value not in choices:
        raise ValueError(f"{name} = {value!r}: must be one of {', '.join(map(repr, choices))}")
    return choices[value]
