"""The budget "memory" of a sampler, whose plan is made when the memory of a step is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sab._sizes import Sizes

_SHARE = 0.9  # of what is free


def share_of(budget: Any) -> float | None:
    """The share of the free memory that ``"memory"`` or ``"memory:0.8"`` asks for; None for a
    budget of another kind.
    """
    if not isinstance(budget, str):
        return None
    word, colon, text = budget.partition(":")
    try:
        share = float(text) if colon else _SHARE
    except ValueError:
        share = 0.0
    if word != "memory" or not 0 < share <= 1:
        raise ValueError(
            f"budget = {budget!r}: must be a number or 'memory'; 'memory:0.8' is for another share "
            "of the free memory, above 0 and at most 1"
        )
    return share


class Waiting(NamedTuple):
    """What a sampler is made of when the memory of a step is known."""

    share: float
    sizes: Sizes
    options: Mapping[str, Any]


class NotPlanned:
    """What a sampler has in the place of its plan until it is made."""

    def __get__(self, sampler: Any, kind: Any) -> Any:
        if getattr(sampler, "_waiting", None) is None:
            raise AttributeError("the sampler has no plan")
        raise ValueError(
            "budget = 'memory': the sampler has no batches before the memory of a training step is "
            "measured; give it to a sab.torch.DataLoader with step="
        )
