"""`paddle.utils.cpp_extension.extension_utils`: the steps of `load`, for packages that write a `setup.py` themselves."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

from bireme.core.base import errors
from bireme.utils.cpp_extension import functions_of, load_op_meta_info_and_register_op
from bireme.utils.cpp_extension.compiler import run

__all__ = ["_import_module_from_library", "_jit_compile", "load_op_meta_info_and_register_op"]


def _jit_compile(file_path: str, verbose: bool = False) -> None:
    """Run a `setup.py` that builds an extension into the folder `build` beside it."""
    path = Path(file_path).absolute()
    if not path.is_file():
        raise errors.bad("_jit_compile(file_path)", "a file", file_path, kind=FileNotFoundError)
    # the file may import paddle
    command = [sys.executable, "-m", "bireme.compat", str(path), "build"]
    code, output = run(command, path.parent, quiet=not verbose)
    if code:
        told = output.strip().splitlines()[-1:]
        raise errors.failure(f"{path} could not build its extension{': ' + told[0] if told else ''}")


def _import_module_from_library(module_name: str, build_directory: str, verbose: bool = False) -> ModuleType:
    """The operators of a library in a folder, as a module of functions."""
    path = os.path.join(os.path.abspath(build_directory), f"{module_name}_ops.so")
    made = ModuleType(module_name, f"Operators in C++, compiled to {path}.")
    made.__file__ = path
    made.__dict__.update(functions_of(path, module_name))
    return made
