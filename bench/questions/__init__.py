"""One file for each question: run(settings) asks all peers and returns an Answer, check(answer)
returns what libsab promises and did not keep."""

import dataclasses
from collections.abc import Sequence
from typing import Callable, TypeVar

from bench.data import Data
from bench.peers import Peer
from bench.report import Cell, Column, Table

Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class Settings:
    peers: Sequence[type[Peer]]
    data: Sequence[Data]
    quick: bool


def cells_of(ask: Callable[[], "list[Cell]"], columns: int) -> list[Cell]:
    """What `ask` returns; where the peer cannot, why."""
    try:
        found = ask()
    except NotImplementedError as error:
        return [str(error), *["-"] * (columns - 1)]
    except Exception as error:
        lines = str(error).strip().splitlines()
        why = f"{type(error).__name__}: {lines[-1] if lines else ''}"[:100].replace("|", " ")
        return [why, *["-"] * (columns - 1)]
    assert len(found) == columns
    return found


def short_epochs(
    settings: Settings,
    columns: list[Column],
    row: Callable[[type[Peer], Data], list[Cell]],
) -> Table:
    """A row for each peer with epochs, of 12,000 samples of one data set."""
    data = settings.data[-1 if settings.quick else min(1, len(settings.data) - 1)]
    data = Data(data.name, data.lengths[:12_000], data.budget)
    table = Table(f"{data.name}, {len(data.lengths):,} samples", columns)
    for peer in settings.peers:
        if hasattr(peer, "epoch"):
            table.rows[peer.name] = cells_of(lambda: row(peer, data), len(columns))
    return table
