"""Libraries that only the reader of documents needs, found when one is made."""

from __future__ import annotations

import importlib
from typing import Any

from bireme.core.base import errors

_PACKAGES = {"cv2": "OpenCV", "pyclipper": "pyclipper", "pypdfium2": "pypdfium2", "yaml": "PyYAML"}


def library(module: str, what: str) -> Any:
    """A module of the `ocr` extra, needed for `what`."""
    try:
        return importlib.import_module(module)
    except ImportError:
        message = f"{_PACKAGES[module]} is needed {what}, and it is not installed"
        raise errors.failure(message, hint="pip install 'bireme[ocr]' installs it", kind=ImportError) from None
