"""``bagua.torch_api.contrib.cache_loader``: values of an expensive function, made once."""

from __future__ import annotations

from typing import Any, Callable

import sab
from sab.compat.bagua.contrib.utils.redis_store import RedisStore

__all__ = ["CacheLoader"]


class CacheLoader:
    """Values kept under ``"{dataset_name}_{key}"`` on Redis servers: :class:`sab.Cache` by Bagua's
    parameters.

    Args:
        backend: ``"redis"``.
        dataset_name: loaders of the same name reuse and overwrite each other's values.
        writer_buffer_size: values to collect before they are written.
        kwargs: of :class:`~sab.compat.bagua.contrib.utils.redis_store.RedisStore`: ``hosts``,
            ``cluster_mode``, ``capacity_per_node``.

    Values are pickled, as in Bagua: whoever can write to the servers can run code in every process
    that reads from them.

    Raises:
        ValueError: another backend.
    """

    def __init__(
        self,
        backend: str = "redis",
        dataset_name: str = "",
        writer_buffer_size: int = 1,
        **kwargs: Any,
    ) -> None:
        if backend != "redis":
            raise ValueError('Invalid backend, only support "redis" currently')
        self.backend = backend
        self.dataset_name = dataset_name
        self.store: RedisStore = RedisStore(**kwargs)
        self._cache: sab.Cache[Any] = sab.Cache(
            self.store.cache.url,
            dataset_name=dataset_name,
            writer_buffer_size=max(1, writer_buffer_size),
            serializer="pickle",
        )

    def get(self, key: Any, load_fn: Callable[[Any], Any]) -> Any:
        """The value of a key; made by ``load_fn(key)`` where there is none."""
        return self._cache.get_or_load(
            key.decode(errors="surrogateescape") if isinstance(key, bytes) else str(key),
            lambda _: load_fn(key),
        )

    def num_keys(self) -> int:
        """Number of keys on the servers."""
        self._cache.flush()
        return self.store.num_keys()
