"""Three data sets of different kinds in chosen proportions: glosses of WordNet, messages of
programs with their translations, and proteins, with the repeats 1, 0.5 and 3.

Debian has them: wordnet-base; the .mo files of all programs that are installed, such as those of
gcc-12-locales and gimp-data; and mmseqs2-examples. Sizes are bytes. Prints what an epoch has of
each, and how far each is from its share in any 100 batches.
"""

import argparse
import gzip
import pathlib
import struct
import sys

import numpy as np

import sab
from wordnet import FOLDER, glosses

REPEAT = {"glosses": 1, "translations": 0.5, "proteins": 3}


def pairs(folder: pathlib.Path) -> "list[int]":
    """Bytes of each message and its translation, of all .mo files below a folder."""
    found = []
    for path in sorted(folder.rglob("*.mo")):
        data = path.read_bytes()
        order = "<" if data[:4] == b"\xde\x12\x04\x95" else ">"
        count, *tables = struct.unpack(f"{order}3I", data[8:20])
        sources, targets = (
            struct.unpack(f"{order}{2 * count}I", data[table : table + 8 * count])[::2]
            for table in tables
        )
        found += [a + b for a, b in zip(sources, targets) if a and b]
    return found


def proteins(path: pathlib.Path) -> "list[int]":
    """Residues of each protein of a FASTA file."""
    with gzip.open(path, "rt") as file:
        records = file.read().split(">")[1:]
    return [sum(map(len, record.split("\n")[1:])) for record in records]


def check(what: str, path: pathlib.Path, packages: str) -> None:
    if not path.exists():
        sys.exit(f"{what}: {path} is missing: install Debian's {packages}, or pass another path")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--glosses", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--translations", type=pathlib.Path, default="/usr/share/locale")
    proteins_of_debian = "/usr/share/doc/mmseqs2/example-data/DB.fasta.gz"
    parser.add_argument("--proteins", type=pathlib.Path, default=proteins_of_debian)
    parser.add_argument("--budget", type=int, default=65536, help="padded bytes of a batch")
    options = parser.parse_args()
    check("glosses", options.glosses / "data.noun", "wordnet-base")
    check("translations", options.translations, "gcc-12-locales and gimp-data")
    check("proteins", options.proteins, "mmseqs2-examples")

    sources: dict[str, list[int]] = {
        "glosses": [len(text.encode()) for text, _ in glosses(options.glosses)],
        "translations": pairs(options.translations),
        "proteins": proteins(options.proteins),
    }
    mixture = sab.Mixture(sources, repeat=REPEAT)
    plan = sab.plan(mixture, options.budget, separate_by="source")
    report = plan.report()
    print(f"{report.samples:,} samples in {report.batches:,} batches of one source each")
    print(f"{'':<16}{'in source':>10}{'in epoch':>10}{'share':>9}{'100 batches':>18}")
    amounts = np.zeros((len(report.sources), report.batches))
    for place, batch in enumerate(sab.BucketSampler(plan, seed=0).batches()):
        amounts[batch.id, place] = batch.total
    sums = np.cumsum(np.pad(amounts, ((0, 0), (1, 0))), axis=1)
    windows = sums[:, 100:] - sums[:, :-100] if report.batches > 100 else sums[:, -1:]
    shares = 100 * windows / windows.sum(axis=0)
    for name, of_windows in zip(sources, shares):
        each = report.sources[name]
        window = f"{of_windows.min():.1f} to {of_windows.max():.1f}%"
        count = f"{len(sources[name]):>10,}{each.samples:>10,}"
        print(f"{name:<16}{count}{100 * each.proportion:>8.1f}%{window:>18}")
    print("share: by size, of the epoch; 100 batches: the least and most of any 100 in a row")


if __name__ == "__main__":
    main()
