"""Values made once: in this process and in files."""

import importlib.util
import multiprocessing
import os
import pickle
import signal
import threading
import time
import warnings

import numpy as np
import pytest

import sab


@pytest.fixture(params=["memory", "lmdb"])
def url(request, tmp_path):
    return "memory:" if request.param == "memory" else f"lmdb:{tmp_path / 'values.mdb'}"


@pytest.fixture
def file(tmp_path):
    return f"lmdb:{tmp_path / 'values.mdb'}"


class TestKeeping:
    def test_values_are_objects(self, url):
        with sab.Cache(url) as cache:
            for key, value in {
                "a": [1, {"b": None}],
                b"\xff\0": "text",
                7: np.arange(3),
                "ä": b"",
            }.items():
                cache.put(key, value)
                kept = cache.get(key)
                assert (
                    np.array_equal(kept, value) if isinstance(value, np.ndarray) else kept == value
                )
                assert key in cache
            assert cache.get("x") is None and cache.get("x", 5) == 5 and "x" not in cache
            assert cache.key_count() == 4
            cache.clear()
            assert cache.key_count() == 0

    def test_kinds_of_keys_are_apart(self, url):
        keys = [1, "1", b"1", -1, "-1", "\0i1", b"\0i1", "\0b1", "\0s1", "\0", b"\0", "\0s\0i1"]
        cache = sab.Cache(url)
        for number, key in enumerate(keys):
            cache.put(key, number)
        assert cache.get_many(keys) == list(range(len(keys))) and cache.key_count() == len(keys)
        assert cache.get(np.int64(1)) == 0 and cache.get(True) == 0
        cache.put_many({1: "number", "1": "text"})
        assert (cache.get(1), cache.get("1"), cache.get(b"1")) == ("number", "text", 2)
        with pytest.raises(ValueError, match="key = b''"):
            cache.get(b"")

    def test_many_at_once(self, url):
        cache = sab.Cache(url, dataset_name="d")
        cache.put_many({n: n * n for n in range(100)})
        assert cache.get_many(range(98, 102)) == [98 * 98, 99 * 99, None, None]
        assert cache.get_many([], default=3) == [] and cache.get_many(["x"], default=3) == [3]
        cache.put_many({})
        stats = cache.stats()
        assert (stats.hits, stats.misses, stats.failures) == (2, 3, 0)

    def test_names_are_apart(self, file):
        one, other, nameless = (
            sab.Cache(file, dataset_name="one"),
            sab.Cache(file, dataset_name="other"),
            sab.Cache(file),
        )
        one.put("a", 1)
        other.put("a", 2)
        assert (one.get("a"), other.get("a"), nameless.get("a")) == (1, 2, None)
        one.clear()
        assert other.get("a") == 2 and sab.Cache(file, dataset_name="other").get("a") == 2

    def test_buffer(self, file):
        writer = sab.Cache(file, dataset_name="d", writer_buffer_size=3, flush_interval=1e6)
        reader = sab.Cache(file, dataset_name="d")
        writer.put("a", 1)
        assert writer.get("a") == 1 and reader.get("a") is None and writer.stats().buffered == 1
        writer.put("b", 2)
        writer.put("c", 3)
        assert reader.get_many("abc") == [1, 2, 3]
        writer.put("d", 4)
        writer.close()
        assert reader.get("d") == 4

    def test_closed(self, url):
        cache = sab.Cache(url)
        cache.close()
        cache.close()
        for call in (
            lambda: cache.get("a"),
            lambda: cache.put("a", 1),
            cache.flush,
            cache.stats,
            lambda: cache.url,
        ):
            with pytest.raises(ValueError, match="closed"):
                call()


