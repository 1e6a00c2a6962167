"""GoogLeNet: inception modules, and two auxiliary classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.nn.functional import relu
from bireme.nn.initializer import Uniform
from bireme.ops import concat
from bireme.vision.models.weights import refuse

# name: channels of the input and of the output, of the branch of 1 x 1, of the reduction and the convolution of the
# branches of 3 x 3 and of 5 x 5, and of the projection after the pooling
INCEPTIONS = {
    "_ince3a": (192, 192, 64, 96, 128, 16, 32, 32),
    "_ince3b": (256, 256, 128, 128, 192, 32, 96, 64),
    "_ince4a": (480, 480, 192, 96, 208, 16, 48, 64),
    "_ince4b": (512, 512, 160, 112, 224, 24, 64, 64),
    "_ince4c": (512, 512, 128, 128, 256, 24, 64, 64),
    "_ince4d": (512, 512, 112, 144, 288, 32, 64, 64),
    "_ince4e": (528, 528, 256, 160, 320, 32, 128, 128),
    "_ince5a": (832, 832, 256, 160, 320, 32, 128, 128),
    "_ince5b": (832, 832, 384, 192, 384, 48, 128, 128),
}


def _linear(features: int, out: int, fan: int) -> nn.Linear:
    bound = (3 / fan) ** 0.5
    return nn.Linear(features, out, weight_attr=Uniform(-bound, bound))


class ConvLayer(nn.Layer):
    """Convolution without bias, padded so that stride 1 keeps the size of the image.

    Args:
        num_channels: Number of channels of the input.
        num_filters: Number of channels of the output.
        filter_size: Size of the kernel.
        stride: Stride of the convolution. Default: 1.
        groups: Number of groups of channels. Default: 1.

    Examples:
        >>> bireme.vision.models.GoogLeNet(0)._conv(bireme.ones([1, 3, 8, 8])).shape
        [1, 64, 4, 4]
    """

    def __init__(
        self, num_channels: int, num_filters: int, filter_size: int, stride: int | Sequence[int] = 1, groups: int = 1
    ):
        super().__init__()
        pad = (filter_size - 1) // 2
        self._conv = nn.Conv2D(num_channels, num_filters, filter_size, stride, pad, groups=groups, bias_attr=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the convolution.

        Args:
            inputs: Features ``[N, num_channels, H, W]``.

        Returns:
            Features ``[N, num_filters, H_out, W_out]``.
        """
        return self._conv(inputs)


