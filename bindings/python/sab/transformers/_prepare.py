"""A trainer with the batches of a plan."""

from __future__ import annotations

import collections
import contextlib
import importlib
import json
import math
import os
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any, Literal, TypeVar, cast

import torch

from sab._batch import Batch
from sab._cost import BudgetLike
from sab._make_plan import plan as make_plan
from sab._plan import Plan
from sab._probe import DeviceLike
from sab._random_access import RandomAccessSampler
from sab._samplers import SequentialSampler
from sab._sizes import SizesLike
from sab.torch import DataLoader
from sab.torch._samples import takes_batch
from sab.transformers._data import Collate, StandIn, has_indices, main_input, sizes_of
from sab.transformers._evaluation import Evaluation, counted
from sab.transformers._memory import TrainerMemory, memory_of
from sab.transformers._place import PlaceInEpoch, place_in
from sab.transformers._training import Training, ranks_of_all, rows_collator
from sab.transformers._weights import Weights

__all__ = ["prepare"]

transformers: Any = importlib.import_module("transformers")
_torch: Any = torch
Trainer = TypeVar("Trainer")

# Trainers of trl that generate within a step. Others have methods of their own for batches.
_GENERATING = ("GKDTrainer", "OnlineDPOTrainer")
# Options of torch's DataLoader that a loader of Trainer has as attributes.
_LOADER_OPTIONS = (
    "num_workers",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "prefetch_factor",
    "persistent_workers",
    "in_order",
)


