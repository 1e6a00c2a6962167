"""Layers on images: other sizes, and pixels moved between channels and space."""

from __future__ import annotations

import numbers
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.ops import channel_shuffle, interpolate, pixel_shuffle, pixel_unshuffle


class Upsample(Layer):
    """Gives images, sequences or volumes another size by interpolation.

    >>> bireme.nn.Upsample(scale_factor=2)(bireme.to_tensor([[[[1.0]]]])).tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool = False,
        align_mode: int = 0,
        data_format: str | None = None,
        recompute_scale_factor: bool | None = None,
        name: str | None = None,
    ):
        super().__init__()
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode.lower(), align_corners
        self.align_mode, self.data_format, self.recompute_scale_factor, self.name = align_mode, data_format, recompute_scale_factor, name

    def forward(self, x: Tensor) -> Tensor:
        return interpolate(
            x, self.size, self.scale_factor, self.mode, self.align_corners, self.align_mode, self.data_format, self.recompute_scale_factor
        )  # fmt: skip

    def extra_repr(self) -> str:
        main = f"scale_factor={self.scale_factor}" if self.scale_factor is not None else f"size={self.size}"
        name = f", name={self.name}" if self.name else ""
        rest = f"mode={self.mode}, align_corners={self.align_corners}, align_mode={self.align_mode}, data_format={self.data_format}"
        return f"{main}, {rest}{name}"


class _Upsampling(Layer):
    _mode, _align = "nearest", False

    def __init__(self, size: Any = None, scale_factor: Any = None, data_format: str = "NCHW", name: str | None = None):
        super().__init__()
        self.size = [size, size] if isinstance(size, numbers.Integral) else size
        self.scale_factor, self.data_format, self.name = scale_factor, data_format, name

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 4:
            raise errors.bad(f"{type(self).__name__}(x)", "images of 4 axes", f"shape {x.shape}")
        return interpolate(x, self.size, self.scale_factor, self._mode, self._align, 0, self.data_format)

    def extra_repr(self) -> str:
        main = f"scale_factor={self.scale_factor}" if self.scale_factor is not None else f"size={self.size}"
        name = f", name={self.name}" if self.name else ""
        return f"{main}, data_format={self.data_format}{name}"


class UpsamplingNearest2D(_Upsampling):
    """Gives images another size; each pixel is that of the nearest place.

    >>> bireme.nn.UpsamplingNearest2D(size=[1, 2])(bireme.to_tensor([[[[1.0]]]])).tolist()
    [[[[1.0, 1.0]]]]
    """


class UpsamplingBilinear2D(_Upsampling):
    """Gives images another size by bilinear interpolation; the corners keep their place.

    >>> bireme.nn.UpsamplingBilinear2D(size=[1, 3])(bireme.to_tensor([[[[1.0, 3.0]]]])).tolist()
    [[[[1.0, 2.0, 3.0]]]]
    """

    _mode, _align = "bilinear", True


def _checked(layer: Layer, which: str, n: Any, data_format: Any) -> int:
    name = type(layer).__name__
    if isinstance(n, bool) or not isinstance(n, int):
        raise errors.bad(f"{name}({which})", "an integer", n, kind=TypeError)
    if n < 1:
        raise errors.bad(f"{name}({which})", "a number of 1 or more", n)
    if data_format not in ("NCHW", "NHWC"):
        raise errors.bad(f"{name}(data_format)", "NCHW or NHWC", data_format)
    return n


class _Moved(Layer):
    _what = ""

    def _said(self, n: int) -> str:
        layout = "" if self._data_format == "NCHW" else f", data_format={self._data_format}"
        name = f", name={self._name}" if self._name else ""
        return f"{self._what}={n}{layout}{name}"


class PixelShuffle(_Moved):
    """Makes a square of pixels of each factor**2 channels.

    >>> bireme.nn.PixelShuffle(2)(bireme.arange(4.0).reshape([1, 4, 1, 1])).tolist()
    [[[[0.0, 1.0], [2.0, 3.0]]]]
    """

    _what = "upscale_factor"

    def __init__(self, upscale_factor: int, data_format: str = "NCHW", name: str | None = None):
        super().__init__()
        self._upscale_factor = _checked(self, self._what, upscale_factor, data_format)
        self._data_format, self._name = data_format, name

    def forward(self, x: Tensor) -> Tensor:
        return pixel_shuffle(x, self._upscale_factor, self._data_format)

    def extra_repr(self) -> str:
        return self._said(self._upscale_factor)


class PixelUnshuffle(_Moved):
    """Makes factor**2 channels of each square of pixels.

    >>> bireme.nn.PixelUnshuffle(2)(bireme.arange(4.0).reshape([1, 1, 2, 2])).flatten().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """

    _what = "downscale_factor"

    def __init__(self, downscale_factor: int, data_format: str = "NCHW", name: str | None = None):
        super().__init__()
        self._downscale_factor = _checked(self, self._what, downscale_factor, data_format)
        self._data_format, self._name = data_format, name

    def forward(self, x: Tensor) -> Tensor:
        return pixel_unshuffle(x, self._downscale_factor, self._data_format)

    def extra_repr(self) -> str:
        return self._said(self._downscale_factor)


class ChannelShuffle(_Moved):
    """Deals channels out over groups: the first of each group, then the second of each, and so on.

    >>> bireme.nn.ChannelShuffle(2)(bireme.arange(4.0).reshape([1, 4, 1, 1])).flatten().tolist()
    [0.0, 2.0, 1.0, 3.0]
    """

    _what = "groups"

    def __init__(self, groups: int, data_format: str = "NCHW", name: str | None = None):
        super().__init__()
        self._groups = _checked(self, self._what, groups, data_format)
        self._data_format, self._name = data_format, name

    def forward(self, x: Tensor) -> Tensor:
        return channel_shuffle(x, self._groups, self._data_format)

    def extra_repr(self) -> str:
        return self._said(self._groups)
