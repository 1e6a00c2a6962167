"""Convolution layers of points in images and volumes."""

from __future__ import annotations

import math
from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.nn.arguments import Attr, Padding, Sizes, must_be_positive
from bireme.nn.initializer import Normal
from bireme.ops.nn.window_args import edges_of, per_axis
from bireme.sparse.nn import functional as F
from bireme.sparse.tensor import SparseCooTensor


class _Convolution(nn.Layer):
    """What the four share: checked sizes for each axis, the kernel with channels last, the ``repr``."""

    _axes, _format = 0, ""
    _function: Any = None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes,
        padding: Padding,
        dilation: Sizes,
        groups: int,
        padding_mode: str,
        weight_attr: Attr,
        bias_attr: Attr,
        data_format: str,
    ):
        super().__init__()
        name = type(self).__name__
        must_be_positive(name, in_channels=in_channels, out_channels=out_channels)
        for argument, got, only in (
            ("groups", groups, 1),
            ("padding_mode", padding_mode, "zeros"),
            ("data_format", data_format, self._format),
        ):
            if got != only:
                raise errors.bad(f"{name}({argument})", repr(only), got)
        if weight_attr is False:
            raise errors.bad(f"{name}(weight_attr)", "a ParamAttr or None, since the weight is required", False)
        self._in_channels, self._out_channels, self._groups = int(in_channels), int(out_channels), 1
        self._kernel_size, self._stride, self._dilation = (
            list(per_axis(value, self._axes, f"{name}({argument})"))
            for argument, value in (("kernel_size", kernel_size), ("stride", stride), ("dilation", dilation))
        )
        edges_of(padding, self._axes, True, f"{name}(padding)")
        self._padding, self._padding_mode, self._data_format = padding, padding_mode, data_format
        start = Normal(0.0, math.sqrt(2.0 / (self._in_channels * math.prod(self._kernel_size))))
        shape = [*self._kernel_size, self._in_channels, self._out_channels]
        self.weight = self.create_parameter(shape, weight_attr, default_initializer=start)
        self.bias = self.create_parameter([self._out_channels], bias_attr, is_bias=True)

    def forward(self, x: SparseCooTensor) -> SparseCooTensor:
        """Convolve the points.

        Args:
            x: Sparse COO tensor in ``data_format``, of which all axes but the channels are sparse.

        Returns:
            Sparse COO tensor with ``out_channels`` channels.
        """
        settings = self._stride, self._padding, self._dilation, self._groups, self._data_format
        return type(self)._function(x, self.weight, self.bias, *settings)

    def extra_repr(self) -> str:
        """Say the sizes, and what is not as usual."""
        said = [f"{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}"]
        ones = [1] * self._axes
        for name, usual in (("stride", ones), ("padding", 0), ("dilation", ones)):
            value = getattr(self, f"_{name}")
            if value != usual:
                said.append(f"{name}={value}")
        return ", ".join([*said, f"data_format={self._data_format}"])


class _Subm(_Convolution):
    def _keep(self, key: str | None, backend: str | None) -> None:
        if backend not in (None, "igemm"):
            raise errors.bad(f"{type(self).__name__}(backend)", "None or 'igemm'", backend)
        self._key, self._backend = key, backend


class Conv2D(_Convolution):
    """Convolution of points in images: every window that has a point in it becomes a point of the result.

    Args:
        in_channels: Number of channels of the input.
        out_channels: Number of channels of the output.
        kernel_size: Size of the kernel: one integer, or height and width.
        stride: Step between two windows, the same. Default: 1.
        padding: What is added at both ends of each spatial axis, as for ``functional.conv2d``. Default: 0.
        dilation: Distance of neighbouring elements of the kernel: one integer, or one for each axis. Default: 1.
        groups: Has to be 1. Default: 1.
        padding_mode: Has to be ``'zeros'``. Default: ``'zeros'``.
        weight_attr: Attribute of the kernel. Default: None, drawn from a normal distribution.
        bias_attr: Attribute of the bias; ``False`` leaves it out. Default: None, zeros.
        data_format: Has to be ``'NHWC'``. Default: ``'NHWC'``.

    Shape:
        - x: sparse COO tensor ``[N, H, W, C_in]``; weight: ``[kh, kw, C_in, C_out]``
        - output: sparse COO tensor ``[N, H_out, W_out, C_out]``

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0], [1], [1]], [[2.0]], [1, 3, 3, 1])
        >>> bireme.sparse.nn.Conv2D(1, 4, 3, padding=1)(x).shape
        [1, 3, 3, 4]
    """

    _axes, _format = 2, "NHWC"
    _function = staticmethod(F.conv2d)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NHWC",
    ):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode,
                         weight_attr, bias_attr, data_format)  # fmt: skip


