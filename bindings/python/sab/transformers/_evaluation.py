"""Evaluation of a data set in batches of a plan."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from sab._batch import Batch
from sab.torch import DataLoader
from sab.transformers._data import StandIn

_accelerate: Any = importlib.import_module("accelerate.utils")


def counted(trainer: Any, inputs: Any) -> Any:
    """The number of what the loss of a batch is a mean of: its labels that are not -100, or its
    samples if it has no labels.
    """
    if isinstance(inputs, StandIn):
        return torch.zeros((), dtype=torch.int64)
    labels = inputs.get("shift_labels")
    if labels is None and inputs.get("labels") is not None:
        labels = inputs["labels"][..., 1:] if trainer._loss_shifts_labels else inputs["labels"]
    if labels is not None:
        return labels.ne(-100).sum()
    first = next(value for value in inputs.values() if isinstance(value, torch.Tensor))
    return torch.tensor(len(first))


class Evaluation:
    """One walk over a data set: gathers what the ranks give, and puts it in order."""

    def __init__(self, trainer: Any, loader: DataLoader) -> None:
        self.trainer, self.loader = trainer, loader
        self.order: list[Any] = []  # the samples of each step, in the order in which they come
        self.counts: Any = None  # the samples of each rank in this step
        self.has_loss = False  # the next to gather is the loss of the step
        self.loss = [0.0, 0.0]  # the sum over all labels, their number

    def begin_step(self) -> None:
        indices = torch.from_numpy(cast("Batch", self.loader.batch).indices)
        indices = indices.to(self.trainer.args.device)
        self.counts = self.trainer.accelerator.gather(torch.tensor([len(indices)]).to(indices))
        self.order.append(self.gather(indices).cpu())

    def add_loss(self, loss: Any, count: Any) -> None:
        """Adds the mean over `count` labels."""
        finite = not self.trainer.args.logging_nan_inf_filter or bool(torch.isfinite(loss))
        self.has_loss = True
        if int(count) and finite:
            self.loss[0] += float(loss) * int(count)
            self.loss[1] += int(count)

    def gather(self, data: Any) -> Any:
        """What the ranks have of their samples, in the order of ranks."""
        ranks, own = self.counts.tolist(), len(cast("Batch", self.loader.batch).indices)
        if self.has_loss:  # the trainer repeats it as often as its own batches have samples
            self.has_loss = False
            data = data[:1].repeat(own)
        most = max(ranks)
        same = self.trainer.get_tp_size()

        def without_repeats(tensor: Any) -> Any:
            return tensor[:own]

        def of_samples(tensor: Any) -> Any:
            rows = [tensor[rank * most :][: ranks[rank]] for rank in range(0, len(ranks), same)]
            return torch.cat(rows)

        data = _accelerate.recursively_apply(without_repeats, data)
        data = _accelerate.pad_across_processes(data, dim=0)
        return _accelerate.recursively_apply(of_samples, self.trainer.accelerator.gather(data))

    def in_order(self, arrays: Any) -> Any:
        """Arrays of all samples in the order of the data set."""
        if arrays is None:
            return None
        if isinstance(arrays, (tuple, list)):
            return tuple(self.in_order(each) for each in cast("Sequence[Any]", arrays))
        if isinstance(arrays, Mapping):
            named = cast("Mapping[str, Any]", arrays)
            return {name: self.in_order(each) for name, each in named.items()}
        order: npt.NDArray[np.int64] = torch.cat(self.order).numpy()
        if len(arrays) != len(order):
            raise ValueError(
                f"the predictions are of {len(arrays)} samples: must be of {len(order)}; use a "
                "data collator that pads"
            )
        return arrays[np.argsort(order)]

    def mean_loss(self) -> float | None:
        """The mean over the labels of all ranks; None without any."""
        each: list[list[float]] = _accelerate.gather_object([self.loss])
        total, count = (sum(numbers) for numbers in zip(*each))
        return total / count if count else None
