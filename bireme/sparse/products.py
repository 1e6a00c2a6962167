"""Products of sparse matrices with dense ones, with vectors and with each other, and what is built from them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bireme import linalg, ops
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.sparse.binary import _combined, coalesced, same_form
from bireme.sparse.creation import dense, sparse
from bireme.sparse.pattern import Coo, owned
from bireme.sparse.tensor import SparseTensor, summed


def _matrices(where: str, x: Any) -> None:
    if x.ndim < 2 or (isinstance(x, SparseTensor) and x.dense_dim()):
        raise errors.bad(where, "a matrix or a batch of matrices", described=f"shape {x.shape}", kind=errors.ShapeError)


def _fits(where: str, x: Any, y: Any) -> None:
    _matrices(f"{where}(x)", x)
    _matrices(f"{where}(y)", y)
    if x.shape[-1] != y.shape[-2] or x.shape[:-2] != y.shape[:-2]:
        batch = f"a batch of {x.shape[:-2]} matrices with " if x.ndim > 2 else ""
        raise errors.bad(
            f"{where}(y)",
            f"{batch}{x.shape[-1]} rows to match x of shape {x.shape}",
            described=f"shape {y.shape}",
            kind=errors.ShapeError,
        )


def rows_and_columns(coo: Coo) -> tuple[Tensor, Tensor]:
    """Rows and columns in the block-diagonal matrix that a batch is."""
    if len(coo.dims) == 2:
        return coo.matrix()

    def find() -> tuple[Tensor, Tensor]:
        rows, cols = np.divmod(coo.keys, max(coo.dims[-1], 1))
        return owned(rows), owned(rows // max(coo.dims[-2], 1) * coo.dims[-1] + cols)

    return coo.known("blocks", find)


def _times_dense(x: SparseTensor, y: Tensor) -> Tensor:
    coo = x._coo()
    rows, cols = rows_and_columns(coo)
    flat = y if y.ndim == 2 else ops.reshape(y, [math.prod(y.shape[:-1]), y.shape[-1]])
    out = ops.coo_product(x._values, rows, cols, flat, math.prod(coo.dims[:-1]))
    return out if y.ndim == 2 else ops.reshape(out, [*x.shape[:-1], y.shape[-1]])


def _dense_times(x: Tensor, y: SparseTensor) -> Tensor:
    """The transpose of the sparse matrix times that of the dense one, back again."""
    coo = y._coo()
    rows, cols = rows_and_columns(coo)
    last = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
    flat = ops.reshape(ops.transpose(x, last), [math.prod(coo.dims[:-1]), x.shape[-2]])
    out = ops.coo_product(y._values, cols, rows, flat, math.prod(coo.dims[:-2]) * coo.dims[-1])
    return ops.transpose(ops.reshape(out, [*y.shape[:-2], y.shape[-1], x.shape[-2]]), last)


def _times_sparse(x: SparseTensor, y: SparseTensor) -> SparseTensor:
    """Every entry of `x` meets those in the row of `y` that its column names; products of one place are added up."""
    (left, a), (right, b) = coalesced(x), coalesced(y)
    rows, inner = (t._host() for t in rows_and_columns(left))
    others, cols = right.keys // max(right.dims[-1], 1), right.keys % max(right.dims[-1], 1)
    starts = np.searchsorted(others, np.arange(math.prod(right.dims[:-1]) + 1))
    counts = np.diff(starts)[inner]
    first = np.repeat(np.arange(inner.size), counts)
    second = np.arange(first.size) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(starts[inner], counts)
    keys, place = left.grouped(rows[first] * right.dims[-1] + cols[second])
    parts = ops.index_select(a, owned(first)) * ops.index_select(b, owned(second))
    pattern = left.like(keys, [*left.dims[:-1], right.dims[-1]], coalesced=True)
    return same_form(x, pattern, summed(parts, owned(place), keys.size))


def matmul(x: SparseTensor | Tensor, y: SparseTensor | Tensor, name: str | None = None) -> SparseTensor | Tensor:
    """Multiply matrices of which at least one is sparse.

    Args:
        x: Sparse or dense matrix, or a batch of them.
        y: Sparse or dense matrix, or a batch of as many; of the form of ``x`` if both are sparse.
        name: Has no effect.

    Returns:
        Dense tensor if one of them is dense; of two sparse ones, a sparse tensor of their form.

    Raises:
        ValueError: If the shapes do not fit.

    Examples:
        >>> x = bireme.sparse.sparse_csr_tensor([0, 1, 2], [1, 0], [2.0, 3.0], [2, 2])
        >>> bireme.sparse.matmul(x, bireme.to_tensor([[1.0], [10.0]])).tolist()
        [[20.0], [3.0]]
    """
    for argument, t in (("x", x), ("y", y)):
        if not isinstance(t, Tensor):
            raise errors.bad(f"matmul({argument})", "a Tensor", t, kind=errors.ArgumentTypeError)
    if not isinstance(x, SparseTensor) and not isinstance(y, SparseTensor):
        sparse("matmul(x)", x, hint="bireme.matmul multiplies dense ones")
    _fits("matmul", x, y)
    with errors.within("matmul", "x", "y", values="x", dense="y"):
        if not isinstance(y, SparseTensor):
            return _times_dense(x, y)  # type: ignore[arg-type]  # one of them is sparse
        if not isinstance(x, SparseTensor):
            return _dense_times(x, y)
        if type(x) is not type(y):
            raise errors.bad("matmul(y)", f"a {x.kind} tensor, as x is", described=f"a {y.kind} tensor")
        return _times_sparse(x, y)


def mv(x: SparseTensor, vec: Tensor, name: str | None = None) -> Tensor:
    """Multiply a sparse matrix by a vector.

    Args:
        x: Sparse matrix, COO or CSR.
        vec: Dense vector.
        name: Has no effect.

    Returns:
        Dense vector.

    Raises:
        ValueError: If the shapes do not fit.

    Examples:
        >>> x = bireme.sparse.sparse_csr_tensor([0, 1, 2], [1, 0], [2.0, 3.0], [2, 2])
        >>> bireme.sparse.mv(x, bireme.to_tensor([1.0, 10.0])).tolist()
        [20.0, 3.0]
    """
    sparse("mv(x)", x)
    dense("mv(vec)", vec)
    if x.ndim != 2 or x.dense_dim():
        raise errors.bad("mv(x)", "a matrix", described=f"shape {x.shape}", kind=errors.ShapeError)
    if vec.ndim != 1 or vec.shape[0] != x.shape[1]:
        raise errors.bad(
            "mv(vec)", f"a vector of {x.shape[1]} elements", described=f"shape {vec.shape}", kind=errors.ShapeError
        )
    with errors.within("mv", "x", "vec", values="x", dense="vec"):
        return ops.coo_product(x._values, *x._coo().matrix(), vec, x.shape[0])


def addmm(
    input: SparseTensor | Tensor,
    x: SparseTensor,
    y: SparseTensor | Tensor,
    beta: float = 1.0,
    alpha: float = 1.0,
    name: str | None = None,
) -> SparseTensor | Tensor:
    """Add a product with a sparse matrix to a tensor: ``beta * input + alpha * x @ y``.

    Args:
        input: Dense tensor, or a sparse one if ``x`` and ``y`` both are, of the product's shape.
        x: Sparse matrix, COO or CSR, or a batch of them.
        y: Dense matrix, or a sparse one of the form of ``x``; or a batch of as many.
        beta: Factor of ``input``. Default: 1.0.
        alpha: Factor of the product. Default: 1.0.
        name: Has no effect.

    Returns:
        Dense tensor, or a sparse one of the form of ``x``.

    Examples:
        >>> x = bireme.sparse.sparse_csr_tensor([0, 1, 2], [1, 0], [2.0, 3.0], [2, 2])
        >>> bireme.sparse.addmm(bireme.ones([2, 1]), x, bireme.to_tensor([[1.0], [10.0]]), 2.0, 3.0).tolist()
        [[62.0], [11.0]]
    """
    sparse("addmm(x)", x)
    for argument, factor in (("beta", beta), ("alpha", alpha)):
        errors.check_number(f"addmm({argument})", factor)
    with errors.within("addmm", "x", "y"):
        product = matmul(x, y)
    if isinstance(product, SparseTensor):
        sparse("addmm(input)", input, type(x))
        with errors.within("addmm", x="input", y="y"):
            scaled = input.with_values(input._values * beta)  # type: ignore[union-attr]  # checked above
            return _combined("add", ops.add, scaled, product.with_values(product._values * alpha))
    dense("addmm(input)", input)
    if input.shape != product.shape:
        raise errors.bad(
            "addmm(input)", f"shape {product.shape}, as the product has", described=f"shape {input.shape}", kind=errors.ShapeError
        )  # fmt: skip
    return input * beta + product * alpha


def masked_matmul(x: Tensor, y: Tensor, mask: SparseTensor, name: str | None = None) -> SparseTensor:
    """Compute those elements of a product of dense matrices that a sparse tensor stores.

    Args:
        x: Dense matrix, or a batch of them.
        y: Dense matrix, or a batch of as many.
        mask: Sparse tensor of the product's shape, COO or CSR; its values are not used.
        name: Has no effect.

    Returns:
        Sparse tensor of the pattern of ``mask``.

    Raises:
        ValueError: If the shapes do not fit.

    Examples:
        >>> mask = bireme.sparse.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 1.0], [2, 2])
        >>> x = bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> bireme.sparse.masked_matmul(x, x, mask).to_dense().tolist()
        [[0.0, 10.0], [15.0, 0.0]]
    """
    dense("masked_matmul(x)", x)
    dense("masked_matmul(y)", y)
    sparse("masked_matmul(mask)", mask)
    _fits("masked_matmul", x, y)
    if mask.shape != [*x.shape[:-1], y.shape[-1]] or mask.dense_dim():
        raise errors.bad(
            "masked_matmul(mask)",
            f"shape {[*x.shape[:-1], y.shape[-1]]}, as the product has",
            described=f"shape {mask.shape}",
            kind=errors.ShapeError,
        )
    rows, cols = rows_and_columns(mask._coo())
    flat = x if x.ndim == 2 else ops.reshape(x, [-1, x.shape[-1]])
    turned = ops.transpose(y, [*range(y.ndim - 2), y.ndim - 1, y.ndim - 2])
    other = turned if y.ndim == 2 else ops.reshape(turned, [-1, y.shape[-2]])
    with errors.within("masked_matmul", "x", "y"):
        return mask.with_values(ops.product_entries(flat, other, rows, cols))


def pca_lowrank(
    x: SparseTensor, q: int | None = None, center: bool = True, niter: int = 2, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Approximate principal components of a sparse matrix, by products with random vectors.

    The matrix is never made dense: centering is a correction of rank one in each product.

    Args:
        x: Sparse matrix, COO or CSR, of a floating-point dtype.
        q: Number of components. Default: None, 6 or the smaller size of the matrix.
        center: Whether the mean of each column is subtracted. Default: True.
        niter: Number of power iterations, which make it more accurate. Default: 2.
        name: Has no effect.

    Returns:
        Matrix ``U`` of shape ``[m, q]``, singular values ``S``, and matrix ``V`` of shape ``[n, q]``, with
        ``x - mean`` close to ``U @ diag(S) @ V.T``.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 1], [0, 1]], [3.0, 4.0], [2, 2])
        >>> u, s, v = bireme.sparse.pca_lowrank(x, center=False)
        >>> [round(n, 3) for n in s.tolist()]
        [4.0, 3.0]
    """
    sparse("pca_lowrank(x)", x)
    if x.ndim != 2 or x.dense_dim():
        raise errors.bad("pca_lowrank(x)", "a matrix", described=f"shape {x.shape}", kind=errors.ShapeError)
    if x.dtype.kind != "f":
        raise errors.bad("pca_lowrank(x)", "a floating-point dtype", described=x.dtype.name, kind=errors.DtypeError)
    m, n = x.shape
    most = min(m, n)
    count = min(6, most) if q is None else q
    errors.check_integer("pca_lowrank(q)", count)
    if not 0 <= count <= most:
        raise errors.bad("pca_lowrank(q)", f"an integer in [0, {most}]", count)
    errors.check_integer("pca_lowrank(niter)", niter)
    if niter < 0:
        raise errors.bad("pca_lowrank(niter)", "a non-negative integer", niter)
    rows, cols = x._coo().matrix()
    mean = ops.coo_product(x._values, cols, rows, ops.full([m, 1], 1.0 / m, x.dtype), n) if center else None

    def forward(y: Tensor) -> Tensor:
        made = ops.coo_product(x._values, rows, cols, y, m)
        return made if mean is None else made - ops.matmul(mean, y, transpose_x=True)

    def back(y: Tensor) -> Tensor:
        made = ops.coo_product(x._values, cols, rows, y, n)
        return made if mean is None else made - ops.matmul(mean, ops.sum(y, axis=0, keepdim=True))

    basis = linalg.qr(forward(ops.randn([n, count], x.dtype)))[0]
    for _ in range(niter):
        basis = linalg.qr(forward(linalg.qr(back(basis))[0]))[0]
    u, s, vh = linalg.svd(ops.transpose(back(basis), [1, 0]), full_matrices=False)
    return ops.matmul(basis, u), s, ops.transpose(vh, [1, 0])


guard_functions(globals())
