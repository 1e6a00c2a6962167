"""Mixed precision: casting where it pays, scaling the loss where half precision would lose its gradients."""

from bireme.amp import debugging
from bireme.amp.amp_lists import black_list as black_list
from bireme.amp.amp_lists import white_list as white_list
from bireme.amp.auto_cast import amp_decorate as amp_decorate
from bireme.amp.auto_cast import (
    amp_guard,
    auto_cast,
    decorate,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    get_autocast_gpu_dtype,
    is_autocast_enabled,
    is_bfloat16_supported,
    is_float16_supported,
)
from bireme.amp.grad_scaler import AmpScaler as AmpScaler
from bireme.amp.grad_scaler import GradScaler

__all__ = [
    "debugging", "GradScaler", "amp_guard", "auto_cast", "decorate", "get_autocast_cpu_dtype", "get_autocast_dtype",
    "get_autocast_gpu_dtype", "is_autocast_enabled", "is_bfloat16_supported", "is_float16_supported",
]  # fmt: skip
