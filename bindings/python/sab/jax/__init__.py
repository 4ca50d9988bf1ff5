"""libsab for JAX: numpy batches of at most K shapes, so that a jitted step is compiled at most K
times. ``sab.jax.grain`` has the same for grain, which it needs. ``sab.jax`` needs neither package.
"""

from sab.jax._collates import PackCollate, PadCollate
from sab.jax._loader import DataLoader

__all__ = ["DataLoader", "PackCollate", "PadCollate"]
