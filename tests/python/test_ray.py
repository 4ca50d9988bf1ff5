"""Batches of a data set of Ray, written as Parquet and read back; and the same by command line."""

from __future__ import annotations

import base64
import contextlib
import filecmp
import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sab
from sab import cli

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("fsspec", reason="fsspec is not installed")

COUNT, WORLD = 2000, 3


def table() -> Any:
    lengths = np.random.default_rng(1).integers(1, 100, COUNT)
    tokens = [np.full(length, i, np.int32) for i, length in enumerate(lengths)]
    return pa.table(
        {
            "id": np.arange(COUNT),
            "length": lengths,
            "tokens": pa.array(tokens, pa.list_(pa.int32())),
        }
    )


def shards(folder: pathlib.Path, count: int) -> list[str]:
    """The table in files."""
    names, rows = [], table()
    for number, part in enumerate(np.array_split(np.arange(COUNT), count)):
        names.append(str(folder / f"shard-{number:03}.parquet"))
        parquet.write_table(rows.slice(part[0], len(part)), names[-1])
    return names


def order() -> dict[str, Any]:
    return {"seed": 5, "world_size": WORLD}


def expect_batches_of_samplers(path: str | os.PathLike[str]) -> None:
    """The folder has the batches of a plan of all sizes, and all columns of their samples."""
    rows = table()
    plan = sab.plan(rows.column("length").to_numpy(), budget=1000)
    for rank in range(WORLD):
        sampler = sab.BucketSampler(plan, rank=rank, **order())
        batches = sab.BatchDataset(path, rank=rank, world_size=WORLD)
        assert len(batches) == len(sampler)
        for position, (batch, expected) in enumerate(zip(batches, sampler)):
            assert batch["id"].tolist() == list(expected)
            assert batch["batch"] == position
            assert [len(each) for each in batch["tokens"]] == batch["length"].tolist()
            assert all((each == i).all() for each, i in zip(batch["tokens"], batch["id"]))


CAPACITY = 128


def packing_order() -> dict[str, Any]:
    """The arguments of the order that packed rows are written in."""
    return {**order(), "micro_batches": 2, "costliest_first": 2}


def expect_rows_of_samplers(path: str | os.PathLike[str]) -> None:
    """The folder has the rows of samplers of all sizes, and where the samples of each begin."""
    lengths = table().column("length").to_numpy()
    for rank in range(WORLD):
        sampler = sab.PackedSampler(lengths, CAPACITY, rank=rank, **packing_order())
        rows = sab.BatchDataset(path, rank=rank, world_size=WORLD)
        assert len(rows) == len(sampler)
        for row, expected in zip(rows, sampler.batches()):
            assert row["id"].tolist() == list(expected.indices)
            assert row["step"] == expected.step
            assert row["cu_seqlens"].dtype == np.int32
            assert row["cu_seqlens"].tolist() == list(expected.cu_seqlens)
            assert [len(each) for each in row["tokens"]] == np.diff(row["cu_seqlens"]).tolist()


def run(*arguments: object) -> None:
    assert cli.main([str(argument) for argument in arguments]) == 0


