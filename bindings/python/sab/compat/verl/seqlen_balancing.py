"""``verl.utils.seqlen_balancing``: sequences of one step to ranks and micro-batches, by verl's
names and arguments, with plans of this library.

The functions are those of verl 0.9.1. Partitions are more even, so they are not the same as those
of verl. As there, but not in verl 0.9.0, no micro-batch exceeds ``max_token_len``: where the number
of micro-batches that the sum of lengths suggests is too small, there are more.

>>> get_seqlen_balanced_partitions([4, 5, 6, 7, 8], 2, equal_size=False)
[[0, 1, 2], [3, 4]]
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Hashable, Sequence
from itertools import chain, groupby
from typing import Any

import numpy as np
import torch
from torch import distributed

import sab

# Old versions of torch have functions without types, and no jagged tensors.
dist: Any = distributed
any_torch: Any = torch

__all__ = [
    "calculate_workload",
    "ceildiv",
    "get_group_balanced_partitions",
    "get_reverse_idx",
    "get_seqlen_balanced_partitions",
    "greedy_partition",
    "karmarkar_karp",
    "log_seqlen_unbalance",
    "prepare_dynamic_batch",
    "rearrange_micro_batches",
    "restore_dynamic_batch",
    "roundup_divisible",
]

_LINEAR = 24576  # 6 times the hidden size of a model with 7 billion parameters


def calculate_workload(seqlen_list: torch.Tensor) -> torch.Tensor:
    """The work of a sequence in a transformer of 7 billion parameters, in no unit: ``24576 * length
    + length ** 2``.
    """
    work: torch.Tensor = _LINEAR * seqlen_list + seqlen_list**2
    return work


def karmarkar_karp(
    seqlen_list: Sequence[int], k_partitions: int, equal_size: bool
) -> list[list[int]]:
    """Partitions of nearly the same sum: :func:`sab.partition`.

    Raises:
        AssertionError: ``equal_size``, and the number of sequences is no multiple.
    """
    count = len(seqlen_list)
    if equal_size:
        assert count % k_partitions == 0, f"{count} % {k_partitions} != 0"
    parts = sab.partition(np.asarray(seqlen_list), k_partitions, equal_counts=equal_size)
    return [part.tolist() for part in parts]


def greedy_partition(
    seqlen_list: Sequence[int], k_partitions: int, equal_size: bool
) -> list[list[int]]:
    """Each sequence, in the order in which they are given, to the partition with the least sum so
    far.

    Raises:
        AssertionError: ``equal_size``, and the number of sequences is no multiple.
    """
    bias = sum(seqlen_list) + 1 if equal_size else 0
    sums = [(0, part) for part in range(k_partitions)]
    partitions: list[list[int]] = [[] for _ in range(k_partitions)]
    for index, length in enumerate(seqlen_list):
        total, part = sums[0]
        partitions[part].append(index)
        heapq.heapreplace(sums, (total + length + bias, part))
    if equal_size:
        for each in partitions:
            assert len(each) * k_partitions == len(seqlen_list), (
                f"{len(each)} * {k_partitions} != {len(seqlen_list)}"
            )
    return partitions


def get_seqlen_balanced_partitions(
    seqlen_list: Sequence[int], k_partitions: int, equal_size: bool
) -> list[list[int]]:
    """Partitions of nearly the same sum, none of them empty, the indices of each ascending.

    Raises:
        AssertionError: there are fewer sequences than partitions; or ``equal_size``, and their
            number is no multiple.
    """
    count = len(seqlen_list)
    assert count >= k_partitions, f"number of items:[{count}] < k_partitions:[{k_partitions}]"
    if equal_size:
        return karmarkar_karp(seqlen_list, k_partitions, equal_size)
    plan = sab.plan_step(np.asarray(seqlen_list), world_size=k_partitions, micro_batches=1)
    return [plan.rank(part)[0].tolist() for part in range(k_partitions)]


def log_seqlen_unbalance(
    seqlen_list: Sequence[int], partitions: Sequence[Sequence[int]], prefix: str
) -> dict[str, float]:
    """The smallest and largest sum of the sequences cut in their order, and of the partitions."""
    size = len(seqlen_list) // len(partitions)
    before = [sum(seqlen_list[i : i + size]) for i in range(0, len(seqlen_list), size)]
    after = [sum(seqlen_list[i] for i in partition) for partition in partitions]
    return {
        f"{prefix}/min": min(before),
        f"{prefix}/max": max(before),
        f"{prefix}/minmax_diff": max(before) - min(before),
        f"{prefix}/balanced_min": min(after),
        f"{prefix}/balanced_max": max(after),
        f"{prefix}/mean": sum(before) / len(partitions),
    }


def ceildiv(a: int, b: int) -> int:
    """``a / b``, rounded up.

    >>> ceildiv(7, 3)
    3
    """
    return -(a // -b)


def roundup_divisible(a: int, b: int) -> int:
    """The smallest multiple of ``b`` that is at least ``a``.

    >>> roundup_divisible(7, 4)
    8
    """
    return ceildiv(a, b) * b


class UnfitError(AssertionError, ValueError):
    """No micro-batches are possible. verl 0.9.0 has an AssertionError here, 0.9.1 a ValueError."""


def rearrange_micro_batches(
    batch: Any,
    max_token_len: int,
    dp_group: Any = None,
    num_batches_divided_by: int | None = None,
    same_micro_num_in_dp: bool = True,
    min_num_micro_batch: int | None = None,
    use_dynamic_bsz_balance: bool = True,
    force_group_size: int = 1,
) -> tuple[list[Any], list[list[int]]]:
    """Divides the batch of a rank into micro-batches of at most ``max_token_len`` tokens and nearly
    the same work.

    Args:
        batch: a TensorDict with nested ``input_ids``, or with ``attention_mask``.
        max_token_len: tokens of a micro-batch at most.
        dp_group: the process group of the ranks that train together.
        num_batches_divided_by: the number of micro-batches is a multiple of this.
        same_micro_num_in_dp: if there is a ``dp_group`` and torch.distributed is initialised, all
            ranks of the group have the same number of micro-batches, the largest of theirs.
        min_num_micro_batch: micro-batches at least.
        use_dynamic_bsz_balance: micro-batches with little work at both ends; else those with most
            work first.
        force_group_size: so many successive sequences stay in one micro-batch.

    Returns:
        The micro-batches, and the indices of each in the batch.

    Raises:
        AssertionError: a sequence is longer than ``max_token_len``, or the number of sequences is
            no multiple of ``force_group_size``.
        UnfitError: a group has more than ``max_token_len`` tokens, or there are more micro-batches
            than groups. If ranks have the same number of micro-batches, all of them raise what one
            of them would raise.
    """
    input_ids = batch["input_ids"]
    if input_ids.is_nested:
        lengths = input_ids.offsets().diff()
        longest = int(lengths.max()) if len(lengths) > 0 else 0
    else:
        longest = batch["attention_mask"].shape[-1]
        lengths = batch["attention_mask"].sum(dim=1)
    groups, rest = divmod(len(lengths), force_group_size)
    lengths = lengths[: groups * force_group_size].long().cpu().view(groups, force_group_size)
    tokens: Any = lengths.sum(dim=1).numpy()
    step = {"tokens": tokens, "work": calculate_workload(lengths).sum(dim=1).numpy()}
    largest = int(tokens.max(initial=0))
    count = max(min_num_micro_batch or 0, 1)
    if groups and largest <= max_token_len:
        count = max(count, _planned(step, max_token_len).micro_batches)
    if dist.is_initialized() and same_micro_num_in_dp and dp_group is not None:
        mine: Any = torch.tensor([count, longest, rest, largest, -groups], device=_device())
        dist.all_reduce(mine, op=dist.ReduceOp.MAX, group=dp_group)
        most: list[int] = mine.tolist()
        count, longest, rest, largest, groups = most
        groups = -groups
    count = roundup_divisible(count, num_batches_divided_by or 1)
    assert max_token_len >= longest, (
        "max_token_len must be greater than the sequence length. "
        f"Got max_token_len={max_token_len} and max_seq_len={longest}"
    )
    assert rest == 0, (
        f"The batch size must be divisible by force_group_size={force_group_size}: {rest} left over"
    )
    if largest > max_token_len:
        raise UnfitError(f"a group has {largest} tokens, more than max_token_len={max_token_len}")
    if count > groups:
        raise UnfitError(f"{count} micro-batches of {groups} groups")
    plan = _planned(
        step,
        max_token_len,
        micro_batches=count,
        order="bell" if use_dynamic_bsz_balance else "descending",
    )
    places = np.arange(len(lengths) * force_group_size).reshape(-1, force_group_size)
    indices: list[list[int]] = [places[each].ravel().tolist() for each in plan.rank(0)]
    return [_selected(batch, each) for each in indices], indices


def _planned(step: dict[str, Any], max_token_len: int, **options: Any) -> sab.StepPlan:
    return sab.plan_step(step, budget={"tokens": max_token_len}, balance={"work": 1}, **options)


def _device() -> str:
    """Where the ranks' tensors must be: on the accelerator, if there is one."""
    if torch.cuda.is_available():
        return "cuda"
    return "npu" if hasattr(torch, "npu") and any_torch.npu.is_available() else "cpu"


