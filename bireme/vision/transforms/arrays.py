"""Transforms of images that are NumPy arrays ``[H, W]`` or ``[H, W, C]``, with the numbers of OpenCV.

OpenCV computes images of ``uint8`` in integers: the weights of the interpolations have 11 bits (resizing), the positions
5 bits (turning and warping). Here the same integers are used, so that nothing depends on whether OpenCV is installed.
Where the vector units that it finds round in their own way (linear resizing on Arm, hues), values differ by 1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.numpy_exec import weighted_rows
from bireme.vision.transforms import geometry

BITS = 11  # of a weight in resizing
STEPS = 1 << 5  # positions between two pixels in warping
SCALE = 1 << 15  # of a weight in warping
RESIZES = ("nearest", "bilinear", "area", "bicubic", "lanczos")
WARPS = ("nearest", "bilinear", "bicubic")


def size_of(img: np.ndarray) -> tuple[int, int]:
    return img.shape[1], img.shape[0]


def _check(where: str, interpolation: str, names: Sequence[str]) -> None:
    if interpolation not in names:
        expected = f"one of {', '.join(map(repr, names))} for an array"
        raise errors.bad(f"{where}(interpolation)", expected, interpolation, kind=errors.MissingKeyError)


def _bounded(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`values` in the dtype of the image: rounded to the nearest, ties to even, and inside its range."""
    if dtype.kind not in "ui":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.rint(values), limits.min, limits.max).astype(dtype)


def _cubic(t: np.ndarray) -> list[np.ndarray]:
    """Weights of the four pixels around a position `t` after the second, of Keys' kernel with -0.75."""
    a = -0.75
    first = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a
    second = ((a + 2) * t - (a + 3)) * t * t + 1
    third = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1
    return [first, second, third, 1 - first - second - third]


def _lanczos(t: np.ndarray) -> list[np.ndarray]:
    """Weights of the eight pixels around a position `t` after the fourth, of a sinc within four lobes."""
    away = t[None] + 3 - np.arange(8)[:, None]
    weights = np.sinc(away) * np.sinc(away / 4)
    return list(weights / weights.sum(0))


def _linear(t: np.ndarray) -> list[np.ndarray]:
    return [1 - t, t]


KERNELS: dict[str, tuple[Callable, int]] = {"bilinear": (_linear, 0), "bicubic": (_cubic, 1), "lanczos": (_lanczos, 3)}


