"""Tensors of samples, padded by groups and joined again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, cast

import numpy as np

from sab._arguments import whole
from sab._columns import Int64s, offsets_without_empty, torch
from sab._signature import (
    Jagged,
    Leaf,
    ShapeSignature,
    column_of_jagged,
    column_of_tensors,
    keys_of,
    rule_of,
    unnested,
)


def pad_groups(
    permutation: Int64s, offsets: Int64s, samples: Any, *, padding: Any, batch_dim: int
) -> list[Any]:
    """See :meth:`sab.Grouping.pad`."""
    batch_dim = whole("batch_dim", batch_dim)
    if isinstance(samples, torch.Tensor) and samples.is_nested:
        samples = unnested(samples)
    if isinstance(samples, Jagged):
        values = (
            samples.values
            if isinstance(samples.values, torch.Tensor)
            else torch.as_tensor(samples.values)
        )
        column = column_of_jagged(
            samples._replace(values=values),
            Leaf((), ShapeSignature(f"(B{', M' * values.dim()})", "samples")),
        )
    else:
        column = column_of_tensors(samples, "samples")
    if len(column) != permutation.size:
        raise ValueError(f"samples are {len(column)}: the grouping has {permutation.size}")
    rank = column.shapes.shape[1]
    if batch_dim > rank:
        raise ValueError(
            f"batch_dim = {batch_dim}: must be from 0 to the samples' number of dimensions, {rank}"
        )
    rule = rule_of(padding, Leaf((), ShapeSignature(f"(B{', M' * rank})", "samples")), column)
    return list(
        column.grouped(permutation, offsets_without_empty(offsets), batch_dim, rule).buffers
    )


def _rebuilt(like: Any, keys: list[Any], values: list[Any]) -> Any:
    """A dictionary, list, tuple or named tuple like another, of these values."""
    if hasattr(like, "keys"):
        return dict(zip(keys, values))
    kind = cast("Callable[..., Any]", type(like))
    return kind(values) if type(like) in (tuple, list) else kind(*values)


def join_groups(inverse: Int64s, offsets: Int64s, outputs: Sequence[Any]) -> Any:
    """See :meth:`sab.Grouping.join`."""
    outputs = list(outputs)
    counts = np.diff(offsets)
    counts = counts[counts > 0].tolist()
    if len(outputs) != len(counts):
        raise ValueError(
            f"outputs are {len(outputs)}: the grouping has {len(counts)} groups with samples"
        )
    to_samples = torch.from_numpy(inverse)

    def joined(parts: list[Any], what: str) -> Any:
        first = parts[0]
        if isinstance(first, (dict, tuple, list)):
            keys = keys_of(first)
            for group, part in enumerate(parts):
                if type(part) is not type(parts[0]) or keys_of(part) != keys:
                    raise ValueError(f"{what} of group {group} is not nested as that of group 0")
            below = [joined([part[key] for part in parts], f"{what}[{key!r}]") for key in keys]
            return _rebuilt(parts[0], keys, below)
        for group, (part, count) in enumerate(zip(parts, counts)):
            if not isinstance(part, torch.Tensor):
                raise TypeError(
                    f"{what} of group {group} is a {type(part).__name__}: must be a tensor"
                )
            if part.dim() == 0 or part.shape[0] != count or part.shape[1:] != first.shape[1:]:
                raise ValueError(
                    f"{what} of group {group} has shape {tuple(part.shape)}: must be "
                    f"{(count, *first.shape[1:])}, with the samples of the group first"
                )
        return torch.cat(parts).index_select(0, to_samples.to(first.device))

    if not outputs:
        raise ValueError("outputs are none: there is nothing to join")
    return joined(outputs, "output")
