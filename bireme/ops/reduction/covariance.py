"""Covariances and correlations of variables."""

from __future__ import annotations

import numbers

import numpy as np

from bireme.core.base import errors
from bireme.core.declare.op import Attr, Tensor, composite
from bireme.core.record import guards
from bireme.core.tensor.tensor import read
from bireme.ops._shared.matrix import turned
from bireme.ops.linalg.einsum import einsum_of
from bireme.ops.linalg.matmul import matmul
from bireme.ops.math import logic
from bireme.ops.reduction import reductions


def _weights(argument: str, weights: Tensor, x: Tensor, n: int) -> Tensor:
    """Weights in the dtype of `x`, non-negative, and counts integers."""
    if weights.ndim != 1 or weights.shape[0] != n:
        raise errors.bad(f"cov({argument})", f"{n} weights, one for each observation", described=f"shape {weights.shape}", kind=errors.ShapeError)
    whole = argument == "fweights" and weights.dtype.is_floating
    plain, value = weights.detach(), read(weights)
    guards.require(
        value,
        f"cov({argument})",
        "non-negative weights",
        host=lambda array: bool((array < 0).any()),
        device=lambda: reductions.any(plain < 0),
        got="a negative number",
    )
    if whole:
        guards.require(
            value,
            "cov(fweights)",
            "integers",
            host=lambda array: bool((array != np.floor(array)).any()),
            device=lambda: reductions.any(logic.not_equal(plain, plain.floor())),
            got="a fraction",
        )
    return weights.astype(x.dtype)


@composite(method=True)
def cov(x: Tensor, rowvar: bool = True, ddof: Attr[bool] = True, fweights: Tensor | None = None,
        aweights: Tensor | None = None) -> Tensor:  # fmt: skip
    """Covariance matrix of variables, from observations of them.

    Args:
        x: Observations, a floating-point or complex tensor: a matrix of variables by observations, or a vector for a
            single variable.
        rowvar: Whether each row is a variable; otherwise each column is. Default: True.
        ddof: What the divisor is smaller by than the number of observations; ``True`` means 1 and ``False`` means 0.
            Default: True.
        fweights: How often each observation counts, a 1-D tensor of non-negative integers. Default: None.
        aweights: Relative weight of each observation, a 1-D tensor of non-negative numbers. Default: None.

    Returns:
        Square matrix with one row for each variable; a 0-D tensor for a single variable.

    Raises:
        ValueError: If ``x`` does not have one or two axes, or weights are negative or do not match the observations.

    Examples:
        >>> bireme.linalg.cov(bireme.to_tensor([[1.0, 3.0], [2.0, 8.0]])).tolist()
        [[2.0, 6.0], [6.0, 18.0]]
    """
    if x.ndim not in (1, 2):
        raise errors.bad("cov(x)", "a 1-D or 2-D tensor", described=f"shape {x.shape}", kind=errors.ShapeError)
    if not x.dtype.is_inexact:
        raise errors.bad("cov(x)", "a floating-point or complex dtype", described=x.dtype.name, kind=errors.DtypeError)
    if not isinstance(ddof, numbers.Real):
        raise errors.bad("cov(ddof)", "a bool or a number", ddof, kind=errors.ArgumentTypeError)
    if x.ndim == 1:
        x = x.unsqueeze(0)
    elif not rowvar and x.shape[0] != 1:
        x = turned(x)
    kind, x, n = x.dtype, reductions.single(x), x.shape[1]
    counts = None if fweights is None else _weights("fweights", fweights, x, n)
    importance = None if aweights is None else _weights("aweights", aweights, x, n)
    weights = importance if counts is None else counts if importance is None else counts * importance
    if weights is None:
        mean = reductions.sum(x, 1, keepdim=True) / n
        total: Tensor | float = max(n - ddof, 0)
    else:
        count = reductions.sum(weights)
        mean = reductions.sum(x * weights, 1, keepdim=True) / count
        lost = 1 if importance is None else reductions.sum(weights * importance) / count
        total = count - lost * ddof if ddof else count
    away = x - mean
    other = away.conj() if x.dtype.is_complex else away
    found = matmul(away, turned(other if weights is None else other * weights)) / total
    return (found.reshape([]) if x.shape[0] == 1 else found).astype(kind)


@composite(method=True)
def corrcoef(x: Tensor, rowvar: bool = True) -> Tensor:
    """Matrix of the Pearson correlation coefficients of variables, from observations of them.

    Args:
        x: Observations, a floating-point or complex tensor: a matrix of variables by observations, or a vector for a
            single variable.
        rowvar: Whether each row is a variable; otherwise each column is. Default: True.

    Returns:
        Square matrix with one row for each variable, of numbers in ``[-1, 1]`` if they are real; a 0-D tensor for a
        single variable.

    Examples:
        >>> bireme.linalg.corrcoef(bireme.to_tensor([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]])).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    if x.ndim not in (1, 2):
        raise errors.bad("corrcoef(x)", "a 1-D or 2-D tensor", described=f"shape {x.shape}", kind=errors.ShapeError)
    found = cov(x, rowvar)
    if found.ndim == 0:
        return found / found
    deviation = einsum_of([found], ((0, 0),), (0,)).sqrt()
    out = found / deviation.unsqueeze(-1) / deviation.unsqueeze(0)
    return out if x.dtype.is_complex else out.clip(-1, 1)  # rounding may lead beyond
