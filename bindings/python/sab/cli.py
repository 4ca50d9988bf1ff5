"""The command ``sab``: ``sab compare INPUT``, ``sab plan INPUT``, ``sab pack INPUT`` and ``sab memory MODULE:FUNCTION``."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
import traceback
import warnings
from typing import Any, Callable, Iterator, Optional, Sequence

import numpy as np

import sab
from sab._cli import baselines
from sab._cli.inputs import InputError, read_sizes
from sab._cli.measure import Row, measure
from sab._cli.memory import StepError, answer, bytes_of


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command; gives the exit status: 0, 2 for an input or option that will not do, 130 after Ctrl-C, 141 where who read the output has gone."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sab.SkippedWarning)  # the tables say how many
            options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # for the flush when Python ends
        return 141
    except (InputError, ValueError, OSError, sab.Error) as error:
        if isinstance(error, StepError):
            traceback.print_exception(
                type(error.__cause__), error.__cause__, error.__cause__.__traceback__
            )
        print(f"sab: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"sab: {error.name} is needed for this: pip install 'libsab[cli]'", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sab", description="Which samples go into which batch, when samples differ in size."
    )
    parser.add_argument("--version", action="version", version=f"libsab {sab.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "input",
        metavar="INPUT",
        help=".npy of sizes, text (a sample a line), FASTA, gzip of these, or - for standard input",
    )
    common.add_argument(
        "--bytes", action="store_true", help="count the bytes of a line of text, not its words"
    )
    common.add_argument(
        "--budget", type=float, default=16384, help="padded size of a batch (default: 16384)"
    )
    common.add_argument("--seed", type=int, default=0, help="of the shuffles (default: 0)")
    common.add_argument("--json", action="store_true", help="print JSON instead of a table")
    common.add_argument("--picture", metavar="FILE", help="write a .png or .svg picture")

    compare = commands.add_parser(
        "compare", parents=[common], help="padding and batches of libsab beside what else is in use"
    )
    compare.add_argument(
        "--batch-size", type=int, default=32, help="of the static batches (default: 32)"
    )
    compare.set_defaults(run=_compare)

    plan = commands.add_parser("plan", parents=[common], help="make a plan, report on it, save it")
    plan.add_argument(
        "--padding",
        type=float,
        default=0.01,
        help="share of padding, and of batches over the lower bound, to stay under (default: 0.01)",
    )
    plan.add_argument("--boundaries", type=float, nargs="+", help="bucket boundaries")
    plan.add_argument("--buckets", help="number of buckets that pad least, or 'rank'")
    plan.add_argument(
        "--bucket-batches", type=int, help="batches in a bucket (rank), or the fewest"
    )
    plan.add_argument(
        "--batch-size", type=int, nargs="+", help="samples a batch: one number, or one a bucket"
    )
    plan.add_argument(
        "--cost", default="padded", help="padded, quadratic, or coefficients such as 0,0,1,0.01"
    )
    plan.add_argument("--max-batch-size", type=int)
    plan.add_argument("--batch-size-multiple", type=int, default=1)
    plan.add_argument("--length-multiple", type=float, default=0)
    plan.add_argument("--tail", default="keep", choices=["keep", "merge", "drop", "wrap"])
    plan.add_argument("--oversize", default="skip", choices=["skip", "error", "single"])
    plan.add_argument("--max-shapes", type=int)
    plan.add_argument("--world-size", type=int, default=1, help="ranks to report for (default: 1)")
    plan.add_argument(
        "--save", metavar="FILE", help="write the plan, for sab.Plan.open and sab_plan_open"
    )
    plan.set_defaults(run=_plan)

    pack = commands.add_parser(
        "pack", help="pack samples into rows of a fixed capacity, and say how full they are"
    )
    pack.add_argument("input", metavar="INPUT", help="as for `sab plan`")
    pack.add_argument(
        "--bytes", action="store_true", help="count the bytes of a line of text, not its words"
    )
    pack.add_argument("--capacity", type=int, default=2048, help="of a bin (default: 2048)")
    pack.add_argument(
        "--method",
        action="append",
        choices=["best_fit", "histogram", "first_fit"],
        help="may be given several times (default: all)",
    )
    pack.add_argument("--max-sequences", type=int, default=0, help="in a bin (default: no limit)")
    pack.add_argument("--split", action="store_true", help="cut samples longer than the capacity")
    pack.add_argument(
        "--oversize",
        default="error",
        choices=["error", "skip"],
        help="samples longer than the capacity, not split (default: error)",
    )
    pack.add_argument(
        "--window", type=int, default=256, help="bins that first_fit keeps open (default: 256)"
    )
    pack.add_argument("--json", action="store_true", help="print JSON instead of a table")
    pack.set_defaults(run=_pack)

    memory = commands.add_parser(
        "memory",
        help="probe a training step, fit a model of its memory, print the batch size of each length",
    )
    memory.add_argument(
        "step",
        metavar="MODULE:FUNCTION",
        help="or FILE.py:FUNCTION; function(count, length) runs a training step on a batch of that shape",
    )
    memory.add_argument(
        "input",
        metavar="INPUT",
        nargs="?",
        help="sizes as for `sab plan`: batch sizes are those of the buckets of its plan",
    )
    memory.add_argument(
        "--bytes", action="store_true", help="count the bytes of a line of text, not its words"
    )
    memory.add_argument("--device", default="cuda", help="cuda:N, cpu, host, ... (default: cuda)")
    memory.add_argument(
        "--total",
        type=bytes_of,
        metavar="BYTES",
        help="let the device have so much only, such as 16GiB",
    )
    memory.add_argument(
        "--budget",
        type=bytes_of,
        metavar="BYTES",
        help="that a batch may take (default: the device's total)",
    )
    memory.add_argument("--shortest", type=float, help="padded length (default: of INPUT)")
    memory.add_argument("--longest", type=float, help="padded length (default: of INPUT)")
    memory.add_argument(
        "--max-batch-size",
        type=int,
        default=100_000,
        help="most samples in a batch (default: 100000)",
    )
    memory.add_argument(
        "--points", type=int, default=12, help="steps in each of two rounds (default: 12)"
    )
    memory.add_argument(
        "--degree", type=int, default=2, choices=[1, 2], help="of the model (default: 2)"
    )
    memory.add_argument(
        "--coverage",
        type=float,
        default=0.9,
        help="share of batches that should stay under the prediction (default: 0.9)",
    )
    memory.add_argument(
        "--save",
        metavar="FILE",
        help="write the model, for sab.MemoryModel.open and sab_memory_model_open",
    )
    memory.add_argument("--json", action="store_true", help="print JSON instead of tables")
    memory.add_argument(
        "--picture",
        metavar="FILE",
        help="write a .png or .svg picture: measured against predicted, and the batch sizes",
    )
    memory.set_defaults(run=_memory)
    return parser


@contextlib.contextmanager
def _progress(what: str) -> Iterator[Optional[Callable[[int], None]]]:
    """A line of progress on a terminal for reads that take long; None elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    try:
        from rich.console import Console
    except ImportError:
        yield None
        return
    with Console(stderr=True).status(what) as status:
        yield lambda done: status.update(f"{what}: {done / 1e6:,.0f} MB")


