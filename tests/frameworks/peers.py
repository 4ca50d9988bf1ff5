"""Runs torchdata's tests of states with sab.torch.DataLoader in the place of StatefulDataLoader:
peers.py CHECKOUT [OPTION OF PYTEST...]

CHECKOUT is that of https://github.com/pytorch/data, whose packages have no tests. The tests need
the packages parameterized and expecttest. Those of data sets with samples by index are run: a
stream has no batches that can be planned.
"""

import pathlib
import sys
from typing import Any

import pytest
import torch.utils.data
import torchdata.stateful_dataloader

import sab
import sab.torch

# Classes of tests and methods; those of streams are left out.
CHOSEN = (
    "TestStatefulDataLoaderMap_shard1",
    "TestStatefulSampler_shard1",
    "TestSnapshotZero_shard2 and test_map",
    "TestSnapshotEnd_shard2 and test_map",
    "TestInitialState_shard0",
    "TestNumWorkersMismatch_shard3",
    "TestConcurrentDataLoaders_shard3",
    "TestJsonSerDe_shard3 and map",
    "TestMultiEpochSDL_shard0",
    "TestEndOfEpochBehavior_shard0",
    "TestNotStatefulSamplerSDL_shard0",
    "TestOutOfOrderWithCheckpointing and index",
)
THEIRS = ("shuffle", "sampler", "generator", "snapshot_every_n_steps")


class Loader(sab.torch.DataLoader):
    """Made as a StatefulDataLoader is. Its order is libsab's."""

    def __init__(self, dataset: Any, collate_fn: Any = None, **options: Any) -> None:
        batch_size = options.pop("batch_size", 1) or 1  # None: samples one by one
        given = {name: options.pop(name, None) for name in THEIRS}
        is_shuffled = given["shuffle"] or isinstance(
            given["sampler"], torch.utils.data.RandomSampler
        )
        plan = sab.plan([1] * len(dataset), batch_size=batch_size)
        sampler = sab.BucketSampler(plan) if is_shuffled else sab.SequentialSampler(plan)
        super().__init__(dataset, sampler, collate_fn=collate_fn, **options)


def main() -> int:
    checkout = pathlib.Path(sys.argv[1])
    vars(torchdata.stateful_dataloader)["StatefulDataLoader"] = Loader
    chosen = " or ".join(f"({each})" for each in CHOSEN)
    tests = checkout / "test/stateful_dataloader/test_state_dict.py"
    return int(
        pytest.main(["-q", "-p", "no:cacheprovider", "-k", chosen, *sys.argv[2:], str(tests)])
    )


if __name__ == "__main__":
    sys.exit(main())
