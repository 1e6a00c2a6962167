"""torch's Unfold: the layer of Paddle with torch's names."""

from __future__ import annotations

from typing import Any

from bireme import nn
from bireme.core.tensor.tensor import Tensor


class Unfold(nn.Unfold):
    """Extracts sliding blocks of an image: ``bireme.nn.Unfold`` with the parameter names of PyTorch.

    Args:
        kernel_size: Size of a block, an int or a pair.
        dilation: Distance between the elements of a block, an int or a pair. Default: 1.
        padding: Padding with zeros on all sides, an int, a pair or four ints. Default: 0.
        stride: Distance between two blocks, an int or a pair. Default: 1.

    Examples:
        >>> bireme.compat.Unfold(kernel_size=[1, 2])(bireme.to_tensor([[[[1.0, 2.0, 3.0]]]])).tolist()
        [[[1.0, 2.0], [2.0, 3.0]]]
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1):
        super().__init__(kernel_size, dilation, padding, stride)

    def forward(self, input: Tensor) -> Tensor:
        """Extract the blocks.

        Args:
            input: Images of shape [N, C, H, W].

        Returns:
            A tensor of shape [N, C * block size, number of blocks].
        """
        return super().forward(input)
