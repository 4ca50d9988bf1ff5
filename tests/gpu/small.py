"""Small: steps of many small parameters, and batches in groups of similar lengths.

The optimizers are those of tests/bench/fused.py, the groups asym's notebook of
tests/bench/groups.py, where its authors report 5.8 times the speed of padded batches.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from common import FOLDER, Part

sys.path.insert(0, str(FOLDER.parent / "bench"))
import fused
import groups

ASYM = 5.8  # times as fast as padded batches, by asym's notebook


def optimizers(part: Part) -> None:
    count, elements, rounds = part.size((1000, 32, 50), (20, 8, 2))
    tables = fused.compare(count, elements, rounds, part.device)
    names = next(iter(tables.values()))
    rows = [(name, *(f"{1e3 * table[name]:.3f}" for table in tables.values())) for name in names]
    part.table(f"A step of {count:,} parameters of {elements}, ms", ("", *tables), rows)


def in_groups(part: Part) -> None:
    size, rounds = part.size((8192, 5), (16, 1))
    found, spent = groups.compare(size, rounds)
    rows = [
        (kind, f"{seconds:.4f}", f"{ratio:.2f}", f"{loss:.0e}", f"{gradient:.0e}")
        for kind, (seconds, ratio, loss, gradient) in found.items()
    ]
    if "asym" not in found:
        part.leave_out(f"asym itself: not installed; its notebook's figure is {ASYM} times")
    part.table(
        f"asym's notebook, an epoch of {groups.SAMPLES // groups.BATCH} steps, size {size:,}; "
        f"grouping and joining a batch takes {1e3 * spent:.2f} ms",
        ("", "seconds", "times as fast", "loss differs by", "gradients by"),
        rows,
    )
    for kind in ("sab.Collection", "sab.compat.asym"):
        _, ratio, loss, gradient = found[kind]
        asked = f"at least {ASYM} times"
        part.figure(f"{kind}: speed", asked, f"{ratio:.2f} times", ratio >= ASYM)
        error = max(loss, gradient)
        part.figure(f"{kind}: results", "within 1e-3", f"{error:.0e}", error < 1e-3, exact=True)


def main() -> None:
    with Part("small", 60) as part:
        with part.attempt("optimizers"):
            optimizers(part)
        if not part.dry_run:
            module: Any = torch  # whose types are of an older version
            module.set_default_device(part.device)
        with part.attempt("groups"):
            in_groups(part)


if __name__ == "__main__":
    main()
