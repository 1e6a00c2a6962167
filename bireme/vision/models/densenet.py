"""DenseNet: each layer reads the outputs of all layers before it in its block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.nn.initializer import Uniform
from bireme.ops import concat
from bireme.vision.models.weights import refuse

# by depth: channels of the first convolution, growth rate, layers of the four blocks
CONFIGS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
    264: (64, 32, (6, 12, 64, 48)),
}


class BNACConvLayer(nn.Layer):
    """Batch normalization with an activation, then a convolution without bias.

    Args:
        num_channels: Number of channels of the input.
        num_filters: Number of channels of the output.
        filter_size: Size of the kernel.
        stride: Stride of the convolution. Default: 1.
        pad: Padding of the convolution. Default: 0.
        groups: Number of groups of channels. Default: 1.
        act: Name of the activation; None for none. Default: ``'relu'``.

    Examples:
        >>> bireme.vision.models.densenet.BNACConvLayer(4, 8, 3, pad=1)(bireme.ones([1, 4, 5, 5])).shape
        [1, 8, 5, 5]
    """

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        pad: int | Sequence[int] = 0,
        groups: int = 1,
        act: str | None = "relu",
    ):
        super().__init__()
        self._batch_norm = nn.BatchNorm(num_channels, act=act)
        self._conv = nn.Conv2D(num_channels, num_filters, filter_size, stride, pad, groups=groups, bias_attr=False)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layers.

        Args:
            input: Features ``[N, num_channels, H, W]``.

        Returns:
            Features ``[N, num_filters, H_out, W_out]``.
        """
        return self._conv(self._batch_norm(input))


class ConvBNLayer(nn.Layer):
    """Convolution without bias, then batch normalization with an activation.

    Args:
        num_channels: Number of channels of the input.
        num_filters: Number of channels of the output.
        filter_size: Size of the kernel.
        stride: Stride of the convolution. Default: 1.
        pad: Padding of the convolution. Default: 0.
        groups: Number of groups of channels. Default: 1.
        act: Name of the activation; None for none. Default: ``'relu'``.

    Examples:
        >>> bireme.vision.models.densenet.ConvBNLayer(4, 8, 3, pad=1)(bireme.ones([1, 4, 5, 5])).shape
        [1, 8, 5, 5]
    """

    def __init__(
        self,
        num_channels: int,
        num_filters: int,
        filter_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        pad: int | Sequence[int] = 0,
        groups: int = 1,
        act: str | None = "relu",
    ):
        super().__init__()
        self._conv = nn.Conv2D(num_channels, num_filters, filter_size, stride, pad, groups=groups, bias_attr=False)
        self._batch_norm = nn.BatchNorm(num_filters, act=act)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layers.

        Args:
            input: Features ``[N, num_channels, H, W]``.

        Returns:
            Features ``[N, num_filters, H_out, W_out]``.
        """
        return self._batch_norm(self._conv(input))


class DenseLayer(nn.Layer):
    """Convolutions of 1 x 1 and 3 x 3, whose output is appended to the channels of the input.

    Args:
        num_channels: Number of channels of the input.
        growth_rate: Number of channels that are appended.
        bn_size: The inner number of channels is ``bn_size * growth_rate``.
        dropout: Probability that an element of the appended channels is dropped; 0 leaves the dropout out.

    Examples:
        >>> bireme.vision.models.densenet.DenseLayer(4, 3, 2, 0.0)(bireme.ones([1, 4, 5, 5])).shape
        [1, 7, 5, 5]
    """

    def __init__(self, num_channels: int, growth_rate: int, bn_size: int, dropout: float):
        super().__init__()
        self.dropout = dropout
        self.bn_ac_func1 = BNACConvLayer(num_channels, bn_size * growth_rate, 1)
        self.bn_ac_func2 = BNACConvLayer(bn_size * growth_rate, growth_rate, 3, pad=1)
        if dropout:
            self.dropout_func = nn.Dropout(dropout, mode="downscale_in_infer")

    def forward(self, input: Tensor) -> Tensor:
        """Apply the convolutions and append their output.

        Args:
            input: Features ``[N, num_channels, H, W]``.

        Returns:
            Features ``[N, num_channels + growth_rate, H, W]``.
        """
        out = self.bn_ac_func2(self.bn_ac_func1(input))
        return concat([input, self.dropout_func(out) if self.dropout else out], 1)


class DenseBlock(nn.Layer):
    """Sequence of ``DenseLayer``, each of which appends ``growth_rate`` channels.

    Args:
        num_channels: Number of channels of the input.
        num_layers: Number of layers.
        bn_size: The inner number of channels of a layer is ``bn_size * growth_rate``.
        growth_rate: Number of channels that each layer appends.
        dropout: Probability that an element of the appended channels is dropped; 0 leaves the dropout out.
        name: Prefix of the names of the sublayers. Default: None, ``'None'``.

    Examples:
        >>> block = bireme.vision.models.densenet.DenseBlock(4, 2, 2, 3, 0.0, name="conv2")
        >>> block(bireme.ones([1, 4, 5, 5])).shape
        [1, 10, 5, 5]
        >>> [name for name, _ in block.named_children()]
        ['conv2_1', 'conv2_2']
    """

    def __init__(
        self,
        num_channels: int,
        num_layers: int,
        bn_size: int,
        growth_rate: int,
        dropout: float,
        name: str | None = None,
    ):
        super().__init__()
        self.dropout = dropout
        self.dense_layer_func: list[Any] = []
        for i in range(num_layers):
            layer = DenseLayer(num_channels + i * growth_rate, growth_rate, bn_size, dropout)
            self.dense_layer_func.append(self.add_sublayer(f"{name}_{i + 1}", layer))

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layers in sequence.

        Args:
            input: Features ``[N, num_channels, H, W]``.

        Returns:
            Features ``[N, num_channels + num_layers * growth_rate, H, W]``.
        """
        for layer in self.dense_layer_func:
            input = layer(input)
        return input


