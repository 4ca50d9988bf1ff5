"""Samplers: the batches of an epoch, for one rank."""

from __future__ import annotations

import contextlib
import sys
import warnings
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping
from types import FrameType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Literal,
    NamedTuple,
    Protocol,
    TypedDict,
    TypeVar,
    cast,
)

import numpy as np
import numpy.typing as npt

from sab._arguments import (
    indices_of,
    integer,
    iterable,
    kind_of,
    one_of,
    place_of,
    real,
    saved_state,
    whole,
)
from sab._batch import (
    Batch,
    Block,
    Capabilities,
    Indices,
    Step,
    batch_of,
    batches_of_block,
    block_of,
    copied,
    new_batch,
    step_of,
)
from sab._cost import ONE_COLUMN, BudgetLike
from sab._display import Facts, as_html, one_line, public_name
from sab._native import (
    Calls,
    CData,
    MismatchError,
    check,
    ffi,
    lib,
    new_options,
    new_struct,
    unpicklable,
    warn_of_skipped,
)
from sab._plan import (
    LAST_STEPS,
    WHY_SKIPPED,
    LastStep,
    Plan,
    PlanOptions,
    check_names,
    new_plan,
)
from sab._sizes import Sizes, SizesLike, as_sizes

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "BionemoSizeAwareSampler",
    "BionemoSizeAwareStream",
    "BucketSampler",
    "SequentialSampler",
]

BLOCK = 64  # batches fetched at once; fewer at first, so that the first batch comes early


Output = Literal["numpy", "list"]
OUTPUTS = {"numpy": 0, "list": 1}
Element_co = TypeVar("Element_co", covariant=True)


class SupportsIndex(Protocol[Element_co]):
    """What is indexed by whole numbers."""

    def __getitem__(self, index: int) -> Element_co: ...


class Kept(NamedTuple):
    """What a sampler has of the pass that is under way."""

    state: bytes
    step: int
    under_way: bool
    last: Walk | None
    before_changes: tuple[tuple[int, int, bytes], ...]
    limits: Mapping[int, float]


class Walk:
    """Where a pass over the batches of a sampler is."""

    __slots__ = (
        *("epoch", "fetched", "first", "is_exact", "is_held", "is_open", "kept", "loader"),
        *("outer", "placed", "step"),
    )

    def __init__(self, sampler: Sampler, epoch: int, step: int) -> None:
        self.epoch, self.step = epoch, step
        self.first = step  # the place at which it began
        self.placed = sampler._placed
        self.is_open = True  # it may give more batches
        self.is_held = False  # by a loader, which gives them later
        self.outer: Walk | None = None  # the pass that was under way when it began
        self.kept: Kept | None = None  # while another pass is under way
        loader = _fetching_loader()
        # Weak, since the loader holds the pass and ends its workers when it goes.
        self.loader = None if loader is None else weakref.ref(loader)
        # Of the loader: the batches that training was not given yet. Outlives it.
        self.fetched: Mapping[int, Any] = {}
        # Whether the loader takes these batches themselves, in their order.
        index_sampler = getattr(loader, "_index_sampler", None)
        self.is_exact: bool = getattr(loader, "_in_order", True) and (
            index_sampler is sampler or getattr(index_sampler, "source", None) is sampler
        )


def _fetching_loader() -> Any:
    """The iterator of torch's DataLoader that begins a pass and has workers, which fetch batches
    ahead of training; None without one.
    """
    name = "torch.utils.data.dataloader"
    if name not in sys.modules:
        return None
    torch: Any = sys.modules[name]
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is torch.__dict__:
            owner = frame.f_locals.get("self")
            if isinstance(owner, torch._MultiProcessingDataLoaderIter):
                return owner
        frame = frame.f_back
    return None


