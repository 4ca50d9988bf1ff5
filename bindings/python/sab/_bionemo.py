"""What BioNeMo has: greedy batches of a stream of indices, and intervals of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Callable, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from sab._arguments import integer, iterable, kind_of, real, whole
from sab._batch import Batch, Block
from sab._native import Calls, check, ffi, lib, unpicklable, warn_of_skipped
from sab._sampler import Output, Sampler
from sab._sizes import SizesLike, as_sizes
from sab._walk import Walk

__all__ = ["BionemoSizeAwareStream", "create_buckets"]

Element_co = TypeVar("Element_co", covariant=True)


class SupportsIndex(Protocol[Element_co]):
    """What is indexed by whole numbers."""

    def __getitem__(self, index: int) -> Element_co: ...


class BionemoSizeAwareStream(Sampler):
    """:class:`sab.OrderedSampler` over any iterable of indices, which is iterated anew for each
    pass, on one rank, of unknown length.

    A pass that skipped samples over the budget ends with a SkippedWarning, also if no batch is
    left, as BioNeMo's sampler does.

    Args:
        indices: an iterable of whole numbers, such as a sampler of torch.
        size: a function ``size(index)``, or a sequence indexed by it.
        budget, output: as for :class:`sab.OrderedSampler`.

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
        self._seen = 0  # the samples of the pass that ended last
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
                self._seen = position
                return None
            index = integer("an index", pending)
            given = (index, real(f"size({index})", size_of(index)))
            pending = None
            return given

        self._calls = Calls(source=source)
        self._calls.names["limit"] = "budget"
        self._construct(
            output,
            lib.sab_bionemo_size_aware_stream_sampler_new,
            lib.sab_py_index,
            self._calls.handle,
            ffi.NULL,
            real("budget", budget),
            calls=self._calls,
        )

    def _walk(self, walk: Walk) -> Iterator[Batch]:
        yield from super()._walk(walk)
        warn_of_skipped(self.skipped_count, self._seen, "over budget")

    def _walk_many(self, walk: Walk, most: int) -> Iterator[Block]:
        yield from super()._walk_many(walk, most)
        warn_of_skipped(self.skipped_count, self._seen, "over budget")


def create_buckets(
    sizes: SizesLike, *, max_width: int, min_bucket_count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cuts whole-number sizes into the narrowest intervals of ``min_bucket_count`` samples, none
    wider than ``max_width``.

    Returns:
        (boundaries, samples in each interval): int64 arrays; interval i is ``[boundaries[i],
        boundaries[i + 1])``.

    >>> sizes = [1] * 3 + [2] * 4 + [3] * 5 + [22] * 4
    >>> boundaries, counts = create_buckets(sizes, max_width=5, min_bucket_count=10)
    >>> boundaries.tolist(), counts.tolist()
    ([1, 6, 11, 16, 21, 23], [12, 0, 0, 0, 4])
    """
    source = as_sizes(sizes)
    width, least = whole("max_width", max_width, 1), whole("min_bucket_count", min_bucket_count, 1)
    count = ffi.new("size_t *")
    check(
        lib.sab_bionemo_create_buckets(source._handle, width, least, ffi.NULL, ffi.NULL, 0, count)
    )
    boundaries, counts = np.empty(count[0] + 1, np.int64), np.empty(count[0], np.int64)
    check(
        lib.sab_bionemo_create_buckets(
            source._handle,
            width,
            least,
            ffi.cast("int64_t *", boundaries.ctypes.data),
            ffi.cast("int64_t *", counts.ctypes.data),
            count[0],
            count,
        )
    )
    return boundaries, counts
