"""Building blocks of vision models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme import nn


class ConvNormActivation(nn.Sequential):
    """A convolution, a normalisation and an activation; what is None is left out, and the padding keeps the size at stride 1.

    >>> [type(layer).__name__ for layer in bireme.vision.ops.ConvNormActivation(3, 8)]
    ['Conv2D', 'BatchNorm2D', 'ReLU']
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        groups: int = 1,
        norm_layer: Callable[..., nn.Layer] | None = nn.BatchNorm2D,
        activation_layer: Callable[..., nn.Layer] | None = nn.ReLU,
        dilation: int = 1,
        bias: bool | None = None,
    ):
        if padding is None:
            padding = (kernel_size - 1) // 2 * dilation
        with_bias = norm_layer is None if bias is None else bias
        conv = nn.Conv2D(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias_attr=None if with_bias else False
        )  # fmt: skip
        layers: list[nn.Layer] = [conv]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer())
        super().__init__(*layers)
