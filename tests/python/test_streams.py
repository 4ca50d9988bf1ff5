"""Streams from Python: functions of every kind, states, threads, forks, files that fail, loaders,
and infinibatch's names."""

import collections
import gc
import gzip
import hashlib
import itertools
import os
import pickle
import random
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import sab
from sab import Stream

LINES = [f"{i} " + "word " * (i * 7 % 13) for i in range(3000)]


def double(x):
    return 2 * x


def numbers(count=100):
    return Stream.from_items(list(range(count)))


@pytest.fixture
def chunks(tmp_path):
    paths = []
    for k in range(6):
        part = "\n".join(LINES[500 * k : 500 * k + 500]) + "\n"
        path = tmp_path / f"chunk{k}"
        if k % 3 == 0:
            path.write_text(part)
        elif k % 3 == 1:
            path.write_bytes(
                gzip.compress(part[: len(part) // 2].encode())
                + gzip.compress(part[len(part) // 2 :].encode())
            )
        else:
            path.write_bytes(zstandard(part.encode()))
        paths.append(path)
    return paths


def drain(stream):
    """What comes until the end, or until an error, and that error."""
    taken = []
    try:
        for record in stream:
            taken.append(record)
    except Exception as error:
        return taken, error
    return taken, None


def zstandard(data, size=10_000):
    """Frames (RFC 8878) of raw blocks, with a frame to be passed over between them."""
    out = b""
    for i in range(0, len(data), size):
        part = data[i : i + size]
        out += (
            struct.pack("<IBI", 0xFD2FB528, 0xA0, len(part))
            + struct.pack("<I", 1 | len(part) << 3)[:3]
            + part
        )
        out += struct.pack("<II", 0x184D2A50, 3) + b"abc"
    return out


def test_files_of_every_kind_are_read_and_resumed_anywhere(chunks):
    stream = Stream.from_files(chunks)
    assert list(stream) == LINES and list(stream) == LINES
    for stop in (0, 1, 499, 500, 501, 777, 1200, 1499, 2750, 3000):
        stream.rewind()
        for _ in range(stop):
            next(stream)
        other = Stream.from_files(chunks)
        other.load_state_dict(stream.state_dict())
        assert list(other) == LINES[stop:]
    assert list(Stream.from_files(chunks, encoding=None)) == [line.encode() for line in LINES]
    shares = [list(Stream.from_files(chunks, rank=rank, world_size=4)) for rank in range(4)]
    assert sum(shares, []) == LINES


def test_records_after_their_lengths(tmp_path):
    records = [b"", b"a", bytes(range(256)) * 300, b"\n\r\n"]
    path = tmp_path / "records"
    path.write_bytes(b"".join(struct.pack("<I", len(record)) + record for record in records))
    stream = Stream.from_files([path], framing="length", encoding=None)
    assert list(stream) == records
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(sab.FormatError, match="truncated in the record at byte"):
        list(Stream.from_files([path], framing="length", encoding=None))
    path.write_bytes(b"\xff\xff\xff\x7f")
    with pytest.raises(sab.FormatError, match=r"longer than max_record, 100"):
        list(Stream.from_files([path], framing="length", encoding=None, max_record=100))


@pytest.mark.parametrize("damage", ["missing", "cut", "changed", "no text"])
def test_files_that_fail_stop_or_are_skipped(chunks, damage, caplog):
    path = chunks[1]
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(data[:-50])
    elif damage == "changed":
        path.write_bytes(data[:900] + bytes([data[900] ^ 0x55]) + data[901:])
    else:
        path.write_bytes(b"\xff\xfe\n")
    stream = Stream.from_files(chunks)
    error = {"missing": OSError, "no text": UnicodeDecodeError}.get(damage, sab.FormatError)
    head, raised = drain(stream)
    assert (
        isinstance(raised, error)
        and ("utf-8" if damage == "no text" else str(path)) in str(raised)
        and head == LINES[: len(head)]
    )
    if damage == "no text":
        return
    assert drain(stream)[0] == []  # fails again
    path.write_bytes(data)
    if damage == "missing":
        assert head + list(stream) == LINES  # goes on where it failed
    path.write_bytes(data[:-50])
    skipping = Stream.from_files(chunks, on_error="skip")
    read = list(skipping)
    assert (
        skipping.skipped == 1
        and read[:500] == LINES[:500]
        and read[-2000:] == LINES[-2000:]
        and 2500 <= len(read) < 3000
    )


def test_a_file_that_has_changed_is_found(chunks):
    stream = Stream.from_files(chunks, infinite=True)
    for _ in range(700):
        next(stream)
    state = stream.state_dict()
    before = chunks[0].read_text()
    chunks[0].write_text(before.replace("0", "1"))
    with pytest.raises(sab.MismatchError, match="changed since it was read before"):
        for _ in range(3000):
            next(stream)
    chunks[1].write_bytes(b"other\n")
    with pytest.raises(sab.MismatchError, match=r"chunk1.*changed"):
        Stream.from_files(chunks, infinite=True).load_state_dict(state)


def test_lists_grow_between_epochs_but_do_not_change(chunks):
    stream = Stream.from_files(chunks[:4], shuffle=True, seed=3)
    head = [next(stream) for _ in range(1700)]
    longer = Stream.from_files(chunks, shuffle=True, seed=3)
    longer.load_state_dict(stream.state_dict())
    rest = [next(longer) for _ in range(300)]
    assert sorted(head + rest) == sorted(LINES[:2000])
    assert sorted(next(longer) for _ in range(3000)) == sorted(LINES)
    with pytest.raises(sab.MismatchError, match="list"):
        Stream.from_files(chunks[1:5], shuffle=True, seed=3).load_state_dict(stream.state_dict())
    with pytest.raises(sab.MismatchError, match="list of 4 records, this list has 3"):
        Stream.from_files(chunks[:3], shuffle=True, seed=3).load_state_dict(stream.state_dict())


# Functions


def test_stages_with_functions():
    assert list(numbers(6).map(lambda x: x * x)) == [0, 1, 4, 9, 16, 25]
    assert list(numbers(6).map(lambda x: x * x, threads=3)) == [0, 1, 4, 9, 16, 25]
    assert list(Stream.from_items(["ab", "", "c"]).select_many()) == ["a", "b", "c"]
    assert list(numbers(4).select_many(range)) == [0, 0, 1, 0, 1, 2]
    assert list(numbers(5).recurrent(lambda state, x: ([*state, x], sum(state) + x), [])) == [
        0,
        1,
        3,
        6,
        10,
    ]
    generator = random.Random(7)
    drawn = list(
        numbers(5).random_map(
            lambda r, x: (r.randrange(10**30), r.random(), r.getrandbits(7)), seed=7
        )
    )
    assert drawn == [
        (generator.randrange(10**30), generator.random(), generator.getrandbits(7))
        for _ in range(5)
    ]
    assert list(numbers(9).batch(4).flatten()) == list(range(9))
    assert list(numbers(4).window(2)) == [[0, 1], [1, 2], [2, 3]]
    assert list(numbers(3).zip(numbers(9), Stream.from_items("abcd"))) == [
        [0, 0, "a"],
        [1, 1, "b"],
        [2, 2, "c"],
    ]
    assert list(Stream.from_items([0, 1, 1, 0]).multiplex(numbers(), Stream.from_items("ab"))) == [
        0,
        "a",
        "b",
        1,
    ]
    assert next(Stream.random(5)) == random.Random(5).random()
    rows = np.arange(12).reshape(6, 2)
    assert [row.tolist() for row in Stream.from_items(rows)] == rows.tolist()

    def generate():
        yield from "xyz"

    assert list(Stream.from_iterable(generate)) == ["x", "y", "z"]
    assert (
        sorted(numbers(50).block_shuffle(7))
        == sorted(numbers(50).buffered_shuffle(7))
        == list(range(50))
    )


def test_items_are_a_sequence():
    with pytest.raises(TypeError, match=r"items is a list_iterator: must be .*from_iterable"):
        Stream.from_items(iter([1, 2]))


def test_mixes_end_with_the_first_stream_or_with_all(chunks):
    def mixed(until, proportions=(2, 1, 1)):
        text = Stream.from_files(chunks[:1], infinite=False)
        return numbers(9).mix(Stream.from_items("ab"), text, proportions=proportions, until=until)

    lines = list(Stream.from_files(chunks[:1], infinite=False))
    first, every = list(mixed("first")), list(mixed("all"))
    assert first == every[: len(first)] and len(first) < len(every) == 9 + 2 + len(lines)
    for records in (range(9), ["a", "b"], lines):
        assert [record for record in every if record in records] == list(records)
    assert list(mixed("all", [0, 1, 0])) == ["a", "b"]  # streams with 0 are not read
    assert [next(mixed("all", [0, 0, 1]))] == lines[:1]
    state = mixed("first").state_dict()
    with pytest.raises(sab.MismatchError, match="its streams or their options differ"):
        mixed("first", (1, 2, 1)).load_state_dict(state)


def test_readahead_sorts_by_what_it_is_told():
    words = Stream.from_items(["a b c", "a", "a b", "é" * 4])
    assert list(words.readahead(10, batch_size=2, shuffle=False)) == [
        ["a b c", "é" * 4],
        ["a b", "a"],
    ]
    by_key = words.readahead(
        10,
        batch_size=lambda longest: 3 if longest == "a b" else 1,
        key=lambda text: 10 * ("b" in text) + len(text),
        shuffle=False,
    )
    assert list(by_key) == [["a b c"], ["a b", "é" * 4, "a"]]
    apart = numbers(20).readahead(
        20,
        batch_size=100,
        key=lambda x: x // 10,
        boundary_key=lambda x: ("even", "odd")[x % 2],
        shuffle=False,
    )
    for batch in apart:
        assert len({x % 2 for x in batch}) == 1


def test_words_and_characters_of_text_are_counted_without_python(chunks):
    for key, count in (
        ("words", lambda line: len(line.split())),
        ("len", len),
        ("bytes", lambda line: len(line.encode())),
    ):
        options = dict(batch_size=7, seed=1)
        native = list(Stream.from_files(chunks[:3]).readahead(200, key=key, **options))
        assert native == list(Stream.from_files(chunks[:3]).readahead(200, key=count, **options))


def test_carrying_over_pads_less_and_loses_nothing(chunks):
    def padding(carry_over):
        batches = list(
            Stream.from_files(chunks)
            .block_shuffle(1000, seed=1)
            .readahead(100, budget=600, key="len", carry_over=carry_over)
        )
        assert sorted(sum(batches, [])) == sorted(LINES)
        return 1 - sum(map(len, LINES)) / sum(
            len(batch) * max(map(len, batch)) for batch in batches
        )

    assert padding(True) < 0.5 * padding(False)


class Failing:
    """Fails once at each of a few records."""

    def __init__(self, at):
        self.at = set(at)

    def __call__(self, x):
        if x in self.at:
            self.at.discard(x)
            raise KeyError(x)
        return x


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(
    "kind", ["map", "threads", "select", "source", "recurrent", "random", "size", "batch_size"]
)
def test_an_error_of_a_function_comes_out_and_nothing_is_lost(kind, ahead):
    failing = Failing([5, 17])
    if kind == "map":
        stream = numbers(30).map(failing)
    elif kind == "threads":
        stream = numbers(30).map(failing, threads=2)
    elif kind == "select":
        stream = numbers(30).select_many(lambda x: [failing(x)])
    elif kind == "source":

        class Source:
            def __init__(self):
                self.at = -1

            def __iter__(self):
                return self

            def __next__(self):
                self.at += 1
                if self.at == 30:
                    raise StopIteration
                try:
                    return failing(self.at)
                except KeyError:
                    self.at -= 1
                    raise

            def getstate(self):
                return self.at

            def setstate(self, at):
                self.at = -1 if at is None else at

        stream = Stream.from_iterable(Source())
    elif kind == "recurrent":
        stream = numbers(30).recurrent(lambda state, x: (state + x, failing(x)), 0)
    elif kind == "random":
        stream = numbers(30).random_map(lambda r, x: failing(x))
    elif kind == "size":
        stream = (
            numbers(30)
            .readahead(6, batch_size=1, key=lambda x: 100 - failing(x), shuffle=False)
            .flatten()
        )
    else:
        stream = (
            numbers(30)
            .readahead(
                6, batch_size=lambda x: 1 + 0 * failing(x), key=lambda x: 100 - x, shuffle=False
            )
            .flatten()
        )
    if ahead:
        stream = stream.prefetch(8)
    seen, failed = [], []
    while True:
        taken, error = drain(stream)
        seen += taken
        if error is None:
            break
        failed.append(error)
        assert len(failed) < 5
    assert [error.args for error in failed] == [(5,), (17,)] and seen == list(range(30))
    names = [frame.name for frame in __import__("traceback").extract_tb(failed[0].__traceback__)]
    assert "__call__" in names  # where it was raised


def test_objects_go_when_the_stream_goes():
    class Thing:
        pass

    seen = weakref.WeakSet()

    def make(x):
        thing = Thing()
        seen.add(thing)
        return thing

    stream = numbers(1000).map(make).block_shuffle(50).prefetch(20)
    for _ in range(100):
        next(stream)
    stream.close()
    gc.collect()
    assert len(seen) == 0
    for _ in range(50):
        stream = numbers(100).map(make, threads=2).readahead(10, batch_size=3)
        next(stream)
    del stream
    gc.collect()
    assert len(seen) == 0


def test_a_stream_may_be_collected_in_its_own_thread():
    for _ in range(5):
        holder = []

        def collect(x):
            if x == 50:
                holder.clear()
                gc.collect()
            return x

        stream = numbers(1000).map(collect).prefetch(100)
        holder.append(stream)
        for _ in range(10):
            next(stream)
        stream.itself = stream  # goes only when garbage is collected: maybe in its thread
        del stream
        time.sleep(0.02)
        gc.collect()
    assert list(numbers(3)) == [0, 1, 2]


def test_records_over_the_limit():
    def sizes(**oversize):
        return Stream.from_items([3, 6, 2, 9, 1]).readahead(3, budget=6, key=float, **oversize)

    with pytest.raises(ValueError, match="record 3: has size 9: must be at most budget = 6"):
        list(sizes())
    pairs = Stream.from_items([(3, 4)])
    key = {"a": lambda pair: pair[0], "b": lambda pair: pair[1]}
    with pytest.raises(ValueError, match="cost 7: must be at most budget = 1"):
        list(pairs.readahead(3, budget=1, key=key))
    skipping = sizes(oversize="skip")
    assert sorted(sum(skipping, [])) == [1, 2, 3, 6] and skipping.skipped == 1
    assert [9] in list(sizes(oversize="single"))
    with pytest.raises(ValueError, match="budget = 1: must leave a record; all 2 are over it"):
        list(Stream.from_items([3, 6]).prefetch(4).readahead(3, budget=1, oversize="skip", key=int))
    packed = Stream.from_items([3, 6, 2, 9, 1]).pack(6, key=float, oversize="skip")
    assert sorted(sum(packed, [])) == [1, 2, 3, 6]
    with pytest.raises(ValueError, match="oversize = 'single'"):
        packed.pack(6, oversize="single")


def test_packing_fills_rows():
    assert list(numbers(7).pack(6, key=float, shuffle=False)) == [[0, 6], [1, 5], [2, 4], [3]]
    few = numbers(7).pack(6, 300, max_records=1, key=float, seed=1)
    assert sorted(few) == [[x] for x in range(7)]
    with pytest.raises(ValueError, match="record 7: has size 7: must be at most capacity = 6"):
        list(numbers(8).pack(6, key=float))


# Several sizes


def pairs(count=600):
    draw = random.Random(1)
    made = []
    for number in range(count):
        images = draw.randrange(12)
        made.append((number, images, 20 + 40 * images + draw.randrange(300)))
    return made


IMAGES_AND_TOKENS = {"images": lambda pair: pair[1], "tokens": lambda pair: pair[2]}


@pytest.mark.parametrize(
    "cut",
    [
        lambda stream: stream.readahead(50, budget=8000, key=IMAGES_AND_TOKENS, carry_over=True),
        lambda stream: stream.pack([20, 1500], 50, key=IMAGES_AND_TOKENS),
    ],
)
def test_a_stream_of_several_sizes_resumes_anywhere(cut):
    whole = list(cut(Stream.from_items(pairs(300))))
    for taken in (0, 1, 7, len(whole) - 1, len(whole)):
        stream = cut(Stream.from_items(pairs(300)))
        first = list(itertools.islice(stream, taken))
        other = cut(Stream.from_items(pairs(300)))
        other.load_state_dict(pickle.loads(pickle.dumps(stream.state_dict())))
        assert first + list(other) == whole
    other = Stream.from_items(pairs(300)).pack([20, 1501], 50, key=IMAGES_AND_TOKENS)
    with pytest.raises(sab.MismatchError):
        other.load_state_dict(stream.state_dict())


def test_errors_of_several_sizes_name_the_column():
    def read(items=((0, 1, 2), (1, 9, 4)), **options):
        return list(Stream.from_items(items).readahead(key=IMAGES_AND_TOKENS, **options))

    def pack(capacity, items=((0, 1, 2), (1, 9, 4)), **options):
        options = {"key": IMAGES_AND_TOKENS, **options}
        return list(Stream.from_items(items).pack(capacity, **options))

    over = (
        "record 1: has sizes 9, 4 and cost 13: must be at most budget = 12. Set oversize to 'skip'"
    )
    for call, error, message in (
        (lambda: read(budget=12), ValueError, over),
        (lambda: read(budget={"images": 5}), ValueError, r"at most budget\['images'\] = 5"),
        (lambda: read(budget={"text": 5}), ValueError, r"budget\['text'\]: must be one of 'im"),
        (read, ValueError, "budget = 0: a budget or a batch_size must be given"),
        (lambda: read(budget=5, cost=lambda *_: 1), ValueError, "cost: must not be a callback"),
        (lambda: read(batch_size=len), ValueError, "batch_size: must not be a function"),
        (lambda: read(budget=9, boundary_key=len), ValueError, "boundary_key: must not be"),
        (lambda: read([(0, 1, "x")], budget=9), TypeError, "must be real number, not str"),
        (lambda: read([(0, 1, -1)], budget=9), ValueError, r"record 0: sizes\[1\] = -1: must not"),
        (lambda: numbers(3).readahead(budget=9, cost="product"), ValueError, "cost: is for rec"),
        (lambda: pack({"images": 9}), ValueError, "capacity has no 'tokens'"),
        (lambda: pack(9), ValueError, "capacity = 9: must have one for each column, 'images'"),
        (lambda: pack([5, 9]), ValueError, r"record 1: has .* at most capacity\['images'\] = 5"),
        (lambda: pack([9, 9], [(0, 1, 2.5)]), ValueError, r"sizes\[1\] = 2.5: must be a whole"),
        (lambda: pack([9], key={"images": len}), ValueError, "len.key. = 1: must be from 2 to 8"),
        (lambda: pack([9, 9], key={"images": len, "t": 3}), TypeError, r"key\['t'\] = 3: must be"),
    ):
        with pytest.raises(error, match=message):
            call()
    skipped = Stream.from_items([(0, 1, 2), (1, 9, 4)]).pack(
        {"images": 5, "tokens": 9}, key=IMAGES_AND_TOKENS, oversize="skip"
    )
    assert list(skipped) == [[(0, 1, 2)]] and skipped.skipped == 1


# States


def any_pipeline(seed):
    draw = random.Random(seed)
    stream = Stream.from_items(
        [i * 37 % 101 for i in range(60)], shuffle=draw.random() < 0.5, seed=seed
    )
    for _ in range(draw.randrange(1, 5)):
        stage = draw.randrange(11)
        if stage == 0:
            stream = stream.map(str).map(len if draw.random() < 0.1 else int)
        elif stage == 1:
            stream = stream.block_shuffle(draw.randrange(1, 20), seed=seed)
        elif stage == 2:
            stream = stream.buffered_shuffle(draw.randrange(1, 9), seed=seed)
        elif stage == 3:
            stream = stream.readahead(
                draw.randrange(1, 20),
                batch_size=draw.randrange(1, 5),
                key=float,
                carry_over=draw.random() < 0.5,
            ).flatten()
        elif stage == 4:
            stream = stream.prefetch(draw.randrange(1, 50))
        elif stage == 5:
            stream = stream.map(lambda x: x + 1, threads=2)
        elif stage == 6:
            stream = stream.recurrent(lambda state, x: (state + 1, x + state % 3), 0)
        elif stage == 7:
            stream = stream.random_map(lambda r, x: x + r.randrange(4), seed=seed)
        elif stage == 8:
            stream = stream.pack(
                300, draw.randrange(1, 30), key=lambda x: x % 200, seed=seed
            ).flatten()
        elif stage == 9:
            stream = stream.mix(
                numbers(30), numbers(7), proportions=[4, 2, 1], until=draw.choice(["first", "all"])
            )
        else:
            stream = stream.select_many(lambda x: [x] * (1 + x % 2))
    return stream


def test_a_state_of_any_pipeline_goes_on_the_same():
    for seed in range(60):
        with any_pipeline(seed) as stream, any_pipeline(seed) as other:
            for stop in (0, 1, 7, 33):
                stream.rewind()
                taken = [next(stream, None) for _ in range(stop)]
                assert len(taken) == stop
                state = pickle.loads(pickle.dumps(stream.state_dict()))
                after = [next(stream, None) for _ in range(40)]
                other.load_state_dict(state)
                assert [next(other, None) for _ in range(40)] == after, (seed, stop, stream)


def test_streams_are_pickled_with_their_place():
    stream = numbers().map(double).block_shuffle(20, seed=1).prefetch(5)
    head = [next(stream) for _ in range(30)]
    other = pickle.loads(pickle.dumps(stream))
    rest = list(stream)
    assert list(other) == rest and sorted(head + rest) == [2 * x for x in range(100)]
    assert len(list(pickle.loads(pickle.dumps(stream)))) == 100  # at its end: it begins again


# Threads, signals, processes


def test_prefetching_runs_ahead_and_no_further():
    taken = []
    stream = numbers(1000).map(lambda x: taken.append(x) or x).prefetch(40)
    assert next(stream) == 0
    deadline = time.time() + 20
    while len(taken) < 40 and time.time() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert 40 <= len(taken) <= 60


def test_ctrl_c_comes_through_a_wait_and_a_long_window():
    forever = threading.Event()

    def stuck():
        yield 1
        forever.wait()
        yield 2

    def endless():
        while True:
            yield 1

    ones = Stream.from_items([1], infinite=True)
    for stream in (
        Stream.from_iterable(stuck).prefetch(5),
        Stream.from_iterable(endless).block_shuffle(1 << 31),
        ones.select_many("".__mul__),  # no Python between the empty texts
        ones.readahead(budget=0.5, key=float, oversize="skip"),
    ):
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            list(stream)
        timer.join()
        forever.set()
        stream.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda s: s.prefetch(64),
        lambda s: s.map(double, threads=2),
        lambda s: s.map(double, threads=2).prefetch(9).block_shuffle(20),
        lambda s: s.mix(numbers(30), proportions=[2, 1], until="all").prefetch(9),
    ],
)
def test_a_forked_child_goes_on_as_its_parent(make):
    stream = make(Stream.from_items(list(range(500)), shuffle=True, seed=4))
    for _ in range(77):
        next(stream)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, pickle.dumps([next(stream) for _ in range(200)]))
            stream.close()
        finally:
            os._exit(0)
    os.close(writer)
    expected = [next(stream) for _ in range(200)]
    with os.fdopen(reader, "rb") as pipe:
        assert pickle.loads(pipe.read()) == expected
    os.waitpid(child, 0)


def test_ranks_see_as_many_and_lose_nothing():
    for seed in range(100):
        count = random.Random(seed).randrange(0, 60)
        world = 1 + seed % 4
        ranks = [
            list(numbers(count).readahead(10, batch_size=3, key=float, seed=seed).rank(rank, world))
            for rank in range(world)
        ]
        assert len({len(batches) for batches in ranks}) == 1
        assert sorted(x for batches in ranks for batch in batches for x in batch) == list(
            range(count)
        )


def test_chunks_split_over_ranks_end_at_different_steps_and_a_rank_stage_does_not():
    from sab.compat.infinibatch import datasets, iterators

    chunks = [list(range(40)), list(range(40, 47)), list(range(47, 67)), list(range(67, 70))]

    def theirs(rank):
        """As in infinibatch: each rank has its own chunks, and makes its own batches of them. Where
        ranks meet in each step, one waits for ever."""
        lines = datasets.chunked_dataset_iterator(
            chunks, iter, 10, train=False, shuffle=False, num_instances=2, instance_rank=rank
        )
        return list(iterators.BucketedReadaheadBatchIterator(lines, 20, lambda x: x, 4))

    assert len(theirs(0)) != len(theirs(1))
    ours = [
        list(
            Stream.from_items(chunks)
            .select_many()
            .readahead(20, batch_size=4, key=float)
            .rank(rank, 2)
        )
        for rank in range(2)
    ]
    assert len(ours[0]) == len(ours[1])
    assert sorted(x for rank in ours for batch in rank for x in batch) == list(range(70))


def test_ranks_go_on_as_another_number_of_them():
    def rank(r, world):
        return numbers(300).block_shuffle(40, seed=1).batch(3).rank(r, world)

    whole = list(rank(0, 1))
    four = [rank(r, 4) for r in range(4)]
    seen = [next(four[r]) for _ in range(7) for r in range(4)]
    assert seen == whole[:28]
    three = [rank(r, 3) for r in range(3)]
    for stream in three:
        stream.load_state_dict(four[2].state_dict())
    rest = [next(three[r]) for _ in range(24) for r in range(3)]
    assert rest == whole[28:]
    above = rank(0, 4).prefetch(3)
    next(above)
    with pytest.raises(sab.MismatchError):  # what reads again must read the same
        rank(0, 3).prefetch(3).load_state_dict(above.state_dict())


def test_loaders():
    torch_data = pytest.importorskip("torch.utils.data")
    import sab.torch

    stream = numbers(100).batch(3)
    for workers in (0, 2):
        batches = list(
            torch_data.DataLoader(
                sab.torch.StreamDataset(stream), batch_size=None, num_workers=workers
            )
        )
        assert sorted(int(x) for batch in batches for x in batch) == list(range(100))
    spawned = torch_data.DataLoader(
        sab.torch.StreamDataset(stream, transform=sum),
        batch_size=None,
        num_workers=2,
        multiprocessing_context="spawn",
    )
    assert sorted(int(x) for x in spawned) == sorted(
        [sum(range(i, min(i + 3, 100))) for i in range(0, 100, 3)]
    )
    dataset = sab.torch.StreamDataset(stream, rank=1, world_size=2)
    head = [batch for batch, _ in zip(dataset, range(5))]
    state = dataset.state_dict()
    rest = list(dataset)
    again = sab.torch.StreamDataset(stream, rank=1, world_size=2)
    again.load_state_dict(state)
    assert list(again) == rest and len(head) == 5


def test_arguments_that_cannot_be():
    for make, error, words in (
        (lambda: numbers().batch(0), ValueError, "batch_size = 0"),
        (lambda: numbers().window(-1), ValueError, "width = -1"),
        (lambda: numbers().block_shuffle(1.5), TypeError, "size = 1.5"),
        (lambda: numbers().readahead(), ValueError, "a budget or a batch_size"),
        (lambda: numbers().readahead(budget=5, key="size"), ValueError, "key = 'size'"),
        (lambda: numbers().pack(5, key="size"), ValueError, "key = 'size'"),
        (lambda: numbers().pack(5, max_records=0), ValueError, "max_records = 0"),
        (lambda: next(numbers().pack(-5)), ValueError, "capacity = -5"),
        (
            lambda: next(numbers().readahead(budget=5, boundary_key=str, carry_over=True)),
            ValueError,
            "carry_over = 1: does not go with",
        ),
        (lambda: numbers().map(3), TypeError, "function = 3"),
        (lambda: numbers().zip(3), TypeError, "must be a Stream"),
        (lambda: numbers().multiplex(), ValueError, "sources is empty"),
        (lambda: numbers().mix(3, proportions=[1, 1]), TypeError, "others: a int: must be a Str"),
        (lambda: numbers().mix(proportions=[1, 1]), ValueError, r"len\(proportions\) = 2: must be"),
        (lambda: numbers().mix(proportions=1), TypeError, "proportions = 1: must be numbers"),
        (lambda: numbers().mix(proportions="a"), TypeError, "proportions = 'a'"),
        (lambda: numbers().mix(proportions=[1], window=0), ValueError, "window = 0"),
        (lambda: numbers().mix(proportions=[1], until="last"), ValueError, "until = 'last'"),
        (
            lambda: next(numbers().mix(numbers(), proportions=[1, -0.5])),
            ValueError,
            r"^proportions\[1\] = -0.5: must be finite and not negative",
        ),
        (
            lambda: next(numbers().mix(numbers(), proportions=[0, 0])),
            ValueError,
            "^proportions: their sum is 0: must be above 0",
        ),
        (lambda: numbers().rank(2, 2), ValueError, "rank = 2"),
        (lambda: numbers().map(str, threads=-1), ValueError, "threads = -1"),
        (lambda: Stream.from_files(["a"], framing="csv"), ValueError, "framing = 'csv'"),
        (lambda: Stream.from_files(["a"], encoding="latin-1"), ValueError, "encoding = 'latin-1'"),
        (lambda: Stream.from_files(["a"], on_error="ignore"), ValueError, "on_error = 'ignore'"),
        (lambda: Stream.from_iterable(iter([1])), ValueError, "is an iterator"),
        (lambda: next(Stream.from_items([], shuffle=True)), ValueError, "at least 1"),
        (
            lambda: next(numbers(5).multiplex(numbers(2)).map(str).batch(9)),
            ValueError,
            "control = 1",
        ),
        (
            lambda: next(numbers().readahead(5, batch_size=2, key=lambda x: -1)),
            ValueError,
            "size = -1",
        ),
        (
            lambda: next(numbers().readahead(5, batch_size=lambda x: "a", key=float)),
            TypeError,
            "str",
        ),
    ):
        with pytest.raises(error, match=words):
            make()


# infinibatch's names


def test_infinibatchs_orders():
    import infinibatch_orders

    from sab.compat.infinibatch import datasets, iterators

    printed = __import__("json").dumps(infinibatch_orders.orders(iterators, datasets))
    # Of infinibatch 0.1.1 under CPython 3.11.
    assert (
        hashlib.sha256(printed.encode()).hexdigest()
        == "745986bbb2b92c9beb911e2507f25580d11d622d424ea23ddb0aec9cb7ecc195"
    )


def test_infinibatchs_errors_and_own_iterators():
    from sab.compat.infinibatch import iterators as I
    from sab.compat.infinibatch.datasets import chunked_dataset_iterator

    source = I.ChunkedSourceIterator([1, 2, 3])
    for make, words in (
        (lambda: I.MapIterator([1, 2], str), "source_iterator has to be a CheckpointableIterator"),
        (
            lambda: I.MultiplexIterator(source, [[1]]),
            "control_iterator and source_iterators have to be",
        ),
        (lambda: I.ZipIterator(source, 3), "all iterators in source_iterators"),
        (lambda: I.FixedBatchIterator(source, 0), "batch_size has to be positive"),
        (lambda: I.PrefetchIterator(source, 0), "buffer_size must be positive"),
        (lambda: I.InfinitePermutationSourceIterator([]), "source must not be empty"),
        (
            lambda: I.InfinitePermutationSourceIterator([1], num_instances=2, instance_rank=2),
            "invalid instance_rank",
        ),
        (
            lambda: I.ChunkedSourceIterator([1], num_instances=2, instance_rank=2),
            "invalid instance_rank",
        ),
        (
            lambda: I.NativeCheckpointableIterator(iter([1])),
            "passing an iterator instead of an iterable",
        ),
        (
            lambda: I.create_source_iterator([1], train=False),
            "shuffling is not supported when train=False",
        ),
        (
            lambda: chunked_dataset_iterator(["a"], iter, 3, train=False),
            "shuffling is not supported when train=False",
        ),
        (lambda: I.RandomIterator("a"), "seed = 'a'"),
    ):
        with pytest.raises(ValueError, match=words):
            make()

    class Own(I.CheckpointableIterator):
        def __init__(self):
            self.at = 0

        def getstate(self):
            return {"at": self.at}

        def setstate(self, checkpoint):
            self.at = checkpoint["at"] if checkpoint else 0

        def __next__(self):
            if self.at == 20:
                raise StopIteration
            self.at += 1
            return self.at

        def close(self):
            pass

    iterator = I.PrefetchIterator(
        I.MapIterator(I.BufferedShuffleIterator(Own(), 4, seed=3), double), 5
    )
    head = [next(iterator) for _ in range(8)]
    state = iterator.getstate()
    rest = list(iterator)
    iterator.setstate(pickle.loads(pickle.dumps(state)))
    assert list(iterator) == rest and collections.Counter(head + rest) == collections.Counter(
        2 * x for x in range(1, 21)
    )
    iterator.setstate(None)
    assert list(iterator) == head + rest
    iterator.close()


# What else must hold


def test_values_that_are_passed_on_are_not_kept():
    def same(*arguments):
        return arguments[-1]

    for make in (
        lambda s: s.map(same),
        lambda s: s.map(same, threads=2),
        lambda s: s.random_map(same),
        lambda s: s.recurrent(lambda state, x: (state, x), [1]),
        lambda s: s.recurrent(lambda state, x: (x, x), [1]),
        lambda s: s.select_many(lambda x: [x, x]),
        lambda s: s.buffered_shuffle(7).block_shuffle(5).batch(2).flatten(),
    ):
        value = object()
        before = sys.getrefcount(value)
        stream = make(Stream.from_items([value] * 200))
        assert all(x is value for x in stream)
        stream.close()
        del stream
        gc.collect()
        assert sys.getrefcount(value) == before, make


def test_a_state_that_cannot_be_loaded_leaves_the_beginning():
    stream = numbers()
    for state in (b"garbage", b"", numbers().batch(2).state_dict()["state"]):
        for _ in range(5):
            next(stream)
        with pytest.raises((sab.FormatError, sab.MismatchError)):
            stream.load_state_dict({"state": state})
        assert next(stream) == 0


def test_a_place_is_pickled_again_and_again():
    stream = numbers()
    for _ in range(5):
        next(stream)
    for _ in range(3):
        stream = pickle.loads(pickle.dumps(stream))
    assert next(stream) == 5
    other = pickle.loads(pickle.dumps(stream))
    other.close()
    assert next(other) == 0


def test_errors_of_several_threads_come_with_their_records():
    failing = Failing(range(0, 300, 7))
    stream, failed, seen = numbers(300).map(failing, threads=4), [], []
    for _ in range(400):
        taken, error = drain(stream)
        seen += taken
        if error is None:
            break
        assert isinstance(error, KeyError) and error.args == (len(seen),)
        failed.append(error.args[0])
    assert failed == list(range(0, 300, 7)) and seen == list(range(300))


def test_a_function_that_failed_or_gave_nothing_is_called_again():
    calls = []

    def items():
        calls.append(None)
        if len(calls) == 1:
            raise KeyError("first")
        return [] if len(calls) == 2 else [1, 2]

    stream = Stream.from_iterable(items)
    with pytest.raises(KeyError):
        next(stream)
    stream.rewind()
    assert list(stream) == [] and list(stream) == [1, 2]


PACKERS = {"plain": lambda data: data, "gzip": gzip.compress, "zstd": zstandard}


@pytest.mark.parametrize("packer", PACKERS)
def test_files_that_changed_are_refused_and_copies_are_not(tmp_path, packer):
    generator = random.Random(5)
    path = tmp_path / "lines"
    packed = PACKERS[packer](
        "".join(f"{generator.getrandbits(200):050x}\n" for _ in range(20_000)).encode()
    )
    modified = 1_600_000_000 * 10**9

    def write(data, at):
        path.write_bytes(data)
        os.utime(path, ns=(at, at))

    def restored():
        other = Stream.from_files([path])
        other.load_state_dict(state)
        return list(other)

    def changed(place):
        return packed[:place] + bytes([packed[place] ^ 1]) + packed[place + 1 :]

    write(packed, modified)
    stream = Stream.from_files([path])
    for _ in range(12_000):
        next(stream)
    state = stream.state_dict()
    rest = list(stream)
    assert restored() == rest
    sample = (
        (len(packed) - 4096) // 15 * 3
    )  # the fourth of sixteen blocks that are compared in any case
    for data, at in (
        (changed(sample + 5000), modified + 1),  # read before
        (changed(sample + 100), modified),
        (changed((len(packed) - 4096) // 15 * 14 + 100), modified),  # not read yet
        (packed + b"\n", modified),
        (packed[:-1], modified),
    ):
        write(data, at)
        with pytest.raises(sab.MismatchError, match="has changed"):
            restored()
    write(packed, modified + 10**9)
    assert restored() == rest
    write(packed, modified)
    assert restored() == rest


def test_a_file_that_changed_is_refused_when_it_comes_round_again(tmp_path):
    path = tmp_path / "lines"
    lines = [f"{number:06d}" for number in range(60_000)]
    path.write_text("\n".join(lines) + "\n")
    stream = Stream.from_files([path], infinite=True)
    assert list(itertools.islice(stream, 60_000)) == lines
    state = stream.state_dict()
    lines[20_000:] = ["CHANGE"] * 40_000
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(sab.MismatchError, match="has changed"):
        list(itertools.islice(stream, 60_000))
    other = Stream.from_files([path], infinite=True)
    with pytest.raises(sab.MismatchError, match="has changed"):
        other.load_state_dict(state)
        list(itertools.islice(other, 60_000))


def test_text_and_bytes_side_by_side(tmp_path):
    (tmp_path / "text").write_text("é\nb\r")
    (tmp_path / "bytes").write_bytes(b"\xff\r\n\xfe\n")
    text, raw = (
        Stream.from_files([tmp_path / "text"]),
        Stream.from_files([tmp_path / "bytes"], encoding=None),
    )
    assert list(text.zip(raw)) == [["é", b"\xff"], ["b\r", b"\xfe"]]
    assert list(raw.zip(text)) == [[b"\xff", "é"], [b"\xfe", "b\r"]]
    assert list(Stream.from_items([0, 1, 0]).multiplex(text, raw)) == ["é", b"\xff", "b\r"]


def test_limits_as_large_as_they_come(tmp_path):
    path = tmp_path / "text"
    path.write_text("x" * 300_000 + "\n" + "y" * 700_000)
    assert [len(line) for line in Stream.from_files([path], max_record=2**64 - 1)] == [
        300_000,
        700_000,
    ]
    assert list(numbers(10).readahead(10, batch_size=2**64 - 1, key=float, shuffle=False)) == [
        list(range(9, -1, -1))
    ]
    assert (
        sum(map(len, numbers(100).readahead(10, batch_size=2**64 - 1, key=float, carry_over=True)))
        == 100
    )
    with pytest.raises(ValueError, match="world_size = 1099511627776"):
        next(Stream.from_items([1], infinite=True, rank=2**40 - 1, world_size=2**40))


def test_a_stream_in_use_is_not_used():
    for make in (
        lambda f: numbers(1000).map(f),
        lambda f: numbers(1000).map(f).prefetch(50),
        lambda f: numbers(1000).map(f, threads=2),
    ):
        failed = []

        def close(x):
            if x == 5:
                for use in (stream.close, stream.state_dict, lambda: next(stream)):
                    try:
                        if use == stream.close or not isinstance(
                            threading.current_thread(), threading._DummyThread
                        ):
                            use()
                    except RuntimeError as error:
                        failed.append(str(error))
            return x

        stream = make(close)
        assert list(stream) == list(range(1000))
        assert failed and all("in use" in text for text in failed)
    stream, errors = (
        Stream.from_items([1, 2], infinite=True).map(lambda x: time.sleep(0.001) or x),
        [],
    )

    def take():
        for _ in range(200):
            try:
                next(stream)
            except RuntimeError as error:
                errors.append(error)

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors and next(stream) in (1, 2)


AT_EXIT = """
import atexit, threading, time
def late():
    try:
        next(Stream.from_items([1]).map(str).prefetch(2))
    except RuntimeError as error:
        print(error)
atexit.register(late)
from sab import Stream
def run():
    for x in Stream.from_items(list(range(1000)), infinite=True).map(lambda x: x + 1).prefetch(50):
        pass
kept = Stream.from_items([1, 2], infinite=True).map(lambda x: x).prefetch(5)
next(kept)
threading.Thread(target=run, daemon=True).start()
time.sleep(0.3)
"""


def test_exit_with_streams_that_run():
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", AT_EXIT], capture_output=True, timeout=60, text=True
    )
    assert done.returncode == 0 and done.stderr == "" and "is exiting" in done.stdout, done


# Functions take Python's lock after the interpreter has exited: in the library's threads, and in a
# daemon thread that takes from a stream.
SLOW_AT_EXIT = """
import threading, time
from sab import Stream
class Late:
    def __del__(self, sleep=time.sleep):  # other threads take Python's lock meanwhile
        sleep(1)
late = Late()
def items():
    while True:
        time.sleep(1.5)
        yield 1
stream = {make}
threading.Thread(target=lambda: list(stream), daemon=True).start()
time.sleep(0.2)
"""
SLOW_PIPELINES = {
    "prefetch": "Stream.from_iterable(items).prefetch(50)",
    "threads": "Stream.from_iterable(items).map(str, threads=2).prefetch(50)",
    "nested": "Stream.from_items([1], infinite=True).map(lambda x: "
    "next(Stream.from_iterable(items))).prefetch(5)",
}


@pytest.mark.parametrize("kind", SLOW_PIPELINES)
def test_exit_while_functions_of_streams_run(kind):
    program = SLOW_AT_EXIT.format(make=SLOW_PIPELINES[kind])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=60, text=True
    )
    assert done.returncode == 0 and done.stderr == "", done


class Owner:
    """Has a stream whose functions reach it."""

    def __init__(self, make):
        self.stream = make(self)

    def same(self, x):
        return x if self.stream is not None else None

    def twice(self, x):
        yield x
        yield x if self.stream is not None else None

    def items(self):
        for x in range(500):
            yield x if self.stream is not None else None

    def add(self, state, x):
        return (state or 0) + 1, x if self.stream is not None else None

    def chance(self, generator, x):
        return x if self.stream is not None and generator.random() >= 0 else None

    def size(self, x):
        return 1 + x % 3 if self.stream is not None else 1


CYCLES = {
    "map": lambda owner: numbers(500).map(owner.same),
    "prefetch": lambda owner: numbers(500).map(owner.same).prefetch(20),
    "threads": lambda owner: numbers(500).map(owner.same, threads=2),
    "threads below prefetch": lambda owner: numbers(500).map(owner.same, threads=2).prefetch(20),
    "select": lambda owner: numbers(500).select_many(owner.twice),
    "select below prefetch": lambda owner: numbers(500).select_many(owner.twice).prefetch(20),
    "source": lambda owner: Stream.from_iterable(owner.items),
    "source below prefetch": lambda owner: Stream.from_iterable(owner.items).prefetch(20),
    "recurrent": lambda owner: numbers(500).recurrent(owner.add).prefetch(20),
    "random": lambda owner: numbers(500).random_map(owner.chance),
    "batches": lambda owner: numbers(500).readahead(
        20, key=owner.size, batch_size=owner.size, boundary_key=owner.size
    ),
}


@pytest.mark.parametrize("kind", CYCLES)
def test_functions_that_reach_their_own_stream_are_collected(kind):
    owner = Owner(CYCLES[kind])
    next(owner.stream)
    gone = weakref.ref(owner)
    del owner
    end = time.monotonic() + 30
    while (
        gone() is not None and time.monotonic() < end
    ):  # a function that runs in a thread holds it for as long
        gc.collect()
    assert gone() is None


ENDLESS = """
import os, signal, sys, threading
from sab import Stream
entered = threading.Event()
def wait_for_ever(x):
    if x == 20:
        entered.set()
        threading.Event().wait()
    return x
def interrupt():
    entered.wait()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
stream = {make}
try:
    for x in stream:
        pass
except KeyboardInterrupt:
    print("interrupted")
{then}
print("after")
"""


@pytest.mark.parametrize(
    "make",
    [
        "map(wait_for_ever).prefetch(8)",
        "map(wait_for_ever, threads=2)",
        "map(wait_for_ever, threads=2).prefetch(8).batch(2)",
    ],
)
@pytest.mark.parametrize("then", ["", "del stream", "stream.close()"])
def test_ctrl_c_comes_through_a_function_that_does_not_end(make, then):
    text = ENDLESS.format(make="Stream.from_items(list(range(1000)))." + make, then=then)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=60, text=True)
    assert done.stdout == "interrupted\nafter\n" and done.stderr == "" and done.returncode == 0, (
        done
    )


