"""Samples that are split over several ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sab._arguments import one_of, place_of, real, whole
from sab._cost import CostLike, cost_handle
from sab._display import one_line
from sab._native import Calls, CData, Progress, check, choices, ffi, lib, new_struct
from sab._sizes import SizesLike, as_sizes

__all__ = ["ContextPart", "ContextPlan", "plan_context"]

ContextGroups = Literal["powers_of_two", "any_number"]
_GROUPS = choices("SAB_CONTEXT_")
_PART = np.dtype(
    [
        ("sample", np.uint64),
        ("part", np.uint32),
        ("of", np.uint32),
        ("head_begin", np.uint64),
        ("head_end", np.uint64),
        ("tail_begin", np.uint64),
        ("tail_end", np.uint64),
        ("start", np.float64),
        ("end", np.float64),
    ]
)


class ContextPart(NamedTuple):
    """A part of a sample, which one rank computes.

    Attributes:
        sample: index of the sample.
        part: number of this part, from 0: the rank of this part in its group.
        of: number of parts, which is the number of ranks in the group.
        offsets: the tokens of this part, as two ranges ``(begin, end)``: one from the head of the
            sample, and the one at the same distance from its tail. With causal attention, all parts
            have the same work.
        start, end: when all ranks of the group begin and end the sample, in the unit of the cost.
    """

    sample: int
    part: int
    of: int
    offsets: tuple[tuple[int, int], tuple[int, int]]
    start: float
    end: float


class ContextPlan:
    """Which parts of which samples each rank computes. Made by :func:`plan_context`; picklable.

    ``plan[rank]`` is the list of :class:`ContextPart` of a rank, in the order in which it computes
    them. ``len(plan)`` is the number of ranks; iterating gives the list of each.

    Attributes:
        samples: number of samples.
        makespan: when the last rank ends, if each takes the time that cost and overhead say.
        lower_bound: no plan for these groups has a lower makespan.
        gap: ``makespan / lower_bound - 1``.
    """

    samples: int
    makespan: float
    lower_bound: float
    gap: float

    def __init__(self) -> None:
        raise TypeError("made by sab.plan_context()")

    @classmethod
    def _made(cls, handle: CData) -> ContextPlan:
        owned = ffi.gc(handle[0], lib.sab_context_plan_free)
        view = new_struct("sab_context_plan_view")
        check(lib.sab_context_plan_get_view(owned, view))
        made = cls.__new__(cls)
        made.samples, made.makespan = view.samples, view.makespan
        made.lower_bound, made.gap = view.lower_bound, view.gap
        count = view.world_size + 1
        offsets = np.frombuffer(ffi.buffer(view.offsets, 8 * count), np.uint64)
        made._offsets = offsets.astype(np.int64)
        size = _PART.itemsize * int(offsets[-1])
        made._parts = np.frombuffer(ffi.buffer(view.parts, size), _PART).copy()
        return made

    _offsets: npt.NDArray[np.int64]
    _parts: npt.NDArray[np.void]

    def __len__(self) -> int:
        return self._offsets.size - 1

    def __getitem__(self, rank: int) -> list[ContextPart]:
        rank = place_of("rank", rank, len(self), f"there are {len(self)} ranks")
        parts = self._parts[self._offsets[rank] : self._offsets[rank + 1]].tolist()
        return [
            ContextPart(sample, part, of, ((a, b), (c, d)), start, end)
            for sample, part, of, a, b, c, d, start, end in parts
        ]

    def __iter__(self) -> Iterator[list[ContextPart]]:
        return (self[rank] for rank in range(len(self)))

    def __repr__(self) -> str:
        facts = [f"{self.samples:,} samples on {len(self):,} ranks"]
        facts += [f"makespan {self.makespan:g}", f"{100 * self.gap:.2g} % over the lower bound"]
        return one_line(self, facts)


def plan_context(
    lengths: SizesLike,
    *,
    world_size: int,
    budget: int,
    cost: CostLike | None = None,
    overhead: float = 0.0,
    groups: ContextGroups = "powers_of_two",
    progress: bool | Progress | None = None,
) -> ContextPlan:
    """Splits samples over ranks so that the ranks end early: context parallelism with groups of
    different sizes. The same arguments give the same plan on all ranks.

    A sample is computed by a group of ranks that follow each other. A rank computes its parts one
    after another, and begins a part when all ranks of the group are free. On k ranks a sample takes
    ``cost / k + overhead * (k - 1)``.

    Args:
        lengths: tokens of each sample: whole numbers, anything that :class:`sab.Sizes` takes.
        world_size: number of ranks.
        budget: tokens that a rank holds at a time. A sample has at least so many ranks that each
            holds at most this number of its tokens.
        cost: cost of a sample on one rank: as for :func:`sab.plan`. ``[0, 0, a, b]`` is
            ``a * length + b * length ** 2``. Default: the length.
        overhead: what each rank of a group after the first adds to the time of a sample, in the
            unit of the cost. With 0 it costs nothing to split a sample, so most samples are split
            over many ranks.
        groups: ``"powers_of_two"``: groups of 1, 2, 4, ... ranks, which begin at multiples of their
            size. ``"any_number"``: groups of any number of ranks, which begin at any rank.
        progress: True for a bar, or ``progress(done, total)``, which stops the call by returning
            False or raising.

    Raises:
        ValueError: an argument breaks a rule, or a sample does not fit on all ranks together; and
            whatever the cost raises.

    >>> import sab
    >>> plan = sab.plan_context([40, 8, 8, 8], world_size=4, budget=16, overhead=0.5)
    >>> plan.makespan, plan.lower_bound
    (19.5, 17.5)
    >>> for part in plan[1]:
    ...     print(part.sample, part.part, part.of, part.offsets)
    0 1 4 ((5, 10), (30, 35))
    2 0 1 ((0, 4), (4, 8))
    """
    calls = Calls(progress=progress, what="context plan")
    options = calls.options("sab_context_options")
    calls.names["limit"] = "budget"
    options.cost = cost_handle("cost", cost, calls)
    options.overhead = real("overhead", overhead)
    options.groups = one_of("groups", groups, _GROUPS)
    sizes = as_sizes(lengths, "lengths")
    handle = ffi.new("sab_context_plan **")
    check(
        lib.sab_context_plan_new(
            sizes._handle, whole("world_size", world_size), whole("budget", budget), options, handle
        ),
        calls,
    )
    return ContextPlan._made(handle)
