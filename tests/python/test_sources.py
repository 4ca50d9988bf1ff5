"""Sizes from lists, arrays, files and columns, and what is refused with words that help."""

import decimal
import gzip
import json
import os
import pathlib
import random
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


def test_slices_and_values_read_many_sizes():
    sizes = sab.Sizes(lambda index: 10 * index, count=5)
    assert sizes.values().tolist() == [0, 10, 20, 30, 40] and sizes[-1] == 40
    for chosen in (slice(1, 4), slice(None, None, 2), slice(4, 0, -3), slice(3, 3), slice(-2, 99)):
        assert sizes[chosen].tolist() == list(range(0, 50, 10))[chosen]
    assert sab.Sizes(lambda index: 1, count=0).values().tolist() == []
    with pytest.raises(ValueError, match=r"sizes\[1\] = -2"):
        sab.Sizes([1, -2])[:]


def test_null_in_json_lines_is_refused_or_zero(tmp_path):
    path = tmp_path / "sizes.jsonl"
    path.write_text('{"length": 5}\n{"length": null}\n')
    assert all_of(path, column="length", nulls="zero") == [5, 0]
    with pytest.raises(sab.FormatError, match='line 2: field "length" is null'):
        sab.Sizes(path, column="length", missing="skip")


def in_members(data, size):
    """gzip of several members: the reader gets `size` bytes at a time."""
    return b"".join(gzip.compress(data[k : k + size], 0) for k in range(0, len(data), size))


def test_lines_are_read_as_python_reads_them_in_blocks_of_any_size(tmp_path):
    generator = random.Random(0)
    path = tmp_path / "lines"

    def random_lines():
        for _ in range(generator.randrange(1, 8)):
            row = {"text": "x\u00e9\n\\"[: generator.randrange(5)] * generator.randrange(20)}
            row["length"] = generator.choice([generator.randrange(1000), generator.random()])
            yield json.dumps(dict(generator.sample(list(row.items()), 2)))

    for size in [*range(1, 65), 1 << 20]:
        for end in ("\n", "\r\n", "\n\n"):
            text = end.join(random_lines()) + end * generator.randrange(2)
            data = text.encode()
            path.write_bytes(data if size > 64 else in_members(data, size))
            rows = [json.loads(line) for line in text.splitlines() if line]
            lengths = [float(row["length"]) for row in rows]
            texts = [len(row["text"].encode()) for row in rows]
            assert all_of(path, format="jsonl", column="length") == lengths, (size, text)
            assert all_of(path, format="jsonl", column="text") == texts, (size, text)
            lines = [line.removesuffix(b"\r") for line in data.removesuffix(b"\n").split(b"\n")]
            assert all_of(path, format="text") == list(map(len, lines)), (size, text)
            stream = sab.Stream.from_files([path], encoding=None)
            assert [bytes(record) for record in stream] == lines, (size, text)


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
        ({3: [1]}, "sizes has the key 3: the name of a column must be a text"),
        ({1, 2}, "is a set, which has no order: pass a list"),
        (["a", 1], r"sizes\[1\] has type int: must be a text"),
        ([[1], "a"], r"sizes\[1\] has type str: must be a list"),
        ([decimal.Decimal(1)], "dtype object"),
        ([object()], "is an object: must be a number"),
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
    assert all_of(mixed, column="length") == [row["length"] for row in mixed]
    assert all_of(mixed["length"]) == [row["length"] for row in mixed]  # a Column since datasets 4
    assert all_of(mixed, column="text", words=True) == [len(row["text"].split()) for row in mixed]
    assert all_of(mixed, column="audio.frames") == [row["audio"]["frames"] for row in mixed]
    both = datasets.concatenate_datasets([whole, whole.select([1])])
    assert all_of(both, column="length") == [3, 1, 2, 5, 1]
    assert all_of(whole.select([]), column="length") == []
    assert all_of(whole.select_columns(["length"])) == [3, 1, 2, 5]
    assert sab.plan(sab.Sizes(mixed, column="length"), budget=9).sample_count == 3
    for column, error, message in (
        (None, ValueError, "column = None: must be one of length, text, ids, audio.frames, audio."),
        ("size", ValueError, "column = 'size': must be one of length, text"),
        ("audio.rate", ValueError, "column = 'audio.rate': must be one of length"),
        ("length.x", ValueError, "column = 'length.x': must be one of length"),
        ("audio", ValueError, "column = 'audio': must be one of length"),
    ):
        with pytest.raises(error, match=message):
            sab.Sizes(whole, column=column)
    nulls = datasets.Dataset.from_dict({"length": [3, None, 2]})
    with pytest.raises(
        ValueError, match="column \"length\"\\[1\\]: is null; nulls = 'zero' counts"
    ):
        sab.Sizes(nulls)
    assert all_of(nulls, nulls="zero") == [3, 0, 2]
    texts = datasets.Dataset.from_dict({"text": ["a b", None, "c", b"d".decode()]})
    assert all_of(texts.select([2, 0])) == [1, 3]  # rows that were not selected are not checked
    with pytest.raises(ValueError, match=r'column "text"\[2\]: is null'):
        sab.Sizes(texts.select([3, 2, 1]), words=True)
    assert all_of(texts.select([2, 1]), nulls="zero") == [1, 0]
    negative = datasets.Dataset.from_dict({"length": [3, -1, 2]})
    assert all_of(negative.select([2, 0])) == [2, 3]
    binary = datasets.Dataset.from_dict({"data": [b"a b", b"c"]})
    assert all_of(binary) == [3, 1]
    for source in (binary, binary.select([1, 0])):
        with pytest.raises(ValueError, match='column "data": binary values have no words'):
            sab.Sizes(source, words=True)
    with pytest.raises(TypeError, match="is a DatasetDict: pass one of its values"):
        sab.Sizes(datasets.DatasetDict(train=whole))
    with pytest.raises(TypeError, match=r"iterable data set.*from_iterable\(\)"):
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


