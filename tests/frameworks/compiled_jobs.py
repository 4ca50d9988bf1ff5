"""Runs a recipe and writes down how often torch compiled: compiled_jobs.py RECIPE FOLDER

Each rank writes a file, which has the number of graphs and the shapes that were compiled.
"""

import json
import os
import pathlib
import runpy
import sys
from typing import Any

import torch

SHAPES: list[list[int]] = []


def counting(graph: Any, inputs: list[Any]) -> Any:
    """A backend that compiles nothing."""
    SHAPES.extend([*each.shape] for each in inputs if each.dtype == torch.int64)
    return graph


if __name__ == "__main__":
    modules: Any = torch.nn.Module
    compile_model = modules.compile
    modules.compile = lambda model, **options: compile_model(
        model, dynamic=options["dynamic"], backend=counting
    )
    sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
    runpy.run_path(sys.argv[1], run_name="__main__")
    (pathlib.Path(sys.argv[2]) / f"{os.environ['RANK']}.json").write_text(json.dumps(SHAPES))
