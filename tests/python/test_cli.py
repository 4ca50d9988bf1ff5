"""The command line: what it reads, what it prints, how it fails; and the systems it compares
with."""

import argparse
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import sab
from sab._cli import baselines
from sab._cli.measure import measure
from sab._cli.meter import Meter
from sab._cli.quantities import quantity, whole
from sab._cli.tables import print_table
from sab.cli import _parser, main

COMMANDS = ("sizes", "compare", "plan", "pack", "memory", "engine")
TEXT = b"one two three\nfour\n\nfive six\n"
FASTA = b">a first\nMKV\nLLA\n>b\n\n>c\nM\n"


def run(*arguments, stdin=b""):
    return subprocess.run(
        [sys.executable, "-m", "sab.cli", *map(str, arguments)], input=stdin, capture_output=True
    )


@pytest.fixture
def sizes_file(tmp_path):
    path = tmp_path / "sizes.npy"
    np.save(path, np.random.default_rng(0).integers(1, 60, 3000))
    return path


@pytest.mark.parametrize(
    "name, content, words, sizes",
    [
        ("a.txt", TEXT, True, [3, 1, 0, 2]),
        ("a.txt", TEXT, False, [13, 4, 0, 8]),
        ("a.txt", TEXT.replace(b"\n", b"\r\n"), False, [13, 4, 0, 8]),
        ("a.txt", TEXT.rstrip(), True, [3, 1, 0, 2]),
        ("a.fasta", FASTA, False, [6, 0, 1]),
        ("a.unknown", FASTA, False, [6, 0, 1]),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_formats(tmp_path, name, content, words, sizes, zipped):
    path = tmp_path / (name + (".gz" if zipped else ""))
    path.write_bytes(gzip.compress(content) if zipped else content)
    read = sab.Sizes(path, words=words)
    assert read.values().tolist() == sizes and f": {len(sizes)} " in read.description


def test_standard_input_and_npy(sizes_file):
    for stdin in (TEXT, gzip.compress(TEXT)):
        assert json.loads(run("plan", "-", "--json", stdin=stdin).stdout)["samples"] == 4
    assert json.loads(run("plan", sizes_file, "--json").stdout)["samples"] == 3000


def test_input_errors(tmp_path, capsys):
    for name, content in (
        ("empty.txt", b""),
        ("broken.gz", gzip.compress(TEXT * 100)[:-9]),
        ("headless.fa", b"MKV\n>a\nM\n"),
        ("mixed.txt", b"1\n" * 40_000 + b"three\n"),
        ("zip", b"PK\x03\x04" + bytes(100)),
        ("nul", b"a\0b\n"),
        ("binary", bytes(range(256)) * 4),
        ("a.jsonl", b'{"length": 3}\n{}\n'),
    ):
        (tmp_path / name).write_bytes(content)
        column = ["--column", "length"] if name == "a.jsonl" else []
        assert main(["sizes", str(tmp_path / name), *column]) == 2, name
        captured = capsys.readouterr()
        assert captured.err.startswith("sab: ") and name in captured.err, captured.err
    path = str(tmp_path / "a.jsonl")
    assert main(["sizes", path, "--column", "length", "--missing", "skip"]) == 0
    assert main(["sizes", str(tmp_path / "none")]) == 2


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["compare", "nowhere"], '"nowhere": No such file'),
        (["plan", "SIZES", "--budget", "0"], "--budget 0"),
        (["plan", "SIZES", "--budget", "0.5"], "no sample is left"),
        (["plan", "SIZES", "--cost", "cubic"], "--cost cubic"),
        (["plan", "SIZES", "--cost", "0,inf"], "--cost 0,inf"),
        (["plan", "SIZES", "--padding", "2"], "sab: --padding 2: must be"),
        (
            ["pack", "SIZES", "--capacity", "20", "--oversize", "error"],
            "must be at most the capacity, 20",
        ),
        (["pack", "SIZES", "--capacity", "0"], "sab: --capacity 0: must be"),
        (["pack", "SIZES_OVER_60", "--capacity", "60"], "no sample is left"),
        (["compare", "SIZES", "--batch-size", "0"], "--batch-size 0"),
        (["compare", "SIZES", "--picture", "x.bmp"], ".png or .svg"),
        (["compare", "SIZES", "--picture", "/nowhere/x.png"], "/nowhere/x.png"),
        (["plan", "SIZES", "--save", "/nowhere/plan"], "/nowhere/plan"),
    ],
)
def test_errors_are_one_line_and_exit_2(sizes_file, capsys, arguments, words):
    over_60 = sizes_file.parent / "over_60.npy"
    np.save(over_60, np.array([61, 70]))
    files = {"SIZES": str(sizes_file), "SIZES_OVER_60": str(over_60)}
    assert main([files.get(word, word) for word in arguments]) == 2
    captured = capsys.readouterr()
    assert words in captured.err and "Traceback" not in captured.err
    assert captured.err.splitlines()[-1].startswith("sab: ")


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("a.jsonl", [], '--column: must name a field of the JSON lines in "a.jsonl"; line 1 '),
        ("a.jsonl", ["--column", "x"], 'line 1: has no field "x"'),
        ("two.txt", ["--oversize", "error"], "3 of 3 samples are over the budget. Set --over"),
        ("two.txt", [], "all 3 are over the budget, 2, also the smallest, sizes[1] = 3; use"),
        ("two.txt", ["--batch-size", "2", "3"], "number of --batch-size = 2: must be 0 or 1"),
        ("nan.npy", [], "sizes[0] = nan: must be a number"),
        ("two.txt", ["--budget", "x"], "argument --budget: 'x' must be a number such as"),
        ("two.txt", ["--buckets", "x"], "argument --buckets: 'x' must be a number such as"),
    ],
)
def test_messages_name_options_in_one_line(tmp_path, monkeypatch, capsys, name, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "two.txt").write_text("4\n3\n5\n")
    np.save("nan.npy", np.copysign([np.nan], -1))
    if "x" in arguments and name == "two.txt":
        with pytest.raises(SystemExit, match=r"^2$"):
            main(["plan", name, *arguments])
    else:
        assert main(["plan", name, "--budget", "2", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("sab: ") and message in error and error.count("\n") == 1


def test_messages_about_columns_name_the_option(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("a,b\n1,\n")
    for arguments, message in (
        ([], "a.csv: --column: must be one of a, b"),
        (["--column", "x"], "a.csv: --column x: must be one of a, b"),
        (["--column", "b"], 'a.csv: column "b"[0]: is null; --nulls zero counts nulls as 0'),
    ):
        assert main(["sizes", "a.csv", *arguments]) == 2
        assert capsys.readouterr().err == f"sab: {message}\n"
    assert main(["sizes", "a.csv", "--column", "b", "--nulls", "zero"]) == 0


def test_plan_prints_its_budget_and_what_it_leaves_out(tmp_path, capsys):
    np.save(tmp_path / "a.npy", [1, 2, 3, 20_000])
    assert main(["plan", str(tmp_path / "a.npy")]) == 0
    assert "\n4 samples, budget 16,384, left out: 25 %\n" in capsys.readouterr().out
    assert main(["plan", str(tmp_path / "a.npy"), "--budget", "20k"]) == 0
    assert "\n4 samples, budget 20,000, left out: none\n" in capsys.readouterr().out


def test_files_are_not_copied_to_plan(sizes_file, monkeypatch):
    def values(sizes):
        raise AssertionError("only baselines and pictures need an array")

    monkeypatch.setattr(sab.Sizes, "values", values)
    for command in ("sizes", "plan", "pack"):
        assert main([command, str(sizes_file), str(sizes_file)]) == 0


def test_a_file_named_minus_is_no_standard_input(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_text("3\n")
    assert main(["sizes", "./-"]) == 0
    assert capsys.readouterr().out.startswith("./-: read as lines of numbers: 1 size")
    (tmp_path / "-2").write_text("4\n")
    assert main(["sizes", "./-*", "--json"]) == 0  # a pattern
    assert json.loads(capsys.readouterr().out)["total"] == 7


def test_columns_from_standard_input():
    pa = pytest.importorskip("pyarrow")
    rows = b"length,text\n3,a\n1,\n"
    options = ("--column", "length", "--json")
    for stdin in (rows, gzip.compress(rows)):
        done = run("sizes", "-", "--format", "csv", *options, stdin=stdin)
        assert json.loads(done.stdout)["total"] == 4, done.stderr
    stream = io.BytesIO()
    table = pa.table({"length": [3, 1], "other": ["a", "b"]})
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    done = run("sizes", "-", "--format", "arrow", *options, stdin=stream.getvalue())
    assert json.loads(done.stdout)["total"] == 4, done.stderr


@pytest.mark.parametrize("options", [["--json"], []])
def test_a_reader_that_has_gone_exits_141(sizes_file, options):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "sab.cli", "compare", sizes_file, "--budget", "512", *options],
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert done.returncode == 141 and b"Traceback" not in done.stderr


def closing(streams, *arguments):
    """Runs the command with closed standard streams."""
    command = [sys.executable, "-m", "sab.cli", *map(str, arguments)]
    shell = ["sh", "-c", f'exec "$@" {streams}', "sh", *command]
    return subprocess.run(shell, capture_output=True, timeout=60)


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["sizes", "compare", "plan"])
def test_closed_standard_streams_are_as_dev_null(sizes_file, command, streams):
    done = closing(streams, command, sizes_file)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"3,000 samples" in done.stdout) == (streams == "2>&-")


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_leave_files_and_exit_codes(sizes_file, streams):
    saved = sizes_file.parent / "plan"
    assert closing(streams, "plan", sizes_file, "--save", saved).returncode == 0
    assert sab.Plan.open(saved).sample_count == 3000
    assert closing(streams, "plan", "/nowhere").returncode == 2


def test_a_closed_standard_input_has_no_sizes():
    assert closing("<&-", "sizes", "-").returncode == 2


@pytest.mark.skipif(sys.version_info < (3, 10), reason="the program is not known so early")
@pytest.mark.parametrize("command", ["module", "program"])
def test_ctrl_c_during_the_start_prints_nothing(tmp_path, command):
    """The signal comes while numpy is imported, or when the first module of the package is."""
    program = tmp_path / "sab"
    program.write_text("import sys\nfrom sab.cli import main\nsys.exit(main())\n")
    arguments = ["-m", "sab.cli"] if command == "module" else [program]
    (tmp_path / "numpy.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, *arguments, "sizes", "-"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_ctrl_c_exits_130():
    process = subprocess.Popen(
        [sys.executable, "-m", "sab.cli", "plan", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdin.write(
        TEXT * (1_000_000 // len(TEXT))
    )  # more than a pipe holds: this ends when the command reads, and it waits for more
    process.stdin.flush()
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(20) == 130
    assert b"Traceback" not in process.stderr.read()
    process.stdin.close()


def test_json_has_no_infinity(tmp_path, capsys):
    np.save(tmp_path / "zeros.npy", np.zeros(3))
    for command in (["plan", "--budget", "5"], ["compare", "--budget", "5"], ["sizes"]):
        assert main([command[0], str(tmp_path / "zeros.npy"), *command[1:], "--json"]) == 0
        json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def test_compare_table_and_json(sizes_file, capsys, tmp_path):
    for name in ("a.png", "a.svg"):
        assert (
            main(["compare", str(sizes_file), "--budget", "512", "--picture", str(tmp_path / name)])
            == 0
        )
        assert (tmp_path / name).stat().st_size > 10_000
    out = capsys.readouterr().out
    assert "static batches of 32" in out and "libsab" in out and "a.svg" in out
    assert main(["compare", str(sizes_file), "--budget", "512", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["samples"] == 3000 and facts["skipped"] == 0
    systems = {row["system"]: row for row in facts["systems"]}
    assert len(systems) == 5
    assert systems["libsab"]["padding"] < systems["static batches of 32"]["padding"]
    assert (
        systems["libsab"]["largest_batch"] <= 512
        and systems["whole sort (fairseq)"]["meet_again"] == 1
    )


def test_only_a_target_that_was_given_is_missed(sizes_file, tmp_path, capsys):
    assert main(["compare", str(sizes_file), "--budget", "4096"]) == 0
    assert main(["plan", str(sizes_file), "--budget", "4096"]) == 0
    out = capsys.readouterr().out
    assert "missed" not in out and "  reached: 8." in out
    assert main(["plan", str(sizes_file), "--budget", "4096", "--padding", "0.01"]) == 0
    assert (
        "target of 1 % for padding and extra batches is missed: the best plan tried reaches 8.7 %; "
        "more samples or" in capsys.readouterr().out.replace("\n", " ")
    )
    np.save(tmp_path / "equal.npy", np.full(4096, 8))
    assert main(["plan", str(tmp_path / "equal.npy"), "--budget", "4096"]) == 0
    assert "met: 1.00 %\n" in capsys.readouterr().out
    assert main(["plan", str(tmp_path / "equal.npy"), "--buckets", "2"]) == 0
    assert "none\n" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["sizes", "compare", "plan", "pack", "memory"])
def test_every_option_has_a_description(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    options = capsys.readouterr().out.split("options:\n")[1]
    assert re.findall(r"^  (--\S+)(?: \S+)*\n(?! {20})", options, re.M) == []


def test_help_fits_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    phases = [["engine", phase] for phase in ("histogram", "plan", "write")]
    for command in ([], *([name] for name in COMMANDS), *phases):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) > 5 and max(map(len, lines)) <= 80, command


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("command", ["sizes", "compare", "plan", "pack"])
def test_tables_fit_the_terminal(sizes_file, capsys, monkeypatch, command, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(sizes_file.parent)
    assert main([command, sizes_file.name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0] == "sizes.npy: read as NumPy .npy: 3,000 sizes"


def test_a_table_that_is_too_wide_is_printed_in_parts(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    print_table("a title", ["", "one", "two words"], [["the name", "123456", "1234567"]])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 20 and lines[:2] == ["a title", ""]
    assert lines[2:6] == ["             one", "─" * 16, "the name  123456", ""]
    assert lines[6:] == [
        "              two",
        "            words",
        "─" * 17,
        "the name  1234567",
        "",
    ]


def test_names_are_broken_before_columns_are_parted(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "14")
    print_table("", ["", "one"], [["a long name", "123456"]])
    assert capsys.readouterr().out.splitlines()[4:] == ["a long  123456", "name", ""]


def test_numbers_and_units():
    assert quantity("16384") == 16384 and quantity("1.5") == 1.5 and quantity(".5k") == 500
    assert whole("16k") == 16_000 == whole("16K") and whole("16Ki") == 16_384
    assert whole("2M") == 2_000_000 and whole("2Mi") == 2 << 20 and whole("1e6") == 10**6
    assert whole("3G") == 3 * 10**9 and whole("3GiB") == 3 << 30 and whole("0.5TiB") == 1 << 39
    for text in ("", "x", "-1", "1i", "1m", "1g", "nan", "inf", "1kk", "0x1", "٣"):
        with pytest.raises(argparse.ArgumentTypeError, match="must be a number such as"):
            quantity(text)
    with pytest.raises(argparse.ArgumentTypeError, match="must be a whole number"):
        whole("1.5")
    with pytest.raises(argparse.ArgumentTypeError, match=r"below 2\*\*63"):
        whole("1e30")


@pytest.mark.parametrize("command", ["sizes", "compare", "plan", "pack", "memory"])
def test_every_number_has_units(command):
    """An option of a number that does not use the one parser of numbers would fail here."""
    plain = {"choices", "degree"}
    commands = next(a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    for action in commands.choices[command]._actions:
        assert action.type in (None, quantity, whole) or action.dest in plain, action.dest


def test_sizes_table_and_json(tmp_path, capsys):
    path = tmp_path / "sizes.npy"
    np.save(path, np.arange(1, 1001))
    assert main(["sizes", str(path)]) == 0
    out = capsys.readouterr().out
    assert "1,000 samples, total size 500,500, mean 500.5" in out and "50 % (median)" in out
    bars = [line for line in out.splitlines() if "█" in line]
    assert len(bars) == 13 and bars[-1].split()[:3] == ["above", "990", "10"]
    assert sum(int(line.split("█")[0].split()[-1]) for line in bars) == 1000
    assert main(["sizes", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["samples"] == 1000 and facts["mean"] == 500.5
    assert facts["quantiles"]["0.5"] == 500 and facts["quantiles"]["0.999"] == 999
    np.save(path, np.full(5, 2.5))
    assert main(["sizes", str(path)]) == 0
    assert "2.5" in capsys.readouterr().out


def test_several_files_are_one_source(sizes_file, tmp_path, capsys):
    (tmp_path / "a.txt").write_bytes(TEXT)
    assert main(["sizes", "--json", str(sizes_file), str(tmp_path / "a.txt")]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["samples"] == 3004
    assert "a.txt: read as lines of text, sizes in bytes" in captured.err.replace("\n", " ")


def test_plan_prints_in_words_what_an_epoch_lacks(tmp_path, capsys):
    path = tmp_path / "sizes.npy"
    np.save(path, np.array([1, 1000] * 50))
    assert main(["plan", str(path), "--budget", "3k", "--tail", "drop"]) == 0
    out = capsys.readouterr().out.replace("\n", " ")
    assert "dropped: 1 sample is in no batch of an epoch; see --tail" in out
    assert main(["plan", str(path), "--budget", "3k", "--tail", "wrap"]) == 0
    out = capsys.readouterr().out.replace("\n", " ")
    assert "repeated: 1 sample is twice in an epoch; see --tail" in out


def test_a_meter_shows_percent_and_rate_on_a_terminal(monkeypatch):
    shown = io.StringIO()
    shown.isatty = lambda: True
    times = iter([0.0, 0.05, 2.0, 4.0])
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr("sab._cli.meter.time.monotonic", lambda: next(times))
    with Meter("reading x") as meter:
        meter(1_000_000, 8_000_000)  # too early
        meter(4_000_000, 8_000_000)
        meter(6_000_000, 0)
    text = shown.getvalue()
    assert text == "\r\x1b[Kreading x: 50 %, 2 MB/s\r\x1b[Kreading x: 6 MB, 2 MB/s\r\x1b[K"


def test_a_meter_is_silent_elsewhere(capsys):
    with Meter("reading x") as meter:
        meter._last -= 1
        meter(1, 2)
    assert capsys.readouterr().err == ""


def test_output_that_cannot_encode_a_sign_has_another_in_its_place(sizes_file):
    done = subprocess.run(
        [sys.executable, "-m", "sab.cli", "compare", sizes_file],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
    )
    assert done.returncode == 0 and b"? minimum" in done.stdout


def test_oversized_samples_are_left_out_everywhere(tmp_path, capsys):
    np.save(tmp_path / "sizes.npy", np.array([1, 2, 3, 900, 4]))
    assert main(["compare", str(tmp_path / "sizes.npy"), "--budget", "10"]) == 0
    assert "skipped: 1 sample is over the budget alone" in capsys.readouterr().out


def test_every_command_says_what_it_skips(tmp_path, capsys):
    np.save(tmp_path / "sizes.npy", np.array([1, 2, 3, 900, 4, 800]))
    sizes = str(tmp_path / "sizes.npy")
    for command in (
        ["compare", sizes, "--budget", "10"],
        ["plan", sizes, "--budget", "10"],
        ["pack", sizes, "--capacity", "10"],
    ):
        assert main(command) == 0
        assert "skipped: 2 samples are " in capsys.readouterr().out
        assert main([*command, "--json"]) == 0
        captured = capsys.readouterr()
        assert "skipped: 2 samples are " in captured.err and json.loads(captured.out)
    assert main(["plan", sizes, "--budget", "10", "--oversize", "error"]) == 2
    assert "sizes[3] = 900: must cost at most the budget, 10" in capsys.readouterr().err


def test_plan_saves_what_it_reports(sizes_file, tmp_path, capsys):
    path = tmp_path / "plan"
    options = [
        "--budget",
        "600",
        "--tail",
        "drop",
        "--length-multiple",
        "8",
        "--world-size",
        "4",
        "--cost",
        "0,0,1",
    ]
    assert (
        main(
            [
                "plan",
                str(sizes_file),
                *options,
                "--save",
                str(path),
                "--json",
                "--picture",
                str(tmp_path / "p.svg"),
            ]
        )
        == 0
    )
    facts = json.loads(capsys.readouterr().out)
    assert f"{sab.Plan.open(path).fingerprint:016x}" == facts["fingerprint"]
    assert (tmp_path / "p.svg").stat().st_size > 5000
    assert main(["plan", str(sizes_file), "--budget", "600"]) == 0
    assert "padding" in capsys.readouterr().out


TWO = ("--column", "source", "--column", "target")


@pytest.fixture
def pairs_file(tmp_path):
    random = np.random.default_rng(2)
    source = random.integers(1, 40, 2000)
    target = source + random.integers(0, 9, 2000)
    lines = (f'{{"source": {s}, "target": {t}}}' for s, t in zip(source, target))
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_a_plan_of_two_columns_prints_its_boxes(pairs_file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "pairs.jsonl", *TWO, "--budget", "1k", "--save", "p.plan"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines[:2] if "2,000" in line] == lines[:2]  # one line a column
    plan = sab.Plan.open("p.plan")
    head = next(i for i, line in enumerate(lines) if line.split()[:3] == ["bucket", *TWO[1::2]])
    first = plan.buckets[0]
    low, high = first.shortest, first.longest
    sides = [f"{low[name]:g} to {high[name]:g}" for name in ("source", "target")]
    assert re.split(r"  +", lines[head + 2])[:3] == ["0", *sides]
    assert "padding of target" in "\n".join(lines)
    title = next(i for i, line in enumerate(lines) if line.startswith("Samples by source"))
    assert lines[title + 21].split() == ["1", "39"]
    assert set("░▒▓") & set("".join(lines[title:]))
    drawn = int(re.search(r"with (\d+) of", lines[title])[1])
    assert drawn == "".join(lines[title:]).count("┌") > 0


def test_plans_of_two_columns_are_those_of_python(pairs_file, capsys):
    rows = [json.loads(line) for line in pairs_file.read_text().splitlines()]
    sizes = {name: np.array([row[name] for row in rows]) for name in ("source", "target")}
    for options, arguments in (
        ([], {}),
        (["--cost", "product"], {"cost": "product"}),
        (["--cost", "source=1,target=2.5"], {"cost": {"source": 1, "target": 2.5}}),
        (["--length-multiple", "8", "--max-shapes", "9"], {"length_multiple": 8, "max_shapes": 9}),
        (["--shapes", "auto", "--padding", "0.2"], {"shapes": "auto", "padding": 0.2}),
    ):
        assert main(["plan", str(pairs_file), *TWO, "--budget", "4k", "--json", *options]) == 0
        made = json.loads(capsys.readouterr().out)
        plan = sab.plan(sizes, budget=4000, **arguments)
        assert made["fingerprint"] == f"{plan.fingerprint:016x}"
        assert made["buckets"][0]["longest"] == plan.buckets[0].longest


def test_compare_of_two_columns(pairs_file, tmp_path, capsys):
    picture = tmp_path / "a.png"
    options = ["--budget", "1k", "--picture", str(picture)]
    assert main(["compare", str(pairs_file), *TWO, *options]) == 0
    assert "30 × 5 quantile buckets" in capsys.readouterr().out
    assert picture.stat().st_size > 10_000
    assert main(["compare", str(pairs_file), *TWO, "--budget", "1k", "--json"]) == 0
    systems = {row["system"]: row for row in json.loads(capsys.readouterr().out)["systems"]}
    assert systems["libsab"]["largest_batch"] <= 1000
    assert systems["libsab"]["padding"] < systems["static batches of 32"]["padding"]


def test_compare_of_two_columns_leaves_out_what_is_over_the_budget(tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_text('{"source": 3, "target": 4}\n{"source": 3, "target": 8}\n')
    assert main(["compare", str(path), *TWO, "--budget", "10", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["samples"], facts["skipped"], facts["total"]) == (2, 1, 7)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["plan", *TWO, "--column", "source"], "--column source: is given twice"),
        (["plan", *TWO, "--column", "x"], 'has no field "x"'),
        (["pack", *TWO], "--column target: this command takes one column"),
        (["plan", *TWO, "--boundaries", "1", "2"], "--boundaries: must go with one --column"),
        (["plan", *TWO, "--buckets", "3"], "--buckets 3: must go with one --column, not 2"),
        (["plan", *TWO, "--cost", "quadratic"], "--cost quadratic: must go with one --column"),
        (["plan", *TWO, "--cost", "0,1"], "--cost 0,1: must be weights of columns, such as source"),
        (["plan", *TWO, "--cost", "source=1,2"], "or weights such as source=1,target=2.5"),
        (["plan", *TWO, "--cost", "x=1"], "--cost x=1: x must be one of source, target"),
        (["plan", "--column", "source", "--cost", "x=1"], "x must be of several --column"),
        (
            ["plan", *(word for i in range(9) for word in ("--column", str(i)))],
            "number of --column 9: must be at most 8",
        ),
    ],
)
def test_messages_about_several_columns(pairs_file, capsys, arguments, message):
    assert main([arguments[0], str(pairs_file), *arguments[1:]]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_several_columns_of_standard_input_are_refused(capsys):
    assert main(["plan", *TWO, "-"]) == 2
    assert "-: several columns need a file" in capsys.readouterr().err


SIZES = np.random.default_rng(1).integers(1, 80, 4000)
SYSTEMS = [
    (baselines.static, 32, False),
    (baselines.sorted_windows, 512, True),
    (baselines.quantile_buckets, 512, True),
    (baselines.whole_sort, 512, True),
]


@pytest.mark.parametrize("make, size, keeps_budget", SYSTEMS)
def test_baselines_cover_and_keep_their_budget(make, size, keeps_budget):
    batches = make(SIZES, size, np.random.default_rng(0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(4000))
    if keeps_budget:
        assert all(len(batch) * SIZES[batch].max() <= size for batch in batches)


@pytest.mark.parametrize("make, size, keeps_budget", SYSTEMS)
def test_baselines_of_two_columns(make, size, keeps_budget):
    sizes = np.stack([SIZES, SIZES[::-1]], axis=1)
    batches = make(sizes, size, np.random.default_rng(0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(4000))
    if keeps_budget:
        assert all(len(batch) * sizes[batch].max(0).sum() <= size for batch in batches)


def test_greedy_and_measure_by_hand():
    sizes = np.array([1, 2, 2, 3, 5])
    batches = baselines.greedy(np.arange(5), sizes, 6)
    assert [batch.tolist() for batch in batches] == [[0, 1, 2], [3], [4]]
    row = measure("x", sizes, 6, lambda epoch: batches)
    assert row.batches == 3 and row.largest_batch == 6 and row.meet_again == 1
    assert row.padding == pytest.approx(1 - 13 / 14) and row.over_lower_bound == pytest.approx(1)


STEP = """
import torch

def step(count, length):
    weights = torch.zeros(8, 8, requires_grad=True)
    data = torch.zeros(count, length, 8)
    (data @ weights).square().mean().backward()

def broken(count, length):
    raise KeyError("mine")

def huge(count, length):
    raise RuntimeError("out of memory")
"""


@pytest.fixture
def step_file(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "my_steps.py"
    path.write_text(STEP)
    return path


def test_memory_prints_measured_predicted_and_batch_sizes(step_file, tmp_path, sizes_file):
    ranges = ["--shortest", 4, "--longest", 60]
    made = run(
        "memory",
        f"{step_file}:step",
        *ranges,
        "--device",
        "cpu",
        "--budget",
        "1Mi",
        "--save",
        tmp_path / "m",
        "--picture",
        tmp_path / "p.svg",
    )
    assert made.returncode == 0, made.stderr
    text = made.stdout.decode()
    assert (
        "measured" in text
        and "largest batches within 1.0 MiB" in text
        and "profiler" not in made.stderr.decode()
    )
    written = set(re.findall("<!-- (.*) -->", (tmp_path / "p.svg").read_text()))  # texts as curves
    assert {"5", "10", "20", "50", "padded length", "measured, MiB", " budget: 1 MiB"} <= written
    model = sab.MemoryModel.open(tmp_path / "m")
    found = json.loads(
        run(
            "memory",
            f"{step_file}:step",
            sizes_file,
            "--device",
            "cpu",
            "--budget",
            "1MiB",
            "--json",
        ).stdout
    )
    assert (
        found["budget"] == 1 << 20
        and len(found["points"]) == 12
        and found["model"]["residual"] < 0.01
    )
    for size in found["batch_sizes"]:
        assert (
            size["bytes"]
            <= 1 << 20
            < model.predict_upper([(size["batch_size"] + 2, size["length"])])[0] * 1.02
            or size["batch_size"] < 3
        )


def test_memory_says_what_is_wrong(step_file, capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", sys.path[:])
    ranges = ["--shortest", 4, "--longest", 60, "--device", "cpu", "--budget", "1Mi"]
    for arguments, words in (
        (
            [f"{step_file}:step", "--device", "cpu"],
            "a FILE of sizes, or --shortest and --longest",
        ),
        ([f"{step_file}:nothing", *ranges], "has no function nothing"),
        (["nothing.py:step", *ranges], "there is no file nothing.py"),
        (["no_such_module:step", *ranges], "there is no module no_such_module"),
        (["step", *ranges], "must be module:function"),
        ([f"{step_file}:step", "--shortest", 4, "--longest", 60, "--device", "abacus"], "abacus"),
        ([f"{step_file}:step", *ranges, "--picture", "a.gif"], "must end in .png or .svg"),
    ):
        assert main(["memory", *map(str, arguments)]) == 2
        said = capsys.readouterr()
        assert words in said.err and not said.out, arguments
    with pytest.raises(SystemExit):
        main(["memory", f"{step_file}:step", *map(str, ranges), "--total", "much"])
    assert "must be a number such as" in capsys.readouterr().err


@pytest.mark.parametrize(
    "step, words",
    [("broken", "broken failed on a batch of 1 samples of length 4"), ("huge", "out of memory")],
)
def test_memory_says_that_a_step_failed(step_file, step, words):
    ranges = ["--shortest", 4, "--longest", 60, "--device", "cpu", "--budget", "1Mi"]
    made = run("memory", f"{step_file}:{step}", *ranges)
    assert made.returncode == 2 and words in made.stderr.decode() and not made.stdout, made.stderr


@pytest.mark.parametrize(
    "text, said",
    [
        ("import no_such_module_at_all", "cannot be imported"),
        ("raise ValueError('at import')", "cannot be imported"),
        ("def step(", "cannot be imported"),
        ("class A:\n    step = 3", "has no function A.step"),
    ],
)
def test_memory_of_a_module_that_will_not_do(tmp_path, capsys, monkeypatch, text, said):
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "json.py").write_text(text)  # a name that is taken, too
    name = "A.step" if "class" in text else "step"
    assert (
        main(
            [
                "memory",
                f"{tmp_path}/json.py:{name}",
                "--device",
                "cpu",
                "--shortest",
                "1",
                "--longest",
                "2",
            ]
        )
        == 2
    )
    assert said in capsys.readouterr().err


def test_memory_json_of_a_step_that_prints(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", sys.path[:])
    pytest.importorskip("torch")
    (tmp_path / "step.py").write_text(
        "import torch\ndef step(count, length):\n    print('hello')\n    torch.ones(count * "
        "int(length) + 1000)\n"
    )
    arguments = [
        "memory",
        f"{tmp_path}/step.py:step",
        "--device",
        "cpu",
        "--shortest",
        "10",
        "--longest",
        "100",
        "--budget",
        "1Mi",
        "--json",
    ]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["budget"] == 1 << 20
    assert main([*arguments, "--save", f"{tmp_path}/nowhere/x"]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert main([*arguments, "--points", "0"]) == 2
    assert "--points 0" in capsys.readouterr().err


def test_pack(sizes_file):
    facts = json.loads(run("pack", sizes_file, "--capacity", "256", "--json").stdout)
    assert facts["capacity"] == 256 and list(facts["methods"]) == [
        "shuffled",
        "best_fit",
        "histogram",
    ]
    best = facts["methods"]["best_fit"]
    assert best["bins"] == best["lower_bound"] and best["fill"] > 0.99 and best["samples"] == 3000
    table = run(
        "pack",
        sizes_file,
        "--capacity",
        "16",
        "--split",
        "--method",
        "shuffled",
        "--max-sequences",
        "3",
    ).stdout.decode()
    assert "shuffled" in table and "best_fit" not in table and "are cut into pieces" in table
    assert (
        "samples are longer than the capacity"
        in run("pack", sizes_file, "--capacity", "40", "--oversize", "skip").stdout.decode()
    )
