"""What watching memory costs: a step of the example transformer alone, under each probe, and under a guard; least of several rounds that take turns.

python tests/bench/memory.py  (SAB_TORCH_LIBRARY must name the LibTorch component of this torch)
"""

import contextlib
import pathlib
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/python"))
from train_full import Trainer  # noqa: E402

import sab  # noqa: E402

COUNT, LENGTH, ROUNDS = 100, 20, 7
trainer = Trainer("cpu")
plan = sab.plan(np.full(10_000, LENGTH), budget=COUNT * LENGTH)


def alone():
    trainer.trial(COUNT, LENGTH)


@contextlib.contextmanager
def nothing():
    yield alone


@contextlib.contextmanager
def probed(**options):
    with sab.Probe("cpu", **options) as probe:

        def step():
            probe.reset()
            alone()
            probe.stats()

        yield step


@contextlib.contextmanager
def guarded():
    with sab.Probe("cpu", total_bytes=1 << 40) as probe, sab.MemoryGuard(sab.BucketSampler(plan), probe) as guard:
        yield lambda: guard.step((COUNT, LENGTH), lambda first, count, weight: alone())


systems = {"alone": nothing, "component's probe": lambda: probed(total_bytes=1 << 40), "guard": guarded, "torch's profiler": probed}
best = dict.fromkeys(systems, float("inf"))
for _ in range(ROUNDS):
    for name, system in systems.items():
        with system() as step:
            step()
            for _ in range(4):
                begin = time.perf_counter()
                step()
                best[name] = min(best[name], time.perf_counter() - begin)
print("| a step of 100 glosses of 20 words | ms | alone = 1 |\n|---|---:|---:|")
for name, seconds in best.items():
    print(f"| {name} | {1e3 * seconds:.2f} | {seconds / best['alone']:.3f} |")
