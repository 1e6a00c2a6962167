"""Libraries that only a server needs, found when one is made."""

from __future__ import annotations

import importlib
from typing import Any

from bireme.core.base import errors


def library(module: str) -> Any:
    """A module of the `serve` extra."""
    try:
        return importlib.import_module(module)
    except ImportError:
        message = f"{module.split('.')[0]} is needed to serve models, and it is not installed"
        raise errors.failure(message, hint="pip install 'bireme[serve]' installs it", kind=ImportError) from None
