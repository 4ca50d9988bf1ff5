"""docs/benchmarks.md: what stands between two marks is written, the rest stays."""

import pathlib
import textwrap
from typing import Any

from bench.report import Answer, markdown

BEGIN, END = "<!-- written by bench.sh: begin -->", "<!-- written by bench.sh: end -->"
INTRODUCTION = """`./bench.sh` installs the peers into an environment of its own, lets all do \
the same work, and writes this part of the page. `./bench.sh --quick` does it with few samples, \
`./bench.sh --lengths FILE` with lengths of yours, `./bench.sh padding resume` asks two \
questions only.

Batches are counted by the program itself, never by a peer's own report. Times of a table come \
from runs that take turns in one process; the least of each counts. Columns that depend on the \
machine say so. The best value of a column is bold; *no* stands where a peer has no such thing. \
A peer is a file of at most 40 lines in `bench/peers`, with its setting and the documentation \
that recommends it: corrections are welcome. `docs/benchmarks/results.json` has all numbers."""


def wrapped(page: str) -> str:
    """The page with paragraphs in lines of at most 100 characters. Tables and pictures stay."""
    return "\n".join(
        line
        if line.startswith(("|", "#", "!"))
        else textwrap.fill(line, 100, break_long_words=False, break_on_hyphens=False)
        for line in page.split("\n")
    )


def section(answer: Answer) -> str:
    return "\n\n".join([f"## {answer.title}", answer.text, *map(markdown, answer.tables)])


def about_peers(about: dict[str, Any]) -> str:
    lines = ["## Peers", "", "| peer | setting | from |", "|---|---|---|"]
    for name, (setting, source) in about["settings"].items():
        lines.append(f"| {name} | {setting} | [documentation]({source}) |")
    missing = about["not installed"]
    lines.append("")
    if missing:
        lines += [f"- {name} could not be installed: {why}" for name, why in missing.items()]
        lines.append("")
    listed = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines += [f"Versions: {listed}.", ""]
    lines += [
        "The peers run with Debian's torch 1.13.1. Where a package imports more than its sampler "
        "needs, such as a newer torch, Ray or CUDA, only the module of the sampler is imported. "
        "lhotse is the newest version that runs with this torch; the others are the newest.",
    ]
    return "\n".join(lines)


def write(
    target: pathlib.Path, template: pathlib.Path, answers: list[Answer], about: dict[str, Any]
) -> None:
    folder = "benchmarks/" if target == template else ""
    parts = [INTRODUCTION, about_peers(about)]
    for answer in answers:
        picture = f"![{answer.title}]({folder}{answer.question}.svg)"
        parts.append(f"{section(answer)}\n\n{picture}\n\nMeasured {answer.measured}")
    before, _, rest = template.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page = wrapped("\n\n".join(parts))
    target.write_text(f"{before}{BEGIN}\n{page}\n\n{END}{after}")
