"""Transforms of images as objects: a data set applies them to each sample, most of them at random.

They draw from Python's ``random`` and NumPy's ``numpy.random``, in the order that Paddle draws. Those of colours and those
that warp an image are in files of their own; Paddle has all of them under this path.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.ops import randn
from bireme.vision.transforms import functional as F
from bireme.vision.transforms.base import BaseTransform, probability
from bireme.vision.transforms.base import Compose as Compose
from bireme.vision.transforms.colors import BrightnessTransform as BrightnessTransform
from bireme.vision.transforms.colors import ColorJitter as ColorJitter
from bireme.vision.transforms.colors import ContrastTransform as ContrastTransform
from bireme.vision.transforms.colors import Grayscale as Grayscale
from bireme.vision.transforms.colors import HueTransform as HueTransform
from bireme.vision.transforms.colors import SaturationTransform as SaturationTransform
from bireme.vision.transforms.warps import RandomAffine as RandomAffine
from bireme.vision.transforms.warps import RandomPerspective as RandomPerspective
from bireme.vision.transforms.warps import RandomRotation as RandomRotation

DRAWS: Any = np.random  # the global generator, which workers seed


def _edges(where: str, size: Any) -> tuple[int, int]:
    """Height and width from one or two integers."""
    if hasattr(size, "__index__"):
        return size, size
    if not isinstance(size, Sequence) or isinstance(size, str) or len(size) != 2:
        raise errors.bad(where, "an integer or 2 integers", size)
    return size[0], size[1]


class ToTensor(BaseTransform):
    """Make a tensor of an image, as ``to_tensor`` does.

    Args:
        data_format: ``'CHW'`` or ``'HWC'``, the order of the axes of the result. Default: ``'CHW'``.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.ToTensor()(np.zeros((4, 6, 3), np.uint8)).shape
        [3, 4, 6]
    """

    def __init__(self, data_format: str = "CHW", keys: Sequence[str] | None = None):
        super().__init__(keys)
        self.data_format = data_format

    def _apply_image(self, image: Any) -> Tensor:
        return F.to_tensor(image, self.data_format)


class Resize(BaseTransform):
    """Resize an image, as ``resize`` does.

    Args:
        size: Height and width; a single integer is the length of the shorter edge, and the proportions are kept.
        interpolation: Kind of interpolation. Default: ``'bilinear'``.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.Resize(2)(np.zeros((4, 6, 3), np.uint8)).shape
        (2, 3, 3)
    """

    def __init__(self, size: int | Sequence[int], interpolation: str = "bilinear", keys: Sequence[str] | None = None):
        super().__init__(keys)
        _edges("Resize(size)", size)
        self.size, self.interpolation = size, interpolation

    def _apply_image(self, image: Any) -> Any:
        return F.resize(image, self.size, self.interpolation)


class RandomResizedCrop(BaseTransform):
    """Cut a rectangle of random area and proportions out of an image, and resize it.

    Args:
        size: Height and width of the result; a single integer for both.
        scale: Smallest and largest part of the area. Default: ``(0.08, 1.0)``.
        ratio: Smallest and largest width divided by height. Default: ``(3/4, 4/3)``.
        interpolation: Kind of interpolation. Default: ``'bilinear'``.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.RandomResizedCrop(2)(np.zeros((4, 6, 3), np.uint8)).shape
        (2, 2, 3)
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4, 4.0 / 3),
        interpolation: str = "bilinear",
        keys: Sequence[str] | None = None,
    ):
        super().__init__(keys)
        self.size = _edges("RandomResizedCrop(size)", size)
        self.scale, self.ratio, self.interpolation = scale, ratio, interpolation

    def _get_param(self, image: Any) -> tuple[int, int, int, int]:
        width, height = F.size_of(image)
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for _ in range(10):
            area = DRAWS.uniform(*self.scale) * width * height
            ratio = math.exp(DRAWS.uniform(low, high))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                return random.randint(0, height - h), random.randint(0, width - w), h, w
        # none fitted: the middle, as large as the proportions allow
        w, h = width, height
        if width / height < min(self.ratio):
            h = round(width / min(self.ratio))
        elif width / height > max(self.ratio):
            w = round(height * max(self.ratio))
        return (height - h) // 2, (width - w) // 2, h, w

    def _apply_image(self, image: Any) -> Any:
        return F.resize(F.crop(image, *self._get_param(image)), self.size, self.interpolation)


class CenterCrop(BaseTransform):
    """Cut a rectangle out of the middle of an image.

    Args:
        size: Height and width; a single integer for both.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.CenterCrop(2)(np.arange(16).reshape(4, 4)).tolist()
        [[5, 6], [9, 10]]
    """

    def __init__(self, size: int | Sequence[int], keys: Sequence[str] | None = None):
        super().__init__(keys)
        self.size = _edges("CenterCrop(size)", size)

    def _apply_image(self, image: Any) -> Any:
        return F.center_crop(image, self.size)


