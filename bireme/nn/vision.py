"""Layers on images: resizing, and pixels moved between channels and space."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import Sizes, must_be_positive
from bireme.nn.layer import Layer
from bireme.ops import channel_shuffle, interpolate, pixel_shuffle, pixel_unshuffle


class Upsample(Layer):
    """Resizes sequences, images or volumes by interpolation.

    Args:
        size: Size of the spatial axes of the output, one integer or one for each; either this or ``scale_factor``.
            Default: None.
        scale_factor: Factor of the sizes, one number or one for each spatial axis; fractions of the result are cut off.
            Default: None.
        mode: ``'nearest'`` or ``'area'`` for inputs with three to five axes, ``'linear'`` for three, ``'bilinear'`` or
            ``'bicubic'`` for four, ``'trilinear'`` for five. Default: ``'nearest'``.
        align_corners: Map the centers of the corner elements onto each other, instead of the corners of the elements;
            not with ``'nearest'``. Default: False.
        align_mode: Without ``align_corners``, for the linear modes: 0 for ``src = scale * (dst + 0.5) - 0.5``, 1 for
            ``src = scale * dst``. Default: 0.
        data_format: ``'NCW'``, ``'NCHW'`` or ``'NCDHW'`` with channels first, ``'NWC'``, ``'NHWC'`` or ``'NDHWC'`` with
            channels last. Default: None, channels first.
        recompute_scale_factor: Interpolate with the ratio of the sizes instead of the given factor, which differs from
            it where the size was rounded; not with ``size``. Default: None, with the given factor.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C, L]``, ``[N, C, H, W]`` or ``[N, C, D, H, W]``
        - output: the same with ``size``, or ``scale_factor`` times the sizes

    Examples:
        >>> bireme.nn.Upsample(scale_factor=2)(bireme.to_tensor([[[[1.0, 2.0]]]])).tolist()
        [[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]]
    """

    def __init__(
        self,
        size: Sizes | Tensor | None = None,
        scale_factor: float | Sequence[float] | Tensor | None = None,
        mode: str = "nearest",
        align_corners: bool = False,
        align_mode: int = 0,
        data_format: str | None = None,
        recompute_scale_factor: bool | None = None,
        name: str | None = None,
    ):
        super().__init__()
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode.lower(), align_corners
        self.align_mode = align_mode
        self.data_format = data_format
        self.recompute_scale_factor = recompute_scale_factor
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        """Resize the input.

        Args:
            x: Tensor with three to five axes, in ``data_format``.

        Returns:
            Tensor of the asked spatial size.
        """
        return interpolate(
            x,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            self.align_mode,
            self.data_format,
            self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        main = f"scale_factor={self.scale_factor}" if self.scale_factor is not None else f"size={self.size}"
        name = f", name={self.name}" if self.name else ""
        rest = f"mode={self.mode}, align_corners={self.align_corners}, align_mode={self.align_mode}, data_format={self.data_format}"
        return f"{main}, {rest}{name}"


class _Upsampling(Layer):
    _mode, _align = "nearest", False

    def __init__(
        self,
        size: Sizes | Tensor | None = None,
        scale_factor: float | Sequence[float] | Tensor | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        self.size = [size, size] if isinstance(size, numbers.Integral) else size
        self.scale_factor, self.data_format, self.name = scale_factor, data_format, name

    def forward(self, x: Tensor) -> Tensor:
        """Resize images.

        Args:
            x: Tensor with four axes, in ``data_format``.

        Returns:
            Tensor of the asked height and width.
        """
        if x.ndim != 4:
            raise errors.bad(
                f"{type(self).__name__}(x)", "a 4-D tensor", described=f"shape {x.shape}", kind=errors.ShapeError
            )
        return interpolate(x, self.size, self.scale_factor, self._mode, self._align, 0, self.data_format)

    def extra_repr(self) -> str:
        main = f"scale_factor={self.scale_factor}" if self.scale_factor is not None else f"size={self.size}"
        name = f", name={self.name}" if self.name else ""
        return f"{main}, data_format={self.data_format}{name}"


class UpsamplingNearest2D(_Upsampling):
    """Resizes images; each pixel takes the value of the nearest one.

    Args:
        size: Height and width of the output, or one integer for both; either this or ``scale_factor``. Default: None.
        scale_factor: Factor of the sizes, one number or one for each spatial axis; fractions of the result are cut off.
            Default: None.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]``
        - output: ``[N, C, *size]``

    Examples:
        >>> bireme.nn.UpsamplingNearest2D(size=[1, 2])(bireme.to_tensor([[[[1.0]]]])).tolist()
        [[[[1.0, 1.0]]]]
    """


class UpsamplingBilinear2D(_Upsampling):
    """Resizes images by bilinear interpolation with aligned corners.

    Args:
        size: Height and width of the output, or one integer for both; either this or ``scale_factor``. Default: None.
        scale_factor: Factor of the sizes, one number or one for each spatial axis; fractions of the result are cut off.
            Default: None.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]``
        - output: ``[N, C, *size]``

    Examples:
        >>> bireme.nn.UpsamplingBilinear2D(size=[1, 3])(bireme.to_tensor([[[[1.0, 3.0]]]])).tolist()
        [[[[1.0, 2.0, 3.0]]]]
    """

    _mode, _align = "bilinear", True


def _checked(layer: Layer, which: str, n: Any, data_format: Any) -> int:
    name = type(layer).__name__
    must_be_positive(name, **{which: n})
    if data_format not in ("NCHW", "NHWC"):
        raise errors.bad(f"{name}(data_format)", "'NCHW' or 'NHWC'", data_format)
    return n


class _Moved(Layer):
    _what = ""

    def _said(self, n: int) -> str:
        layout = "" if self._data_format == "NCHW" else f", data_format={self._data_format}"
        name = f", name={self._name}" if self._name else ""
        return f"{self._what}={n}{layout}{name}"


class PixelShuffle(_Moved):
    """Rearranges channels into space: each ``upscale_factor ** 2`` channels become a square of pixels.

    Args:
        upscale_factor: Factor of height and width; its square must divide the number of channels.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C * r * r, H, W]``, where ``r`` is ``upscale_factor``
        - output: ``[N, C, H * r, W * r]``

    Examples:
        >>> bireme.nn.PixelShuffle(2)(bireme.arange(4.0).reshape([1, 4, 1, 1])).tolist()
        [[[[0.0, 1.0], [2.0, 3.0]]]]
    """

    _what = "upscale_factor"

    def __init__(self, upscale_factor: int, data_format: str = "NCHW", name: str | None = None):
        super().__init__()
        self._upscale_factor = _checked(self, self._what, upscale_factor, data_format)
        self._data_format, self._name = data_format, name

    def forward(self, x: Tensor) -> Tensor:
        """Rearrange channels into space.

        Args:
            x: Tensor with four axes, in ``data_format``.

        Returns:
            Tensor with ``upscale_factor ** 2`` times fewer channels and as many times more pixels.
        """
        return pixel_shuffle(x, self._upscale_factor, self._data_format)

    def extra_repr(self) -> str:
        return self._said(self._upscale_factor)


class PixelUnshuffle(_Moved):
    """Rearranges space into channels, the inverse of ``PixelShuffle``.

    Args:
        downscale_factor: Divisor of height and width.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C, H * r, W * r]``, where ``r`` is ``downscale_factor``
        - output: ``[N, C * r * r, H, W]``

    Examples:
        >>> bireme.nn.PixelUnshuffle(2)(bireme.arange(4.0).reshape([1, 1, 2, 2])).flatten().tolist()
        [0.0, 1.0, 2.0, 3.0]
    """

    _what = "downscale_factor"

    def __init__(self, downscale_factor: int, data_format: str = "NCHW", name: str | None = None):
        super().__init__()
        self._downscale_factor = _checked(self, self._what, downscale_factor, data_format)
        self._data_format, self._name = data_format, name

    def forward(self, x: Tensor) -> Tensor:
        """Rearrange space into channels.

        Args:
            x: Tensor with four axes, in ``data_format``.

        Returns:
            Tensor with ``downscale_factor ** 2`` times more channels and as many times fewer pixels.
        """
        return pixel_unshuffle(x, self._downscale_factor, self._data_format)

    def extra_repr(self) -> str:
        return self._said(self._downscale_factor)


class ChannelShuffle(_Moved):
    """Interleaves groups of channels: the first channel of each group, then the second of each, and so on.

    Args:
        groups: Number of groups; it must divide the number of channels.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]``
        - output: the shape of ``x``

    Examples:
        >>> bireme.nn.ChannelShuffle(2)(bireme.arange(4.0).reshape([1, 4, 1, 1])).flatten().tolist()
        [0.0, 2.0, 1.0, 3.0]
    """

    _what = "groups"

    def __init__(self, groups: int, data_format: str = "NCHW", name: str | None = None):
        super().__init__()
        self._groups = _checked(self, self._what, groups, data_format)
        self._data_format, self._name = data_format, name

    def forward(self, x: Tensor) -> Tensor:
        """Interleave the channels.

        Args:
            x: Tensor with four axes, in ``data_format``.

        Returns:
            Tensor of the shape of ``x``.
        """
        return channel_shuffle(x, self._groups, self._data_format)

    def extra_repr(self) -> str:
        return self._said(self._groups)
