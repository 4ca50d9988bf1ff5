"""Streams: pipelines of records that can be stopped anywhere and resumed at the next record."""

from __future__ import annotations

import atexit
import contextlib
import copy
import os
import pickle
import struct
import threading
import time
import weakref
from collections.abc import Generator, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Callable, Literal, Union, cast

import numpy as np

from sab._arguments import kind_of, one_dimension, one_of, real, saved_state, whole
from sab._cost import ONE_COLUMN, BudgetLike, CostLike, budget_array, set_budgets
from sab._native import Calls, CData, Progress, check, choices, ffi, lib, new_struct, written
from sab._pack import Capacity, capacities_of
from sab._plan_options import OVERSIZE, SKIP_OR_ERROR, Oversize

__all__ = ["Stream"]

_dumps, _loads = pickle.dumps, pickle.loads
lib.sab_py_use_pickle(id(_dumps), id(_loads))
_PROGRESS = ffi.addressof(lib, "sab_py_stream_progress")
_NEXT_FAILED_TO_DECODE = 1000
_FRAMINGS = choices("SAB_FRAMING_")
_ON_ERROR = choices("SAB_ON_ERROR_")
_UNTIL = choices("SAB_MIX_UNTIL_")
_live: weakref.WeakSet[_Pipeline] = weakref.WeakSet()

Key = Union[str, Callable[[Any], float], Mapping[str, Callable[[Any], float]]]


_is_over = False


@atexit.register
def _close_all() -> None:
    # The interpreter is exiting: threads must not take its lock. A function that does not end in
    # time is ended with the process.
    global _is_over  # noqa: PLW0603  # of the process
    _is_over = True
    end = time.monotonic() + 1
    for pipeline in list(_live):
        if pipeline.lock.acquire(
            timeout=max(0, end - time.monotonic())
        ):  # else a daemon thread waits in it
            pipeline.free(max(0, end - time.monotonic()))
    lib.sab_py_set_over()


class _Random(Random):
    """CPython's generator, whose numbers come from the stream's own state. For one stage, whose
    callback it is handed to.
    """

    def __init__(self) -> None:
        super().__init__(0)
        self._stream: Any = ffi.NULL

    def of(self, address: int) -> _Random:
        self._stream = ffi.cast("sab_random *", address)
        self.gauss_next = None
        return self

    def random(self) -> float:
        return float(lib.sab_random_draw_real(self._stream))

    def getrandbits(self, k: int) -> int:
        if k < 0:
            raise ValueError("number of bits must be non-negative")
        number, done = 0, 0
        while done < k:
            number |= lib.sab_random_draw_bits(self._stream, min(k - done, 32)) << done
            done += 32
        return number


class _Pipeline:
    """The native streams of a recipe, and the Python stages in them."""

    def __init__(self) -> None:
        self.stages: list[
            tuple[Any, list[Any]]
        ] = []  # with what they hold: here, so that the garbage collector sees it
        self.handle: CData = ffi.NULL
        self.names: dict[str, str] = {}  # fields of the options: what the caller calls them
        self.box: list[Any] = [None]
        self.lock = threading.Lock()
        self.process = os.getpid()
        if _is_over:
            raise RuntimeError("the interpreter is exiting: no stream can be opened")
        _live.add(self)

    def stage(self, call: Any = None, more: Any = None, is_text: bool = False) -> Any:
        held: list[Any] = [call, more, None, {}, {}]
        stage = lib.sab_py_stage_new(id(held), is_text)
        if stage == ffi.NULL:
            raise MemoryError
        self.stages.append((stage, held))
        return stage

    def check(self, status: int, calls: Calls | None = None) -> int:
        """Raises what a status stands for; the exception of a stage as it was raised there."""
        if status == lib.SAB_E_CALLBACK and (calls is None or calls.exception is None):
            code = lib.sab_last_error_code()
            for _, held in self.stages:
                error = held[3].pop(code, None)
                if error is not None:
                    try:
                        raise error
                    finally:
                        del error
        if calls is not None:
            calls.names = self.names
        return check(status, calls)

    def __enter__(self) -> _Pipeline:
        if not self.lock.acquire(blocking=False):
            raise RuntimeError(
                "the stream is in use: by another thread, or by a function that it runs"
            )
        return self

    def __exit__(self, *exception: object) -> None:
        self.lock.release()

    def free(self, patience: float) -> None:
        """Frees the streams. Waits at most ``patience`` seconds for functions that still run in
        their threads. No other function is called after them.
        """
        handle, self.handle = self.handle, ffi.NULL
        stages, self.stages = self.stages, []
        for stage, _ in stages:
            lib.sab_py_stage_close(stage)
        if stages:
            lib.sab_stream_abandon(handle)
        else:
            lib.sab_stream_free(handle)
        end = time.monotonic() + patience
        try:
            while (
                any(lib.sab_py_stage_is_used(stage) for stage, _ in stages)
                and self.process == os.getpid()
                and time.monotonic() < end
            ):
                time.sleep(0.0005)
        finally:
            for stage, _ in stages:
                lib.sab_py_stage_release(stage)

    def __del__(self) -> None:
        # Garbage is collected in any thread: one that runs a function of this very pipeline cannot
        # wait for itself.
        self.free(0 if isinstance(threading.current_thread(), threading._DummyThread) else 0.05)


