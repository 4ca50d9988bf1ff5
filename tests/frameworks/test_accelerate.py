"""accelerator.prepare of a sab.torch.DataLoader, with the real package: each sample once."""

import json
import pathlib
import socket
import subprocess
import sys
import warnings

import accelerate
import accelerate_jobs as jobs
import pytest
import torch

import sab

ALL = list(range(len(jobs.TEXTS)))


def launched(job, folder, ranks, expected=0, **arguments):
    """Runs a job in processes of its own: what each wrote."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, jobs.__file__, job, str(folder)]
    started = [
        subprocess.Popen(
            [*command, str(rank), str(ranks), str(port), json.dumps(arguments)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    errors = [each.communicate(timeout=150)[1] for each in started]
    assert [each.returncode for each in started] == [expected] * ranks, "\n".join(errors)
    return [
        json.loads((pathlib.Path(folder) / f"{rank}.json").read_text()) for rank in range(ranks)
    ]


def samples(batches):
    return sorted(sample for batch in batches for sample in batch)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What two processes did, which ended in the middle of an epoch, and then one."""
    folder = tmp_path_factory.mktemp("accelerate")
    return launched("two_ranks", folder, 2, expected=9), launched("one_rank", folder, 1)


def test_each_sample_once_under_all_settings(runs):
    for done in (each for rank in runs[0] for each in rank["settings"]):
        assert len(done) == 4
        for each in done.values():
            count = each["batches"]
            epochs = each["gathered"][:count], each["gathered"][count:]
            assert [samples(epoch) for epoch in epochs] == [ALL] * 2
            assert epochs[0] != epochs[1]
            # The optimizer steps after each 3 batches, and after the last of an epoch.
            steps = [(batch + 1) % 3 == 0 or batch + 1 == count for batch in range(count)]
            assert each["steps"] == steps * 2


def test_a_stopped_run_goes_on_with_another_number_of_processes(runs):
    before, after = ([rank["stopped"] for rank in run] for run in runs)
    assert samples(sum((each[:-4] for each in before), [])) == ALL
    rest = [each[-4:] for each in before] + after
    assert all(rest) and samples(sum(rest, [])) == ALL


def test_skip_first_batches_counts_from_the_start_of_the_epoch(runs):
    done = runs[1][0]["skipping"]
    count = len(jobs.make_loader())
    assert done["is_rest"] and done["has_all"] and done["next"] == 2
    assert done["ends"] == [False] * (count - 6) + [True]
    assert done["places"] == [[1, position] for position in range(6, count + 1)]
    assert not done["registered"]


def test_batches_with_ranks_are_not_divided_again(runs):
    for rank, (plain, ticketed, wrong, too_many) in enumerate(r["refused"] for r in runs[0]):
        assert plain == ticketed and "load them with sab.torch.DataLoader" in plain
        assert too_many.startswith("rank = 0, world_size = 3: the sampler has these")
        expected = "accelerate has rank 1 of 2; make the sampler without them" if rank else ""
        assert wrong.endswith(expected) and bool(wrong) == bool(rank)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_of_the_sampler_warns_of_the_batch_that_is_fetched_ahead(workers):
    sampler = sab.BucketSampler([3] * 40, budget=12)
    loader = torch.utils.data.DataLoader(
        range(40), batch_sampler=sampler, collate_fn=list, num_workers=workers
    )
    loader = accelerate.Accelerator(cpu=True).prepare(loader)
    ahead = []
    for _ in loader:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sampler.state_dict()
        ahead.append(any("fetched 1 batch ahead of training" in str(w.message) for w in caught))
    assert ahead == [True] * 9 + [False]
