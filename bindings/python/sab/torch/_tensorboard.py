"""Metrics for TensorBoard."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from sab._display import one_line

__all__ = ["TensorBoard"]


class TensorBoard:
    """Writes metrics as scalars of TensorBoard: a :class:`sab.MetricsWriter`. Needs the package
    tensorboard.

    Args:
        writer: a ``SummaryWriter`` of torch, or the folder for one, which :meth:`close` closes.
        prefix: of the scalars' names. TensorBoard groups names by what is before the slash.
    """

    def __init__(self, writer: Any, *, prefix: str = "sab/") -> None:
        self._owns_writer = isinstance(writer, (str, os.PathLike))
        if self._owns_writer:
            from torch.utils import tensorboard

            made: Any = tensorboard  # which does not declare its names public
            writer = made.SummaryWriter(os.fspath(writer))
        elif not callable(getattr(writer, "add_scalar", None)):
            raise TypeError(
                f"writer is a {type(writer).__name__}: must be a SummaryWriter or a folder"
            )
        self._writer: Any = writer
        self._prefix = prefix

    def __repr__(self) -> str:
        return one_line(self, [f"prefix {self._prefix!r}"])

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the values of a step. The ``SummaryWriter`` says when they are on disk."""
        for name, value in values.items():
            self._writer.add_scalar(self._prefix + name, value, step)

    def close(self) -> None:
        """Writes what is left, and closes the ``SummaryWriter`` if it was made here."""
        if self._owns_writer:
            self._writer.close()
        else:
            self._writer.flush()

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
