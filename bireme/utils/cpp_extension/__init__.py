"""Operators written in C++ or CUDA: compiled by the system's compilers, loaded, and called as any other operator."""

from __future__ import annotations

import importlib
import keyword
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.declare import foreign
from bireme.utils.cpp_extension import compiler

if TYPE_CHECKING:
    from bireme.utils.cpp_extension.packaging import BuildExtension, CppExtension, CUDAExtension, setup

__all__ = [
    "CppExtension",
    "CUDAExtension",
    "BuildExtension",
    "load",
    "setup",
    "get_build_directory",
    "load_op_meta_info_and_register_op",
]

_WITH_SETUPTOOLS = ("BuildExtension", "CppExtension", "CUDAExtension", "setup")


def __getattr__(name: str) -> Any:
    """What stands on setuptools, which only those need who build packages."""
    if name not in _WITH_SETUPTOOLS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        packaging = importlib.import_module(f"{__name__}.packaging")
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] != "setuptools":
            raise
        raise errors.failure(
            f"utils.cpp_extension.{name} needs setuptools, which is not installed", hint="pip install setuptools",
            kind=ImportError,
        ) from None  # fmt: skip
    return getattr(packaging, name)


def load(
    name: str,
    sources: Sequence[str],
    extra_cxx_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    extra_library_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
) -> ModuleType:
    """Compile operators in C++ or CUDA and return them as a module of functions.

    The sources include ``bireme/extension.h``, or ``paddle/extension.h``, and declare operators with ``PD_BUILD_OP`` and
    their gradients with ``PD_BUILD_GRAD_OP``. Kernels run on the host, for tensors of every device, unless a source is one
    of CUDA: then they are called with tensors on the GPU, too, and launch on ``x.stream()``. What was compiled is kept and
    used again as long as sources, headers and flags are the same.

    Args:
        name: Name of the module.
        sources: Paths of C++ files, and of CUDA files that end in ``.cu``.
        extra_cxx_cflags: Flags of the compiler. Default: None, no others than Bireme's.
        extra_cuda_cflags: Flags of nvcc. Default: None, for the GPU that is here, else for all, or for those that the
            environment variable ``PADDLE_CUDA_ARCH_LIST`` names.
        extra_ldflags: Flags of the linker. Default: None.
        extra_include_paths: Folders with headers. Default: None.
        extra_library_paths: Folders with libraries. Default: None.
        build_directory: Folder to keep the result in. Default: None, ``get_build_directory()``.
        verbose: Whether to write the command and what the compiler says. Default: False.

    Returns:
        A module with a function for each operator.

    Raises:
        FileNotFoundError: If there is no C++ compiler, no nvcc for sources of CUDA, or no such source.
        RuntimeError: If a source does not compile; the message has the first error, and where all others are.

    Examples:
        >>> import pathlib, shutil, tempfile
        >>> source = '''
        ... #include "bireme/extension.h"
        ... std::vector<paddle::Tensor> Doubled(const paddle::Tensor& x) {
        ...   auto out = paddle::empty_like(x);
        ...   for (int64_t i = 0; i < x.numel(); ++i) out.data<float>()[i] = 2 * x.data<float>()[i];
        ...   return {out};
        ... }
        ... PD_BUILD_OP(doubled).Inputs({"X"}).Outputs({"Out"}).SetKernelFn(PD_KERNEL(Doubled));
        ... '''
        >>> def doubled(x):
        ...     with tempfile.TemporaryDirectory() as folder:
        ...         path = pathlib.Path(folder, "doubled.cc")
        ...         _ = path.write_text(source)
        ...         ops = bireme.utils.cpp_extension.load("doubled_ops", [path], build_directory=folder)
        ...     return ops.doubled(x)
        >>> doubled(bireme.to_tensor([1.0, 2.0])).tolist() if shutil.which("c++") else [2.0, 4.0]
        [2.0, 4.0]
    """
    _check_name(name)
    flags = {
        "extra_cxx_cflags": extra_cxx_cflags,
        "extra_cuda_cflags": extra_cuda_cflags,
        "extra_ldflags": extra_ldflags,
        "extra_include_paths": extra_include_paths,
        "extra_library_paths": extra_library_paths,
    }
    given = {key: _texts(f"load({key})", value) for key, value in flags.items()}
    path = compiler.build(
        name,
        compiler.checked_sources("load(sources)", sources),
        given["extra_cxx_cflags"],
        given["extra_ldflags"],
        given["extra_include_paths"],
        given["extra_library_paths"],
        None if build_directory is None else Path(os.path.abspath(os.path.expanduser(build_directory))),
        verbose,
        given["extra_cuda_cflags"],
    )
    made = ModuleType(name, f"Operators in C++, compiled to {path}.")
    made.__file__ = str(path)
    made.__dict__.update(functions_of(str(path), name))
    return made


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name == "bireme":
        raise errors.bad("load(name)", "a name that a module can have", name)