def write(folder: pathlib.Path, output: str | pathlib.Path) -> None:
    """Writes batches by two tasks of the command."""
    files = shards(folder, 5)
    column = ["--column", "length"]
    for file in files:  # a task each
        run("engine", "histogram", file, *column, "--output", folder / "counts")
    common = [*files, *column, "--histograms", folder / "counts"]
    run("engine", "plan", *common, "--budget", 1000, "--save", folder / "plan")
    writing = ["engine", "write", *common, "--plan", folder / "plan", "--output", output]
    writing += ["--seed", 5, "--world-size", WORLD, "--batches-per-file", 16]
    for task in (1, 0):
        run(*writing, "--task", task, "--tasks", 2)
    run(*writing, "--finish")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder of batches."""
    folder = tmp_path_factory.mktemp("engine")
    write(folder, folder / "batches")
    return folder / "batches"


def test_tasks_of_the_command_write_the_batches_of_the_samplers(written: pathlib.Path) -> None:
    expect_batches_of_samplers(written)
    assert not list(written.rglob("*.partial"))


def test_tasks_of_the_command_write_packed_rows(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, column = shards(tmp_path, 3), ["--column", "length"]
    run("engine", "histogram", *files, *column, "--output", tmp_path / "counts")
    common = ["engine", "write", *files, *column, "--histograms", tmp_path / "counts"]
    common += ["--capacity", CAPACITY, "--batches-per-file", 16]
    writing = [*common, "--output", tmp_path / "rows"]
    for name, value in packing_order().items():
        writing += [f"--{name.replace('_', '-')}", value]
    for task in (0, 1):
        run(*writing, "--task", task, "--tasks", 2)
    run(*writing, "--finish")
    expect_rows_of_samplers(tmp_path / "rows")
    manifest = json.loads((tmp_path / "rows/manifest.json").read_text())
    assert manifest["packing"]["capacity"] == CAPACITY
    assert manifest["samples"] == COUNT

    run(*common, "--output", tmp_path / "indices", "--columns")
    run(*common, "--output", tmp_path / "indices", "--columns", "--finish")
    sampler = sab.PackedSampler(table().column("length").to_numpy(), CAPACITY)
    rows = sab.BatchDataset(tmp_path / "indices", rank=0, world_size=1)
    assert [row["indices"].tolist() for row in rows] == [list(row) for row in sampler]
    with pytest.raises(sab.MismatchError, match="another plan"):
        rows.load_state_dict({**rows.state_dict(), "fingerprint": 1})

    def refused(*given: object) -> str:
        assert cli.main([str(each) for each in given]) == 2
        return capsys.readouterr().err

    assert "use another folder" in refused(*writing[:-2], "--costliest-first", 4)
    plan = [*common[:-4], "--output", "x", "--plan", "x"]
    assert "--oversize skip: is for --capacity" in refused(*plan, "--oversize", "skip")
    assert "must be at most the capacity, 50" in refused(*common, "--output", "x", "--capacity", 50)


NAMES, REPEATS = ["wiki", "code", "none"], [1, 2.5, 1]


def mixture() -> Any:
    """The table with the name of the source of each row."""
    rows = table()
    sources = np.where(np.random.default_rng(2).random(COUNT) < 0.7, "wiki", "code")
    sources[:300] = "code"  # so that partitions lack a source
    return rows.append_column("corpus", pa.array(sources))


def expect_epoch_of_mixture(path: str | os.PathLike[str], epoch: int, order: Any) -> None:
    """The folder has each sample at all its places."""
    rows = mixture()
    sizes, names = rows.column("length").to_numpy(), rows.column("corpus").to_pylist()
    sources = np.array([NAMES.index(name) for name in names])
    whole = sab.Histogram()
    numbers = whole.number(sab.Mixture(sizes, sources=sources, all_sources=range(3)))
    plan = sab.plan(whole.epoch(epoch, repeat=REPEATS), 1000)
    batches = [sab.BatchDataset(path, rank=rank, world_size=WORLD) for rank in range(WORLD)]
    written = 0
    for which in range(3):
        asked = np.full(COUNT, which)
        places = plan.locate(sizes, numbers, sources=sources, which=asked, epoch=epoch, **order)
        for i in np.flatnonzero(places.counts > which):
            batch = batches[places.ranks[i]][places.batches[i]]
            assert batch["id"][places.slots[i]] == i
            assert batch["corpus"][places.slots[i]] == names[i]
            written += 1
    assert written == plan.sample_count == sum(len(b["id"]) for data in batches for b in data)


def test_tasks_of_the_command_write_an_epoch_of_a_mixture(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, files = mixture(), []
    for number, part in enumerate(np.array_split(np.arange(COUNT), 7)):
        files.append(tmp_path / f"{number}.parquet")
        parquet.write_table(rows.slice(part[0], len(part)), files[-1])
    measure = ["--column", "length", "--source", "corpus", "--sources", *NAMES]
    counts = ["--histograms", tmp_path / "counts"]
    run("engine", "histogram", *files, *measure, "--output", tmp_path / "counts")
    planning = ["engine", "plan", *files, *counts, "--budget", 1000, "--save", tmp_path / "plan"]
    repeat = ["--repeat", *REPEATS, "--epoch", 2]
    run(*planning, *measure, *repeat)
    writing = ["engine", "write", *files, *measure, *counts, "--plan", tmp_path / "plan"]
    writing += ["--output", tmp_path / "batches", "--batches-per-file", 16]
    writing += ["--seed", 5, "--world-size", WORLD]
    for task in (1, 0):
        run(*writing, "--epoch", 2, "--task", task, "--tasks", 2)
    run(*writing, "--epoch", 2, "--finish")
    expect_epoch_of_mixture(tmp_path / "batches", 2, order())

    def refused(*given: object) -> str:
        assert cli.main([str(each) for each in given]) == 2
        return capsys.readouterr().err

    assert "must be the epoch of the plan, 2" in refused(*writing)
    assert "--source: must be given in all phases" in refused(*planning, *measure[:2])
    assert "must be given together" in refused(*planning, *measure[:4])
    for names in (NAMES[::-1], NAMES[:-1], ["other", *NAMES[1:]]):
        others = ["--column", "length", "--source", "corpus", "--sources", *names]
        counting = ["engine", "histogram", *files, "--output", tmp_path / "counts"]
        for phase in (counting, planning, writing):
            assert "must be those of the histograms, in their order" in refused(*phase, *others)
    counting = ["engine", "histogram", "--output", tmp_path / "others", "--column", "size"]
    assert "has no column size; it has id, length, tokens, corpus" in refused(*counting, files[0])
    assert "none.parquet: does not exist" in refused(*counting, tmp_path / "none.parquet")
    texts = tmp_path / "texts.parquet"
    parquet.write_table(pa.table({"size": ["a", "b"]}), texts)
    assert "size['size'] must give numbers, not array(['a', 'b']" in refused(*counting, texts)
    again = [*planning, *measure, "--repeat"]
    assert "number of --repeat = 1: must be the number of sources" in refused(*again, 1)
    assert "--repeat[1] -1: must be at least 0" in refused(*again, 1, -1, *REPEATS[2:])
    assert "--repeat: give 0 samples: must" in refused(*again, *[0 for _ in NAMES])
    assert "--repeat and --epoch are for a mixture" in refused(
        *("engine", "plan", files[0], *counts, "--save", "x"), *measure[:2], *repeat
    )


def test_samples_of_several_sizes(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = table().column("length").to_numpy()
    pairs = {"source": source, "target": source[::-1]}
    rows = pa.table({"id": np.arange(COUNT), **pairs})
    files = [str(tmp_path / f"{number}.parquet") for number in range(3)]
    for file, first, count in zip(files, (0, 700, 2000), (700, 1300, 0)):  # the last has no rows
        parquet.write_table(rows.slice(first, count), file)
    columns = ["--column", "source", "--column", "target"]
    counts = ["--histograms", tmp_path / "counts"]
    run("engine", "histogram", *files, *columns, "--output", tmp_path / "counts")
    planning = ["engine", "plan", *files, *counts, "--budget", 1000, "--save", tmp_path / "plan"]
    run(*planning, *columns)
    writing = ["engine", "write", *files, *counts, "--output", tmp_path / "batches"]
    writing += ["--seed", 5, "--columns", "id", "--plan", tmp_path / "plan", *columns]
    run(*writing)
    run(*writing, "--finish")
    sampler = sab.BucketSampler(sab.plan(pairs, budget=1000), seed=5)
    batches = sab.BatchDataset(tmp_path / "batches", rank=0, world_size=1)
    assert [batch["id"].tolist() for batch in batches] == [list(batch) for batch in sampler]

    def refused(*given: object) -> str:
        assert cli.main([str(each) for each in given]) == 2
        return capsys.readouterr().err

    for others in (["source"], ["target", "source"]):
        given = [part for name in others for part in ("--column", name)]
        message = refused(*planning, *given)
        assert f"--column {', '.join(others)}: must be that of sab engine histogram" in message
        assert "0.parquet.histogram has source, target" in message
    assert "is given twice" in refused(*planning, *columns, "--column", "source")


def test_urls_of_fsspec_are_written_and_read(tmp_path: pathlib.Path) -> None:
    for url in (f"file://{tmp_path}/batches", "memory://batches"):
        write(tmp_path, url)
        expect_batches_of_samplers(url)
    assert (tmp_path / "batches" / "manifest.json").exists()


def test_the_command_refuses_other_shards(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, column = shards(tmp_path, 2), ["--column", "length"]
    counts = ["--histograms", tmp_path / "counts"]
    assert cli.main(["engine", "plan", *map(str, [*files, *column, *counts, "--save", "x"])]) == 2
    assert "is missing: run sab engine histogram" in capsys.readouterr().err
    run("engine", "histogram", *files, *column, "--output", tmp_path / "counts")
    run("engine", "plan", *files, *column, *counts, "--save", tmp_path / "plan")
    write = [*column, *counts, "--plan", tmp_path / "plan", "--output", tmp_path / "batches"]

    def refused(*given: object) -> str:
        assert cli.main([str(each) for each in ("engine", "write", *given, *write)]) == 2
        return capsys.readouterr().err

    assert "is given twice" in refused(files[0], files[0])
    assert "it is the plan of other data" in refused(files[0])
    copy = str(tmp_path / "copy.parquet")
    parquet.write_table(table().slice(0, COUNT // 2), copy)
    run("engine", "histogram", copy, *column, "--output", tmp_path / "counts")
    # as many samples as the plan, but not the same ones
    assert "plan is of other data: numbers[1] = " in refused(files[0], copy)
    parquet.write_table(table().slice(0, 10), files[1])
    assert f"{files[1]}: its sizes are not those of its histogram" in refused(*files)


def test_a_state_goes_on_with_another_number_of_ranks(written: pathlib.Path) -> None:
    seen: Counter[int] = Counter()

    def take(data: sab.BatchDataset, most: int) -> None:
        for _, batch in zip(range(most), data):
            seen.update(batch["id"].tolist())

    state = None
    for world_size, most in ((3, 7), (2, 11), (4, 3), (1, 10**6)):
        ranks = [
            sab.BatchDataset(written, rank=rank, world_size=world_size)
            for rank in range(world_size)
        ]
        for data in ranks:
            if state is not None:
                data.load_state_dict(state)
            take(data, most)
        states = [data.state_dict() for data in ranks]
        assert all(other == states[0] for other in states)
        state = states[0]
    assert seen == Counter(range(COUNT))


def test_random_access_and_wrong_folders(written: pathlib.Path, tmp_path: pathlib.Path) -> None:
    data = sab.BatchDataset(written, rank=1, world_size=2)
    assert data[3]["id"].tolist() == list(data)[3]["id"].tolist()
    assert data[-1]["id"].tolist() == data[len(data) - 1]["id"].tolist()
    with pytest.raises(IndexError, match="must be below"):
        data[len(data)]
    with pytest.raises(sab.FormatError, match="are not written to the end"):
        sab.BatchDataset(tmp_path)
    with pytest.raises(ValueError, match="must be below the world size"):
        sab.BatchDataset(written, rank=2, world_size=2)
    with pytest.raises(ValueError, match=r"world_size = 100000: must be at most [0-9]+, the"):
        sab.BatchDataset(written, rank=2, world_size=100_000)
    with pytest.raises(sab.FormatError, match="is not that of a BatchDataset"):
        data.load_state_dict({"taken": 1})
    with pytest.raises(sab.MismatchError, match="another plan"):
        data.load_state_dict({**data.state_dict(), "fingerprint": 1})
    data.load_state_dict({**data.state_dict(), "taken": 4})
    with pytest.raises(sab.FormatError, match="must be at most"):
        data.load_state_dict({**data.state_dict(), "taken": 100_000})
    assert data.state_dict()["taken"] == 4  # a refused state changes nothing
    victim = sorted(written.rglob("*.parquet"))[0]
    content = victim.read_bytes()
    victim.unlink()
    with pytest.raises(sab.FormatError, match="is missing"):
        sab.BatchDataset(written)
    victim.write_bytes(content)


def damages(content: bytes) -> dict[str, bytes]:
    first, last = (flipped(content, place) for place in (len(content) // 3, len(content) - 30))
    cut = content[:-40]
    return {"cut": cut, "empty": b"", "garbage": b"garbage", "flipped": first, "end": last}


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 2]) + content[place + 1 :]


def test_a_task_replaces_damaged_files(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, column = shards(tmp_path, 2), ["--column", "length"]
    common = [*files, *column, "--histograms", tmp_path / "counts"]
    run("engine", "histogram", *files, *column, "--output", tmp_path / "counts")
    run("engine", "plan", *common, "--budget", 1000, "--save", tmp_path / "plan")
    writing = ["engine", "write", *common, "--plan", tmp_path / "plan", "--world-size", WORLD]
    writing += ["--output", tmp_path / "batches", "--batches-per-file", 16]
    run(*writing)
    run(*writing, "--finish")
    victim = sorted((tmp_path / "batches").rglob("*.parquet"))[1]
    content = victim.read_bytes()
    another = {"another file": sorted((tmp_path / "batches").rglob("*.parquet"))[0].read_bytes()}
    for kind, damaged in {**damages(content), **another}.items():
        victim.write_bytes(damaged)
        with pytest.raises(sab.FormatError, match=f"{victim}: is damaged: "):
            for rank in range(WORLD):
                list(sab.BatchDataset(tmp_path / "batches", rank=rank, world_size=WORLD))
        if kind != "flipped":  # the end of the file is whole
            assert cli.main([str(each) for each in (*writing, "--finish")]) == 2
            assert f"{victim}: is damaged: " in capsys.readouterr().err
        run(*writing)
        assert victim.read_bytes() == content
        run(*writing, "--finish")
    for place in range(0, len(content), 61):
        victim.write_bytes(flipped(content, place))
        with pytest.raises(sab.FormatError, match=f"{victim}: is damaged: "):
            for rank in range(WORLD):
                list(sab.BatchDataset(tmp_path / "batches", rank=rank, world_size=WORLD))


def test_damaged_descriptions_are_format_errors(
    written: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    def refused(name: str, content: str, match: str) -> None:
        (folder / name).write_text(content)
        with pytest.raises(sab.FormatError, match=f"{folder / name}: .*{match}"):
            sab.BatchDataset(folder)
        (folder / name).write_bytes((written / name).read_bytes())

    folder = tmp_path / "batches"
    shutil.copytree(written, folder)
    for name in ("manifest.json", "job.json"):
        text = (written / name).read_text()
        facts = json.loads(text)
        for content in ("", text[: len(text) // 2], "hello", "{}", "[" * 100_000):
            refused(name, content, "is damaged")
        for content in ("[]", "null", "7", '"x"'):
            refused(name, content, "is damaged: .* must have a JSON object")
        refused(name, json.dumps({**facts, "version": 99}), "version = 99: this library reads 1")
        for key in facts.keys() - {"packing"}:
            refused(name, json.dumps({**facts, key: None}), "")
            rest = {each: facts[each] for each in facts if each != key}
            refused(name, json.dumps(rest), f"is damaged: has no '{key}'")
    manifest = json.loads((written / "manifest.json").read_text())
    refused("manifest.json", json.dumps({**manifest, "fingerprint": 1}), "fingerprint = 1: must be")
    refused("manifest.json", json.dumps({**manifest, "files": manifest["files"][1:]}), "samples")
    job = json.loads((written / "job.json").read_text())
    (folder / "job.json").write_text(json.dumps({**job, "order": {**job["order"], "seed": 99}}))
    with pytest.raises(sab.FormatError, match=f"{folder / 'manifest.json'}: .*job = "):
        sab.BatchDataset(folder)
    image = base64.b64decode(job["image"])
    for damaged in damages(image).values():
        changed = {**job, "image": base64.b64encode(damaged).decode()}
        refused("job.json", json.dumps(changed), "")
    assert len(sab.BatchDataset(folder)) > 0  # every file is as it was
    (folder / "job.json").unlink()
    with pytest.raises(sab.FormatError, match=r"has no job.json"):
        sab.BatchDataset(folder)


def test_damaged_histograms_name_the_file(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, column = shards(tmp_path, 2), ["--column", "length"]
    counts = tmp_path / "counts"
    run("engine", "histogram", *files, *column, "--output", counts)
    planning = ["engine", "plan", *files, *column, "--histograms", counts, "--save", "x"]
    (victim,) = counts.glob("shard-001*")
    for damaged in damages(victim.read_bytes()).values():
        victim.write_bytes(damaged)
        assert cli.main([str(each) for each in planning]) == 2
        assert f"sab: {victim}: is not a valid histogram" in capsys.readouterr().err
    for damage in ("{", "[1]"):
        (counts / "sources.json").write_text(damage)
        assert cli.main([str(each) for each in planning]) == 2
        assert f"sab: {counts / 'sources.json'}: is damaged" in capsys.readouterr().err
    (counts / "sources.json").unlink()
    pathlib.Path(files[1]).write_bytes(b"garbage")
    counting = ["engine", "histogram", *files, *column, "--output", counts]
    assert cli.main([str(each) for each in counting]) == 2
    assert f"sab: {files[1]}: " in capsys.readouterr().err


def test_missing_packages_are_named(written: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("fsspec", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.setitem(sys.modules, f"{package}.parquet", None)
        with pytest.raises(ImportError, match=f"is needed .*: pip install {package}"):
            sab.BatchDataset(written)[0]
        monkeypatch.undo()


def test_loaders_of_torch_read_the_batches(written: pathlib.Path) -> None:
    torch_data = pytest.importorskip("torch.utils.data", reason="torch is not installed")
    data = sab.BatchDataset(written, rank=0, world_size=1)
    expected = [batch["id"].tolist() for batch in data]
    for workers in (0, 2):
        loader = torch_data.DataLoader(
            data, batch_size=None, num_workers=workers, collate_fn=lambda batch: batch
        )
        assert [batch["id"].tolist() for batch in loader] == expected


# The tests from here on start Ray.


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    module = pytest.importorskip("ray", reason="ray is not installed: pip install 'ray[data]'")
    pytest.importorskip("ray.data", reason="ray[data] is not installed")
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    module.init(
        "local", num_cpus=2, include_dashboard=False, logging_level="ERROR", runtime_env=environment
    )
    module.data.DataContext.get_current().enable_progress_bars = False
    yield module
    module.shutdown()


def test_any_number_of_partitions_gives_the_same_files(ray: Any, tmp_path: pathlib.Path) -> None:
    import sab.ray as adapter

    folders = []
    for blocks in (1, 64):
        dataset = ray.data.from_arrow(table()).repartition(blocks)
        histogram = adapter.histogram(dataset, "length")
        assert histogram == sab.Histogram(table().column("length").to_numpy())
        folders.append(tmp_path / str(blocks))
        plan = adapter.plan(dataset, 1000, size="length")
        assert plan.fingerprint == sab.plan(histogram, 1000).fingerprint
        manifest = adapter.write_batches(
            dataset, plan, folders[-1], size="length", batches_per_file=32, **order()
        )
        assert manifest["samples"] == COUNT
    expect_batches_of_samplers(folders[1])
    names = [str(path.relative_to(folders[0])) for path in folders[0].rglob("*.parquet")]
    assert filecmp.cmpfiles(folders[0], folders[1], names, shallow=False)[1:] == ([], [])

    # a file that is missing is written again; nothing else is
    victim = sorted(folders[1].rglob("*.parquet"))[1]
    others = {path: path.stat().st_mtime_ns for path in folders[1].rglob("*.parquet")}
    content = victim.read_bytes()
    victim.unlink()
    adapter.write_batches(dataset, plan, folders[1], size="length", batches_per_file=32, **order())
    assert victim.read_bytes() == content
    del others[victim]
    assert all(path.stat().st_mtime_ns == when for path, when in others.items())
    with pytest.raises(sab.MismatchError, match="use another folder"):
        adapter.write_batches(dataset, plan, folders[1], size="length", **order())


def test_blocks_in_another_order_go_on(ray: Any, tmp_path: pathlib.Path) -> None:
    import sab.ray as adapter

    blocks = [table().slice(first, 500) for first in range(0, COUNT, 500)]
    dataset, other = ray.data.from_arrow(blocks), ray.data.from_arrow(blocks[::-1])
    plan = adapter.plan(dataset, 1000, size="length")
    given: dict[str, Any] = {"size": "length", "batches_per_file": 32, **order()}
    adapter.write_batches(dataset, plan, tmp_path, **given)
    victim = sorted(tmp_path.rglob("*.parquet"))[1]
    content = victim.read_bytes()
    victim.unlink()
    adapter.write_batches(other, plan, tmp_path, **given)
    assert victim.read_bytes() == content
    expect_batches_of_samplers(tmp_path)
    with pytest.raises(sab.MismatchError, match="in other blocks: use another folder"):
        adapter.write_batches(dataset.repartition(3), plan, tmp_path, **given)


def test_functions_give_sizes_inside_the_engine(ray: Any, tmp_path: pathlib.Path) -> None:
    import sab.ray as adapter

    dataset = ray.data.from_arrow(table().select(["id", "tokens"])).repartition(3)

    def count_tokens(rows: Any) -> Any:
        return np.array([len(each) for each in rows.column("tokens")])

    def lose_a_row(rows: Any) -> Any:
        return count_tokens(rows)[1:]

    plan = sab.plan(adapter.histogram(dataset, count_tokens), budget=1000)
    adapter.write_batches(dataset, plan, tmp_path, size=count_tokens, columns=["id"])
    ids = [i for batch in sab.BatchDataset(tmp_path) for i in batch["id"].tolist()]
    assert sorted(ids) == list(range(COUNT))
    with pytest.raises(ValueError, match=r"partition \d: size gave an array of shape"):
        adapter.histogram(dataset, lose_a_row)
    with pytest.raises(ValueError, match="must be a column of partition"):
        adapter.histogram(dataset, "weight")
    other = sab.plan(sab.Histogram([1, 2, 3]), budget=1000)
    with pytest.raises(sab.MismatchError, match="the plan of other data"):
        adapter.write_batches(dataset, other, tmp_path / "other", size=count_tokens)
    twice = dataset.union(dataset)
    with pytest.raises(sab.MismatchError, match=r"partitions \d and \d have the same rows"):
        adapter.write_batches(twice, plan, tmp_path / "other", size=count_tokens)

    def change_a_size(rows: Any) -> Any:
        sizes, called = count_tokens(rows), tmp_path / f"called-{rows.column('id')[0]}"
        sizes[0] += called.exists()
        called.touch()
        return sizes

    with pytest.raises(sab.MismatchError, match=r"partition \d: its sizes are not those of its"):
        adapter.write_batches(dataset, plan, tmp_path / "other", size=change_a_size)
    assert not (tmp_path / "other" / "manifest.json").exists()


def test_rows_of_a_packing(ray: Any, tmp_path: pathlib.Path) -> None:
    import sab.ray as adapter

    dataset = ray.data.from_arrow([table().slice(0, 900), table().slice(900)])
    packing = sab.Packing(adapter.histogram(dataset, "length"), CAPACITY)
    given: dict[str, Any] = {"size": "length", "batches_per_file": 100, **packing_order()}
    manifest = adapter.write_batches(dataset, packing, tmp_path / "rows", **given)
    assert manifest["fingerprint"] == f"{packing.info.fingerprint:016x}"
    expect_rows_of_samplers(tmp_path / "rows")

    def refused(error: type[Exception], match: str, packing: sab.Packing, data: Any) -> None:
        with pytest.raises(error, match=match):
            adapter.write_batches(data, packing, tmp_path / "other", **given)

    own, lengths = sab.Histogram(table().column("length").to_numpy()), np.ones(COUNT)
    refused(sab.MismatchError, "it is the packing of other data", packing, dataset.limit(900))
    other = sab.Packing(sab.Histogram(lengths), CAPACITY)
    refused(sab.MismatchError, "must be the size of samples of the packing", other, dataset)
    cost = sab.Packing(own, CAPACITY, balance=lambda count, length: count * length)
    refused(sab.UnsupportedError, "balance is a function: must be a name", cost, dataset)
    named = dataset.rename_columns({"id": "cu_seqlens"})
    refused(ValueError, "columns: 'cu_seqlens' is the name of a column that the", packing, named)
    assert not (tmp_path / "other").exists()


def test_epochs_of_a_mixture(ray: Any, tmp_path: pathlib.Path) -> None:
    import sab.ray as adapter

    def source_of(block: Any) -> Any:
        return block.column("corpus").to_numpy()

    given: dict[str, Any] = {"size": "length", "source": "corpus", "sources": NAMES}
    writing = {**given, **order(), "batches_per_file": 32}
    for blocks in (1, 8):
        dataset = ray.data.from_arrow(mixture()).repartition(blocks)
        whole = adapter.histogram(dataset, **given)
        assert whole == adapter.histogram(dataset, **{**given, "source": source_of})
        plan = sab.plan(whole.epoch(3, repeat=REPEATS), 1000)
        target = tmp_path / str(blocks)
        manifest = adapter.write_batches(dataset, plan, target, epoch=3, **writing)
        assert manifest["samples"] == plan.sample_count
        expect_epoch_of_mixture(target, 3, order())
    folders = tmp_path / "1", tmp_path / "8"
    names = [str(path.relative_to(folders[0])) for path in folders[0].rglob("*.parquet")]
    assert filecmp.cmpfiles(*folders, names, shallow=False)[1:] == ([], [])
    dataset = ray.data.from_arrow(mixture())

    def refused(error: type[Exception], match: str, plan: Any, data: Any, **changed: Any) -> None:
        with pytest.raises(error, match=match):
            adapter.write_batches(
                data, plan, tmp_path / "other", **{**writing, "epoch": 3, **changed}
            )

    refused(
        ValueError,
        "must be given: the plan is of an epoch",
        plan,
        dataset,
        source=None,
        sources=None,
    )
    refused(ValueError, "source and sources: must be given together", plan, dataset, source=None)
    refused(ValueError, "must be different names", plan, dataset, sources=[])
    refused(ValueError, "has the source 'code': must be one of", plan, dataset, sources=["wiki"])
    refused(ValueError, "source = 'x': must be a column of", plan, dataset, source="x")
    refused(sab.MismatchError, "must be the epoch of the plan, 3", plan, dataset, epoch=2)
    refused(sab.MismatchError, "of an epoch of other data", plan, dataset.limit(900))
    copy = sab.Plan.from_bytes(plan.to_bytes())
    refused(sab.MismatchError, "numbers", copy, dataset.union(dataset))
    plain = adapter.plan(dataset, 1000, size="length")
    refused(sab.MismatchError, "the plan is of no epoch of a mixture", plain, dataset)
    packing = sab.Packing(adapter.histogram(dataset, "length"), CAPACITY)
    refused(sab.UnsupportedError, "source: must be None for a packing", packing, dataset)
    assert not (tmp_path / "other").exists()


def test_several_sizes_inside_the_engine(ray: Any, tmp_path: pathlib.Path) -> None:
    import sab.ray as adapter

    source = table().column("length").to_numpy()
    pairs = {"source": source, "target": source[::-1]}
    rows = pa.table({"id": np.arange(COUNT), **pairs})
    dataset = ray.data.from_arrow([rows.slice(0, 700), rows.slice(0, 0), rows.slice(700)])

    def both(block: Any) -> Any:
        return {name: block.column(name).to_numpy() for name in pairs}

    def lose_a_row(block: Any) -> Any:
        return {name: sizes[1:] for name, sizes in both(block).items()}

    names = list(pairs)
    histogram = adapter.histogram(dataset, names)
    assert histogram == adapter.histogram(dataset, both) == sab.Histogram(pairs)
    budget = {"source": 500, "target": 600}
    plan = adapter.plan(dataset, budget, size=names)
    adapter.write_batches(dataset, plan, tmp_path / "indices", size=both, columns=[])
    batches = sab.BatchDataset(tmp_path / "indices", rank=0, world_size=1)
    expected = sab.BucketSampler(sab.plan(pairs, budget))
    assert [batch["indices"].tolist() for batch in batches] == [list(batch) for batch in expected]
    with pytest.raises(ValueError, match=r"partition \d: size\['source'\] gave an array of shape"):
        adapter.histogram(dataset, lose_a_row)
    for size in (names[::-1], "source"):
        with pytest.raises(sab.MismatchError, match=r"plan of the columns \('source', 'target'\)"):
            adapter.write_batches(dataset, plan, tmp_path / "other", size=size)


# Random moments at which a worker is killed, and as many at which the driver is.
KILLS = int(os.environ.get("SAB_TEST_KILLS", "1"))

DRIVER = """
    import pathlib, sys, time, pyarrow.parquet, ray, sab, sab.ray
    from sab import _batch_files

    def slowly(path, job, table, write=_batch_files.write_file):
        time.sleep(0.1)
        return write(path, job, table)

    sab.ray.write_file = slowly
    cluster, source, plan, target = sys.argv[1:]
    ray.init(address=cluster, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    files = sorted(pathlib.Path(source).iterdir())
    dataset = ray.data.from_arrow([pyarrow.parquet.read_table(file) for file in files])
    print("begins", flush=True)
    order = {"seed": 5, "world_size": 3, "batches_per_file": 8}
    sab.ray.write_batches(dataset, sab.Plan.open(plan), target, size="length", **order)
"""


@pytest.mark.parametrize("victim", ["worker", "driver"])
def test_each_row_is_there_once_after_kills(ray: Any, tmp_path: pathlib.Path, victim: str) -> None:
    psutil = pytest.importorskip("psutil", reason="psutil is not installed")
    source = tmp_path / "source"
    source.mkdir()
    shards(source, 4)
    sab.plan(sab.Histogram(table().column("length").to_numpy()), budget=1000).save(
        tmp_path / "plan"
    )
    (tmp_path / "driver.py").write_text(textwrap.dedent(DRIVER))
    cluster = ray.get_runtime_context().gcs_address
    command = [sys.executable, tmp_path / "driver.py", cluster, source, tmp_path / "plan"]

    def start(target: pathlib.Path) -> subprocess.Popen[str]:
        driver = subprocess.Popen([*command, target], stdout=subprocess.PIPE, text=True)
        assert driver.stdout is not None
        assert driver.stdout.readline() == "begins\n"
        return driver

    def kill_worker() -> None:
        workers: list[Any] = []
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error, IndexError):  # it ends, or has ended
                title = child.cmdline()[0]
                if title.startswith("ray::") and not title.endswith("Agent"):
                    workers.append(child)
        with contextlib.suppress(psutil.NoSuchProcess):
            workers[random.integers(len(workers))].kill()

    driver, begin = start(tmp_path / "whole"), time.monotonic()
    assert driver.wait(300) == 0
    duration = time.monotonic() - begin
    random = np.random.default_rng(1)
    for number in range(KILLS):
        target = tmp_path / str(number)
        driver = start(target)
        time.sleep(random.uniform(0, duration))
        if victim == "driver":
            driver.kill()
            driver.wait()
            left = {path: path.stat().st_mtime_ns for path in target.rglob("*.parquet")}
            driver = start(target)
        else:
            left = {}
            kill_worker()
        assert driver.wait(300) == 0
        assert all(path.stat().st_mtime_ns == when for path, when in left.items())
        expect_batches_of_samplers(target)
        assert not list(target.rglob("*.partial"))