def _list_options(
    shuffle: bool, infinite: bool | None, seed: int, rank: int, world_size: int
) -> Any:
    options = new_struct("sab_list_stream_options")
    options.infinite, options.shuffle = shuffle if infinite is None else infinite, shuffle
    options.seed, options.rank, options.world_size = (
        whole("seed", seed),
        whole("rank", rank),
        whole("world_size", world_size, 1),
    )
    return options


class Stream:
    """Records, one after the other: an iterator that can be saved and restored.

    Made of sources (:meth:`from_files`, :meth:`from_items`, :meth:`from_iterable`, :meth:`random`)
    and stages, each a method that gives the longer stream.

    >>> import sab
    >>> with open("corpus.txt", "w") as file:
    ...     for number in range(1000):
    ...         print("word " * (1 + number % 50), file=file)
    >>> batches = (  # lines of gzip, Zstandard or plain files, without end
    ...     sab.Stream.from_files(["corpus.txt"], shuffle=True, seed=1)
    ...     .prefetch(10_000)  # read in a thread
    ...     .block_shuffle(100_000, seed=2)
    ...     .readahead(budget=16384, key="words")  # lists of lines of like length
    ... )
    >>> batch = next(batches)
    >>> len(batch) * max(len(line.split()) for line in batch) <= 16384
    True
    >>> state = batches.state_dict()  # later, elsewhere: batches.load_state_dict(state)

    Records are ``str`` (lines), or any value that a function returns. Nothing runs before the first
    record is taken. A stream is its own iterator: a loop after a ``break`` continues at the next
    record, and a loop after the end begins again. A stream can be pickled, with its position, if
    its functions can be pickled.

    Native stages run without Python's lock. Functions may run in another thread: those under
    :meth:`prefetch`, and those of ``map(threads=N)``.
    """

    def __init__(self, recipe: tuple[Any, ...], is_text: bool = False) -> None:
        if not isinstance(recipe, tuple):
            raise TypeError(
                "sab.Stream: is made by from_items(), from_iterable(), from_files() or random(), "
                "not by its constructor"
            )
        self._recipe = (
            recipe  # (kind, whether the records before it are text, arguments...) of each step
        )
        self._is_text = is_text
        self._pipeline: _Pipeline | None = None
        self._progress: bool | Progress | None = None
        self._finished = False
        self._state: bytes | None = None

    # ---- sources ----

    @classmethod
    def from_files(
        cls,
        names: Iterable[str | os.PathLike[str]],
        *,
        shuffle: bool = False,
        infinite: bool | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        framing: str = "lines",
        encoding: str | None = "utf-8",
        max_record: int = 0,
        on_error: str = "stop",
        readers: int = 0,
    ) -> Stream:
        """The records of files: plain, gzip or Zstandard.

        Args:
            names: of the files.
            shuffle: another permutation of the files each time through; for ever.
            infinite: go through the files again and again; as ``shuffle`` by default. If no file
                has a record, FormatError is raised after 10,000 + 10 * ``len(names)`` files.
            seed: of the permutations.
            rank, world_size: this rank's files: a consecutive block, so that the ranks in order
                give all, or every world_size-th where it is infinite. See :meth:`rank` for a split
                that leaves all ranks with as many records.
            framing: ``"lines"``, or ``"length"``: each record after its length in 4 bytes,
                little-endian.
            encoding: ``"utf-8"``: records are str; None: bytes.
            max_record: a longer record is an error, in bytes; 0: 64 MiB.
            on_error: ``"stop"`` (raise; the next call tries again) or ``"skip"`` (log a warning,
                leave out the rest of the file, count it in :attr:`skipped`).
            readers: threads that read and decompress files ahead, each a file of its own. Records,
                errors and states are the same for any number. They hold at most 32 MiB of records
                for each. 0: files are read in the thread that takes the records.
        """
        if encoding not in ("utf-8", None):
            raise ValueError(f"encoding = {encoding!r}: must be 'utf-8' or None")
        kept = tuple(os.fspath(name) for name in names)
        _list_options(shuffle, infinite, seed, rank, world_size)
        recipe = (
            "files",
            False,
            kept,
            (shuffle, infinite, seed, rank, world_size),
            one_of("framing", framing, _FRAMINGS),
            whole("max_record", max_record),
            one_of("on_error", on_error, _ON_ERROR),
            whole("readers", readers),
        )
        return cls((recipe,), is_text=encoding is not None)

    @classmethod
    def from_items(
        cls,
        items: Sequence[Any],
        *,
        shuffle: bool = False,
        infinite: bool | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> Stream:
        """The items of a sequence: a list, a numpy array (its rows), a map-style dataset. Arguments
        as for :meth:`from_files`.
        """
        if not (hasattr(items, "__len__") and hasattr(items, "__getitem__")):
            raise TypeError(
                f"items is {kind_of(items)}: must be a sequence, which has a length; for other "
                "iterables use from_iterable()"
            )
        _list_options(shuffle, infinite, seed, rank, world_size)
        return cls((("items", False, items, (shuffle, infinite, seed, rank, world_size)),))

    @classmethod
    def from_iterable(cls, source: Iterable[Any] | Callable[[], Iterable[Any]]) -> Stream:
        """What an iterable gives, or a function without arguments that returns one each time it is
        called, such as a generator function.

        A restore takes as many items again, but where the iterable has a state of its own:
        ``state_dict`` and ``load_state_dict``, or infinibatch's ``getstate`` and ``setstate``.
        """
        if not callable(source) and not _has_state(source) and iter(source) is source:
            raise ValueError(
                "source is an iterator, which cannot begin again: give the iterable, or a "
                "function that makes it"
            )
        return cls((("iterable", False, source),))

    @classmethod
    def random(cls, seed: int = 0) -> Stream:
        """Random floats in [0, 1) for ever: those of ``random.Random(seed).random()``."""
        return cls((("random", False, whole("seed", seed)),)).map(_float_of_bytes)

    # ---- stages ----

    def _then(self, kind: str, *given: Any, is_text: bool | None = None) -> Stream:
        return Stream(
            (*self._recipe, (kind, self._is_text, *given)),
            self._is_text if is_text is None else is_text,
        )

    def map(self, function: Callable[[Any], Any], *, threads: int = 0) -> Stream:
        """Maps each record with a function. With ``threads``, that many threads call it, and the
        order stays the same. Threads help if the function releases Python's lock.
        """
        return self._then(
            "map", _function("function", function), whole("threads", threads), is_text=False
        )

    def select_many(self, function: Callable[[Any], Iterable[Any]] | None = None) -> Stream:
        """The items of the iterables that a function gives for the records, or of the records
        themselves, one after the other.
        """
        return self._then("select", _function("function", function, optional=True), is_text=False)

    def flatten(self) -> Stream:
        """The records of lists that :meth:`batch`, :meth:`window`, :meth:`zip`, :meth:`readahead`
        and :meth:`pack` made.
        """
        return self._then("flatten")

    def recurrent(
        self, function: Callable[[Any, Any], tuple[Any, Any]], initial: Any = None
    ) -> Stream:
        """``(state, made) = function(state, record)``: the state, picklable, is part of the saved
        one.
        """
        return self._then("recurrent", _function("function", function), initial, is_text=False)

    def random_map(self, function: Callable[[Random, Any], Any], *, seed: int = 0) -> Stream:
        """Maps each record with ``function(generator, record)``. The state of the generator, a
        ``random.Random``, is part of the saved state.
        """
        return self._then(
            "random_map", _function("function", function), whole("seed", seed), is_text=False
        )

    def zip(self, *others: Stream) -> Stream:
        """Lists of a record of each stream; ends with the first that ends."""
        first, *rest = _alike([self, *(_stream("others", other) for other in others)])
        return first._then("zip", tuple(rest))

    def multiplex(self, *sources: Stream) -> Stream:
        """Records of several streams: this one gives the number of the stream that is next."""
        if not sources:
            raise ValueError("sources is empty: must have at least one")
        alike = _alike([_stream("sources", source) for source in sources])
        return self._then("multiplex", tuple(alike), is_text=alike[0]._is_text)

    def mix(
        self,
        *others: Stream,
        proportions: Sequence[float],
        window: int = 1000,
        until: Literal["first", "all"] = "first",
    ) -> Stream:
        """Records of this stream and of others by proportions, with exact counts and without random
        numbers: after any number of records, each stream has given its proportion of them to less
        than one record.

        The order is even and always the same. :meth:`block_shuffle` with ``window`` shuffles it and
        keeps the counts of each window.

        Args:
            proportions: of the records, one for each stream, of any sum. A stream with 0 is not
                read.
            window: number of records over which the counts are exact: if ``proportion * window`` is
                a whole number, each window has so many records. Otherwise the remainders are
                carried into the next windows.
            until: ``"first"`` ends when the stream whose turn it is has ended. With ``"all"`` the
                others go on by their proportions until all have ended, and the windows begin again.

        >>> import sab
        >>> wiki, code = sab.Stream.from_items("wwwwwwww"), sab.Stream.from_items("cccc")
        >>> "".join(wiki.mix(code, proportions=[2, 1], window=3))
        'wcwwcwwcwwcw'
        """
        first, *rest = _alike([self, *(_stream("others", other) for other in others)])
        shares = one_dimension("proportions", proportions, np.float64)
        if len(shares) != 1 + len(rest):
            raise ValueError(
                f"len(proportions) = {len(shares)}: must be the number of streams, {1 + len(rest)}"
            )
        return first._then(
            "mix",
            tuple(rest),
            tuple(shares.tolist()),
            whole("window", window, 1),
            one_of("until", until, _UNTIL),
        )

    def rank(self, rank: int, world_size: int) -> Stream:
        """Every world_size-th record, those of this rank, of a stream that is the same on all. All
        ranks see as many: at the end some get an empty list. As the last stage a state may be
        loaded with another rank and world size.
        """
        rank, world_size = whole("rank", rank), whole("world_size", world_size, 1)
        if rank >= world_size:
            raise ValueError(f"rank = {rank}: must be below world_size, {world_size}")
        return self._then("rank", rank, world_size)

    def batch(self, batch_size: int) -> Stream:
        """Lists of consecutive records."""
        return self._then("batch", whole("batch_size", batch_size, 1))

    def window(self, width: int) -> Stream:
        """Lists of consecutive records, each one record further."""
        return self._then("window", whole("width", width, 1))

    def block_shuffle(self, size: int, *, seed: int = 0) -> Stream:
        """Blocks of consecutive records, each block shuffled."""
        return self._shuffled("block_shuffle", lib.SAB_SHUFFLE_BLOCKS, size, seed)

    def buffered_shuffle(self, size: int, *, seed: int = 0) -> Stream:
        """Puts each record at a random place of a buffer and gives the record that was there. A
        saved state contains the buffer, pickled.
        """
        return self._shuffled("buffered_shuffle", lib.SAB_SHUFFLE_BUFFER, size, seed)

    def _shuffled(self, kind: str, how: int, size: int, seed: int) -> Stream:
        return self._then(kind, how, whole("size", size, 1), whole("seed", seed))

    def prefetch(self, buffer_size: int = 1024) -> Stream:
        """The same records, taken ahead of time by a thread."""
        return self._then("prefetch", whole("buffer_size", buffer_size, 1))

    def readahead(
        self,
        read_ahead: int = 10_000,
        *,
        budget: BudgetLike = 0,
        cost: CostLike | None = None,
        batch_size: int | Callable[[Any], int] | None = None,
        key: Key = "len",
        boundary_key: Callable[[Any], Any] | None = None,
        shuffle: bool = True,
        carry_over: bool = False,
        seed: int = 0,
        oversize: Oversize = "error",
    ) -> Stream:
        """Batches, as lists, of records of like size: a window is read, sorted by size, cut into
        batches, and these are shuffled.

        Records of several sizes, such as pairs of texts, have a dictionary as ``key``. A window is
        then divided as by :func:`sab.plan`.

        Args:
            read_ahead: records of a window.
            budget: largest count * largest size of a batch; 0: no such limit. Of several sizes
                budgets as for :func:`sab.plan`: by default count * the sum of the largest sizes.
            cost: of several sizes: what a batch costs, as for :func:`sab.plan`, but no function.
            batch_size: largest number of records in a batch, or a function that returns it for the
                largest record; None: no limit.
            key: the size of a record: ``"len"``, ``"words"`` or ``"bytes"`` of text, which are
                counted without Python, and for :meth:`from_files` while the files are read; or a
                function; ``{"source": f, "target": g}`` with a
                function for each of several sizes.
            boundary_key: records of different keys never share a batch. Of one size.
            shuffle: the batches of a window.
            carry_over: what fits no batch well waits for the next window: a third of the padding,
                up to twice the memory; a restore reads up to eight windows again. Not with
                ``boundary_key``.
            seed: of the shuffles.
            oversize: records larger than the budget: ``"error"`` refuses them, ``"skip"`` leaves
                them out, and raises ValueError after 10,000,000 in a row; ``"single"`` makes a
                batch of each.
        """
        columns = _check_key(key)
        size = (
            batch_size
            if batch_size is None or callable(batch_size)
            else whole("batch_size", batch_size, 1)
        )
        is_given = not isinstance(budget, (int, float)) or budget != 0
        if columns:
            if callable(size) or boundary_key is not None:
                name = "batch_size" if callable(size) else "boundary_key"
                raise ValueError(f"{name}: must not be a function for records of several sizes")
        else:
            budget = real("budget", budget)
            if cost is not None:
                raise ValueError("cost: is for records of several sizes, with a dictionary as key")
        budget_array(budget if is_given else None, cost, Calls(), columns or ONE_COLUMN)
        if size is None and not is_given:
            raise ValueError("budget = 0: a budget or a batch_size must be given")
        return self._then(
            "readahead",
            whole("read_ahead", read_ahead, 1),
            budget if is_given else None,
            cost,
            size,
            key,
            boundary_key,
            bool(shuffle),
            bool(carry_over),
            whole("seed", seed),
            one_of("oversize", oversize, OVERSIZE),
        )

    def pack(
        self,
        capacity: float | Capacity,
        read_ahead: int = 10_000,
        *,
        max_records: int | None = None,
        key: Key = "len",
        shuffle: bool = True,
        seed: int = 0,
        oversize: Literal["error", "skip"] = "error",
    ) -> Stream:
        """Lists of records whose sizes sum to nearly ``capacity``: rows for packed training. A
        window is packed by best-fit decreasing; what fills no row waits for the next.

        Records of several sizes, such as images and tokens, have a dictionary as ``key``, and are
        packed as by :class:`sab.PackedSampler`.

        Args:
            capacity: of a list; of several sizes a dictionary with that of each.
            read_ahead: records of a window.
            max_records: most records of a list; None: no limit.
            key: the size of a record, as for :meth:`readahead`.
            shuffle: the lists of a window.
            seed: of the shuffles.
            oversize: records larger than the capacity: ``"error"`` refuses them, ``"skip"`` leaves
                them out.
        """
        columns = _check_key(key)
        most = 0 if max_records is None else whole("max_records", max_records, 1)
        return self._then(
            "pack",
            whole("read_ahead", read_ahead, 1),
            capacities_of(capacity, columns) if columns else [real("capacity", capacity)],
            most,
            key,
            bool(shuffle),
            whole("seed", seed),
            one_of("oversize", oversize, SKIP_OR_ERROR),
        )

    # ---- running ----

    def _opened(self) -> _Pipeline:
        if self._pipeline is None:
            pipeline = _Pipeline()
            pipeline.handle = _built(pipeline, self._recipe)
            self._pipeline = pipeline
            self._follow(pipeline, self._progress)
            if self._state is not None:
                state, self._state = self._state, None
                self._restore(state)
        return self._pipeline

    def _restore(self, state: bytes) -> None:
        with self._opened() as pipeline:
            pipeline.check(
                lib.sab_stream_state_restore(pipeline.handle, ffi.from_buffer(state), len(state)),
                self._calls,
            )

    def _follow(self, pipeline: _Pipeline, progress: bool | Progress | None) -> None:
        self._calls = Calls(progress=progress, what="stream")
        options = self._calls.options()
        options.progress = _PROGRESS
        check(lib.sab_stream_set_progress(pipeline.handle, options))

    def set_progress(self, progress: bool | Progress | None) -> None:
        """Follows long windows: True for a bar, or ``progress(done, total)``, which stops by
        returning False or raising. Ctrl-C stops a stream without it.
        """
        if self._pipeline is not None:
            with self._pipeline as pipeline:
                self._follow(pipeline, progress)
        self._progress = progress

    def __len__(self) -> int:
        """There is none. torch's DataLoader calls it.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "a sab.Stream has no len(); for torch.utils.data.DataLoader there is "
            "sab.torch.StreamDataset(stream), with batch_size=None for a stream of batches"
        )

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Stream:
        if self._finished:
            self.rewind()
        return self

    def __next__(self) -> Any:
        pipeline = self._pipeline or self._opened()
        if not pipeline.lock.acquire(False):
            if _is_over:
                raise StopIteration  # in a daemon thread
            raise RuntimeError(
                "the stream is in use: by another thread, or by a function that it runs"
            )
        try:
            box = pipeline.box
            status = lib.sab_py_next(pipeline.handle, id(box), self._is_text)
            if status == lib.SAB_OK:
                value, box[0] = box[0], None
                return value
            if status == _NEXT_FAILED_TO_DECODE:
                error, box[0] = box[0], None
                raise error
            pipeline.check(status, self._calls)
        finally:
            pipeline.lock.release()
        self._finished = True
        raise StopIteration

    def rewind(self) -> None:
        """Goes back to the first record."""
        with self._opened() as pipeline:
            self._finished = False
            pipeline.check(lib.sab_stream_rewind(pipeline.handle), self._calls)

    @property
    def skipped(self) -> int:
        """Files that were left out by ``on_error="skip"``, and records by ``oversize="skip"``."""
        count = ffi.new("uint64_t *")
        check(lib.sab_stream_get_skipped_count(self._opened().handle, count))
        return int(count[0])

    def state_dict(self) -> dict[str, Any]:
        """The state of the stream, for :meth:`load_state_dict`: a few KiB, and the records of a
        :meth:`buffered_shuffle`.
        """
        with self._opened() as pipeline:
            state = written(
                lambda room, capacity, size: pipeline.check(
                    lib.sab_stream_state_save(pipeline.handle, room, capacity, size), self._calls
                )
            )
        return {"state": state, "finished": self._finished}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resumes where :meth:`state_dict` was called, in this or another process. After a failure
        the stream is at its beginning.

        Raises:
            FormatError, MismatchError: the state is damaged, or of another pipeline or other files.
        """
        state = saved_state(state_dict)
        self._finished = False
        self._restore(state)
        self._finished = bool(state_dict.get("finished", False))

    def close(self) -> None:
        """Stops the threads and frees all memory. The next record is the first one again. A
        function that runs for longer than a second ends later, in its thread.
        """
        if self._pipeline is not None:
            if isinstance(threading.current_thread(), threading._DummyThread):
                raise RuntimeError("the stream is in use: by a function that it runs")
            with self._pipeline as pipeline:
                pipeline.free(1)
        self._pipeline, self._finished, self._state = None, False, None

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        place = (
            {"state": self._state, "finished": self._finished}
            if self._state is not None
            else None
            if self._pipeline is None
            else self.state_dict()
        )
        return {"recipe": self._recipe, "is_text": self._is_text, "place": place}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["recipe"], state["is_text"])  # type: ignore[misc]
        if state["place"] is not None:
            self._state, self._finished = state["place"]["state"], state["place"]["finished"]

    def __repr__(self) -> str:
        return "<sab.Stream: " + ", ".join(step[0] for step in self._recipe) + ">"


