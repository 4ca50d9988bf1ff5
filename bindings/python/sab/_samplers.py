"""Samplers of a plan."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, cast

from sab._arguments import whole
from sab._batch import Shape, shapes_of
from sab._cost import BalanceLike, Budget, BudgetLike, Cost
from sab._display import Facts
from sab._memory_budget import NotPlanned, Waiting, share_of
from sab._model import MemoryModel
from sab._native import Calls, CData, MismatchError, SkippedWarning, lib, warn_of_skipped
from sab._order import LastStep, order_of, sampler_options
from sab._plan import Plan, new_plan
from sab._plan_options import PlanOptions, check_names, why_skipped
from sab._random_access import RandomAccessSampler
from sab._sampler import Output
from sab._sizes import Sizes, SizesLike, as_sizes

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["BucketSampler", "SequentialSampler"]

_PLAN_RULE = (
    "must be a sab.Plan, or the size of each sample, as an array or a list of numbers, with budget="
)


class PlanSampler(RandomAccessSampler):
    """A sampler of the batches of a plan."""

    _plan: Plan = cast("Any", NotPlanned())
    _handle: CData = cast("Any", NotPlanned())
    _waiting: Waiting | None = None  # for the memory of a step to be known
    _planned_from: tuple[Sizes, BudgetLike | None, PlanOptions] | None = None  # what was given

    @property
    def plan(self) -> Plan:
        """The plan: the one that was given, or the one that was made of the sizes. After
        :meth:`load_state_dict` with a lowered budget that of the state.
        """
        return self._plan

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the batches of the current epoch, of all ranks: as :attr:`Plan.shapes`,
        with those of a last step that is split. After :meth:`set_budget`, those of the batches from
        there on. Without ``max_shapes`` or ``shapes="auto"`` they are upper limits: a batch of the
        same count may be padded to less.
        """
        return shapes_of(lib.sab_sampler_get_shape, self._handle, self._plan.columns)

    def _sample_count(self) -> int:
        if self._waiting is not None:
            return len(self._waiting.sizes)
        mixture = self._plan._mixture
        return self._plan.sample_count if mixture is None else len(mixture)

    def _facts(self) -> Facts:
        return super()._facts() if self._waiting is None else [("budget", "memory")]

    def _waits(
        self, sizes: Plan | SizesLike, budget: BudgetLike | str | None, options: dict[str, Any]
    ) -> bool:
        """Whether the budget is that of memory, which is not known yet."""
        share = share_of(budget)
        if share is None:
            return False
        if isinstance(sizes, Plan):
            raise TypeError("budget: must not be given with a plan, which is made already")
        if options.pop("cost", None) is not None:
            raise ValueError(f"cost: must not be given with budget = {budget!r}, which measures it")
        sizes = as_sizes(sizes, "plan", _PLAN_RULE)
        self._try(sizes, options)
        self._waiting = Waiting(share, sizes, options)
        self._made_from = (self._waiting.sizes, budget), options
        return True

    def _try(self, sizes: Sizes, options: Mapping[str, Any]) -> None:
        """Refuses wrong options before the memory is measured: makes a sampler of the smallest
        batches.
        """
        least = whole("min_batch_size", options.get("min_batch_size", 1)) or 1
        by_count = Budget(least, Cost.terms([(1.0, 1, [0] * len(sizes.columns))]))
        make = cast("Callable[..., PlanSampler]", type(self))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkippedWarning)
            make(sizes, by_count, **{**options, "progress": None}).close()

    def _take_memory(self, model: MemoryModel, budget: float) -> None:
        """Makes the plan of a sampler that waits for it."""
        waiting = cast("Waiting", self._waiting)
        make = cast("Callable[..., None]", type(self).__init__)
        make(self, waiting.sizes, budget, cost=model, **waiting.options)
        self._waiting = None

    def _take_plan(
        self, plan: Plan | SizesLike, budget: BudgetLike | None, options: PlanOptions
    ) -> int:
        """Takes a plan, or makes it of sizes. Returns the number of samples of a new plan that are
        skipped.
        """
        if not isinstance(plan, Plan):
            sizes = as_sizes(plan, "plan", _PLAN_RULE)
            self._plan = new_plan(sizes, budget, options)
            self._planned_from = sizes, budget, options
            return self._plan.skipped_count
        check_names(options)
        given = [name for name, value in {"budget": budget, **options}.items() if value is not None]
        if given:
            raise TypeError(
                f"{', '.join(given)}: must not be given with a plan, which is made already; pass "
                "the sizes in the place of the plan"
            )
        self._plan = plan
        return 0

    def _beside_state(self) -> dict[str, Any]:
        return {"budgets": self._plan.budgets}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As for all samplers. A sampler that was made of sizes also takes the state of one with
        larger budgets: it makes the plan of the state again, and lowers its budgets as
        :meth:`set_budget` does, for the rest of the epoch and the following ones.
        """
        try:
            super().load_state_dict(state_dict)
        except MismatchError:
            if not self._take_larger_plan(state_dict):
                raise

    def _take_larger_plan(self, state_dict: dict[str, Any]) -> bool:
        """Takes a state of larger budgets. False, without a change, for another one."""
        own, given = self._plan.budgets, state_dict.get("budgets")
        if self._planned_from is None or not isinstance(given, list):
            return False
        limits = cast("list[object]", given)
        larger = [limit for limit in limits if isinstance(limit, float)]
        if not len(own) == len(larger) == len(limits):
            return False
        if any(mine > limit for mine, limit in zip(own, larger)):
            return False
        sizes, budget, options = self._planned_from
        kind = cast("Callable[..., PlanSampler]", type(self))
        other = kind(new_plan(sizes, budget, options, larger), **self._made_from[1])
        try:
            other.load_state_dict(state_dict)
        except MismatchError:
            return False
        for index, limit in enumerate(own):
            if limit < other.get_budget(index):
                other.set_budget(limit, index)
        self._plan, self._made_from = other._plan, other._made_from
        self._handle, self._limits = other._handle, other._limits
        self._has_loaded()
        return True


class BucketSampler(PlanSampler):
    """The batches of a plan in a shuffled, resumable order: any batch is a pure function of plan,
    seed, epoch and position, and of the options that the epoch began with.

    :class:`sab.torch.DataLoader` loads the samples. With ``output="list"`` it is also a
    ``batch_sampler`` of torch's own ``DataLoader``, whose data set then gets ``int`` indices.

    Args:
        plan: a :class:`sab.Plan`; or sizes, anything that :class:`sab.Sizes` takes, of which a plan
            is made (:attr:`plan`).
        budget: with sizes: as for :func:`sab.plan`. Its other options may be given by name. Or
            ``"memory"``: as much as fits the memory of the device; then a loader or trainer makes
            the plan when training begins, by steps that it runs (docs/guide/memory.md).
            ``"memory:0.8"`` is for another share than 0.9 of what is free.
        seed: of the order; the same on all ranks.
        rank, world_size: this rank among the ranks. All take the same number of steps, of nearly
            equal cost, without communication.
        last_step: the batches that do not fill the last step of all ranks: ``"split"`` between them
            (nothing lost or repeated), ``"drop"``, ``"wrap"``.
        costliest_first: begin each epoch with at least this many of the costliest batches.
        micro_batches: batches that each rank takes in a step of the optimizer (gradient
            accumulation), of different lengths. ``len()``, positions and states count batches;
            :meth:`step` gives the weights of the loss.
        steps_per_epoch: steps of an epoch: a ``for`` loop then ends after so many steps, and the
            next one goes on where it stopped, in the next epoch of the data if need be.
            ``len()`` is ``steps_per_epoch * micro_batches``. 0: an epoch has each sample once.
        mix_lengths: False: of batches of nearly equal cost, those of like length form a micro-step,
            so that ranks wait little even where time is not in proportion to the budget. True: a
            micro-step holds batches of all lengths.
        balance: the cost that a micro-step evens out over the ranks, such as "quadratic" or
            :meth:`sab.Cost.transformer`: anything that ``cost`` of :func:`sab.plan` takes. None:
            that of the first budget.
        output: ``"numpy"`` arrays, or ``"list"`` of int.

    >>> import sab
    >>> plan = sab.plan([5, 3, 5, 4, 3, 4], budget=10, boundaries=[3, 4, 5, 6])
    >>> sampler = sab.BucketSampler(plan, seed=1)
    >>> len(sampler), sorted(index for batch in sampler for index in batch.tolist())
    (3, [0, 1, 2, 3, 4, 5])
    >>> len(sab.BucketSampler([5, 3, 5, 4, 3, 4], budget=10, boundaries=[3, 4, 5, 6]))
    3
    """

    def __init__(
        self,
        plan: Plan | SizesLike,
        budget: BudgetLike | str | None = None,
        *,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        last_step: LastStep = "split",
        costliest_first: int = 0,
        micro_batches: int = 1,
        steps_per_epoch: int = 0,
        mix_lengths: bool = False,
        balance: BalanceLike | None = None,
        output: Output = "numpy",
        **options: Unpack[PlanOptions],
    ) -> None:
        order = order_of(locals())
        sampler_options(order)  # refuses wrong ones before a plan is made
        waiting = {**order, "balance": balance, "output": output, **options}
        if self._waits(plan, budget, waiting):
            return
        skipped = self._take_plan(plan, cast("BudgetLike | None", budget), options)
        calls = Calls()
        walk = sampler_options(order, balance, calls, self._plan.columns)
        self._construct(output, lib.sab_bucket_sampler_new, self._plan._handle, walk, calls=calls)
        self._columns = self._plan.columns
        self._made_from = (self._plan,), {**order, "balance": balance, "output": output}
        why = why_skipped(options.get("min_batch_size", 0))
        warn_of_skipped(skipped, self._plan.sample_count, why)


class SequentialSampler(PlanSampler):
    """The batches of a plan unshuffled, by ascending size: for evaluation. Arguments as for
    :class:`BucketSampler`.
    """

    def __init__(
        self,
        plan: Plan | SizesLike,
        budget: BudgetLike | None = None,
        *,
        rank: int = 0,
        world_size: int = 1,
        last_step: LastStep = "split",
        micro_batches: int = 1,
        steps_per_epoch: int = 0,
        output: Output = "numpy",
        **options: Unpack[PlanOptions],
    ) -> None:
        order = order_of(locals())
        walk = sampler_options(order)
        skipped = self._take_plan(plan, budget, options)
        self._construct(output, lib.sab_sequential_sampler_new, self._plan._handle, walk)
        self._columns = self._plan.columns
        self._made_from = (self._plan,), {**order, "output": output}
        why = why_skipped(options.get("min_batch_size", 0))
        warn_of_skipped(skipped, self._plan.sample_count, why)
