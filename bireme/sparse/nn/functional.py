"""Functions of sparse layers: activations of the stored values, convolution and pooling of points, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bireme import ops
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.declare.conversion import one_axis
from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional as dense_functions
from bireme.nn.arguments import Padding, Sizes
from bireme.ops.nn.window_args import Windows, edges_of, per_axis, settled
from bireme.sparse.creation import dense, sparse
from bireme.sparse.nn import rulebook
from bireme.sparse.pattern import Coo, owned
from bireme.sparse.products import rows_and_columns
from bireme.sparse.tensor import SparseCooTensor, SparseCsrTensor, SparseTensor, summed
from bireme.sparse.unary import unary

__all__ = [
    "attention", "conv2d", "conv3d", "leaky_relu", "max_pool3d", "relu", "relu6", "softmax", "subm_conv2d",
    "subm_conv2d_igemm", "subm_conv3d", "subm_conv3d_igemm",
]  # fmt: skip

_HERE = "bireme.sparse.nn.functional"
_FORMATS = {2: "NHWC", 3: "NDHWC"}

relu = unary("relu", dense_functions.relu, "Rectified linear unit", "[-1.5, 2.0]", "[0.0, 2.0]", _HERE)
relu6 = unary("relu6", dense_functions.relu6, "Rectified linear unit up to 6", "[-1.5, 8.0]", "[0.0, 6.0]", _HERE)
for _function in (relu, relu6):
    _function.__module__ = __name__


def leaky_relu(x: SparseTensor, negative_slope: float = 0.01, name: str | None = None) -> SparseTensor:
    """Leaky rectified linear unit of the stored values; the pattern stays.

    Args:
        x: Sparse tensor, COO or CSR.
        negative_slope: Factor of negative values. Default: 0.01.
        name: Has no effect.

    Returns:
        Sparse tensor of the same pattern.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], [-2.0, 3.0], [4])
        >>> bireme.sparse.nn.functional.leaky_relu(x, 0.5).values().tolist()
        [-1.0, 3.0]
    """
    sparse("leaky_relu(x)", x)
    errors.check_number("leaky_relu(negative_slope)", negative_slope)
    return x.with_values(dense_functions.leaky_relu(x._values, negative_slope))


# ---------------------------------------------------------------- softmax and attention


def _softmax_of(values: Tensor, group: Tensor, n: int) -> Tensor:
    """Softmax of the values of each group; the gradient does not depend on what is subtracted."""
    if values.ndim == 1:
        return ops.row_softmax(values, group, n)
    top = ops.pool_rows(values.detach(), group, "max", n)
    part = ops.exp(values - ops.index_select(top, group))
    return part / ops.index_select(summed(part, group, n), group)


def softmax(x: SparseTensor, axis: int = -1, name: str | None = None) -> SparseTensor:
    """Softmax along an axis over the stored values: what is not stored has no share.

    Args:
        x: Sparse tensor of a floating-point dtype, COO or CSR.
        axis: Axis along which the values sum to 1; the last one for a CSR tensor. Default: -1.
        name: Has no effect.

    Returns:
        Sparse tensor of the same pattern.

    Examples:
        >>> x = bireme.sparse.sparse_csr_tensor([0, 2, 3], [0, 1, 1], [1.0, 1.0, 5.0], [2, 3])
        >>> bireme.sparse.nn.functional.softmax(x).values().tolist()
        [0.5, 0.5, 1.0]
    """
    sparse("softmax(x)", x)
    at = one_axis(axis, x.ndim, "softmax(axis)")
    if isinstance(x, SparseCsrTensor) and at != x.ndim - 1:
        raise errors.bad("softmax(axis)", "-1, since x is a sparse CSR tensor", axis)
    if x.dtype.kind != "f":
        raise errors.bad("softmax(x)", "a floating-point dtype", described=x.dtype.name, kind=errors.DtypeError)
    if at >= x.sparse_dim():
        return x.with_values(dense_functions.softmax(x._values, at - x.sparse_dim() + 1))
    one = _each_once(x) if isinstance(x, SparseCooTensor) else x
    coo = one._coo()

    def find() -> tuple[Tensor, int]:
        keys = np.zeros(coo.nnz, np.int64)
        for i, index in enumerate(coo.axes()):
            keys = keys if i == at else keys * coo.dims[i] + index
        groups, place = coo.grouped(keys)
        return owned(place), groups.size

    group, n = coo.known(("along", at), find)
    return one.with_values(_softmax_of(one._values, group, n))


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_mask: SparseCsrTensor,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """Attention over those pairs of queries and keys that a sparse tensor stores; other scores are never computed.

    Args:
        query: Queries of shape ``[N, H, L, D]``, of a floating-point dtype.
        key: Keys of the same shape.
        value: Values of the same shape.
        sparse_mask: Sparse CSR tensor of shape ``[N * H, L, L]``; its values are not used.
        key_padding_mask: Tensor of shape ``[N, L]`` that is 0 where a key is hidden; its values are waited for.
            Default: None.
        attn_mask: Tensor of shape ``[L, L]`` that is 0 where a pair is hidden; its values are waited for. Default:
            None.
        name: Has no effect.

    Returns:
        Tensor of the shape of ``query``; rows without a key are zero.

    Examples:
        >>> x = bireme.to_tensor([[[[1.0], [3.0]]]])
        >>> mask = bireme.sparse.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 1.0], [1, 2, 2])
        >>> bireme.sparse.nn.functional.attention(x, x, x, mask).tolist()
        [[[[3.0], [1.0]]]]
    """
    for argument, t in (("query", query), ("key", key), ("value", value)):
        dense(f"attention({argument})", t)
        if t.ndim != 4 or t.shape != query.shape:
            wanted = "shape [N, H, L, D]" if argument == "query" else f"shape {query.shape}, as query has"
            raise errors.bad(f"attention({argument})", wanted, described=f"shape {t.shape}", kind=errors.ShapeError)
    sparse("attention(sparse_mask)", sparse_mask, SparseCsrTensor)
    batch, heads, n, width = query.shape
    if sparse_mask.shape != [batch * heads, n, n]:
        raise errors.bad(
            "attention(sparse_mask)",
            f"shape {[batch * heads, n, n]}",
            described=f"shape {sparse_mask.shape}",
            kind=errors.ShapeError,
        )
    coo = sparse_mask._coo()
    rows, cols = rows_and_columns(coo)
    shown = np.ones(coo.nnz, bool)
    for argument, mask, shape in (("key_padding_mask", key_padding_mask, [batch, n]), ("attn_mask", attn_mask, [n, n])):
        if mask is None:
            continue
        dense(f"attention({argument})", mask)
        if mask.shape != shape:
            raise errors.bad(
                f"attention({argument})", f"shape {shape}", described=f"shape {mask.shape}", kind=errors.ShapeError
            )
        head, row, column = coo.axes()
        shown &= mask._host()[head // max(heads, 1) if argument == "key_padding_mask" else row, column] != 0
    if not shown.all():
        kept = np.flatnonzero(shown)
        rows, cols = owned(rows._host()[kept]), owned(cols._host()[kept])
    total = batch * heads * n
    q, k, v = (ops.reshape(t, [total, width]) for t in (query, key, value))
    with errors.within("attention", "query", "key", "value", x="query", y="key", dense="value"):
        scores = ops.product_entries(q / math.sqrt(width), k, rows, cols)
        return ops.reshape(ops.coo_product(_softmax_of(scores, rows, total), rows, cols, v, total), query.shape)


# ---------------------------------------------------------------- convolution and pooling


def _points(name: str, x: Any, n: int, data_format: str) -> None:
    """`x` is points in a batch of images or volumes, with channels that are stored in full."""
    if data_format != _FORMATS[n]:
        raise errors.bad(f"{name}(data_format)", f"'{_FORMATS[n]}'", data_format)
    sparse(f"{name}(x)", x, SparseCooTensor)
    if x.ndim != n + 2 or x.dense_dim() != 1:
        shape = f"[N, {', '.join(_FORMATS[n][1:-1])}, C] of which all but the channels are sparse"
        raise errors.bad(
            f"{name}(x)",
            shape,
            described=f"shape {x.shape} with {x.sparse_dim()} sparse dimensions",
            hint="x.to_sparse_coo(ndim - 1) of a dense tensor",
            kind=errors.ShapeError,
        )


def _each_once(x: SparseCooTensor) -> SparseCooTensor:
    """Points in the order they are in, unless one is stored twice."""
    coo = x._pattern
    if coo.coalesced or coo.known("distinct", lambda: coo.grouped(coo.keys)[0].size == coo.nnz):
        return x
    return x.coalesce()


def _through(values: Tensor, kernel: Tensor, book: rulebook.Rulebook) -> Tensor:
    """Rows of the values, each times the matrix of the kernel's element that it meets, added up where they go."""
    matrices, parts = ops.unbind(kernel, 0), []
    places = [k for k, count in enumerate(book.counts) if count]
    if not places:
        return ops.zeros([book.pattern.nnz, kernel.shape[-1]], values.dtype)
    rows = ops.index_select(values, book.read)
    pieces = [rows] if len(places) == 1 else ops.split(rows, [book.counts[k] for k in places])
    for k, piece in zip(places, pieces):
        parts.append(ops.matmul(piece, matrices[k]))
    return summed(parts[0] if len(parts) == 1 else ops.concat(parts), book.written, book.pattern.nnz)


