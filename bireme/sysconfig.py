"""Where headers and libraries lie that extensions in C and C++ are built with: those of XLA, which come with jaxlib."""

from __future__ import annotations

import importlib.util
import os

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions

__all__ = ["get_include", "get_lib"]


def get_include() -> str:
    """Return the folder of the headers that an operator in C++ includes, such as ``xla/ffi/api/ffi.h``.

    Returns:
        A path.

    Examples:
        >>> import os
        >>> os.path.exists(os.path.join(bireme.sysconfig.get_include(), "xla", "ffi", "api", "ffi.h"))
        True
    """
    return os.path.join(get_lib(), "include")


def get_lib() -> str:
    """Return the folder of the libraries that programs are compiled and run by.

    Returns:
        A path.

    Examples:
        >>> import os
        >>> any(name.startswith("lib") for name in os.listdir(bireme.sysconfig.get_lib()))
        True
    """
    found = importlib.util.find_spec("jaxlib")
    if found is None or not found.submodule_search_locations:
        raise errors.failure("get_lib(): expected jaxlib to be installed, got none", kind=ImportError)
    return found.submodule_search_locations[0]


guard_functions(globals())
