"""Mixtures: several data sets in chosen proportions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Union, cast, overload

import numpy as np
import numpy.typing as npt

from sab._arguments import (
    brief,
    elements,
    indices_of,
    is_array,
    kind_of,
    one_of,
    place_of,
    real,
    whole,
)
from sab._cost import ONE_COLUMN
from sab._native import Calls, CData, check, choices, ffi, lib, new_struct, record_of
from sab._sizes import Sizes, SizesLike, as_sizes, owned

__all__ = ["Mixture", "SourceReport"]

Name = Union[str, int]
Repeat = Union[float, Mapping[Any, float]]
By = Literal["samples", "size"]
_UNITS = choices("SAB_MIXTURE_")
SOURCE = "source"  # separate_by of a mixture


class SourceReport(NamedTuple):
    """What an epoch has of a source, over all ranks: the fields of ``sab_mixture_report``.

    Attributes:
        samples: in the batches, with repeats.
        distinct: different samples among them.
        most: how often the sample appears that appears most often.
        together: of ``samples``: those whose batch has the same sample again.
        total: sum of their sizes, over all columns.
        padded_total: what they take up. The room that is left in a row is shared out by the sizes
            of its samples.
        padding: share of padding in ``padded_total``.
        proportion: share of the total of all sources.
        deviation: the largest distance from its due after a step, in batches.
    """

    samples: int
    distinct: int
    most: int
    together: int
    total: float
    padded_total: float
    padding: float
    proportion: float
    deviation: float

    @property
    def repeat(self) -> float:
        """How often a sample appears that appears at all, on average."""
        return self.samples / self.distinct if self.distinct else 0.0


class Mixture(Sizes):
    """Several data sets (sources) in chosen proportions. Goes wherever sizes go: :func:`sab.plan`,
    :class:`sab.PackedSampler`, :class:`sab.BalancedSampler`, :class:`sab.ShardedSampler`.

    The index of a sample is its position in the sources one after the other, as
    ``torch.utils.data.ConcatDataset`` counts. In one epoch a source of n samples with repeat r
    gives exactly ``round(n * r)`` samples, each of them ``floor(r)`` or ``ceil(r)`` times. The next
    epoch goes on where this one stopped, so that all samples of a source appear equally often, but
    for one time. After every batch, over all ranks, each source is within one batch of its due by
    size.

    Args:
        sizes: a dictionary of data sets by name, each anything that :class:`sab.Sizes` takes; with
            ``sources``, the sizes of one data set.
        sources: the number of each sample's source, at least 0.
        repeat: how often each sample of a source appears in an epoch: a number for all sources, or
            a dictionary of some; the others have 1. With 0 a source does not appear.
        proportions: the share of each source in an epoch; they are divided by their sum. The epoch
            has as much as all sources together.
        temperature: the share of a source is proportional to its amount to the power ``1 /
            temperature``. 1 leaves the shares as they are, higher is more even.
        by: what ``proportions`` and ``temperature`` are of: ``"samples"``, or ``"size"``, the sum
            of the sizes.
        schedule: ``[(epoch, repeat), ...]``: from an epoch on other repeats hold. Sources that a
            dictionary does not name keep theirs.
        seed: of the order in which samples are chosen. It does not depend on that of a sampler.
        all_sources: the names, or with ``sources`` the numbers, of the sources of all ranks. The
            sizes are then those of one shard, in which a source may have no sample. Only
            :class:`sab.ShardedSampler` takes such a mixture.

    Raises:
        TypeError, ValueError: an argument breaks a rule.

    >>> mixture = Mixture({"wiki": [3, 1, 2], "code": [5, 4]}, repeat={"code": 1.5})
    >>> mixture.samples(), mixture.source(4)
    ({'wiki': 3, 'code': 3}, ('code', 1))
    """

    def __init__(
        self,
        sizes: Mapping[str, SizesLike] | SizesLike,
        *,
        sources: npt.ArrayLike | None = None,
        repeat: Repeat | None = None,
        proportions: Mapping[Any, float] | None = None,
        temperature: float | None = None,
        by: By = "samples",
        schedule: Sequence[tuple[int, Repeat]] = (),
        seed: int = 0,
        all_sources: Iterable[Name] | None = None,
    ) -> None:
        self._given: dict[str, Any] = {
            "repeat": _copy_of(repeat),
            "proportions": _copy_of(proportions),
            "temperature": temperature,
            "by": by,
            "schedule": _copy_of(elements("schedule", schedule)),
            "seed": seed,
            "all_sources": all_sources
            if all_sources is None
            else elements("all_sources", all_sources),
        }
        self._keep, self._description, self._files, self._parts = None, None, [], {}
        self._ids: npt.NDArray[np.int64] | None = None
        self._names: tuple[Name, ...] = ()
        self._places: dict[Name, int] = {}
        each: list[Sizes] = []
        if sources is None:
            each, self._names = _data_sets(sizes, self._given["all_sources"])
        else:
            each = [as_sizes(sizes)]
            self._ids = indices_of("sources", sources).copy()
            self._names = _numbers_of(self._ids, len(each[0]), self._given["all_sources"])
        self._column_names = each[0].columns
        calls = Calls()
        calls.names = {"repeats": "repeat", "unit": f"by = {by!r}"}
        options = self._options(calls)
        handle = ffi.new("sab_sizes **")
        if self._ids is not None:
            options.ids = ffi.cast("int64_t *", self._ids.ctypes.data)
            options.id_count = self._ids.size
        parts = ffi.new("sab_sizes *[]", [part._handle for part in each])
        check(lib.sab_mixture_new(parts, len(each), options, handle), calls)
        self._handle = owned(handle)

    def _options(self, calls: Calls) -> CData:
        given = self._given
        options = new_struct("sab_mixture_options")
        ways = [
            name for name in ("repeat", "proportions", "temperature") if given[name] is not None
        ]
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(ways)}: only one may be given")
        options.unit = one_of("by", given["by"], _UNITS)
        options.seed = whole("seed", given["seed"])
        if given["all_sources"] is not None:
            ids = self._numbers_of_sources()
            self._set(options, calls, "all_sources", "all_source_count", "int64_t[]", ids)
        if self._ids is None:
            names = [ffi.new("char[]", str(name).encode()) for name in self._names]
            calls.kept.append(names)
            self._set(options, calls, "names", "name_count", "char *[]", names)
        repeats = self._numbers("repeat", given["repeat"], [1.0] * len(self._names))
        if given["repeat"] is not None:
            self._set(options, calls, "repeats", "repeat_count", "double[]", repeats)
        if given["proportions"] is not None:
            shares = self._shares(given["proportions"])
            self._set(options, calls, "proportions", "proportion_count", "double[]", shares)
        if given["temperature"] is not None:
            options.temperature = _real("temperature", given["temperature"])
            if not 0 < options.temperature < float("inf"):
                raise ValueError(f"temperature = {given['temperature']}: must be a number above 0")
        epochs, changed = list[int](), list[float]()
        for i, change in enumerate(given["schedule"]):
            if not isinstance(change, (tuple, list)) or len(cast("list[Any]", change)) != 2:
                raise TypeError(f"schedule[{i}] = {brief(change)}: must be (epoch, repeat)")
            epoch, repeat = cast("tuple[Any, Any]", tuple(cast("list[Any]", change)))
            epochs.append(whole(f"schedule[{i}][0]", epoch, 1))
            if len(epochs) > 1 and epochs[-2] >= epochs[-1]:
                raise ValueError(
                    f"schedule[{i}][0] = {epoch}: must be above the epoch before, {epochs[-2]}"
                )
            repeats = self._numbers(f"schedule[{i}][1]", repeat, repeats)
            changed += repeats
        if epochs and (given["proportions"] is not None or given["temperature"] is not None):
            raise ValueError("schedule: goes with repeat only, since it has repeats")
        if epochs:
            self._set(options, calls, "schedule_epochs", "schedule_count", "uint64_t[]", epochs)
            options.schedule_repeats = repeats_of_epochs = ffi.new("double[]", changed)
            calls.kept.append(repeats_of_epochs)
        return options

    @staticmethod
    def _set(options: CData, calls: Calls, field: str, count: str, kind: str, items: Any) -> None:
        """Sets a field to an array of items, and another one to their number."""
        array = ffi.new(kind, items)
        calls.kept.append(array)
        setattr(options, field, array)
        setattr(options, count, len(items))

    def _numbers(self, name: str, given: Any, others: list[float]) -> list[float]:
        """A number for each source; `others` for those that are not named."""
        if given is None:
            return others
        if not isinstance(cast("object", given), Mapping):
            numbers = [_number(name, given)] * len(self._names)
        else:
            numbers = list(others)
            for key, value in given.items():
                numbers[self._place(name, key)] = _number(f"{name}[{key!r}]", value)
        if not any(numbers):
            raise ValueError(f"{name}: is 0 for all sources: must be above 0 for at least one")
        return numbers

    def _shares(self, given: Any) -> list[float]:
        if not isinstance(cast("object", given), Mapping):
            raise TypeError(f"proportions is {kind_of(given)}: must be a dictionary by source")
        for key in given:
            self._place("proportions", key)
        for name in self._names:
            if name not in given:
                raise ValueError(f"proportions has no {name!r}: must have all sources")
        return self._numbers("proportions", given, [0.0] * len(self._names))

    def _place(self, argument: str, key: Any) -> int:
        if not self._places:
            self._places.update((name, place) for place, name in enumerate(self._names))
        if isinstance(key, (str, int, np.integer)) and key in self._places:
            return self._places[cast("Name", key)]
        listed = ", ".join(map(repr, self._names[:8])) + (", ..." if len(self._names) > 8 else "")
        raise ValueError(f"{argument} has the source {key!r}: the sources are {listed}")

    @property
    def names(self) -> tuple[Name, ...]:
        """The names of the sources; with ``sources`` their numbers, ascending."""
        return self._names

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns; ``("",)`` for one column without a name."""
        return self._column_names

    def column(self, name: str) -> Sizes:
        """The sizes of a column, of all sources one after the other."""
        if name not in self._column_names or self._column_names == ONE_COLUMN:
            raise KeyError(f"column {name!r}: the columns are {self._column_names}")
        return Sizes(self._rows()[:, self._column_names.index(name)].copy())

    def _rows(self) -> npt.NDArray[np.float64]:
        rows = np.empty((len(self), len(self._column_names)))
        room = ffi.cast("double *", rows.ctypes.data)
        check(lib.sab_sizes_get(self._handle, 0, len(self), room))
        return rows

    def values(self) -> npt.NDArray[Any]:
        """The sizes as one array; several columns are those of a 2-D array."""
        rows = self._rows()
        return rows[:, 0] if len(self._column_names) == 1 else rows

    @property
    def description(self) -> str:
        """Text that says which sources there are, and what epoch 0 takes of them."""
        is_shard = self._given["all_sources"] is not None
        parts = [
            f"{name}: {facts.samples:,}"
            if is_shard
            else f"{name}: {facts.epoch_samples:,} of {facts.samples:,}"
            for name, facts in zip(self._names, self._facts_of(0))
        ]
        if len(parts) > 8:
            parts[7:] = ["..."]
        kind = "a shard of " if is_shard else ""
        return f"{kind}{len(self._names):,} sources, {', '.join(parts)}"

    @overload
    def source(self, index: int) -> tuple[Name, int]: ...
    @overload
    def source(self, index: Sequence[int] | npt.NDArray[Any]) -> list[tuple[Name, int]]: ...
    def source(
        self, index: int | Sequence[int] | npt.NDArray[Any]
    ) -> tuple[Name, int] | list[tuple[Name, int]]:
        """Where a sample is: the name of its source, and the row in it. Of several indices, such as
        those of a batch, a list of these.

        >>> mixture = Mixture([5, 6, 7], sources=[1, 0, 1])
        >>> mixture.source(2), mixture.source([0, 1])
        ((1, 1), [(1, 0), (0, 0)])
        """
        if is_array(index) and np.ndim(cast("Any", index)) > 0:
            return [self.source(each) for each in indices_of("index", index).tolist()]
        place = place_of("index", index, len(self), f"there are {len(self)} sizes")
        source, row = ffi.new("size_t *"), ffi.new("size_t *")
        check(lib.sab_sizes_locate(self._handle, place, source, row))
        return self._names[int(source[0])], int(row[0])

    def samples(self, epoch: int = 0) -> dict[Name, int]:
        """How many samples an epoch takes of each source, with repeats."""
        facts = self._facts_of(self._epoch(epoch))
        return {name: each.epoch_samples for name, each in zip(self._names, facts)}

    def repeats(self, epoch: int = 0) -> dict[Name, float]:
        """The repeat of each source in an epoch."""
        facts = self._facts_of(self._epoch(epoch))
        return {name: each.repeat for name, each in zip(self._names, facts)}

    def _epoch(self, epoch: int) -> int:
        if self._given["all_sources"] is not None:
            raise ValueError(
                "all_sources: the mixture is of one shard, and an epoch depends on all shards; "
                "report() of the sampler has it"
            )
        return whole("epoch", epoch)

    def _facts_of(self, epoch: int) -> list[CData]:
        made: list[CData] = []
        for index in range(len(self._names)):
            made.append(new_struct("sab_mixture_source"))
            check(lib.sab_mixture_get_source(self._handle, index, epoch, made[-1]))
        return made

    def counts(self, epoch: int = 0) -> npt.NDArray[np.uint32]:
        """How often each sample appears in an epoch.

        >>> Mixture({"a": [1, 1], "b": [2]}, repeat={"a": 0.5, "b": 3}).counts().sum()
        4
        """
        counts = np.empty(len(self), np.uint32)
        room = ffi.cast("uint32_t *", counts.ctypes.data)
        check(lib.sab_mixture_get_counts(self._handle, self._epoch(epoch), room, counts.size))
        return counts

    def _source_numbers(self) -> npt.NDArray[np.int64]:
        """The number of each sample's source."""
        if self._ids is not None:
            return self._ids
        samples = [facts.samples for facts in self._facts_of(0)]
        return np.repeat(np.arange(len(samples)), samples)

    def _numbers_of_sources(self) -> list[int]:
        return list(range(len(self._names)) if self._ids is None else map(int, self._names))

    def __reduce__(self) -> tuple[object, ...]:
        columns = [column.copy() for column in self._rows().T]
        counts = [int(facts.samples) for facts in self._facts_of(0)]
        again = self._names, self._column_names, columns, self._ids, counts, self._given
        return _made_again, again


