"""The examples on real data, with a little data of the same formats."""

import gzip
import json
import pathlib
import re
import struct
import subprocess
import sys

import numpy as np
import pytest

import sab

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"


def run(name, *arguments):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = (re.split(r"  +", line) for line in done.stdout.splitlines()[2:])
    return {name: cells for name, *cells in rows if cells}


def write_messages(path, count):
    """An .mo file of random messages; the bytes of each message and its translation."""
    random = np.random.default_rng(0)
    sources = [b"", *(b"word " * n for n in random.integers(1, 9, count))]
    targets = [b"header", *(b"Wort " * n for n in random.integers(1, 9, count))]
    place, head, tables = 28 + 16 * len(sources), b"", [b"", b""]
    for table, texts in enumerate((sources, targets)):
        for text in texts:
            tables[table] += struct.pack("<2I", len(text), place + len(head))
            head += text
    count = len(sources)
    start = struct.pack("<7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, 0)
    path.write_bytes(start + b"".join(tables) + head)


def test_pairs_of_translations(tmp_path):
    pytest.importorskip("torch")
    write_messages(tmp_path / "a.mo", 200)
    rows = run("train_translation.py", "--folder", tmp_path, "--steps", 4, "--batch-size", 40)
    assert rows["static batches of 40"][0] == "4"
    padding = [float(row[2].rstrip("%")) for row in rows.values()]
    assert padding[1] < padding[0]


def test_molecules(tmp_path):
    pytest.importorskip("torch")
    kinds = ("CC1=CC(=O)C=CC1=O", "OC1=C(Cl)C=C(C=C1[N+]([O-])=O)[N+]([O-])=O", "C.[NH4+]")
    lines = (f"{kinds[i % 3]},{34.14 + i % 3}" for i in range(300))
    (tmp_path / "first_5k.tpsa.csv").write_text("# about\n" + "\n".join(lines))
    rows = run("train_molecules.py", "--folder", tmp_path, "--epochs", 1)
    static, ours = rows.values()
    assert int(ours[0]) <= int(static[0])


def test_a_mixture_of_three_data_sets(tmp_path):
    for part, count in (("noun", 300), ("verb", 90), ("adj", 50), ("adv", 11)):
        lines = [f"{n:08} 00 n | {'a gloss ' * (1 + n % 7)}" for n in range(count)]
        (tmp_path / f"data.{part}").write_text("\n".join(["  1 licence", *lines]))
    write_messages(tmp_path / "a.mo", 1000)
    with gzip.open(tmp_path / "a.fasta.gz", "wt") as file:
        file.writelines(f">protein {n}\n{'ACDE' * 9}\n{'G' * (n % 30)}\n" for n in range(40))
    paths = "--glosses", tmp_path, "--translations", tmp_path, "--proteins"
    rows = run("mixture.py", *paths, tmp_path / "a.fasta.gz", "--budget", 256)
    counts = {name: [int(cell.replace(",", "")) for cell in row[:2]] for name, row in rows.items()}
    assert counts == {"glosses": [451, 451], "translations": [1000, 500], "proteins": [40, 120]}
    shares = [float(row[2].rstrip("%")) for row in rows.values()]
    for share, row in zip(shares, rows.values()):
        least, most = map(float, row[3].rstrip("%").split(" to "))
        assert share - 2 <= least <= most <= share + 2
    absent = [sys.executable, EXAMPLES / "mixture.py", *map(str, paths), tmp_path / "none"]
    done = subprocess.run(absent, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("proteins: ") and "mmseqs2-examples" in done.stderr


def test_long_contexts(tmp_path):
    random = np.random.default_rng(0)
    (tmp_path / "man1").mkdir()
    for number, words in enumerate((50 / (1 - random.random(300))).astype(int)):
        page = gzip.compress(b"word " * min(words, 3000))
        (tmp_path / "man1" / f"page{number}.1.gz").write_bytes(page)
    (tmp_path / "man1/other.1.gz").write_bytes(gzip.compress(b".so man1/page1.1"))
    rows = run("long_contexts.py", "--folder", tmp_path, "--budget", 200, "--steps", 5)
    greedy, planned = rows["longest first"], rows["plan_context"]
    for before, after in zip(greedy, planned):
        before, after = (float(cell.replace(",", "").rstrip("%")) for cell in (before, after))
        assert after <= before
    absent = [sys.executable, EXAMPLES / "long_contexts.py", "--folder", tmp_path / "none"]
    done = subprocess.run(absent, capture_output=True, text=True)
    assert done.returncode == 1 and "has no manual pages" in done.stderr


def test_shapes_of_pictures(tmp_path):
    random = np.random.default_rng(0)
    for number, (height, width) in enumerate(random.integers(16, 400, (90, 2))):
        head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4s2I", 13, b"IHDR", width, height)
        (tmp_path / f"{number}.png").write_bytes(head)
    rows = run("picture_shapes.py", "--folder", tmp_path, "--pixels", 1 << 20)
    shapes = {name: int(cells[0]) for name, cells in rows.items()}
    padding = [float(cells[-1].rstrip("%")) for cells in rows.values()]
    assert shapes["at most 4"] <= 4 and shapes["at most 32"] <= 32
    assert padding == sorted(padding, reverse=True)


def test_batch_sizes_from_a_config(tmp_path):
    pytest.importorskip("torch")
    config = json.loads((EXAMPLES / "batch_sizes.json").read_text())
    growing = run("batch_sizes_from_config.py")
    most = 64  # of the longest sentences in 1 MiB, a power of two
    sizes = [int(cells[0]) for cells in growing.values()]
    assert sizes == [min(16 << epoch // 2, most) for epoch in range(config["epochs"])]
    rates = [float(cells[2]) for cells in growing.values()]
    assert rates[4] / rates[0] == pytest.approx(2, rel=0.03)  # four times the words: the root

    config.update(use_maximum_batch_size=True, batch_increase_function=None, epochs=2)
    (tmp_path / "largest.json").write_text(json.dumps(config))
    largest = run("batch_sizes_from_config.py", "--config", tmp_path / "largest.json")
    assert [int(cells[0]) for cells in largest.values()] == [most, most]


def write_sizes(folder, count):
    """Four Parquet files with ids and lengths; the lengths of all."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder.mkdir()
    lengths = np.random.default_rng(1).integers(1, 100, count)
    for shard, ids in enumerate(np.array_split(np.arange(count), 4)):
        rows = pyarrow.table({"id": ids, "length": lengths[ids]})
        parquet.write_table(rows, folder / f"{shard}.parquet")
    return lengths


def test_batches_of_spark(tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is not installed: it has 456 MB, and needs Java")
    lengths = write_sizes(tmp_path / "rows", 2000)
    sizes = ["--budget", "1000", "--world-size", "3"]
    program = [sys.executable, EXAMPLES / "spark_batches.py"]
    subprocess.run([*program, tmp_path / "rows", tmp_path / "out", *sizes], check=True)
    from pyarrow import dataset

    plan, taken = sab.plan(lengths, budget=1000), []
    for rank in range(3):
        rows = dataset.dataset(tmp_path / "out" / f"rank={rank}", format="parquet").to_table()
        ids = rows.column("id").to_numpy()
        batches = np.split(ids, np.flatnonzero(np.diff(rows.column("batch"))) + 1)
        expected = list(sab.BucketSampler(plan, rank=rank, world_size=3))
        assert [lengths[b].tolist() for b in batches] == [lengths[b].tolist() for b in expected]
        taken += ids.tolist()
    assert sorted(taken) == list(range(2000))


def test_shared_prefixes():
    pytest.importorskip("torch")
    run("shared_prefixes.py", "--steps", 1)  # compares the gradients itself
