"""Where the batches of training come from."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from sab._cost import BudgetLike
from sab._memory_budget import share_of
from sab._native import UnsupportedError
from sab._pack import PackedSampler
from sab._plan import Plan
from sab._random_access import RandomAccessSampler
from sab._ranks import BalancedSampler
from sab._sampler import Sampler
from sab._samplers import BucketSampler, PlanSampler
from sab._sizes import Sizes, SizesLike
from sab.torch._frameworks import has_ranks
from sab.transformers._data import sizes_of
from sab.transformers._memory import TrainerMemory

transformers: Any = importlib.import_module("transformers")

# Options of sab.plan that evaluation takes, too.
_OF_EVALUATION = (
    "batch_size_multiple",
    "cost",
    "length_multiple",
    "max_batch_size",
    "max_shapes",
    "padding",
    "shapes",
)
_OF_ORDER = (
    "balance",
    "costliest_first",
    "last_step",
    "mix_lengths",
    "seed",
    "steps_per_epoch",
)
# Options that steps of random samples take.
_OF_RANDOM_STEPS = (
    "balance",
    "cost",
    "last_step",
    "length_multiple",
    "oversize",
    "seed",
    "steps_per_epoch",
)
_FEWEST_RANDOM = 8  # micro-batches of a step, so that little of them is padding


class Training:
    """The batches of training: of one of the arguments of ``prepare``.

    Args:
        given: the arguments ``budget``, ``capacity``, ``batch_size``, ``plan`` and ``sampler``.
        steps: the argument of ``prepare``.
        options: the other options.
    """

    def __init__(
        self,
        trainer: Any,
        given: Mapping[str, Any],
        lengths: Callable[[Any], SizesLike] | None,
        steps: str | None,
        options: Mapping[str, Any],
    ) -> None:
        self.trainer, self.lengths, self.options = trainer, lengths, dict(options)
        named = {name: value for name, value in given.items() if value is not None}
        if "budget" in named and "batch_size" in named:  # an option of the plan
            self.options["batch_size"] = named.pop("batch_size")
        if len(named) != 1:
            raise ValueError(f"{', '.join(given)}: exactly one of them must be given")
        [(self.source, value)] = named.items()
        self.value: Any = value
        self.memory: TrainerMemory | None = None  # with budget="memory"
        _check_type(self.source, value)
        self._check_steps(steps)
        self.steps = steps
        if self.source in ("plan", "sampler"):
            self._check_options()
        if self.source == "sampler":
            self._check_sampler()
        if self.has_rows:
            _check_rows(trainer, self._of_rows())

    def _check_steps(self, steps: str | None) -> None:
        if steps not in (None, "random", "bucketed"):
            raise ValueError(f"steps = {steps!r}: must be 'random', 'bucketed' or None")
        if steps == "random" and (reason := self._reason_for_buckets()) is not None:
            raise ValueError(f"steps = 'random': {reason}")

    def _reason_for_buckets(self) -> str | None:
        """Why steps cannot be random samples; None if they can."""
        if self.source != "budget":
            return f"needs a budget, and {self.source} is given"
        if share_of(self.value) is not None:
            return f"must be 'bucketed' with budget = {self.value!r}"
        unknown = sorted(self.options.keys() - set(_OF_RANDOM_STEPS))
        if unknown:
            return f"has no {unknown[0]}, which is an option of buckets"
        if self.options.get("oversize") == "single":
            return "oversize must be 'error' or 'skip'"
        costs = [self.options.get("cost"), self.options.get("balance")]
        costs += [getattr(each, "cost", None) for each in _as_list(self.value)]
        each_cost = [each for cost in costs for each in _as_list(cost)]
        if any(callable(each) and not hasattr(each, "_handle") for each in each_cost):
            return "costs must not be functions"
        return None

    def _has_random_steps(self, micro_batches: int) -> bool:
        if self.steps is not None:
            return self.steps == "random"
        return micro_batches >= _FEWEST_RANDOM and self._reason_for_buckets() is None

    @property
    def has_rows(self) -> bool:
        """Whether a batch is a row of samples laid end to end."""
        if self.source == "sampler":
            return cast("RandomAccessSampler", self.value).batch(0).layout == "row"
        return self.source == "capacity"

    def _of_rows(self) -> Mapping[str, Any]:
        """The options of the sampler of rows."""
        sampler: Any = self.value
        return sampler._order() if self.source == "sampler" else self.options

    def _check_options(self) -> None:
        known = _OF_EVALUATION if self.source == "sampler" else (*_OF_EVALUATION, *_OF_ORDER)
        unknown = sorted(self.options.keys() - set(known))
        if unknown:
            raise ValueError(
                f"{unknown[0]}: must not be given with {self.source}, which is made already"
            )
        dataset = self.trainer.train_dataset
        count = self.value.sample_count if self.source == "plan" else self.value._sample_count()
        if dataset is not None and count not in (None, len(dataset)):
            raise ValueError(
                f"{self.source}: was made of {count} samples: train_dataset has {len(dataset)}"
            )

    def _check_sampler(self) -> None:
        order = self.value._order()
        known, each = order.get("micro_batches"), self.trainer.args.gradient_accumulation_steps
        if known not in (None, each):
            raise ValueError(
                f"gradient_accumulation_steps = {each}: the sampler has micro_batches = {known}; "
                f"make it with micro_batches={each}"
            )

    def sampler(self, rank: int, world_size: int) -> RandomAccessSampler:
        """The sampler of a rank."""
        if self.source == "sampler":
            given: RandomAccessSampler = self.value
            is_made = has_ranks(given, rank, world_size, "the trainer")
            return given if is_made else given._of_rank(rank, world_size)
        args = self.trainer.args
        order: dict[str, Any] = {
            "seed": args.seed if args.data_seed is None else args.data_seed,
            "rank": rank,
            "world_size": world_size,
            "micro_batches": args.gradient_accumulation_steps,
            "last_step": "drop" if args.dataloader_drop_last else "split",
        }
        if self.source == "plan":
            chosen = {name: self.options[name] for name in _OF_ORDER if name in self.options}
            return BucketSampler(self.value, **{**order, **chosen})
        sizes = sizes_of(self.trainer.train_dataset, self.trainer, self.lengths)
        options: dict[str, Any] = {**order, **self.options, self.source: self.value}
        if self.source == "capacity":
            _check_capacity(self.value, sizes, options)
        if self._has_random_steps(world_size * args.gradient_accumulation_steps):
            return BalancedSampler(sizes, padded=True, **options)
        return (PackedSampler if self.source == "capacity" else BucketSampler)(sizes, **options)

    def evaluation(self, eval_budget: BudgetLike | None) -> tuple[Any, dict[str, Any]]:
        """The budget of evaluation, and the options of its plans."""
        options = {name: self.options[name] for name in _OF_EVALUATION if name in self.options}
        if self.options.get("oversize") == "single":
            options["oversize"] = "single"
        if eval_budget is not None:
            return eval_budget, options
        if self.source in ("plan", "sampler"):
            return self._largest(), options
        if self.source == "batch_size":
            return None, {**options, "batch_size": self.value}
        if self.memory is not None:
            return self.memory.evaluation(), options
        return self.value, options

    def _largest(self) -> float:
        """The most padded tokens of a batch of training, over all ranks."""
        plan = self.value.plan if isinstance(self.value, PlanSampler) else self.value
        most: list[Any] = []
        if isinstance(plan, Plan):
            if len(plan.columns) == 1:
                buckets = (*plan.buckets, *plan.second_buckets)
                most = [each.padded_length * each.batch_size for each in buckets]
        elif (whole := ranks_of_all(plan)) is not None:
            most = [whole.batch(at).padded_total for at in range(len(whole))]
        if not most:
            raise ValueError(f"eval_budget = None: must be given with this {self.source}")
        return float(max(most))


def _as_list(given: Any) -> list[Any]:
    return list(cast("Sequence[Any]", given)) if isinstance(given, (list, tuple)) else [given]


def ranks_of_all(sampler: RandomAccessSampler) -> RandomAccessSampler | None:
    """The sampler of one rank that has the batches of all; None where a rank knows its own only."""
    try:
        return sampler._of_rank(0, 1)
    except UnsupportedError:
        return None


def _check_type(name: str, value: Any) -> None:
    found = type(value).__name__
    if name == "plan" and not isinstance(value, Plan):
        raise TypeError(f"plan is a {found}: must be a sab.Plan, such as that of sab.Plan.open()")
    if name == "sampler" and not isinstance(value, RandomAccessSampler):
        raise TypeError(
            f"sampler is a {found}: must be a sampler of libsab with random access, such as "
            "sab.BucketSampler"
        )
    if name == "budget" and isinstance(value, (Plan, Sampler)):
        right = "plan" if isinstance(value, Plan) else "sampler"
        raise TypeError(f"budget is a {found}: give it as {right}=")


def _check_rows(trainer: Any, options: Mapping[str, Any]) -> None:
    """Refuses what cannot train on rows."""
    if getattr(trainer.args, "packing", False):
        raise ValueError("packing = True: the data set is packed already; use packing=False")
    for name, value in (("split", True), ("method", "concat")):
        if options.get(name) == value:
            raise ValueError(f"{name} = {value!r}: rows must have whole samples")
    rows_collator(trainer)


def _check_capacity(capacity: Any, sizes: Sizes, options: Mapping[str, Any]) -> None:
    """Refuses samples that are longer than a row: a trainer cannot split them."""
    if isinstance(capacity, Mapping) or options.get("oversize") == "skip" or len(sizes) == 0:
        return
    longest = float(sizes.values().max())
    if longest > capacity:
        raise ValueError(
            f"capacity = {capacity}: must be at least {longest:g}, the longest sample; use a "
            "larger capacity, truncate the samples, or leave longer ones out with oversize='skip'"
        )


def rows_collator(trainer: Any) -> Any:
    """The data collator that lays samples end to end, in the place of the trainer's."""
    collator = trainer.data_collator
    if hasattr(collator, "padding_free"):  # of trl
        return dataclasses.replace(collator, padding_free=True)
    flatten = transformers.DataCollatorWithFlattening
    if isinstance(collator, flatten):
        return collator
    causal = transformers.DataCollatorForLanguageModeling
    if not isinstance(collator, causal) or collator.mlm:
        raise ValueError(
            f"data_collator is a {type(collator).__name__}: rows need DataCollatorWithFlattening"
        )
    return flatten(return_flash_attn_kwargs=trainer.model_accepts_loss_kwargs)
