"""Attention under the names of Paddle's flash kernels: a list of names, and the choice of a kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from bireme.core.base import errors
from bireme.ops import (
    flash_attention,
    flash_attention_v3_varlen,
    flash_attn_qkvpacked,
    flash_attn_unpadded,
    flash_attn_varlen_qkvpacked,
    flashmask_attention,
    scaled_dot_product_attention,
)

__all__ = [
    "flash_attention",
    "flash_attention_v3_varlen",
    "flash_attn_qkvpacked",
    "flash_attn_unpadded",
    "flash_attn_varlen_func",
    "flash_attn_varlen_qkvpacked",
    "flashmask_attention",
    "scaled_dot_product_attention",
    "sdp_kernel",
]

flash_attn_varlen_func = flash_attention_v3_varlen


@contextlib.contextmanager
def sdp_kernel(
    enable_math: bool = False, enable_flash: bool = True, enable_mem_efficient: bool = True
) -> Iterator[None]:
    """Context manager that names the kernels attention may use.

    It has no effect: the implementation follows from the shapes, and all give the same numbers.

    Args:
        enable_math: Allow the plain computation. Default: False.
        enable_flash: Allow flash attention. Default: True.
        enable_mem_efficient: Allow memory-efficient attention. Default: True.

    Yields:
        None.

    Examples:
        >>> with bireme.nn.functional.flash_attention.sdp_kernel(enable_math=True):
        ...     bireme.nn.functional.scaled_dot_product_attention(*[bireme.ones([1, 1, 1, 2])] * 3).tolist()
        [[[[1.0, 1.0]]]]
    """
    if not (enable_math or enable_flash or enable_mem_efficient):
        raise errors.bad(
            "sdp_kernel()",
            "at least one enabled kernel for scaled_dot_product_attention",
            described="all three disabled",
            kind=errors.ArgumentError,
        )
    yield
