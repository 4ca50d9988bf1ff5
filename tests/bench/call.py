"""call.c from Python: the raw call (`python`), Sampler.batches() (`python-batches`), and iterating,
which gives indices alone (`python-indices`)."""

import time

import numpy as np

import sab
from sab._native import ffi, lib

CALLS, PASSES = 2_000, 200


def best_of(run, sampler):
    best = float("inf")
    for _ in range(PASSES):
        sampler.set_epoch(0)
        began = time.perf_counter()
        total = run()
        best = min(best, time.perf_counter() - began)
        assert total == CALLS * (CALLS - 1) // 2
    return 1e9 * best / CALLS


def main():
    plan = sab.plan(np.ones(CALLS, np.uint8), budget=1)
    sampler = sab.SequentialSampler(plan)

    def raw():
        batch = ffi.new("sab_batch *")
        batch.struct_size = ffi.sizeof("sab_batch")
        handle, total, next_batch = sampler._handle, 0, lib.sab_next_batch
        while next_batch(handle, batch) == 0:
            total += batch.indices[0]
        return total

    def iterating():
        total = 0
        for indices in sampler:
            total += indices.item(0)
        return total

    def batches():
        total = 0
        for batch in sampler.batches():
            total += batch.indices.item(0)
        return total

    print(f"python {best_of(raw, sampler):.1f}")
    print(f"python-batches {best_of(batches, sampler):.1f}")
    print(f"python-indices {best_of(iterating, sampler):.1f}")


if __name__ == "__main__":
    main()