def _float_of_bytes(record: bytes) -> float:
    return float(struct.unpack("=d", record)[0])


def _check_key(key: Any) -> tuple[str, ...]:
    """The names of the columns of records of several sizes; none of one size."""
    if isinstance(key, Mapping):
        functions = cast("Mapping[object, object]", key)
        if not 2 <= len(functions) <= lib.SAB_MAX_COLUMNS:
            raise ValueError(
                f"len(key) = {len(functions)}: must be from 2 to {lib.SAB_MAX_COLUMNS} columns; "
                "give a single size as a function"
            )
        for name, function in functions.items():
            if not isinstance(name, str) or not name:
                raise TypeError(f"key has the key {name!r}: the name of a column must be a text")
            _function(f"key[{name!r}]", function)
        return tuple(str(name) for name in functions)
    if not (callable(key) or key in ("len", "words", "bytes")):
        raise ValueError(
            f"key = {key!r}: must be 'len', 'words', 'bytes', a function or a dictionary of "
            "functions"
        )
    return ()


def _function(name: str, function: Any, optional: bool = False) -> Any:
    if not (callable(function) or (optional and function is None)):
        raise TypeError(f"{name} = {function!r}: must be a function")
    return function


def _stream(name: str, stream: Any) -> Any:
    if not isinstance(stream, Stream):
        raise TypeError(f"{name}: a {type(stream).__name__}: must be a Stream")
    return stream


