"""Convolution layers, plain and transposed."""

from __future__ import annotations

import math
import numbers
from typing import Any

from bireme.core.base import errors
from bireme.core.base.keywords import renamed
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import Attr, DeviceLike, DTypeLike, Padding, Sizes, must_be_positive
from bireme.nn.initializer import Normal
from bireme.nn.layer import Layer
from bireme.ops import conv1d, conv1d_transpose, conv2d, conv2d_transpose, conv3d, conv3d_transpose, pad
from bireme.ops.nn.window_args import edges_of

_MODES = ("zeros", "reflect", "replicate", "circular")
_FORMATS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
_COUNTS = {1: "an integer", 2: "an integer or two integers", 3: "an integer or three integers"}


class _ConvNd(Layer):
    """What all convolutions share: checked sizes for each axis, the kernel, the ``repr``; programs derive from it."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        transposed: bool,
        dims: int,
        stride: Sizes = 1,
        padding: Padding = 0,
        padding_mode: str = "zeros",
        output_padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCHW",
        device: DeviceLike | None = None,
        dtype: DTypeLike | None = None,
    ):
        super().__init__()
        name = type(self).__name__
        if weight_attr is False:
            raise errors.bad(
                f"{name}(weight_attr)",
                "a ParamAttr or None, since the weight is required",
                False,
                kind=errors.ArgumentError,
            )
        if not transposed and dims > 1 and data_format in [first for first, _ in _FORMATS.values()]:
            data_format = _FORMATS[dims][0]  # Paddle takes channels first under the name of any number of axes
        must_be_positive(name, in_channels=in_channels, out_channels=out_channels, groups=groups)
        in_channels, out_channels, groups = int(in_channels), int(out_channels), int(groups)
        if in_channels % groups:
            raise errors.bad(f"{name}(in_channels)", f"a multiple of groups = {groups}", in_channels)
        if out_channels % groups:
            raise errors.bad(f"{name}(out_channels)", f"a multiple of groups = {groups}", out_channels)
        if data_format not in _FORMATS[dims]:
            raise errors.bad(f"{name}(data_format)", " or ".join(map(repr, _FORMATS[dims])), data_format)
        self._in_channels = in_channels
        self._out_channels = out_channels
        self._groups = groups
        self._data_format = data_format
        self._kernel_size, self._stride, self._dilation = [
            _sizes(value, dims, f"{name}({which})")
            for which, value in (("kernel_size", kernel_size), ("stride", stride), ("dilation", dilation))
        ]
        if padding_mode not in _MODES:
            raise errors.bad(f"{name}(padding_mode)", f"one of {', '.join(map(repr, _MODES))}", padding_mode)
        if padding_mode != "zeros" and not isinstance(padding, int):
            raise errors.bad(
                f"{name}(padding)",
                f"an integer with padding_mode {padding_mode!r}",
                padding,
                kind=errors.ArgumentTypeError,
            )
        if not transposed:
            edges_of(padding, dims, data_format[-1] == "C", f"{name}(padding)")
        self._padding, self._padding_mode, self._output_padding = padding, padding_mode, output_padding
        self.output_padding, self._device = output_padding, device
        self._channel_dim = dims + 1 if data_format[-1] == "C" else 1
        by_channel = dims == 2 and groups == in_channels > 1
        self._op_type = "depthwise_conv2d" if by_channel else f"conv{dims}d"
        self._param_attr, self._bias_attr = weight_attr, bias_attr
        ends = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        # Paddle counts all input channels here, also when groups divide them
        start = None if transposed else Normal(0.0, math.sqrt(2.0 / (in_channels * math.prod(self._kernel_size))))
        self.weight = self.create_parameter(
            [*ends, *self._kernel_size], weight_attr, dtype, default_initializer=start, device=device
        )
        self.bias = self.create_parameter([out_channels], bias_attr, dtype, is_bias=True, device=device)

    def extra_repr(self) -> str:
        said = [f"{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}"]
        ones = [1] * len(self._kernel_size)
        for name, usual in (
            ("stride", ones),
            ("padding", 0),
            ("padding_mode", "zeros"),
            ("output_padding", 0),
            ("dilation", ones),
            ("groups", 1),
        ):
            value = getattr(self, f"_{name}", usual)
            if value != usual:
                said.append(f"{name}={value}")
        return ", ".join([*said, f"data_format={self._data_format}"])


def _sizes(value: Any, n: int, where: str) -> list[int]:
    found = (
        [value] * n if isinstance(value, numbers.Integral) else list(value) if isinstance(value, (list, tuple)) else []
    )
    if len(found) != n or not all(isinstance(k, numbers.Integral) for k in found):
        raise errors.bad(where, _COUNTS[n], value)
    found = [int(k) for k in found]
    if min(found) < 1:
        raise errors.bad(where, "positive integers", found)
    return found


class _Conv(_ConvNd):
    _axes = 0
    _function: Any = None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        *,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: DTypeLike | None = None,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCHW",
    ):
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            False,
            self._axes,
            stride,
            padding,
            padding_mode,
            0,
            dilation,
            groups,
            weight_attr,
            bias_attr if bias else False,
            data_format,
            device,
            dtype,
        )
        self._bias_attr = bias_attr

    @renamed(x="input")
    def forward(self, x: Tensor) -> Tensor:
        """Convolve the input with the kernel and add the bias.

        Args:
            x: Tensor in ``data_format``, with ``in_channels`` channels; ``input`` is another keyword for it.

        Returns:
            Tensor in ``data_format``, with ``out_channels`` channels.
        """
        padding = self._padding
        if self._padding_mode != "zeros":
            x = pad(x, [padding] * (2 * self._axes), mode=self._padding_mode, data_format=self._data_format)
            padding = 0
        # looked up in the class: the function is no method
        return type(self)._function(
            x, self.weight, self.bias, self._stride, padding, self._dilation, self._groups, self._data_format
        )


class Conv1D(_Conv):
    """Convolution of sequences, with a kernel of shape ``[out_channels, in_channels / groups, kernel_size]``.

    As usual in deep learning it is a cross-correlation: the kernel is not flipped.

    Args:
        in_channels: Number of channels of the input; a multiple of ``groups``.
        out_channels: Number of channels of the output; a multiple of ``groups``.
        kernel_size: Length of the kernel.
        stride: Step between two windows. Default: 1.
        padding: What is added at both ends: an integer, a pair (before, after), ``'SAME'`` or ``'VALID'``. Default: 0.
        dilation: Distance between the elements of the kernel. Default: 1.
        groups: Number of groups of channels that are convolved apart. Default: 1.
        bias: ``False`` leaves the bias out, whatever ``bias_attr`` says. Default: True.
        padding_mode: What the input is padded with: ``'zeros'``, ``'reflect'``, ``'replicate'`` or ``'circular'``; all
            but the first need ``padding`` to be an integer. Default: ``'zeros'``.
        device: Device of the parameters. Default: None, the current device.
        dtype: Data type of the parameters. Default: None, the default data type.
        weight_attr: Attribute of the kernel: a ``ParamAttr``, an initializer or a name; not ``False``. Default: None,
            normal with mean 0 and standard deviation ``sqrt(2 / (in_channels * prod(kernel_size)))``.
        bias_attr: Attribute of the bias; ``False`` leaves the bias out. Default: None, zeros.
        data_format: ``'NCL'`` or ``'NLC'``. Default: ``'NCL'``.

    Shape:
        - x: ``[N, in_channels, L]``
        - output: ``[N, out_channels, L_out]``, where
          ``L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``

    Examples:
        >>> layer = bireme.nn.Conv1D(1, 1, 2, weight_attr=bireme.nn.initializer.Constant(1.0))
        >>> layer(bireme.to_tensor([[[1.0, 2.0, 3.0]]])).tolist()
        [[[3.0, 5.0]]]
    """

    _axes = 1
    _function = staticmethod(conv1d)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        *,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: DTypeLike | None = None,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCL",
    ):
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias=bias,
            padding_mode=padding_mode,
            device=device,
            dtype=dtype,
            weight_attr=weight_attr,
            bias_attr=bias_attr,
            data_format=data_format,
        )


class Conv2D(_Conv):
    """Convolution of images, with a kernel of shape ``[out_channels, in_channels / groups, height, width]``.

    As usual in deep learning it is a cross-correlation: the kernel is not flipped.

    Args:
        in_channels: Number of channels of the input; a multiple of ``groups``.
        out_channels: Number of channels of the output; a multiple of ``groups``.
        kernel_size: Size of the kernel: one integer, or height and width.
        stride: Step between two windows: one integer, or one for each axis. Default: 1.
        padding: What is added at both ends of each spatial axis: one integer, one for each axis, a pair (before, after)
            for each axis in one flat list, such pairs for all axes of the input, ``'SAME'`` or ``'VALID'``. Default: 0.
        dilation: Distance between the elements of the kernel: one integer, or one for each axis. Default: 1.
        groups: Number of groups of channels that are convolved apart. Default: 1.
        bias: ``False`` leaves the bias out, whatever ``bias_attr`` says. Default: True.
        padding_mode: What the input is padded with: ``'zeros'``, ``'reflect'``, ``'replicate'`` or ``'circular'``; all
            but the first need ``padding`` to be an integer. Default: ``'zeros'``.
        device: Device of the parameters. Default: None, the current device.
        dtype: Data type of the parameters. Default: None, the default data type.
        weight_attr: Attribute of the kernel: a ``ParamAttr``, an initializer or a name; not ``False``. Default: None,
            normal with mean 0 and standard deviation ``sqrt(2 / (in_channels * prod(kernel_size)))``.
        bias_attr: Attribute of the bias; ``False`` leaves the bias out. Default: None, zeros.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Shape:
        - x: ``[N, in_channels, H, W]``
        - output: ``[N, out_channels, H_out, W_out]``, where
          ``H_out = (H + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, and so for the width

    Examples:
        >>> layer = bireme.nn.Conv2D(1, 1, 2, weight_attr=bireme.nn.initializer.Constant(1.0))
        >>> layer(bireme.ones([1, 1, 2, 2])).tolist()
        [[[[4.0]]]]
        >>> bireme.nn.Conv2D(3, 8, 3, stride=2, padding=1)(bireme.ones([1, 3, 32, 32])).shape
        [1, 8, 16, 16]
    """

    _axes = 2
    _function = staticmethod(conv2d)


class Conv3D(_Conv):
    """Convolution of volumes, with a kernel of shape ``[out_channels, in_channels / groups, depth, height, width]``.

    As usual in deep learning it is a cross-correlation: the kernel is not flipped.

    Args:
        in_channels: Number of channels of the input; a multiple of ``groups``.
        out_channels: Number of channels of the output; a multiple of ``groups``.
        kernel_size: Size of the kernel: one integer, or depth, height and width.
        stride: Step between two windows: one integer, or one for each axis. Default: 1.
        padding: What is added at both ends of each spatial axis: one integer, one for each axis, a pair (before, after)
            for each axis in one flat list, such pairs for all axes of the input, ``'SAME'`` or ``'VALID'``. Default: 0.
        dilation: Distance between the elements of the kernel: one integer, or one for each axis. Default: 1.
        groups: Number of groups of channels that are convolved apart. Default: 1.
        bias: ``False`` leaves the bias out, whatever ``bias_attr`` says. Default: True.
        padding_mode: What the input is padded with: ``'zeros'``, ``'reflect'``, ``'replicate'`` or ``'circular'``; all
            but the first need ``padding`` to be an integer. Default: ``'zeros'``.
        device: Device of the parameters. Default: None, the current device.
        dtype: Data type of the parameters. Default: None, the default data type.
        weight_attr: Attribute of the kernel: a ``ParamAttr``, an initializer or a name; not ``False``. Default: None,
            normal with mean 0 and standard deviation ``sqrt(2 / (in_channels * prod(kernel_size)))``.
        bias_attr: Attribute of the bias; ``False`` leaves the bias out. Default: None, zeros.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.

    Shape:
        - x: ``[N, in_channels, D, H, W]``
        - output: ``[N, out_channels, D_out, H_out, W_out]``, where
          ``D_out = (D + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, and so for height and width

    Examples:
        >>> layer = bireme.nn.Conv3D(1, 1, 2, weight_attr=bireme.nn.initializer.Constant(1.0))
        >>> layer(bireme.ones([1, 1, 2, 2, 2])).tolist()
        [[[[[8.0]]]]]
    """

    _axes = 3
    _function = staticmethod(conv3d)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        *,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: DTypeLike | None = None,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCDHW",
    ):
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias=bias,
            padding_mode=padding_mode,
            device=device,
            dtype=dtype,
            weight_attr=weight_attr,
            bias_attr=bias_attr,
            data_format=data_format,
        )


Conv1d, Conv2d, Conv3d = Conv1D, Conv2D, Conv3D


class _Transposed(_ConvNd):
    _function: Any = None

    def forward(self, x: Tensor, output_size: Sizes | None = None) -> Tensor:
        """Apply the transposed convolution and add the bias.

        Args:
            x: Tensor in ``data_format``, with ``in_channels`` channels.
            output_size: Spatial size of the output: one integer, or one for each axis. It must be one that the
                convolution maps to the size of ``x``, and takes the place of ``output_padding``. Default: None, the
                least such size plus ``output_padding``.

        Returns:
            Tensor in ``data_format``, with ``out_channels`` channels.
        """
        more = self._output_padding if output_size is None else 0  # a size that is asked for decides
        return type(self)._function(
            x, self.weight, self.bias, stride=self._stride, padding=self._padding, output_padding=more,
            groups=self._groups, dilation=self._dilation, output_size=output_size, data_format=self._data_format,
        )  # fmt: skip


class Conv1DTranspose(_Transposed):
    """Transposed convolution of sequences, the gradient of ``Conv1D`` with respect to its input.

    The kernel has shape ``[in_channels, out_channels / groups, kernel_size]``.

    Args:
        in_channels: Number of channels of the input; a multiple of ``groups``.
        out_channels: Number of channels of the output; a multiple of ``groups``.
        kernel_size: Length of the kernel.
        stride: Step between two windows of the output. Default: 1.
        padding: What is cut off at both ends of the output: an integer, a pair (before, after), ``'SAME'`` or
            ``'VALID'``. Default: 0.
        output_padding: Added to the size of the output at the end of each spatial axis, less than ``stride``: several
            sizes of the output belong to one size of the input. Default: 0.
        groups: Number of groups of channels that are convolved apart. Default: 1.
        dilation: Distance between the elements of the kernel. Default: 1.
        weight_attr: Attribute of the kernel: a ``ParamAttr``, an initializer or a name; not ``False``. Default: None,
            Xavier uniform.
        bias_attr: Attribute of the bias; ``False`` leaves the bias out. Default: None, zeros.
        data_format: ``'NCL'`` or ``'NLC'``. Default: ``'NCL'``.

    Shape:
        - x: ``[N, in_channels, L]``
        - output: ``[N, out_channels, L_out]``, where
          ``L_out = (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + 1 + output_padding``

    Examples:
        >>> layer = bireme.nn.Conv1DTranspose(1, 1, 2, weight_attr=bireme.nn.initializer.Constant(1.0))
        >>> layer(bireme.to_tensor([[[1.0, 2.0]]])).tolist()
        [[[1.0, 3.0, 2.0]]]
    """

    _function = staticmethod(conv1d_transpose)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCL",
    ):
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            True,
            1,
            stride,
            padding,
            "zeros",
            output_padding,
            dilation,
            groups,
            weight_attr,
            bias_attr,
            data_format,
        )


class Conv2DTranspose(_Transposed):
    """Transposed convolution of images, the gradient of ``Conv2D`` with respect to its input.

    The kernel has shape ``[in_channels, out_channels / groups, height, width]``.

    Args:
        in_channels: Number of channels of the input; a multiple of ``groups``.
        out_channels: Number of channels of the output; a multiple of ``groups``.
        kernel_size: Size of the kernel: one integer, or height and width.
        stride: Step between two windows of the output: one integer, or one for each axis. Default: 1.
        padding: What is cut off at both ends of each spatial axis of the output, in the forms of ``Conv2D``. Default:
            0.
        output_padding: Added to the size of the output at the end of each spatial axis, less than ``stride``: several
            sizes of the output belong to one size of the input. Default: 0.
        dilation: Distance between the elements of the kernel: one integer, or one for each axis. Default: 1.
        groups: Number of groups of channels that are convolved apart. Default: 1.
        weight_attr: Attribute of the kernel: a ``ParamAttr``, an initializer or a name; not ``False``. Default: None,
            Xavier uniform.
        bias_attr: Attribute of the bias; ``False`` leaves the bias out. Default: None, zeros.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Shape:
        - x: ``[N, in_channels, H, W]``
        - output: ``[N, out_channels, H_out, W_out]``, where
          ``H_out = (H - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + 1 + output_padding``, and so for the
          width

    Examples:
        >>> layer = bireme.nn.Conv2DTranspose(1, 1, [1, 2], weight_attr=bireme.nn.initializer.Constant(1.0))
        >>> layer(bireme.to_tensor([[[[1.0, 2.0]]]])).tolist()
        [[[[1.0, 3.0, 2.0]]]]
    """

    _function = staticmethod(conv2d_transpose)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        output_padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCHW",
    ):
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            True,
            2,
            stride,
            padding,
            "zeros",
            output_padding,
            dilation,
            groups,
            weight_attr,
            bias_attr,
            data_format,
        )


class Conv3DTranspose(_Transposed):
    """Transposed convolution of volumes, the gradient of ``Conv3D`` with respect to its input.

    The kernel has shape ``[in_channels, out_channels / groups, depth, height, width]``.

    Args:
        in_channels: Number of channels of the input; a multiple of ``groups``.
        out_channels: Number of channels of the output; a multiple of ``groups``.
        kernel_size: Size of the kernel: one integer, or depth, height and width.
        stride: Step between two windows of the output: one integer, or one for each axis. Default: 1.
        padding: What is cut off at both ends of each spatial axis of the output, in the forms of ``Conv3D``. Default:
            0.
        output_padding: Added to the size of the output at the end of each spatial axis, less than ``stride``: several
            sizes of the output belong to one size of the input. Default: 0.
        dilation: Distance between the elements of the kernel: one integer, or one for each axis. Default: 1.
        groups: Number of groups of channels that are convolved apart. Default: 1.
        weight_attr: Attribute of the kernel: a ``ParamAttr``, an initializer or a name; not ``False``. Default: None,
            Xavier uniform.
        bias_attr: Attribute of the bias; ``False`` leaves the bias out. Default: None, zeros.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.

    Shape:
        - x: ``[N, in_channels, D, H, W]``
        - output: ``[N, out_channels, D_out, H_out, W_out]``, where
          ``D_out = (D - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + 1 + output_padding``, and so for
          height and width

    Examples:
        >>> layer = bireme.nn.Conv3DTranspose(1, 1, [1, 1, 2], weight_attr=bireme.nn.initializer.Constant(1.0))
        >>> layer(bireme.to_tensor([[[[[1.0, 2.0]]]]])).tolist()
        [[[[[1.0, 3.0, 2.0]]]]]
    """

    _function = staticmethod(conv3d_transpose)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        output_padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NCDHW",
    ):
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            True,
            3,
            stride,
            padding,
            "zeros",
            output_padding,
            dilation,
            groups,
            weight_attr,
            bias_attr,
            data_format,
        )
