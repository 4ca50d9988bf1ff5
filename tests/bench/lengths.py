"""Writes lengths with the published totals of wikitext-103 as an int32 .npy file: lengths.py FILE
[COPIES].

With COPIES the shape is drawn that many times over (86 gives 100 million).
"""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bench.data import wikitext


def lengths(seed: int = 0) -> np.ndarray:
    return wikitext(seed).astype(np.int32)


if __name__ == "__main__":
    copies = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    made = np.concatenate([lengths(seed) for seed in range(copies)])
    np.save(sys.argv[1], np.random.default_rng(1).permutation(made) if copies > 1 else made)
