"""Data: datasets, the order of samples, and the DataLoader that reads batches of them."""

from bireme.io.batch import BatchSampler, DistributedBatchSampler, LengthBatchSampler
from bireme.io.dataset import (
    ChainDataset,
    ComposeDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)
from bireme.io.fetch import get_worker_info
from bireme.io.loader import DataLoader
from bireme.io.sampler import RandomSampler, Sampler, SequenceSampler, SubsetRandomSampler, WeightedRandomSampler

__all__ = [
    "BatchSampler", "ChainDataset", "ComposeDataset", "ConcatDataset", "DataLoader", "Dataset",
    "DistributedBatchSampler", "IterableDataset", "LengthBatchSampler", "RandomSampler", "Sampler", "SequenceSampler",
    "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "get_worker_info", "random_split",
]  # fmt: skip
