"""infinibatch: the pipeline of its documentation with the imports changed."""

import gzip

for number in range(4):
    with gzip.open(f"train.{number}.txt.gz", "wt") as file:
        file.writelines("word " * (1 + line * 7 % 50) + "\n" for line in range(500))

# [imports]
from sab.compat.infinibatch import datasets, iterators
# [end]

# [same]
import glob


def read_chunk(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return iter([line.strip() for line in file])


sentences = datasets.chunked_dataset_iterator(
    chunk_refs=sorted(glob.glob("train.*.txt.gz")),
    read_chunk_fn=read_chunk,
    buffer_size=1000,
    seed=1337,
    train=True,
    shuffle=True,
)
batches = iterators.BucketedReadaheadBatchIterator(
    sentences,
    read_ahead=500,
    key=lambda line: len(line.split()),
    batch_size=lambda longest: 1024 // len(longest.split()),
    seed=0,
)
first = next(batches)
state = batches.getstate()
second = next(batches)
batches.setstate(state)
assert next(batches) == second
# [end]

# [native]
import sab

batches = (
    sab.Stream.from_files(sorted(glob.glob("train.*.txt.gz")), shuffle=True, seed=1337)
    .prefetch(1000)
    .block_shuffle(1000, seed=1)
    .readahead(500, budget=1024, key="words", carry_over=True)
    .rank(0, 2)  # finite or not, all ranks see as many batches
)
state = next(batches) and batches.state_dict()
# [end]
assert state
