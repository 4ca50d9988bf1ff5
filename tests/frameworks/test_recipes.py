"""The recipes of the documentation are killed between two checkpoints and started again. All that
was trained on before the checkpoint and after it is each sample once in each epoch."""

import collections
import json
import os
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent
RECIPES = FOLDER.parent.parent / "docs/code/recipes"
SAMPLES, EPOCHS = 2000, 2


def run(recipe, folder, name, ranks=0, stop_after=0):
    """Runs a recipe, and returns the epoch and the samples of each batch."""
    environment = dict(
        os.environ,
        SEEN=str(folder / name),
        STOP_AFTER=str(stop_after),
        OMP_NUM_THREADS="1",
        HF_HUB_OFFLINE="1",
    )
    launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={ranks}"] if ranks else []
    done = subprocess.run(
        [sys.executable, *launcher, str(FOLDER / "logged.py"), str(RECIPES / recipe)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode != 0) == bool(stop_after), done.stdout + done.stderr
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_compiled_model_is_compiled_once_for_each_of_8_shapes(ranks, tmp_path):
    subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}"),
            *(str(FOLDER / "compiled_jobs.py"), str(RECIPES / "compiled.py"), str(tmp_path)),
        ],
        env=dict(os.environ, OMP_NUM_THREADS="1"),
        check=True,
        timeout=300,
    )
    for rank in range(ranks):
        shapes = json.loads((tmp_path / f"{rank}.json").read_text())
        assert 1 < len(shapes) <= 8 and len(set(map(tuple, shapes))) == len(shapes)


def assert_each_once(batches):
    counts = collections.Counter((epoch, index) for epoch, batch in batches for index in batch)
    assert set(counts.values()) == {1}
    assert set(counts) == {(epoch, index) for epoch in range(EPOCHS) for index in range(SAMPLES)}


@pytest.mark.parametrize("recipe", sorted(path.name for path in RECIPES.glob("*.py")))
def test_programs_have_at_most_40_lines(recipe):
    assert len((RECIPES / recipe).read_text().splitlines()) <= 40


@pytest.mark.parametrize("recipe", ["huggingface.py", "loop.py"])
def test_killed_and_started_again(recipe, tmp_path):
    """A checkpoint every 10 batches; killed after 14 of the first epoch."""
    first = run(recipe, tmp_path, "first", stop_after=14)
    assert len(first) == 14
    assert_each_once(first[:10] + run(recipe, tmp_path, "second"))


@pytest.mark.parametrize("recipe", ["ddp.py", "accelerate_loop.py"])
def test_started_again_with_another_number_of_ranks(recipe, tmp_path):
    """A checkpoint every 5 steps; one of two ranks is killed after 8."""
    first = run(recipe, tmp_path, "first", ranks=2, stop_after=8)
    rest = run(recipe, tmp_path, "second", ranks=1)
    counts = collections.Counter((epoch, index) for epoch, batch in rest for index in batch)
    assert set(counts.values()) == {1}
    seen = {(epoch, index) for epoch, batch in first for index in batch}
    whole = {(epoch, index) for epoch in range(EPOCHS) for index in range(SAMPLES)}
    assert seen | set(counts) == whole
    # Trained on twice: at most the three steps after the checkpoint, on two ranks.
    again = [batch for epoch, batch in first if (epoch, batch[0]) in counts]
    assert len(first) - len(again) == 10 and len(again) <= 6
