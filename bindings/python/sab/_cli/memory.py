"""The command ``sab memory``: the batch sizes that fit into the memory of a device."""

from __future__ import annotations

import argparse
import contextlib
import sys

from sab._cli.batch_sizes import answer
from sab._cli.options import Commands, add_inputs, check_picture
from sab._cli.quantities import quantity, whole
from sab._cli.tables import print_json, print_left_out, print_paths, print_table


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    memory = commands.add_parser(
        "memory",
        help="probe a training step, fit a model of its memory, print batch sizes for lengths",
        description="Batch sizes are those of the buckets of a plan of the sizes in FILE, or of "
        "lengths from --shortest to --longest.",
    )
    memory.add_argument(
        "step",
        metavar="MODULE:FUNCTION",
        help="or FILE.py:FUNCTION; function(count, length) runs a step on a batch of that shape",
    )
    add_inputs(memory, "*")
    memory.add_argument("--device", default="cuda", help="cuda:N, cpu, host, ... (default: cuda)")
    memory.add_argument(
        "--total",
        type=whole,
        metavar="BYTES",
        help="limit the memory of the device, such as 16GiB",
    )
    memory.add_argument(
        "--budget",
        type=whole,
        metavar="BYTES",
        help="bytes that a batch may take (default: the device's total)",
    )
    memory.add_argument("--shortest", type=quantity, help="padded length (default: of FILE)")
    memory.add_argument("--longest", type=quantity, help="padded length (default: of FILE)")
    memory.add_argument(
        "--max-batch-size",
        type=whole,
        default=100_000,
        help="most samples in a batch (default: 100000)",
    )
    memory.add_argument(
        "--points", type=whole, default=12, help="steps in each of two rounds (default: 12)"
    )
    memory.add_argument(
        "--degree", type=int, default=2, choices=[1, 2], help="degree of the model (default: 2)"
    )
    memory.add_argument(
        "--coverage",
        type=quantity,
        default=0.9,
        help="share of batches that should stay under the prediction (default: 0.9)",
    )
    memory.add_argument(
        "--save",
        metavar="FILE",
        help="write the model, for sab.MemoryModel.open and sab_memory_model_file_new",
    )
    memory.add_argument("--json", action="store_true", help="print JSON instead of tables")
    memory.add_argument(
        "--picture",
        metavar="FILE",
        help="write a .png or .svg picture: measured against predicted, and the batch sizes",
    )
    memory.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    check_picture(options)
    with contextlib.redirect_stdout(sys.stderr):  # what the step prints is not the answer
        found = answer(options)
    predicted = found.model.predict(found.peaks.features)
    if options.save:
        found.model.save(options.save)
    if options.picture:
        from sab._cli.picture import draw_memory

        draw_memory(options.picture, found, predicted)
    measured = list(zip(found.peaks.features, found.peaks.peaks.tolist(), predicted.tolist()))
    print_left_out("skipped", found.skipped, "over the budget alone", options.json)
    if options.json:
        points = [
            {"count": count, "length": length, "measured": peak, "predicted": guess}
            for (count, length), peak, guess in measured
        ]
        facts = {
            "device": options.device,
            "budget": found.budget,
            "model": found.model.info._asdict(),
            "terms": found.model.terms,
        }
        print_json({**facts, "points": points, "batch_sizes": found.sizes})
        return
    mebibyte = 1 << 20
    rows = [
        [
            f"{count:,}",
            f"{length:g}",
            f"{peak / mebibyte:,.1f}",
            f"{guess / mebibyte:,.1f}",
            f"{100 * (guess / peak - 1):+.2f} %",
        ]
        for (count, length), peak, guess in measured
    ]
    print_table(
        f"steps measured on {options.device}, in MiB",
        ["count", "length", "measured", "predicted", "off"],
        rows,
    )
    print(f"{found.model}\n")
    rows = [
        [
            f"{size.length:g}",
            f"{size.batch_size:,}",
            f"{size.bytes / mebibyte:,.1f}",
            f"{100 * size.bytes / found.budget:.1f} %",
        ]
        for size in found.sizes
    ]
    print_table(
        f"largest batches within {found.budget / mebibyte:,.1f} MiB",
        ["padded length", "batch size", "MiB with margin", "of the budget"],
        rows,
    )
    print_paths(("model", options.save), ("picture", options.picture))
