"""The memory of a training step: learned before the first batch, and guarded from then on."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import math
import sys
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Callable, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch

from sab._arguments import function
from sab._batch import Batch
from sab._guard import MemoryGuard
from sab._make_plan import plan as make_plan
from sab._memory_budget import Waiting
from sab._model import MemoryModel, _term_count, measurement_points
from sab._native import DeviceMemoryError
from sab._peaks import collect_peak
from sab._probe import DeviceLike, Probe
from sab._ranks import _joined
from sab._sizes import Sizes
from sab.torch._trace import without_trace

Point = tuple[int, Any]  # count and padded length of a batch
_TRIES = 8  # plans for less memory, where the costliest batch runs out
_UNITS = ((1 << 30, "GiB", 1), (1 << 20, "MiB", 1), (1, "bytes", 0))  # and their digits


class Run(NamedTuple):
    """How a training step is run.

    Attributes:
        step: runs a step on the data of a batch.
        restore: what the step changes.
        device: see :class:`sab.Probe`; None: that of the modules.
        holds_loop: whether a loader's loop runs its steps between two batches.
        around: a context in which the steps run, before training.
    """

    step: Callable[[Any], Any]
    restore: Sequence[Any]
    device: DeviceLike | None = None
    holds_loop: bool = True
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext


class Found(NamedTuple):
    """What was learned."""

    model: MemoryModel
    budget: float  # bytes

    def saved(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {"model": self.model.to_bytes(), "budget": self.budget}


def _of_column(given: Any, name: str, default: float = math.nan) -> float:
    """The number of a column, of a number for all of them or a dictionary."""
    number = cast("Any", given).get(name, default) if isinstance(given, Mapping) else given
    return float(number)


class Shapes:
    """Batches of one sample, repeated, whose padded length is near to one that is asked for."""

    def __init__(self, sizes: Sizes, options: Mapping[str, Any]) -> None:
        self.columns = sizes.columns
        self.values = np.asarray(sizes.values(), np.float64).reshape(len(sizes), -1)
        given: Any = options.get("length_multiple") or 0
        each = np.array([_of_column(given, name, 0.0) for name in self.columns])
        rounded = np.ceil(self.values / np.where(each > 0, each, 1)) * each
        self.padded = np.where(each > 0, rounded, self.values)
        self.least = int(options.get("min_batch_size") or 1)  # samples in a batch
        one: Any = self.values[:1]
        one = one[:, 0] if len(self.columns) == 1 else dict(zip(self.columns, one.T))
        self.like = make_plan(one, batch_size=1).costliest_batches()[0]

    def _per_column(self, numbers: npt.NDArray[np.float64]) -> Any:
        each = numbers.tolist()
        return each[0] if len(each) == 1 else dict(zip(self.columns, each))

    def range(self) -> tuple[Any, Any]:
        """The least and the greatest padded length of each column."""
        return self._per_column(self.padded.min(0)), self._per_column(self.padded.max(0))

    def degree(self) -> int:
        """Of a model: squares need three lengths."""
        columns = cast("list[npt.NDArray[np.float64]]", [*self.padded.T])
        return 2 if all(len(np.unique(column)) > 2 for column in columns) else 1

    def batch(self, count: int, length: Any) -> Batch:
        """A batch of one sample that is repeated."""
        count = max(count, self.least)
        wanted = np.array([_of_column(length, name) for name in self.columns])
        spans = np.maximum(np.ptp(self.padded, axis=0), 1)
        index = int(np.argmin((np.abs(self.padded - wanted) / spans).sum(1)))
        sizes = self.values[index]
        return self.like._replace(
            indices=np.full(count, index, np.int64),
            count=count,
            longest=self._per_column(sizes),
            padded_length=self._per_column(self.padded[index]),
            total=self._per_column(count * sizes),
        )


def _copied(sample: Any) -> Any:
    """A sample that a collate function may change."""
    is_plain = isinstance(sample, (torch.Tensor, np.ndarray))
    return cast("Any", sample) if is_plain else copy.copy(sample)


def data_of(loader: Any, batch: Batch, is_repeated: bool = False) -> Any:
    """The data of a batch, as a loader gives it; of a batch of one sample that is repeated it is
    loaded once.
    """
    framework = loader._framework
    source = loader if framework is None else framework.fetching
    if is_repeated:
        one = batch._replace(count=1, indices=batch.indices[:1])
        [sample], _, _ = source.dataset[one]
        fetched = [_copied(sample) for _ in range(batch.count)], batch, None
    else:
        fetched = source.dataset[batch]
    data = source.collate_fn([fetched])
    return data if framework is None else framework.move(data)


def _points(count: int, *arguments: Any, **options: Any) -> list[Point]:
    """So many points to measure, or as many as there are: few where batches are limited to few
    samples.
    """
    while count > 0:
        try:
            return measurement_points(*arguments, **options, points=count)
        except ValueError:
            count -= 1
    return []


def _text(length: Any) -> str:
    """Of one length, or of a dictionary of them."""
    named = cast("Mapping[str, float]", length if isinstance(length, Mapping) else {"": length})
    return ", ".join(f"{name} {number:g}".strip() for name, number in named.items())


def _in_unit(numbers: Iterable[float], largest: float) -> list[str]:
    unit, name, digits = next(each for each in _UNITS if largest >= each[0])
    return [*(f"{number / unit:.{digits}f}" for number in numbers), name]


def _over_ranks(values: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], bool]:
    """The numbers of each rank, a row for each; and whether this is the first of them."""
    gather, rank, _ = _joined(None, None, None, None, 300)
    mine = np.asarray(values, np.int64)
    rows = [np.frombuffer(each, np.int64) for each in gather(mine.tobytes())]
    return np.stack(rows), rank == 0


def _least(value: float) -> int:
    return int(_over_ranks([int(value)])[0].min())


@contextlib.contextmanager
def _quick_garbage_collection() -> Generator[None, None, None]:
    """Has collections, of which there is one after each step, leave out what is there already."""
    is_frozen = gc.get_freeze_count() > 0  # by the caller
    if not is_frozen:
        gc.collect()
        gc.freeze()
    try:
        yield
    finally:
        if not is_frozen:
            gc.unfreeze()


def _device_of(objects: Iterable[Any]) -> Any:
    """The device of the modules among the objects."""
    modules = [each for each in objects if isinstance(each, torch.nn.Module)]
    parameters: Iterable[Any] = (each for module in modules for each in module.parameters())
    device = next((each.device for each in parameters), None)
    if device is None or device.type == "cpu":
        where = "no module is in restore" if device is None else "the model is on the CPU"
        raise ValueError(
            f"budget = 'memory': {where}, so there is no memory of a device to measure; train on a "
            "GPU, or give device= a sab.Probe, such as sab.Probe('cpu', total_bytes=8 << 30)"
        )
    return device


def _refuse_divided(objects: Iterable[Any]) -> None:
    """Refuses models whose parameters are divided among ranks: they are not put back."""
    divided = {"FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine"}
    held = [model for each in objects for model in (each, *getattr(each, "_models", ()))]
    modules = (
        part for each in held if isinstance(each, torch.nn.Module) for part in each.modules()
    )
    for module in modules:
        found = divided.intersection(kind.__name__ for kind in type(module).__mro__)
        if found:
            raise ValueError(
                f"budget = 'memory': is not supported with {min(found)}; learn a sab.MemoryModel "
                "of the step, and give it as cost= with a budget in bytes"
            )


class Memory:
    """Makes the plan of a sampler by the memory of its training step, and guards the steps."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.found: Found | None = None
        self.guard: MemoryGuard | None = None
        self.batch: Batch | None = None  # whose step is run before training
        self._probe: Probe | None = None
        self._free = 0
        self._shape: Any = None  # of the batch whose step is measured

    def probe(self) -> Probe:
        """The probe of the device."""
        if self._probe is None:
            device = self.run.device
            device = _device_of(self.run.restore) if device is None else device
            self._probe = device if isinstance(device, Probe) else Probe(device)
        return self._probe

    def _measure_free(self, share: float) -> float:
        """The bytes of a plan."""
        free = self.probe()._available()
        if free <= 0:
            raise ValueError(
                f"device = {self.probe()._device}: does not know its memory; give device= a "
                "sab.Probe with total_bytes"
            )
        self._free = _least(free)
        return float(int(share * self._free))

    def plan(self, sampler: Any, loader: Any) -> None:
        """Makes the plan of a sampler that waits for it. Learns the memory first, if that was not
        done before.

        Args:
            sampler: made with ``budget="memory"``.
            loader: gives the data of batches.
        """
        if self.found is not None:
            sampler._take_memory(*self.found)
            return
        _refuse_divided(self.run.restore)
        begin, waiting = time.monotonic(), cast("Waiting", sampler._waiting)
        with self._leaving_no_trace():
            model, budget = self._learn(waiting, loader)
            for _ in range(_TRIES):
                sampler._take_memory(model, budget)
                if self._fits(sampler, loader):
                    break
                sampler._waiting, budget = waiting, 0.9 * budget
            else:
                raise DeviceMemoryError(
                    "budget = 'memory': the costliest batch runs out of memory, also in plans for "
                    f"{budget / self._free:.0%} of what is free"
                )
        self.found = Found(model, budget)
        self._tell(sampler, f"learned in {time.monotonic() - begin:.0f} s")

    @contextlib.contextmanager
    def _leaving_no_trace(self) -> Generator[None, None, None]:
        with _quick_garbage_collection(), without_trace(self.run.restore), self.run.around():
            yield
        gc.collect()
        self.probe().release_cache()

    def _try(self, loader: Any, batch: Batch, is_repeated: bool = False) -> None:
        """Runs the step of a batch."""
        data = data_of(loader, batch, is_repeated)
        self.batch = batch
        try:
            self.run.step(data)
        finally:
            self.batch = None

    def _learn(self, waiting: Waiting, loader: Any) -> tuple[MemoryModel, float]:
        """As :meth:`MemoryModel.learn`, of the lengths that samples have and over all ranks. Gives
        the bytes of a plan, too.
        """
        shapes = Shapes(waiting.sizes, waiting.options)
        shortest, longest = shapes.range()
        if shortest == longest:
            raise ValueError(
                f"budget = 'memory': all samples have the length {_text(longest)}; give the "
                "batch_size that sab.find_max_batch() finds"
            )
        limits = [waiting.options.get(name) for name in ("batch_size", "max_batch_size")]
        most = min(
            [len(waiting.sizes), *(int(np.max(each)) for each in limits if each is not None)]
        )

        def work(point: Point) -> Point:
            batch = shapes.batch(*point)
            self._try(loader, batch, is_repeated=True)
            return batch.count, batch.padded_length

        self._run_once(work, waiting.share, (shortest, longest))
        budget = self._measure_free(waiting.share)  # without what libraries took for themselves
        options: dict[str, Any] = {
            "max_count": most,
            "degree": shapes.degree(),
        }
        count = 2 * _term_count(len(shapes.columns), 2)
        fit = functools.partial(
            MemoryModel.fit,
            degree=options["degree"],
            coverage=0.9,
            columns=shapes.columns if shapes.columns[0] else None,
        )
        small: tuple[list[Point], npt.NDArray[np.int64]] = [], np.empty(0, np.int64)
        for factor in (4, 1):  # samples of the greatest length; one where four do not fit
            tokens = factor * sum(_of_column(longest, name) for name in shapes.columns)
            points = _points(count, shortest, longest, **options, budget=tokens)
            small = self._measure(work, points)
            if len(small[0]) == len(points):
                break
        options.update(budget=int(budget), cost=fit(*small))
        large = self._measure(work, _points(count, shortest, longest, **options))
        if len(large[0]) < count:
            large = small[0] + large[0], np.concatenate([small[1], large[1]])
        return fit(*large), budget

    def _run_once(
        self, work: Callable[[Point], Point], share: float, lengths: Iterable[Any]
    ) -> None:
        """First what a framework makes once, such as the state of an optimizer."""
        self._measure_free(share)
        for length in lengths:
            if not self._measure(work, [(1, length)])[1].size:
                free, unit = _in_unit([self._free], self._free)
                raise DeviceMemoryError(
                    "budget = 'memory': a training step on one sample of length "
                    f"{_text(length)} runs out of the {free} {unit} that are free; use a smaller "
                    "model, or leave out such samples"
                )

    def _measure(
        self, work: Callable[[Point], Point], points: Sequence[Point]
    ) -> tuple[list[Point], npt.NDArray[np.int64]]:
        """The points that did not run out of memory on any rank, and what the allocator must have
        for them, where it says so: allocated bytes alone leave out what lies between blocks.
        """
        measured = collect_peak(work, points, self.probe())
        needs = np.full(len(points), -1, np.int64)
        needs[measured.items] = np.maximum(measured.peaks, measured.reserved_peaks)
        rows, _ = _over_ranks(needs)
        needs = np.where(rows.min(0) < 0, -1, rows.max(0))
        features = zip(measured.items, measured.features)
        return [each for item, each in features if needs[item] >= 0], needs[needs >= 0]

    def _fits(self, sampler: Any, loader: Any) -> bool:
        """Whether the costliest batch fits, on all ranks."""
        try:
            sampler.plan.verify(functools.partial(self._try, loader), self.probe(), count=1)
        except DeviceMemoryError:
            return _least(0) == 1
        return _least(1) == 1

    def recall(self, sampler: Any, saved: Mapping[str, Any]) -> None:
        """Makes the plan of a sampler by what a run before has learned. The budget is that of then,
        or less where less is free now.
        """
        budget = min(self._measure_free(sampler._waiting.share), float(saved["budget"]))
        self.found = Found(MemoryModel.from_bytes(saved["model"]), budget)
        sampler._take_memory(*self.found)
        self._tell(sampler, "learned before")

    def begin(self, sampler: Any, batch: Batch) -> None:
        """Begins to measure the step of a batch."""
        if self.guard is None or self.guard._kept is not sampler._handle:
            several = len(_over_ranks([0])[0]) > 1
            self.guard = MemoryGuard(
                sampler, self.probe(), budget=self._free, reduce="torch" if several else None
            )
        self._shape = self.guard._begin(batch)

    def end(self, ran_out: bool = False) -> None:
        """Ends the step that is measured, if there is one."""
        shape, self._shape = self._shape, None
        if shape is not None and self.guard is not None:
            self.guard._end(shape, ran_out)

    @contextlib.contextmanager
    def measured(self, sampler: Any, batch: Batch) -> Generator[None, None, None]:
        """Measures what a loop does with a batch. A loop that is broken off is not measured."""
        self.begin(sampler, batch)
        yield
        self.end()

    def _tell(self, sampler: Any, how: str) -> None:
        """Says in a line what was found, on the first rank."""
        found = cast("Found", self.found)
        _, is_first = _over_ranks([0])
        counts = [bucket.batch_size for bucket in sampler.plan.buckets]
        planned, free, unit = _in_unit((found.budget, self._free), self._free)
        line = f"batches of {min(counts)} to {max(counts)} samples, {planned} of {free} {unit}"
        if is_first:
            print(f"{line}, {how}", file=sys.stderr, flush=True)


def is_waiting(sampler: Any) -> bool:
    """Whether a sampler has no plan until the memory of a step is known."""
    return getattr(sampler, "_waiting", None) is not None


def memory_of(
    sampler: Any, step: Any, restore: Sequence[Any] | None, device: DeviceLike | None
) -> Memory | None:
    """How a loader plans by memory, of its arguments; None where the sampler has its plan."""
    given = {"step": step, "restore": restore, "device": device}
    named = [name for name, value in given.items() if value is not None]
    if not is_waiting(sampler):
        if named:
            raise TypeError(f"{', '.join(named)}: for a sampler with budget='memory' only")
        return None
    function("step", step)
    if (step is None) != (restore is None):
        raise TypeError(
            "step, restore: must be given together; restore is a list of what the step changes, "
            "such as [model, optimizer]"
        )
    return Memory(Run(no_step if step is None else step, [*(restore or ())], device))


def no_step(data: Any) -> None:
    """In the place of a step that was not given, and no framework has."""
    raise ValueError(
        "budget = 'memory': the loader has no step to measure; give it step= and restore="
    )
