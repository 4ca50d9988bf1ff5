"""The batches of an epoch as a Parquet file."""

from __future__ import annotations

import importlib
from typing import Any

import sab
from sab._cli.inputs import InputError


def write_schedule(path: str, plan: sab.Plan, seed: int, world_size: int) -> None:
    """Writes a row for each batch of epoch 0, ordered by step and rank."""
    try:
        pa: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise InputError(f"--output {path}: needs pyarrow: pip install pyarrow") from None
    sampler = sab.BucketSampler(plan, seed=seed, world_size=world_size)
    batches = pa.RecordBatchReader.from_stream(sampler)
    with parquet.ParquetWriter(path, batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
