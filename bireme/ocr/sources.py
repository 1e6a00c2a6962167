"""Pages from files, bytes, arrays and pictures: each an array of blue, green and red, as the networks were trained with."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.extras import extra
from bireme.vision.image import is_pillow, pillow

MOST_PIXELS = 100_000_000  # of a page: a file of some kilobytes may claim any size
PDF_DOTS = 144  # pixels an inch of a page of a PDF
PDF_UNIT = 72  # units of a PDF's page an inch


def pages(source: Any, most_pixels: int = MOST_PIXELS) -> Iterator[np.ndarray]:
    """The pages of a source one by one: uint8 [height, width, 3]."""
    if isinstance(source, np.ndarray):
        yield _of_array(source, most_pixels)
        return
    if is_pillow(source):
        yield from _of_pillow(source, "the image", most_pixels)
        return
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        with open(source, "rb") as file:
            data = file.read()
    elif isinstance(source, (bytes, bytearray, memoryview)):
        name, data = "the image", bytes(source)
    else:
        expected = "a path, bytes, an array of NumPy or an image of Pillow"
        raise errors.bad("read(source)", expected, source, kind=errors.ArgumentTypeError)
    if data[:1024].lstrip().startswith(b"%PDF-"):
        yield from _of_pdf(data, name, most_pixels)
    else:
        yield from _of_file(data, name, most_pixels)


def _of_array(array: np.ndarray, most: int) -> np.ndarray:
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or not array.size:
        described = f"{array.dtype} {list(array.shape)}"
        raise errors.bad("read(source)", "uint8 [height, width] or [height, width, channels]", described=described)
    _check((array.shape[1], array.shape[0]), "the array", most)
    channels = 1 if array.ndim == 2 else array.shape[2]
    if channels == 1:
        return np.repeat(array.reshape(*array.shape[:2], 1), 3, 2)
    if channels == 4:
        return _on_white(array)
    if channels != 3:
        raise errors.bad("read(source)", "1, 3 or 4 channels", channels)
    return array


def _on_white(array: np.ndarray) -> np.ndarray:
    """Four channels, the last of which says how much is seen of the others, on a white page."""
    seen = array[..., 3:].astype(np.uint16)
    return ((array[..., :3] * seen + 127) // 255 + (255 - seen)).astype(np.uint8)


def _check(size: tuple[int, int], name: str, most: int) -> None:
    width, height = size
    if width * height > most:
        message = f"{name} has {width} x {height} pixels, and at most {most} are read"
        raise errors.failure(message, hint="max_pixels= allows more", kind=ValueError)


def _of_file(data: bytes, name: str, most: int) -> Iterator[np.ndarray]:
    images = pillow("Image")
    if not data:
        raise errors.failure(f"{name} is empty", kind=ValueError)
    try:
        image = images.open(io.BytesIO(data))
    except images.DecompressionBombError as e:
        raise errors.failure(f"{name} has too many pixels: {e}", kind=ValueError) from None
    except images.UnidentifiedImageError:  # says no more than where the bytes lie in memory
        raise errors.failure(f"{name} is no image that Pillow knows, and no PDF", kind=ValueError) from None
    except (OSError, ValueError, SyntaxError) as e:
        raise errors.failure(f"{name} is a damaged image: {e}", kind=ValueError) from None
    with image:
        yield from _of_pillow(image, name, most)


def _of_pillow(image: Any, name: str, most: int) -> Iterator[np.ndarray]:
    """Each page of a TIFF, and the first picture of anything else."""
    for i in range(getattr(image, "n_frames", 1) if image.format == "TIFF" else 1):
        try:
            if i:
                image.seek(i)
            _check(image.size, name, most)
            upright = pillow("ImageOps").exif_transpose(image)
            page = _in_colour(upright)
        except (OSError, EOFError, SyntaxError, OverflowError, MemoryError) as e:
            raise errors.failure(f"{name} is damaged: {e}", kind=ValueError) from None
        yield page


def _in_colour(image: Any) -> np.ndarray:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        values = np.asarray(image).astype(np.float64)
        top = 255 if np.max(values, initial=0.0) <= 255 else 65535
        return np.repeat(np.clip(values * (255 / top), 0, 255).astype(np.uint8)[..., None], 3, 2)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        return _on_white(np.asarray(image.convert("RGBA"))[..., [2, 1, 0, 3]])
    return np.ascontiguousarray(np.asarray(image.convert("RGB"))[..., ::-1])


def _of_pdf(data: bytes, name: str, most: int) -> Iterator[np.ndarray]:
    pdf = extra("pypdfium2", "ocr", "to read a PDF")
    try:
        document = pdf.PdfDocument(data)
    except pdf.PdfiumError as e:
        raise errors.failure(f"{name} is a damaged PDF, or a locked one: {e}", kind=ValueError) from None
    with document:
        for i in range(len(document)):
            try:
                page = document[i]
                width, height = [int(side * PDF_DOTS / PDF_UNIT) + 1 for side in page.get_size()]
                _check((width, height), f"page {i + 1} of {name}", most)
                for part in page.get_objects(filter=[pdf.raw.FPDF_PAGEOBJ_IMAGE]):
                    _check(part.get_px_size(), f"a picture on page {i + 1} of {name}", most)
                drawn = page.render(scale=PDF_DOTS / PDF_UNIT).to_numpy()
            except pdf.PdfiumError as e:
                raise errors.failure(f"page {i + 1} of {name} is damaged: {e}", kind=ValueError) from None
            yield _of_array(np.array(drawn[..., :3] if drawn.ndim == 3 else drawn), most)
