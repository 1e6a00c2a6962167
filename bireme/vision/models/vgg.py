"""VGG: convolutions of 3 x 3 one after another, and large products at the end."""

from __future__ import annotations

from typing import Any

from bireme import nn
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
    """VGG over `features`, which gives 512 channels; without classes it gives them.

    >>> bireme.vision.models.VGG(bireme.nn.Conv2D(3, 512, 32), num_classes=0)(bireme.ones([1, 3, 32, 32])).shape
    [1, 512, 7, 7]
    """

    def __init__(self, features: nn.Layer, num_classes: int = 1000, with_pool: bool = True):
        super().__init__()
        self.features, self.num_classes, self.with_pool = features, num_classes, with_pool
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D((7, 7))
        if num_classes > 0:
            self.classifier = nn.Sequential(
                nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, num_classes)
            )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
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
            layers += [nn.Conv2D(channels, out, 3, padding=1), *([nn.BatchNorm2D(out)] if batch_norm else []), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2D(2, 2))
    return VGG(nn.Sequential(*layers), **options)


def vgg11(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 11 layers, with or without batch normalisation.

    >>> len(bireme.vision.models.vgg11(num_classes=0).features)
    21
    """
    return _vgg(11, pretrained, batch_norm, kwargs)


def vgg13(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 13 layers, with or without batch normalisation.

    >>> len(bireme.vision.models.vgg13(num_classes=0).features)
    25
    """
    return _vgg(13, pretrained, batch_norm, kwargs)


def vgg16(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 16 layers, with or without batch normalisation.

    >>> len(bireme.vision.models.vgg16(num_classes=0).features)
    31
    """
    return _vgg(16, pretrained, batch_norm, kwargs)


def vgg19(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 19 layers, with or without batch normalisation.

    >>> len(bireme.vision.models.vgg19(num_classes=0, batch_norm=True).features)
    53
    """
    return _vgg(19, pretrained, batch_norm, kwargs)