def _read(options: argparse.Namespace) -> tuple[Any, str]:
    if options.picture and not options.picture.endswith((".png", ".svg")):
        raise InputError(f"--picture {options.picture}: must end in .png or .svg")
    if not options.budget > 0:
        raise InputError(f"--budget {options.budget:g}: must be above 0")
    with _progress(f"reading {options.input}") as progress:
        return read_sizes(options.input, options.bytes, progress)


def _compare(options: argparse.Namespace) -> None:
    if options.batch_size < 1:
        raise InputError(f"--batch-size {options.batch_size}: must be at least 1")
    sizes, unit = _read(options)
    plan = sab.plan(sizes, options.budget)
    fitting = np.setdiff1d(np.arange(len(sizes)), plan.skipped) if len(plan.skipped) else None
    kept = sizes if fitting is None else np.asarray(sizes)[fitting]
    if fitting is not None:
        plan = sab.plan(kept, options.budget)
    sampler = sab.BucketSampler(plan, options.seed)

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
    edges = [bucket.longest for bucket in plan.buckets]
    if options.picture:
        from sab._cli.picture import draw

        static, best = rows[0], rows[-1]
        title = f"{100 * static.padding:.0f} % padding in static batches, {100 * best.padding:.1f} % with libsab"
        draw(options.picture, title, kept, edges, rows, unit)
    if options.json:
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
                    "buckets": len(edges),
                    "systems": [row._asdict() for row in rows],
                },
                indent=2,
            )
        )
        return
    _print_table(
        f"{len(kept):,} samples of {np.sum(kept, dtype=np.float64):,.0f} {unit}, budget {options.budget:,.0f} padded a batch",
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
    if len(kept) < len(sizes):
        print(
            f"{len(sizes) - len(kept):,} samples are over the budget alone and are left out everywhere."
        )
    print(
        "over the bound: batches over the fewest that the budget allows. largest batch: its padded size, where it is over the budget a GPU runs out."
    )
    print(
        "mates meet again: share of the pairs in a batch that are in one batch again in the next epoch."
    )
    if options.picture:
        print(f"picture: {options.picture}")


def _cells(row: Row) -> list[str]:
    return [
        row.system,
        f"{row.batches:,}",
        f"{row.over_lower_bound:.3f}",
        f"{100 * row.padding:.2f} %",
        f"{row.worst:,.0f}",
        f"{100 * row.meet_again:.1f} %",
        f"{row.seconds:.4f}",
    ]


def _print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
        print(title)
        for line in [header, *rows]:
            print(
                "  ".join(
                    cell.ljust(width) if i == 0 else cell.rjust(width)
                    for i, (cell, width) in enumerate(zip(line, widths))
                )
            )
        return
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row, style="bold" if row[0] == "libsab" else "")
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    console.on_broken_pipe = _raise_broken_pipe  # which would end with 1
    console.print(table)


