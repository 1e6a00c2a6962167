"""ShuffleNet V2: blocks that leave half of the channels alone and interleave the halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.nn.functional import channel_shuffle
from bireme.ops import concat
from bireme.vision.models.weights import refuse
from bireme.vision.ops import ConvNormActivation

ACTIVATIONS: dict[str | None, Callable[..., nn.Layer] | None] = {"relu": nn.ReLU, "swish": nn.Swish, None: None}
BLOCKS = (4, 8, 4)  # of the three stages
# by scale: channels of the first convolution, of the three stages, and of the last convolution; 244 is Paddle's
CHANNELS = {
    0.25: (24, 24, 48, 96, 512),
    0.33: (24, 32, 64, 128, 512),
    0.5: (24, 48, 96, 192, 1024),
    1.0: (24, 116, 232, 464, 1024),
    1.5: (24, 176, 352, 704, 1024),
    2.0: (24, 224, 488, 976, 2048),
}


class InvertedResidual(nn.Layer):
    """Block that keeps the size of the image: three convolutions on the second half of the channels.

    Args:
        in_channels: Number of channels of the input.
        out_channels: Number of channels of the output, which is ``in_channels``.
        stride: Stride of the depthwise convolution, 1.
        activation_layer: Class of the activation; None for none. Default: ``ReLU``.

    Examples:
        >>> bireme.vision.models.shufflenetv2.InvertedResidual(8, 8, 1)(bireme.ones([1, 8, 5, 5])).shape
        [1, 8, 5, 5]
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        stride: int | Sequence[int],
        activation_layer: Callable[..., nn.Layer] | None = nn.ReLU,
    ):
        super().__init__()
        half, act = out_channels // 2, activation_layer
        self._conv_pw = ConvNormActivation(in_channels // 2, half, 1, 1, 0, activation_layer=act)
        self._conv_dw = ConvNormActivation(half, half, 3, stride, 1, half, activation_layer=None)
        self._conv_linear = ConvNormActivation(half, half, 1, 1, 0, activation_layer=act)

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the block.

        Args:
            inputs: Features ``[N, in_channels, H, W]``.

        Returns:
            Features ``[N, out_channels, H, W]``.
        """
        kept, x = inputs.chunk(2, 1)
        return channel_shuffle(concat([kept, self._conv_linear(self._conv_dw(self._conv_pw(x)))], 1), 2)


class InvertedResidualDS(nn.Layer):
    """Block that makes the image smaller: two branches of convolutions, on all channels each.

    Args:
        in_channels: Number of channels of the input.
        out_channels: Number of channels of the output.
        stride: Stride of the depthwise convolutions.
        activation_layer: Class of the activation; None for none. Default: ``ReLU``.

    Examples:
        >>> bireme.vision.models.shufflenetv2.InvertedResidualDS(8, 12, 2)(bireme.ones([1, 8, 6, 6])).shape
        [1, 12, 3, 3]
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        stride: int | Sequence[int],
        activation_layer: Callable[..., nn.Layer] | None = nn.ReLU,
    ):
        super().__init__()
        half, act = out_channels // 2, activation_layer
        self._conv_dw_1 = ConvNormActivation(in_channels, in_channels, 3, stride, 1, in_channels, activation_layer=None)
        self._conv_linear_1 = ConvNormActivation(in_channels, half, 1, 1, 0, activation_layer=act)
        self._conv_pw_2 = ConvNormActivation(in_channels, half, 1, 1, 0, activation_layer=act)
        self._conv_dw_2 = ConvNormActivation(half, half, 3, stride, 1, half, activation_layer=None)
        self._conv_linear_2 = ConvNormActivation(half, half, 1, 1, 0, activation_layer=act)

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the block.

        Args:
            inputs: Features ``[N, in_channels, H, W]``.

        Returns:
            Features ``[N, out_channels, H_out, W_out]``.
        """
        first = self._conv_linear_1(self._conv_dw_1(inputs))
        second = self._conv_linear_2(self._conv_dw_2(self._conv_pw_2(inputs)))
        return channel_shuffle(concat([first, second], 1), 2)


class ShuffleNetV2(nn.Layer):
    """ShuffleNet V2: blocks that leave half of the channels alone and interleave the halves.

    Args:
        scale: Factor of the numbers of channels: 0.25, 0.33, 0.5, 1.0, 1.5 or 2.0. Default: 1.0.
        act: ``'relu'``, ``'swish'``, or None for no activation. Default: ``'relu'``.
        num_classes: Number of classes; 0 or less returns the features instead. Default: 1000.
        with_pool: Average the features over the image before the classifier. Default: True.

    Shape:
        - inputs: ``[N, 3, H, W]``
        - output: ``[N, num_classes]``

    Examples:
        >>> bireme.vision.models.ShuffleNetV2(scale=0.25, num_classes=10)(bireme.ones([1, 3, 32, 32])).shape
        [1, 10]
    """

    def __init__(self, scale: float = 1.0, act: str | None = "relu", num_classes: int = 1000, with_pool: bool = True):
        errors.check_number("ShuffleNetV2(scale)", scale)
        errors.check_integer("ShuffleNetV2(num_classes)", num_classes)
        super().__init__()
        if scale not in CHANNELS:
            expected = f"one of {', '.join(map(str, CHANNELS))}"
            raise errors.bad("ShuffleNetV2(scale)", expected, scale, kind=NotImplementedError)
        if not isinstance(act, str | None) or act not in ACTIVATIONS:
            raise errors.bad("ShuffleNetV2(act)", "'relu', 'swish' or None", act, kind=RuntimeError)
        self.scale, self.num_classes, self.with_pool = scale, num_classes, with_pool
        layer, (channels, *stages, last) = ACTIVATIONS[act], CHANNELS[scale]
        self._conv1 = ConvNormActivation(3, channels, 3, 2, 1, activation_layer=layer)
        self._max_pool = nn.MaxPool2D(3, 2, 1)
        self._block_list: list[Any] = []
        for stage, (out, blocks) in enumerate(zip(stages, BLOCKS, strict=True), 2):
            for i in range(blocks):
                block = InvertedResidual(out, out, 1, layer) if i else InvertedResidualDS(channels, out, 2, layer)
                self._block_list.append(self.add_sublayer(f"{stage}_{i + 1}", block))
            channels = out
        self._last_conv = ConvNormActivation(channels, last, 1, 1, 0, activation_layer=layer)
        if with_pool:
            self._pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self._fc = nn.Linear(last, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Classify images.

        Args:
            inputs: Images ``[N, 3, H, W]``.

        Returns:
            Logits ``[N, num_classes]``, or the features ``[N, C, H, W]`` without classes.
        """
        x = self._max_pool(self._conv1(inputs))
        for block in self._block_list:
            x = block(x)
        x = self._last_conv(x)
        if self.with_pool:
            x = self._pool2d_avg(x)
        return self._fc(x.flatten(1)) if self.num_classes > 0 else x


