"""Products of a sparse matrix with a dense one, and entries of a product of dense ones: two operators, each of which is
the other's gradient.

A sparse matrix is its entries: their rows, their columns, their values. On CPU, SciPy's loops over sparse matrices
compute the product; compiled, it is a loop over the entries.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import COMPLEX, FLOAT, INT
from bireme.core.declare.op import Tensor, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import blas, sparsetools
from bireme.core.numpy_exec.rebinding import dual
from bireme.ops._shared.precision import widen
from bireme.ops.indexing.along_axis import WIDE, put_axis, take_axis

BLOCK = 4096  # entries whose rows are gathered at a time: a block of both stays in the cache
PART = 1 << 16  # entries that a core multiplies at a time
SHARED = 1 << 18  # multiplications that are worth a second core


def _is_sorted(index: np.ndarray) -> bool:
    return bool((index[1:] >= index[:-1]).all())


def _inside(index: np.ndarray, n: int) -> np.ndarray:
    """Indices that do not leave an axis, as the loops take them: they have been checked, and a wrong one stays inside."""
    index = np.ascontiguousarray(index, np.int64)
    if index.size and index.view(np.uint64).max() >= n:  # a negative one is large without its sign
        index = np.clip(index, 0, n - 1)
    return index


def _starts(index: np.ndarray, n: int) -> np.ndarray:
    """Where the entries of each row begin, for sorted rows."""
    starts = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(_inside(index, n), minlength=n), out=starts[1:])
    return starts


def _by_rows(starts, cols, data, dense, out) -> None:
    """Entries in order of their rows: some rows at a time, whose indices stay in the cache, on all cores."""
    (n, width), m, call = (
        out.shape,
        dense.shape[0],
        sparsetools.loop("csr_matvec" if out.shape[1] == 1 else "csr_matvecs"),
    )
    ends = np.searchsorted(starts, np.arange(PART, data.size, PART))
    cuts = np.unique(np.concatenate([[0], ends, [n]]))
    right, sizes = dense.reshape(-1), (() if width == 1 else (width,))

    def make(parts) -> None:
        for a, b in parts:
            low, high = starts[a], starts[b]
            within = _inside(cols[low:high], m)
            call(b - a, m, *sizes, starts[a : b + 1] - low, within, data[low:high], right, out[a:b].reshape(-1))

    parts = list(zip(cuts[:-1].tolist(), cuts[1:].tolist()))
    count = min(blas.cores(), len(parts)) if data.size * width >= SHARED else 1
    if count == 1:
        return make(parts)
    blas.share([functools.partial(make, parts[i::count]) for i in range(count)])


def _product_numpy(values, rows, cols, dense, n, starts=None):
    wide = np.result_type(widen(values).dtype, widen(dense).dtype)
    m, width = dense.shape
    out = np.zeros((n, width), wide)
    if not values.size or not out.size:
        return out
    data, right = np.ascontiguousarray(values, wide), np.ascontiguousarray(dense, wide)
    known = starts is not None and starts.size == n + 1 and starts[0] == 0 and starts[-1] == data.size
    if sparsetools.loop("csr_matvecs") is None:
        parts = data[:, None] * np.take(right, cols, 0, mode="clip")
        return put_axis(out, rows, parts, 0, "add")
    if known and _is_sorted(starts):
        _by_rows(starts.astype(np.int64, copy=False), cols, data, right, out)
    elif _is_sorted(rows):
        _by_rows(_starts(rows, n), cols, data, right, out)
    else:
        vector, into = width == 1, out.reshape(-1)
        sizes, flat = (() if vector else (width,)), right.reshape(-1)
        if _is_sorted(cols):  # the transpose of one by rows, as in a gradient
            call = sparsetools.loop("csc_matvec" if vector else "csc_matvecs")
            call(n, m, *sizes, _starts(cols, m), _inside(rows, n), data, flat, into)
        else:
            call = sparsetools.loop("coo_matvec" if vector else "coo_matmat_dense")
            call(data.size, *sizes, _inside(rows, n), _inside(cols, m), data, flat, into)
    return out


@dual(_product_numpy)
def product(values, rows, cols, dense, n, starts=None):
    """The product, in a dtype wide enough to add up in."""
    values, dense = widen(values), widen(dense)
    parts = values[:, None] * take_axis(dense, cols)
    return put_axis(jnp.zeros((n, dense.shape[1]), parts.dtype), rows, parts, 0, "add")


def looped(values, rows, cols, dense, n, starts=None):
    """The same for XLA on CPU, where a loop over the entries takes a third of the time of its scatter and no memory."""
    if dense.shape[1] < WIDE or not values.size:
        return product(values, rows, cols, dense, n)
    values, dense = widen(values), widen(dense)

    def add(i, out):
        part = values[i] * lax.dynamic_slice_in_dim(dense, cols[i], 1)
        return lax.dynamic_update_slice_in_dim(out, lax.dynamic_slice_in_dim(out, rows[i], 1) + part, rows[i], 0)

    start = jnp.zeros((n, dense.shape[1]), jnp.result_type(values.dtype, dense.dtype))
    return lax.fori_loop(0, values.size, add, start)


def _entries_numpy(x, y, rows, cols):
    x, y = widen(x), widen(y)
    out = np.zeros(rows.size, np.result_type(x.dtype, y.dtype))

    def make(blocks) -> None:
        for i in blocks:
            left, right = (np.take(t, at[i : i + BLOCK], 0, mode="clip") for t, at in ((x, rows), (y, cols)))
            np.einsum("ij,ij->i", left, right, out=out[i : i + BLOCK])

    blocks = range(0, rows.size, BLOCK)
    count = min(blas.cores(), len(blocks)) if rows.size * x.shape[-1] >= SHARED else 1
    if count > 1:
        blas.share([functools.partial(make, blocks[i::count]) for i in range(count)])
    else:
        make(blocks)
    return out


@dual(_entries_numpy)
def entries(x, y, rows, cols):
    """Products of rows of `x` with rows of `y`, in a dtype wide enough to add up in."""
    return (take_axis(widen(x), rows) * take_axis(widen(y), cols)).sum(-1)


def _check_entries(where: str, values, rows, cols) -> None:
    for name, index in (("rows", rows), ("cols", cols)):
        if index.dtype.kind != "i" or index.ndim != 1 or index.shape != values.shape:
            raise errors.bad(
                f"{where}({name})",
                f"a 1-D integer tensor of {values.size} elements, one for each entry",
                described=f"{index.dtype.name} of shape {list(index.shape)}",
                kind=errors.ShapeError,
            )


@op(internal="matmul", dtypes=FLOAT | INT | COMPLEX, promote="values dense", mix="floats", numpy=True, by_numpy=True)
def coo_product(values: Tensor, rows: Tensor, cols: Tensor, dense: Tensor, n: int,
                starts: Tensor | None = None) -> Tensor:  # fmt: skip
    """A sparse matrix of `n` rows times a dense one: `values[e] * dense[cols[e]]` added up at `rows[e]`.

    Where the rows are in order, `starts` may say where each begins, so that nobody has to look.
    """
    return product(values, rows, cols, dense, n, starts).astype(values.dtype)


@coo_product.on("cpu")
def _(values, rows, cols, dense, n, starts=None):
    return looped(values, rows, cols, dense, n).astype(values.dtype)


coo_product.infer(lambda values, dense, n: sig_of((n, dense.shape[1]), values.dtype))
coo_product.index(lambda s: [("rows", 0, s["n"]), ("cols", 0, s["dense"].shape[0])])
coo_product.effort(lambda values, dense: 2 * values.size * dense.shape[1])


@coo_product.check
def _(values, rows, cols, dense, n):
    _check_entries("matmul", values, rows, cols)


def _product_grad(g, values, rows, cols, dense, needs, multiply):
    by_values = entries(g, jnp.conj(dense), rows, cols).astype(values.dtype) if needs[0] else None
    by_dense = multiply(jnp.conj(values), cols, rows, g, dense.shape[0]).astype(dense.dtype) if needs[3] else None
    return by_values, None, None, by_dense, *[None] * (len(needs) - 4)


@coo_product.grad(numpy=True)
def _(g, values, rows, cols, dense, needs):
    return _product_grad(g, values, rows, cols, dense, needs, product)


@coo_product.grad(on="cpu")
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


@product_entries.grad(on="cpu")
def _(g, x, y, rows, cols, needs):
    return _entries_grad(g, x, y, rows, cols, needs, looped)
