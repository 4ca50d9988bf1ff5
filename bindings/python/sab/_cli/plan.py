"""The command ``sab plan``: makes a plan, reports on it, saves it."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import sab
from sab._cli.inputs import InputError
from sab._cli.options import Commands, common_options, read_to_plan
from sab._cli.quantities import quantity, whole
from sab._cli.tables import print_left_out, print_paths

_SKIPPED = "outside the boundaries or over the budget alone; see --oversize"


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    plan = commands.add_parser(
        "plan", parents=[common_options()], help="make a plan, report on it, save it"
    )
    plan.add_argument(
        "--padding",
        type=quantity,
        default=0.01,
        help="target for the share of padding, and for the share of batches over the lower bound "
        "(default: 0.01)",
    )
    plan.add_argument("--boundaries", type=quantity, nargs="+", help="bucket boundaries")
    plan.add_argument(
        "--buckets",
        help="number of buckets, placed for the least padding; or equal: as many batches in each",
    )
    plan.add_argument(
        "--bucket-batches",
        type=whole,
        help="batches of each bucket (--buckets equal), or the fewest (by --padding)",
    )
    plan.add_argument(
        "--batch-size", type=whole, nargs="+", help="samples a batch: one number, or one a bucket"
    )
    plan.add_argument(
        "--cost", default="padded", help="padded, quadratic, or coefficients such as 0,0,1,0.01"
    )
    plan.add_argument("--max-batch-size", type=whole, help="most samples in a batch")
    plan.add_argument(
        "--batch-size-multiple",
        type=whole,
        default=1,
        help="round batch sizes down to a multiple of this, such as 8 (default: 1)",
    )
    plan.add_argument(
        "--length-multiple",
        type=quantity,
        default=0,
        help="pad lengths to a multiple of this, such as 8 for tensor cores (default: off)",
    )
    plan.add_argument(
        "--tail",
        default="keep",
        choices=["keep", "merge", "drop", "wrap"],
        help="samples of a bucket that fill no batch: keep as a smaller batch, merge into the next "
        "bucket, drop, or wrap: repeat other samples of the bucket (default: keep)",
    )
    plan.add_argument(
        "--oversize",
        default="skip",
        choices=["skip", "error", "single"],
        help="samples that are outside the boundaries, or exceed the budget alone: skip, refuse "
        "with an error, or make a batch of each (default: skip)",
    )
    plan.add_argument(
        "--max-shapes",
        type=whole,
        help="most pairs of batch size and padded length (default: no limit)",
    )
    plan.add_argument(
        "--world-size", type=whole, default=1, help="ranks to report for (default: 1)"
    )
    plan.add_argument(
        "--save", metavar="FILE", help="write the plan, for sab.Plan.open and sab_plan_file_new"
    )
    plan.add_argument(
        "--output",
        metavar="FILE",
        help="write the batches of an epoch as Parquet: step, rank, batch, indices, padded_length "
        "(with pyarrow)",
    )
    plan.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    cost: Any = options.cost
    if cost not in ("padded", "quadratic"):
        try:
            cost = [quantity(number) for number in cost.split(",")]
        except argparse.ArgumentTypeError:
            raise InputError(
                f"--cost {options.cost}: must be padded, quadratic or numbers between commas"
            ) from None
    buckets: Any = options.buckets
    if buckets is not None and buckets != "equal":
        try:
            buckets = whole(buckets)
        except argparse.ArgumentTypeError:
            raise InputError(f"--buckets {buckets}: must be a whole number or equal") from None
    batch_size = (
        options.batch_size[0]
        if options.batch_size and len(options.batch_size) == 1
        else options.batch_size
    )
    sizes = read_to_plan(options)
    plan = sab.plan(
        sizes,
        options.budget,
        padding=options.padding,
        boundaries=options.boundaries,
        buckets=buckets,
        bucket_batches=options.bucket_batches,
        batch_size=batch_size,
        cost=cost,
        max_batch_size=options.max_batch_size,
        batch_size_multiple=options.batch_size_multiple,
        length_multiple=options.length_multiple,
        tail=options.tail,
        oversize=options.oversize,
        max_shapes=options.max_shapes,
        progress=True if sys.stderr.isatty() else None,
    )
    report = plan.report(seed=options.seed, world_size=options.world_size)
    if options.save:
        plan.save(options.save)
    if options.output:
        from sab._cli.schedule import write_schedule

        write_schedule(options.output, plan, options.seed, options.world_size)
    if options.picture:
        from sab._cli.picture import draw

        title = (
            f"{100 * report.padding:.1f} % padding, {report.batches:,} batches in "
            f"{len(report.buckets):,} buckets"
        )
        draw(options.picture, title, sizes, [bucket.longest for bucket in report.buckets], [])
    if options.json:
        print_left_out("skipped", plan.skipped_count, _SKIPPED, as_json=True)
        facts = report._asdict()
        facts["buckets"] = [bucket._asdict() for bucket in report.buckets]
        facts["fingerprint"] = f"{plan.fingerprint:016x}"
        print(json.dumps(facts, indent=2))
        return
    print(report)
    print_left_out("skipped", report.skipped, _SKIPPED)
    print_left_out("dropped", report.dropped, "in no batch of an epoch; see --tail")
    print_left_out("repeated", report.repeated, "twice in an epoch; see --tail")
    print_paths(("plan", options.save), ("schedule", options.output), ("picture", options.picture))
