"""Datasets: something indexed or iterated that gives samples, and datasets made of others."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.io.order import draws
from bireme.ops import index_select


class Dataset:
    """What has samples by number: a subclass gives `__getitem__` and `__len__`.

    >>> class Squares(bireme.io.Dataset):
    ...     def __getitem__(self, index):
    ...         return index**2
    ...     def __len__(self):
    ...         return 4
    >>> Squares()[3]
    9
    """

    # what annotations such as Dataset[int] ask for
    def __class_getitem__(cls, item: Any) -> type:
        return cls

    def __init__(self) -> None:
        """A dataset; subclasses need not call this."""

    def __getitem__(self, idx: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.__getitem__: not written")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__}.__len__: not written")


class _NoNumbers(RuntimeError, TypeError):
    """Paddle's RuntimeError, and the TypeError by which `list` learns that there is no length."""


class IterableDataset(Dataset):
    """What gives samples one after the other and has no numbers for them: a subclass gives `__iter__`.

    Every worker of a DataLoader has a copy and would give all samples again; `get_worker_info` tells each its share.

    >>> class Count(bireme.io.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> list(Count())
    [0, 1, 2]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__}.__iter__: not written")

    def __getitem__(self, idx: int) -> Any:
        raise _NoNumbers(f"'__getitem__' should not be called for IterableDataset{type(self).__name__}")

    def __len__(self) -> int:
        raise _NoNumbers(f"'__len__' should not be called for IterableDataset{type(self).__name__}")


class TensorDataset(Dataset):
    """Samples are the rows of tensors of equal length.

    >>> data = bireme.io.TensorDataset([bireme.to_tensor([1, 2]), bireme.to_tensor([5, 6])])
    >>> [t.item() for t in data[1]]
    [2, 6]
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        lengths = [tensor.shape[0] for tensor in tensors]
        if any(n != lengths[0] for n in lengths):
            raise errors.bad("TensorDataset(tensors)", "tensors of equal length", f"lengths {lengths}", kind=errors.Unfit)
        self.tensors = tensors

    def __getitem__(self, index: int) -> tuple:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def _rows(self, indices: list[int]) -> list:
        """A whole batch at once: one gather for each tensor instead of one for each sample."""
        return [_rows_of(tensor, indices) for tensor in self.tensors]


def _rows_of(source: Any, indices: list[int]) -> Any:
    if isinstance(source, np.ndarray):
        return source[indices]
    if source.place.is_cpu_place() and source.stop_gradient:
        return source._host()[indices]
    return index_select(source, Tensor(np.asarray(indices, np.int64), place=source.place), 0)


class ComposeDataset(Dataset):
    """Datasets of equal length side by side: a sample has the fields of all of them.

    >>> a = bireme.io.TensorDataset([bireme.to_tensor([1, 2])])
    >>> [t.item() for t in bireme.io.ComposeDataset([a, a])[1]]
    [2, 2]
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise errors.bad("ComposeDataset(datasets)", "at least one dataset", self.datasets, kind=errors.Unfit)
        for dataset in self.datasets:
            if not isinstance(dataset, Dataset) or isinstance(dataset, IterableDataset):
                raise errors.bad("ComposeDataset(datasets)", "datasets with __getitem__, each a bireme.io.Dataset", dataset, kind=errors.Unfit)
        lengths = [len(dataset) for dataset in self.datasets]
        if any(n != lengths[0] for n in lengths):
            raise errors.bad("ComposeDataset(datasets)", "datasets of equal length", f"lengths {lengths}", kind=errors.Unfit)

    def __len__(self) -> int:
        return len(self.datasets[0])

    def __getitem__(self, idx: int) -> tuple:
        samples = [dataset[idx] for dataset in self.datasets]
        return tuple(itertools.chain.from_iterable(s if isinstance(s, (list, tuple)) else (s,) for s in samples))


class ChainDataset(IterableDataset):
    """Iterable datasets one after the other.

    >>> class Count(bireme.io.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(2))
    >>> list(bireme.io.ChainDataset([Count(), Count()]))
    [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[IterableDataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise errors.bad("ChainDataset(datasets)", "at least one dataset", self.datasets, kind=errors.Unfit)
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise errors.bad("ChainDataset(datasets)", "each an IterableDataset", dataset, kind=errors.Unfit)

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)


class ConcatDataset(Dataset):
    """Datasets one after the other under one count.

    >>> a = bireme.io.TensorDataset([bireme.to_tensor([1, 2])])
    >>> len(bireme.io.ConcatDataset([a, a])), bireme.io.ConcatDataset([a, a])[3][0].item()
    (4, 2)
    """

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Where each dataset ends in the common count.

        >>> bireme.io.ConcatDataset.cumsum([[1, 2], [3]])
        [2, 3]
        """
        return list(itertools.accumulate(len(part) for part in sequence))

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise errors.bad("ConcatDataset(datasets)", "at least one dataset", self.datasets, kind=errors.Unfit)
        hint = "ConcatDataset does not support IterableDataset: ChainDataset does"
        for dataset in self.datasets:
            if isinstance(dataset, IterableDataset):
                raise errors.bad("ConcatDataset(datasets)", "datasets with __getitem__", dataset, hint=hint, kind=errors.Unfit)
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Any:
        at = idx + len(self) if idx < 0 else idx
        if not 0 <= at < len(self):
            raise errors.bad("ConcatDataset[idx]", f"an index in [{-len(self)}, {len(self) - 1}]", idx, kind=errors.OutOfRange)
        part = bisect.bisect_right(self.cumulative_sizes, at)
        return self.datasets[part][at - (self.cumulative_sizes[part - 1] if part else 0)]


class Subset(Dataset):
    """Some samples of a dataset.

    >>> bireme.io.Subset(range(10), [4, 2])[0]
    4
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, idx: int) -> Any:
        return self.dataset[self.indices[idx]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset]:
    """Split a dataset at random into parts of the given lengths, or of the given fractions if these sum to 1.

    >>> [len(part) for part in bireme.io.random_split(range(10), [0.7, 0.3])]
    [7, 3]
    """
    total = len(dataset)
    if sum(lengths) <= 1 and math.isclose(sum(lengths), 1):
        lengths = _shares(lengths, total)
    if sum(lengths) != total:
        raise errors.bad("random_split(lengths)", f"lengths that sum to {total}, the length of the dataset, or fractions that sum to 1", lengths)
    if any(n < 0 for n in lengths):
        raise errors.bad("random_split(lengths)", "lengths of 0 or more", lengths)
    order = draws(generator).permutation(total).tolist()
    ends = itertools.accumulate(int(n) for n in lengths)
    return [Subset(dataset, order[end - int(n) : end]) for end, n in zip(ends, lengths, strict=True)]


def _shares(fractions: Sequence[float], total: int) -> list[int]:
    """Whole numbers for fractions: rounded down, and what is left over goes to the first ones in turn."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise errors.bad(f"random_split(lengths[{i}])", "a fraction between 0 and 1", fraction)
    found = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(found)):
        found[i % len(found)] += 1
    for i, n in enumerate(found):
        if n == 0:
            errors.warn(f"random_split: part {i} of {len(found)} has no samples")
    return found
