"""Runs every program of which the pages show a part, and keeps what it prints in generated/, where
pages may show it, too.

    docs/run.py [PART OF A NAME ...]

A program whose first lines say `needs: NAME, ...` fails where one of the names is neither a command
nor a module; so does one whose language is not there. With SAB_DOCS_PARTIAL=1 in the environment
these are skipped, and the pages say so. `flags: ...` are for the compiler, `arguments: ...` for the
program. Programs run in a folder of their own, with the commands of this Python's environment, and
must end with 0. PKG_CONFIG_PATH, LD_LIBRARY_PATH and SAB_LIBRARY must lead to libsab,
SAB_TORCH_LIBRARY to its LibTorch component. Pages may hold no other code: a block that is not shown
from a file is a failure, and so is output of a program that is not there.
"""

import argparse
import concurrent.futures
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

DOCS = pathlib.Path(__file__).resolve().parent
REPOSITORY = DOCS.parent
OUTPUT = DOCS / "generated"
FENCE = re.compile(r"^ *(`{3,}|:{3,}|~{3,})(\S*)[ ]*(.*)$")
ALLOWED = {
    "{toctree}",
    "{figure}",
    "{doxygenfile}",
    "{doxygenclass}",
    "{doxygenfunction}",
}  # blocks that hold no code
COMMANDS = {  # the tool, and what is run
    ".py": ("python3", "{python} {source}"),
    ".sh": ("bash", "bash -eu {source}"),
    ".c": (
        "cc",
        "cc -std=c11 -Wall -Werror -o program {source} $(pkg-config --cflags --libs sab) {flags} "
        "&& ./program",
    ),
    ".cpp": (
        "c++",
        "$CMAKE_CXX_COMPILER_LAUNCHER c++ -std=c++17 -Wall -Werror -c {source} -o program.o "
        "$(pkg-config --cflags sab) && c++ program.o -o program $(pkg-config --libs sab) {flags} "
        "&& ./program",
    ),
    ".rs": (
        "cargo",
        "cargo run --quiet --locked --manifest-path {crate}/Cargo.toml --bin {stem} -- {arguments}",
    ),
    ".jl": (
        "julia",
        "JULIA_DEPOT_PATH=$PWD JULIA_LOAD_PATH=@:@stdlib julia --startup-file=no "
        "--project={repository}/bindings/julia {source} {arguments}",
    ),
    ".lua": ("luajit", "cd {folder} && luajit {source}"),
    ".mjs": ("npm", "cd {folder} && npm ci --silent && node {source}"),
}


def read_pages():
    """Paths of the programs that are shown or whose output is, and complaints about blocks that
    nothing runs."""
    programs, outputs, complaints = set(), {}, []
    for page in sorted(DOCS.rglob("*.md")):
        if OUTPUT in page.parents:
            continue
        closing = None
        for number, line in enumerate(page.read_text().splitlines(), 1):
            fence = FENCE.match(line)
            if closing is not None:
                if fence and fence[1] == closing and not fence[2]:
                    closing = None
                continue
            if not fence:
                continue
            closing, directive = fence[1], fence[2]
            if directive == "{show}":
                file = (page.parent / fence[3].split()[0]).resolve()
                if OUTPUT in file.parents:
                    outputs[file.name.removesuffix(".txt")] = f"{page.relative_to(DOCS)}:{number}"
                else:
                    programs.add(file)
            elif directive not in ALLOWED:
                complaints.append(
                    f"{page.relative_to(DOCS)}:{number}: a block that nothing runs: show a part "
                    f"of a file"
                )
    for name in outputs.keys() - {program.name for program in programs}:
        found = list((DOCS / "code").rglob(name))
        programs.update(found)
        if len(found) != 1:
            complaints.append(
                f"{outputs[name]}: output of {name}, of which there are {len(found)} in code/"
            )
    return sorted(programs), complaints


def header(program):
    """What the first lines say: (needed names, flags for the compiler, arguments)."""
    first = program.read_text().splitlines()[:6]
    said = {
        key: " ".join(line.split(f"{key}:")[1].strip() for line in first if f"{key}:" in line)
        for key in ("needs", "flags", "arguments")
    }
    needs = [COMMANDS[program.suffix][0], *re.findall(r"[\w-]+", said["needs"])]
    return needs, said["flags"], said["arguments"]


def is_there(name):
    return shutil.which(name) is not None or importlib.util.find_spec(name) is not None


def run(program):
    """(exit status, seconds, its output, its errors)"""
    crate = next(
        (folder for folder in program.parents if (folder / "Cargo.toml").exists()), program.parent
    )
    _, flags, arguments = header(program)
    command = COMMANDS[program.suffix][1].format(
        source=program,
        folder=program.parent,
        crate=crate,
        stem=crate.name if program.name == "main.rs" else program.stem,
        flags=flags,
        arguments=arguments,
        python=sys.executable,
        repository=REPOSITORY,
    )
    environment = dict(
        os.environ,
        REPOSITORY=str(REPOSITORY),
        OMP_NUM_THREADS="1",
        PYTHONDONTWRITEBYTECODE="1",
        COLUMNS="100",
    )
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{environment['PATH']}"
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                ["bash", "-c", command],
                check=False,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=1200,
            )
        except subprocess.TimeoutExpired:
            return 1, time.monotonic() - start, "", "ran longer than 20 minutes"
    return done.returncode, time.monotonic() - start, done.stdout, done.stderr


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="*", help="run only programs whose path has it")
    options = parser.parse_args()
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    programs, complaints = read_pages()
    print("\n".join(complaints), end="\n" if complaints else "")
    passed, skipped, failed = 0, 0, len(complaints)
    chosen = []
    for program in programs:
        name = program.relative_to(REPOSITORY)
        if options.part and not any(part in str(name) for part in options.part):
            continue
        if (
            program.suffix not in COMMANDS or not program.exists()
        ):  # settings that a page shows, such as a CMakeLists.txt, are used by programs beside them
            if not program.exists():
                print(f"missing {name}")
                failed += 1
            continue
        absent = [need for need in header(program)[0] if not is_there(need)]
        if absent:
            partial = os.environ.get("SAB_DOCS_PARTIAL") == "1"
            print(f"{'skipped' if partial else 'failed '} {name}: needs {', '.join(absent)}")
            skipped, failed = skipped + partial, failed + (not partial)
            (OUTPUT / f"{program.name}.txt").unlink(missing_ok=True)
        else:
            chosen.append(program)
    OUTPUT.mkdir(exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for program, (status, seconds, output, errors) in zip(chosen, pool.map(run, chosen)):
            print(
                f"{'passed ' if status == 0 else 'failed '} {program.relative_to(REPOSITORY)}: "
                f"{seconds:.1f} s",
                flush=True,
            )
            passed, failed = passed + (status == 0), failed + (status != 0)
            if status:
                print(output[-3000:] + errors[-3000:])
            (OUTPUT / f"{program.name}.txt").write_text(output)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
