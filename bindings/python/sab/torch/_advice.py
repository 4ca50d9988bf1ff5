"""Settings of torch that cost much where batches have many shapes. They are named once in a process
and never changed."""

from __future__ import annotations

import warnings
from typing import Any, cast

import torch

from sab._batch import Batch

__all__ = ["Advice"]

_torch: Any = torch

MANY = 64  # shapes
_MOST = 1 << 12  # that are counted
NEARLY_FULL = 0.9  # share of the device's memory that the allocator has reserved
_CUDNN = 3  # of torch.nn.attention.SDPBackend
_given: set[str] = set()


class Advice:
    """Looks at the batches that a loader yields, and warns of settings when they have many shapes
    and the process trains on a CUDA device.

    Counting begins with the first batch, so that a loader starts no later, and costs less than a
    microsecond a batch. The device is asked at each 65th shape.
    """

    def __init__(self) -> None:
        self._shapes: set[tuple[int, Any]] = set()

    def see(self, batch: Batch) -> None:
        """A batch that is yielded."""
        length = batch.padded_length
        if isinstance(length, dict):
            length = tuple(cast("dict[str, float]", length).values())
        shape = (batch.count if batch.layout == "padded" else 1), length
        if shape in self._shapes or len(self._shapes) == _MOST:
            return
        self._shapes.add(shape)
        if len(self._shapes) % (MANY + 1) == 0 and _torch.cuda.is_initialized():
            self._advise(is_padded=batch.layout == "padded")

    def _advise(self, *, is_padded: bool) -> None:
        count = len(self._shapes)
        if is_padded and "attention" not in _given and _prefers_cudnn():
            _warn(
                "attention",
                f"the batches have had {count} shapes, and torch prefers cuDNN's attention, which "
                "builds a plan for each shape on its first use. Set the environment variable "
                "TORCH_CUDNN_SDPA_DEPRIORITIZED=1 or call torch.backends.cuda.enable_cudnn_sdp("
                "False), or give the plan max_shapes",
            )
        if "allocator" not in _given and (share := _reserved_share()) >= NEARLY_FULL:
            if any(segment.get("is_expandable") for segment in _torch.cuda.memory_snapshot()):
                return
            _warn(
                "allocator",
                f"the batches have had {count} shapes, and torch's allocator has reserved "
                f"{share:.0%} of the device without expandable segments. Set the environment "
                "variable PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, so that the blocks of "
                "one shape serve another one",
            )


def _warn(what: str, text: str) -> None:
    _given.add(what)
    warnings.warn(text, stacklevel=5)  # the loop over the loader


def _prefers_cudnn() -> bool:
    """Whether torch would take cuDNN's attention on the current device."""
    try:
        one = _torch.empty((1, 1, 64, 64), dtype=_torch.bfloat16, device="cuda")
        return int(_torch._fused_sdp_choice(one, one, one)) == _CUDNN
    except (AttributeError, RuntimeError):  # another torch
        return False


def _reserved_share() -> float:
    device = _torch.cuda.current_device()
    total = _torch.cuda.get_device_properties(device).total_memory
    return float(_torch.cuda.memory_reserved(device) / total)
