"""Chooses the corpora of the fuzz targets from what a run of run.sh has left: corpus.py SCRATCH
[TARGET...].

Of each target at most 20 inputs are kept in corpus/TARGET: the fewest that reach together as many
edges of the code as there are, and the shorter of those that reach the same. Files whose names
begin with kept_ stay. libFuzzer's merge says which edges an input reaches.
"""

import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MOST = 20  # files of a target


def edges(program, folders):
    """file -> the edges that it reaches."""
    with tempfile.TemporaryDirectory() as merged, tempfile.NamedTemporaryFile("r") as control:
        command = [program, "-merge=1", f"-merge_control_file={control.name}", merged, *folders]
        subprocess.run(command, check=True, capture_output=True)
        lines = control.read().splitlines()
    count = int(lines[0])
    files = [pathlib.Path(line) for line in lines[2 : 2 + count]]
    reached = {}
    for line in lines[2 + count :]:
        found = re.match(r"COV (\d+)(.*)", line)
        if found:
            reached[files[int(found[1])]] = set(found[2].split())
    return reached


def chosen(reached):
    """Greedily the file with the most new edges, the shortest of several."""
    left, kept = set().union(*reached.values()), []
    while left and len(kept) < MOST:
        best = max(reached, key=lambda file: (len(reached[file] & left), -file.stat().st_size))
        left -= reached[best]
        kept.append(best)
    return kept


def main():
    scratch = pathlib.Path(sys.argv[1]).resolve()
    targets = sys.argv[2:] or sorted(path.name[5:] for path in scratch.glob("fuzz_*"))
    for target in targets:
        corpus = HERE / "corpus" / target
        corpus.mkdir(parents=True, exist_ok=True)
        reached = edges(scratch / f"fuzz_{target}", [scratch / f"corpus_{target}", corpus])
        inputs = [file.read_bytes() for file in chosen(reached)]
        for old in corpus.iterdir():
            if not old.name.startswith("kept_"):
                old.unlink()
        for data in inputs:
            (corpus / hashlib.sha1(data).hexdigest()[:12]).write_bytes(data)
        print(f"{target}: {len(inputs)} of {len(reached)}, {sum(map(len, inputs))} bytes")


if __name__ == "__main__":
    main()