def _alike(streams: list[Stream]) -> list[Stream]:
    """Where not all are text, those that are become Python's str before they meet the others."""
    if all(stream._is_text for stream in streams):
        return streams
    return [stream.map(_same) if stream._is_text else stream for stream in streams]


def _has_state(source: Any) -> bool:
    return any(
        hasattr(source, save) and hasattr(source, load)
        for save, load in (("state_dict", "load_state_dict"), ("getstate", "setstate"))
    )


# What makes the native stream of a step: from place[0], the stream before, to place[0].


def _built(pipeline: _Pipeline, recipe: tuple[Any, ...]) -> Any:
    place = ffi.new("sab_stream **")
    try:
        for kind, is_text, *given in recipe:
            if kind in _OF_NUMBERS:
                check(_OF_NUMBERS[kind](place[0], *given, place))
            else:
                _STEPS[kind](pipeline, place, is_text, *given)
    except BaseException:
        lib.sab_stream_free(place[0])
        raise
    return place[0]


@contextlib.contextmanager
def _built_all(
    pipeline: _Pipeline, streams: Iterable[Stream]
) -> Generator[list[CData], None, None]:
    """The native streams of several recipes, to be given to another stream; freed where that
    fails.
    """
    handles: list[CData] = []
    try:
        for stream in streams:
            handles.append(_built(pipeline, stream._recipe))  # noqa: PERF401  # freed on errors
        yield handles
    except BaseException:
        for handle in handles:
            lib.sab_stream_free(handle)
        raise


