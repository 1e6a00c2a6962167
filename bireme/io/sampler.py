"""Samplers: the order of the indices of samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.tensor.tensor import Tensor
from bireme.io.order import draws


class Sampler(Guarded):
    """Base class of samplers, which determine the order of the samples: a subclass implements ``__iter__``.

    A sampler of known length also has ``__len__``.

    Args:
        data_source: The dataset, kept as an attribute. Default: None.

    Examples:
        >>> class Backwards(bireme.io.Sampler):
        ...     def __iter__(self):
        ...         return iter(range(len(self.data_source) - 1, -1, -1))
        >>> list(Backwards([7, 8, 9]))
        [2, 1, 0]
    """

    def __class_getitem__(cls, item: Any) -> type:
        return cls

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[Any]:
        raise errors.missing_method(self, "__iter__")


class SequenceSampler(Sampler):
    """Sampler that returns all indices in order.

    Args:
        data_source: The dataset, or anything with a length.

    Examples:
        >>> list(bireme.io.SequenceSampler("abc"))
        [0, 1, 2]
    """

    def __init__(self, data_source: Any) -> None:
        super().__init__(data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Sampler that draws indices at random.

    Args:
        data_source: The dataset, or anything with a length.
        replacement: Draw with replacement. Default: False.
        num_samples: Number of indices to draw. Default: None, the length of ``data_source``.
        generator: A ``bireme.Generator``, a NumPy generator, or an iterator that returns the indices themselves.
            Default: None, NumPy's global generator if it was seeded, else Bireme's.

    Examples:
        >>> sorted(bireme.io.RandomSampler("abc"))
        [0, 1, 2]
    """

    def __init__(
        self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        super().__init__(data_source)
        self.replacement, self._num_samples, self.generator = replacement, num_samples, generator
        if not isinstance(replacement, bool):
            raise errors.bad("RandomSampler(replacement)", "True or False", replacement, kind=errors.ArgumentTypeError)
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise errors.bad(
                "RandomSampler(num_samples)",
                "a positive integer",
                self.num_samples,
                kind=errors.for_integer(self.num_samples),
            )
        if not replacement and self.num_samples > len(data_source):
            raise errors.bad(
                "RandomSampler(num_samples)",
                f"at most {len(data_source)}, the number of samples, without replacement",
                num_samples,
            )

    @property
    def num_samples(self) -> int:
        """Number of indices that are drawn."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        if hasattr(self.generator, "__next__"):
            for _, index in zip(range(self.num_samples), self.generator, strict=False):
                yield index
        else:
            yield from (
                draws(self.generator).choice(len(self.data_source), self.num_samples, replace=self.replacement).tolist()
            )

    def __len__(self) -> int:
        return self.num_samples


class WeightedRandomSampler(Sampler):
    """Sampler that draws indices with probabilities in proportion to the given weights.

    Args:
        weights: Non-negative weights, one for each sample: a tensor, an array or a list. With two dimensions, indices
            are drawn from each row in turn.
        num_samples: Number of indices to draw (from each row).
        replacement: Draw with replacement. Default: True.

    Examples:
        >>> list(bireme.io.WeightedRandomSampler([0.0, 1.0, 0.0], 3))
        [1, 1, 1]
    """

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True) -> None:
        if not isinstance(num_samples, int) or num_samples <= 0:
            raise errors.bad(
                "WeightedRandomSampler(num_samples)",
                "a positive integer",
                num_samples,
                kind=errors.for_integer(num_samples),
            )
        if not isinstance(replacement, bool):
            raise errors.bad("WeightedRandomSampler(replacement)", "True or False", replacement)
        super().__init__()
        self.weights, self.num_samples, self.replacement = weights, num_samples, replacement

    def _rows(self) -> np.ndarray:
        where, rows = "WeightedRandomSampler(weights)", self.weights
        if isinstance(rows, Tensor):
            rows = rows.numpy()
        if not isinstance(rows, (np.ndarray, list, tuple)):
            raise errors.bad(where, "a Tensor, an array or a list", rows, kind=errors.ArgumentError)
        rows = np.asarray(rows)
        if not 1 <= rows.ndim <= 2:
            raise errors.bad(where, "a 1-D or 2-D array", rows, kind=errors.ArgumentError)
        rows = rows.reshape(-1, rows.shape[-1]).astype(np.float64)
        if not np.all(np.isfinite(rows) & (rows >= 0)):
            raise errors.bad(where, "finite non-negative numbers", rows.tolist(), kind=errors.ArgumentError)
        fewest, needed = int(np.min(np.sum(rows > 0, axis=1))), 1 if self.replacement else self.num_samples
        if fewest < needed:
            raise errors.bad(
                where, f"at least {needed} positive weights in each row", fewest, kind=errors.ArgumentError
            )
        return rows / rows.sum(axis=1, keepdims=True)

    def __iter__(self) -> Iterator[int]:
        source = draws()
        found = [source.choice(len(row), self.num_samples, self.replacement, row) for row in self._rows()]
        return iter(np.concatenate(found).tolist())

    def __len__(self) -> int:
        shape = np.shape(self.weights) if isinstance(self.weights, (list, tuple)) else self.weights.shape
        return self.num_samples * math.prod(shape[:-1])


class SubsetRandomSampler(Sampler):
    """Sampler that returns the given indices in random order.

    Args:
        indices: The indices.

    Examples:
        >>> sorted(bireme.io.SubsetRandomSampler([5, 3, 8]))
        [3, 5, 8]
    """

    def __init__(self, indices: Sequence[int]) -> None:
        if len(indices) == 0:
            raise errors.bad("SubsetRandomSampler(indices)", "at least one index", indices)
        super().__init__()
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        for at in draws().permutation(len(self.indices)).tolist():
            yield self.indices[at]

    def __len__(self) -> int:
        return len(self.indices)
