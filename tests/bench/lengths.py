"""Writes lengths with the published totals of wikitext-103 as an int32 .npy file: lengths.py FILE
[COPIES].

1,164,464 paragraphs, 119,699,332 tokens. The shape is a mixture, made so that static batches of 32
hold about 67 % padding: headings of 3 to 12 tokens, and paragraphs whose lengths are log-normal.
With COPIES the shape is drawn that many times over (86 gives 100 million).
"""

import sys

import numpy as np

COUNT, TOTAL = 1_164_464, 119_699_332


def lengths(count: int = COUNT, total: int = TOTAL, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    headings = int(count * 0.35)
    short = rng.integers(3, 13, headings)
    long = np.exp(rng.normal(0, 0.40, count - headings))
    long = np.clip(long * (total - short.sum()) / long.sum(), 3, None)
    result = np.concatenate([short, np.floor(long)]).astype(np.int64)
    missing = total - int(result.sum())
    result[rng.permutation(count)[: abs(missing)]] += np.sign(missing)
    return rng.permutation(result).astype(np.int32)


if __name__ == "__main__":
    copies = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    made = np.concatenate([lengths(seed=seed) for seed in range(copies)])
    np.save(sys.argv[1], np.random.default_rng(1).permutation(made) if copies > 1 else made)
