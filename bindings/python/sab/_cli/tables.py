"""Tables of the command line, for terminals of any width."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, TextIO

import sab
from sab._display import plain

_GAP = 2  # spaces between columns


def terminal_width() -> int:
    """Columns of the terminal; 80 when the output is no terminal."""
    return shutil.get_terminal_size().columns


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows; the first column has their names.

    If the terminal is too narrow, headings are broken between words, then names. If that is not
    enough, the columns are printed in several tables below each other.
    """
    room = terminal_width()
    print_text(title)
    print()
    columns = [list(column) for column in zip(*rows)]
    widths = [max(map(len, [name, *cells])) for name, cells in zip(header, columns)]
    if _total(widths) > room:
        widths = [max(map(len, [*name.split(), *cells])) for name, cells in zip(header, columns)]
    broken = max(len(word) for name in columns[0] for word in name.split())
    left = room - _total(widths[1:]) - _GAP
    if left >= broken:
        widths[0] = min(widths[0], left)
    first = 1
    while first < len(header):
        last = first + 1
        while last < len(header) and _total([widths[0], *widths[first : last + 1]]) <= room:
            last += 1
        shown = [0, *range(first, last)]
        _print_part(
            [header[i] for i in shown],
            [[row[i] for i in shown] for row in rows],
            [widths[i] for i in shown],
        )
        first = last


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _print_part(
    header: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]
) -> None:
    _print_cells(header, widths, at_bottom=True)
    print("─" * _total(widths))
    for row in rows:
        _print_cells(row, widths, at_bottom=False)
    print()


def _print_cells(cells: Sequence[str], widths: Sequence[int], at_bottom: bool) -> None:
    """Prints one row, whose cells may take several lines."""
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, widths)]
    height = max(map(len, wrapped))
    for line in range(height):
        aligned: list[str] = []
        for column, (parts, width) in enumerate(zip(wrapped, widths)):
            place = line - (height - len(parts) if at_bottom else 0)
            text = parts[place] if 0 <= place < len(parts) else ""
            aligned.append(text.rjust(width) if column else text.ljust(width))
        print((" " * _GAP).join(aligned).rstrip())


def print_notes(*notes: tuple[str, str]) -> None:
    """Explains columns, one in a line."""
    for name, meaning in notes:
        print(f"{name}: {meaning}")


def print_json(facts: dict[str, Any]) -> None:
    """Prints JSON instead of tables."""
    print(json.dumps(plain(facts), indent=2, allow_nan=False))


def print_left_out(what: str, count: int, why: str, as_json: bool = False) -> None:
    """Says how many samples are skipped, dropped or repeated, if any. Standard output is kept for
    JSON.
    """
    if count:
        samples = "sample is" if count == 1 else "samples are"
        print_text(f"{what}: {count:,} {samples} {why}", sys.stderr if as_json else None)


def print_text(text: str, file: TextIO | None = None) -> None:
    """Prints a paragraph, broken to the width of the terminal; to standard output by default."""
    print(textwrap.fill(text, terminal_width(), break_on_hyphens=False), file=file)


def print_missed_target(report: sab.Report, target: float) -> None:
    """Says that the target for padding and extra batches is missed, if it is, and what helps."""
    if not report.target_met and report.nearest_target:
        print_text(
            f"The target of {100 * target:g} % for padding and extra batches is missed: the best "
            f"plan tried reaches {100 * report.nearest_target:.1f} %; more samples or a smaller "
            "budget usually help"
        )


def print_paths(*written: tuple[str, str | None]) -> None:
    """Names the files that were written."""
    for what, path in written:
        if path:
            print(f"{what}: {path}")
