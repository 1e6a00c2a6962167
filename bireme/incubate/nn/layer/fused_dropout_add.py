"""Dropout with an addition after it."""

from __future__ import annotations

from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.ops import fused_dropout_add


class FusedDropoutAdd(Layer):
    """Dropout followed by an addition: ``dropout(x) + y``.

    The compiler fuses the two operators; the result is that of ``Dropout`` and ``+``.

    Args:
        p: Probability of an element to be set to zero, in ``[0, 1]``. Default: 0.5.
        mode: ``'upscale_in_train'`` divides what is kept by ``1 - p`` while training; ``'downscale_in_infer'``
            multiplies by ``1 - p`` in evaluation instead. Default: ``'upscale_in_train'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: any shape
        - y: a shape that broadcasts with that of ``x``
        - output: the common shape

    Examples:
        >>> layer = bireme.incubate.nn.FusedDropoutAdd(0.5).eval()
        >>> layer(bireme.to_tensor([1.0]), bireme.to_tensor([2.0])).tolist()
        [3.0]
    """

    def __init__(self, p: float = 0.5, mode: str = "upscale_in_train", name: str | None = None):
        super().__init__()
        self.p, self.mode, self.name = p, mode, name

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Compute ``dropout(x) + y``.

        Args:
            x: Floating tensor, to which dropout is applied.
            y: Tensor that is added.

        Returns:
            Tensor of the common shape.
        """
        return fused_dropout_add(x, y, self.p, self.training, self.mode)

    def extra_repr(self) -> str:
        """Return what ``repr`` shows between the parentheses.

        Examples:
            >>> bireme.incubate.nn.FusedDropoutAdd().extra_repr()
            'p=0.5, mode=upscale_in_train'
        """
        return f"p={self.p}, mode={self.mode}" + (f", name={self.name}" if self.name else "")
