"""`paddle.utils.cpp_extension.cpp_extension`: the names under which packages import what builds operators in C++."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bireme.utils import cpp_extension as package
from bireme.utils.cpp_extension import cuda, get_build_directory, load

if TYPE_CHECKING:
    from bireme.utils.cpp_extension.packaging import BuildExtension, CppExtension, CUDAExtension, setup

__all__ = ["CUDA_HOME", "BuildExtension", "CppExtension", "CUDAExtension", "get_build_directory", "load", "setup"]

_found = cuda.home()
CUDA_HOME = None if _found is None else str(_found)


def __getattr__(name: str) -> Any:
    """What stands on setuptools, as in the package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(package, name)
