"""Names that code written for Paddle takes from `paddle.base.core`: places, types, flags, and what was built in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from bireme.amp.debugging import clear_low_precision_op_list, get_low_precision_op_list
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, registry
from bireme.core.base.device import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    CustomPlace,
    IPUPlace,
    Place,
    XPUPinnedPlace,
    XPUPlace,
)
from bireme.core.base.dtype import DType as DataType
from bireme.core.base.flags import get_flags, known, set_flags
from bireme.core.base.random_state import Generator, default_generator
from bireme.core.tensor.backward import backward, final_hooks
from bireme.core.tensor.grad_mode import set_grad_enabled
from bireme.core.tensor.tensor import Tensor
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
from bireme.ops.manipulation.tensor_introspection import VarType
from bireme.static.dense_tensor import DenseTensor
from bireme.utils.dlpack import from_dlpack

is_compiled_with_dist = is_compiled_with_distribute
EnforceNotMet = RuntimeError  # what Paddle raises where no other Python error says it


def _scale(x: Tensor, scale: float, bias: float, bias_after_scale: bool = True, trace_backward: bool = True) -> Tensor:
    with set_grad_enabled(trace_backward):
        return registry.find("scale")(x, scale, bias, bias_after_scale)


# code asks `isinstance(x, core.eager.Tensor)`
eager = SimpleNamespace(Tensor=Tensor, scale=_scale, run_backward=backward, _add_backward_final_hook=final_hooks.append)

__all__ = [
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "CustomPlace",
    "DataType",
    "DenseTensor",
    "EnforceNotMet",
    "Generator",
    "IPUPlace",
    "LoDTensor",
    "Place",
    "VarDesc",
    "XPUPinnedPlace",
    "XPUPlace",
    "clear_low_precision_op_list",
    "default_cpu_generator",
    "default_cuda_generator",
    "eager",
    "from_dlpack",
    "frombuffer",
    "get_all_custom_device_type",
    "get_all_device_type",
    "get_cuda_device_count",
    "get_low_precision_op_list",
    "globals",
    "is_bfloat16_supported",
    "is_compiled_with_cinn",
    "is_compiled_with_cuda",
    "is_compiled_with_custom_device",
    "is_compiled_with_dist",
    "is_compiled_with_distribute",
    "is_compiled_with_ipu",
    "is_compiled_with_mkldnn",
    "is_compiled_with_onednn",
    "is_compiled_with_rocm",
    "is_compiled_with_xpu",
    "is_float16_supported",
    "op_support_gpu",
    "set_prim_eager_enabled",
    "size_of_dtype",
    "supports_bfloat16",
]


class VarDesc:
    """Where Paddle's older code finds the types of elements."""

    class VarType:
        """The types by their old names; each is the type itself."""

        BOOL = dtypes.bool_
        UINT8 = dtypes.uint8
        INT8 = dtypes.int8
        INT16 = dtypes.int16
        INT32 = dtypes.int32
        INT64 = dtypes.int64
        FP16, BF16, FP32, FP64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
        FP8_E4M3FN, FP8_E5M2 = dtypes.float8_e4m3fn, dtypes.float8_e5m2
        COMPLEX64, COMPLEX128 = dtypes.complex64, dtypes.complex128
        DENSE_TENSOR = LOD_TENSOR = VarType.DENSE_TENSOR  # what `Tensor.type` says


# Paddle's allocator reads these when the process starts
_FIXED = frozenset(
    (
        "FLAGS_dump_chunk_info",
        "FLAGS_free_idle_chunk",
        "FLAGS_free_when_no_cache_hit",
        "FLAGS_print_allocator_trace_info",
    )
)


class _Flags:
    """The flags as a mapping by full name; writing an entry sets the flag."""

    def __getitem__(self, name: str) -> Any:
        return get_flags(name)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name in _FIXED:
            raise errors.bad(f"globals()[{name!r}]", "a flag that can be set at run time", name, kind=RuntimeError)
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


def op_support_gpu(op_type: str) -> bool:
    """Whether an operator can be computed on a GPU: XLA computes all of them there.

    >>> bireme.base.core.op_support_gpu("layer_norm")
    True
    """
    return True


def default_cpu_generator() -> Generator:
    """Where random numbers come from.

    >>> bireme.base.core.default_cpu_generator().manual_seed(3).initial_seed()
    3
    """
    return default_generator()


def default_cuda_generator(device_id: int = -1) -> Generator:
    """Where random numbers come from, on GPUs too: there is one stream for all devices.

    >>> bireme.base.core.default_cuda_generator(0) is bireme.base.core.default_cpu_generator()
    True
    """
    return default_generator()


def size_of_dtype(dtype: Any) -> int:
    """Bytes of one element.

    >>> bireme.base.core.size_of_dtype(bireme.float32)
    4
    """
    return dtypes.of(dtype, "size_of_dtype(dtype)").itemsize


def frombuffer(buffer: Any, dtype: Any, count: int = -1, offset: int = 0) -> Tensor:
    """A 1-D tensor of the `count` (-1: all) elements that lie in `buffer` behind its first `offset` bytes; it has them
    for itself.

    >>> bireme.base.core.frombuffer(bytes([1, 0, 2, 0]), bireme.int16).tolist()
    [1, 2]
    """
    kind = dtypes.of(dtype, "frombuffer(dtype)")
    try:
        found = np.frombuffer(buffer, np.uint8)
    except TypeError:
        raise errors.bad("frombuffer(buffer)", "a bytes-like object", buffer, kind=errors.ArgumentTypeError) from None
    if not 0 <= offset <= len(found):
        raise errors.bad("frombuffer(offset)", f"an offset in [0, {len(found)}]", offset)
    whole, rest = divmod(len(found) - offset, kind.itemsize)
    if count == -1 and rest:
        raise errors.bad(
            "frombuffer(buffer)",
            f"a multiple of the itemsize {kind.itemsize}",
            described=f"{len(found) - offset} bytes",
        )
    if not -1 <= count <= whole:
        raise errors.bad("frombuffer(count)", f"at most {whole}, the number of {kind.name} elements", count)
    return Tensor(found[offset : offset + kind.itemsize * (whole if count == -1 else count)].copy().view(kind.np))


LoDTensor = DenseTensor


# whether Paddle takes operators apart before it differentiates them: here every operator has derivatives of any
# order, so it changes nothing
_apart = {"eager": False, "forward": False, "backward": False}


def set_prim_eager_enabled(flag: bool) -> None:
    """Ask for operators taken apart in the dynamic mode; derivatives are the same either way.

    Args:
        flag: What ``_is_eager_prim_enabled()`` answers from now on.

    Examples:
        >>> bireme.base.core.set_prim_eager_enabled(False)
    """
    _apart["eager"] = bool(flag)


def _set_prim_forward_enabled(flag: bool) -> None:
    _apart["forward"] = bool(flag)


def _set_prim_backward_enabled(flag: bool) -> None:
    _apart["backward"] = bool(flag)


def _set_prim_all_enabled(flag: bool) -> None:
    _apart["forward"] = _apart["backward"] = bool(flag)


def _is_eager_prim_enabled() -> bool:
    return _apart["eager"]


def _is_fwd_prim_enabled() -> bool:
    return _apart["forward"]


def _is_bwd_prim_enabled() -> bool:
    return _apart["backward"]


def _is_all_prim_enabled() -> bool:
    return _apart["forward"] and _apart["backward"]
