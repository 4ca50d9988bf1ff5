"""``sab memory``: probes a training step, fits a model, and says how large batches may be."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import pathlib
import sys
from typing import Any, Callable, NamedTuple, cast

import numpy as np

import sab
from sab._cli.inputs import InputError
from sab._cli.options import read


class StepError(InputError):
    """The user's own step failed; why, is its cause."""


class Size(NamedTuple):
    """The largest batch of a length."""

    length: float
    batch_size: int
    bytes: float


class Answer(NamedTuple):
    """What was measured, the model, and the batch sizes."""

    model: sab.MemoryModel
    peaks: sab.Peaks
    sizes: list[Size]
    budget: int
    skipped: int  # samples that are over the budget alone


def load_step(target: str) -> Callable[[int, float], Any]:
    """The function that ``module:function`` or ``path.py:function`` names."""
    place, _, name = target.rpartition(":")
    if not place or not name or place.startswith("."):
        raise InputError(f"{target}: must be module:function or file.py:function")
    try:
        if place.endswith(".py"):
            path = pathlib.Path(place)
            if not path.is_file():
                raise InputError(f"{target}: there is no file {place}")
            sys.path.insert(0, str(path.resolve().parent))
            known = f"_sab_{path.stem}"  # never in place of a module of the same name
            spec = importlib.util.spec_from_file_location(known, path)
            assert spec is not None
            loader: Any = spec.loader
            module = importlib.util.module_from_spec(spec)
            sys.modules[known] = module
            loader.exec_module(module)
        else:
            sys.path.insert(0, ".")
            module = importlib.import_module(place)
    except InputError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name in (place, place.split(".")[0]):
            raise InputError(f"{target}: there is no module {place}") from None
        raise StepError(f"{place} cannot be imported") from error
    step: Any = module
    for part in name.split("."):
        step = getattr(step, part, None)
    if not callable(step):
        raise InputError(f"{target}: {place} has no function {name}")
    return step  # type: ignore[no-any-return]


def answer(options: argparse.Namespace) -> Answer:
    """Runs the step on a few batches and works the rest out."""
    sizes: sab.Sizes | None = None
    shortest, longest = options.shortest, options.longest
    if options.files:
        sizes = read(options)
        values = sizes.values()
        kept = values[values > 0]
        if len(kept) == 0:
            raise InputError("no sample has a size above 0")
        shortest, longest = shortest or float(kept.min()), longest or float(kept.max())
    if shortest is None or longest is None:
        raise InputError("a FILE of sizes, or --shortest and --longest, must be given")
    for option, number in (
        ("--shortest", shortest),
        ("--longest", longest),
        ("--points", options.points),
        ("--max-batch-size", options.max_batch_size),
    ):
        if not 0 < number < math.inf:
            raise InputError(f"{option} {number:g}: must be above 0")
    for option, path in (("--save", options.save), ("--picture", options.picture)):
        if path and not pathlib.Path(path).resolve().parent.is_dir():  # known before the measuring
            raise InputError(f"{option} {path}: there is no such folder")
    step = load_step(options.step)

    def run(count: int, length: float) -> None:
        try:
            step(count, int(length) if float(length).is_integer() else length)
        except Exception as error:
            if sab.is_out_of_memory(error):
                raise
            raise StepError(
                f"{options.step} failed on a batch of {count} samples of length {length:g}"
            ) from error

    with sab.Probe(options.device, total_bytes=options.total) as probe:
        budget = next(
            given
            for given in (options.budget, options.total, probe.stats().total)
            if given is not None
        )
        model = sab.MemoryModel.learn(
            run,
            probe,
            shortest=shortest,
            longest=longest,
            budget=budget,
            max_count=options.max_batch_size,
            points=options.points,
            degree=options.degree,
            coverage=options.coverage,
            progress=True if sys.stderr.isatty() else None,
        )
    assert model.measured is not None
    skipped = 0
    if sizes is not None:
        plan = sab.plan(
            sizes,
            cost=model,
            budget=budget,
            max_batch_size=options.max_batch_size,
            oversize="skip",
        )
        skipped = plan.skipped_count
        found = [
            (bucket.padded_length, bucket.batch_size) for bucket in plan.buckets if bucket.batches
        ]
    else:
        rounded: Any = np.round(np.geomspace(shortest, longest, 8))
        lengths = cast("list[float]", np.unique(rounded.clip(shortest, longest)).tolist())
        found = [
            (length, _largest(model, length, budget, options.max_batch_size)) for length in lengths
        ]
    needs = model.predict_upper([(batch_size, length) for length, batch_size in found])
    return Answer(
        model,
        model.measured,
        [Size(length, batch_size, float(need)) for (length, batch_size), need in zip(found, needs)],
        budget,
        skipped,
    )


def _largest(model: sab.MemoryModel, length: float, budget: int, most: int) -> int:
    """The most samples whose upper prediction is within the budget; 0 when not even one."""
    fits, too_many = 0, most + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if model.predict_upper([(middle, length)])[0] <= budget:
            fits = middle
        else:
            too_many = middle
    return fits
