"""``asym``: ``sab.compat.asym.precompute_grouper_thresholds``."""
