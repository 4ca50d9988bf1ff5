"""Steps of optimizers over 1,000 small parameters: torch's plain, foreach and fused ones, and
sab.torch.fuse_optimizer. One thread; least of interleaved rounds. fused.py [PARAMETERS]
[ELEMENTS]"""

import contextlib
import sys
import time

import torch

from sab.torch import fuse_optimizer

ROUNDS = 25
OURS = "libsab, new gradients (set_to_none=True)"


def synchronize():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Contender:
    def __init__(self, kind, options, shape, fuse=False, fresh=False):
        count, elements, device = shape
        self.params = [
            torch.nn.Parameter(torch.randn(elements, device=device)) for _ in range(count)
        ]
        self.fresh, self.best = fresh, float("inf")
        self.optimizer = kind(self.params, **options)
        if fuse:
            fuse_optimizer(self.optimizer, replace_step=True)

    def round(self):
        for param in self.params:
            if self.fresh or param.grad is None:
                param.grad = torch.randn_like(param)
        synchronize()
        begin = time.perf_counter()
        self.optimizer.step()
        synchronize()
        self.best = min(self.best, time.perf_counter() - begin)


def contenders(kind, options, shape):
    def make(*more, **rest):
        return Contender(kind, {**options, **dict(more)}, shape, **rest)

    yield "torch, foreach=False (its default on a CPU)", make(("foreach", False))
    yield "torch, foreach=True", make(("foreach", True))
    with contextlib.suppress(RuntimeError, TypeError):  # older versions have none for a CPU
        yield "torch, fused=True", make(("fused", True))
    yield "libsab, gradients kept (set_to_none=False)", make(fuse=True)
    yield OURS, make(fuse=True, fresh=True)


def compare(count, elements, rounds, device="cpu"):
    """Seconds of a step: {"SGD, momentum": {contender: seconds}, "Adam": ...}."""
    tables = {}
    for name, kind, options in (
        ("SGD, momentum", torch.optim.SGD, dict(lr=0.1, momentum=0.9)),
        ("Adam", torch.optim.Adam, {}),
    ):
        rows = dict(contenders(kind, options, (count, elements, device)))
        for _ in range(rounds):
            for each in rows.values():
                each.round()
        tables[name] = {contender: each.best for contender, each in rows.items()}
    return tables


def main():
    count, elements = [int(each) for each in sys.argv[1:3] + ["1000", "32"][len(sys.argv) - 1 :]]
    torch.set_num_threads(1)
    tables = compare(count, elements, ROUNDS)
    print(
        f"| a step of {count:,} parameters of {elements:,}, torch {torch.__version__}, ms (times "
        f"as long) | {' | '.join(tables)} |"
    )
    print("|---|---:|---:|")
    for name in next(iter(tables.values())):
        cells = [
            f"{each[name] * 1e3:.2f} ({each[name] / each[OURS]:.1f})" for each in tables.values()
        ]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
