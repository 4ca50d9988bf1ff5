"""DistributedDataParallel: two processes on this machine, a stop in the middle of an epoch, and one
process that goes on.

needs: torch
"""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from toy import Model, collate, dataset, sizes
from torch import nn
from torch.utils.data import DataLoader

import sab


# [train]
def train(steps, state=None):
    """Trains for a number of steps. Returns this rank's samples and the state of the sampler."""
    rank, world_size = sab.ranks()  # of torch.distributed
    plan = sab.plan(sizes, budget=1024)
    sampler = sab.BucketSampler(plan, seed=0, rank=rank, world_size=world_size)
    if state is not None:
        sampler.load_state_dict(state)
    # Checks that all ranks have the same data, seed and step.
    sab.check_ranks(sampler, timeout=60)

    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for batch in sampler.batches():
        words, labels = collate([dataset[index] for index in batch.indices])
        loss = nn.functional.cross_entropy(model(words), labels, reduction="sum")
        # DDP takes the mean over ranks. The factor makes it the mean over the step's samples.
        loss = loss * world_size / sampler.step().samples
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += batch.indices.tolist()
        steps -= 1
        if steps == 0:
            break
    return seen, sampler.state_dict()


# [end]


def worker(rank, world_size, folder, steps, state):
    dist.init_process_group(
        "gloo", f"file://{folder}/store-{world_size}", rank=rank, world_size=world_size
    )
    torch.save(train(steps, state), f"{folder}/rank-{rank}.pt")
    dist.destroy_process_group()


def main(folder):
    # [elastic]
    mp.spawn(worker, (2, folder, 8, None), nprocs=2)  # two ranks, stopped after 8 steps
    (first, state), (second, other) = (torch.load(f"{folder}/rank-{rank}.pt") for rank in range(2))
    assert state == other  # all ranks save the same state

    mp.spawn(worker, (1, folder, -1, state), nprocs=1)  # one rank finishes the epoch
    rest, _ = torch.load(f"{folder}/rank-0.pt")
    assert sorted(first + second + rest) == list(range(len(dataset)))  # each sample once
    # [end]
    print(
        f"{len(first)} and {len(second)} samples on two ranks, {len(rest)} on one: {len(dataset)} "
        f"in all"
    )

    # [loader]
    plan = sab.plan(sizes, budget=1024)
    sampler = sab.BucketSampler(plan, seed=0)
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=collate, num_workers=2)
    for step, _ in enumerate(loader):
        if step == 4:
            # Workers have fetched more than was trained on, so pass the number of steps.
            state = sampler.state_dict(step=step + 1)
            break
    # [end]
    sampler.load_state_dict(state)
    assert next(iter(sampler)).tolist() == sampler[5].tolist()


if __name__ == "__main__":
    import tempfile

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        main(name)
