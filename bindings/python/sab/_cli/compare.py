"""The command ``sab compare``: padding and batches of libsab and of other methods."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

import sab
from sab._cli import baselines
from sab._cli.inputs import InputError
from sab._cli.measure import Row, measure
from sab._cli.options import Commands, common_options, read_to_plan
from sab._cli.quantities import whole
from sab._cli.tables import (
    print_json,
    print_left_out,
    print_notes,
    print_paths,
    print_table,
    print_text,
)

_SKIPPED = "over the budget alone; no system gets them"


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    compare = commands.add_parser(
        "compare",
        parents=[common_options()],
        help="compare padding and batches of libsab with other methods",
    )
    compare.add_argument(
        "--batch-size", type=whole, default=32, help="size of static batches (default: 32)"
    )
    compare.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    if options.batch_size < 1:
        raise InputError(f"--batch-size {options.batch_size}: must be at least 1")
    sizes = read_to_plan(options)
    plan = sab.plan(sizes, options.budget, oversize="skip")
    kept = sizes.values()  # the other methods need numbers
    if plan.skipped_count:
        kept = np.delete(kept, plan.skipped, axis=0)
        plan = sab.plan(_with_names(kept, sizes.columns), options.budget)
    sampler = sab.BucketSampler(plan, seed=options.seed)

    def ours(epoch: int) -> Any:
        sampler.set_epoch(epoch)
        return sampler

    def theirs(make: Callable[..., Any], size: float) -> Callable[[int], Any]:
        return lambda epoch: make(kept, size, np.random.default_rng([options.seed, epoch]))

    systems = [
        (f"static batches of {options.batch_size}", theirs(baselines.static, options.batch_size)),
        ("sorted windows of 10,000", theirs(baselines.sorted_windows, options.budget)),
        (
            f"30{' × 5' * (len(sizes.columns) - 1)} quantile buckets",
            theirs(baselines.quantile_buckets, options.budget),
        ),
        ("whole sort (fairseq)", theirs(baselines.whole_sort, options.budget)),
        ("libsab", ours),
    ]
    rows = [measure(name, kept, options.budget, epoch) for name, epoch in systems]
    buckets = plan.buckets
    if options.picture:
        from sab._cli.picture import draw

        static, best = rows[0], rows[-1]
        title = (
            f"{100 * static.padding:.0f} % padding in static batches, {100 * best.padding:.1f} % "
            "with libsab"
        )
        draw(options.picture, title, kept, buckets, rows)
    if options.json:
        print_left_out("skipped", len(sizes) - len(kept), _SKIPPED, as_json=True)
        facts = {
            "samples": len(sizes),
            "skipped": len(sizes) - len(kept),
            "total": float(np.sum(kept, dtype=np.float64)),
            "budget": options.budget,
        }
        result = {"lower_bound": plan.lower_bound, "buckets": len(buckets), "systems": rows}
        print_json({**facts, **result})
        return
    print_table(
        f"{len(kept):,} samples, total size {np.sum(kept, dtype=np.float64):,.0f}, budget "
        f"{options.budget:,.0f}",
        ["", "batches", "× minimum", "padding", "largest", "meet again"],
        [_cells(row) for row in rows],
    )
    print_left_out("skipped", len(sizes) - len(kept), _SKIPPED)
    print_notes(
        ("batches", "batches of an epoch"),
        ("× minimum", "batches / the fewest that the budget allows"),
        ("padding", "share of the padded size that holds no sample"),
        ("largest", "padded size of the largest batch"),
        ("meet again", "batch mates that meet again next epoch"),
    )
    print_text("static batches ignore the budget: their × minimum may be below 1")
    print_paths(("picture", options.picture))


def _with_names(sizes: npt.NDArray[Any], columns: Sequence[str]) -> Any:
    """Sizes as sab.plan() takes them."""
    return sizes if len(columns) == 1 else dict(zip(columns, sizes.T))


def _cells(row: Row) -> list[str]:
    return [
        row.system,
        f"{row.batches:,}",
        f"{row.over_lower_bound:.3f}",
        f"{100 * row.padding:.2f} %",
        f"{row.largest_batch:,.0f}",
        f"{100 * row.meet_again:.1f} %",
    ]
