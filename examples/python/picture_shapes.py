"""Batches of pictures of different sizes in at most K shapes, for compilers and CUDA graphs.

Reads the heights and widths of PNG files, by default those of Debian's gimp-help-en, and prints how
much of the batches is padding, for several K. Static batches of one shape are the other extreme.
"""

import argparse
import pathlib
import struct

import numpy as np

import sab

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def sides(path: pathlib.Path) -> "tuple[int, int] | None":
    """(height, width) of a PNG file; None of another one."""
    with path.open("rb") as file:
        head = file.read(24)
    if head[:8] != SIGNATURE:
        return None
    width, height = struct.unpack(">2I", head[16:24])
    return height, width


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, default="/usr/share/gimp/2.0/help")
    parser.add_argument("--pixels", type=int, default=1 << 22, help="of a batch (default: 4 Mi)")
    parser.add_argument("--multiple", type=int, default=16, help="of sides (default: 16)")
    options = parser.parse_args()

    files = sorted(p for p in options.folder.rglob("*.png") if not p.is_symlink())
    found = np.array([each for each in map(sides, files) if each is not None])
    sizes = {"height": found[:, 0], "width": found[:, 1]}
    pixels = found.prod(1).sum()
    largest = -(-found.max(0) // options.multiple) * options.multiple
    count = max(1, options.pixels // int(largest.prod()))
    batches = -(-len(found) // count)
    print(f"{len(found):,} pictures of {len(np.unique(found, axis=0)):,} shapes")
    print(f"{'':<16}{'shapes':>8}{'batches':>9}{'padding':>10}")
    padding = 1 - pixels / (batches * count * int(largest.prod()))
    print(f"{'the largest':<16}{1:>8}{batches:>9,}{100 * padding:>9.1f}%")
    for shapes in (4, 8, 16, 32):
        plan = sab.plan(
            sizes,
            budget=options.pixels,
            cost="product",
            length_multiple=options.multiple,
            max_shapes=shapes,
        )
        seen, padded = set(), 0
        for batch in sab.BucketSampler(plan, seed=0).batches():
            shape = (
                batch.count,
                int(batch.padded_length["height"]),
                int(batch.padded_length["width"]),
            )
            seen.add(shape)
            padded += int(np.prod(shape))
        print(
            f"{f'at most {shapes}':<16}{len(seen):>8}{plan.batch_count:>9,}"
            f"{100 * (1 - pixels / padded):>9.1f}%"
        )


if __name__ == "__main__":
    main()
