"""Corpora larger than memory."""

import gzip
import pathlib

import sab

# [files]
for shard in range(4):
    with gzip.open(f"shard-{shard}.gz", "wt") as file:
        file.writelines(
            f"sentence {number} of shard {shard}" + " and so on" * (number % 17) + "\n"
            for number in range(1000)
        )
names = sorted(str(name) for name in pathlib.Path().glob("shard-*.gz"))
# [end]

# [pipeline]
batches = (
    sab.Stream.from_files(
        names, infinite=False
    )  # their lines; shuffle=True, for ever: the files in another order each time through
    .prefetch(2000)  # read in a thread
    .block_shuffle(1000, seed=2)
    .readahead(1000, budget=1024, key="words")  # lists of lines of like lengths
)
lines = 0
for batch in batches:
    assert len(batch) * max(len(line.split()) for line in batch) <= 1024
    lines += len(batch)
assert lines == 4000
# [end]

# [ranks]
shares = [sab.Stream.from_files(names, infinite=False).rank(rank, 3) for rank in range(3)]
counts = [sum(1 for _ in share) for share in shares]
assert len(set(counts)) == 1  # as many steps on every rank
# [end]
print(counts)
