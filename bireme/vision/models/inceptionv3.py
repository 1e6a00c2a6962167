"""Inception V3: modules of five kinds, whose larger convolutions are factored into smaller ones."""

from __future__ import annotations

from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.nn.initializer import Uniform
from bireme.ops import concat
from bireme.vision.models.weights import refuse
from bireme.vision.ops import ConvNormActivation


def _average() -> nn.AvgPool2D:
    return nn.AvgPool2D(3, 1, 1, exclusive=False)  # zeros of the padding count


class InceptionStem(nn.Layer):
    """The convolutions and poolings before the first module.

    Examples:
        >>> bireme.vision.models.inceptionv3.InceptionStem()(bireme.ones([1, 3, 43, 43])).shape
        [1, 192, 3, 3]
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv_1a_3x3 = ConvNormActivation(3, 32, 3, 2, 0)
        self.conv_2a_3x3 = ConvNormActivation(32, 32, 3, 1, 0)
        self.conv_2b_3x3 = ConvNormActivation(32, 64, 3, 1, 1)
        self.max_pool = nn.MaxPool2D(3, 2)
        self.conv_3b_1x1 = ConvNormActivation(64, 80, 1, 1, 0)
        self.conv_4a_3x3 = ConvNormActivation(80, 192, 3, 1, 0)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layers.

        Args:
            x: Images ``[N, 3, H, W]``.

        Returns:
            Features ``[N, 192, H_out, W_out]``.
        """
        x = self.max_pool(self.conv_2b_3x3(self.conv_2a_3x3(self.conv_1a_3x3(x))))
        return self.max_pool(self.conv_4a_3x3(self.conv_3b_1x1(x)))


class InceptionA(nn.Layer):
    """Module of convolutions of 1 x 1, of 5 x 5, of two of 3 x 3, and an average pooling, side by side.

    Args:
        num_channels: Number of channels of the input.
        pool_features: Number of channels of the branch of the pooling.

    Examples:
        >>> bireme.vision.models.inceptionv3.InceptionA(8, 4)(bireme.ones([1, 8, 3, 3])).shape
        [1, 228, 3, 3]
    """

    def __init__(self, num_channels: int, pool_features: int):
        super().__init__()
        self.branch1x1 = ConvNormActivation(num_channels, 64, 1, 1, 0)
        self.branch5x5_1 = ConvNormActivation(num_channels, 48, 1, 1, 0)
        self.branch5x5_2 = ConvNormActivation(48, 64, 5, 1, 2)
        self.branch3x3dbl_1 = ConvNormActivation(num_channels, 64, 1, 1, 0)
        self.branch3x3dbl_2 = ConvNormActivation(64, 96, 3, 1, 1)
        self.branch3x3dbl_3 = ConvNormActivation(96, 96, 3, 1, 1)
        self.branch_pool = _average()
        self.branch_pool_conv = ConvNormActivation(num_channels, pool_features, 1, 1, 0)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the branches and join their channels.

        Args:
            x: Features ``[N, num_channels, H, W]``.

        Returns:
            Features ``[N, 224 + pool_features, H, W]``.
        """
        fives = self.branch5x5_2(self.branch5x5_1(x))
        threes = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return concat([self.branch1x1(x), fives, threes, self.branch_pool_conv(self.branch_pool(x))], 1)


class InceptionB(nn.Layer):
    """Module that halves the image: convolutions of 3 x 3, once and twice, and a max pooling, side by side.

    Args:
        num_channels: Number of channels of the input.

    Examples:
        >>> bireme.vision.models.inceptionv3.InceptionB(8)(bireme.ones([1, 8, 5, 5])).shape
        [1, 488, 2, 2]
    """

    def __init__(self, num_channels: int):
        super().__init__()
        self.branch3x3 = ConvNormActivation(num_channels, 384, 3, 2, 0)
        self.branch3x3dbl_1 = ConvNormActivation(num_channels, 64, 1, 1, 0)
        self.branch3x3dbl_2 = ConvNormActivation(64, 96, 3, 1, 1)
        self.branch3x3dbl_3 = ConvNormActivation(96, 96, 3, 2, 0)
        self.branch_pool = nn.MaxPool2D(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the branches and join their channels.

        Args:
            x: Features ``[N, num_channels, H, W]``.

        Returns:
            Features ``[N, 480 + num_channels, H_out, W_out]``.
        """
        twice = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return concat([self.branch3x3(x), twice, self.branch_pool(x)], 1)


