"""Dropout of whole slices, under the name of Paddle's fused kernel."""

from __future__ import annotations

from collections.abc import Sequence

from bireme.core.base import errors
from bireme.nn import Dropout


class FusedDropout(Dropout):
    """``bireme.nn.Dropout`` under the name of Paddle's fused kernel.

    Args:
        p: Probability of an element to be set to zero, in ``[0, 1]``. Default: 0.5.
        axis: Axes along which elements are dropped independently; along all other axes they are dropped together.
            Default: None, every element independently.
        mode: ``'upscale_in_train'`` divides what is kept by ``1 - p`` while training; ``'downscale_in_infer'``
            multiplies by ``1 - p`` in evaluation instead. Default: ``'upscale_in_train'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Examples:
        >>> layer = bireme.incubate.nn.FusedDropout(0.5, axis=[0]).eval()
        >>> layer(bireme.to_tensor([[1.0, 2.0]])).tolist(), layer
        ([[1.0, 2.0]], FusedDropout(p=0.5, axis=[0], mode=upscale_in_train))
    """

    def __init__(
        self,
        p: float = 0.5,
        axis: int | Sequence[int] | None = None,
        mode: str = "upscale_in_train",
        name: str | None = None,
    ):
        if axis is not None and not isinstance(axis, (int, list, tuple)):
            raise errors.bad(
                "FusedDropout(axis)", "an integer, a list of integers or None", axis, kind=errors.ArgumentTypeError
            )
        super().__init__(p, [axis] if isinstance(axis, int) else axis, mode, name)
