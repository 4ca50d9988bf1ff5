"""Loops with accelerate over the glosses of WordNet: accelerate_jobs.py JOB FOLDER RANK RANKS PORT
[ARGUMENTS AS JSON]. Each process writes what it did to FOLDER/RANK.json.
"""

import json
import os
import pathlib
import sys
import tempfile
from zlib import crc32

import numpy as np
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import GradientAccumulationPlugin
from torch.nn import functional

import sab
import sab.torch

sys.path.append(str(pathlib.Path(__file__).parents[2] / "examples/python"))
import wordnet

GLOSSES = wordnet.glosses()[::100]  # 1,177
TEXTS = [torch.tensor([1 + crc32(w.encode()) % 499 for w in text.split()]) for text, _ in GLOSSES]
LABELS = [part for _, part in GLOSSES]
SIZES = np.array([len(text) for text in TEXTS])


class Glosses(torch.utils.data.Dataset):
    def __len__(self):
        return len(TEXTS)

    def __getitem__(self, index):
        return TEXTS[index], LABELS[index]


def collate(samples, batch):
    words, labels = zip(*samples)
    padded = torch.nn.utils.rnn.pad_sequence(words, batch_first=True)
    return {"words": padded, "labels": torch.tensor(labels), "ids": torch.tensor(batch.indices)}


def make_loader(workers=0, **options):
    sampler = sab.BucketSampler(sab.plan(SIZES, budget=600), seed=1, **options)
    return sab.torch.DataLoader(Glosses(), sampler, collate_fn=collate, num_workers=workers)


def make_accelerator(accumulation=1, **settings):
    return Accelerator(
        cpu=True,
        dataloader_config=DataLoaderConfiguration(**settings),
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=accumulation),
    )


def prepared(accelerator, loader):
    torch.manual_seed(0)
    model = torch.nn.EmbeddingBag(500, 4, mode="mean", padding_idx=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return accelerator.prepare(model, optimizer, loader)


def train_step(accelerator, model, optimizer, batch):
    """Whether the optimizer stepped."""
    with accelerator.accumulate(model):
        loss = functional.cross_entropy(model(batch["words"]), batch["labels"])
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    return accelerator.sync_gradients


def settings(folder, ranked):
    """Two epochs under each setting of loaders, with looks at the first batch."""
    done = {}
    for name in ("even_batches", "split_batches", "dispatch_batches", "use_stateful_dataloader"):
        accelerator = make_accelerator(accumulation=3, **{name: name != "even_batches"})
        ranks = {"rank": accelerator.process_index, "world_size": accelerator.num_processes}
        model, optimizer, loader = prepared(accelerator, make_loader(**(ranks if ranked else {})))
        steps, gathered = [], []
        for _ in range(2):
            for batch in loader:
                if loader.position in (4, len(loader)):
                    place = loader.epoch, loader.position
                    assert next(iter(loader))["ids"].tolist() != batch["ids"].tolist()
                    assert (loader.epoch, loader.position) == place
                own = loader.source.batch(loader.position - 1)
                assert batch["ids"].tolist() == own.indices.tolist()
                weights = loader.sample_weight, loader.token_weight
                assert weights == (own.sample_weight, own.token_weight)
                steps.append(train_step(accelerator, model, optimizer, batch))
                ids = batch["ids"].tolist()
                gathered.append(accelerator.gather_for_metrics(ids, use_gather_object=True))
        done[name] = {"gathered": gathered, "steps": steps, "batches": len(loader)}
        accelerator.free_memory()
        accelerator.state._reset_state(reset_partial_state=False)
    return done


def stopped(folder, at=None, resume=False, before=None):
    """Two epochs. After the step of batch `at` the state is saved, and the process ends at once."""
    accelerator = make_accelerator()
    model, optimizer, loader = prepared(accelerator, make_loader())
    if resume:
        accelerator.load_state(folder / "state")
    done = []
    for epoch in range(loader.epoch, 2):
        loader.set_epoch(epoch)
        for batch in loader:
            train_step(accelerator, model, optimizer, batch)
            done.append(batch["ids"].tolist())
            if [epoch, loader.position] == at:
                accelerator.save_state(folder / "state")
                write(folder, {**before, "stopped": done})
                accelerator.wait_for_everyone()
                os._exit(9)
    return done


def skipping(folder):
    """As scripts of accelerate do: load_state, then skip the batches of the interrupted epoch."""
    accelerator = make_accelerator()
    model, optimizer, loader = prepared(accelerator, make_loader(workers=1))
    whole = [[batch["ids"].tolist() for batch in loader] for _ in range(2)]
    accelerator.free_memory()  # else the state of this loader is saved, too
    model, optimizer, loader = prepared(accelerator, make_loader(workers=1))
    list(loader)
    next(batch for batch in loader if loader.position == 5)
    accelerator.save_state(folder / "skipping")
    accelerator.free_memory()
    model, optimizer, loader = prepared(accelerator, make_loader(workers=1))
    accelerator.load_state(folder / "skipping")
    rest, ends, places = [], [], []
    for batch in accelerator.skip_first_batches(loader, 5):
        train_step(accelerator, model, optimizer, batch)
        rest.append(batch["ids"].tolist())
        ends.append(accelerator.gradient_state.end_of_dataloader)
        places.append((loader.epoch, loader.position))
    again = [batch["ids"].tolist() for batch in loader]
    return {
        "is_rest": rest == whole[1][5:],
        "ends": ends,
        "places": places,
        "next": loader.epoch,
        "has_all": sorted(sum(again, [])) == sorted(sum(whole[0], [])) and again not in whole,
        "registered": accelerator.gradient_state.in_dataloader,
    }


def refused(folder):
    """What accelerate says of batches that already have ranks."""
    accelerator = make_accelerator()
    said = []
    ranks = {"rank": accelerator.process_index, "world_size": accelerator.num_processes}
    sampler = sab.BucketSampler(sab.plan(SIZES, budget=600), **ranks)
    for loader in (
        torch.utils.data.DataLoader(Glosses(), batch_sampler=sampler),
        torch.utils.data.DataLoader(**sab.torch.loader_options(Glosses(), sampler, collate)),
        make_loader(rank=0, world_size=2),
        make_loader(world_size=3),
    ):
        try:
            accelerator.prepare(loader)
            said.append("")
        except (TypeError, ValueError) as error:
            said.append(str(error))
    return said


def two_ranks(folder):
    """All that two processes do: a start takes longer than what they do then."""
    done = {
        "settings": [settings(folder, ranked) for ranked in (False, True)],
        "refused": refused(folder),
    }
    stopped(folder, at=[1, 4], before=done)


def one_rank(folder):
    """All that one process does, after two_ranks."""
    return {"stopped": stopped(folder, resume=True), "skipping": skipping(folder)}


def write(folder, done):
    file = folder / f"{os.environ['RANK']}.json"
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as part:
        json.dump(done, part)
    os.replace(part.name, file)


if __name__ == "__main__":
    job, where, rank, ranks, port, *given = sys.argv[1:]
    if int(ranks) > 1:
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port, WORLD_SIZE=ranks)
        os.environ.update(LOCAL_RANK=rank, LOCAL_WORLD_SIZE=ranks)
    os.environ["RANK"] = rank
    torch.set_num_threads(1)
    folder = pathlib.Path(where)
    write(folder, globals()[job](folder, **json.loads(given[0] if given else "{}")))