class TestSerializers:
    def test_bytes(self, url):
        cache = sab.Cache(url, serializer="bytes")
        cache.put("a", bytearray(b"xyz"))
        cache.put("b", np.arange(3, dtype=np.int16))
        assert cache.get("a") == b"xyz" and cache.get("b") == bytes([0, 0, 1, 0, 2, 0])
        with pytest.raises(TypeError, match="value has type int"):
            cache.put("c", 3)

    def test_views_live_as_long_as_they_are_used(self, file):
        cache = sab.Cache(file, serializer="view")
        cache.put("a", b"x" * 100_000)
        view = cache.get("a")
        assert view.readonly
        cache.clear()
        for n in range(50):
            cache.put(n, b"y" * 100_000)
        cache.close()
        assert bytes(view) == b"x" * 100_000

    def test_arrays_are_read_in_place(self, file):
        torch = pytest.importorskip("torch")
        cache = sab.Cache(file, serializer="arrays")
        value = {
            "array": np.arange(100_000.0).reshape(100, 1000),
            "tensor": torch.arange(1000).reshape(10, 100).t(),
            "bfloat16": torch.arange(5, dtype=torch.bfloat16),
            "complex": torch.tensor([1 + 2j]).conj(),
            "empty": np.empty((0, 3)),
            "text": "abc",
        }
        cache.put("a", value)
        kept = cache.get("a")
        assert (
            not kept["array"].flags.writeable
            and not kept["array"].flags.owndata
            and kept["array"].flags.aligned
        )
        with pytest.raises(ValueError):
            kept["array"][0] = 1
        assert list(kept) == list(value) and kept["text"] == "abc"
        assert np.array_equal(kept["array"], value["array"]) and kept["empty"].shape == (0, 3)
        for name in ("tensor", "bfloat16", "complex"):
            assert kept[name].dtype == value[name].dtype and torch.equal(
                kept[name], value[name].resolve_conj()
            )
        del cache
        assert kept["array"].sum() == value["array"].sum()

    def test_arrays_keep_values_as_they_are(self, url):
        cache = sab.Cache(url, serializer="arrays")
        for number, value in enumerate(
            [
                None,
                True,
                0,
                -(2**70),
                1.5,
                "ä\ud800",
                b"\0\1",
                [],
                (),
                {},
                [1, (2, [3.0])],
                {"a": {1: None, None: "b", 2.5: ()}},
                float("inf"),
            ]
        ):
            cache.put(number, value)
            assert cache.get(number) == value and type(cache.get(number)) is type(value)
        array = np.arange(12).reshape(3, 4)
        for value in (
            array.T,
            array[::2, ::-1],
            np.float32(1.5),
            np.str_("xy"),
            np.array(3),
            np.array(["a", "bcd"]),
            np.array(["2020-01-01"], "M8[s]"),
            array.astype(">i2"),
            np.array([True]),
            np.zeros((2, 0)),
        ):
            cache.put("a", value)
            kept = cache.get("a")
            assert (
                type(kept) is type(value)
                and kept.dtype == value.dtype
                and kept.shape == value.shape
                and np.array_equal(kept, value)
            )

    def test_arrays_take_nothing_that_runs_code(self, url):
        cache = sab.Cache(url, serializer="arrays")

        class Mine(dict):
            pass

        for value in (
            object(),
            {1},
            Mine(),
            np.array([object()]),
            np.zeros(2, "i4,f8"),
            np.ma.zeros(2),
            len,
            [{"a": [3 + 4j]}],
            {(1, 2): 3},
        ):
            with pytest.raises(TypeError, match='serializer = "arrays"'):
                cache.put("a", value)
        assert "a" not in cache

    def test_tensors_that_arrays_refuse(self):
        torch = pytest.importorskip("torch")
        cache = sab.Cache("memory:", serializer="arrays")
        for value in (
            torch.eye(3).to_sparse(),
            torch.zeros(2, requires_grad=True),
            torch.nn.Parameter(torch.zeros(2)),
            torch.zeros(2, device="meta"),
        ):
            with pytest.raises(TypeError, match='serializer = "arrays"'):
                cache.put("a", value)

    def test_arrays_of_whoever_can_write(self):
        """Bytes of anyone's are a value of the kinds above, or a ValueError."""
        plans = [
            "",
            "{}",
            "[]",
            '["x"]',
            '["array"]',
            '["array","O",[1]]',
            '["array","i4,O",[1]]',
            '["array","<f8",[-1]]',
            '["array","<f8",[99999999999999999999]]',
            '["array","<f8","3"]',
            '["array",["<f8"],[1]]',
            '["tensor","<U4",[1]]',
            '["scalar","|O",[]]',
            '["dict",[[1],2]]',
            '["dict",1]',
            '["bytes",-1]',
            '["bytes",1e9]',
            '["list"' * 10_000,
            '["bytes",9]',
            '["array","<f8",[3]]',
            '["list",{"a":1}]',
            '["array","|S0",[2]]',
            '["array","(2,)u1",[1]]',
            '["array","u1,u1",[1]]',
        ]
        if importlib.util.find_spec("torch"):
            plans += ['["bfloat16","|u1",[3]]', '["bfloat16","<U4",[1]]']
        raw = sab.Cache("memory:", serializer="bytes")
        load = sab._cache._SERIALIZERS["arrays"][1]
        for plan in plans:
            raw.put("a", len(plan).to_bytes(8, "little") + plan.encode())
            with pytest.raises(ValueError, match="not a value of serializer"):
                load(memoryview(raw.get("a")))
        for data in (b"", b"1", b"\xff" * 8, b"\xff" * 100, b"\x05\0\0\0\0\0\0\0"):
            with pytest.raises(ValueError, match="not a value of serializer"):
                load(memoryview(data))

    def test_pickle_runs_code_and_the_others_do_not(self, file):
        """What the documentation says of serializers: a value that an attacker has written."""
        sab.Cache(file, serializer="bytes").put("a", pickle.dumps(RunsCode()))
        assert sab.Cache(file).get("a") == "code of the writer"
        assert isinstance(sab.Cache(file, serializer="bytes").get("a"), bytes)
        with pytest.raises(ValueError, match="not a value of serializer"):
            sab.Cache(file, serializer="arrays").get("a")

    def test_small_arrays_are_aligned(self, file):
        cache = sab.Cache(file, serializer="arrays")
        for size in range(1, 40):
            cache.put(size, np.arange(float(size)))
            cache.put(f"x{size}", b"x" * size)
        for size in range(1, 40):
            array = cache.get(size)
            assert array.flags.aligned and np.array_equal(array, np.arange(float(size)))

    def test_own_functions(self, url):
        cache = sab.Cache(url, serializer=(str.encode, lambda view: bytes(view).decode()))
        cache.put("a", "ä")
        assert cache.get("a") == "ä"

    def test_failures_come_through(self, url):
        cache = sab.Cache(url)
        with pytest.raises((pickle.PicklingError, AttributeError)):
            cache.put("a", lambda: 0)
        with pytest.raises((pickle.PicklingError, AttributeError)):
            cache.get_or_load("a", lambda key: lambda: 0)
        assert "a" not in cache


