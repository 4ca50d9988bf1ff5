"""libsab for transformers: Trainer, and TRL's trainers that derive from it, with the batches of a
plan; callbacks for metrics and learning rates.
"""

from sab.transformers._callbacks import LearningRateCallback, MetricsCallback
from sab.transformers._prepare import prepare

__all__ = ["LearningRateCallback", "MetricsCallback", "prepare"]
