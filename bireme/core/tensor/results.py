"""Named tuples of tensors, which some functions return."""

from __future__ import annotations

from typing import NamedTuple

from bireme.core.tensor.tensor import Tensor


class ValuesAndIndices(NamedTuple):
    """Elements and their indices along an axis."""

    values: Tensor
    indices: Tensor


class TopKRetType(ValuesAndIndices):
    """The result of `topk`."""


class SortRetType(ValuesAndIndices):
    """The result of `compat.sort`."""


class MedianRetType(ValuesAndIndices):
    """The result of `compat.median` along an axis."""


class MinMaxRetType(ValuesAndIndices):
    """The result of `compat.min` and `compat.max` along an axis."""
