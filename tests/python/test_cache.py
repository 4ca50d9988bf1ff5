"""Values made once: in this process and in files."""

import multiprocessing
import os
import pickle
import signal
import threading
import time

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
            for key, value in {"a": [1, {"b": None}], b"\xff\0": "text", 7: np.arange(3), "ä": b""}.items():
                cache.put(key, value)
                kept = cache.get(key)
                assert np.array_equal(kept, value) if isinstance(value, np.ndarray) else kept == value
                assert key in cache
            assert cache.get("x") is None and cache.get("x", 5) == 5 and "x" not in cache
            assert cache.num_keys() == 4
            assert isinstance(cache.get("7"), np.ndarray)  # a number is its digits
            cache.clear()
            assert cache.num_keys() == 0

    def test_many_at_once(self, url):
        cache = sab.Cache(url, dataset_name="d")
        cache.put_many({n: n * n for n in range(100)})
        assert cache.get_many(range(98, 102)) == [98 * 98, 99 * 99, None, None]
        assert cache.get_many([], default=3) == [] and cache.get_many(["x"], default=3) == [3]
        cache.put_many({})
        stats = cache.stats()
        assert (stats.hits, stats.misses, stats.failures) == (2, 3, 0)

    def test_names_are_apart(self, file):
        one, other, nameless = sab.Cache(file, dataset_name="one"), sab.Cache(file, dataset_name="other"), sab.Cache(file)
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

    def test_capacity(self, url):
        cache = sab.Cache(url, capacity=200_000, serializer="bytes")
        for n in range(100):
            cache.put(n, bytes(10_000))
        assert 5 <= cache.num_keys() <= 20 and cache.stats().evictions == 100 - cache.num_keys()

    def test_closed(self, url):
        cache = sab.Cache(url)
        cache.close()
        cache.close()
        for call in (lambda: cache.get("a"), lambda: cache.put("a", 1), cache.flush, cache.stats, lambda: cache.url):
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
            "module": torch.nn.Linear(2, 3),
            "sparse": torch.eye(3).to_sparse(),
        }
        cache.put("a", value)
        kept = cache.get("a")
        assert not kept["array"].flags.writeable and not kept["array"].flags.owndata and kept["array"].flags.aligned
        with pytest.raises(ValueError):
            kept["array"][0] = 1
        assert np.array_equal(kept["array"], value["array"]) and kept["empty"].shape == (0, 3)
        for name in ("tensor", "bfloat16", "complex"):
            assert kept[name].dtype == value[name].dtype and torch.equal(kept[name], value[name].resolve_conj())
        assert torch.equal(kept["module"].weight, value["module"].weight) and kept["module"].weight.requires_grad
        assert torch.equal(kept["sparse"].to_dense(), torch.eye(3))
        del cache
        assert kept["array"].sum() == value["array"].sum()

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
        threads = [threading.Thread(target=lambda: found.append(cache.get_or_load("a", load))) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert calls == ["a"] and found == ["made"] * 8

    def test_nested(self, url):
        cache = sab.Cache(url)
        assert cache.get_or_load("outer", lambda key: cache.get_or_load("inner", lambda key: 1) + 1) == 2
        assert cache.get_or_load("same", lambda key: cache.get_or_load("same", lambda key: 1) + 1) == 2

    @pytest.mark.parametrize("where", ["thread", "process"])
    def test_waiting_can_be_interrupted(self, file, where):
        cache = sab.Cache(file)
        context = multiprocessing.get_context("fork")
        has_begun, is_over = context.Event(), context.Event()

        def load(key):
            has_begun.set()
            return is_over.wait(60)

        other = (threading.Thread if where == "thread" else context.Process)(target=lambda: cache.get_or_load("slow", load))
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
        processes = [context.Process(target=load_slowly, args=(cache, str(tmp_path / f"log{n}"))) for n in range(3)]
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
        dataset = sab.CachedDataset(Squares(tmp_path / "log"), file, dataset_name="squares", writer_buffer_size=7)
        for _ in range(3):
            assert [int(dataset[n][0]) for n in range(len(dataset))] == [n * n for n in range(40)]
        assert (tmp_path / "log").stat().st_size == 40
        assert dataset.cache.num_keys() == 40

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_workers_of_a_data_loader(self, tmp_path, file, method):
        data = pytest.importorskip("torch.utils.data")
        dataset = sab.CachedDataset(Squares(tmp_path / "log"), file, dataset_name="squares", writer_buffer_size=5)
        for _ in range(2):
            loader = data.DataLoader(dataset, batch_size=8, num_workers=2, multiprocessing_context=method)
            assert sorted(int(row[0]) for batch in loader for row in batch) == sorted(n * n for n in range(40))
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
        assert pickle.loads(pickle.dumps(sab.Cache("memory:"))).num_keys() == 0

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

    def test_a_child_has_the_buffer(self, file):
        cache = sab.Cache(file, writer_buffer_size=100, flush_interval=1e6)
        cache.put("a", 1)
        child = os.fork()
        if child == 0:
            is_right = cache.get("a") == 1
            cache.put("b", 2)
            cache.close()
            os._exit(0 if is_right else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert cache.get_many("ab") == [1, 2]


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
        ({"flush_interval": float("nan")}, "flush_interval = nan"),
        ({"cluster": True}, "is_cluster"),
        ({"dataset_name": "a\0b"}, "dataset_name"),
        ({"url": "redis://user:secret@host:port"}, r"redis://\.\.\.@host:port"),
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
