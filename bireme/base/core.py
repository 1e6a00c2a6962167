"""Names that code written for Paddle takes from `paddle.base.core`: places, and what was built in."""

from types import SimpleNamespace

from bireme.core.device import CPUPlace, CUDAPinnedPlace, CUDAPlace, CustomPlace, IPUPlace, Place, XPUPinnedPlace, XPUPlace
from bireme.core.tensor import Tensor
from bireme.device import (
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
    "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "CustomPlace", "IPUPlace", "Place", "XPUPinnedPlace", "XPUPlace", "eager",
    "is_compiled_with_cuda", "is_compiled_with_custom_device", "is_compiled_with_dist", "is_compiled_with_ipu", "is_compiled_with_rocm",
    "is_compiled_with_xpu",
]  # fmt: skip
