"""The adaptive batching proposed for torchtune: the largest batch size before training, a growing
one during it.

>>> import torch
>>> layer = torch.nn.Linear(256, 256)
>>> def step(batch_size):
...     layer(torch.rand(batch_size, 256)).sum().backward()
...     layer.zero_grad()
>>> device = sab.Probe("cpu", total_bytes=8 << 20)  # or "cuda"
>>> max_batch_size = find_max_batch_size(step, device)  # use_maximum_batch_size
>>> def increase(epoch, batch_size):  # batch_increase_function
...     return 16 if epoch == 2 else 0
>>> next_batch_size(increase, 2, 32, max_batch_size)
48
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Callable

import sab
from sab._max_batch import Search
from sab._probe import DeviceLike

__all__ = [
    "find_max_batch_size",
    "is_oom_exception",
    "iter_batches",
    "next_batch_size",
    "train_step",
]

is_oom_exception: Callable[[BaseException], bool] = sab.is_out_of_memory


def find_max_batch_size(
    step: Callable[[int], Any],
    device: DeviceLike = "cuda",
    method: Search = "predict",
    maximum_batch: int = 100_000,
) -> int:
    """The largest batch size whose step fits the device, rounded down to a power of two.

    Args:
        step: runs a training step of that many samples.
        device: see :class:`sab.Probe`.
        method: ``"predict"`` (seldom runs out of memory), ``"difference"`` (total memory by
            memory(2) - memory(1)), ``"binary"`` (search between 0 and ``maximum_batch``) or
            ``"halve"`` (decrease until it fits).
        maximum_batch: never larger.

    Raises:
        RuntimeError: not enough memory even for a batch size of 1.
    """
    return sab.find_max_batch(
        step, device, search=method, max_batch_size=maximum_batch, rounding="power_of_two"
    ).batch_size


def next_batch_size(
    batch_increase_function: Callable[[int, int], int] | None,
    epoch: int,
    current_batch_size: int,
    max_batch_size: int,
) -> int:
    """The batch size of an epoch: the current one, plus what the function of (epoch, current batch
    size) says where that is at most the maximum.

    >>> next_batch_size(lambda epoch, current_batch_size: 16 if epoch in (2, 5) else 0, 2, 32, 64)
    48
    >>> next_batch_size(lambda epoch, current_batch_size: 16 if epoch in (2, 5) else 0, 5, 64, 64)
    64
    """
    if batch_increase_function is None:
        return current_batch_size
    return sab.grow_batch_size(
        batch_increase_function, epoch, current=current_batch_size, max_batch_size=max_batch_size
    )


def iter_batches(batch: Sequence[Any], chunk_size: int) -> Iterator[Any]:
    """Slices of a batch.

    >>> list(iter_batches("abcde", 2))
    ['ab', 'cd', 'e']
    """
    for first in range(0, len(batch), chunk_size):
        yield batch[first : first + chunk_size]


def train_step(
    batch: Sequence[Any],
    step: Callable[[Any], Any],
    loss_fn: Callable[..., Any],
    optimizer: Any,
    chunk_size: int | None = None,
    device: Any = "cuda",
) -> tuple[Any, int]:
    """A step of the optimizer over a batch, in chunks that are halved until they fit, each weighing
    its share of the batch.

    Args:
        batch: anything with a length and slices, such as a tensor.
        step: the arguments of ``loss_fn`` for a chunk: ``loss_fn(*step(chunk))``.
        loss_fn: the mean loss of a chunk.
        optimizer: set to zero before each try, stepped at the end.
        chunk_size: of the first try; the whole batch by default.
        device: see :class:`sab.Probe`.

    Returns:
        The loss of the batch, and the chunk size that fitted: begin with it next time.

    Raises:
        RuntimeError: not enough memory even for a batch size of 1.
    """
    loss: Any = None

    def begin() -> None:
        nonlocal loss
        loss = None
        optimizer.zero_grad()

    def chunk(first: int, count: int, weight: float) -> None:
        nonlocal loss
        part = loss_fn(*step(batch[first : first + count])) * weight
        part.backward()
        loss = part.detach() if loss is None else loss + part.detach()

    fitted = sab.step_in_chunks(chunk, len(batch), device, begin=begin, chunk_size=chunk_size)
    optimizer.step()
    return loss, fitted
