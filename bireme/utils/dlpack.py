"""DLPack both ways: memory shared with other libraries, without a copy."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.device import current
from bireme.core.tensor.tensor import Tensor, from_foreign

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(IntEnum):
    """Device types by their numbers in DLPack.

    Examples:
        >>> bireme.utils.dlpack.DLDeviceType.kDLCUDA.value
        2
    """

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLExtDev = 12
    kDLOneAPI = 14


def to_dlpack(x: Tensor) -> Any:
    """Return a DLPack capsule of the memory of a tensor; Bireme does not reuse that memory afterwards.

    Args:
        x: The tensor.

    Returns:
        A capsule that ``from_dlpack`` of any library accepts, once.

    Examples:
        >>> type(bireme.utils.dlpack.to_dlpack(bireme.ones([2]))).__name__
        'PyCapsule'
    """
    if not isinstance(x, Tensor):
        raise errors.bad("to_dlpack(x)", "a Tensor", x, kind=errors.NotATensorError)
    return x._to_dlpack()


def from_dlpack(dlpack: Any) -> Tensor:
    """Return a tensor that shares the memory of another library's array.

    The array must not be written to afterwards.

    Args:
        dlpack: An object with ``__dlpack__``, such as a NumPy array or a PyTorch tensor, or a DLPack capsule.

    Returns:
        A tensor.

    Examples:
        >>> import numpy as np
        >>> bireme.utils.dlpack.from_dlpack(np.ones(2, np.float32)).tolist()
        [1.0, 1.0]
    """
    if type(dlpack).__name__ == "PyCapsule":
        dlpack = _Capsule(dlpack)
    if not hasattr(dlpack, "__dlpack__"):
        raise errors.bad(
            "from_dlpack(dlpack)", "a DLPack capsule or an array with __dlpack__", dlpack, kind=errors.ArgumentTypeError
        )
    try:
        return from_foreign(dlpack)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        raise errors.bad(
            "from_dlpack(dlpack)",
            "memory that can be shared",
            described=str(e).partition("\n")[0],
            kind=errors.ShapeError,
        ) from None


class _Capsule:
    """A bare capsule as an object with ``__dlpack_device__``: it is taken to be on the current device."""

    def __init__(self, capsule: Any):
        self._capsule = capsule

    def __dlpack__(self, **asked: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        device = current()
        return (1, 0) if device.is_cpu else (2, device.index)


guard_functions(globals())
