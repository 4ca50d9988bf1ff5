"""Sizes from lists, arrays, files and columns, and what is refused with words that help."""

import decimal
import sys

import numpy as np
import pytest

import sab
from sab.cli import main


def all_of(*arguments, **options):
    sizes = sab.Sizes(*arguments, **options)
    return [sizes[index] for index in range(len(sizes))]


def test_lists_and_texts_have_lengths():
    assert all_of([[1, 2], [], (3,)]) == [2, 0, 1]
    assert all_of([np.zeros(3), np.zeros(1)]) == [3, 1]
    assert all_of(["a", "\u00e9\u4e16", ""]) == [1, 5, 0]  # bytes of UTF-8
    assert all_of(("a", b"\xff\xfe")) == [1, 2]
    assert all_of(np.array(["a", "bcd"])) == [1, 3]
    assert all_of(np.array(["a", "bcd"], object)) == [1, 3]
    assert all_of(["\ud800"]) == [3]


def test_words_end_at_ascii_white_space():
    texts = ["one two\tthree\n", " \v\f\r ", "a\u00a0b \u2003 c", "x"]
    assert all_of(texts, words=True) == [3, 0, 3, 1]
    with pytest.raises(TypeError, match="words = 'no': must be True or False"):
        sab.Sizes(texts, words="no")


def test_none_is_refused_or_zero():
    for source, sizes in (
        (["ab", None], [2, 0]),
        ([None, [1]], [0, 1]),
        ([None, 3.5], [0, 3.5]),
        ((7, None), [7, 0]),
    ):
        index = source.index(None)
        with pytest.raises(ValueError, match=rf"sizes\[{index}\] is None: nulls='zero'"):
            sab.Sizes(source)
        assert all_of(source, nulls="zero") == sizes
    with pytest.raises(ValueError, match="nulls = 'no': must be one of 'error', 'zero'"):
        sab.Sizes([1], nulls="no")


def test_half_floats():
    half = np.array([1.5, 3], np.float16)
    assert all_of(half) == [1.5, 3]
    torch = pytest.importorskip("torch")
    for dtype in (torch.float16, torch.bfloat16):
        assert all_of(torch.tensor([1.5, 3], dtype=dtype)) == [1.5, 3]


@pytest.mark.parametrize(
    "source, message",
    [
        ((n for n in [1]), "is a generator, which can be read only once: pass list"),
        (iter([1]), "is a list_iterator, which can be read only once"),
        ({"length": [1]}, "is a dict: pass one of its values, such as sizes.name. of 'length'"),
        ({1, 2}, "is a set, which has no order: pass a list"),
        (["a", 1], r"sizes\[1\] has type int: must be a text"),
        ([[1], "a"], r"sizes\[1\] has type str: must be a list"),
        ([decimal.Decimal(1)], "dtype object"),
        ([object()], "dtype object"),
    ],
)
def test_sources_that_cannot_be_read(source, message):
    with pytest.raises(TypeError, match=message):
        sab.Sizes(source)


def test_a_column_of_what_has_none():
    with pytest.raises(TypeError, match="column = 'x': sizes of type list have no columns"):
        sab.Sizes([1], column="x")
    with pytest.raises(ValueError, match="column = 'x': a function has no columns"):
        sab.Sizes(float, count=1, column="x")
    with pytest.raises(ValueError, match="format = 'npy': is for files only"):
        sab.Sizes([1], format="npy")


