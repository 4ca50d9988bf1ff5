"""Caches beside a bare copy, and beside redis-py with pickled values, as Bagua's CacheLoader keeps
them: cache.py C_PROGRAM [FOLDER].

Needs redis-server and redis-py for what they are compared with; without them those rows are left
out. redis-py is faster with the package hiredis, which reads the answers in C. All is the least of
several rounds, taken in turns.
"""

import json
import pathlib
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import numpy as np

import sab

try:
    import redis
except ImportError:
    redis = None

ROUNDS, BATCH = 5, 1000


def c(*words):
    out = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True).stdout
    return {row["figure"]: row["seconds"] for row in map(json.loads, out.splitlines())}


def least(best, rows):
    for figure, seconds in rows.items():
        best[figure] = min(seconds, best.get(figure, seconds))


def timed(work, count):
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) / count


def peer(port):
    """What redis-py takes for a value."""
    client = redis.Redis(port=port)
    small, large = b"x" * 100, bytes(range(250)) * 400
    keys = [f"peer_{i}" for i in range(BATCH)]
    client.set("peer_large", pickle.dumps(large))

    def mset():
        for _ in range(5):
            client.mset({key: pickle.dumps(small) for key in keys})

    def mget():
        for _ in range(5):
            assert all(pickle.loads(value) == small for value in client.mget(keys))

    def get():
        for _ in range(200):
            assert len(pickle.loads(client.get("peer_large"))) == len(large)

    def put():
        for key in keys[:500]:
            client.set(key, pickle.dumps(small))

    def pipeline():
        commands = client.pipeline(transaction=False)
        for key in keys:
            commands.set(key, pickle.dumps(small))
        commands.execute()

    return {
        **server_alone(port, keys),
        "redis-py pipeline": timed(pipeline, BATCH),
        "redis-py mset": timed(mset, 5 * BATCH),
        "redis-py mget": timed(mget, 5 * BATCH),
        "redis-py get, 100 KB": timed(get, 200),
        "redis-py set": timed(put, 500),
    }


def answered(connection, data, answers):
    """Seconds until the server has sent so many bytes."""
    begin = time.perf_counter()
    connection.sendall(data)
    while answers > 0:
        answers -= len(connection.recv(1 << 16))
    return time.perf_counter() - begin


def server_alone(port, keys):
    """What the server takes for a value: commands made before, written to a socket at once."""

    def command(*words):
        parts = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        return b"*%d\r\n" % len(words) + parts

    pairs = [(key.encode(), b"x" * 116) for key in keys]
    several = [pairs[at : at + 128] for at in range(0, BATCH, 128)]
    sets = [command(b"SET", *pair) for pair in pairs]
    msets = [command(b"MSET", *(word for pair in part for word in pair)) for part in several]
    mgets = [command(b"MGET", *(key for key, _ in pairs))]
    ok, value = len(b"+OK\r\n"), len(b"$116\r\n\r\n") + 116
    best = {}
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for name, commands, answers in (
            ("server alone, SET", sets, len(sets) * ok),
            ("server alone, MSET", msets, len(msets) * ok),
            ("server alone, MGET", mgets, len(b"*1000\r\n") + BATCH * value),
        ):
            data = b"".join(commands)
            best[name] = min(answered(connection, data, answers) for _ in range(5)) / BATCH
    return best


def epochs(url):
    """Seconds a sample of two epochs over samples of 5 ms of work."""

    class Slow:
        def __getitem__(self, index):
            end = time.perf_counter() + 0.005
            while time.perf_counter() < end:
                pass
            return np.full(25_000, index, np.float32)

        def __len__(self):
            return 200

    dataset = sab.CachedDataset(
        Slow(), url, dataset_name="bench", writer_buffer_size=20, serializer="arrays"
    )
    dataset.cache.clear()
    return [
        timed(lambda: [dataset[index] for index in range(len(dataset))], len(dataset))
        for _ in range(2)
    ]


def started(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"--port {port} --bind 127.0.0.1 --appendonly no --dir {folder} --save"
    server = subprocess.Popen(["redis-server", *options.split(), ""], stdout=subprocess.DEVNULL)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server, port
        except OSError:
            time.sleep(0.01)


def main(program, folder):
    best, server = {}, None
    if shutil.which("redis-server"):
        server, port = started(folder)
    try:
        for _ in range(ROUNDS):
            least(best, c(program, "lmdb", folder))
            if server:
                least(best, c(program, "redis", f"redis://127.0.0.1:{port}"))
                if redis:
                    least(best, peer(port))
            for name, url in [("lmdb", f"lmdb:{folder}/bench.mdb")] + (
                [("Redis", f"redis://127.0.0.1:{port}")] if server else []
            ):
                first, second = epochs(url)
                least(
                    best,
                    {
                        f"second epoch, samples of 5 ms and 100 KB, {name}": second,
                        f"first epoch, {name}": first,
                    },
                )
            for path in pathlib.Path(folder).glob("bench.mdb*"):
                path.unlink()
    finally:
        if server:
            server.kill()
            server.wait()
    peers = f", redis-py {redis.__version__}" if redis else ""
    print(f"| caches{peers} | µs a value | beside | µs | ratio | aim |")
    print("|---|---:|---|---:|---:|---:|")
    rows = [
        ("lmdb get and copy, 100 KB", "memcpy, 100 KB", 1, "≤ 2"),
        ("lmdb get, 100 KB", "redis-py get, 100 KB", -1, "≥ 5"),
        ("lmdb get, 100 B", None, 1, "≤ 2 µs"),
        ("put_many, 1000 x 100 B", "redis-py set", -1, "≥ 5"),
        ("put_many, 1000 x 100 B", "redis-py pipeline", -1, "≥ 5"),
        ("put_many, 1000 x 100 B", "redis-py mset", -1, ""),
        ("put_many, 1000 x 100 B", "server alone, SET", 1, ""),
        ("put_many, 1000 x 100 B", "server alone, MSET", 1, ""),
        ("get_many, 1000 x 100 B", "redis-py mget", -1, "≥ 5"),
        ("get_many, 1000 x 100 B", "server alone, MGET", 1, ""),
        ("get, 100 KB", "redis-py get, 100 KB", -1, ""),
        ("get, 100 B", None, 1, ""),
        ("second epoch, samples of 5 ms and 100 KB, lmdb", "first epoch, lmdb", -1, "≥ 50"),
        ("second epoch, samples of 5 ms and 100 KB, Redis", "first epoch, Redis", -1, "≥ 50"),
        ("put, buffer of 1", "redis-py set", -1, ""),
        ("put, buffer of 20", "redis-py set", -1, ""),
        ("put, buffer of 1000", "redis-py set", -1, ""),
    ]
    for figure, beside, sign, aim in rows:
        if figure not in best:
            continue
        other = best.get(beside)
        ratio = "" if other is None else f"{(best[figure] / other) ** sign:.3g}"
        print(
            "|",
            figure,
            "|",
            f"{best[figure] * 1e6:.3g}",
            "|",
            (beside or "") if other else "",
            "|",
            f"{other * 1e6:.3g}" if other else "",
            "|",
            ratio,
            "|",
            aim,
            "|",
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as own:
        main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else own)
