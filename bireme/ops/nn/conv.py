"""Convolutions and transposed convolutions over one, two and three axes; `conv_lowering` says how they are computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Padding, Sizes, Tensor, op
from bireme.core.graph.bound import on_mesh
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import convolution
from bireme.core.numpy_exec.convolution import places
from bireme.ops._shared.precision import widen
from bireme.ops.nn import conv_cudnn, conv_lowering, window_args

# ---------------------------------------------------------------- both kinds, by NumPy's or XLA's three functions


def _last(data_format: str) -> bool:
    return data_format[-1] == "C"


def _as_is(x: Any) -> Any:
    """Operands for cuDNN, which adds half precision up in float32 itself."""
    return x


def _finished(out: Any, bias: Any, dtype: Any, last: bool) -> Any:
    if bias is not None:
        out = out + (bias if last else bias.reshape(-1, *[1] * (out.ndim - 2)))
    return out if out.dtype == dtype else out.astype(dtype)


def _bias_grad(g: Any, sigs: tuple, needs: tuple, last: bool) -> Any:
    if len(sigs) < 3 or not needs[2]:
        return None
    channel = g.ndim - 1 if last else 1
    total = g.sum(tuple([i for i in range(g.ndim) if i != channel]))
    return total if sigs[2].size == total.size else total.sum(keepdims=True)


def _conv(x, weight, bias, stride, padding, dilation, groups, data_format, by=conv_lowering, widen=widen):
    last = _last(data_format)
    out = by.forward(widen(x), widen(weight), stride, padding, dilation, groups, last)
    return _finished(out, bias, x.dtype, last)


def _conv_grad(
    g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs, by=conv_lowering, widen=widen
):
    last = _last(data_format)
    g, x, w = widen(g), widen(x), widen(weight)
    rest = (stride, padding, dilation, groups, last)
    dx = by.input_grad(g, w, window_args.spatial(x.shape, last), *rest) if needs[0] else None
    dw = by.weight_grad(x, g, w.shape[2:], *rest) if needs[1] else None
    return dx, dw, _bias_grad(g, sigs, needs, last)


def _transposed(
    x, weight, bias, stride, padding, dilation, groups, output_size, data_format, by=conv_lowering, widen=widen
):
    last = _last(data_format)
    out = by.input_grad(widen(x), widen(weight), output_size, stride, padding, dilation, groups, last)
    return _finished(out, bias, x.dtype, last)


def _transposed_grad(
    g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs, by=conv_lowering, widen=widen
):
    last = _last(data_format)
    g, x, w = widen(g), widen(x), widen(weight)
    rest = (stride, padding, dilation, groups, last)
    dx = by.forward(g, w, *rest) if needs[0] else None
    dw = by.weight_grad(g, x, w.shape[2:], *rest) if needs[1] else None
    return dx, dw, _bias_grad(g, sigs, needs, last)


# ---------------------------------------------------------------- checks and inference


def complete(name: str, n: int, transposed: bool = False) -> Callable:
    """Numbers for each axis, and the padding as what is added before and after it."""

    def prepare(arguments):
        x, weight = arguments["x"], arguments["weight"]
        if not (isinstance(x, Tensor) and isinstance(weight, Tensor)):
            return  # refused by name afterwards
        last = window_args.channels_last(arguments["data_format"], n, name)
        window_args.check_image(name, x, n, last)
        if weight.ndim != n + 2:
            shape = "[in, out / groups, " if transposed else "[out, in / groups, "
            raise errors.bad(
                f"{name}(weight)",
                f"kernels of shape {shape}{window_args.AXES[n]}]",
                described=f"shape {weight.shape}",
                kind=errors.ShapeError,
            )
        stride = window_args.per_axis(arguments["stride"], n, f"{name}(stride)")
        dilation = window_args.per_axis(arguments["dilation"], n, f"{name}(dilation)")
        edges = window_args.edges_of(arguments["padding"], n, last, f"{name}(padding)")
        dims, window = window_args.spatial(x.shape, last), weight.shape[2:]
        if edges == "SAME":
            dilation = (1,) * n  # as Paddle has it
        arguments["stride"], arguments["dilation"] = stride, dilation
        padding = window_args.settled(edges, dims, window, stride)
        if not transposed:
            padding = window_args.reached(padding, dims, [(k - 1) * d + 1 for k, d in zip(window, dilation)], stride)
        arguments["padding"] = padding
        if transposed:
            arguments["output_size"] = _output_size(name, arguments, dims, window, stride, padding, dilation)
            arguments["output_padding"] = (0,) * n

    return prepare


def _output_size(name, arguments, dims, window, stride, padding, dilation):
    """Several sizes have the same number of windows: the least of them, or more by `output_padding`, or as asked."""
    n = len(dims)
    least = [
        (m - 1) * s - a - b + (k - 1) * d + 1 for m, s, (a, b), k, d in zip(dims, stride, padding, window, dilation)
    ]
    extra, asked = arguments["output_padding"], arguments["output_size"]
    more = window_args.per_axis(extra, n, f"{name}(output_padding)", least=0) if extra is not None else (0,) * n
    if asked is None:
        for e, s in zip(more, stride):
            if e >= s:
                raise errors.bad(f"{name}(output_padding)", f"less than stride = {s}", e)
        return tuple([m + e for m, e in zip(least, more)])
    if any(more):
        raise errors.bad(f"{name}(output_padding)", "none, because output_size is given", list(more))
    sizes = window_args.per_axis(asked, n, f"{name}(output_size)", least=0)
    for size, m, s in zip(sizes, least, stride):
        if not m <= size < m + s:
            raise errors.bad(f"{name}(output_size)", f"{m} to {m + s - 1}", size)
    return sizes


def check_operands(name: str, transposed: bool = False) -> Callable:
    where_in, where_out = (
        ("weight.shape[0]", "weight.shape[1]") if transposed else ("weight.shape[1]", "weight.shape[0]")
    )

    def check(x, weight, bias, stride, padding, dilation, groups, data_format):
        last = _last(data_format)
        channels = x.shape[-1 if last else 1]
        if groups < 1:
            raise errors.bad(f"{name}(groups)", "a positive integer", groups, kind=errors.for_integer(groups))
        wanted = weight.shape[0] if transposed else weight.shape[1] * groups
        if channels != wanted:
            expected = f"{wanted} channels, as {where_in} says for groups = {groups}"
            raise errors.bad(f"{name}(x)", expected, channels, kind=errors.ShapeError)
        if weight.shape[0] % groups:
            raise errors.bad(
                f"{name}(weight)",
                f"a first dimension divisible by groups = {groups}",
                described=f"shape {list(weight.shape)}",
                kind=errors.ShapeError,
            )
        outputs = weight.shape[1] * groups if transposed else weight.shape[0]
        if bias is not None and (bias.ndim != 1 or bias.size not in (1, outputs)):
            raise errors.bad(
                f"{name}(bias)",
                f"shape [{outputs}], as {where_out} says",
                described=f"shape {list(bias.shape)}",
                kind=errors.ShapeError,
            )
        if 0 in (weight.shape[0], *weight.shape[2:]):
            raise errors.bad(
                f"{name}(weight)", "a non-empty kernel", described=f"shape {list(weight.shape)}", kind=errors.ShapeError
            )
        if not transposed and x.size:
            for m, k, s, d, p in zip(window_args.spatial(x.shape, last), weight.shape[2:], stride, dilation, padding):
                room, window = m + sum(p), (k - 1) * d + 1
                if room < window and window_args.count(m, window, s, p):  # one step short, the result is empty
                    raise errors.bad(
                        f"{name}(weight)", f"a kernel size of at most {room}, the size of the padded input", window
                    )

    return check


def _check_size(name: str, check: Callable) -> Callable:
    def with_size(x, weight, bias, stride, padding, dilation, groups, output_size, data_format):
        check(x, weight, bias, stride, padding, dilation, groups, data_format)
        if min(output_size) < 0:
            raise errors.bad(
                f"{name}(padding)",
                "padding that leaves a non-negative output size",
                described=f"a result of shape {list(output_size)}",
            )

    return with_size


def _shaped(x, channels, dims, data_format):
    return sig_of((x.shape[0], *dims, channels) if _last(data_format) else (x.shape[0], channels, *dims), x.dtype)


def infer(x, weight, stride, padding, dilation, data_format):
    dims = zip(window_args.spatial(x.shape, _last(data_format)), weight.shape[2:], stride, padding, dilation)
    return _shaped(x, weight.shape[0], [places(*each) for each in dims], data_format)


def _infer_transposed(x, weight, groups, output_size, data_format):
    return _shaped(x, weight.shape[1] * groups, output_size, data_format)


def _flops(x, weight, bias=None):
    """At stride 1; which axis has the channels is seen from what divides it."""
    channels = x.shape[1] if weight.shape[1] and x.shape[1] % weight.shape[1] == 0 else x.shape[-1]
    return x.size // max(channels, 1) * weight.size


def _effort(x, weight, stride):
    """The interpreter writes out all windows and reads them again; the rest takes 20 us, however few they are."""
    return 40_000 + 3 * x.size * math.prod(weight.shape[2:]) // math.prod(stride)


def _transposed_effort(x, weight):
    return 40_000 + 3 * x.size * math.prod(weight.shape[2:])


# ---------------------------------------------------------------- the operators


def _conv_numpy(x, weight, bias, stride, padding, dilation, groups, data_format):
    return _conv(x, weight, bias, stride, padding, dilation, groups, data_format, by=convolution)


def _conv_grad_numpy(g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs):
    return _conv_grad(g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs, by=convolution)


def _conv_grad_jax(g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs):
    return _conv_grad(g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs)


def _conv_cuda(by):
    """The form of the operator and that of its gradient for NVIDIA GPUs."""

    def conv(x, weight, bias, stride, padding, dilation, groups, data_format):
        return _conv(x, weight, bias, stride, padding, dilation, groups, data_format, by, _as_is)

    def grad(g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs):
        return _conv_grad(g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs, by, _as_is)

    return conv, grad


def _complete_cuda(made: Any, forms: Callable) -> None:
    for platform, by in (("cuda", conv_cudnn.ALONE), (on_mesh("cuda"), conv_cudnn.ON_MESH)):
        form, grad = forms(by)
        made.grad(grad, on=platform)
        made.on(platform)(form)


def _complete_conv(made: Any, n: int) -> None:
    made.prepare(complete(made.name, n))
    made.check(check_operands(made.name))
    made.infer(infer)
    made.flops(_flops)
    made.effort(_effort)
    made.grad(_conv_grad_jax, numpy=_conv_grad_numpy)
    _complete_cuda(made, _conv_cuda)


@op(dtypes=FLOAT, promote="x weight bias", mix="same", amp="low", numpy=_conv_numpy)
def conv1d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Padding = 0,
           dilation: Sizes = 1, groups: int = 1, data_format: str = "NCL") -> Tensor:  # fmt: skip
    """Convolution of sequences with kernels of shape ``[C_out, C_in / groups, length]``.

    As usual in deep learning it is a cross-correlation: the kernel is not flipped. ``'SAME'`` pads so that the size of
    the result is that of the input divided by the stride, rounded up, and makes the dilation 1; ``'VALID'`` pads
    nothing.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        weight: Kernels, of the dtype of ``x``.
        bias: Tensor of shape ``[C_out]``, or of one element, that is added; ``None`` adds nothing. Default: None.
        stride: Step between two windows. Default: 1.
        padding: Number of zeros added at both ends: an integer, a pair (before, after), ``'SAME'`` or ``'VALID'``.
            Default: 0.
        dilation: Distance between two elements of the kernel. Default: 1.
        groups: Number of groups of channels that are convolved separately. Default: 1.
        data_format: ``'NCL'`` or ``'NLC'``. Default: ``'NCL'``.

    Returns:
        Tensor of shape ``[N, C_out, L_out]`` in ``data_format``, where
        ``L_out = (L + before + after - dilation * (size - 1) - 1) // stride + 1``.

    Raises:
        ValueError: If the channels of ``x`` and ``weight`` do not fit, or the kernel is larger than the padded input.

    Examples:
        >>> bireme.nn.functional.conv1d(bireme.ones([1, 1, 4]), bireme.ones([1, 1, 2])).tolist()
        [[[2.0, 2.0, 2.0]]]
    """
    return _conv(x, weight, bias, stride, padding, dilation, groups, data_format)


@op(dtypes=FLOAT, promote="x weight bias", mix="same", amp="low", numpy=_conv_numpy)
def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Padding = 0,
           dilation: Sizes = 1, groups: int = 1, data_format: str = "NCHW") -> Tensor:  # fmt: skip
    """Convolution of images with kernels of shape ``[C_out, C_in / groups, height, width]``.

    As usual in deep learning it is a cross-correlation: the kernel is not flipped. ``'SAME'`` pads so that the size of
    the result is that of the input divided by the stride, rounded up, and makes the dilation 1; ``'VALID'`` pads
    nothing.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        weight: Kernels, of the dtype of ``x``.
        bias: Tensor of shape ``[C_out]``, or of one element, that is added; ``None`` adds nothing. Default: None.
        stride: Step between two windows: one integer, or one for each spatial axis. Default: 1.
        padding: Number of zeros added at both ends of each spatial axis: one integer, one for each axis, a pair
            (before, after) for each axis in one flat list, such pairs for all axes of ``x`` in nested lists, ``'SAME'``
            or ``'VALID'``. Default: 0.
        dilation: Distance between two elements of the kernel: one integer, or one for each spatial axis. Default: 1.
        groups: Number of groups of channels that are convolved separately. Default: 1.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Returns:
        Tensor of shape ``[N, C_out, H_out, W_out]`` in ``data_format``, where
        ``H_out = (H + before + after - dilation * (size - 1) - 1) // stride + 1``, and likewise for the other axes.

    Raises:
        ValueError: If the channels of ``x`` and ``weight`` do not fit, or the kernel is larger than the padded input.

    Examples:
        >>> bireme.nn.functional.conv2d(bireme.ones([1, 1, 3, 3]), bireme.ones([1, 1, 2, 2])).tolist()
        [[[[4.0, 4.0], [4.0, 4.0]]]]
    """
    return _conv(x, weight, bias, stride, padding, dilation, groups, data_format)


@op(dtypes=FLOAT, promote="x weight bias", mix="same", amp="low", numpy=_conv_numpy)
def conv3d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Padding = 0,
           dilation: Sizes = 1, groups: int = 1, data_format: str = "NCDHW") -> Tensor:  # fmt: skip
    """Convolution of volumes with kernels of shape ``[C_out, C_in / groups, depth, height, width]``.

    As usual in deep learning it is a cross-correlation: the kernel is not flipped. ``'SAME'`` pads so that the size of
    the result is that of the input divided by the stride, rounded up, and makes the dilation 1; ``'VALID'`` pads
    nothing.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        weight: Kernels, of the dtype of ``x``.
        bias: Tensor of shape ``[C_out]``, or of one element, that is added; ``None`` adds nothing. Default: None.
        stride: Step between two windows: one integer, or one for each spatial axis. Default: 1.
        padding: Number of zeros added at both ends of each spatial axis: one integer, one for each axis, a pair
            (before, after) for each axis in one flat list, such pairs for all axes of ``x`` in nested lists, ``'SAME'``
            or ``'VALID'``. Default: 0.
        dilation: Distance between two elements of the kernel: one integer, or one for each spatial axis. Default: 1.
        groups: Number of groups of channels that are convolved separately. Default: 1.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.

    Returns:
        Tensor of shape ``[N, C_out, D_out, H_out, W_out]`` in ``data_format``, where
        ``D_out = (D + before + after - dilation * (size - 1) - 1) // stride + 1``, and likewise for the other axes.

    Raises:
        ValueError: If the channels of ``x`` and ``weight`` do not fit, or the kernel is larger than the padded input.

    Examples:
        >>> bireme.nn.functional.conv3d(bireme.ones([1, 1, 2, 2, 2]), bireme.ones([1, 1, 2, 2, 2])).tolist()
        [[[[[8.0]]]]]
    """
    return _conv(x, weight, bias, stride, padding, dilation, groups, data_format)


for _made, _n in ((conv1d, 1), (conv2d, 2), (conv3d, 3)):
    _complete_conv(_made, _n)


# ---------------------------------------------------------------- transposed; Paddle has groups before dilation but
# for two axes


def _swapped_numpy(x, weight, bias, stride, padding, output_padding, groups, dilation, output_size, data_format):
    return _transposed(x, weight, bias, stride, padding, dilation, groups, output_size, data_format, by=convolution)


def _transposed_numpy(x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format):
    return _transposed(x, weight, bias, stride, padding, dilation, groups, output_size, data_format, by=convolution)


def _transposed_grad_numpy(g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs):
    return _transposed_grad(g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs, by=convolution)


def _transposed_grad_jax(g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs):
    return _transposed_grad(g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs)


def _transposed_cuda(by):
    """The form of the operator and that of its gradient for NVIDIA GPUs."""

    def transposed(x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format):
        return _transposed(x, weight, bias, stride, padding, dilation, groups, output_size, data_format, by, _as_is)

    def grad(g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs):
        return _transposed_grad(g, x, weight, stride, padding, dilation, groups, data_format, sigs, needs, by, _as_is)

    return transposed, grad


def _complete_transposed(made: Any, n: int) -> None:
    made.prepare(complete(made.name, n, transposed=True))
    made.check(_check_size(made.name, check_operands(made.name, transposed=True)))
    made.infer(_infer_transposed)
    made.flops(_flops)
    made.effort(_transposed_effort)
    made.grad(_transposed_grad_jax, numpy=_transposed_grad_numpy)
    _complete_cuda(made, _transposed_cuda)


@op(dtypes=FLOAT, promote="x weight bias", mix="same", amp="low", numpy=_swapped_numpy)
def conv1d_transpose(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Padding = 0,
                     output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1, output_size: Sizes = None,
                     data_format: str = "NCL") -> Tensor:  # fmt: skip
    """Transposed convolution of sequences with kernels of shape ``[C_in, C_out / groups, length]``.

    It is the gradient of a convolution with respect to its input: each element adds a kernel to the result, at steps of
    the stride.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        weight: Kernels, of the dtype of ``x``.
        bias: Tensor of shape ``[C_out]``, or of one element, that is added; ``None`` adds nothing. Default: None.
        stride: Step of the result between two elements of the input. Default: 1.
        padding: Number of elements cut off at both ends: an integer, a pair (before, after), ``'SAME'`` or ``'VALID'``.
            Default: 0.
        output_padding: Number of elements added to the end of the result; less than the stride. Default: 0.
        groups: Number of groups of channels that are convolved separately. Default: 1.
        dilation: Distance between two elements of the kernel. Default: 1.
        output_size: Size of the result, in place of ``output_padding``. Default: None.
        data_format: ``'NCL'`` or ``'NLC'``. Default: ``'NCL'``.

    Returns:
        Tensor of shape ``[N, C_out, L_out]`` in ``data_format``, where
        ``L_out = (L - 1) * stride - before - after + dilation * (size - 1) + 1 + output_padding``.

    Raises:
        ValueError: If the channels of ``x`` and ``weight`` do not fit, or ``output_size`` is none that the stride
            allows.

    Examples:
        >>> bireme.nn.functional.conv1d_transpose(bireme.ones([1, 1, 2]), bireme.ones([1, 1, 2])).tolist()
        [[[1.0, 2.0, 1.0]]]
    """
    return _transposed(x, weight, bias, stride, padding, dilation, groups, output_size, data_format)


@op(dtypes=FLOAT, promote="x weight bias", mix="same", amp="low", numpy=_transposed_numpy)
def conv2d_transpose(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Padding = 0,
                     output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1, output_size: Sizes = None,
                     data_format: str = "NCHW") -> Tensor:  # fmt: skip
    """Transposed convolution of images with kernels of shape ``[C_in, C_out / groups, height, width]``.

    It is the gradient of a convolution with respect to its input: each element adds a kernel to the result, at steps of
    the stride.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        weight: Kernels, of the dtype of ``x``.
        bias: Tensor of shape ``[C_out]``, or of one element, that is added; ``None`` adds nothing. Default: None.
        stride: Step of the result between two elements of the input: one integer, or one for each spatial axis.
            Default: 1.
        padding: Number of elements cut off at both ends of each spatial axis of the result: one integer, one for each
            axis, a pair (before, after) for each axis in one flat list, such pairs for all axes of ``x`` in nested
            lists, ``'SAME'`` or ``'VALID'``. Default: 0.
        output_padding: Number of elements added to the end of the result: one integer, or one for each spatial axis;
            less than the stride. Default: 0.
        dilation: Distance between two elements of the kernel: one integer, or one for each spatial axis. Default: 1.
        groups: Number of groups of channels that are convolved separately. Default: 1.
        output_size: Size of the result: one integer, or one for each spatial axis, in place of ``output_padding``.
            Default: None.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Returns:
        Tensor of shape ``[N, C_out, H_out, W_out]`` in ``data_format``, where
        ``H_out = (H - 1) * stride - before - after + dilation * (size - 1) + 1 + output_padding``, and likewise for the
        other axes.

    Raises:
        ValueError: If the channels of ``x`` and ``weight`` do not fit, or ``output_size`` is none that the stride
            allows.

    Examples:
        >>> bireme.nn.functional.conv2d_transpose(bireme.ones([1, 1, 1, 2]), bireme.ones([1, 1, 1, 2])).tolist()
        [[[[1.0, 2.0, 1.0]]]]
    """
    return _transposed(x, weight, bias, stride, padding, dilation, groups, output_size, data_format)


@op(dtypes=FLOAT, promote="x weight bias", mix="same", amp="low", numpy=_swapped_numpy)
def conv3d_transpose(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Padding = 0,
                     output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1, output_size: Sizes = None,
                     data_format: str = "NCDHW") -> Tensor:  # fmt: skip
    """Transposed convolution of volumes with kernels of shape ``[C_in, C_out / groups, depth, height, width]``.

    It is the gradient of a convolution with respect to its input: each element adds a kernel to the result, at steps of
    the stride.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        weight: Kernels, of the dtype of ``x``.
        bias: Tensor of shape ``[C_out]``, or of one element, that is added; ``None`` adds nothing. Default: None.
        stride: Step of the result between two elements of the input: one integer, or one for each spatial axis.
            Default: 1.
        padding: Number of elements cut off at both ends of each spatial axis of the result: one integer, one for each
            axis, a pair (before, after) for each axis in one flat list, such pairs for all axes of ``x`` in nested
            lists, ``'SAME'`` or ``'VALID'``. Default: 0.
        output_padding: Number of elements added to the end of the result: one integer, or one for each spatial axis;
            less than the stride. Default: 0.
        groups: Number of groups of channels that are convolved separately. Default: 1.
        dilation: Distance between two elements of the kernel: one integer, or one for each spatial axis. Default: 1.
        output_size: Size of the result: one integer, or one for each spatial axis, in place of ``output_padding``.
            Default: None.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.

    Returns:
        Tensor of shape ``[N, C_out, D_out, H_out, W_out]`` in ``data_format``, where
        ``D_out = (D - 1) * stride - before - after + dilation * (size - 1) + 1 + output_padding``, and likewise for the
        other axes.

    Raises:
        ValueError: If the channels of ``x`` and ``weight`` do not fit, or ``output_size`` is none that the stride
            allows.

    Examples:
        >>> bireme.nn.functional.conv3d_transpose(bireme.ones([1, 1, 1, 1, 2]), bireme.ones([1, 1, 1, 1, 2])).tolist()
        [[[[[1.0, 2.0, 1.0]]]]]
    """
    return _transposed(x, weight, bias, stride, padding, dilation, groups, output_size, data_format)


for _made, _n in ((conv1d_transpose, 1), (conv2d_transpose, 2), (conv3d_transpose, 3)):
    _complete_transposed(_made, _n)
