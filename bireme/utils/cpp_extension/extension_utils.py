"""`paddle.utils.cpp_extension.extension_utils`: the steps of `load`, for packages that write a `setup.py` themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from bireme.core.base import errors
from bireme.utils.cpp_extension import functions_of, load_op_meta_info_and_register_op

__all__ = ["_import_module_from_library", "_jit_compile", "load_op_meta_info_and_register_op"]


def _jit_compile(file_path: str, verbose: bool = False) -> None:
    """Run a `setup.py` that builds an extension into the folder `build` beside it.

    >>> bireme.utils.cpp_extension.extension_utils._jit_compile("nowhere/setup.py")
    Traceback (most recent call last):
        ...
    FileNotFoundError: _jit_compile(file_path): expected a file, got 'nowhere/setup.py'
    """
    path = Path(file_path).absolute()
    if not path.is_file():
        raise errors.bad("_jit_compile(file_path)", "a file", file_path, kind=FileNotFoundError)
    # the file may import paddle
    command = [sys.executable, "-m", "bireme.compat", str(path), "build"]
    done = subprocess.run(command, cwd=path.parent, capture_output=not verbose, text=True, check=False)
    if done.returncode:
        told = (done.stderr or "").strip().splitlines()[-1:]
        raise errors.failure(f"{path} could not build its extension{': ' + told[0] if told else ''}")


def _import_module_from_library(module_name: str, build_directory: str, verbose: bool = False) -> ModuleType:
    """The operators of a library in a folder, as a module of functions."""
    path = os.path.join(os.path.abspath(build_directory), f"{module_name}_ops.so")
    made = ModuleType(module_name, f"Operators in C++, compiled to {path}.")
    made.__file__ = path
    made.__dict__.update(functions_of(path, module_name))
    return made