def _selected(batch: Any, indices: list[int]) -> Any:
    """Some of the samples of a TensorDict."""
    at = torch.tensor(indices)
    chosen: dict[str, Any] = {}
    for key, value in batch.items():
        if isinstance(value, torch.Tensor) and value.is_nested:
            chosen[key] = _rows_of(value, indices)
        else:  # what is not of samples has no shape
            chosen[key] = value[at] if len(value.shape) > 0 else value
    return type(batch)(chosen, batch_size=len(indices))


def _rows_of(nested: Any, indices: list[int]) -> torch.Tensor:
    """Some of the rows of a jagged tensor, which differ in the same dimension."""
    every = nested.unbind()
    rows = [every[i] for i in indices]
    jagged = getattr(nested, "_ragged_idx", nested.dim() - 1)
    sizes = [0] + [row.shape[jagged - 1] for row in rows]
    made: torch.Tensor = any_torch.nested.nested_tensor_from_jagged(
        torch.cat(rows, dim=jagged - 1),
        torch.tensor(sizes, device=nested.device).cumsum(0),
        jagged_dim=jagged,
    )
    return made


def get_reverse_idx(idx_map: Any) -> Any:
    """The inverse of a permutation.

    >>> get_reverse_idx([2, 0, 1])
    [1, 2, 0]
    """
    reverse = copy.deepcopy(idx_map)
    for place, index in enumerate(idx_map):
        reverse[index] = place
    return reverse