def test_a_function_that_runs_on_after_close_keeps_what_it_needs():
    entered, may_leave, done = threading.Event(), threading.Event(), []

    class Needed:
        def __call__(self, x):
            if x == 5:
                entered.set()
                may_leave.wait()
                done.append(self)
            return x

    function = Needed()
    gone = weakref.ref(function)
    stream = numbers().map(function).prefetch(8)
    del function
    next(stream)
    entered.wait()  # ahead of time
    stream.close()
    assert next(stream) == 0  # anew, while the function still runs for the one before
    stream.close()
    del stream
    assert gone() is not None
    may_leave.set()
    end = time.monotonic() + 30
    while gone() is not None and time.monotonic() < end:
        done.clear()
        gc.collect()
    assert gone() is None


def test_iterators_of_infinibatch_that_prefetch_are_closed_for_good():
    from sab.compat.infinibatch import iterators as I

    def source():
        return I.NativeCheckpointableIterator(list(range(10)))

    for make in (
        lambda: I.PrefetchIterator(source(), 4),
        lambda: I.MapIterator(I.PrefetchIterator(source(), 4), double),
        lambda: I.ZipIterator(source(), I.PrefetchIterator(source(), 4)),
    ):
        for taken in (0, 3):
            iterator = make()
            for _ in range(taken):
                next(iterator)
            iterator.close()
            iterator.close()
            for use in (iterator.__next__, lambda iterator=iterator: iterator.setstate(None)):
                with pytest.raises(RuntimeError, match="closed"):
                    use()
            other = make()
            other.setstate(iterator.getstate())
            assert len(list(other)) == 10 - taken
    iterator = I.MapIterator(source(), double)
    next(iterator)
    iterator.close()
    assert list(iterator) == [2 * x for x in range(10)]


