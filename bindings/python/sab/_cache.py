"""Values that are made once and kept, in files or on Redis servers."""

from __future__ import annotations

import ipaddress
import json
import math
import os
import pickle
import sys
import warnings
from collections.abc import Iterable, Mapping
from multiprocessing import util
from typing import (
    Any,
    Callable,
    Generic,
    NamedTuple,
    TypeVar,
    Union,
    cast,
)

import numpy as np

from sab._arguments import brief, one_of, real, whole
from sab._display import one_line
from sab._native import (
    Calls,
    CData,
    check,
    ffi,
    keep_exception,
    lib,
    new_struct,
    path_bytes,
    record_of,
)

__all__ = ["Cache", "CacheStats", "CachedDataset"]

Key = Union[str, bytes, int]
Value = TypeVar("Value")

_FAILURES = {"degrade": lib.SAB_CACHE_DEGRADE, "error": lib.SAB_CACHE_ERROR}
_ALIGNMENT = 16
_SMALL = 1 << 12  # bytes of a value that is copied beside others


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


def _plan_of(value: Any, arrays: list[Any]) -> Any:
    """A value as JSON: scalars as they are, anything else as ``[kind, ...]``; the arrays and bytes
    in it are put into ``arrays``.
    """
    kind = cast(Any, type(value))
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (list, tuple):
        return [kind.__name__, *(_plan_of(each, arrays) for each in value)]
    if kind is dict:
        if not all(key is None or type(key) in (bool, int, float, str) for key in value):
            raise TypeError(
                'a key of a dict: serializer = "arrays" takes str, int, float, bool and None'
            )
        return ["dict", *([key, _plan_of(each, arrays)] for key, each in value.items())]
    if kind in (bytes, bytearray, memoryview):
        arrays.append(memoryview(value).cast("B") if kind is memoryview else value)
        return ["bytes", len(arrays[-1])]
    tensor = _array_of_tensor(value)
    array = value if tensor is None else tensor[0]
    if not (isinstance(array, np.generic) or type(array) in (np.ndarray, np.memmap)):
        raise TypeError(_NO_ARRAY.format(what=f"type {kind.__module__}.{kind.__qualname__}"))
    if array.dtype.hasobject or np.dtype(array.dtype.str) != array.dtype:
        raise TypeError(_NO_ARRAY.format(what=f"dtype {array.dtype}"))
    arrays.append(
        np.asarray(array, order="C").reshape(-1).view(np.uint8).data
        if array.size and array.dtype.itemsize
        else b""
    )
    form = "scalar" if isinstance(array, np.generic) else "array" if tensor is None else tensor[1]
    return [form, array.dtype.str, list(array.shape)]


_NO_ARRAY = (
    'value has {what}: serializer = "arrays" takes numpy arrays, CPU tensors that need no '
    "gradient, numbers, str, bytes and None, in lists, tuples and dicts. "
    'Use serializer = "pickle" for other objects, if you trust everyone who can write to the cache'
)


