"""``bagua.torch_api.contrib.cached_dataset``: a dataset whose samples are made once."""

from __future__ import annotations

from typing import Any

from torch.utils.data.dataset import Dataset

from sab.compat.bagua.contrib.cache_loader import CacheLoader

__all__ = ["CachedDataset"]


class CachedDataset(Dataset):  # type: ignore[misc,type-arg,unused-ignore]
    """Wraps a dataset; its samples are kept under ``"{dataset_name}_{index}"``.

    Args:
        dataset: a dataset of torch's.
        backend, dataset_name, writer_buffer_size, kwargs: as of
            :class:`~sab.compat.bagua.contrib.CacheLoader`.

    Attributes:
        cache_loader: the loader behind.
    """

    def __init__(
        self,
        dataset: Any,
        backend: str = "redis",
        dataset_name: str = "",
        writer_buffer_size: int = 20,
        **kwargs: Any,
    ) -> None:
        self.dataset = dataset
        self.cache_loader: CacheLoader = CacheLoader(
            backend, dataset_name, writer_buffer_size, **kwargs
        )

    def __getitem__(self, item: Any) -> Any:
        return self.cache_loader.get(item, lambda index: self.dataset[index])

    def __len__(self) -> int:
        return len(self.dataset)
