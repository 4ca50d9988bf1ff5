"""The command ``sab compare``: padding and batches of libsab and of other methods."""

from __future__ import annotations

import argparse
import json
from typing import Any, Callable

import numpy as np

import sab
from sab._cli import baselines
from sab._cli.inputs import InputError
from sab._cli.measure import Row, measure
from sab._cli.options import Commands, common_options, read_to_plan
from sab._cli.tables import print_skipped, print_table

_SKIPPED = "over the budget alone; no system gets them"


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    compare = commands.add_parser(
        "compare",
        parents=[common_options()],
        help="compare padding and batches of libsab with other methods",
    )
    compare.add_argument(
        "--batch-size", type=int, default=32, help="size of static batches (default: 32)"
    )
    compare.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    if options.batch_size < 1:
        raise InputError(f"--batch-size {options.batch_size}: must be at least 1")
    sizes, unit = read_to_plan(options)
    plan = sab.plan(sizes, options.budget, oversize="skip")
    fitting = np.setdiff1d(np.arange(len(sizes)), plan.skipped) if len(plan.skipped) else None
    kept = sizes if fitting is None else np.asarray(sizes)[fitting]
    if fitting is not None:
        plan = sab.plan(kept, options.budget)
    sampler = sab.BucketSampler(plan, seed=options.seed)

    def ours(epoch: int) -> Any:
        sampler.set_epoch(epoch)
        return sampler

    def theirs(make: Callable[..., Any], size: float) -> Callable[[int], Any]:
        return lambda epoch: make(kept, size, np.random.default_rng([options.seed, epoch]))

    systems = [
        (f"static batches of {options.batch_size}", theirs(baselines.static, options.batch_size)),
        ("sorted windows of 10,000", theirs(baselines.sorted_windows, options.budget)),
        ("30 quantile buckets", theirs(baselines.quantile_buckets, options.budget)),
        ("whole sort (fairseq)", theirs(baselines.whole_sort, options.budget)),
        ("libsab", ours),
    ]
    rows = [measure(name, kept, options.budget, epoch) for name, epoch in systems]
    boundaries = [bucket.longest for bucket in plan.buckets]
    if options.picture:
        from sab._cli.picture import draw

        static, best = rows[0], rows[-1]
        title = (
            f"{100 * static.padding:.0f} % padding in static batches, {100 * best.padding:.1f} % "
            "with libsab"
        )
        draw(options.picture, title, kept, boundaries, rows, unit)
    if options.json:
        print_skipped(len(sizes) - len(kept), _SKIPPED, as_json=True)
        facts = {
            "samples": len(sizes),
            "skipped": len(sizes) - len(kept),
            "total": float(np.sum(kept, dtype=np.float64)),
            "budget": options.budget,
        }
        print(
            json.dumps(
                {
                    **facts,
                    "lower_bound": plan.lower_bound,
                    "buckets": len(boundaries),
                    "systems": [row._asdict() for row in rows],
                },
                indent=2,
            )
        )
        return
    print_table(
        f"{len(kept):,} samples of {np.sum(kept, dtype=np.float64):,.0f} {unit}, budget "
        f"{options.budget:,.0f} padded a batch",
        [
            "",
            "batches",
            "over the bound",
            "padding",
            "largest batch",
            "mates meet again",
            "seconds",
        ],
        [_cells(row) for row in rows],
    )
    print_skipped(len(sizes) - len(kept), _SKIPPED, as_json=False)
    print("over the bound: batches, divided by the fewest that the budget allows")
    print("largest batch: its padded size; above the budget, a GPU runs out of memory")
    print("mates meet again: share of pairs of a batch that are in one batch next epoch")
    report = plan.report(seed=options.seed)
    if not report.target_met:
        print(
            "libsab: its target of 1 % for padding and extra batches is missed, "
            f"{100 * report.nearest_target:.1f} % at\n        best; more samples or a smaller "
            "budget usually bring it nearer"
        )
    if options.picture:
        print(f"picture: {options.picture}")


def _cells(row: Row) -> list[str]:
    return [
        row.system,
        f"{row.batches:,}",
        f"{row.over_lower_bound:.3f}",
        f"{100 * row.padding:.2f} %",
        f"{row.largest_batch:,.0f}",
        f"{100 * row.meet_again:.1f} %",
        f"{row.seconds:.4f}",
    ]
