"""What a batch costs in Python beyond its cost in C: python_batch.py [SIZES.npy].

Rows are budgets; columns are microseconds a batch, the minimum of several interleaved passes over a
shuffled epoch: the C calls alone (sab_next_batch, and sab_sampler_next_batches by 64), iterating a
sampler (numpy, list), and Sampler.batches(), which builds a record of each batch.
"""

import sys
import time

import numpy as np

import sab
from sab._native import ffi, lib
from sab._samplers import BLOCK

ROOM = 1 << 20


def passes(sampler, lists):
    batch = ffi.new("sab_batch *")
    batch.struct_size = ffi.sizeof("sab_batch")
    indices, offsets, count = (
        ffi.new("int64_t[]", ROOM),
        ffi.new("uint64_t[]", BLOCK + 1),
        ffi.new("size_t *"),
    )

    def one_by_one():
        while lib.sab_next_batch(sampler._handle, batch) == lib.SAB_OK:
            pass

    def in_blocks():
        while (
            lib.sab_sampler_next_batches(sampler._handle, BLOCK, indices, ROOM, offsets, count)
            == lib.SAB_OK
        ):
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

    return {
        "C, one": one_by_one,
        "C, blocks": in_blocks,
        "numpy": numpy,
        "list": as_lists,
        "batches()": records,
    }


def main():
    if len(sys.argv) > 1:
        sizes = np.load(sys.argv[1])
    else:
        sizes = np.clip(np.random.default_rng(0).lognormal(4.3, 0.9, 1_164_464), 1, 2000).astype(
            np.int32
        )
    ways = ("C, one", "C, blocks", "numpy", "list", "batches()")
    names = "".join(f"{name:>12}" for name in ways)
    print(
        f"{'budget':>8}{'batches':>10}{'samples/batch':>15}{names}"
        f"{'numpy - C':>12}{'samples/s':>14}"
    )
    for budget in (2048, 4096, 16384, 65536):
        plan = sab.plan(sizes, budget=budget, oversize="single")
        # Without the totals of a step, so that both sides of the comparison do the same work.
        sampler, lists = (
            sab.BucketSampler(plan),
            sab.BucketSampler(plan, output="list"),
        )
        best = {}
        for _ in range(5):
            for name, run in passes(sampler, lists).items():
                sampler.set_epoch(1)
                lists.set_epoch(1)
                began = time.perf_counter()
                run()
                best[name] = min(best.get(name, float("inf")), time.perf_counter() - began)
        row = "".join(f"{1e6 * seconds / len(sampler):>12.2f}" for seconds in best.values())
        beyond = 1e6 * (best["numpy"] - best["C, one"]) / len(sampler)
        print(
            f"{budget:>8}{len(sampler):>10,}{len(sizes) / len(sampler):>15.1f}{row}"
            f"{beyond:>12.2f}{len(sizes) / best['numpy']:>14,.0f}"
        )


if __name__ == "__main__":
    main()
