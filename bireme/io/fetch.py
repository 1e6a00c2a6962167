"""Reading batches: what a worker does for the DataLoader, and the DataLoader itself where it has no workers."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bireme.core.base import errors
from bireme.io.collate import Stack, default_collate_fn, stack_arrays
from bireme.io.dataset import Dataset, IterableDataset, Subset, TensorDataset


class WorkerInfo:
    """A worker of a ``DataLoader``: its index ``id`` of ``num_workers``, its ``seed``, its copy of the ``dataset``."""

    id: int
    num_workers: int
    dataset: Any
    seed: int

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: Any) -> None:
        raise errors.failure(f"Cannot assign attributes to {type(self).__name__} objects")


class _Local(threading.local):
    info: WorkerInfo | None = None


local = _Local()


def get_worker_info() -> WorkerInfo | None:
    """Return which worker of a ``DataLoader`` this code runs in.

    An ``IterableDataset`` uses it to read only the worker's share of the data.

    Returns:
        An object with ``id``, ``num_workers``, ``seed`` and ``dataset`` inside a worker; None everywhere else.

    Examples:
        >>> bireme.io.get_worker_info() is None
        True
    """
    return local.info


class Job(NamedTuple):
    """What a worker gets at its start."""

    dataset: Any
    collate: Callable | None
    init: Callable | None
    batched: bool
    drop_last: bool


class End:
    """Returned instead of a batch when the dataset has no more samples."""


class Fetcher:
    """Reads batches of a dataset. ``at`` is the index of the sample being read, for the error message if that fails."""

    def __init__(self, job: Job, stack: Stack = stack_arrays):
        self.job = job
        self.collate = (
            functools.partial(default_collate_fn, stack=stack) if job.collate is default_collate_fn else job.collate
        )
        self.at: Any = None
        self.samples: Iterator[Any] | None = iter(job.dataset) if isinstance(job.dataset, IterableDataset) else None
        self.rows = rows_of(job.dataset) if job.batched and job.collate is default_collate_fn else None

    def __call__(self, indices: Any) -> Any:
        """Return the collated batch of these indices, or of the next samples of a stream."""
        job = self.job
        if self.samples is None:
            if self.rows is not None:
                self.at = indices
                return self.rows(indices)
            data = self.pick(indices) if job.batched else self.one(indices)
        elif job.batched:
            # in this order zip takes no sample too many
            data = [sample for _, sample in zip(indices, self.samples, strict=False)]
            if not data or (job.drop_last and len(data) < len(indices)):
                return End
        else:
            data = next(self.samples, End)
            if data is End:
                return End
        self.at = None
        return data if self.collate is None else self.collate(data)

    def one(self, index: Any) -> Any:
        self.at = index
        return self.job.dataset[index]

    def pick(self, indices: Any) -> list:
        found, dataset = [], self.job.dataset
        for index in indices:
            self.at = index
            found.append(dataset[index])
        return found


def rows_of(dataset: Dataset) -> Callable[[list[int]], list] | None:
    """Return a function that reads a whole batch, already stacked, if the dataset has one."""
    if type(dataset) is TensorDataset:
        return dataset._rows
    if type(dataset) is Subset:
        inner = rows_of(dataset.dataset)
        places = dataset.indices
        return None if inner is None else lambda indices: inner([places[i] for i in indices])
    return None
