"""MobileNet V3: inverted residual blocks with squeeze and excitation, small and large."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.vision.models.mobilenetv2 import divisible
from bireme.vision.models.weights import refuse
from bireme.vision.ops import ConvNormActivation

# of each block: channels of the input, kernel size, inner channels, channels of the output, squeeze and excitation,
# activation, stride
SMALL = (
    (16, 3, 16, 16, True, "relu", 2),
    (16, 3, 72, 24, False, "relu", 2),
    (24, 3, 88, 24, False, "relu", 1),
    (24, 5, 96, 40, True, "hardswish", 2),
    (40, 5, 240, 40, True, "hardswish", 1),
    (40, 5, 240, 40, True, "hardswish", 1),
    (40, 5, 120, 48, True, "hardswish", 1),
    (48, 5, 144, 48, True, "hardswish", 1),
    (48, 5, 288, 96, True, "hardswish", 2),
    (96, 5, 576, 96, True, "hardswish", 1),
    (96, 5, 576, 96, True, "hardswish", 1),
)
LARGE = (
    (16, 3, 16, 16, False, "relu", 1),
    (16, 3, 64, 24, False, "relu", 2),
    (24, 3, 72, 24, False, "relu", 1),
    (24, 5, 72, 40, True, "relu", 2),
    (40, 5, 120, 40, True, "relu", 1),
    (40, 5, 120, 40, True, "relu", 1),
    (40, 3, 240, 80, False, "hardswish", 2),
    (80, 3, 200, 80, False, "hardswish", 1),
    (80, 3, 184, 80, False, "hardswish", 1),
    (80, 3, 184, 80, False, "hardswish", 1),
    (80, 3, 480, 112, True, "hardswish", 1),
    (112, 3, 672, 112, True, "hardswish", 1),
    (112, 5, 672, 160, True, "hardswish", 2),
    (160, 5, 960, 160, True, "hardswish", 1),
    (160, 5, 960, 160, True, "hardswish", 1),
)


class SqueezeExcitation(nn.Layer):
    """Scale each channel by a factor that two convolutions of 1 x 1 find from the averages of all channels.

    Args:
        input_channels: Number of channels of the input.
        squeeze_channels: Number of channels between the convolutions.
        activation: Class of the activation between the convolutions. Default: ``ReLU``.
        scale_activation: Class of the activation that gives the factors. Default: ``Sigmoid``.

    Examples:
        >>> bireme.vision.models.mobilenetv3.SqueezeExcitation(8, 2)(bireme.ones([1, 8, 5, 5])).shape
        [1, 8, 5, 5]
    """

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Callable[..., nn.Layer] = nn.ReLU,
        scale_activation: Callable[..., nn.Layer] = nn.Sigmoid,
    ):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2D(1)
        self.fc1 = nn.Conv2D(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2D(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        """Scale the channels.

        Args:
            input: Features ``[N, input_channels, H, W]``.

        Returns:
            Features of the shape of ``input``.
        """
        inner = self.activation(self.fc1(self.avgpool(input)))
        return self.scale_activation(self.fc2(inner)) * input


class InvertedResidualConfig:
    """What a block of a ``MobileNetV3`` is made of; the numbers of channels are scaled to multiples of 8.

    Args:
        in_channels: Number of channels of the input, before scaling.
        kernel: Kernel size of the depthwise convolution.
        expanded_channels: Number of channels inside, before scaling.
        out_channels: Number of channels of the output, before scaling.
        use_se: Scale the channels inside by ``SqueezeExcitation``.
        activation: ``'relu'``, ``'hardswish'``, or anything else for no activation.
        stride: Stride of the depthwise convolution.
        scale: Factor of the numbers of channels. Default: 1.0.

    Examples:
        >>> bireme.vision.models.MobileNetV3Small(scale=0.5).config[4].expanded_channels
        120
    """

    def __init__(
        self,
        in_channels: int,
        kernel: int,
        expanded_channels: int,
        out_channels: int,
        use_se: bool,
        activation: str,
        stride: int,
        scale: float = 1.0,
    ):
        self.in_channels = divisible(in_channels * scale)
        self.kernel, self.use_se, self.stride = kernel, use_se, stride
        self.expanded_channels = divisible(expanded_channels * scale)
        self.out_channels = divisible(out_channels * scale)
        self.activation_layer = {"relu": nn.ReLU, "hardswish": nn.Hardswish}.get(activation)


class InvertedResidual(nn.Layer):
    """Inverted residual block: expansion, depthwise convolution, squeeze and excitation, projection to fewer channels.

    The input is added where it has the shape of the result.

    Args:
        in_channels: Number of channels of the input.
        expanded_channels: Number of channels inside; there is no expansion if it is ``in_channels``.
        out_channels: Number of channels of the output.
        filter_size: Kernel size of the depthwise convolution.
        stride: Stride of the depthwise convolution.
        use_se: Scale the channels inside by ``SqueezeExcitation``.
        activation_layer: Class of the activation inside; None for none.
        norm_layer: Class of the normalization.

    Examples:
        >>> nn = bireme.nn
        >>> block = bireme.vision.models.mobilenetv3.InvertedResidual(4, 8, 4, 3, 1, True, nn.ReLU, nn.BatchNorm2D)
        >>> block(bireme.ones([1, 4, 5, 5])).shape
        [1, 4, 5, 5]
    """

    def __init__(
        self,
        in_channels: int,
        expanded_channels: int,
        out_channels: int,
        filter_size: int,
        stride: int,
        use_se: bool,
        activation_layer: Callable[..., nn.Layer] | None,
        norm_layer: Callable[..., nn.Layer],
    ):
        super().__init__()
        self.use_res_connect = stride == 1 and in_channels == out_channels
        self.use_se, self.expand = use_se, in_channels != expanded_channels
        both: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": activation_layer}
        inner = expanded_channels
        if self.expand:
            self.expand_conv = ConvNormActivation(in_channels, inner, 1, 1, 0, **both)
        self.bottleneck_conv = ConvNormActivation(
            inner, inner, filter_size, stride, (filter_size - 1) // 2, inner, **both
        )
        if use_se:
            self.mid_se = SqueezeExcitation(inner, divisible(inner // 4), scale_activation=nn.Hardsigmoid)
        self.linear_conv = ConvNormActivation(
            inner, out_channels, 1, 1, 0, norm_layer=norm_layer, activation_layer=None
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block.

        Args:
            x: Features ``[N, in_channels, H, W]``.

        Returns:
            Features ``[N, out_channels, H_out, W_out]``.
        """
        out = self.bottleneck_conv(self.expand_conv(x) if self.expand else x)
        out = self.linear_conv(self.mid_se(out) if self.use_se else out)
        return x + out if self.use_res_connect else out


