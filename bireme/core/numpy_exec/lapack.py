"""LAPACK on NumPy arrays, for the interpreter: where it gives up the results are NaN, as XLA has them.

Vectors come from SciPy, whose library XLA calls on CPU too: NumPy has one of its own, and signs would differ between
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base.later import linalg


def by_matrix(f: Callable, *stacks: np.ndarray) -> Any:
    """A NumPy function of stacks of matrices; where it raises, the results are NaN, as XLA has them."""
    try:
        return f(*stacks)
    except np.linalg.LinAlgError:
        if stacks[0].ndim == 2:
            found = f(*[np.eye(*s.shape, dtype=s.dtype) for s in stacks])  # whose results have the right shapes
            return (
                tuple([np.full_like(x, np.nan) for x in found])
                if isinstance(found, tuple)
                else np.full_like(found, np.nan)
            )
        each = [by_matrix(f, *parts) for parts in zip(*stacks)]
        return tuple(map(np.stack, zip(*each))) if isinstance(each[0], tuple) else np.stack(each)


def one_by_one(f: Callable) -> Callable:
    """A function of one matrix on stacks of them."""

    def call(x: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(f(x)) if x.ndim == 2 else tuple(map(np.stack, zip(*map(call, x))))

    return call


def svd(x: np.ndarray, full: bool) -> tuple[np.ndarray, ...]:
    if x.size == 0:
        return tuple(np.linalg.svd(x, full))

    def svd(a: np.ndarray) -> Any:
        if np.isnan(a).any():
            raise np.linalg.LinAlgError("LAPACK takes no NaN")
        return linalg.svd(a, full, check_finite=False)

    return by_matrix(one_by_one(svd), x)


def eigh(x: np.ndarray, lower: bool) -> tuple[np.ndarray, ...]:
    if x.size == 0:
        return tuple(np.linalg.eigh(x))
    return by_matrix(one_by_one(lambda a: linalg.eigh(a, lower=lower, driver="evd", check_finite=False)), x)


def eig(x: np.ndarray) -> tuple[np.ndarray, ...]:
    def eig(a: np.ndarray) -> Any:
        if not np.isfinite(a).all():
            raise np.linalg.LinAlgError("LAPACK may not come back from these")
        return linalg.eig(a, check_finite=False)

    return tuple(np.linalg.eig(x)) if x.size == 0 else by_matrix(one_by_one(eig), x)


def qr(x: np.ndarray, full: bool) -> tuple[np.ndarray, ...]:
    return tuple(np.linalg.qr(x, "complete" if full else "reduced"))


def cholesky(x: np.ndarray) -> np.ndarray:
    return by_matrix(np.linalg.cholesky, x)


def getrf(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Packed factors, row swaps from 0, and the first zero pivot from 1 or 0."""
    if x.ndim > 2:
        if len(x) == 0:
            return x, np.zeros((*x.shape[:-2], min(x.shape[-2:])), np.int32), np.zeros(x.shape[:-2], np.int32)
        return tuple(map(np.stack, zip(*map(getrf, x))))
    if x.size == 0:
        return x, np.zeros(0, np.int32), np.zeros((), np.int32)
    (factor,) = linalg.get_lapack_funcs(("getrf",), (x,))
    lu, pivots, info = factor(x)
    return lu, np.asarray(pivots, np.int32), np.asarray(info, np.int32)


def swaps_to_order(pivots: np.ndarray, n: int) -> np.ndarray:
    """Which row stands where after the swaps: `x[order]` is `x` with them applied; on NumPy arrays."""
    order = np.broadcast_to(np.arange(n, dtype=np.int32), (*pivots.shape[:-1], n)).copy()
    for i in range(pivots.shape[-1]):
        other = pivots[..., i : i + 1]
        here, there = order[..., i : i + 1].copy(), np.take_along_axis(order, other, -1)
        np.put_along_axis(order, other, here, -1)
        order[..., i : i + 1] = there
    return order


def lu(x: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lu, pivots, _ = getrf(x)
    return lu, pivots, swaps_to_order(pivots, x.shape[-2])


def triangular_solve(a: Any, b: Any, left: bool, lower: bool, trans: int, unit: bool) -> np.ndarray:
    """Solve with triangular matrices, their transposes (`trans` 1) or adjoints (2), on the left or the right; no zero
    is refused.
    """
    if b.size == 0:
        return b
    if a.ndim > 2:
        return np.stack([triangular_solve(x, y, left, lower, trans, unit) for x, y in zip(a, b)])
    (solve,) = linalg.get_blas_funcs(("trsm",), (a, b))
    return solve(1, a, b, side=not left, lower=lower, trans_a=trans, diag=unit)
