"""Ranks that are processes, met through torch.distributed's gloo."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")

JOBS = pathlib.Path(__file__).parent / "distributed_jobs.py"


def run(job, world_size, **arguments):
    done = subprocess.run(
        [sys.executable, str(JOBS), job, str(world_size), json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "kind, micro_batches, world_size",
    [("bucket", 3, 2), ("balanced", 1, 3)],
)
def test_ddp_on_uneven_data_ends_everywhere_and_learns_what_one_process_learns(
    kind, micro_batches, world_size
):
    ranks = run("train", world_size, kind=kind, micro_batches=micro_batches)
    assert len({rank["steps"] for rank in ranks}) == 1 and ranks[0]["steps"] > 3
    alone = np.array(run("train_alone", world_size, kind=kind, micro_batches=micro_batches))
    for rank in ranks:
        np.testing.assert_allclose(rank["parameters"], alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["bucket", "balanced"])
def test_a_rank_is_killed_and_others_go_on_with_2_then_4(kind, tmp_path):
    torch = pytest.importorskip("torch")
    folder = str(tmp_path)
    died = run("resume", 3, kind=kind, folder=folder, stop=3, victim=2)
    assert died[2] == "died"
    done = torch.load(tmp_path / "checkpoint")["done"]
    assert 0 < len(done) < 400
    two = run("resume", 2, kind=kind, folder=folder, stop=2, victim=None)
    assert [rank["steps"] for rank in two] == [2] * 2
    four = run("resume", 4, kind=kind, folder=folder, stop=-1, victim=None)
    assert len({rank["steps"] for rank in four}) == 1
    assert sorted(torch.load(tmp_path / "checkpoint")["done"]) == list(range(400))


def test_a_rank_that_disagrees_is_named_everywhere():
    said = run("disagree", 4)
    assert all("rank 2 has seed 7, the others 5" in each for each in said)


def test_a_rank_that_never_comes_is_named():
    said = run("never_come", 3)
    assert said[1] is None
    assert said[0] == said[2] == "rank 1 of 3 did not come within 1 s"


def test_a_rank_that_fails_alone_is_told_of_everywhere():
    said = run("fail_alone", 3)
    assert (
        said[1].startswith("TypeError")
        and said[0] == said[2] == "MismatchError: rank 1 failed; see the error on that rank"
    )


def test_tensor_parallel_ranks_share_their_samples():
    said = run("groups", 4)
    assert said[0] == said[1] and said[2] == said[3] and said[0] != said[2]


def test_shards_become_one_plan():
    ranks = run("shards", 3)
    assert len({rank["steps"] for rank in ranks}) == 1
    assert sorted(index for rank in ranks for index in rank["seen"]) == list(range(400))
