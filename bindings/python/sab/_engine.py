"""More than one machine: histograms of sizes, and where samples are in an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

import numpy as np
import numpy.typing as npt

from sab._arguments import indices_of, kind_of, one_dimension, whole
from sab._native import Calls, CData, check, column_names, ffi, lib, new_struct, written
from sab._sizes import SizesLike, as_sizes

__all__ = ["Histogram", "Places"]


class Places(NamedTuple):
    """Where samples are in an epoch, with one number a sample: the arrays of ``sab_places``.

    A sample without a place has -1 in all arrays but ``counts``. ``batch_count`` is the number of
    batches that each rank takes in the epoch.
    """

    counts: npt.NDArray[np.int64]
    ranks: npt.NDArray[np.int64]
    batches: npt.NDArray[np.int64]
    steps: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int64]
    batch_count: int


class Histogram:
    """Numbers of samples by size; picklable, but for those of an :meth:`epoch`.

    Each task of an engine counts the sizes of its partition, and the histograms are merged in one
    place. :func:`sab.plan` then makes a plan of the histogram, which has the same buckets as the
    plan of all sizes, and :class:`sab.Packing` packs it. Sizes may have several columns, or be a
    :class:`sab.Mixture`.

    Args:
        sizes: what to add at first; anything that :class:`sab.Sizes` takes.

    >>> import sab
    >>> parts = [sab.Histogram([3, 5, 3]), sab.Histogram([5, 7])]
    >>> whole = sab.Histogram()
    >>> for part in parts:
    ...     whole.merge(part)
    >>> whole.sizes.tolist(), whole.counts.tolist()
    ([3.0, 5.0, 7.0], [2, 2, 1])
    >>> sab.plan(whole, budget=14).batch_count
    3
    """

    _of_mixture: int | None = None  # of an epoch: the fingerprint of the histogram that it is of

    def __init__(self, sizes: SizesLike | None = None) -> None:
        handle = ffi.new("sab_histogram **")
        check(lib.sab_histogram_new(handle))
        self._take(handle[0])
        if sizes is not None:
            self.add(sizes)

    def _take(self, handle: CData) -> None:
        self._handle = ffi.gc(handle, lib.sab_histogram_free)

    def add(self, sizes: SizesLike) -> None:
        """Adds samples. Of a mixture each sample is added once, with its source."""
        check(lib.sab_histogram_add(self._handle, as_sizes(sizes)._handle, ffi.NULL))

    def number(self, sizes: SizesLike) -> npt.NDArray[np.uint64]:
        """Adds samples. Returns the number of each within its size: how many samples of the same
        size were in the histogram before it.

        >>> import sab
        >>> sab.Histogram([7, 3, 7]).number([7, 4, 3, 7]).tolist()
        [2, 0, 1, 3]
        """
        source = as_sizes(sizes)
        numbers = np.empty(len(source), np.uint64)
        out = ffi.cast("uint64_t *", numbers.ctypes.data)
        check(lib.sab_histogram_add(self._handle, source._handle, out))
        return numbers

    def merge(self, other: Histogram) -> None:
        """Adds the samples of another histogram. The order of several merges does not matter."""
        check(lib.sab_histogram_merge(self._handle, _handle_of(other)))

    def subtract(self, other: Histogram) -> None:
        """Removes the samples of another histogram that was merged into this one."""
        check(lib.sab_histogram_subtract(self._handle, _handle_of(other)))

    def epoch(
        self, epoch: int = 0, *, repeat: float | Sequence[float] = 1.0, seed: int = 0
    ) -> Histogram:
        """The histogram of an epoch of a mixture: how often the epoch has the samples of each of
        :attr:`sizes`. :func:`sab.plan` makes the plan of the epoch from it.

        Args:
            epoch: its number.
            repeat: how often each sample of a source appears in an epoch: a number for all sources,
                or one for each. With 0.3 three of ten samples appear once.
            seed: of the choice of the samples that appear once more than others.

        >>> import sab
        >>> mixture = sab.Mixture({"wiki": [3, 1, 2], "code": [5, 5]})
        >>> whole = sab.Histogram(mixture)
        >>> whole.epoch(0, repeat=[1, 1.5]).counts.tolist()
        [1, 1, 1, 3]
        """
        given = one_dimension("repeat", np.atleast_1d(repeat), np.float64)
        if np.ndim(repeat) == 0:
            given = np.repeat(given, self._info().sources)
        handle = ffi.new("sab_histogram **")
        repeats = ffi.cast("double *", given.ctypes.data)
        calls = Calls()
        calls.names = {"repeats": "repeat", "repeat_count": "len(repeat)"}
        check(
            lib.sab_histogram_epoch_new(
                self._handle,
                repeats,
                len(given),
                whole("epoch", epoch),
                whole("seed", seed),
                handle,
            ),
            calls,
        )
        made = Histogram.__new__(Histogram)
        made._take(handle[0])
        made._of_mixture = self.fingerprint
        return made

    def _info(self) -> CData:
        info = new_struct("sab_histogram_info")
        check(lib.sab_histogram_get_info(self._handle, info))
        return info

    @property
    def sample_count(self) -> int:
        """Number of samples."""
        return int(self._info().samples)

    @property
    def total(self) -> float:
        """Sum of the sizes of the samples, over all columns."""
        return float(self._info().total)

    @property
    def fingerprint(self) -> int:
        """Equal only for equal histograms."""
        return int(self._info().fingerprint)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the sizes; ``("",)`` for one column without a name. Empty if
        nothing was added.
        """
        info = self._info()
        return column_names(info.column_names, info.columns)

    @property
    def sizes(self) -> npt.NDArray[np.float64]:
        """A copy of the distinct sizes, ascending. Of several columns a row for each."""
        info = self._info()
        made = array_of(info.entry_sizes, info.entries * info.columns, np.float64)
        return made if info.columns <= 1 else made.reshape(info.entries, info.columns)

    @property
    def counts(self) -> npt.NDArray[np.uint64]:
        """A copy of the number of samples of each of :attr:`sizes`."""
        info = self._info()
        return array_of(info.entry_counts, info.entries, np.uint64)

    @property
    def sources(self) -> npt.NDArray[np.uint32] | None:
        """A copy of the source of each of :attr:`sizes`; None if they are no mixture."""
        info = self._info()
        return array_of(info.entry_sources, info.entries, np.uint32) if info.sources > 0 else None

    def to_bytes(self) -> bytes:
        """The histogram as bytes. Equal histograms have equal bytes."""
        return written(
            lambda room, capacity, size: check(
                lib.sab_histogram_write(self._handle, room, capacity, size)
            )
        )

    @staticmethod
    def from_bytes(image: bytes) -> Histogram:
        """Made again from :meth:`to_bytes`."""
        if not isinstance(image, (bytes, bytearray, memoryview)):
            raise TypeError(f"image is {kind_of(image)}: must be the bytes of to_bytes()")
        handle = ffi.new("sab_histogram **")
        check(lib.sab_histogram_bytes_new(ffi.from_buffer(image), len(image), handle))
        made = Histogram.__new__(Histogram)
        made._take(handle[0])
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        info = self._info()
        return f"Histogram({info.samples:,} samples of {info.entries:,} sizes)"


