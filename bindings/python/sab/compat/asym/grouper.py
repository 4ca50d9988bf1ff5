"""``asym.grouper``: which data of a collection are padded and run together. Without torch: data are
asked for their shapes only.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

import sab

__all__ = [
    "DataListGrouper",
    "LengthBasedGrouper",
    "LengthThresholdGrouper",
    "PredefinedConsecutiveGrouper",
    "PredefinedGrouper",
    "UniGrouper",
]


class DataListGrouper(metaclass=ABCMeta):
    """Base of groupers: override :meth:`get_data_partition`."""

    @abstractmethod
    def get_data_partition(self, data_list: Sequence[Any], shapesig_data: Any) -> list[list[int]]:
        """The indices of the data of each group; each exactly once, no group empty."""


class UniGrouper(DataListGrouper):
    """All data in one group."""

    def get_data_partition(self, data_list: Sequence[Any], shapesig_data: Any) -> list[list[int]]:
        return [list(range(len(data_list)))]


class PredefinedGrouper(DataListGrouper):
    """Groups given by the indices of each."""

    def __init__(self, partition: list[list[int]]) -> None:
        super().__init__()
        self.partition = partition
        self.length: int = sum(len(part) for part in partition)

    def get_data_partition(self, data_list: Sequence[Any], shapesig_data: Any) -> list[list[int]]:
        if len(data_list) != self.length:
            raise ValueError(
                f"data_list has {len(data_list)} data: the partition is one of {self.length}"
            )
        return self.partition


class PredefinedConsecutiveGrouper(PredefinedGrouper):
    """Groups of consecutive data, ``nums`` of them in each."""

    def __init__(self, nums: list[int]) -> None:
        super().__init__([indices.tolist() for indices in sab.Grouping.consecutive(nums)])


class LengthBasedGrouper(DataListGrouper, metaclass=ABCMeta):
    """Base of groupers by the length of the data along the dimension ``ldim_label``: override
    :meth:`get_partition_from_lengths`.
    """

    def __init__(self, ldim_label: str) -> None:
        super().__init__()
        self.ldim_label = ldim_label

    def get_data_partition(self, data_list: Sequence[Any], shapesig_data: Any) -> list[list[int]]:
        keys, idx = shapesig_data.prestack_ldim_map[self.ldim_label]
        return self.get_partition_from_lengths(
            [data.get(keys).value.shape[idx] for data in data_list]
        )

    @abstractmethod
    def get_partition_from_lengths(self, lengths: list[int]) -> list[list[int]]:
        """The indices of the data of each group."""


class LengthThresholdGrouper(LengthBasedGrouper):
    """Groups by thresholds: lengths up to the first, above it up to the second, ..., above the
    last. Empty groups are left out.

    Raises:
        ValueError: there are no thresholds, or two are equal.
    """

    def __init__(self, ldim_label: str, thresholds: Sequence[int]) -> None:
        super().__init__(ldim_label)
        self.thresholds: list[int] = sorted(thresholds)
        if not self.thresholds or len(set(self.thresholds)) < len(self.thresholds):
            raise ValueError(f"thresholds = {self.thresholds}: must be at least one, no two equal")

    def get_subgroup_idx(self, num: int) -> int:
        """The number of the interval that a length lies in."""
        return int(np.searchsorted(self.thresholds, num))

    def get_partition_from_lengths(self, lengths: list[int]) -> list[list[int]]:
        return [
            indices.tolist() for indices in sab.Grouping.by_thresholds((lengths, self.thresholds))
        ]
