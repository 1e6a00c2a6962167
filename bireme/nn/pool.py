"""Pooling layers."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.ops import avg_pool2d, max_pool2d


class MaxPool2D(Layer):
    """Largest element of each window.

    >>> bireme.nn.MaxPool2D(2)(bireme.to_tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).tolist()
    [[[[4.0]]]]
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        self.ksize, self.stride, self.padding = kernel_size, stride, padding
        self.return_mask, self.ceil_mode, self.data_format, self.name = return_mask, ceil_mode, data_format, name

    def forward(self, x: Tensor) -> Any:
        return max_pool2d(x, self.ksize, self.stride, self.padding, self.return_mask, self.ceil_mode, self.data_format)

    def extra_repr(self) -> str:
        return f"kernel_size={self.ksize}, stride={self.stride}, padding={self.padding}"


class AvgPool2D(Layer):
    """Mean of each window; elements of the padding do not count unless `exclusive` is False.

    >>> bireme.nn.AvgPool2D(2)(bireme.to_tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).tolist()
    [[[[2.5]]]]
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        self.ksize, self.stride, self.padding, self.ceil_mode = kernel_size, stride, padding, ceil_mode
        self.exclusive, self.divisor, self.data_format, self.name = exclusive, divisor_override, data_format, name

    def forward(self, x: Tensor) -> Tensor:
        return avg_pool2d(x, self.ksize, self.stride, self.padding, self.ceil_mode, self.exclusive, self.divisor, self.data_format)

    def extra_repr(self) -> str:
        return f"kernel_size={self.ksize}, stride={self.stride}, padding={self.padding}"
