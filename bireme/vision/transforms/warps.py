"""Transforms that turn, shear and tilt an image at random.

They draw from Python's ``random`` and NumPy's ``numpy.random``, in the order that Paddle draws.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from numbers import Number
from typing import Any

from bireme.core.base import errors
from bireme.vision.transforms import functional as F
from bireme.vision.transforms.base import BaseTransform, probability


def _degrees(where: str, degrees: Any) -> tuple[float, float]:
    if isinstance(degrees, Number):
        if degrees < 0:  # type: ignore[operator]  # Number has no arithmetic for mypy
            raise errors.bad(where, "a non-negative number", degrees)
        return -degrees, degrees  # type: ignore[operator,return-value]  # Number has no arithmetic for mypy
    if not isinstance(degrees, Sequence) or isinstance(degrees, str) or len(degrees) != 2:
        raise errors.bad(where, "a number or 2 numbers", degrees)
    return degrees[0], degrees[1]


class RandomAffine(BaseTransform):
    """Shear, turn, scale and move an image at random, without changing its size.

    Args:
        degrees: The angle is drawn from ``[-degrees, degrees]``, or from the range of two numbers.
        translate: Largest movement, as parts in ``[0, 1]`` of the width and of the height. Default: None, none.
        scale: Smallest and largest factor of the size. Default: None, 1.
        shear: The angle of the shear parallel to the x axis is drawn from ``[-shear, shear]``, or from the range of two
            numbers; two more numbers are the range of that parallel to the y axis. Default: None, none.
        interpolation: ``'nearest'``, ``'bilinear'``, or ``'bicubic'``, which tensors do not have.
            Default: ``'nearest'``.
        fill: Value of what lies outside, as for ``affine``. Default: 0.
        center: Column and row of the point that the image is turned about. Default: None, the middle.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.RandomAffine(20, translate=(0.1, 0.1))(np.zeros((4, 6, 3), np.uint8)).shape
        (4, 6, 3)
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: str = "nearest",
        fill: Any = 0,
        center: Sequence[float] | None = None,
        keys: Sequence[str] | None = None,
    ):
        super().__init__(keys)
        self.degrees = [float(angle) for angle in _degrees("RandomAffine(degrees)", degrees)]
        if translate is not None and (len(translate) != 2 or not all(0 <= part <= 1 for part in translate)):
            raise errors.bad("RandomAffine(translate)", "2 numbers in [0, 1]", translate)
        if scale is not None and (len(scale) != 2 or not all(factor > 0 for factor in scale)):
            raise errors.bad("RandomAffine(scale)", "2 positive numbers", scale)
        if shear is not None and not (isinstance(shear, Sequence) and len(shear) == 4):
            shear = _degrees("RandomAffine(shear)", shear)
        self.shear = None if shear is None else [float(angle) for angle in shear]
        self.translate, self.scale, self.interpolation = translate, scale, interpolation
        self.fill, self.center = fill, center

    def _get_param(self, size: tuple[int, int]) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        angle = random.uniform(*self.degrees)
        x = y = 0
        if self.translate is not None:
            x, y = (int(random.uniform(-n * part, n * part)) for n, part in zip(size, self.translate, strict=True))
        scale = 1.0 if self.scale is None else random.uniform(*self.scale)
        shears = [0.0, 0.0]
        if self.shear is not None:
            shears = [random.uniform(*self.shear[k : k + 2]) for k in range(0, len(self.shear), 2)] + [0.0]
        return angle, (x, y), scale, (shears[0], shears[1])

    def _apply_image(self, image: Any) -> Any:
        drawn = self._get_param(F.size_of(image))
        return F.affine(image, *drawn, interpolation=self.interpolation, fill=self.fill, center=self.center)


class RandomRotation(BaseTransform):
    """Turn an image by a random angle.

    Args:
        degrees: The angle is drawn from ``[-degrees, degrees]``, or from the range of two numbers.
        interpolation: ``'nearest'``, ``'bilinear'``, or ``'bicubic'``, which tensors do not have.
            Default: ``'nearest'``.
        expand: Make the image as large as needed to show all of it. Default: False, the size stays.
        center: Column and row of the point that the image is turned about. Default: None, the middle.
        fill: Value of what lies outside, as for ``rotate``. Default: 0.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.RandomRotation(20)(np.zeros((4, 6, 3), np.uint8)).shape
        (4, 6, 3)
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: str = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Any = 0,
        keys: Sequence[str] | None = None,
    ):
        self.degrees = _degrees("RandomRotation(degrees)", degrees)
        super().__init__(keys)
        self.interpolation, self.expand, self.center, self.fill = interpolation, expand, center, fill

    def _apply_image(self, image: Any) -> Any:
        angle = random.uniform(*self.degrees)
        return F.rotate(image, angle, self.interpolation, self.expand, self.center, self.fill)


class RandomPerspective(BaseTransform):
    """Move the corners of an image inwards at random, as if it were seen from another place.

    Args:
        prob: Probability of it. Default: 0.5.
        distortion_scale: How far the corners move at most, as a part in ``[0, 1]`` of half the size. Default: 0.5.
        interpolation: ``'nearest'``, ``'bilinear'``, or ``'bicubic'``, which tensors do not have.
            Default: ``'nearest'``.
        fill: Value of what lies outside, as for ``perspective``. Default: 0.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.RandomPerspective(prob=1.0)(np.zeros((4, 6, 3), np.uint8)).shape
        (4, 6, 3)
    """

    def __init__(
        self,
        prob: float = 0.5,
        distortion_scale: float = 0.5,
        interpolation: str = "nearest",
        fill: Any = 0,
        keys: Sequence[str] | None = None,
    ):
        super().__init__(keys)
        self.prob = probability("RandomPerspective(prob)", prob)
        self.distortion_scale = probability("RandomPerspective(distortion_scale)", distortion_scale)
        self.interpolation, self.fill = interpolation, fill

    def get_params(self, width: int, height: int, distortion_scale: float) -> tuple[list[list[int]], list[list[int]]]:
        """Draw where the corners move.

        Args:
            width: Width of the image.
            height: Height of the image.
            distortion_scale: How far the corners move at most, as a part in ``[0, 1]`` of half the size.

        Returns:
            The corners, and where they move: column and row of each, clockwise from the top left.

        Examples:
            >>> bireme.vision.transforms.RandomPerspective().get_params(6, 4, 0.0)[0]
            [[0, 0], [5, 0], [5, 3], [0, 3]]
        """
        x, y = int(distortion_scale * (width // 2)), int(distortion_scale * (height // 2))
        left, right, top, bottom = (0, x + 1), (width - x - 1, width), (0, y + 1), (height - y - 1, height)
        corners = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        boxes = ((left, top), (right, top), (right, bottom), (left, bottom))
        return corners, [[int(random.uniform(*bounds)) for bounds in box] for box in boxes]

    def _apply_image(self, image: Any) -> Any:
        if random.random() >= self.prob:
            return image
        start, end = self.get_params(*F.size_of(image), self.distortion_scale)
        return F.perspective(image, start, end, self.interpolation, self.fill)
