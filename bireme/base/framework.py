"""Names that code written for Paddle takes from `paddle.base.framework`: questions about the mode, the place and types."""

from __future__ import annotations

from typing import Any

from bireme.base import core
from bireme.core import device as devices
from bireme.core import dtype as dtypes
from bireme.core.device import Place
from bireme.core.flags import get_flags, set_flags
from bireme.core.tensor import Parameter
from bireme.defaults import in_dynamic_mode
from bireme.device import is_compiled_with_cinn, is_compiled_with_cuda, is_compiled_with_rocm, is_compiled_with_xpu

EagerParamBase = Parameter
in_dygraph_mode = in_dynamic_or_pir_mode = in_dynamic_mode

__all__ = [
    "EagerParamBase", "Parameter", "_current_expected_place", "_current_expected_place_", "convert_np_dtype_to_dtype_", "core", "get_flags",
    "in_cinn_mode", "in_dygraph_mode", "in_dynamic_mode", "in_dynamic_or_pir_mode", "in_pir_executor_mode", "in_pir_mode",
    "is_compiled_with_cinn", "is_compiled_with_cuda", "is_compiled_with_rocm", "is_compiled_with_xpu", "set_flags", "use_pir_api",
]  # fmt: skip


def _current_expected_place() -> Place:
    """Where new tensors are made."""
    return devices.current().place


_current_expected_place_ = _current_expected_place


def convert_np_dtype_to_dtype_(np_dtype: Any) -> dtypes.DType:
    """The type that a NumPy type or a name means."""
    return dtypes.of(np_dtype, "convert_np_dtype_to_dtype_(np_dtype)")


def in_pir_mode() -> bool:
    """Whether a static program of Paddle's own form is being written: never."""
    return False


in_pir_executor_mode = in_cinn_mode = use_pir_api = in_pir_mode
