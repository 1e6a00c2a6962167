"""Convolutions as functions whose parameters are made here: transposed, deformable, and over rows that follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program.variable import Variable
from bireme.core.tensor.tensor import Tensor
from bireme.ops import concat, sequence_context, zeros
from bireme.ops import conv2d_transpose as transposed_2d
from bireme.ops import conv3d_transpose as transposed_3d
from bireme.ops import deform_conv2d as deformed
from bireme.static.nn.layers import activated, known_size, parameters_of
from bireme.static.nn.sequences import lengths_of


def _each(value: Any, n: int) -> list[int]:
    return [value] * n if isinstance(value, int) else list(value)


def _kernel(where: str, x: Tensor, output_size: Any, padding: Any, stride: Any, dilation: Any, first: int) -> list[int]:
    """The sizes of kernels that give results of a size."""
    n = x.ndim - 2
    if output_size is None:
        raise errors.bad(f"{where}(output_size)", "a size, since there is no filter_size", None)
    if isinstance(padding, str) or len(_each(padding, n)) != n:
        raise errors.bad(f"{where}(padding)", "one size for each axis, since there is no filter_size", padding)
    wanted, p, s, d = [_each(value, n) for value in (output_size, padding, stride, dilation)]
    sizes = [known_size(f"{where}(input)", x, first + i) for i in range(n)]
    return [(wanted[i] - (sizes[i] - 1) * s[i] + 2 * p[i] - 1) // d[i] + 1 for i in range(n)]


def _transposed(
    where: str, call: Callable[..., Tensor], x: Tensor, num_filters: int, output_size: Any, filter_size: Any, padding: Any,
    stride: Any, dilation: Any, groups: int | None, param_attr: Any, bias_attr: Any, act: str | None, data_format: str,
) -> Tensor:  # fmt: skip
    channels_first = data_format.startswith("NC")
    channels, n = known_size(f"{where}(input)", x, 1 if channels_first else -1), x.ndim - 2
    if num_filters is None or num_filters % (groups or 1):
        raise errors.bad(f"{where}(num_filters)", f"a multiple of {groups or 1} groups", num_filters)
    if filter_size is None:
        kernel = _kernel(where, x, output_size, padding, stride, dilation, 2 if channels_first else 1)
    else:
        kernel = _each(filter_size, n)
    make = parameters_of(where, x.dtype)
    weight = make([channels, num_filters // (groups or 1), *kernel], param_attr)
    bias = make([num_filters], bias_attr, is_bias=True)
    out = call(x, weight, bias, stride, padding, 0, dilation, groups or 1, output_size, data_format)
    return activated(f"{where}(act)", out, act)


def conv2d_transpose(
    input: Tensor,
    num_filters: int,
    output_size: int | Sequence[int] | None = None,
    filter_size: int | Sequence[int] | None = None,
    padding: Any = 0,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Tensor:
    """Apply a transposed convolution to images, with kernels that are made here.

    Args:
        input: Images ``[N, C, H, W]``, or ``[N, H, W, C]``.
        num_filters: Number of channels of the result.
        output_size: Size of the result. Default: None, the least that the others allow.
        filter_size: Sizes of the kernels. Default: None, what ``output_size`` needs.
        padding: As for ``nn.functional.conv2d_transpose``. Default: 0.
        stride: Step of the result between two elements of the input. Default: 1.
        dilation: Distance of the elements of a kernel. Default: 1.
        groups: Number of groups of channels that are convolved separately. Default: None, one.
        param_attr: A ``ParamAttr`` of the kernels. Default: None.
        bias_attr: A ``ParamAttr`` of the bias, or False for none. Default: None.
        use_cudnn: Has no effect.
        act: Name of a function of ``nn.functional`` that is applied to the result. Default: None.
        name: Has no effect.
        data_format: ``"NCHW"`` or ``"NHWC"``. Default: ``"NCHW"``.

    Returns:
        Images of ``num_filters`` channels.

    Raises:
        ValueError: If neither ``filter_size`` nor ``output_size`` is given.

    Examples:
        >>> bireme.static.nn.conv2d_transpose(bireme.ones([1, 3, 4, 4]), 2, filter_size=3, stride=2).shape
        [1, 2, 9, 9]
    """
    return _transposed(
        "conv2d_transpose", transposed_2d, input, num_filters, output_size, filter_size, padding, stride, dilation,
        groups, param_attr, bias_attr, act, data_format,
    )  # fmt: skip


def conv3d_transpose(
    input: Tensor,
    num_filters: int,
    output_size: int | Sequence[int] | None = None,
    filter_size: int | Sequence[int] | None = None,
    padding: Any = 0,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Tensor:
    """Apply a transposed convolution to volumes, with kernels that are made here.

    Args:
        input: Volumes ``[N, C, D, H, W]``, or ``[N, D, H, W, C]``.
        num_filters: Number of channels of the result.
        output_size: Size of the result. Default: None, the least that the others allow.
        filter_size: Sizes of the kernels. Default: None, what ``output_size`` needs.
        padding: As for ``nn.functional.conv3d_transpose``. Default: 0.
        stride: Step of the result between two elements of the input. Default: 1.
        dilation: Distance of the elements of a kernel. Default: 1.
        groups: Number of groups of channels that are convolved separately. Default: None, one.
        param_attr: A ``ParamAttr`` of the kernels. Default: None.
        bias_attr: A ``ParamAttr`` of the bias, or False for none. Default: None.
        use_cudnn: Has no effect.
        act: Name of a function of ``nn.functional`` that is applied to the result. Default: None.
        name: Has no effect.
        data_format: ``"NCDHW"`` or ``"NDHWC"``. Default: ``"NCDHW"``.

    Returns:
        Volumes of ``num_filters`` channels.

    Raises:
        ValueError: If neither ``filter_size`` nor ``output_size`` is given.

    Examples:
        >>> bireme.static.nn.conv3d_transpose(bireme.ones([1, 2, 3, 3, 3]), 4, filter_size=2).shape
        [1, 4, 4, 4, 4]
    """
    return _transposed(
        "conv3d_transpose", transposed_3d, input, num_filters, output_size, filter_size, padding, stride, dilation,
        groups, param_attr, bias_attr, act, data_format,
    )  # fmt: skip


def deform_conv2d(
    x: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    num_filters: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    deformable_groups: int = 1,
    im2col_step: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolve images with kernels that are made here and read each pixel at an offset of its own.

    Args:
        x: Images ``[N, C, H, W]``.
        offset: Offsets, as for ``vision.ops.deform_conv2d``.
        mask: Factors of the pixels, or None.
        num_filters: Number of channels of the result.
        filter_size: Sizes of the kernels.
        stride: Step of the kernels. Default: 1.
        padding: Zeros on each side. Default: 0.
        dilation: Distance of the elements of a kernel. Default: 1.
        groups: Number of groups of channels that are convolved separately. Default: 1.
        deformable_groups: Number of groups of channels with offsets of their own. Default: 1.
        im2col_step: Has no effect.
        weight_attr: A ``ParamAttr`` of the kernels. Default: None.
        bias_attr: A ``ParamAttr`` of the bias, or False for none. Default: None.
        name: Has no effect.

    Returns:
        Images of ``num_filters`` channels.

    Examples:
        >>> offset = bireme.zeros([1, 18, 3, 3])
        >>> bireme.static.nn.deform_conv2d(bireme.ones([1, 2, 5, 5]), offset, None, 4, 3).shape
        [1, 4, 3, 3]
    """
    channels, kernel = known_size("deform_conv2d(x)", x, 1), _each(filter_size, 2)
    make = parameters_of("deformable_conv", x.dtype)
    start = nn.initializer.Normal(0.0, math.sqrt(2.0 / (kernel[0] * kernel[1] * channels)))
    weight = make([num_filters, channels // groups, *kernel], weight_attr, default_initializer=start)
    bias = make([num_filters], bias_attr, is_bias=True)
    return deformed(x, offset, weight, bias, stride, padding, dilation, deformable_groups, groups, mask)


def row_conv(input: Tensor, future_context_size: int, param_attr: Any = None, act: str | None = None) -> Tensor:
    """Add up, for each row, the row and those that follow it, each multiplied by weights that are made here.

    Args:
        input: Tensor of shape ``[N, rows, features]``, or ``[rows, features]`` whose rows belong to sequences.
        future_context_size: Number of rows that follow.
        param_attr: A ``ParamAttr`` of the weights ``[future_context_size + 1, features]``. Default: None.
        act: Name of a function of ``nn.functional`` that is applied to the result. Default: None.

    Returns:
        Tensor of the shape of ``input``.

    Examples:
        >>> x = bireme.to_tensor([[[1.0], [2.0], [4.0]]])
        >>> bireme.static.nn.row_conv(x, 1, param_attr=bireme.nn.initializer.Constant(1.0)).tolist()
        [[[3.0], [6.0], [4.0]]]
    """
    size = future_context_size + 1
    features = known_size("row_conv(input)", input, -1)
    weight = parameters_of("row_conv", input.dtype)([size, features], param_attr)
    if input.ndim == 3:
        behind = zeros([input.shape[0], future_context_size, features], input.dtype)
        rows = concat([input, behind], 1)
        out = input * weight[0]
        for i in range(1, size):
            out = out + rows[:, i : input.shape[1] + i] * weight[i]
    elif isinstance(input, Variable) and input.ndim == 2:
        out = (sequence_context(input, lengths_of("row_conv(input)", input), 0, size) * weight).sum(1)
    else:
        raise errors.bad("row_conv(input)", "3 dimensions, or rows of sequences", described=f"{input.ndim} dimensions")
    return activated("row_conv(act)", out, act)


guard_functions(globals())
