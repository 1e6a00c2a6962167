"""Products of a sparse matrix with a dense one, and entries of a product of dense ones: two operators, each of which is
the other's gradient.

A sparse matrix is its entries: their rows, their columns, their values. On CPU, SciPy's loops over sparse matrices
compute the product; compiled, it is a loop over the entries.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import COMPLEX, FLOAT, INT
from bireme.core.declare.op import Tensor, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import grouping, row_sums
from bireme.core.numpy_exec.rebinding import dual
from bireme.ops._shared.precision import widen
from bireme.ops.indexing.along_axis import WIDE, put_axis, take_axis

BLOCK = 4096  # entries whose rows are gathered at a time: a block of both stays in the cache


def _product_numpy(values, rows, cols, dense, n):
    wide = np.result_type(widen(values).dtype, widen(dense).dtype)
    out = np.zeros((n, dense.shape[1]), wide)
    if not values.size or not out.size:
        return out
    data, right = np.ascontiguousarray(values, wide), np.ascontiguousarray(dense, wide)
    if not row_sums.available(wide):
        return put_axis(out, rows, _times(data, np.take(right, cols, 0, mode="clip")), 0, "add")
    row_sums.add_products(grouping.groups(rows, n, cols, len(right)), data, right, out)
    return out


def _times(values, rows):
    """Rows times the value of each, or equal parts of rows times a value each."""
    if values.ndim == 1:
        return values[:, None] * rows
    return (values[:, :, None] * rows.reshape(*values.shape, -1)).reshape(rows.shape)


@dual(_product_numpy)
def product(values, rows, cols, dense, n):
    """The product, in a dtype wide enough to add up in."""
    values, dense = widen(values), widen(dense)
    parts = _times(values, take_axis(dense, cols))
    return put_axis(jnp.zeros((n, dense.shape[1]), parts.dtype), rows, parts, 0, "add")


def looped(values, rows, cols, dense, n):
    """The same for XLA on CPU, where a loop over the entries takes a third of the time of its scatter and no memory."""
    if dense.shape[1] < WIDE or not values.size:
        return product(values, rows, cols, dense, n)
    values, dense = widen(values), widen(dense)

    def add(i, out):
        part = _times(lax.dynamic_slice_in_dim(values, i, 1), lax.dynamic_slice_in_dim(dense, cols[i], 1))
        return lax.dynamic_update_slice_in_dim(out, lax.dynamic_slice_in_dim(out, rows[i], 1) + part, rows[i], 0)

    start = jnp.zeros((n, dense.shape[1]), jnp.result_type(values.dtype, dense.dtype))
    return lax.fori_loop(0, len(rows), add, start)


def _entries_numpy(x, y, rows, cols, heads=1):
    x, y = widen(x), widen(y)
    wide = np.result_type(x.dtype, y.dtype)
    out = np.zeros((rows.size, heads), wide)
    if not out.size or not x.shape[1]:
        return out if heads > 1 else out[:, 0]

    def make(i: int, end: int) -> None:
        left, right = (np.take(t, at[i:end], 0, mode="clip") for t, at in ((x, rows), (y, cols)))
        parts = (len(left), heads, -1)
        np.einsum("ehd,ehd->eh", left.reshape(parts), right.reshape(parts), out=out[i:end])

    blocks = [(i, min(i + BLOCK, rows.size)) for i in range(0, rows.size, BLOCK)]
    row_sums.shared(blocks, rows.size * x.shape[1], make)
    return out if heads > 1 else out[:, 0]


@dual(_entries_numpy)
def entries(x, y, rows, cols, heads=1):
    """Products of rows of `x` with rows of `y`, or of equal parts of them, in a dtype wide enough to add up in."""
    parts = take_axis(widen(x), rows) * take_axis(widen(y), cols)
    return parts.sum(-1) if heads == 1 else parts.reshape(len(rows), heads, -1).sum(-1)


def _check_entries(where: str, values, rows, cols) -> None:
    for name, index in (("rows", rows), ("cols", cols)):
        if index.dtype.kind != "i" or index.ndim != 1 or index.shape != values.shape[:1]:
            raise errors.bad(
                f"{where}({name})",
                f"a 1-D integer tensor of {values.shape[0]} elements, one for each entry",
                described=f"{index.dtype.name} of shape {list(index.shape)}",
                kind=errors.ShapeError,
            )


@op(internal="matmul", dtypes=FLOAT | INT | COMPLEX, promote="values dense", mix="floats", numpy=True, by_numpy=True)
def coo_product(values: Tensor, rows: Tensor, cols: Tensor, dense: Tensor, n: int) -> Tensor:
    """A sparse matrix of `n` rows times a dense one: `values[e] * dense[cols[e]]` added up at `rows[e]`.

    A vector stands for a dense matrix of one column. Values of shape `[entries, heads]` are several matrices of one
    pattern, each for its part of the columns of `dense`.
    """
    return product(values, rows, cols, _matrix(dense), n).astype(values.dtype).reshape((n, *dense.shape[1:]))


def _matrix(dense):
    return dense if dense.ndim == 2 else dense[:, None]


@coo_product.on("cpu", mesh=False)
def _(values, rows, cols, dense, n):
    return looped(values, rows, cols, _matrix(dense), n).astype(values.dtype).reshape((n, *dense.shape[1:]))


coo_product.infer(lambda values, dense, n: sig_of((n, *dense.shape[1:]), values.dtype))
coo_product.index(lambda s: [("rows", 0, s["n"]), ("cols", 0, s["dense"].shape[0])])
coo_product.effort(lambda rows, dense: 2 * rows.size * math.prod(dense.shape[1:]))


@coo_product.check
def _(values, rows, cols, dense, n):
    _check_entries("matmul", values, rows, cols)
    width = math.prod(dense.shape[1:])
    if values.ndim > 2 or (values.ndim == 2 and (not values.shape[1] or width % values.shape[1])):
        raise errors.bad(
            "matmul(values)",
            f"a vector, or columns of which {width} is a multiple",
            described=f"shape {list(values.shape)}",
            kind=errors.ShapeError,
        )


def _product_grad(g, values, rows, cols, dense, needs, multiply):
    heads = 1 if values.ndim == 1 else values.shape[1]
    wide, by_values, by_dense = _matrix(g), None, None
    if needs[0]:
        by_values = (
            entries(wide, jnp.conj(_matrix(dense)), rows, cols, heads).reshape(values.shape).astype(values.dtype)
        )
    if needs[3]:
        by_dense = multiply(jnp.conj(values), cols, rows, wide, dense.shape[0]).astype(dense.dtype).reshape(dense.shape)
    return by_values, None, None, by_dense


@coo_product.grad(numpy=True)
def _(g, values, rows, cols, dense, needs):
    return _product_grad(g, values, rows, cols, dense, needs, product)


@coo_product.grad(on="cpu", mesh=False)
def _(g, values, rows, cols, dense, needs):
    return _product_grad(g, values, rows, cols, dense, needs, looped)


@op(internal="masked_matmul", dtypes=FLOAT | INT | COMPLEX, promote="x y", mix="floats", numpy=True)
def product_entries(x: Tensor, y: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """Entries of the product of `x` with the transpose of `y`: `(x[rows[e]] * y[cols[e]]).sum()`."""
    return entries(x, y, rows, cols).astype(x.dtype)


product_entries.infer(lambda x, rows: sig_of(rows.shape, x.dtype))
product_entries.index(lambda s: [("rows", 0, s["x"].shape[0]), ("cols", 0, s["y"].shape[0])])
product_entries.effort(lambda x, rows: 4 * rows.size * x.shape[1])


@product_entries.check
def _(x, y, rows, cols):
    _check_entries("masked_matmul", rows, rows, cols)


def _entries_grad(g, x, y, rows, cols, needs, multiply):
    by_x = multiply(g, rows, cols, jnp.conj(y), x.shape[0]).astype(x.dtype) if needs[0] else None
    by_y = multiply(g, cols, rows, jnp.conj(x), y.shape[0]).astype(y.dtype) if needs[1] else None
    return by_x, by_y, None, None


@product_entries.grad(numpy=True)
def _(g, x, y, rows, cols, needs):
    return _entries_grad(g, x, y, rows, cols, needs, product)


@product_entries.grad(on="cpu", mesh=False)
def _(g, x, y, rows, cols, needs):
    return _entries_grad(g, x, y, rows, cols, needs, looped)


def _shares_numpy(values, rows, n):
    return row_sums.softmax(grouping.groups(rows, n), values) if values.size else values


@dual(_shares_numpy)
def _shares(values, rows, n):
    top = put_axis(jnp.full(n, -jnp.inf, values.dtype), rows, values, 0, "max")
    part = jnp.exp(values - take_axis(top, rows))
    return part / take_axis(put_axis(jnp.zeros(n, part.dtype), rows, part, 0, "add"), rows)


def _sums_numpy(x, rows, n):
    return row_sums.sum_each(grouping.groups(rows, n), x) if x.size else x


@dual(_sums_numpy)
def _sums(x, rows, n):
    """For each entry, the sum of those of its row."""
    return take_axis(put_axis(jnp.zeros(n, x.dtype), rows, x, 0, "add"), rows)


@op(internal="softmax", dtypes=FLOAT, numpy=True, by_numpy=True)
def row_softmax(values: Tensor, rows: Tensor, n: int) -> Tensor:
    """Softmax of the entries of each row of a sparse matrix: what is not stored has no share."""
    return _shares(widen(values), rows, n).astype(values.dtype)


row_softmax.infer(lambda values: values)
row_softmax.index(lambda s: [("rows", 0, s["n"])])
row_softmax.effort(lambda values: 10 * values.size)


@row_softmax.check
def _(values, rows):
    _check_entries("softmax", values, rows, rows)


@row_softmax.grad(numpy=True)
def _(g, out, rows, n):
    wide, shares = widen(g), widen(out)
    return (shares * (wide - _sums(wide * shares, rows, n))).astype(g.dtype), None
