"""Saved models for other places: as C without dependencies, for ONNX Runtime and IREE, and as pages for browsers."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bireme.export.c_source import to_c
    from bireme.export.runtimes import to_iree, to_ort
    from bireme.export.web_pages import ocr_to_web, to_web

__all__ = ["ocr_to_web", "to_c", "to_iree", "to_ort", "to_web"]

# modules that names come from: they are imported when somebody asks for one
HOMES = {
    "to_c": "c_source",
    "to_iree": "runtimes",
    "to_ort": "runtimes",
    "to_web": "web_pages",
    "ocr_to_web": "web_pages",
}


def __getattr__(name: str) -> Any:
    """A name of one of the modules."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{HOMES[name]}"), name)
    return found
