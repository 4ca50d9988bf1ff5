"""What a batch costs in Python beyond its cost in C: python_batch.py [SIZES.npy].

Rows are budgets; columns are microseconds a batch, the minimum of several interleaved passes over a
shuffled epoch: the C calls alone (sab_next_batch, and sab_next_block by 64), iterating a
sampler (numpy, list), Sampler.batches(), which builds a record of each batch, and Sampler.blocks().
"beyond" is what batches() takes beyond numpy: at most 1 is the aim. The last table is of packed
rows, whose records have cumulative lengths, too.
"""

import sys
import time

import numpy as np

import sab
from sab._native import ffi, lib
from sab._random_access import BLOCK

WAYS = ("C, one", "C, blocks", "numpy", "list", "batches()", "blocks()")


def passes(sampler, lists):
    batch = ffi.new("sab_batch *")
    batch.struct_size = ffi.sizeof("sab_batch")
    block = ffi.new("sab_block *")
    block.struct_size = ffi.sizeof("sab_block")

    def one_by_one():
        while lib.sab_next_batch(sampler._handle, batch) == lib.SAB_OK:
            pass

    def in_blocks():
        while lib.sab_next_block(sampler._handle, BLOCK, block) == lib.SAB_OK:
            pass

    def numpy():
        for _ in sampler:
            pass

    def as_lists():
        for _ in lists:
            pass

    def records():
        for _ in sampler.batches():
            pass

    def blocks():
        for _ in sampler.blocks():
            pass

    return {
        "C, one": one_by_one,
        "C, blocks": in_blocks,
        "numpy": numpy,
        "list": as_lists,
        "batches()": records,
        "blocks()": blocks,
    }


def table(title, sizes, make):
    names = "".join(f"{name:>12}" for name in (*WAYS, "beyond"))
    print(f"{title:>12}{'batches':>10}{'samples/batch':>15}{names}{'samples/s':>14}")
    for most in (2048, 4096, 16384, 65536):
        sampler, lists = make(most, "numpy"), make(most, "list")
        best = {}
        for _ in range(5):
            for name, run in passes(sampler, lists).items():
                sampler.set_epoch(1)
                lists.set_epoch(1)
                began = time.perf_counter()
                run()
                spent = 1e6 * (time.perf_counter() - began) / len(sampler)
                best[name] = min(best.get(name, spent), spent)
        best["beyond"] = best["batches()"] - best["numpy"]
        row = "".join(f"{spent:>12.2f}" for spent in best.values())
        print(
            f"{most:>12}{len(sampler):>10,}{len(sizes) / len(sampler):>15.1f}{row}"
            f"{1e6 * len(sizes) / len(sampler) / best['numpy']:>14,.0f}"
        )


def main():
    if len(sys.argv) > 1:
        sizes = np.load(sys.argv[1])
    else:
        sizes = np.clip(np.random.default_rng(0).lognormal(4.3, 0.9, 1_164_464), 1, 2000).astype(
            np.int32
        )

    def buckets(budget, output):
        plan = sab.plan(sizes, budget=budget, oversize="single")
        return sab.BucketSampler(plan, output=output)

    def rows(capacity, output):
        return sab.PackedSampler(sizes, capacity=capacity, output=output)

    table("budget", sizes, buckets)
    table("capacity", sizes, rows)


if __name__ == "__main__":
    main()
