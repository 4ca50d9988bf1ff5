"""Values made once, on real Redis servers; and Bagua's names."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import sab

pytestmark = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="there is no redis-server"
)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, *options, port=None):
        self.port = port or free_port()
        self.options = options
        self.start()

    def start(self):
        command = f"redis-server --port {self.port} --bind 127.0.0.1 --appendonly no --save".split()
        command += ["", *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd="/tmp")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("redis-server does not answer")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"


@pytest.fixture
def servers():
    started = [Server() for _ in range(3)]
    yield started
    [server.kill() for server in started]


def test_values_are_kept_and_shared(servers):
    url = "redis://" + ",".join(server.host for server in servers)
    one, two = sab.Cache(url, dataset_name="one"), sab.Cache(url, dataset_name="two")
    one.put_many({n: np.full(100, n) for n in range(200)})
    assert all(
        (value == n).all()
        for n, value in enumerate(sab.Cache(url, dataset_name="one").get_many(range(200)))
    )
    two.put("a", 1)
    assert (one.key_count(), two.key_count(), sab.Cache(url).key_count()) == (200, 1, 201)
    one.clear()
    assert (one.key_count(), two.key_count()) == (0, 1)
    assert two.get_or_load("b", lambda key: 2) == 2 and two.get("b") == 2


def test_a_trainer_goes_on_without_its_server(servers):
    cache = sab.Cache(f"redis://{servers[0].host}", timeout=0.5)
    cache.put("a", 1)
    servers[0].kill()
    made = [cache.get_or_load(n, lambda key: key * 2) for n in range(50)]
    assert made == [2 * n for n in range(50)] and cache.stats().failures > 0
    with pytest.raises(OSError, match=str(servers[0].port)):
        sab.Cache(f"redis://{servers[0].host}", on_failure="error", timeout=0.5).get("a")
    servers[0].start()
    deadline = time.monotonic() + 30
    while "b" not in cache and time.monotonic() < deadline:
        cache.put("b", 2)
        time.sleep(0.05)
    assert cache.get("b") == 2


def test_a_server_of_its_own():
    cache = sab.Cache("redis-server:", dataset_name="d", capacity=10_000_000)
    cache.put("a", 1)
    other = sab.Cache(cache.url, dataset_name="d")
    assert other.get("a") == 1 and cache.url.startswith("redis://") and "@" in cache.url
    assert cache.url.split("@")[0].split(":")[-1] not in repr(cache)
    cache.close()
    deadline = time.monotonic() + 20
    while "a" in other and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "a" not in other


class TestBagua:
    def test_loader(self, servers):
        from sab.compat.bagua.contrib import CacheLoader

        hosts = [{"host": "127.0.0.1", "port": str(server.port)} for server in servers]
        loader = CacheLoader(backend="redis", hosts=hosts, cluster_mode=True, dataset_name="test")
        calls = []
        for _ in range(2):
            assert [
                loader.get(index, lambda x: calls.append(x) or x * 2) for index in range(30)
            ] == [2 * n for n in range(30)]
        assert calls == list(range(30)) and loader.num_keys() == 30
        # Each key lies on the server that the xxHash of its name says.
        placed = subprocess.run(
            ["redis-cli", "-p", str(servers[1].port), "keys", "*"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert 0 < len(placed) < 30 and all(key.startswith("test_") for key in placed)
        one = CacheLoader(hosts=hosts, cluster_mode=False, dataset_name="one")
        one.get("k", lambda key: key)
        assert one.num_keys() == int(
            subprocess.run(
                ["redis-cli", "-p", str(servers[0].port), "dbsize"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        with pytest.raises(ValueError, match="Invalid backend"):
            CacheLoader(backend="memcached")
        with pytest.raises(AssertionError, match="should not be empty"):
            CacheLoader(hosts=[])

    def test_datasets_of_one_store(self):
        pytest.importorskip("torch")
        from sab.compat.bagua.contrib import CachedDataset

        data = [[(np.random.rand(5, 2), np.random.rand(1)) for _ in range(102)] for _ in range(2)]
        first = CachedDataset(
            data[0], backend="redis", dataset_name="d1", capacity_per_node=100_000_000
        )
        second = CachedDataset(data[1], backend="redis", dataset_name="d2")
        first.cache_loader.store.clear()
        for dataset, samples, keys in ((first, data[0], 102), (second, data[1], 204)):
            for _ in range(3):
                for (a, b), (c, d) in zip([dataset[n] for n in range(len(dataset))], samples):
                    assert (a == c).all() and (b == d).all()
            assert dataset.cache_loader.num_keys() == keys

    def test_store(self, servers):
        from sab.compat.bagua.contrib.utils.redis_store import RedisStore

        store = RedisStore(hosts=[{"host": "127.0.0.1", "port": server.port} for server in servers])
        store.clear()
        store.set("1", b"one")
        store.mset({"2": "two", "3": b"three", "4": b"four"})
        assert store.mget(["1", "2", "5"]) == [b"one", b"two", None]
        assert (
            store.get("4") == b"four"
            and store.get("6") is None
            and store.num_keys() == 4
            and store.status()
        )
        servers[2].kill()
        assert not store.status()
        store.shutdown()

    def test_ranks_of_a_job_share_their_node_s_server(self, tmp_path):
        pytest.importorskip("torch")
        script = tmp_path / "rank.py"
        script.write_text(
            textwrap.dedent(
                """
                import torch.distributed as dist
                from sab.compat.bagua.contrib import CacheLoader

                dist.init_process_group("gloo")
                loader = CacheLoader(dataset_name="job", capacity_per_node=10_000_000)
                rank = dist.get_rank()
                loader.get(rank, lambda key: key * 10)
                dist.barrier()
                assert loader.get(1 - rank, lambda key: "not shared") == (1 - rank) * 10
                assert loader.num_keys() == 2
                dist.barrier()
                """
            )
        )
        port = free_port()
        ranks = []
        for rank in range(2):
            environment = {
                "RANK": rank,
                "LOCAL_RANK": rank,
                "WORLD_SIZE": 2,
                "LOCAL_WORLD_SIZE": 2,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
            }
            ranks.append(
                subprocess.Popen(
                    [sys.executable, str(script)],
                    env={**os.environ, **{name: str(value) for name, value in environment.items()}},
                )
            )
        assert [rank.wait(120) for rank in ranks] == [0, 0]
