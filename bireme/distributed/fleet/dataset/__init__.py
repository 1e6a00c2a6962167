"""Datasets of slot files."""

from bireme.distributed.fleet.dataset.dataset import DatasetBase, InMemoryDataset, QueueDataset

__all__ = ["DatasetBase", "InMemoryDataset", "QueueDataset"]