def _convolved(
    name: str,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    fmt: str,
    subm: bool,
) -> SparseCooTensor:
    n = 3 if "3d" in name else 2
    _points(name, x, n, fmt)
    dense(f"{name}(weight)", weight)
    if groups != 1:
        raise errors.bad(f"{name}(groups)", "1", groups)
    channels = x._values.shape[1]
    if weight.ndim != n + 2 or weight.shape[n] != channels:
        raise errors.bad(
            f"{name}(weight)",
            f"shape [kernel sizes of {n} axes, {channels}, M] to match x of shape {x.shape}",
            described=f"shape {weight.shape}",
            kind=errors.ShapeError,
        )
    out = weight.shape[-1]
    if bias is not None and dense(f"{name}(bias)", bias).shape != [out]:
        raise errors.bad(f"{name}(bias)", f"shape {[out]}", described=f"shape {bias.shape}", kind=errors.ShapeError)
    window, step = tuple(weight.shape[:n]), per_axis(stride, n, f"{name}(stride)")
    spread = per_axis(dilation, n, f"{name}(dilation)")
    edges = edges_of(padding, n, True, f"{name}(padding)")
    points = _each_once(x)
    coo = points._pattern
    if subm:
        book = rulebook.of_points(coo, window, spread)
    else:
        reach = tuple((k - 1) * d + 1 for k, d in zip(window, spread))
        windows = Windows(coo.dims[1:], reach, step, settled(edges, coo.dims[1:], reach, step))
        _check_windows(f"{name}(weight)", coo, windows)
        book = rulebook.of_windows(coo, window, spread, windows)
    kernel = ops.reshape(weight, [math.prod(window), channels, out])
    with errors.within(name, "x", "weight", "bias", y="weight"):
        values = _through(points._values, kernel, book)
        return SparseCooTensor(book.pattern, values if bias is None else values + bias)


