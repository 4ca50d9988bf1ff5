"""``bagua.torch_api.contrib.fuse``."""
