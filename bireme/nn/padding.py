"""Layers that pad sequences, images and volumes."""

from __future__ import annotations

import numbers
from collections.abc import Sequence

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.ops import pad


class _Pad(Layer):
    _count = 0

    def __init__(
        self,
        padding: int | Sequence[int] | Tensor,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        if isinstance(padding, Tensor):
            padding = padding.tolist()
        if isinstance(padding, numbers.Integral):
            padding = [padding] * (2 * self._count)
        if not isinstance(padding, (list, tuple)):
            raise errors.bad(
                f"{type(self).__name__}(padding)",
                "an integer or a list of integers",
                padding,
                kind=errors.ArgumentTypeError,
            )
        self._pad = list(padding)
        self._mode = mode
        self._value = value
        self._data_format = data_format
        self._name = name

    def forward(self, x: Tensor) -> Tensor:
        """Pad the input.

        Args:
            x: Tensor in ``data_format``.

        Returns:
            Tensor whose spatial axes have grown by the padding.
        """
        return pad(x, self._pad, mode=self._mode, value=self._value, data_format=self._data_format)

    def extra_repr(self) -> str:
        name = f", name={self._name}" if self._name else ""
        return f"padding={self._pad}, mode={self._mode}, value={self._value}, data_format={self._data_format}{name}"


class Pad1D(_Pad):
    """Pads sequences at both ends.

    Args:
        padding: ``[left, right]``, or one integer for both; negative numbers crop.
        mode: ``'constant'`` fills with ``value``, ``'reflect'`` mirrors the input without repeating its edge,
            ``'replicate'`` repeats the edge, ``'circular'`` continues from the other end. Default: ``'constant'``.
        value: What ``'constant'`` fills with. Default: 0.0.
        data_format: ``'NCL'`` or ``'NLC'``. Default: ``'NCL'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C, L]``
        - output: ``[N, C, left + L + right]``

    Examples:
        >>> bireme.nn.Pad1D(1, mode="replicate")(bireme.to_tensor([[[1.0, 2.0]]])).tolist()
        [[[1.0, 1.0, 2.0, 2.0]]]
    """

    _count = 1

    def __init__(
        self,
        padding: int | Sequence[int] | Tensor,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCL",
        name: str | None = None,
    ):
        super().__init__(padding, mode, value, data_format, name)


class Pad2D(_Pad):
    """Pads images at all four edges.

    Args:
        padding: ``[left, right, top, bottom]``, or one integer for all; negative numbers crop.
        mode: ``'constant'`` fills with ``value``, ``'reflect'`` mirrors the input without repeating its edge,
            ``'replicate'`` repeats the edge, ``'circular'`` continues from the other end. Default: ``'constant'``.
        value: What ``'constant'`` fills with. Default: 0.0.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]``
        - output: ``[N, C, top + H + bottom, left + W + right]``

    Examples:
        >>> bireme.nn.Pad2D([1, 0, 0, 0], value=5.0)(bireme.ones([1, 1, 1, 1])).tolist()
        [[[[5.0, 1.0]]]]
    """

    _count = 2


class Pad3D(_Pad):
    """Pads volumes at all six faces.

    Args:
        padding: ``[left, right, top, bottom, front, back]``, or one integer for all; negative numbers crop.
        mode: ``'constant'`` fills with ``value``, ``'reflect'`` mirrors the input without repeating its edge,
            ``'replicate'`` repeats the edge, ``'circular'`` continues from the other end. Default: ``'constant'``.
        value: What ``'constant'`` fills with. Default: 0.0.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C, D, H, W]``
        - output: ``[N, C, front + D + back, top + H + bottom, left + W + right]``

    Examples:
        >>> bireme.nn.Pad3D(1)(bireme.ones([1, 1, 1, 1, 1])).shape
        [1, 1, 3, 3, 3]
    """

    _count = 3

    def __init__(
        self,
        padding: int | Sequence[int] | Tensor,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCDHW",
        name: str | None = None,
    ):
        super().__init__(padding, mode, value, data_format, name)


class _ZeroPad(_Pad):
    def __init__(self, padding: int | Sequence[int] | Tensor, data_format: str = "NCHW", name: str | None = None):
        super().__init__(padding, "constant", 0.0, data_format, name)

    def extra_repr(self) -> str:
        name = f", name={self._name}" if self._name else ""
        return f"padding={self._pad}, data_format={self._data_format}{name}"


class ZeroPad1D(_ZeroPad):
    """Pads sequences with zeros at both ends.

    Args:
        padding: ``[left, right]``, or one integer for both; negative numbers crop.
        data_format: ``'NCL'`` or ``'NLC'``. Default: ``'NCL'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C, L]``
        - output: ``[N, C, left + L + right]``

    Examples:
        >>> bireme.nn.ZeroPad1D([1, 0])(bireme.ones([1, 1, 1])).tolist()
        [[[0.0, 1.0]]]
    """

    _count = 1

    def __init__(self, padding: int | Sequence[int] | Tensor, data_format: str = "NCL", name: str | None = None):
        super().__init__(padding, data_format, name)


class ZeroPad2D(_ZeroPad):
    """Pads images with zeros at all four edges.

    Args:
        padding: ``[left, right, top, bottom]``, or one integer for all; negative numbers crop.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]``
        - output: ``[N, C, top + H + bottom, left + W + right]``

    Examples:
        >>> bireme.nn.ZeroPad2D([1, 0, 0, 0])(bireme.ones([1, 1, 1, 1])).tolist()
        [[[[0.0, 1.0]]]]
    """

    _count = 2


class ZeroPad3D(_ZeroPad):
    """Pads volumes with zeros at all six faces.

    Args:
        padding: ``[left, right, top, bottom, front, back]``, or one integer for all; negative numbers crop.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, C, D, H, W]``
        - output: ``[N, C, front + D + back, top + H + bottom, left + W + right]``

    Examples:
        >>> bireme.nn.ZeroPad3D(1)(bireme.ones([1, 1, 1, 1, 1])).shape
        [1, 1, 3, 3, 3]
    """

    _count = 3

    def __init__(self, padding: int | Sequence[int] | Tensor, data_format: str = "NCDHW", name: str | None = None):
        super().__init__(padding, data_format, name)
