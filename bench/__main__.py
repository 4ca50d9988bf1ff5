"""python -m bench [QUESTION...] [--quick] [--lengths FILE]: see bench.sh."""

import argparse
import datetime
import importlib
import importlib.metadata
import os
import pathlib
import platform
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch

from bench import data, page
from bench.peers import Peer, all_peers
from bench.questions import Settings
from bench.report import draw, from_json, holes, to_json

ROOT = pathlib.Path(__file__).parent.parent
QUESTIONS = [
    "padding",
    "speed",
    "ranks",
    "steps",
    "prefixes",
    "packing",
    "shapes",
    "columns",
    "mixture",
    "loader",
    "resume",
    "elastic",
    "order",
    "training",
]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.sh", description="libsab and its peers")
    parser.add_argument("question", nargs="*", help=f"of {', '.join(QUESTIONS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="few samples, into build/benchmarks")
    parser.add_argument("--lengths", help="a file of lengths instead of the data sets")
    options = parser.parse_args()
    unknown = set(options.question) - set(QUESTIONS)
    if unknown:
        parser.error(f"{min(unknown)}: must be one of {', '.join(QUESTIONS)}")
    return options


def versions(peers: list[type[Peer]]) -> dict[str, str]:
    found = {"torch": torch.__version__, "numpy": np.__version__, "libsab": ""}
    for line in (ROOT / "bench/requirements.txt").read_text().splitlines():
        name, _, version = line.partition("  #")[0].partition("==")
        if name in {peer.distribution for peer in peers}:
            found[name] = version
    found["libsab"] = importlib.metadata.version("libsab")
    return found


def not_installed() -> dict[str, str]:
    path = ROOT / "build/bench-sources/failed.tsv"
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split("\t", 1) for line in lines)


def machine() -> str:
    model = platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(": ")[2]
            break
    load = os.getloadavg()[1]
    return f"{model}, {os.cpu_count()} cores, load average {load:.0f} from this and other programs"


def commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    return found.stdout.strip()


def main() -> None:
    options = arguments()
    peers = all_peers()
    settings = Settings(peers, data.load(options.quick, options.lengths), options.quick)
    public = not options.quick and options.lengths is None
    folder = ROOT / ("docs/benchmarks" if public else "build/benchmarks")
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.json"
    before = from_json(results.read_text()) if public and results.exists() else []
    answers, wrong = {answer.question: answer for answer in before}, []
    for name in options.question or QUESTIONS:
        begin = time.monotonic()
        question = importlib.import_module(f"bench.questions.{name}")
        answer = question.run(settings)
        answer.measured = f"{datetime.date.today()}, commit {commit()}, {machine()}."
        answers[name] = answer
        missing = [hole for table in answer.tables for hole in holes(table)]
        wrong += [f"{name}: {each}" for each in [*missing, *question.check(answer)]]
        print(page.section(answer), flush=True)
        draw(answer, folder / f"{name}.svg")
        print(f"\n({time.monotonic() - begin:.0f} s)\n", file=sys.stderr, flush=True)
    about: dict[str, Any] = {
        "versions": versions(peers),
        "quick": options.quick,
        "not installed": not_installed(),
        "settings": {peer.name: [peer.setting, peer.source] for peer in peers},
    }
    ordered = [answers[name] for name in QUESTIONS if name in answers]
    results.write_text(to_json(ordered, about) + "\n")
    target = ROOT / "docs/benchmarks.md" if public else folder / "benchmarks.md"
    page.write(target, ROOT / "docs/benchmarks.md", ordered, about)
    print(f"wrote {target.relative_to(ROOT)} and {folder.relative_to(ROOT)}/", file=sys.stderr)
    if wrong:
        raise SystemExit("\n".join(["cells that are missing or not as promised:", *wrong]))


if __name__ == "__main__":
    main()
