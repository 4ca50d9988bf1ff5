"""Sizes from a file: .npy, text (a sample a line), FASTA, either of these gzipped, or ``-`` for
standard input.
"""

from __future__ import annotations

import gzip
import io
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

FASTA_ENDINGS = (".fasta", ".fa", ".faa", ".fna")


class InputError(Exception):
    """An input that cannot be read, in words for the user."""


def read_sizes(
    path: str, words: bool, progress: Callable[[int, int], None] | None = None
) -> tuple[npt.NDArray[Any], str]:
    """The size of each sample, and how the file was read.

    Args:
        path: file name, or ``-``.
        words: count the words of a line of text instead of its UTF-8 bytes.
        progress: called with the number of bytes read so far, and of all bytes or 0.
    """
    try:
        if path.endswith(".npy"):
            sizes = _npy(path)
            return sizes, f".npy: {len(sizes):,} sizes"
        with _open(path) as stream:
            head = stream.peek(1)[:1]
            plain = pathlib.PurePath(path[:-3] if path.endswith(".gz") else path)
            is_fasta = head == b">" or plain.suffix in FASTA_ENDINGS
            lines = _followed(stream, progress)
            sizes = np.fromiter(_residues(lines) if is_fasta else _lines(lines, words), np.int64)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: {reason}") from error
    if sizes.size == 0:
        raise InputError(f"{path}: holds no sample")
    unit = "residues of FASTA" if is_fasta else "words of lines" if words else "bytes of lines"
    return sizes, f"{unit}: {len(sizes):,} samples"


def _npy(path: str) -> npt.NDArray[Any]:
    try:
        sizes: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    if sizes.ndim != 1 or sizes.dtype.kind not in "iuf":
        raise InputError(
            f"{path}: must hold numbers in one dimension, has {sizes.dtype} of shape {sizes.shape}"
        )
    if sizes.size == 0:
        raise InputError(f"{path}: holds no sample")
    return sizes


def _open(path: str) -> io.BufferedReader:
    source: Any = sys.stdin.fileno() if path == "-" else path
    raw: Any = open(source, "rb", 1 << 20, closefd=path != "-")  # noqa: SIM115  # by the caller
    if raw.peek(2)[:2] == b"\x1f\x8b":
        unpacked: Any = gzip.GzipFile(fileobj=raw)  # which has what a BufferedReader needs
        raw = io.BufferedReader(unpacked, 1 << 20)
    opened: io.BufferedReader = raw
    return opened


def _followed(
    stream: Iterable[bytes], progress: Callable[[int, int], None] | None
) -> Iterator[bytes]:
    done = 0
    for number, line in enumerate(stream):
        done += len(line)
        if progress is not None and number % 20_000 == 0:
            progress(done, 0)
        yield line


def _lines(lines: Iterator[bytes], words: bool) -> Iterator[int]:
    for line in lines:
        yield len(line.split()) if words else len(line.rstrip(b"\r\n"))


def _residues(lines: Iterator[bytes]) -> Iterator[int]:
    residues, begun = 0, False
    for number, line in enumerate(lines, 1):
        if line.startswith(b">"):
            if begun:
                yield residues
            residues, begun = 0, True
        elif begun:
            residues += len(line.strip())
        elif line.strip():
            raise InputError(f"line {number}: a FASTA file must begin with '>'")
    if begun:
        yield residues
