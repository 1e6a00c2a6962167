"""Samples become a batch: fields are stacked, containers keep their shape."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.ops import stack as stack_tensors

Stack = Callable[[Sequence[np.ndarray]], np.ndarray]

_WHERE = "default_collate_fn(batch)"
_TYPE = errors.ArgumentTypeError
_SAMPLES = "samples of arrays, tensors, numbers, strings, dicts and lists"


def stack_arrays(arrays: Sequence[np.ndarray], empty: Callable[..., np.ndarray] = np.empty) -> np.ndarray:
    """Stack arrays along a new first axis, in memory that ``empty`` allocates."""
    first = arrays[0]
    shape, dtype = first.shape, first.dtype
    for i, a in enumerate(arrays):
        if a.shape != shape:
            raise errors.bad(
                _WHERE,
                "samples of one shape",
                described=f"shapes {list(shape)} (sample 0) and {list(a.shape)} (sample {i})",
                hint="pad them to one shape in a collate_fn",
                kind=errors.ShapeError,
            )
        if a.dtype != dtype:
            return np.stack(arrays)
    # one copy each, which for many small arrays is several times faster than np.stack
    out = empty((len(arrays), *shape), dtype)
    for i, a in enumerate(arrays):
        out[i] = a
    return out


def default_collate_fn(batch: Sequence[Any], stack: Stack | None = None) -> Any:
    """Make a batch of a list of samples.

    Arrays, numbers and tensors are stacked field by field; dicts stay dicts, other sequences become lists, text stays a
    list of strings.

    Args:
        batch: The samples.
        stack: Function that stacks a list of arrays. Default: None, NumPy arrays are stacked in new memory and tensors
            by ``bireme.stack``.

    Returns:
        The batch, with a new first axis in each array or tensor.

    Examples:
        >>> bireme.io.collate.default_collate_fn([{"x": 1, "name": "a"}, {"x": 2, "name": "b"}])
        {'x': array([1, 2]), 'name': ['a', 'b']}
    """
    sample = batch[0]
    if any(s is None for s in batch):
        number = next(i for i, s in enumerate(batch) if s is None)
        raise errors.bad(_WHERE, _SAMPLES, described=f"None (sample {number})", kind=errors.ArgumentTypeError)
    if isinstance(sample, np.ndarray):
        return (stack or stack_arrays)(batch)
    if isinstance(sample, Tensor):
        # a custom collate_fn that calls this gets a tensor; the loader passes `stack` and converts a batch later
        if stack is None or (
            stack is stack_arrays and not all(t.stop_gradient and t.place.is_cpu_place() for t in batch)
        ):
            return stack_tensors(list(batch), 0)
        return stack([t._host() for t in batch])
    if isinstance(sample, (numbers.Number, np.generic)):
        for i, s in enumerate(batch):
            if not isinstance(s, (numbers.Number, np.generic)) and getattr(s, "ndim", None) != 0:
                raise errors.bad(
                    _WHERE, "numbers, as sample 0 is", described=f"{errors.show(s)} (sample {i})", kind=_TYPE
                )
        return np.array(batch)
    if isinstance(sample, (str, bytes)):
        return batch
    if isinstance(sample, Mapping):
        return {key: default_collate_fn([d[key] for d in batch], stack) for key in sample}
    if isinstance(sample, Sequence):
        if any(len(s) != len(sample) for s in batch):
            found = f"samples of {' and '.join(map(str, sorted({len(s) for s in batch})))} fields"
            raise errors.bad(_WHERE, "samples with equal numbers of fields", described=found, kind=RuntimeError)
        return [default_collate_fn(list(fields), stack) for fields in zip(*batch, strict=True)]
    raise errors.bad(_WHERE, _SAMPLES, sample, kind=errors.ArgumentTypeError)


def default_convert_fn(batch: Any) -> Any:
    """Return a single sample with its containers as lists and dicts: used where there are no batches.

    Args:
        batch: The sample.

    Returns:
        The sample.

    Examples:
        >>> bireme.io.collate.default_convert_fn((1, {"x": 2}))
        [1, {'x': 2}]
    """
    if isinstance(batch, Mapping):
        return {key: default_convert_fn(value) for key, value in batch.items()}
    if isinstance(batch, Sequence) and not isinstance(batch, (str, bytes)):
        return [default_convert_fn(value) for value in batch]
    return batch


def mapped(function: Callable[[Any], Any], batch: Any, kinds: Any = (np.ndarray, Tensor)) -> Any:
    """Apply ``function`` to all arrays and tensors (or ``kinds``) of a batch; containers become lists and dicts."""
    if isinstance(batch, kinds):
        return function(batch)
    if isinstance(batch, (str, bytes, numbers.Number)):
        return batch
    if isinstance(batch, Mapping):
        return {key: mapped(function, value, kinds) for key, value in batch.items()}
    if isinstance(batch, Sequence):
        return [mapped(function, value, kinds) for value in batch]
    return batch
