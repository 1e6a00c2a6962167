"""Packages with operators in C++, built by setuptools: a module, and beside it the library that it loads."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext

from bireme.core.base import errors
from bireme.utils.cpp_extension import compiler

MODULE = '''"""Operators in C++, compiled by bireme.utils.cpp_extension."""

from bireme.utils import cpp_extension

cpp_extension.install_into(globals())
'''


def CppExtension(sources: Sequence[str], *args: Any, **kwargs: Any) -> setuptools.Extension:
    """Describe an extension of C++ sources for ``setup``.

    Args:
        sources: Paths of C++ files.
        *args: What ``setuptools.Extension`` takes behind the sources.
        **kwargs: The same by name: ``include_dirs``, ``define_macros``, ``library_dirs``, ``libraries``,
            ``extra_compile_args``, ``extra_link_args``. ``extra_compile_args`` may be a dict; then the list under ``cxx``
            counts. The name is that of ``setup``.

    Returns:
        A ``setuptools.Extension``.

    Examples:
        >>> extension = bireme.utils.cpp_extension.CppExtension(["relu.cc"], extra_compile_args=["-O3"])
        >>> extension.sources, extension.extra_compile_args
        (['relu.cc'], ['-O3'])
    """
    flags = kwargs.get("extra_compile_args")
    if isinstance(flags, dict):
        kwargs["extra_compile_args"] = list(flags.get("cxx") or [])
    name = kwargs.pop("name", "extension")
    return setuptools.Extension(name, [str(s) for s in sources], *args, **{**kwargs, "language": "c++"})


def CUDAExtension(sources: Sequence[str], *args: Any, **kwargs: Any) -> setuptools.Extension:
    """Describe an extension of C++ and CUDA sources for ``setup``; nvcc compiles those that end in ``.cu``.

    Kernels are called with tensors on the host and with tensors on a GPU: ``x.is_gpu()`` tells them apart, and
    ``x.stream()`` is the stream to launch on.

    Args:
        sources: Paths of C++ and CUDA files.
        *args: What ``setuptools.Extension`` takes behind the sources.
        **kwargs: The same by name, as for ``CppExtension``. ``extra_compile_args`` may be a dict; the list under ``cxx``
            is for the C++ compiler, the one under ``nvcc`` for nvcc. A list is for the C++ compiler.

    Returns:
        A ``setuptools.Extension``.

    Examples:
        >>> flags = {"cxx": ["-O3"], "nvcc": ["-arch=sm_90"]}
        >>> extension = bireme.utils.cpp_extension.CUDAExtension(["relu.cc", "relu.cu"], extra_compile_args=flags)
        >>> extension.extra_compile_args, extension.nvcc_flags
        (['-O3'], ['-arch=sm_90'])
    """
    flags = kwargs.get("extra_compile_args")
    made: Any = CppExtension(sources, *args, **kwargs)
    made.nvcc_flags = list(flags.get("nvcc") or []) if isinstance(flags, dict) else []
    return made


class BuildExtension(build_ext):
    """The command ``build_ext`` of ``setup``: each extension becomes a library and a module of the same name.

    Args:
        *args: As for the command of setuptools.
        **kwargs: The same.

    Examples:
        >>> from setuptools import Distribution
        >>> bireme.utils.cpp_extension.BuildExtension(Distribution()).get_ext_filename("custom_ops")
        'custom_ops_ops.so'
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """Return the command with options that are set.

        Args:
            **options: Attributes of the command by name, such as ``parallel``.

        Returns:
            A subclass of the command.
        """

        class BuildExtensionWithOptions(cls):  # type: ignore[valid-type, misc]  # the class that it is called on
            def initialize_options(self) -> None:
                super().initialize_options()
                for name, value in options.items():
                    setattr(self, name, value)

        return BuildExtensionWithOptions

    def get_ext_filename(self, fullname: str) -> str:
        """Return the path of a library under the folder of the build: no interpreter's version is part of it.

        Args:
            fullname: Name of the extension, with dots.

        Returns:
            The path.
        """
        return str(Path(*fullname.split("."))) + "_ops.so"

    def build_extension(self, ext: Any) -> None:
        """Compile one extension and write the module that loads it.

        Args:
            ext: The extension.
        """
        library, on_gpu = Path(self.get_ext_fullpath(ext.name)), getattr(ext, "nvcc_flags", None)
        macros = [f"-D{name}" if value is None else f"-D{name}={value}" for name, value in ext.define_macros]
        made = compiler.build(
            ext.name.rpartition(".")[2],
            compiler.checked_sources(
                f"{'CppExtension' if on_gpu is None else 'CUDAExtension'}(sources)", ext.sources, on_gpu is not None
            ),
            [*macros, *[f"-U{name}" for name in ext.undef_macros], *ext.extra_compile_args],
            [*[f"-l{name}" for name in ext.libraries], *ext.extra_link_args],
            ext.include_dirs,
            ext.library_dirs,
            Path(self.build_temp).absolute(),
            cuda_flags=on_gpu or (),
        )
        library.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, library)
        self._module(library).write_text(MODULE)

    def get_outputs(self) -> list[str]:
        """Return the files that the command makes: libraries and modules.

        Returns:
            A list of paths.
        """
        libraries = super().get_outputs()
        return [*libraries, *[str(self._module(Path(x))) for x in libraries]]

    def _module(self, library: Path) -> Path:
        return library.with_name(library.name.removesuffix("_ops.so") + ".py")


def setup(**attr: Any) -> None:
    """Build and install a package of operators in C++, as a ``setup.py`` says.

    After ``python setup.py install``, or ``pip install .``, ``import name`` gives a module with a function for each operator.

    Args:
        **attr: What ``setuptools.setup`` takes. ``name`` is the module's; ``ext_modules`` is one ``CppExtension`` or
            ``CUDAExtension``, or a list of one.

    Raises:
        ValueError: If there is no name, or not one extension.

    Examples:
        >>> try:
        ...     bireme.utils.cpp_extension.setup(ext_modules=[])
        ... except ValueError as e:
        ...     print(str(e).splitlines()[0])
        setup(name): expected a name that a module can have, got None
    """
    name, given = attr.get("name"), attr.get("ext_modules")
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
        raise errors.bad("setup(name)", "a name that a module can have", name)
    extensions = [given] if isinstance(given, setuptools.Extension) else list(given or [])
    if len(extensions) != 1:
        raise errors.bad("setup(ext_modules)", "one CppExtension or CUDAExtension", described=f"{len(extensions)}")
    extensions[0].name = name
    commands = {"build_ext": BuildExtension, **attr.get("cmdclass", {})}
    # no package but the extension: else setuptools looks for others in the folder
    plain = {"packages": [], "py_modules": [], **attr}
    setuptools.setup(**{**plain, "ext_modules": extensions, "cmdclass": commands, "zip_safe": False})
