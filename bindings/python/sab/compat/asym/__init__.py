"""``asym``: ``sab.compat.asym.grouper`` and ``sab.compat.asym.precompute_grouper_thresholds``."""