def test_files_are_one_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = [tmp_path / "b.npy", tmp_path / "a.npy"]
    for path, sizes in zip(paths, ([1, 2, 3], [4.5])):
        np.save(path, sizes)
    assert all_of(paths) == [1, 2, 3, 4.5] == sab.Sizes(paths).values().tolist()
    sizes = sab.Sizes(paths)
    assert sizes.source(0) == (str(paths[0]), 0) and sizes.source(-1) == (str(paths[1]), 0)
    assert sab.Sizes("*.npy").source(1) == ("b.npy", 0)
    with pytest.raises(IndexError, match="index = 4: there are 4 sizes"):
        sizes.source(4)
    with pytest.raises(FileNotFoundError, match=r"no file matches '\*\.txt'"):
        sab.Sizes("*.txt")
    with pytest.raises(ValueError, match=r"'a.npy' is the name of a file: pass pathlib.Path"):
        sab.Sizes(["a.npy", "b.npy"])
    np.save("[a].npy", [7])  # a name that is also a pattern
    assert all_of("[a].npy") == [7]
    assert sab.plan("*.npy", budget=10).sample_count == 5


def test_columns_of_data_sets():
    datasets = pytest.importorskip("datasets")
    rows = {
        "length": [3, 1, 2, 5],
        "text": ["a b", "\u00e9", "", "d e f"],
        "ids": [[1], [], [1, 2], [3]],
        "audio": [{"frames": n, "tags": ["x"] * n} for n in (4, 3, 2, 1)],
    }
    whole = datasets.Dataset.from_dict(rows)
    assert all_of(whole, column="length") == [3, 1, 2, 5]
    assert all_of(whole, column="text") == [3, 2, 0, 5]
    assert all_of(whole, column="text", words=True) == [2, 1, 0, 3]
    assert all_of(whole, column="ids") == [1, 0, 2, 1]
    assert (
        all_of(whole, column="audio.frames") == [4, 3, 2, 1] == all_of(whole, column="audio.tags")
    )
    mixed = whole.shuffle(seed=3).select([2, 0, 3]).with_format("numpy")
    assert all_of(mixed, column="length") == mixed["length"].tolist()
    assert all_of(mixed, column="audio.frames") == [row["audio"]["frames"] for row in mixed]
    both = datasets.concatenate_datasets([whole, whole.select([1])])
    assert all_of(both, column="length") == [3, 1, 2, 5, 1]
    assert all_of(whole.select([]), column="length") == []
    assert all_of(whole.select_columns(["length"])) == [3, 1, 2, 5]
    assert sab.plan(sab.Sizes(mixed, column="length"), budget=9).sample_count == 3
    for column, error, message in (
        (None, ValueError, "must be given for a data set with the columns length, text"),
        ("size", ValueError, "column = 'size': the data set has the columns length, text"),
        ("audio.rate", ValueError, "there is no field 'rate'"),
        ("length.x", ValueError, "there is no field 'x' in int64"),
        ("audio", TypeError, "has type struct"),
    ):
        with pytest.raises(error, match=message):
            sab.Sizes(whole, column=column)
    nulls = datasets.Dataset.from_dict({"length": [3, None, 2]})
    with pytest.raises(ValueError, match="column = 'length': row 1 is null; nulls='zero'"):
        sab.Sizes(nulls)
    assert all_of(nulls, nulls="zero") == [3, 0, 2]
    with pytest.raises(TypeError, match="is a DatasetDict: pass one of its values"):
        sab.Sizes(datasets.DatasetDict(train=whole))
    with pytest.raises(TypeError, match="iterable data set"):
        sab.Sizes(whole.to_iterable_dataset(), column="length")


