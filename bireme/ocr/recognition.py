"""What lines of text say: their direction and their characters, from lines of a few widths."""

from __future__ import annotations

import math

import numpy as np

from bireme.core.base import errors
from bireme.core.base.extras import extra
from bireme.ocr.networks import Network
from bireme.ocr.options import Options

TURNED = 1  # class of a line that stands on its head
BLANK = 0  # class of no character
STEP = 16  # widths are multiples of this
GROWTH = 1.15  # from one width to the next


def prepared(line: np.ndarray, height: int, width: int, fill: bool = False) -> np.ndarray:
    """A line as float32 [1, 3, height, width]: resized to the height, and zeros to its right; or, to `fill` it, to the width."""
    cv2 = extra("cv2", "ocr", "to read documents", "OpenCV")
    result = np.zeros((1, 3, height, width), np.float32)
    own = width if fill else max(min(math.ceil(height * (line.shape[1] / line.shape[0])), width), 1)
    values = np.multiply(cv2.resize(line, (own, height)).transpose(2, 0, 1), 1 / 255, dtype=np.float32)
    values *= 2
    np.subtract(values, 1, out=result[0, :, :, :own])
    return result


def by_width(lines: list[np.ndarray], size: int) -> list[np.ndarray]:
    """Indices of lines in batches, the narrowest first."""
    order = np.argsort([line.shape[1] / line.shape[0] for line in lines])
    return [order[i : i + size] for i in range(0, len(order), size)]


def turned(lines: list[np.ndarray], network: Network, options: Options) -> list[np.ndarray]:
    """The lines, those that stand on their heads turned round."""
    _, height, width = options.cls_image_shape
    given = network.each([prepared(line, height, width) for line in lines])
    return [
        np.ascontiguousarray(line[::-1, ::-1])
        if found[0].argmax() == TURNED and found[0, TURNED] > options.cls_thresh
        else line
        for line, found in zip(lines, given, strict=True)
    ]


def read(
    lines: list[np.ndarray], network: Network, characters: np.ndarray, options: Options
) -> list[tuple[str, float]]:
    """The text of each line and its confidence.

    Lines are run one by one, which on a CPU takes no longer than a batch.
    """
    _, height, least = options.rec_image_shape
    order, given = [], []
    for batch in by_width(lines, options.rec_batch_num):
        aspect = max([lines[i].shape[1] / lines[i].shape[0] for i in batch])
        width = max(least, int(height * aspect))
        if options.rec_batch_num == 1:
            width = near(width, least)
        width = width if options.rec_max_width is None else min(width, options.rec_max_width)
        fill = options.rec_batch_num == 1 and height * aspect > least
        order += list(batch)
        given += [prepared(lines[i], height, width, fill) for i in batch]
    result = [("", 0.0)] * len(lines)
    for i, found in zip(order, network.each(given), strict=True):
        (result[i],) = decoded(found, characters)
    return result


def near(width: int, least: int) -> int:
    """The nearest of a few widths that grow by a factor from `least`: lines of all widths are run by few programs. A line that
    is resized to one becomes at most 7.5 % wider or narrower."""
    return round(least * GROWTH ** round(math.log(width / least, GROWTH)) / STEP) * STEP


def decoded(probabilities: np.ndarray, characters: np.ndarray) -> list[tuple[str, float]]:
    """Texts and confidences of [n, steps, classes]: the best class of each step, without repetitions and blanks."""
    if probabilities.ndim != 3 or probabilities.shape[2] != len(characters):
        message = (
            f"the recognition network gives {list(probabilities.shape)}, and with a dictionary of {len(characters)} classes "
            f"[lines, steps, {len(characters)}] is expected"
        )
        raise errors.failure(message, hint="the dictionary belongs to another network", kind=ValueError)
    best = probabilities.argmax(2)
    sure = np.take_along_axis(probabilities, best[..., None], 2)[..., 0]
    kept = best != BLANK
    kept[:, 1:] &= best[:, 1:] != best[:, :-1]
    return [
        ("".join(characters[b[k]]), float(s[k].mean(dtype=np.float64)) if k.any() else 0.0)
        for b, s, k in zip(best, sure, kept, strict=True)
    ]


def characters_of(lines: list[str], space: bool) -> np.ndarray:
    """Characters by class: none for the blank, those of a dictionary in order, and a space if there is one."""
    return np.array(["", *lines, *([" "] if space else [])], dtype=object)