class TransitionLayer(nn.Layer):
    """Batch normalization, ReLU, convolution of 1 x 1, and average pooling that halves the image.

    Args:
        num_channels: Number of channels of the input.
        num_output_features: Number of channels of the output.

    Examples:
        >>> bireme.vision.models.densenet.TransitionLayer(8, 4)(bireme.ones([1, 8, 6, 6])).shape
        [1, 4, 3, 3]
    """

    def __init__(self, num_channels: int, num_output_features: int):
        super().__init__()
        self.conv_ac_func = BNACConvLayer(num_channels, num_output_features, 1)
        self.pool2d_avg = nn.AvgPool2D(2, 2, 0)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layers.

        Args:
            input: Features ``[N, num_channels, H, W]``.

        Returns:
            Features ``[N, num_output_features, H // 2, W // 2]``.
        """
        return self.pool2d_avg(self.conv_ac_func(input))


class DenseNet(nn.Layer):
    """DenseNet: each layer reads the outputs of all layers before it in its block.

    Args:
        layers: Number of layers: 121, 161, 169, 201 or 264. Default: 121.
        bn_size: The inner number of channels of a layer is ``bn_size`` times the growth rate. Default: 4.
        dropout: Probability that an element of a layer's output is dropped in training. Default: 0.0.
        num_classes: Number of classes; 0 or less returns the features instead. Default: 1000.
        with_pool: Average the features over the image before the classifier. Default: True.

    Shape:
        - input: ``[N, 3, H, W]``
        - output: ``[N, num_classes]``

    Examples:
        >>> bireme.vision.models.DenseNet(layers=121, bn_size=1, num_classes=10)(bireme.ones([1, 3, 32, 32])).shape
        [1, 10]
    """

    def __init__(
        self,
        layers: int = 121,
        bn_size: int = 4,
        dropout: float = 0.0,
        num_classes: int = 1000,
        with_pool: bool = True,
    ):
        for name, value in (("layers", layers), ("bn_size", bn_size), ("num_classes", num_classes)):
            errors.check_integer(f"DenseNet({name})", value)
        errors.check_number("DenseNet(dropout)", dropout)
        super().__init__()
        if layers not in CONFIGS:
            raise errors.bad("DenseNet(layers)", f"one of {', '.join(map(str, CONFIGS))}", layers)
        channels, growth, counts = CONFIGS[layers]
        self.num_classes, self.with_pool, self.block_config = num_classes, with_pool, list(counts)
        self.conv1_func = ConvBNLayer(3, channels, 7, 2, 3)
        self.pool2d_max = nn.MaxPool2D(3, 2, 1)
        self.dense_block_func_list: list[Any] = []
        self.transition_func_list: list[Any] = []
        for stage, count in enumerate(counts, 2):
            block = DenseBlock(channels, count, bn_size, growth, dropout, name=f"conv{stage}")
            self.dense_block_func_list.append(self.add_sublayer(f"db_conv_{stage}", block))
            channels += count * growth
            if stage < len(counts) + 1:
                half = TransitionLayer(channels, channels // 2)
                self.transition_func_list.append(self.add_sublayer(f"tr_conv{stage}_blk", half))
                channels //= 2
        self.batch_norm = nn.BatchNorm(channels, act="relu")
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            bound = channels**-0.5
            self.out = nn.Linear(channels, num_classes, weight_attr=Uniform(-bound, bound))

    def forward(self, input: Tensor) -> Tensor:
        """Classify images.

        Args:
            input: Images ``[N, 3, H, W]``.

        Returns:
            Logits ``[N, num_classes]``, or the features ``[N, C, H, W]`` without classes.
        """
        x = self.pool2d_max(self.conv1_func(input))
        for block, half in zip(self.dense_block_func_list, [*self.transition_func_list, None], strict=True):
            x = block(x)
            x = x if half is None else half(x)
        x = self.batch_norm(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        return self.out(x.flatten(1)) if self.num_classes > 0 else x


def _densenet(layers: int, pretrained: bool, options: dict[str, Any]) -> DenseNet:
    refuse(f"densenet{layers}", pretrained)
    return DenseNet(layers, **options)


def densenet121(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """Create a ``DenseNet`` of 121 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``DenseNet``: ``bn_size``, ``dropout``, ``num_classes``, ``with_pool``.

    Returns:
        A ``DenseNet``.

    Examples:
        >>> bireme.vision.models.densenet121(bn_size=1, num_classes=10).out.weight.shape
        [1024, 10]
    """
    return _densenet(121, pretrained, kwargs)


def densenet161(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """Create a ``DenseNet`` of 161 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``DenseNet``: ``bn_size``, ``dropout``, ``num_classes``, ``with_pool``.

    Returns:
        A ``DenseNet``.

    Examples:
        >>> bireme.vision.models.densenet161(bn_size=1, num_classes=10).out.weight.shape
        [2208, 10]
    """
    return _densenet(161, pretrained, kwargs)


def densenet169(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """Create a ``DenseNet`` of 169 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``DenseNet``: ``bn_size``, ``dropout``, ``num_classes``, ``with_pool``.

    Returns:
        A ``DenseNet``.

    Examples:
        >>> bireme.vision.models.densenet169(bn_size=1, num_classes=10).out.weight.shape
        [1664, 10]
    """
    return _densenet(169, pretrained, kwargs)


def densenet201(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """Create a ``DenseNet`` of 201 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``DenseNet``: ``bn_size``, ``dropout``, ``num_classes``, ``with_pool``.

    Returns:
        A ``DenseNet``.

    Examples:
        >>> bireme.vision.models.densenet201(bn_size=1, num_classes=10).out.weight.shape
        [1920, 10]
    """
    return _densenet(201, pretrained, kwargs)


def densenet264(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """Create a ``DenseNet`` of 264 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``DenseNet``: ``bn_size``, ``dropout``, ``num_classes``, ``with_pool``.

    Returns:
        A ``DenseNet``.

    Examples:
        >>> bireme.vision.models.densenet264(bn_size=1, num_classes=10).out.weight.shape
        [2688, 10]
    """
    return _densenet(264, pretrained, kwargs)


guard_functions(globals())
