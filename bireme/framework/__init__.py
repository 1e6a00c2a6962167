"""Names that code written for Paddle takes from `paddle.framework`; each is defined elsewhere."""

from bireme.autograd import no_grad
from bireme.base import core
from bireme.base.framework import (
    _current_expected_place,
    _current_expected_place_,
    _dygraph_tracer,
    _get_paddle_place,
    _global_flags,
    _set_expected_place,
    convert_np_dtype_to_dtype_,
    dygraph_only,
    in_dynamic_or_pir_mode,
    in_pir_executor_mode,
    in_pir_mode,
    use_pir_api,
)  # fmt: skip
from bireme.core.base.device import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    CustomPlace,
    IPUPlace,
    XPUPinnedPlace,
    XPUPlace,
)
from bireme.core.base.flags import get_flags, set_flags
from bireme.core.base.random_state import seed
from bireme.core.tensor.backward import grad
from bireme.core.tensor.parameter import Parameter
from bireme.defaults import (
    disable_signal_handler,
    disable_static,
    enable_static,
    get_default_dtype,
    in_dynamic_mode,
    set_default_dtype,
)
from bireme.files import load, save
from bireme.framework import random
from bireme.param_attr import ParamAttr

__all__ = [
    "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "CustomPlace", "IPUPlace", "ParamAttr", "Parameter", "XPUPinnedPlace",
    "XPUPlace", "_current_expected_place", "_current_expected_place_", "_dygraph_tracer", "_get_paddle_place",
    "_global_flags", "_set_expected_place", "convert_np_dtype_to_dtype_", "core", "disable_signal_handler",
    "disable_static", "dygraph_only", "enable_static", "get_default_dtype", "get_flags", "grad", "in_dynamic_mode",
    "in_dynamic_or_pir_mode", "in_pir_executor_mode", "in_pir_mode", "load", "no_grad", "random", "save", "seed",
    "set_default_dtype", "set_flags", "use_pir_api",
]  # fmt: skip
