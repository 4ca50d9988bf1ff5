"""Jobs of several processes that meet through gloo: distributed_jobs.py JOB WORLD_SIZE [ARGUMENTS
AS JSON]. Prints what each rank gives, as JSON."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import sys
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist

import sab

SIZES = np.minimum(np.random.default_rng(3).lognormal(3, 0.9, 400).astype(np.int64) + 1, 200)
VOCABULARY = 50


def tokens(index):
    """A sample: its tokens, and what is to be said of each."""
    own = np.random.default_rng(int(index)).integers(0, VOCABULARY, (2, int(SIZES[index])))
    return torch.from_numpy(own[0]), torch.from_numpy(own[1])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, 8)
        self.hidden = torch.nn.Linear(8, 16)
        self.out = torch.nn.Linear(16, VOCABULARY)

    def forward(self, inputs):
        return self.out(torch.tanh(self.hidden(self.embedding(inputs))))


def new_model():
    torch.manual_seed(0)
    return Model().double()


def loss_sum(model, indices):
    """Summed over tokens. Of no samples it is a zero that still reaches all parameters, so that
    DDP's ranks stay in step."""
    if len(indices) == 0:
        return 0 * model(torch.zeros(1, dtype=torch.long)).sum()
    inputs, targets = (torch.cat(parts) for parts in zip(*map(tokens, indices)))
    return torch.nn.functional.cross_entropy(model(inputs), targets, reduction="sum")


def sampler_of(kind, rank, world_size, micro_batches=1):
    if kind == "bucket":
        plan = sab.plan(SIZES, budget=600, padding=0.05)
        return sab.BucketSampler(
            plan, seed=4, rank=rank, world_size=world_size, micro_batches=micro_batches
        )
    return sab.BalancedSampler(
        SIZES,
        budget=500,
        balance="quadratic",
        micro_batches=micro_batches,
        seed=4,
        rank=rank,
        world_size=world_size,
    )


def parameters_of(model):
    return torch.cat([each.detach().flatten() for each in model.parameters()]).tolist()


