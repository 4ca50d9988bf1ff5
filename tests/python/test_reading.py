"""Every format gives all its rows, however often it is read and whenever the process ends."""

import concurrent.futures
import gzip
import io
import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import sab

pa = pytest.importorskip("pyarrow")
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

COUNT = 60_000  # rows of more than a block of pyarrow's reader of CSV
LENGTHS = np.arange(COUNT) % 1000 + 1
COLUMN = {"column": "length"}
READS = int(os.environ.get("SAB_TEST_READS", "25"))  # test.sh everything: 100


def table(count):
    texts = [f"some words, and so on {n}" for n in LENGTHS[:count]]
    return pa.table({"length": LENGTHS[:count], "text": texts})


def write_all(folder, count):
    """Writes a file of each format, and returns how each is read."""
    rows, made, stream = table(count), io.BytesIO(), io.BytesIO()
    pyarrow.csv.write_csv(rows, made)
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=5000)
    csv = made.getvalue()
    lines = "".join(json.dumps(row) + "\n" for row in rows.to_pylist()).encode()
    zstd = pa.Codec("zstd")
    contents = {
        "a.csv": csv,
        "a.tsv": csv.replace(b",", b"\t"),
        "a.csv.gz": gzip.compress(csv, 1),
        "a.csv.zst": bytes(zstd.compress(csv)),
        "stream.arrow": stream.getvalue(),
        "a.jsonl": lines.rstrip(),
        "a.jsonl.gz": gzip.compress(lines, 1),
        "a.jsonl.zst": bytes(zstd.compress(lines)),
        "a.txt": "\n".join(map(str, LENGTHS[:count].tolist())).encode(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    pyarrow.parquet.write_table(rows, folder / "a.parquet", row_group_size=5000)
    pyarrow.feather.write_feather(rows, folder / "a.feather")
    np.save(folder / "a.npy", LENGTHS[:count])
    return {path: {} if path.suffix in (".txt", ".npy") else COLUMN for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.tsv.gz"])
def test_quotes_that_are_not_closed_lose_no_rows(tmp_path, name):
    def read(text):
        text = text if "csv" in name else text.replace(",", "\t")
        pack = gzip.compress if name.endswith("gz") else bytes
        (tmp_path / name).write_bytes(pack(text.encode()))
        return sab.Sizes(tmp_path / name, column="n").values().tolist()

    quotes = ['"' if n % 10 == 0 else "" for n in range(1, 101)]
    with pytest.raises(sab.FormatError, match="line 21: a quote is not closed"):
        read("n,t\n" + "\n".join(f"{n},{quote}text" for n, quote in enumerate(quotes, 1)))
    with pytest.raises(sab.FormatError, match="a quote is not closed"):
        read('n,t\n5,"q\n7,z\n')
    assert read('n,t\r\n5,"a ""word""\nof two lines"\r\n\r\n7,b "c"\r\n') == [5, 7]
    assert read('n,t\r5,"a\rb"\r7,c\r') == [5, 7]
    with pytest.raises(sab.FormatError, match="a quote is not closed"):
        read('n,t\r5,"q\r7,z\r')


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("formats"), COUNT)


def is_open(path):
    """Whether this process has the file open. A thread of pyarrow may have it for a moment."""
    for _ in range(1000):
        numbers = os.listdir("/proc/self/fd")
        if str(path) not in [os.path.realpath(f"/proc/self/fd/{number}") for number in numbers]:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.csv.zst", "a.parquet"])
def test_a_table_is_read_again_and_again(files, name):
    path = next(path for path in files if path.name == name)
    for _ in range(READS):
        assert np.array_equal(sab.Sizes(path, column="length").values(), LENGTHS)
    assert not is_open(path)


def test_other_formats_are_read_again_and_again(files):
    for path, options in files.items():
        if "csv" in path.name or path.suffix in (".tsv", ".parquet"):
            continue
        for _ in range(READS):
            assert np.array_equal(sab.Sizes(path, **options).values(), LENGTHS), path


def test_a_read_that_fails_leaves_no_file_open(files, tmp_path):
    def cancel(done, total):
        raise ZeroDivisionError

    small = tmp_path / "small.csv"
    for content, options, error in (
        (b"length\n" + b"5\n" * 2_000_000 + b"x\n", COLUMN, sab.FormatError),
        (b"length,text\n" + b"5,x\n" * 500_000 + b"5\n", COLUMN, sab.FormatError),
        (b"length,text\n" + b"5,x\n" * 500_000 + b",x\n", COLUMN, ValueError),
        (b"length,text\n" + b"5,x\n" * 500_000, {"column": "size"}, ValueError),
        (b"length\n" + b"5\n" * 2_000_000, {"progress": cancel}, ZeroDivisionError),
        (b"", {}, sab.FormatError),
        (b"length\n", {}, ValueError),
    ):
        small.write_bytes(content)
        with pytest.raises(error) as kept:
            sab.Sizes(small, **options)
        assert not is_open(small), kept


PROGRAM = """
import sys, sab
for name in sys.argv[1:]:
    options = {} if name.endswith((".txt", ".npy")) else {"column": "length"}
    if name == "-":
        options["format"] = "csv"
    try:
        print(sab.Sizes(name, **options).values().astype(int).tolist())
    except ValueError:
        print("refused")
"""


def test_every_format_is_read_in_a_process_each(files, tmp_path):
    """Each process reads another file as its last one. A thread that reads ahead would still run
    when it ends, most of all after a large file that is refused.
    """
    names = ["-", *map(str, write_all(tmp_path, 3))]
    damaged = tmp_path / "damaged.csv"
    damaged.write_bytes(b"length,text\n,x\n" + b"5,x\n" * 2_000_000)
    names.append(str(damaged))

    def read(number):
        order = names[number % len(names) :] + names[: number % len(names)]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *order],
            input="length,text\n1,a\n2,b\n3,c\n",
            capture_output=True,
            text=True,
            timeout=120,
        )
        given = ["refused" if name == str(damaged) else "[1, 2, 3]" for name in order]
        return (done.returncode, done.stdout.splitlines(), done.stderr) == (0, given, ""), done

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for is_right, done in pool.map(read, range(max(len(names), READS // 2))):
            assert is_right, done