def _taps(size: int, out: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """For each of `out` pixels along an axis of `size`: the pixels that are read, and their weights."""
    scale = 1 / (out / size)  # which is not size / out in its last digit
    if kind == "area":  # stretching: linear, but each pixel keeps its area
        start = np.floor(np.arange(out) * scale).astype(int)
        t = ((np.arange(out) + 1) - (start + 1) * (out / size)).astype(np.float32)
        t = np.where(t <= 0, 0, t - np.floor(t)).astype(np.float32)
        kind = "bilinear"
    else:
        position = ((np.arange(out) + 0.5) * scale - 0.5).astype(np.float32)
        start = np.floor(position).astype(int)
        t = position - start.astype(np.float32)
    kernel, before = KERNELS[kind]
    if kind == "bilinear":
        t = np.where((start < 0) | (start >= size - 1), np.float32(0), t)
    weights = np.stack(kernel(t), -1).astype(np.float32)
    return np.clip(start[:, None] - before + np.arange(weights.shape[1]), 0, size - 1), weights


def _along(img: np.ndarray, axis: int, taps: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    index, weights = taps
    shape = [1] * img.ndim
    shape[axis] = -1
    return sum(img.take(index[:, k], axis) * weights[:, k].reshape(shape) for k in range(index.shape[1]))


def _shares(size: int, out: int) -> np.ndarray:
    """The share of each of `size` pixels in each of `out` larger ones."""
    edges = np.arange(out + 1) * (size / out)
    low, high = np.arange(size), np.arange(1, size + 1)
    shared = np.minimum(high, edges[1:, None]) - np.maximum(low, edges[:-1, None])
    return (np.clip(shared, 0, None) / (size / out)).astype(np.float32)


def resize(img: np.ndarray, size: Any, interpolation: str) -> np.ndarray:
    _check("resize", interpolation, RESIZES)
    height, width = geometry.resized(size, *size_of(img))
    rows, columns = img.shape[:2]
    if (height, width) == (rows, columns):
        return img.copy()
    if interpolation == "nearest":
        down, across = (
            np.minimum((np.arange(out) * (1 / (out / n))).astype(int), n - 1)
            for out, n in ((height, rows), (width, columns))
        )
        return img[down[:, None], across]
    halved = (rows, columns) == (2 * height, 2 * width)
    if halved and interpolation in ("bilinear", "area") and img.dtype == np.uint8:
        four = img.reshape(height, 2, width, 2, *img.shape[2:]).astype(np.int32).sum((1, 3))
        return ((four + 2) >> 2).astype(img.dtype)
    if (halved and interpolation == "bilinear") or (interpolation == "area" and height <= rows and width <= columns):
        out = np.einsum("bw,hw...->hb...", _shares(columns, width), img.astype(np.float32))
        return _bounded(np.einsum("ah,hb...->ab...", _shares(rows, height), out), img.dtype)
    across, down = _taps(columns, width, interpolation), _taps(rows, height, interpolation)
    if img.dtype != np.uint8:
        exact = img if img.dtype == np.float64 else img.astype(np.float32)
        return _bounded(_along(_along(exact, 1, across), 0, down), img.dtype)
    across, down = ((index, np.rint(weights * (1 << BITS)).astype(np.int32)) for index, weights in (across, down))
    out = _along(img.astype(np.int32), 1, across)
    if down[1].shape[1] == 2:  # OpenCV drops bits between the passes, so that 16 bits are enough
        index, weights = down
        shape = (-1, *[1] * (img.ndim - 1))
        first, second = ((weights[:, k].reshape(shape) * (out[index[:, k]] >> 4)) >> 16 for k in (0, 1))
        return np.clip((first + second + 2) >> 2, 0, 255).astype(np.uint8)
    total = _along(out, 0, down)
    return np.clip((total + (1 << (2 * BITS - 1))) >> (2 * BITS), 0, 255).astype(np.uint8)


def _color(img: np.ndarray, fill: Any) -> np.ndarray:
    """`fill` for the channels of the image; a single number is that of the first channel, and the others are 0."""
    values = [*fill] if isinstance(fill, Sequence) else [fill]
    channels = 1 if img.ndim == 2 else img.shape[2]
    color = _bounded(np.array((values + [0] * channels)[:channels], np.float64), img.dtype)
    return color[0] if img.ndim == 2 else color


def pad(img: np.ndarray, padding: Any, fill: Any, padding_mode: Any) -> np.ndarray:
    left, top, right, bottom = geometry.sides(padding)
    widths = [(top, bottom), (left, right), (0, 0)][: img.ndim]
    if padding_mode != "constant":
        return np.pad(img, widths, padding_mode)
    out = np.zeros([n + before + after for n, (before, after) in zip(img.shape, widths, strict=True)], img.dtype)
    color = _color(img, fill)
    if np.any(color):
        for border in (out[:top], out[top + img.shape[0] :], out[:, :left], out[:, left + img.shape[1] :]):
            border[...] = color
    out[top : top + img.shape[0], left : left + img.shape[1]] = img
    return out


def crop(img: np.ndarray, top: int, left: int, height: int, width: int) -> np.ndarray:
    return img[top : top + height, left : left + width]


def hflip(img: np.ndarray) -> np.ndarray:
    if img.ndim == 3 and img.shape[2] > 1 and img.dtype.itemsize == 1:
        # a pixel at a time: copies of single bytes backwards take ten times as long
        pixels = np.ascontiguousarray(img).view(f"V{img.shape[2]}")
        return np.ascontiguousarray(pixels[:, ::-1]).view(img.dtype)
    return np.ascontiguousarray(img[:, ::-1])


def vflip(img: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(img[::-1])


def _looked_up(img: np.ndarray, values: np.ndarray) -> np.ndarray:
    table = np.clip(values, 0, 255).astype(np.uint8)
    # a byte at a time: an index array would have eight bytes for each
    found = bytearray(img.astype(np.uint8, copy=False).tobytes()).translate(table.tobytes())
    return np.frombuffer(found, np.uint8).reshape(img.shape)


def _three(where: str, img: np.ndarray) -> None:
    if img.ndim != 3 or img.shape[2] != 3:
        raise errors.bad(f"{where}(img)", "an array of 3 channels", described=f"shape {list(img.shape)}")


def adjust_brightness(img: np.ndarray, factor: float) -> np.ndarray:
    return _looked_up(img, np.arange(256) * factor)


def adjust_contrast(img: np.ndarray, factor: float) -> np.ndarray:
    return _looked_up(img, (np.arange(256) - 74) * factor + 74)  # what Paddle takes for the mean of any image


def adjust_saturation(img: np.ndarray, factor: float) -> np.ndarray:
    _three("adjust_saturation", img)
    whole = img.astype(np.float32)
    gray = whole @ np.array([0.299, 0.587, 0.114], np.float32)
    mixed = whole * np.float32(factor) + gray[..., None] * np.float32(1 - factor)
    return np.clip(mixed, 0, 255).astype(img.dtype)


def adjust_hue(img: np.ndarray, factor: float) -> np.ndarray:
    _three("adjust_hue", img)
    hue, saturation, value = _to_hsv(img.astype(np.uint8))
    return _from_hsv(hue + np.uint8(int(factor * 255) % 256), saturation, value).astype(img.dtype)


def _to_hsv(img: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hue in 256 steps, saturation and value of an image of blue, green and red, with fractions of 12 bits."""
    blue, green, red = np.moveaxis(img.astype(np.int32), 2, 0)
    value, spread = img.max(2).astype(np.int32), np.ptp(img, 2).astype(np.int32)
    by = np.maximum(np.arange(256), 1)
    saturation = (spread * np.rint((255 << 12) / by).astype(np.int32)[value] + (1 << 11)) >> 12
    sixths = np.where(
        value == red,
        green - blue,
        np.where(value == green, blue - red + 2 * spread, red - green + 4 * spread),
    )
    hue = (sixths * np.rint((256 << 12) / (6 * by)).astype(np.int32)[spread] + (1 << 11)) >> 12
    hue = np.where(hue < 0, hue + 256, hue)
    return np.minimum(hue, 255).astype(np.uint8), saturation, value


def _from_hsv(hue: np.ndarray, saturation: np.ndarray, value: np.ndarray) -> np.ndarray:
    s, v = (part.astype(np.float32) * np.float32(1 / 255) for part in (saturation, value))
    position = hue.astype(np.float32) * np.float32(6 / 255)  # OpenCV counts 256 steps there and 255 back
    sector = np.floor(position)
    t = position - sector
    levels = np.stack([v, v * (1 - s), v * (1 - s * t), v * (1 - s * (1 - t))], -1)
    which = np.array([[1, 3, 0], [1, 0, 2], [3, 0, 1], [0, 2, 1], [0, 1, 3], [2, 1, 0]])[sector.astype(int) % 6]
    return (np.take_along_axis(levels, which, -1) * np.float32(255)).astype(np.uint8)


def to_grayscale(img: np.ndarray, num_output_channels: int) -> np.ndarray:
    _three("to_grayscale", img)
    if img.dtype == np.uint8:
        # sums below 2 ** 24, which float32 holds, and BLAS multiplies
        gray = (img.astype(np.float32) @ np.array([9798, 19235, 3735], np.float32)).astype(np.int32)
        gray = (gray + (1 << 14)) >> 15
    else:
        gray = img @ np.array([0.299, 0.587, 0.114], img.dtype)
    return np.repeat(gray[..., None].astype(img.dtype), num_output_channels, 2)


@functools.lru_cache
def _weights(kind: str) -> np.ndarray:
    """For each position between four pixels, in steps along both axes: integer weights of the pixels around."""
    kernel = KERNELS[kind][0]
    line = np.stack(kernel(np.arange(STEPS, dtype=np.float32) / np.float32(STEPS)), -1)
    table = (line[:, None, :, None] * line[None, :, None, :]).reshape(STEPS * STEPS, -1)
    whole = np.rint(table * SCALE).astype(np.int64)
    # what rounding left over goes to one of the four in the middle: to the largest, or away from the smallest
    k = line.shape[1]
    middle = np.array([i * k + j for i in (k // 2 - 1, k // 2) for j in (k // 2 - 1, k // 2)])
    over = whole.sum(1) - SCALE
    inner = whole[:, middle]
    rows = np.arange(len(whole))
    whole[rows, middle[np.where(over < 0, inner.argmax(1), inner.argmin(1))]] -= over
    return whole


def _read(img: np.ndarray, x: np.ndarray, y: np.ndarray, color: np.ndarray) -> np.ndarray:
    inside = (x >= 0) & (x < img.shape[1]) & (y >= 0) & (y < img.shape[0])
    found = img[np.clip(y, 0, img.shape[0] - 1), np.clip(x, 0, img.shape[1] - 1)]
    return np.where(inside if img.ndim == 2 else inside[..., None], found, color)


def _sampled(img: np.ndarray, x: np.ndarray, y: np.ndarray, how: str, fill: Any) -> np.ndarray:
    """The image at positions in steps of a pixel, or of a part of it where it is interpolated; `fill` outside."""
    color = _color(img, fill)
    if how == "nearest":
        return _read(img, x, y, color)
    before, shape, outside = KERNELS[how][1], x.shape, img.shape[0] * img.shape[1]
    table = _weights(how)
    taps = math.isqrt(table.shape[-1])
    between = (((y & (STEPS - 1)) * STEPS) + (x & (STEPS - 1))).reshape(-1)
    places = []
    for at, size, step in ((y, img.shape[0], img.shape[1]), (x, img.shape[1], 1)):
        first = (np.clip(at, -STEPS * 8, (size + 8) * STEPS).astype(np.int32).reshape(-1) >> 5) - before
        line = [first + k for k in range(taps)]
        places.append([np.where((place >= 0) & (place < size), place * step, outside) for place in line])
    index = np.empty((between.size, taps * taps), np.int32)  # what is outside is one pixel more
    for k in range(taps * taps):
        np.minimum(places[0][k // taps] + places[1][k % taps], outside, out=index[:, k], casting="unsafe")
    kind = np.result_type(img.dtype, np.float32)  # sums of bytes with these weights are below 2 ** 24, so exact in it
    flat = np.concatenate([img.reshape(-1, color.size), color.reshape(1, -1)]).astype(kind)
    if img.dtype == np.uint8:
        total = weighted_rows.rows(index, table.astype(kind).take(between, axis=0), flat).astype(np.int32)
        found = np.clip((total + SCALE // 2) >> 15, 0, 255).astype(np.uint8)
    else:
        weights = table.astype(np.float32) / np.float32(SCALE)
        found = _bounded(weighted_rows.rows(index, weights.astype(kind).take(between, axis=0), flat), img.dtype)
    return found.reshape(*shape, *img.shape[2:])


def _affine(img: np.ndarray, matrix: np.ndarray, width: int, height: int, how: str, fill: Any) -> np.ndarray:
    """What the image is after a 2 x 3 matrix; positions are counted in 1024ths of a pixel."""
    inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))[:2]
    half = 512 if how == "nearest" else 1024 // STEPS // 2
    shift = 10 if how == "nearest" else 5
    across = np.rint(inverse[:, :1] * np.arange(width) * 1024).astype(np.int64)
    down = np.rint((inverse[:, 1:2] * np.arange(height) + inverse[:, 2:]) * 1024).astype(np.int64) + half
    x, y = ((down[k][:, None] + across[k]) >> shift for k in (0, 1))
    return _sampled(img, x, y, how, fill)


def affine(
    img: np.ndarray, angle: float, translate: Any, scale: float, shear: Any, how: str, fill: Any, center: Any
) -> np.ndarray:
    _check("affine", how, WARPS)
    sx, sy = (math.tan(math.radians(degrees)) for degrees in geometry.shears(shear))
    # Paddle turns an array about its first corner, whatever the center is
    turned = np.array([[1, sy], [sx, 1]]) @ geometry.rotation((0.0, 0.0), angle, scale)[:, :2]
    matrix = np.column_stack([turned, np.array(translate, float)])
    return _affine(img, matrix, *size_of(img), how, fill if isinstance(fill, Sequence) else [fill] * 4)


def rotate(img: np.ndarray, angle: float, how: str, expand: bool, center: Any, fill: Any) -> np.ndarray:
    _check("rotate", how, WARPS)
    width, height = size_of(img)
    matrix = geometry.rotation((width / 2, height / 2) if center is None else center, angle, 1.0)
    if expand:
        wide, high = geometry.covering(matrix, width, height)
        matrix[:, 2] += (wide - width) * 0.5, (high - height) * 0.5
        width, height = wide, high
    return _affine(img, matrix, width, height, how, fill)


def perspective(img: np.ndarray, startpoints: Any, endpoints: Any, how: str, fill: Any) -> np.ndarray:
    _check("perspective", how, WARPS)
    try:
        rows = np.linalg.inv(geometry.perspective(startpoints, endpoints))  # by way of the matrix, as OpenCV goes
    except np.linalg.LinAlgError:
        expected = "four points, no three of them on a line"
        got = f"{startpoints} and {endpoints}"
        raise errors.bad("perspective(startpoints, endpoints)", expected, described=got) from None
    x, y = np.meshgrid(np.arange(img.shape[1]), np.arange(img.shape[0]))
    across, down, depth = (row[0] * x + row[1] * y + row[2] for row in rows)
    step = (1 if how == "nearest" else STEPS) / np.where(depth == 0, np.inf, depth)
    across, down = (np.rint(part * step).astype(np.int64) for part in (across, down))
    return _sampled(img, across, down, how, fill)


def fitting(values: Any, dtype: np.dtype) -> Any:
    """`values` for an image of `dtype`: a fraction for integers loses its digits, and wraps around as integers do."""
    values = np.asarray(values)
    return values.astype(np.int64) if dtype.kind in "ui" and values.dtype.kind == "f" else values


def erase(img: np.ndarray, i: int, j: int, h: int, w: int, v: Any, inplace: bool) -> np.ndarray:
    out = img if inplace else img.copy()
    out[i : i + h, j : j + w] = fitting(v, img.dtype)
    return out
