"""Numbers on the command line: 16384, 16k, 1.5M, 16Ki, 40GiB."""

from __future__ import annotations

import argparse
import re
from decimal import Decimal

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?\s*([kKMGT]?)(i?)B?", re.ASCII)
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def quantity(text: str) -> float:
    """A number that is not negative. k, M, G and T are powers of 1,000; Ki, Mi, Gi and Ti of 1,024.
    The letter B may follow, for bytes.
    """
    return float(_exact(text))


def whole(text: str) -> int:
    """As quantity(), for whole numbers."""
    number = _exact(text)
    if number != number.to_integral_value():
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number")
    return int(number)


def _exact(text: str) -> Decimal:
    found = _NUMBER.fullmatch(text.strip())
    if found is None or (found[4] and not found[3]):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a number such as 500, 16k (16,000), 1.5M or 16Ki (16,384)"
        )
    factor = Decimal(1024 if found[4] else 1000) ** _POWERS[found[3]]
    number = Decimal(found[1] + (found[2] or "")) * factor
    if number >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text!r} must be below 2**63")
    return number
