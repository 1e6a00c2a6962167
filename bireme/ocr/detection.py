"""Where lines of text are: what the detection network is given, and boxes from the map of probabilities that it gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base.extras import extra
from bireme.ocr.options import LOW_PAGE, Options

STEP = 32  # sizes that the network halves five times are multiples of this
LEAST_SIDE = 3  # pixels of the map: shorter boxes are specks
SAME_LINE = 10  # pixels between the tops of boxes that are read from left to right


class Placed:
    """A page as it is worked on, resized and with a border, and the way back to where its points are in the original."""

    def __init__(self, image: np.ndarray, options: Options, wanted: bool = True):
        cv2 = extra("cv2", "ocr", "to read documents", "OpenCV")
        self.size = height, width = image.shape[:2]
        ratio = 1.0
        if options.max_side_len is not None and max(height, width) > options.max_side_len:
            ratio = options.max_side_len / max(height, width)
        elif options.min_side_len is not None and min(height, width) < options.min_side_len:
            ratio = options.min_side_len / min(height, width)
        if ratio != 1.0:
            image = cv2.resize(image, tuple(reversed(_stepped(height, width, ratio))))
        self.scale = width / image.shape[1], height / image.shape[0]
        self.top = _border(image.shape[0], image.shape[1], options) if wanted else 0
        if self.top:
            image = cv2.copyMakeBorder(image, self.top, self.top, 0, 0, cv2.BORDER_CONSTANT, value=(0, 0, 0))
        self.image = image

    def in_original(self, boxes: np.ndarray) -> np.ndarray:
        """Points of this page as points of the original one."""
        height, width = self.size
        moved = (boxes - np.array([0, self.top], np.float32)) * np.array(self.scale, np.float32)
        return np.clip(moved, 0, np.array([width, height], np.float32))


def _stepped(height: int, width: int, ratio: float) -> tuple[int, int]:
    """Both sides times `ratio`, as multiples of what the network needs; none becomes nothing."""
    return max(round(int(height * ratio) / STEP) * STEP, STEP), max(round(int(width * ratio) / STEP) * STEP, STEP)


def _border(height: int, width: int, options: Options) -> int:
    """Rows to add above and below a page that is so low that lines touch its edges."""
    if options.max_aspect is None or (height > LOW_PAGE and width / height <= options.max_aspect):
        return 0
    return abs(2 * max(int(width / options.max_aspect), LOW_PAGE) - height) // 2


def prepared(image: np.ndarray, options: Options) -> np.ndarray:
    """What the detection network is given for a page: float32 [1, 3, height, width]."""
    cv2 = extra("cv2", "ocr", "to read documents", "OpenCV")
    height, width = image.shape[:2]
    limit = options.det_limit_side_len
    side = max(height, width) if options.det_limit_type == "max" else min(height, width)
    outside = side > limit if options.det_limit_type == "max" else side < limit
    height, width = _stepped(height, width, limit / side if outside else 1.0)
    # one multiplication and one addition per value: (x / 255 - mean) / std
    factor = 1 / (255 * np.array(options.det_std))
    shift = -np.array(options.det_mean) / np.array(options.det_std)
    resized = cv2.resize(image, (width, height)).transpose(2, 0, 1)
    result = np.multiply(resized, factor[:, None, None], dtype=np.float32)
    result += shift[:, None, None].astype(np.float32)
    return result[None]


def boxes(probabilities: np.ndarray, size: tuple[int, int], options: Options) -> np.ndarray:
    """Boxes of lines, in reading order, in pixels of a page of this (height, width): float32 [n, 4, 2], clockwise from
    the upper left corner.

    Args:
        probabilities: That each pixel belongs to a line, [height, width] of the map.
    """
    found = [box for box in _rectangles(probabilities, options) if box is not None]
    if not found:
        return np.zeros((0, 4, 2), np.float32)
    (height, width), (rows, columns) = size, probabilities.shape
    placed = np.round(np.stack(found) / np.array([columns, rows], np.float32) * np.array([width, height], np.float32))
    placed = clockwise(np.clip(placed, 0, np.array([width - 1, height - 1], np.float32)))
    sides = np.linalg.norm(placed[:, [1, 3]] - placed[:, :1], axis=2).astype(int)
    return in_reading_order(placed[(sides > LEAST_SIDE).all(1)])


def _rectangles(probabilities: np.ndarray, options: Options) -> list[np.ndarray | None]:
    """The rectangle around each outline, widened; None for what is no line."""
    cv2 = extra("cv2", "ocr", "to read documents", "OpenCV")
    marked = (probabilities > options.det_db_thresh).astype(np.uint8)
    if options.use_dilation:
        marked = cv2.dilate(marked, np.ones((2, 2), np.uint8))
    outlines, _ = cv2.findContours(marked, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    return [_rectangle(cv2, outline, probabilities, options) for outline in outlines[: options.det_max_candidates]]


def _rectangle(cv2: Any, outline: np.ndarray, probabilities: np.ndarray, options: Options) -> np.ndarray | None:
    tight = cv2.minAreaRect(outline)
    if min(tight[1]) < LEAST_SIDE:
        return None
    corners = clockwise(cv2.boxPoints(tight)[None])[0]
    inside = corners if options.det_db_score_mode == "fast" else outline.reshape(-1, 2)
    if _mean_inside(cv2, probabilities, inside) < options.det_db_box_thresh:
        return None
    wide = cv2.minAreaRect(_widened(corners, options.det_db_unclip_ratio))
    return None if min(wide[1]) < LEAST_SIDE + 2 else cv2.boxPoints(wide)


def _mean_inside(cv2: Any, probabilities: np.ndarray, points: np.ndarray) -> float:
    """The mean over a polygon."""
    last = np.array(probabilities.shape[::-1]) - 1
    low = np.clip(np.floor(points.min(0)), 0, last).astype(int)
    high = np.clip(np.ceil(points.max(0)), 0, last).astype(int)
    part = probabilities[low[1] : high[1] + 1, low[0] : high[0] + 1]
    mask = np.zeros(part.shape, np.uint8)
    cv2.fillPoly(mask, [(points - low).astype(np.int32)], 1)
    return float(cv2.mean(part, mask)[0])


def _widened(corners: np.ndarray, ratio: float) -> np.ndarray:
    """The outline of a rectangle moved outwards by its area times `ratio` by its perimeter."""
    clipper = extra("pyclipper", "ocr", "to read documents")
    after = np.roll(corners, -1, 0)
    area = abs(float(np.sum(corners[:, 0] * after[:, 1] - corners[:, 1] * after[:, 0]))) / 2
    perimeter = float(np.linalg.norm(after - corners, axis=1).sum())
    offset = clipper.PyclipperOffset()
    offset.AddPath(corners.tolist(), clipper.JT_ROUND, clipper.ET_CLOSEDPOLYGON)
    moved = offset.Execute(area * ratio / perimeter)
    # a rectangle moved outwards stays one polygon; one thinner than a pixel has no area, and is given back as it is
    return np.array(max(moved, key=len) if moved else corners, np.float32).reshape(-1, 1, 2)


def clockwise(boxes: np.ndarray) -> np.ndarray:
    """Corners of each box ordered: of the two that are leftmost the upper one, then around. [n, 4, 2]"""
    by_x = np.take_along_axis(boxes, np.argsort(boxes[:, :, :1], axis=1, kind="stable"), 1)
    left, right = by_x[:, :2], by_x[:, 2:]
    left = np.take_along_axis(left, np.argsort(left[:, :, 1:], axis=1, kind="stable"), 1)
    right = np.take_along_axis(right, np.argsort(right[:, :, 1:], axis=1, kind="stable"), 1)
    return np.stack([left[:, 0], right[:, 0], right[:, 1], left[:, 1]], 1).astype(np.float32)


def in_reading_order(boxes: np.ndarray) -> np.ndarray:
    """From top to bottom, and from left to right where tops are nearly equal."""
    ordered = list(boxes[np.lexsort((boxes[:, 0, 0], boxes[:, 0, 1]))])
    for i in range(1, len(ordered)):
        at = i
        while at and _is_before(ordered[at], ordered[at - 1]):
            ordered[at - 1 : at + 1] = ordered[at], ordered[at - 1]
            at -= 1
    return np.stack(ordered) if ordered else boxes


def _is_before(box: np.ndarray, other: np.ndarray) -> bool:
    return abs(box[0, 1] - other[0, 1]) < SAME_LINE and box[0, 0] < other[0, 0]


def cut_out(image: np.ndarray, box: np.ndarray) -> np.ndarray:
    """A line as an upright picture; one that is much higher than wide is turned to lie."""
    cv2 = extra("cv2", "ocr", "to read documents", "OpenCV")
    after = np.roll(box, -1, 0)
    lengths = np.linalg.norm(after - box, axis=1)
    width, height = max(int(max(lengths[0], lengths[2])), 1), max(int(max(lengths[1], lengths[3])), 1)
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    there = cv2.getPerspectiveTransform(box.astype(np.float32), corners)
    line = cv2.warpPerspective(image, there, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.rot90(line) if height / width >= 1.5 else line
