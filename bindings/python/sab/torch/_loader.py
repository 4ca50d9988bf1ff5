"""A loader of torch whose batches a sampler of libsab makes."""

from __future__ import annotations

import collections
import contextlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Callable, Optional, cast

import torch.utils.data

from sab._batch import Batch, PerColumn, Step
from sab._guard import MemoryGuard
from sab._probe import DeviceLike
from sab._random_access import RandomAccessSampler
from sab._sampler import Sampler
from sab._walk import Walk
from sab.torch._advice import Advice
from sab.torch._frameworks import epochs_of, processes_of_group, ranks_of
from sab.torch._memory import Memory, is_waiting, memory_of
from sab.torch._samples import Tickets, loader_options, random_access

__all__ = ["DataLoader"]

_BY_SAMPLER = ("batch_size", "shuffle", "drop_last")  # what the sampler decides


Noted = tuple[Batch, Optional[Step]]  # a batch, and its step where the budget may change


class Pass:
    """The place of a pass over a loader."""

    def __init__(self, walk: Walk, outer: Pass | None, fetched: collections.deque[Noted]) -> None:
        self.walk = walk  # of the sampler, which is ahead where workers fetch
        self.fetched = fetched  # batches whose data was not yielded yet
        self.batch: Batch | None = None  # that of the data that was yielded last
        self.step: Step | None = None  # of this batch, where the budget may change
        self.position = walk.first  # after the batch that was yielded last
        self.placed = walk.placed  # the sampler's count of placements when the pass began
        self.outer = outer  # the pass that had yielded last when it began
        self.is_open = True  # it may yield more
        self.has_given = self.has_ended = False

    def left_to(self) -> Pass:
        """The pass that goes on when this one is broken off; itself without another one."""
        outer = self.outer
        while outer is not None and not outer.is_open:
            outer = outer.outer
        return self if outer is None or outer.placed != self.placed else outer


