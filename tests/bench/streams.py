"""Streams against infinibatch and zlib: streams.py [C_PROGRAM]. WordNet's glosses in chunks of
10,000 lines of gzip; a mixture shaped like wikitext-103; generated text.

Rates are the best of several runs, taken in turns in the same minute. infinibatch is left out where
it is not installed.
"""

import gzip
import importlib
import importlib.util
import itertools
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import zlib

from lengths import lengths
from sab import Stream


def glosses():
    for path in sorted(pathlib.Path("/usr/share/wordnet").glob("data.*")):
        for line in path.read_text(encoding="latin-1").splitlines():
            if not line.startswith("  ") and "| " in line:
                yield line.split("| ", 1)[1].strip()


def chunked(folder):
    lines = list(glosses())
    paths = []
    for first in range(0, len(lines), 10_000):
        path = pathlib.Path(folder) / f"glosses{first:06d}.gz"
        path.write_bytes(gzip.compress(("\n".join(lines[first : first + 10_000]) + "\n").encode()))
        paths.append(path)
    return paths, len(lines)


def rate(batches, seconds=1.5):
    for _ in itertools.islice(batches, 3000):  # warm: the first windows
        pass
    begin, count = time.perf_counter(), 0
    while True:
        for batch in itertools.islice(batches, 300):
            count += len(batch)
        if (spent := time.perf_counter() - begin) > seconds:
            return count / spent


def best(*rates, runs=3):
    """The best of what each function gives, called in turns."""
    return [max(own) for own in zip(*([rate() for rate in rates] for _ in range(runs)))]


def ours(paths, encoding="utf-8", readers=2):
    stream = Stream.from_files(paths, shuffle=True, seed=1, encoding=encoding, readers=readers)
    if not readers:
        stream = stream.prefetch(100_000)
    stream = stream.block_shuffle(100_000, seed=2).readahead(
        budget=16384, key="len" if encoding else "bytes"
    )
    return lambda: rate(iter(stream))


def from_c(program, paths, how):
    command = [program, how, *map(str, paths)]
    return lambda: float(subprocess.run(command, capture_output=True, check=True).stdout)


def theirs(paths, reads_text, package="infinibatch"):
    datasets = importlib.import_module(f"{package}.datasets")
    iterators = importlib.import_module(f"{package}.iterators")

    def read(path):
        data = gzip.decompress(path.read_bytes())
        return iter(data.decode().splitlines() if reads_text else data.splitlines())

    def make():
        lines = datasets.chunked_dataset_iterator(paths, read, 100_000, seed=1)
        return iterators.BucketedReadaheadBatchIterator(
            lines, 10_000, len, lambda longest: 16384 // len(longest), seed=1
        )

    return lambda: rate(make())


def inflate(paths, count):
    """Records a second of decompression by zlib alone."""
    data = [path.read_bytes() for path in paths]

    def run():
        begin = time.perf_counter()
        for part in data:
            stream = zlib.decompressobj(31)
            for at in range(0, len(part), 1 << 16):
                stream.decompress(part[at : at + (1 << 16)])
        return count / (time.perf_counter() - begin)

    return run


def show(name, value):
    print(f"{name:<64}{value}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        paths, count = chunked(folder)
        peers = {}
        if importlib.util.find_spec("infinibatch"):
            peers = {"str": theirs(paths, True), "bytes": theirs(paths, False)}

        def compare(name, own, peer):
            rates = best(own, *([peers[peer]] if peers else []))
            ratio = f", {rates[0] / rates[1]:.1f} times infinibatch with {peer}" if peers else ""
            show(name, f"{rates[0] / 1e6:.2f}{ratio}")

        for name, encoding in (("str", "utf-8"), ("bytes", None)):
            what = f"gzip to batches of {name}, million records/s, Python"
            compare(f"{what}, two readers", ours(paths, encoding), name)
            compare(f"{what}, prefetched", ours(paths, encoding, 0), name)
        if peers:
            compare(
                "the same by sab.compat.infinibatch",
                theirs(paths, True, "sab.compat.infinibatch"),
                "str",
            )
        if len(sys.argv) > 1:
            for how, name in (
                ("2", "two readers"),
                ("prefetch", "prefetched"),
                ("0", "one thread"),
            ):
                compare(f"the same from C, {name}", from_c(sys.argv[1], paths, how), "bytes")
            reading, inflating = best(
                from_c(sys.argv[1], paths, "read"), inflate(paths, count), runs=5
            )
            show(
                "lines of gzip from C, one thread, million records/s",
                f"{reading / 1e6:.2f}, {reading / inflating:.2f} times zlib's inflate alone",
            )

        # The published case: 16,384 tokens a batch, read-ahead 10,000.
        sizes = lengths()
        for carry_over in (False, True):
            tokens = padded = batches = 0
            stream = Stream.from_items(sizes).readahead(
                10_000, budget=16384, key=float, carry_over=carry_over
            )
            for batch in stream:
                tokens, padded, batches = (
                    tokens + sum(map(int, batch)),
                    padded + len(batch) * int(batch[0]),
                    batches + 1,
                )
            least = -(-int(sizes.sum()) // 16384)
            show(
                f"wikitext's shape, read-ahead 10,000, carry_over={carry_over}",
                f"{100 * (1 - tokens / padded):.2f} % padding, {batches} batches of at least "
                f"{least}",
            )

        stream = (
            Stream.from_files(paths, shuffle=True, seed=1)
            .prefetch(20_000)
            .block_shuffle(1_000_000, seed=2)
            .batch(2)
            .flatten()
            .window(2)
            .flatten()
            .readahead(10_000, budget=16384)
            .rank(0, 1)
            .prefetch(16)
        )
        next(stream)
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            state = stream.state_dict()
            times.append(time.perf_counter() - begin)
        show(
            "state of 10 stages, a buffer of a million records",
            f"{len(state['state']) / 1024:.1f} KiB, {1e3 * min(times):.3f} ms",
        )
        stream.close()

        # In a process of its own, whose most memory is that of the pass.
        path = pathlib.Path(folder) / "text"
        path.write_text("".join(f"{i} {'word ' * (i * 7919 % 97)}\n" for i in range(400_000)))
        own = subprocess.run(
            [sys.executable, __file__, "--pass", str(path)],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        show("most memory of a pass over 10 GB of text, after the first 1 GB", own.strip())


def go_through(path):
    passes = int(1e10 / pathlib.Path(path).stat().st_size) + 1
    stream = (
        Stream.from_files([path] * passes, encoding=None)
        .prefetch(10_000)
        .block_shuffle(10_000)
        .readahead(budget=1 << 20, key="bytes")
    )
    seen, early = 0, 0
    for batch in stream:
        seen += sum(map(len, batch))
        if not early and seen > 1e9:
            early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    late = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{late / 1024:.0f} MiB, {100 * (late / early - 1):+.1f} %")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pass"]:
        go_through(sys.argv[2])
    else:
        main()
