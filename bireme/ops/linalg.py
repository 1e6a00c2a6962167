"""Products of matrices."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core import errors
from bireme.core.dtype import COMPLEX, FLOAT, INT
from bireme.core.graph import sig_of
from bireme.core.op import Tensor, composite, op
from bireme.ops.broadcast import broadcast_shape, sum_to_shape


def _product(x, y, transpose_x, transpose_y):
    """x @ y with either transposed. Contracts whichever axes it is given: a transpose before a dot would be a copy."""
    if x.ndim == 1 or y.ndim == 1 or x.ndim > y.ndim > 2 or y.ndim > x.ndim > 2:
        a = jnp.swapaxes(x, -1, -2) if transpose_x and x.ndim > 1 else x
        b = jnp.swapaxes(y, -1, -2) if transpose_y and y.ndim > 1 else y
        return jnp.matmul(a, b)
    cx, cy = x.ndim - (2 if transpose_x else 1), y.ndim - (1 if transpose_y else 2)
    if y.ndim == 2:
        if transpose_x and x.ndim > 2:
            return jnp.matmul(jnp.swapaxes(x, -1, -2), y.T if transpose_y else y)
        if x.ndim > 2:  # one flat product instead of a batch of small ones
            flat = lax.dot_general(x.reshape(-1, x.shape[-1]), y, (((1,), (cy,)), ((), ())))
            return flat.reshape(*x.shape[:-1], flat.shape[-1])
        return lax.dot_general(x, y, (((cx,), (cy,)), ((), ())))
    if x.shape[:-2] != y.shape[:-2]:
        a = jnp.swapaxes(x, -1, -2) if transpose_x else x
        return jnp.matmul(a, jnp.swapaxes(y, -1, -2) if transpose_y else y)
    batch = tuple(range(x.ndim - 2))
    return lax.dot_general(x, y, (((cx,), (cy,)), (batch, batch)))


def _product_numpy(x, y, transpose_x, transpose_y):
    a = np.swapaxes(x, -1, -2) if transpose_x and x.ndim > 1 else x
    b = np.swapaxes(y, -1, -2) if transpose_y and y.ndim > 1 else y
    if b.ndim == 2 and a.ndim > 2 and not transpose_x:
        return np.matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
    return np.matmul(a, b)


@op(method=True, promote="x y", mix="complex", dtypes=FLOAT | COMPLEX | INT, torch=True, out=True, numpy=_product_numpy)
def matmul(x: Tensor, y: Tensor, transpose_x: bool = False, transpose_y: bool = False) -> Tensor:
    """Product of matrices, or of stacks of them; vectors as in NumPy.

    >>> bireme.matmul(bireme.to_tensor([[1.0, 2.0]]), bireme.to_tensor([[3.0], [4.0]])).tolist()
    [[11.0]]
    """
    return _product(x, y, transpose_x, transpose_y)


@composite(method=True)
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of matrices.

    >>> bireme.mm(bireme.to_tensor([[1.0, 2.0]]), bireme.to_tensor([[3.0], [4.0]])).tolist()
    [[11.0]]
    """
    return matmul(input, mat2)


@matmul.infer
def _(x, y, transpose_x, transpose_y):
    if x.ndim == 0 or y.ndim == 0:
        name, got = ("x", x) if x.ndim == 0 else ("y", y)
        raise errors.bad(f"matmul({name})", "a tensor with at least one axis", f"shape {list(got.shape)}")
    a = x.shape if x.ndim > 1 else (1, x.shape[0])
    b = y.shape if y.ndim > 1 else (y.shape[0], 1)
    rows, inner = (a[-1], a[-2]) if transpose_x and x.ndim > 1 else (a[-2], a[-1])
    other, columns = (b[-1], b[-2]) if transpose_y and y.ndim > 1 else (b[-2], b[-1])
    if inner != other:
        hint = "pass transpose_y=True if y holds one row per output" if not transpose_y and y.ndim > 1 and b[-1] == inner else None
        raise errors.bad("matmul(y)", f"{inner} rows to match x of shape {list(x.shape)}", f"shape {list(y.shape)}", hint=hint)
    batch = broadcast_shape("matmul", a[:-2], b[:-2])
    shape = batch + ((rows,) if x.ndim > 1 else ()) + ((columns,) if y.ndim > 1 else ())
    return sig_of(shape, x.dtype)


