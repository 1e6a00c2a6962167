"""Pooling layers that are told the size of the result, and those that undo a pooling."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional as F  # as users write it
from bireme.nn.layer import Layer


class _Adaptive(Layer):
    def __init__(self, output_size: Any, data_format: str | None = None, name: str | None = None):
        super().__init__()
        self.output_size = self._output_size = output_size
        self._data_format, self._name = data_format, name

    def extra_repr(self) -> str:
        return f"output_size={self._output_size}"


class AdaptiveAvgPool1D(_Adaptive):
    """Mean over as many windows of a sequence as asked for.

    >>> bireme.nn.AdaptiveAvgPool1D(1)(bireme.to_tensor([[[1.0, 2.0]]])).tolist()
    [[[1.5]]]
    """

    def __init__(self, output_size: Any, name: str | None = None):
        super().__init__(output_size, None, name)

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self._output_size)


class AdaptiveAvgPool2D(_Adaptive):
    """Mean over as many windows of an image as asked for.

    >>> bireme.nn.AdaptiveAvgPool2D(1)(bireme.to_tensor([[[[1.0, 2.0]]]])).tolist()
    [[[[1.5]]]]
    """

    def __init__(self, output_size: Any, data_format: str = "NCHW", name: str | None = None):
        super().__init__(output_size, data_format, name)

    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x, self._output_size, self._data_format)


class AdaptiveAvgPool3D(_Adaptive):
    """Mean over as many windows of a volume as asked for.

    >>> bireme.nn.AdaptiveAvgPool3D(1)(bireme.to_tensor([[[[[1.0, 2.0]]]]])).tolist()
    [[[[[1.5]]]]]
    """

    def __init__(self, output_size: Any, data_format: str = "NCDHW", name: str | None = None):
        super().__init__(output_size, data_format, name)

    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(x, self._output_size, self._data_format)


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: Any, return_mask: bool = False, name: str | None = None):
        super().__init__(output_size, None, name)
        self.return_mask = self._return_mask = return_mask

    def extra_repr(self) -> str:
        return f"output_size={self._output_size}, return_mask={self._return_mask}"


class AdaptiveMaxPool1D(_AdaptiveMax):
    """Largest element of as many windows of a sequence as asked for.

    >>> bireme.nn.AdaptiveMaxPool1D(1)(bireme.to_tensor([[[1.0, 2.0]]])).tolist()
    [[[2.0]]]
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self._output_size, self._return_mask)


class AdaptiveMaxPool2D(_AdaptiveMax):
    """Largest element of as many windows of an image as asked for.

    >>> bireme.nn.AdaptiveMaxPool2D(1)(bireme.to_tensor([[[[1.0, 2.0]]]])).tolist()
    [[[[2.0]]]]
    """

    def forward(self, x: Tensor) -> Any:
        return F.adaptive_max_pool2d(x, self._output_size, self._return_mask)


class AdaptiveMaxPool3D(_AdaptiveMax):
    """Largest element of as many windows of a volume as asked for.

    >>> bireme.nn.AdaptiveMaxPool3D(1)(bireme.to_tensor([[[[[1.0, 2.0]]]]])).tolist()
    [[[[[2.0]]]]]
    """

    def forward(self, x: Tensor) -> Any:
        return F.adaptive_max_pool3d(x, self._output_size, self._return_mask)


class _Fractional(Layer):
    def __init__(self, output_size: Any, kernel_size: Any = None, random_u: float | None = None, return_mask: bool = False, name: str | None = None):
        super().__init__()
        self._output_size, self._kernel_size, self._random_u, self._return_mask, self._name = output_size, kernel_size, random_u, return_mask, name

    def extra_repr(self) -> str:
        return f"output_size={self._output_size}, return_mask={self._return_mask}"


class FractionalMaxPool2D(_Fractional):
    """Largest element of windows of an image whose edges are drawn at random, or follow from `random_u`.

    >>> bireme.nn.FractionalMaxPool2D(1, random_u=0.5)(bireme.to_tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).tolist()
    [[[[4.0]]]]
    """

    def forward(self, x: Tensor) -> Any:
        return F.fractional_max_pool2d(x, self._output_size, self._kernel_size, self._random_u, self._return_mask)


class FractionalMaxPool3D(_Fractional):
    """Largest element of windows of a volume whose edges are drawn at random, or follow from `random_u`.

    >>> bireme.nn.FractionalMaxPool3D(1, random_u=0.5)(bireme.ones([1, 1, 2, 2, 2])).tolist()
    [[[[[1.0]]]]]
    """

    def forward(self, x: Tensor) -> Any:
        return F.fractional_max_pool3d(x, self._output_size, self._kernel_size, self._random_u, self._return_mask)


class _Unpool(Layer):
    _function: Any = None

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        data_format: str = "NCHW",
        output_size: Any = None,
        name: str | None = None,
    ):
        super().__init__()
        self.ksize, self.stride, self.padding, self.data_format, self.output_size, self.name = (
            kernel_size,
            stride,
            padding,
            data_format,
            output_size,
            name,
        )

    def forward(self, x: Tensor, indices: Tensor) -> Tensor:
        return type(self)._function(x, indices, self.ksize, self.stride, self.padding, self.data_format, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class MaxUnPool1D(_Unpool):
    """Puts elements of a sequence back where `MaxPool1D` found them, with zeros in between.

    >>> bireme.nn.MaxUnPool1D(2)(bireme.to_tensor([[[5.0]]]), bireme.to_tensor([[[1]]])).tolist()
    [[[0.0, 5.0]]]
    """

    _function = staticmethod(F.max_unpool1d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        data_format: str = "NCL",
        output_size: Any = None,
        name: str | None = None,
    ):
        super().__init__(kernel_size, stride, padding, data_format, output_size, name)


class MaxUnPool2D(_Unpool):
    """Puts elements of an image back where `MaxPool2D` found them, with zeros in between.

    >>> bireme.nn.MaxUnPool2D([1, 2])(bireme.to_tensor([[[[5.0]]]]), bireme.to_tensor([[[[1]]]])).tolist()
    [[[[0.0, 5.0]]]]
    """

    _function = staticmethod(F.max_unpool2d)


class MaxUnPool3D(_Unpool):
    """Puts elements of a volume back where `MaxPool3D` found them, with zeros in between.

    >>> bireme.nn.MaxUnPool3D([1, 1, 2])(bireme.to_tensor([[[[[5.0]]]]]), bireme.to_tensor([[[[[1]]]]])).tolist()
    [[[[[0.0, 5.0]]]]]
    """

    _function = staticmethod(F.max_unpool3d)

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        data_format: str = "NCDHW",
        output_size: Any = None,
        name: str | None = None,
    ):
        super().__init__(kernel_size, stride, padding, data_format, output_size, name)
