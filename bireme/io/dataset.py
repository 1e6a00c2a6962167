"""Datasets: the base classes, and datasets made of tensors or of other datasets."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded, guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.io.order import draws
from bireme.ops import index_select


class Dataset(Guarded):
    """Base class of datasets whose samples have an index: a subclass implements ``__getitem__`` and ``__len__``.

    Examples:
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
        """Initialize the dataset; subclasses need not call it."""

    def __getitem__(self, idx: int) -> Any:
        raise errors.missing_method(self, "__getitem__")

    def __len__(self) -> int:
        raise errors.missing_method(self, "__len__")


class IterableDataset(Dataset):
    """Base class of datasets that are read as a stream, without indices: a subclass implements ``__iter__``.

    Every worker of a ``DataLoader`` has a copy of the dataset and would return all samples again; let each read its
    share by means of ``get_worker_info()``.

    Examples:
        >>> class Count(bireme.io.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(3))
        >>> list(Count())
        [0, 1, 2]
    """

    def __iter__(self) -> Iterator[Any]:
        raise errors.missing_method(self, "__iter__")

    def __getitem__(self, idx: int) -> Any:
        raise _not_indexable(self, "__getitem__")

    def __len__(self) -> int:
        raise _not_indexable(self, "__len__")


def _not_indexable(dataset: IterableDataset, method: str) -> Exception:
    # Paddle's RuntimeError, and the TypeError by which `list` learns that there is no length
    return errors.bad(
        f"{type(dataset).__name__}.{method}",
        "iteration, since an IterableDataset has neither indices nor a length",
        described=f"a call of {method}",
        kind=errors.NotIndexableError,
    )


class TensorDataset(Dataset):
    """Dataset whose samples are the rows of one or more tensors.

    Args:
        tensors: List of tensors with the same size in their first dimension; sample ``i`` is the tuple of their rows
            ``i``.

    Examples:
        >>> data = bireme.io.TensorDataset([bireme.to_tensor([1, 2]), bireme.to_tensor([5, 6])])
        >>> [t.item() for t in data[1]]
        [2, 6]
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        for tensor in _listed("TensorDataset(tensors)", "tensors", tensors):
            if not len(getattr(tensor, "shape", ())):
                expected = "tensors with at least 1 dimension"
                raise errors.bad("TensorDataset(tensors)", expected, tensor, kind=errors.NotATensorError)
        lengths = [tensor.shape[0] for tensor in tensors]
        if any(n != lengths[0] for n in lengths):
            raise errors.bad(
                "TensorDataset(tensors)",
                "tensors of equal length",
                described=f"lengths {lengths}",
                kind=errors.ArgumentError,
            )
        self.tensors = tensors

    def __getitem__(self, index: int) -> tuple:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def _rows(self, indices: list[int]) -> list:
        """Return a whole batch: one gather for each tensor instead of one for each sample."""
        return [_rows_of(tensor, indices) for tensor in self.tensors]


def _listed(where: str, what: str, given: Any) -> list:
    if not isinstance(given, Iterable):
        raise errors.bad(where, f"a list of {what}", given, kind=errors.ArgumentTypeError)
    return list(given)


def _rows_of(source: Any, indices: list[int]) -> Any:
    if isinstance(source, np.ndarray):
        return source[indices]
    if source.place.is_cpu_place() and source.stop_gradient:
        return source._host()[indices]
    return index_select(source, Tensor(np.asarray(indices, np.int64), place=source.place), 0)


class ComposeDataset(Dataset):
    """Dataset that joins the fields of several datasets of the same length.

    Args:
        datasets: The datasets, each with ``__getitem__`` and ``__len__``; sample ``i`` is a tuple of the fields of all
            their samples ``i``.

    Examples:
        >>> a = bireme.io.TensorDataset([bireme.to_tensor([1, 2])])
        >>> [t.item() for t in bireme.io.ComposeDataset([a, a])[1]]
        [2, 2]
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = _listed("ComposeDataset(datasets)", "datasets", datasets)
        if not self.datasets:
            raise errors.bad(
                "ComposeDataset(datasets)", "at least one dataset", self.datasets, kind=errors.ArgumentError
            )
        for dataset in self.datasets:
            if not isinstance(dataset, Dataset) or isinstance(dataset, IterableDataset):
                raise errors.bad(
                    "ComposeDataset(datasets)",
                    "datasets with __getitem__, each a bireme.io.Dataset",
                    dataset,
                    kind=errors.ArgumentError,
                )
        lengths = [len(dataset) for dataset in self.datasets]
        if any(n != lengths[0] for n in lengths):
            raise errors.bad(
                "ComposeDataset(datasets)",
                "datasets of equal length",
                described=f"lengths {lengths}",
                kind=errors.ArgumentError,
            )

    def __len__(self) -> int:
        return len(self.datasets[0])

    def __getitem__(self, idx: int) -> tuple:
        samples = [dataset[idx] for dataset in self.datasets]
        return tuple(itertools.chain.from_iterable(s if isinstance(s, (list, tuple)) else (s,) for s in samples))


