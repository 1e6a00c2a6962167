"""Derivatives of functions of tensors: `vjp` in reverse mode, `jvp` in forward mode, lazy Jacobians and Hessians."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from bireme.autograd import derivative
from bireme.core.base import errors
from bireme.core.tensor import backward, grad_mode
from bireme.core.tensor.tensor import Tensor, read, wrap
from bireme.ops import clone, concat, ones_like, reshape, zeros_like

Tensors = Tensor | Sequence[Tensor]


def vjp(func: Callable, xs: Tensors, v: Tensors | None = None) -> tuple[Any, Any]:
    """Compute a function and its vector-Jacobian product, in reverse mode.

    Args:
        func: Function of tensors that returns a tensor or a tuple of them.
        xs: Tensor or sequence of tensors, the arguments of ``func``.
        v: Vector to multiply with from the left, in the shape of the results. Default: None, ones.

    Returns:
        The tuple of ``func(*xs)`` and the product, in the form of ``xs``.

    Examples:
        >>> x = bireme.to_tensor([1.0, 2.0])
        >>> bireme.incubate.autograd.vjp(lambda x: x * x, x, bireme.to_tensor([1.0, 10.0]))[1].tolist()
        [2.0, 40.0]
    """
    inputs, ys, outputs = _called("vjp", func, xs)
    seeds = _directions("vjp", v, outputs)
    found = backward.grad(outputs, inputs, seeds, retain_graph=True, create_graph=True, allow_unused=True)
    return ys, _as(xs, [zeros_like(x) if g is None else g for g, x in zip(found, inputs)])


def jvp(func: Callable, xs: Tensors, v: Tensors | None = None) -> tuple[Any, Any]:
    """Compute a function and its Jacobian-vector product, in forward mode.

    Args:
        func: Function of tensors that returns a tensor or a tuple of them.
        xs: Tensor or sequence of tensors, the arguments of ``func``.
        v: Vector to multiply with from the right, in the shape of ``xs``. Default: None, ones.

    Returns:
        The tuple of ``func(*xs)`` and the product, in the form of the results.

    Examples:
        >>> x = bireme.to_tensor([1.0, 2.0])
        >>> bireme.incubate.autograd.jvp(lambda x: (x * x).sum(), x, bireme.to_tensor([1.0, 10.0]))[1].item()
        42.0
    """
    inputs, ys, outputs = _called("jvp", func, xs)
    found = backward.push(outputs, inputs, _directions("jvp", v, inputs))
    return ys, _as(ys, [zeros_like(y) if t is None else t for t, y in zip(found, outputs)])


def grad(outputs: Tensors, inputs: Tensors, grad_outputs: Tensors | None = None) -> Any:
    """Compute the gradients of outputs with respect to inputs, in reverse mode; they can be differentiated again.

    Args:
        outputs: Tensor or sequence of tensors.
        inputs: Tensor or sequence of tensors that ``outputs`` were computed from.
        grad_outputs: Gradients of ``outputs`` to start from. Default: None, ones.

    Returns:
        The gradients in the form of ``inputs``; zeros for an input that is not used.

    Examples:
        >>> x = bireme.to_tensor([3.0], stop_gradient=False)
        >>> bireme.incubate.autograd.grad(x * x, x).tolist()
        [6.0]
    """
    ys, xs = _several("grad(outputs)", outputs), _several("grad(inputs)", inputs)
    seeds = _directions("grad", grad_outputs, ys)
    found = backward.grad(ys, xs, seeds, retain_graph=True, create_graph=True, allow_unused=True)
    return _as(inputs, [zeros_like(x) if g is None else g for g, x in zip(found, xs)])


def forward_grad(outputs: Tensors, inputs: Tensors, grad_inputs: Tensors | None = None) -> Any:
    """Compute the derivatives of outputs along a direction of the inputs, in forward mode.

    Args:
        outputs: Tensor or sequence of tensors.
        inputs: Tensor or sequence of tensors that ``outputs`` were computed from.
        grad_inputs: The direction, in the shape of ``inputs``. Default: None, ones.

    Returns:
        The derivatives in the form of ``outputs``; zeros for an output that does not depend on the inputs.

    Examples:
        >>> x = bireme.to_tensor([3.0, 4.0], stop_gradient=False)
        >>> bireme.incubate.autograd.forward_grad(x * x, x).tolist()
        [6.0, 8.0]
    """
    ys, xs = _several("forward_grad(outputs)", outputs), _several("forward_grad(inputs)", inputs)
    found = backward.push(ys, xs, _directions("forward_grad", grad_inputs, xs))
    return _as(outputs, [zeros_like(y) if t is None else t for t, y in zip(found, ys)])


class Jacobian(derivative.Jacobian):
    """Lazy Jacobian matrix of a function: index it like a tensor, and the rows that the index touches are computed.

    Inputs and outputs are flattened and concatenated.

    Args:
        func: Function of tensors that returns a tensor or a tuple of them.
        xs: Tensor or sequence of tensors, the arguments of ``func``.
        is_batched: The first dimension is a batch, whose rows are independent. Default: False.

    Examples:
        >>> x = bireme.to_tensor([[1.0, 2.0]])
        >>> bireme.incubate.autograd.Jacobian(lambda x: x * x, x)[:].tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """

    def __init__(self, func: Callable, xs: Tensors, is_batched: bool = False):
        inputs, _, outputs = _called("Jacobian", func, xs)
        super().__init__(*_flattened(outputs, inputs, bool(is_batched)))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]  # Paddle's signature
        """Shape of the matrix, as a tuple."""
        return tuple(self._full)


class Hessian(Jacobian):
    """Lazy Hessian matrix of a function that returns one number: index it like a tensor.

    Args:
        func: Function of tensors that returns a tensor of one element, or of one per row if ``is_batched``.
        xs: Tensor or sequence of tensors, the arguments of ``func``.
        is_batched: The first dimension is a batch, whose rows are independent. Default: False.

    Examples:
        >>> bireme.incubate.autograd.Hessian(lambda x: (x * x).sum(), bireme.to_tensor([1.0, 2.0]))[:].tolist()
        [[2.0, 0.0], [0.0, 2.0]]
    """

    def __init__(self, func: Callable, xs: Tensors, is_batched: bool = False):
        batched = bool(is_batched)
        inputs, _, outputs = _called("Hessian", func, xs)
        if len(outputs) != 1 or outputs[0].ndim < batched or math.prod(outputs[0].shape[batched:]) != 1:
            expected = "a function that returns one number" + " per row" * batched
            got = f"shape {', '.join([str(y.shape) for y in outputs])}"
            raise errors.bad("Hessian(func)", expected, described=got, kind=RuntimeError)
        found = backward.grad(outputs, inputs, retain_graph=True, create_graph=True, allow_unused=True)
        grads = [zeros_like(x) if g is None else g for g, x in zip(found, inputs)]
        derivative.Jacobian.__init__(self, *_flattened(grads, inputs, batched))


def _flattened(outputs: list[Tensor], inputs: list[Tensor], batched: bool) -> tuple:
    """Return the arguments of the lazy matrix of all outputs by all inputs."""
    if batched and any(t.ndim == 0 for t in [*outputs, *inputs]):
        raise errors.bad("is_batched", "tensors with a batch dimension", described="a 0-D Tensor")
    flat = [reshape(y, [*y.shape[:batched], math.prod(y.shape[batched:])]) for y in outputs]
    y = flat[0] if len(flat) == 1 else concat(flat, axis=-1)
    full = [*y.shape, sum([math.prod(x.shape[batched:]) for x in inputs])]
    return y, inputs, full, batched, (False, False)


def _called(where: str, func: Callable, xs: Any) -> tuple[list[Tensor], Any, list[Tensor]]:
    """Return the inputs as variables of their own, the result of the function, and that as a list."""
    if not callable(func):
        raise errors.bad(f"{where}(func)", "a callable", func, kind=errors.ArgumentTypeError)
    inputs = [_variable(x) for x in _several(f"{where}(xs)", xs)]
    with grad_mode.enable_grad():
        ys = func(*inputs)
    return inputs, ys, _several(f"{where}(func)", ys)


def _variable(x: Tensor) -> Tensor:
    """Return a tensor of its own to differentiate by; it keeps the history of ``x``."""
    if not x.stop_gradient:
        with grad_mode.enable_grad():
            return clone(x)
    return wrap(read(x), stop_gradient=False)


def _several(where: str, given: Any) -> list[Tensor]:
    found = [given] if isinstance(given, Tensor) else given
    if not isinstance(found, (list, tuple)) or not all(isinstance(t, Tensor) for t in found):
        raise errors.bad(where, "a Tensor or a sequence of Tensors", given, kind=errors.NotATensorError)
    return list(found)


def _directions(where: str, v: Any, likes: list[Tensor]) -> list[Tensor]:
    if v is None:
        return [ones_like(t.detach()) for t in likes]
    found = _several(f"{where}(v)", v)
    if [t.shape for t in found] != [t.shape for t in likes]:
        expected, got = (f"shape {', '.join([str(t.shape) for t in ts])}" for ts in (likes, found))
        raise errors.bad(f"{where}(v)", expected, described=got, kind=RuntimeError)
    return [t if t.dtype == like.dtype else t.astype(like.dtype) for t, like in zip(found, likes)]


def _as(form: Any, found: list[Tensor]) -> Any:
    return found[0] if isinstance(form, Tensor) else tuple(found)