def _files(
    pipeline: _Pipeline,
    place: Any,
    is_text: bool,
    names: Any,
    order: Any,
    framing: int,
    max_record: int,
    on_error: int,
    readers: int,
) -> None:
    records = ffi.new("sab_record[]", len(names))
    kept = [ffi.from_buffer(os.fsencode(name)) for name in names]
    for record, name in zip(records, kept):
        record.data, record.length = name, len(name)
    check(lib.sab_list_stream_new(records, len(names), _list_options(*order), place))
    options = new_struct("sab_files_stream_options")
    options.framing, options.max_record, options.on_error = framing, max_record, on_error
    options.readers = readers
    check(lib.sab_files_stream_new(place[0], options, place))


_RECORD = np.dtype(
    [("kind", np.int64), ("size", np.float64), ("data", np.int64), ("length", np.int64)]
)  # sab_record, whose kind is 4 bytes and 4 of padding


def _items(pipeline: _Pipeline, place: Any, is_text: bool, items: Any, order: Any) -> None:
    numbers = np.arange(len(items), dtype=np.int64)
    records = ffi.new("sab_record[]", len(numbers))
    fields = np.frombuffer(ffi.buffer(records), _RECORD)
    fields["size"] = fields["length"] = 8
    fields["data"] = numbers.ctypes.data + 8 * numbers
    check(lib.sab_list_stream_new(records, len(numbers), _list_options(*order), place))
    check(lib.sab_py_map_new(place[0], pipeline.stage(items), 1, 0, place))


