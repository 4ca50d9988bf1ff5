"""Weights of the steps of a trainer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

import torch

from sab._batch import Batch

_CHOICES = ("auto", "samples", "tokens", None)
_Function: Any = torch.autograd.Function


class Weights:
    """What the gradient of each step is multiplied by: the sum of the weights of its batches over
    the number of batches of a full step. So the last step, which may have fewer, counts less.

    Args:
        by: ``"samples"``, ``"tokens"``, ``"auto"``, or None, which multiplies nothing.
        micro_batches: of a rank in a full step.
    """

    def __init__(self, by: Any, micro_batches: int) -> None:
        if by not in _CHOICES:
            raise ValueError(f"weights = {by!r:.60}: must be 'auto', 'samples', 'tokens' or None")
        self._by = by
        self._micro_batches = micro_batches
        self._factor: Any = None  # of this step

    def set_step(
        self, inputs: Any, batches: Collection[Batch], mean_of_ranks: Callable[[Any], Any]
    ) -> None:
        """Takes the weights of the batches of a step, on all ranks."""
        self._factor = None
        if self._by is None:
            return
        by = _chosen(inputs) if self._by == "auto" else self._by
        weight = _token_weight if by == "tokens" else _sample_weight
        own = sum(map(weight, batches)) / self._micro_batches
        self._factor = mean_of_ranks(torch.tensor(own, dtype=torch.float32))

    def apply(self, given: Any) -> Any:
        """The loss that a trainer computed, alone or with outputs; its value is the same."""
        if self._factor is None:
            return given
        if isinstance(given, tuple):
            return (_Weighted.apply(given[0], self._factor), *given[1:])
        return _Weighted.apply(given, self._factor)


class _Weighted(_Function):  # type: ignore[misc]
    """A loss whose gradient is multiplied by a factor."""

    @staticmethod
    def forward(ctx: Any, loss: Any, factor: Any) -> Any:
        ctx.factor = factor
        return loss.view_as(loss)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return gradient * ctx.factor.to(gradient.dtype), None


def _sample_weight(batch: Batch) -> float:
    return batch.sample_weight


def _token_weight(batch: Batch) -> float:
    """The mean over the columns."""
    weight = batch.token_weight
    if not isinstance(weight, Mapping):
        return float(weight)
    each = cast("Mapping[str, float]", weight)
    return sum(each.values()) / len(each)


def _chosen(inputs: Any) -> str:
    labels: Any = inputs.get("labels")
    is_sequence = (
        labels is not None
        and not labels.is_floating_point()
        and labels.ndim > 1
        and labels[0].numel() != 1
    )
    return "tokens" if is_sequence else "samples"
