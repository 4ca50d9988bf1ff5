"""Lengths: wikitext-103's shape, WordNet's glosses, proteins, .mo pairs, or a file of lengths."""

import contextlib
import dataclasses
import gzip
import pathlib
import struct
import sys
from typing import Optional

import numpy as np
import numpy.typing as npt

Lengths = npt.NDArray[np.int64]
EXAMPLES = str(pathlib.Path(__file__).parent.parent / "examples/python")
WIKITEXT_SAMPLES, WIKITEXT_TOKENS = 1_164_464, 119_699_332


@dataclasses.dataclass(frozen=True)
class Data:
    name: str
    lengths: Lengths
    budget: int  # of a batch: samples times the longest


def wikitext(seed: int = 0) -> Lengths:
    """Lengths with the published totals of wikitext-103: 35 % are headings of 3 to 12 tokens, the
    others paragraphs of log-normal lengths; static batches of 32 hold about 67 % padding."""
    random = np.random.default_rng(seed)
    headings = random.integers(3, 13, int(WIKITEXT_SAMPLES * 0.35))
    long = np.exp(random.normal(0, 0.40, WIKITEXT_SAMPLES - len(headings)))
    long = np.clip(long * (WIKITEXT_TOKENS - headings.sum()) / long.sum(), 3, None)
    lengths = np.concatenate([headings, np.floor(long)]).astype(np.int64)
    missing = WIKITEXT_TOKENS - int(lengths.sum())
    lengths[random.permutation(len(lengths))[: abs(missing)]] += np.sign(missing)
    return random.permutation(lengths)


def glosses() -> Lengths:
    """Words of each gloss of WordNet 3.0 (Debian: wordnet-base)."""
    return np.array(
        [
            len(line.split("| ", 1)[1].split())
            for part in ("noun", "verb", "adj", "adv")
            for line in pathlib.Path(f"/usr/share/wordnet/data.{part}").read_text().splitlines()
            if not line.startswith("  ")  # the licence
        ]
    )


def proteins() -> Optional[Lengths]:
    """Residues of 20,000 proteins (Debian: mmseqs2-examples)."""
    path = pathlib.Path("/usr/share/doc/mmseqs2/example-data/DB.fasta.gz")
    if not path.exists():
        return None
    with gzip.open(path, "rt") as file:
        records = file.read().split(">")[1:]
    lengths = np.array([len("".join(record.split("\n")[1:])) for record in records])
    return lengths[lengths > 0]


def pairs() -> Optional[Lengths]:
    """Messages of programs and their translations, source and target joined, in bytes (Debian:
    gcc-12-locales, gimp-data, git)."""
    found: list[int] = []
    for path in mo_files():
        data = path.read_bytes()
        order = "<" if data[:4] == b"\xde\x12\x04\x95" else ">"
        count, sources, targets = struct.unpack(f"{order}3I", data[8:20])
        both = [
            np.frombuffer(data, f"{order}u4", 2 * count, table)[::2] for table in (sources, targets)
        ]
        found += (both[0] + both[1])[1:].tolist()  # the first is a header
    lengths = np.array(found)
    return lengths[lengths > 0] if found else None


def mo_files() -> list[pathlib.Path]:
    """Translations of gcc, gimp and git (Debian: gcc-12-locales, gimp-data, git)."""
    paths = sorted(pathlib.Path("/usr/share/locale").glob("*/LC_MESSAGES/*.mo"))
    return [
        path for path in paths if path.stem.startswith(("gcc-12", "cpplib-12", "gimp20", "git"))
    ]


def two_sizes(quick: bool) -> Optional[Lengths]:
    """The same messages: a row with the characters of the source and of the target. Where quick,
    drawn ones."""
    if quick:
        random = np.random.default_rng(0)
        source = 1 + np.minimum(random.gamma(2, 20, 20_000), 600)
        return np.stack([source, 1 + source * random.lognormal(0, 0.2, 20_000)], 1).astype(int)
    sys.path.insert(0, EXAMPLES)
    from train_translation import messages

    found = []
    for path in mo_files():
        for pair in messages(path):
            with contextlib.suppress(UnicodeDecodeError):
                found.append([len(text.decode()) for text in pair])
    return np.array(found) if found else None


def graphs(quick: bool) -> Optional[Lengths]:
    """Molecules: a row with the atoms, and twice the bonds (Debian: rdkit-data). Where quick, drawn
    ones."""
    if quick:
        random = np.random.default_rng(1)
        nodes = 1 + random.gamma(6, 3, 3000).astype(int)
        return np.stack([nodes, 2 * (nodes + random.integers(-1, 3, 3000)).clip(0)], 1)
    folder = pathlib.Path("/usr/share/RDKit/Data/NCI")
    if not folder.exists():
        return None
    sys.path.insert(0, EXAMPLES)
    from molecules import molecules

    found = [graph for graph, _ in molecules(folder)]
    return np.array([[len(atoms), 2 * len(bonds)] for atoms, bonds in found])


def image_text(samples: int) -> tuple[Lengths, Lengths]:
    """Images and tokens of drawn samples: most have few images, some are long videos."""
    random = np.random.default_rng(2)
    images = random.geometric(0.3, samples) - 1
    videos = random.random(samples) < 0.02
    images[videos] += random.integers(8, 33, int(videos.sum()))
    tokens = 64 * images + 1 + np.minimum(random.lognormal(5, 0.9, samples), 4000).astype(int)
    return images, tokens


def from_file(name: str) -> Lengths:
    lengths = np.load(name) if name.endswith(".npy") else np.loadtxt(name, ndmin=1)
    if lengths.ndim != 1 or len(lengths) == 0 or (lengths < 1).any():
        raise SystemExit(f"{name}: must be one column of lengths of at least 1")
    return lengths.astype(np.int64)


def load(quick: bool, file: Optional[str]) -> list[Data]:
    """The data sets; the file alone if there is one. Data whose package is missing is left out."""
    if file is not None:
        lengths = from_file(file)
        budget = max(2 * int(lengths.max()), int(64 * lengths.mean()))
        return [Data(pathlib.Path(file).name, lengths, budget)]
    if quick:
        return [
            Data("wikitext-103's shape", wikitext()[:20_000], 16384),
            Data("WordNet glosses", glosses()[::6], 1024),
        ]
    found = [Data("wikitext-103's shape", wikitext(), 16384)]
    found.append(Data("WordNet glosses", glosses(), 1024))
    for name, drawn in (("proteins", proteins()), (".mo pairs", pairs())):
        if drawn is not None:
            longest = int(drawn.max())
            found.append(Data(name, drawn, max(16384, 1 << longest.bit_length())))
    return found
