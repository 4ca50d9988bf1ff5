"""Lengths of the samples of a trainer, and the data of its batches."""

from __future__ import annotations

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
    inputs = getattr(trainer.processing_class, "model_input_names", None)
    main: str = inputs[0] if inputs else getattr(trainer.model, "main_input_name", "input_ids")
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
        f"dataset has no column {column!r}, and no lists of numbers in {main!r}: add a column of "
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
    """The trainer's data collator, also for batches without a sample.

    Args:
        spare: a batch of one sample, which is loaded in the place of none.
    """

    def __init__(self, collate_fn: Any, dataset: Any, spare: Batch) -> None:
        self.collate_fn = collate_fn
        self.takes_batch = takes_batch(collate_fn)
        self.dataset = dataset
        self.spare = spare

    def __call__(self, samples: list[Any], batch: Batch) -> Any:
        if samples:
            return self._collate(samples, batch)
        data = StandIn(self._collate([self.dataset[int(self.spare.indices[0])]], self.spare))
        for name in ("labels", "shift_labels"):
            if name in data:
                data[name] = torch.full_like(data[name], -100)
        return data

    def _collate(self, samples: list[Any], batch: Batch) -> Any:
        return self.collate_fn(samples, batch) if self.takes_batch else self.collate_fn(samples)
