"""Training with budget="memory" in processes: memory_jobs.py JOB FOLDER RANK RANKS PORT.

Each process has an emulated device of its own, of rank 1 a smaller one. It writes what it did to
FOLDER/RANK.json.
"""

import hashlib
import json
import os
import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import sab
import sab.torch

MIB = 1 << 20
SIZES = np.minimum(np.random.default_rng(0).lognormal(2.5, 0.6, 600).astype(int) + 3, 40)
DATA = [(torch.full((int(size),), int(size) % 30), int(size) % 4) for size in SIZES]


def collate(samples, batch):
    words, labels = zip(*samples)
    padded = nn.utils.rnn.pad_sequence(words, batch_first=True)
    return {"words": padded, "labels": torch.tensor(labels), "ids": torch.tensor(batch.indices)}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.output = nn.Linear(16, 4)

    def forward(self, words):
        return self.output(self.layer(self.embedding(words)).mean(1))


def digest(*objects):
    """Of tensors, in modules and elsewhere."""
    found = hashlib.sha256()
    for each in objects:
        tensors = each.state_dict().values() if isinstance(each, nn.Module) else [each]
        for tensor in tensors:
            found.update(tensor.detach().numpy().tobytes())
    return found.hexdigest()


def device():
    return sab.Probe("cpu", total_bytes=int((2.4 if os.environ["RANK"] == "0" else 2) * MIB))


def accelerated(folder):
    """One epoch with accelerate, and then the rest of another one, after load_state."""
    from accelerate import Accelerator

    def run(checkpoint=None, stop=None):
        accelerator = Accelerator(cpu=True)
        torch.manual_seed(0)
        model = Model()
        optimizer = torch.optim.AdamW(model.parameters())
        called = []

        def step(data):
            called.append(data["words"].shape)
            loss = functional.cross_entropy(model(data["words"]), data["labels"])
            accelerator.backward(loss * loader.sample_weight)
            optimizer.step()
            optimizer.zero_grad()

        probe = device()
        loader = sab.torch.DataLoader(
            DATA,
            sab.BucketSampler(SIZES, "memory", seed=1),
            collate_fn=collate,
            step=step,
            restore=[model, optimizer, accelerator],
            device=probe,
        )
        loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
        assert called == []
        if checkpoint is not None:
            accelerator.load_state(checkpoint)
        before = digest(model, torch.get_rng_state())
        length = len(loader)
        done = {
            "is_kept": digest(model, torch.get_rng_state()) == before,
            "state": len(optimizer.state),
            "steps_before": len(called),
            "length": length,
            "budget": loader.source.plan.budget,
            "plan": str(loader.source.plan.fingerprint),
            "ids": [],
        }
        probe.reset()
        for data in loader:
            done["ids"].append(data["ids"].tolist())
            step(data)
            if loader.position == stop:
                accelerator.save_state(folder / "state")
                break
        done["lowered"] = loader.guard.info.lowered
        probe.close()
        accelerator.free_memory()
        accelerator.state._reset_state(reset_partial_state=False)
        return done

    return {"first": run(stop=2), "rest": run(folder / "state")}


def data_parallel(folder):
    """One epoch with DistributedDataParallel."""
    torch.distributed.init_process_group("gloo")
    rank, world_size = sab.ranks()
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters())

    def step(data):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(data["words"]), data["labels"])
        (loss * loader.sample_weight).backward()
        optimizer.step()

    with device() as probe:
        sampler = sab.BucketSampler(SIZES, "memory", rank=rank, world_size=world_size)
        loader = sab.torch.DataLoader(
            DATA,
            sampler,
            collate_fn=collate,
            step=step,
            restore=[model, optimizer],
            device=probe,
        )
        before = digest(model)
        done = {"length": len(loader), "ids": [], "is_kept": digest(model) == before}
        sab.check_ranks(sampler)
        for data in loader:
            step(data)
            done["ids"].append(data["ids"].tolist())
        return {**done, "peak": probe.stats().peak, "budget": sampler.plan.budget}


def trained(folder):
    """Two epochs of a Trainer."""
    from test_training_by_memory import make_trainer

    with device() as probe:
        trainer = make_trainer(folder, probe)
        trainer.train()
        memory = trainer.training_step.__self__
        return {
            "ids": trainer.seen.batches,
            "at_start": trainer.seen.at_start,
            "end": digest(trainer.model),
            "budget": memory.found.budget,
            "failed": memory.guard.info.out_of_memory,
        }


if __name__ == "__main__":
    job, where, rank, ranks, port = sys.argv[1:]
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port, WORLD_SIZE=ranks, RANK=rank)
    os.environ.update(LOCAL_RANK=rank, LOCAL_WORLD_SIZE=ranks)
    torch.set_num_threads(1)
    folder = pathlib.Path(where)
    (folder / f"{rank}.json").write_text(json.dumps(globals()[job](folder)))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()  # or Gloo may end it with an error
