"""MobileNet V2: inverted residual blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.vision.models.weights import refuse
from bireme.vision.ops import ConvNormActivation

# expansion ratio, channels, blocks, stride of the first block
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def divisible(channels: float, divisor: int = 8) -> int:
    """The multiple of ``divisor`` that is nearest, but not less than nine tenths of ``channels``."""
    near = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * channels else near


class InvertedResidual(nn.Layer):
    """Inverted residual block: expansion to more channels, depthwise convolution, projection to fewer channels.

    The input is added where it has the shape of the result.

    Args:
        inp: Number of channels of the input.
        oup: Number of channels of the output.
        stride: Stride of the depthwise convolution.
        expand_ratio: Factor of the number of channels inside.
        norm_layer: Class of the normalization. Default: ``BatchNorm2D``.

    Examples:
        >>> bireme.vision.models.mobilenetv2.InvertedResidual(4, 4, 1, 6)(bireme.ones([1, 4, 5, 5])).shape
        [1, 4, 5, 5]
    """

    def __init__(
        self, inp: int, oup: int, stride: int, expand_ratio: float, norm_layer: Callable[..., nn.Layer] = nn.BatchNorm2D
    ):
        super().__init__()
        self.stride, hidden = stride, round(inp * expand_ratio)
        self.use_res_connect = stride == 1 and inp == oup
        relu: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": nn.ReLU6}
        grow = [ConvNormActivation(inp, hidden, 1, **relu)] if expand_ratio != 1 else []
        each = ConvNormActivation(hidden, hidden, 3, stride, groups=hidden, **relu)
        self.conv = nn.Sequential(*grow, each, nn.Conv2D(hidden, oup, 1, bias_attr=False), norm_layer(oup))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block.

        Args:
            x: Features ``[N, inp, H, W]``.

        Returns:
            Features ``[N, oup, H_out, W_out]``.
        """
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Layer):
    """MobileNet V2: inverted residual blocks.

    Args:
        scale: Factor of the numbers of channels, which are rounded to multiples of 8. Default: 1.0.
        num_classes: Number of classes; 0 or less returns the features instead. Default: 1000.
        with_pool: Average the features over the image before the classifier. Default: True.

    Shape:
        - x: ``[N, 3, H, W]``
        - output: ``[N, num_classes]``

    Examples:
        >>> bireme.vision.models.MobileNetV2(scale=0.25, num_classes=10)(bireme.ones([1, 3, 32, 32])).shape
        [1, 10]
    """

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True):
        errors.check_number("MobileNetV2(scale)", scale)
        errors.check_integer("MobileNetV2(num_classes)", num_classes)
        super().__init__()
        self.num_classes, self.with_pool = num_classes, with_pool
        channels, last = divisible(32 * scale), divisible(1280 * max(1.0, scale))
        self.last_channel = last
        layers: list[nn.Layer] = [ConvNormActivation(3, channels, stride=2, activation_layer=nn.ReLU6)]
        for ratio, wide, blocks, stride in STAGES:
            out = divisible(wide * scale)
            for i in range(blocks):
                layers.append(InvertedResidual(channels, out, stride if i == 0 else 1, ratio))
                channels = out
        layers.append(ConvNormActivation(channels, last, 1, activation_layer=nn.ReLU6))
        self.features = nn.Sequential(*layers)
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        """Classify images.

        Args:
            x: Images ``[N, 3, H, W]``.

        Returns:
            Logits ``[N, num_classes]``, or the features ``[N, C, H, W]`` without classes.
        """
        x = self.features(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        return self.classifier(x.flatten(1)) if self.num_classes > 0 else x


def mobilenet_v2(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV2:
    """Create a ``MobileNetV2``.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        scale: Factor of the numbers of channels. Default: 1.0.
        **kwargs: Arguments of ``MobileNetV2``: ``num_classes``, ``with_pool``.

    Returns:
        A ``MobileNetV2``.

    Examples:
        >>> bireme.vision.models.mobilenet_v2().classifier[1].weight.shape
        [1280, 1000]
    """
    refuse("mobilenet_v2", pretrained)
    return MobileNetV2(scale=scale, **kwargs)


guard_functions(globals())