class Inception(nn.Layer):
    """Inception module: convolutions of 1 x 1, 3 x 3 and 5 x 5 and a max pooling side by side, then ReLU.

    Args:
        input_channels: Number of channels of the input.
        output_channels: Accepted for compatibility and not used; the output has
            ``filter1 + filter3 + filter5 + proj`` channels.
        filter1: Number of channels of the branch of 1 x 1.
        filter3R: Number of channels before the convolution of 3 x 3.
        filter3: Number of channels of the branch of 3 x 3.
        filter5R: Number of channels before the convolution of 5 x 5.
        filter5: Number of channels of the branch of 5 x 5.
        proj: Number of channels of the branch of the pooling.

    Examples:
        >>> bireme.vision.models.GoogLeNet(0)._ince3a(bireme.ones([1, 192, 5, 5])).shape
        [1, 256, 5, 5]
    """

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        filter1: int,
        filter3R: int,
        filter3: int,
        filter5R: int,
        filter5: int,
        proj: int,
    ):
        super().__init__()
        self._conv1 = ConvLayer(input_channels, filter1, 1)
        self._conv3r = ConvLayer(input_channels, filter3R, 1)
        self._conv3 = ConvLayer(filter3R, filter3, 3)
        self._conv5r = ConvLayer(input_channels, filter5R, 1)
        self._conv5 = ConvLayer(filter5R, filter5, 5)
        self._pool = nn.MaxPool2D(3, 1, 1)
        self._convprj = ConvLayer(input_channels, proj, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the branches and join their channels.

        Args:
            inputs: Features ``[N, input_channels, H, W]``.

        Returns:
            Features ``[N, filter1 + filter3 + filter5 + proj, H, W]``.
        """
        threes, fives = self._conv3(self._conv3r(inputs)), self._conv5(self._conv5r(inputs))
        return relu(concat([self._conv1(inputs), threes, fives, self._convprj(self._pool(inputs))], 1))


class GoogLeNet(nn.Layer):
    """GoogLeNet, for images of 224 x 224 pixels: inception modules, and two auxiliary classifiers.

    Args:
        num_classes: Number of classes; 0 or less returns the features instead. Default: 1000.
        with_pool: Average the features before the classifiers, which need it. Default: True.

    Shape:
        - inputs: ``[N, 3, H, W]`` with H and W in ``[189, 236]``; of at least 61 without classes and pooling
        - output: three tensors ``[N, num_classes]``

    Examples:
        >>> model = bireme.vision.models.GoogLeNet(num_classes=0, with_pool=False)
        >>> [out.shape for out in model(bireme.ones([1, 3, 61, 61]))]
        [[1, 1024, 1, 1], [1, 512, 3, 3], [1, 528, 3, 3]]
    """

    def __init__(self, num_classes: int = 1000, with_pool: bool = True):
        errors.check_integer("GoogLeNet(num_classes)", num_classes)
        super().__init__()
        self.num_classes, self.with_pool = num_classes, with_pool
        self._conv = ConvLayer(3, 64, 7, 2)
        self._pool = nn.MaxPool2D(3, 2)
        self._conv_1 = ConvLayer(64, 64, 1)
        self._conv_2 = ConvLayer(64, 192, 3)
        for name, channels in INCEPTIONS.items():
            self.add_sublayer(name, Inception(*channels))
        if with_pool:
            self._pool_5 = nn.AdaptiveAvgPool2D(1)
            self._pool_o1 = nn.AvgPool2D(5, 3)
            self._pool_o2 = nn.AvgPool2D(5, 3)
        if num_classes > 0:
            self._drop = nn.Dropout(0.4, mode="downscale_in_infer")
            self._fc_out = _linear(1024, num_classes, 1024)
            # the pooling leaves 3 x 3 of an image of 224 x 224; Paddle's initial values are those of 4 x 4
            self._conv_o1 = ConvLayer(512, 128, 1)
            self._fc_o1 = _linear(128 * 3 * 3, 1024, 128 * 4 * 4)
            self._drop_o1 = nn.Dropout(0.7, mode="downscale_in_infer")
            self._out1 = _linear(1024, num_classes, 1024)
            self._conv_o2 = ConvLayer(528, 128, 1)
            self._fc_o2 = _linear(128 * 3 * 3, 1024, 128 * 4 * 4)
            self._drop_o2 = nn.Dropout(0.7, mode="downscale_in_infer")
            self._out2 = _linear(1024, num_classes, 1024)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Classify images.

        Args:
            inputs: Images ``[N, 3, 224, 224]``.

        Returns:
            Logits ``[N, num_classes]`` of the classifier and of the auxiliary ones after modules 4a and 4d; the
            features ``[N, C, H, W]`` before each without classes.
        """
        x = self._conv_2(self._conv_1(self._pool(self._conv(inputs))))
        x = self._pool(self._ince3b(self._ince3a(self._pool(x))))
        first = self._ince4a(x)
        second = self._ince4d(self._ince4c(self._ince4b(first)))
        x = self._ince5b(self._ince5a(self._pool(self._ince4e(second))))
        if self.with_pool:
            x, first, second = self._pool_5(x), self._pool_o1(first), self._pool_o2(second)
        if self.num_classes <= 0:
            return x, first, second
        first = relu(self._fc_o1(self._conv_o1(first).flatten(1)))
        second = self._fc_o2(self._conv_o2(second).flatten(1))  # Paddle has no ReLU here
        return (
            self._fc_out(self._drop(x).flatten(1)),
            self._out1(self._drop_o1(first)),
            self._out2(self._drop_o2(second)),
        )


def googlenet(pretrained: bool = False, **kwargs: Any) -> GoogLeNet:
    """Create a ``GoogLeNet``, for images of 224 x 224 pixels.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``GoogLeNet``: ``num_classes``, ``with_pool``.

    Returns:
        A ``GoogLeNet``.

    Examples:
        >>> bireme.vision.models.googlenet(num_classes=10)._fc_out.weight.shape
        [1024, 10]
    """
    refuse("googlenet", pretrained)
    return GoogLeNet(**kwargs)


guard_functions(globals())