class Sampler:
    """What all samplers share.

    Iterating gives the batches of an epoch, each an int64 array of sample indices with memory of
    its own. Each ``for`` loop begins a pass:

    - after a finished pass, the next epoch;
    - after a pass that was not finished, the same epoch from its start;
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
    _limits: Mapping[int, float] = {}  # the budgets that were set; replaced, not changed
    # Of each change of a budget in the pass: the index, and the position and state before it.
    _before_changes: tuple[tuple[int, int, bytes], ...] = ()

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
        epoch, position = self._told
        check(lib.sab_sampler_tell(self._handle, epoch, position))
        return int(epoch[0]), int(position[0])

    @property
    def epoch(self) -> int:
        """The epoch that iterating walks, or walked last."""
        return self._tell()[0]

    @property
    def capabilities(self) -> Capabilities:
        """What this sampler supports."""
        bits = ffi.new("uint64_t *")
        check(lib.sab_sampler_capabilities(self._handle, bits))
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
        check(lib.sab_sampler_skipped(self._handle, ffi.NULL, 0, count))
        return int(count[0])

    @property
    def skipped(self) -> Indices:
        """The samples left out because they are too large, by ascending size; of greedy samplers
        those of the current epoch so far.
        """
        indices = np.empty(self.skipped_count, np.int64)
        room = ffi.cast("int64_t *", indices.ctypes.data)
        check(lib.sab_sampler_skipped(self._handle, room, indices.size, ffi.new("size_t *")))
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
        self._step, self._under_way, self._before_changes, self._last = 0, False, (), None

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
        self._current = walk = Walk(self, *begun)
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

    def _break_off(self, walk: Walk) -> None:
        """Ends a pass that is not finished, and goes on with the one in which it began."""
        walk.is_open = False
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
        if walk is None or not walk.fetched:
            return self._step
        if walk.is_exact:
            return self._step - len(walk.fetched)
        warnings.warn(
            f"workers of a DataLoader have fetched {len(walk.fetched)} batches ahead of training, "
            "which count as given: use sab.torch.DataLoader, or state_dict(step=...)",
            stacklevel=3,
        )
        return self._step

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


class RandomAccessSampler(Sampler):
    """A sampler that knows its length, and any batch without those before it."""

    @property
    def rank(self) -> int:
        """This rank, from 0."""
        return int(self._order()["rank"])

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return int(self._order()["world_size"])

    @property
    def drop_last(self) -> bool:
        """There is none. accelerate reads it before it divides batches among its processes, which
        must not happen twice.

        Raises:
            TypeError: this sampler is one of several ranks.
        """
        if self.world_size > 1:
            raise TypeError(
                f"drop_last: the batches are those of rank {self.rank} of {self.world_size}, and "
                "must not be divided among processes again; load them with "
                "sab.torch.DataLoader(dataset, sampler)"
            )
        raise AttributeError("drop_last")

    def _order(self) -> Mapping[str, Any]:
        return self._made_from[1]

    def _of_rank(self, rank: int, world_size: int) -> RandomAccessSampler:
        """The same sampler as another rank, at its beginning."""
        arguments, options = self._made_from
        kind: Callable[..., RandomAccessSampler] = type(self)
        return kind(*arguments, **{**options, "rank": rank, "world_size": world_size})

    def __len__(self) -> int:
        """This rank's batches of the epoch: exact, and the same on every rank."""
        count = ffi.new("uint64_t *")
        check(lib.sab_sampler_batch_count(self._handle, count))
        return int(count[0])

    def _facts(self) -> Facts:
        facts = super()._facts()
        if facts:
            with contextlib.suppress(Exception):  # of a function that makes the batches
                facts.insert(0, ("batches", f"{len(self):,}"))
        return facts

    def _start(self) -> tuple[int, int]:
        # The cursor runs ahead, so that the library cannot know it.
        has_fetched = self._last is not None and self._last.is_exact and self._last.fetched
        if self._under_way or has_fetched:
            self._go_to_epoch(self.epoch + (not has_fetched and self._step == len(self)))
        self._before_changes = ()
        return super()._start()

    def _leave(self) -> None:
        walk, self._current = self._current, None
        if walk is not None and walk.is_open and walk.placed == self._placed:
            walk.kept = Kept(
                self._state(),
                self._step,
                self._under_way,
                self._last,
                self._before_changes,
                self._limits,
            )
            if self._last is walk:  # it has given a batch
                self._outer = walk

    def _turn_to(self, walk: Walk) -> None:
        if walk is self._current:
            return
        self._leave()
        self._current, self._outer = walk, None
        if walk.kept is None:
            return
        kept, walk.kept = walk.kept, None
        self._restore(kept.state)
        self._step, self._under_way, self._last = kept.step, kept.under_way, kept.last
        self._before_changes = kept.before_changes
        for index, limit in self._limits.items():
            if kept.limits.get(index) != limit:  # was set in another pass
                self.set_budget(limit, index)

    def __iter__(self) -> Iterator[Any]:
        return self._walk_indices(self._begin())

    def _walk(self, walk: Walk) -> Iterator[Batch]:
        with self._ending(walk):
            for block in self._blocks_ahead(walk):
                moves = self._moves
                for batch in batches_of_block(block, self._columns):
                    self._gave(walk, 1)
                    yield batch
                    if self._moves != moves:
                        break

    def _walk_indices(self, walk: Walk) -> Iterator[Any]:
        is_list = self._output == "list"
        with self._ending(walk):
            for block in self._blocks_ahead(walk):
                edges = ffi.unpack(block.offsets, block.count + 1)
                indices = copied(block.indices, edges[-1], np.int64)
                moves, begin = self._moves, 0
                for end in edges[1:]:
                    self._gave(walk, 1)
                    yield indices[begin:end].tolist() if is_list else indices[begin:end]
                    if self._moves != moves:
                        break
                    begin = end

    def _blocks_ahead(self, walk: Walk) -> Iterator[CData]:
        """The blocks of a pass. Batches are a pure function of the position, so the cursor may run
        ahead of what was given.
        """
        block = new_struct("sab_block")
        ahead = 1
        while self._next_block(walk, ahead, block):
            ahead = min(2 * ahead, BLOCK)
            yield block

    def _seek(self, step: int) -> None:
        check(lib.sab_sampler_seek(self._handle, step))

    @property
    def budget(self) -> float:
        """The limit of the plan's first budget for the batches to come; 0 without a budget."""
        return self.get_budget()

    def get_budget(self, index: int = 0) -> float:
        """The limit of one of the plan's budgets for the batches to come: the plan's, or the last
        of :meth:`set_budget`.
        """
        limit = ffi.new("double *")
        check(lib.sab_sampler_get_budget(self._handle, whole("index", index), limit))
        return float(limit[0])

    def set_budget(self, limit: float, index: int = 0) -> None:
        """Sets another limit of one of the plan's budgets for the batches to come, in this epoch
        and the following ones. 0: the plan's own again.

        The samples of each bucket that are left are cut into as few batches as the limit allows, on
        all ranks alike. No sample is lost, and ``len()`` changes. The limit is part of
        :meth:`state_dict`. All ranks must set it at the same position.
        The cost of the budget must not be a function.
        """
        index = whole("index", index)
        with self._changing_budget(index):
            check(lib.sab_sampler_set_budget(self._handle, index, real("limit", limit)))

    @contextlib.contextmanager
    def _changing_budget(self, index: int = 0) -> Generator[None, None, None]:
        """Lets the pass fetch anew what follows."""
        self._catch_up()
        before = self.get_budget(index)
        change = index, self._step, self._state()
        try:
            yield
        finally:
            if self._handle != ffi.NULL and self.get_budget(index) != before:
                self._moves += 1
                self._before_changes += (change,)
                self._limits = {**self._limits, index: self.get_budget(index)}

    def batch(self, position: int) -> Batch:
        """The batch at a position of the current epoch; negative ones count from the end."""
        batch = new_batch()
        check(lib.sab_sampler_at(self._handle, self._index(position), batch))
        return batch_of(batch, self._handle, self._columns)

    def step(self, position: int | None = None) -> Step:
        """The optimizer's step, over all ranks and micro-batches, of the batch that the pass gave
        last, or of the batch at ``position``.

        >>> import sab
        >>> sampler = sab.BucketSampler(sab.plan([3, 3, 3, 3], budget=6), world_size=2)
        >>> [(batch.count, sampler.step().samples) for batch in sampler.batches()]
        [(2, 4)]
        """
        if position is None:
            given = self._given()
            if given == 0:
                raise ValueError("step(): the pass has given no batch yet")
            position = given - 1
        check(lib.sab_sampler_at(self._handle, self._index(position), new_batch()))
        return step_of(self._handle, self._columns)

    def _index(self, position: int) -> int:
        count = len(self)
        return place_of("position", position, count, f"the epoch has {count} batches")

    def __getitem__(self, position: int) -> Any:
        indices = self.batch(position).indices
        return indices.tolist() if self._output == "list" else indices

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Where the pass is: after the batches that were yielded, and whether it has ended. Batches
        that workers of torch's DataLoader have fetched ahead of training are not counted. With
        ``step``: after this many batches of this rank, not ended, for loaders that fetch ahead of
        training. Of a budget that was changed after them, the state has the new limit.

        The same on all ranks. Holds plain values: ``state`` (bytes), and for a sampler of a plan
        ``budgets``, the plan's limits.
        """
        if step is None:
            step = self._given()
            if step == self._step:
                self._catch_up()
                return {"state": self._state(), **self._beside_state()}
        step = whole("step", step)
        changes = [change for change in self._before_changes if change[1] > step]
        before = self._state() if changes or not self._under_way else None
        limits = [(index, self.get_budget(index)) for index, _, _ in changes]
        if changes:  # no position before a change can be sought; these budgets hold from here on
            self._restore(changes[0][2])
        self._seek(step)
        for index, limit in limits:
            check(lib.sab_sampler_set_budget(self._handle, index, limit))
        state = self._state()
        if before is not None:
            self._restore(before)
        return {"state": state, **self._beside_state()}

    def _beside_state(self) -> dict[str, Any]:
        """What a saved state holds that the library does not need."""
        return {}

    def _state(self) -> bytes:
        size = ffi.new("size_t *")
        check(lib.sab_sampler_state_save(self._handle, ffi.NULL, 0, size))
        state = bytearray(size[0])
        check(lib.sab_sampler_state_save(self._handle, ffi.from_buffer(state), len(state), size))
        return bytes(state)

    def _restore(self, state: bytes) -> None:
        check(
            lib.sab_sampler_state_restore(self._handle, ffi.from_buffer(state), len(state)),
            self._calls,
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues where :meth:`state_dict` was taken, by this or another number of ranks. After
        the state of a finished epoch the next pass is the next epoch.

        Raises:
            FormatError: the state is damaged or of another version; MismatchError: it belongs to
                another plan, seed or sampler.
        """
        self._restore(saved_state(state_dict))
        self._has_loaded()

    def _has_loaded(self) -> None:
        self._step, self._under_way, self._before_changes = self._tell()[1], False, ()
        self._last = None
        self._choose_place(is_epoch=False)

    def _load_next(self, state_dict: dict[str, Any]) -> None:
        """As `load_state_dict`. After the state of a finished epoch the next one begins."""
        self.load_state_dict(state_dict)
        epoch = self.epoch
        if self._start()[0] != epoch:
            self.set_epoch(epoch + 1)
        else:
            self.load_state_dict(state_dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return remake, (type(self), *self._made_from, self.state_dict(), self._under_way)


def remake(
    kind: Callable[..., RandomAccessSampler],
    arguments: tuple[Any, ...],
    options: Mapping[str, Any],
    state: dict[str, Any],
    under_way: bool,
) -> RandomAccessSampler:
    """Makes a sampler again from what its `__reduce__` gave."""
    sampler = kind(*arguments, **options)
    sampler.load_state_dict(state)
    sampler._under_way = under_way
    return sampler


class Order(TypedDict, total=False):
    """The options of samplers in C."""

    seed: int
    rank: int
    world_size: int
    last_step: LastStep
    costliest_first: int
    micro_batches: int


def sampler_options(order: Order) -> CData:
    """The options of a sampler in C, those that are not given with their defaults."""
    options = new_options("sab_sampler_options")
    options.seed = whole("seed", order.get("seed", 0))
    options.rank = whole("rank", order.get("rank", 0))
    options.world_size = whole("world_size", order.get("world_size", 1), 1)
    options.costliest_first = whole("costliest_first", order.get("costliest_first", 0))
    options.last_step = one_of("last_step", order.get("last_step", "split"), LAST_STEPS)
    options.micro_batches = whole("micro_batches", order.get("micro_batches", 1), 1)
    return options


_PLAN_RULE = (
    "must be a sab.Plan, or the size of each sample, as an array or a list of numbers, with budget="
)


class PlanSampler(RandomAccessSampler):
    """A sampler of the batches of a plan."""

    _plan: Plan
    _planned_from: tuple[Sizes, BudgetLike | None, PlanOptions] | None = None  # what was given

    @property
    def plan(self) -> Plan:
        """The plan: the one that was given, or the one that was made of the sizes. After
        :meth:`load_state_dict` with a lowered budget that of the state.
        """
        return self._plan

    def _sample_count(self) -> int:
        mixture = self._plan._mixture
        return self._plan.sample_count if mixture is None else len(mixture)

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
    seed, epoch and position.

    :class:`sab.torch.DataLoader` loads the samples. With ``output="list"`` it is also a
    ``batch_sampler`` of torch's own ``DataLoader``, whose data set then gets ``int`` indices.

    Args:
        plan: a :class:`sab.Plan`; or sizes, anything that :class:`sab.Sizes` takes, of which a plan
            is made (:attr:`plan`).
        budget: with sizes: as for :func:`sab.plan`. Its other options may be given by name.
        seed: of the order; the same on all ranks.
        rank, world_size: this rank among the ranks. All take the same number of steps, of nearly
            equal cost, without communication.
        last_step: the batches that do not fill the last step of all ranks: ``"split"`` between them
            (nothing lost or repeated), ``"drop"``, ``"wrap"``.
        costliest_first: begin each epoch with at least this many of the costliest batches.
        micro_batches: batches that each rank takes in a step of the optimizer (gradient
            accumulation). ``len()``, positions and states count batches; :meth:`step` gives the
            weights of the loss.
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
        budget: BudgetLike | None = None,
        *,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        last_step: LastStep = "split",
        costliest_first: int = 0,
        micro_batches: int = 1,
        output: Output = "numpy",
        **options: Unpack[PlanOptions],
    ) -> None:
        order: Order = {
            "seed": seed,
            "rank": rank,
            "world_size": world_size,
            "last_step": last_step,
            "costliest_first": costliest_first,
            "micro_batches": micro_batches,
        }
        walk = sampler_options(order)
        skipped = self._take_plan(plan, budget, options)
        self._construct(output, lib.sab_bucket_sampler_new, self._plan._handle, walk)
        self._columns = self._plan.columns
        self._made_from = (self._plan,), {**order, "output": output}
        warn_of_skipped(skipped, self._plan.sample_count, WHY_SKIPPED)


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
        output: Output = "numpy",
        **options: Unpack[PlanOptions],
    ) -> None:
        order: Order = {
            "rank": rank,
            "world_size": world_size,
            "last_step": last_step,
            "micro_batches": micro_batches,
        }
        walk = sampler_options(order)
        skipped = self._take_plan(plan, budget, options)
        self._construct(output, lib.sab_sequential_sampler_new, self._plan._handle, walk)
        self._columns = self._plan.columns
        self._made_from = (self._plan,), {**order, "output": output}
        warn_of_skipped(skipped, self._plan.sample_count, WHY_SKIPPED)


