"""libsab for torch: datasets for ``DataLoader``, and optimizers whose step updates small parameters
as one.
"""

from sab.torch._datasets import StreamDataset
from sab.torch._optimizers import fuse_optimizer, fuse_step, is_fused_optimizer

__all__ = ["StreamDataset", "fuse_optimizer", "fuse_step", "is_fused_optimizer"]
