"""The command ``sab plan``: makes a plan, reports on it, saves it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import sab
from sab._cli.boxes import print_boxes
from sab._cli.inputs import InputError
from sab._cli.options import Commands, columns_of, common_options, read_to_plan
from sab._cli.quantities import quantity, whole
from sab._cli.tables import (
    print_json,
    print_left_out,
    print_missed_target,
    print_paths,
    print_table,
    print_text,
)
from sab._report import bucket_table, report_facts

_SKIPPED = "outside the boundaries or over the budget alone; see --oversize"


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    plan = commands.add_parser(
        "plan", parents=[common_options()], help="make a plan, report on it, save it"
    )
    plan.add_argument(
        "--padding",
        type=quantity,
        help="target for the share of padding, and for the share of batches over the lower bound "
        "(default: 0.01)",
    )
    plan.add_argument("--boundaries", type=quantity, nargs="+", help="bucket boundaries")
    plan.add_argument(
        "--buckets",
        type=whole,
        help="number of buckets, placed for the least padding",
    )
    plan.add_argument(
        "--bucket-batches",
        type=whole,
        help="fewest batches of a bucket (by --padding)",
    )
    plan.add_argument(
        "--batch-size", type=whole, nargs="+", help="samples a batch: one number, or one a bucket"
    )
    plan.add_argument(
        "--cost",
        default="padded",
        help="padded, quadratic, or coefficients such as 0,0,1,0.01; of several columns padded, "
        "product, or weights such as source=1,target=2.5 (default: padded)",
    )
    plan.add_argument("--max-batch-size", type=whole, help="most samples in a batch")
    plan.add_argument(
        "--min-batch-size", type=whole, default=0, help="fewest samples in a batch (default: 0)"
    )
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
        choices=["keep", "drop", "wrap"],
        help="samples of a bucket that fill no batch: keep as a smaller batch, drop, or wrap: "
        "repeat other samples of the bucket (default: keep)",
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
        "--shapes",
        choices=["auto"],
        help="auto: as few pairs of batch size and padded length as the padding target allows",
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


def _cost_of(given: str, columns: Sequence[str]) -> Any:
    """The argument `cost` of sab.plan()."""
    if given in ("padded", "quadratic", "product"):
        return given
    parts = [part.rpartition("=") for part in given.split(",")]
    names = [name for name, _, _ in parts if name]
    try:
        numbers = [quantity(number) for _, _, number in parts]
    except argparse.ArgumentTypeError:
        numbers = []
    if not numbers or len(set(names)) not in (0, len(parts)):
        raise InputError(
            f"--cost {given}: must be padded, quadratic, product, numbers between commas, or "
            "weights such as source=1,target=2.5"
        )
    if not names and len(columns) > 1:
        raise InputError(f"--cost {given}: must be weights of columns, such as {columns[0]}=1")
    unknown = [name for name in names if len(columns) < 2 or name not in columns]
    if unknown:
        rule = f"one of {', '.join(columns)}" if len(columns) > 1 else "of several --column"
        raise InputError(f"--cost {given}: {unknown[0]} must be {rule}")
    return dict(zip(names, numbers)) if names else numbers


def _check_columns(options: argparse.Namespace, columns: Sequence[str]) -> None:
    """Refuses what only a single column has."""
    if len(columns) < 2:
        return
    for name, is_given in (
        ("--boundaries", options.boundaries is not None),
        (f"--buckets {options.buckets}", options.buckets is not None),
        ("--cost quadratic", options.cost == "quadratic"),
    ):
        if is_given:
            raise InputError(f"{name}: must go with one --column, not {len(columns)}")


def _run(options: argparse.Namespace) -> None:
    columns = columns_of(options)
    _check_columns(options, columns)
    cost = _cost_of(options.cost, columns)
    batch_size = (
        options.batch_size[0]
        if options.batch_size and len(options.batch_size) == 1
        else options.batch_size
    )
    sizes = read_to_plan(options)
    plan = sab.plan(
        sizes,
        options.budget,
        padding=0.01 if options.padding is None else options.padding,
        boundaries=options.boundaries,
        buckets=options.buckets,
        bucket_batches=options.bucket_batches,
        batch_size=batch_size,
        cost=cost,
        max_batch_size=options.max_batch_size,
        min_batch_size=options.min_batch_size,
        batch_size_multiple=options.batch_size_multiple,
        length_multiple=options.length_multiple,
        tail=options.tail,
        oversize=options.oversize,
        max_shapes=options.max_shapes,
        shapes=options.shapes,
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
        draw(options.picture, title, sizes.values(), report.buckets, [])
    if options.json:
        print_left_out("skipped", plan.skipped_count, _SKIPPED, as_json=True)
        facts = report.to_dict()
        facts["fingerprint"] = f"{plan.fingerprint:016x}"
        print_json(facts)
        return
    left_out = plan.skipped_count
    share = f"{100 * left_out / plan.sample_count:.2g} %" if left_out else "none"
    print_text(f"{plan.sample_count:,} samples, budget {options.budget:,.10g}, left out: {share}")
    if len(plan.columns) > 1:
        print(f"\n{report_facts(report)}\n")
        print_table("Buckets, and the sizes of their samples:", *bucket_table(report.buckets))
        print_boxes(sizes.values(), report.buckets)
        print()
    else:
        print(f"\n{report}")
    print_left_out("skipped", report.skipped, _SKIPPED)
    print_left_out("dropped", report.dropped, "in no batch of an epoch; see --tail")
    print_left_out("repeated", report.repeated, "twice in an epoch; see --tail")
    if options.padding is not None:
        print_missed_target(report, options.padding)
    print_paths(("plan", options.save), ("schedule", options.output), ("picture", options.picture))
