"""Transforms of images as objects: a data set applies them to each sample, most of them at random.

They draw from Python's ``random`` and NumPy's ``numpy.random``, in the order that Paddle draws.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.ops import randn
from bireme.vision.transforms import functional as F

KEYS = ("image", "coords", "boxes", "mask")
DRAWS: Any = np.random  # the global generator, which workers seed


def _edges(where: str, size: Any) -> tuple[int, int]:
    """Height and width from one or two integers."""
    if hasattr(size, "__index__"):
        return size, size
    if not isinstance(size, Sequence) or isinstance(size, str) or len(size) != 2:
        raise errors.bad(where, "an integer or 2 integers", size)
    return size[0], size[1]


def _probability(where: str, prob: Any) -> float:
    errors.check_number(where, prob)
    if not 0 <= prob <= 1:
        raise errors.bad(where, "a probability in [0, 1]", prob)
    return prob


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


def _degrees(where: str, degrees: Any) -> tuple[float, float]:
    if isinstance(degrees, Number):
        if degrees < 0:  # type: ignore[operator]  # Number has no arithmetic for mypy
            raise errors.bad(where, "a non-negative number", degrees)
        return -degrees, degrees  # type: ignore[operator,return-value]  # Number has no arithmetic for mypy
    if not isinstance(degrees, Sequence) or isinstance(degrees, str) or len(degrees) != 2:
        raise errors.bad(where, "a number or 2 numbers", degrees)
    return degrees[0], degrees[1]


class BaseTransform:
    """Base class of the transforms: a subclass has ``_apply_image``, and the like for other parts of a sample.

    A call with a tuple transforms each element by its key: ``_apply_image``, ``_apply_coords``, ``_apply_boxes`` or
    ``_apply_mask``; elements beyond the keys stay. ``_get_params`` is called first with the tuple, and what it returns
    is ``params`` then, so that all elements are transformed alike.

    Args:
        keys: What the elements of a sample are: ``'image'``, ``'coords'``, ``'boxes'`` or ``'mask'``.
            Default: None, ``('image',)``.

    Examples:
        >>> class Double(bireme.vision.transforms.BaseTransform):
        ...     def _apply_image(self, image):
        ...         return 2 * image
        >>> Double()((3, "label"))
        (6, 'label')
    """

    def __init__(self, keys: Sequence[str] | None = None):
        if isinstance(keys, str) or any(key not in KEYS for key in keys or ()):
            expected = f"a sequence of {', '.join(map(repr, KEYS))}"
            raise errors.bad(f"{type(self).__name__}(keys)", expected, keys, kind=NotImplementedError)
        self.keys: Sequence[str] = ("image",) if keys is None else keys
        self.params: Any = None

    def _get_params(self, inputs: tuple) -> Any:
        return None

    def __call__(self, inputs: Any) -> Any:
        sample = inputs if isinstance(inputs, tuple) else (inputs,)
        self.params = self._get_params(sample)
        known = list(zip(sample, self.keys, strict=False))
        out = [self._get_apply(key)(part) for part, key in known]
        return (*out, *sample[len(known) :]) if isinstance(inputs, tuple) else out[0]

    def _get_apply(self, key: str) -> Callable[[Any], Any]:
        return getattr(self, f"_apply_{key}")

    def _apply_image(self, image: Any) -> Any:
        raise errors.missing_method(self, "_apply_image")

    def _apply_boxes(self, boxes: Any) -> Any:
        raise errors.missing_method(self, "_apply_boxes")

    def _apply_mask(self, mask: Any) -> Any:
        raise errors.missing_method(self, "_apply_mask")

    def _apply_coords(self, coords: Any) -> Any:
        raise errors.missing_method(self, "_apply_coords")


class Compose:
    """Apply transforms one after the other.

    Args:
        transforms: Functions or transforms.

    Examples:
        >>> import numpy as np
        >>> T = bireme.vision.transforms
        >>> T.Compose([T.Resize(2), T.ToTensor()])(np.zeros((4, 6, 3), np.uint8)).shape
        [3, 2, 3]
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]):
        self.transforms = transforms

    def __call__(self, data: Any) -> Any:
        for transform in self.transforms:
            data = transform(data)
        return data

    def __repr__(self) -> str:
        return "\n    ".join(["Compose(", *map(str, self.transforms)]) + "\n)"


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
        self.prob = _probability("RandomHorizontalFlip(prob)", prob)

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
        self.prob = _probability("RandomVerticalFlip(prob)", prob)

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
        self.prob = _probability("RandomPerspective(prob)", prob)
        self.distortion_scale = _probability("RandomPerspective(distortion_scale)", distortion_scale)
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
        self.prob = _probability("RandomErasing(prob)", prob)
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