class RunsCode:
    def __reduce__(self):
        return str, (b"code of the writer", "ascii")


class TestTrust:
    def test_files_are_for_their_owner(self, tmp_path):
        before = os.umask(0o022)
        try:
            sab.Cache(f"lmdb:{tmp_path}/own.mdb").put("a", 1)
            sab.Cache(f"lmdb:{tmp_path}/all.mdb", file_mode=0o666).put("a", 1)
        finally:
            os.umask(before)
        for name in ("", "-lock", "-loading"):
            assert (tmp_path / f"own.mdb{name}").stat().st_mode & 0o777 == 0o600
            assert (tmp_path / f"all.mdb{name}").stat().st_mode & 0o777 == 0o644

    @pytest.mark.parametrize(
        "hosts",
        ["192.0.2.1:1", "127.0.0.1:1,192.0.2.1:1", "[2001:db8::1]:1", "user:pa%40ss@192.0.2.1:1"],
    )
    def test_unpickling_what_another_machine_sends_gives_a_warning(self, hosts):
        with pytest.warns(UserWarning, match="another machine") as caught:
            cache = sab.Cache(f"redis://{hosts}", timeout=0.01)
        assert (
            len(caught) == 1
            and caught[0].filename == __file__
            and "ss" not in str(caught[0].message).split("unpickles")[0]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for serializer in ("pickle", "arrays", "bytes", "view", (pickle.dumps, pickle.loads)):
                sab.Cache(f"redis://{hosts}", timeout=0.01, serializer=serializer)
            pickle.loads(pickle.dumps(cache))

    def test_no_warning_on_this_machine(self, file):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for url in (
                "memory:",
                file,
                "redis://localhost:1",
                "redis://127.0.0.1:1,127.0.0.2:1/3",
                "redis://:p@[::1]:1",
            ):
                sab.Cache(url, timeout=0.01)


class TestLoading:
    def test_once(self, url):
        cache = sab.Cache(url)
        calls = []
        for _ in range(3):
            assert cache.get_or_load(5, lambda key: calls.append(key) or key * 2) == 10
        assert calls == [5] and cache.stats().loads == 1

    @pytest.mark.parametrize("exception", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
    def test_exceptions_come_through(self, url, exception):
        cache = sab.Cache(url)

        def fail(key):
            raise exception("by me")

        with pytest.raises(exception, match="by me"):
            cache.get_or_load("a", fail)
        assert cache.get_or_load("a", lambda key: 1) == 1

    def test_threads_wait(self, url):
        cache = sab.Cache(url)
        calls = []

        def load(key):
            calls.append(key)
            time.sleep(0.1)
            return "made"

        found = []
        threads = [
            threading.Thread(target=lambda: found.append(cache.get_or_load("a", load)))
            for _ in range(8)
        ]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert calls == ["a"] and found == ["made"] * 8

    def test_nested(self, url):
        cache = sab.Cache(url)
        assert (
            cache.get_or_load("outer", lambda key: cache.get_or_load("inner", lambda key: 1) + 1)
            == 2
        )
        assert (
            cache.get_or_load("same", lambda key: cache.get_or_load("same", lambda key: 1) + 1) == 2
        )

    @pytest.mark.parametrize("where", ["thread", "process"])
    def test_waiting_can_be_interrupted(self, file, where):
        cache = sab.Cache(file)
        context = multiprocessing.get_context("fork")
        has_begun, is_over = context.Event(), context.Event()

        def load(key):
            has_begun.set()
            return is_over.wait(60)

        other = (threading.Thread if where == "thread" else context.Process)(
            target=lambda: cache.get_or_load("slow", load)
        )
        other.start()
        assert has_begun.wait(60)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            cache.get_or_load("slow", lambda key: "mine")
        assert time.monotonic() - start < 20
        is_over.set()
        other.join()
        assert cache.get("slow") is True

    def test_closing_under_a_call(self, file):
        cache = sab.Cache(file)
        has_begun, is_over = threading.Event(), threading.Event()
        made = []

        def load(key):
            has_begun.set()
            is_over.wait(60)
            return 7

        thread = threading.Thread(target=lambda: made.append(cache.get_or_load("a", load)))
        thread.start()
        assert has_begun.wait(60)
        cache.close()
        is_over.set()
        thread.join()
        assert made == [7] and sab.Cache(file).get("a") == 7

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_processes_load_once(self, file, method, tmp_path):
        cache = sab.Cache(file, dataset_name="d")
        cache.put("before", 0)
        context = multiprocessing.get_context(method)
        processes = [
            context.Process(target=load_slowly, args=(cache, str(tmp_path / f"log{n}")))
            for n in range(3)
        ]
        [process.start() for process in processes]
        [process.join(60) for process in processes]
        assert [process.exitcode for process in processes] == [0, 0, 0]
        assert sum((tmp_path / f"log{n}").exists() for n in range(3)) == 1
        assert cache.get("slow") == 42


def load_slowly(cache, log):
    def load(key):
        open(log, "w").close()
        time.sleep(1.0)
        return 42

    assert cache.get("before") == 0
    assert cache.get_or_load("slow", load) == 42


class Squares:
    def __init__(self, log):
        self.log = log

    def __getitem__(self, index):
        with open(self.log, "ab") as log:
            log.write(b"x")
        return np.full(3, index * index)

    def __len__(self):
        return 40


class TestDataset:
    def test_samples_are_made_once(self, tmp_path, file):
        dataset = sab.CachedDataset(
            Squares(tmp_path / "log"), file, dataset_name="squares", writer_buffer_size=7
        )
        for _ in range(3):
            assert [int(dataset[n][0]) for n in range(len(dataset))] == [n * n for n in range(40)]
        assert (tmp_path / "log").stat().st_size == 40
        assert dataset.cache.key_count() == 40

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_workers_of_a_data_loader(self, tmp_path, file, method):
        data = pytest.importorskip("torch.utils.data")
        dataset = sab.CachedDataset(
            Squares(tmp_path / "log"), file, dataset_name="squares", writer_buffer_size=5
        )
        for _ in range(2):
            loader = data.DataLoader(
                dataset, batch_size=8, num_workers=2, multiprocessing_context=method
            )
            assert sorted(int(row[0]) for batch in loader for row in batch) == sorted(
                n * n for n in range(40)
            )
        assert (tmp_path / "log").stat().st_size == 40

    def test_arguments(self):
        cache = sab.Cache("memory:")
        assert sab.CachedDataset([1], cache).cache is cache
        with pytest.raises(TypeError, match="capacity"):
            sab.CachedDataset([1], cache, capacity=3)


class TestProcesses:
    def test_pickles_reopen(self, file):
        cache = sab.Cache(file, dataset_name="d", writer_buffer_size=10, serializer="bytes")
        cache.put("a", b"1")
        again = pickle.loads(pickle.dumps(cache))
        assert again.get("a") == b"1" and again.url == cache.url
        assert pickle.loads(pickle.dumps(sab.Cache("memory:"))).key_count() == 0

    def test_a_folder_that_is_left(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        cache = sab.Cache("lmdb:a@b.mdb")
        cache.put("a", 1)
        assert repr(cache) == f"<sab.Cache: lmdb:{tmp_path}/a@b.mdb, dataset None>"
        monkeypatch.chdir("/")
        assert pickle.loads(pickle.dumps(cache)).get("a") == 1

    def test_passwords_are_not_shown(self):
        cache = sab.Cache("redis://:a%2Fsecret@127.0.0.1:1,user:secret@[::1]:1", timeout=0.1)
        assert "secret" in cache.url and "secret" not in repr(cache)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"url": "http://x"}, "url"),
        ({"on_failure": "panic"}, "on_failure = 'panic'"),
        ({"serializer": "json"}, "serializer = 'json'"),
        ({"writer_buffer_size": 0}, "writer_buffer_size = 0"),
        ({"capacity": 0}, "capacity = 0"),
        ({"timeout": 0}, "timeout = 0"),
        ({"load_wait": -1}, "load_wait = -1"),
        ({"call_timeout": -1}, "call_timeout = -1"),
        ({"file_mode": 0o400}, "file_mode = 256"),
        ({"flush_interval": float("nan")}, "flush_interval = nan"),
        ({"dataset_name": "a\0b"}, "dataset_name"),
        ({"url": "redis://user:secret@host:port"}, r"redis://\.\.\.\": host 1: a port"),
    ],
)
def test_wrong_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        sab.Cache(**{"url": "memory:", **arguments})


def test_wrong_types():
    cache = sab.Cache("memory:")
    for key in (1.5, None, ["a"]):
        with pytest.raises(TypeError, match="key"):
            cache.get(key)
    with pytest.raises(ValueError, match="key_size = 0"):
        cache.get("")
    with pytest.raises(TypeError, match="dataset_name"):
        sab.Cache("memory:", dataset_name=3)
    with pytest.raises(OSError, match="no/such"):
        sab.Cache("lmdb:/no/such/folder/file")
    assert repr(cache) == "<sab.Cache: memory:, dataset None>"
