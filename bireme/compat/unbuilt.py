"""`paddle.utils.cpp_extension` for packages that import it at their top: operators in C++ are not built here.

The names are there to be imported and derived from. They stay counted as missing, and say so when they are used.
"""

from __future__ import annotations

import os
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

PACKAGE = "paddle.utils.cpp_extension"
MODULES = {PACKAGE, f"{PACKAGE}.cpp_extension", f"{PACKAGE}.extension_utils"}
NAMES = (
    "BuildExtension CUDAExtension CppExtension get_build_directory load load_op_meta_info_and_register_op setup "
    "_import_module_from_library _jit_compile find_cuda_home"
).split()


class Unbuilt(type):
    """Class of the names: calling one of them, or of what is derived from it, is an error."""

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(cls._told())

    def __getattr__(cls, name: str) -> NoReturn:
        raise AttributeError(cls._told(), name=name)

    def _told(cls) -> str:
        name = next(c.__name__ for c in cls.__mro__ if c.__module__ == PACKAGE)
        return (
            f"bireme has no {PACKAGE}.{name} yet\n"
            "  hint: an operator of one's own is a function on jax arrays: bireme.extension.op"
        )


class Unbuilding(Loader):
    """Loader of the modules."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update({name: Unbuilt(name, (), {"__module__": PACKAGE}) for name in NAMES})
        vars(module).update(CUDA_HOME=None, IS_WINDOWS=os.name == "nt")
