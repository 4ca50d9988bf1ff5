"""Native: the LibTorch component built against the torch that is installed, and its probe from C.

A program in C takes and drops tensors through libsab; Python does the same through torch. Then the
component's probe is opened in this process, over this process's torch. Where compute-sanitizer is
installed the program runs under it.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import time
from typing import Any

import numpy as np
import torch

import sab
from common import FOLDER, MIB, Part
from sab._native import check, ffi, lib, new_struct

Stats = tuple[int, int, int]  # bytes held, their peak, peak of the reserved bytes


def library_of_wheel() -> pathlib.Path | None:
    """libsab.so, as repaired wheels have it."""
    folder = pathlib.Path(sab.__file__).parents[1] / "libsab.libs"
    return next(iter(sorted(folder.glob("libsab-*.so*"))), None)


def built(part: Part, library: pathlib.Path) -> pathlib.Path | None:
    """The folder with the component and the program in C; None when the time is over."""
    root = pathlib.Path(torch.__file__).parent
    if not (root / "include" / "ATen").exists():
        root = pathlib.Path()  # Debian's: the system's headers
    folder = FOLDER.parents[1] / "build" / f"gpu-native-{torch.__version__}"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    options = [f"-DSAB_TORCH_ROOT={root if root.name else ''}", f"-DSAB_LIBRARY={library}"]
    # A dry run takes the component that SAB_TORCH_LIBRARY names.
    target = part.size([], ["--target", "native"])
    commands = [
        ["cmake", "-S", str(FOLDER / "native"), "-B", str(folder), *generator, *options],
        ["cmake", "--build", str(folder), "--parallel", str(os.cpu_count() or 1), *target],
    ]
    for command in commands:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=max(part.time_left(0.8), 1)
            )
        except subprocess.TimeoutExpired:
            part.leave_out("the component was not built in time")
            return None
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}:\n{(done.stdout + done.stderr)[-4000:]}")
    return folder


def steps_of(seed: int, count: int, most: int) -> list[int]:
    """Numbers as native.c takes them. First 0: the statistics before there is a tensor."""
    random = np.random.default_rng(seed)
    steps = [0]
    held = 0
    for _ in range(count):
        if held > 0 and random.random() < 0.4:
            steps.append(-int(random.integers(1, held + 1)))
            held -= 1
        else:
            steps.append(int(np.exp(random.uniform(0, np.log(most)))))
            held += 1
    return steps


def by_torch(device: torch.device, steps: list[int]) -> list[Stats]:
    """The same in Python, above what is held before."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    reserved = torch.cuda.memory_reserved()
    held: list[Any] = []
    found: list[Stats] = []
    for step in steps:
        if step > 0:
            held.append(torch.zeros(step, dtype=torch.int64, device=device))
        elif step < 0:
            held[-step - 1] = held[-1]
            held.pop()
        found.append(
            (
                torch.cuda.memory_allocated() - before,
                torch.cuda.max_memory_allocated() - before,
                torch.cuda.max_memory_reserved() - reserved,
            )
        )
    return found


def environment_of(library: pathlib.Path, component: str) -> dict[str, str]:
    """Where the program finds the component, its LibTorch, and what libsab links."""
    torchs = pathlib.Path(torch.__file__).parent / "lib"
    folders = [str(library.parent), str(torchs), os.environ.get("LD_LIBRARY_PATH", "")]
    return {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(filter(None, folders)),
        "SAB_TORCH_LIBRARY": component,
    }