class DataLoader(torch.utils.data.DataLoader[Any]):
    """``torch.utils.data.DataLoader`` for a sampler of libsab. Its state is the place of the
    training loop, whatever the workers have fetched ahead.

    A ``for`` loop begins a pass, as for samplers: the next epoch after a finished pass; the same
    epoch from its start after a pass that was broken off; what is left of the saved epoch after
    :meth:`load_state_dict`. For passes of a number of steps, each of which goes on where the last
    one stopped, give the sampler ``steps_per_epoch``. Within a loop, ``next(iter(loader))`` looks
    at a batch of the same epoch and leaves the loop where it is. The place is that of the pass that
    yielded last. When a pass is broken off within another one, it is that of the other one again.

    Args:
        dataset: has the samples by their index, as many as the sampler was made of.
        sampler: any sampler of libsab.
        collate_fn: ``collate_fn(samples, batch)`` makes one piece of data of a list of samples and
            their :class:`sab.Batch`; it is :class:`PadCollate` or :class:`PackCollate`, or your
            own. A function with one argument that must be given gets the samples alone. By default
            torch's ``default_collate``. In the last step of an epoch a rank may have a batch
            without samples: a function with two arguments gets an empty list, :class:`PackCollate`
            gives a row of padding, the others give tensors without rows.
        step: for a sampler with ``budget="memory"``: ``step(data)`` runs a whole training step on
            the data of a batch, as the loop does. Before the first batch, the loader runs it on
            batches of some shapes, learns the memory that it needs, and makes the sampler's plan.
            From then on a :class:`sab.MemoryGuard` measures what the loop does with each batch.
            The model is part of :meth:`state_dict`, and a run that goes on does not learn it again.
            ``docs/guide/memory.md`` has more. Not needed in Lightning.
        restore: with ``step``: what it changes, such as ``[model, optimizer, scaler]``. These and
            the random generators are afterwards bit for bit what they were. Copies of their
            tensors are in host memory until then.
        device: for ``budget="memory"``: the device to measure, as for :class:`sab.Probe`; by
            default that of the modules in ``restore``.
        options: those of torch's ``DataLoader``: ``num_workers``, ``pin_memory``,
            ``persistent_workers``, ``multiprocessing_context`` and so on. Not ``batch_size``,
            ``shuffle``, ``sampler`` and ``drop_last``, which the sampler decides.

    In a process that uses a CUDA device a loader warns, once, where batches of more than 64 shapes
    meet settings of torch that cost much then: cuDNN's attention first, or an allocator without
    expandable segments that has reserved nearly all memory. It changes no setting.

    The attribute ``source`` is the sampler. Another framework that makes a loader anew from
    ``dataset``, ``batch_sampler`` and ``collate_fn`` of this one gets the same batches.

    >>> import sab, sab.torch, torch
    >>> words = [torch.ones(size) for size in (5, 3, 5, 4, 3, 4)]
    >>> plan = sab.plan([len(each) for each in words], budget=10, boundaries=[3, 4, 5, 6])
    >>> loader = sab.torch.DataLoader(
    ...     words, sab.BucketSampler(plan), collate_fn=sab.torch.PadCollate()
    ... )
    >>> sorted(tuple(batch.shape) for batch in loader)
    [(2, 3), (2, 4), (2, 5)]
    """

    batch_sampler: Any

    def __init__(
        self,
        dataset: Any,
        sampler: Sampler,
        *,
        collate_fn: Callable[..., Any] | None = None,
        step: Callable[[Any], Any] | None = None,
        restore: Sequence[Any] | None = None,
        device: DeviceLike | None = None,
        **options: Any,
    ) -> None:
        for name in _BY_SAMPLER:
            if options.pop(name, None):
                raise TypeError(f"{name}: the sampler decides it; leave it out")
        if "batch_sampler" in options:
            raise TypeError(
                "batch_sampler: give the sampler of libsab as sampler; a framework that makes the "
                "loader anew, such as Lightning for predictions, can do so with "
                "torch.utils.data.DataLoader(**sab.torch.loader_options(...))"
            )
        if not options.get("in_order", True):
            raise ValueError("in_order = False: must be True, since a state counts batches")
        super().__init__(**loader_options(dataset, sampler, collate_fn), **options)
        self._source = sampler
        self._memory = memory_of(sampler, step, restore, device)
        self._advice = Advice()
        self._tickets: Tickets = self.batch_sampler
        self._framework: Any = None  # that took the loader over
        self._first_length = -1  # what len() said first; -1: not called
        self._is_loaded = False  # a state was loaded, and no pass has begun since
        self._has_checked_ranks = False
        self._pass: Pass | None = None  # the one that yielded last
        self._of_step: Sequence[Batch] = ()  # that Trainer has taken for a step

    @property
    def source(self) -> Sampler:
        """The sampler. The plan of one with ``budget="memory"`` is made at the first use."""
        self._plan_first()
        return self._source

    @source.setter
    def source(self, source: Sampler) -> None:
        self._source = source

    @property
    def guard(self) -> MemoryGuard | None:
        """With ``budget="memory"``: measures the steps; None before the first one."""
        return None if self._memory is None else self._memory.guard

    def _plan_first(self) -> None:
        if is_waiting(self._source) and self._tried() is None:
            cast("Memory", self._memory).plan(self._source, self)

    def _tried(self) -> Batch | None:
        """The batch whose step is run to learn its memory."""
        return None if self._memory is None else self._memory.batch

    def _is_walking(self) -> bool:
        """Whether the place is that of a pass of this loader, and not of a later `set_epoch` or
        `load_state_dict`, of the loader or of its sampler."""
        return self._pass is not None and self._pass.placed == self.source._placed

    def _own_pass(self) -> Pass | None:
        """The pass whose place is that of the loader. The sampler is where this pass is then."""
        if not self._is_walking():
            return None
        own = cast("Pass", self._pass)
        if own.is_open:
            self.source._turn_to(own.walk)
        return own

    @property
    def epoch(self) -> int:
        """The epoch of the pass, or of the next one where it was set or loaded."""
        self._own_pass()
        return self.source.epoch

    @property
    def position(self) -> int:
        """Batches of the epoch that were yielded, by this loader or before the state that it
        loaded.
        """
        own = self._own_pass()
        return self.source._given() if own is None else own.position

    @property
    def batch(self) -> Batch | None:
        """The batch whose data was yielded last; None if none was yielded in this epoch, and before
        the first one after a state of other ranks or another budget.
        """
        if (tried := self._tried()) is not None:
            return tried
        own = self._own_pass()
        if own is not None and own.has_given:
            return own.batch
        at = self.position
        if at == 0:
            return None
        source = random_access(self.source, "batch")
        try:
            return source.batch(at - 1)
        except ValueError:  # was of other ranks or another budget
            return None

    def _known_batch(self, asked: str) -> Batch:
        batch = self.batch
        if batch is None:
            raise ValueError(f"{asked}: no batch of this epoch has been yielded")
        return batch

    @property
    def sample_weight(self) -> float:
        """The weight of the batch whose data was yielded last, for a loss that is a mean over its
        samples: see :attr:`sab.Batch.sample_weight`.
        """
        return self._known_batch("sample_weight").sample_weight

    @property
    def token_weight(self) -> PerColumn:
        """The same for a mean over its tokens: see :attr:`sab.Batch.token_weight`."""
        return self._known_batch("token_weight").token_weight

    def step(self) -> Step:
        """The optimizer's step, over all ranks and micro-batches, of the batch whose data was
        yielded last: see :class:`sab.Step`.
        """
        own = self._own_pass()
        if own is not None and own.step is not None:
            return own.step
        at, source = self.position, random_access(self.source, "step()")
        if at <= 0:
            raise ValueError("step(): no batch of this epoch has been yielded")
        return source.step(at - 1)

    @property
    def sampler(self) -> Any:
        """For frameworks that set the epoch of a loader's sampler."""
        return epochs_of(self)

    @sampler.setter
    def sampler(self, sampler: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Ignores the one that torch makes."""

    def __len__(self) -> int:
        self._plan_first()
        length = super().__len__()
        if self._first_length < 0:
            self._first_length = length
        return length

    @property
    def _is_accelerate_prepared(self) -> bool:
        """accelerate reads this before it would divide the batches among its processes."""
        accelerate = sys.modules.get("accelerate.state")
        if accelerate is None or not accelerate.AcceleratorState._shared_state:
            raise AttributeError("_is_accelerate_prepared")  # nothing has made an Accelerator
        from sab.accelerate import prepare

        try:
            prepare(self)
        except AttributeError as error:  # for accelerate it would mean that it has to divide them
            raise RuntimeError(f"accelerate: its loaders have changed ({error})") from error
        return True

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, is_prepared: bool) -> None:
        """Is called when it is."""

    def __iter__(self) -> Any:
        walk = self._walk()
        return walk if self._framework is None else self._framework.walk(self, walk)

    def _choose_epoch(self) -> None:
        """Sets the epoch of the pass that begins, if the last one has a successor."""
        own = self._own_pass()
        if own is not None:
            is_finished = own.has_ended or own.position == self._count()
            self.source._leave()
            self.source._go_to_epoch(self.source.epoch + is_finished)

    def _check_ranks(self) -> None:
        """Warns, once, of processes that would all get the same batches."""
        processes = processes_of_group()
        if processes == 1 or self._framework is not None or self._has_checked_ranks:
            return
        self._has_checked_ranks = True
        if ranks_of(self._source)[1] == 1:
            warnings.warn(
                f"world_size = 1: the sampler has no ranks, so each of the {processes} processes "
                "of the group gets all samples; give it rank and world_size, those of sab.ranks()",
                stacklevel=3,
            )

    def _walk(self) -> Iterator[Any]:
        # Begins with the first batch: Lightning calls iter() before it chooses the epoch.
        self._check_ranks()
        self._plan_first()
        outer = self._own_pass()
        self._choose_epoch()
        self._is_loaded = False
        loader: Any = self if self._framework is None else self._framework.fetching
        # Not the workers of the pass that is under way.
        is_inner = outer is not None and outer.is_open and loader.persistent_workers
        self._tickets._taken = fetched = collections.deque[Noted]()
        walk = loader._get_iterator() if is_inner else torch.utils.data.DataLoader.__iter__(loader)
        self._tickets._taken = None
        self._pass = own = Pass(self._tickets._begun, outer, fetched)
        own.walk.is_held = own.walk.is_open = True
        try:
            for data in walk:
                own.position += 1
                own.batch, own.step = fetched.popleft()
                if own.placed != self.source._placed:  # the pass went on at another place
                    own.position, own.placed = self.source._given(), self.source._placed
                own.has_given, self._pass = True, own
                self._advice.see(own.batch)
                with self._measured(own):
                    yield data
            own.has_ended, self._pass = True, own
        finally:
            own.is_open = own.walk.is_open = False
            if not own.has_ended:
                self.source._break_off(own.walk, own.position)
                self._pass = own.left_to() if self._pass is own else self._pass
        if own.position < self._count():
            raise RuntimeError(
                f"the data set ended the epoch after {own.position} of {self._count()} "
                "batches: its __getitem__ raised StopIteration"
            )

    def _measured(self, own: Pass) -> contextlib.AbstractContextManager[None]:
        """Measures the memory of the loop's step, where the plan was made by it."""
        memory = self._memory
        if memory is None or not memory.run.holds_loop:
            return contextlib.nullcontext()
        source = random_access(self.source, "budget = 'memory'")
        return memory.measured(source, cast("Batch", own.batch))

    def _count(self) -> int:
        """The epoch's batches; -1 where that is not known."""
        return len(self.source) if isinstance(self.source, RandomAccessSampler) else -1

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass; the same on all ranks. The epoch of a state that has
        just been loaded keeps its position, so that a training loop may set each epoch.
        """
        is_within = self._is_loaded and self.position > 0
        if not (is_within and self.source.epoch == epoch):
            self.source.set_epoch(epoch)
            self._is_loaded = False

    def set_ranks(self, rank: int, world_size: int) -> None:
        """Goes on at the same place as another rank: for what learns its rank after the loader was
        made.
        """
        source = random_access(self._source, "set_ranks()")
        if is_waiting(source):
            self.source = self._tickets.source = source._of_rank(rank, world_size)
            return
        epoch, position = self.epoch, self.position
        remade = source._of_rank(rank, world_size)
        if position:
            remade.load_state_dict(self.state_dict())
        else:
            remade.set_epoch(epoch)
        self.source = self._tickets.source = remade
        self._pass = None

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """The place after the batches that were yielded; those that workers have fetched ahead are
        not counted. The epoch has ended when the loop has: within the loop's last batch, nothing is
        left of the epoch, and the pass after a restore is empty. With ``step``: after this many
        batches of the epoch, for what fetches ahead of training.

        The sampler takes this state, too, and this loader that of the sampler.
        """
        source = random_access(self.source, "state_dict()")
        own = self._own_pass()
        if step is None and own is not None and not own.has_ended:
            step = own.position
        state = source.state_dict(step)
        found = None if self._memory is None else self._memory.found
        return state if found is None else {**state, "memory": found.saved()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues there with the next pass; the state may be of another number of ranks.

        Raises:
            FormatError, MismatchError: as for samplers.
        """
        if is_waiting(self._source) and "memory" in state_dict:
            cast("Memory", self._memory).recall(self._source, state_dict["memory"])
        random_access(self.source, "load_state_dict()")._load_next(state_dict)
        self._is_loaded = True

    def __repr__(self) -> str:
        return f"<sab.torch.DataLoader of {self._source!r}>"