def _iterable(pipeline: _Pipeline, place: Any, is_text: bool, source: Any) -> None:
    state = None
    if has_state := _has_state(source):
        save, load = (
            ("state_dict", "load_state_dict")
            if hasattr(source, "load_state_dict")
            else ("getstate", "setstate")
        )
        state = _StateOf(source, getattr(source, save), getattr(source, load)).functions
    check(lib.sab_py_source_new(pipeline.stage(source, state), has_state, place))


class _StateOf:
    """The state of a stateful iterable, as bytes; None: its beginning."""

    def __init__(self, source: Any, save: Callable[[], Any], load: Callable[[Any], Any]) -> None:
        first = (
            None if load.__name__ == "setstate" else pickle.dumps(save())
        )  # infinibatch's iterators begin again at None

        def restore(state: bytes | None) -> None:
            given = first if state is None else state
            load(None if given is None else pickle.loads(given))

        self.functions = (lambda: pickle.dumps(save())), restore


def _random(pipeline: _Pipeline, place: Any, is_text: bool, seed: int) -> None:
    check(lib.sab_random_stream_new(seed, place))


def _map(pipeline: _Pipeline, place: Any, is_text: bool, function: Any, threads: int) -> None:
    check(
        lib.sab_py_map_new(place[0], pipeline.stage(function, is_text=is_text), 0, threads, place)
    )


