"""A learning rate that follows the number of tokens of each step."""

from __future__ import annotations

from typing import Any

from sab._arguments import one_of
from sab._batch import Step
from sab._display import one_line
from sab._learning_rate import RULES, UNITS, ScalingRule, ScalingUnit, positive, step_factor
from sab._native import UnsupportedError, unpicklable

__all__ = ["LearningRateScaler"]

_MARK = "_sab_learning_rate_scaler"  # attribute of an optimizer that has one


class LearningRateScaler:
    """Scales the learning rates of an optimizer during each step by the tokens, or samples, of the
    step: see :func:`sab.scale_learning_rate`.

    ``scaler.on_step(loader.step())`` before ``optimizer.step()``. The learning rates are scaled
    when the optimizer's step begins, and put back when it ends, so schedulers and checkpoints see
    those that were set. Gradients must be means over the tokens or samples of the step.

    Args:
        optimizer: of torch 2.0 or later, also wrapped by accelerate or lightning.
        reference: tokens, or samples, of a step for which the learning rates were found, over all
            ranks and micro-batches.
        rule: ``"linear"`` or ``"sqrt"``.
        of: what is counted, ``"tokens"`` or ``"samples"``: that which the loss is a mean over.

    Attributes:
        factor: of the steps to come, until :meth:`on_step` sets another; 1 at first.
    """

    def __init__(
        self,
        optimizer: Any,
        reference: float,
        *,
        rule: ScalingRule = "linear",
        of: ScalingUnit = "tokens",
    ) -> None:
        self.factor = 1.0
        self._reference = positive("reference", reference)
        self._rule: ScalingRule = rule
        self._of: ScalingUnit = of
        one_of("rule", rule, RULES)
        one_of("of", of, UNITS)
        while hasattr(optimizer, "optimizer"):  # of accelerate, lightning
            optimizer = optimizer.optimizer
        if not hasattr(optimizer, "register_step_pre_hook"):
            raise UnsupportedError(
                f"optimizer is a {type(optimizer).__name__}: must be an optimizer of torch 2.0 or "
                "later, which has hooks of a step; use sab.scale_learning_rate"
            )
        if _MARK in optimizer.__dict__:
            raise RuntimeError("optimizer: has a LearningRateScaler already; close() it first")
        optimizer.__dict__[_MARK] = True
        self._optimizer = optimizer
        self._rates: list[Any] = []
        self._hooks = (
            optimizer.register_step_pre_hook(self._begin),
            optimizer.register_step_post_hook(self._end),
        )

    def __repr__(self) -> str:
        return one_line(self, [f"{self._rule} rule", f"factor {self.factor:.4g}"])

    def on_step(self, step: Step) -> None:
        """Sets the factor for a step (``loader.step()``)."""
        self.factor = step_factor(step, self._reference, self._rule, self._of)

    def _begin(self, optimizer: Any, arguments: Any, options: Any) -> Any:
        self._restore()  # after a step that failed
        given = {"closure": arguments[1], **options} if len(arguments) > 1 else dict(options)
        closure = given.get("closure")
        if closure is None:
            self._scale()
            return None

        def scaled_afterwards() -> Any:
            self._restore()  # a closure that fails leaves the rates that were set
            loss = closure()
            self._scale()
            return loss

        return arguments[:1], {**given, "closure": scaled_afterwards}

    def _scale(self) -> None:
        for group in self._optimizer.param_groups:
            rate = group["lr"]
            if hasattr(rate, "mul_"):  # a tensor, which graphs may hold
                self._rates.append(rate.clone())
                rate.mul_(self.factor)
            else:
                self._rates.append(rate)
                group["lr"] = rate * self.factor

    def _restore(self) -> None:
        for group, rate in zip(self._optimizer.param_groups, self._rates):
            if hasattr(rate, "mul_"):
                group["lr"].copy_(rate)
            else:
                group["lr"] = rate
        self._rates.clear()

    def _end(self, optimizer: Any, arguments: Any, options: Any) -> None:
        self._restore()

    def close(self) -> None:
        """Takes the scaling off the optimizer."""
        self._restore()
        for hook in self._hooks:
            hook.remove()
        self._optimizer.__dict__.pop(_MARK, None)

    def __reduce__(self) -> tuple[object, ...]:
        raise unpicklable(self, "make it anew for the optimizer")
