"""``bagua.torch_api.contrib.utils.redis_store``: values on Redis servers, given or started on the
training nodes.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

import sab

__all__ = ["RedisStore"]

_started: list[str] = []  # URLs of the servers of all nodes
_own: list[sab.Cache[bytes]] = []  # keeps this process's server


class RedisStore:
    """Values under string keys, dealt out over Redis servers by the xxHash of the key.

    Args:
        hosts: servers, such as ``[{"host": "192.168.1.0", "port": "7000"}]``; also with
            ``"username"`` and ``"password"``. None: a server is started on each node, by its local
            rank 0, and ends with it; processes of one job share them (through torch.distributed's
            store).
        cluster_mode: use all servers. Otherwise node ``n`` of servers ``m`` uses the ``n % m``-th.
        capacity_per_node: bytes that a server that is started may take; values are evicted at
            random beyond.

    Servers that cannot be reached never stop a training: what is asked of them is not there.
    """

    def __init__(
        self,
        hosts: list[dict[str, str]] | None = None,
        cluster_mode: bool = True,
        capacity_per_node: int = 107_374_182_400,
    ) -> None:
        if hosts is not None and len(hosts) == 0:
            raise AssertionError("RedisStore hosts should not be empty.")
        urls = (
            _servers_of_job(capacity_per_node) if hosts is None else [_url(host) for host in hosts]
        )
        if not cluster_mode:
            urls = [urls[_node_rank() % len(urls)]]
        self.cache: sab.Cache[bytes] = sab.Cache(
            "redis://" + ",".join(url[len("redis://") :] for url in urls), serializer="bytes"
        )

    def set(self, key: str, value: str | bytes) -> None:
        """Sets a key-value pair."""
        self.cache.put(key, _bytes(value))

    def get(self, key: str) -> bytes | None:
        """The value of a key, or None."""
        return self.cache.get(key)

    def num_keys(self) -> int:
        """Number of keys on the servers."""
        return self.cache.key_count()

    def clear(self) -> None:
        """Deletes all keys on the servers."""
        self.cache.clear()

    def mset(self, dictionary: dict[str, str | bytes]) -> None:
        """Sets many entries at once."""
        self.cache.put_many({key: _bytes(value) for key, value in dictionary.items()})

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """The values of many keys, None where there is none."""
        return self.cache.get_many(keys)

    def status(self) -> bool:
        """Whether all servers answer."""
        try:
            sab.Cache(self.cache.url, on_failure="error").close()
        except OSError:
            return False
        return True

    def shutdown(self) -> None:
        """Lets go of the servers; those that this process started end with it."""
        self.cache.close()


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _url(host: dict[str, str]) -> str:
    from urllib.parse import quote

    name = f"[{host['host']}]" if ":" in host["host"] else host["host"]
    who = (
        f"{quote(host.get('username', ''), safe='')}:{quote(host.get('password', ''), safe='')}@"
        if host.get("username") or host.get("password")
        else ""
    )
    return f"redis://{who}{name}:{host['port']}"


def _node_rank() -> int:
    return int(os.environ.get("GROUP_RANK", os.environ.get("NODE_RANK", "0")))


def _servers_of_job(capacity: int) -> list[str]:
    """The servers of all nodes: this node's local rank 0 starts its own, and all tell each
    other.
    """
    if _started:
        return _started
    world_size, local_rank = (
        int(os.environ.get("WORLD_SIZE", "1")),
        int(os.environ.get("LOCAL_RANK", "0")),
    )
    nodes = max(1, world_size // int(os.environ.get("LOCAL_WORLD_SIZE", str(world_size))))
    if local_rank == 0:
        address = "" if nodes == 1 else "@" + socket.gethostbyname(socket.gethostname())
        _own.append(
            sab.Cache(
                "redis-server:" + address, capacity=capacity, serializer="bytes", timeout=10.0
            )
        )
    if world_size == 1:
        _started.append(_own[0].url)
        return _started
    from torch.distributed import distributed_c10d

    c10d: Any = distributed_c10d
    store = c10d._get_default_store()
    if local_rank == 0:
        store.set(f"sab-redis-node{_node_rank()}", _own[0].url)
    _started.extend(store.get(f"sab-redis-node{node}").decode() for node in range(nodes))
    return _started