class RandomHorizontalFlip(BaseTransform):
    """Exchange left and right of an image at random.

    Args:
        prob: Probability of it. Default: 0.5.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.RandomHorizontalFlip(prob=1.0)(np.array([[1, 2, 3]])).tolist()
        [[3, 2, 1]]
    """

    def __init__(self, prob: float = 0.5, keys: Sequence[str] | None = None):
        super().__init__(keys)
        self.prob = probability("RandomHorizontalFlip(prob)", prob)

    def _apply_image(self, image: Any) -> Any:
        return F.hflip(image) if random.random() < self.prob else image


class RandomVerticalFlip(BaseTransform):
    """Exchange top and bottom of an image at random.

    Args:
        prob: Probability of it. Default: 0.5.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.RandomVerticalFlip(prob=1.0)(np.array([[1], [2]])).tolist()
        [[2], [1]]
    """

    def __init__(self, prob: float = 0.5, keys: Sequence[str] | None = None):
        super().__init__(keys)
        self.prob = probability("RandomVerticalFlip(prob)", prob)

    def _apply_image(self, image: Any) -> Any:
        return F.vflip(image) if random.random() < self.prob else image


class Normalize(BaseTransform):
    """Subtract a mean from each channel of an image and divide by a standard deviation.

    Args:
        mean: Mean of each channel; a single number for three channels. Default: 0.0.
        std: Standard deviation of each channel; a single number for three channels. Default: 1.0.
        data_format: ``'CHW'`` or ``'HWC'``, the order of the axes of the image. Default: ``'CHW'``.
        to_rgb: Exchange red and blue first, of an array or an image of Pillow. Default: False.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> T = bireme.vision.transforms
        >>> T.Normalize(mean=[127.5], std=[127.5])(np.array([[[0, 255]]], np.uint8)).tolist()
        [[[-1.0, 1.0]]]
    """

    def __init__(
        self,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        data_format: str = "CHW",
        to_rgb: bool = False,
        keys: Sequence[str] | None = None,
    ):
        super().__init__(keys)
        self.mean: Any = [mean] * 3 if isinstance(mean, Number) else mean
        self.std: Any = [std] * 3 if isinstance(std, Number) else std
        self.data_format, self.to_rgb = data_format, to_rgb

    def _apply_image(self, image: Any) -> Any:
        return F.normalize(image, self.mean, self.std, self.data_format, self.to_rgb)


class Transpose(BaseTransform):
    """Exchange the axes of an image: an array of Pillow's or OpenCV's order has channels first then.

    Args:
        order: Axes of the image in the order of the result. Default: ``(2, 0, 1)``.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.Transpose()(np.zeros((4, 6, 3))).shape
        (3, 4, 6)
    """

    def __init__(self, order: Sequence[int] = (2, 0, 1), keys: Sequence[str] | None = None):
        super().__init__(keys)
        self.order = order

    def _apply_image(self, image: Any) -> Any:
        if isinstance(image, Tensor):
            return image.transpose(self.order)
        values = np.asarray(image)
        return (values[..., None] if values.ndim == 2 else values).transpose(self.order)


