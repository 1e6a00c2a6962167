"""NumPy for the interpreter: its reductions without the layers of Python that `np.sum` and its kin go through, and
what NumPy does element by element at the speed of arithmetic.
"""

from __future__ import annotations

import math
import types
from typing import Any

import numpy as np

from bireme.core.numpy_exec import exponentials, limits, masks

# ufuncs' own reductions, which take everything by position
_add: Any = np.add.reduce
_most: Any = np.maximum.reduce
_least: Any = np.minimum.reduce
_some: Any = np.logical_or.reduce
_every: Any = np.logical_and.reduce
_mean: Any = np.mean  # the stubs of some versions refuse these arguments

MAX_FILLED = 4096  # elements


class _Numerics(types.ModuleType):
    """NumPy's names; those below come first."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        setattr(self, name, found)
        return found

    @staticmethod
    def sum(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return _add(a, axis, dtype, None, keepdims)

    @staticmethod
    def max(a: Any, axis: Any = None, keepdims: bool = False, **initial: Any) -> Any:
        return _most(a, axis, None, None, keepdims, **initial)

    @staticmethod
    def min(a: Any, axis: Any = None, keepdims: bool = False, **initial: Any) -> Any:
        return _least(a, axis, None, None, keepdims, **initial)

    @staticmethod
    def any(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return _some(a, axis, None, None, keepdims)

    @staticmethod
    def all(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return _every(a, axis, None, None, keepdims)

    @staticmethod
    def mean(a: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        """Without a warning where there is nothing to average; half precision and integers as NumPy does it."""
        if dtype is not None or a.dtype.kind not in "fc" or a.dtype.itemsize < 4:
            return _mean(a, axis=axis, keepdims=keepdims, dtype=dtype)
        axes = range(a.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        return _add(a, axis, None, None, keepdims) / np.asarray(math.prod([a.shape[i] for i in axes]), a.real.dtype)

    @staticmethod
    def logaddexp(x: Any, y: Any) -> Any:
        return exponentials.logaddexp(x, y)

    @staticmethod
    def maximum(x: Any, y: Any) -> Any:
        return limits.maximum(x, y)

    @staticmethod
    def minimum(x: Any, y: Any) -> Any:
        return limits.minimum(x, y)

    @staticmethod
    def where(mask: Any, x: Any, y: Any) -> Any:
        return masks.chosen(mask, x, y)

    @staticmethod
    def expand_dims(a: Any, axis: Any) -> Any:
        if axis.__class__ is not int:
            return np.expand_dims(a, axis)
        shape = list(a.shape)
        shape.insert(axis + (axis < 0) * (a.ndim + 1), 1)
        return a.reshape(shape)

    @staticmethod
    def broadcast_to(a: Any, shape: Any) -> Any:
        """A small one is filled in, which is faster than NumPy's search for strides."""
        if math.prod(shape) > MAX_FILLED or a.__class__ is not np.ndarray:
            return np.broadcast_to(a, shape)
        out = np.empty(shape, a.dtype)
        out[...] = a
        return out


numerics: Any = _Numerics("numerics")
