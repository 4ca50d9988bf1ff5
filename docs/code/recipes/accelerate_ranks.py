"""Accelerate: two processes on this machine, each with its share of every step.

needs: accelerate
"""

import tempfile

import torch
from accelerate import Accelerator, debug_launcher
from toy import Model, collate, dataset, sizes
from torch.nn import functional
from torch.utils.data import DataLoader

import sab


def main(folder):
    # [train]
    accelerator = Accelerator(cpu=True)
    sampler = sab.BucketSampler(sab.plan(sizes, budget=1024), seed=0, rank=accelerator.process_index, world_size=accelerator.num_processes)
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=collate)

    torch.manual_seed(0)
    model = Model()
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))  # not the loader: it knows its rank already
    accelerator.register_for_checkpointing(sampler)  # has state_dict and load_state_dict
    for words, labels in loader:
        words, labels = words.to(accelerator.device), labels.to(accelerator.device)
        loss = functional.cross_entropy(model(words), labels)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
    accelerator.save_state(f"{folder}/state")
    # [end]

    own = torch.zeros(len(dataset))
    sampler.set_epoch(0)
    for indices in sampler:
        own[indices] += 1
    assert (accelerator.reduce(own) == 1).all()  # all samples, each on one rank
    accelerator.load_state(f"{folder}/state")
    assert next(iter(sampler)).tolist() != [] and sampler.epoch == 1  # the finished epoch is followed by the next
    if accelerator.is_main_process:
        print(f"{len(sampler)} steps on each of {accelerator.num_processes} ranks")


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        debug_launcher(main, (name,), num_processes=2)
