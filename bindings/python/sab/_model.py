"""What to measure, and the model that is fitted to it."""

from __future__ import annotations

from typing import Any, Callable, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sab._arguments import flag, one_of, real, whole
from sab._cost import Budget, Cost, CostLike, budget_array
from sab._native import (
    Calls,
    CData,
    DeviceMemoryError,
    Progress,
    check,
    ffi,
    lib,
    new_options,
    new_struct,
    record_of,
)
from sab._peaks import Peaks, collect_peak
from sab._probe import DeviceLike, probe_of
from sab._saved import Saved

__all__ = ["MemoryModel", "MemoryModelInfo", "measurement_points"]

ModelKind = Literal["batch", "polynomial"]
_KINDS = {"batch": lib.SAB_MODEL_BATCH, "polynomial": lib.SAB_MODEL_POLYNOMIAL}


def measurement_points(
    shortest: float,
    longest: float,
    *,
    max_count: int,
    points: int | None = None,
    budget: float | Budget | None = None,
    cost: CostLike | None = None,
    degree: int = 2,
) -> list[tuple[int, float]]:
    """Which (count, length) to measure for a :class:`MemoryModel` of batches, in ascending order of
    count * length.

    The D-optimal choice, made greedily on a grid: few steps suffice.

    Args:
        shortest, longest: range of padded lengths.
        max_count: most samples in a batch.
        points: how many; twice as many as the model has terms by default.
        budget: without a cost: no point has a larger count * length; 4 * longest by default, so
            that none runs out of memory. With one: only points that cost from a third to nine
            tenths of it.
        cost: such as a first model, with the budget in bytes; as for :func:`sab.plan`.
        degree: of the model.
    """
    points = whole("points", (12 if degree == 2 else 6) if points is None else points, 1)
    if points > 1000:
        raise ValueError(f"points = {points}: must be at most 1000")
    options = new_options("sab_measurement_options")
    calls = Calls()
    budgets, count = budget_array(budget, cost, calls)
    if count > 1:
        raise ValueError(f"len(budget) = {count}: must be at most 1")
    if count:
        options.budget = budgets[0]
    options.shortest, options.longest = real("shortest", shortest), real("longest", longest)
    options.max_count = whole("max_count", max_count, 1)
    options.degree = whole("degree", degree, bits=31)
    counts, lengths = ffi.new("uint64_t[]", points), ffi.new("double[]", points)
    check(lib.sab_measurement_points_find(options, points, counts, lengths), calls)
    return [
        (int(counts[i]), int(lengths[i]) if lengths[i].is_integer() else lengths[i])
        for i in range(points)
    ]


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


