"""CUDA's compiler for operators with kernels on a GPU: where it is, with its headers and its runtime, and what it is told."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bireme.core.base import errors

SOURCES = (".cu",)
USUAL = Path("/usr/local/cuda")
_CHOSEN = ("-arch", "--gpu-architecture", "-gencode", "--generate-code")  # flags that say for which chips


def needed(sources: Sequence[Path]) -> bool:
    """Whether there are sources of CUDA."""
    return any(path.suffix in SOURCES for path in sources)


def _wheels() -> Iterator[Path]:
    """Folders of the packages that NVIDIA's parts of CUDA are installed by, as nvidia/cuda_nvcc or nvidia/cu13."""
    for folder in sys.path:
        yield from sorted(Path(folder or ".", "nvidia").glob("*"))


def home() -> Path | None:
    """The folder of CUDA's compiler: what CUDA_HOME or CUDA_PATH names, where nvcc is found, or that of a package."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        named = os.environ.get(name)
        if named and Path(named, "bin", "nvcc").is_file():
            return Path(named)
    found = shutil.which("nvcc")
    path = [] if found is None else [Path(os.path.realpath(found)).parents[1]]
    candidates = [x for x in (*path, USUAL, *_wheels()) if (x / "bin" / "nvcc").is_file()]
    # a script in the path may call an nvcc that lies elsewhere, with its headers
    whole = [x for x in candidates if (x / "nvvm").is_dir()]
    return next(iter(whole or candidates), None)


def _folder() -> Path:
    found = home()
    if found is None:
        raise errors.failure(
            "load(): expected CUDA's compiler nvcc for sources that end in .cu, got none",
            hint="install CUDA, or pip install nvidia-cuda-nvcc, or let the environment variable CUDA_HOME name its folder",
            kind=FileNotFoundError,
        )
    return found


def _places(kind: str) -> list[Path]:
    """Folders of headers or libraries: CUDA's own first."""
    root = _folder()
    named = [root / "include"] if kind == "include" else [root / "lib64", root / "lib"]
    return [*named, *sorted(root.glob(f"targets/*/{kind}")), *[wheel / kind for wheel in _wheels()]]


def headers() -> list[Path]:
    """Folders with the headers of CUDA's runtime."""
    found = [x for x in _places("include") if (x / "cuda_runtime_api.h").is_file() or (x / "crt").is_dir()]
    if not any((x / "cuda_runtime_api.h").is_file() for x in found):
        raise errors.failure(
            f"load(): expected the headers of CUDA's runtime beside {_folder()}, got none",
            hint="pip install nvidia-cuda-runtime",
            kind=FileNotFoundError,
        )
    return list(dict.fromkeys(found))


def linking() -> list[str]:
    """What links a library with CUDA's runtime: by its path, since packages have it under its version's name alone."""
    for folder in _places("lib"):
        for path in sorted(folder.glob("libcudart.so*")):
            return [str(path), f"-Wl,-rpath,{folder}"]
    raise errors.failure(
        f"load(): expected CUDA's runtime, libcudart.so, beside {_folder()}, got none",
        hint="pip install nvidia-cuda-runtime",
        kind=FileNotFoundError,
    )


def compiling(host: Sequence[str], flags: Sequence[str], given: Sequence[str]) -> list[str]:
    """nvcc, with the compiler that it calls for the host and what that is told."""
    standard = [x for x in flags if x.startswith(("-std", "-O"))]
    others = [x for x in (*flags, *host[1:]) if x not in standard]
    words = [word for x in others for word in ("-Xcompiler", x)]
    return [str(_folder() / "bin" / "nvcc"), "-ccbin", host[0], *standard, *words, *_chips(given)]


def _chips(given: Sequence[str]) -> list[str]:
    """For which chips to compile: those that PADDLE_CUDA_ARCH_LIST names, else the one that is here, else all."""
    if any(x.startswith(_CHOSEN) for x in given):
        return []
    named = [x for x in re.split(r"[;,\s]+", os.environ.get("PADDLE_CUDA_ARCH_LIST", "")) if x]
    for x in named:
        if not re.fullmatch(r"\d+\.\d[a-z]?", x):
            raise errors.bad("PADDLE_CUDA_ARCH_LIST", "versions of chips, as '8.0;9.0'", x)
    if named:
        numbers = [x.replace(".", "") for x in named]
        return [f"-gencode=arch=compute_{n},code=sm_{n}" for n in numbers]
    return ["-arch=native" if Path("/dev/nvidiactl").exists() else "-arch=all-major"]
