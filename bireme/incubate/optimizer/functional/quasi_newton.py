"""BFGS with the whole inverse Hessian, and L-BFGS with the last differences of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.tensor.grad_mode import enable_grad, no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.ops import eye, matmul, to_tensor
from bireme.optimizer.line_search import Point, strong_wolfe


class _Whole:
    """Estimate of the inverse Hessian as a matrix."""

    def __init__(self, start: Tensor):
        self.matrix = start

    def direction(self, grad: Tensor) -> Tensor:
        return -matmul(self.matrix, grad)

    def learn(self, s: Tensor, y: Tensor) -> None:
        both = (s * y).sum()
        if float(both) <= 0:
            return
        turn = eye(len(s), dtype=s.dtype) - s.unsqueeze(1) * y.unsqueeze(0) / both
        self.matrix = matmul(matmul(turn, self.matrix), turn, transpose_y=True) + s.unsqueeze(1) * s.unsqueeze(0) / both


class _Limited:
    """The same estimate from the last ``size`` pairs of differences, without the matrix."""

    def __init__(self, start: Tensor, size: int):
        self.start, self.size = start, size
        self.pairs: list[tuple[Tensor, Tensor, Tensor]] = []
        self.scale: Tensor | float = 1.0

    def direction(self, grad: Tensor) -> Tensor:
        q, factors = -grad, []
        for s, y, both in reversed(self.pairs):
            factors.append((s * q).sum() / both)
            q = q - y * factors[-1]
        r = matmul(self.start, q) * self.scale
        for (s, y, both), factor in zip(self.pairs, reversed(factors)):
            r = r + s * (factor - (y * r).sum() / both)
        return r

    def learn(self, s: Tensor, y: Tensor) -> None:
        both = (s * y).sum()
        if float(both) <= 0:
            return
        self.pairs = [*self.pairs, (s, y, both)][-self.size :]
        self.scale = both / (y * y).sum()


def minimize_bfgs(
    objective_func: Callable[[Tensor], Tensor],
    initial_position: Tensor,
    max_iters: int = 50,
    tolerance_grad: float = 1e-07,
    tolerance_change: float = 1e-09,
    initial_inverse_hessian_estimate: Tensor | None = None,
    line_search_fn: str = "strong_wolfe",
    max_line_search_iters: int = 50,
    initial_step_length: float = 1.0,
    dtype: str = "float32",
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Minimize a function of a vector by BFGS.

    Args:
        objective_func: Function that takes a vector and returns a scalar tensor.
        initial_position: The vector to start from.
        max_iters: Largest number of iterations. Default: 50.
        tolerance_grad: Stop when the largest element of the gradient is at most this. Default: 1e-07.
        tolerance_change: Stop when the largest change of an element is at most this. Default: 1e-09.
        initial_inverse_hessian_estimate: Symmetric positive definite matrix. Default: None, the identity.
        line_search_fn: Must be ``"strong_wolfe"``.
        max_line_search_iters: Largest number of iterations of a line search. Default: 50.
        initial_step_length: Step length that each line search begins with. Default: 1.0.
        dtype: ``"float32"`` or ``"float64"``. Default: ``"float32"``.
        name: Has no effect.

    Returns:
        A tuple of six tensors: whether it converged, the number of evaluations, the position, the value, the gradient
        and the estimate of the inverse Hessian.

    Examples:
        >>> minimize = bireme.incubate.optimizer.functional.minimize_bfgs
        >>> found = minimize(lambda x: ((x - 2.0) ** 2).sum(), bireme.zeros([2]))
        >>> found[0].item(), found[2].tolist()
        (True, [2.0, 2.0])
    """
    where = "minimize_bfgs"
    start, matrix = _begin(where, initial_position, initial_inverse_hessian_estimate, line_search_fn, dtype)
    known = _Whole(matrix)
    limits = max_iters, tolerance_grad, tolerance_change, max_line_search_iters, initial_step_length
    return (*_minimize(objective_func, start, known, *limits), known.matrix)


