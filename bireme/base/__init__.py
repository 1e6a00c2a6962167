"""Names that code written for Paddle takes from `paddle.base`, Paddle's own inner package."""

from bireme.base import core, data_feeder, dygraph, framework, io, param_attr, reader, unique_name, wrapped_decorator
from bireme.base.core import DenseTensor
from bireme.base.dygraph import disable_dygraph, enable_dygraph
from bireme.base.framework import (
    cpu_places,
    cuda_pinned_places,
    cuda_places,
    get_flags,
    in_dygraph_mode,
    in_dynamic_or_pir_mode,
    in_pir_mode,
    set_flags,
)
from bireme.base.lod_tensor import create_lod_tensor, create_random_int_lodtensor
from bireme.base.param_attr import ParamAttr
from bireme.core.base.device import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    CustomPlace,
    IPUPlace,
    XPUPinnedPlace,
    XPUPlace,
)
from bireme.device import (
    device_guard,
    is_compiled_with_cinn,
    is_compiled_with_cuda,
    is_compiled_with_rocm,
    is_compiled_with_xpu,
)

enable_imperative, disable_imperative = enable_dygraph, disable_dygraph
Variable = framework.Variable
Tensor = DenseTensor  # the name that Paddle has here; a tensor of the dynamic mode is `paddle.Tensor`

__all__ = [
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "CustomPlace",
    "DenseTensor",
    "IPUPlace",
    "ParamAttr",
    "Tensor",
    "XPUPinnedPlace",
    "XPUPlace",
    "core",
    "cpu_places",
    "cuda_pinned_places",
    "cuda_places",
    "data_feeder",
    "device_guard",
    "disable_dygraph",
    "disable_imperative",
    "dygraph",
    "enable_dygraph",
    "enable_imperative",
    "framework",
    "get_flags",
    "in_dygraph_mode",
    "in_dynamic_or_pir_mode",
    "in_pir_mode",
    "io",
    "is_compiled_with_cinn",
    "is_compiled_with_cuda",
    "is_compiled_with_rocm",
    "is_compiled_with_xpu",
    "param_attr",
    "reader",
    "set_flags",
    "unique_name",
    "wrapped_decorator",
]
