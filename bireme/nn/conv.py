"""Convolution layers, plain and transposed."""

from __future__ import annotations

import math
import numbers
from typing import Any

from bireme.core import errors
from bireme.core.keywords import renamed
from bireme.core.tensor import Tensor
from bireme.nn.initializer import Normal
from bireme.nn.layer import Layer
from bireme.ops import conv1d, conv1d_transpose, conv2d, conv2d_transpose, conv3d, conv3d_transpose, pad
from bireme.ops.spatial import edges_of

_MODES = ("zeros", "reflect", "replicate", "circular")
_FORMATS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
_COUNTS = {1: "an int", 2: "an int or two of them", 3: "an int or three of them"}


class _Base(Layer):
    """What all convolutions have: sizes for each axis, checked, and the words of their text."""

    _axes = 0

    def _set(self, in_channels: Any, out_channels: Any, kernel_size: Any, stride: Any, dilation: Any, groups: Any, data_format: Any) -> None:
        name, n = type(self).__name__, self._axes
        for which, count in (("in_channels", in_channels), ("out_channels", out_channels), ("groups", groups)):
            if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < 1:
                raise errors.bad(f"{name}({which})", "an integer of 1 or more", count, kind=errors.Unfit)
        in_channels, out_channels, groups = int(in_channels), int(out_channels), int(groups)
        if in_channels % groups:
            raise errors.bad(f"{name}(in_channels)", f"a multiple of groups = {groups}", in_channels)
        if out_channels % groups:
            raise errors.bad(f"{name}(out_channels)", f"a multiple of groups = {groups}", out_channels)
        if data_format not in _FORMATS[n]:
            raise errors.bad(f"{name}(data_format)", " or ".join(_FORMATS[n]), data_format)
        self._in_channels, self._out_channels, self._groups, self._data_format = in_channels, out_channels, groups, data_format
        self._kernel_size, self._stride, self._dilation = [
            _sizes(value, n, f"{name}({which})") for which, value in (("kernel_size", kernel_size), ("stride", stride), ("dilation", dilation))
        ]

    def extra_repr(self) -> str:
        said = [f"{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}"]
        ones = [1] * self._axes
        for name, usual in (("stride", ones), ("padding", 0), ("padding_mode", "zeros"), ("output_padding", 0), ("dilation", ones), ("groups", 1)):
            value = getattr(self, f"_{name}", usual)
            if value != usual:
                said.append(f"{name}={value}")
        return ", ".join([*said, f"data_format={self._data_format}"])


def _sizes(value: Any, n: int, where: str) -> list[int]:
    found = [value] * n if isinstance(value, numbers.Integral) else list(value) if isinstance(value, (list, tuple)) else []
    if len(found) != n or not all(isinstance(k, numbers.Integral) for k in found):
        raise errors.bad(where, _COUNTS[n], value)
    found = [int(k) for k in found]
    if min(found) < 1:
        raise errors.bad(where, "numbers of 1 or more", found)
    return found


def _must_have_weight(name: str, weight_attr: Any) -> None:
    if weight_attr is False:
        raise errors.bad(f"{name}(weight_attr)", "an attribute of the kernel, or None", False, kind=errors.Unfit)


class _Conv(_Base):
    _function: Any = None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        *,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ):
        super().__init__()
        if self._axes > 1 and data_format in [first for first, _ in _FORMATS.values()]:
            data_format = _FORMATS[self._axes][0]  # Paddle takes channels first under the name of any number of axes
        self._set(in_channels, out_channels, kernel_size, stride, dilation, groups, data_format)
        name = type(self).__name__
        if padding_mode not in _MODES:
            raise errors.bad(f"{name}(padding_mode)", f"one of {', '.join(_MODES)}", padding_mode)
        if padding_mode != "zeros" and not isinstance(padding, int):
            raise errors.bad(f"{name}(padding)", f"an int with padding_mode {padding_mode}", padding, kind=TypeError)
        edges_of(padding, self._axes, data_format[-1] == "C", f"{name}(padding)")
        self._padding, self._padding_mode = padding, padding_mode
        self._param_attr, self._bias_attr = weight_attr, bias_attr
        _must_have_weight(name, weight_attr)
        # Paddle counts all input channels here, also when groups divide them
        deviation = math.sqrt(2.0 / (in_channels * math.prod(self._kernel_size)))
        self.weight = self.create_parameter(
            [out_channels, in_channels // groups, *self._kernel_size],
            weight_attr,
            dtype,
            default_initializer=Normal(0.0, deviation),
            device=device,
        )
        bias_attr = bias_attr if bias else False
        self.bias = self.create_parameter([out_channels], bias_attr, dtype, is_bias=True, device=device)

    @renamed(x="input")
    def forward(self, x: Tensor) -> Tensor:
        padding = self._padding
        if self._padding_mode != "zeros":
            x = pad(x, [padding] * (2 * self._axes), mode=self._padding_mode, data_format=self._data_format)
            padding = 0
        # looked up in the class: the function is no method
        return type(self)._function(x, self.weight, self.bias, self._stride, padding, self._dilation, self._groups, self._data_format)


class Conv1D(_Conv):
    """Convolution of sequences with a kernel of shape [out_channels, in_channels / groups, length].

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
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        *,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
    ):
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias=bias, padding_mode=padding_mode, device=device,
            dtype=dtype, weight_attr=weight_attr, bias_attr=bias_attr, data_format=data_format,
        )  # fmt: skip


class Conv2D(_Conv):
    """Convolution of images with a kernel of shape [out_channels, in_channels / groups, height, width].

    >>> layer = bireme.nn.Conv2D(1, 1, 2, weight_attr=bireme.nn.initializer.Constant(1.0))
    >>> layer(bireme.ones([1, 1, 2, 2])).tolist()
    [[[[4.0]]]]
    """

    _axes = 2
    _function = staticmethod(conv2d)


class Conv3D(_Conv):
    """Convolution of volumes with a kernel of shape [out_channels, in_channels / groups, depth, height, width].

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
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        *,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCDHW",
    ):
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias=bias, padding_mode=padding_mode, device=device,
            dtype=dtype, weight_attr=weight_attr, bias_attr=bias_attr, data_format=data_format,
        )  # fmt: skip