class InceptionC(nn.Layer):
    """Module of convolutions of 1 x 1, of 7 x 7 once and twice, each as 1 x 7 and 7 x 1, and an average pooling.

    Args:
        num_channels: Number of channels of the input.
        channels_7x7: Inner number of channels of the convolutions of 7 x 7.

    Examples:
        >>> bireme.vision.models.inceptionv3.InceptionC(8, 4)(bireme.ones([1, 8, 3, 3])).shape
        [1, 768, 3, 3]
    """

    def __init__(self, num_channels: int, channels_7x7: int):
        super().__init__()
        wide: dict[str, Any] = {"kernel_size": (1, 7), "padding": (0, 3)}
        tall: dict[str, Any] = {"kernel_size": (7, 1), "padding": (3, 0)}
        inner = channels_7x7
        self.branch1x1 = ConvNormActivation(num_channels, 192, 1, 1, 0)
        self.branch7x7_1 = ConvNormActivation(num_channels, inner, 1, 1, 0)
        self.branch7x7_2 = ConvNormActivation(inner, inner, **wide)
        self.branch7x7_3 = ConvNormActivation(inner, 192, **tall)
        self.branch7x7dbl_1 = ConvNormActivation(num_channels, inner, 1, 1, 0)
        self.branch7x7dbl_2 = ConvNormActivation(inner, inner, **tall)
        self.branch7x7dbl_3 = ConvNormActivation(inner, inner, **wide)
        self.branch7x7dbl_4 = ConvNormActivation(inner, inner, **tall)
        self.branch7x7dbl_5 = ConvNormActivation(inner, 192, **wide)
        self.branch_pool = _average()
        self.branch_pool_conv = ConvNormActivation(num_channels, 192, 1, 1, 0)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the branches and join their channels.

        Args:
            x: Features ``[N, num_channels, H, W]``.

        Returns:
            Features ``[N, 768, H, W]``.
        """
        once = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        twice = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        twice = self.branch7x7dbl_5(self.branch7x7dbl_4(twice))
        return concat([self.branch1x1(x), once, twice, self.branch_pool_conv(self.branch_pool(x))], 1)


class InceptionD(nn.Layer):
    """Module that halves the image: convolutions of 3 x 3, of 7 x 7 and 3 x 3, and a max pooling, side by side.

    Args:
        num_channels: Number of channels of the input.

    Examples:
        >>> bireme.vision.models.inceptionv3.InceptionD(8)(bireme.ones([1, 8, 5, 5])).shape
        [1, 520, 2, 2]
    """

    def __init__(self, num_channels: int):
        super().__init__()
        self.branch3x3_1 = ConvNormActivation(num_channels, 192, 1, 1, 0)
        self.branch3x3_2 = ConvNormActivation(192, 320, 3, 2, 0)
        self.branch7x7x3_1 = ConvNormActivation(num_channels, 192, 1, 1, 0)
        self.branch7x7x3_2 = ConvNormActivation(192, 192, (1, 7), 1, (0, 3))
        self.branch7x7x3_3 = ConvNormActivation(192, 192, (7, 1), 1, (3, 0))
        self.branch7x7x3_4 = ConvNormActivation(192, 192, 3, 2, 0)
        self.branch_pool = nn.MaxPool2D(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the branches and join their channels.

        Args:
            x: Features ``[N, num_channels, H, W]``.

        Returns:
            Features ``[N, 512 + num_channels, H_out, W_out]``.
        """
        sevens = self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x)))
        threes = self.branch3x3_2(self.branch3x3_1(x))
        return concat([threes, self.branch7x7x3_4(sevens), self.branch_pool(x)], 1)


