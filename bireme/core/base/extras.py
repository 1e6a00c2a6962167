"""Packages that only a part of Bireme needs, imported when that part is used."""

from __future__ import annotations

import importlib
from typing import Any

from bireme.core.base import errors


def extra(module: str, name: str, what: str, package: str | None = None) -> Any:
    """A module of Bireme's extra `name`, which is needed `what`; one sentence where its package is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        message = f"{package or module.partition('.')[0]} is needed {what}, and it is not installed"
        raise errors.failure(message, hint=f"pip install 'bireme[{name}]' installs it", kind=ImportError) from None
