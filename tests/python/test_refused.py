"""The calls of tests/golden/refused/calls.txt: each error names argument and value as Python's
users know them. README.md beside that folder explains the columns.
"""

import importlib
import math
import pathlib
from typing import Any

import pytest

sab: Any = importlib.import_module("sab")  # whose types would refuse some of the calls

TABLE = pathlib.Path(__file__).resolve().parents[1] / "golden/refused/calls.txt"
ROWS = [
    [column.strip() for column in line.split("|")]
    for line in TABLE.read_text().splitlines()
    if not line.startswith("#")
]
ROWS = [row for row in ROWS if row[5] != "none"]
THREE = [3, 1, 2]
EXCEPTIONS = {
    "ARGUMENT": ValueError,
    "IO": OSError,
    "FORMAT": sab.FormatError,
    "MISMATCH": sab.MismatchError,
    "CANCELLED": sab.Cancelled,
    "UNSUPPORTED": (sab.UnsupportedError, ValueError),  # torch's own refusal, where it is there
    "CALLBACK": LookupError,
}


def a_plan() -> Any:
    return sab.plan(THREE, budget=3)


def failing_size(index: int) -> float:
    raise LookupError("the caller's own")


def model(feature: float, peak: float, degree: int) -> Any:
    features = [[1], [feature], [3], [4], [5]]
    return sab.MemoryModel.fit(features, [10, 20, peak, 40, 50], kind="polynomial", degree=degree)


CALLS = {
    "plan_negative_budget": lambda: sab.plan(THREE, budget=-1),
    "plan_second_budget": lambda: sab.plan(THREE, budget=[9, math.nan]),
    "plan_no_budget": lambda: sab.plan(THREE),
    "plan_padding": lambda: sab.plan(THREE, budget=9, padding=1.5),
    "plan_negative_size": lambda: sab.plan([1, 2, -3], budget=9),
    "plan_nan_size": lambda: sab.plan([1, math.nan], batch_size=2),
    "plan_oversize": lambda: sab.plan([1, 99, 2], budget=9),
    "plan_none_left": lambda: sab.plan(THREE, boundaries=[10, 20], batch_size=2, oversize="skip"),
    "plan_tail": lambda: sab.plan(THREE, batch_size=4, tail="drop"),
    "plan_min_batch_size": lambda: sab.plan(THREE, 9, min_batch_size=5, max_batch_size=3),
    "plan_histogram_threads": lambda: sab.plan(sab.Histogram(THREE), batch_size=2, threads=2),
    "plan_file": lambda: sab.Plan.open("/no/such/plan"),
    "plan_file_folder": lambda: sab.Plan.open("/"),
    "plan_file_save": lambda: a_plan().save("/no/such/folder/plan"),
    "sampler_rank": lambda: sab.BucketSampler(a_plan(), rank=3, world_size=2),
    "sampler_world_size": lambda: sab.BucketSampler(a_plan(), world_size=1 << 33),
    "sampler_micro_batches": lambda: sab.BucketSampler(a_plan(), micro_batches=1 << 21),
    "sampler_steps_per_epoch": lambda: sab.BucketSampler(a_plan(), steps_per_epoch=1 << 33),
    "sampler_costliest": lambda: a_plan().costliest_batches(0),
    "sampler_ordered": lambda: sab.OrderedSampler(None, THREE, budget=0.5),
    "sampler_damaged_state": lambda: sab.BucketSampler(a_plan()).load_state_dict(
        {"state": b"nothing"}
    ),
    "sampler_other_state": lambda: sab.BucketSampler(a_plan(), seed=5).load_state_dict(
        sab.BucketSampler(a_plan()).state_dict()
    ),
    "sizes_callback": lambda: sab.Sizes(failing_size, count=3),
    "sizes_progress": lambda: sab.plan(THREE, budget=3, progress=lambda done, total: False),
    "sizes_columns": lambda: sab.Sizes({"a": [3, 1], "b": [1]}),
    "sizes_file": lambda: sab.Sizes("/no/such/sizes.npy"),
    "sizes_file_format": lambda: sab.Sizes(__file__, format="word"),
    "sizes_file_missing": lambda: sab.Sizes(__file__, format="text", missing="skip"),
    "sizes_file_nulls": lambda: sab.Sizes(__file__, format="text", nulls="zero"),
    "cost_transformer": lambda: sab.Cost.transformer(0, 2),
    "pack_capacity": lambda: sab.PackedSampler([5, 3], 0),
    "pack_oversize": lambda: sab.PackedSampler([5, 3], 4),
    "pack_part_of_a_token": lambda: sab.PackedSampler([3, 2.5], 4),
    "pack_window": lambda: sab.PackedSampler([5, 3], 9, method="best_fit", window=7),
    "pack_tries": lambda: sab.PackedSampler([5, 3], 9, method="best_fit", tries=7),
    "balance_nothing": lambda: sab.BalancedSampler(THREE),
    "balance_budget": lambda: sab.BalancedSampler(THREE, budget=-1),
    "partition_parts": lambda: sab.partition([1, 2], 0),
    "partition_cost": lambda: sab.partition([1, math.nan], 2),
    "mixture_repeats": lambda: sab.Mixture({"a": THREE, "b": THREE}, repeat={"a": 1, "b": -1}),
    "mixture_temperature": lambda: sab.Mixture({"a": THREE, "b": THREE}, temperature=-1),
    "mixture_no_sample": lambda: sab.Mixture({"a": THREE, "b": []}),
    "model_feature": lambda: model(math.nan, 30, 1),
    "model_peak": lambda: model(2, 0, 1),
    "model_degree": lambda: model(2, 30, 3),
    "memory_points": lambda: sab.measurement_points(1, 9, points=8, degree=3, max_count=64),
    "memory_device": lambda: sab.Probe("nothing"),
    "stream_none_left": lambda: next(
        sab.Stream.from_items([3, 2], infinite=False).readahead(
            9, budget=1, key=int, oversize="skip"
        )
    ),
}


def test_all_calls_are_made() -> None:
    assert [row[0] for row in ROWS] == list(CALLS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_refused(row: list[str]) -> None:
    call, status, code, _, value, words = row[:6]
    with pytest.raises(EXCEPTIONS[status]) as caught:
        CALLS[call]()
    error = caught.value
    if status == "IO":
        assert isinstance(error, OSError)
        assert (error.errno, error.filename) == (int(code), value)
    elif words != "-":
        assert str(error).startswith((f"{words}: ", f"{words} ")), str(error)
