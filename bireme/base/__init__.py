"""Names that code written for Paddle takes from `paddle.base`, Paddle's own inner package."""

from bireme.base import core, data_feeder, dygraph, framework, param_attr, unique_name, wrapped_decorator
from bireme.base.dygraph import enable_dygraph
from bireme.base.framework import get_flags, in_dygraph_mode, in_dynamic_or_pir_mode, in_pir_mode, set_flags
from bireme.base.param_attr import ParamAttr
from bireme.core.device import CPUPlace, CUDAPinnedPlace, CUDAPlace, CustomPlace, IPUPlace, XPUPinnedPlace, XPUPlace
from bireme.device import device_guard, is_compiled_with_cinn, is_compiled_with_cuda, is_compiled_with_rocm, is_compiled_with_xpu

__all__ = [
    "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "CustomPlace", "IPUPlace", "ParamAttr", "XPUPinnedPlace", "XPUPlace", "core",
    "data_feeder", "device_guard", "dygraph", "enable_dygraph", "framework", "get_flags", "in_dygraph_mode", "in_dynamic_or_pir_mode",
    "in_pir_mode", "is_compiled_with_cinn", "is_compiled_with_cuda", "is_compiled_with_rocm", "is_compiled_with_xpu", "param_attr",
    "set_flags", "unique_name", "wrapped_decorator",
]  # fmt: skip
