"""The command ``sab pack``: packs samples into rows of a fixed capacity."""

from __future__ import annotations

import argparse
import time

import sab
from sab._cli.options import Commands, add_inputs, read
from sab._cli.quantities import whole
from sab._cli.tables import print_json, print_left_out, print_notes, print_table
from sab._pack import PackMethod


def add(commands: Commands) -> None:
    """Adds the command to the parser."""
    pack = commands.add_parser(
        "pack", help="pack samples into rows of a fixed capacity, and say how full they are"
    )
    add_inputs(pack)
    pack.add_argument(
        "--capacity", type=whole, default=2048, help="capacity of a bin (default: 2048)"
    )
    pack.add_argument(
        "--method",
        action="append",
        choices=["shuffled", "best_fit", "histogram"],
        help="may be given several times (default: all)",
    )
    pack.add_argument(
        "--max-sequences", type=whole, default=0, help="samples in a bin (default: no limit)"
    )
    pack.add_argument("--split", action="store_true", help="cut samples longer than the capacity")
    pack.add_argument(
        "--oversize",
        default="skip",
        choices=["skip", "error"],
        help="samples longer than the capacity, not split (default: skip)",
    )
    pack.add_argument(
        "--window",
        type=whole,
        default=0,
        help="samples that shuffled chooses a bin from (default: 1000)",
    )
    pack.add_argument("--json", action="store_true", help="print JSON instead of a table")
    pack.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    sizes = read(options)
    packings: dict[str, tuple[sab.PackedInfo, float]] = {}
    methods: list[PackMethod] = options.method or ["shuffled", "best_fit", "histogram"]
    for method in methods:
        begin = time.perf_counter()
        sampler = sab.PackedSampler(
            sizes,
            options.capacity,
            method=method,
            max_sequences=options.max_sequences,
            split=options.split,
            oversize=options.oversize,
            window=options.window if method == "shuffled" else 0,
        )
        packings[method] = sampler.info, time.perf_counter() - begin
    info, _ = next(iter(packings.values()))
    why = "longer than the capacity; see --oversize"
    print_left_out("skipped", info.skipped, why, options.json)
    if options.json:
        facts = {
            method: {
                **info._asdict(),
                "fingerprint": f"{info.fingerprint:016x}",
                "seconds": seconds,
            }
            for method, (info, seconds) in packings.items()
        }
        print_json({"capacity": options.capacity, "methods": facts})
        return
    print_table(
        f"{info.sequences:,} sequences, total size {info.total:,.0f}, capacity "
        f"{options.capacity:,}",
        ["", "bins", "× minimum", "fill", "mean", "most", "seconds"],
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
    print_notes(
        ("bins", "rows of the capacity"),
        ("× minimum", "bins / the fewest that hold the total"),
        ("fill", "share of the bins that holds samples"),
        ("mean", "sequences in a bin on average"),
        ("most", "largest number of sequences in a bin"),
        ("seconds", "time of packing"),
    )
    if info.split:
        print(f"{info.split:,} samples are longer than a bin and are cut into pieces.")
