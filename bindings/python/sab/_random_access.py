"""Samplers that know their length and give any batch: their passes, budgets and states."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Callable

import numpy as np

from sab._arguments import place_of, real, saved_state, whole
from sab._batch import (
    Batch,
    Step,
    batch_of,
    batches_of_block,
    copied,
    new_batch,
    step_of,
)
from sab._display import Facts
from sab._native import CData, check, ffi, lib, new_struct, written
from sab._sampler import Sampler
from sab._walk import Kept, Walk

BLOCK = 64  # batches fetched at once; fewer at first, so that the first batch comes early


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
        check(lib.sab_sampler_get_batch_count(self._handle, count))
        return int(count[0])

    def _length(self) -> float:
        return len(self)

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
        return super()._start()

    def _leave(self) -> None:
        walk, self._current = self._current, None
        if walk is not None and walk.is_open and walk.placed == self._placed:
            walk.kept = Kept(self._state(), self._step, self._under_way, self._last, self._limits)
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
        index, limit = whole("index", index), real("limit", limit)
        if not self.capabilities.budget:  # the error names this call
            check(lib.sab_sampler_set_budget(self._handle, index, limit))
        with self._changing_budget(index):
            check(lib.sab_sampler_set_budget(self._handle, index, limit))

    @contextlib.contextmanager
    def _changing_budget(self, index: int = 0) -> Generator[None, None, None]:
        """Lets the pass fetch anew what follows."""
        self._catch_up()
        before = self.get_budget(index)
        try:
            yield
        finally:
            if self._handle != ffi.NULL and self.get_budget(index) != before:
                self._moves += 1
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
        if position is not None:
            check(lib.sab_sampler_at(self._handle, self._index(position), new_batch()))
            return step_of(self._handle, self._columns)
        last = self._given() - 1
        if last < 0:
            raise ValueError("step(): the pass has given no batch yet")
        return self.step(last)

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
        return {"state": self._state(whole("step", step)), **self._beside_state()}

    def _beside_state(self) -> dict[str, Any]:
        """What a saved state holds that the library does not need."""
        return {}

    def _state(self, position: int | None = None) -> bytes:
        """Of the cursor, or of a position in the epoch."""
        if position is None:
            return written(
                lambda room, capacity, size: check(
                    lib.sab_sampler_state_save(self._handle, room, capacity, size)
                )
            )
        return written(
            lambda room, capacity, size: check(
                lib.sab_sampler_state_save_at(self._handle, position, room, capacity, size)
            )
        )

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
        self._step, self._under_way = self._tell()[1], False
        self._last = None
        self._choose_place(is_epoch=False)

    def _load_next(self, state_dict: dict[str, Any]) -> None:
        """As `load_state_dict`. After the state of a finished epoch the next one begins."""
        self.load_state_dict(state_dict)
        epoch, loaded = self.epoch, {**state_dict, "state": self._state()}  # with lowered budgets
        if self._start()[0] != epoch:
            self.set_epoch(epoch + 1)
        else:
            self.load_state_dict(loaded)

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
