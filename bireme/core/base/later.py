"""Packages that take long to import, imported when something is first asked of them: SciPy's functions take 0.2 s."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


class Later:
    """A module that is imported when one of its names is first read."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module(self._name), name)
        setattr(self, name, found)
        return found

    def function(self, name: str) -> Callable:
        """One of its functions, without importing it before it is called."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(self, name)(*args, **kwargs)

        call.__name__ = call.__qualname__ = name
        return call


special = Later("scipy.special")
linalg = Later("scipy.linalg")
sparse = Later("scipy.sparse")
