"""What is written to files and bytes, and made again from them."""

from __future__ import annotations

import os
from typing import Any, Callable, TypeVar

from sab._arguments import kind_of
from sab._native import CData, check, ffi, lib, path_bytes, written

Own = TypeVar("Own", bound="Saved")


class Saved:
    """An immutable handle of the library that has a file format; picklable."""

    _handle: CData
    _kind: str  # functions of C begin with it

    def __init_subclass__(cls, kind: str) -> None:
        cls._kind = kind

    def __init__(self, handle: CData) -> None:
        raise NotImplementedError

    def _owned(self, handle: CData, free: Any, maker: str) -> CData:
        """A new handle, or an error for what a caller took the constructor for."""
        if not isinstance(handle, CData):
            name = f"sab.{type(self).__name__}"
            raise TypeError(f"{name}: is made by {maker}, not by its constructor")
        return ffi.gc(handle, free)

    @classmethod
    def _function(cls, name: str) -> Callable[..., int]:
        function: Callable[..., int] = getattr(lib, f"{cls._kind}_{name}")
        return function

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file that :meth:`open` reads; an existing one is replaced in one step."""
        check(self._function("save")(self._handle, path_bytes(path)))

    @classmethod
    def open(cls: type[Own], path: str | os.PathLike[str]) -> Own:
        """Reads a file of :meth:`save`."""
        handle = ffi.new(f"{cls._kind} **")
        check(cls._function("file_new")(path_bytes(path), handle))
        return cls(handle[0])

    def to_bytes(self) -> bytes:
        """The bytes of the file that :meth:`save` writes."""
        write = self._function("write")
        return written(
            lambda room, capacity, size: check(write(self._handle, room, capacity, size))
        )

    @classmethod
    def from_bytes(cls: type[Own], image: bytes) -> Own:
        """Made again from :meth:`to_bytes`."""
        if not isinstance(image, (bytes, bytearray, memoryview)):
            raise TypeError(f"image is {kind_of(image)}: must be the bytes of to_bytes()")
        handle = ffi.new(f"{cls._kind} **")
        check(cls._function("bytes_new")(ffi.from_buffer(image), len(image), handle))
        return cls(handle[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return from_bytes, (type(self), self.to_bytes())


def from_bytes(kind: type[Saved], image: bytes) -> Saved:
    """Makes what was pickled. A function, since cloudpickle copies the code of class methods."""
    return kind.from_bytes(image)
