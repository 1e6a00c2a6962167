"""Images of datasets: what they are returned as, and how they are decoded from the files of archives."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError


def backend_of(dataset: str, backend: Any, default: Callable[[], str]) -> str:
    """Return what images are returned as."""
    found = default() if backend is None else backend
    if found not in ("pil", "cv2"):
        raise errors.bad(f"{dataset}(backend)", "'pil' or 'cv2'", found)
    return found


def image_from(where: str, name: str, data: bytes, images: Any) -> Any:
    """Return the image that a file of an archive holds, decoded by Pillow."""
    try:
        img = images.open(io.BytesIO(data))
        img.load()
    except (OSError, SyntaxError, ValueError, images.DecompressionBombError) as e:
        described = f"{name}: {e}"
        raise errors.bad(where, "an archive of images", described=described, kind=FileFormatError) from None
    return img
