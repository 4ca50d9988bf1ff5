"""``bagua.torch_api.contrib.utils``: ``redis_store``."""