def _select(pipeline: _Pipeline, place: Any, is_text: bool, function: Any) -> None:
    stage = pipeline.stage(_same if function is None else function, is_text=is_text)
    check(lib.sab_py_select_new(place[0], stage, place))


def _same(record: Any) -> Any:
    return record


def _recurrent(pipeline: _Pipeline, place: Any, is_text: bool, function: Any, initial: Any) -> None:
    check(
        lib.sab_py_recurrent_new(
            place[0], pipeline.stage(function, lambda: copy.deepcopy(initial), is_text), place
        )
    )


def _random_map(pipeline: _Pipeline, place: Any, is_text: bool, function: Any, seed: int) -> None:
    check(
        lib.sab_py_random_map_new(
            place[0], pipeline.stage(function, _Random().of, is_text), seed, place
        )
    )


def _zip(pipeline: _Pipeline, place: Any, is_text: bool, others: Any) -> None:
    with _built_all(pipeline, others) as handles:
        check(
            lib.sab_zip_stream_new(
                ffi.new("sab_stream *[]", [place[0], *handles]), 1 + len(handles), place
            )
        )


def _multiplex(pipeline: _Pipeline, place: Any, is_text: bool, sources: Any) -> None:
    check(lib.sab_py_map_new(place[0], pipeline.stage(float, is_text=is_text), 2, 0, place))
    with _built_all(pipeline, sources) as handles:
        check(
            lib.sab_multiplex_stream_new(
                place[0], ffi.new("sab_stream *[]", handles), len(handles), place
            )
        )


