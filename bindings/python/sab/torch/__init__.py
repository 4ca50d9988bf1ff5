"""libsab for torch: a loader for the samplers, functions that make tensors of batches, datasets of
streams, optimizers whose step updates small parameters as one, learning rates by the tokens of a
step, and warm-up of all shapes.
"""

from sab.torch._collates import PackCollate, PadCollate
from sab.torch._datasets import StreamDataset
from sab.torch._learning_rate import LearningRateScaler
from sab.torch._loader import DataLoader
from sab.torch._optimizers import fuse_optimizer, fuse_step, is_fused_optimizer
from sab.torch._samples import Samples, Tickets, loader_options
from sab.torch._static_rows import StaticRows
from sab.torch._warm_up import warm_up

__all__ = [
    "DataLoader",
    "LearningRateScaler",
    "PackCollate",
    "PadCollate",
    "Samples",
    "StaticRows",
    "StreamDataset",
    "Tickets",
    "fuse_optimizer",
    "fuse_step",
    "is_fused_optimizer",
    "loader_options",
    "warm_up",
]