def _from_bytes(image: bytes) -> Histogram:
    return Histogram.from_bytes(image)


def _handle_of(other: Histogram) -> CData:
    if not isinstance(other, Histogram):
        raise TypeError(f"other is {kind_of(other)}: must be a sab.Histogram")
    return other._handle


def located(
    locate: Callable[..., int],
    handle: CData,
    options: CData,
    sizes: npt.ArrayLike,
    numbers: npt.ArrayLike,
    which: npt.ArrayLike | None,
    columns: int = 1,
    calls: Calls | None = None,
) -> Places:
    """The places that a function of C such as ``sab_histogram_plan_locate`` tells."""
    if columns > 1:
        if np.ndim(sizes) != 2 or np.shape(sizes)[1] != columns:
            raise ValueError(
                f"sizes has the shape {np.shape(sizes)}: must have a row for each sample, of "
                f"{columns} sizes"
            )
        sizes = np.ravel(sizes)
    given = one_dimension("sizes", sizes, np.float64)
    count = len(given) // columns
    within = counting_numbers("numbers", numbers, np.uint64)
    asked = None if which is None else counting_numbers("which", which, np.uint64)
    for name, array in (("numbers", within), ("which", within if asked is None else asked)):
        if len(array) != count:
            raise ValueError(f"{name}: has {len(array)} numbers: must have one for each size")
    fields = Places._fields[:-1]
    found = [np.empty(count, np.int64) for _ in fields]
    places = new_struct("sab_places")
    for name, array in zip(fields, found):
        setattr(places, name, ffi.cast("int64_t *", array.ctypes.data))
    places.batch_count = batch_count = ffi.new("uint64_t *")
    check(
        locate(
            handle,
            options,
            ffi.cast("double *", given.ctypes.data),
            ffi.cast("uint64_t *", within.ctypes.data),
            ffi.NULL if asked is None else ffi.cast("uint64_t *", asked.ctypes.data),
            count,
            places,
        ),
        calls,
    )
    return Places(found[0], found[1], found[2], found[3], found[4], int(batch_count[0]))


def counting_numbers(name: str, values: npt.ArrayLike, dtype: Any) -> npt.NDArray[Any]:
    """Whole numbers from 0 on, or an error that names them."""
    array = indices_of(name, values)
    most = min(int(np.iinfo(dtype).max), (1 << 63) - 1)
    for each in (array.min(), array.max()) if array.size else ():
        if not 0 <= each <= most:
            raise ValueError(f"{name} has {each}: must have numbers from 0 to {most}")
    return array.astype(dtype)


def sources_pointer(sources: npt.ArrayLike | None, count: int) -> CData:
    """The sources of `count` samples, or NULL. Keeps the array alive."""
    if sources is None:
        return ffi.NULL
    given = counting_numbers("sources", sources, np.uint32)
    if len(given) != count:
        raise ValueError(f"sources: has {len(given)} numbers: must have one for each size")
    return ffi.from_buffer("uint32_t[]", given)


def array_of(pointer: CData, count: int, dtype: type[Any]) -> npt.NDArray[Any]:
    """A copy of an array of the library."""
    if count == 0:
        return np.empty(0, dtype)
    memory = ffi.buffer(pointer, count * np.dtype(dtype).itemsize)
    return np.frombuffer(memory, dtype).copy()