@matmul.flops
def _(x, y):
    return x.size * (y.shape[-1] if y.ndim > 1 else 1)


def _gradient_product(x, y, transpose_x, transpose_y):
    """x^T @ y for XLA on CPU, whose product of two such operands is its slowest.

    With twice as many rows as columns (y^T @ x)^T is up to 1.6 times faster, the other way round a transposed copy of x
    gains a tenth. The barriers keep XLA from turning them back.
    """
    if x.ndim == y.ndim == 2 and transpose_x and not transpose_y:
        rows, columns = x.shape[1], y.shape[1]
        if rows >= 2 * columns:
            return lax.optimization_barrier(lax.dot_general(y, x, (((0,), (0,)), ((), ())))).T
        if 2 * rows <= columns <= 8 * rows:
            return lax.dot_general(lax.optimization_barrier(x.T), y, (((1,), (0,)), ((), ())))
    return _product(x, y, transpose_x, transpose_y)


def _grad_numpy(g, x, y, transpose_x, transpose_y, sigs, platform):
    return _matmul_grad(g, x, y, transpose_x, transpose_y, sigs, np, _product_numpy)


@matmul.grad(numpy=_grad_numpy)
def _(g, x, y, transpose_x, transpose_y, sigs, platform):
    product = _gradient_product if platform == "cpu" else _product
    return _matmul_grad(g, x, y, transpose_x, transpose_y, sigs, jnp, product)


def _matmul_grad(g, x, y, transpose_x, transpose_y, sigs, xp, product):
    """Each gradient is a product too; flat 2-d ones wherever a stack meets one matrix."""
    x, y = xp.conj(x) if xp.iscomplexobj(x) else x, xp.conj(y) if xp.iscomplexobj(y) else y
    if x.ndim == 1 or y.ndim == 1:
        a = x[None, :] if x.ndim == 1 else x
        b = y[:, None] if y.ndim == 1 else y
        wide = g
        if x.ndim == 1:
            wide = xp.expand_dims(wide, -1 if y.ndim == 1 else -2)
        if y.ndim == 1:
            wide = xp.expand_dims(wide, -1)
        dx, dy = _stack_grad(wide, a, b, transpose_x and x.ndim > 1, transpose_y and y.ndim > 1, xp, product)
        dx = sum_to_shape(dx, a.shape).reshape(sigs[0].shape)
        return dx, sum_to_shape(dy, b.shape).reshape(sigs[1].shape)
    if y.ndim == 2 and x.ndim > 2 and not transpose_x:
        flat_g, flat_x = g.reshape(-1, g.shape[-1]), x.reshape(-1, x.shape[-1])
        dx = product(flat_g, y, False, not transpose_y).reshape(x.shape)
        dy = product(flat_g, flat_x, True, False) if transpose_y else product(flat_x, flat_g, True, False)
        return dx, dy
    dx, dy = _stack_grad(g, x, y, transpose_x, transpose_y, xp, product)
    return sum_to_shape(dx, sigs[0].shape), sum_to_shape(dy, sigs[1].shape)


def _stack_grad(g, x, y, transpose_x, transpose_y, xp, product):
    if transpose_x:
        dx = product(y, g, transpose_y, True)
    else:
        dx = product(g, y, False, not transpose_y)
    if transpose_y:
        dy = product(g, x, True, transpose_x)
    else:
        dy = product(x, g, not transpose_x, False)
    return dx, dy
