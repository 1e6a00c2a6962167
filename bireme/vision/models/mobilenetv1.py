"""MobileNet of the first version: convolutions of each channel by itself, then of all channels at one place."""

from __future__ import annotations

from typing import Any

from bireme import nn
from bireme.core.tensor.tensor import Tensor
from bireme.vision.models.weights import refuse
from bireme.vision.ops import ConvNormActivation

# name, channels before scaling: in, of the depthwise convolution, out; stride
STAGES = (
    ("conv2_1", 32, 32, 64, 1),
    ("conv2_2", 64, 64, 128, 2),
    ("conv3_1", 128, 128, 128, 1),
    ("conv3_2", 128, 128, 256, 2),
    ("conv4_1", 256, 256, 256, 1),
    ("conv4_2", 256, 256, 512, 2),
    *[(f"conv5_{i}", 512, 512, 512, 1) for i in range(1, 6)],
    ("conv5_6", 512, 512, 1024, 2),
    ("conv6", 1024, 1024, 1024, 1),
)


class DepthwiseSeparable(nn.Layer):
    """A depthwise convolution of 3 x 3 and one of 1 x 1, each normalised and with a ReLU.

    >>> bireme.vision.models.mobilenetv1.DepthwiseSeparable(4, 4, 8, 4, 2, 1.0)(bireme.ones([1, 4, 6, 6])).shape
    [1, 8, 3, 3]
    """

    def __init__(self, in_channels: int, out_channels1: int, out_channels2: int, num_groups: int, stride: Any, scale: float):
        super().__init__()
        middle, out = int(out_channels1 * scale), int(out_channels2 * scale)
        self._depthwise_conv = ConvNormActivation(in_channels, middle, 3, stride, 1, int(num_groups * scale))
        self._pointwise_conv = ConvNormActivation(middle, out, 1, 1, 0)

    def forward(self, x: Tensor) -> Tensor:
        return self._pointwise_conv(self._depthwise_conv(x))


class MobileNetV1(nn.Layer):
    """MobileNet V1 with `scale` times as many channels; without classes it gives the features.

    >>> bireme.vision.models.MobileNetV1(scale=0.25, num_classes=10)(bireme.ones([1, 3, 32, 32])).shape
    [1, 10]
    """

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True):
        super().__init__()
        self.scale, self.dwsl, self.num_classes, self.with_pool = scale, [], num_classes, with_pool
        self.conv1 = ConvNormActivation(3, int(32 * scale), 3, 2, 1)
        for name, channels, middle, out, stride in STAGES:
            layer = DepthwiseSeparable(int(channels * scale), middle, out, channels, stride, scale)
            self.dwsl.append(self.add_sublayer(name, layer))
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.fc = nn.Linear(int(1024 * scale), num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        for layer in self.dwsl:
            x = layer(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        return self.fc(x.flatten(1)) if self.num_classes > 0 else x


def mobilenet_v1(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV1:
    """MobileNet V1 with `scale` times as many channels.

    >>> bireme.vision.models.mobilenet_v1(scale=0.5).fc.weight.shape
    [512, 1000]
    """
    refuse("mobilenet_v1", pretrained)
    return MobileNetV1(scale=scale, **kwargs)