class InceptionE(nn.Layer):
    """Module of convolutions of 1 x 1, of 3 x 3 once and twice, the last as 1 x 3 beside 3 x 1, and an average pooling.

    Args:
        num_channels: Number of channels of the input.

    Examples:
        >>> bireme.vision.models.inceptionv3.InceptionE(8)(bireme.ones([1, 8, 3, 3])).shape
        [1, 2048, 3, 3]
    """

    def __init__(self, num_channels: int):
        super().__init__()
        self.branch1x1 = ConvNormActivation(num_channels, 320, 1, 1, 0)
        self.branch3x3_1 = ConvNormActivation(num_channels, 384, 1, 1, 0)
        self.branch3x3_2a = ConvNormActivation(384, 384, (1, 3), 1, (0, 1))
        self.branch3x3_2b = ConvNormActivation(384, 384, (3, 1), 1, (1, 0))
        self.branch3x3dbl_1 = ConvNormActivation(num_channels, 448, 1, 1, 0)
        self.branch3x3dbl_2 = ConvNormActivation(448, 384, 3, 1, 1)
        self.branch3x3dbl_3a = ConvNormActivation(384, 384, (1, 3), 1, (0, 1))
        self.branch3x3dbl_3b = ConvNormActivation(384, 384, (3, 1), 1, (1, 0))
        self.branch_pool = _average()
        self.branch_pool_conv = ConvNormActivation(num_channels, 192, 1, 1, 0)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the branches and join their channels.

        Args:
            x: Features ``[N, num_channels, H, W]``.

        Returns:
            Features ``[N, 2048, H, W]``.
        """
        once, twice = self.branch3x3_1(x), self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        branches = [
            self.branch1x1(x),
            self.branch3x3_2a(once),
            self.branch3x3_2b(once),
            self.branch3x3dbl_3a(twice),
            self.branch3x3dbl_3b(twice),
            self.branch_pool_conv(self.branch_pool(x)),
        ]
        return concat(branches, 1)


class InceptionV3(nn.Layer):
    """Inception V3, made for images of 299 x 299 pixels.

    Args:
        num_classes: Number of classes; 0 or less returns the features instead. Default: 1000.
        with_pool: Average the features over the image before the classifier. Default: True.

    Shape:
        - x: ``[N, 3, H, W]`` with H and W of at least 75
        - output: ``[N, num_classes]``

    Examples:
        >>> bireme.vision.models.InceptionV3(num_classes=10)(bireme.ones([1, 3, 75, 75])).shape
        [1, 10]
    """

    def __init__(self, num_classes: int = 1000, with_pool: bool = True):
        errors.check_integer("InceptionV3(num_classes)", num_classes)
        super().__init__()
        self.num_classes, self.with_pool = num_classes, with_pool
        # by kind of module: channels of the input, and the second argument where there is one
        self.layers_config: dict[str, Any] = {
            "inception_a": [[192, 256, 288], [32, 64, 64]],
            "inception_b": [288],
            "inception_c": [[768, 768, 768, 768], [128, 160, 160, 192]],
            "inception_d": [768],
            "inception_e": [1280, 2048],
        }
        config = self.layers_config
        self.inception_stem = InceptionStem()
        self.inception_block_list = nn.LayerList(
            [
                *map(InceptionA, *config["inception_a"]),
                *map(InceptionB, config["inception_b"]),
                *map(InceptionC, *config["inception_c"]),
                *map(InceptionD, config["inception_d"]),
                *map(InceptionE, config["inception_e"]),
            ]
        )
        if with_pool:
            self.avg_pool = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            bound = 2048**-0.5
            self.dropout = nn.Dropout(0.2, mode="downscale_in_infer")
            self.fc = nn.Linear(2048, num_classes, weight_attr=Uniform(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """Classify images.

        Args:
            x: Images ``[N, 3, H, W]``.

        Returns:
            Logits ``[N, num_classes]``, or the features ``[N, C, H, W]`` without classes.
        """
        x = self.inception_stem(x)
        for block in self.inception_block_list:
            x = block(x)
        if self.with_pool:
            x = self.avg_pool(x)
        return self.fc(self.dropout(x.flatten(1))) if self.num_classes > 0 else x


def inception_v3(pretrained: bool = False, **kwargs: Any) -> InceptionV3:
    """Create an ``InceptionV3``.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``InceptionV3``: ``num_classes``, ``with_pool``.

    Returns:
        An ``InceptionV3``.

    Examples:
        >>> bireme.vision.models.inception_v3(num_classes=10).fc.weight.shape
        [2048, 10]
    """
    refuse("inception_v3", pretrained)
    return InceptionV3(**kwargs)


guard_functions(globals())
