"""Functions that transform an image: of Pillow, an array ``[H, W, C]`` or a tensor ``[..., C, H, W]``."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.ops import to_tensor as _tensor
from bireme.vision.image import is_pillow
from bireme.vision.transforms import arrays, pil, tensors

PADDINGS = ("constant", "edge", "reflect", "symmetric")


def _of(where: str, img: Any) -> Any:
    """The module that transforms images of this type."""
    if isinstance(img, Tensor):
        return tensors
    if isinstance(img, np.ndarray) and img.ndim in (2, 3):
        return arrays
    if is_pillow(img):
        return pil
    got = f"an array of {img.ndim} dimensions" if isinstance(img, np.ndarray) else errors.show(img)
    expected = "an image of Pillow, an array of 2 or 3 dimensions or a Tensor"
    raise errors.bad(where, expected, described=got, kind=errors.ArgumentTypeError)


def _integers(where: str, got: Any, counts: Sequence[int]) -> None:
    if not hasattr(got, "__index__") and not (
        isinstance(got, Sequence) and len(got) in counts and all(hasattr(n, "__index__") for n in got)
    ):
        expected = f"an integer or {' or '.join(map(str, counts))} integers"
        kind = errors.ArgumentError if isinstance(got, (list, tuple)) else errors.ArgumentTypeError
        raise errors.bad(where, expected, got, kind=kind)


def size_of(img: Any) -> tuple[int, int]:
    """Width and height of an image."""
    return _of("size_of(img)", img).size_of(img)


def to_tensor(pic: Any, data_format: str = "CHW") -> Tensor:
    """Make a tensor of an image; values of ``uint8`` become numbers in ``[0, 1]``.

    Args:
        pic: Image of Pillow or array ``[H, W]`` or ``[H, W, C]``; a tensor ``[C, H, W]`` only has its axes exchanged.
        data_format: ``'CHW'`` or ``'HWC'``, the order of the axes of the result. Default: ``'CHW'``.

    Returns:
        Tensor ``[C, H, W]`` or ``[H, W, C]``: float32 for an image of ``uint8``, else of the dtype of the image.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.to_tensor(np.array([[0, 255]], np.uint8)).tolist()
        [[[0.0, 1.0]]]
    """
    module = _of("to_tensor(pic)", pic)
    if data_format.upper() not in ("CHW", "HWC"):
        raise errors.bad("to_tensor(data_format)", "'CHW' or 'HWC'", data_format)
    first = data_format.upper() == "CHW"
    if module is tensors:
        return pic if first else pic.moveaxis(-3, -1)
    values = pic if module is arrays else pil.to_array(pic)
    if values.ndim == 2:
        values = values[:, :, None]
    values = values.transpose(2, 0, 1) if first else values
    if values.dtype != np.uint8:
        return _tensor(np.ascontiguousarray(values))
    # here, in one pass: recorded, the images of a batch would be one program that each worker of a loader compiles
    return _tensor(np.divide(values, np.float32(255), out=np.empty(values.shape, np.float32)))


def resize(img: Any, size: int | Sequence[int], interpolation: str = "bilinear") -> Any:
    """Resize an image.

    Args:
        img: Image of Pillow, array or tensor.
        size: Height and width; a single integer is the length of the shorter edge, and the proportions are kept.
        interpolation: ``'nearest'``, ``'bilinear'`` or ``'bicubic'``; for an image of Pillow also ``'box'``,
            ``'lanczos'`` or ``'hamming'``, for an array ``'area'`` or ``'lanczos'``, for a tensor ``'area'``.
            Default: ``'bilinear'``.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.resize(np.array([[0, 100]], np.uint8), (1, 4)).tolist()
        [[0, 25, 75, 100]]
    """
    module = _of("resize(img)", img)
    if not hasattr(size, "__index__") and not (isinstance(size, Sequence) and len(size) == 2):
        raise errors.bad("resize(size)", "an integer or 2 integers", size, kind=errors.ArgumentTypeError)
    _integers("resize(size)", size, (2,))
    if min(size if isinstance(size, Sequence) else [size]) < 1:
        raise errors.bad("resize(size)", "positive integers", size)
    return module.resize(img, size, interpolation)


def pad(img: Any, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant") -> Any:
    """Pad the sides of an image.

    Args:
        img: Image of Pillow, array or tensor.
        padding: Number of pixels: one for all sides, two for left and right, top and bottom, or four for left, top,
            right and bottom.
        fill: Value for the mode ``'constant'``, or one for each channel. Of an array or an image of Pillow, a single
            number is that of the first channel, and the others are 0, as in Paddle. Default: 0.
        padding_mode: ``'constant'``; ``'edge'``, the last pixel; ``'reflect'``, mirrored without the last pixel; or
            ``'symmetric'``, mirrored with it, which tensors do not have. Default: ``'constant'``.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.pad(np.array([[1, 2, 3]], np.uint8), [2, 0, 1, 0], padding_mode="reflect").tolist()
        [[3, 2, 1, 2, 3, 2]]
    """
    module = _of("pad(img)", img)
    _integers("pad(padding)", padding, (2, 4))
    if padding_mode not in PADDINGS:
        raise errors.bad("pad(padding_mode)", f"one of {', '.join(map(repr, PADDINGS))}", padding_mode)
    _check_fill("pad", fill)
    return module.pad(img, padding, fill, padding_mode)


def _check_fill(where: str, fill: Any) -> None:
    if not all(isinstance(value, Number) for value in (fill if isinstance(fill, Sequence) else [fill])):
        raise errors.bad(f"{where}(fill)", "a number, or one for each channel", fill, kind=errors.ArgumentTypeError)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """Cut a rectangle out of an image.

    Args:
        img: Image of Pillow, array or tensor.
        top: First row.
        left: First column.
        height: Number of rows.
        width: Number of columns.

    Returns:
        Image of the type of ``img``; what lies outside is black in an image of Pillow, and missing in the others.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.crop(np.arange(12).reshape(3, 4), 1, 2, 2, 2).tolist()
        [[6, 7], [10, 11]]
    """
    return _of("crop(img)", img).crop(img, top, left, height, width)


def center_crop(img: Any, output_size: int | Sequence[int]) -> Any:
    """Cut a rectangle out of the middle of an image.

    Args:
        img: Image of Pillow, array or tensor.
        output_size: Height and width; a single integer for both.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.center_crop(np.arange(16).reshape(4, 4), 2).tolist()
        [[5, 6], [9, 10]]
    """
    _integers("center_crop(output_size)", output_size, (2,))
    height, width = output_size if isinstance(output_size, Sequence) else (output_size, output_size)
    columns, rows = _of("center_crop(img)", img).size_of(img)
    return crop(img, round((rows - height) / 2), round((columns - width) / 2), height, width)


def hflip(img: Any) -> Any:
    """Exchange left and right of an image.

    Args:
        img: Image of Pillow, array or tensor.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.hflip(np.array([[1, 2, 3]])).tolist()
        [[3, 2, 1]]
    """
    return _of("hflip(img)", img).hflip(img)


def vflip(img: Any) -> Any:
    """Exchange top and bottom of an image.

    Args:
        img: Image of Pillow, array or tensor.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.vflip(np.array([[1], [2]])).tolist()
        [[2], [1]]
    """
    return _of("vflip(img)", img).vflip(img)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Multiply the values of an image.

    Args:
        img: Image of Pillow, array, which becomes ``uint8``, or tensor.
        brightness_factor: Factor: 0 gives a black image, 1 the image itself.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.adjust_brightness(np.array([[10, 200]], np.uint8), 1.5).tolist()
        [[15, 255]]
    """
    errors.check_number("adjust_brightness(brightness_factor)", brightness_factor)
    return _of("adjust_brightness(img)", img).adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Move the values of an image away from their mean, or towards it.

    Args:
        img: Image of Pillow, array, which becomes ``uint8``, or tensor.
        contrast_factor: Factor of the distance from the mean, which is 74 for any array, as in Paddle: 0 gives a gray
            image, 1 the image itself.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.adjust_contrast(np.array([[64, 84]], np.uint8), 0.5).tolist()
        [[69, 79]]
    """
    errors.check_number("adjust_contrast(contrast_factor)", contrast_factor)
    return _of("adjust_contrast(img)", img).adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Make the colors of an image stronger or weaker.

    Args:
        img: Image of Pillow, array of 3 channels or tensor.
        saturation_factor: Factor of the distance from gray: 0 gives a gray image, 1 the image itself.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> bireme.vision.transforms.functional.adjust_saturation(bireme.ones([3, 1, 1]), 2.0).tolist()
        [[[1.0]], [[1.0]], [[1.0]]]
    """
    errors.check_number("adjust_saturation(saturation_factor)", saturation_factor)
    return _of("adjust_saturation(img)", img).adjust_saturation(img, saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Turn the circle of the hues of an image.

    Args:
        img: Image of Pillow, array of 3 channels or tensor.
        hue_factor: Part of the circle, in ``[-0.5, 0.5]``.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.adjust_hue(np.array([[[200, 100, 100]]], np.uint8), 0.5).tolist()
        [[[100, 198, 200]]]
    """
    errors.check_number("adjust_hue(hue_factor)", hue_factor)
    if not -0.5 <= hue_factor <= 0.5:
        raise errors.bad("adjust_hue(hue_factor)", "a number in [-0.5, 0.5]", hue_factor)
    return _of("adjust_hue(img)", img).adjust_hue(img, hue_factor)


def affine(
    img: Any,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: float | Sequence[float],
    interpolation: str = "nearest",
    fill: Any = 0,
    center: Sequence[float] | None = None,
) -> Any:
    """Shear, turn, scale and move an image, without changing its size.

    Args:
        img: Image of Pillow, array or tensor.
        angle: Degrees, clockwise; counterclockwise for an array.
        translate: Pixels to move to the right and down.
        scale: Positive factor of the size.
        shear: Degrees of the shear parallel to the x axis, or to the x and to the y axis.
        interpolation: ``'nearest'``, ``'bilinear'``, or ``'bicubic'``, which tensors do not have.
            Default: ``'nearest'``.
        fill: Value of what lies outside, or one for each channel; an image of Pillow has black there, as in Paddle.
            Default: 0.
        center: Column and row of the point that the image is turned about; an array is turned about its first corner,
            as in Paddle. Default: None, the middle of the image.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> import numpy as np
        >>> img = np.arange(9, dtype=np.uint8).reshape(3, 3)
        >>> bireme.vision.transforms.affine(img, 0, [1, 0], 1.0, 0, fill=50).tolist()
        [[50, 0, 1], [50, 3, 4], [50, 6, 7]]
    """
    module = _of("affine(img)", img)
    errors.check_number("affine(angle)", angle)
    _pair("affine(translate)", translate)
    errors.check_number("affine(scale)", scale)
    if scale <= 0:
        raise errors.bad("affine(scale)", "a positive number", scale)
    if isinstance(shear, Sequence) and len(shear) not in (1, 2):
        raise errors.bad("affine(shear)", "a number or 2 numbers", shear)
    for one in shear if isinstance(shear, Sequence) else [shear]:
        errors.check_number("affine(shear)", one)
    if center is not None:
        _pair("affine(center)", center)
    _check_fill("affine", fill)
    return module.affine(img, angle, translate, scale, shear, interpolation, fill, center)


def _pair(where: str, got: Any) -> None:
    if not isinstance(got, Sequence) or isinstance(got, str):
        raise errors.bad(where, "2 numbers", got, kind=errors.ArgumentTypeError)
    if len(got) != 2:
        raise errors.bad(where, "2 numbers", got)


def rotate(
    img: Any,
    angle: float,
    interpolation: str = "nearest",
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Any = 0,
) -> Any:
    """Turn an image.

    Args:
        img: Image of Pillow, array or tensor.
        angle: Degrees, counterclockwise.
        interpolation: ``'nearest'``, ``'bilinear'``, or ``'bicubic'``, which tensors do not have.
            Default: ``'nearest'``.
        expand: Make the image as large as needed to show all of it. Default: False, the size stays.
        center: Column and row of the point that the image is turned about. Default: None, the middle of the image.
        fill: Value of what lies outside, or one for each channel. A single number is that of the first channel alone
            for an array, as OpenCV has it. Default: 0.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> bireme.vision.transforms.rotate(bireme.to_tensor([[[1.0, 2.0], [3.0, 4.0]]]), 90).tolist()
        [[[2.0, 4.0], [1.0, 3.0]]]
    """
    module = _of("rotate(img)", img)
    errors.check_number("rotate(angle)", angle)
    if center is not None:
        _pair("rotate(center)", center)
    _check_fill("rotate", fill)
    return module.rotate(img, angle, interpolation, expand, center, fill)


def perspective(
    img: Any,
    startpoints: Sequence[Sequence[float]],
    endpoints: Sequence[Sequence[float]],
    interpolation: str = "nearest",
    fill: Any = 0,
) -> Any:
    """Move four points of an image to four others, as if it were seen from another place.

    Args:
        img: Image of Pillow, array or tensor.
        startpoints: Column and row of each of the four points.
        endpoints: Where they move.
        interpolation: ``'nearest'``, ``'bilinear'``, or ``'bicubic'``, which tensors do not have.
            Default: ``'nearest'``.
        fill: Value of what lies outside, or one for each channel; an image of Pillow has black there, as in Paddle. A
            single number is that of the first channel alone for an array, as OpenCV has it. Default: 0.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> import numpy as np
        >>> corners, moved = [[0, 0], [2, 0], [2, 2], [0, 2]], [[1, 0], [3, 0], [3, 2], [1, 2]]
        >>> img = np.arange(9, dtype=np.uint8).reshape(3, 3)
        >>> bireme.vision.transforms.perspective(img, corners, moved).tolist()
        [[0, 0, 1], [0, 3, 4], [0, 6, 7]]
    """
    module = _of("perspective(img)", img)
    for name, points in (("startpoints", startpoints), ("endpoints", endpoints)):
        if np.shape(points) != (4, 2):
            raise errors.bad(f"perspective({name})", "4 pairs of numbers", points)
    _check_fill("perspective", fill)
    return module.perspective(img, startpoints, endpoints, interpolation, fill)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Make an image gray.

    Args:
        img: Image of Pillow, array of 3 channels or tensor.
        num_output_channels: 1, or 3 for three equal channels. Default: 1.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.to_grayscale(np.array([[[255, 0, 0]]], np.uint8)).tolist()
        [[[76]]]
    """
    module = _of("to_grayscale(img)", img)
    if num_output_channels not in (1, 3):
        raise errors.bad("to_grayscale(num_output_channels)", "1 or 3", num_output_channels)
    return module.to_grayscale(img, num_output_channels)


def normalize(
    img: Any,
    mean: float | Sequence[float],
    std: float | Sequence[float],
    data_format: str = "CHW",
    to_rgb: bool = False,
) -> Any:
    """Subtract a mean from each channel of an image and divide by a standard deviation.

    Args:
        img: Image of Pillow, array or tensor.
        mean: Mean of each channel.
        std: Standard deviation of each channel.
        data_format: ``'CHW'`` or ``'HWC'``, the order of the axes of ``img``; an image of Pillow has ``'HWC'``.
            Default: ``'CHW'``.
        to_rgb: Exchange red and blue first, of an array or an image of Pillow. Default: False.

    Returns:
        Tensor for a tensor, else array: float64 for an array of float64, else float32.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.normalize(np.array([[[1.0, 3.0]]]), [2.0], [0.5]).tolist()
        [[[-2.0, 2.0]]]
    """
    module = _of("normalize(img)", img)
    if data_format not in ("CHW", "HWC"):
        raise errors.bad("normalize(data_format)", "'CHW' or 'HWC'", data_format)
    shape = (-1, 1, 1) if data_format == "CHW" else (1, 1, -1)
    kind = np.float64 if isinstance(img, np.ndarray) and img.dtype == np.float64 else np.float32
    middle, spread = (np.asarray(value, np.float32).reshape(shape) for value in (mean, std))
    values: Any = img if module is tensors else np.asarray(img, kind)
    channels = values.shape[-3 if data_format == "CHW" else -1] if values.ndim > 2 else 1
    for name, got in (("mean", middle), ("std", spread)):
        if got.size not in (1, channels) and channels != 1:
            raise errors.bad(f"normalize({name})", f"1 or {channels} numbers", described=f"{got.size}")
    if module is tensors:
        host = tensors.on_host(img)
        if host is not None and host.dtype == np.float32:
            return _tensor((host - middle) / spread)
        return (img - _tensor(middle)) / _tensor(spread)
    if to_rgb:
        values = values[..., ::-1]
    return (values - middle) / spread


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    """Put values into a rectangle of an image.

    Args:
        img: Image of Pillow, array or tensor.
        i: First row.
        j: First column.
        h: Number of rows.
        w: Number of columns.
        v: Value, or values that broadcast to the rectangle.
        inplace: Change the array or the tensor itself. Default: False.

    Returns:
        Image of the type of ``img``.

    Examples:
        >>> import numpy as np
        >>> bireme.vision.transforms.erase(np.ones((2, 3)), 0, 1, 1, 5, 0).tolist()
        [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """
    return _of("erase(img)", img).erase(img, i, j, h, w, v, inplace)


guard_functions(globals())
