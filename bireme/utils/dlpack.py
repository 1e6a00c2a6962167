"""DLPack both ways: memory shared with other libraries, without a copy."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from bireme.core.base import errors
from bireme.core.base.device import current
from bireme.core.tensor.tensor import Tensor, from_foreign

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(IntEnum):
    """Kinds of devices by the numbers that DLPack gives them."""

    kDLCPU, kDLCUDA, kDLCUDAHost, kDLOpenCL, kDLVulkan, kDLMetal, kDLVPI, kDLROCM, kDLExtDev, kDLOneAPI = 1, 2, 3, 4, 7, 8, 9, 10, 12, 14


def to_dlpack(x: Tensor) -> Any:
    """A DLPack capsule of the tensor's memory; its buffer is never reused by Bireme afterwards.

    >>> type(bireme.utils.dlpack.to_dlpack(bireme.ones([2]))).__name__
    'PyCapsule'
    """
    if not isinstance(x, Tensor):
        raise errors.bad("to_dlpack(x)", "a Tensor", x, kind=TypeError)
    return x._to_dlpack()


def from_dlpack(dlpack: Any) -> Tensor:
    """A tensor on the memory of another library's array (or of a capsule), which must not be written to afterwards.

    >>> import numpy as np
    >>> bireme.utils.dlpack.from_dlpack(np.ones(2, np.float32)).tolist()
    [1.0, 1.0]
    """
    if type(dlpack).__name__ == "PyCapsule":
        dlpack = _Capsule(dlpack)
    if not hasattr(dlpack, "__dlpack__"):
        raise errors.bad("from_dlpack(dlpack)", "a DLPack capsule or an array with __dlpack__", dlpack, kind=TypeError)
    try:
        return from_foreign(dlpack)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        raise errors.bad("from_dlpack(dlpack)", "memory that can be shared", str(e).partition("\n")[0], kind=errors.Misfit) from None


class _Capsule:
    """A bare capsule as an object that says where it lives: on the device in use."""

    def __init__(self, capsule: Any):
        self._capsule = capsule

    def __dlpack__(self, **asked: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        device = current()
        return (1, 0) if device.is_cpu else (2, device.index)
