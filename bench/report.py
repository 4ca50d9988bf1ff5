"""Tables, pictures and JSON."""

import dataclasses
import json
import pathlib
from typing import Any, Optional, Union

# None: the peer has no such thing. Text: what happened instead.
Cell = Union[float, int, str, None]
MACHINE = " (this machine)"


@dataclasses.dataclass(frozen=True)
class Column:
    name: str
    format: str = "{:,}"
    best: str = ""  # "least" or "most"


@dataclasses.dataclass
class Table:
    title: str
    columns: list[Column]
    rows: dict[str, list[Cell]] = dataclasses.field(default_factory=dict)
    fair: Optional[set[str]] = None  # the rows that the best may be among; None: all


@dataclasses.dataclass
class Answer:
    """`picture`: the column that is drawn, of each table."""

    question: str
    title: str
    text: str
    tables: list[Table]
    picture: int = 0
    logarithmic: bool = False
    measured: str = ""  # when, of which commit, on which machine


def holes(table: Table) -> list[str]:
    """Rows that lack a cell, or have one that is no number."""
    return [
        f"{table.title}: {name}: {row}"
        for name, row in table.rows.items()
        if len(row) != len(table.columns) or any(cell != cell for cell in row)
    ]


def shown(column: Column, cell: Cell) -> str:
    if cell is None:
        return "no"
    return cell if isinstance(cell, str) else column.format.format(cell)


def best_cells(table: Table) -> list[Optional[str]]:
    """For each column the best value as it is shown, so that equal ones share the mark."""
    found: list[Optional[str]] = []
    for place, column in enumerate(table.columns):
        rows = [row for name, row in table.rows.items() if table.fair is None or name in table.fair]
        cells = [row[place] for row in rows]
        numbers = [cell for cell in cells if isinstance(cell, (int, float))]
        choose = {"least": min, "most": max}.get(column.best)
        found.append(shown(column, choose(numbers)) if choose and numbers else None)
    return found


def markdown(table: Table) -> str:
    best = best_cells(table)
    lines = [
        f"| {table.title} | " + " | ".join(column.name for column in table.columns) + " |",
        "|---|" + "---:|" * len(table.columns),
    ]
    for name, row in table.rows.items():
        cells = [shown(column, cell) for column, cell in zip(table.columns, row)]
        fair = table.fair is None or name in table.fair
        marked = [
            f"**{text}**" if fair and text == mark else text for text, mark in zip(cells, best)
        ]
        lines.append(f"| {name} | " + " | ".join(marked) + " |")
    return "\n".join(lines)


def draw(answer: Answer, path: pathlib.Path) -> None:
    """Bars of one column, a panel for each table. The background is transparent and the grey of
    the text is readable on white and on black."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    grey = "#808890"
    plt.rcParams.update({"svg.hashsalt": "sab", "svg.fonttype": "none", "text.color": grey})
    names = list(dict.fromkeys(name for table in answer.tables for name in table.rows))
    figure, axes = plt.subplots(
        1,
        len(answer.tables),
        sharey=True,
        squeeze=False,
        figsize=(2.6 + 2.2 * len(answer.tables), 0.8 + 0.26 * len(names)),
        layout="constrained",
    )
    for axis, table in zip(axes[0], answer.tables):
        for place, name in enumerate(names):
            if name not in table.rows:
                continue
            cell = table.rows[name][answer.picture]
            if isinstance(cell, (int, float)):
                color = "#2a9d8f" if name.startswith("libsab") else "#c58a3d"
                axis.barh(place, cell, color=color)
            text = shown(table.columns[answer.picture], cell)
            short = text if len(text) < 16 else "fails"
            axis.annotate(
                f" {short}",
                (cell if isinstance(cell, (int, float)) else 0, place),
                va="center",
                fontsize=7,
                annotation_clip=False,
            )
        title = table.title.replace(", ", "\n", 1)
        axis.set_title(f"{title}\n{table.columns[answer.picture].name}", fontsize=8, color=grey)
        axis.margins(x=0.3)
        if answer.logarithmic:
            axis.set_xscale("log")
        axis.set_yticks(range(len(names)), names, fontsize=8)
        axis.set_ylim(len(names) - 0.4, -0.6)
        axis.xaxis.set_visible(False)
        axis.tick_params(colors=grey, length=0)
        for side in axis.spines.values():
            side.set_visible(False)
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)


def to_json(answers: list[Answer], about: dict[str, Any]) -> str:
    return json.dumps(
        {**about, "answers": [dataclasses.asdict(answer) for answer in answers]},
        indent=1,
        default=sorted,  # sets
    )


def from_json(text: str) -> list[Answer]:
    answers = []
    for given in json.loads(text)["answers"]:
        for table in given["tables"]:
            table["columns"] = [Column(**column) for column in table["columns"]]
            table["fair"] = None if table["fair"] is None else set(table["fair"])
        given["tables"] = [Table(**table) for table in given["tables"]]
        answers.append(Answer(**given))
    return answers
