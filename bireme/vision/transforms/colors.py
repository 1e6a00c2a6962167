"""Transforms that change the colours of an image, most of them at random.

They draw from Python's ``random`` and NumPy's ``numpy.random``, in the order that Paddle draws.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from numbers import Number
from typing import Any

from bireme.core.base import errors
from bireme.vision.transforms import functional as F
from bireme.vision.transforms.base import BaseTransform


def _around(where: str, value: Any, center: float, low: float, high: float) -> list[float] | None:
    """The range that a factor is drawn from; None if it is `center` alone. A single number is the way to either side."""
    if isinstance(value, Number):
        if value < 0:  # type: ignore[operator]  # Number has no arithmetic for mypy
            raise errors.bad(where, "a non-negative number", value)
        bounds = [center - value, center + value]  # type: ignore[operator]  # Number has no arithmetic for mypy
        bounds[0] = max(bounds[0], low)
    elif isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        bounds = [*value]
    else:
        raise errors.bad(where, "a number or 2 numbers", value, kind=errors.ArgumentTypeError)
    if not low <= bounds[0] <= bounds[1] <= high:
        raise errors.bad(where, f"numbers within [{low}, {high}], the smaller first", value)
    return None if bounds[0] == bounds[1] == center else bounds


class BrightnessTransform(BaseTransform):
    """Multiply the values of an image by a random factor.

    Args:
        value: The factor is drawn from ``[max(0, 1 - value), 1 + value]``, or from the range of two numbers.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.BrightnessTransform([1.5, 1.5])(np.array([[10, 200]], np.uint8)).tolist()
        [[15, 255]]
    """

    def __init__(self, value: float | Sequence[float], keys: Sequence[str] | None = None):
        super().__init__(keys)
        self.value = _around("BrightnessTransform(value)", value, 1.0, 0.0, math.inf)

    def _apply_image(self, image: Any) -> Any:
        return image if self.value is None else F.adjust_brightness(image, random.uniform(*self.value))


class ContrastTransform(BaseTransform):
    """Move the values of an image away from their mean or towards it, by a random factor.

    Args:
        value: The factor is drawn from ``[max(0, 1 - value), 1 + value]``, or from the range of two numbers.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.ContrastTransform([0.5, 0.5])(np.array([[64, 84]], np.uint8)).tolist()
        [[69, 79]]
    """

    def __init__(self, value: float | Sequence[float], keys: Sequence[str] | None = None):
        super().__init__(keys)
        self.value = _around("ContrastTransform(value)", value, 1.0, 0.0, math.inf)

    def _apply_image(self, image: Any) -> Any:
        return image if self.value is None else F.adjust_contrast(image, random.uniform(*self.value))


class SaturationTransform(BaseTransform):
    """Make the colors of an image stronger or weaker, by a random factor.

    Args:
        value: The factor is drawn from ``[max(0, 1 - value), 1 + value]``, or from the range of two numbers.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> bireme.vision.transforms.SaturationTransform(0.4)(bireme.ones([3, 1, 1])).shape
        [3, 1, 1]
    """

    def __init__(self, value: float | Sequence[float], keys: Sequence[str] | None = None):
        super().__init__(keys)
        self.value = _around("SaturationTransform(value)", value, 1.0, 0.0, math.inf)

    def _apply_image(self, image: Any) -> Any:
        return image if self.value is None else F.adjust_saturation(image, random.uniform(*self.value))


class HueTransform(BaseTransform):
    """Turn the circle of the hues of an image by a random part.

    Args:
        value: The part is drawn from ``[-value, value]``, or from the range of two numbers within ``[-0.5, 0.5]``.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.HueTransform([0.5, 0.5])(np.array([[[200, 100, 100]]], np.uint8)).tolist()
        [[[100, 198, 200]]]
    """

    def __init__(self, value: float | Sequence[float], keys: Sequence[str] | None = None):
        super().__init__(keys)
        if isinstance(value, Number) and not 0 <= value <= 0.5:  # type: ignore[operator]  # Number has no arithmetic for mypy
            raise errors.bad("HueTransform(value)", "a number in [0, 0.5]", value)
        self.value = _around("HueTransform(value)", value, 0.0, -0.5, 0.5)

    def _apply_image(self, image: Any) -> Any:
        return image if self.value is None else F.adjust_hue(image, random.uniform(*self.value))


class ColorJitter(BaseTransform):
    """Change brightness, contrast, saturation and hue of an image by random factors, in random order.

    Args:
        brightness: Argument of ``BrightnessTransform``. Default: 0.
        contrast: Argument of ``ContrastTransform``. Default: 0.
        saturation: Argument of ``SaturationTransform``. Default: 0.
        hue: Argument of ``HueTransform``. Default: 0.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.ColorJitter(0.4, 0.4, 0.4, 0.4)(np.zeros((4, 6, 3), np.uint8)).shape
        (4, 6, 3)
    """

    def __init__(
        self,
        brightness: float | Sequence[float] = 0,
        contrast: float | Sequence[float] = 0,
        saturation: float | Sequence[float] = 0,
        hue: float | Sequence[float] = 0,
        keys: Sequence[str] | None = None,
    ):
        super().__init__(keys)
        self.brightness, self.contrast, self.saturation, self.hue = brightness, contrast, saturation, hue
        self._get_param(brightness, contrast, saturation, hue)  # bad arguments are refused here, not at the first image

    def _get_param(self, brightness: Any, contrast: Any, saturation: Any, hue: Any) -> list[BaseTransform]:
        return [
            BrightnessTransform(brightness, self.keys),
            ContrastTransform(contrast, self.keys),
            SaturationTransform(saturation, self.keys),
            HueTransform(hue, self.keys),
        ]

    def _apply_image(self, image: Any) -> Any:
        transforms = self._get_param(self.brightness, self.contrast, self.saturation, self.hue)
        random.shuffle(transforms)
        for transform in transforms:
            image = transform._apply_image(image)
        return image


class Grayscale(BaseTransform):
    """Make an image gray.

    Args:
        num_output_channels: 1, or 3 for three equal channels. Default: 1.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.Grayscale(3)(np.array([[[255, 0, 0]]], np.uint8)).tolist()
        [[[76, 76, 76]]]
    """

    def __init__(self, num_output_channels: int = 1, keys: Sequence[str] | None = None):
        super().__init__(keys)
        self.num_output_channels = num_output_channels

    def _apply_image(self, image: Any) -> Any:
        return F.to_grayscale(image, self.num_output_channels)
