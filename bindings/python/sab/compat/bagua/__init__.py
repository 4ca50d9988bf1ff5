"""``bagua.torch_api``: ``sab.compat.bagua.contrib``."""
