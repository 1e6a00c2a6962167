"""Tensors with sequences, as Paddle's older programs are fed with."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.static.dense_tensor import DenseTensor

__all__ = ["create_lod_tensor", "create_random_int_lodtensor"]


def create_lod_tensor(data: Any, recursive_seq_lens: Any, place: Any) -> DenseTensor:
    """Return values whose rows belong to sequences.

    Args:
        data: An array, a ``DenseTensor``, or a list of sequences of integers, each of which becomes a row.
        recursive_seq_lens: Lists of lengths, one for each level, outermost first.
        place: Device.

    Returns:
        A ``DenseTensor``, to be fed to a program.

    Raises:
        ValueError: If the lengths do not fit the rows.

    Examples:
        >>> import numpy as np
        >>> t = bireme.base.create_lod_tensor(np.ones([5, 2], "float32"), [[2, 3]], bireme.CPUPlace())
        >>> t.shape(), t.lod()
        ([5, 2], [[0, 2, 5]])
    """
    made = DenseTensor()
    if isinstance(data, list):
        lengths = [len(row) for row in data]
        if lengths != list(recursive_seq_lens[-1]):
            raise errors.bad("create_lod_tensor(recursive_seq_lens)", f"{lengths}, as in data", recursive_seq_lens[-1])
        made.set(np.concatenate([np.asarray(row).reshape(len(row), -1) for row in data]), place)
    elif isinstance(data, (np.ndarray, DenseTensor)):
        made.set(np.asarray(data), place)
    else:
        raise errors.bad(
            "create_lod_tensor(data)", "an array, a DenseTensor or a list", data, kind=errors.ArgumentTypeError
        )
    made.set_recursive_sequence_lengths(recursive_seq_lens)
    return made


def create_random_int_lodtensor(
    recursive_seq_lens: Any, base_shape: Any, place: Any, low: int, high: int
) -> DenseTensor:
    """Return random integers whose rows belong to sequences.

    Args:
        recursive_seq_lens: Lists of lengths, one for each level, outermost first.
        base_shape: Shape of a row.
        place: Device.
        low: Least integer.
        high: Largest integer.

    Returns:
        A ``DenseTensor`` of int64.

    Examples:
        >>> bireme.base.create_random_int_lodtensor([[2, 3]], [4], bireme.CPUPlace(), 0, 5).shape()
        [5, 4]
    """
    rows = sum(recursive_seq_lens[-1])
    values = np.random.randint(low, high + 1, [rows, *base_shape])  # noqa: NPY002  # what np.random.seed decides
    return create_lod_tensor(values, recursive_seq_lens, place)


guard_functions(globals())
