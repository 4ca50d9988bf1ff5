"""Sizes in the columns of Hugging Face data sets."""

from __future__ import annotations

import importlib
from typing import Any

from sab._arrow import arrow_sizes, values_of
from sab._native import CData, lib
from sab._tables import find_leaf


def is_data_set(source: Any) -> bool:
    """Whether an object of the library `datasets` is a data set, or a column of one."""
    while hasattr(source, "column_name"):  # datasets.Column, what dataset["name"] gives
        source = source.source
    return hasattr(source, "_indices")


def data_set_sizes(data_set: Any, column: str | None, unit: int, zero_nulls: bool) -> CData:
    """The handle of the sizes in a column, in the order of the data set. Formats and transforms
    are not applied. Nothing is copied, unless the data set was shuffled or selected from.
    """
    pa: Any = importlib.import_module("pyarrow")
    names = [] if column is None else [column]
    while hasattr(data_set, "column_name"):
        names.insert(0, data_set.column_name)
        data_set = data_set.source
    column = ".".join(names) or None
    table = data_set.data.table
    leaf = find_leaf(table.schema, column)
    name = ".".join(leaf.path)
    found = leaf.of(table.column(leaf.path[0]))
    if data_set._indices is not None:
        types = pa.types
        if not types.is_integer(leaf.type) and not types.is_floating(leaf.type):
            # Only the lengths are moved to their places.
            handle = arrow_sizes(pa.table([found], [name]), name, unit, zero_nulls=True)
            lengths = values_of(handle, 0, len(found))
            found = pa.chunked_array([pa.array(lengths, mask=found.is_null().to_numpy())])
            unit = lib.SAB_TEXT_BYTES
        rows = data_set._indices.column(0).combine_chunks()
        found = pa.chunked_array([found.combine_chunks().take(rows)])
    return arrow_sizes(pa.table([found], [name]), name, unit, zero_nulls)