def test_files_of_columns_keep_lengths_only(tmp_path):
    """Texts and lists are measured batch by batch."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    def held_by(path, column, **options):
        before = pa.total_allocated_bytes()
        sizes = sab.Sizes(path, column=column, **options)
        assert len(sizes) == 3000 and sizes[2999] == (1 if options else 999)
        return pa.total_allocated_bytes() - before

    texts = ["x" * (1 + index % 1000) for index in range(3000)]
    texts[-1] = "x" * 999
    table = pa.table({"text": texts, "ids": [[0] * (index % 1000) for index in range(3000)]})
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=500)
    for column, options in (("text", {}), ("ids", {}), ("text", {"words": True})):
        assert held_by(path, column, **options) < 100_000


def test_arrow_streams_and_fields_of_structs(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    audio = [{"frames": n, "tags": ["x"] * n} for n in (4, 3, 2, 1)]
    table = pa.table({"a.b": [1, 2, 3, 4], "audio": audio, "text": ["a b", "\u00e9", "", "c"]})
    stream, file = tmp_path / "cache.arrow", tmp_path / "b.ipc"
    for path, new in ((stream, pa.ipc.new_stream), (file, pa.ipc.new_file)):
        with new(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    parquet = tmp_path / "c.parquet"
    pyarrow.parquet.write_table(table, parquet)
    for path in (stream, file, parquet):
        assert all_of(path, column="a.b") == [1, 2, 3, 4]
        assert all_of(path, column="audio.frames") == [4, 3, 2, 1]
        assert all_of(path, column="audio.tags") == [4, 3, 2, 1]
        assert all_of(path, column="text", words=True) == [2, 1, 0, 1]
        with pytest.raises(ValueError, match=f"{path}: column = 'x': must be one of a.b, audio.fr"):
            sab.Sizes(path, column="x")
    description = sab.Sizes(stream, column="text").description
    assert description == 'Arrow IPC, column "text", sizes in bytes: 4 texts'
    nulls = tmp_path / "nulls.parquet"
    pyarrow.parquet.write_table(pa.table({"text": ["a", None, "bc"]}), nulls, row_group_size=1)
    with pytest.raises(ValueError, match=rf'{nulls}: column "text"\[1\]: is null'):
        sab.Sizes(nulls)
    assert all_of(nulls, nulls="zero") == [1, 0, 2]


def test_names_of_csv_files(tmp_path):
    pytest.importorskip("pyarrow")
    rows = 'length,text\n3,"a\nb"\n1,c\n'
    for name in ("a.CSV", "b.csv.gz", "c.tsv", "D.TSV.GZ"):
        text = rows.replace(",", "\t") if "tsv" in name.lower() else rows
        data = gzip.compress(text.encode()) if name.lower().endswith(".gz") else text.encode()
        (tmp_path / name).write_bytes(data)
        assert all_of(tmp_path / name, column="length") == [3, 1]
        assert all_of(tmp_path / name, column="text") == [3, 1]
    (tmp_path / "damaged.csv").write_text("length,text\n3\n")
    with pytest.raises(sab.FormatError, match=r"damaged\.csv: CSV parse error: .*Expected 2"):
        sab.Sizes(tmp_path / "damaged.csv", column="length")


def test_reading_a_table_reports_progress_and_can_be_cancelled(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.csv"
    path.write_text("length\n" + "7\n" * 1000)
    seen = []
    assert len(sab.Sizes(path, progress=lambda *share: seen.append(share))) == 1000
    assert seen == [(path.stat().st_size,) * 2]
    with pytest.raises(sab.Cancelled):
        sab.Sizes(path, progress=lambda done, total: False)
    with pytest.raises(ZeroDivisionError):
        sab.Sizes(path, progress=lambda done, total: 1 // 0)


def test_pipes_are_read_from_standard_input_only(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for ever
    with pytest.raises(ValueError, match='pipe: is not a regular file; read a pipe as "-", the st'):
        sab.Sizes(tmp_path / "pipe")
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="-: Parquet is read from its end"):
        sab.Sizes("-", format="parquet")


def test_a_file_without_a_sample_is_an_error(tmp_path):
    np.save(tmp_path / "empty.npy", np.empty(0))
    with pytest.raises(ValueError, match=r"empty.npy: has no sample"):
        sab.Sizes(tmp_path / "empty.npy")
    assert len(sab.Sizes(np.empty(0))) == 0


def test_a_file_named_minus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("-").write_text("3\n1\n")
    assert all_of(pathlib.Path("-")) == [3, 1] == all_of("./-")


def test_masked_arrays():
    masked = np.ma.masked_array([3, 1, 2], [False, True, False])
    with pytest.raises(ValueError, match=r"sizes\[1\] is masked: nulls='zero' counts it as 0"):
        sab.Sizes(masked)
    assert all_of(masked, nulls="zero") == [3, 0, 2]
    assert all_of(np.ma.masked_array([3, 1, 2])) == [3, 1, 2]


@pytest.mark.parametrize("place", ["x", 1.5, None])
def test_a_place_must_be_a_whole_number(place):
    sizes = sab.Sizes([1, 2])
    for call in (sizes.__getitem__, sizes.source):
        with pytest.raises(TypeError, match=f"index = {place!r}: must be a whole number"):
            call(place)
    sampler = sab.BucketSampler(sab.plan([1, 2], budget=2), seed=0)
    with pytest.raises(TypeError, match=f"position = {place!r}: must be a whole number"):
        sampler[place]


def test_files_of_columns_need_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
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
        assert [row["batch"] for row in mine] == list(range(len(mine)))
    assert [row["rank"] for row in rows] == [0, 1] * (len(rows) // 2)
    assert f"schedule: {output}" in capsys.readouterr().out


def test_a_schedule_needs_pyarrow(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    np.save(tmp_path / "sizes.npy", np.arange(1, 30))
    assert main(["plan", str(tmp_path / "sizes.npy"), "--output", "x.parquet"]) == 2
    assert "--output x.parquet: needs pyarrow: pip install pyarrow" in capsys.readouterr().err


NUMBERS = ["3.25", " 120.75", "7", "1e3", "+.5"]
VALUES = [3.25, 120.75, 7, 1000, 0.5]


def sources_of(texts, tmp_path):
    """The texts in each kind of source, with the options that read them."""
    yield texts, {}
    yield tuple(text.encode() for text in texts), {}
    yield np.array(texts), {}
    yield np.array(texts, object), {}
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"a": {"b": text}}) + "\n" for text in texts))
    yield path, {"column": "a.b"}
    polars = pytest.importorskip("polars")
    yield polars.Series(texts), {}
    yield polars.DataFrame({"text": texts, "other": texts}), {"column": "text"}
    pa = pytest.importorskip("pyarrow")
    import pyarrow.feather
    import pyarrow.parquet

    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()):
        array = pa.array([text.encode() for text in texts], pa.binary()).cast(kind)
        yield pa.chunked_array([array[:2], array[2:]]), {}
    yield pa.array(texts).dictionary_encode(), {}
    table = pa.table({"text": texts, "other": texts})
    pyarrow.parquet.write_table(table, tmp_path / "texts.parquet", row_group_size=2)
    pyarrow.feather.write_feather(table, tmp_path / "texts.arrow")
    yield tmp_path / "texts.parquet", {"column": "text"}
    yield tmp_path / "texts.arrow", {"column": "text"}


def test_texts_that_are_all_numbers_are_refused_or_read(tmp_path):
    rule = r"all texts .* numbers, such as .*3.25.*: units='value' reads them as numbers, units='by"
    for source, options in sources_of(NUMBERS, tmp_path):
        with pytest.raises(ValueError, match=rule):
            sab.Sizes(source, **options)
        assert all_of(source, units="value", **options) == VALUES
        assert all_of(source, units="bytes", **options) == list(map(len, NUMBERS))
    for source, options in sources_of([*NUMBERS, "", "a text"], tmp_path):
        assert all_of(source, **options) == [*map(len, NUMBERS), 0, 6]
        with pytest.raises(ValueError, match="must be a number"):
            sab.Sizes(source, units="value", **options)[0]
    with pytest.raises(ValueError, match=r"pass sab.Sizes\(sizes, units='value'\)"):
        sab.plan(NUMBERS, budget=16)
    with pytest.raises(ValueError, match="units = 'characters': must be one of"):
        sab.Sizes(NUMBERS, units="characters")
    with pytest.raises(ValueError, match="units = 'value': must not be given with words=True"):
        sab.Sizes(NUMBERS, units="value", words=True)


def test_missing_values_do_not_make_numbers_texts(tmp_path):
    for missing in ("", " ", "nan", "NaN", "-inf", None):
        texts = ["3.25", missing, "7"]
        with pytest.raises(ValueError, match="units='value'"):
            sab.Sizes(texts, nulls="zero")
        path = tmp_path / "a.jsonl"
        path.write_text("".join(json.dumps({"a": text}) + "\n" for text in texts))
        with pytest.raises(ValueError, match="units='value'"):
            sab.Sizes(path, column="a", nulls="zero")
    assert all_of(["3.25", ""]) == [4, 0] == all_of(["3.25", None], nulls="zero", units="bytes")
    path.write_text('{"a": 3}\n{"a": "4.5"}\n')
    with pytest.raises(ValueError, match="units='value'"):
        sab.Sizes(path, column="a")
    assert all_of(path, column="a", units="value") == [3, 4.5]


def test_a_list_and_json_agree_on_what_a_number_is(tmp_path):
    path = tmp_path / "a.jsonl"
    numbers = "0 007 -0 1. .5 5e2 5E+2 1e-3 1e400 inf NaN +Infinity 9999999999999999999999999"
    others = "- . e5 1e 1e+ 1.2.3 1,5 0x10 1_000 3s --1 nano +-1 1e5.0 infinit 1e5e5 5- a5 true"
    for text in [*numbers.split(), *others.split(), "", " ", "1 2", "\t4\r"]:
        path.write_text(json.dumps({"a": text}))
        refusals = []
        for source, options in ((path, {"column": "a"}), ([text], {})):
            try:
                refusals.append(all_of(source, **options))
            except ValueError as error:
                assert "units='value'" in str(error)
                try:
                    refusals.append(all_of(source, units="value", **options))
                except ValueError:
                    refusals.append("no size")
        assert refusals[0] == refusals[1], text


def test_files_of_kaldi(tmp_path):
    names = ("utt2dur", "utt2num_frames", "reco2dur", "utt2dur.1", "utt2dur.gz", "durations")
    lines = "a-1 3.25\nb-2\t120.75\n0003   7 \n"
    for name in names:
        data = lines.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        options = {"format": "kaldi"} if name == "durations" else {}
        assert all_of(tmp_path / name, **options) == [3.25, 120.75, 7]
    with pytest.raises(sab.FormatError, match='a name and a number; format "kaldi" reads the num'):
        sab.Sizes(tmp_path / "durations")
    assert all_of(tmp_path / "durations", format="text") == [8, 10, 9]
    for name in ("speech_shape", "text_shape.bpe", "feats_shape"):  # of ESPnet
        (tmp_path / name).write_text("a-1 325,80\nb-2 1200,80\n")
        options = {"format": "kaldi"} if name == "feats_shape" else {}
        assert all_of(tmp_path / name, **options) == [325, 1200]
    with pytest.raises(sab.FormatError, match="a name and a number; format"):
        sab.Sizes(tmp_path / "feats_shape")
    for damaged in ("b", "\nb 4", "b x", "b -4", "b 4 5", "5", "b 4,", "b ,4", "b 4,x", "b 4;5"):
        (tmp_path / "utt2dur").write_text(f"a 3\n{damaged}\n")
        with pytest.raises(sab.FormatError, match=r"line 2: .*must be a name and a number"):
            sab.Sizes(tmp_path / "utt2dur")
    (tmp_path / "numbers.txt").write_text("duration\n3.25\n7\n")
    with pytest.raises(sab.FormatError, match="a table, by its lines: all but the first are numb"):
        sab.Sizes(tmp_path / "numbers.txt")
    (tmp_path / "numbers.txt").write_text("a 1\nb 2\nc\n")
    assert all_of(tmp_path / "numbers.txt") == [3, 3, 1]


def nested_of(lists, tmp_path):
    yield lists, {}
    yield tuple(lists), {}
    path = tmp_path / "lists.jsonl"
    path.write_text("".join(json.dumps({"ids": ids}) + "\n" for ids in lists))
    yield path, {"column": "ids"}
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    inner = pa.list_(pa.int64())
    for kind in (pa.list_(inner), pa.large_list(inner), pa.list_(pa.large_list(pa.int64()))):
        yield pa.array(lists, kind), {}
    pyarrow.parquet.write_table(pa.table({"ids": lists}), tmp_path / "lists.parquet")
    yield tmp_path / "lists.parquet", {"column": "ids"}


def test_nested_lists_of_one_list_are_refused(tmp_path):
    """input_ids of the shape (1, length), which a tokenizer returns as tensors."""
    for source, options in nested_of([[[101, 7, 8, 102]], [[101, 102]]], tmp_path):
        with pytest.raises((ValueError, TypeError), match=r"the shape \(1, "):
            sab.Sizes(source, **options)
    with pytest.raises(TypeError, match=r"\(1, 4\): must be a list .* pass \[len\(s\[0\]\) for s"):
        sab.Sizes([np.zeros((1, 4)).tolist()])
    with pytest.raises(TypeError, match=r"the shape \(1, 4\): .* pass \[s.shape\[1\] for s in"):
        sab.Sizes([np.zeros((1, 4)), np.zeros((1, 2))])
    for source, options in nested_of([[[101, 7]], [[1], [2]], []], tmp_path):
        assert all_of(source, **options) == [1, 2, 0]  # frames of features
    assert all_of([["one text"], ["another"]]) == [1, 1]
