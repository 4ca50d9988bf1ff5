"""Values that are made once and kept, in files or on Redis servers."""

from __future__ import annotations

import os
import pickle
from multiprocessing import util
from typing import Any, Callable, Generic, Iterable, Mapping, NamedTuple, Optional, TypeVar, Union

from sab._native import Calls, check, ffi, flag, keep_exception, lib, new_options, path_bytes, real, whole
from sab._plan import one_of

Key = Union[str, bytes, int]
Value = TypeVar("Value")

_FAILURES = {"degrade": lib.SAB_CACHE_DEGRADE, "error": lib.SAB_CACHE_ERROR}
_ALIGNMENT = 16


class CacheStats(NamedTuple):
    """What a cache has done since it was opened, in this process."""

    hits: int
    misses: int
    loads: int
    waits: int
    evictions: int
    damaged: int
    failures: int
    dropped: int
    bytes_read: int
    bytes_written: int
    buffered: int


def _dump_views(value: Any) -> bytes:
    """A pickle, and behind it the arrays that it leaves out, each where it can be read in place."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = _Pickler.dumped(value, buffers.append)
    views = [buffer.raw() for buffer in buffers]
    head = b"".join(number.to_bytes(8, "little") for number in (len(views), len(pickled), *(view.nbytes for view in views)))
    parts: list[Any] = [head, pickled]
    place = len(head) + len(pickled)
    for view in views:
        parts += [bytes(-place % _ALIGNMENT), view]
        place += -place % _ALIGNMENT + view.nbytes
    return b"".join(parts)


def _load_views(data: memoryview) -> Any:
    if int(ffi.cast("uintptr_t", ffi.from_buffer(data))) % _ALIGNMENT:  # as small values of LMDB's
        data = memoryview(bytes(data))

    def number(index: int) -> int:
        return int.from_bytes(data[8 * index : 8 * index + 8], "little")

    count = number(0)
    place = 8 * (count + 2) + number(1)
    pickled, views = data[8 * (count + 2) : place], []
    for size in map(number, range(2, count + 2)):
        place += -place % _ALIGNMENT
        views.append(data[place : place + size])
        place += size
    return pickle.loads(pickled, buffers=views)


def _tensor_of(array: Any, dtype: str) -> Any:
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch cannot say of a tensor that it is not to be written
        tensor = torch.from_numpy(array)
    return tensor.view(getattr(torch, dtype)) if dtype else tensor


class _Pickler(pickle.Pickler):
    """Leaves the memory of torch's CPU tensors out, as pickle does with numpy's arrays."""

    @classmethod
    def dumped(cls, value: Any, buffer_callback: Any) -> bytes:
        import io

        out = io.BytesIO()
        cls(out, protocol=5, buffer_callback=buffer_callback).dump(value)
        return out.getvalue()

    def reducer_override(self, value: Any) -> Any:
        import sys

        torch = sys.modules.get("torch")
        if torch is None or type(value) is not torch.Tensor or value.device.type != "cpu" or value.layout != torch.strided or value.requires_grad:
            return NotImplemented
        plain = value.resolve_conj().resolve_neg().contiguous()
        if value.dtype == torch.bfloat16:  # numpy has none
            return _tensor_of, (plain.view(torch.int16).numpy(), "bfloat16")
        try:
            return _tensor_of, (plain.numpy(), "")
        except TypeError:
            return NotImplemented


def _dump_raw(value: Any) -> bytes:
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise TypeError(f"value has type {type(value).__name__}: must be bytes or have a buffer of them") from None


# How values become bytes, and again values: of a view that lives as long as what is made of it.
_SERIALIZERS: dict[str, tuple[Callable[[Any], Any], Callable[[memoryview], Any]]] = {
    "pickle": (lambda value: pickle.dumps(value, protocol=5), pickle.loads),
    "bytes": (_dump_raw, bytes),
    "view": (_dump_raw, lambda data: data),
    "arrays": (_dump_views, _load_views),
}


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_load(ctx: Any, key: Any, key_size: int, data: Any, size: Any) -> int:
    calls = ffi.from_handle(ctx)
    made = calls.load()
    calls.made = ffi.from_buffer(made)  # until the call that loads is over
    data[0], size[0] = calls.made, len(calls.made)
    return 0


class Cache(Generic[Value]):
    """Values that are expensive to make, made once and kept. Any number of threads and processes may use it at once; picklable.

    What is damaged, evicted or out of reach is a miss, and made again: a cache never gives a wrong value, and a server that is down never stops a training.

    Args:
        url: ``"lmdb:PATH"``, a file for all processes of a machine; ``"redis://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...][/DB]"``; ``"redis-server:[PROGRAM][@ADDRESS]"``, which starts a
            Redis server, on the loopback interface by default, that ends with this process; ``"memory:"``, this process only.
        dataset_name: values are kept under ``"{dataset_name}_{key}"``; caches of one name share them. None: under the key as it is.
        writer_buffer_size: values to collect before they are written together. They are also written by :meth:`flush`, :meth:`close`, any call after ``flush_interval`` seconds,
            before a fork, and when a process of multiprocessing ends.
        capacity: bytes to keep; more are evicted at random. None: no bound. Not for Redis servers that are there already.
        on_failure: ``"degrade"``: what is out of reach is a miss; ``"error"``: an OSError.
        timeout: seconds to wait for a Redis server.
        load_wait: seconds to wait at most while somebody else makes a value, before making it, too.
        cluster: the servers are a Redis Cluster.
        serializer: ``"pickle"`` (protocol 5); ``"bytes"``; ``"view"``, bytes as a read-only memoryview without a copy; ``"arrays"``, pickle with numpy arrays and torch tensors read in place,
            from LMDB without a copy; or a pair of functions, from value to bytes and from a memoryview to value. Arrays read in place are read-only. Torch knows no such tensors: writing to
            one ends the process; clone it first.

    Raises:
        ValueError: an argument breaks a rule. OSError: the file cannot be opened.

    >>> import sab
    >>> with sab.Cache("memory:") as cache:
    ...     cache.get_or_load("answer", lambda key: 6 * 7), cache.get("answer"), cache.get("question")
    (42, 42, None)
    """

    def __init__(
        self,
        url: "str | os.PathLike[str]",
        *,
        dataset_name: Optional[str] = None,
        writer_buffer_size: int = 1,
        flush_interval: float = 1.0,
        capacity: Optional[int] = None,
        on_failure: str = "degrade",
        timeout: float = 1.0,
        load_wait: float = 60.0,
        cluster: bool = False,
        serializer: "str | tuple[Callable[[Any], Any], Callable[[memoryview], Any]]" = "pickle",
    ) -> None:
        if isinstance(serializer, str):
            if serializer not in _SERIALIZERS:
                raise ValueError(f"serializer = {serializer!r}: must be a pair of functions or one of {', '.join(map(repr, _SERIALIZERS))}")
            self._dump, self._load = _SERIALIZERS[serializer]
        else:
            self._dump, self._load = serializer
        self._is_copying = self._load in (pickle.loads, bytes)  # nothing that these give is in what they read
        if capacity is not None:
            capacity = whole("capacity", capacity, 1)
        options = new_options("sab_cache_options")
        if dataset_name is not None:
            keep = ffi.new("char[]", _text("dataset_name", dataset_name))
            options.dataset_name = keep
        options.writer_buffer_size = whole("writer_buffer_size", writer_buffer_size, 1)
        options.flush_interval = real("flush_interval", flush_interval)
        options.capacity = capacity or 0
        options.on_failure = one_of("on_failure", on_failure, _FAILURES)
        options.is_cluster = flag("cluster", cluster)
        options.timeout = real("timeout", timeout)
        options.load_wait = real("load_wait", load_wait)
        handle = ffi.new("sab_cache **")
        check(lib.sab_cache_open(_text("url", os.fspath(url)), options, handle))
        self._handle = ffi.gc(handle[0], lib.sab_cache_free)
        self._flush_at_exit()
        util.register_after_fork(self, Cache._flush_at_exit)
        self._arguments = {
            "dataset_name": dataset_name,
            "writer_buffer_size": writer_buffer_size,
            "flush_interval": flush_interval,
            "capacity": None if str(url).startswith("redis-server:") else capacity,
            "on_failure": on_failure,
            "timeout": timeout,
            "load_wait": load_wait,
            "cluster": cluster,
            "serializer": serializer,
        }

    def _flush_at_exit(self) -> None:
        # Workers of multiprocessing, such as those of a DataLoader, end without freeing anything.
        self._at_exit = util.Finalize(self, _flush_quietly, args=(self._handle,), exitpriority=10)

    @property
    def url(self) -> str:
        """Where the cache is, with passwords; for ``"redis-server:"`` that of the server which was started."""
        return str(ffi.string(lib.sab_cache_url(self._open())).decode(errors="surrogateescape"))

    def get(self, key: Key, default: Any = None) -> Union[Value, Any]:
        """The value of a key, or ``default``."""
        data = _bytes_of(key)
        value = ffi.new("sab_cache_value **")
        check(lib.sab_cache_get(self._open(), data, len(data), value))
        return self._taken(value, 0) if value[0] else default

    def put(self, key: Key, value: Value) -> None:
        """Keeps a value, over one that is there."""
        name, data = _bytes_of(key), ffi.from_buffer(self._dump(value))
        check(lib.sab_cache_put(self._open(), name, len(name), data, len(data)))

    def get_or_load(self, key: Key, load: Callable[[Any], Value]) -> Value:
        """The value of a key, made by ``load(key)`` where there is none.

        While one makes it, others who ask for the same key wait for it, ``load_wait`` seconds at most: threads, and processes that share the file or the servers. What ``load`` raises comes through.
        """
        data = _bytes_of(key)
        fresh: list[Value] = []

        def made() -> Any:
            fresh.append(load(key))
            return self._dump(fresh[0])

        calls = Calls(load=made)
        value = ffi.new("sab_cache_value **")
        check(lib.sab_cache_get_or_load(self._open(), data, len(data), lib.sab_py_load, calls.handle, lib.sab_py_progress, calls.handle, value), calls)
        if not fresh:
            found: Value = self._taken(value, 0)
            return found
        lib.sab_cache_value_free(value[0])
        return fresh[0]

    def get_many(self, keys: Iterable[Key], default: Any = None) -> "list[Union[Value, Any]]":
        """The values of many keys, by one request to each server or one transaction."""
        names = [_bytes_of(key) for key in keys]
        items, keep = _items(names)
        values = ffi.new("sab_cache_value *[]", len(names))
        check(lib.sab_cache_get_many(self._open(), items, len(names), values))
        del keep
        try:
            return [self._taken(values, i) if value else default for i, value in enumerate(values)]
        finally:
            for value in values:  # those that were not come to
                lib.sab_cache_value_free(value)

    def put_many(self, values: Mapping[Any, Value]) -> None:
        """Keeps many values, past the buffer."""
        names = [_bytes_of(key) for key in values]
        items, keep = _items(names, [self._dump(value) for value in values.values()])
        check(lib.sab_cache_put_many(self._open(), items, len(names)))
        del keep

    def flush(self) -> None:
        """Writes what is in the buffer."""
        check(lib.sab_cache_flush(self._open()))

    def num_keys(self) -> int:
        """Number of keys of the dataset name; on Redis by walking through all keys of the servers."""
        keys = ffi.new("uint64_t *")
        check(lib.sab_cache_num_keys(self._open(), keys))
        return int(keys[0])

    def clear(self) -> None:
        """Removes all keys of the dataset name, for everybody."""
        check(lib.sab_cache_clear(self._open()))

    def stats(self) -> CacheStats:
        """What the cache has done in this process."""
        stats = ffi.new("sab_cache_stats *")
        stats.struct_size = ffi.sizeof("sab_cache_stats")
        check(lib.sab_cache_get_stats(self._open(), stats))
        return CacheStats(*(int(getattr(stats, field)) for field in CacheStats._fields))

    def close(self) -> None:
        """Writes what is in the buffer and lets go of files and connections; values stay valid. Again: nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._at_exit.cancel()  # with what it holds: the handle goes with the last call that another thread has under way

    def _taken(self, values: Any, place: int) -> Any:
        """What a value of C's stands for; it is freed when nothing of it is used any more."""
        value, values[place] = values[place], ffi.NULL
        if not self._is_copying:
            return self._load(_view(value))
        size = ffi.new("size_t *")
        try:
            return self._load(ffi.buffer(lib.sab_cache_value_data(value, size), size[0]))
        finally:
            lib.sab_cache_value_free(value)

    def _open(self) -> Any:
        if self._handle is None:
            raise ValueError("the cache is closed")
        return self._handle

    def __enter__(self) -> "Cache[Value]":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __contains__(self, key: Key) -> bool:
        data = _bytes_of(key)
        value = ffi.new("sab_cache_value **")
        check(lib.sab_cache_get(self._open(), data, len(data), value))
        lib.sab_cache_value_free(value[0])
        return bool(value[0] != ffi.NULL)

    def __reduce__(self) -> Any:
        self.flush()
        return _reopened, (self.url, self._arguments)

    def __repr__(self) -> str:
        if self._handle is None:
            return "<sab.Cache: closed>"
        url = self.url
        if url.startswith("redis://") and "@" in url:
            url = "redis://..." + url[url.rindex("@") :]
        return f"<sab.Cache: {url}, dataset {self._arguments['dataset_name']!r}>"


