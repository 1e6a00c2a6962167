"""What distributions are given: parameters as tensors of one dtype and one shape, values to evaluate, shapes of samples."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import DType
from bireme.core.tensor.tensor import Tensor
from bireme.ops import cast, exp, expand, full_like, log, maximum, ones_like, sum, to_tensor, where, zeros_like

NUMERIC = "a number, a list, an array or a tensor of numbers"


def parameters(owner: str, *, wide: bool = True, complex: bool = False, **given: Any) -> list[Tensor]:
    """The parameters of a distribution, in one floating-point dtype and the shape that they broadcast to.

    The dtype is that of the tensors among them; else float64 arrays make it float64 where they are taken as they are
    (`wide`), and all else is of the default dtype.
    """
    for name, value in given.items():
        if not isinstance(value, (Number, list, tuple, np.ndarray, Tensor)):
            raise errors.bad(f"{owner}({name})", NUMERIC, value, kind=errors.ArgumentTypeError)
    arrays = {name: value if isinstance(value, Tensor) else np.asarray(value) for name, value in given.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in ("biufc" if complex else "biuf"):
            raise errors.bad(f"{owner}({name})", NUMERIC, given[name], kind=errors.ArgumentTypeError)
    dtype = _common(arrays, given, wide)
    tensors = [_tensor(value, dtype) for value in arrays.values()]
    return broadcast(owner, dict(zip(given, tensors)))


def _common(arrays: dict[str, Any], given: dict[str, Any], wide: bool) -> DType:
    floating = [
        a.dtype for a in arrays.values() if isinstance(a, Tensor) and (a.dtype.is_floating or a.dtype.is_complex)
    ]
    if floating:
        real = [_real(d) for d in floating]
        return dtypes.float64 if dtypes.float64 in real else dtypes.float32 if dtypes.float32 in real else real[0]
    doubles = [
        n for n, a in arrays.items() if isinstance(given[n], np.ndarray) and a.dtype in (np.float64, np.complex128)
    ]
    return dtypes.float64 if wide and doubles else dtypes.get_default()


def _real(dtype: DType) -> DType:
    return {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}.get(dtype, dtype)


def _tensor(value: Any, dtype: DType) -> Tensor:
    if isinstance(value, Tensor):
        wanted = as_complex_dtype(dtype) if value.dtype.is_complex else dtype
        return value if value.dtype == wanted else cast(value, wanted)
    return to_tensor(value, dtype=as_complex_dtype(dtype) if value.dtype.kind == "c" else dtype)


def as_complex_dtype(dtype: DType) -> DType:
    """The complex dtype whose parts are of this one."""
    return dtypes.complex128 if dtype == dtypes.float64 else dtypes.complex64


def broadcast(owner: str, tensors: dict[str, Tensor]) -> list[Tensor]:
    """The tensors in the shape that they broadcast to."""
    try:
        shape = np.broadcast_shapes(*(tuple(t.shape) for t in tensors.values()))
    except ValueError:
        shapes = " and ".join(str(list(t.shape)) for t in tensors.values())
        names = ", ".join(tensors)
        raise errors.bad(
            f"{owner}({names})", "shapes that broadcast", described=shapes, kind=errors.ShapeError
        ) from None
    return [t if tuple(t.shape) == shape else expand(t, shape) for t in tensors.values()]


def tensor(where: str, value: Any, dtype: DType) -> Tensor:
    """What a distribution is evaluated at: a tensor, or numbers, in the dtype of its parameters."""
    if isinstance(value, Tensor):
        return value if value.dtype == dtype else cast(value, dtype)
    if isinstance(value, (Number, list, tuple, np.ndarray)) and np.asarray(value).dtype.kind in "biufc":
        return to_tensor(np.asarray(value), dtype=dtype)
    raise errors.bad(where, "a Tensor", value, kind=errors.NotATensorError)


def sizes(where: str, shape: Any) -> tuple[int, ...]:
    """A shape as a tuple."""
    wrong = isinstance(shape, str) or not isinstance(shape, (Sequence, np.ndarray, Tensor))
    listed = [] if wrong else shape.tolist() if isinstance(shape, (np.ndarray, Tensor)) else list(shape)
    if wrong or not isinstance(listed, list) or not all(hasattr(n, "__index__") for n in listed):
        raise errors.bad(where, "a list of integers", shape, kind=errors.ArgumentTypeError)
    return tuple(int(n) for n in listed)


def xlogy(x: Tensor, y: Tensor) -> Tensor:
    """`x log(y)`, which is 0 where `x` is, whatever `y`: so are its gradients."""
    none = x == 0
    return where(none, zeros_like(y), x * log(where(none, ones_like(y), y)))


def plogp(log_p: Tensor) -> Tensor:
    """`p log(p)` from the logarithm, which may be infinite."""
    log_p = maximum(log_p, full_like(log_p, -1e4))
    return exp(log_p) * log_p


def sum_last(x: Tensor, n: int) -> Tensor:
    """The sum over the last `n` axes."""
    return sum(x, list(range(-n, 0))) if n > 0 else x
