"""The memory of a trainer's step: learned before its training begins, and guarded."""

from __future__ import annotations

import base64
import contextlib
import copy
import importlib
from collections.abc import Generator
from typing import Any, Callable, cast

from sab._cost import Budget, BudgetLike
from sab._memory_budget import share_of
from sab._probe import DeviceLike
from sab._samplers import BucketSampler
from sab.torch._memory import Memory, Run
from sab.transformers._place import attributes_in

_state: Any = importlib.import_module("accelerate.state")


class TrainerMemory(Memory):
    """Plans by the memory of the step of a trainer that ``prepare`` has changed.

    Args:
        owner: of :func:`sab.transformers.prepare`.
        device: see :class:`sab.Probe`; None: that of the model.
    """

    def __init__(self, owner: Any, device: DeviceLike | None) -> None:
        trainer = owner.trainer
        if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise ValueError(
                "budget = 'memory': is not supported with FSDP and DeepSpeed; learn a "
                "sab.MemoryModel of the step, and give it as cost= with a budget in bytes"
            )
        self.owner, self.trainer = owner, trainer
        self.theirs = trainer.training_step
        trainer.training_step = self.training_step
        super().__init__(Run(self.step, [], device, False, self.prepared))

    def step(self, data: Any) -> None:
        """As Trainer runs it. With gradient accumulation, the gradients of a micro-batch are there
        while the next one runs.
        """
        trainer, args, model = self.trainer, self.trainer.args, self.trainer.model_wrapped
        trainer.current_gradient_accumulation_steps = args.gradient_accumulation_steps
        for _ in range(min(args.gradient_accumulation_steps, 2)):
            self.theirs(model, copy.copy(data), None)
        if args.max_grad_norm > 0:
            trainer.accelerator.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        trainer.optimizer.step()
        model.zero_grad()

    @contextlib.contextmanager
    def prepared(self) -> Generator[None, None, None]:
        """Wraps the model and makes the optimizer as training does later."""
        attributes = cast("dict[str, Any]", vars(self.trainer))
        before = dict(attributes)
        try:
            self.trainer._prepare_for_training(1, None, None)
            yield
        finally:
            attributes.clear()
            attributes.update(before)

    def plan_training(self, sampler: Any, loader_of: Callable[[BucketSampler], Any]) -> None:
        """Makes the plan of a sampler that was made with ``budget="memory"``. ``loader_of`` makes a
        loader of a sampler.
        """
        trainer, owner = self.trainer, self.owner
        changed = [trainer.model, trainer.optimizer, trainer.state, trainer.callback_handler]
        changed += [trainer.accelerator, _state.GradientState()]
        changed.append(vars(trainer).get("_metrics"))  # of trl
        self.run = self.run._replace(restore=changed)
        saved = {} if owner.checkpoint is None else self.saved_in(owner.checkpoint)
        if self.found is None and saved:
            self.recall(sampler, saved)
        else:
            one = BucketSampler(sampler._waiting.sizes, batch_size=1)
            self.plan(sampler, loader_of(one))

    def saved_in(self, checkpoint: str) -> dict[str, Any]:
        """What a checkpoint holds; nothing in one of other budgets."""
        saved = attributes_in(checkpoint).get("memory")
        return {**saved, "model": base64.b64decode(saved["model"])} if saved else {}

    def text(self) -> dict[str, Any] | None:
        """What a checkpoint is to hold: values of JSON; None before anything is found."""
        if self.found is None:
            return None
        saved = self.found.saved()
        model = base64.b64encode(saved["model"]).decode()
        return {**saved, "model": model, "budgets": self.owner.loader.source.plan.budgets}

    def evaluation(self) -> Budget:
        """The budget of evaluation: that of training."""
        if self.found is None:
            raise ValueError("budget = 'memory': is not known before training; give eval_budget")
        return Budget(self.found.budget, self.found.model)

    def training_step(self, *args: Any, **options: Any) -> Any:
        """As Trainer's. The guard measures it and what follows, such as the optimizer's step."""
        self.end()
        owner = self.owner
        self.begin(owner.loader.source, owner.batches.popleft())
        return self.theirs(*args, **options)


def memory_of(
    owner: Any, budget: BudgetLike | str | None, device: DeviceLike | None
) -> TrainerMemory | None:
    """How ``prepare`` plans by memory; None with another budget."""
    if share_of(budget) is None:
        if device is not None:
            raise TypeError("device: for budget='memory' only")
        return None
    return TrainerMemory(owner, device)
