"""Runs the Python, C and Rust blocks of README.md: docs/readme.py

The Python blocks run one after the other in one namespace. Before a block runs, names that it takes for granted are made, and what this machine may lack (a GPU, Redis servers, the time for an endless stream) is replaced.
Each block must be named here, by text that is in it, so that none goes unrun. The C++ block needs minutes of LibTorch's headers: examples/cpp/groups.cpp stands for it.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
SETUP = """
import numpy as np, torch, sab, sab.torch_optim
from torch.utils.data import DataLoader
"""
# Text that is in the block; what runs before it; what is replaced in it.
BLOCKS = [
    ("plan = sab.plan(sizes, budget=4096)", "", {}),
    (
        "sab.MemoryModel.learn",
        """
layer = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
device = sab.Probe("cpu", total_bytes=8 << 20)
def train(count, length):
    optimizer.zero_grad()
    layer(torch.rand(int(count), int(length), 16)).sum().backward()
run = lambda batch: train(batch.count, batch.padded_length)
""",
        {"def step(count, length): ...": "def step(count, length): train(count, length)", '"cuda:0"': "device", "60 << 30": "4 << 20"},
    ),
    ("sab.PackedSampler(sizes", "rank = 0", {}),
    ("sab.BalancedSampler(sizes", "loss_sum = lambda indices: 1.0", {}),
    ("sab.find_thresholds(lengths", "lengths = sizes; batch = sizes[:256]; lengths_of_batch = batch; model = lambda values: 2 * values", {}),
    (
        "sab.Collection(samples, signature",
        """
samples = [{"protein": {"x": torch.rand(n, 4), "rotation": torch.rand(n, 3, 3)}, "ligand": torch.rand(5 + n // 8, 4)} for n in (60, 130, 300, 90)]
model = lambda group, mask: group["protein"]["x"] @ group["ligand"].transpose(1, 2)
other_grouping = sab.Grouping.uni(4)
""",
        {},
    ),
    (
        "sab.Stream.from_files(names",
        """
collate = len
names = ["a.txt", "b.txt"]
for name in names:
    open(name, "w").write("a line\\n" * 1000)
""",
        {"for batch in batches: ...": "batch = next(batches)"},
    ),
    ("sab.torch_optim.fuse_optimizer", "model = torch.nn.Linear(4, 4); model(torch.rand(2, 4)).sum().backward()", {}),
    ("sab.CachedDataset(dataset", "dataset = [1, 2, 3]; index = 1; preprocess = lambda sample: 2 * sample", {"redis://:password@node0,node1:7000": "memory:"}),
]


C_PROGRAM = """
#include <stdio.h>
#include <sab.h>
static unsigned long trained;
static void train(const int64_t *indices, uint64_t count, double length) { trained += indices != NULL && length > 0 ? count : 0; }
int main(void) {
%s
return trained == 10 ? 0 : 1;
}
"""


def blocks_of(language):
    return re.findall(rf"```{language}\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.S)


def run_python():
    blocks = blocks_of("python")
    if len(blocks) != len(BLOCKS):
        sys.exit(f"README.md has {len(blocks)} Python blocks, readme.py knows {len(BLOCKS)}")
    namespace = {}
    exec(SETUP, namespace)
    for block, (text, before, replaced) in zip(blocks, BLOCKS):
        for old in [text, *replaced]:
            if old not in block:
                sys.exit(f"README.md: {old!r} is not in the block where readme.py looks for it:\n{block}")
        for old, new in replaced.items():
            block = block.replace(old, new)
        exec(before, namespace)
        exec(compile(block, f"README.md: {text}", "exec"), namespace)
    return len(blocks)


def run_c():
    (block,) = blocks_of("c")
    pathlib.Path("readme.c").write_text(C_PROGRAM % block)
    subprocess.run("cc -std=c11 -Wall -Werror readme.c -o readme $(pkg-config --cflags --libs sab) && ./readme", shell=True, check=True)
    return 1


def run_rust():
    (block,) = blocks_of("rust")
    crate = REPOSITORY / "docs/code/rust"
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy(crate / name, name)
    manifest = pathlib.Path("Cargo.toml")
    manifest.write_text(manifest.read_text().replace("../../..", str(REPOSITORY)))
    pathlib.Path("src/bin").mkdir(parents=True)
    pathlib.Path("src/bin/readme.rs").write_text(block)
    subprocess.run(["cargo", "run", "--quiet", "--locked", "--bin", "readme"], check=True)
    return 1


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        passed = run_python() + run_c() + run_rust()
        os.chdir("/")
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
