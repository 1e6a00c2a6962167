"""Dropout of whole slices, under the name of Paddle's fused kernel."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.nn import Dropout


class FusedDropout(Dropout):
    """`nn.Dropout`: elements along `axis` are dropped each on its own, those along all other axes together.

    >>> layer = bireme.incubate.nn.FusedDropout(0.5, axis=[0]).eval()
    >>> layer(bireme.to_tensor([[1.0, 2.0]])).tolist(), layer
    ([[1.0, 2.0]], FusedDropout(p=0.5, axis=[0], mode=upscale_in_train))
    """

    def __init__(self, p: float = 0.5, axis: Any = None, mode: str = "upscale_in_train", name: str | None = None):
        if axis is not None and not isinstance(axis, (int, list, tuple)):
            raise errors.bad("FusedDropout(axis)", "an integer, a list of them or None", axis, kind=TypeError)
        super().__init__(p, [axis] if isinstance(axis, int) else axis, mode, name)
