"""Building blocks of vision models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bireme import nn
from bireme.ops import (  # written by `make api`
    matrix_nms, nms,
)  # fmt: skip

__all__ = ["ConvNormActivation"]
__all__ += [  # written by `make api`
    "matrix_nms", "nms",
]  # fmt: skip


class ConvNormActivation(nn.Sequential):
    """Convolution, normalization and activation in sequence.

    Args:
        in_channels: Number of channels of the input.
        out_channels: Number of channels of the output.
        kernel_size: Size of the kernel. Default: 3.
        stride: Stride of the convolution. Default: 1.
        padding: Padding of the convolution. Default: None, what keeps the size of the image at stride 1.
        groups: Number of groups of channels. Default: 1.
        norm_layer: Class of the normalization; None leaves it out. Default: ``BatchNorm2D``.
        activation_layer: Class of the activation; None leaves it out. Default: ``ReLU``.
        dilation: Dilation of the convolution. Default: 1.
        bias: Give the convolution a bias. Default: None, only without normalization.

    Examples:
        >>> [type(layer).__name__ for layer in bireme.vision.ops.ConvNormActivation(3, 8)]
        ['Conv2D', 'BatchNorm2D', 'ReLU']
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int] = 3,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str | None = None,
        groups: int = 1,
        norm_layer: Callable[..., nn.Layer] | None = nn.BatchNorm2D,
        activation_layer: Callable[..., nn.Layer] | None = nn.ReLU,
        dilation: int = 1,
        bias: bool | None = None,
    ):
        if padding is None:
            sizes = kernel_size if isinstance(kernel_size, Sequence) else [kernel_size]
            each = [(size - 1) // 2 * dilation for size in sizes]
            padding = each if isinstance(kernel_size, Sequence) else each[0]
        with_bias = norm_layer is None if bias is None else bias
        conv = nn.Conv2D(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias_attr=None if with_bias else False,
        )
        layers: list[nn.Layer] = [conv]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer())
        super().__init__(*layers)