def in_c(
    program: pathlib.Path, device: str, steps: list[int], environment: dict[str, str]
) -> list[Stats]:
    done = subprocess.run(
        [str(program), device, *map(str, steps)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{program}: {done.stderr.strip()}")
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]  # type: ignore


class Probe:
    """The component's probe over this process's torch: through the C interface, not by Python's
    devices."""

    def __init__(self, device: str) -> None:
        handle = ffi.new("sab_probe **")
        check(lib.sab_probe_new(device.encode(), ffi.NULL, handle))
        self.handle = ffi.gc(handle[0], lib.sab_probe_free)

    def read(self) -> Stats:
        stats = new_struct("sab_probe_stats")
        check(lib.sab_probe_get_stats(self.handle, stats))
        return int(stats.current), int(stats.peak), int(stats.reserved_peak)


def in_process(part: Part, device: str, programs: int) -> int:
    """Programs after which the component's probe and torch's statistics say the same."""
    probe = Probe(device)
    equal = 0
    for seed in range(programs):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        check(lib.sab_probe_reset(probe.handle))
        base, before = probe.read()[0], torch.cuda.memory_allocated()
        held = []
        for step in steps_of(1000 + seed, 40, part.size(MIB, 4096)):
            if step > 0:
                held.append(torch.zeros(step, dtype=torch.int64, device=part.device))
            elif step < 0:
                held.pop()
        current, peak, reserved = probe.read()
        same = current - base == torch.cuda.memory_allocated() - before
        same &= peak - base == torch.cuda.max_memory_allocated() - before
        if not part.dry_run:  # the stand-in caches nothing
            same &= reserved == torch.cuda.max_memory_reserved()
        equal += same
    return equal


def sanitized(
    part: Part, program: pathlib.Path, steps: list[int], environment: dict[str, str]
) -> None:
    tool = shutil.which("compute-sanitizer")
    if tool is None or part.dry_run:
        part.leave_out("compute-sanitizer: " + ("dry run" if tool else "not installed"))
        return
    try:
        done = subprocess.run(
            # Not errors of the CUDA calls by which LibTorch finds out what there is.
            [
                tool,
                "--report-api-errors=no",
                "--error-exitcode=9",
                str(program),
                "cuda:0",
                *map(str, steps[:50]),
            ],
            env=environment,
            capture_output=True,
            text=True,
            timeout=max(min(part.time_left(), 120), 1),
        )
    except subprocess.TimeoutExpired:
        part.leave_out("compute-sanitizer did not end in time")
        return
    told = [line for line in done.stdout.splitlines() if "ERROR SUMMARY" in line]
    if "not supported" in done.stdout or not told:
        part.leave_out("compute-sanitizer does not work here: " + done.stdout.strip()[-200:])
        return
    errors = told[-1].split("ERROR SUMMARY:")[-1].strip()
    part.figure("compute-sanitizer, memcheck", "0 errors", errors, done.returncode == 0)


def main() -> None:
    with Part("native", 130) as part:
        missing = [tool for tool in ("cmake", "c++") if shutil.which(tool) is None]
        library = library_of_wheel()
        if missing:
            part.leave_out(f"all: {' and '.join(missing)} not installed")
            return
        if library is None:
            part.leave_out("all: no libsab.so beside the Python package: install a repaired wheel")
            return
        begin = time.perf_counter()
        folder = built(part, library)
        if folder is None:
            return
        seconds = time.perf_counter() - begin
        component = os.environ.get("SAB_TORCH_LIBRARY", "")
        if not part.dry_run:
            component = str(next(folder.rglob("libsab_torch.so.0")))
        device = "cpu" if part.dry_run else "cuda:0"
        steps = steps_of(0, part.size(400, 60), part.size(MIB, 4096))
        environment = environment_of(library, component)
        found = in_c(folder / "native", device, steps, environment)
        expected = by_torch(part.device, steps)
        columns = 2 if part.dry_run else 3  # no cache in the stand-in
        equal = sum(a[:columns] == b[:columns] for a, b in zip(found, expected))
        same = equal == len(steps) == len(found)
        check(lib.sab_torch_open(component.encode(), ffi.NULL))
        programs = part.size(100, 10)
        beside = in_process(part, device, programs)
        rows = [
            ("built in, seconds", f"{seconds:.0f}"),
            ("steps of the program in C", len(steps)),
            ("of them equal to Python's statistics", equal),
            ("programs in this process", programs),
            ("of them the C probe equal to torch's statistics", beside),
        ]
        part.table(f'The probe "{device}" from C', ("", "value"), rows)
        asked = f"{len(steps)} of {len(steps)}"
        part.figure("C program: steps equal", asked, f"{equal} of {len(steps)}", same, exact=True)
        asked = f"{programs} of {programs}"
        met = beside == programs
        part.figure("in process: equal", asked, f"{beside} of {programs}", met, exact=True)
        sanitized(part, folder / "native", steps, environment)


if __name__ == "__main__":
    main()