def minimize_lbfgs(
    objective_func: Callable[[Tensor], Tensor],
    initial_position: Tensor,
    history_size: int = 100,
    max_iters: int = 50,
    tolerance_grad: float = 1e-08,
    tolerance_change: float = 1e-08,
    initial_inverse_hessian_estimate: Tensor | None = None,
    line_search_fn: str = "strong_wolfe",
    max_line_search_iters: int = 50,
    initial_step_length: float = 1.0,
    dtype: str = "float32",
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Minimize a function of a vector by L-BFGS.

    Args:
        objective_func: Function that takes a vector and returns a scalar tensor.
        initial_position: The vector to start from.
        history_size: Number of past gradients that are kept. Default: 100.
        max_iters: Largest number of iterations. Default: 50.
        tolerance_grad: Stop when the largest element of the gradient is at most this. Default: 1e-08.
        tolerance_change: Stop when the largest change of an element is at most this. Default: 1e-08.
        initial_inverse_hessian_estimate: Symmetric positive definite matrix. Default: None, the identity.
        line_search_fn: Must be ``"strong_wolfe"``.
        max_line_search_iters: Largest number of iterations of a line search. Default: 50.
        initial_step_length: Step length that each line search begins with. Default: 1.0.
        dtype: ``"float32"`` or ``"float64"``. Default: ``"float32"``.
        name: Has no effect.

    Returns:
        A tuple of five tensors: whether it converged, the number of evaluations, the position, the value and the
        gradient.

    Examples:
        >>> minimize = bireme.incubate.optimizer.functional.minimize_lbfgs
        >>> found = minimize(lambda x: ((x - 2.0) ** 2).sum(), bireme.zeros([2]))
        >>> found[0].item(), found[2].tolist()
        (True, [2.0, 2.0])
    """
    where = "minimize_lbfgs"
    start, matrix = _begin(where, initial_position, initial_inverse_hessian_estimate, line_search_fn, dtype)
    limits = max_iters, tolerance_grad, tolerance_change, max_line_search_iters, initial_step_length
    return _minimize(objective_func, start, _Limited(matrix, history_size), *limits)


def _begin(where: str, position: Any, estimate: Any, line_search: str, dtype: str) -> tuple[Tensor, Tensor]:
    if dtype not in ("float32", "float64"):
        raise errors.bad(f"{where}(dtype)", "'float32' or 'float64'", dtype)
    if line_search != "strong_wolfe":
        raise errors.bad(f"{where}(line_search_fn)", "'strong_wolfe'", line_search, kind=NotImplementedError)
    if not isinstance(position, Tensor):
        raise errors.bad(f"{where}(initial_position)", "a Tensor", position, kind=errors.NotATensorError)
    if position.ndim != 1:
        raise errors.bad(
            f"{where}(initial_position)", "a vector", described=f"shape {position.shape}", kind=errors.ShapeError
        )
    start, kind = position.detach().astype(dtype), dtypes.of(dtype)
    if estimate is None:
        return start, eye(len(start), dtype=kind)
    host = estimate.numpy()
    symmetric = host.shape == (len(start),) * 2 and np.allclose(host, host.T)
    if not symmetric or (np.linalg.eigvalsh(host) <= 0).any():
        expected = "a symmetric matrix with positive eigenvalues"
        raise errors.bad(f"{where}(initial_inverse_hessian_estimate)", expected, estimate)
    return start, estimate.detach().astype(kind)


@no_grad()
def _minimize(
    function: Callable[[Tensor], Tensor],
    place: Tensor,
    known: _Whole | _Limited,
    most: int,
    flat: float,
    small: float,
    searches: int,
    first: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    value, grad = _at(function, place)
    calls, converged = 1, False
    for _ in range(most):
        converged = float(grad.abs().max()) <= flat
        if converged:
            break
        direction = known.direction(grad)

        def evaluate(step: float, place: Tensor = place, direction: Tensor = direction) -> Point:
            there, slope = _at(function, place + direction * step)
            return Point(step, float(there), slope, float((slope * direction).sum()))

        begin = Point(0.0, float(value), grad, float((grad * direction).sum()))
        found, more = strong_wolfe(evaluate, begin, first, float(direction.abs().max()), most=searches)
        calls += more
        change = direction * found.step
        known.learn(change, found.grad - grad)
        place, value, grad = place + change, to_tensor(found.loss, dtype=place.dtype), found.grad
        converged = float(grad.abs().max()) <= flat
        if converged or float(change.abs().max()) <= small:
            converged = True
            break
    return to_tensor([converged]), to_tensor([calls], dtype="int64"), place, value, grad


def _at(function: Callable[[Tensor], Tensor], place: Tensor) -> tuple[Tensor, Tensor]:
    x = place.detach().clone()
    x.stop_gradient = False
    with enable_grad():
        value = function(x)
        value.backward()
    assert x.grad is not None
    return value.detach().reshape([]), x.grad.detach()