def _array_of_tensor(value: Any) -> tuple[Any, str] | None:
    """The array that has a tensor's elements, and its kind; None for what is no tensor."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    if (
        type(value) is not torch.Tensor
        or value.device.type != "cpu"
        or value.layout != torch.strided
        or value.requires_grad
    ):
        raise TypeError(
            _NO_ARRAY.format(
                what=(
                    f"type {type(value).__name__} on {value.device}, {value.layout}, "
                    f"requires_grad = {value.requires_grad}"
                )
            )
        )
    plain = value.resolve_conj().resolve_neg().contiguous()
    if value.dtype == torch.bfloat16:  # numpy has none
        return plain.view(torch.int16).numpy(), "bfloat16"
    return plain.numpy(), "tensor"


def _dump_arrays(value: Any) -> bytes:
    """u64 length of the plan, the plan (JSON), and the arrays, each at a multiple of 16."""
    arrays: list[Any] = []
    plan = json.dumps(_plan_of(value, arrays), separators=(",", ":")).encode()
    parts: list[Any] = [len(plan).to_bytes(8, "little"), plan]
    place = 8 + len(plan)
    for array in arrays:
        parts += [bytes(-place % _ALIGNMENT), array]
        place += -place % _ALIGNMENT + len(array)
    return b"".join(parts)


class _Arrays:
    """Reads a plan of ``_dump_arrays``. The bytes may come from anyone who can write to the cache:
    every kind, type and size is checked, and nothing in them is called.
    """

    def __init__(self, data: memoryview) -> None:
        if (
            int(ffi.cast("uintptr_t", ffi.from_buffer(data))) % _ALIGNMENT
        ):  # as small values of LMDB's
            data = memoryview(bytes(data))
        self._data = data
        self._place = 8 + int.from_bytes(data[:8], "little")

    def read(self) -> Any:
        try:
            return self._value(json.loads(bytes(self._data[8 : self._place])))
        except (
            ValueError,
            TypeError,
            LookupError,
            OverflowError,
            RuntimeError,
        ) as error:  # RuntimeError: torch's, and RecursionError
            raise ValueError(f'not a value of serializer = "arrays": {error}') from None

    def _value(self, plan: Any) -> Any:
        form = cast(Any, type(plan))
        if form is dict:
            raise ValueError("a JSON object")
        if form is not list:
            return plan
        kind, *rest = plan
        if kind in ("list", "tuple"):
            return (list if kind == "list" else tuple)(map(self._value, rest))
        if kind == "dict":
            return {key: self._value(each) for key, each in rest}
        if kind == "bytes":
            (size,) = rest
            return bytes(self._next(size))
        dtype, shape = rest
        return self._array(kind, dtype, shape)

    def _next(self, size: int) -> memoryview:
        begin = self._place + -self._place % _ALIGNMENT
        if size < 0 or begin + size > len(self._data):
            raise ValueError("it ends early")
        self._place = begin + size
        return self._data[begin : begin + size]

    def _array(self, kind: str, name: str, shape: list[int]) -> Any:
        dtype = np.dtype(str(name))
        if (
            dtype.hasobject or dtype.fields or dtype.subdtype or min(shape, default=0) < 0
        ):  # bytes would become pointers
            raise ValueError(f"an array of dtype {name} and shape {shape}")
        array = cast(
            Any, np.ndarray(shape, dtype, buffer=self._next(math.prod(shape) * dtype.itemsize))
        )
        if kind == "array":
            return array
        if kind == "scalar":
            return array[()]
        if kind in ("tensor", "bfloat16"):
            return _tensor_of(array, kind == "bfloat16")
        raise ValueError(f"kind {kind}")


def _load_arrays(data: memoryview) -> Any:
    return _Arrays(data).read()


def _tensor_of(array: Any, is_bfloat16: bool) -> Any:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # torch cannot say of a tensor that it is not to be written
        tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if is_bfloat16 else tensor


def _dump_raw(value: Any) -> bytes:
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise TypeError(
            f"value has type {type(value).__name__}: must be bytes or have a buffer of them"
        ) from None


# How values become bytes, and again values: of a view that lives as long as what is made of it.
_SERIALIZERS: dict[str, tuple[Callable[[Any], Any], Callable[[memoryview], Any]]] = {
    "pickle": (lambda value: pickle.dumps(value, protocol=5), pickle.loads),
    "bytes": (_dump_raw, bytes),
    "view": (_dump_raw, lambda data: data),
    "arrays": (_dump_arrays, _load_arrays),
}


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_load(ctx: CData, key: Any, key_size: int, data: Any, size: Any) -> int:
    calls = ffi.from_handle(ctx)
    made = calls.load()
    calls.made = ffi.from_buffer(made)  # until the call that loads is over
    data[0], size[0] = calls.made, len(calls.made)
    return 0


class Cache(Generic[Value]):
    """Values that are expensive to make, made once and kept. Any number of threads and processes
    may use it at once; picklable.

    What is damaged, evicted or out of reach is a miss, and made again; a server that is down never
    stops a training.

    Security: the default serializer is pickle, and **unpickling runs code**. Everyone who can write
    to the file or to a Redis server can run code in every process that reads from the cache. Use
    ``serializer="arrays"`` or ``"bytes"`` where you do not trust all of them: these run nothing.
    Files are created for their owner only. A Redis server on another machine with pickle gives a
    UserWarning, unless ``serializer="pickle"`` is given.

    Keys are str, bytes or whole numbers; ``1``, ``"1"`` and ``b"1"`` are three keys. A str is the
    same key in other languages as its UTF-8 bytes.

    Args:
        url: ``"lmdb:PATH"``: a file for all processes of a machine.
            ``"redis://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...][/DB]"``: Redis servers.
            ``"redis-server:[PROGRAM][@ADDRESS]"``: starts a Redis server that ends with this
            process, on the loopback interface by default. ``"memory:"``: this process only.
        dataset_name: values are kept under ``"{dataset_name}_{key}"``. Caches with the same name
            share their values. None: under the key itself.
        writer_buffer_size: values to collect before they are written together. They are also
            written by :meth:`flush`, :meth:`close`, any call after ``flush_interval`` seconds,
            before a fork, and when a process of multiprocessing ends.
        capacity: largest number of bytes; beyond it, random values are evicted. None: no limit.
            Not with ``"redis:"``, where the servers have a limit of their own.
        on_failure: ``"degrade"``: values that cannot be reached are misses. ``"error"``: raises
            OSError.
        timeout: seconds to connect to a Redis server, and to wait for each of its answers.
        call_timeout: total seconds for one request to the Redis servers. None: 10 times
            ``timeout``.
        file_mode: permissions of the files that are created, less the umask; ``0o660`` shares them
            with the group.
        load_wait: longest time in seconds to wait for a value that another thread or process makes.
        serializer: ``"pickle"`` (protocol 5) is the default. ``"bytes"``: values are bytes.
            ``"view"``: bytes, which are read as a read-only memoryview without a copy.
            ``"arrays"``: see below. Or a pair of functions: from value to bytes, and from a
            memoryview to value.

    ``serializer="arrays"`` takes numpy arrays and scalars (no objects, no fields), CPU tensors that
    need no gradient, int, float, bool, str, bytes and None. Lists, tuples and dicts of these are
    allowed, too; anything else raises TypeError. Arrays and tensors are read in place and are
    read-only; from LMDB they are not copied. Torch has no read-only tensors: writing to such a
    tensor ends the process. Clone it first.

    Raises:
        ValueError: an argument breaks a rule. OSError: the file cannot be opened.

    >>> import sab
    >>> with sab.Cache("memory:") as cache:
    ...     made = cache.get_or_load("answer", lambda key: 6 * 7)
    ...     made, cache.get("answer"), cache.get("question")
    (42, 42, None)
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        dataset_name: str | None = None,
        writer_buffer_size: int = 1,
        flush_interval: float = 1.0,
        capacity: int | None = None,
        on_failure: str = "degrade",
        timeout: float = 1.0,
        load_wait: float = 60.0,
        serializer: str | tuple[Callable[[Any], Any], Callable[[memoryview], Any]] | None = None,
        call_timeout: float | None = None,
        file_mode: int = 0o600,
    ) -> None:
        is_chosen = serializer is not None
        serializer = "pickle" if serializer is None else serializer
        if isinstance(serializer, str):
            if serializer not in _SERIALIZERS:
                raise ValueError(
                    f"serializer = {serializer!r}: must be a pair of functions or one of "
                    f"{', '.join(map(repr, _SERIALIZERS))}"
                )
            self._dump, self._load = _SERIALIZERS[serializer]
        elif isinstance(serializer, tuple) and len(serializer) == 2:
            self._dump, self._load = serializer
        else:
            raise TypeError(
                f"serializer = {brief(serializer)}: must be a pair of functions or one of "
                f"{', '.join(map(repr, _SERIALIZERS))}"
            )
        self._is_copying = self._load in (
            pickle.loads,
            bytes,
        )  # nothing that these give is in what they read
        if capacity is not None:
            capacity = whole("capacity", capacity, 1)
        options = new_struct("sab_cache_options")
        if dataset_name is not None:
            keep = ffi.new("char[]", _text("dataset_name", dataset_name))
            options.dataset_name = keep
        options.writer_buffer_size = whole("writer_buffer_size", writer_buffer_size, 1)
        options.flush_interval = real("flush_interval", flush_interval, "must be above 0")
        options.capacity = capacity or 0
        options.on_failure = one_of("on_failure", on_failure, _FAILURES)
        rule = "must be above 0 and at most 1000000 seconds"
        options.timeout = real("timeout", timeout, rule)
        wait = real("load_wait", load_wait)
        if not wait >= 0:
            raise ValueError(f"load_wait = {wait:g}: must be at least 0")
        options.load_wait = wait or -1  # 0 is the default to the library
        options.call_timeout = 0 if call_timeout is None else real("call_timeout", call_timeout)
        options.file_mode = whole("file_mode", file_mode, 1)
        handle = ffi.new("sab_cache **")
        if not isinstance(url, (str, os.PathLike)):
            raise TypeError(f"url = {brief(url)}: must be a text or the path of a folder")
        check(lib.sab_cache_new(_text("url", os.fspath(url)), options, handle))
        self._handle: CData | None = ffi.gc(handle[0], lib.sab_cache_free)
        if not is_chosen and _is_elsewhere(str(url)):
            warnings.warn(
                "sab.Cache unpickles what it reads, and this Redis server is on another machine: "
                "whoever can write to it can run code here. "
                'Give serializer="arrays" or "bytes", or serializer="pickle" if you trust all of '
                "them",
                stacklevel=2,
            )
        self._flush_at_exit()
        after_fork = cast(Any, Cache._flush_at_exit)  # of any type of values
        util.register_after_fork(self, after_fork)
        self._arguments = {
            "dataset_name": dataset_name,
            "writer_buffer_size": writer_buffer_size,
            "flush_interval": flush_interval,
            "capacity": None if str(url).startswith("redis-server:") else capacity,
            "on_failure": on_failure,
            "timeout": timeout,
            "load_wait": load_wait,
            "serializer": serializer,
            "call_timeout": call_timeout,
            "file_mode": file_mode,
        }

    def _flush_at_exit(self) -> None:
        # Workers of multiprocessing, such as those of a DataLoader, end without freeing anything.
        self._at_exit = util.Finalize(self, _flush_quietly, args=(self._handle,), exitpriority=10)

    @property
    def url(self) -> str:
        """Where the cache is, with passwords; for ``"redis-server:"`` that of the server which was
        started.
        """
        return str(ffi.string(self._stats().url).decode(errors="surrogateescape"))

    def get(self, key: Key, default: Any = None) -> Value | Any:
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
        """The value of a key. If there is none, ``load(key)`` makes it.

        While one caller makes the value, other callers with the same key wait for it, at most
        ``load_wait`` seconds. These are threads, and processes that share the file or the servers.
        Exceptions of ``load`` pass through.
        """
        data = _bytes_of(key)
        fresh: list[Value] = []

        def made() -> Any:
            fresh.append(load(key))
            return self._dump(fresh[0])

        calls = Calls(load=made)
        value = ffi.new("sab_cache_value **")
        check(
            lib.sab_cache_get_or_load(
                self._open(),
                data,
                len(data),
                lib.sab_py_load,
                calls.handle,
                calls.options(),
                value,
            ),
            calls,
        )
        if not fresh:
            found: Value = self._taken(value, 0)
            return found
        lib.sab_cache_value_free(value[0])
        return fresh[0]

    def get_many(self, keys: Iterable[Key], default: Any = None) -> list[Value | Any]:
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

    def key_count(self) -> int:
        """Number of keys of the dataset name; on Redis by walking through all keys of the
        servers.
        """
        keys = ffi.new("uint64_t *")
        check(lib.sab_cache_get_key_count(self._open(), keys))
        return int(keys[0])

    def clear(self) -> None:
        """Removes all keys of the dataset name, for everybody."""
        check(lib.sab_cache_clear(self._open()))

    def stats(self) -> CacheStats:
        """What the cache has done in this process."""
        return record_of(CacheStats, self._stats())

    def _stats(self) -> CData:
        stats = new_struct("sab_cache_stats")
        check(lib.sab_cache_get_stats(self._open(), stats))
        return stats

    def close(self) -> None:
        """Writes the buffer and closes files and connections. Values stay valid. A second call has
        no effect.
        """
        handle, self._handle = self._handle, None
        if handle is not None:
            # with what it holds: the handle goes with the last call that another thread has under
            # way
            self._at_exit.cancel()

    def _taken(self, values: CData, place: int) -> Any:
        """What a value of C's stands for; it is freed when nothing of it is used any more."""
        value, values[place] = values[place], ffi.NULL
        if not self._is_copying:
            return self._load(_view(value))
        size = ffi.new("size_t *")
        try:
            return self._load(ffi.buffer(lib.sab_cache_value_data(value, size), size[0]))
        finally:
            lib.sab_cache_value_free(value)

    def _open(self) -> CData:
        if self._handle is None:
            raise ValueError("the cache is closed")
        return self._handle

    def __enter__(self) -> Cache[Value]:
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
    """A dataset that makes each sample once and keeps it in a cache. It wraps any dataset that has
    ``len()`` and indices, also for the workers of torch's DataLoader.

    Args:
        dataset: gives the samples that are not in the cache.
        cache: a :class:`Cache`, or the URL of one.
        arguments: of :class:`Cache`, where ``cache`` is a URL.

    >>> import sab
    >>> squares = sab.CachedDataset([n * n for n in range(5)], "memory:")
    >>> squares[3], squares[3], squares.cache.stats().loads
    (9, 9, 1)
    """

    def __init__(self, dataset: Any, cache: Cache[Value] | str, **arguments: Any) -> None:
        if isinstance(cache, Cache) and arguments:
            raise TypeError(f"{', '.join(arguments)}: are for a URL, but cache is a Cache")
        self.dataset = dataset
        self.cache: Cache[Value] = cache if isinstance(cache, Cache) else Cache(cache, **arguments)

    def __getitem__(self, index: Any) -> Value:
        return self.cache.get_or_load(index, self.dataset.__getitem__)

    def __len__(self) -> int:
        return len(self.dataset)

    def __repr__(self) -> str:
        return one_line(self, [f"{type(self.dataset).__name__} in {self.cache!r}"])


