"""What lines of text say: their direction and their characters, from batches of lines of similar widths."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bireme.core.base import errors
from bireme.core.base.extras import extra
from bireme.ocr.options import Options

Network = Callable[[np.ndarray], np.ndarray]
TURNED = 1  # class of a line that stands on its head
BLANK = 0  # class of no character


def prepared(lines: list[np.ndarray], height: int, width: int) -> np.ndarray:
    """Lines as a batch of float32 [n, 3, height, width]: resized to the height, and zeros to their right."""
    cv2 = extra("cv2", "ocr", "to read documents", "OpenCV")
    batch = np.zeros((len(lines), 3, height, width), np.float32)
    for place, line in zip(batch, lines, strict=True):
        own = max(min(math.ceil(height * (line.shape[1] / line.shape[0])), width), 1)
        values = cv2.resize(line, (own, height)).transpose(2, 0, 1)
        place[:, :, :own] = values.astype(np.float32) / 255 * 2 - 1
    return batch


def by_width(lines: list[np.ndarray], size: int) -> list[np.ndarray]:
    """Indices of lines in batches, the narrowest first."""
    order = np.argsort([line.shape[1] / line.shape[0] for line in lines])
    return [order[i : i + size] for i in range(0, len(order), size)]


def turned(lines: list[np.ndarray], network: Network, options: Options) -> list[np.ndarray]:
    """The lines, those that stand on their heads turned round."""
    _, height, width = options.cls_image_shape
    result = list(lines)
    for batch in by_width(lines, options.cls_batch_num):
        given = network(prepared([lines[i] for i in batch], height, width))
        for i, probabilities in zip(batch, given, strict=True):
            if probabilities.argmax() == TURNED and probabilities[TURNED] > options.cls_thresh:
                result[i] = np.ascontiguousarray(lines[i][::-1, ::-1])
    return result


def read(
    lines: list[np.ndarray], network: Network, characters: np.ndarray, options: Options
) -> list[tuple[str, float]]:
    """The text of each line and its confidence."""
    _, height, least = options.rec_image_shape
    result = [("", 0.0)] * len(lines)
    for batch in by_width(lines, options.rec_batch_num):
        aspect = max(least / height, *[lines[i].shape[1] / lines[i].shape[0] for i in batch])
        width = (
            int(height * aspect) if options.rec_max_width is None else min(int(height * aspect), options.rec_max_width)
        )
        given = network(prepared([lines[i] for i in batch], height, width))
        for i, text in zip(batch, decoded(given, characters), strict=True):
            result[i] = text
    return result


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
