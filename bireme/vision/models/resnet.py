"""ResNet, ResNeXt and wide ResNet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.vision.models.weights import refuse

COUNTS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}  # blocks of the four stages, by depth


class BasicBlock(nn.Layer):
    """Residual block of two convolutions of 3 x 3.

    Args:
        inplanes: Number of channels of the input.
        planes: Number of channels of the first convolution, for a width of 64.
        stride: Stride of the block. Default: 1.
        downsample: Layer that brings the input to the shape of the result. Default: None, it has it already.
        groups: Accepted for the signature of ``BottleneckBlock`` and not used. Default: 1.
        base_width: Accepted for the signature of ``BottleneckBlock`` and not used. Default: 64.
        dilation: Must be 1. Default: 1.
        norm_layer: Class of the normalization. Default: None, ``BatchNorm2D``.

    Examples:
        >>> bireme.vision.models.resnet.BasicBlock(4, 4)(bireme.ones([1, 4, 5, 5])).shape
        [1, 4, 5, 5]
    """

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int | Sequence[int] = 1,
        downsample: nn.Layer | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Layer] | None = None,
    ):
        super().__init__()
        if dilation > 1:
            raise errors.bad(
                "BasicBlock(dilation)",
                "1, since only BottleneckBlock supports dilation",
                dilation,
                kind=NotImplementedError,
            )
        norm = norm_layer or nn.BatchNorm2D
        self.conv1 = nn.Conv2D(inplanes, planes, 3, stride, 1, bias_attr=False)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2D(planes, planes, 3, 1, 1, bias_attr=False)
        self.bn2 = norm(planes)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block.

        Args:
            x: Features ``[N, inplanes, H, W]``.

        Returns:
            Features ``[N, planes, H_out, W_out]``.
        """
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class BottleneckBlock(nn.Layer):
    """Residual block of convolutions of 1 x 1, 3 x 3 and 1 x 1, the last one to four times as many channels.

    Args:
        inplanes: Number of channels of the input.
        planes: Number of channels of the first convolution, for a width of 64.
        stride: Stride of the block. Default: 1.
        downsample: Layer that brings the input to the shape of the result. Default: None, it has it already.
        groups: Number of groups of the convolution of 3 x 3. Default: 1.
        base_width: The inner number of channels is ``planes * base_width / 64 * groups``. Default: 64.
        dilation: Dilation of the convolution of 3 x 3. Default: 1.
        norm_layer: Class of the normalization. Default: None, ``BatchNorm2D``.

    Examples:
        >>> bireme.vision.models.resnet.BottleneckBlock(16, 4)(bireme.ones([1, 16, 5, 5])).shape
        [1, 16, 5, 5]
    """

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int | Sequence[int] = 1,
        downsample: nn.Layer | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Layer] | None = None,
    ):
        super().__init__()
        norm = norm_layer or nn.BatchNorm2D
        width = int(planes * (base_width / 64)) * groups
        self.conv1 = nn.Conv2D(inplanes, width, 1, bias_attr=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2D(width, width, 3, stride, dilation, dilation, groups, bias_attr=False)
        self.bn2 = norm(width)
        self.conv3 = nn.Conv2D(width, planes * self.expansion, 1, bias_attr=False)
        self.bn3 = norm(planes * self.expansion)
        self.relu = nn.ReLU()
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block.

        Args:
            x: Features ``[N, inplanes, H, W]``.

        Returns:
            Features ``[N, 4 * planes, H_out, W_out]``.
        """
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Layer):
    """Residual network.

    Args:
        block: ``BasicBlock`` or ``BottleneckBlock`` of ``bireme.vision.models.resnet``.
        depth: Number of layers: 18, 34, 50, 101 or 152. Default: 50.
        width: Number of inner channels in each group of the first stage, for ``BottleneckBlock``. Default: 64.
        num_classes: Number of classes; 0 or less returns the features instead. Default: 1000.
        with_pool: Average the features over the image before the classifier. Default: True.
        groups: Number of groups of the convolutions of 3 x 3, for ``BottleneckBlock``. Default: 1.

    Shape:
        - x: ``[N, 3, H, W]``
        - output: ``[N, num_classes]``

    Examples:
        >>> model = bireme.vision.models.ResNet(bireme.vision.models.resnet.BasicBlock, 18, num_classes=10)
        >>> model(bireme.ones([1, 3, 32, 32])).shape
        [1, 10]
    """

    def __init__(
        self,
        block: type,
        depth: int = 50,
        width: int = 64,
        num_classes: int = 1000,
        with_pool: bool = True,
        groups: int = 1,
    ):
        errors.check_integer("ResNet(num_classes)", num_classes)
        super().__init__()
        if depth not in COUNTS:
            raise errors.bad(
                "ResNet(depth)", f"one of {', '.join(map(str, COUNTS))}", depth, kind=errors.MissingKeyError
            )
        self.groups, self.base_width, self.num_classes, self.with_pool = groups, width, num_classes, with_pool
        self._norm_layer, self.inplanes, self.dilation = nn.BatchNorm2D, 64, 1
        self.conv1 = nn.Conv2D(3, self.inplanes, 7, 2, 3, bias_attr=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2D(3, 2, 1)
        stages = zip((64, 128, 256, 512), COUNTS[depth], (1, 2, 2, 2), strict=True)
        self.layer1, self.layer2, self.layer3, self.layer4 = [self._make_layer(block, *stage) for stage in stages]
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D((1, 1))
        if num_classes > 0:
            self.fc = nn.Linear(512 * block.expansion, num_classes)  # type: ignore[attr-defined]  # both blocks have it

    def _make_layer(self, block: Any, planes: int, blocks: int, stride: int = 1, dilate: bool = False) -> nn.Sequential:
        """The blocks of a stage; the first has the stride, and its input is brought to its size."""
        norm, before, out = self._norm_layer, self.dilation, planes * block.expansion
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        fitted = None
        if stride != 1 or self.inplanes != out:
            fitted = nn.Sequential(nn.Conv2D(self.inplanes, out, 1, stride, bias_attr=False), norm(out))
        made = [block(self.inplanes, planes, stride, fitted, self.groups, self.base_width, before, norm)]
        self.inplanes = out
        for _ in range(1, blocks):
            made.append(block(out, planes, groups=self.groups, base_width=self.base_width, norm_layer=norm))
        return nn.Sequential(*made)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images.

        Args:
            x: Images ``[N, 3, H, W]``.

        Returns:
            Logits ``[N, num_classes]``, or the features ``[N, C, H, W]`` without classes.
        """
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        if self.with_pool:
            x = self.avgpool(x)
        return self.fc(x.flatten(1)) if self.num_classes > 0 else x


def _resnet(name: str, pretrained: bool, block: type, depth: int, options: dict[str, Any]) -> ResNet:
    refuse(name, pretrained)
    return ResNet(block, depth, **options)


def resnet18(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Create a ``ResNet`` of 18 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ResNet``: ``num_classes``, ``with_pool``, ``width``, ``groups``.

    Returns:
        A ``ResNet``.

    Examples:
        >>> bireme.vision.models.resnet18(num_classes=10).fc.weight.shape
        [512, 10]
    """
    return _resnet("resnet18", pretrained, BasicBlock, 18, kwargs)


def resnet34(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Create a ``ResNet`` of 34 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ResNet``: ``num_classes``, ``with_pool``, ``width``, ``groups``.

    Returns:
        A ``ResNet``.

    Examples:
        >>> len(bireme.vision.models.resnet34(num_classes=10).layer3)
        6
    """
    return _resnet("resnet34", pretrained, BasicBlock, 34, kwargs)


def resnet50(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Create a ``ResNet`` of 50 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ResNet``: ``num_classes``, ``with_pool``, ``width``, ``groups``.

    Returns:
        A ``ResNet``.

    Examples:
        >>> len(bireme.vision.models.resnet50(num_classes=0).layer3)
        6
    """
    return _resnet("resnet50", pretrained, BottleneckBlock, 50, kwargs)


def resnet101(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Create a ``ResNet`` of 101 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ResNet``: ``num_classes``, ``with_pool``, ``width``, ``groups``.

    Returns:
        A ``ResNet``.

    Examples:
        >>> len(bireme.vision.models.resnet101(num_classes=0).layer3)
        23
    """
    return _resnet("resnet101", pretrained, BottleneckBlock, 101, kwargs)


def resnet152(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Create a ``ResNet`` of 152 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ResNet``: ``num_classes``, ``with_pool``, ``width``, ``groups``.

    Returns:
        A ``ResNet``.

    Examples:
        >>> len(bireme.vision.models.resnet152(num_classes=0).layer3)
        36
    """
    return _resnet("resnet152", pretrained, BottleneckBlock, 152, kwargs)


def resnext50_32x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Create a ResNeXt of 50 layers: a ``ResNet`` with 32 groups of 4 channels in the first stage.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ResNet``: ``num_classes``, ``with_pool``; ``groups`` and ``width`` are set here.

    Returns:
        A ``ResNet``.

    Examples:
        >>> bireme.vision.models.resnext50_32x4d(num_classes=0).layer1[0].conv2.weight.shape
        [128, 4, 3, 3]
    """
    kwargs["groups"], kwargs["width"] = 32, 4
    return _resnet("resnext50_32x4d", pretrained, BottleneckBlock, 50, kwargs)


def resnext50_64x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Create a ResNeXt of 50 layers: a ``ResNet`` with 64 groups of 4 channels in the first stage.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ResNet``: ``num_classes``, ``with_pool``; ``groups`` and ``width`` are set here.

    Returns:
        A ``ResNet``.

    Examples:
        >>> bireme.vision.models.resnext50_64x4d(num_classes=0).layer1[0].conv2.weight.shape
        [256, 4, 3, 3]
    """
    kwargs["groups"], kwargs["width"] = 64, 4
    return _resnet("resnext50_64x4d", pretrained, BottleneckBlock, 50, kwargs)


def resnext101_32x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Create a ResNeXt of 101 layers: a ``ResNet`` with 32 groups of 4 channels in the first stage.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ResNet``: ``num_classes``, ``with_pool``; ``groups`` and ``width`` are set here.

    Returns:
        A ``ResNet``.

    Examples:
        >>> bireme.vision.models.resnext101_32x4d(num_classes=0).layer1[0].conv2.weight.shape
        [128, 4, 3, 3]
    """
    kwargs["groups"], kwargs["width"] = 32, 4
    return _resnet("resnext101_32x4d", pretrained, BottleneckBlock, 101, kwargs)


def resnext101_64x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Create a ResNeXt of 101 layers: a ``ResNet`` with 64 groups of 4 channels in the first stage.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ResNet``: ``num_classes``, ``with_pool``; ``groups`` and ``width`` are set here.

    Returns:
        A ``ResNet``.

    Examples:
        >>> bireme.vision.models.resnext101_64x4d(num_classes=0).layer1[0].conv2.weight.shape
        [256, 4, 3, 3]
    """
    kwargs["groups"], kwargs["width"] = 64, 4
    return _resnet("resnext101_64x4d", pretrained, BottleneckBlock, 101, kwargs)


def resnext152_32x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Create a ResNeXt of 152 layers: a ``ResNet`` with 32 groups of 4 channels in the first stage.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ResNet``: ``num_classes``, ``with_pool``; ``groups`` and ``width`` are set here.

    Returns:
        A ``ResNet``.

    Examples:
        >>> bireme.vision.models.resnext152_32x4d(num_classes=0).layer1[0].conv2.weight.shape
        [128, 4, 3, 3]
    """
    kwargs["groups"], kwargs["width"] = 32, 4
    return _resnet("resnext152_32x4d", pretrained, BottleneckBlock, 152, kwargs)


def resnext152_64x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Create a ResNeXt of 152 layers: a ``ResNet`` with 64 groups of 4 channels in the first stage.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ResNet``: ``num_classes``, ``with_pool``; ``groups`` and ``width`` are set here.

    Returns:
        A ``ResNet``.

    Examples:
        >>> bireme.vision.models.resnext152_64x4d(num_classes=0).layer1[0].conv2.weight.shape
        [256, 4, 3, 3]
    """
    kwargs["groups"], kwargs["width"] = 64, 4
    return _resnet("resnext152_64x4d", pretrained, BottleneckBlock, 152, kwargs)


def wide_resnet50_2(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Create a wide ``ResNet`` of 50 layers, with twice as many channels inside its blocks.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ResNet``: ``num_classes``, ``with_pool``, ``groups``; ``width`` is set here.

    Returns:
        A ``ResNet``.

    Examples:
        >>> bireme.vision.models.wide_resnet50_2(num_classes=0).layer1[0].conv2.weight.shape
        [128, 128, 3, 3]
    """
    kwargs["width"] = 128
    return _resnet("wide_resnet50_2", pretrained, BottleneckBlock, 50, kwargs)


def wide_resnet101_2(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Create a wide ``ResNet`` of 101 layers, with twice as many channels inside its blocks.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        **kwargs: Arguments of ``ResNet``: ``num_classes``, ``with_pool``, ``groups``; ``width`` is set here.

    Returns:
        A ``ResNet``.

    Examples:
        >>> bireme.vision.models.wide_resnet101_2(num_classes=0).layer1[0].conv2.weight.shape
        [128, 128, 3, 3]
    """
    kwargs["width"] = 128
    return _resnet("wide_resnet101_2", pretrained, BottleneckBlock, 101, kwargs)


guard_functions(globals())