class MobileNetV3(nn.Layer):
    """MobileNet V3 with any blocks; ``MobileNetV3Small`` and ``MobileNetV3Large`` have those of the paper.

    Args:
        config: What each block is made of.
        last_channel: Number of channels between the two linear layers.
        scale: Factor of the numbers of channels that ``config`` has been made with. Default: 1.0.
        num_classes: Number of classes; 0 or less returns the features instead. Default: 1000.
        with_pool: Average the features over the image before the classifier. Default: True.

    Shape:
        - x: ``[N, 3, H, W]``
        - output: ``[N, num_classes]``

    Examples:
        >>> mobilenetv3 = bireme.vision.models.mobilenetv3
        >>> block = mobilenetv3.InvertedResidualConfig(8, 3, 16, 8, True, "relu", 2)
        >>> mobilenetv3.MobileNetV3([block], last_channel=16, num_classes=10)(bireme.ones([1, 3, 8, 8])).shape
        [1, 10]
    """

    def __init__(
        self,
        config: Sequence[InvertedResidualConfig],
        last_channel: int,
        scale: float = 1.0,
        num_classes: int = 1000,
        with_pool: bool = True,
    ):
        super().__init__()
        self.config, self.scale, self.last_channel = config, scale, last_channel
        self.num_classes, self.with_pool = num_classes, with_pool
        self.firstconv_in_channels = config[0].in_channels
        self.lastconv_in_channels = config[-1].out_channels
        self.lastconv_out_channels = self.lastconv_in_channels * 6
        norm = partial(nn.BatchNorm2D, epsilon=0.001, momentum=0.99)
        swish: dict[str, Any] = {"norm_layer": norm, "activation_layer": nn.Hardswish}
        self.conv = ConvNormActivation(3, self.firstconv_in_channels, 3, 2, 1, **swish)
        blocks = [
            InvertedResidual(
                c.in_channels,
                c.expanded_channels,
                c.out_channels,
                c.kernel,
                c.stride,
                c.use_se,
                c.activation_layer,
                norm,
            )
            for c in config
        ]
        self.blocks = nn.Sequential(*blocks)
        self.lastconv = ConvNormActivation(self.lastconv_in_channels, self.lastconv_out_channels, 1, 1, 0, **swish)
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = nn.Sequential(
                nn.Linear(self.lastconv_out_channels, last_channel),
                nn.Hardswish(),
                nn.Dropout(0.2),
                nn.Linear(last_channel, num_classes),
            )

    def forward(self, x: Tensor) -> Tensor:
        """Classify images.

        Args:
            x: Images ``[N, 3, H, W]``.

        Returns:
            Logits ``[N, num_classes]``, or the features ``[N, C, H, W]`` without classes.
        """
        x = self.lastconv(self.blocks(self.conv(x)))
        if self.with_pool:
            x = self.avgpool(x)
        return self.classifier(x.flatten(1)) if self.num_classes > 0 else x


