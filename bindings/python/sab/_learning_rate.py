"""Learning rates for steps of different sizes."""

from __future__ import annotations

import math
from typing import Literal, cast

from sab._arguments import one_of, real
from sab._batch import PerColumn, Step

__all__ = ["scale_learning_rate"]

ScalingRule = Literal["linear", "sqrt"]
ScalingUnit = Literal["tokens", "samples"]
RULES = {"linear": 0, "sqrt": 1}
UNITS = {"tokens": 0, "samples": 1}


def scale_learning_rate(
    learning_rate: float,
    tokens: PerColumn,
    *,
    reference: float,
    rule: ScalingRule = "linear",
) -> float:
    """The learning rate of a step of ``tokens``, if ``learning_rate`` is that of a step of
    ``reference`` tokens.

    Args:
        learning_rate: found with steps of ``reference`` tokens.
        tokens: of the step, over all ranks and micro-batches, such as :attr:`sab.Step.total`; above
            0. Of sizes with several columns a dictionary, whose numbers are added up. Or the
            samples of the step, with a reference in samples.
        reference: tokens of a step, in the unit of ``tokens``; above 0.
        rule: ``"linear"``: ``learning_rate * tokens / reference``, for SGD (Goyal et al. 2017,
            arXiv:1706.02677, who also warm up). ``"sqrt"``: ``learning_rate * sqrt(tokens /
            reference)`` (Krizhevsky 2014, arXiv:1404.5997), also for Adam and RMSprop (Malladi et
            al. 2022, arXiv:2205.10287, whose rule for Adam changes its betas and epsilon, too).

    Raises:
        ValueError: an argument is out of range, or the tokens of the step are not known (-1).

    >>> scale_learning_rate(0.1, 32768, reference=16384)
    0.2
    >>> scale_learning_rate(1e-3, 65536, reference=16384, rule="sqrt")
    0.002
    """
    rate = real("learning_rate", learning_rate)
    if not math.isfinite(rate):
        raise ValueError(f"learning_rate = {rate}: must be finite")
    return rate * learning_rate_factor(tokens, reference, rule)


def step_factor(step: Step, reference: float, rule: ScalingRule, of: ScalingUnit) -> float:
    """The factor of a step by its tokens, or by its samples."""
    return learning_rate_factor(step.total if of == "tokens" else step.samples, reference, rule)


def learning_rate_factor(tokens: PerColumn, reference: float, rule: ScalingRule) -> float:
    """The factor of :func:`scale_learning_rate`."""
    rule_number = one_of("rule", rule, RULES)
    ratio = total_of("tokens", tokens) / positive("reference", reference)
    return math.sqrt(ratio) if rule_number == RULES["sqrt"] else ratio


def total_of(name: str, tokens: PerColumn) -> float:
    """Tokens as one number above 0: several columns are added up."""
    if not isinstance(tokens, dict):
        return positive(name, tokens)
    given = cast("dict[str, float]", tokens)
    numbers = [positive(f"{name}[{column!r}]", each) for column, each in given.items()]
    return positive(name, sum(numbers))


def positive(name: str, value: float) -> float:
    """A finite number above 0, or an error that names it."""
    number = real(name, value)
    if not 0 < number < math.inf:
        known = " (-1: not known)" if number == -1 else ""
        raise ValueError(f"{name} = {value}{known}: must be finite and above 0")
    return number