def shufflenet_v2_x0_25(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """Create a ``ShuffleNetV2`` of scale 0.25.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ShuffleNetV2``: ``act``, ``num_classes``, ``with_pool``.

    Returns:
        A ``ShuffleNetV2``.

    Examples:
        >>> bireme.vision.models.shufflenet_v2_x0_25(num_classes=10)._fc.weight.shape
        [512, 10]
    """
    refuse("shufflenet_v2_x0_25", pretrained)
    return ShuffleNetV2(0.25, **kwargs)


def shufflenet_v2_x0_33(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """Create a ``ShuffleNetV2`` of scale 0.33.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ShuffleNetV2``: ``act``, ``num_classes``, ``with_pool``.

    Returns:
        A ``ShuffleNetV2``.

    Examples:
        >>> bireme.vision.models.shufflenet_v2_x0_33(num_classes=10)._fc.weight.shape
        [512, 10]
    """
    refuse("shufflenet_v2_x0_33", pretrained)
    return ShuffleNetV2(0.33, **kwargs)


def shufflenet_v2_x0_5(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """Create a ``ShuffleNetV2`` of scale 0.5.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ShuffleNetV2``: ``act``, ``num_classes``, ``with_pool``.

    Returns:
        A ``ShuffleNetV2``.

    Examples:
        >>> bireme.vision.models.shufflenet_v2_x0_5(num_classes=10)._fc.weight.shape
        [1024, 10]
    """
    refuse("shufflenet_v2_x0_5", pretrained)
    return ShuffleNetV2(0.5, **kwargs)


def shufflenet_v2_x1_0(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """Create a ``ShuffleNetV2`` of scale 1.0.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ShuffleNetV2``: ``act``, ``num_classes``, ``with_pool``.

    Returns:
        A ``ShuffleNetV2``.

    Examples:
        >>> bireme.vision.models.shufflenet_v2_x1_0(num_classes=10)._fc.weight.shape
        [1024, 10]
    """
    refuse("shufflenet_v2_x1_0", pretrained)
    return ShuffleNetV2(1.0, **kwargs)


def shufflenet_v2_x1_5(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """Create a ``ShuffleNetV2`` of scale 1.5.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ShuffleNetV2``: ``act``, ``num_classes``, ``with_pool``.

    Returns:
        A ``ShuffleNetV2``.

    Examples:
        >>> bireme.vision.models.shufflenet_v2_x1_5(num_classes=10)._fc.weight.shape
        [1024, 10]
    """
    refuse("shufflenet_v2_x1_5", pretrained)
    return ShuffleNetV2(1.5, **kwargs)


def shufflenet_v2_x2_0(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """Create a ``ShuffleNetV2`` of scale 2.0.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ShuffleNetV2``: ``act``, ``num_classes``, ``with_pool``.

    Returns:
        A ``ShuffleNetV2``.

    Examples:
        >>> bireme.vision.models.shufflenet_v2_x2_0(num_classes=10)._fc.weight.shape
        [2048, 10]
    """
    refuse("shufflenet_v2_x2_0", pretrained)
    return ShuffleNetV2(2.0, **kwargs)


def shufflenet_v2_swish(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """Create a ``ShuffleNetV2`` of scale 1.0 with swish as its activation.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ShuffleNetV2``: ``num_classes``, ``with_pool``.

    Returns:
        A ``ShuffleNetV2``.

    Examples:
        >>> type(bireme.vision.models.shufflenet_v2_swish(num_classes=10)._conv1[2]).__name__
        'Swish'
    """
    refuse("shufflenet_v2_swish", pretrained)
    return ShuffleNetV2(1.0, "swish", **kwargs)


guard_functions(globals())
