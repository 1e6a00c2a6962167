"""Windows as columns and back, and the inverse of max pooling."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import COMPLEX, FLOAT, INT
from bireme.core.declare.op import Attr, Sizes, Tensor, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.convolution import places, taps
from bireme.ops.nn import window_args

# ---------------------------------------------------------------- columns


def _columns(x, size, stride, edges, dilation):
    """Shape [batch, channels * window, windows]."""
    out = [places(*axis) for axis in zip(x.shape[2:], size, stride, edges, dilation)]
    grown = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *[(a, b, 0) for a, b in edges]])
    parts = [grown[:, :, *at] for at in taps(size, stride, dilation, out)]
    return jnp.stack(parts, 2).reshape(x.shape[0], x.shape[1] * math.prod(size), math.prod(out))


def _columns_numpy(x, size, stride, edges, dilation):
    out = [places(*axis) for axis in zip(x.shape[2:], size, stride, edges, dilation)]
    grown = np.pad(x, ((0, 0), (0, 0), *edges))
    made = np.empty((*x.shape[:2], math.prod(size), *out), x.dtype)
    for i, at in enumerate(taps(size, stride, dilation, out)):
        made[:, :, i] = grown[:, :, *at]
    return made.reshape(x.shape[0], x.shape[1] * math.prod(size), math.prod(out))


def _sum_of_columns_numpy(x, dims, size, stride, edges, dilation):
    out = [places(*axis) for axis in zip(dims, size, stride, edges, dilation)]
    x = x.reshape(x.shape[0], x.shape[1] // math.prod(size), math.prod(size), *out)
    made = np.zeros((*x.shape[:2], *[n + a + b for n, (a, b) in zip(dims, edges)]), x.dtype)
    for i, at in enumerate(taps(size, stride, dilation, out)):
        made[:, :, *at] += x[:, :, i]
    return made[:, :, *[slice(a, a + n) for n, (a, _) in zip(dims, edges)]]


def _sum_of_columns(x, dims, size, stride, edges, dilation):
    """Each window added to what is there already: the transpose of the above."""
    out = [places(*axis) for axis in zip(dims, size, stride, edges, dilation)]
    x = x.reshape(x.shape[0], x.shape[1] // math.prod(size), math.prod(size), *out)
    zero = np.zeros((), x.dtype)
    parts = []
    for i, at in enumerate(taps(size, stride, dilation, out)):
        axes = zip(at, dims, edges)
        config = [(t.start - a, n + a - t.stop, s - 1) for s, (t, n, (a, _)) in zip(stride, axes)]
        parts.append(lax.pad(x[:, :, i], zero, [(0, 0, 0), (0, 0, 0), *config]))
    return functools.reduce(jnp.add, parts)


def _edges(paddings: Any, where: str) -> tuple[tuple[int, int], ...]:
    """One number, one an axis, or top, left, bottom, right."""
    found = window_args.ints(paddings, 0, where)
    if found is None or len(found) not in (1, 2, 4):
        raise errors.bad(where, "one integer, two or four", paddings, kind=errors.for_integer(paddings))
    if min(found) < 0:
        raise errors.bad(where, "non-negative padding", paddings)
    top, left, bottom, right = found if len(found) == 4 else found * (4 // len(found))
    return (top, bottom), (left, right)


def _window_arguments(name: str, arguments: dict[str, Any], dims: Any) -> None:
    for key in ("kernel_sizes", "strides", "dilations"):
        arguments[key] = window_args.per_axis(arguments[key], 2, f"{name}({key})")
    window = [(k - 1) * d + 1 for k, d in zip(arguments["kernel_sizes"], arguments["dilations"])]
    arguments["paddings"] = window_args.reached(
        _edges(arguments["paddings"], f"{name}(paddings)"), dims, window, arguments["strides"]
    )


def _count(dims: Any, arguments: dict[str, Any]) -> list[int]:
    return [
        places(*axis)
        for axis in zip(dims, *[arguments[k] for k in ("kernel_sizes", "strides", "paddings", "dilations")])
    ]


@op(dtypes=FLOAT | COMPLEX, public="nn.functional.unfold", numpy=_columns_numpy)
def unfold_columns(x: Tensor, kernel_sizes: Sizes, strides: Sizes = 1, paddings: Sizes = 0,
                   dilations: Sizes = 1) -> Tensor:  # fmt: skip
    """Extract windows of images as columns (im2col).

    Args:
        x: Input tensor of shape ``[N, C, H, W]``, of a floating-point or complex dtype.
        kernel_sizes: Height and width of the window: one integer or two.
        strides: Step between two windows: one integer or two. Default: 1.
        paddings: Number of zeros around the image: one integer, two (vertical, horizontal) or four (top, left, bottom,
            right). Default: 0.
        dilations: Distance between two elements of the window: one integer or two. Default: 1.

    Returns:
        Tensor of shape ``[N, C * height * width, windows]``: the elements of each window in one column.

    Examples:
        >>> bireme.nn.functional.unfold(bireme.to_tensor([[[[1.0, 2.0, 3.0]]]]), [1, 2]).tolist()
        [[[1.0, 2.0], [2.0, 3.0]]]
    """
    return _columns(x, kernel_sizes, strides, paddings, dilations)


@unfold_columns.infer
def _(x, kernel_sizes, strides, paddings, dilations):
    count = [places(*axis) for axis in zip(x.shape[2:], kernel_sizes, strides, paddings, dilations)]
    return sig_of((x.shape[0], x.shape[1] * math.prod(kernel_sizes), math.prod(count)), x.dtype)


@unfold_columns.grad(numpy=lambda g, kernel_sizes, strides, paddings, dilations, sigs: _sum_of_columns_numpy(
    g, sigs[0].shape[2:], kernel_sizes, strides, paddings, dilations))  # fmt: skip
def _(g, kernel_sizes, strides, paddings, dilations, sigs):
    return _sum_of_columns(g, sigs[0].shape[2:], kernel_sizes, strides, paddings, dilations)


@unfold_columns.prepare
def _(arguments):
    x = arguments["x"]
    if isinstance(x, Tensor):
        if x.ndim != 4:
            raise errors.bad(
                "unfold(x)",
                "shape [batch, channels, height, width]",
                described=f"shape {x.shape}",
                kind=errors.ShapeError,
            )
        _window_arguments("unfold", arguments, x.shape[2:])
        if 0 in _count(x.shape[2:], arguments):
            raise errors.bad(
                "unfold(kernel_sizes)",
                f"a kernel size of at most the padded input size, for an input size of {x.shape[2:]}",
                list(arguments["kernel_sizes"]),
            )


@op(dtypes=FLOAT | COMPLEX, numpy=_sum_of_columns_numpy)
def fold(x: Tensor, output_sizes: Sizes, kernel_sizes: Sizes, strides: Sizes = 1, paddings: Sizes = 0,
         dilations: Sizes = 1) -> Tensor:  # fmt: skip
    """Sum columns into images (col2im): the transpose of ``unfold``.

    Args:
        x: Columns of shape ``[N, C * height * width, windows]``, of a floating-point or complex dtype.
        output_sizes: Height and width of the images: one integer or two.
        kernel_sizes: Height and width of the window: one integer or two.
        strides: Step between two windows: one integer or two. Default: 1.
        paddings: Number of elements cut off around the image: one integer, two (vertical, horizontal) or four (top,
            left, bottom, right). Default: 0.
        dilations: Distance between two elements of the window: one integer or two. Default: 1.

    Returns:
        Tensor of shape ``[N, C, *output_sizes]``; elements of overlapping windows are added.

    Raises:
        ValueError: If ``x`` has another number of windows than ``output_sizes`` has.

    Examples:
        >>> bireme.nn.functional.fold(bireme.to_tensor([[[1.0, 2.0], [2.0, 3.0]]]), [1, 3], [1, 2]).tolist()
        [[[[1.0, 4.0, 3.0]]]]
    """
    return _sum_of_columns(x, output_sizes, kernel_sizes, strides, paddings, dilations)


fold.infer(
    lambda x, output_sizes, kernel_sizes: sig_of(
        (x.shape[0], x.shape[1] // math.prod(kernel_sizes), *output_sizes), x.dtype
    )
)


@fold.grad(
    numpy=lambda g, kernel_sizes, strides, paddings, dilations: _columns_numpy(
        g, kernel_sizes, strides, paddings, dilations
    )
)
def _(g, kernel_sizes, strides, paddings, dilations):
    return _columns(g, kernel_sizes, strides, paddings, dilations)


@fold.prepare
def _(arguments):
    x = arguments["x"]
    if isinstance(x, Tensor):
        if x.ndim != 3:
            raise errors.bad(
                "fold(x)",
                "shape [batch, channels * kernel elements, blocks]",
                described=f"shape {x.shape}",
                kind=errors.ShapeError,
            )
        arguments["output_sizes"] = window_args.per_axis(arguments["output_sizes"], 2, "fold(output_sizes)")
        _window_arguments("fold", arguments, arguments["output_sizes"])
        size, count = math.prod(arguments["kernel_sizes"]), _count(arguments["output_sizes"], arguments)
        if x.shape[1] % size:
            raise errors.bad(
                "fold(x)", f"a dimension 1 divisible by {size}, the number of elements of a kernel", x.shape[1]
            )
        if x.shape[2] != math.prod(count):
            raise errors.bad("fold(x)", f"{count[0]} * {count[1]} blocks", x.shape[2])


# ---------------------------------------------------------------- the way back from max pooling


def _unpooled(x, indices, output_size):
    plane = math.prod(output_size)
    flat = x.reshape(x.shape[0] * x.shape[1], math.prod(x.shape[2:]))
    rows = np.arange(flat.shape[0], dtype=np.int32)[:, None]
    made = jnp.zeros((flat.shape[0], plane), x.dtype).at[rows, indices.reshape(flat.shape)].set(flat, mode="drop")
    return made.reshape(*x.shape[:2], *output_size)


def _unpooled_numpy(x, indices, kernel_size, stride, padding, data_format, output_size):
    made = np.zeros((x.shape[0] * x.shape[1], math.prod(output_size)), x.dtype)
    flat = (made.shape[0], math.prod(x.shape[2:]))
    np.put_along_axis(made, indices.reshape(flat), x.reshape(flat), 1)
    return made.reshape(*x.shape[:2], *output_size)


def _unpooled_grad(g, indices, output_size, sigs):
    shape = sigs[0].shape
    flat = g.reshape(shape[0] * shape[1], math.prod(output_size))
    return jnp.take_along_axis(flat, indices.reshape(shape[0] * shape[1], math.prod(shape[2:])), 1).reshape(shape), None


def _unpool_arguments(name: str, n: int) -> Callable:
    def prepare(arguments):
        x, indices = arguments["x"], arguments["indices"]
        if not (isinstance(x, Tensor) and isinstance(indices, Tensor)):
            return  # refused by name afterwards
        layout = window_args.FORMATS[n][0]
        if arguments["data_format"] != layout:
            hint = f"Attr(data_format) should be '{layout}': the channels come first"
            raise errors.bad(f"{name}(data_format)", f"'{layout}'", arguments["data_format"], hint=hint)
        for key, t in (("x", x), ("indices", indices)):
            if t.ndim != n + 2:
                shape = f"[batch, channels, {window_args.AXES[n]}]"
                raise errors.bad(
                    f"{name}({key})",
                    f"shape {shape}",
                    described=f"shape {t.shape}",
                    hint=f"The {key} should have [{', '.join(layout)}] format",
                    kind=errors.ShapeError,
                )
        if indices.dtype.kind != "i":
            raise errors.bad(
                f"{name}(indices)", "an integer tensor", described=indices.dtype.name, kind=errors.DtypeError
            )
        if indices.shape != x.shape:
            hint = "The dimensions of Input(X) must equal to those of the indices: pooling gives both"
            raise errors.bad(
                f"{name}(indices)",
                f"x's shape {x.shape}",
                described=f"shape {indices.shape}",
                hint=hint,
                kind=errors.ShapeError,
            )
        size = window_args.per_axis(arguments["kernel_size"], n, f"{name}(kernel_size)")
        stride = (
            size if arguments["stride"] is None else window_args.per_axis(arguments["stride"], n, f"{name}(stride)")
        )
        padding = window_args.per_axis(arguments["padding"], n, f"{name}(padding)", least=0)
        arguments["kernel_size"], arguments["stride"], arguments["padding"] = size, stride, padding
        usual = [(m - 1) * s - 2 * p + k for m, s, p, k in zip(x.shape[2:], stride, padding, size)]
        asked = arguments["output_size"]
        if asked is not None:
            asked = window_args.ints(asked, 0, f"{name}(output_size)") or ()
            asked = (
                asked[2:] if len(asked) == n + 2 else window_args.per_axis(asked, n, f"{name}(output_size)", least=0)
            )
            for m, least, s in zip(asked, usual, stride):
                if not least - s < m < least + s:
                    hint = "an invalid output_size is one that pooling could not have come from"
                    raise errors.bad(f"{name}(output_size)", f"{least - s + 1} to {least + s - 1}", m, hint=hint)
        arguments["output_size"] = tuple([max(0, m) for m in (usual if asked is None else asked)])

    return prepare


def _complete_unpool(made: Any, n: int) -> None:
    made.prepare(_unpool_arguments(made.name, n))
    made.index(lambda s: [("indices", 0, math.prod(s["output_size"]))])
    made.infer(lambda x, output_size: sig_of((*x.shape[:2], *output_size), x.dtype))
    made.grad(_unpooled_grad, numpy=True)


@op(dtypes=FLOAT | INT, numpy=_unpooled_numpy)
def max_unpool1d(x: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes = None, padding: Sizes = 0,
                 data_format: str = "NCL", output_size: Attr[Sequence[int]] = None) -> Tensor:  # fmt: skip
    """Inverse of ``max_pool1d`` but for the elements that were not maxima, which are 0.

    Args:
        x: Maxima of shape ``[N, C, L]``, of a floating-point or integer dtype.
        indices: Integer tensor of the same shape: the index of each maximum in its sequence, as ``max_pool1d`` returns
            it with ``return_mask``.
        kernel_size: Size of the window.
        stride: Step between two windows; ``None`` means ``kernel_size``. Default: None.
        padding: Padding of the pooling. Default: 0.
        data_format: Only ``'NCL'``. Default: ``'NCL'``.
        output_size: Size of the result, of its spatial axes or of all its axes; ``None`` means
            ``(L - 1) * stride - 2 * padding + kernel_size``. Default: None.

    Returns:
        Tensor of shape ``[N, C, L_out]`` and the dtype of ``x``.

    Raises:
        ValueError: If shapes differ, an index is out of range, or pooling of ``output_size`` could not give ``x``.

    Examples:
        >>> x, indices = bireme.to_tensor([[[2.0, 3.0]]]), bireme.to_tensor([[[1, 2]]])
        >>> bireme.nn.functional.max_unpool1d(x, indices, 2).tolist()
        [[[0.0, 2.0, 3.0, 0.0]]]
    """
    return _unpooled(x, indices, output_size)


@op(dtypes=FLOAT | INT, numpy=_unpooled_numpy,
    c_ops={"unpool": "x indices ksize:kernel_size strides:stride padding output_size data_format"})  # fmt: skip
def max_unpool2d(x: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes = None, padding: Sizes = 0,
                 data_format: str = "NCHW", output_size: Attr[Sequence[int]] = None) -> Tensor:  # fmt: skip
    """Inverse of ``max_pool2d`` but for the elements that were not maxima, which are 0.

    Args:
        x: Maxima of shape ``[N, C, H, W]``, of a floating-point or integer dtype.
        indices: Integer tensor of the same shape: the index of each maximum in its plane, as ``max_pool2d`` returns it
            with ``return_mask``.
        kernel_size: Size of the window: one integer, or one for each spatial axis.
        stride: Step between two windows: one integer, or one for each spatial axis; ``None`` means ``kernel_size``.
            Default: None.
        padding: Padding of the pooling: one integer, or one for each spatial axis. Default: 0.
        data_format: Only ``'NCHW'``. Default: ``'NCHW'``.
        output_size: Size of the result, of its spatial axes or of all its axes; ``None`` means
            ``(H - 1) * stride - 2 * padding + kernel_size``, and likewise for the other axes. Default: None.

    Returns:
        Tensor of shape ``[N, C, H_out, W_out]`` and the dtype of ``x``.

    Raises:
        ValueError: If shapes differ, an index is out of range, or pooling of ``output_size`` could not give ``x``.

    Examples:
        >>> bireme.nn.functional.max_unpool2d(bireme.to_tensor([[[[4.0]]]]), bireme.to_tensor([[[[1]]]]), 2).tolist()
        [[[[0.0, 4.0], [0.0, 0.0]]]]
    """
    return _unpooled(x, indices, output_size)


@op(dtypes=FLOAT | INT, numpy=_unpooled_numpy,
    c_ops={"unpool3d": "x indices ksize:kernel_size strides:stride padding output_size data_format"})  # fmt: skip
def max_unpool3d(x: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes = None, padding: Sizes = 0,
                 data_format: str = "NCDHW", output_size: Attr[Sequence[int]] = None) -> Tensor:  # fmt: skip
    """Inverse of ``max_pool3d`` but for the elements that were not maxima, which are 0.

    Args:
        x: Maxima of shape ``[N, C, D, H, W]``, of a floating-point or integer dtype.
        indices: Integer tensor of the same shape: the index of each maximum in its volume, as ``max_pool3d`` returns it
            with ``return_mask``.
        kernel_size: Size of the window: one integer, or one for each spatial axis.
        stride: Step between two windows: one integer, or one for each spatial axis; ``None`` means ``kernel_size``.
            Default: None.
        padding: Padding of the pooling: one integer, or one for each spatial axis. Default: 0.
        data_format: Only ``'NCDHW'``. Default: ``'NCDHW'``.
        output_size: Size of the result, of its spatial axes or of all its axes; ``None`` means
            ``(D - 1) * stride - 2 * padding + kernel_size``, and likewise for the other axes. Default: None.

    Returns:
        Tensor of shape ``[N, C, D_out, H_out, W_out]`` and the dtype of ``x``.

    Raises:
        ValueError: If shapes differ, an index is out of range, or pooling of ``output_size`` could not give ``x``.

    Examples:
        >>> x, indices = bireme.to_tensor([[[[[4.0]]]]]), bireme.to_tensor([[[[[1]]]]])
        >>> bireme.nn.functional.max_unpool3d(x, indices, [1, 1, 2]).tolist()
        [[[[[0.0, 4.0]]]]]
    """
    return _unpooled(x, indices, output_size)


for _n, _made in enumerate((max_unpool1d, max_unpool2d, max_unpool3d), 1):
    _complete_unpool(_made, _n)
