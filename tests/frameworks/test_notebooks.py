"""The notebooks of examples/notebooks run from start to end, and what they show."""

import pathlib
from typing import Any

import nbclient
import nbformat
import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/notebooks"
NAMES = sorted(path.name for path in FOLDER.glob("*.ipynb"))


def run(notebook: Any, folder: pathlib.Path) -> list[Any]:
    """The outputs of all cells."""
    options = {"resources": {"metadata": {"path": str(folder)}}, "kernel_name": "python3"}
    nbclient.NotebookClient(notebook, timeout=600, **options).execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def shown(outputs: list[Any], kind: str) -> list[str]:
    """What outputs show in a format."""
    return [output.data[kind] for output in outputs if kind in output.get("data", {})]


def test_there_are_three() -> None:
    assert NAMES == ["first_plan.ipynb", "memory_budget.ipynb", "packing.ipynb"]


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_shows_tables_and_pictures(name: str) -> None:
    notebook = nbformat.read(FOLDER / name, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not committed"
    outputs = run(notebook, FOLDER)
    messages = "".join(each.text for each in outputs if each.get("name") == "stderr")
    # Without a GPU, torch's profiler says once that it sees none.
    assert [line for line in messages.splitlines() if "gpuGetDeviceCount" not in line] == []
    assert any("<table>" in page for page in shown(outputs, "text/html"))
    pictures, calls = {
        "first_plan.ipynb": (2, ["plan", "report"]),
        "memory_budget.ipynb": (1, ["learn"]),
        "packing.ipynb": (0, ["packing"]),
    }[name]
    assert len(shown(outputs, "image/png")) == pictures
    ends = [text for text in shown(outputs, "text/plain") if text.endswith(": done")]
    assert ends == [f"{call}: done" for call in calls]


def test_progress_is_one_line_that_is_updated(tmp_path: pathlib.Path) -> None:
    code = (
        "import time, sab\n"
        "wait = lambda number: (time.sleep(0.02), number)[1:]\n"
        "peaks = sab.collect_peak(wait, range(30), 'host', progress=True)\n"
        "def fail(number):\n"
        "    if number == 3: raise KeyError('mine')\n"
        "try: sab.collect_peak(fail, range(30), 'host', progress=True)\n"
        "except KeyError: pass\n"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    outputs = run(notebook, tmp_path)
    lines = shown(outputs, "text/plain")
    assert len(outputs) == len(lines) == 2
    assert lines[0] == "collect_peak: done"
    assert lines[1].startswith("collect_peak: ") and lines[1].endswith(" %")
