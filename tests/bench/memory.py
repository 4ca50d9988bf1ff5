"""What watching memory costs: a step of the example transformer alone, under each probe, and under
a guard; least of several rounds that take turns.

python tests/bench/memory.py  (SAB_TORCH_LIBRARY must name the LibTorch component of this torch)
"""

import contextlib
import os
import pathlib
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/python"))
import sab
from train_full import Trainer

COUNT, LENGTH, ROUNDS = 16, 13, 12
trainer = Trainer("cpu")
plan = sab.plan(np.full(10_000, LENGTH), budget=COUNT * LENGTH)


def alone():
    trainer.trial(COUNT, LENGTH)


@contextlib.contextmanager
def nothing():
    yield alone


@contextlib.contextmanager
def probed():
    with sab.Probe("cpu") as probe:

        def step():
            probe.reset()
            alone()
            probe.stats()

        yield step


@contextlib.contextmanager
def profiled():
    component = os.environ.pop("SAB_TORCH_LIBRARY")
    try:
        with probed() as step:
            yield step
    finally:
        os.environ["SAB_TORCH_LIBRARY"] = component


@contextlib.contextmanager
def guarded():
    with (
        sab.Probe("cpu", total_bytes=1 << 40) as probe,
        sab.MemoryGuard(sab.BucketSampler(plan), probe) as guard,
    ):
        yield lambda: guard.step((COUNT, LENGTH), lambda first, count, weight: alone())


systems = {
    "alone": nothing,
    "component's probe": probed,
    "guard": guarded,
    "torch's profiler": profiled,
}
best = dict.fromkeys(systems, float("inf"))
for _ in range(ROUNDS):
    for name, system in systems.items():
        with system() as step:
            step()
            for _ in range(8):
                begin = time.perf_counter()
                step()
                best[name] = min(best[name], time.perf_counter() - begin)
print("| a step of 16 glosses of 13 words | ms | alone = 1 |\n|---|---:|---:|")
for name, seconds in best.items():
    print(f"| {name} | {1e3 * seconds:.2f} | {seconds / best['alone']:.3f} |")
