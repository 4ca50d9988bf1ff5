"""The one shape of the rows of a sampler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from sab._arguments import real, shown, whole
from sab._batch import PerColumn
from sab._cost import Budget
from sab._mixture import Mixture
from sab._pack import PackedSampler
from sab._ranks import BalancedSampler
from sab._sizes import Sizes, as_sizes

__all__ = ["StaticRows"]


class StaticRows(NamedTuple):
    """The one shape that :class:`PackCollate` gives all rows: with it compilers and CUDA graphs see
    one shape. Of several columns each attribute is a dictionary.

    Attributes:
        length: tokens of a row.
        sequences: samples and pieces of samples that a row has at most.
        max_seqlen: what a sequence is at most. Padding lies in sequences of at most this length.

    >>> import sab, sab.torch
    >>> sab.torch.StaticRows.of(sab.PackedSampler([7, 3, 6, 2, 2], capacity=10))
    StaticRows(length=10, sequences=3, max_seqlen=7)
    """

    length: PerColumn
    sequences: PerColumn
    max_seqlen: PerColumn

    @classmethod
    def of(cls, sampler: Any) -> StaticRows:
        """The shape that holds all rows of all epochs of a sampler.

        ``sequences`` is ``max_sequences`` of a :class:`sab.PackedSampler`, or as many of the
        shortest samples as fit into a row, if they are fewer. A :class:`sab.BalancedSampler` must
        have one column and a number of tokens as budget.
        """
        if isinstance(sampler, PackedSampler):
            length = sampler._capacity()
            sizes, options = as_sizes(sampler._made_from[0][0]), sampler._made_from[1]
        elif isinstance(sampler, BalancedSampler):
            sizes, options = sampler._source, sampler._made_from[1]
            length = _tokens_of(options, sizes.columns)
        else:
            raise TypeError(
                f"static: the sampler is a {type(sampler).__name__}: must be a PackedSampler or a "
                "BalancedSampler"
            )
        names = list(sizes.columns)
        values = sizes.values().reshape(len(sizes), len(names))
        found = [
            _column_of(
                values[:, j],
                int(_of_column(length, name)),
                _of_column(options["length_multiple"], name),
                options,
                sizes,
            )
            for j, name in enumerate(names)
        ]
        if len(names) == 1:
            return cls(length, *found[0])
        fewest = min(sequences for sequences, _ in found)
        longest = {name: max_seqlen for name, (_, max_seqlen) in zip(names, found)}
        return cls(length, dict.fromkeys(names, fewest), longest)


def checked(static: StaticRows) -> StaticRows:
    """The same as whole numbers, or an error that names the attribute."""
    made: list[Any] = []
    for name, given in zip(static._fields, static):
        if isinstance(given, Mapping):
            each = cast("Mapping[str, Any]", given)
            made.append({key: whole(f"{name}[{key!r}]", value, 1) for key, value in each.items()})
        else:
            made.append(whole(name, given, 1))
    return StaticRows(*made)


def _tokens_of(options: Any, columns: Sequence[str]) -> int:
    """The tokens of a row in the budget of a sampler, which is one number."""
    budget: Any = options["budget"]
    if isinstance(budget, Mapping):
        budget = list(cast("Mapping[str, Any]", budget).values())
    is_one = not hasattr(budget, "__iter__") or getattr(budget, "ndim", 1) == 0
    budgets: list[Any] = [budget] if is_one else list(budget)
    first = budgets[0]
    limit, cost = (first.limit, first.cost) if isinstance(first, Budget) else (first, None)
    has_cost = options["padded"] or options["cost"] is not None or cost is not None
    if limit is None or len(budgets) > 1 or has_cost or len(columns) > 1:
        raise ValueError(
            "static: the budget of the sampler is no number of tokens of a row; give "
            "sab.torch.StaticRows(length, sequences, max_seqlen)"
        )
    tokens = real("budget", limit)
    if not tokens.is_integer():
        raise ValueError(f"static: budget = {shown(tokens)}: must be a whole number of tokens")
    return int(tokens)


def _of_column(number: Any, column: str) -> Any:
    """A number of all columns, or that of one of them."""
    if not isinstance(number, Mapping):
        return number
    return cast("Mapping[str, Any]", number).get(column, 0)


def _column_of(
    values: npt.NDArray[Any], length: int, multiple: float, options: Any, sizes: Sizes
) -> tuple[int, int]:
    """How many sequences of a column a row has at most, and how long they are at most."""
    lengths = values.astype(np.int64)
    is_end_to_end = options.get("method") == "concat"
    is_cut = options.get("split") or is_end_to_end
    if is_cut:
        lengths = np.where(lengths > length, (lengths - 1) % length + 1, lengths)
    if multiple:
        lengths = -(-lengths // int(multiple)) * int(multiple)
    lengths = lengths[lengths <= length]
    fitting = _fitting(lengths, length, sizes) + 2 * is_end_to_end  # the ends of a row may cut two
    most = options.get("max_sequences") or options.get("samples") or fitting
    return min(int(most), fitting), length if is_cut else int(lengths.max(initial=1))


def _fitting(lengths: npt.NDArray[np.int64], length: int, sizes: Sizes) -> int:
    """How many of the shortest fit into a row. One of a mixture may be in it several times."""
    if isinstance(sizes, Mixture):
        shortest = int(lengths.min(initial=length))
        if shortest == 0:
            raise ValueError(
                "static: the mixture has samples of length 0; give "
                "sab.torch.StaticRows(length, sequences, max_seqlen)"
            )
        return length // shortest
    few = min(len(lengths), length + int((lengths == 0).sum()))
    shortest_first = np.sort(np.partition(lengths, few - 1)[:few])
    return int(np.searchsorted(np.cumsum(shortest_first), length, side="right"))