def _reopened(url: str, arguments: dict[str, Any]) -> Cache[Any]:
    return Cache(url, **arguments)


def _flush_quietly(handle: CData | None) -> None:
    if handle is not None:
        lib.sab_cache_flush(handle)


def _view(value: Any) -> memoryview:
    """The bytes of a value, which is freed with the last view of them."""
    size = ffi.new("size_t *")
    data = lib.sab_cache_value_data(value, size)
    owned = ffi.gc(ffi.cast("char *", data), lambda _: lib.sab_cache_value_free(value))
    return memoryview(ffi.buffer(owned, size[0])).toreadonly()


def _items(names: list[bytes], values: list[Any] | None = None) -> tuple[Any, list[Any]]:
    items = ffi.new("sab_cache_item[]", len(names))
    if not names:
        return items, []
    fields = np.frombuffer(ffi.buffer(items), np.uintp).reshape(len(names), 4)
    keep = [_set_bytes(fields[:, :2], names)]
    if values is not None:
        keep.append(_set_bytes(fields[:, 2:], values))
    return items, keep


def _set_bytes(fields: Any, parts: list[Any]) -> Any:
    """Sets the address and the number of the bytes of each part; gives what has them."""
    if all(type(part) is bytes and len(part) <= _SMALL for part in parts):
        joined = ffi.from_buffer(b"".join(parts))
        sizes = np.fromiter(map(len, parts), np.uintp, len(parts))
        fields[:, 0] = np.cumsum(sizes) - sizes + np.uintp(int(ffi.cast("uintptr_t", joined)))
        fields[:, 1] = sizes
        return joined
    buffers = [ffi.from_buffer(part) for part in parts]
    for row, buffer in zip(fields, buffers):
        row[:] = int(ffi.cast("uintptr_t", buffer)), len(buffer)
    return buffers


def _bytes_of(key: Any) -> bytes:
    """The key in the library: a str as UTF-8, as in other languages; numbers and bytes apart from
    those, behind a NUL.
    """
    if isinstance(key, str):
        return (b"\0s" if key.startswith("\0") else b"") + key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        if not key:
            raise ValueError("key = b'': must not be empty")
        return b"\0b" + key
    try:
        return b"\0i%d" % key.__index__()
    except (AttributeError, TypeError):
        raise TypeError(f"key = {key!r}: must be str, bytes or a whole number") from None


def _is_elsewhere(url: str) -> bool:
    """Whether it names a Redis server that is not at a loopback address."""
    if not url.startswith("redis://"):
        return False
    for part in url[len("redis://") :].split("/", maxsplit=1)[0].split(","):
        host = part.rsplit("@", 1)[-1]
        host = host[1:].split("]")[0] if host.startswith("[") else host.split(":")[0]
        try:
            is_here = ipaddress.ip_address(host).is_loopback
        except ValueError:
            is_here = host.lower() == "localhost"
        if not is_here:
            return True
    return False


def _text(name: str, text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{name} = {text!r}: must be a str")
    return path_bytes(text, name)
