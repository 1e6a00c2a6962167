"""SciPy's compiled loops over sparse matrices, loaded without its package: that takes 0.1 s to import, the module 1 ms."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sysconfig
from pathlib import Path
from typing import Any


@functools.cache
def _module() -> Any:
    home = importlib.util.find_spec("scipy")
    path = (
        Path((home and home.origin) or "").parent / "sparse" / f"_sparsetools{sysconfig.get_config_var('EXT_SUFFIX')}"
    )
    try:
        loader = importlib.machinery.ExtensionFileLoader("_sparsetools", str(path))
        spec = importlib.util.spec_from_file_location("_sparsetools", path, loader=loader)
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]  # there is a loader, so there is one
        loader.exec_module(module)
        return module
    except (ImportError, AttributeError):
        return None


def loop(name: str) -> Any:
    """One of them by its name, None where this version of SciPy has none."""
    return getattr(_module(), name, None)