def train(rank, world_size, kind, micro_batches):
    """DDP, weighted by the true token counts of a step."""
    model = torch.nn.parallel.DistributedDataParallel(new_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    sampler = sampler_of(kind, rank, world_size, micro_batches)
    sab.check_ranks(sampler, timeout=60)
    steps = 0
    for batch in sampler.batches():
        step = sampler.step()
        is_last = batch.micro_batch + 1 == step.micro_batches
        with contextlib.nullcontext() if is_last else model.no_sync():
            # DDP takes the mean over ranks; the weights of a step sum to one over all.
            (loss_sum(model, batch.indices) * (world_size / step.total)).backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
    return {"steps": steps, "parameters": parameters_of(model)}


def train_alone(kind, micro_batches, world_size):
    """The same global batches in one process."""
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    samplers = [sampler_of(kind, rank, world_size, micro_batches) for rank in range(world_size)]
    for batches in zip(*(sampler.batches() for sampler in samplers)):
        indices = np.concatenate([batch.indices for batch in batches])
        step = samplers[0].step()
        if len(indices):
            (loss_sum(model, indices) / step.total).backward()
        if batches[0].micro_batch + 1 == step.micro_batches:
            optimizer.step()
            optimizer.zero_grad()
    return parameters_of(model)


def resume(rank, world_size, kind, folder, stop, victim):
    """Goes on from the checkpoint of the folder, and writes one after each step. One rank kills
    itself in the middle of a step."""
    folder = pathlib.Path(folder)
    sampler = sampler_of(kind, rank, world_size)
    if (folder / "checkpoint").exists():
        saved = torch.load(folder / "checkpoint")
        sampler.load_state_dict(saved["sampler"])
        done = saved["done"]
    else:
        done = []
    sab.check_ranks(sampler, timeout=60)
    steps = 0
    for batch in sampler:
        if rank == victim and steps == stop:
            os.kill(os.getpid(), signal.SIGKILL)
        gathered = [None] * world_size
        dist.all_gather_object(gathered, batch.tolist())
        done.extend(index for part in gathered for index in part)
        steps += 1
        if rank == 0:
            torch.save({"sampler": sampler.state_dict(), "done": done}, folder / "checkpoint.new")
            os.replace(folder / "checkpoint.new", folder / "checkpoint")
        dist.barrier()
        if victim is None and steps == stop:
            break
    return {"steps": steps}


def disagree(rank, world_size):
    """Rank 2 has another seed."""
    sampler = sab.BucketSampler(
        sab.plan(SIZES, budget=600), seed=7 if rank == 2 else 5, rank=rank, world_size=world_size
    )
    try:
        sab.check_ranks(sampler, timeout=60)
    except sab.MismatchError as error:
        return str(error)
    return None


def never_come(rank, world_size):
    sampler = sab.BucketSampler(sab.plan(SIZES, budget=600), rank=rank, world_size=world_size)
    if rank == 1:
        time.sleep(4)  # is there, but does not call
        return None
    time.sleep(rank / 4)  # rank 0 gives up first, and tells
    try:
        sab.check_ranks(sampler, timeout=1)
    except TimeoutError as error:
        return str(error)
    return None


def fail_alone(rank, world_size):
    """Rank 1 fails before it could say anything of its samples."""
    try:
        sab.ShardedSampler([1j] if rank == 1 else [1, 2], budget=10, timeout=60)
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def groups(rank, world_size):
    """Ranks 0, 2 and 1, 3 take different samples; 0, 1 and 2, 3 share theirs."""
    pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    own, size = sab.ranks_from_mesh({"dp": 2, "tp": 2}, data=["dp"])
    group = pairs[rank % 2]
    assert (own, size) == sab.ranks(group)
    sampler = sab.BucketSampler(sab.plan(SIZES, budget=600), rank=own, world_size=size)
    sab.check_ranks(sampler, group=group, timeout=60)
    sab.check_ranks(sampler, group=group, timeout=60)
    dist.barrier()  # rank 0 has the store that the other pair may still need
    return [own, next(iter(sampler)).tolist()]


def shards(rank, world_size):
    first, end = [0, 10, 250][rank], [10, 250, 400][rank]
    sampler = sab.ShardedSampler(SIZES[first:end], budget=600, seed=1, timeout=60)
    sab.check_ranks(sampler, timeout=60)
    batches = list(sampler.batches())
    gathered = [None] * world_size
    dist.all_gather_object(
        gathered, [(batch.count, batch.bucket, batch.padded_total) for batch in batches]
    )
    for step, parts in enumerate(zip(*gathered)):
        assert sampler.step(step).samples == sum(count for count, _, _ in parts)
        assert len({bucket for count, bucket, _ in parts if count}) == 1
        assert all(total <= 600 for _, _, total in parts)
    return {
        "steps": len(batches),
        "seen": sorted(first + int(index) for batch in batches for index in batch.indices),
    }


def run(job, rank, world_size, port, arguments, out):
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(world_size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    assert sab.ranks() == (rank, world_size)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    assert sab.ranks() == (rank, world_size)
    out.write_text(json.dumps(globals()[job](rank, world_size, **arguments)))
    os._exit(0)


def main():
    job, world_size, arguments = (
        sys.argv[1],
        int(sys.argv[2]),
        json.loads(sys.argv[3]) if len(sys.argv) > 3 else {},
    )
    if job == "train_alone":
        print(json.dumps(train_alone(**arguments, world_size=world_size)))
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        outs = [pathlib.Path(folder) / str(rank) for rank in range(world_size)]
        children = []
        for rank in range(world_size):
            child = os.fork()
            if child == 0:
                try:
                    run(job, rank, world_size, port, arguments, outs[rank])
                finally:
                    os._exit(1)
            children.append(child)
        failed = False
        for _ in children:  # a launcher ends all when one dies
            child, status = os.wait()
            if status != 0 and not failed:
                failed = True
                for other in children:
                    if other != child:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(other, signal.SIGKILL)
        print(json.dumps([json.loads(out.read_text()) if out.exists() else "died" for out in outs]))


if __name__ == "__main__":
    main()
