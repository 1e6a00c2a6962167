"""`paddle.utils.cpp_extension.cpp_extension`: the names under which packages import what builds operators in C++."""

from __future__ import annotations

from bireme.utils.cpp_extension import get_build_directory, load
from bireme.utils.cpp_extension.packaging import BuildExtension, CppExtension, setup

__all__ = ["CUDA_HOME", "BuildExtension", "CppExtension", "get_build_directory", "load", "setup"]

CUDA_HOME = None  # no sources in CUDA are compiled, wherever its compiler is