def test_arrow_objects():
    pa = pytest.importorskip("pyarrow")
    dataset = pytest.importorskip("pyarrow.dataset")
    table = pa.table(
        {
            "length": pa.chunked_array([[3, 1], [2]]),
            "text": ["a b", "\u00e9", ""],
            "ids": [[1], [], [1, 2]],
        }
    )
    for source in (
        table,
        table.to_reader(),
        table.to_batches(),
        dataset.dataset(table).scanner(),
    ):
        for part in source if isinstance(source, list) else [source]:
            assert all_of(part, column="length") in ([3, 1, 2], [3, 1], [2])
    assert all_of(table["length"]) == [3, 1, 2] == all_of(table["length"].combine_chunks())
    assert all_of(table, column="text") == [3, 2, 0]
    assert all_of(table, column="text", words=True) == [2, 1, 0]
    assert all_of(table, column="ids") == [1, 0, 2]
    with pytest.raises(ValueError, match=r"length.*text.*ids"):
        sab.Sizes(table, column="size")
    with pytest.raises(ValueError, match="null"):
        sab.Sizes(pa.array([1, None]))
    assert all_of(pa.array([1, None]), nulls="zero") == [1, 0]
    pandas = pytest.importorskip("pandas")
    assert all_of(pandas.DataFrame({"length": [3, 1]}), column="length") == [3, 1]
    assert all_of(pandas.Series([3, 1])) == [3, 1]
    assert sab.plan(table["length"], budget=6).sample_count == 3


def test_polars_and_duckdb():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"length": [3, 1], "text": ["a b", "\u00e9"], "ids": [[1], []]})
    assert all_of(frame["length"]) == [3, 1] == all_of(frame, column="length")
    assert all_of(frame, column="text") == [3, 2] and all_of(frame["ids"]) == [1, 0]
    pytest.importorskip("pyarrow")
    duckdb = pytest.importorskip("duckdb")
    query = "select unnest([3, 1, 2]) as length, 'abc' as text"
    assert all_of(duckdb.sql(query), column="length") == [3, 1, 2]
    assert all_of(duckdb.sql(query), column="text") == [3, 3, 3]


def test_files_of_columns(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet

    table = pa.table({"length": [3, 1, 2], "text": ["a b", "cde", ""]})
    paths = [tmp_path / name for name in ("a.parquet", "b.arrow", "c.csv")]
    pyarrow.parquet.write_table(table, paths[0])
    pyarrow.feather.write_feather(table, paths[1])
    pyarrow.csv.write_csv(table, paths[2])
    for path in paths:
        assert all_of(path, column="length") == [3, 1, 2]
        assert all_of(path, column="text", words=True) == [2, 1, 0]
    assert sab.Sizes(paths, column="length").source(4) == (str(paths[1]), 1)
    with pytest.raises(ValueError, match="column = 'size': must be one of length, text"):
        sab.Sizes(paths, column="size")


def test_files_of_columns_need_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    (tmp_path / "a.csv").write_text("length\n3\n")
    with pytest.raises(ImportError, match="pyarrow is needed to read the format csv: pip install"):
        sab.Sizes(tmp_path / "a.csv", column="length")


def test_a_plan_is_written_as_a_schedule(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    np.save(tmp_path / "sizes.npy", np.arange(1, 301) % 50 + 1)
    output = str(tmp_path / "schedule.parquet")
    arguments = ["plan", str(tmp_path / "sizes.npy"), "--budget", "200", "--world-size", "2"]
    assert main([*arguments, "--seed", "3", "--output", output]) == 0
    rows = pyarrow.parquet.read_table(output).to_pylist()
    plan = sab.plan(str(tmp_path / "sizes.npy"), budget=200)
    for rank in range(2):
        batches = list(sab.BucketSampler(plan, seed=3, rank=rank, world_size=2).batches())
        mine = [row for row in rows if row["rank"] == rank]
        assert [row["indices"] for row in mine] == [batch.indices.tolist() for batch in batches]
        assert [row["padded_length"] for row in mine] == [each.padded_length for each in batches]
        assert [row["step"] for row in mine] == [each.step for each in batches]
    assert [row["batch"] for row in rows] == list(range(len(rows)))
    assert f"schedule: {output}" in capsys.readouterr().out


def test_a_schedule_needs_pyarrow(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    np.save(tmp_path / "sizes.npy", np.arange(1, 30))
    assert main(["plan", str(tmp_path / "sizes.npy"), "--output", "x.parquet"]) == 2
    assert "--output x.parquet: needs pyarrow: pip install pyarrow" in capsys.readouterr().err