def _raise_broken_pipe() -> None:
    raise BrokenPipeError


def _plan(options: argparse.Namespace) -> None:
    cost: Any = options.cost
    if cost not in ("padded", "quadratic"):
        try:
            cost = [float(number) for number in cost.split(",")]
        except ValueError:
            raise InputError(
                f"--cost {options.cost}: must be padded, quadratic or numbers between commas"
            ) from None
    buckets: Any = options.buckets
    if buckets is not None and buckets != "rank":
        if not buckets.isdecimal():
            raise InputError(f"--buckets {buckets}: must be a number or rank")
        buckets = int(buckets)
    batch_size = (
        options.batch_size[0]
        if options.batch_size and len(options.batch_size) == 1
        else options.batch_size
    )
    sizes, unit = _read(options)
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
    if options.picture:
        from sab._cli.picture import draw

        title = f"{100 * report.padding:.1f} % padding, {report.batches:,} batches in {len(report.buckets):,} buckets"
        draw(options.picture, title, sizes, [bucket.longest for bucket in report.buckets], [], unit)
    if options.json:
        facts = report._asdict()
        facts["buckets"] = [bucket._asdict() for bucket in report.buckets]
        facts["fingerprint"] = f"{plan.fingerprint:016x}"
        print(json.dumps(facts, indent=2))
        return
    print(report)
    for what, path in (("plan", options.save), ("picture", options.picture)):
        if path:
            print(f"{what}: {path}")


def _pack(options: argparse.Namespace) -> None:
    with _progress(f"reading {options.input}") as progress:
        sizes, unit = read_sizes(options.input, options.bytes, progress)
    packings = {}
    for method in options.method or ["best_fit", "histogram", "first_fit"]:
        begin = time.perf_counter()
        sampler = sab.PackedSampler(
            sizes,
            options.capacity,
            method,
            options.max_sequences,
            options.split,
            options.oversize,
            options.window,
        )
        packings[method] = sampler.info, time.perf_counter() - begin
    if options.json:
        facts = {
            method: {
                **info._asdict(),
                "fingerprint": f"{info.fingerprint:016x}",
                "seconds": seconds,
            }
            for method, (info, seconds) in packings.items()
        }
        print(json.dumps({"capacity": options.capacity, "methods": facts}, indent=2))
        return
    info, _ = next(iter(packings.values()))
    _print_table(
        f"{info.sequences:,} sequences of {info.total:,.0f} {unit} in bins of {options.capacity:,}, at least {info.lower_bound:,}",
        ["", "bins", "over the bound", "fill", "sequences a bin", "most", "seconds"],
        [
            [
                method,
                f"{info.bins:,}",
                f"{info.bins / info.lower_bound:.5f}",
                f"{100 * info.fill:.3f} %",
                f"{info.sequences / info.bins:.1f}",
                f"{info.most_sequences:,}",
                f"{seconds:.4f}",
            ]
            for method, (info, seconds) in packings.items()
        ],
    )
    if info.skipped:
        print(f"{info.skipped:,} samples are longer than a bin and are left out.")
    if info.split:
        print(f"{info.split:,} samples are longer than a bin and are cut into pieces.")


def _memory(options: argparse.Namespace) -> None:
    if options.picture and not options.picture.endswith((".png", ".svg")):
        raise InputError(f"--picture {options.picture}: must end in .png or .svg")
    with contextlib.redirect_stdout(sys.stderr):  # what the step prints is not the answer
        found = answer(options)
    predicted = found.model.predict(found.peaks.features)
    if options.save:
        found.model.save(options.save)
    if options.picture:
        from sab._cli.picture import draw_memory

        draw_memory(options.picture, found, predicted)
    measured = list(zip(found.peaks.features, found.peaks.peaks.tolist(), predicted.tolist()))
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
        print(
            json.dumps(
                {
                    **facts,
                    "points": points,
                    "batch_sizes": [size._asdict() for size in found.sizes],
                },
                indent=2,
            )
        )
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
    _print_table(
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
    _print_table(
        f"largest batches within {found.budget / mebibyte:,.1f} MiB",
        ["padded length", "batch size", "MiB with margin", "of the budget"],
        rows,
    )
    for what, path in (("model", options.save), ("picture", options.picture)):
        if path:
            print(f"{what}: {path}")


if __name__ == "__main__":
    sys.exit(main())
