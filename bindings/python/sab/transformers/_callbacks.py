"""Callbacks for trainers that `prepare` has changed."""

from __future__ import annotations

import importlib
from typing import Any

from sab._learning_rate import ScalingRule
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
    """Scales the learning rate of each step by its tokens, for a trainer that
    :func:`sab.transformers.prepare` has changed. The arguments are those of
    :class:`sab.torch.LearningRateScaler`.
    """

    def __init__(self, reference: float, *, rule: ScalingRule = "linear") -> None:
        self._reference = reference
        self._rule: ScalingRule = rule
        self._loader: Any = None
        self._scaler: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Takes the optimizer."""
        self._loader = _loader_of(given["train_dataloader"])
        if self._scaler is not None:  # of a training that did not end
            self._scaler.close()
        self._scaler = LearningRateScaler(given["optimizer"], self._reference, rule=self._rule)

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
        self._told = 0, 0  # the epoch, and its batches that the meter was told of

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Sets the steps of the meter, which a resumed run counts on from."""
        self._loader = _loader_of(given["train_dataloader"])
        self._meter.steps = state.global_step
        self._told = self._loader.epoch, self._loader.position

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Tells of the step and its batches."""
        loader = self._loader
        epoch, told = self._told
        for position in range(told if epoch == loader.epoch else 0, loader.position):
            self._meter.on_batch(loader.source.batch(position))
        self._told = loader.epoch, loader.position
        self._meter.on_step(loader.step())

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Writes the metrics of the last steps."""
        self._meter.write()