class BionemoSizeAwareSampler(RandomAccessSampler):
    """Greedy batches in the order of ``indices``: a batch closes before its total would exceed
    ``budget``.

    A sample over the budget alone is skipped with a SkippedWarning (see :attr:`skipped_count`).
    For indices that are read while batches are made, or sizes from a function, see
    :class:`BionemoSizeAwareStream`.

    Args:
        indices: order of the samples: an array or a list, or None for 0, 1, 2, ...
        sizes: anything that :class:`sab.Sizes` takes.
        budget: largest sum of the sizes of a batch.
        rank, world_size, last_step, micro_batches, output: as for :class:`BucketSampler`.

    >>> import sab
    >>> sampler = sab.BionemoSizeAwareSampler(None, [2, 2, 2, 2, 2], budget=4)
    >>> [batch.tolist() for batch in sampler]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        indices: npt.ArrayLike | None,
        sizes: SizesLike,
        *,
        budget: float,
        rank: int = 0,
        world_size: int = 1,
        last_step: LastStep = "split",
        micro_batches: int = 1,
        output: Output = "numpy",
    ) -> None:
        order: Order = {
            "rank": rank,
            "world_size": world_size,
            "last_step": last_step,
            "micro_batches": micro_batches,
        }
        self._sizes = as_sizes(sizes)
        array = None if indices is None else indices_of("indices", indices)
        count = len(self._sizes) if array is None else array.size
        self._construct(
            output,
            lib.sab_bionemo_size_aware_sampler_new,
            ffi.NULL if array is None else ffi.cast("int64_t *", array.ctypes.data),
            count,
            self._sizes._handle,
            real("budget", budget),
            sampler_options(order),
        )
        warn_of_skipped(self.skipped_count, count, "over budget")
        options = {"budget": budget, **order, "output": output}
        self._made_from = (array, sizes), options


class BionemoSizeAwareStream(Sampler):
    """:class:`BionemoSizeAwareSampler` over any iterable of indices, which is iterated anew for
    each pass, on one rank, of unknown length.

    Args:
        indices: an iterable of whole numbers, such as a sampler of torch.
        size: a function ``size(index)``, or a sequence indexed by it.
        budget, output: as for :class:`BionemoSizeAwareSampler`.

    >>> import sab
    >>> stream = sab.BionemoSizeAwareStream(iter([7, 8, 9]), lambda index: 2, budget=4)
    >>> [batch.tolist() for batch in stream]
    [[7, 8], [9]]
    """

    def __reduce__(self) -> tuple[Any, ...]:
        raise unpicklable(self, "it has no state; make it anew from its indices and size")

    def __init__(
        self,
        indices: Iterable[int],
        size: Callable[[int], float] | SupportsIndex[float],
        *,
        budget: float,
        output: Output = "numpy",
    ) -> None:
        if not (callable(size) or hasattr(size, "__getitem__")):
            raise TypeError(f"size is {kind_of(size)}: must be a function or a sequence")
        size_of: Callable[[int], float] = size if callable(size) else size.__getitem__
        iterable("indices", indices)
        walk: Iterator[int] = iter(())
        pending: int | None = None  # an index whose size is still owed, since the function raised
        asked = -1

        def source(epoch: int, position: int) -> tuple[int, float] | None:
            nonlocal walk, pending, asked
            if position == 0 and (asked != 0 or pending is None):
                walk, pending = iter(indices), None
            asked = position
            if pending is None:
                pending = next(walk, None)
            if pending is None:
                return None
            index = integer("an index", pending)
            given = (index, real(f"size({index})", size_of(index)))
            pending = None
            return given

        self._calls = Calls(source=source)
        self._construct(
            output,
            lib.sab_bionemo_size_aware_stream_sampler_new,
            lib.sab_py_index,
            self._calls.handle,
            ffi.NULL,
            real("budget", budget),
        )