class RandomCrop(BaseTransform):
    """Cut a rectangle out of an image at a random place.

    Args:
        size: Height and width; a single integer for both.
        padding: Pad the image by this first, as ``pad`` does. Default: None, not at all.
        pad_if_needed: Pad an image that is smaller than the rectangle. Default: False.
        fill: Value of the padding. Default: 0.
        padding_mode: Kind of the padding. Default: ``'constant'``.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.RandomCrop(3)(np.zeros((4, 6, 3), np.uint8)).shape
        (3, 3, 3)
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
        keys: Sequence[str] | None = None,
    ):
        super().__init__(keys)
        self.size = _edges("RandomCrop(size)", size)
        self.padding, self.pad_if_needed, self.fill, self.padding_mode = padding, pad_if_needed, fill, padding_mode

    def _get_param(self, image: Any, size: tuple[int, int]) -> tuple[int, int, int, int]:
        (width, height), (h, w) = F.size_of(image), size
        if h > height or w > width:
            expected = f"at most the size of the image, [{height}, {width}]"
            raise errors.bad("RandomCrop(size)", expected, list(size), hint="pad_if_needed=True pads a smaller image")
        if (h, w) == (height, width):
            return 0, 0, height, width
        return random.randint(0, height - h), random.randint(0, width - w), h, w

    def _apply_image(self, image: Any) -> Any:
        if self.padding is not None:
            image = F.pad(image, self.padding, self.fill, self.padding_mode)
        height, width = self.size
        if self.pad_if_needed and F.size_of(image)[0] < width:
            image = F.pad(image, (width - F.size_of(image)[0], 0), self.fill, self.padding_mode)
        if self.pad_if_needed and F.size_of(image)[1] < height:
            image = F.pad(image, (0, height - F.size_of(image)[1]), self.fill, self.padding_mode)
        return F.crop(image, *self._get_param(image, self.size))


class Pad(BaseTransform):
    """Pad the sides of an image, as ``pad`` does.

    Args:
        padding: Number of pixels: one for all sides, two for left and right, top and bottom, or four for left, top,
            right and bottom.
        fill: Value for the mode ``'constant'``. Default: 0.
        padding_mode: ``'constant'``, ``'edge'``, ``'reflect'`` or ``'symmetric'``. Default: ``'constant'``.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.Pad([1, 0], fill=7)(np.array([[1, 2]], np.uint8)).tolist()
        [[7, 1, 2, 7]]
    """

    def __init__(
        self,
        padding: int | Sequence[int],
        fill: Any = 0,
        padding_mode: str = "constant",
        keys: Sequence[str] | None = None,
    ):
        super().__init__(keys)
        if not hasattr(padding, "__index__") and not (isinstance(padding, (list, tuple)) and len(padding) in (2, 4)):
            raise errors.bad("Pad(padding)", "an integer or 2 or 4 integers", padding)
        if padding_mode not in F.PADDINGS:
            raise errors.bad("Pad(padding_mode)", f"one of {', '.join(map(repr, F.PADDINGS))}", padding_mode)
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def _apply_image(self, image: Any) -> Any:
        return F.pad(image, self.padding, self.fill, self.padding_mode)


class RandomErasing(BaseTransform):
    """Put a value into a random rectangle of an image.

    Args:
        prob: Probability of it. Default: 0.5.
        scale: Smallest and largest part of the area. Default: ``(0.02, 0.33)``.
        ratio: Smallest and largest height divided by width. Default: ``(0.3, 3.3)``.
        value: Value, or one for each channel; ``'random'`` draws them from a normal distribution. Default: 0.
        inplace: Change the array or the tensor itself. Default: False.
        keys: What the elements of a sample are. Default: None, ``('image',)``.

    Examples:
        >>> bireme.vision.transforms.RandomErasing(prob=1.0)(bireme.ones([3, 8, 8])).min().item()
        0.0
    """

    def __init__(
        self,
        prob: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
        keys: Sequence[str] | None = None,
    ):
        super().__init__(keys)
        self.prob = probability("RandomErasing(prob)", prob)
        for name, pair, most in (("scale", scale, 1.0), ("ratio", ratio, math.inf)):
            if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not 0 <= pair[0] <= pair[1] <= most:
                expected = f"2 numbers in [0, {most}], the smaller first"
                raise errors.bad(f"RandomErasing({name})", expected, pair)
        if not (value == "random" if isinstance(value, str) else isinstance(value, (Number, list, tuple))):
            raise errors.bad("RandomErasing(value)", "a number, one for each channel, or 'random'", value)
        self.scale, self.ratio, self.value, self.inplace = scale, ratio, value, inplace

    def _get_param(self, image: Any) -> tuple[int, int, int, int, Any] | None:
        width, height = F.size_of(image)
        low, high = np.log(np.array(self.ratio))
        for _ in range(10):
            area = DRAWS.uniform(*self.scale) * width * height
            ratio = np.exp(DRAWS.uniform(low, high))
            h, w = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if h >= height or w >= width:
                continue
            value = self._value(image, h, w)
            return DRAWS.randint(0, height - h + 1), DRAWS.randint(0, width - w + 1), h, w, value
        return None

    def _value(self, image: Any, h: int, w: int) -> Any:
        first = isinstance(image, Tensor)
        channels = image.shape[-3] if first else (*np.asarray(image).shape, 1)[2]
        if isinstance(self.value, str):
            if first:
                return randn([channels, h, w], image.dtype)
            return DRAWS.normal(size=[h, w, channels] if np.ndim(image) == 3 else [h, w])
        if isinstance(self.value, Number):
            return self.value
        if len(self.value) not in (1, channels):
            raise errors.bad("RandomErasing(value)", f"1 or {channels} numbers", self.value)
        return np.reshape(np.array(self.value), (-1, 1, 1)) if first else list(self.value)

    def _apply_image(self, image: Any) -> Any:
        if random.random() >= self.prob:
            return image
        drawn = self._get_param(image)
        return image if drawn is None else F.erase(image, *drawn, inplace=self.inplace)
