"""Matrices of the transforms of images: which point of the input each point of the output shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Matrix = Sequence[float]


def shears(shear: Any) -> tuple[float, float]:
    """The angles of the shear parallel to the x and to the y axis; a single one is that of the x axis."""
    x, *y = shear if isinstance(shear, Sequence) else [shear]
    return float(x), float(y[0]) if y else 0.0


def inverse_affine(center: Matrix, angle: float, translate: Matrix, scale: float, shear: Matrix) -> list[float]:
    """Rows of the matrix that undoes: shear, turn clockwise by `angle` degrees and scale about `center`, translate."""
    turn, sx, sy = (math.radians(degrees) for degrees in (angle, *shear))
    # rotation times both shears, with determinant 1: the inverse has the elements of the matrix, in other places
    a, c = math.cos(turn - sy) / math.cos(sy), math.sin(turn - sy) / math.cos(sy)
    b, d = -a * math.tan(sx) - math.sin(turn), -c * math.tan(sx) + math.cos(turn)
    (cx, cy), (tx, ty) = center, translate
    rows = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0]
    rows[2] = rows[0] * (-cx - tx) + rows[1] * (-cy - ty) + cx
    rows[5] = rows[3] * (-cx - tx) + rows[4] * (-cy - ty) + cy
    return rows


def rotation(center: Matrix, angle: float, scale: float) -> np.ndarray:
    """The 2 x 3 matrix that turns counterclockwise by `angle` degrees about `center`, where y points down."""
    a, b = scale * math.cos(math.radians(angle)), scale * math.sin(math.radians(angle))
    cx, cy = center
    return np.array([[a, b, (1 - a) * cx - b * cy], [-b, a, b * cx + (1 - a) * cy]])


def _equations(before: Sequence[Matrix], after: Sequence[Matrix]) -> tuple[np.ndarray, np.ndarray]:
    """What the eight coefficients of a perspective fulfil that takes four points to four others."""
    rows: list[list[float]] = []
    for (x, y), (u, v) in zip(before, after, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    return np.array(rows, float), np.array(after, float).ravel()


def inverse_perspective(startpoints: Sequence[Matrix], endpoints: Sequence[Matrix]) -> list[float]:
    """The eight coefficients that take the end points to the start points; the ninth is 1."""
    return np.linalg.lstsq(*_equations(endpoints, startpoints), rcond=None)[0].tolist()


def perspective(startpoints: Sequence[Matrix], endpoints: Sequence[Matrix]) -> np.ndarray:
    """The 3 x 3 matrix that takes the start points to the end points."""
    return np.reshape([*np.linalg.solve(*_equations(startpoints, endpoints)), 1.0], (3, 3))


def covering(matrix: np.ndarray, width: int, height: int) -> tuple[int, int]:
    """Width and height in whole pixels of the box around the corners of an image after a 2 x 3 matrix."""
    corners = np.array([[0, width, width, 0], [0, 0, height, height], [1, 1, 1, 1]], float)
    low, high = np.floor((matrix @ corners).min(1)), np.ceil((matrix @ corners).max(1))
    return int(high[0] - low[0]), int(high[1] - low[1])


def sides(padding: Any) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a padding: one number for all, or two for the sides of either axis."""
    if not isinstance(padding, Sequence):
        return padding, padding, padding, padding
    left, top, right, bottom = padding if len(padding) == 4 else (*padding, *padding)
    return left, top, right, bottom


def resized(size: Any, width: int, height: int) -> tuple[int, int]:
    """Height and width for `size`: a single number is the shorter edge, and the proportions are kept."""
    if isinstance(size, Sequence):
        return size[0], size[1]
    if width < height:
        return int(size * height / width), size
    return size, int(size * width / height)
