"""SqueezeNet: fire modules, few weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.nn.functional import relu
from bireme.ops import concat
from bireme.vision.models.weights import refuse

# channels of the eight fire modules: between their layers, and of either half of the output
FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
# by version: channels, kernel size and padding of the first convolution, and the modules that a pooling follows
VERSIONS = {"1.0": (96, 7, 0, (3, 7)), "1.1": (64, 3, 1, (2, 4))}


class MakeFireConv(nn.Layer):
    """Convolution and ReLU.

    Args:
        input_channels: Number of channels of the input.
        output_channels: Number of channels of the output.
        filter_size: Size of the kernel.
        padding: Padding of the convolution. Default: 0.

    Examples:
        >>> bireme.vision.models.squeezenet.MakeFireConv(4, 8, 3, 1)(bireme.ones([1, 4, 5, 5])).shape
        [1, 8, 5, 5]
    """

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        filter_size: int | Sequence[int],
        padding: int | Sequence[int] = 0,
    ):
        super().__init__()
        self._conv = nn.Conv2D(input_channels, output_channels, filter_size, padding=padding)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layers.

        Args:
            x: Features ``[N, input_channels, H, W]``.

        Returns:
            Features ``[N, output_channels, H_out, W_out]``.
        """
        return relu(self._conv(x))


class MakeFire(nn.Layer):
    """Fire module: a convolution of 1 x 1 to few channels, then convolutions of 1 x 1 and 3 x 3 side by side.

    Args:
        input_channels: Number of channels of the input.
        squeeze_channels: Number of channels after the first convolution.
        expand1x1_channels: Number of channels of the second convolution of 1 x 1.
        expand3x3_channels: Number of channels of the convolution of 3 x 3.

    Examples:
        >>> bireme.vision.models.squeezenet.MakeFire(8, 2, 4, 6)(bireme.ones([1, 8, 5, 5])).shape
        [1, 10, 5, 5]
    """

    def __init__(self, input_channels: int, squeeze_channels: int, expand1x1_channels: int, expand3x3_channels: int):
        super().__init__()
        self._conv = MakeFireConv(input_channels, squeeze_channels, 1)
        self._conv_path1 = MakeFireConv(squeeze_channels, expand1x1_channels, 1)
        self._conv_path2 = MakeFireConv(squeeze_channels, expand3x3_channels, 3, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the module.

        Args:
            inputs: Features ``[N, input_channels, H, W]``.

        Returns:
            Features ``[N, expand1x1_channels + expand3x3_channels, H, W]``.
        """
        x = self._conv(inputs)
        return concat([self._conv_path1(x), self._conv_path2(x)], 1)


class SqueezeNet(nn.Layer):
    """SqueezeNet: fire modules, and a convolution as the classifier.

    Args:
        version: ``'1.0'``, or ``'1.1'``, which computes less.
        num_classes: Number of classes; 0 or less returns the features instead. Default: 1000.
        with_pool: Average over the image at the end. Default: True.

    Shape:
        - inputs: ``[N, 3, H, W]`` with H and W of at least 35, or 29 for version 1.1
        - output: ``[N, num_classes]``, or ``[N, num_classes, H_out, W_out]`` without pooling

    Examples:
        >>> bireme.vision.models.SqueezeNet("1.1", num_classes=10)(bireme.ones([1, 3, 32, 32])).shape
        [1, 10]
    """

    def __init__(self, version: str, num_classes: int = 1000, with_pool: bool = True):
        errors.check_integer("SqueezeNet(num_classes)", num_classes)
        super().__init__()
        if not isinstance(version, str) or version not in VERSIONS:
            raise errors.bad("SqueezeNet(version)", " or ".join(map(repr, VERSIONS)), version)
        self.version, self.num_classes, self.with_pool = version, num_classes, with_pool
        channels, size, padding, _ = VERSIONS[version]
        self._conv = nn.Conv2D(3, channels, size, 2, padding)
        self._pool = nn.MaxPool2D(3, 2)
        for i, (few, half) in enumerate(FIRES, 1):
            self.add_sublayer(f"_conv{i}", MakeFire(channels, few, half, half))
            channels = 2 * half
        if num_classes > 0:
            self._drop = nn.Dropout(0.5, mode="downscale_in_infer")
            self._conv9 = nn.Conv2D(channels, num_classes, 1)
        if with_pool:
            self._avg_pool = nn.AdaptiveAvgPool2D(1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Classify images.

        Args:
            inputs: Images ``[N, 3, H, W]``.

        Returns:
            Logits ``[N, num_classes]``, or the features ``[N, C]`` without classes; both ``[N, C, H, W]`` without
            pooling.
        """
        x = self._pool(relu(self._conv(inputs)))
        for i in range(1, len(FIRES) + 1):
            x = getattr(self, f"_conv{i}")(x)
            if i in VERSIONS[self.version][-1]:
                x = self._pool(x)
        if self.num_classes > 0:
            x = self._conv9(self._drop(x))
        return self._avg_pool(relu(x)).flatten(1) if self.with_pool else x


def squeezenet1_0(pretrained: bool = False, **kwargs: Any) -> SqueezeNet:
    """Create a ``SqueezeNet`` of version 1.0.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``SqueezeNet``: ``num_classes``, ``with_pool``.

    Returns:
        A ``SqueezeNet``.

    Examples:
        >>> bireme.vision.models.squeezenet1_0(num_classes=10)._conv9.weight.shape
        [10, 512, 1, 1]
    """
    refuse("squeezenet1_0", pretrained)
    return SqueezeNet("1.0", **kwargs)


def squeezenet1_1(pretrained: bool = False, **kwargs: Any) -> SqueezeNet:
    """Create a ``SqueezeNet`` of version 1.1, which computes less than version 1.0.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``SqueezeNet``: ``num_classes``, ``with_pool``.

    Returns:
        A ``SqueezeNet``.

    Examples:
        >>> bireme.vision.models.squeezenet1_1(num_classes=10)._conv.weight.shape
        [64, 3, 3, 3]
    """
    refuse("squeezenet1_1", pretrained)
    return SqueezeNet("1.1", **kwargs)


guard_functions(globals())