class Conv3D(_Convolution):
    """Convolution of points in volumes: every window that has a point in it becomes a point of the result.

    Args:
        in_channels: Number of channels of the input.
        out_channels: Number of channels of the output.
        kernel_size: Size of the kernel: one integer, or depth, height and width.
        stride: Step between two windows, the same. Default: 1.
        padding: What is added at both ends of each spatial axis, as for ``functional.conv3d``. Default: 0.
        dilation: Distance of neighbouring elements of the kernel: one integer, or one for each axis. Default: 1.
        groups: Has to be 1. Default: 1.
        padding_mode: Has to be ``'zeros'``. Default: ``'zeros'``.
        weight_attr: Attribute of the kernel. Default: None, drawn from a normal distribution.
        bias_attr: Attribute of the bias; ``False`` leaves it out. Default: None, zeros.
        data_format: Has to be ``'NDHWC'``. Default: ``'NDHWC'``.

    Shape:
        - x: sparse COO tensor ``[N, D, H, W, C_in]``; weight: ``[kd, kh, kw, C_in, C_out]``
        - output: sparse COO tensor ``[N, D_out, H_out, W_out, C_out]``

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0], [1], [1], [1]], [[2.0]], [1, 3, 3, 3, 1])
        >>> bireme.sparse.nn.Conv3D(1, 4, 3, padding=1)(x).shape
        [1, 3, 3, 3, 4]
    """

    _axes, _format = 3, "NDHWC"
    _function = staticmethod(F.conv3d)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NDHWC",
    ):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode,
                         weight_attr, bias_attr, data_format)  # fmt: skip


class SubmConv2D(_Subm):
    """Convolution of points in images where the points of the result are those of the input.

    Args:
        in_channels: Number of channels of the input.
        out_channels: Number of channels of the output.
        kernel_size: Size of the kernel: one integer, or height and width.
        stride: Has no effect. Default: 1.
        padding: Has no effect. Default: 0.
        dilation: Distance of neighbouring elements of the kernel: one integer, or one for each axis. Default: 1.
        groups: Has to be 1. Default: 1.
        padding_mode: Has to be ``'zeros'``. Default: ``'zeros'``.
        key: Has no effect: what was found of a pattern is kept with it. Default: None.
        weight_attr: Attribute of the kernel. Default: None, drawn from a normal distribution.
        bias_attr: Attribute of the bias; ``False`` leaves it out. Default: None, zeros.
        data_format: Has to be ``'NHWC'``. Default: ``'NHWC'``.
        backend: None or ``'igemm'``, which compute the same. Default: None.

    Shape:
        - x: sparse COO tensor ``[N, H, W, C_in]``; weight: ``[kh, kw, C_in, C_out]``
        - output: sparse COO tensor ``[N, H, W, C_out]`` of the same pattern

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0], [1], [1]], [[2.0]], [1, 3, 3, 1])
        >>> bireme.sparse.nn.SubmConv2D(1, 4, 3)(x).nnz()
        1
    """

    _axes, _format = 2, "NHWC"
    _function = staticmethod(F.subm_conv2d)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        key: str | None = None,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NHWC",
        backend: str | None = None,
    ):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode,
                         weight_attr, bias_attr, data_format)  # fmt: skip
        self._keep(key, backend)


class SubmConv3D(_Subm):
    """Convolution of points in volumes where the points of the result are those of the input.

    Args:
        in_channels: Number of channels of the input.
        out_channels: Number of channels of the output.
        kernel_size: Size of the kernel: one integer, or depth, height and width.
        stride: Has no effect. Default: 1.
        padding: Has no effect. Default: 0.
        dilation: Distance of neighbouring elements of the kernel: one integer, or one for each axis. Default: 1.
        groups: Has to be 1. Default: 1.
        padding_mode: Has to be ``'zeros'``. Default: ``'zeros'``.
        key: Has no effect: what was found of a pattern is kept with it. Default: None.
        weight_attr: Attribute of the kernel. Default: None, drawn from a normal distribution.
        bias_attr: Attribute of the bias; ``False`` leaves it out. Default: None, zeros.
        data_format: Has to be ``'NDHWC'``. Default: ``'NDHWC'``.
        backend: None or ``'igemm'``, which compute the same. Default: None.

    Shape:
        - x: sparse COO tensor ``[N, D, H, W, C_in]``; weight: ``[kd, kh, kw, C_in, C_out]``
        - output: sparse COO tensor ``[N, D, H, W, C_out]`` of the same pattern

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0], [1], [1], [1]], [[2.0]], [1, 3, 3, 3, 1])
        >>> bireme.sparse.nn.SubmConv3D(1, 4, 3)(x).nnz()
        1
    """

    _axes, _format = 3, "NDHWC"
    _function = staticmethod(F.subm_conv3d)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        key: str | None = None,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        data_format: str = "NDHWC",
        backend: str | None = None,
    ):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode,
                         weight_attr, bias_attr, data_format)  # fmt: skip
        self._keep(key, backend)
