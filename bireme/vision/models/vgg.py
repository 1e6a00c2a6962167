"""VGG: stacks of convolutions of 3 x 3, and three linear layers."""

from __future__ import annotations

from typing import Any

from bireme import nn
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.vision.models.weights import refuse

# outputs of the convolutions of each of the five stages; a pooling ends each
STAGES = {
    11: ((64,), (128,), (256,) * 2, (512,) * 2, (512,) * 2),
    13: ((64,) * 2, (128,) * 2, (256,) * 2, (512,) * 2, (512,) * 2),
    16: ((64,) * 2, (128,) * 2, (256,) * 3, (512,) * 3, (512,) * 3),
    19: ((64,) * 2, (128,) * 2, (256,) * 4, (512,) * 4, (512,) * 4),
}


class VGG(nn.Layer):
    """VGG network: a stack of convolutions of 3 x 3 and three linear layers.

    Args:
        features: Layer that returns features ``[N, 512, H, W]``.
        num_classes: Number of classes; 0 or less returns the features instead. Default: 1000.
        with_pool: Average the features to 7 x 7 before the classifier. Default: True.

    Shape:
        - x: ``[N, 3, H, W]``
        - output: ``[N, num_classes]``

    Examples:
        >>> bireme.vision.models.VGG(bireme.nn.Conv2D(3, 512, 32), num_classes=0)(bireme.ones([1, 3, 32, 32])).shape
        [1, 512, 7, 7]
    """

    def __init__(self, features: nn.Layer, num_classes: int = 1000, with_pool: bool = True):
        errors.check_integer("VGG(num_classes)", num_classes)
        super().__init__()
        self.features, self.num_classes, self.with_pool = features, num_classes, with_pool
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D((7, 7))
        if num_classes > 0:
            self.classifier = nn.Sequential(
                nn.Linear(512 * 7 * 7, 4096),
                nn.ReLU(),
                nn.Dropout(),
                nn.Linear(4096, 4096),
                nn.ReLU(),
                nn.Dropout(),
                nn.Linear(4096, num_classes),
            )

    def forward(self, x: Tensor) -> Tensor:
        """Classify images.

        Args:
            x: Images ``[N, 3, H, W]``.

        Returns:
            Logits ``[N, num_classes]``, or the features ``[N, C, H, W]`` without classes.
        """
        x = self.features(x)
        if self.with_pool:
            x = self.avgpool(x)
        return self.classifier(x.flatten(1)) if self.num_classes > 0 else x


def _vgg(depth: int, pretrained: bool, batch_norm: bool, options: dict[str, Any]) -> VGG:
    refuse(f"vgg{depth}", pretrained)
    layers: list[nn.Layer] = []
    channels = 3
    for stage in STAGES[depth]:
        for out in stage:
            layers += [
                nn.Conv2D(channels, out, 3, padding=1),
                *([nn.BatchNorm2D(out)] if batch_norm else []),
                nn.ReLU(),
            ]
            channels = out
        layers.append(nn.MaxPool2D(2, 2))
    return VGG(nn.Sequential(*layers), **options)


def vgg11(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """Create a ``VGG`` of 11 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        batch_norm: Put a batch normalization after each convolution. Default: False.
        **kwargs: Arguments of ``VGG``: ``num_classes``, ``with_pool``.

    Returns:
        A ``VGG``.

    Examples:
        >>> len(bireme.vision.models.vgg11(num_classes=0).features)
        21
    """
    return _vgg(11, pretrained, batch_norm, kwargs)


def vgg13(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """Create a ``VGG`` of 13 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        batch_norm: Put a batch normalization after each convolution. Default: False.
        **kwargs: Arguments of ``VGG``: ``num_classes``, ``with_pool``.

    Returns:
        A ``VGG``.

    Examples:
        >>> len(bireme.vision.models.vgg13(num_classes=0).features)
        25
    """
    return _vgg(13, pretrained, batch_norm, kwargs)


def vgg16(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """Create a ``VGG`` of 16 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        batch_norm: Put a batch normalization after each convolution. Default: False.
        **kwargs: Arguments of ``VGG``: ``num_classes``, ``with_pool``.

    Returns:
        A ``VGG``.

    Examples:
        >>> len(bireme.vision.models.vgg16(num_classes=0).features)
        31
    """
    return _vgg(16, pretrained, batch_norm, kwargs)


def vgg19(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """Create a ``VGG`` of 19 layers.

    Args:
        pretrained: Must be False: nothing is downloaded. Load weights with ``set_state_dict``. Default: False.
        batch_norm: Put a batch normalization after each convolution. Default: False.
        **kwargs: Arguments of ``VGG``: ``num_classes``, ``with_pool``.

    Returns:
        A ``VGG``.

    Examples:
        >>> len(bireme.vision.models.vgg19(num_classes=0, batch_norm=True).features)
        53
    """
    return _vgg(19, pretrained, batch_norm, kwargs)


guard_functions(globals())
