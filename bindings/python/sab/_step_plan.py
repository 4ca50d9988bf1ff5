"""The samples of one step, divided among ranks and micro-batches."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from sab._arguments import brief, flag, indices_of, one_dimension, one_of, place_of, whole
from sab._batch import copied
from sab._cost import BalanceLike, BudgetLike, CostLike, set_balance, set_budgets
from sab._display import one_line
from sab._messages import renamed
from sab._native import Calls, CData, Progress, check, choices, ffi, lib, new_struct
from sab._sizes import Sizes, SizesLike, as_sizes

__all__ = ["Segments", "StepPlan", "plan_step"]

_ORDERS = choices("SAB_MICRO_BATCHES_")
_LAYOUTS = {"row": 0, "padded": 1}
_WEIGHTINGS = choices("SAB_LOSS_BY_")


class Segments(NamedTuple):
    """The tokens that a micro-batch computes once, of samples that share some: one number for each
    segment, int64, in the order of the tokens. A segment attends to itself and to the segments
    above it: its parent, the parent of that one, and so on.
    """

    node: Any
    """The node of the forest. With ``prefix`` the sample whose own tokens these are; -1 for the
    prefix of a group."""
    sample: Any
    """The first sample of the micro-batch that has these tokens, from ``position`` on."""
    parent: Any
    """The segment before this one in its samples, which is an earlier one of the micro-batch; -1 at
    the beginning of the samples."""
    position: Any
    """Position of the first token in its samples, from 0."""
    offset: Any
    """Where the first token is in the micro-batch, from 0."""
    length: Any
    """Number of tokens; may be 0."""


class StepPlan:
    """The samples of one step, divided among ranks and micro-batches: what :func:`plan_step`
    returns. Arrays are those of torch, on the device of the lengths, if the lengths are tensors;
    else those of numpy. A plan can be pickled and copied, if the costs that it was made with can
    be: it is then made again from its arguments.

    Attributes:
        world_size: number of ranks.
        micro_batches: micro-batches of each rank.
        least_micro_batches: a lower bound on them, rounded up to ``multiple``.
        indices: int64, the samples of the first micro-batch of rank 0, then of its second, ...
        offsets: int64, one more than there are micro-batches: micro-batch m of rank r is number
            ``k = r * micro_batches + m``, and has ``indices[offsets[k]:offsets[k + 1]]``.
        inverse: int64, the position of each sample in ``indices``: ``results[plan.inverse]``
            restores the order of results. With ``parent`` in the order of the leaves.
        costs: float64 of shape (world_size, micro_batches): the cost of each micro-batch; of
            several balanced costs, a list of such arrays. Always of numpy.
        rank_imbalance: cost of the costliest rank, to the mean of the ranks; a list of several
            costs, as the next two.
        least_rank_imbalance: a lower bound on it.
        micro_step_imbalance: sum over micro-steps of the costliest micro-batch, to the mean of the
            ranks: how much longer the step takes than without waiting, if ranks wait for each
            other after each micro-batch.
    """

    world_size: int
    micro_batches: int
    least_micro_batches: int
    indices: Any
    offsets: Any
    inverse: Any
    costs: Any
    rank_imbalance: Any
    least_rank_imbalance: Any
    micro_step_imbalance: Any

    def __init__(self) -> None:
        raise TypeError("made by sab.plan_step()")

    @classmethod
    def _made(
        cls, handle: CData, lengths: Mapping[str, Any], options: dict[str, Any], device: Any
    ) -> StepPlan:
        view = new_struct("sab_step_plan_view")
        check(lib.sab_step_plan_get_view(handle, view))
        made = cls.__new__(cls)
        made._handle, made._made_from = handle, (lengths, options, device)
        made.world_size, made.micro_batches = view.world_size, view.micro_batches
        made.least_micro_batches = view.least_micro_batches
        parts = view.world_size * view.micro_batches
        made._nodes = view.nodes
        made._edges = made._row_edges = copied(view.offsets, parts + 1, np.int64)
        made._segments = None
        if view.segments:
            made._row_edges = copied(view.segment_offsets, parts + 1, np.int64)
            fields = len(Segments._fields)
            numbers = copied(view.segments, int(made._row_edges[-1]) * fields, np.int64)
            columns = np.ascontiguousarray(numbers.reshape(-1, fields).T)
            made._segments = Segments(*(_placed(column, device) for column in columns))
        made.indices = _placed(copied(view.indices, view.samples, np.int64), device)
        made.offsets = _placed(made._edges, device)
        made.inverse = _placed(copied(view.inverse, view.samples, np.int64), device)
        made._cu_seqlens = [
            _placed(copied(view.cu_seqlens[j], int(made._row_edges[-1]) + parts, np.int32), device)
            for j in range(view.columns if view.cu_seqlens else 0)
        ]
        kinds = view.balance_count
        costs = copied(view.costs, kinds * parts, np.float64)
        costs = costs.reshape(kinds, view.world_size, view.micro_batches)
        made.costs = costs[0] if kinds == 1 else list(costs)
        for name in ("rank_imbalance", "least_rank_imbalance", "micro_step_imbalance"):
            numbers = ffi.unpack(getattr(view, name), kinds)
            setattr(made, name, numbers[0] if kinds == 1 else numbers)
        return made

    _handle: CData
    _made_from: tuple[Mapping[str, Any], dict[str, Any], Any]  # the arguments of remake()
    _nodes: int
    _edges: npt.NDArray[np.int64]
    _row_edges: npt.NDArray[np.int64]  # of the segments, if there are some; else of the samples
    _cu_seqlens: list[Any]
    _segments: Segments | None

    def _numbers_of(self, rank: int) -> range:
        place = place_of("rank", rank, self.world_size, f"there are {self.world_size} ranks")
        return range(place * self.micro_batches, (place + 1) * self.micro_batches)

    def rank(self, rank: int) -> list[Any]:
        """The indices of each micro-batch of a rank, in the order in which it runs them."""
        edges = self._edges
        return [self.indices[edges[k] : edges[k + 1]] for k in self._numbers_of(rank)]

    def cu_seqlens(self, rank: int) -> list[Any]:
        """The cumulative lengths of each micro-batch of a rank, int32, as kernels for attention of
        variable length take them. With several columns a dictionary for each micro-batch. Of
        samples that share tokens, those of the segments.

        Raises:
            ValueError: the layout is padded, or sizes are not whole numbers with sums below 2**31.
        """
        if not self._cu_seqlens:
            raise ValueError(
                "cu_seqlens: only rows of whole numbers whose sum is below 2**31 have them"
            )
        edges = self._row_edges
        found: list[Any] = []
        for k in self._numbers_of(rank):
            each = [array[edges[k] + k : edges[k + 1] + k + 1] for array in self._cu_seqlens]
            found.append(each[0] if len(each) == 1 else dict(zip(self._made_from[0], each)))
        return found

    def segments(self, rank: int) -> list[Segments]:
        """What each micro-batch of a rank computes once, of samples that share tokens.

        Raises:
            ValueError: the plan was made without ``prefix`` and ``parent``.

        >>> import sab
        >>> grid = sab.plan_step([7, 9, 6], budget=16, groups=[0, 0, 1], prefix=[5, 5, 2])
        >>> [(each.node.tolist(), each.length.tolist()) for each in grid.segments(0)]
        [([-1, 0, 1], [5, 2, 4]), ([-1, 2], [2, 4])]
        """
        if self._segments is None:
            raise ValueError("segments: only plans with prefix or parent have them")
        edges, numbers = self._row_edges, self._segments
        return [
            Segments(*(each[edges[k] : edges[k + 1]] for each in numbers))
            for k in self._numbers_of(rank)
        ]

    def loss_weights(
        self,
        by: Literal["sample", "token", "group"] = "token",
        *,
        tokens: npt.ArrayLike | None = None,
    ) -> Any:
        """The weight of each sample in the loss of the step, float64, in the order of the lengths.
        Their sum is 1. With ``parent``, nodes that are not leaves have 0.

        The loss of a sample is the mean over its tokens. The sum of weight * loss over all samples
        is the mean over the step, however they are divided. A framework that averages gradients
        over ranks needs ``world_size`` times this loss.

        Args:
            by: what counts equally: each ``"sample"``; each ``"token"``; each ``"group"``, and in
                it each sample.
            tokens: with ``"token"``, the tokens of each sample that count in the loss, such as
                those of a response. Default: its lengths.

        >>> import sab
        >>> sab.plan_step([1, 2, 5], budget=8).loss_weights("token").tolist()
        [0.125, 0.25, 0.625]
        """
        counted: Any = ffi.NULL
        if tokens is not None:
            given = one_dimension("tokens", tokens, np.float64)
            if given.size != self._nodes:
                what = "samples" if self._made_from[1]["parent"] is None else "nodes"
                raise ValueError(
                    f"tokens has {given.size} numbers: must have one for each of "
                    f"{self._nodes} {what}"
                )
            counted = ffi.cast("double *", given.ctypes.data)
        weights = np.empty(self._nodes, np.float64)
        check(
            lib.sab_step_plan_get_loss_weights(
                self._handle,
                one_of("by", by, _WEIGHTINGS),
                counted,
                ffi.cast("double *", weights.ctypes.data),
            )
        )
        return _placed(weights, self._made_from[2])

    def __reduce__(self) -> tuple[Any, ...]:
        return remake, self._made_from

    def __repr__(self) -> str:
        uneven = self.rank_imbalance
        shown: list[Any] = [uneven] if isinstance(uneven, float) else uneven
        return one_line(
            self,
            (
                f"{len(self.indices):,} samples",
                f"{self.world_size:,} ranks",
                f"{self.micro_batches:,} micro-batches each",
                f"slowest rank {', '.join(f'{each:.4f}' for each in shown)} of the mean",
            ),
        )


def _device_of(lengths: object) -> Any:
    """The device of lengths that are a tensor of torch, or have one as a column; else None."""
    torch: Any = sys.modules.get("torch")
    given: Any = lengths
    columns: list[Any] = list(given.values()) if isinstance(lengths, Mapping) else [lengths]
    found = [each for each in columns if torch is not None and isinstance(each, torch.Tensor)]
    return found[0].device if found else None


def _ids_of(groups: Any) -> npt.NDArray[np.int64]:
    """A copy of the ids of groups; texts are numbered."""
    is_of_texts = isinstance(groups, np.ndarray) and groups.dtype.kind in "OTU"
    given: list[Any] = []
    if is_of_texts or isinstance(groups, (list, tuple)):
        given = list(cast("Iterable[Any]", groups))
    if given and all(isinstance(each, str) for each in given):
        numbers = {text: number for number, text in enumerate(dict.fromkeys(given))}
        return np.array([numbers[text] for text in given], np.int64)
    return indices_of("groups", cast("Any", groups)).copy()


def _values_of(source: Sizes) -> dict[str, Any]:
    """A copy of each column by its name, which is empty for one column without a name."""
    columns = {name: source.column(name) if name else source for name in source.columns}
    return {name: np.array(column.values()) for name, column in columns.items()}


def _placed(array: npt.NDArray[Any], device: Any) -> Any:
    """The array as a tensor on a device; unchanged without one."""
    return array if device is None else sys.modules["torch"].from_numpy(array).to(device)


def plan_step(
    lengths: SizesLike,
    *,
    world_size: int = 1,
    budget: BudgetLike | None = None,
    cost: CostLike | None = None,
    micro_batches: int | None = None,
    multiple: int = 1,
    layout: Literal["row", "padded"] = "row",
    balance: BalanceLike | None = None,
    groups: npt.ArrayLike | Sequence[str] | None = None,
    prefix: npt.ArrayLike | None = None,
    parent: npt.ArrayLike | None = None,
    whole_groups: bool = False,
    order: Literal["ascending", "descending", "bell"] = "descending",
    progress: bool | Progress | None = None,
) -> StepPlan:
    """Divides the samples of one step among ranks and micro-batches, when their lengths are known
    only as the step begins: in reinforcement learning, and in fine-tuning on generated data.

    No micro-batch exceeds a budget. All ranks have the same number of micro-batches. Ranks cost
    nearly the same in sum and in each micro-step, the micro-batch that all ranks run at the same
    time. A micro-batch is empty only if there are fewer samples than micro-batches; with
    ``groups``, only if its rank has fewer. With ``prefix`` or ``parent`` it may be empty where
    another division would compute more tokens. The plan is a function of the arguments alone: ranks
    that have all lengths need not communicate.

    Args:
        lengths: of the samples of the step: anything that :class:`sab.Sizes` takes, such as an
            array, a tensor, or a dictionary of several columns.
        world_size: number of ranks.
        budget: limits that each micro-batch keeps: tokens, or as for :class:`sab.BalancedSampler`.
        cost: of a micro-batch, with a single number as ``budget``.
        micro_batches: micro-batches of each rank, rounded up to ``multiple``. Default: the fewest
            that were found; with ``prefix`` or ``parent`` more, where fewer would compute more
            tokens.
        multiple: the number of micro-batches is a multiple of this, such as the stages of an
            interleaved pipeline.
        layout: ``"row"``: samples end to end without padding; ``"padded"``: a micro-batch is padded
            to its longest sample.
        balance: the cost that is evened out, or several. Default: the cost of the first budget.
        groups: an id for each sample; samples with the same id are of the same rank, such as the
            responses to one prompt. Any whole numbers, or texts, which are numbered from 0 in the
            order in which they first occur. With ``prefix`` a group may be on several ranks.
        prefix: for each sample the number of leading tokens that it shares with its group, such as
            those of the prompt; equal within a group. A micro-batch computes them once:
            :meth:`StepPlan.segments` says where they are. Lengths are those of whole samples.
        parent: for each node of a forest the index of its parent, or -1; ``lengths`` are then the
            tokens of the nodes. The samples are the leaves, and the index of a sample is that of
            its leaf. In place of ``groups`` and ``prefix``.
        whole_groups: with ``prefix`` or ``parent``, the samples of a group or tree are of the same
            rank. Without ``prefix`` groups always are.
        order: of the micro-batches of a rank by cost: ``"descending"``, ``"ascending"``, or
            ``"bell"`` with the costliest in the middle.
        progress: True for a bar, or ``progress(done, total)``, which stops the call by returning
            False or raising.

    Raises:
        ValueError: an argument breaks a rule; a sample alone exceeds a budget; or the given
            ``micro_batches`` do not suffice.

    >>> import sab
    >>> grid = sab.plan_step([7, 2, 5, 3, 6, 1], world_size=2, budget=8)
    >>> grid
    <sab.StepPlan: 6 samples, 2 ranks, 2 micro-batches each, slowest rank 1.0000 of the mean>
    >>> [indices.tolist() for indices in grid.rank(0)]
    [[0], [1, 3]]
    >>> [cu_seqlens.tolist() for cu_seqlens in grid.cu_seqlens(1)]
    [[0, 6], [0, 5, 6]]
    """
    try:
        source = as_sizes(lengths, "lengths")
    except (TypeError, ValueError) as error:
        text = renamed(str(error), "lengths")
        if text == str(error):
            raise
        raise type(error)(text) from error.__cause__
    options = {
        "world_size": world_size,
        "budget": budget,
        "cost": cost,
        "micro_batches": micro_batches,
        "multiple": multiple,
        "layout": layout,
        "balance": balance,
        "groups": None if groups is None else _ids_of(groups),
        "prefix": None if prefix is None else indices_of("prefix", prefix).copy(),
        "parent": None if parent is None else indices_of("parent", parent).copy(),
        "whole_groups": whole_groups,
        "order": order,
    }
    return _planned(source, options, _device_of(lengths), progress)


def remake(lengths: dict[str, Any], options: dict[str, Any], device: Any) -> StepPlan:
    """Makes a plan again from what its `__reduce__` gave."""
    return _planned(as_sizes(lengths.get("", lengths)), options, device)


def _planned(
    source: Sizes, given: dict[str, Any], device: Any, progress: bool | Progress | None = None
) -> StepPlan:
    calls = Calls(progress=progress, what="step plan")
    calls.names |= {"sizes": "lengths", "sizes.columns": "columns of lengths"}
    options = calls.options("sab_step_plan_options")
    options.world_size = whole("world_size", given["world_size"], 1)
    set_budgets(options, given["budget"], given["cost"], calls, source.columns)
    if given["micro_batches"] is not None:
        options.micro_batches = whole("micro_batches", given["micro_batches"], 1)
    elif options.budget_count == 0:
        raise ValueError(
            f"micro_batches = None and budget = {brief(given['budget'])}: micro-batches of a rank, "
            "or a budget, must be given"
        )
    options.multiple = whole("multiple", given["multiple"], 1)
    options.padded = one_of("layout", given["layout"], _LAYOUTS)
    set_balance(options, given["balance"], calls, source.columns)
    options.order = one_of("order", given["order"], _ORDERS)
    options.whole_groups = flag("whole_groups", given["whole_groups"])
    calls.names["parents"] = "parent"
    for name, field in (("groups", "groups"), ("prefix", "prefix"), ("parent", "parents")):
        numbers = given[name]
        if numbers is None:
            continue
        if numbers.size != len(source):
            raise ValueError(
                f"{name} has {numbers.size} {'ids' if name == 'groups' else 'numbers'}: "
                f"must have one for each of {len(source)} "
                f"{'nodes' if name == 'parent' else 'samples'}"
            )
        setattr(options, field, ffi.cast("int64_t *", numbers.ctypes.data))
    handle = ffi.new("sab_step_plan **")
    check(lib.sab_step_plan_new(source._handle, options, handle), calls)
    plan = ffi.gc(handle[0], lib.sab_step_plan_free)
    return StepPlan._made(plan, _values_of(source), given, device)
