"""WordNet's glosses, manual pages and licence texts, batched by a Ray cluster of three nodes.

The nodes run on this machine. They split the texts into words, pack the texts into rows of 4,096
words, and write the rows as Parquet, in training order. Two ranks then train a model that tells the
three kinds of texts apart. They are killed in the middle, and one rank goes on from the last
checkpoint. A row goes through the model as it is: its words end to end, with the cumulative
lengths. Needs ray[data] and torch.

    train_on_ray.py [--texts 20000]
"""

import argparse
import gzip
import os
import pathlib
import tempfile
import time
import zlib

import numpy as np
import pyarrow
import pyarrow.parquet
import ray
import ray.cluster_utils
import torch
import torch.distributed as dist
from torch import multiprocessing

import sab
import sab.ray
from wordnet import glosses

MANUALS, LICENCES = pathlib.Path("/usr/share/man"), pathlib.Path("/usr/share/common-licenses")
KINDS, WORDS, LONGEST, CAPACITY = 3, 8192, 1024, 4096


def read_texts(most):
    """(text, kind) of at most so many texts of each kind; of licences, their paragraphs."""
    pages = sorted(MANUALS.glob("man*/*.gz"))[:most]
    found = [
        [gloss for gloss, _ in glosses()[:most]],
        [gzip.decompress(page.read_bytes()).decode(errors="replace") for page in pages],
        [text for file in sorted(LICENCES.iterdir()) for text in file.read_text().split("\n\n")],
    ]
    return [(text, kind) for kind, texts in enumerate(found) for text in texts if text.split()]


def split(rows):
    """Runs on the cluster: numbers of the words in the place of each text."""
    words = [
        np.array([zlib.crc32(word.encode()) % WORDS for word in text.split()[:LONGEST]], np.int32)
        for text in rows.column("text").to_pylist()
    ]
    return rows.drop_columns(["text"]).append_column("words", pyarrow.array(words))


def count_words(rows):
    return [len(words) for words in rows.column("words")]


def write_rows(texts, folder):
    """Packs and writes an epoch on a cluster of three nodes. The mean number of texts of a row."""
    (folder / "texts").mkdir()
    for shard, part in enumerate(np.array_split(np.arange(len(texts)), 6)):
        columns = {"text": [texts[i][0] for i in part], "kind": [texts[i][1] for i in part]}
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"texts/{shard}.parquet")
    cluster = ray.cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    data = ray.data.read_parquet(str(folder / "texts"))
    data = data.map_batches(split, batch_format="pyarrow", batch_size=None)
    packing = sab.Packing(sab.ray.histogram(data, count_words), CAPACITY)
    written = sab.ray.write_batches(data, packing, folder / "rows", size=count_words)
    print(f"{written['samples']:,} texts on {len(ray.nodes())} nodes")
    print(f"{written['batch_count']:,} rows, at least {packing.info.lower_bound:,}")
    ray.shutdown()
    cluster.shutdown()
    return written["samples"] / written["batch_count"]


def train(rank, world_size, folder, mean_texts):
    """A rank: takes its rows from the last checkpoint on, and saves one after each step."""
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting-{world_size}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world_size)
    data = sab.BatchDataset(folder / "rows")  # rank and world size are those of torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.EmbeddingBag(WORDS, 32), torch.nn.Linear(32, KINDS))
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    # texts that were seen, and those that the model told right; then the same of the present step
    counts = torch.zeros(2, 2, dtype=torch.int64)
    checkpoint = folder / "checkpoint"
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        data.load_state_dict(saved["data"])
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        counts[0] = saved["counts"]
    for row in data:
        words = torch.as_tensor(np.concatenate(row["words"]))
        kinds = torch.tensor(row["kind"])
        starts = torch.as_tensor(row["cu_seqlens"][:-1])
        output = model[1](model[0](words, starts))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(output, kinds, reduction="sum")
        (loss / mean_texts).backward()  # each text counts the same
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size
        optimizer.step()
        counts[1] = torch.tensor([len(kinds), int((output.argmax(1) == kinds).sum())])
        dist.all_reduce(counts[1])
        counts[0] += counts[1]
        if rank == 0:
            parts = {"model": model, "optimizer": optimizer, "data": data}
            saved = {name: part.state_dict() for name, part in parts.items()}
            torch.save({**saved, "counts": counts[0].clone()}, folder / "partial")
            os.replace(folder / "partial", checkpoint)


def start(world_size, *given):
    return multiprocessing.start_processes(
        train, (world_size, *given), world_size, join=False, start_method="spawn"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--texts", type=int, default=20000, help="of each kind, at most")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        mean_texts = write_rows(read_texts(options.texts), folder)
        ranks = start(2, folder, mean_texts)
        while not (folder / "checkpoint").exists():
            time.sleep(0.01)
        for process in ranks.processes:
            process.kill()
        for process in ranks.processes:
            process.join()
        taken = torch.load(folder / "checkpoint")["data"]["taken"]
        print(f"killed after {taken} rows on 2 ranks")
        start(1, folder, mean_texts).join()
        saved = torch.load(folder / "checkpoint")
        seen, right = saved["counts"].tolist()
        print(f"{saved['data']['taken']:,} rows and {seen:,} texts were taken once")
        print(f"{100 * right / seen:.1f} % of the texts were told apart when they were taken")


if __name__ == "__main__":
    main()