Conv1d, Conv2d, Conv3d = Conv1D, Conv2D, Conv3D


class _Transposed(_Base):
    _function: Any = None

    def _make(self, padding: Any, output_padding: Any, weight_attr: Any, bias_attr: Any) -> None:
        self._padding, self._output_padding = padding, output_padding
        self._param_attr, self._bias_attr = weight_attr, bias_attr
        _must_have_weight(type(self).__name__, weight_attr)
        shape = [self._in_channels, self._out_channels // self._groups, *self._kernel_size]
        self.weight = self.create_parameter(shape, weight_attr)
        self.bias = self.create_parameter([self._out_channels], bias_attr, is_bias=True)

    def forward(self, x: Tensor, output_size: Any = None) -> Tensor:
        more = self._output_padding if output_size is None else 0  # a size that is asked for decides
        return type(self)._function(
            x, self.weight, self.bias, stride=self._stride, padding=self._padding, output_padding=more,
            groups=self._groups, dilation=self._dilation, output_size=output_size, data_format=self._data_format,
        )  # fmt: skip


class Conv1DTranspose(_Transposed):
    """The gradient of `Conv1D` as a layer: from few positions to many; the kernel has shape [in_channels, out_channels / groups, length].

    >>> layer = bireme.nn.Conv1DTranspose(1, 1, 2, weight_attr=bireme.nn.initializer.Constant(1.0))
    >>> layer(bireme.to_tensor([[[1.0, 2.0]]])).tolist()
    [[[1.0, 3.0, 2.0]]]
    """

    _axes = 1
    _function = staticmethod(conv1d_transpose)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
    ):
        super().__init__()
        self._set(in_channels, out_channels, kernel_size, stride, dilation, groups, data_format)
        self._make(padding, output_padding, weight_attr, bias_attr)


class Conv2DTranspose(_Transposed):
    """The gradient of `Conv2D` as a layer: from few pixels to many; the kernel has shape [in_channels, out_channels / groups, height, width].

    >>> layer = bireme.nn.Conv2DTranspose(1, 1, [1, 2], weight_attr=bireme.nn.initializer.Constant(1.0))
    >>> layer(bireme.to_tensor([[[[1.0, 2.0]]]])).tolist()
    [[[[1.0, 3.0, 2.0]]]]
    """

    _axes = 2
    _function = staticmethod(conv2d_transpose)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ):
        super().__init__()
        self._set(in_channels, out_channels, kernel_size, stride, dilation, groups, data_format)
        self._make(padding, output_padding, weight_attr, bias_attr)


class Conv3DTranspose(_Transposed):
    """The gradient of `Conv3D` as a layer: from few cells to many; the kernel has shape [in_channels, out_channels / groups, ...].

    >>> layer = bireme.nn.Conv3DTranspose(1, 1, [1, 1, 2], weight_attr=bireme.nn.initializer.Constant(1.0))
    >>> layer(bireme.to_tensor([[[[[1.0, 2.0]]]]])).tolist()
    [[[[[1.0, 3.0, 2.0]]]]]
    """

    _axes = 3
    _function = staticmethod(conv3d_transpose)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCDHW",
    ):
        super().__init__()
        self._set(in_channels, out_channels, kernel_size, stride, dilation, groups, data_format)
        self._make(padding, output_padding, weight_attr, bias_attr)
