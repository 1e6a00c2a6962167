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
    """Version of CUDA, 'False' where it is not used.

    >>> bireme.device.is_compiled_with_cuda() or bireme.version.cuda()
    'False'
    """
    if not is_compiled_with_cuda():
        return "False"
    found = re.search(r"cuda (\d+)", str(Device("gpu", 0).jax.client.platform_version))
    return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}" if found else "unknown"


def cudnn() -> str:
    """Version of cuDNN, 'False' where it is not used.

    >>> bireme.device.is_compiled_with_cuda() or bireme.version.cudnn()
    'False'
    """
    return _short("cudnn") if is_compiled_with_cuda() else "False"


def nccl() -> str:
    """Version of NCCL, '0' where it is not used.

    >>> bireme.device.is_compiled_with_cuda() or bireme.version.nccl()
    '0'
    """
    return _short("nccl") if is_compiled_with_cuda() else "0"


def _short(library: str) -> str:
    return ".".join((library_version(library) or "unknown").split(".")[:3])


def cuda_archs() -> list[int]:
    """Architectures of GPUs that programs are compiled for: the one that is there.

    >>> bireme.device.is_compiled_with_cuda() or bireme.version.cuda_archs()
    []
    """
    if not is_compiled_with_cuda():
        return []
    high, low = get_device_capability(0)
    return [high * 10 + low]


def tensorrt() -> str:
    """Version of TensorRT: 'None', it is not used.

    >>> bireme.version.tensorrt()
    'None'
    """
    return "None"


def xpu() -> str:
    """Version of the XPU's library: 'False', a plug-in knows its own.

    >>> bireme.version.xpu()
    'False'
    """
    return "False"


def mkl() -> str:
    """Whether Intel's MKL computes on CPU: 'OFF', XLA has its own.

    >>> bireme.version.mkl()
    'OFF'
    """
    return "OFF"


def cinn() -> str:
    """Version of CINN: 'False', XLA is the compiler.

    >>> bireme.version.cinn()
    'False'
    """
    return "False"


xpu_xre = xpu_xccl = xpu_xhpc = xpu


def show() -> None:
    """Write the versions to the standard output.

    >>> bireme.version.show()
    full_version: ...
    """
    facts = {
        "full_version": full_version, "major": major, "minor": minor, "patch": patch, "rc": rc, "cuda": cuda(), "cudnn": cudnn(), "nccl": nccl(),
        "xpu_xre": xpu_xre(), "xpu_xccl": xpu_xccl(), "xpu_xhpc": xpu_xhpc(), "cinn": "False", "tensorrt_version": tensorrt(),
        "cuda_archs": cuda_archs(), "interface": interface,
    }  # fmt: skip
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in facts.items()))
