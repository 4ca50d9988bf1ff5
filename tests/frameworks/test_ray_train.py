"""Batches that were written as Parquet, in Ray Train: ranks and checkpoints. The example on Ray."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections import Counter

import numpy as np
import pyarrow
import pytest
import ray
import ray.data
import ray.train
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

import sab
import sab.ray

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"
COUNT, STATE = 600, "state.json"


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    """A folder of batches. Starts Ray."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    ray.init(
        "local", num_cpus=4, include_dashboard=False, logging_level="ERROR", runtime_env=environment
    )
    folder = tmp_path_factory.mktemp("batches")
    lengths = np.random.default_rng(1).integers(1, 100, COUNT)
    rows = pyarrow.table({"id": np.arange(COUNT), "length": lengths})
    data = ray.data.from_arrow(rows)
    plan = sab.ray.plan(data, 1500, size="length")
    sab.ray.write_batches(data, plan, folder, size="length", world_size=2)
    yield folder
    ray.shutdown()


def train(config):
    """Takes batches, and saves a checkpoint after each."""
    context = ray.train.get_context()
    assert sab.ranks() == (context.get_world_rank(), context.get_world_size())
    data = sab.BatchDataset(config["batches"])
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            data.load_state_dict(json.loads(pathlib.Path(folder, STATE).read_text()))
    for taken, batch in enumerate(data, 1):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, STATE).write_text(json.dumps(data.state_dict()))
            saved = ray.train.Checkpoint.from_directory(folder)
            is_first = context.get_world_rank() == 0
            ray.train.report({}, checkpoint=saved if is_first else None)
        rank, world_size = sab.ranks()
        name = f"{world_size}-{rank}-{batch['batch']}-{taken}"
        pathlib.Path(config["taken"], name).write_text(json.dumps(batch["id"].tolist()))
        if taken == config["most"]:
            break


def test_checkpoints_go_on_with_another_number_of_workers(batches, tmp_path):
    taken = tmp_path / "taken"
    taken.mkdir()
    for workers, most in ((3, 4), (2, 10**6)):
        DataParallelTrainer(
            train,
            train_loop_config={"batches": str(batches), "taken": str(taken), "most": most},
            scaling_config=ray.train.ScalingConfig(num_workers=workers),
            # the same name, so Ray begins with the last checkpoint
            run_config=ray.train.RunConfig(name="training", storage_path=str(tmp_path)),
        ).fit()
    assert Counter(file.name[0] for file in taken.iterdir())["3"] == 12
    ids = Counter(i for file in taken.iterdir() for i in json.loads(file.read_text()))
    assert ids == Counter(range(COUNT))


def test_example_of_three_nodes():
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    done = subprocess.run(
        [sys.executable, EXAMPLES / "train_on_ray.py", "--texts", "300"],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        check=True,
    )
    texts, nodes, batches, _, killed, ranks, taken, seen = map(
        int, re.findall(r"\d+", done.stdout.replace(",", ""))[:8]
    )
    assert (nodes, ranks) == (3, 2)
    assert 0 < killed <= batches
    assert (taken, seen) == (batches, texts)
