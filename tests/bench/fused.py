"""Steps of optimizers over 1,000 small parameters: torch's plain, foreach and fused ones, and
sab.torch.fuse_optimizer. One thread; least of interleaved rounds. fused.py [PARAMETERS]
[ELEMENTS]"""

import contextlib
import sys
import time

import torch

from sab.torch import fuse_optimizer

count, elements = [int(each) for each in sys.argv[1:3] + ["1000", "32"][len(sys.argv) - 1 :]]
torch.set_num_threads(1)
ROUNDS = 25


def make():
    return [torch.nn.Parameter(torch.randn(elements)) for _ in range(count)]


def set_gradients(params, fresh):
    for param in params:
        if fresh or param.grad is None:
            param.grad = torch.randn(elements)


class Contender:
    def __init__(self, kind, options, fuse=False, fresh=False):
        self.params, self.fresh, self.best = make(), fresh, float("inf")
        self.optimizer = kind(self.params, **options)
        if fuse:
            fuse_optimizer(self.optimizer, replace_step=True)

    def round(self):
        set_gradients(self.params, self.fresh)
        begin = time.perf_counter()
        self.optimizer.step()
        self.best = min(self.best, time.perf_counter() - begin)


def contenders(kind, options):
    yield (
        "torch, foreach=False (its default on a CPU)",
        Contender(kind, {**options, "foreach": False}),
    )
    yield "torch, foreach=True", Contender(kind, {**options, "foreach": True})
    with contextlib.suppress(RuntimeError, TypeError):  # older versions have none for a CPU
        yield "torch, fused=True", Contender(kind, {**options, "fused": True})
    yield "libsab, gradients kept (set_to_none=False)", Contender(kind, options, fuse=True)
    yield (
        "libsab, new gradients (set_to_none=True)",
        Contender(kind, options, fuse=True, fresh=True),
    )


tables = []
for kind, options in ((torch.optim.SGD, dict(lr=0.1, momentum=0.9)), (torch.optim.Adam, {})):
    rows = dict(contenders(kind, options))
    for _ in range(ROUNDS):
        for each in rows.values():
            each.round()
    tables.append({name: each.best for name, each in rows.items()})

print(
    f"| a step of {count:,} parameters of {elements:,}, torch {torch.__version__}, ms (times as "
    f"long) | SGD, momentum | Adam |"
)
print("|---|---:|---:|")
for name in tables[0]:
    print(
        f"| {name} |",
        " | ".join(
            f"{table[name] * 1e3:.2f} "
            f"({table[name] / table['libsab, new gradients (set_to_none=True)']:.1f})"
            for table in tables
        ),
        "|",
    )