def _check_windows(where: str, coo: Coo, windows: Windows) -> None:
    if min(windows.out) < 1:
        raise errors.bad(
            where,
            f"a kernel that fits into the padded sizes of {list(coo.dims[1:])}",
            described=f"one that reaches over {list(windows.size)}",
            kind=errors.ShapeError,
        )


_CONV = """Convolve points in {what}: every window that has a point in it becomes a point of the result.

    Args:
        x: Sparse COO tensor of shape ``[{shape}]``, of which all axes but the channels are sparse.
        weight: Kernel of shape ``[{kernel}, C, M]``.
        bias: Vector of ``M`` elements. Default: None.
        stride: Step between two windows: one integer, or one for each axis. Default: 1.
        padding: What is added at both ends of each spatial axis: one integer, one for each axis, a pair (before, after)
            for each axis in one flat list, such pairs for all axes of the input, ``'SAME'`` or ``'VALID'``. Default: 0.
        dilation: Distance of neighbouring elements of the kernel: one integer, or one for each axis. Default: 1.
        groups: Has to be 1. Default: 1.
        data_format: Has to be ``'{format}'``. Default: ``'{format}'``.
        name: Has no effect.

    Returns:
        Sparse COO tensor with ``M`` channels; the bias is added at its points alone.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor({index}, [[2.0]], {dims})
        >>> y = bireme.sparse.nn.functional.{name}(x, bireme.ones({ones}), padding=1)
        >>> y.shape, y.nnz()
        {answer}
    """

_SUBM = """Convolve points in {what} where the points of the result are those of the input.

    The sizes of the input stay: each point is the centre of its window, and stride and padding have no effect. Points
    that share a pattern share the search for neighbors.

    Args:
        x: Sparse COO tensor of shape ``[{shape}]``, of which all axes but the channels are sparse.
        weight: Kernel of shape ``[{kernel}, C, M]``.
        bias: Vector of ``M`` elements. Default: None.
        stride: Has no effect. Default: 1.
        padding: Has no effect. Default: 0.
        dilation: Distance of neighbouring elements of the kernel: one integer, or one for each axis. Default: 1.
        groups: Has to be 1. Default: 1.
        data_format: Has to be ``'{format}'``. Default: ``'{format}'``.
        key: Has no effect: what was found of a pattern is kept with it. Default: None.
        name: Has no effect.

    Returns:
        Sparse COO tensor of the same pattern with ``M`` channels.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor({pair}, [[2.0], [3.0]], {dims})
        >>> bireme.sparse.nn.functional.{name}(x, bireme.ones({ones})).values().tolist()
        [[5.0], [5.0]]
    """


def conv2d(x: SparseCooTensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Padding = 0,
           dilation: Sizes = 1, groups: int = 1, data_format: str = "NHWC", name: str | None = None) -> SparseCooTensor:  # fmt: skip
    return _convolved("conv2d", x, weight, bias, stride, padding, dilation, groups, data_format, False)


