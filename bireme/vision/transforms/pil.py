"""Transforms of images of Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.vision.image import pillow
from bireme.vision.transforms import arrays, geometry

RESAMPLES = {"nearest": 0, "bilinear": 2, "bicubic": 3, "box": 4, "lanczos": 1, "hamming": 5}  # Pillow's numbers
AFFINE, PERSPECTIVE = 0, 2  # of transform


def _resample(where: str, interpolation: str, *names: str) -> int:
    names = names or tuple(RESAMPLES)
    if interpolation not in names:
        expected = f"one of {', '.join(map(repr, names))} for an image of Pillow"
        raise errors.bad(f"{where}(interpolation)", expected, interpolation, kind=errors.MissingKeyError)
    return RESAMPLES[interpolation]


def _color(img: Any, fill: Any) -> Any:
    """`fill` for every color, of which Pillow takes a single number for the first alone; a fourth band is full, as in
    Paddle: opaque, or black in CMYK.
    """
    return fill if isinstance(fill, Sequence) or len(img.getbands()) == 1 else (fill,) * min(len(img.getbands()), 3)


def size_of(img: Any) -> tuple[int, int]:
    return img.size


def to_array(pic: Any) -> np.ndarray:
    """The pixels; those of one bit as 0 and 255, so that they become 0 and 1 as a tensor, and of 16 bits as int32, since a
    tensor takes them for the bits of bfloat16.
    """
    if pic.mode == "1":
        return np.asarray(pic, np.uint8) * 255
    return np.array(pic, np.int32 if pic.mode.startswith("I;16") else None)


def resize(img: Any, size: Any, interpolation: str) -> Any:
    resample = _resample("resize", interpolation)
    height, width = geometry.resized(size, *img.size)
    return img.resize((width, height), resample)


def pad(img: Any, padding: Any, fill: Any, padding_mode: Any) -> Any:
    left, top, right, bottom = geometry.sides(padding)
    if padding_mode == "constant":
        out = pillow("ImageOps").expand(img, (left, top, right, bottom), fill)
    else:
        width = [(top, bottom), (left, right), (0, 0)]
        values = np.asarray(img)
        out = pillow("Image").fromarray(np.pad(values, width[: values.ndim], padding_mode))
    if img.mode == "P":
        out.putpalette(img.getpalette())
    return out


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    return img.crop((left, top, left + width, top + height))


def hflip(img: Any) -> Any:
    return img.transpose(0)


def vflip(img: Any) -> Any:
    return img.transpose(1)


def adjust_brightness(img: Any, factor: float) -> Any:
    return pillow("ImageEnhance").Brightness(img).enhance(factor)


def adjust_contrast(img: Any, factor: float) -> Any:
    return pillow("ImageEnhance").Contrast(img).enhance(factor)


def adjust_saturation(img: Any, factor: float) -> Any:
    return pillow("ImageEnhance").Color(img).enhance(factor)


def adjust_hue(img: Any, factor: float) -> Any:
    if img.mode in ("L", "1", "I", "F"):
        return img
    hue, saturation, value = img.convert("HSV").split()
    turned = np.asarray(hue) + np.uint8(int(factor * 255) % 256)  # the circle of hues has 256 steps, and so has uint8
    return pillow("Image").merge("HSV", (pillow("Image").fromarray(turned), saturation, value)).convert(img.mode)


def affine(img: Any, angle: float, translate: Any, scale: float, shear: Any, how: str, fill: Any, center: Any) -> Any:
    resample = _resample("affine", how, "nearest", "bilinear", "bicubic")
    middle = (img.size[0] * 0.5, img.size[1] * 0.5) if center is None else center
    matrix = geometry.inverse_affine(middle, angle, translate, scale, geometry.shears(shear))
    return img.transform(img.size, AFFINE, matrix, resample)  # Paddle has black outside, whatever `fill` is


def rotate(img: Any, angle: float, how: str, expand: bool, center: Any, fill: Any) -> Any:
    resample = _resample("rotate", how, "nearest", "bilinear", "bicubic")
    return img.rotate(angle, resample, expand, center, fillcolor=_color(img, fill))


def perspective(img: Any, startpoints: Any, endpoints: Any, how: str, fill: Any) -> Any:
    resample = _resample("perspective", how, "nearest", "bilinear", "bicubic")
    coefficients = geometry.inverse_perspective(startpoints, endpoints)
    return img.transform(img.size, PERSPECTIVE, coefficients, resample)  # black outside, as above


def to_grayscale(img: Any, num_output_channels: int) -> Any:
    gray = img.convert("L")
    return gray if num_output_channels == 1 else pillow("Image").merge("RGB", (gray,) * 3)


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool) -> Any:
    return pillow("Image").fromarray(arrays.erase(np.array(img), i, j, h, w, v, True))