class MobileNetV3Small(MobileNetV3):
    """MobileNet V3, small: 11 inverted residual blocks with squeeze and excitation.

    Args:
        scale: Factor of the numbers of channels, which are rounded to multiples of 8. Default: 1.0.
        num_classes: Number of classes; 0 or less returns the features instead. Default: 1000.
        with_pool: Average the features over the image before the classifier. Default: True.

    Shape:
        - x: ``[N, 3, H, W]``
        - output: ``[N, num_classes]``

    Examples:
        >>> bireme.vision.models.MobileNetV3Small(scale=0.25, num_classes=10)(bireme.ones([1, 3, 32, 32])).shape
        [1, 10]
    """

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True):
        errors.check_number("MobileNetV3Small(scale)", scale)
        errors.check_integer("MobileNetV3Small(num_classes)", num_classes)
        config = [InvertedResidualConfig(*block, scale) for block in SMALL]
        super().__init__(config, divisible(1024 * scale), scale, num_classes, with_pool)


class MobileNetV3Large(MobileNetV3):
    """MobileNet V3, large: 15 inverted residual blocks with squeeze and excitation.

    Args:
        scale: Factor of the numbers of channels, which are rounded to multiples of 8. Default: 1.0.
        num_classes: Number of classes; 0 or less returns the features instead. Default: 1000.
        with_pool: Average the features over the image before the classifier. Default: True.

    Shape:
        - x: ``[N, 3, H, W]``
        - output: ``[N, num_classes]``

    Examples:
        >>> bireme.vision.models.MobileNetV3Large(scale=0.25, num_classes=10)(bireme.ones([1, 3, 32, 32])).shape
        [1, 10]
    """

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True):
        errors.check_number("MobileNetV3Large(scale)", scale)
        errors.check_integer("MobileNetV3Large(num_classes)", num_classes)
        config = [InvertedResidualConfig(*block, scale) for block in LARGE]
        super().__init__(config, divisible(1280 * scale), scale, num_classes, with_pool)


def mobilenet_v3_small(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV3Small:
    """Create a ``MobileNetV3Small``.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        scale: Factor of the numbers of channels. Default: 1.0.
        **kwargs: Arguments of ``MobileNetV3Small``: ``num_classes``, ``with_pool``.

    Returns:
        A ``MobileNetV3Small``.

    Examples:
        >>> bireme.vision.models.mobilenet_v3_small().classifier[3].weight.shape
        [1024, 1000]
    """
    refuse("mobilenet_v3_small", pretrained)
    return MobileNetV3Small(scale=scale, **kwargs)


def mobilenet_v3_large(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV3Large:
    """Create a ``MobileNetV3Large``.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        scale: Factor of the numbers of channels. Default: 1.0.
        **kwargs: Arguments of ``MobileNetV3Large``: ``num_classes``, ``with_pool``.

    Returns:
        A ``MobileNetV3Large``.

    Examples:
        >>> bireme.vision.models.mobilenet_v3_large().classifier[3].weight.shape
        [1280, 1000]
    """
    refuse("mobilenet_v3_large", pretrained)
    return MobileNetV3Large(scale=scale, **kwargs)


guard_functions(globals())