class ChainDataset(IterableDataset):
    """Dataset that iterates over several iterable datasets, one after the other.

    Args:
        datasets: The datasets, each an ``IterableDataset``.

    Examples:
        >>> class Count(bireme.io.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(2))
        >>> list(bireme.io.ChainDataset([Count(), Count()]))
        [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[IterableDataset]) -> None:
        self.datasets = _listed("ChainDataset(datasets)", "datasets", datasets)
        if not self.datasets:
            raise errors.bad("ChainDataset(datasets)", "at least one dataset", self.datasets, kind=errors.ArgumentError)
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise errors.bad(
                    "ChainDataset(datasets)", "each an IterableDataset", dataset, kind=errors.ArgumentError
                )

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)


class ConcatDataset(Dataset):
    """Dataset that concatenates several datasets: their samples are indexed one after the other.

    Args:
        datasets: The datasets, each with ``__getitem__`` and ``__len__``.

    Examples:
        >>> a = bireme.io.TensorDataset([bireme.to_tensor([1, 2])])
        >>> both = bireme.io.ConcatDataset([a, a])
        >>> len(both), both[3][0].item()
        (4, 2)
    """

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return the cumulative sum of the lengths of some datasets.

        Args:
            sequence: The datasets, or anything with a length.

        Returns:
            A list of ints: the index one past the last sample of each dataset.

        Examples:
            >>> bireme.io.ConcatDataset.cumsum([[1, 2], [3]])
            [2, 3]
        """
        return list(itertools.accumulate(len(part) for part in sequence))

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = _listed("ConcatDataset(datasets)", "datasets", datasets)
        if not self.datasets:
            raise errors.bad(
                "ConcatDataset(datasets)", "at least one dataset", self.datasets, kind=errors.ArgumentError
            )
        hint = "ConcatDataset does not support IterableDataset: ChainDataset does"
        for dataset in self.datasets:
            if isinstance(dataset, IterableDataset):
                raise errors.bad(
                    "ConcatDataset(datasets)",
                    "datasets with __getitem__",
                    dataset,
                    hint=hint,
                    kind=errors.ArgumentError,
                )
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Any:
        at = idx + len(self) if idx < 0 else idx
        if not 0 <= at < len(self):
            raise errors.bad(
                "ConcatDataset[idx]", f"an index in [{-len(self)}, {len(self) - 1}]", idx, kind=errors.OutOfRangeError
            )
        part = bisect.bisect_right(self.cumulative_sizes, at)
        return self.datasets[part][at - (self.cumulative_sizes[part - 1] if part else 0)]


class Subset(Dataset):
    """Dataset of some samples of another one.

    Args:
        dataset: The other dataset.
        indices: Indices of the samples in ``dataset``.

    Examples:
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
    """Split a dataset at random into parts that do not overlap.

    Args:
        dataset: A dataset with a length.
        lengths: Lengths of the parts, which sum to the length of the dataset, or fractions that sum to 1. Fractions are
            rounded down, and the samples left over go to the first parts.
        generator: A ``bireme.Generator`` or a NumPy generator. Default: None, NumPy's global generator if it was
            seeded, else Bireme's.

    Returns:
        A list of ``Subset`` objects, one for each entry of ``lengths``.

    Examples:
        >>> [len(part) for part in bireme.io.random_split(range(10), [0.7, 0.3])]
        [7, 3]
    """
    total = len(dataset)
    if sum(lengths) <= 1 and math.isclose(sum(lengths), 1):
        lengths = _shares(lengths, total)
    if sum(lengths) != total:
        raise errors.bad(
            "random_split(lengths)",
            f"lengths that sum to {total}, the length of the dataset, or fractions that sum to 1",
            lengths,
        )
    if any(n < 0 for n in lengths):
        raise errors.bad("random_split(lengths)", "non-negative lengths", lengths)
    order = draws(generator).permutation(total).tolist()
    ends = itertools.accumulate(int(n) for n in lengths)
    return [Subset(dataset, order[end - int(n) : end]) for end, n in zip(ends, lengths, strict=True)]


def _shares(fractions: Sequence[float], total: int) -> list[int]:
    """Turn fractions into lengths: rounded down, the rest one by one to the first ones."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise errors.bad(f"random_split(lengths[{i}])", "a fraction in [0, 1]", fraction)
    found = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(found)):
        found[i % len(found)] += 1
    for i, n in enumerate(found):
        if n == 0:
            errors.warn(f"random_split: part {i} of {len(found)} has no samples")
    return found


guard_functions(globals())
