"""Accelerate: two processes on this machine, each with its share of every step; a stop in the
middle of an epoch.

needs: accelerate
"""

import tempfile

import torch
from accelerate import Accelerator, debug_launcher
from accelerate.utils import gather_object
from toy import Model, collate, dataset, sizes
from torch.nn import functional
from torch.utils.data import DataLoader

import sab


# [loader]
class Loader(DataLoader):
    """A loader whose state is the position of the loop. The sampler's own state also counts the
    batches that workers have fetched."""

    step = 0

    def __iter__(self):
        self.step %= len(self)  # a finished epoch is followed by the next
        for batch in super().__iter__():
            self.step += 1
            yield batch

    def state_dict(self):
        is_finished = self.step == len(self)  # then the sampler's own state says so
        state = self.batch_sampler.state_dict(None if is_finished else self.step)
        return {"step": self.step, "sampler": state}

    def load_state_dict(self, state):
        self.step = state["step"]
        self.batch_sampler.load_state_dict(state["sampler"])


# [end]


def train(folder, stop=None, resume=False):
    """An epoch, or as much of it as is left; the samples of this rank."""
    seen = []
    # [train]
    accelerator = Accelerator(cpu=True)
    sampler = sab.BucketSampler(
        sab.plan(sizes, budget=1024),
        seed=0,
        rank=accelerator.process_index,
        world_size=accelerator.num_processes,
    )
    loader = Loader(dataset, batch_sampler=sampler, collate_fn=collate, num_workers=2)

    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)  # not the loader
    accelerator.register_for_checkpointing(loader)
    if resume:
        accelerator.load_state(f"{folder}/state")
    for words, labels in loader:
        step_samples = sampler.step(loader.step - 1).samples  # of all ranks
        words, labels = words.to(accelerator.device), labels.to(accelerator.device)
        loss = functional.cross_entropy(model(words), labels, reduction="sum")
        optimizer.zero_grad()
        # Gradients are averaged over ranks. The factor makes it the mean over the step's samples.
        accelerator.backward(loss * accelerator.num_processes / step_samples)
        optimizer.step()
        seen += [tuple(row[row != 0].tolist()) for row in words]
        if loader.step == stop:
            break
    accelerator.save_state(f"{folder}/state")
    # [end]
    return accelerator, loader, seen


def main(folder):
    accelerator, loader, first = train(folder, stop=8)
    accelerator.wait_for_everyone()  # rank 0 writes
    _, loader, rest = train(folder, resume=True)
    first, rest = gather_object(first), gather_object(rest)
    assert sorted(first + rest) == sorted(
        tuple(words.tolist()) for words, _ in dataset
    )  # nothing lost, nothing twice

    loader.load_state_dict(loader.state_dict())  # of a finished epoch
    next(iter(loader))
    assert loader.batch_sampler.epoch == 1 and loader.step == 1
    if accelerator.is_main_process:
        print(f"{len(first)} samples in 8 steps, {len(rest)} after the stop: {len(dataset)} in all")


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        debug_launcher(main, (name,), num_processes=2)
