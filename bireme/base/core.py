"""Names that code written for Paddle takes from `paddle.base.core`: places, types, flags, and what was built in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bireme.core import dtype as dtypes
from bireme.core.device import CPUPlace, CUDAPinnedPlace, CUDAPlace, CustomPlace, IPUPlace, Place, XPUPinnedPlace, XPUPlace
from bireme.core.dtype import DType as DataType
from bireme.core.flags import get_flags, known, set_flags
from bireme.core.random import Generator
from bireme.core.tensor import Tensor
from bireme.device import (
    cuda,
    get_all_custom_device_type,
    get_all_device_type,
    is_compiled_with_cinn,
    is_compiled_with_cuda,
    is_compiled_with_custom_device,
    is_compiled_with_distribute,
    is_compiled_with_ipu,
    is_compiled_with_rocm,
    is_compiled_with_xpu,
)  # fmt: skip

is_compiled_with_dist = is_compiled_with_distribute
eager = SimpleNamespace(Tensor=Tensor)  # code asks `isinstance(x, core.eager.Tensor)`

__all__ = [
    "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "CustomPlace", "DataType", "Generator", "IPUPlace", "Place", "VarDesc", "XPUPinnedPlace",
    "XPUPlace", "eager", "get_all_custom_device_type", "get_all_device_type", "get_cuda_device_count", "globals", "is_bfloat16_supported",
    "is_compiled_with_cinn", "is_compiled_with_cuda", "is_compiled_with_custom_device", "is_compiled_with_dist",
    "is_compiled_with_distribute", "is_compiled_with_ipu", "is_compiled_with_mkldnn", "is_compiled_with_onednn", "is_compiled_with_rocm",
    "is_compiled_with_xpu", "is_float16_supported", "size_of_dtype", "supports_bfloat16",
]  # fmt: skip


class VarDesc:
    """Where Paddle's older code finds the types of elements."""

    class VarType:
        """The types by their old names; each is the type itself."""

        BOOL, UINT8, INT8, INT16, INT32, INT64 = dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64
        FP16, BF16, FP32, FP64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
        FP8_E4M3FN, FP8_E5M2 = dtypes.float8_e4m3fn, dtypes.float8_e5m2
        COMPLEX64, COMPLEX128 = dtypes.complex64, dtypes.complex128


class _Flags:
    """The flags as a mapping by full name; writing an entry sets the flag."""

    def __getitem__(self, name: str) -> Any:
        return get_flags(name)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        set_flags({name: value})

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            return default
        return self[name]

    def keys(self) -> list[str]:
        return known()


def globals() -> _Flags:
    """The process's flags as a mapping.

    >>> bireme.base.core.globals()["FLAGS_check_nan_inf"]
    False
    """
    return _Flags()


def is_float16_supported(place: Any = None) -> bool:
    """Whether float16 can be computed with: XLA does so everywhere.

    >>> bireme.base.core.is_float16_supported(bireme.CPUPlace())
    True
    """
    return True


is_bfloat16_supported = is_float16_supported


def supports_bfloat16() -> bool:
    """Whether bfloat16 can be computed with on CPU: it can.

    >>> bireme.base.core.supports_bfloat16()
    True
    """
    return True


def is_compiled_with_onednn() -> bool:
    """Whether Paddle's kernels of oneDNN are there: never, XLA has its own.

    >>> bireme.base.core.is_compiled_with_onednn()
    False
    """
    return False


is_compiled_with_mkldnn = is_compiled_with_onednn


def get_cuda_device_count() -> int:
    """How many GPUs this machine has.

    >>> bireme.base.core.get_cuda_device_count() >= 0
    True
    """
    return cuda.device_count()


def size_of_dtype(dtype: Any) -> int:
    """Bytes of one element.

    >>> bireme.base.core.size_of_dtype(bireme.float32)
    4
    """
    return dtypes.of(dtype, "size_of_dtype(dtype)").itemsize
