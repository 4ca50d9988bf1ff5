"""What all parts use: arguments, the device, the machine, time, tables and results.

A part is a program: `python PART.py [--dry-run] [--results FOLDER] [--seconds N]`. Its exit status
is 0 when every target was met, 2 when it failed (1, Python's own, when it could not begin), 3 when
it cannot run here, 4 when a target was missed, 5 when something was left out.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
import sys
import textwrap
import time
import traceback
from collections.abc import Collection, Generator, Sequence
from typing import Any, NamedTuple

import torch

import sab

WIDTH = 80
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FOLDER = pathlib.Path(__file__).resolve().parent
PACKAGES = (
    "numpy",
    "transformers",
    "accelerate",
    "pytorch-lightning",
    "lightning",
    "jax",
    "triton",
)


class Figure(NamedTuple):
    """One figure with its target: met is None for figures that a dry run does not judge."""

    name: str
    asked: str
    measured: str
    met: bool | None


def wrapped_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table of at most WIDTH columns: the first column to the left, the others to the right; the
    widest columns are wrapped where the table would be wider."""
    cells = [[str(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    while sum(widths) + 2 * (len(widths) - 1) > WIDTH:
        widths[widths.index(max(widths))] -= 1
    lines = []
    for number, row in enumerate(cells):
        parts = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths)]
        for at in range(max(map(len, parts))):
            texts = [part[at] if at < len(part) else "" for part in parts]
            padded = [texts[0].ljust(widths[0])]
            padded += [text.rjust(width) for text, width in zip(texts[1:], widths[1:])]
            lines.append("  ".join(padded).rstrip())
        if number == 0:
            lines.append("  ".join("-" * width for width in widths))
    assert max(map(len, lines)) <= WIDTH
    return "\n".join(lines)


def driver_version() -> str:
    try:
        told = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "not known"
    lines = told.stdout.split() if told.returncode == 0 else []
    return lines[0] if lines else "not known"


def machine(dry_run: bool) -> dict[str, Any]:
    """The machine and the versions that a table belongs to."""
    properties = torch.cuda.get_device_properties(0)
    versions = {"Python": platform.python_version(), "libsab": sab.__version__}
    versions["torch"] = torch.__version__
    versions["CUDA"] = str(torch.version.cuda)
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "device": properties.name,
        "device_bytes": int(properties.total_memory),
        "driver": "none" if dry_run else driver_version(),
        "processors": os.cpu_count(),
        "system": platform.platform(),
        "versions": versions,
    }


class Part:
    """One part: reads the arguments, prints tables, judges figures, writes JSON.

    `with Part("peaks", 120) as part:` ends the program with the part's exit status.
    """

    def __init__(self, name: str, seconds: float) -> None:
        parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
        parser.add_argument("--dry-run", action="store_true", help="on the CPU, small")
        default = os.environ.get("OUT") or str(FOLDER.parents[1] / "build" / "gpu")
        parser.add_argument("--results", default=default, help="folder for JSON")
        parser.add_argument(
            "--seconds", type=float, default=seconds, help=f"time for this part ({seconds:g})"
        )
        parser.add_argument("--again", action="store_true", help="only what is noisy")
        parser.add_argument("--run", default="", help=argparse.SUPPRESS)  # a process of the part's
        self.arguments = parser.parse_args()
        self.dry_run: bool = self.arguments.dry_run
        self.again: bool = self.arguments.again
        self.name = f"{name}_again" if self.again else name
        self.begun = time.monotonic()
        # A dry run leaves nothing out because the machine is busy.
        self.deadline = self.begun + self.size(self.arguments.seconds, 3600)
        self.figures: list[Figure] = []
        self.tables: list[dict[str, Any]] = []
        self.left_out: list[str] = []
        self.failures: list[str] = []
        if self.dry_run:
            from stand_in import install

            install()
        if not torch.cuda.is_available():
            print(f"{name}: torch {torch.__version__} sees no CUDA device; --dry-run needs none")
            raise SystemExit(3)
        #: where tensors are; their memory is always that of "cuda:0"
        self.device = torch.device("cpu" if self.dry_run else "cuda:0")

    def size(self, full: Any, dry: Any) -> Any:
        """A number of the full run, and the small one of a dry run."""
        return dry if self.dry_run else full

    def time_left(self, share: float = 1.0) -> float:
        """Seconds until this share of the part's time is over."""
        end = self.begun + share * (self.deadline - self.begun)
        return end - time.monotonic()

    def is_over(self, share: float, what: str) -> bool:
        """Whether this share of the time is over; then what is left out is noted."""
        if self.time_left(share) > 0:
            return False
        self.leave_out(f"{what}: no time left")
        return True

    def leave_out(self, text: str) -> None:
        self.left_out.append(text)

    def note(self, text: str) -> None:
        print(textwrap.fill(text, WIDTH), flush=True)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.tables.append({"title": title, "columns": list(columns), "rows": [*map(list, rows)]})
        print()
        self.note(title)
        print(wrapped_table(columns, rows), flush=True)
        self._write(ended=False)

    @contextlib.contextmanager
    def attempt(self, what: str) -> Generator[None, None, None]:
        """An exception inside is told and fails the part, but the rest of the part runs."""
        try:
            yield
        except Exception:
            told = f"{what}: {traceback.format_exc()}"
            print(told, file=sys.stderr, flush=True)
            self.failures.append(told)
        self._write(ended=False)

    def figure(
        self, name: str, asked: str, measured: Any, met: bool, *, exact: bool = False
    ) -> None:
        """Adds a figure. A dry run judges only those that are exact at every size."""
        judged = bool(met) if exact or not self.dry_run else None
        self.figures.append(Figure(name, asked, str(measured), judged))

    def __enter__(self) -> Part:
        # What is imported stays: collecting garbage after each step need not look at it.
        gc.collect()
        gc.freeze()
        self.machine = machine(self.dry_run)
        self.note(f"== {self.name}" + (": dry run on the CPU" if self.dry_run else ""))
        self._write(ended=False)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and not isinstance(error, Exception):
            return  # the user's, such as Ctrl-C
        if error is not None:
            told = "".join(traceback.format_exception(kind, error, trace))
            print(told, file=sys.stderr, flush=True)
            self.failures.append(told)
        words = {True: "yes", False: "NO", None: "not judged"}
        if self.figures:
            rows = [(f.name, f.asked, f.measured, words[f.met]) for f in self.figures]
            print("\nTargets")
            print(wrapped_table(("figure", "asked", "measured", "met"), rows))
        for text in self.left_out:
            self.note(f"left out: {text}")
        device = f"{self.machine['device']}, {self.machine['device_bytes'] / GIB:.1f} GiB"
        versions = ", ".join(f"{key} {value}" for key, value in self.machine["versions"].items())
        self.note(f"{device}, driver {self.machine['driver']}; {versions}")
        self.note(f"{self.name}: {time.monotonic() - self.begun:.0f} s")
        self._write(ended=True)
        missed = any(figure.met is False for figure in self.figures)
        raise SystemExit(2 if self.failures else 4 if missed else 5 if self.left_out else 0)

    def _write(self, ended: bool) -> None:
        """Writes what there is so far: a part may be killed."""
        if self.arguments.run:
            return  # its parent writes
        folder = pathlib.Path(self.arguments.results)
        folder.mkdir(parents=True, exist_ok=True)
        result = {
            "part": self.name,
            "dry_run": self.dry_run,
            "machine": self.machine,
            "ended": ended,
            "seconds": round(time.monotonic() - self.begun, 1),
            "failures": self.failures,
            "left_out": self.left_out,
            "figures": [figure._asdict() for figure in self.figures],
            "tables": self.tables,
        }
        path = folder / f"{self.name}.json"
        path.write_text(json.dumps(result, indent=1, default=float) + "\n")