def test_datasets_that_were_begun_before_their_workers():
    torch_data = pytest.importorskip("torch.utils.data")
    import sab.torch

    dataset = sab.torch.StreamDataset(numbers(40))
    assert list(itertools.islice(dataset, 7)) == list(range(7))
    rest = [
        int(x) for x in torch_data.DataLoader(dataset, batch_size=None, num_workers=2) if x != []
    ]
    assert sorted(rest) == list(range(7, 40))
    three = [sab.torch.StreamDataset(numbers(40), rank=rank, world_size=3) for rank in range(3)]
    for part in three:
        part.load_state_dict(dataset.state_dict())
    assert sorted(x for part in three for x in part if x != []) == list(range(7, 40))


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_state_that_running_workers_do_not_get_is_not_lost_silently(context):
    torch_data = pytest.importorskip("torch.utils.data")
    import sab.torch

    def loader_of(dataset, **options):
        return torch_data.DataLoader(
            dataset, batch_size=None, num_workers=1, multiprocessing_context=context, **options
        )

    begun = sab.torch.StreamDataset(numbers(20))
    assert list(itertools.islice(begun, 15)) == list(range(15))
    state = begun.state_dict()
    dataset = sab.torch.StreamDataset(numbers(20))
    loader = loader_of(dataset)
    walk = iter(loader)
    assert next(walk) == 0
    with pytest.warns(UserWarning, match="the pass under way goes on where it is") as caught:
        dataset.load_state_dict(state)
    assert caught[0].filename == __file__
    assert list(walk) == list(range(1, 20))
    assert list(loader) == list(range(15, 20))

    dataset = sab.torch.StreamDataset(numbers(20))
    loader = loader_of(dataset, persistent_workers=True)
    assert list(loader) == list(range(20))
    with pytest.raises(RuntimeError, match="after persistent workers of a DataLoader have started"):
        dataset.load_state_dict(state)
    del loader
    dataset.load_state_dict(state)
    assert list(loader_of(dataset)) == list(range(15, 20))