class CachedDataset(Generic[Value]):
    """A dataset whose samples are made once: a wrapper for any that has ``len()`` and indices; for torch's DataLoader, its workers included.

    Args:
        dataset: the dataset; asked for samples that are not in the cache.
        cache: a :class:`Cache`, or the URL of one.
        arguments: of :class:`Cache`, where ``cache`` is a URL.

    >>> import sab
    >>> squares = sab.CachedDataset([n * n for n in range(5)], "memory:")
    >>> squares[3], squares[3], squares.cache.stats().loads
    (9, 9, 1)
    """

    def __init__(self, dataset: Any, cache: "Cache[Value] | str", **arguments: Any) -> None:
        if isinstance(cache, Cache) and arguments:
            raise TypeError(f"{', '.join(arguments)}: are for a URL, but cache is a Cache")
        self.dataset = dataset
        self.cache: Cache[Value] = cache if isinstance(cache, Cache) else Cache(cache, **arguments)

    def __getitem__(self, index: Any) -> Value:
        return self.cache.get_or_load(index, self.dataset.__getitem__)

    def __len__(self) -> int:
        return len(self.dataset)


def _reopened(url: str, arguments: "dict[str, Any]") -> "Cache[Any]":
    return Cache(url, **arguments)


def _flush_quietly(handle: Any) -> None:
    if handle is not None:
        lib.sab_cache_flush(handle)


def _view(value: Any) -> memoryview:
    """The bytes of a value, which is freed with the last view of them."""
    size = ffi.new("size_t *")
    data = lib.sab_cache_value_data(value, size)
    owned = ffi.gc(ffi.cast("char *", data), lambda _: lib.sab_cache_value_free(value))
    return memoryview(ffi.buffer(owned, size[0])).toreadonly()


def _items(names: "list[bytes]", values: "Optional[list[Any]]" = None) -> "tuple[Any, list[Any]]":
    items = ffi.new("sab_cache_item[]", len(names))
    keep: list[Any] = []
    for i, name in enumerate(names):
        keep.append(ffi.from_buffer(name))
        items[i].key, items[i].key_size = keep[-1], len(name)
        if values is not None:
            keep.append(ffi.from_buffer(values[i]))
            items[i].data, items[i].size = keep[-1], len(keep[-1])
    return items, keep


def _bytes_of(key: Any) -> bytes:
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode("utf-8", "surrogatepass")
    try:
        return b"%d" % key.__index__()
    except (AttributeError, TypeError):
        raise TypeError(f"key = {key!r}: must be str, bytes or a whole number") from None


def _text(name: str, text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{name} = {text!r}: must be a str")
    return path_bytes(text, name)
