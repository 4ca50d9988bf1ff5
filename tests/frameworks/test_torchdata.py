"""The loader and its parts in torchdata: StatefulDataLoader and nodes."""

import random
import warnings

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
import torchdata.nodes
from torchdata.stateful_dataloader import StatefulDataLoader

import sab
import sab.torch
from sab import cli

numbers = random.Random(0)
SIZES = [numbers.randint(1, 60) for _ in range(2000)]


class Words:
    def __len__(self):
        return len(SIZES)

    def __getitem__(self, index):
        return torch.full((SIZES[index],), index)


def collate(samples, batch):
    padded = sab.torch.PadCollate(-1)(samples, batch)
    assert padded.shape == (batch.count, int(batch.padded_length))
    return padded[:, 0].tolist()


def sampler_of(rank=0, world_size=1):
    plan = sab.plan(SIZES, budget=300)
    return sab.BucketSampler(plan, seed=5, rank=rank, world_size=world_size)


def stateful(**options):
    return StatefulDataLoader(**sab.torch.loader_options(Words(), sampler_of(), collate), **options)


@pytest.mark.parametrize(
    "options", [{}, {"num_workers": 2}, {"num_workers": 3, "prefetch_factor": 4}]
)
def test_stateful_data_loader(options):
    whole = list(stateful(**options))
    assert sorted(sum(whole, [])) == list(range(len(SIZES)))
    for at in (1, 17, len(whole) - 1):
        loader = stateful(**options)
        walk = iter(loader)
        head = [next(walk) for _ in range(at)]
        resumed = stateful(**options)
        resumed.load_state_dict(loader.state_dict())
        assert head + list(resumed) == whole


def test_sampler_alone_in_stateful_data_loader():
    def make():
        return StatefulDataLoader(
            range(len(SIZES)), batch_sampler=sampler_of(), collate_fn=list, num_workers=2
        )

    whole = list(make())
    loader = make()
    walk = iter(loader)
    head = [next(walk) for _ in range(9)]
    resumed = make()
    resumed.load_state_dict(loader.state_dict())
    assert head + list(resumed) == whole


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_of_the_sampler_warns_of_what_workers_fetched_ahead(workers):
    sampler = sampler_of()
    loader = StatefulDataLoader(
        range(len(SIZES)), batch_sampler=sampler, collate_fn=list, num_workers=workers
    )
    passing = iter(loader)
    next(passing)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader.state_dict()
        assert not [each for each in caught if "ahead of training" in str(each.message)]
        sampler.state_dict()
    ahead = [each.filename for each in caught if "ahead of training" in str(each.message)]
    assert ahead == [__file__] * (workers > 0)


@pytest.mark.parametrize("workers", [0, 2])
def test_node(workers):
    def make():
        loader = sab.torch.DataLoader(
            Words(), sampler_of(), collate_fn=collate, num_workers=workers
        )
        node = torchdata.nodes.IterableWrapper(loader)
        return torchdata.nodes.Loader(torchdata.nodes.Prefetcher(node, prefetch_factor=3))

    loader = make()
    epochs = [list(loader), list(loader)]
    assert sorted(sum(epochs[0], [])) == sorted(sum(epochs[1], [])) == list(range(len(SIZES)))
    assert epochs[0] != epochs[1]
    stopped = make()
    walk = iter(stopped)
    head = [next(walk) for _ in range(13)]
    state = stopped.state_dict()
    resumed = make()
    resumed.load_state_dict(state)
    assert head + list(resumed) == epochs[0]


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    """A folder of batches of Parquet."""
    folder = tmp_path_factory.mktemp("batches")
    shard, plan = str(folder / "shard.parquet"), str(folder / "plan")
    columns = {"id": np.arange(len(SIZES)), "length": SIZES}
    pyarrow.parquet.write_table(pyarrow.table(columns), shard)
    common = [shard, "--column", "length"]
    counts = ["--histograms", str(folder)]
    assert cli.main(["engine", "histogram", *common, "--output", str(folder)]) == 0
    assert cli.main(["engine", "plan", *common, *counts, "--budget", "300", "--save", plan]) == 0
    for last in ([], ["--finish"]):
        to = ["--plan", plan, "--output", str(folder / "batches"), *last]
        assert cli.main(["engine", "write", *common, *counts, *to]) == 0
    return folder / "batches"


def ids_of(batch):
    return batch["id"].tolist()


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_parquet_in_stateful_data_loader(batches, workers):
    def make():
        data = sab.BatchDataset(batches, rank=1, world_size=2)
        return StatefulDataLoader(data, batch_size=None, num_workers=workers, collate_fn=ids_of)

    whole = [ids_of(batch) for batch in sab.BatchDataset(batches, rank=1, world_size=2)]
    assert list(make()) == whole
    for at in (1, 17, len(whole) - 1):
        loader = make()
        walk = iter(loader)
        head = [next(walk) for _ in range(at)]
        resumed = make()
        resumed.load_state_dict(loader.state_dict())
        assert head + list(resumed) == whole


def test_a_samplers_state_counts_what_torchs_workers_gave():
    whole = [batch.tolist() for batch in sampler_of()]
    sampler = sampler_of()
    loader = torch.utils.data.DataLoader(
        range(len(SIZES)), batch_sampler=sampler, collate_fn=list, num_workers=2
    )
    head = [batch for batch, _ in zip(loader, range(9))]  # zip takes one more
    resumed = sampler_of()
    resumed.load_state_dict(sampler.state_dict())
    assert head == whole[:9] and [batch.tolist() for batch in resumed] == whole[10:]
