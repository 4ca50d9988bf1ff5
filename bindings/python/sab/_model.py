"""What to measure, and the model that is fitted to it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, Literal, NamedTuple, Union, cast

import numpy as np
import numpy.typing as npt

from sab._arguments import brief, elements, flag, one_of, real, real_array, whole
from sab._batch import PerColumn
from sab._cost import ONE_COLUMN, Budget, Cost, CostLike, budget_array
from sab._display import Facts, as_html, plain
from sab._native import (
    Calls,
    CData,
    DeviceMemoryError,
    Progress,
    check,
    column_names,
    ffi,
    lib,
    new_struct,
    one_bar,
    record_of,
)
from sab._peaks import Peaks, collect_peak
from sab._probe import DeviceLike, probe_of
from sab._saved import Saved

__all__ = ["MemoryModel", "MemoryModelInfo", "measurement_points"]

ModelKind = Literal["batch", "polynomial"]
_KINDS = {"batch": lib.SAB_MODEL_BATCH, "polynomial": lib.SAB_MODEL_POLYNOMIAL}

LengthsLike = Union[float, Mapping[str, float]]


def _columns_of(shortest: LengthsLike, longest: LengthsLike) -> tuple[str, ...]:
    """The names of the columns that both ends of a range have."""
    if not isinstance(shortest, Mapping) and not isinstance(longest, Mapping):
        return ONE_COLUMN
    if not (
        isinstance(shortest, Mapping)
        and isinstance(longest, Mapping)
        and shortest.keys() == longest.keys()
        and shortest
    ):
        raise ValueError(
            f"shortest = {brief(shortest)}, longest = {brief(longest)}: must both be numbers, or "
            "dictionaries with the same columns"
        )
    return tuple(shortest)


def _of_columns(name: str, lengths: LengthsLike, columns: Sequence[str]) -> dict[str, float]:
    """The number of each column, by what the caller calls it."""
    if not isinstance(lengths, Mapping):
        return {name: real(name, lengths)}
    each = {f"{name}[{column!r}]": lengths[column] for column in columns}
    return {key: real(key, length) for key, length in each.items()}


def _per_column(lengths: Sequence[float], columns: Sequence[str]) -> PerColumn:
    """One length of the only column, or a dictionary of several."""
    given = [int(length) if length.is_integer() else length for length in lengths]
    return given[0] if len(columns) == 1 else dict(zip(columns, given))


def _term_count(columns: int, degree: int) -> int:
    """Terms of a model of batches."""
    return (columns + 1) * (columns + 2) if degree == 2 else columns + 2


def measurement_points(
    shortest: LengthsLike,
    longest: LengthsLike,
    *,
    max_count: int,
    points: int | None = None,
    budget: float | Budget | None = None,
    cost: CostLike | None = None,
    degree: int = 2,
) -> list[tuple[int, PerColumn]]:
    """Which (count, length) to measure for a :class:`MemoryModel` of batches, in ascending order of
    count * length.

    The D-optimal choice, made greedily on a grid: few steps suffice.

    Args:
        shortest, longest: range of padded lengths. Of samples with several sizes dictionaries by
            the name of the column, as the lengths of the points are then.
        max_count: most samples in a batch.
        points: how many; twice as many as the model has terms by default.
        budget: without a cost: no point has a larger count * length (of several sizes their sum);
            4 * longest by default, so that none runs out of memory. With one: only points that cost
            from a third to nine tenths of it.
        cost: such as a first model, with the budget in bytes; as for :func:`sab.plan`.
        degree: of the model.

    >>> shortest, longest = {"source": 4, "target": 4}, {"source": 90, "target": 60}
    >>> measurement_points(shortest, longest, max_count=64)[0]
    (1, {'source': 4, 'target': 4})
    """
    columns = _columns_of(shortest, longest)
    if points is None:
        points = 2 * _term_count(len(columns), degree)
    points = whole("points", points, 1)
    if points > 1000:
        raise ValueError(f"points = {points}: must be at most 1000")
    options = new_struct("sab_measurement_options")
    calls = Calls()
    budgets, count = budget_array(budget, cost, calls, columns)
    if count > 1:
        raise ValueError(f"len(budget) = {count}: must be at most 1")
    options.budget = budgets
    if len(columns) > lib.SAB_MAX_COLUMNS:
        raise ValueError(f"len(shortest) = {len(columns)}: must be at most {lib.SAB_MAX_COLUMNS}")
    options.column_count = len(columns)
    for field, lengths in (("shortest", shortest), ("longest", longest)):
        each = _of_columns(field, lengths, columns)
        array = ffi.new("double[]", list(each.values()))
        calls.kept.append(array)
        setattr(options, field, array)
        calls.names.update({f"{field}[{j}]": name for j, name in enumerate(each)})
    options.max_count = whole("max_count", max_count, 1)
    options.degree = whole("degree", degree, 1, bits=31)
    counts, found = ffi.new("uint64_t[]", points), ffi.new("double[]", points * len(columns))
    check(lib.sab_measurement_points_find(options, points, counts, found), calls)
    rows = np.asarray(ffi.unpack(found, len(found))).reshape(points, -1).tolist()
    return [(int(count), _per_column(row, columns)) for count, row in zip(counts, rows)]


class MemoryModelInfo(NamedTuple):
    """Facts of a model: the fields of ``sab_memory_model_info``."""

    kind: int
    degree: int
    feature_count: int
    term_count: int
    measurements: int
    constant: float
    margin: float
    coverage: float
    residual: float
    held_out_residual: float
    largest_residual: float

    def to_dict(self) -> dict[str, Any]:
        """The facts as a dictionary of numbers, which ``json.dumps`` takes."""
        return cast("dict[str, Any]", plain(self))

    def _repr_html_(self) -> str:
        return as_html("Memory model", self._facts())

    def _facts(self) -> Facts:
        shares = ("residual", "held_out_residual", "largest_residual", "margin", "coverage")
        each = ((name, getattr(self, name)) for name in shares)
        return [
            ("measurements", f"{self.measurements:,}"),
            ("terms, degree", f"{self.term_count:,}, {self.degree}"),
            *((name.replace("_", " "), f"{100 * share:.2f} %") for name, share in each),
        ]


def _rows_of(
    features: Any, columns: Sequence[str] | None
) -> tuple[npt.NDArray[np.float64], Sequence[str] | None]:
    """Rows of features as numbers, and the columns: those given, or the keys where lengths are
    dictionaries.
    """
    rows = list(cast("Sequence[Any]", features)) if isinstance(features, (list, tuple)) else []
    if not any(isinstance(part, Mapping) for row in rows[:1] if _is_row(row) for part in row):
        return real_array("features", features, "must be rows of numbers"), columns
    numbers: list[list[float]] = []
    for index, row in enumerate(rows):
        if not (_is_row(row) and len(row) == 2 and isinstance(row[1], Mapping)):
            raise TypeError(
                f"features[{index}] = {brief(row)}: must be a count and a dictionary of lengths"
            )
        lengths = cast("Mapping[str, Any]", row[1])
        columns = tuple(lengths) if columns is None else columns
        if set(lengths) != set(columns):
            raise ValueError(
                f"features[{index}][1] has the columns {', '.join(map(repr, lengths))}: must have "
                f"{', '.join(map(repr, columns))}"
            )
        named = [(f"features[{index}][1][{name!r}]", lengths[name]) for name in columns]
        count = real(f"features[{index}][0]", row[0])
        numbers.append([count, *(real(name, length) for name, length in named)])
    return np.asarray(numbers, np.float64), columns


def _is_row(row: Any) -> bool:
    return isinstance(row, Iterable) and not isinstance(row, (str, bytes))


def _set_columns(options: CData, columns: Sequence[str] | None, count: int, calls: Calls) -> None:
    """Sets the names of a model's columns."""
    if columns is None:
        return
    given = elements("columns", columns)
    for index, name in enumerate(given):
        if not isinstance(name, str) or "\0" in name:
            raise TypeError(f"columns[{index}] = {brief(name)}: must be a text")
        calls.names[f"column_names[{index}]"] = f"columns[{index}]"
    if len(given) != count:
        raise ValueError(f"len(columns) = {len(given)}: must be {count}, one for each length")
    calls.names["column_names"] = "columns"
    texts = [ffi.new("char[]", name.encode()) for name in given]
    options.column_names = names = ffi.new("char *[]", texts)
    calls.kept += [*texts, names]


