"""Costs of batches, and budgets: limits on costs."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Literal, Protocol, Union, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from sab._arguments import brief, elements, function, one_dimension, real, whole
from sab._native import Calls, CData, check, ffi, keep_exception, lib

__all__ = ["Budget", "Cost"]

_RULE = (
    "must be 'padded', 'quadratic', 'product', coefficients, weights of columns, a function, a "
    "MemoryModel or a sab.Cost"
)
_MAX_POWER = 8  # of a count or a length in a term
ONE_COLUMN = ("",)  # the names of the columns of sizes that have one without a name


class CostFunction(Protocol):
    """What a batch of ``count`` samples, padded to ``length``, costs: finite, at least 0, never
    decreasing in either argument.
    """

    def __call__(self, count: int, length: float, /) -> float: ...


class ColumnsCostFunction(Protocol):
    """The same of samples with several sizes: ``lengths`` has one number a column, and so has
    ``totals``, which are ``count * length``.
    """

    def __call__(
        self, count: int, lengths: tuple[float, ...], totals: tuple[float, ...], /
    ) -> float: ...


@runtime_checkable
class CostModel(Protocol):
    """A model that is a cost, such as a :class:`sab.MemoryModel`."""

    def cost(self) -> Cost:
        """The model as a cost."""
        ...


class Cost:
    """The cost of a batch: immutable, shareable between threads, picklable if its function is.

    ``Cost(function)`` makes a cost of ``function(count, length)``, which must be finite, at least
    0, and never decrease in either argument. With several sizes a sample it is called as
    ``function(count, lengths, totals)``, with a tuple of one number a column each.
    :meth:`padded`, :meth:`terms` and :meth:`transformer` make costs that the library evaluates
    itself.
    ``cost(count, length)`` is the cost of a batch of ``count`` samples, padded to ``length``;
    with several sizes, to a list of lengths.

    >>> import sab
    >>> attention = sab.Cost.terms([(1.0, 1, 2)])
    >>> attention(4, 10)
    400.0
    >>> plan = sab.plan([3, 5, 8, 8], budget=[16, sab.Budget(100, cost=attention)])
    >>> max(bucket.cost for bucket in plan.buckets) <= 16
    True
    """

    _function: CostFunction | ColumnsCostFunction | None
    _handle: CData  # of a cost without a function
    _made_from: tuple[Callable[..., Cost], tuple[object, ...]]

    def __init__(self, function_: CostFunction | ColumnsCostFunction) -> None:
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
    def transformer(cls, hidden: int, layers: int) -> Cost:
        """The time of a transformer's step, in floating-point operations of its forward pass:
        ``layers * (24 * count * length * hidden**2 + 4 * count * length**2 * hidden)``. The first
        term is that of the matrices, the second that of attention.

        Args:
            hidden: the model's hidden size.
            layers: number of layers.

        >>> Cost.transformer(hidden=768, layers=12)(1, 512) > 2 * Cost.transformer(768, 12)(1, 256)
        True
        """
        handle = ffi.new("sab_cost **")
        check(
            lib.sab_cost_transformer_new(whole("hidden", hidden), whole("layers", layers), handle)
        )
        return cls._own(handle, cls.transformer, hidden, layers)

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
        kept: list[CData] = []
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
            array = ffi.new("uint32_t[]", [whole(f"{name}[2]", each, bits=32) for each in powers])
            kept.append(array)
            given[number].length_powers, given[number].column_count = array, len(powers)
            given[number].coefficient = real(f"{name}[0]", coefficient)
            given[number].count_power = whole(f"{name}[1]", count_power, bits=32)
        handle = ffi.new("sab_cost **")
        check(lib.sab_cost_terms_new(given, len(rows), handle))
        return cls._own(handle, cls.terms, terms)

    def __call__(self, count: int, length: float | Sequence[float]) -> float:
        """The cost of a batch of ``count`` samples, padded to ``length``, or to one length a
        column.
        """
        calls = Calls()
        count = whole("count", count)
        if isinstance(length, Sequence):
            given = [real(f"length[{i}]", each) for i, each in enumerate(length)]
        else:
            given = [real("length", length)]
        lengths = ffi.new("double[]", given)
        totals = ffi.new("double[]", [count * each for each in given])
        value = ffi.new("double *")
        handle = self._in_call(calls)
        check(lib.sab_cost_evaluate(handle, count, lengths, totals, len(given), value), calls)
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
        make, arguments = self._made_from
        is_class_method = getattr(make, "__self__", None) is Cost
        return (remake, (make.__name__, arguments)) if is_class_method else self._made_from

    def __repr__(self) -> str:
        make, arguments = self._made_from
        name = "Cost" if make is Cost else f"Cost.{make.__name__}"
        return f"sab.{name}({', '.join(map(repr, arguments))})"


def remake(name: str, arguments: tuple[object, ...]) -> Cost:
    """Makes what was pickled. A function, since cloudpickle copies the code of class methods."""
    make: Callable[..., Cost] = getattr(Cost, name)
    return make(*arguments)


class _CostCall:
    """The function of a cost during one call of the library."""

    def __init__(self, function: CostFunction | ColumnsCostFunction, calls: Calls) -> None:
        self.function: Callable[..., float] = function
        self._calls = weakref.proxy(calls)  # which keeps this

    def keep(self, exception: BaseException) -> None:
        self._calls.keep(exception)


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_cost(
    ctx: CData, count: int, lengths: CData, totals: CData, columns: int, cost: CData
) -> int:
    function = ffi.from_handle(ctx).function
    if columns == 1:
        given = function(count, lengths[0])
    else:
        both = (tuple(ffi.unpack(each, columns)) for each in (lengths, totals))
        given = function(count, *both)
    try:
        cost[0] = given
    except TypeError:
        padded_to = ", ".join(f"{each:g}" for each in ffi.unpack(lengths, columns))
        raise TypeError(
            f"cost({count}, {padded_to}) gave {brief(given)}: must be a number"
        ) from None
    return 0


CostLike = Union[
    Literal["padded", "quadratic", "product"],
    Mapping[str, float],
    Sequence[float],
    CostFunction,
    ColumnsCostFunction,
    CostModel,
    Cost,
]


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

    def __post_init__(self) -> None:
        real("limit", self.limit)


BudgetLike = Union[float, Budget, Mapping[str, float], Sequence[Union[float, Budget]]]


def column_of(name: str, key: object, columns: Sequence[str]) -> int:
    """The column that a key of a dictionary names."""
    if key not in columns or not isinstance(key, str) or not key:
        named = ", ".join(map(repr, columns))
        rule = f"must be one of {named}" if columns[0] else "the sizes have no named columns"
        raise ValueError(f"{name}[{key!r}]: {rule}")
    return list(columns).index(key)


def _weighted(name: str, weights: Mapping[Any, Any], columns: Sequence[str]) -> Cost:
    """The padded size with a weight for each of some columns."""
    given = [0.0] * len(columns)
    for key, weight in weights.items():
        each = f"{name}[{key!r}]"
        given[column_of(name, key, columns)] = real(each, weight)
        if not 0 <= weight < math.inf:
            raise ValueError(f"{each} = {weight}: must be finite and at least 0")
    if not any(given):
        raise ValueError(f"{name} = {brief(weights)}: at least one weight must be above 0")
    return Cost.padded(given)


def _named_cost(name: str, cost: str, columns: Sequence[str]) -> Cost:
    if cost not in ("padded", "quadratic", "product"):
        raise ValueError(f"{name} = {cost!r}: must be one of 'padded', 'quadratic', 'product'")
    if cost == "padded":
        return Cost.padded([1.0] * len(columns))
    if cost == "product":
        return Cost.terms([(1.0, 1, [1] * len(columns))])
    if len(columns) > 1:
        raise ValueError(
            f"{name} = 'quadratic': is for one column, not {len(columns)}; sab.Cost.terms() says "
            "which columns are squared"
        )
    return Cost.terms([(1.0, 1, 2)])


def _polynomial(name: str, coefficients: Any, columns: Sequence[str]) -> Cost:
    try:
        given = one_dimension(name, coefficients, np.float64).tolist()
    except TypeError:
        raise TypeError(f"{name} = {brief(coefficients)}: {_RULE}") from None
    if len(columns) > 1:
        raise ValueError(
            f"{name} = {brief(coefficients)}: coefficients are for one column, not {len(columns)}; "
            "sab.Cost.padded() takes one weight a column"
        )
    if not 2 <= len(given) <= _MAX_POWER + 2:
        raise ValueError(
            f"len({name}) = {len(given)}: must be from 2 to {_MAX_POWER + 2} coefficients"
        )
    for index, coefficient in enumerate(given):
        if not 0 <= coefficient < math.inf:
            raise ValueError(f"{name}[{index}] = {coefficient}: must be finite and at least 0")
    constant, *others = given
    return Cost.terms([(constant, 0, 0), *((each, 1, power) for power, each in enumerate(others))])


def _cost_of(name: str, cost: object, columns: Sequence[str]) -> Cost:
    """What the caller gave as a cost of sizes with these columns."""
    if isinstance(cost, Cost):
        return cost
    if isinstance(cost, CostModel):
        if isinstance(cost, type):
            raise TypeError(f"{name} is the class {cost.__name__}: {_RULE}")
        return cost.cost()
    if isinstance(cost, str):
        return _named_cost(name, cost, columns)
    if isinstance(cost, Mapping):
        return _weighted(name, cast(Any, cost), columns)
    if callable(cost):
        return Cost(cast(CostFunction, cost))
    return _polynomial(name, cost, columns)


def cost_handle(
    name: str, cost: CostLike | None, calls: Calls, columns: Sequence[str] = ONE_COLUMN
) -> CData:
    """What the caller gave as a cost of sizes with these columns, for one call of the library;
    NULL for None.
    """
    return ffi.NULL if cost is None else _cost_of(name, cost, columns)._in_call(calls)


def _column_budgets(
    budget: Mapping[str, float], columns: Sequence[str], calls: Calls
) -> tuple[CData, int]:
    """A limit for each of some columns."""
    if not budget:
        raise ValueError("budget = {}: must have at least one column")
    array = ffi.new("sab_budget[]", len(budget))
    calls.kept.append(array)
    for index, (key, limit) in enumerate(budget.items()):
        name = f"budget[{key!r}]"
        weights = [0.0] * len(columns)
        weights[column_of("budget", key, columns)] = 1.0
        array[index].limit = _limit(name, limit)
        array[index].cost = Cost.padded(weights)._in_call(calls)
        calls.names[f"budgets[{index}].limit"] = name
        calls.names[f"budgets[{index}].cost"] = name
    return array, len(budget)


def _limit(name: str, limit: object) -> float:
    if isinstance(limit, (Cost, CostModel)):
        raise TypeError(f"{name} = {brief(limit)}: must be a number; the cost is given as cost=")
    given = real(name, limit)
    if not 0 < given < math.inf:
        raise ValueError(f"{name} = {given:g}: must be finite and above 0")
    return given


def budget_array(
    budget: BudgetLike | None,
    cost: CostLike | None,
    calls: Calls,
    columns: Sequence[str] = ONE_COLUMN,
) -> tuple[CData, int]:
    """What the caller gave as budgets of sizes with these columns, for one call of the library,
    and their number.
    """
    if budget is None:
        if cost is not None:
            raise ValueError("cost: goes with a budget")
        return ffi.NULL, 0
    is_one = isinstance(budget, (Budget, str)) or not hasattr(budget, "__iter__")
    is_one = is_one or getattr(budget, "ndim", 1) == 0  # an array or a tensor of one number
    if cost is not None and not (is_one and not isinstance(budget, Budget)):
        raise ValueError(
            "cost: goes with a single number as budget; a sab.Budget has a cost of its own"
        )
    if isinstance(budget, Mapping):
        return _column_budgets(budget, columns, calls)
    given = [budget] if is_one else elements("budget", budget)
    array = ffi.new("sab_budget[]", len(given))
    calls.kept.append(array)
    for index, each in enumerate(given):
        name = "budget" if is_one else f"budget[{index}]"
        is_whole = isinstance(each, Budget)
        limit_name, cost_name = f"{name}.limit", f"{name}.cost"
        if not is_whole:
            limit_name, cost_name = name, "cost"
        array[index].limit = _limit(limit_name, each.limit if is_whole else each)
        own = each.cost if is_whole else cost
        array[index].cost = cost_handle(cost_name, own, calls, columns)
        calls.names[f"budgets[{index}].limit"] = limit_name
        calls.names[f"budgets[{index}].cost"] = cost_name
    return array, len(given)


def set_budgets(
    options: CData,
    budget: BudgetLike | None,
    cost: CostLike | None,
    calls: Calls,
    columns: Sequence[str] = ONE_COLUMN,
) -> None:
    """Sets the budgets of options."""
    options.budgets, options.budget_count = budget_array(budget, cost, calls, columns)


BalanceLike = Union[CostLike, Sequence[CostLike]]


def _balances(balance: Any) -> list[tuple[str, Any]]:
    """Each of the costs, with its name in messages. A list of numbers is a single cost."""
    if isinstance(balance, (list, tuple)):
        given = cast("Sequence[Any]", balance)
        if not given:
            raise ValueError(f"balance = {balance!r}: must have at least one cost")
        if not all(hasattr(each, "__float__") and np.ndim(each) == 0 for each in given):
            return [(f"balance[{i}]", each) for i, each in enumerate(given)]
    return [("balance", balance)]


def set_balance(
    options: CData,
    balance: BalanceLike | None,
    calls: Calls,
    columns: Sequence[str] = ONE_COLUMN,
) -> None:
    """Sets the costs that options balance."""
    if balance is None:
        return
    given = _balances(balance)
    handles = [_cost_of(name, cost, columns)._in_call(calls) for name, cost in given]
    array = ffi.new("sab_cost *[]", handles)
    calls.kept.append(array)
    for index, (name, _) in enumerate(given):
        calls.names[f"balance[{index}]"] = name
    options.balance, options.balance_count = array, len(given)