def _texts(where: str, given: Any) -> list[str]:
    if given is None:
        return []
    if isinstance(given, str) or not all(isinstance(x, (str, os.PathLike)) for x in given):
        raise errors.bad(where, "a list of str", given, kind=errors.ArgumentTypeError)
    return [os.fspath(x) for x in given]


def functions_of(path: str, module: str) -> dict[str, Any]:
    """The operators of a compiled library by name."""
    where = "load_op_meta_info_and_register_op(lib_filename)"
    try:
        library = foreign.loaded(path)
    except FileNotFoundError:
        raise errors.bad(where, "a file", path, kind=FileNotFoundError) from None
    except (OSError, AttributeError) as e:  # it does not load, or exports nothing that is known here
        told = f"{path}: {str(e).splitlines()[0]}"
        raise errors.bad(where, "a library of operators in C++", described=told, kind=OSError) from None
    found = foreign.declare(library, module)
    if not found:
        raise errors.bad(where, "an operator that PD_BUILD_OP declares", described=f"none in {path}")
    return found


def load_op_meta_info_and_register_op(lib_filename: str) -> list[str]:
    """Load a compiled library and let its operators be called, in saved programs too.

    Args:
        lib_filename: Path of the library, as ``load`` or ``setup`` made it.

    Returns:
        The names of its operators.

    Raises:
        FileNotFoundError: If there is no such file.
        OSError: If it is no library of operators.

    Examples:
        >>> try:
        ...     bireme.utils.cpp_extension.load_op_meta_info_and_register_op("/nowhere.so")
        ... except FileNotFoundError as e:
        ...     print(str(e).splitlines()[0])
        load_op_meta_info_and_register_op(lib_filename): expected a file, got '/nowhere.so'
    """
    path = os.path.abspath(lib_filename)
    return list(functions_of(path, Path(path).stem.partition("-")[0]))


def install_into(namespace: dict[str, Any]) -> None:
    """Put the operators of an installed package into the namespace of its module, which calls this."""
    path = Path(namespace["__file__"])
    namespace.update(functions_of(str(path.with_name(f"{path.stem}_ops.so")), namespace["__name__"]))


def get_build_directory(verbose: bool = False) -> str:
    """Return the folder that compiled extensions are kept in, which is made if there is none.

    It is the one that the environment variable ``BIREME_EXTENSION_DIR`` names, else one beside the compile cache. Nobody
    but the user may write to it.

    Args:
        verbose: Whether to write the path, too. Default: False.

    Returns:
        The path.

    Raises:
        PermissionError: If others can write to the folder.

    Examples:
        >>> import os
        >>> os.path.isdir(bireme.utils.cpp_extension.get_build_directory())
        True
    """
    path = compiler.opened(compiler.directory(), True)
    if verbose:
        sys.stdout.write(f"compiled extensions are in {path}\n")
    return str(path)


guard_functions(globals())