def _mix(
    pipeline: _Pipeline,
    place: Any,
    is_text: bool,
    others: Any,
    proportions: Any,
    window: int,
    until: int,
) -> None:
    options = new_struct("sab_mix_stream_options")
    shares = ffi.new("double[]", proportions)  # read during the call
    options.proportions, options.proportion_count = shares, len(proportions)
    options.window, options.until = window, until
    with _built_all(pipeline, others) as handles:
        check(
            lib.sab_mix_stream_new(
                ffi.new("sab_stream *[]", [place[0], *handles]), 1 + len(handles), options, place
            )
        )


def _functions_of(key: Any) -> dict[str, Any]:
    """What sets each size of records that have several; nothing of one size."""
    return dict(cast("Mapping[str, Any]", key)) if isinstance(key, Mapping) else {}


def _set_sizes(pipeline: _Pipeline, place: Any, is_text: bool, key: Any) -> None:
    if key == "len" and is_text:
        check(lib.sab_text_size_stream_new(place[0], lib.SAB_TEXT_CHARACTERS, place))
    elif key == "words":
        check(lib.sab_text_size_stream_new(place[0], lib.SAB_TEXT_WORDS, place))
    elif callable(key):
        check(lib.sab_py_map_new(place[0], pipeline.stage(key, is_text=is_text), 2, 0, place))


def _pack(
    pipeline: _Pipeline,
    place: Any,
    is_text: bool,
    read_ahead: int,
    capacity: Any,
    most: int,
    key: Any,
    shuffle: bool,
    seed: int,
    oversize: int,
) -> None:
    _set_sizes(pipeline, place, is_text, key)
    options = new_struct("sab_pack_stream_options")
    options.oversize = oversize
    options.max_records, options.read_ahead, options.no_shuffle, options.seed = (
        most,
        read_ahead,
        not shuffle,
        seed,
    )
    functions = _functions_of(key)
    capacities = ffi.new("double[]", capacity)  # read during the call
    options.capacities, options.capacity_count = capacities, len(capacity)
    if not functions:
        pipeline.names["capacities[0]"] = "capacity"
        pipeline.check(lib.sab_pack_stream_new(place[0], options, place), Calls())
        return
    for index, name in enumerate(functions):
        pipeline.names[f"capacities[{index}]"] = f"capacity[{name!r}]"
    stage = pipeline.stage(tuple(functions.values()), is_text=is_text)
    check(lib.sab_py_pack_new(place[0], options, stage, place))


def _readahead(
    pipeline: _Pipeline,
    place: Any,
    is_text: bool,
    read_ahead: int,
    budget: Any,
    cost: Any,
    size: Any,
    key: Any,
    boundary_key: Any,
    shuffle: bool,
    carry_over: bool,
    seed: int,
    oversize: int,
) -> None:
    _set_sizes(pipeline, place, is_text, key)
    options = new_struct("sab_readahead_stream_options")
    options.oversize = oversize
    options.read_ahead, options.no_shuffle, options.carry_over, options.seed = (
        read_ahead,
        not shuffle,
        carry_over,
        seed,
    )
    if isinstance(size, int):
        options.batch_size = size
    has_size, has_key = callable(size), boundary_key is not None
    calls = Calls()
    called: Any = size if has_size else None
    functions = _functions_of(key)
    set_budgets(options, budget, cost, calls, tuple(functions) or ONE_COLUMN)
    pipeline.names.update(calls.names)
    if functions:
        options.columns = len(functions)
        called = tuple(functions.values())
    stage = pipeline.stage(called, boundary_key, is_text)
    check(lib.sab_py_readahead_new(place[0], options, stage, has_size, has_key, place), calls)


# Stages that the library makes of numbers alone.
_OF_NUMBERS: dict[str, Callable[..., int]] = {
    "flatten": lib.sab_flatten_stream_new,
    "rank": lib.sab_shard_stream_new,
    "batch": lib.sab_batch_stream_new,
    "window": lib.sab_window_stream_new,
    "block_shuffle": lib.sab_shuffle_stream_new,
    "buffered_shuffle": lib.sab_shuffle_stream_new,
    "prefetch": lib.sab_prefetch_stream_new,
}
_STEPS: dict[str, Callable[..., None]] = {
    "files": _files,
    "items": _items,
    "iterable": _iterable,
    "random": _random,
    "map": _map,
    "select": _select,
    "recurrent": _recurrent,
    "random_map": _random_map,
    "zip": _zip,
    "multiplex": _multiplex,
    "mix": _mix,
    "readahead": _readahead,
    "pack": _pack,
}
