"""Transforms of images that are tensors ``[..., C, H, W]``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor, read
from bireme.nn import functional as F
from bireme.ops import clip, concat, ones_like, to_tensor, where
from bireme.vision.transforms import geometry

GRAY = (0.2989, 0.587, 0.114)  # weights of red, green and blue


def size_of(img: Tensor) -> tuple[int, int]:
    return img.shape[-1], img.shape[-2]


def on_host(img: Tensor) -> np.ndarray | None:
    """The pixels, where they are on the host already and nobody asks for a gradient: as `to_tensor` leaves them."""
    array = read(img).array
    return array if isinstance(array, np.ndarray) and img.stop_gradient and img.place.is_cpu_place() else None


def _limit(img: Tensor) -> float:
    return 1.0 if img.is_floating_point() else 255.0


def _mixed(img: Tensor, other: Any, factor: float) -> Tensor:
    """`factor` of the image and the rest of the other, in the range of the dtype."""
    out = clip(img * factor + other * (1 - factor), 0, _limit(img))
    return out if img.is_floating_point() else out.astype(img.dtype)


def _channels(where_: str, img: Tensor) -> int:
    if img.shape[-3] not in (1, 3):
        raise errors.bad(f"{where_}(img)", "1 or 3 channels along the third axis from the end", img)
    return img.shape[-3]


def _gray(where_: str, img: Tensor) -> Tensor:
    if _channels(where_, img) == 1:
        return img
    red, green, blue = img.unbind(-3)
    return (red * GRAY[0] + green * GRAY[1] + blue * GRAY[2]).unsqueeze(-3)


def resize(img: Tensor, size: Any, interpolation: str) -> Tensor:
    if interpolation not in ("nearest", "bilinear", "bicubic", "area"):
        expected = "'nearest', 'bilinear', 'bicubic' or 'area' for a tensor"
        raise errors.bad("resize(interpolation)", expected, interpolation)
    whole = img if img.is_floating_point() else img.astype("float32")
    out = F.interpolate(whole.unsqueeze(0), geometry.resized(size, *size_of(img)), mode=interpolation)
    return out.squeeze(0).astype(img.dtype)


def pad(img: Tensor, padding: Any, fill: Any, padding_mode: str) -> Tensor:
    left, top, right, bottom = geometry.sides(padding)
    if padding_mode == "symmetric":
        raise errors.bad("pad(padding_mode)", "'constant', 'edge' or 'reflect' for a tensor", padding_mode)
    mode = {"edge": "replicate"}.get(padding_mode, padding_mode)
    flat = img.reshape([-1, *img.shape[-3:]])
    out = F.pad(flat, [left, right, top, bottom], mode, float(fill))
    return out.reshape([*img.shape[:-2], *out.shape[-2:]])


def crop(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    return img[..., top : top + height, left : left + width]


def hflip(img: Tensor) -> Tensor:
    return img.flip([-1])


def vflip(img: Tensor) -> Tensor:
    return img.flip([-2])


def adjust_brightness(img: Tensor, factor: float) -> Tensor:
    return _mixed(img, 0.0, factor)


def adjust_contrast(img: Tensor, factor: float) -> Tensor:
    mean = _gray("adjust_contrast", img).astype("float32" if not img.is_floating_point() else img.dtype)
    return _mixed(img, mean.mean([-3, -2, -1], keepdim=True), factor)


def adjust_saturation(img: Tensor, factor: float) -> Tensor:
    return _mixed(img, _gray("adjust_saturation", img), factor)


def adjust_hue(img: Tensor, factor: float) -> Tensor:
    if _channels("adjust_hue", img) == 1:
        return img
    whole = img if img.is_floating_point() else img.astype("float32") / 255.0
    red, green, blue = whole.unbind(-3)
    high, low = whole.max(-3), whole.min(-3)
    spread = high - low
    gray = spread == 0
    safe = where(gray, ones_like(spread), spread)
    # position on the circle of hues, counted in sixths from red
    sector = where(
        high == red,
        (green - blue) / safe % 6.0,
        where(high == green, (blue - red) / safe + 2.0, (red - green) / safe + 4.0),
    )
    sector = where(gray, spread, sector) + factor * 6.0
    # each channel falls from the highest value to the lowest around the hue that is opposite to it
    out = []
    for shift in (5.0, 3.0, 1.0):
        place = (sector + shift) % 6.0
        out.append((high - spread * clip(where(place < 4.0 - place, place, 4.0 - place), 0.0, 1.0)).unsqueeze(-3))
    result = clip(concat(out, -3), 0.0, 1.0)
    return result if img.is_floating_point() else (result * 255.0).astype(img.dtype)


def _sampled(where_: str, img: Tensor, grid: np.ndarray, how: str, fill: Any) -> Tensor:
    """The image at the points of `grid`, in units of half its size about its middle; `fill` outside."""
    if how not in ("nearest", "bilinear"):
        raise errors.bad(f"{where_}(interpolation)", "'nearest' or 'bilinear' for a tensor", how)
    flat = img.reshape([-1, *img.shape[-3:]])
    whole = flat if img.is_floating_point() else flat.astype("float32")
    inside = ones_like(whole[:, :1])
    points = to_tensor(np.broadcast_to(grid, (whole.shape[0], *grid.shape)).astype(whole.dtype.name))
    out = F.grid_sample(concat([whole, inside], 1), points, how, "zeros", align_corners=False)
    out, inside = out[:, :-1], out[:, -1:]
    color = to_tensor(np.reshape(np.asarray(fill, whole.dtype.name), (-1, 1, 1)))
    if how == "nearest":
        out = where(inside < 0.5, color, out)
    else:
        out = out * inside + color * (1.0 - inside)
    return out.reshape([*img.shape[:-2], *out.shape[-2:]]).astype(img.dtype)


def _points(matrix: Any, img: Tensor, width: int, height: int) -> np.ndarray:
    """What an output of the given size shows of the image, by the inverse matrix about the middle of both."""
    # in float32, as Paddle has it: at right angles a point lies between two pixels, and its last digit decides
    x, y = np.meshgrid(
        np.arange(width, dtype=np.float32) - width / 2 + 0.5, np.arange(height, dtype=np.float32) - height / 2 + 0.5
    )
    rows = np.reshape(matrix, (2, 3)).astype(np.float32) / (np.array(size_of(img), np.float32)[:, None] / 2)
    return np.stack([row[0] * x + row[1] * y + row[2] for row in rows], -1)


def _from(middle: tuple[int, int], center: Any) -> tuple[float, float]:
    return (0.0, 0.0) if center is None else (center[0] - middle[0] * 0.5, center[1] - middle[1] * 0.5)


def affine(
    img: Tensor, angle: float, translate: Any, scale: float, shear: Any, how: str, fill: Any, center: Any
) -> Tensor:
    middle = _from(size_of(img)[::-1], center)  # Paddle takes the height for the width here
    matrix = geometry.inverse_affine(middle, angle, translate, scale, geometry.shears(shear))
    return _sampled("affine", img, _points(matrix, img, *size_of(img)), how, fill)


def rotate(img: Tensor, angle: float, how: str, expand: bool, center: Any, fill: Any) -> Tensor:
    matrix = geometry.inverse_affine(_from(size_of(img), center), -angle, (0.0, 0.0), 1.0, (0.0, 0.0))
    width, height = size_of(img)
    if expand:
        rows = np.reshape(matrix, (2, 3))
        corners = np.array([[-0.5 * width] * 2 + [0.5 * width] * 2, [-0.5 * height, 0.5 * height] * 2])
        ends = np.linalg.inv(rows[:, :2]) @ corners
        # a ten thousandth of a pixel is rounding, not a new row
        width, height = (2 * math.ceil(math.trunc(reach / 1e-4) * 1e-4) for reach in ends.max(1))
    return _sampled("rotate", img, _points(matrix, img, width, height), how, fill)


def perspective(img: Tensor, startpoints: Any, endpoints: Any, how: str, fill: Any) -> Tensor:
    a, b, c, d, e, f, g, h = geometry.inverse_perspective(startpoints, endpoints)
    width, height = size_of(img)
    x, y = np.meshgrid(np.arange(width, dtype=np.float32) + 0.5, np.arange(height, dtype=np.float32) + 0.5)
    below = g * x + h * y + 1
    across, down = (a * x + b * y + c) / below, (d * x + e * y + f) / below
    return _sampled("perspective", img, np.stack([across / (width / 2), down / (height / 2)], -1) - 1, how, fill)


def to_grayscale(img: Tensor, num_output_channels: int) -> Tensor:
    gray = _gray("to_grayscale", img).astype(img.dtype)
    return gray if num_output_channels == 1 else concat([gray] * 3, -3)


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Any, inplace: bool) -> Tensor:
    out = img if inplace else img.clone()
    out[..., i : i + h, j : j + w] = v
    return out
