"""Layers that grow sequences, images and volumes at their edges."""

from __future__ import annotations

import numbers
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.ops import pad


class _Pad(Layer):
    _count = 0

    def __init__(self, padding: Any, mode: str = "constant", value: float = 0.0, data_format: str = "NCHW", name: str | None = None):
        super().__init__()
        if isinstance(padding, Tensor):
            padding = padding.tolist()
        if isinstance(padding, numbers.Integral):
            padding = [padding] * (2 * self._count)
        if not isinstance(padding, (list, tuple)):
            raise errors.bad(f"{type(self).__name__}(padding)", "an integer or a list of them", padding, kind=TypeError)
        self._pad, self._mode, self._value, self._data_format, self._name = list(padding), mode, value, data_format, name

    def forward(self, x: Tensor) -> Tensor:
        return pad(x, self._pad, mode=self._mode, value=self._value, data_format=self._data_format)

    def extra_repr(self) -> str:
        name = f", name={self._name}" if self._name else ""
        return f"padding={self._pad}, mode={self._mode}, value={self._value}, data_format={self._data_format}{name}"


class Pad1D(_Pad):
    """Grows sequences at both ends, with a value, mirrored, with the last element, or around the circle.

    >>> bireme.nn.Pad1D(1, mode="replicate")(bireme.to_tensor([[[1.0, 2.0]]])).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """

    _count = 1

    def __init__(self, padding: Any, mode: str = "constant", value: float = 0.0, data_format: str = "NCL", name: str | None = None):
        super().__init__(padding, mode, value, data_format, name)


class Pad2D(_Pad):
    """Grows images left, right, at the top and at the bottom.

    >>> bireme.nn.Pad2D([1, 0, 0, 0], value=5.0)(bireme.ones([1, 1, 1, 1])).tolist()
    [[[[5.0, 1.0]]]]
    """

    _count = 2


class Pad3D(_Pad):
    """Grows volumes left, right, at the top, at the bottom, in front and behind.

    >>> bireme.nn.Pad3D(1)(bireme.ones([1, 1, 1, 1, 1])).shape
    [1, 1, 3, 3, 3]
    """

    _count = 3

    def __init__(self, padding: Any, mode: str = "constant", value: float = 0.0, data_format: str = "NCDHW", name: str | None = None):
        super().__init__(padding, mode, value, data_format, name)


class _ZeroPad(_Pad):
    def __init__(self, padding: Any, data_format: str = "NCHW", name: str | None = None):
        super().__init__(padding, "constant", 0.0, data_format, name)

    def extra_repr(self) -> str:
        name = f", name={self._name}" if self._name else ""
        return f"padding={self._pad}, data_format={self._data_format}{name}"


class ZeroPad1D(_ZeroPad):
    """Puts zeros at both ends of sequences.

    >>> bireme.nn.ZeroPad1D([1, 0])(bireme.ones([1, 1, 1])).tolist()
    [[[0.0, 1.0]]]
    """

    _count = 1

    def __init__(self, padding: Any, data_format: str = "NCL", name: str | None = None):
        super().__init__(padding, data_format, name)


class ZeroPad2D(_ZeroPad):
    """Puts zeros around images: left, right, top, bottom.

    >>> bireme.nn.ZeroPad2D([1, 0, 0, 0])(bireme.ones([1, 1, 1, 1])).tolist()
    [[[[0.0, 1.0]]]]
    """

    _count = 2


class ZeroPad3D(_ZeroPad):
    """Puts zeros around volumes: left, right, top, bottom, front, back.

    >>> bireme.nn.ZeroPad3D(1)(bireme.ones([1, 1, 1, 1, 1])).shape
    [1, 1, 3, 3, 3]
    """

    _count = 3

    def __init__(self, padding: Any, data_format: str = "NCDHW", name: str | None = None):
        super().__init__(padding, data_format, name)
