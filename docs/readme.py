"""Runs the blocks of README.md and of the READMEs of the Python and Julia packages: docs/readme.py

The Python blocks run one after the other in one namespace. Before a block runs, names that it takes
for granted are made, and what this machine may lack (a GPU, Redis servers, the time for an endless
stream) is replaced. Each block must be named here, by text that is in it, so that none goes unrun.
Blocks of Rust's own READMEs are doctests of the crates. Commands that install something stand in
indented blocks and in COMMANDS, with what runs them in CI.
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
import numpy as np, torch, sab, sab.torch
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
        {
            "def step(count, length): ...": "def step(count, length): train(count, length)",
            '"cuda:0"': "device",
            "60 << 30": "4 << 20",
        },
    ),
    ("sab.PackedSampler(sizes", "rank = 0", {}),
    ("sab.BalancedSampler(", "loss_sum = lambda indices: 1.0", {}),
    (
        "sab.find_thresholds(lengths",
        "lengths = sizes; batch = sizes[:256]; lengths_of_batch = batch; model = lambda values: 2 "
        "* values",
        {},
    ),
    (
        "sab.Collection(samples, signature",
        """
def complex_of(n):
    protein = {"x": torch.rand(n, 4), "rotation": torch.rand(n, 3, 3)}
    return {"protein": protein, "ligand": torch.rand(5 + n // 8, 4)}
samples = [complex_of(n) for n in (60, 130, 300, 90)]
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
        {"for batch in batches:\n    ...": "batch = next(batches)"},
    ),
    (
        "sab.torch.fuse_optimizer",
        "model = torch.nn.Linear(4, 4); model(torch.rand(2, 4)).sum().backward()",
        {},
    ),
    (
        "sab.CachedDataset(",
        "dataset = [1, 2, 3]; index = 1; preprocess = lambda sample: 2 * sample",
        {"redis://:password@node0,node1:7000": "memory:"},
    ),
]
# of the Python package's README
PYTHON_BLOCKS: list[tuple[str, str, dict[str, str]]] = [("import numpy as np, sab", "", {})]

# Commands in indented blocks, by their first word, and what runs them.
COMMANDS = {
    "./demo.sh": "the quickstart's command_line.sh and install_python.sh run what it runs, but "
    "for the training",
    "./test.sh": "runs this",
    "cmake": "test.sh builds both LibTorch components with these options",
    "julia>": "needs Julia's registry of packages; tests/julia/run.sh and first.jl load the "
    "package by its folder",
}

C_PROGRAM = """
#include <stdio.h>
#include <sab.h>
static unsigned long trained;
static void train(const int64_t *indices, uint64_t count, double length) {
    trained += indices != NULL && length > 0 ? count : 0;
}
int main(void) {
%s
return trained == 10 ? 0 : 1;
}
"""


CPP_PROGRAM = """
#include <ATen/Functions.h>
#include <sab/torch.hpp>
int main() {
    if (sab_torch_open(nullptr) != SAB_OK) return 2;
    std::vector<at::Tensor> sentences;
    for (const int64_t length : {3, 60, 20, 100})
        sentences.push_back(at::ones({length}, at::kLong));
    const auto model = [](const c10::IValue& tokens, const at::Tensor& mask) {
        return at::mul(tokens.toTensor(), mask).sum(1);
    };
%s
    return in_order[3].item<int64_t>() == 100 ? 0 : 1;
}
"""
JULIA_SETUP = """\
lengths = rand(1:200, 10_000); data = lengths
train(samples, length) = @assert maximum(samples) <= length
"""
JULIA = (
    "JULIA_DEPOT_PATH=$PWD JULIA_LOAD_PATH=@:@stdlib julia --startup-file=no "
    "--project={repository}/bindings/julia readme.jl"
)


def blocks_of(language, page="README.md"):
    return re.findall(rf"```{language}\n(.*?)```", (REPOSITORY / page).read_text(), re.S)


def check_all_are_known():
    """Ends where a page has a block of another language, or a command in an indented block, that
    nothing here runs."""
    known = {
        "README.md": {"python", "c", "cpp", "rust", "julia"},
        "bindings/python/README.md": {"python"},
        "bindings/julia/README.md": {"julia"},
    }
    for page, languages in known.items():
        text = (REPOSITORY / page).read_text()
        others = set(re.findall(r"^```(\w+)", text, re.M)) - languages
        text = re.sub(r"```.*?```", "", text, flags=re.S)
        unrun = {
            line
            for line in re.findall(r"^ {4}(\S+.*)$", text, re.M)
            if re.match(r"[.\w]*/|[a-z]+>|(cmake|pip|cargo|apt|sudo|python3?) ", line)
        }
        unrun = {line for line in unrun if line.split()[0] not in COMMANDS}
        if others or unrun:
            sys.exit(f"{page}: nothing runs {', '.join(others | unrun)}")


def run_python(page, known):
    blocks = blocks_of("python", page)
    if len(blocks) != len(known):
        sys.exit(f"{page} has {len(blocks)} Python blocks, readme.py knows {len(known)}")
    namespace = {}
    exec(SETUP, namespace)
    for block, (text, before, replaced) in zip(blocks, known):
        for old in [text, *replaced]:
            if old not in block:
                sys.exit(
                    f"{page}: {old!r} is not in the block where readme.py looks for it:\n{block}"
                )
        for old, new in replaced.items():
            block = block.replace(old, new)
        exec(before, namespace)
        exec(compile(block, f"{page}: {text}", "exec"), namespace)
    return len(blocks)


def run_c():
    (block,) = blocks_of("c")
    pathlib.Path("readme.c").write_text(C_PROGRAM % block)
    subprocess.run(
        "cc -std=c11 -Wall -Werror readme.c -o readme $(pkg-config --cflags --libs sab) && "
        "./readme",
        shell=True,
        check=True,
    )
    return 1


def run_cpp():
    (block,) = blocks_of("cpp")
    pathlib.Path("readme.cpp").write_text(CPP_PROGRAM % block)
    libraries = "$(pkg-config --cflags --libs sab) -ltorch -ltorch_cpu -lc10"
    command = f"c++ -std=c++17 -Wall -Werror readme.cpp -o readme {libraries} && ./readme"
    subprocess.run(command, shell=True, check=True)
    return 1


def run_julia():
    if not shutil.which("julia") and os.environ.get("SAB_DOCS_PARTIAL") == "1":
        return 0
    blocks = [*blocks_of("julia"), *blocks_of("julia", "bindings/julia/README.md")]
    pathlib.Path("readme.jl").write_text(JULIA_SETUP + "\n".join(blocks))
    subprocess.run(
        JULIA.format(repository=REPOSITORY), shell=True, check=True, stdout=subprocess.DEVNULL
    )
    return len(blocks)


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
        check_all_are_known()
        passed = (
            run_python("README.md", BLOCKS)
            + run_python("bindings/python/README.md", PYTHON_BLOCKS)
            + run_c()
            + run_cpp()
            + run_rust()
            + run_julia()
        )
        os.chdir("/")
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
