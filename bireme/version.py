"""Versions: Bireme's own, that of Paddle's interface it follows, and those of the libraries below."""

from __future__ import annotations

import re
import sys

from bireme.core.base.device import Device
from bireme.device import is_compiled_with_cuda, library_version
from bireme.device.cuda import get_device_capability

__all__ = ["cuda", "cuda_archs", "cudnn", "nccl", "show", "tensorrt", "xpu", "xpu_xccl", "xpu_xhpc", "xpu_xre"]

__version__ = full_version = "0.1.0"
major, minor, patch = full_version.split(".")
rc = "0"
commit = "unknown"
interface = "3.2.2"  # Paddle's, which the public names follow; `compat.install_as_paddle` gives it to code that asks


def cuda() -> str:
    """Return the version of CUDA.

    Returns:
        A str; ``"False"`` if CUDA is not used.

    Examples:
        >>> bireme.device.is_compiled_with_cuda() or bireme.version.cuda()
        'False'
    """
    if not is_compiled_with_cuda():
        return "False"
    found = re.search(r"cuda (\d+)", str(Device("gpu", 0).jax.client.platform_version))
    return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}" if found else "unknown"


def cudnn() -> str:
    """Return the version of cuDNN.

    Returns:
        A str; ``"False"`` if cuDNN is not used.

    Examples:
        >>> bireme.device.is_compiled_with_cuda() or bireme.version.cudnn()
        'False'
    """
    return _short("cudnn") if is_compiled_with_cuda() else "False"


def nccl() -> str:
    """Return the version of NCCL.

    Returns:
        A str; ``"0"`` if NCCL is not used.

    Examples:
        >>> bireme.device.is_compiled_with_cuda() or bireme.version.nccl()
        '0'
    """
    return _short("nccl") if is_compiled_with_cuda() else "0"


def _short(library: str) -> str:
    return ".".join((library_version(library) or "unknown").split(".")[:3])


def cuda_archs() -> list[int]:
    """Return the GPU architectures that programs are compiled for: that of the first GPU.

    Returns:
        A list of ints such as ``[90]``; empty without a GPU.

    Examples:
        >>> bireme.device.is_compiled_with_cuda() or bireme.version.cuda_archs()
        []
    """
    if not is_compiled_with_cuda():
        return []
    high, low = get_device_capability(0)
    return [high * 10 + low]


def tensorrt() -> str:
    """Return the version of TensorRT, which is not used.

    Returns:
        ``"None"``.

    Examples:
        >>> bireme.version.tensorrt()
        'None'
    """
    return "None"


def xpu() -> str:
    """Return the version of the XPU library, which only a plug-in knows.

    Returns:
        ``"False"``.

    Examples:
        >>> bireme.version.xpu()
        'False'
    """
    return "False"


def mkl() -> str:
    """Return whether Intel's MKL computes on CPU: XLA has kernels of its own.

    Returns:
        ``"OFF"``.

    Examples:
        >>> bireme.version.mkl()
        'OFF'
    """
    return "OFF"


def cinn() -> str:
    """Return the version of CINN, which is not used: XLA is the compiler.

    Returns:
        ``"False"``.

    Examples:
        >>> bireme.version.cinn()
        'False'
    """
    return "False"


xpu_xre = xpu_xccl = xpu_xhpc = xpu


def show() -> None:
    """Print the versions of Bireme, of Paddle's interface and of the libraries to stdout.

    Examples:
        >>> bireme.version.show()
        full_version: ...
    """
    facts = {
        "full_version": full_version,
        "major": major,
        "minor": minor,
        "patch": patch,
        "rc": rc,
        "cuda": cuda(),
        "cudnn": cudnn(),
        "nccl": nccl(),
        "xpu_xre": xpu_xre(),
        "xpu_xccl": xpu_xccl(),
        "xpu_xhpc": xpu_xhpc(),
        "cinn": "False",
        "tensorrt_version": tensorrt(),
        "cuda_archs": cuda_archs(),
        "interface": interface,
    }
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in facts.items()))
