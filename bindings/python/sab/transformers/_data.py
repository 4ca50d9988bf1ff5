"""Lengths of the samples of a trainer, and the data of its batches."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from sab._batch import Batch
from sab._sizes import Sizes, SizesLike
from sab.torch._samples import takes_batch

_torch: Any = torch


def has_indices(dataset: Any) -> bool:
    """Whether a data set has samples by index, and a length."""
    stream = _torch.utils.data.IterableDataset
    return hasattr(dataset, "__len__") and not isinstance(dataset, stream)


def main_input(trainer: Any) -> str:
    """The name of the model's main input."""
    inputs = getattr(trainer.processing_class, "model_input_names", None)
    return str(inputs[0] if inputs else getattr(trainer.model, "main_input_name", "input_ids"))


def sizes_of(dataset: Any, trainer: Any, lengths: Callable[[Any], SizesLike] | None) -> Sizes:
    """The lengths of the samples of a data set."""
    if lengths is not None:
        found: Any = lengths(dataset)
        sizes = found if isinstance(found, Sizes) else Sizes(found)
        if len(sizes) != len(dataset):
            raise ValueError(
                f"lengths() gives {len(sizes)} lengths: must be {len(dataset)}, one for each sample"
            )
        return sizes
    column: str = trainer.args.length_column_name
    main = main_input(trainer)
    names = getattr(dataset, "column_names", None)
    if type(dataset).__module__.startswith("datasets.") and isinstance(names, list):
        if column in names:
            return Sizes(dataset, column=column)
        if main in names and _is_list_of_numbers(dataset, main):
            return Sizes(dataset, column=main)
    elif len(dataset) and isinstance(dataset[0], Mapping) and main in dataset[0]:
        each = (len(dataset[index][main]) for index in range(len(dataset)))
        return Sizes(np.fromiter(each, np.int64, len(dataset)))
    raise ValueError(
        f"has no column {column!r}, and no lists of numbers in {main!r}: add a column of "
        "lengths and name it in length_column_name, or give prepare() a function as lengths"
    )


def _is_list_of_numbers(dataset: Any, column: str) -> bool:
    """Whether the lengths of a column are those of sequences, not of texts or of lists of lists."""
    kind = dataset.data.schema.field(column).type
    inner: Any = getattr(kind, "value_type", None)
    return inner is not None and getattr(inner, "value_type", None) is None


class StandIn(dict[str, Any]):
    """The data of a rank that has no sample in the last step of an epoch. It has the shape of a
    batch of one sample, and no label, and counts as no sample.
    """


class Collate:
    """The trainer's data collator, also for batches without a sample. It pads to the planned length
    if it can.

    Args:
        spare: a batch of one sample, which is loaded in the place of none.
        main: the name of the model's main input.
        few_shapes: what asks that data have the planned lengths, in words; "" if nothing does.
    """

    def __init__(
        self, collate_fn: Any, dataset: Any, spare: Batch, main: str, few_shapes: str
    ) -> None:
        self.collate_fn = collate_fn
        self.takes_batch = takes_batch(collate_fn)
        self.dataset = dataset
        self.spare = spare
        self.main = main
        self.few_shapes = few_shapes

    def __call__(self, samples: list[Any], batch: Batch) -> Any:
        if samples:
            return self._collate(samples, batch)
        sample = self.dataset[int(self.spare.indices[0])]
        total: Any = _total([sample], self.main) or self.spare.longest
        data = StandIn(self._collate([sample], self.spare._replace(total=total)))
        for name in ("labels", "shift_labels"):
            if name in data:
                data[name] = torch.full_like(data[name], -100)
        return data

    def _collate(self, samples: list[Any], batch: Batch) -> Any:
        if self.takes_batch:
            data = self.collate_fn(samples, batch)
        else:
            is_planned = batch.layout == "padded" and self._has_lengths(samples, batch)
            padding = _padding_to(self.collate_fn, batch.padded_length) if is_planned else None
            data = (padding or self.collate_fn)(samples)
        if self.few_shapes and batch.layout == "padded":
            self._check_length(data, batch)
        return data

    def _has_lengths(self, samples: list[Any], batch: Batch) -> bool:
        """Whether the sizes are the lengths of the main input, and labels are as long."""
        if isinstance(batch.padded_length, dict) or not isinstance(samples[0], Mapping):
            return False
        totals = [
            total for name in (self.main, "labels") if (total := _total(samples, name)) is not None
        ]
        return self.main in samples[0] and set(totals) == {batch.total}

    def _check_length(self, data: Any, batch: Batch) -> None:
        found = data[self.main].shape[1]
        each = _multiple_of(self.collate_fn)
        if found != batch.padded_length and each and batch.padded_length % each:
            raise ValueError(
                f"{self.few_shapes}: the data collator pads {self.main!r} to a "
                f"multiple of {each}, but the batch is planned with {batch.padded_length:g}; give "
                f"prepare() length_multiple={each}"
            )
        if found != batch.padded_length:
            raise ValueError(
                f"{self.few_shapes}: the data collator pads {self.main!r} to {found}, "
                f"but the batch is planned with {batch.padded_length:g}; use one with "
                "pad_to_multiple_of, such as DataCollatorWithPadding, and the lengths of "
                f"{self.main!r}, or a function of the samples and their sab.Batch"
            )


def _total(samples: list[Any], field: str) -> int | None:
    """The sum of the lengths of a field; None if it has no lengths."""
    try:
        return sum(len(sample[field]) for sample in samples)
    except (KeyError, TypeError):
        return None


def _multiple_of(collate_fn: Any) -> int:
    """What a data collator rounds lengths up to; 0 without it."""
    inner = getattr(collate_fn, "data_collator", collate_fn)  # of Trainer's, which removes columns
    return int(getattr(inner, "pad_to_multiple_of", None) or 0)


def _padding_to(collate_fn: Any, length: Any) -> Any:
    """A data collator that pads to a length, in the place of one that pads to the longest sample;
    None if it cannot.
    """
    if hasattr(collate_fn, "data_collator"):  # Trainer's, which removes columns first
        inner = _padding_to(collate_fn.data_collator, length)
        return None if inner is None else _with(collate_fn, data_collator=inner)
    if not hasattr(collate_fn, "pad_to_multiple_of"):
        return None
    each = collate_fn.pad_to_multiple_of or 1
    changed = {"pad_to_multiple_of": math.ceil(length / each) * each}
    if hasattr(collate_fn, "padding"):
        changed["padding"] = True
    return _with(collate_fn, **changed)


def _with(given: Any, **attributes: Any) -> Any:
    changed = copy.copy(given)
    vars(changed).update(attributes)
    return changed