class StepLog:
    """Of each step its milliseconds, new shapes, and blocks that were asked of the driver. The
    device is not waited for between steps."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, ...]] = set()
        self.begin()

    def begin(self) -> None:
        self._new: list[int] = []
        self._blocks: list[int] = []
        self._events: list[Any] = []
        self._record()

    def _record(self) -> None:
        self._events.append(torch.cuda.Event(enable_timing=True))
        self._events[-1].record()
        stats = torch.cuda.memory_stats_as_nested_dict()
        self._blocks.append(int(stats.get("num_device_alloc", 0)))

    def step(self, shapes: Collection[tuple[int, ...]]) -> None:
        self._record()
        self._new.append(len(set(shapes) - self.seen))
        self.seen.update(shapes)

    def rows(self) -> list[tuple[float, int, int]]:
        torch.cuda.synchronize()
        events, blocks = self._events, self._blocks
        return [
            (round(events[i].elapsed_time(events[i + 1]), 3), new, blocks[i + 1] - blocks[i])
            for i, new in enumerate(self._new)
        ]


FIRST_USE = (
    "new: steps' new shapes; ms new, ms known: mean of steps with and without one; blocks: asked "
    "of the driver"
)


def first_use(name: str, epochs: Sequence[Sequence[tuple[float, int, int]]]) -> list[Any]:
    """A row: steps, new shapes, ms new, ms known, blocks; new shapes and blocks in each epoch."""
    steps = [step for each in epochs for step in each]
    new = [ms for ms, shapes, _ in steps if shapes]
    known = [ms for ms, shapes, _ in steps if not shapes]

    def by_epoch(column: int) -> str:
        return " ".join(f"{sum(step[column] for step in each):,}" for each in epochs)

    return [
        name,
        f"{len(steps):,}",
        by_epoch(1),
        f"{sum(new) / max(len(new), 1):.1f}",
        f"{sum(known) / max(len(known), 1):.1f}",
        by_epoch(2),
    ]


def in_process(part: Part, run: str, seconds: float, environment: dict[str, str]) -> Any:
    """What `--run RUN` of the part prints last, from a process of its own. It has these seconds,
    and as many to begin; `environment` in the place of what this process has of the allocator."""
    inherited = {**os.environ}
    for variable in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):  # the new name comes first
        inherited.pop(variable, None)
    command = [sys.executable, sys.argv[0], "--run", run, "--seconds", str(seconds)]
    done = subprocess.run(
        command + ["--dry-run"] * part.dry_run,
        env={**inherited, **environment},
        stdout=subprocess.PIPE,
        text=True,
        timeout=max(min(part.time_left(), part.size(seconds + 80, 3600)), 1),
    )
    if done.returncode != 0:
        raise RuntimeError(f"the run {run!r} failed with exit status {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def size_text(count: float) -> str:
    return f"{count / GIB:.2f} GiB" if count >= GIB else f"{count / MIB:.1f} MiB"


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def timed(calls: int, call: Any) -> float:
    """Seconds of one call, of `calls` in a row that end with all work on the device done."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / calls
