"""AlexNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.nn.functional import relu
from bireme.nn.initializer import Uniform
from bireme.vision.models.weights import refuse


def _within(bound: float) -> dict[str, Any]:
    return {"weight_attr": Uniform(-bound, bound), "bias_attr": Uniform(-bound, bound)}


class ConvPoolLayer(nn.Layer):
    """Convolution, optional activation, and max pooling over windows of 3 x 3 with stride 2.

    Args:
        input_channels: Number of channels of the input.
        output_channels: Number of channels of the output.
        filter_size: Size of the kernel.
        stride: Stride of the convolution.
        padding: Padding of the convolution.
        stdv: Bound of the uniform distribution of the initial values.
        groups: Number of groups of channels. Default: 1.
        act: ``'relu'``, or anything else for no activation. Default: None.

    Examples:
        >>> bireme.vision.models.AlexNet(0)._conv2(bireme.ones([1, 64, 7, 7])).shape
        [1, 192, 3, 3]
    """

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        filter_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: int | Sequence[int],
        stdv: float,
        groups: int = 1,
        act: str | None = None,
    ):
        super().__init__()
        self.relu = nn.ReLU() if act == "relu" else None
        self._conv = nn.Conv2D(
            input_channels, output_channels, filter_size, stride, padding, groups=groups, **_within(stdv)
        )
        self._pool = nn.MaxPool2D(3, 2, 0)

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layers.

        Args:
            inputs: Images ``[N, input_channels, H, W]``.

        Returns:
            Features ``[N, output_channels, H_out, W_out]``.
        """
        x = self._conv(inputs)
        return self._pool(x if self.relu is None else self.relu(x))


class AlexNet(nn.Layer):
    """AlexNet, for images of 224 x 224 pixels.

    Args:
        num_classes: Number of classes; 0 or less returns the features instead. Default: 1000.

    Shape:
        - inputs: ``[N, 3, 224, 224]``; any size of at least 63 without classes
        - output: ``[N, num_classes]``

    Examples:
        >>> bireme.vision.models.AlexNet(num_classes=0)(bireme.ones([1, 3, 64, 64])).shape
        [1, 256, 1, 1]
    """

    def __init__(self, num_classes: int = 1000):
        errors.check_integer("AlexNet(num_classes)", num_classes)
        super().__init__()
        self.num_classes = num_classes
        # uniform within one over the root of the products that an output adds up
        self._conv1 = ConvPoolLayer(3, 64, 11, 4, 2, (3 * 11 * 11) ** -0.5, act="relu")
        self._conv2 = ConvPoolLayer(64, 192, 5, 1, 2, (64 * 5 * 5) ** -0.5, act="relu")
        self._conv3 = nn.Conv2D(192, 384, 3, 1, 1, **_within((192 * 3 * 3) ** -0.5))
        self._conv4 = nn.Conv2D(384, 256, 3, 1, 1, **_within((384 * 3 * 3) ** -0.5))
        self._conv5 = ConvPoolLayer(256, 256, 3, 1, 1, (256 * 3 * 3) ** -0.5, act="relu")
        if num_classes > 0:
            bound = (256 * 6 * 6) ** -0.5  # Paddle has it for all three
            self._drop1 = nn.Dropout(0.5, mode="downscale_in_infer")
            self._fc6 = nn.Linear(256 * 6 * 6, 4096, **_within(bound))
            self._drop2 = nn.Dropout(0.5, mode="downscale_in_infer")
            self._fc7 = nn.Linear(4096, 4096, **_within(bound))
            self._fc8 = nn.Linear(4096, num_classes, **_within(bound))

    def forward(self, inputs: Tensor) -> Tensor:
        """Classify images.

        Args:
            inputs: Images ``[N, 3, 224, 224]``.

        Returns:
            Logits ``[N, num_classes]``, or the features ``[N, C, H, W]`` without classes.
        """
        x = self._conv2(self._conv1(inputs))
        x = relu(self._conv4(relu(self._conv3(x))))
        x = self._conv5(x)
        if self.num_classes <= 0:
            return x
        x = relu(self._fc6(self._drop1(x.flatten(1))))
        return self._fc8(relu(self._fc7(self._drop2(x))))


def alexnet(pretrained: bool = False, **kwargs: Any) -> AlexNet:
    """Create an ``AlexNet``, for images of 224 x 224 pixels.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``AlexNet``: ``num_classes``.

    Returns:
        An ``AlexNet``.

    Examples:
        >>> bireme.vision.models.alexnet(num_classes=10)._fc8.weight.shape
        [4096, 10]
    """
    refuse("alexnet", pretrained)
    return AlexNet(**kwargs)


guard_functions(globals())
