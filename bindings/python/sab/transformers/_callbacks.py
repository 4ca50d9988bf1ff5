"""Callbacks for trainers that `prepare` has changed."""

from __future__ import annotations

import importlib
from typing import Any

from sab._learning_rate import ScalingRule, ScalingUnit
from sab._metrics import Meter
from sab.torch import DataLoader, LearningRateScaler

transformers: Any = importlib.import_module("transformers")


def _loader_of(loader: Any) -> DataLoader:
    if not isinstance(loader, DataLoader):
        raise TypeError(
            f"the trainer's loader is a {type(loader).__name__}: must be that of "
            "sab.transformers.prepare(trainer, ...)"
        )
    return loader


class LearningRateCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """Scales the learning rate of each step by its tokens or samples, for a trainer that
    :func:`sab.transformers.prepare` has changed with ``weights=None``. The arguments are those of
    :class:`sab.torch.LearningRateScaler`.
    """

    def __init__(
        self, reference: float, *, rule: ScalingRule = "linear", of: ScalingUnit = "tokens"
    ) -> None:
        self._reference = reference
        self._options: dict[str, Any] = {"rule": rule, "of": of}
        self._loader: Any = None
        self._scaler: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Takes the optimizer."""
        self._loader = _loader_of(given["train_dataloader"])
        if self._scaler is not None:  # of a training that did not end
            self._scaler.close()
        self._scaler = LearningRateScaler(given["optimizer"], self._reference, **self._options)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Sets the factor of the step."""
        self._scaler.on_step(self._loader.step())

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Takes the scaling off the optimizer."""
        self._scaler.close()


class MetricsCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """Tells a :class:`sab.Meter` of each batch and step of a trainer that
    :func:`sab.transformers.prepare` has changed.

    Args:
        meter: its steps are those of the trainer. ``log=lambda step, values: trainer.log(values)``
            gives its metrics to the trainer's own loggers.
    """

    def __init__(self, meter: Meter) -> None:
        if not isinstance(meter, Meter):
            raise TypeError(f"meter is a {type(meter).__name__}: must be a sab.Meter")
        self._meter = meter
        self._loader: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Sets the steps of the meter, which a resumed run counts on from."""
        self._loader = _loader_of(given["train_dataloader"])
        self._meter.steps = state.global_step

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Tells of the step and its batches."""
        for batch in self._loader._of_step:
            self._meter.on_batch(batch)
        self._meter.on_step(self._loader.step())

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Writes the metrics of the last steps."""
        self._meter.write()
