"""``bionemo.size_aware_batching.sampler``: size-aware and bucketed batch samplers.

Published outputs come out seed for seed. Where the base batch sampler is
``torch.utils.data.BatchSampler`` or :class:`SizeAwareBatchSampler`, the core forms and draws the
batches; any other class is driven as its authors documented.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import (
    Any,
    Callable,
    Optional,
    TypeVar,
    Union,
    cast,
)

import numpy as np
import torch
from torch.utils.data import BatchSampler, Sampler as TorchSampler

import sab
from sab._batch import batches_of
from sab._native import Calls, check, ffi, lib, new_struct
from sab.compat.bionemo.utils import INTEGER_DTYPES

__all__: Sequence[str] = (
    "BucketBatchSampler",
    "Real",
    "SizeAwareBatchSampler",
    "size_aware_batching",
)

Data = TypeVar("Data")
BatchCollated = TypeVar("BatchCollated")
Real = Union[int, float]
Logger = Optional[Callable[[str], None]]


class _Greedy:
    """The rule that a size is added or opens a new batch by, and what is said to the loggers."""

    def __init__(
        self,
        sizeof: Callable[[Any], Any],
        max_total_size: Any,
        info_logger: Logger,
        warn_logger: Logger,
    ) -> None:
        self.sizeof, self.max_total_size, self.info, self.warn = (
            sizeof,
            max_total_size,
            info_logger,
            warn_logger,
        )
        self.seen = self.batched = self.batches = 0

    def size(self, data: Any) -> Any:
        """Size of an element, which is over the maximum when it is to be skipped."""
        self.seen += 1
        try:
            size = self.sizeof(data)
        except Exception as error:
            raise RuntimeError(f"sizeof raises error at data={data}: {error}") from error
        if size > self.max_total_size and self.warn is not None:
            self.warn(
                f"Size of element {data} exceeds max_total_size ({size} > {self.max_total_size}), "
                "skipping"
            )
        return size

    def emit(self, batch: list[Any]) -> list[Any]:
        self.batches += 1
        self.batched += len(batch)
        return batch

    def finish(self) -> None:
        if self.warn is not None and self.batched < self.seen:
            self.warn(
                f"{self.batched} samples were batched from {self.seen} of the input data. "
                f"Missing samples are due to exceeding max_total_size={self.max_total_size})"
            )
        if self.info is not None:
            self.info(
                f"Batched {self.batched} samples into {self.batches} batches. If this doesn't "
                "match the your expectation, "
                f"consider adjusting max_total_size or the sizeof functor"
            )


def size_aware_batching(
    dataset: Iterable[Data],
    sizeof: Callable[[Data], Real],
    max_total_size: Real,
    collate_fn: Callable[[Iterable[Data]], BatchCollated] | None = None,
    info_logger: Logger = None,
    warn_logger: Logger = None,
) -> Iterator[list[Data] | BatchCollated]:
    """Batches elements of an iterable, in its order, so that the sizes of a batch sum up to at most
    ``max_total_size``.

    Args:
        dataset: any iterable; walked once.
        sizeof: gives the size of an element: anything that can be added and compared with
            ``max_total_size``.
        max_total_size: largest total size of a batch; an element over it alone is skipped with a
            warning.
        collate_fn: applied to each batch; None: batches are lists.
        info_logger, warn_logger: called with a line of text; None: silent.

    Raises:
        TypeError: sizeof is not callable. RuntimeError: sizeof raised, which is its cause.
    """
    if not callable(sizeof):
        raise TypeError("sizeof must be a callable")
    collate: Callable[[Any], Any] = (
        (lambda batch: batch) if collate_fn is None or not callable(collate_fn) else collate_fn
    )
    greedy = _Greedy(sizeof, max_total_size, info_logger, warn_logger)
    batch: list[Data] = []
    total: Any = 0
    for data in dataset:
        size = greedy.size(data)
        if size > max_total_size:
            continue
        if size + total > max_total_size:
            yield collate(greedy.emit(batch))
            batch, total = [], 0
        batch.append(data)
        total += size
    if batch:
        yield collate(greedy.emit(batch))
    greedy.finish()


class SizeAwareBatchSampler(TorchSampler[list[int]]):
    """Batches of a sampler's indices whose sizes sum up to at most ``max_total_size``. If all
    elements are over it, there is no batch; only ``warn_logger`` says so.

    Args:
        sampler: the indices, a torch Sampler or another iterable.
        sizeof: gives the size of an index.
        max_total_size: an int or float.
        info_logger, warn_logger: called with a line of text; None: silent.

    Raises:
        TypeError: sampler is not iterable, or sizeof not callable. ValueError: max_total_size is no
            number.
    """

    def __init__(
        self,
        sampler: Any | Iterable[int],
        sizeof: Callable[[int], Real],
        max_total_size: Real,
        info_logger: Logger = None,
        warn_logger: Logger = None,
    ) -> None:
        if isinstance(sampler, str) or not isinstance(sampler, (TorchSampler, Iterable)):
            raise TypeError("sampler should be an instance of torch.utils.data.Sampler or Iterable")
        if not isinstance(max_total_size, (int, float)):
            raise ValueError(
                f"max_total_size should be int or float but got {type(max_total_size)}"
            )
        if not callable(sizeof):
            raise TypeError("sizeof must be a callable")
        self._sampler: Iterable[int] = cast(Any, sampler)
        self._sizeof, self._max_total_size = sizeof, max_total_size
        self._info_logger, self._warn_logger = info_logger, warn_logger

    def __iter__(self) -> Iterator[list[int]]:
        return size_aware_batching(
            self._sampler,
            self._sizeof,
            self._max_total_size,
            info_logger=self._info_logger,
            warn_logger=self._warn_logger,
        )


class BucketBatchSampler(TorchSampler[list[int]]):
    """Batches of elements that lie in the same bucket of sizes, formed by a base batch sampler for
    each bucket.

    Args:
        sizes: 1-D tensor of real numbers, the size of each element.
        bucket_boundaries: 1-D tensor of real numbers, sorted here, no two equal: left-closed,
            right-open buckets.
        base_batch_sampler_class: made for each bucket from the list of its element indices and the
            keyword arguments.
        base_batch_sampler_shared_kwargs: for all buckets; {} by default.
        base_batch_sampler_individual_kwargs: a sequence of one value a bucket for each keyword; {}
            by default.
        shuffle: shuffle the elements of each bucket and draw the bucket of each batch; otherwise
            buckets come in ascending order.
        generator: of the shuffles; by default one seeded from torch's global generator.

    Raises:
        TypeError, ValueError: an argument is of the wrong type, shape or length. RuntimeError: no
            element lies in any bucket.
    """

    def __init__(
        self,
        sizes: torch.Tensor,
        bucket_boundaries: torch.Tensor,
        base_batch_sampler_class: type[Any],
        base_batch_sampler_shared_kwargs: dict[str, Any] | None = None,
        base_batch_sampler_individual_kwargs: dict[str, Iterable[Any]] | None = None,
        shuffle: bool | None = True,
        generator: torch.Generator | None = None,
    ) -> None:
        _check_numbers("sizes", sizes)
        _check_numbers("bucket_boundaries", bucket_boundaries, "2D", 2)
        bucket_boundaries = cast(torch.Tensor, torch.sort(bucket_boundaries)[0])
        if torch.any(bucket_boundaries[:-1] >= bucket_boundaries[1:]):
            raise ValueError(
                "bucket_boundaries should not have duplicate values, and should specify the lower "
                "endpoint of each interval smaller than "
                f"the upper endpoint, but got sorted bucket_boundaries={bucket_boundaries}"
            )
        if not isinstance(shuffle, bool):
            raise TypeError(f"shuffle should be a boolean value, but got shuffle={shuffle}")

        self.sizes = sizes
        self.bucket_boundaries = bucket_boundaries
        self.num_buckets: int = len(bucket_boundaries) - 1
        self.shuffle = shuffle
        self.generator = generator
        if shuffle and generator is None:
            self.generator = torch.Generator().manual_seed(
                int(torch.empty((), dtype=torch.int64).random_().item())
            )
        if not issubclass(base_batch_sampler_class, TorchSampler):
            raise TypeError(
                "base_batch_sampler_class should be a batch sampler class inherited from "
                "torch.utils.data.Sampler, but got "
                f"base_batch_sampler_class={base_batch_sampler_class}"
            )
        shared = (
            {} if base_batch_sampler_shared_kwargs is None else base_batch_sampler_shared_kwargs
        )
        individual = (
            {}
            if base_batch_sampler_individual_kwargs is None
            else base_batch_sampler_individual_kwargs
        )
        for name, given in (
            ("base_batch_sampler_shared_kwargs", shared),
            ("base_batch_sampler_individual_kwargs", individual),
        ):
            if not isinstance(given, dict):
                raise TypeError(f"{name} should be a dictionary, but got {name}={given}")
            if not all(isinstance(key, str) for key in given):
                raise TypeError(f"{name} should have string keys, but got keys={list(given)}")
        values = {key: list(value) for key, value in individual.items()}
        if any(len(value) != self.num_buckets for value in values.values()):
            raise ValueError(
                "Each value in base_batch_sampler_individual_kwargs should have a length of "
                f"{self.num_buckets}, but got lengths "
                f"{[len(value) for value in values.values()]}"
            )
        self.base_batch_sampler_class = base_batch_sampler_class
        self.base_batch_sampler_shared_kwargs = shared
        self.base_batch_sampler_individual_kwargs: list[dict[str, Any]] = [
            {key: value[k] for key, value in values.items()} for k in range(self.num_buckets)
        ]

        # Elements by bucket: 0 and num_buckets + 1 are outside.
        bucket_ids = torch.bucketize(sizes, bucket_boundaries, right=True)
        by_bucket = torch.argsort(bucket_ids, stable=True)
        counts = torch.bincount(bucket_ids, minlength=self.num_buckets + 2)
        edges = torch.cumsum(counts, dim=0)
        self.bucket_sizes: torch.Tensor = counts[1 : self.num_buckets + 1]
        self.num_samples: int = int(self.bucket_sizes.sum())
        if self.num_samples == 0:
            raise RuntimeError(
                "The sizes of all elements in the dataset are outside the bucket ranges provided"
            )
        if self.num_samples < len(sizes):
            warnings.warn(
                f"{len(sizes) - self.num_samples} elements are outside the buckets provided and "
                "will be skipped",
                stacklevel=2,
            )
        self.bucket_element_indices: list[list[int]] = [
            by_bucket[edges[k] : edges[k + 1]].tolist() for k in range(self.num_buckets)
        ]
        self.base_batch_samplers: list[Any] = [
            base_batch_sampler_class(
                self.bucket_element_indices[k],
                **shared,
                **self.base_batch_sampler_individual_kwargs[k],
            )
            for k in range(self.num_buckets)
        ]

    def __len__(self) -> int:
        return sum(len(sampler) for sampler in self.base_batch_samplers)

    def __iter__(self) -> Iterator[list[int]]:
        bases = self.base_batch_samplers
        if (
            all(type(base) is BatchSampler and base.batch_size > 0 for base in bases)
            and len({base.drop_last for base in bases}) == 1
        ):
            batch_sizes = np.array([base.batch_size for base in bases], np.uint64)
            drop_last = bool(bases[0].drop_last)
            # The core refuses an epoch without batches, the original does not.
            if not drop_last or any(len(base) for base in bases):
                return self._core(batch_sizes, drop_last, None)
        if all(type(base) is SizeAwareBatchSampler for base in bases) and self._share_one_rule():
            base = bases[0]
            greedy = [
                _Greedy(base._sizeof, base._max_total_size, base._info_logger, base._warn_logger)
                for _ in bases
            ]
            return self._core(np.ones(1, np.uint64), False, greedy)
        return self._drive()

    def _share_one_rule(self) -> bool:
        """Whether all size-aware bases are alike and their maximum is a number that the core
        takes.
        """
        first = self.base_batch_samplers[0]
        fields = ("_sizeof", "_max_total_size", "_info_logger", "_warn_logger")
        same = all(
            getattr(base, field) is getattr(first, field)
            for base in self.base_batch_samplers
            for field in fields
        )
        return same and 0 <= first._max_total_size <= 2**53

    def _core(
        self, batch_sizes: Any, drop_last: bool, greedy: list[_Greedy] | None
    ) -> Iterator[list[int]]:
        """A pass by the core, which sees the elements renumbered: bucket by bucket, in the order
        that the shuffle left.
        """
        self._shuffle_elements()
        present = np.concatenate(
            [np.asarray(indices, np.int64) for indices in self.bucket_element_indices]
        )
        bucket_of = np.repeat(np.arange(self.num_buckets), self.bucket_sizes.numpy())
        plan = sab.plan(
            bucket_of,
            boundaries=np.arange(self.num_buckets + 1),
            batch_size=batch_sizes,
            drop_last=drop_last,
        )

        options = new_struct("sab_bionemo_options")
        options.shuffle = (
            lib.SAB_BIONEMO_SHUFFLE_BUCKETS if self.shuffle else lib.SAB_BIONEMO_SHUFFLE_NONE
        )
        sizes = _ask_at_once(greedy, present) if greedy is not None else None

        def size(place: int) -> float:
            assert greedy is not None
            return float(greedy[int(bucket_of[place])].size(int(present[place])))

        calls = Calls(size=size)
        if greedy is not None:
            options.limit = greedy[0].max_total_size
        if sizes is not None:
            options.sizes = sizes._handle
        elif greedy is not None:
            options.size, options.size_ctx = lib.sab_py_size, calls.handle
        handle = ffi.new("sab_sampler **")
        check(lib.sab_bionemo_sampler_new(plan._handle, options, handle))
        sampler = ffi.gc(handle[0], lib.sab_sampler_free)
        words = ffi.new("uint32_t[]", lib.SAB_BIONEMO_GENERATOR_WORDS)
        if self.generator is not None:
            _read_generator(self.generator, words)
            check(lib.sab_bionemo_sampler_set_generator(sampler, words))
        try:
            for batch in batches_of(sampler, calls):
                indices = present[batch.indices].tolist()
                if greedy is not None:
                    greedy[batch.bucket].emit(indices)
                yield indices
            for each in greedy or []:
                each.finish()
        finally:
            # Whoever draws from the generator next goes on from here.
            if self.shuffle:
                check(lib.sab_bionemo_sampler_get_generator(sampler, words))
                _write_generator(self.generator, words)

    def _shuffle_elements(self) -> None:
        """Permutes each bucket in place: the base batch samplers hold the same lists."""
        if self.shuffle:
            for indices in self.bucket_element_indices:
                order = torch.randperm(len(indices), generator=self.generator)
                indices[:] = np.asarray(indices, np.int64)[order.numpy()].tolist()

    def _drive(self) -> Iterator[list[int]]:
        """A pass over base batch samplers that the core does not know, with draws by the torch that
        is installed.
        """
        self._shuffle_elements()
        walks = [iter(sampler) for sampler in self.base_batch_samplers]
        remaining = self.bucket_sizes.clone()
        while (total := int(remaining.sum())) > 0:
            if self.shuffle:
                bucket = int(torch.multinomial(remaining / total, 1, generator=self.generator))
            else:
                bucket = int(torch.nonzero(remaining)[0])
            batch = next(walks[bucket], None)
            if batch is None:
                remaining[bucket] = 0
            else:
                remaining[bucket] = max(0, int(remaining[bucket]) - len(batch))
                yield batch


def _ask_at_once(greedy: list[_Greedy], present: Any) -> sab.Sizes | None:
    """The sizes of all elements, where nobody can tell that they were not asked for one by one: no
    loggers, and numbers that the core takes.
    """
    first = greedy[0]
    if first.info is not None or first.warn is not None:
        return None
    try:
        sizes = np.fromiter(map(first.sizeof, present.tolist()), np.float64, len(present))
    except Exception:
        return None  # asked one by one, it will be raised at its place
    return sab.Sizes(sizes) if bool(((sizes >= 0) & (sizes <= 2**53)).all()) else None


def _check_numbers(name: str, numbers: Any, dimensions: str = "1D", least: int = 0) -> None:
    if not isinstance(numbers, torch.Tensor):
        raise TypeError(f"{name} should be a torch tensor, but got {name}={numbers}")
    if numbers.ndim != 1:
        raise ValueError(
            f"{name} should be a {dimensions} tensor, but got {name} with shape {numbers.shape}"
        )
    if len(numbers) < least:
        raise ValueError(
            f"{name} should have at least {least} numbers, but got {name}={numbers.shape}"
        )
    if not torch.is_floating_point(numbers) and numbers.dtype not in INTEGER_DTYPES:
        raise ValueError(
            f"{name} should contain only integers or floating point numbers, but got "
            f"{name}.dtype={numbers.dtype}"
        )


# torch's CPU generator state: seed (8 bytes), left (4), seeded (4), next (8), 624 words of 8 bytes,
# and more that stays as it is. `left` is one more than the words not used yet.
_LEFT, _NEXT, _WORDS, _END = 8, 16, 24, 24 + 624 * 8


def _read_generator(generator: Any, words: Any) -> None:
    state = generator.get_state().numpy()
    room = np.frombuffer(ffi.buffer(words), np.uint32)
    room[:624] = state[_WORDS:_END].view(np.uint64)
    room[624] = 625 - int(state[_LEFT:_NEXT].view(np.int32)[0])


def _write_generator(generator: Any, words: Any) -> None:
    state = generator.get_state().clone()
    array = state.numpy()
    given = np.frombuffer(ffi.buffer(words), np.uint32)
    array[_WORDS:_END].view(np.uint64)[:] = given[:624]
    array[_LEFT:_NEXT].view(np.int32)[0] = 625 - int(given[624])
    array[_NEXT:_WORDS].view(np.uint64)[0] = given[624]
    generator.set_state(state)
