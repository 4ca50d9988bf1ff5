"""Costs of batches, and budgets: limits on costs."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable, Literal, Protocol, Union, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from sab._arguments import elements, function, one_dimension, real, whole
from sab._native import Calls, CData, check, ffi, keep_exception, lib

__all__ = ["Budget", "Cost"]

_MAX_POWER = 8  # of a count or a length in a term


class CostFunction(Protocol):
    """What a batch of ``count`` samples, padded to ``length``, costs: finite, at least 0, never
    decreasing in either argument.
    """

    def __call__(self, count: int, length: float, /) -> float: ...


@runtime_checkable
class CostModel(Protocol):
    """A model that is a cost, such as a :class:`sab.MemoryModel`."""

    def cost(self) -> Cost:
        """The model as a cost."""
        ...


class Cost:
    """The cost of a batch: immutable, shareable between threads, picklable if its function is.

    ``Cost(function)`` makes a cost of ``function(count, length)``, which must be finite, at least
    0, and never decrease in either argument. :meth:`padded` and :meth:`terms` make costs that the
    library evaluates itself. ``cost(count, length)`` is the cost of a batch of ``count`` samples,
    padded to ``length``.

    >>> import sab
    >>> attention = sab.Cost.terms([(1.0, 1, 2)])
    >>> attention(4, 10)
    400.0
    >>> plan = sab.plan([3, 5, 8, 8], budget=[16, sab.Budget(100, cost=attention)])
    >>> max(bucket.cost for bucket in plan.buckets) <= 16
    True
    """

    _function: CostFunction | None
    _handle: CData  # of a cost without a function
    _made_from: tuple[Callable[..., Cost], tuple[object, ...]]

    def __init__(self, function_: CostFunction) -> None:
        if function("function", function_) is None:
            raise TypeError("function = None: must be a function")
        self._function = function_
        self._made_from = Cost, (function_,)

    @classmethod
    def _own(cls, handle: CData, make: Callable[..., Cost], *arguments: object) -> Cost:
        """Takes over a handle that `make(*arguments)` got from the library."""
        made = cls.__new__(cls)
        made._function = None
        made._handle = ffi.gc(handle[0], lib.sab_cost_free)
        made._made_from = make, arguments
        return made

    @classmethod
    def padded(cls, weights: npt.ArrayLike | None = None) -> Cost:
        """The padded size of a batch: count * length.

        Args:
            weights: one factor for each size of a sample; by default 1 for a single size.

        >>> Cost.padded([0.5])(4, 10)
        20.0
        """
        array = np.ones(1) if weights is None else one_dimension("weights", weights, np.float64)
        handle = ffi.new("sab_cost **")
        numbers = ffi.cast("double *", array.ctypes.data)
        check(lib.sab_cost_padded_new(numbers, array.size, handle))
        return cls._own(handle, cls.padded, weights)

    @classmethod
    def terms(cls, terms: Sequence[tuple[float, int, int | Sequence[int]]]) -> Cost:
        """A sum of terms ``coefficient * count**count_power * length**length_power``.

        Args:
            terms: ``(coefficient, count_power, length_power)`` of each. Samples with several sizes
                have a sequence of length powers.

        >>> Cost.terms([(1000.0, 0, 0), (4.0, 1, 1), (1.0, 1, 2)])(2, 10)
        1280.0
        """
        rows = elements("terms", terms)
        given = ffi.new("sab_cost_term[]", len(rows))
        for number, (name, row) in enumerate((f"terms[{i}]", row) for i, row in enumerate(rows)):
            parts = elements(name, row)
            if len(parts) != 3:
                raise ValueError(
                    f"len({name}) = {len(parts)}: must be 3, a coefficient and two powers"
                )
            coefficient, count_power, powers = parts
            powers = powers if hasattr(powers, "__iter__") else [powers]
            if len(powers) > lib.SAB_MAX_COLUMNS:
                raise ValueError(
                    f"len({name}[2]) = {len(powers)}: must be at most {lib.SAB_MAX_COLUMNS}"
                )
            given[number].coefficient = real(f"{name}[0]", coefficient)
            given[number].count_power = whole(f"{name}[1]", count_power, bits=32)
            for column, power in enumerate(powers):
                given[number].length_powers[column] = whole(f"{name}[2]", power, bits=32)
        handle = ffi.new("sab_cost **")
        check(lib.sab_cost_terms_new(given, len(rows), handle))
        return cls._own(handle, cls.terms, terms)

    def __call__(self, count: int, length: float) -> float:
        """The cost of a batch of ``count`` samples, padded to ``length``."""
        calls = Calls()
        count, length = whole("count", count), real("length", length)
        lengths, totals = ffi.new("double[]", [length]), ffi.new("double[]", [count * length])
        value = ffi.new("double *")
        handle = self._in_call(calls)
        check(lib.sab_cost_evaluate(handle, count, lengths, totals, 1, value), calls)
        return float(value[0])

    def _in_call(self, calls: Calls) -> CData:
        """The handle during one call of the library, which keeps the exception of a function in
        `calls`.
        """
        if self._function is None:
            calls.kept.append(self)
            return self._handle
        context = ffi.new_handle(_CostCall(self._function, calls))
        handle = ffi.new("sab_cost **")
        check(lib.sab_cost_callback_new(lib.sab_py_cost, context, ffi.NULL, handle))
        owned = ffi.gc(handle[0], lib.sab_cost_free)
        calls.kept += [context, owned]
        return owned

    def __reduce__(self) -> tuple[object, ...]:
        return self._made_from

    def __repr__(self) -> str:
        make, arguments = self._made_from
        name = "Cost" if make is Cost else f"Cost.{make.__name__}"
        return f"sab.{name}({', '.join(map(repr, arguments))})"


class _CostCall:
    """The function of a cost during one call of the library."""

    def __init__(self, function: CostFunction, calls: Calls) -> None:
        self.function = function
        self._calls = weakref.proxy(calls)  # which keeps this

    def keep(self, exception: BaseException) -> None:
        self._calls.keep(exception)


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_cost(
    ctx: CData, count: int, lengths: CData, totals: CData, columns: int, cost: CData
) -> int:
    given = ffi.from_handle(ctx).function(count, lengths[0])
    try:
        cost[0] = given
    except TypeError:
        raise TypeError(
            f"cost({count}, {lengths[0]:g}) gave {given!r:.60}: must be a number"
        ) from None
    return 0


CostLike = Union[Literal["padded", "quadratic"], Sequence[float], CostFunction, CostModel, Cost]


@dataclass(frozen=True)
class Budget:
    """A limit on what a batch costs.

    Attributes:
        limit: the largest cost of a batch, finite and above 0.
        cost: what a batch costs, as ``cost`` of :func:`sab.plan`. None: the padded size of a padded
            batch, the sum of the sizes of a row.

    >>> import sab
    >>> sab.plan([3, 5, 8, 8], budget=[16, sab.Budget(80, cost="quadratic")]).budgets
    [16.0, 80.0]
    """

    limit: float
    cost: CostLike | None = None


BudgetLike = Union[float, Budget, Sequence[Union[float, Budget]]]


def _cost_of(name: str, cost: object) -> Cost:
    """What the caller gave as a cost."""
    if isinstance(cost, Cost):
        return cost
    if isinstance(cost, CostModel):
        return cost.cost()
    if isinstance(cost, str):
        if cost not in ("padded", "quadratic"):
            raise ValueError(f"{name} = {cost!r}: must be one of 'padded', 'quadratic'")
        return Cost.padded() if cost == "padded" else Cost.terms([(1.0, 1, 2)])
    if callable(cost):
        return Cost(cast(CostFunction, cost))
    try:
        coefficients = one_dimension(name, cast(Any, cost), np.float64).tolist()
    except TypeError:
        raise TypeError(
            f"{name} = {cost!r:.60}: must be 'padded', 'quadratic', coefficients, a function, "
            "a MemoryModel or a sab.Cost"
        ) from None
    if not 2 <= len(coefficients) <= _MAX_POWER + 2:
        raise ValueError(
            f"len({name}) = {len(coefficients)}: must be from 2 to {_MAX_POWER + 2} coefficients"
        )
    for index, coefficient in enumerate(coefficients):
        if not 0 <= coefficient < math.inf:
            raise ValueError(f"{name}[{index}] = {coefficient}: must be finite and at least 0")
    constant, *others = coefficients
    return Cost.terms([(constant, 0, 0), *((each, 1, power) for power, each in enumerate(others))])


def cost_handle(name: str, cost: CostLike | None, calls: Calls) -> CData:
    """What the caller gave as a cost, for one call of the library; NULL for None."""
    return ffi.NULL if cost is None else _cost_of(name, cost)._in_call(calls)


def budget_array(
    budget: BudgetLike | None, cost: CostLike | None, calls: Calls
) -> tuple[CData, int]:
    """What the caller gave as budgets, for one call of the library, and their number."""
    if budget is None:
        if cost is not None:
            raise ValueError("cost: goes with a budget")
        return ffi.NULL, 0
    is_one = isinstance(budget, (Budget, str)) or not hasattr(budget, "__iter__")
    is_one = is_one or getattr(budget, "ndim", 1) == 0  # an array or a tensor of one number
    given = [budget] if is_one else elements("budget", budget)
    if cost is not None and not (is_one and not isinstance(budget, Budget)):
        raise ValueError(
            "cost: goes with a single number as budget; a sab.Budget has a cost of its own"
        )
    array = ffi.new("sab_budget[]", len(given))
    calls.kept.append(array)
    for index, each in enumerate(given):
        name = "budget" if is_one else f"budget[{index}]"
        is_whole = isinstance(each, Budget)
        limit_name, cost_name = f"{name}.limit", f"{name}.cost"
        if not is_whole:
            limit_name, cost_name = name, "cost"
        limit = real(limit_name, each.limit if is_whole else each)
        if not 0 < limit < math.inf:
            raise ValueError(f"{limit_name} = {limit:g}: must be finite and above 0")
        array[index].limit = limit
        array[index].cost = cost_handle(cost_name, each.cost if is_whole else cost, calls)
        calls.names[f"budgets[{index}].limit"] = limit_name
        calls.names[f"budgets[{index}].cost"] = cost_name
    return array, len(given)


def set_budgets(
    options: CData, budget: BudgetLike | None, cost: CostLike | None, calls: Calls
) -> None:
    """Sets the budgets of options."""
    options.budgets, options.budget_count = budget_array(budget, cost, calls)


def set_balance(options: CData, balance: CostLike | None, calls: Calls) -> None:
    """Sets the cost that options balance."""
    if balance is None:
        return
    array = ffi.new("sab_cost *[]", [cost_handle("balance", balance, calls)])
    calls.kept.append(array)
    calls.names["balance[0]"] = "balance"
    options.balance, options.balance_count = array, 1