def conv3d(x: SparseCooTensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Padding = 0,
           dilation: Sizes = 1, groups: int = 1, data_format: str = "NDHWC", name: str | None = None) -> SparseCooTensor:  # fmt: skip
    return _convolved("conv3d", x, weight, bias, stride, padding, dilation, groups, data_format, False)


def subm_conv2d(x: SparseCooTensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Padding = 0,
                dilation: Sizes = 1, groups: int = 1, data_format: str = "NHWC", key: str | None = None,
                name: str | None = None) -> SparseCooTensor:  # fmt: skip
    return _convolved("subm_conv2d", x, weight, bias, stride, padding, dilation, groups, data_format, True)


def subm_conv3d(x: SparseCooTensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Padding = 0,
                dilation: Sizes = 1, groups: int = 1, data_format: str = "NDHWC", key: str | None = None,
                name: str | None = None) -> SparseCooTensor:  # fmt: skip
    return _convolved("subm_conv3d", x, weight, bias, stride, padding, dilation, groups, data_format, True)


def subm_conv2d_igemm(x: SparseCooTensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
                      padding: Padding = 0, dilation: Sizes = 1, groups: int = 1, data_format: str = "NHWC",
                      key: str | None = None, name: str | None = None) -> SparseCooTensor:  # fmt: skip
    return _convolved("subm_conv2d_igemm", x, weight, bias, stride, padding, dilation, groups, data_format, True)


def subm_conv3d_igemm(x: SparseCooTensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
                      padding: Padding = 0, dilation: Sizes = 1, groups: int = 1, data_format: str = "NDHWC",
                      key: str | None = None, name: str | None = None) -> SparseCooTensor:  # fmt: skip
    return _convolved("subm_conv3d_igemm", x, weight, bias, stride, padding, dilation, groups, data_format, True)


def _document() -> None:
    for function in (conv2d, conv3d, subm_conv2d, subm_conv3d, subm_conv2d_igemm, subm_conv3d_igemm):
        name = function.__name__
        flat = "2d" in name
        function.__doc__ = (_SUBM if name.startswith("subm") else _CONV).format(
            name=name,
            what="images" if flat else "volumes",
            shape="N, H, W, C" if flat else "N, D, H, W, C",
            kernel="kh, kw" if flat else "kd, kh, kw",
            format=_FORMATS[2 if flat else 3],
            index="[[0], [1], [1]]" if flat else "[[0], [1], [1], [1]]",
            pair="[[0, 0], [1, 1], [1, 2]]" if flat else "[[0, 0], [1, 1], [1, 1], [1, 2]]",
            dims="[1, 3, 3, 1]" if flat else "[1, 3, 3, 3, 1]",
            ones="[3, 3, 1, 1]" if flat else "[3, 3, 3, 1, 1]",
            answer="([1, 3, 3, 1], 9)" if flat else "([1, 3, 3, 3, 1], 27)",
        )


_document()


def max_pool3d(
    x: SparseCooTensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> SparseCooTensor:
    """Take the maximum of the points in each window of volumes; windows without a point are not stored.

    Args:
        x: Sparse COO tensor of shape ``[N, D, H, W, C]``, of which all axes but the channels are sparse.
        kernel_size: Size of the windows: one integer, or one for each axis.
        stride: Step between two windows, the same. Default: None, ``kernel_size``.
        padding: What is added at both ends of each spatial axis, as for ``conv3d``. Default: 0.
        ceil_mode: Count a last window that reaches beyond the end. Default: False.
        data_format: Has to be ``'NDHWC'``. Default: ``'NDHWC'``.
        name: Has no effect.

    Returns:
        Sparse COO tensor; each of several equal maxima gets the gradient.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 0], [0, 0], [0, 1], [0, 0]], [[2.0], [5.0]], [1, 2, 2, 2, 1])
        >>> bireme.sparse.nn.functional.max_pool3d(x, 2).values().tolist()
        [[5.0]]
    """
    _points("max_pool3d", x, 3, data_format)
    window = per_axis(kernel_size, 3, "max_pool3d(kernel_size)")
    step = window if stride is None else per_axis(stride, 3, "max_pool3d(stride)")
    edges = edges_of(padding, 3, True, "max_pool3d(padding)")
    points = _each_once(x)
    coo = points._pattern
    windows = Windows(coo.dims[1:], window, step, settled(edges, coo.dims[1:], window, step), bool(ceil_mode))
    _check_windows("max_pool3d(kernel_size)", coo, windows)
    book = rulebook.of_windows(coo, window, (1, 1, 1), windows)
    rows = ops.index_select(points._values, book.read)
    return SparseCooTensor(book.pattern, ops.pool_rows(rows, book.written, "max", book.pattern.nnz))


guard_functions(globals())
