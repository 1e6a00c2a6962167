"""MobileNet V1: depthwise separable convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
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
    """Depthwise convolution of 3 x 3 and pointwise convolution of 1 x 1, each with batch normalization and ReLU.

    Args:
        in_channels: Number of channels of the input.
        out_channels1: Number of channels of the depthwise convolution, before scaling.
        out_channels2: Number of channels of the output, before scaling.
        num_groups: Number of groups of the depthwise convolution, before scaling.
        stride: Stride of the depthwise convolution.
        scale: Factor of the numbers of channels.

    Examples:
        >>> bireme.vision.models.mobilenetv1.DepthwiseSeparable(4, 4, 8, 4, 2, 1.0)(bireme.ones([1, 4, 6, 6])).shape
        [1, 8, 3, 3]
    """

    def __init__(
        self,
        in_channels: int,
        out_channels1: int,
        out_channels2: int,
        num_groups: int,
        stride: int | Sequence[int],
        scale: float,
    ):
        super().__init__()
        middle, out = int(out_channels1 * scale), int(out_channels2 * scale)
        self._depthwise_conv = ConvNormActivation(in_channels, middle, 3, stride, 1, int(num_groups * scale))
        self._pointwise_conv = ConvNormActivation(middle, out, 1, 1, 0)

    def forward(self, x: Tensor) -> Tensor:
        """Apply both convolutions.

        Args:
            x: Features ``[N, in_channels, H, W]``.

        Returns:
            Features ``[N, C_out, H_out, W_out]``.
        """
        return self._pointwise_conv(self._depthwise_conv(x))


class MobileNetV1(nn.Layer):
    """MobileNet V1: depthwise separable convolutions.

    Args:
        scale: Factor of the numbers of channels. Default: 1.0.
        num_classes: Number of classes; 0 or less returns the features instead. Default: 1000.
        with_pool: Average the features over the image before the classifier. Default: True.

    Shape:
        - x: ``[N, 3, H, W]``
        - output: ``[N, num_classes]``

    Examples:
        >>> bireme.vision.models.MobileNetV1(scale=0.25, num_classes=10)(bireme.ones([1, 3, 32, 32])).shape
        [1, 10]
    """

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True):
        errors.check_number("MobileNetV1(scale)", scale)
        errors.check_integer("MobileNetV1(num_classes)", num_classes)
        super().__init__()
        self.scale, self.num_classes, self.with_pool = scale, num_classes, with_pool
        self.dwsl: list[Any] = []
        self.conv1 = ConvNormActivation(3, int(32 * scale), 3, 2, 1)
        for name, channels, middle, out, stride in STAGES:
            layer = DepthwiseSeparable(int(channels * scale), middle, out, channels, stride, scale)
            self.dwsl.append(self.add_sublayer(name, layer))
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.fc = nn.Linear(int(1024 * scale), num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images.

        Args:
            x: Images ``[N, 3, H, W]``.

        Returns:
            Logits ``[N, num_classes]``, or the features ``[N, C, H, W]`` without classes.
        """
        x = self.conv1(x)
        for layer in self.dwsl:
            x = layer(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        return self.fc(x.flatten(1)) if self.num_classes > 0 else x


def mobilenet_v1(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV1:
    """Create a ``MobileNetV1``.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        scale: Factor of the numbers of channels. Default: 1.0.
        **kwargs: Arguments of ``MobileNetV1``: ``num_classes``, ``with_pool``.

    Returns:
        A ``MobileNetV1``.

    Examples:
        >>> bireme.vision.models.mobilenet_v1(scale=0.5).fc.weight.shape
        [512, 1000]
    """
    refuse("mobilenet_v1", pretrained)
    return MobileNetV1(scale=scale, **kwargs)


guard_functions(globals())