def prepare(
    trainer: Trainer,
    budget: BudgetLike | str | None = None,
    *,
    batch_size: int | None = None,
    capacity: int | None = None,
    plan: Plan | None = None,
    sampler: RandomAccessSampler | None = None,
    eval_budget: BudgetLike | None = None,
    lengths: Callable[[Any], SizesLike] | None = None,
    weights: Literal["auto", "samples", "tokens"] | None = "auto",
    steps: Literal["random", "bucketed"] | None = None,
    device: DeviceLike | None = None,
    **options: Any,
) -> Trainer:
    """Gives a Trainer the batches of a plan, for training, evaluation and prediction.

    .. code-block:: python

        trainer = Trainer(model, arguments, train_dataset=dataset, eval_dataset=held_out)
        sab.transformers.prepare(trainer, budget=16384)
        trainer.train()

    ``per_device_train_batch_size``, ``per_device_eval_batch_size`` and the strategies
    ``group_by_length`` and ``batch_rebalance`` have no effect then; the other arguments keep their
    meaning. Call it before ``train``, on every rank with the same arguments.

    - A step of the optimizer is ``gradient_accumulation_steps`` batches on each rank. Its loss is
      the mean over the labels of all these batches that are not -100, or over the samples if they
      have no ``labels``. A ``compute_loss`` of your own must use ``num_items_in_batch`` for that.
    - Steps of short samples hold more samples than others. ``weights`` multiplies the gradient of a
      step by its samples, or tokens, over the mean of all steps, so that each counts the same. The
      losses that are logged are not multiplied, nor are those of evaluation.
    - A checkpoint holds the place in the epoch. Training resumes with the next batch, also on
      another number of ranks, and loads no sample that was trained on. A resume with other
      samples, another budget or seed is refused.
    - Evaluation and prediction take each sample once. ``eval_loss`` is the mean over all labels,
      and predictions are in the order of the data set, whatever the budget and the ranks are.

    - The plans of all data sets are made when training begins, so that a sample that evaluation
      cannot take is an error before the first step.
    - A data collator with ``pad_to_multiple_of`` pads each batch to the length that was planned, if
      the sizes are the lengths of the model's main input. A function of the samples and their
      :class:`sab.Batch` pads as it likes. With ``max_shapes``, data of another length is an error.

    Args:
        trainer: a ``transformers.Trainer``, changed in place. Its data sets have samples by index;
            a stream to evaluate on keeps the batches of Trainer.
        budget: as for :func:`sab.plan`: padded tokens a batch of one rank. Or ``"memory"``: as
            many samples as the device's memory holds. Before training, the trainer's own step runs
            on batches of some shapes, and a plan is made by the memory that it needs;
            ``"memory:0.8"`` is for another share than 0.9 of what is free. Not with FSDP and
            DeepSpeed. ``docs/guide/memory.md`` has more.
        batch_size: in place of ``budget``: samples a batch. With ``budget`` the most samples.
        capacity: in place of ``budget``: tokens in a row. A batch is then one row of samples laid
            end to end without padding, of :class:`sab.PackedSampler`, for causal language models.
            The data collator must be that of ``trl.SFTTrainer``, a ``DataCollatorWithFlattening``,
            or a ``DataCollatorForLanguageModeling`` with ``mlm=False``. When training begins, the
            model is run on a row of two samples, and is refused if one changes the other's output.
        plan: in place of ``budget``: a plan of the training data, such as a saved one.
        sampler: in place of ``budget``: any sampler of libsab with random access, made without
            ranks or with those of the trainer, and with the ``micro_batches`` of
            ``gradient_accumulation_steps``.
        eval_budget: budget of the padded batches to evaluate on; by default that of training. With
            ``batch_size`` alone it is that number of samples, and with ``plan`` or ``sampler`` the
            most padded tokens of a batch of training.
        lengths: function ``lengths(dataset)`` with the lengths of a data set: anything that
            :class:`sab.Sizes` takes. By default the column ``length_column_name`` of the training
            arguments, else the lengths of the model's main input, such as ``input_ids``.
        weights: what counts the same in all steps of an epoch: ``"samples"``, ``"tokens"``, or None
            for neither, so that steps count the same. ``"auto"``: tokens if labels are sequences of
            whole numbers, else samples. Of sizes with several columns, tokens are the mean of their
            weights. It is for a constant learning rate: give None beside
            :class:`LearningRateCallback`.
        steps: with ``budget``, what a step of the optimizer is. ``"random"``: a random sample of
            the data, of which only the division into batches goes by length, those of
            ``BalancedSampler(padded=True)``. It learns as with shuffled batches of one size.
            ``"bucketed"``: batches of like lengths, of a plan; it has the least padding. None:
            random, if a step has at least 8 batches over all ranks, and no option is of buckets
            only. A checkpoint is of one of them: give ``steps`` when training resumes with another
            number of batches a step.
        device: with ``budget="memory"``: the device to measure, as for :class:`sab.Probe`; by
            default that of the model.
        options: of :func:`sab.plan`, or with ``capacity`` of :class:`sab.PackedSampler`;
            ``balance``, ``costliest_first``, ``last_step``, ``mix_lengths`` and
            ``steps_per_epoch`` of :class:`sab.BucketSampler`. Evaluation takes ``cost``,
            ``length_multiple``, ``max_batch_size``, ``batch_size_multiple``, ``max_shapes``,
            ``shapes`` and ``padding`` among them.

    Returns:
        The same trainer.

    Raises:
        TypeError: ``trainer`` is not a transformers.Trainer, or generates its batches while it
            trains, as ``trl.GRPOTrainer`` does.
        ValueError: an argument of the trainer contradicts a budget, or its training data is a
            stream. Loaders are made when they are needed, so the errors of plans appear then.
    """
    given: Any = trainer
    if not isinstance(given, transformers.Trainer):
        raise TypeError(f"trainer is a {type(trainer).__name__}: must be a transformers.Trainer")
    if lengths is not None and not callable(lengths):
        raise TypeError(f"lengths = {lengths!r:.60}: must be a function of a data set")
    _check_kind(trainer)
    weighting = Weights(weights, given.args.gradient_accumulation_steps)
    _check_trainer(trainer)
    sources = {
        "budget": budget,
        "capacity": capacity,
        "batch_size": batch_size,
        "plan": plan,
        "sampler": sampler,
    }
    training = Training(trainer, sources, lengths, steps, options)
    prepared = _Prepared(trainer, training, eval_budget, weighting)
    prepared.memory = training.memory = memory_of(prepared, budget, device)
    return trainer


