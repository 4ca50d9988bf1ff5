"""Tables of the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
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
    setattr(console, "on_broken_pipe", _raise_broken_pipe)  # noqa: B010  # rich's own exits with 1
    console.print(table)


def _raise_broken_pipe() -> NoReturn:
    raise BrokenPipeError


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
