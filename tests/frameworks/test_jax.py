"""`sab.jax.DataLoader` with jax: compilations, and several processes that run one program."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp

import sab
import sab.jax

RANDOM = np.random.default_rng(0)
SIZES = np.minimum(RANDOM.lognormal(2.5, 0.6, 3000).astype(int) + 1, 100)
DATASET = [{"words": RANDOM.integers(1, 30, size)} for size in SIZES]


@pytest.mark.parametrize("world_size", [1, 3])
def test_a_jitted_step_is_compiled_at_most_k_times(world_size):
    compiled = []

    @jax.jit
    def step(data):
        compiled.append(data["words"].shape)
        return (data["words"].sum(1) * data["weights"]).sum()

    plan = sab.plan(SIZES, budget=2048, max_shapes=6)
    total = 0.0
    for rank in range(world_size):
        sampler = sab.BucketSampler(plan, rank=rank, world_size=world_size)
        loader = sab.jax.DataLoader(DATASET, sampler, collate_fn=sab.jax.PadCollate({"words": 0}))
        total += sum(float(step(data)) for data in loader)
    assert 1 < len(compiled) <= 6
    assert total == sum(int(sample["words"].sum()) for sample in DATASET)


WORKER = """
import sys
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import sab, sab.jax

rank, world_size, port = map(int, sys.argv[1:])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"localhost:{port}", world_size, rank)
random = np.random.default_rng(0)
sizes = random.integers(1, 60, 600)
dataset = [{"words": random.integers(1, 30, size)} for size in sizes]
sampler = sab.BucketSampler(
    sab.plan(sizes, budget=2048, max_shapes=4, batch_size_multiple=jax.device_count())
)
loader = sab.jax.DataLoader(
    dataset,
    sampler,
    collate_fn=sab.jax.PadCollate({"words": 0}),
    rank=jax.process_index(),
    world_size=jax.process_count(),
)
sharding = NamedSharding(Mesh(jax.devices(), ("data",)), PartitionSpec("data"))
compiled = []

@jax.jit
def step(data):
    compiled.append(data["words"].shape)
    return (data["words"].sum(1) * data["weights"]).sum(), data["weights"].sum()

total = samples = 0
for data in loader:
    data = jax.tree.map(lambda own: jax.make_array_from_process_local_data(sharding, own), data)
    words, count = step(data)
    total, samples = total + int(words), samples + int(count)
assert len(compiled) <= 4, compiled
assert samples == 600 and total == sum(int(each["words"].sum()) for each in dataset)
print("all", samples)
"""


def test_processes_that_run_one_program():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(rank), "2", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    outputs = [worker.communicate(timeout=300) for worker in workers]
    for worker, (output, errors) in zip(workers, outputs):
        assert worker.returncode == 0 and output.endswith("all 600\n"), errors[-2000:]


def test_gradients_of_empty_rows_are_nothing():
    collate = sab.jax.PadCollate({"words": 0})
    sampler = sab.BucketSampler(sab.plan(SIZES, budget=2048, max_shapes=6))
    loader = sab.jax.DataLoader(DATASET, sampler, collate_fn=collate)

    @jax.jit
    def gradient(embedding, data):
        def loss(embedding):
            means = embedding[data["words"]].mean(1)
            return (means * data["weights"]).sum() / data["weights"].sum()

        return jax.grad(loss)(embedding)

    embedding = jnp.linspace(-1, 1, 30)
    compared = 0
    for data in loader:
        if data["weights"].all():
            continue
        real = {name: array[data["weights"] == 1] for name, array in data.items()}
        assert jnp.allclose(gradient(embedding, data), gradient(embedding, real), atol=1e-6)
        compared += 1
    assert compared > 0
