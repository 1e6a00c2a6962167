"""Convolution layers."""

from __future__ import annotations

import math
from typing import Any

from bireme.core import errors
from bireme.core.keywords import renamed
from bireme.core.tensor import Tensor
from bireme.nn.initializer import Normal
from bireme.nn.layer import Layer
from bireme.ops import conv2d, pad

_MODES = ("zeros", "reflect", "replicate", "circular")


class Conv2D(Layer):
    """Two-dimensional convolution with a kernel of shape [out_channels, in_channels / groups, height, width].

    >>> layer = bireme.nn.Conv2D(1, 1, 2, weight_attr=bireme.nn.initializer.Constant(1.0))
    >>> layer(bireme.ones([1, 1, 2, 2])).tolist()
    [[[[4.0]]]]
    """

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
        for name, n in (("in_channels", in_channels), ("out_channels", out_channels), ("groups", groups)):
            if isinstance(n, bool) or not isinstance(n, int) or n < 1:
                raise errors.bad(f"Conv2D({name})", "an integer of 1 or more", n)
        if in_channels % groups:
            raise errors.bad("Conv2D(in_channels)", f"a multiple of groups = {groups}", in_channels)
        if padding_mode not in _MODES:
            raise errors.bad("Conv2D(padding_mode)", f"one of {', '.join(_MODES)}", padding_mode)
        if data_format not in ("NCHW", "NHWC"):
            raise errors.bad("Conv2D(data_format)", "NCHW or NHWC", data_format)
        if padding_mode != "zeros" and not isinstance(padding, int):
            raise errors.bad("Conv2D(padding)", f"an int with padding_mode {padding_mode}", padding, kind=TypeError)
        self._in_channels, self._out_channels, self._groups = in_channels, out_channels, groups
        self._kernel_size = _pair(kernel_size, "Conv2D(kernel_size)")
        self._stride, self._dilation = _pair(stride, "Conv2D(stride)"), _pair(dilation, "Conv2D(dilation)")
        for name, sizes in (("kernel_size", self._kernel_size), ("stride", self._stride), ("dilation", self._dilation)):
            if min(sizes) < 1:
                raise errors.bad(f"Conv2D({name})", "numbers of 1 or more", list(sizes))
        self._padding, self._padding_mode, self._data_format = padding, padding_mode, data_format
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
            x = pad(x, [padding] * 4, mode=self._padding_mode, data_format=self._data_format)
            padding = 0
        return conv2d(x, self.weight, self.bias, self._stride, padding, self._dilation, self._groups, self._data_format)

    def extra_repr(self) -> str:
        said = [f"{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}"]
        for name, value, usual in (
            ("stride", self._stride, [1, 1]),
            ("padding", self._padding, 0),
            ("padding_mode", self._padding_mode, "zeros"),
            ("dilation", self._dilation, [1, 1]),
            ("groups", self._groups, 1),
        ):
            if value != usual:
                said.append(f"{name}={value}")
        return ", ".join([*said, f"data_format={self._data_format}"])


def _pair(value: Any, where: str) -> list[int]:
    if isinstance(value, int):
        return [value, value]
    if not isinstance(value, (list, tuple)) or len(value) != 2 or not all(isinstance(n, int) for n in value):
        raise errors.bad(where, "an int or two of them", value)
    return list(value)