class MemoryModel(Saved, kind="sab_memory_model"):
    """Predicts the peak of a batch. Immutable, picklable; the cost of a plan: ``sab.plan(sizes,
    cost=model, budget=bytes)``.

    ``measured`` has the :class:`Peaks` that :meth:`learn` fitted it to; None for other models.
    """

    def __init__(self, handle: CData) -> None:
        self.measured: Peaks | None = None
        makers = "sab.MemoryModel.fit() or learn()"
        self._handle = self._owned(handle, lib.sab_memory_model_free, makers)
        info = new_struct("sab_memory_model_info")
        check(lib.sab_memory_model_get_info(self._handle, info))
        self._info = info
        self.info: MemoryModelInfo = record_of(MemoryModelInfo, info)

    @classmethod
    def fit(
        cls,
        features: npt.ArrayLike,
        peaks: npt.ArrayLike,
        *,
        kind: ModelKind = "batch",
        degree: int = 2,
        coverage: float = 0.95,
        select_terms: bool = True,
        columns: Sequence[str] | None = None,
    ) -> MemoryModel:
        """Fits a model to measurements, such as ``features`` and ``peaks`` of :func:`collect_peak`.

        Args:
            features: a row of numbers for each measurement; for ``"batch"`` (count, padded length).
                Of samples with several sizes (count, a length for each), or (count, dictionary of
                lengths by the name of the column).
            peaks: bytes.
            kind: ``"batch"`` (count, count * length, count * length**2, length, length**2, and the
                products of each two lengths of several; falls with none) or ``"polynomial"`` of any
                features.
            degree: 1 or 2.
            coverage: share of unseen batches that should stay under :meth:`predict_upper`.
            select_terms: leave out terms that do not pay.
            columns: names of the sizes, one for each length. A plan refuses the model as a cost of
                sizes with other names.

        Raises:
            ValueError: too few measurements, or some that do not determine all terms: the message
                says what to measure next.

        >>> rows = [(n, l) for n in (1, 2, 4, 8) for l in (10, 50, 100)]
        >>> model = MemoryModel.fit(rows, [1e6 + 300 * n * l for n, l in rows])
        >>> round(float(model.predict([(16, 100)])[0]))
        1480000
        """
        rows, columns = _rows_of(features, columns)
        if rows.ndim == 1:
            rows = rows.reshape(-1, 1)
        if rows.ndim != 2:
            raise ValueError(
                f"features has {rows.ndim} dimensions: must have a row for each measurement"
            )
        bytes_ = real_array("peaks", peaks, "must be one number for each row of features")
        if bytes_.shape != (len(rows),):
            raise ValueError(
                f"peaks has shape {bytes_.shape}: must have one number for each of the "
                f"{len(rows)} rows of features"
            )
        options = new_struct("sab_memory_model_options")
        options.kind = one_of("kind", kind, _KINDS)
        options.degree = whole("degree", degree, 1, bits=31)
        options.coverage = real("coverage", coverage, "must be above 0 and below 1")
        options.keep_terms = not flag("select_terms", select_terms)
        calls = Calls()
        _set_columns(options, columns, rows.shape[1] - 1, calls)
        handle = ffi.new("sab_memory_model **")
        pointers = [ffi.cast("double *", array.ctypes.data) for array in (rows, bytes_)]
        check(
            lib.sab_memory_model_fit_new(
                pointers[0], len(rows), rows.shape[1], pointers[1], options, handle
            ),
            calls,
        )
        return cls(handle[0])

    @classmethod
    def learn(
        cls,
        step: Callable[[int, PerColumn], Any],
        device: DeviceLike = "cuda",
        *,
        shortest: LengthsLike,
        longest: LengthsLike,
        budget: int | None = None,
        max_count: int = 1 << 20,
        points: int | None = None,
        degree: int = 2,
        coverage: float = 0.9,
        cleanup: Callable[[], Any] | None = None,
        progress: bool | Progress | None = None,
    ) -> MemoryModel:
        """Measures batches and fits a model.

        Runs ``step(count, length)`` on ``points`` small batches and fits a first model. Then runs
        it on ``points`` more batches, which this model predicts to take a third to nine tenths of
        the budget, and fits the model to those.

        Args:
            step: runs a training step on a batch of ``count`` samples of padded length ``length``.
                Of samples with several sizes ``length`` is a dictionary by the name of the column.
            shortest, longest: range of the padded lengths: numbers, or dictionaries by the name of
                the column. The model then has these columns.
            device: see :class:`Probe`.
            budget: bytes that the batches will have; the device's total by default.
            max_count: most samples in a batch.
            points: steps in each of the two rounds; by default twice the terms of degree 2: 12 for
                one size, 24 for two.
            degree, coverage: see :meth:`fit`.
            cleanup: see :func:`collect_peak`.
            progress: True for a bar, or ``progress(done, total)`` before each of the ``1 + 2 *
                points`` steps, which stops by returning False or raising.
        """

        begun = 0  # steps of the rounds before

        def tell(done: int, _: int) -> Any:
            return cast(Progress, report)(begun + done, 1 + 2 * cast(int, points))

        def measure(where: list[tuple[int, PerColumn]]) -> Peaks:
            nonlocal begun

            def work(point: tuple[int, PerColumn]) -> tuple[int, PerColumn]:
                step(*point)
                return point

            told = tell if callable(report) else report
            measured = collect_peak(work, where, probe, cleanup=cleanup, progress=told)
            begun += len(where)
            return measured

        def needs(measured: Peaks) -> npt.NDArray[np.int64]:
            # What the allocator must have, where it says so: allocated bytes alone leave out what
            # lies between blocks.
            return np.maximum(measured.peaks, measured.reserved_peaks)

        columns = _columns_of(shortest, longest)
        least = _of_columns("shortest", shortest, columns)
        for (low, short), (high, long) in zip(
            least.items(), _of_columns("longest", longest, columns).items()
        ):
            if short == long:
                raise ValueError(
                    f"{low} = {high} = {long:g}: a model is of batches of different lengths; of "
                    "one length find_max_batch() says all"
                )
        if points is None:
            points = 2 * _term_count(len(columns), 2)
        names = columns if columns[0] else None
        with one_bar(progress, "learn") as report, probe_of(device) as probe:
            limit = probe.stats().total if budget is None else whole("budget", budget, 1)
            if limit <= 0:
                raise ValueError(
                    "budget = None: the device does not know its total: a budget must be given"
                )
            # First what a framework makes once, such as the state of an optimizer.
            if measure([(1, _per_column(list(least.values()), columns))]).out_of_memory:
                raise DeviceMemoryError(
                    "out of memory: not enough even for a batch of one: a sample of length "
                    f"{', '.join(f'{short:g}' for short in least.values())} does not fit"
                )
            small = measure(
                measurement_points(
                    shortest, longest, max_count=max_count, points=points, degree=degree
                )
            )
            fit = functools.partial(cls.fit, degree=degree, coverage=coverage, columns=names)
            first = fit(small.features, needs(small))
            large = measure(
                measurement_points(
                    shortest,
                    longest,
                    max_count=max_count,
                    points=points,
                    degree=degree,
                    budget=limit,
                    cost=first,
                )
            )
        model = fit(large.features, needs(large))
        model.measured = large
        return model

    def _predict(self, features: npt.ArrayLike, which: int) -> npt.NDArray[np.float64]:
        rows, _ = _rows_of(features, self.columns)
        if rows.ndim != 2 or rows.shape[1] != self.info.feature_count:
            raise ValueError(
                f"features has shape {rows.shape}: must have rows of {self.info.feature_count} "
                "numbers"
            )
        made = np.empty(len(rows))
        room = [ffi.NULL, ffi.NULL]
        room[which] = ffi.cast("double *", made.ctypes.data)
        check(
            lib.sab_memory_model_predict(
                self._handle, ffi.cast("double *", rows.ctypes.data), len(rows), *room
            )
        )
        return made

    def predict(self, features: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Expected peaks of rows of features, in bytes."""
        return self._predict(features, 0)

    def predict_upper(self, features: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Peaks with the margin: the stated share of batches stays under them."""
        return self._predict(features, 1)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of a model of batches; ``("",)`` for one column without a name.
        A polynomial of other features has none.
        """
        if self.info.kind != lib.SAB_MODEL_BATCH:
            return ()
        return column_names(self._info.column_names, self.info.feature_count - 1)

    @property
    def terms(self) -> list[tuple[float, tuple[int, ...]]]:
        """(coefficient, power of each feature) of each term."""
        width, given = self.info.feature_count, self._info
        return [
            (given.coefficients[i], tuple(ffi.unpack(given.powers + i * width, width)))
            for i in range(self.info.term_count)
        ]

    def cost(self) -> Cost:
        """The upper prediction of a model of batches as a cost, in bytes."""
        handle = ffi.new("sab_cost **")
        check(lib.sab_memory_model_cost_new(self._handle, handle))
        return Cost._own(handle, MemoryModel.cost, self)

    def __repr__(self) -> str:
        return f"<sab.MemoryModel of {self.info.measurements} measurements: {self}>"

    def _repr_html_(self) -> str:
        return as_html(f"Memory model: {self}", self.info._facts())

    def __str__(self) -> str:
        names = [f"f{i}" for i in range(self.info.feature_count)]
        if self.columns:
            names = ["count", *(column or "length" for column in self.columns)]
        parts: list[str] = []
        for coefficient, powers in self.terms:
            factors = [
                name if power == 1 else f"{name}^{power}"
                for name, power in zip(names, powers)
                if power
            ]
            parts.append(" * ".join([f"{coefficient:,.4g}", *factors]))
        return (
            f"{' + '.join(parts)} bytes, {100 * self.info.margin:.2f} % margin for "
            f"{100 * self.info.coverage:.0f} % of batches"
        )
