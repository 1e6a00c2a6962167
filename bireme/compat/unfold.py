"""torch's Unfold: the layer of Paddle with torch's names."""

from __future__ import annotations

from typing import Any

from bireme import nn
from bireme.core.tensor.tensor import Tensor


class Unfold(nn.Unfold):
    """`bireme.nn.Unfold` with the keywords that torch has.

    >>> bireme.compat.Unfold(kernel_size=[1, 2])(bireme.to_tensor([[[[1.0, 2.0, 3.0]]]])).tolist()
    [[[1.0, 2.0], [2.0, 3.0]]]
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1):
        super().__init__(kernel_size, dilation, padding, stride)

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input)
