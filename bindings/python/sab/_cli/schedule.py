"""The batches of an epoch as a Parquet file."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import sab
from sab._cli.inputs import InputError

_ROWS = 10_000  # of a part of the file


def write_schedule(path: str, plan: sab.Plan, seed: int, world_size: int) -> None:
    """Writes a row for each batch of epoch 0, ordered by step and rank."""
    try:
        pa: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise InputError(f"--output {path}: needs pyarrow: pip install pyarrow") from None
    schema = pa.schema(
        [
            ("step", pa.int64()),
            ("rank", pa.int64()),
            ("batch", pa.int64()),
            ("indices", pa.list_(pa.int64())),
            ("padded_length", pa.float64()),
        ]
    )
    ranks = [
        sab.BucketSampler(plan, seed=seed, rank=rank, world_size=world_size).batches()
        for rank in range(world_size)
    ]
    rows = (
        {
            "step": batch.step,
            "rank": rank,
            "batch": step * world_size + rank,
            "indices": batch.indices,
            "padded_length": batch.padded_length,
        }
        for step, batches in enumerate(zip(*ranks))
        for rank, batch in enumerate(batches)
    )
    with parquet.ParquetWriter(path, schema) as writer:
        while part := list(itertools.islice(rows, _ROWS)):
            writer.write_table(pa.Table.from_pylist(part, schema=schema))
