"""``verl.utils``: ``sab.compat.verl.seqlen_balancing``."""