def _check_kind(trainer: Any) -> None:
    """Refuses what does not train on rows of its data set."""
    own = ("_inner_training_loop", "_prepare_inputs", "get_train_dataloader", "train")
    for kind in type(trainer).__mro__:
        if not kind.__module__.startswith("trl."):
            continue
        if kind.__name__ in _GENERATING or any(name in vars(kind) for name in own):
            raise TypeError(
                f"trainer is a {type(trainer).__name__}: its batches are generated while it "
                "trains, and are no rows of train_dataset; use sab.plan_step() for the samples of "
                "a step"
            )


def _check_trainer(trainer: Any) -> None:
    """Refuses what contradicts batches by a budget."""
    dataset = trainer.train_dataset
    if dataset is not None and not has_indices(dataset):
        raise ValueError(
            f"train_dataset is a {type(dataset).__name__}: a stream has no samples by index, so it "
            "cannot be planned; leave prepare() out and train on a sab.torch.StreamDataset, as the "
            "section on streams of docs/recipes/trainer.md does"
        )
    if any(isinstance(each, PlaceInEpoch) for each in trainer.callback_handler.callbacks):
        raise ValueError("trainer: has been prepared before")
    args, loading = trainer.args, trainer.args.accelerator_config
    refused = (
        ("auto_find_batch_size", args.auto_find_batch_size, "the budget limits the batches"),
        (
            "train_sampling_strategy",
            args.train_sampling_strategy == "sequential",
            "the plan shuffles the samples",
        ),
        ("eval_do_concat_batches", not args.eval_do_concat_batches, "predictions are put in order"),
        ("accelerator_config.split_batches", loading.split_batches, "each rank loads its batches"),
        (
            "accelerator_config.dispatch_batches",
            loading.dispatch_batches,
            "each rank loads its own",
        ),
        (  # of sentence_transformers
            "batch_sampler",
            getattr(args, "batch_sampler", "batch_sampler") != "batch_sampler",
            "batches are chosen by length, and may hold duplicates",
        ),
    )
    for name, is_refused, reason in refused:
        if is_refused:
            value = args
            for part in name.split("."):
                value = getattr(value, part)
            shown = getattr(value, "value", value)  # of an enumeration
            raise ValueError(f"{name} = {shown!r}: {reason}; leave it out")
    if args.n_gpu > 1:
        raise ValueError(f"n_gpu = {args.n_gpu}: must be 1; start one process a GPU with torchrun")
    if trainer.get_cp_size() * trainer.get_sp_size() > 1:
        raise ValueError("context and sequence parallelism: are not supported")


