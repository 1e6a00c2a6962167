"""Dropout with an addition after it."""

from __future__ import annotations

from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.ops import fused_dropout_add


class FusedDropoutAdd(Layer):
    """`dropout(x) + y`.

    >>> layer = bireme.incubate.nn.FusedDropoutAdd(0.5).eval()
    >>> layer(bireme.to_tensor([1.0]), bireme.to_tensor([2.0])).tolist()
    [3.0]
    """

    def __init__(self, p: float = 0.5, mode: str = "upscale_in_train", name: str | None = None):
        super().__init__()
        self.p, self.mode, self.name = p, mode, name

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return fused_dropout_add(x, y, self.p, self.training, self.mode)

    def extra_repr(self) -> str:
        """What stands between the brackets when the layer is printed.

        >>> bireme.incubate.nn.FusedDropoutAdd().extra_repr()
        'p=0.5, mode=upscale_in_train'
        """
        return f"p={self.p}, mode={self.mode}" + (f", name={self.name}" if self.name else "")
