"""The options of plans, from Python to C."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Union, cast

import numpy as np
import numpy.typing as npt

from sab._arguments import (
    brief,
    elements,
    flag,
    indices_of,
    integer,
    is_array,
    one_dimension,
    one_of,
    real,
    real_array,
    shown,
    whole,
)
from sab._cost import ONE_COLUMN, BudgetLike, CostLike, column_of, set_budgets
from sab._mixture import SOURCE, Mixture
from sab._native import Calls, CData, Progress, choices, ffi, lib
from sab._sizes import Sizes

_TAILS = choices("SAB_TAIL_")
OVERSIZE = choices("SAB_OVERSIZE_")
SKIP_OR_ERROR = {"skip": lib.SAB_OVERSIZE_SKIP, "error": lib.SAB_OVERSIZE_ERROR}

Tail = Literal["keep", "drop", "wrap"]
Oversize = Literal["skip", "error", "single"]
# Edges, in one dimension; of several columns a row for each corner, or the edges of each column.
BoundariesLike = Union[npt.ArrayLike, Mapping[str, npt.ArrayLike]]
_PADDING = 0.01  # by default; not told to the library, which refuses it beside boundaries
_MOST_BOXES = 1 << 16  # that edges of several columns may make
Multiple = Union[float, Mapping[str, float]]  # of all columns, or of each that is named


class PlanOptions(TypedDict, total=False):
    """The options of :func:`plan` that samplers of sizes take, too."""

    padding: float
    boundaries: BoundariesLike | None
    buckets: int | None
    bucket_batches: int | None
    batch_size: int | Sequence[int] | None
    cost: CostLike | None
    max_batch_size: int | None
    min_batch_size: int
    batch_size_multiple: int
    length_multiple: Multiple
    tail: Tail
    drop_last: bool
    oversize: Oversize
    shapes: Literal["auto"] | None
    max_shapes: int | Mapping[int, int] | None
    separate_by: npt.ArrayLike | Literal["source"] | None
    threads: int
    progress: bool | Progress | None


def why_skipped(min_batch_size: int) -> str:
    """What a warning says of samples that no batch has."""
    why = "outside the boundaries or over the budget"
    return why if min_batch_size <= 1 else f"{why}, or too few for min_batch_size,"


def check_names(given: PlanOptions) -> None:
    """Refuses what is no option of a plan, where they are given to a sampler by name."""
    unknown = given.keys() - PlanOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"{min(unknown)}: is no option of the sampler or of a plan")


def plan_options(
    budget: BudgetLike | None,
    given: PlanOptions,
    columns: Sequence[str] = ONE_COLUMN,
    source: Sizes | None = None,
) -> tuple[CData, Calls]:
    """The options in C of a plan of sizes with these columns, and the functions among them.
    `source` may be a mixture, whose sources separate_by may name.
    """
    check_names(given)
    calls = Calls(progress=given.get("progress"), what="plan")
    options = calls.options("sab_plan_options")
    set_budgets(options, budget, given.get("cost"), calls, columns)
    if budget is None and given.get("batch_size") is None:
        raise ValueError(
            "budget = None and batch_size = None: a budget or a batch size must be given, such as "
            "budget=16384"
        )
    padding = real("padding", given.get("padding", _PADDING), "must be above 0 and below 1")
    options.padding_target = 0 if padding == _PADDING else padding
    _set_buckets(options, given, calls, columns)
    most = given.get("max_batch_size")
    options.max_batch_size = 0 if most is None else whole("max_batch_size", most, 1)
    options.min_batch_size = whole("min_batch_size", given.get("min_batch_size", 0))
    multiple = given.get("batch_size_multiple", 1)
    options.batch_size_multiple = whole("batch_size_multiple", multiple, 1)
    set_multiples(options, "length_multiple", given.get("length_multiple", 0), calls, columns)
    tail = given.get("tail", "keep")
    if flag("drop_last", given.get("drop_last", False)):
        if tail not in ("keep", "drop"):
            raise ValueError(f"drop_last = True and tail = {tail!r}: only one may be given")
        tail = "drop"
        calls.names["tail"] = "drop_last = True, tail"
    options.tail = one_of("tail", tail, _TAILS)
    if "oversize" in given:
        options.oversize = one_of("oversize", given["oversize"], OVERSIZE)
    if (shapes := given.get("shapes")) is not None:
        options.shapes = one_of("shapes", shapes, {"auto": lib.SAB_SHAPES_AUTO})
    _set_ids(options, given, calls, source)
    options.threads = whole("threads", given.get("threads", 1), 0)
    return options, calls


def set_multiples(
    options: CData, what: str, given: Any, calls: Calls, columns: Sequence[str]
) -> None:
    """Sets the multiple that all lengths are rounded up to, or those of some columns. `what`: the
    argument, "length_multiple" or "row_multiple".
    """
    each = [0.0] * len(columns)
    if not isinstance(given, Mapping):
        each = [real(what, given)]
        calls.names[f"{what}s[0]"] = what
    numbers = cast("Mapping[object, Any]", given).items() if isinstance(given, Mapping) else ()
    for key, multiple in numbers:
        name, column = f"{what}[{key!r}]", column_of(what, key, columns)
        each[column] = real(name, multiple)
        calls.names[f"{what}s[{column}]"] = name
    array = ffi.new("double[]", each)
    calls.kept.append(array)
    setattr(options, f"{what}s", array)
    setattr(options, f"{what}_count", len(each))


def _texts(ids: Any) -> list[str] | None:
    """The ids of samples that are texts; None for others. Of texts all must be."""
    if ids is None or isinstance(ids, str) or not hasattr(ids, "__iter__"):
        return None
    first: Any = next(iter(ids), None)
    is_arrow = hasattr(first, "as_py")
    if not isinstance(first.as_py() if is_arrow else first, str):
        return None
    given: list[Any] = ids.to_pylist() if is_arrow else list(ids)
    for index, each in enumerate(given):
        if not isinstance(each, str):
            raise TypeError(f"separate_by[{index}] = {brief(each)}: must be a text, as others are")
    return given


def _shapes_of_texts(shapes: Mapping[Any, int], known: list[str]) -> dict[int, int]:
    """The most shapes of each number that stands for a text."""
    if set(shapes) != set(known):
        raise ValueError(
            f"max_shapes has the ids {sorted(map(str, shapes))!r:.60}: must have those of "
            f"separate_by, {known!r:.60}"
        )
    return {number: shapes[text] for number, text in enumerate(known)}


def _set_ids(options: CData, given: PlanOptions, calls: Calls, source: Sizes | None) -> None:
    """Sets which samples are separate, and the most shapes, which may be given for each id."""
    ids, shapes = given.get("separate_by"), given.get("max_shapes")
    distinct: list[int] = []
    if isinstance(ids, str) and (ids != SOURCE or not isinstance(source, Mixture)):
        raise ValueError(
            f"separate_by = {ids!r}: must be whole numbers, or {SOURCE!r} for a sab.Mixture; or a "
            "text for each sample"
        )
    if (names := _texts(ids)) is not None:
        known, ids = np.unique(names, return_inverse=True)
        if isinstance(shapes, Mapping):
            shapes = _shapes_of_texts(cast("Mapping[Any, int]", shapes), known.tolist())
    if ids is not None:
        if isinstance(source, Mixture) and isinstance(ids, str):
            array, distinct = source._source_numbers(), source._numbers_of_sources()
        else:
            array = indices_of("separate_by", ids)
            distinct = np.unique(array).tolist()
        calls.kept.append(array)
        options.separate_by = ffi.cast("int64_t *", array.ctypes.data)
        options.separate_by_count = array.size
    if not isinstance(shapes, Mapping):
        if shapes is None:
            return
        shapes = whole("max_shapes", shapes, 1)
        if options.bucket_rule != lib.SAB_BUCKETS_AUTO:
            raise ValueError(
                f"max_shapes = {shapes}: must not be given with boundaries or a number of buckets"
            )
        _set_shapes(options, [shapes], calls)
        return
    for key in shapes:
        integer("id of max_shapes", key)
    if sorted(shapes) != distinct:
        raise ValueError(
            f"max_shapes has the ids {sorted(shapes)!r:.60}: must have those of separate_by, "
            f"{distinct!r:.60}"
        )
    each = [whole(f"max_shapes[{i}]", shapes[i], 1) for i in distinct]
    # Ids of samples that are all left out need no shape, which only the library can say.
    keeps_tail = options.tail == _TAILS["keep"]
    if keeps_tail and options.oversize == OVERSIZE["error"] and 1 in each:
        raise ValueError(
            f"max_shapes[{distinct[each.index(1)]}] = 1: must be at least 2: one for full batches, "
            "one for the tail, which is kept"
        )
    _set_shapes(options, each, calls)


def _set_shapes(options: CData, each: list[int], calls: Calls) -> None:
    numbers = ffi.new("uint64_t[]", each)
    calls.kept.append(numbers)
    options.max_shapes, options.max_shape_count = numbers, len(each)


def _check_edges(name: str, edges: npt.NDArray[np.float64]) -> None:
    """Refuses sorted edges of one column that are no intervals."""
    if edges.size < 2:
        raise ValueError(f"len({name}) = {edges.size}: must be at least 2")
    if np.isnan(edges[-1]):  # which sorts last
        raise ValueError(f"{name} has nan: must be numbers")
    equal = np.flatnonzero(edges[1:] == edges[:-1])
    if equal.size:
        raise ValueError(f"{name} has {shown(edges[equal[0]])} twice: must have each number once")


def _corners(boundaries: Any, columns: Sequence[str]) -> npt.NDArray[np.float64]:
    """The ends of the buckets: one number each or, of several columns, one a column. Edges for each
    column make a grid.
    """
    if isinstance(boundaries, Mapping):
        edges = cast("Mapping[str, Any]", boundaries)
        for name in edges:
            column_of("boundaries", name, columns)
        missing = [name for name in columns if name not in edges]
        if missing:
            raise ValueError(f"boundaries has no {missing[0]!r}: must have all columns")
        each = [
            np.sort(one_dimension(f"boundaries[{name!r}]", edges[name], np.float64))
            for name in columns
        ]
        for name, sorted_edges in zip(columns, each):
            _check_edges(f"boundaries[{name!r}]", sorted_edges)
        if len(each) == 1:
            return each[0]
        boxes = math.prod(one.size - 1 for one in each)
        if boxes > _MOST_BOXES:
            raise ValueError(
                f"boundaries: make {boxes} boxes: must make at most {_MOST_BOXES}; rows of numbers "
                "give only those that are needed"
            )
        grid = np.stack(np.meshgrid(*(one[1:] for one in each), indexing="ij"), axis=-1)
        first = np.array([[one[0] for one in each]])
        return np.concatenate([first, grid.reshape(-1, len(columns))])
    if len(columns) == 1:
        return one_dimension("boundaries", boundaries, np.float64)
    rule = "must be rows of numbers, one for each column"
    rows = real_array("boundaries", boundaries, rule)
    if rows.ndim != 2 or rows.shape[1] != len(columns):
        raise ValueError(
            f"boundaries has the shape {rows.shape}: must have one number for each of the "
            f"{len(columns)} columns in each row"
        )
    return rows


def _set_buckets(options: CData, given: PlanOptions, calls: Calls, columns: Sequence[str]) -> None:
    """Sets which buckets there are and how many samples their batches have."""
    boundaries, buckets = given.get("boundaries"), given.get("buckets")
    if boundaries is not None and buckets is not None:
        raise ValueError("boundaries and buckets: only one may be given")
    if buckets is not None and len(columns) > 1:
        raise ValueError(f"buckets = {buckets!r}: is for sizes of one column, not {len(columns)}")
    if boundaries is not None:
        edges = _corners(boundaries, columns)
        calls.kept.append(edges)
        options.bucket_rule = lib.SAB_BUCKETS_BOUNDARIES
        options.boundaries = ffi.cast("double *", edges.ctypes.data)
        if edges.ndim > 1:
            calls.names.update(
                {
                    f"boundaries[{i}][{j}]": f"boundaries[{i}][{name!r}]"
                    for i in range(len(edges))
                    for j, name in enumerate(columns)
                }
            )
        options.boundary_count = edges.size if edges.ndim == 1 else len(edges)
    elif buckets is not None:
        options.bucket_rule = lib.SAB_BUCKETS_OPTIMAL
        options.bucket_count = whole("buckets", buckets, 1)
    batches, batch_size = given.get("bucket_batches"), given.get("batch_size")
    options.bucket_batches = 0 if batches is None else whole("bucket_batches", batches, 1)
    if batch_size is not None:
        is_one = not is_array(batch_size) or np.ndim(cast("Any", batch_size)) == 0
        each = [batch_size] if is_one else elements("batch_size", batch_size)
        counts = np.array([whole("batch_size", count, 1) for count in each], np.uint64)
        calls.kept.append(counts)
        options.batch_sizes = ffi.cast("uint64_t *", counts.ctypes.data)
        options.batch_size_count = counts.size
