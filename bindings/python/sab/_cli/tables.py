"""Tables of the command line."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows. Headings are broken between words, so that columns are as narrow as possible."""
    widths = [
        max(map(len, [*name.split(), *(row[column] for row in rows)]))
        for column, name in enumerate(header)
    ]
    headings = [textwrap.wrap(name, width) for name, width in zip(header, widths)]
    height = max(map(len, headings))
    lines = zip(*([""] * (height - len(heading)) + heading for heading in headings))

    def print_line(cells: Sequence[str]) -> None:
        aligned = [
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths))
        ]
        print("  ".join(aligned).rstrip())

    print(f"{title}\n")
    for line in lines:
        print_line(line)
    print("─" * (sum(widths) + 2 * (len(widths) - 1)))
    for row in rows:
        print_line(row)
    print()


def print_skipped(count: int, why: str, as_json: bool) -> None:
    """Says how many samples are left out, if any. Standard output is kept for JSON."""
    if count:
        samples = "sample is" if count == 1 else "samples are"
        print(f"skipped: {count:,} {samples} {why}", file=sys.stderr if as_json else sys.stdout)


def print_paths(*written: tuple[str, str | None]) -> None:
    """Names the files that were written."""
    for what, path in written:
        if path:
            print(f"{what}: {path}")