def _copy_of(given: Any) -> Any:
    """Numbers that the caller may change later, as they are now."""
    if isinstance(given, Mapping):
        return dict(cast("Any", given).items())
    if isinstance(given, (tuple, list)):
        each = [_copy_of(part) for part in cast("Sequence[Any]", given)]
        return each if isinstance(given, list) else tuple(each)
    return given


def _real(name: str, value: Any) -> float:
    """A number; True and False are none."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} = {value}: must be a number, not True or False")
    return real(name, value)


def _number(name: str, value: Any) -> float:
    number = _real(name, value)
    if not 0 <= number < float("inf"):
        raise ValueError(f"{name} = {value}: must be a number of at least 0")
    return number


def _is_name(name: str) -> bool:
    is_text = not any(each < " " or "\ud800" <= each <= "\udfff" for each in name)
    return is_text and 1 <= len(name.encode()) <= lib.SAB_MAX_COLUMN_NAME


def _all_names(named: Mapping[Any, Any], all_sources: list[Any] | None) -> tuple[str, ...]:
    """The names of the sources of a dictionary, or those of all ranks."""
    names = list(named) if all_sources is None else all_sources
    argument = "sizes" if all_sources is None else "all_sources"
    if not names:
        empty = "{}" if all_sources is None else "[]"
        raise ValueError(f"{argument} = {empty}: must have at least one source")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{argument} has the source {name!r}: its name must be a text")
        if not _is_name(name):
            raise ValueError(
                f"{argument} has the source {brief(name)}: its name must have 1 to "
                f"{lib.SAB_MAX_COLUMN_NAME} bytes of UTF-8, without control characters"
            )
        if names.count(name) > 1:
            raise ValueError(f"all_sources has {name!r} twice: must have each source once")
    for name in named:
        if name not in names:
            raise ValueError(f"sizes has the source {name!r}: must be one of all_sources")
    return tuple(names)


def _data_sets(sizes: Any, all_sources: list[Any] | None) -> tuple[list[Sizes], tuple[str, ...]]:
    """The sizes of each source of a dictionary, and their names."""
    if not isinstance(cast("object", sizes), Mapping):
        raise TypeError(
            f"sizes is {kind_of(sizes)}: must be a dictionary of data sets by name; the sizes of "
            "one data set need sources="
        )
    named: Mapping[Any, Any] = sizes
    names = _all_names(named, all_sources)
    each: dict[str, Sizes] = {}
    columns: tuple[str, ...] | None = None
    for name, source in named.items():
        part = each[name] = as_sizes(source, f"sizes[{name!r}]")
        if isinstance(part, Mixture):
            raise TypeError(f"sizes[{name!r}] is a sab.Mixture: must be one data set")
        if len(part) == 0 and all_sources is None:
            raise ValueError(f"sizes[{name!r}] has no sample: must have at least one")
        columns = columns or part.columns
        if part.columns != columns:
            raise ValueError(
                f"sizes[{name!r}] has the columns {part.columns}: must be those of the first "
                f"source, {columns}"
            )
    columns = columns or ONE_COLUMN
    none = Sizes([] if columns == ONE_COLUMN else {column: [] for column in columns})
    return [each.get(name, none) for name in names], names


def _numbers_of(
    ids: npt.NDArray[np.int64], samples: int, all_sources: list[Any] | None
) -> tuple[int, ...]:
    """The numbers of the sources, ascending: those of the samples, or those of all ranks."""
    if ids.size != samples:
        raise ValueError(
            f"sources has {ids.size} numbers: must have one for each of the {samples} samples"
        )
    if all_sources is not None:
        numbers = sorted({whole("all_sources", each, bits=63) for each in all_sources})
        if not numbers:
            raise ValueError("all_sources = []: must have at least one source")
        others = np.flatnonzero(~np.isin(ids, numbers))
        if others.size:
            raise ValueError(f"sources[{others[0]}] = {ids[others[0]]}: must be one of all_sources")
    else:
        numbers = np.unique(ids).tolist()
        if not numbers:
            raise ValueError("sizes has no sample: must have at least one")
        if numbers[0] < 0:
            place = int(np.argmax(ids < 0))
            raise ValueError(f"sources[{place}] = {ids[place]}: must be at least 0")
    if len(numbers) > lib.SAB_MAX_SOURCES:
        raise ValueError(
            f"sources has {len(numbers)} different numbers: must have at most {lib.SAB_MAX_SOURCES}"
        )
    return tuple(numbers)


def _made_again(
    names: tuple[Name, ...],
    columns: tuple[str, ...],
    values: list[npt.NDArray[np.float64]],
    ids: npt.NDArray[np.int64] | None,
    counts: list[int],
    given: dict[str, Any],
) -> Mixture:
    """Makes a mixture again from what its `__reduce__` gave."""

    def sizes_of(part: Any) -> Any:
        each = [column[part] for column in values]
        return each[0] if columns == ONE_COLUMN else dict(zip(columns, each))

    if ids is not None:
        return Mixture(sizes_of(slice(None)), sources=ids, **given)
    parts = (slice(end - count, end) for count, end in zip(counts, np.cumsum(counts).tolist()))
    return Mixture(dict(zip(map(str, names), map(sizes_of, parts))), **given)


def reports_of(mixture: Mixture | None, sampler: CData, calls: Calls) -> dict[Name, SourceReport]:
    """What the present epoch of a sampler has of each source."""
    if mixture is None:
        return {}
    size = {"struct_size": ffi.sizeof("sab_mixture_report")}
    reports = ffi.new("sab_mixture_report[]", [size] * len(mixture.names))
    count = len(mixture.names)
    check(lib.sab_mixture_get_report(sampler, calls.options(), reports, count), calls)
    return dict(zip(mixture.names, (record_of(SourceReport, report) for report in reports)))


def source_table(sources: Mapping[Name, SourceReport]) -> tuple[list[str], list[list[str]]]:
    """A header, and a row for each source."""
    header = ["source", "samples", "repeat", "total", "share", "padding", "off due"]
    rows = [
        [
            str(name),
            f"{each.samples:,}",
            f"{each.repeat:.2f}",
            f"{each.total:,.10g}",
            f"{100 * each.proportion:.2f} %",
            f"{100 * each.padding:.2f} %",
            f"{each.deviation:.2f}",
        ]
        for name, each in sources.items()
    ]
    return header, rows