def _steps(batches: int, each: int) -> int:
    """Steps of `each` batches, of which the last may have fewer."""
    return -(-batches // each)


@contextlib.contextmanager
def _having(target: Any, **attributes: Any) -> Generator[None, None, None]:
    """Gives an object other attributes for a while."""
    before = {name: getattr(target, name) for name in attributes}
    for name, value in attributes.items():
        setattr(target, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(target, name, value)


@contextlib.contextmanager
def _naming(dataset: str, hint: str = "") -> Generator[None, None, None]:
    """Has errors say which data set they are of."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{dataset}: {error}{hint}") from error


class _Prepared:
    """The methods that replace those of a trainer."""

    def __init__(
        self,
        trainer: Any,
        training: Training,
        eval_budget: BudgetLike | None,
        weights: Weights,
    ) -> None:
        self.trainer, self.args = trainer, trainer.args
        self.training, self.eval_budget, self.weights = training, eval_budget, weights
        self.loader: DataLoader | None = None  # of the training that is under way
        self.checkpoint: str | None = None  # that it resumes from
        self.epoch_length = 0  # batches of a whole epoch
        self.walk: Any = None  # the loader's pass that training is given the batches of
        self.taken = 0  # batches of the epoch that training was given
        self.done = 0  # those whose step of the optimizer was taken
        self.batches = collections.deque[Batch]()  # of the step, whose training has not begun
        self.begun = 0, 0.0  # batches and part of the epoch where it was begun by other ranks
        self.items: Any = None  # labels of the step, where the model does not divide by them
        self.is_loss_checked = False
        self.evaluation: Evaluation | None = None
        self.eval_loaders: dict[int, tuple[Any, Any]] = {}
        self.eval_plans: list[tuple[Any, Plan]] = []  # of the data sets that the trainer has
        self.state = PlaceInEpoch(self)
        self.memory: TrainerMemory | None = None  # with budget="memory"
        self.theirs: dict[str, Any] = {}
        for name in (
            "get_train_dataloader",
            "get_eval_dataloader",
            "get_test_dataloader",
            "set_initial_training_values",
            "get_batch_samples",
            "compute_loss",
            "evaluation_loop",
            "prediction_step",
            "_inner_training_loop",
            "_init_training_state",
            "_run_epoch",
        ):
            self.theirs[name] = getattr(trainer, name)
            setattr(trainer, name, getattr(self, name))
        self._put_callback()

    def _put_callback(self) -> None:
        """Puts the callback before all others, which see the epoch that it sets."""
        callbacks: list[Any] = self.trainer.callback_handler.callbacks
        callbacks[:] = [self.state, *(each for each in callbacks if type(each) is not PlaceInEpoch)]

    # Loaders

    def _ranks(self) -> tuple[int, int]:
        """This process among those that take different samples."""
        same: int = self.trainer.get_tp_size()
        accelerator = self.trainer.accelerator
        return accelerator.process_index // same, accelerator.num_processes // same

    def _few_shapes(self) -> str:
        """The options that limit the shapes, in words; "" without them."""
        given = {name: self.training.options.get(name) for name in ("max_shapes", "shapes")}
        return " and ".join(f"{name} = {value!r}" for name, value in given.items() if value)

    def _loader(self, theirs: Any, sampler: RandomAccessSampler) -> DataLoader:
        """A loader with the data set, data collator and options of one of Trainer."""
        collator = self.trainer.data_collator
        full = sampler if sampler.batch(0).count else ranks_of_all(sampler)
        batch = (full or sampler).batch(0)
        return DataLoader(
            theirs.dataset,
            sampler,
            collate_fn=Collate(
                collator if takes_batch(collator) else theirs.collate_fn,
                theirs.dataset,
                batch._replace(count=1, indices=batch.indices[:1]),
                main_input(self.trainer),
                self._few_shapes(),
            ),
            generator=torch.Generator(),  # so that a pass takes no numbers of the global generator
            **{name: getattr(theirs, name) for name in _LOADER_OPTIONS if hasattr(theirs, name)},
        )

    def get_train_dataloader(self) -> Any:
        """A loader with a place of its own: a callback may make one to look at batches."""
        trainer = self.trainer
        collator = rows_collator(trainer) if self.training.has_rows else trainer.data_collator
        with _having(trainer, data_collator=collator):
            with _having(self.args, train_sampling_strategy="random"):
                theirs = self.theirs["get_train_dataloader"]()
            with _naming("train_dataset"):
                sampler = self.training.sampler(*self._ranks())
                if self.memory is not None:
                    self.memory.plan_training(sampler, partial(self._loader, theirs))
            return self._loader(theirs, sampler)

    def _begin(self, loader: DataLoader) -> None:
        """Trains on a loader from the place that the checkpoint has."""
        self.loader, self.epoch_length, self.walk = loader, len(loader), None
        if self.checkpoint is not None and not self.args.ignore_data_skip:
            saved = {} if self.memory is None else self.memory.saved_in(self.checkpoint)
            loader.load_state_dict({"state": place_in(self.checkpoint), **saved})
        self.taken = self.done = loader.position

    def _eval_plan(self, dataset: Any, name: str) -> Plan:
        for known, plan in self.eval_plans:
            if known is dataset:
                return plan
        budget, options = self.training.evaluation(self.eval_budget)
        with _naming(name):
            sizes = sizes_of(dataset, self.trainer, self.training.lengths)
        with _naming(name, "; evaluation skips no sample: give prepare() a larger eval_budget"):
            plan = make_plan(sizes, budget, **options)
        if any(dataset is each for each in self._eval_datasets().values()):
            self.eval_plans.append((dataset, plan))
        return plan

    def _eval_datasets(self) -> dict[str, Any]:
        """The data sets that the trainer evaluates on while it trains, by their names."""
        datasets = self.trainer.eval_dataset
        if isinstance(datasets, dict):
            named = cast("dict[str, Any]", datasets)
            return {f"eval_dataset[{name!r}]": dataset for name, dataset in named.items()}
        return {} if datasets is None else {"eval_dataset": datasets}

    def _plan_evaluation(self) -> None:
        self.eval_plans.clear()
        for name, dataset in self._eval_datasets().items():
            if has_indices(dataset) and len(dataset):
                self._eval_plan(dataset, name)

    def _eval_loader(self, theirs: Any, dataset: Any, name: str) -> Any:
        if not has_indices(dataset) or len(dataset) == 0:
            return theirs
        if id(theirs) in self.eval_loaders:
            return self.eval_loaders[id(theirs)][1]
        rank, world_size = self._ranks()
        plan = self._eval_plan(dataset, name)
        loader = self._loader(theirs, SequentialSampler(plan, rank=rank, world_size=world_size))
        if self.args.dataloader_persistent_workers:  # Trainer keeps its loader, too
            self.eval_loaders[id(theirs)] = theirs, loader
        return loader

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        theirs = self.theirs["get_eval_dataloader"](eval_dataset)
        known = self.trainer.eval_dataset
        dataset, name = known if eval_dataset is None else eval_dataset, "eval_dataset"
        if isinstance(dataset, str):
            dataset, name = known[dataset], f"eval_dataset[{dataset!r}]"
        return self._eval_loader(theirs, dataset, name)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        theirs = self.theirs["get_test_dataloader"](test_dataset)
        return self._eval_loader(theirs, test_dataset, "test_dataset")

    # Epochs

    def _inner_training_loop(self, *args: Any, **options: Any) -> Any:
        self.checkpoint = options.get("resume_from_checkpoint")
        self.items = None
        try:
            return self.theirs["_inner_training_loop"](*args, **options)
        finally:
            self.checkpoint = None

    def _place(self) -> tuple[int, int, int]:
        """The epoch that training goes on in, its batches so far, and all of them."""
        loader = cast("DataLoader", self.loader)
        length = len(loader)
        if loader.position == length:
            return loader.epoch + 1, 0, self.epoch_length
        return loader.epoch, loader.position, length

    def set_initial_training_values(self, args: Any, dataloader: Any) -> Any:
        self._plan_evaluation()
        self._begin(dataloader)
        theirs = self.theirs["set_initial_training_values"](args, dataloader)
        epochs, _, examples, samples, batch_size, _, max_steps = theirs
        each: int = args.gradient_accumulation_steps
        steps = _steps(self.epoch_length, each)
        epoch, position, length = self._place()
        left = _steps(length - position, each)
        trained = epoch * steps + position // each
        if self.checkpoint is not None:
            with open(
                os.path.join(self.checkpoint, "trainer_state.json"), encoding="utf-8"
            ) as file:
                trained = json.load(file)["global_step"]
        if args.max_steps > 0:
            epochs = epoch + 1 + max(0, math.ceil((max_steps - trained - left) / steps))
            samples = round(examples * max_steps / steps)
        elif length == self.epoch_length and trained == epoch * steps + position // each:
            max_steps = math.ceil(args.num_train_epochs * steps)
        else:  # some steps were those of other ranks
            max_steps = trained + left + math.ceil((args.num_train_epochs - epoch - 1) * steps)
        return epochs, steps, examples, samples, batch_size, self.epoch_length, max_steps

    def _init_training_state(self, *args: Any, **options: Any) -> tuple[int, int]:
        given: tuple[int, int] = self.theirs["_init_training_state"](*args, **options)
        self._put_callback()
        self.trainer.state.stateful_callbacks.setdefault(PlaceInEpoch.__name__, self.state.state())
        if self.checkpoint is None or self.args.ignore_data_skip:
            return given
        return self._place()[:2]

    def _run_epoch(self, **given: Any) -> Any:
        loader, epoch = cast("DataLoader", self.loader), given["epoch"]
        loader.set_epoch(epoch)
        cast("Any", loader.generator).manual_seed(self.args.seed + epoch)
        self.taken = self.done = loader.position
        self.begun = 0, 0.0
        if len(loader) != self.epoch_length:  # batches until now were of other ranks
            self.begun = self.done, self.trainer.state.epoch % 1
        left = len(loader) - self.done
        given["steps_in_epoch"] = left
        given["num_update_steps_per_epoch"] = _steps(left, self.args.gradient_accumulation_steps)
        given["steps_trained_in_current_epoch"] = 0  # the loader begins where they end
        return self.theirs["_run_epoch"](**given)

    def step_done(self) -> float:
        """Counts a step of the optimizer; gives the epochs so far."""
        if self.memory is not None:
            self.memory.end()
        loader, (before, part) = self._trained(), self.begun
        self.done = self.taken
        return loader.epoch + part + (1 - part) * (self.done - before) / (len(loader) - before)

    def saved(self) -> bytes:
        """The place in the epoch after the last step of the optimizer."""
        state: bytes = self._trained().state_dict(self.done)["state"]
        return state

    def _trained(self) -> DataLoader:
        """The loader where training is; others may have looked at it since."""
        loader = cast("DataLoader", self.loader)
        if self.walk is not None:
            loader._pass = self.walk
        return loader

    # The loss

    def _gathered(self, number: Any) -> Any:
        """The sum of a number over the ranks that have different samples."""
        given = number.to(self.args.device)[None]
        return self.trainer.accelerator.gather(given).sum() / self.trainer.get_tp_size()

    def _mean_of_ranks(self, number: Any) -> Any:
        return self._gathered(number) / self._ranks()[1]

    def _check_loss(self, inputs: Any) -> None:
        """Finds out, once, whether the model divides its loss by num_items_in_batch, as its
        signature says.
        """
        trainer = self.trainer
        is_own = type(trainer).compute_loss is not transformers.Trainer.compute_loss
        known = (
            is_own or trainer.compute_loss_func is not None or trainer.label_smoother is not None
        )
        if self.is_loss_checked or known or "labels" not in inputs:
            return
        self.is_loss_checked = True
        if not trainer.model_accepts_loss_kwargs:
            return
        was_training = trainer.model.training
        trainer.model.eval()
        losses: list[Any] = []
        with torch.no_grad(), trainer.compute_loss_context_manager():
            for number in (1, 2):
                items = torch.tensor(number, device=self.args.device)
                data = trainer._prepare_inputs({**inputs, "num_items_in_batch": items})
                outputs: Any = trainer.model(**data)
                losses.append(outputs["loss"] if isinstance(outputs, dict) else outputs[0])
        trainer.model.train(was_training)
        divides = torch.tensor(bool((losses[0] - 2 * losses[1]).abs() <= losses[1].abs() / 2))
        trainer.model_accepts_loss_kwargs = bool(self._gathered(divides.long()) > 0)

    def _noted(self, loader: DataLoader, walk: Iterator[Any]) -> Iterator[Any]:
        """The data of a walk over the loader, whose batches are noted."""
        for data in walk:
            self.batches.append(cast("Batch", loader.batch))
            yield data

    def get_batch_samples(self, epoch_iterator: Any, *args: Any, **options: Any) -> Any:
        trainer, loader = self.trainer, cast("DataLoader", self.loader)
        self.batches.clear()
        noted = self._noted(loader, epoch_iterator)
        samples, items = self.theirs["get_batch_samples"](noted, *args, **options)
        self.taken += len(samples)
        self.walk = loader._pass
        self.items = None
        loader._of_step = tuple(self.batches)
        if not samples:
            return samples, items
        self.weights.set_step(samples[0], self.batches, self._mean_of_ranks)
        accepted = trainer.model_accepts_loss_kwargs
        self._check_loss(samples[0])
        if accepted and not trainer.model_accepts_loss_kwargs:
            items = None
        is_scaled = trainer.loss_is_scaled_for_ga
        if is_scaled is None:
            is_scaled = items is not None or trainer.compute_loss_func is not None
        if not is_scaled:
            counts: list[Any] = [counted(trainer, each) for each in samples]
            self.items = self._gathered(torch.stack(counts).sum())
        return samples, items

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        if not model.training:
            return self.theirs["compute_loss"](model, inputs, *args, **options)
        return self.weights.apply(self._step_loss(model, inputs, *args, **options))

    def _step_loss(self, model: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        if self.items is None:
            return self.theirs["compute_loss"](model, inputs, *args, **options)
        # The trainer divides by the batches of the step, and the ranks take the mean.
        count = counted(self.trainer, inputs).to(self.args.device)
        batches: int = self.trainer.current_gradient_accumulation_steps * self._ranks()[1]
        if isinstance(inputs, StandIn) and "labels" in inputs:
            inputs["labels"] = torch.zeros_like(inputs["labels"])  # else the loss is no number
        given = self.theirs["compute_loss"](model, inputs, *args, **options)
        weight = count * batches / self.items.clamp(min=1)
        return (given[0] * weight, *given[1:]) if isinstance(given, tuple) else given * weight

    def check_rows(self) -> None:
        """Refuses a model in which one sample of a row changes another's output."""
        if not self.training.has_rows:
            return
        model = self.trainer.model
        count = model.get_input_embeddings().num_embeddings
        ids = _torch.arange(1, 25, device=self.args.device) % count
        other = _torch.cat([(ids[:12] + 7) % count, ids[12:]])
        positions = _torch.arange(24, device=self.args.device) % 12
        was_training = model.training
        model.eval()
        with torch.no_grad(), self.trainer.compute_loss_context_manager():
            one, two = (
                model(input_ids=each[None], position_ids=positions[None]).logits.float()
                for each in (ids, other)
            )
        model.train(was_training)
        if one.shape[:2] != (1, 24):
            raise ValueError(
                f"capacity: {type(model).__name__} has no output for each token: rows are for "
                "causal language models"
            )
        one, two = one[:, 12:], two[:, 12:]
        if not torch.allclose(one, two, rtol=0, atol=1e-6 * float(one.abs().max())):
            how = getattr(model.config, "_attn_implementation", None)
            raise ValueError(
                f"capacity: {type(model).__name__} with attention {how!r} mixes the samples of a "
                "row; give a budget instead, or use another attn_implementation"
            )

    # Evaluation

    def evaluation_loop(self, dataloader: Any, *args: Any, **options: Any) -> Any:
        theirs, trainer = self.theirs["evaluation_loop"], self.trainer
        if not isinstance(dataloader, DataLoader):
            return theirs(dataloader, *args, **options)
        self.evaluation = walk = Evaluation(trainer, dataloader)
        metric = trainer.compute_metrics

        def compute_metrics(given: Any, **how: Any) -> Any:
            if "compute_result" in how:  # of one step
                how["compute_result"] = dataloader.position == len(dataloader)
                return metric(given, **how)
            data = transformers.EvalPrediction(
                *(walk.in_order(each) for each in (given.predictions, given.label_ids)),
                *(walk.in_order(each) for each in (given.inputs, given.losses)),
            )
            return metric(data)

        changed: dict[str, Any] = {"gather_function": walk.gather}
        if metric is not None:
            changed["compute_metrics"] = compute_metrics
        try:
            # The loss of a step is the mean over the labels of the rank.
            rank_alone = _having(self.args, average_tokens_across_devices=False)
            with _having(trainer, **changed), rank_alone:
                output = theirs(dataloader, *args, **options)
        finally:
            self.evaluation = None
        prefix = options.get("metric_key_prefix", "eval")
        loss = walk.mean_loss()
        if loss is not None:
            output.metrics[f"{prefix}_loss"] = loss
        return output._replace(
            predictions=walk.in_order(output.predictions),
            label_ids=walk.in_order(output.label_ids),
        )

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        walk, theirs = self.evaluation, self.theirs["prediction_step"]
        if walk is None:
            return theirs(model, inputs, *args, **options)
        walk.begin_step()
        self._check_loss(inputs)
        count = counted(self.trainer, inputs)
        given = theirs(model, inputs, *args, **options)
        if given[0] is not None:
            walk.add_loss(given[0], count)
        return given
