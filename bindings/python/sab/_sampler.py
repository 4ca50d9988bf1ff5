"""What all samplers share: passes, batches, blocks and steps."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Callable, Literal

import numpy as np

from sab._arguments import one_of, whole
from sab._batch import (
    Batch,
    Block,
    Capabilities,
    Indices,
    Step,
    batch_of,
    block_of,
    new_batch,
    step_of,
)
from sab._cost import ONE_COLUMN
from sab._display import Facts, as_html, one_line, public_name
from sab._native import Calls, CData, check, ffi, lib, new_struct
from sab._walk import Walk, is_called_by

__all__ = ["Sampler"]

Output = Literal["numpy", "list"]
OUTPUTS = {"numpy": 0, "list": 1}


class Sampler:
    """The base class of all samplers, for annotations and ``isinstance``.

    Iterating gives the batches of an epoch, each an int64 array of sample indices with memory of
    its own. Each ``for`` loop begins a pass:

    - after a finished pass, the next epoch;
    - after a pass that was not finished, the same epoch from its start. When passes are broken off
      at the same place again, a warning says so: ``steps_per_epoch`` makes passes of a number of
      steps, each of which goes on where the last one stopped;
    - after :meth:`load_state_dict`, what is left of the saved epoch; the next epoch if the saved
      one was finished.

    A pass that begins while another one is under way does not move that one: each goes on at its
    own place, and :meth:`state_dict` has the place of the one that gave a batch last. When a pass
    is broken off, it is again that of the pass in which it began.

    A pass that has begun already continues at a state that is loaded. It continues with the epoch
    that :meth:`set_epoch` chooses if it has given no batch, and otherwise raises. A pass raises,
    too, when workers of a DataLoader have fetched its batches ahead from another place.

    A pass that gave its last batch is finished, since some trainers stop after ``len()`` batches. A
    sampler is for one thread at a time; samplers on one plan are independent of each other.
    """

    _handle: CData
    _told: tuple[Any, Any]  # filled by the library: an epoch, a position
    _calls: Calls | None = None
    _output: Output = "numpy"
    _columns: tuple[str, ...] = ONE_COLUMN
    _step: int = 0  # batches of the epoch that were given or skipped by a restore
    _under_way: bool = False  # the pass has given a batch and has not ended
    _made_from: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), {})  # the constructor's arguments
    _placed: int = 0  # how often a place was chosen, by set_epoch() or load_state_dict()
    _place: tuple[int, int] | None = None  # the one chosen last, from the first pass there on
    _is_epoch_chosen: bool = False  # by set_epoch()
    _moves: int = 0  # how often what was fetched ahead lost its place or budget
    _last: Walk | None = None  # the pass that gave a batch last
    _current: Walk | None = None  # the pass whose place the library has
    _outer: Walk | None = None  # the pass that was left for one that begins
    _broken: tuple[int, ...] = ()  # where a pass was broken off last
    _limits: Mapping[int, float] = {}  # the budgets that were set; replaced, not changed

    def __init__(self) -> None:
        raise TypeError("sab.Sampler: is made as one of its kinds, such as sab.BucketSampler")

    def _construct(
        self,
        output: Output,
        constructor: Callable[..., int],
        *given: Any,
        calls: Calls | None = None,
    ) -> None:
        """Calls a constructor of C and owns the sampler that it makes."""
        handle = ffi.new("sab_sampler **")
        check(constructor(*given, handle), calls)
        self._adopt(handle, output)

    def _adopt(self, handle: CData, output: Output) -> None:
        self._handle = ffi.gc(handle[0], lib.sab_sampler_free)
        one_of("output", output, OUTPUTS)
        self._told = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        self._output = output

    def _tell(self) -> tuple[int, int]:
        handle, (epoch, position) = self._handle, self._told
        check(lib.sab_sampler_tell(handle, epoch, position))
        return int(epoch[0]), int(position[0])

    @property
    def epoch(self) -> int:
        """The epoch that iterating walks, or walked last."""
        return self._tell()[0]

    @property
    def capabilities(self) -> Capabilities:
        """What this sampler supports."""
        bits = ffi.new("uint64_t *")
        check(lib.sab_sampler_get_capabilities(self._handle, bits))
        return Capabilities(
            bool(bits[0] & lib.SAB_SAMPLER_BATCH_COUNT),
            bool(bits[0] & lib.SAB_SAMPLER_RANDOM_ACCESS),
            bool(bits[0] & lib.SAB_SAMPLER_BUDGET),
            bool(bits[0] & lib.SAB_SAMPLER_SCHEDULE),
        )

    @property
    def skipped_count(self) -> int:
        """Number of samples left out because they are too large."""
        count = ffi.new("size_t *")
        check(lib.sab_sampler_get_skipped(self._handle, ffi.NULL, 0, count))
        return int(count[0])

    @property
    def skipped(self) -> Indices:
        """The samples left out because they are too large, by ascending size; of greedy samplers
        those of the current epoch so far. With ``min_batch_size`` also those of the current epoch
        that no batch has room for under a lowered budget, or in the steps of all shards.
        """
        indices = np.empty(self.skipped_count, np.int64)
        room = ffi.cast("int64_t *", indices.ctypes.data)
        check(lib.sab_sampler_get_skipped(self._handle, room, indices.size, ffi.new("size_t *")))
        return indices

    def _sample_count(self) -> int | None:
        """The samples that a data set must have; None where that is not known."""
        return None

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass; the same on all ranks."""
        self._go_to_epoch(whole("epoch", epoch))
        self._choose_place(is_epoch=True)

    def _go_to_epoch(self, epoch: int) -> None:
        check(lib.sab_sampler_set_epoch(self._handle, epoch), self._calls)
        self._step, self._under_way, self._last = 0, False, None

    def _choose_place(self, *, is_epoch: bool) -> None:
        """Lets the passes that have begun go on where the sampler is now."""
        self._placed += 1
        self._moves += 1
        self._place, self._is_epoch_chosen = None, is_epoch
        self._current = self._outer = None

    def _start(self) -> tuple[int, int]:
        """Begins a pass in the library. Returns its epoch and first position."""
        check(lib.sab_sampler_begin(self._handle), self._calls)
        epoch, self._step = self._tell()
        self._under_way, self._last = False, None
        return epoch, self._step

    def _begin(self) -> Walk:
        """Begins a pass."""
        self._leave()
        begun = self._start()
        if self._place is None:
            self._place = begun
        self._current = walk = Walk(self, self._placed, *begun)
        walk.outer, self._outer = self._outer, None
        if walk.outer is not None:  # goes on until the new pass gives a batch
            self._turn_to(walk.outer)
        return walk

    def _leave(self) -> None:
        """Keeps the place of the pass that is under way. Without random access there is one."""

    def _turn_to(self, walk: Walk) -> None:
        """Puts the library where a pass is that was left."""

    @contextlib.contextmanager
    def _ending(self, walk: Walk) -> Generator[None, None, None]:
        """Ends a pass; one that a loader holds is ended by the loader."""
        try:
            yield
        except BaseException:  # such as GeneratorExit
            if not walk.is_held:
                self._break_off(walk)
            raise
        walk.is_open = walk.is_held

    def _break_off(self, walk: Walk, position: int | None = None) -> None:
        """Ends a pass that is not finished, and goes on with the one in which it began."""
        walk.is_open = False
        self._warn_of_repeats(walk, walk.step if position is None else position)
        outer = walk.outer
        while outer is not None and not outer.is_open:
            outer = outer.outer
        if (
            outer is not None
            and walk is self._current
            and outer.placed == self._placed
            and self._handle != ffi.NULL
        ):
            self._turn_to(outer)

    def _warn_of_repeats(self, walk: Walk, position: int) -> None:
        """Warns when a pass is broken off where the last one was: more than a look at a batch."""
        if walk.outer is not None or self._handle == ffi.NULL or position < walk.first + 2:
            return
        broken = (walk.placed, walk.epoch, walk.first, position)
        if broken == self._broken and position < self._length():
            has_steps = self._made_from[1].get("steps_per_epoch")
            advice = "give steps_per_epoch= the steps that a pass takes"
            advice = advice if has_steps else "make the sampler with steps_per_epoch="
            warnings.warn(
                f"two passes over epoch {walk.epoch} were broken off at the same place, so its "
                f"other batches never come: {advice}, so that a pass "
                "goes on where the last one stopped, or call set_epoch() before each pass",
                stacklevel=2,
            )
        self._broken = broken

    def _length(self) -> float:
        """The batches of the epoch, as far as they are known."""
        return math.inf

    def __iter__(self) -> Iterator[Any]:
        indices = (batch.indices for batch in self.batches())
        return (each.tolist() for each in indices) if self._output == "list" else indices

    def batches(self) -> Iterator[Batch]:
        """The pass that iterating gives, as :class:`Batch` objects."""
        return self._walk(self._begin())

    def _walk(self, walk: Walk) -> Iterator[Batch]:
        batch = new_batch()
        while True:
            self._go_on(walk)
            if check(lib.sab_next_batch(self._handle, batch), self._calls) == lib.SAB_END:
                self._under_way = False
                return
            self._gave(walk, 1)
            yield batch_of(batch, self._handle, self._columns)

    def blocks(self, batches: int = 1024) -> Iterator[Block]:
        """The pass that iterating gives, at most this many batches at once, as :class:`Block`
        objects. :meth:`state_dict` and a pass that is broken off count the batches of the blocks
        that were given. A sampler without random access gives one batch a block.

        >>> import sab
        >>> sampler = sab.SequentialSampler(sab.plan([5, 3, 5, 4, 3, 4], budget=10))
        >>> [(block.indices.tolist(), block.offsets.tolist()) for block in sampler.blocks()]
        [([1, 4, 3, 5, 0, 2], [0, 2, 4, 6])]
        """
        batches = whole("batches", batches, 1)
        return self._walk_many(self._begin(), batches)

    def _walk_many(self, walk: Walk, most: int) -> Iterator[Block]:
        block = new_struct("sab_block")
        with self._ending(walk):
            while self._next_block(walk, most, block):
                self._gave(walk, block.count)
                yield block_of(block, self._columns)

    def _gave(self, walk: Walk, batches: int) -> None:
        """Counts batches that a pass gives."""
        if walk is not self._current:
            self._turn_to(walk)
        self._step = walk.step = walk.step + batches
        self._under_way, self._last = True, walk

    def _next_block(self, walk: Walk, most: int, block: CData) -> bool:
        """Shows the next batches of a pass; False at its end."""
        self._go_on(walk)
        if check(lib.sab_next_block(self._handle, most, block), self._calls) == lib.SAB_END:
            self._under_way = False
            return False
        return True

    def step(self) -> Step:
        """The optimizer's step of the batch that was given last, over all ranks and
        micro-batches.
        """
        return step_of(self._handle, self._columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The batches of all ranks of the current epoch (:attr:`epoch`) for Arrow:
        ``pyarrow.table(sampler)``, ``polars.DataFrame(sampler)``.

        A row is a batch of one rank: ``step``, ``rank``, ``batch`` (its position among those of the
        rank), ``indices``, ``padded_length``. Rows are ordered by step, then by micro-batch, then
        by rank. They are made while they are read, and nothing that is done to the sampler changes
        them. After :meth:`load_state_dict` on other ranks, or :meth:`set_budget`, they begin there.

        Args:
            requested_schema: is ignored, as the interface allows.

        Raises:
            UnsupportedError: for a sampler without random access, and for a sharded sampler of
                several ranks.
        """
        made: list[object] = [None]
        check(lib.sab_py_schedule_new(self._handle, id(self), id(made)))
        if made[0] is None:
            raise MemoryError("the schedule: memory ran out")
        return made[0]

    def _go_on(self, walk: Walk) -> None:
        """Puts the cursor where a pass is; another pass may have moved it."""
        loader = None if walk.loader is None else walk.loader()
        if loader is not None:
            walk.fetched = loader._task_info
        if walk.placed != self._placed:
            self._take_place(walk)
        self._turn_to(walk)
        current, position = self._tell()
        if current != walk.epoch:
            raise RuntimeError(
                f"the sampler moved to epoch {current} while a pass over epoch {walk.epoch} was "
                "under way"
            )
        if position != walk.step:
            self._seek(walk.step)

    def _take_place(self, walk: Walk) -> None:
        """Moves a pass to the place that was chosen since it began."""
        if self._place is None:
            self._place = self._start()
        is_there = self._place == (walk.epoch, walk.first)
        if walk.loader is not None:
            # Called when the loader is about to give the batch before those in `fetched`.
            has_given = walk.is_exact and walk.step - len(walk.fetched) - 1 > walk.first
            if has_given or not is_there:
                raise RuntimeError(
                    "load_state_dict() or set_epoch() while workers of a DataLoader had fetched "
                    "batches from another place; begin another pass over the loader"
                )
        elif walk.step > walk.first and self._is_epoch_chosen:
            raise RuntimeError(
                f"the sampler moved to epoch {self._place[0]} by set_epoch() while a pass over "
                f"epoch {walk.epoch} was under way"
            )
        else:
            walk.epoch, walk.step = self._place
            walk.first = walk.step
        walk.placed, walk.kept = self._placed, None

    def _given(self) -> int:
        """Batches of the epoch that training was given, or that were skipped by a restore."""
        walk = self._last
        if walk is None:
            return self._step
        ahead = walk.ahead()
        if ahead and not is_called_by("torchdata"):
            warnings.warn(
                f"the loader has fetched {ahead} batch{'es' * (ahead > 1)} ahead of training, "
                "counted as given: use sab.torch.DataLoader, or state_dict(step=...)",
                stacklevel=3,
            )
        return self._step - (len(walk.fetched) if walk.is_exact else 0)

    def _seek(self, step: int) -> None:
        """Nothing: a sampler without random access has one pass at a time."""

    def _catch_up(self) -> CData:
        """The handle, with the cursor, which may have run ahead, where the pass is."""
        if self._handle != ffi.NULL and self._tell()[1] != self._step:
            self._seek(self._step)
        return self._handle

    def _facts(self) -> Facts:
        """What is known, as names and values; nothing of a closed sampler."""
        if getattr(self, "_handle", ffi.NULL) == ffi.NULL:
            return []
        given = self._made_from[1]
        facts = [("rank", f"{given['rank']} of {given['world_size']}")] if "rank" in given else []
        facts.append(("epoch", f"{self.epoch:,}"))
        if "seed" in given:
            facts.append(("seed", f"{given['seed']}"))
        return [*facts, ("skipped", f"{self.skipped_count:,}")]

    def __repr__(self) -> str:
        return one_line(self, [f"{name} {value}" for name, value in self._facts()] or ["closed"])

    def _repr_html_(self) -> str:
        return as_html(public_name(self), self._facts() or [("closed", "")])

    def close(self) -> None:
        """Frees the sampler; using it afterwards is an error. Also done by ``with`` and when it is
        collected.
        """
        self._handle = ffi.NULL  # freed when no call uses it any more

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