def prepare_dynamic_batch(
    data: Any,
    max_token_len: int,
    dp_group: Any = None,
    num_batches_divided_by: int | None = None,
    same_micro_num_in_dp: bool = True,
    min_num_micro_batch: int | None = None,
    use_dynamic_bsz_balance: bool = True,
) -> tuple[list[Any], list[list[int]]]:
    """As :func:`rearrange_micro_batches`, of a ``DataProto``: micro-batches of this type."""
    batches, indices = rearrange_micro_batches(
        data.batch,
        max_token_len,
        dp_group,
        num_batches_divided_by,
        same_micro_num_in_dp,
        min_num_micro_batch,
        use_dynamic_bsz_balance,
    )
    micro_batches: list[Any] = [
        type(data).from_dict(
            dict(batch),
            {key: values[each] for key, values in data.non_tensor_batch.items()},
            meta_info=copy.deepcopy(data.meta_info),
        )
        for batch, each in zip(batches, indices)
    ]
    return micro_batches, indices


def restore_dynamic_batch(
    data: torch.Tensor, batch_idx_list: Sequence[Sequence[int]]
) -> torch.Tensor:
    """The rows of micro-batches, one after the other, in the order of the batch.

    Raises:
        AssertionError: there are more or fewer rows than indices.
    """
    indices = list(chain.from_iterable(batch_idx_list))
    assert len(indices) == data.shape[0], f"{len(indices)} vs. {data.shape[0]}"
    reverse = get_reverse_idx(indices)
    if data.is_nested:
        return _rows_of(data, reverse)
    restored: torch.Tensor = data[torch.tensor(reverse, dtype=torch.long)]
    return restored


def get_group_balanced_partitions(
    seqlen_list: Sequence[int], uid_list: Sequence[Hashable], k_partitions: int
) -> list[list[int]]:
    """Partitions of nearly the same work with the same number of groups. A group is a run of
    sequences with the same uid.

    Raises:
        AssertionError: the lists differ in length; or the number of groups is below
            ``k_partitions``, or no multiple of it.
    """
    assert len(seqlen_list) == len(uid_list), "seqlen_list and uid_list must have same length"
    runs = groupby(range(len(uid_list)), key=lambda i: uid_list[i])
    groups = [list(run) for _, run in runs]
    assert len(groups) >= k_partitions, (
        f"Number of uid groups ({len(groups)}) must be >= k_partitions ({k_partitions})"
    )
    work = [sum(_LINEAR * seqlen_list[i] + seqlen_list[i] ** 2 for i in run) for run in groups]
    parts = get_seqlen_balanced_partitions(work, k_partitions, equal_size=True)
    return [sorted(chain.from_iterable(groups[g] for g in part)) for part in parts]
