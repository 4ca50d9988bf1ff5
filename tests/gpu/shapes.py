"""JAX: at most K compiled shapes, and peaks by its allocator."""

from __future__ import annotations

import os
import time
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch is in this process, too

import numpy as np

import sab
from common import Part, percent
from workloads import SOURCE, lengths

WORDS = 64


class Network:
    """A step that is compiled once for each shape."""

    def __init__(self, jax: Any, width: int) -> None:
        self.jax = jax
        self.compiled: list[tuple[int, ...]] = []
        keys = jax.random.split(jax.random.key(0))
        self.weights = {
            "words": jax.random.normal(keys[0], (WORDS, width)) / 8,
            "hidden": jax.random.normal(keys[1], (width, width)) / width**0.5,
        }
        self.step = jax.jit(self._step)

    def _step(self, weights: Any, words: Any) -> Any:
        self.compiled.append(words.shape)  # Python runs this only when the step is compiled
        jnp = self.jax.numpy

        def loss(weights: Any) -> Any:
            hidden = jnp.tanh(weights["words"][words] @ weights["hidden"])
            scores = jnp.where((words > 0)[..., None], hidden, -jnp.inf).max(1)
            return (scores**2).mean()

        value, slopes = self.jax.value_and_grad(loss)(weights)
        weights = self.jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, slopes)
        return weights, value


class StandInDevice:
    """Jax's CPU has no statistics of its memory: bytes are those of all arrays."""

    def __init__(self, jax: Any) -> None:
        self.jax, self.peak = jax, 0

    def memory_stats(self) -> dict[str, int]:
        held = sum(array.nbytes for array in self.jax.live_arrays())
        self.peak = max(self.peak, held)
        return {"bytes_in_use": held, "peak_bytes_in_use": self.peak}


def train(part: Part, jax: Any, network: Network, shapes: int | None) -> list[Any]:
    """Epochs of a plan, padded to the plan's lengths."""
    sizes = lengths("glosses", part.size(60_000, 60), 82)
    plan = sab.plan(sizes, budget=part.size(16384, 128), max_shapes=shapes)
    sampler = sab.BucketSampler(plan, seed=0)
    seen = len(network.compiled)
    random = np.random.default_rng(0)
    steps, begin = 0, time.perf_counter()
    for batch in sampler.batches():
        words = random.integers(1, WORDS, (batch.count, int(batch.padded_length)), np.int32)
        words *= np.arange(words.shape[1]) < sizes[batch.indices][:, None]
        network.weights, value = network.step(network.weights, words)
        steps += 1
        if steps % 16 == 0 and part.time_left(0.8) < 0:
            part.leave_out(f"steps after {steps} of {len(sampler)}")
            break
    jax.block_until_ready(value)
    seconds = time.perf_counter() - begin
    compiled = len(network.compiled) - seen
    return [shapes or "any", steps, compiled, percent(plan.report().padding), f"{seconds:.1f}"]


def peaks(part: Part, jax: Any, width: int) -> None:
    """Peaks of steps in ascending order of size, since jax's have no reset."""
    device = jax.local_devices()[0]
    if not device.memory_stats():
        part.leave_out(f"peaks: jax has no memory statistics of {device}")
        return
    network = Network(jax, width)
    counts = part.size([16, 64, 256, 1024, 4096], [2, 4])
    rows: list[list[Any]] = []
    hidden: list[bool] = []  # whether the peak has room for the hidden layer, which backward needs
    with sab.Probe("jax:0") as probe:
        for count in counts:
            words = np.ones((count, 64), np.int32)
            jax.block_until_ready(network.step(network.weights, words))
            ours = probe.stats().peak
            theirs = int(device.memory_stats()["peak_bytes_in_use"])
            rows.append([count, f"{ours:,}", f"{theirs:,}", ours == theirs])
            hidden.append(ours >= words.size * width * 4)
    equal = sum(row[-1] for row in rows)
    part.table("Peaks of steps", ("samples of 64", "sab.Probe", "jax's allocator", "equal"), rows)
    met = equal == len(rows)
    part.figure(
        "peaks equal", f"{len(rows)} of {len(rows)}", f"{equal} of {len(rows)}", met, exact=True
    )
    part.figure("peaks hold the hidden layer", "all", f"{sum(hidden)}", all(hidden))


def main() -> None:
    with Part("jax", 70) as part:
        try:
            import jax
        except ImportError as error:
            part.leave_out(f"all: {error}")
            return
        if part.dry_run:
            stand_in = StandInDevice(jax)
            jax.local_devices = lambda: [stand_in]
        elif {device.platform for device in jax.local_devices()} == {"cpu"}:
            part.leave_out("all: this jax sees no GPU")
            return
        width = part.size(256, 8)
        with part.attempt("peaks"):
            peaks(part, jax, width)
        shapes = part.size(8, 2)
        rows = [train(part, jax, Network(jax, width), shapes)]
        compiled = rows[0][2]
        met = compiled <= shapes
        part.figure("shapes compiled", f"at most {shapes}", compiled, met, exact=True)
        if not part.is_over(0.5, "a plan without max_shapes"):
            rows.append(train(part, jax, Network(jax, width), None))
        columns = ("shapes", "steps", "compiled", "padding", "seconds")
        part.table(f"Glosses: {SOURCE}", columns, rows)


if __name__ == "__main__":
    main()
