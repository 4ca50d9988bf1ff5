"""The command that measures a training step, over a current torch."""

import subprocess
import sys

STEP = """
import torch

layer = torch.nn.Linear(8, 8)

def step(count, length):
    layer(torch.zeros(count, length, 8)).square().mean().backward()
"""


def test_prints_no_messages_of_profiler_sessions(tmp_path):
    (tmp_path / "step.py").write_text(STEP)
    command = [sys.executable, "-m", "sab.cli", "memory", "step.py:step", "--device", "cpu"]
    options = ["--shortest", "4", "--longest", "60", "--budget", "1MiB", "--points", "7"]
    made = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0 and "largest batches within 1.0 MiB" in made.stdout
    assert "profiler_st" not in made.stderr and len(made.stderr.splitlines()) < 5
