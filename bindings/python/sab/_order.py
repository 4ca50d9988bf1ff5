"""The options that samplers share: the order of the batches, and which rank takes which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, cast

from sab._arguments import flag, one_of, whole
from sab._cost import ONE_COLUMN, BalanceLike, set_balance
from sab._native import Calls, CData, choices, new_struct

LAST_STEPS = choices("SAB_LAST_STEP_")
LastStep = Literal["split", "drop", "wrap"]


class Order(TypedDict, total=False):
    """The options of samplers in C, without the balance."""

    seed: int
    rank: int
    world_size: int
    epoch: int
    last_step: LastStep
    costliest_first: int
    micro_batches: int
    steps_per_epoch: int
    mix_lengths: bool


def order_of(arguments: Mapping[str, Any]) -> Order:
    """Those of a function's arguments, its ``locals()`` at the beginning, that samplers share."""
    return cast(
        "Order", {name: arguments[name] for name in Order.__annotations__ if name in arguments}
    )


def options_of(arguments: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """Those of a constructor's arguments, its ``locals()`` at the beginning, that make the sampler
    again: all but `others` and what is of one call.
    """
    left_out = {"self", "__class__", "progress", *others}
    return {name: value for name, value in arguments.items() if name not in left_out}


def sampler_options(
    order: Order,
    balance: BalanceLike | None = None,
    calls: Calls | None = None,
    columns: Sequence[str] = ONE_COLUMN,
) -> CData:
    """The options of a sampler in C, those that are not given with their defaults. A balance, of
    sizes with these columns, needs the calls that it is for.
    """
    options = new_struct("sab_sampler_options")
    options.seed = whole("seed", order.get("seed", 0))
    options.rank = whole("rank", order.get("rank", 0))
    options.world_size = whole("world_size", order.get("world_size", 1), 1)
    options.epoch = whole("epoch", order.get("epoch", 0))
    options.costliest_first = whole("costliest_first", order.get("costliest_first", 0))
    options.last_step = one_of("last_step", order.get("last_step", "split"), LAST_STEPS)
    options.micro_batches = whole("micro_batches", order.get("micro_batches", 1), 1)
    options.steps_per_epoch = whole("steps_per_epoch", order.get("steps_per_epoch", 0))
    options.mix_lengths = flag("mix_lengths", order.get("mix_lengths", False))
    if calls is not None:
        set_balance(options, balance, calls, columns)
    return options
