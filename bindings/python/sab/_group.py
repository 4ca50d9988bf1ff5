"""Batches cut into groups of like lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from sab._arguments import brief, flag, one_of, real_array, whole
from sab._cost import CostLike, cost_handle
from sab._display import record_line
from sab._native import Calls, CData, Progress, check, choices, ffi, lib, new_struct, record_of
from sab._sizes import SizesLike, as_sizes

__all__ = ["Grouping", "Thresholds", "find_thresholds"]

ThresholdMethod = Literal["least_total", "least_largest", "randomised"]
_METHODS = choices("SAB_THRESHOLDS_")
_TRIALS = 100  # by default; not told to the library, which refuses it beside another method


class Thresholds(NamedTuple):
    """What :func:`find_thresholds` found, and what the groups cost, each being one batch.

    The last five count how searches of ``method="randomised"`` ended: with groups of the same cost,
    in circles, by ``tolerate``, at the shortest or longest length, beside another threshold.
    """

    thresholds: npt.NDArray[np.float64]
    total: float
    largest: float
    largest_difference: float
    even: int
    repeated: int
    not_tolerated: int
    extreme: int
    narrow: int

    def __repr__(self) -> str:
        return record_line(self)


def find_thresholds(
    lengths: SizesLike,
    k: int,
    *,
    cost: CostLike | None = None,
    method: ThresholdMethod = "least_total",
    cost_per_sample: bool = False,
    num_trials: int = 100,
    tolerate: int | None = None,
    seed: int = 0,
    starts: npt.ArrayLike | None = None,
    progress: bool | Progress | None = None,
) -> Thresholds:
    """Finds ``k`` lengths that cut a data set into ``k + 1`` groups: up to the first, above it up
    to the second, ..., above the last.

    Args:
        lengths: anything that :class:`sab.Sizes` takes.
        k: number of thresholds, below the number of distinct lengths.
        cost: the cost of a group by its count and its longest length: as for :func:`sab.plan`.
        method: ``"least_total"``: the least total cost of all groups, exactly. ``"least_largest"``:
            the least cost of the costliest group, exactly. ``"randomised"``: groups of about the
            same cost, by asym's greedy search from random places.
        cost_per_sample: a group costs ``count * cost(1, longest)``; a function is then called once
            for each distinct length only.
        num_trials: with ``"randomised"``: number of searches.
        tolerate: with ``"randomised"``: a search ends after more than this number of steps that do
            not reduce the largest difference between neighbours. Default: twice the number of
            distinct lengths.
        seed: of ``"randomised"``: searches begin at ``random.Random(seed).sample(range(distinct
            lengths), k)``.
        starts: instead, an array of ``num_trials`` rows of ``k`` numbers of distinct lengths.
        progress: True for a bar, or ``progress(done, total)``.

    Raises:
        ValueError: an argument breaks a rule; and whatever the cost raises.

    >>> import sab
    >>> sab.find_thresholds([1] * 64 + [4] * 16 + [16] * 4 + [64], k=3).thresholds.tolist()
    [1.0, 4.0, 16.0]
    """
    k = whole("k", k, 1)
    calls = Calls(progress=progress, what="thresholds")
    options = calls.options("sab_thresholds_options")
    options.cost = cost_handle("cost", cost, calls)
    options.method = one_of("method", method, _METHODS)
    options.cost_per_sample = flag("cost_per_sample", cost_per_sample)
    num_trials = whole("num_trials", num_trials, 1, bits=32)
    options.num_trials = 0 if num_trials == _TRIALS else num_trials
    if tolerate is not None:
        options.patience = whole("tolerate", tolerate, bits=63) + 1
        calls.names["patience"] = "tolerate + 1"
    options.seed = whole("seed", seed)
    if starts is not None:
        rows: npt.NDArray[Any] = np.asarray(starts)
        if rows.shape != (num_trials, k) or rows.dtype.kind not in "iu" or (rows < 0).any():
            raise ValueError(
                f"starts has shape {rows.shape} and dtype {rows.dtype}: must be ({num_trials}, "
                f"{k}) whole numbers of at least 0"
            )
        rows = np.ascontiguousarray(rows, np.uint64)
        calls.kept.append(rows)
        options.starts = ffi.cast("uint64_t *", rows.ctypes.data)
    sizes = as_sizes(lengths, "lengths")
    # Checked by the library as well, but not before there is room for them.
    if k >= max(len(sizes), 1):
        raise ValueError(f"k = {k}: must be below the number of lengths, {len(sizes)}")
    thresholds = np.empty(k, np.float64)
    info = new_struct("sab_thresholds_info")
    check(
        lib.sab_thresholds_find(
            sizes._handle, k, options, ffi.cast("double *", thresholds.ctypes.data), info
        ),
        calls,
    )
    return record_of(Thresholds, info, thresholds=thresholds)


class Grouping:
    """Samples in groups: index arrays that reorder samples group by group, and restore their order.
    Made by one of the class methods; picklable. Iterating gives the indices of each group.

    Attributes:
        offsets: int64, one more than there are groups: group ``g`` has the places from
            ``offsets[g]`` to below ``offsets[g + 1]``.
        permutation: int64, the sample at each place: ``values[grouping.permutation]`` has them
            group by group.
        inverse: int64, the place of each sample: ``grouped[grouping.inverse]`` puts them back in
            order.
        group_of: int64, the group of each sample.
        intervals: int64 of shape (groups, dimensions): between which thresholds each group lies; no
            columns where the groups were given.

    >>> import sab
    >>> grouping = sab.Grouping.by_thresholds(([16, 1, 5, 64], [4, 16]))
    >>> [indices.tolist() for indices in grouping]
    [[1], [0, 2], [3]]
    >>> grouping.permutation[grouping.inverse].tolist()
    [0, 1, 2, 3]
    """

    offsets: npt.NDArray[np.int64]
    permutation: npt.NDArray[np.int64]
    inverse: npt.NDArray[np.int64]
    group_of: npt.NDArray[np.int64]
    intervals: npt.NDArray[np.int64]

    def __init__(self) -> None:
        raise TypeError(
            "made by by_thresholds(), uni(), predefined(), partition() or consecutive()"
        )

    @classmethod
    def _made(cls, status: int, handle: CData) -> Grouping:
        check(status)
        owned = ffi.gc(handle[0], lib.sab_grouping_free)
        groups = new_struct("sab_grouping_view")
        check(lib.sab_grouping_get_view(owned, groups))

        def copied(pointer: Any, count: int) -> npt.NDArray[np.int64]:
            return (
                np.frombuffer(ffi.buffer(pointer, 8 * count), np.int64).copy()
                if count
                else np.empty(0, np.int64)
            )

        made = cls.__new__(cls)
        made.offsets = copied(groups.offsets, groups.groups + 1)
        made.permutation, made.inverse, made.group_of = (
            copied(each, groups.samples)
            for each in (groups.permutation, groups.inverse, groups.group_of)
        )
        made.intervals = copied(groups.intervals, groups.groups * groups.dimensions).reshape(
            groups.groups, groups.dimensions
        )
        return made

    @classmethod
    def by_thresholds(cls, *dimensions: tuple[SizesLike, npt.ArrayLike]) -> Grouping:
        """Groups by one or several lengths, each a pair of what :class:`sab.Sizes` takes and
        thresholds: up to the first, above it up to the second, ..., above the last.

        Samples in the same interval of every dimension are a group; there are no empty ones; the
        first dimension counts most for their order.
        """
        if not dimensions:
            raise ValueError(
                "dimensions are none: must be at least one pair of lengths and thresholds"
            )
        for pair in cast("tuple[object, ...]", dimensions):
            if not (isinstance(pair, (tuple, list)) and len(cast("list[object]", pair)) == 2):
                raise TypeError(
                    f"dimensions has {brief(pair)}: must be pairs of lengths and thresholds"
                )
        sizes = [as_sizes(lengths, "lengths") for lengths, _ in dimensions]
        rule = "must be numbers in one dimension"
        thresholds = [real_array("thresholds", cuts, rule) for _, cuts in dimensions]
        given = ffi.new("sab_grouping_dimension[]", len(dimensions))
        for number, (each, cuts) in enumerate(zip(sizes, thresholds)):
            if cuts.ndim != 1:
                raise ValueError(
                    f"thresholds of dimension {number} have {cuts.ndim} dimensions: must have one"
                )
            given[number].lengths = each._handle
            given[number].thresholds, given[number].threshold_count = (
                ffi.cast("double *", cuts.ctypes.data),
                cuts.size,
            )
        handle = ffi.new("sab_grouping **")
        return cls._made(lib.sab_grouping_thresholds_new(given, len(dimensions), handle), handle)

    @classmethod
    def uni(cls, samples: int) -> Grouping:
        """All samples in one group."""
        return cls.consecutive([whole("samples", samples, bits=32)])

    @classmethod
    def predefined(cls, group_of: npt.ArrayLike, groups: int | None = None) -> Grouping:
        """Groups given as the number of each sample's group, below ``groups``: by default one more
        than the largest.
        """
        numbers = _whole_numbers("group_of", group_of, np.int64)
        groups = (
            (int(numbers.max()) + 1 if numbers.size else 0)
            if groups is None
            else whole("groups", groups)
        )
        handle = ffi.new("sab_grouping **")
        return cls._made(
            lib.sab_grouping_predefined_new(
                ffi.cast("int64_t *", numbers.ctypes.data), numbers.size, max(groups, 0), handle
            ),
            handle,
        )

    @classmethod
    def partition(cls, parts: Sequence[npt.ArrayLike]) -> Grouping:
        """Groups given as the samples of each, in an order that is kept; each sample exactly
        once.
        """
        arrays = [_whole_numbers("parts", part, np.int64) for part in parts]
        counts = np.array([array.size for array in arrays], np.uint64)
        indices = np.concatenate(arrays) if arrays else np.empty(0, np.int64)
        handle = ffi.new("sab_grouping **")
        status = lib.sab_grouping_partition_new(
            ffi.cast("int64_t *", indices.ctypes.data),
            ffi.cast("uint64_t *", counts.ctypes.data),
            counts.size,
            handle,
        )
        return cls._made(status, handle)

    @classmethod
    def consecutive(cls, counts: npt.ArrayLike) -> Grouping:
        """Groups of consecutive samples; ``counts`` has the number of samples of each group."""
        numbers = _whole_numbers("counts", counts, np.uint64)
        handle = ffi.new("sab_grouping **")
        return cls._made(
            lib.sab_grouping_partition_new(
                ffi.NULL, ffi.cast("uint64_t *", numbers.ctypes.data), numbers.size, handle
            ),
            handle,
        )

    def pad(self, samples: Any, *, padding: Any = 0, batch_dim: int = 0) -> list[Any]:
        """Tensors of samples stacked group by group, padded at the end of each dimension to the
        longest of the group; groups without samples are left out. Needs torch.

        Args:
            samples: a list of tensors, one for each sample, on any device; a nested tensor; or a
                :class:`sab.Jagged` of values and offsets.
            padding: the value at padded places: a number, a tensor of one number, or ``"repeat"``:
                the sample's last element along each dimension.
            batch_dim: position of the dimension of samples in the stacked tensors.

        Gradients pass through it. For samples of several tensors with named dimensions, see
        :class:`sab.Collection`.

        Raises:
            ValueError: there are more or fewer samples than in the grouping, or their dtypes,
                devices or numbers of dimensions differ.

        >>> import sab, torch
        >>> grouping = sab.Grouping.by_thresholds(([3, 1, 2], [2]))
        >>> grouping.pad([torch.ones(3), torch.ones(1), torch.ones(2)])
        [tensor([[1., 0.],
                [1., 1.]]), tensor([[1., 1., 1.]])]
        """
        from sab._padding import pad_groups

        return pad_groups(
            self.permutation, self.offsets, samples, padding=padding, batch_dim=batch_dim
        )

    def masks(self, *lengths: Any, device: Any = None) -> list[Any]:
        """For each group which places of padded samples are their own: bool tensors of shape
        (samples, longest, ...), with a dimension for each of ``lengths``, which are arrays of whole
        numbers. Needs torch.

        Raises:
            ValueError: lengths are not one whole number for each sample.
        """
        from sab._columns import ragged_mask

        if not lengths:
            raise ValueError("lengths: must be at least one array")
        arrays = [_whole_numbers("lengths", each, np.int64) for each in lengths]
        for each in arrays:
            if each.size != self.permutation.size:
                raise ValueError(
                    f"lengths are {each.size}: the grouping has {self.permutation.size} samples"
                )
            if each.size and each.min() < 0:
                raise ValueError(f"lengths hold {each.min()}: must be at least 0")
        stacked = np.stack(arrays, 1)
        return [
            ragged_mask(stacked[indices], stacked[indices].max(0), device=device)
            for indices in self
            if indices.size
        ]

    def join(self, outputs: Sequence[Any]) -> Any:
        """What a module made of each group, put back in the samples' original order. Needs torch;
        gradients go through it.

        Args:
            outputs: for each group with samples a tensor whose first dimension is its samples, or
                dictionaries, tuples and lists of such.

        Raises:
            ValueError: there are more or fewer outputs than groups, or one has another shape than
                it must.

        >>> import sab, torch
        >>> grouping = sab.Grouping.by_thresholds(([3, 1, 2], [2]))
        >>> grouping.join([torch.tensor([10, 20]), torch.tensor([30])])
        tensor([30, 10, 20])
        """
        from sab._padding import join_groups

        return join_groups(self.inverse, self.offsets, outputs)

    def __len__(self) -> int:
        """Number of groups."""
        return self.offsets.size - 1

    def __iter__(self) -> Iterator[npt.NDArray[np.int64]]:
        """The indices of each group's samples."""
        return (self.permutation[begin:end] for begin, end in zip(self.offsets, self.offsets[1:]))

    def __repr__(self) -> str:
        return f"<sab.Grouping: {self.permutation.size:,} samples in {len(self):,} groups>"


def _whole_numbers(name: str, values: npt.ArrayLike, dtype: Any) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(
            f"{name} has dtype {array.dtype} and {array.ndim} dimensions: must be whole numbers "
            "in one dimension"
        )
    if array.size and dtype is np.uint64 and array.min() < 0:
        raise ValueError(f"{name} holds {array.min()}: must be at least 0")
    return np.ascontiguousarray(array, dtype)