class MemoryModel(Saved, kind="sab_memory_model"):
    """Predicts the peak of a batch. Immutable, picklable; the cost of a plan: ``sab.plan(sizes,
    cost=model, budget=bytes)``.

    ``measured`` has the :class:`Peaks` that :meth:`learn` fitted it to; None for other models.
    """

    def __init__(self, handle: CData) -> None:
        self.measured: Peaks | None = None
        self._handle = ffi.gc(handle, lib.sab_memory_model_free)
        info = new_struct("sab_memory_model_info")
        check(lib.sab_memory_model_get_info(self._handle, info))
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
    ) -> MemoryModel:
        """Fits a model to measurements, such as ``features`` and ``peaks`` of :func:`collect_peak`.

        Args:
            features: a row of numbers for each measurement; for ``"batch"`` (count, padded length).
            peaks: bytes.
            kind: ``"batch"`` (count, count * length, count * length**2, length, length**2; falls
                with neither) or ``"polynomial"`` of any features.
            degree: 1 or 2.
            coverage: share of unseen batches that should stay under :meth:`predict_upper`.
            select_terms: leave out terms that do not pay.

        Raises:
            ValueError: too few measurements, or some that do not determine all terms: the message
                says what to measure next.

        >>> rows = [(n, l) for n in (1, 2, 4, 8) for l in (10, 50, 100)]
        >>> model = MemoryModel.fit(rows, [1e6 + 300 * n * l for n, l in rows])
        >>> round(float(model.predict([(16, 100)])[0]))
        1480000
        """
        rows = np.ascontiguousarray(features, np.float64)
        if rows.ndim == 1:
            rows = rows.reshape(-1, 1)
        if rows.ndim != 2:
            raise ValueError(
                f"features has {rows.ndim} dimensions: must have a row for each measurement"
            )
        bytes_ = np.ascontiguousarray(peaks, np.float64)
        if bytes_.shape != (len(rows),):
            raise ValueError(
                f"peaks has shape {bytes_.shape}: must have one number for each of the "
                f"{len(rows)} rows of features"
            )
        options = new_options("sab_memory_model_options")
        options.kind = one_of("kind", kind, _KINDS)
        options.degree = whole("degree", degree, bits=31)
        options.coverage = real("coverage", coverage)
        options.select_terms = flag("select_terms", select_terms)
        handle = ffi.new("sab_memory_model **")
        pointers = [ffi.cast("double *", array.ctypes.data) for array in (rows, bytes_)]
        check(
            lib.sab_memory_model_fit_new(
                pointers[0], len(rows), rows.shape[1], pointers[1], options, handle
            )
        )
        return cls(handle[0])

    @classmethod
    def learn(
        cls,
        step: Callable[[int, float], Any],
        device: DeviceLike = "cuda",
        *,
        shortest: float,
        longest: float,
        budget: int | None = None,
        max_count: int = 1 << 20,
        points: int = 12,
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
            shortest, longest: range of the padded lengths.
            device: see :class:`Probe`.
            budget: bytes that the batches will have; the device's total by default.
            max_count: most samples in a batch.
            points: steps in each of the two rounds.
            degree, coverage: see :meth:`fit`.
            cleanup: see :func:`collect_peak`.
        """

        def measure(where: list[tuple[int, float]]) -> Peaks:
            def work(point: tuple[int, float]) -> tuple[int, float]:
                step(*point)
                return point

            return collect_peak(work, where, probe, cleanup=cleanup, progress=progress)

        def needs(measured: Peaks) -> npt.NDArray[np.int64]:
            # What the allocator must have, where it says so: allocated bytes alone leave out what
            # lies between blocks.
            return np.maximum(measured.peaks, measured.reserved_peaks)

        if shortest == longest:
            raise ValueError(
                f"shortest = longest = {longest}: a model is of batches of different lengths; of "
                "one length find_max_batch() says all"
            )
        with probe_of(device) as probe:
            limit = probe.stats().total if budget is None else whole("budget", budget, 1)
            if limit <= 0:
                raise ValueError(
                    "budget = None: the device does not know its total: a budget must be given"
                )
            # First what a framework makes once, such as the state of an optimizer.
            if measure([(1, shortest)]).out_of_memory:
                raise DeviceMemoryError(
                    "out of memory: not enough even for a batch of one: a sample of length "
                    f"{shortest:g} does not fit"
                )
            small = measure(
                measurement_points(
                    shortest, longest, max_count=max_count, points=points, degree=degree
                )
            )
            first = cls.fit(small.features, needs(small), degree=degree, coverage=coverage)
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
        model = cls.fit(large.features, needs(large), degree=degree, coverage=coverage)
        model.measured = large
        return model

    def _predict(self, features: npt.ArrayLike, which: int) -> npt.NDArray[np.float64]:
        rows = np.ascontiguousarray(features, np.float64)
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
    def terms(self) -> list[tuple[float, tuple[int, ...]]]:
        """(coefficient, power of each feature) of each term."""
        coefficient = ffi.new("double *")
        powers = ffi.new("uint32_t[]", self.info.feature_count)
        terms: list[tuple[float, tuple[int, ...]]] = []
        for index in range(self.info.term_count):
            check(lib.sab_memory_model_get_term(self._handle, index, coefficient, powers))
            terms.append((coefficient[0], tuple(powers)))
        return terms

    def cost(self) -> Cost:
        """The upper prediction of a model of batches as a cost, in bytes."""
        handle = ffi.new("sab_cost **")
        check(lib.sab_memory_model_cost_new(self._handle, handle))
        return Cost._own(handle, MemoryModel.cost, self)

    def __repr__(self) -> str:
        return f"<sab.MemoryModel of {self.info.measurements} measurements: {self}>"

    def __str__(self) -> str:
        names = (
            ("count", "length")
            if self.info.kind == lib.SAB_MODEL_BATCH
            else [f"f{i}" for i in range(self.info.feature_count)]
        )
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
