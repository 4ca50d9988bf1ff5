"""libsab for Lightning: ranks, epochs and states of loaders in a data module, and a callback for
memory and metrics. Works with the packages ``lightning`` and ``pytorch_lightning``.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import math
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, cast

from sab._devices import is_out_of_memory
from sab._guard import MemoryGuard
from sab._learning_rate import ScalingRule, ScalingUnit
from sab._random_access import RandomAccessSampler
from sab.torch._frameworks import Epochs, take_ranks
from sab.torch._learning_rate import LearningRateScaler
from sab.torch._loader import DataLoader
from sab.torch._memory import Memory, Run

if TYPE_CHECKING:
    from sab._metrics import Meter

    Callback = Any
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

__all__ = ["DataModuleMixin", "LearningRateCallback", "Monitor"]

HOOKS = ("train_dataloader", "val_dataloader", "test_dataloader", "predict_dataloader")
STATE = "sab"  # key in the state of the data module


class Progress(NamedTuple):
    """How far the run of a checkpoint was, and the lengths of a loader that goes on there."""

    steps: int  # of the optimizer
    begun: int  # epochs
    batches: int  # of the epoch; -1: it had ended
    length: int  # of this epoch, whose first batches may be of other ranks
    whole_length: int  # of the epochs that follow


class TrainerLoader:
    """A loader as a trainer of Lightning walks it. It is no ``torch.utils.data.DataLoader``, since
    Lightning makes such loaders anew with samplers of its own. All other attributes are those of
    the loader.

    Attributes:
        loader: the :class:`sab.torch.DataLoader`.
    """

    batch_sampler = None  # Lightning finds `sampler` then

    def __init__(self, loader: DataLoader, trainer: Any) -> None:
        self.loader = loader
        self._trainer = trainer
        self._loaded_epoch: int | None = None  # of the trainer, where the state was in its middle
        self.progress: Progress | None = None  # where a state was loaded
        self.sampler = Epochs(self.set_epoch)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "loader":
            raise AttributeError(name)
        return getattr(self.loader, name)

    @property
    def _iterator(self) -> Any:  # of persistent workers, which Lightning shuts down
        return self.loader._iterator

    @_iterator.setter
    def _iterator(self, iterator: Any) -> None:
        self.loader._iterator = iterator

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        # Begins with the first batch: Lightning calls iter() before it chooses the epoch.
        for data in self.loader:
            self._tell_length()  # a lowered budget makes more batches
            yield data

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass. With ``overfit_batches`` it stays 0, since Lightning
        needs the same batches again."""
        if self._loaded_epoch != epoch:
            self.loader.set_epoch(0 if self._trainer.overfit_batches > 0 else epoch)
        self._loaded_epoch = None
        self._trainer.datamodule._saved = None  # training begins
        self._tell_length()

    def state_dict(self) -> dict[str, Any]:
        """The place after the batches whose step has ended. A batch whose step failed is not
        counted."""
        loop = self._trainer.fit_loop.epoch_loop
        progress = loop.batch_progress.current
        own = self.loader._own_pass()
        is_walking = own is not None and own.has_given and not own.has_ended
        has_failed = is_walking and progress.ready > progress.processed
        state = self.loader.state_dict(self.loader.position - 1 if has_failed else None)
        # The epoch of the trainer: a loader that begins anew within it is in a later one.
        is_within = has_failed or not loop._num_ready_batches_reached()
        return {
            **state,
            "epoch": self._trainer.current_epoch if is_within else None,
            "steps": self._trainer.global_step,
            "begun": self._trainer.current_epoch + (not self._trainer.state.finished),
            "batches": progress.ready - has_failed if is_within else -1,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues there with the next pass."""
        own = dict(state_dict)
        self._loaded_epoch = own.pop("epoch", None)
        steps, begun, batches = (own.pop(name) for name in ("steps", "begun", "batches"))
        self.loader.load_state_dict(own)
        length = len(self)
        self.loader.source.set_epoch(self.loader.epoch + 1)
        self.progress = Progress(steps, begun, batches, length, len(self))
        self.loader.load_state_dict(own)

    def limited(self, length: int) -> int:
        """How many of so many batches the trainer takes."""
        limit = self._trainer.limit_train_batches
        return min(limit, length) if isinstance(limit, int) else int(limit * length)

    def _tell_length(self) -> None:
        """Lightning reads lengths once, but those of an epoch that goes on with other ranks, or
        with a lower budget, differ."""
        loop = self._trainer.fit_loop
        combined = loop._combined_loader
        if combined is None or self not in combined.flattened:
            return
        index, limited = combined.flattened.index(self), self.limited(len(self))
        if combined.limits[index] == limited:
            return
        combined.limits[index] = limited
        loop.max_batches = loop._data_fetcher.length = len(combined)
        interval = self._trainer.val_check_interval
        if isinstance(interval, float) and self._trainer.val_check_batch is not None:
            self._trainer.val_check_batch = max(1, int(loop.max_batches * interval))


def training_loaders(trainer: Any) -> list[TrainerLoader]:
    """The loaders that a trainer trains on, and not those that others made of the data module."""
    combined = trainer.fit_loop._combined_loader
    flattened: list[object] = [] if combined is None else combined.flattened
    return [each for each in flattened if isinstance(each, TrainerLoader)]


def lightning_step(trainer: Any) -> Callable[[Any], None]:
    """A training step of a trainer, with that of its optimizer."""
    loop = trainer.fit_loop.epoch_loop
    # With several batches a step, the gradients of those before are there.
    index = int(trainer.accumulate_grad_batches > 1)

    def step(data: Any) -> None:
        module, strategy = trainer.lightning_module, trainer.strategy
        if not trainer.optimizers:
            raise ValueError(
                "budget = 'memory': configure_optimizers reads the number of batches, such as "
                "trainer.estimated_stepping_batches, before there is an optimizer whose memory can "
                "be measured; compute the number of steps otherwise"
            )
        batch = trainer.precision_plugin.convert_input(data)
        batch = module._on_before_batch_transfer(batch, dataloader_idx=0)
        batch = strategy.batch_to_device(batch, dataloader_idx=0)
        loop._results.batch, loop._results.batch_size = batch, None
        arguments = loop._build_kwargs(collections.OrderedDict(), batch, index)
        if module.automatic_optimization:
            loop.automatic_optimization.run(trainer.optimizers[0], index, arguments)
        else:
            loop.manual_optimization.run(arguments)

    return step


@contextlib.contextmanager
def unseen(trainer: Any) -> Generator[None, None, None]:
    """Leaves out callbacks, loggers and the counts of steps, as Lightning's tuner does."""
    loop = trainer.fit_loop.epoch_loop
    callbacks, loggers, results = trainer.callbacks, trainer.loggers, loop._results
    automatic, manual = loop.automatic_optimization, loop.manual_optimization
    counts = automatic.optim_progress, manual.optim_step_progress
    try:
        trainer.callbacks, trainer.loggers = [], []
        loop._results = type(results)(training=True)
        automatic.optim_progress, manual.optim_step_progress = copy.deepcopy(counts)
        yield
    finally:
        trainer.callbacks, trainer.loggers, loop._results = callbacks, loggers, results
        automatic.optim_progress, manual.optim_step_progress = counts


class MemoryCallback(Callback):  # type: ignore[misc]
    """Measures the steps on a loader whose plan was made by memory."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader

    @property
    def state_key(self) -> str:
        return "sab.lightning.MemoryCallback"

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        memory: Any = self._loader._memory
        memory.begin(self._loader.source, self._loader.batch)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        memory: Any = self._loader._memory
        memory.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        memory: Any = self._loader._memory
        if is_out_of_memory(exception):
            memory.end(ran_out=True)


def measure_steps(trainer: Any, loaders: list[TrainerLoader]) -> None:
    """Has the loader with ``budget="memory"`` measure the trainer's own step."""
    measured = [each.loader for each in loaders if each.loader._memory is not None]
    if not measured:
        return
    if len(loaders) > 1:
        raise ValueError(
            f"budget = 'memory': needs one training loader of libsab: there are {len(loaders)}"
        )
    [loader] = measured
    memory = cast("Memory", loader._memory)
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    changed = [trainer.strategy.model, trainer.lightning_module, *trainer.optimizers, scaler]
    around = functools.partial(unseen, trainer)
    memory.run = Run(lightning_step(trainer), changed, memory.run.device, False, around)
    callbacks = [each for each in trainer.callbacks if type(each) is not MemoryCallback]
    trainer.callbacks = [*callbacks, MemoryCallback(loader)]


class Estimates:
    """For the class of a trainer that goes on after a checkpoint."""

    @property
    def estimated_stepping_batches(self) -> int | float:
        """The steps before the checkpoint and those that follow, which may be of other ranks."""
        trainer: Any = self
        theirs: int | float = cast("Any", super()).estimated_stepping_batches
        loaders = [each for each in training_loaders(trainer) if each.progress is not None]
        if not loaders or trainer.max_epochs == -1 or theirs == math.inf:
            return theirs
        combined = trainer.fit_loop._combined_loader
        each: int = trainer.accumulate_grad_batches

        def length(field: str) -> int:
            each = [
                loader.limited(getattr(loader.progress, field)) if loader in loaders else limit
                for loader, limit in zip(combined.flattened, combined.limits)
            ]
            join: Any = {"min_size": min, "sequential": sum}.get(combined._mode, max)
            return int(join(each))

        done: Any = loaders[0].progress
        steps: int = done.steps
        if done.batches >= 0:
            steps += math.ceil(length("length") / each) - done.batches // each
        whole = math.ceil(length("whole_length") / each)
        steps += max(0, trainer.max_epochs - done.begun) * whole
        return steps if trainer.max_steps == -1 else min(steps, trainer.max_steps)


def estimate(trainer: Any) -> None:
    """Has a trainer estimate the steps of a run that goes on after a checkpoint."""
    if isinstance(trainer, Estimates):
        return
    kind: Any = trainer.__class__
    own = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    trainer.__class__ = type(kind.__name__, (Estimates, kind), own)


def replaced(loaders: Any, replace: Callable[[DataLoader], Any]) -> Any:
    """What a hook returned, with each loader of libsab replaced, in lists, dictionaries and
    CombinedLoader."""
    if isinstance(loaders, DataLoader):
        return replace(loaders)
    if hasattr(loaders, "items"):
        return {key: replaced(each, replace) for key, each in loaders.items()}
    if type(loaders) in (list, tuple):
        return [replaced(each, replace) for each in loaders]
    if hasattr(loaders, "flattened"):
        loaders.flattened = [replaced(each, replace) for each in loaders.flattened]
    return loaders


def taking_over(hook: Callable[..., Any], trains: bool) -> Callable[..., Any]:
    """A hook of a data module whose loaders of libsab the trainer walks as TrainerLoader."""

    @functools.wraps(hook)
    def wrapper(self: DataModuleMixin, *arguments: Any, **options: Any) -> Any:
        found: list[TrainerLoader] = []

        def replace(loader: DataLoader) -> TrainerLoader:
            ranks = self.trainer.distributed_sampler_kwargs or {"rank": 0, "num_replicas": 1}
            take_ranks(loader, ranks["rank"], ranks["num_replicas"], "the trainer")
            taken = TrainerLoader(loader, self.trainer)
            if trains:
                found.append(taken)
            return taken

        loaders = replaced(hook(self, *arguments, **options), replace)
        if found:
            measure_steps(self.trainer, found)
            self._go_on(found)
        return loaders

    return wrapper


class DataModuleMixin:
    """For data modules whose hooks return :class:`sab.torch.DataLoader`, alone or in lists,
    dictionaries or CombinedLoader.

    .. code-block:: python

        class Data(sab.lightning.DataModuleMixin, lightning.LightningDataModule):
            def train_dataloader(self):
                return sab.torch.DataLoader(dataset, sampler, collate_fn=collate)

    Samplers are made without ``rank`` and ``world_size``: the trainer sets them, so that each
    sample is in one batch of one rank, in training, validation, tests and predictions. The option
    ``use_distributed_sampler`` of the trainer has no effect on these loaders, and
    ``reload_dataloaders_every_n_epochs`` is not needed.

    A checkpoint of Lightning has the place of the training loaders, in the middle of an epoch, too.
    It counts the batches whose step has ended, so that a batch whose step failed comes again. A
    later run goes on there, with any number of ranks.

    With a sampler of ``budget="memory"``, the loader learns the memory of the trainer's own
    training step before the first batch, and measures each step. There must be one training loader
    then.

    A data module with a ``state_dict`` or ``load_state_dict`` of its own calls that of ``super()``.
    In steps, ``self.trainer.train_dataloader`` has the attributes of the loader, such as
    ``step()``.
    """

    trainer: Any
    _saved: list[dict[str, Any]] | None = None  # states for the training loaders

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in HOOKS:
            hook = getattr(cls, name, None)
            if hook is not None:
                setattr(cls, name, taking_over(hook, name == "train_dataloader"))

    def _go_on(self, loaders: list[TrainerLoader]) -> None:
        """Has new training loaders go on where the checkpoint says. Lightning does so too late: it
        has read their lengths then. Those that are made later begin at the start of an epoch."""
        saved = self._saved
        if saved is None or self.trainer.fit_loop._combined_loader is not None:
            return
        if len(saved) != len(loaders):
            raise ValueError(
                f"the checkpoint has the states of {len(saved)} training loaders: "
                f"train_dataloader() has {len(loaders)} loaders of libsab"
            )
        for loader, state in zip(loaders, saved):
            loader.load_state_dict(state)

    def state_dict(self) -> dict[str, Any]:
        """The state of the data module, with those of the training loaders."""
        state: dict[str, Any] = super().state_dict()  # type: ignore[misc]
        return {**state, STATE: [each.state_dict() for each in training_loaders(self.trainer)]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keeps the states for the training loaders that are made next."""
        own = {key: each for key, each in state_dict.items() if key != STATE}
        if self.trainer.state.fn == "fit":
            self._saved = state_dict.get(STATE) or None
            estimate(self.trainer)
        super().load_state_dict(own)  # type: ignore[misc]


def loader_of(trainer: Any, callback: str) -> Any:
    """The only training loader of a trainer, for a callback."""
    loader = trainer.train_dataloader
    if not isinstance(loader, (TrainerLoader, DataLoader)):
        raise TypeError(
            f"train_dataloader() gives a {type(loader).__name__}: must be one "
            f"sab.torch.DataLoader for sab.lightning.{callback}"
        )
    source: Any = loader.source
    given, known = trainer.accumulate_grad_batches, source._order().get("micro_batches", 1)
    if given != known:  # the totals of a step would be those of other batches
        raise ValueError(
            f"accumulate_grad_batches = {given}: the sampler has micro_batches = {known}; give it "
            f"micro_batches={given} for sab.lightning.{callback}"
        )
    return loader


class LearningRateCallback(Callback):  # type: ignore[misc]
    """Scales the learning rates of each step by its tokens or samples. For data modules with
    :class:`DataModuleMixin` and one training loader. The arguments are those of
    :class:`sab.torch.LearningRateScaler`.
    """

    def __init__(
        self, reference: float, *, rule: ScalingRule = "linear", of: ScalingUnit = "tokens"
    ) -> None:
        self._reference = reference
        self._options: dict[str, Any] = {"rule": rule, "of": of}
        self._scalers: list[LearningRateScaler] = []

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Takes the optimizers."""
        self._scalers = [
            LearningRateScaler(optimizer, self._reference, **self._options)
            for optimizer in trainer.optimizers
        ]

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Sets the factor of the batch's step."""
        step = loader_of(trainer, "LearningRateCallback").step()
        for scaler in self._scalers:
            scaler.on_step(step)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Takes the scaling off the optimizers."""
        while self._scalers:
            self._scalers.pop().close()


class Monitor(Callback):  # type: ignore[misc]
    """A callback that keeps training within its memory and computes metrics. For data modules
    with :class:`DataModuleMixin` and one training loader.

    Args:
        meter: a :class:`sab.Meter` that gets each batch and each step of the optimizer. It gets the
            guard, too.
        guard: makes a :class:`sab.MemoryGuard` of the loader's sampler, such as
            ``lambda sampler: sab.MemoryGuard(sampler, "cuda", reduce="torch")``. The guard measures
            each step and lowers the budget of the batches to come. A step that runs out of memory
            ends the run, as always. With ``interval=1`` a checkpoint of ``OnExceptionCheckpoint``
            has the lowered budget, and the run that goes on from it repeats the samples.
    """

    def __init__(
        self,
        meter: Meter | None = None,
        *,
        guard: Callable[[RandomAccessSampler], MemoryGuard] | None = None,
    ) -> None:
        self._meter, self._make_guard = meter, guard
        self._guarded: Any = None
        self._open = contextlib.ExitStack()  # the step that is measured
        self._batch: Any = None
        self._totals: Any = None  # of the batch's step, over all ranks
        self.guard: MemoryGuard | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Sets the steps of the meter, which a resumed run counts on from."""
        if self._meter is not None:
            self._meter.steps = trainer.global_step

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Begins to measure a step."""
        loader = loader_of(trainer, "Monitor")
        if self._make_guard is not None and loader.source is not self._guarded:
            self._guarded, self.guard = loader.source, self._make_guard(loader.source)
            if self._meter is not None:
                self._meter.guard = self.guard
        # Now, since the guard may change the budget behind this batch.
        self._batch, self._totals = loader.batch, loader.step()
        if self.guard is not None:
            self._open.enter_context(self.guard.measure(self._batch))

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Ends the measured step."""
        self._open.close()
        if self._meter is not None:
            self._meter.on_batch(self._batch)
            if not trainer.fit_loop._should_accumulate():
                self._meter.on_step(self._totals)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Writes the metrics of the last steps."""
        if self._meter is not None:
            self._meter.write()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Ends the measured step with what it failed with."""
        with contextlib.suppress(type(exception)):
            self._open.__exit__(type(exception), exception, exception.__traceback__)
