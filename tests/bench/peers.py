"""One shuffled epoch by libsab and by its peers on the same lengths: peers.py LENGTHS.npy [--json].

Peers that are not installed are left out; fairseq's Cython module is looked for as
`data_utils_fast` (its one .pyx file, compiled). Every time is the least of several rounds in which
the systems take turns. Batches are numpy arrays where the peer gives them.
"""

import argparse
import collections
import importlib
import importlib.util
import json
import math
import time
import warnings

import numpy as np

import sab

BUDGET = 16384
BIONEMO, COMPAT = "bionemo.size_aware_batching.sampler", "sab.compat.bionemo.sampler"


def quantile_edges(sizes, count=30):
    edges = np.unique(np.quantile(sizes, np.linspace(0, 1, count + 1), method="higher"))
    edges[-1] += 1
    return edges


def libsab(sizes):
    sampler = sab.BucketSampler(sab.plan(sizes, BUDGET))
    return lambda: iter(sampler)


def fairseq(sizes):
    from data_utils_fast import batch_by_size_vec

    order = np.argsort(sizes, kind="stable")
    ordered = sizes[order].astype(np.int64)
    return lambda: batch_by_size_vec(order, ordered, BUDGET, -1, 1)


def bucket_batch_sampler(module, base):
    """BucketBatchSampler of `module`: with `base` "BatchSampler", batches of budget // edge; with
    "80", of 80, which keeps to the budget as far as twice the mean; with "SizeAware", filled up to
    the budget, an element costing its bucket's edge, so that the padded batch keeps to it."""

    def make(sizes):
        import torch

        sampler = importlib.import_module(module)
        edges = quantile_edges(sizes)
        if base == "BatchSampler":
            base_class, shared = torch.utils.data.BatchSampler, {"drop_last": False}
            individual = {"batch_size": [int(BUDGET // (edge - 1)) for edge in edges[1:]]}
        elif base == "80":
            base_class, shared, individual = (
                torch.utils.data.BatchSampler,
                {"drop_last": False, "batch_size": 80},
                {},
            )
        else:
            costs = (edges[np.searchsorted(edges, sizes, side="right")] - 1).tolist()
            base_class, individual = sampler.SizeAwareBatchSampler, {}
            shared = {"sizeof": lambda index: costs[index], "max_total_size": BUDGET}
        made = sampler.BucketBatchSampler(
            torch.from_numpy(sizes),
            torch.from_numpy(edges.astype(np.int64)),
            base_class,
            shared,
            individual,
            generator=torch.Generator().manual_seed(0),
        )
        return lambda: iter(made)

    return make


def infinibatch(sizes):
    from infinibatch.iterators import BucketedReadaheadBatchIterator, NativeCheckpointableIterator

    def run():
        source = NativeCheckpointableIterator(
            np.random.default_rng(0).permutation(len(sizes)).tolist()
        )
        length = sizes.tolist().__getitem__
        return BucketedReadaheadBatchIterator(
            source,
            read_ahead=10_000,
            key=length,
            batch_size=lambda longest: max(1, BUDGET // length(longest)),
            shuffle=True,
            seed=0,
        )

    return run


def transformers(sizes):
    from transformers.trainer_pt_utils import LengthGroupedSampler

    lengths = sizes.tolist()

    def run():
        order = list(LengthGroupedSampler(160, lengths=lengths))
        return [order[i : i + 160] for i in range(0, len(order), 160)]

    return run


SYSTEMS = [
    ("libsab", libsab, None),
    ("fairseq batch_by_size, sorted before, unshuffled", fairseq, "data_utils_fast"),
    (
        "bionemo BucketBatchSampler of SizeAwareBatchSampler, 30 quantile buckets",
        bucket_batch_sampler(BIONEMO, "SizeAware"),
        "bionemo",
    ),
    ("the same by sab.compat.bionemo", bucket_batch_sampler(COMPAT, "SizeAware"), "torch"),
    (
        "bionemo BucketBatchSampler of BatchSampler, 80 a batch, 30 quantile buckets",
        bucket_batch_sampler(BIONEMO, "80"),
        "bionemo",
    ),
    (
        "bionemo BucketBatchSampler of BatchSampler, 30 quantile buckets",
        bucket_batch_sampler(BIONEMO, "BatchSampler"),
        "bionemo",
    ),
    ("the latter by sab.compat.bionemo", bucket_batch_sampler(COMPAT, "BatchSampler"), "torch"),
    ("infinibatch, read-ahead 10,000", infinibatch, "infinibatch"),
    ("transformers LengthGroupedSampler, 160 a batch", transformers, "transformers"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lengths")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes = np.load(options.lengths)
    bound = math.ceil(int(sizes.sum(dtype=np.int64)) / BUDGET)

    runs = {}
    for name, make, module in SYSTEMS:
        if module is not None and importlib.util.find_spec(module) is None:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                runs[name] = make(sizes)
        except ImportError:
            continue
    least = {}
    for round_number in range(9):
        for name, run in runs.items():
            if least.get(name, 0) > 1 and round_number > 1:
                continue  # seconds a round: twice will do
            start = time.perf_counter()
            collections.deque(run(), maxlen=0)  # batches are used and let go, as in training
            least[name] = min(least.get(name, math.inf), time.perf_counter() - start)

    rows = []
    for name, run in runs.items():
        made = list(run())
        padded = sum(len(batch) * int(sizes[batch].max()) for batch in made)
        rows.append(
            {
                "system": name,
                "million samples a second": len(sizes) / least[name] / 1e6,
                "times libsab's seconds": least[name] / least["libsab"],
                "padding %": 100 * (1 - int(sizes.sum(dtype=np.int64)) / padded),
                "batches over the lower bound": len(made) / bound,
            }
        )
    if options.json:
        print("\n".join(map(json.dumps, rows)))
        return
    print("| system | million samples/s | time, libsab = 1 | padding | batches / lower bound |")
    print("|---|---:|---:|---:|---:|")
    for row in rows:
        name, speed, ratio, padding, over = row.values()
        print(f"| {name} | {speed:,.2f} | {ratio:,.1f} | {padding:.2f} % | {over:.3f} |")


if __name__ == "__main__":
    main()
