"""What was read of a page: lines with their boxes and confidences, as text, JSON, PaddleOCR's lists, or a picture."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from bireme.vision.image import pillow

_COLOURS = ("#d1495b", "#00798c", "#edae49", "#30638e", "#6a4c93", "#3c6e71")


class Line(NamedTuple):
    """A line of text.

    Args:
        box: Its corners clockwise from the upper left, [4, 2] in pixels.
        text: What it says.
        confidence: How sure that is, of 0 to 1.

    Examples:
        >>> import numpy as np
        >>> bireme.ocr.Line(np.zeros((4, 2)), "word", 0.9).text
        'word'
    """

    box: np.ndarray
    text: str
    confidence: float


@dataclass
class Page:
    """What was read of one page.

    Args:
        lines: The lines, in reading order.
        image: The page, uint8 [height, width, 3] of blue, green, red.
        source: Where it comes from: a path, or None.
        number: Of the page in its source, from 0.

    Examples:
        >>> import numpy as np
        >>> line = bireme.ocr.Line(np.array([[0, 0], [9, 0], [9, 5], [0, 5]]), "two words", 0.98)
        >>> page = bireme.ocr.Page([line], np.zeros((6, 10, 3), np.uint8))
        >>> page.text
        'two words'
        >>> page.to_dict()["lines"][0]["confidence"]
        0.98
    """

    lines: list[Line]
    image: np.ndarray = field(repr=False)
    source: str | None = None
    number: int = 0

    @property
    def text(self) -> str:
        """Its lines, one below the other."""
        return "\n".join([line.text for line in self.lines])

    def to_dict(self) -> dict[str, Any]:
        """All but the picture, as numbers, strings, lists and dictionaries."""
        height, width = self.image.shape[:2]
        lines = [
            {"text": line.text, "confidence": line.confidence, "box": np.asarray(line.box).tolist()}
            for line in self.lines
        ]
        return {"source": self.source, "page": self.number, "width": width, "height": height, "lines": lines}

    def to_json(self) -> str:
        """The same as a line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def picture(self, font: str | os.PathLike | None = None) -> Any:
        """The page with its boxes, and beside it what they say, as an image of Pillow.

        Args:
            font: Path of a font file that has the characters, as Chinese ones. Default: None, Pillow's own font, which has
                Latin ones.

        Returns:
            An image of twice the page's width.
        """
        images, drawing, fonts = pillow("Image"), pillow("ImageDraw"), pillow("ImageFont")
        height, width = self.image.shape[:2]
        both = images.new("RGB", (2 * width, height), "white")
        both.paste(images.fromarray(np.ascontiguousarray(self.image[..., ::-1])), (0, 0))
        draw = drawing.Draw(both)
        for i, line in enumerate(self.lines):
            colour, corners = _COLOURS[i % len(_COLOURS)], np.asarray(line.box, float)
            draw.polygon([tuple(p) for p in corners], outline=colour, width=2)
            low, high = corners.min(0), corners.max(0)
            size = max(min((high - low)[1] * 0.8, 1.9 * (high - low)[0] / max(len(line.text), 1)), 6)
            own = fonts.load_default(size) if font is None else fonts.truetype(os.fspath(font), size)
            draw.polygon([(x + width, y) for x, y in corners], outline=colour)
            draw.text((low[0] + width + 2, (low[1] + high[1]) / 2), line.text, fill="black", font=own, anchor="lm")
        return both