def test_a_worker_takes_a_state_itself():
    torch_data = pytest.importorskip("torch.utils.data")
    import sab.torch

    begun = sab.torch.StreamDataset(numbers(20))
    assert list(itertools.islice(begun, 15)) == list(range(15))
    state = begun.state_dict()
    loader = torch_data.DataLoader(
        sab.torch.StreamDataset(numbers(20)),
        batch_size=None,
        num_workers=1,
        multiprocessing_context="fork",  # the worker has a copy of the loader
        persistent_workers=True,
        worker_init_fn=lambda worker: torch_data.get_worker_info().dataset.load_state_dict(state),
    )
    assert list(loader) == list(range(15, 20))


def test_subclasses_of_infinibatchs_iterators_keep_what_they_override():
    from sab.compat.infinibatch import iterators as I

    class Double(I.MapIterator):
        def __next__(self):
            return 2 * super().__next__()

    assert list(
        I.FixedBatchIterator(Double(I.ChunkedSourceIterator([0, 1, 2, 3]), lambda x: x), 2)
    ) == [[0, 2], [4, 6]]


@pytest.mark.parametrize("workers", [0, 2, 3, 4])
@pytest.mark.parametrize("transform", [None, list, len])
def test_workers_of_one_rank_give_no_empty_batch(workers, transform):
    torch_data = pytest.importorskip("torch.utils.data")
    import sab.torch

    lengths = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]

    def loader(**ranks):
        stream = sab.Stream.from_items(lengths, infinite=False).readahead(10, budget=12, key=int)
        return torch_data.DataLoader(
            sab.torch.StreamDataset(stream, transform=transform, **ranks),
            batch_size=None,
            num_workers=workers,
            collate_fn=lambda batch: batch,
        )

    batches = list(loader())
    if transform is len:
        assert len(batches) == 5 and sum(batches) == len(lengths)
    else:
        assert len(batches) == 5 and sorted(sum(batches, [])) == sorted(lengths)
    ranks = [list(loader(rank=rank, world_size=2)) for rank in range(2)]  # as many on both
    assert len(ranks[0]) == len(ranks[1])


def test_a_stream_in_torchs_loader_names_the_data_set():
    torch_data = pytest.importorskip("torch.utils.data")
    stream = numbers(10)
    with pytest.raises(TypeError, match=r"sab.torch.StreamDataset\(stream\)"):
        list(torch_data.DataLoader(stream))
    assert stream and list(stream) == list(range(10))
