"""``bagua.torch_api.contrib.fuse.optimizer``: :mod:`sab.torch` by Bagua's names."""

from __future__ import annotations

from typing import Any

import sab.torch
from sab.torch import fuse_step, is_fused_optimizer

__all__ = ["calculate_mutual_groups", "fuse_optimizer", "fuse_step", "is_fused_optimizer"]


def fuse_optimizer(optimizer: Any, do_flatten: bool = True, check_flatten: bool = True) -> Any:
    """:func:`sab.torch.fuse_optimizer`; ``optimizer._bagua_fused_count`` counts the groups that
    were fused, over all steps.

    Other than Bagua's: gradients that are None stay so, and no tensor's attributes are written to;
    ``fuse_step`` returns what the closure did; what Bagua would log as an error and skip, or update
    wrongly (optimizers that look at a parameter as a whole), takes the plain step.
    """
    sab.torch.fuse_optimizer(optimizer, do_flatten=do_flatten, check_flatten=check_flatten)
    type(optimizer)._bagua_fused_count = property(lambda self: self._sab_fuser.count)
    return optimizer


def calculate_mutual_groups(tensors_list: list[list[Any]]) -> list[list[int]]:
    """The places of tensors that lie end to end in memory, in its order, in each of the lists
    alike.
    """

    def groups(tensors: list[Any]) -> list[list[int]]:
        found: list[list[int]] = []
        end = None
        for place in sorted(range(len(tensors)), key=lambda place: tensors[place].data_ptr()):
            begin = tensors[place].data_ptr()
            if begin != end:
                found.append([])
            found[-1].append(place)
            end = begin + tensors[place].numel() * tensors[place].element_size()
        return [group for group in found if len(group) > 1]

    if any(len(tensors) != len(tensors_list[0]) for tensors in tensors_list):
        raise AssertionError("Tensors to calculate mutual groups must have equal size.")
    of_each = [groups(tensors) for tensors in tensors_list]
    return (
        [group for group in of_each[0] if all(group in others for others in of_each[1:])]
        if of_each
        else []
    )
