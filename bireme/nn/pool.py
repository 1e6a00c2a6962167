"""Pooling layers, their inverses, and windows cut out of images and put together again."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional as F  # as users write it
from bireme.nn.layer import Layer


class _Pool(Layer):
    """What pooling layers are made with, under the names by which users find it."""

    def _keep(self, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, data_format: str | None, name: str | None) -> None:
        self.ksize = self.kernel_size = kernel_size
        self.stride, self.padding, self.ceil_mode, self.data_format, self.name = stride, padding, ceil_mode, data_format, name

    def extra_repr(self) -> str:
        return f"kernel_size={self.ksize}, stride={self.stride}, padding={self.padding}"


class MaxPool1D(_Pool):
    """Largest element of each window of a sequence.

    >>> bireme.nn.MaxPool1D(2)(bireme.to_tensor([[[1.0, 2.0, 4.0, 3.0]]])).tolist()
    [[[2.0, 4.0]]]
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, stride, padding, ceil_mode, None, name)
        self.return_mask = return_mask

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(input, self.ksize, self.stride, self.padding, self.return_mask, self.ceil_mode)


class MaxPool2D(_Pool):
    """Largest element of each window.

    >>> bireme.nn.MaxPool2D(2)(bireme.to_tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).tolist()
    [[[[4.0]]]]
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, stride, padding, ceil_mode, data_format, name)
        self.return_mask = return_mask

    def forward(self, x: Tensor) -> Any:
        return F.max_pool2d(x, self.ksize, self.stride, self.padding, self.return_mask, self.ceil_mode, self.data_format)


class MaxPool3D(_Pool):
    """Largest element of each window of a volume.

    >>> bireme.nn.MaxPool3D([1, 1, 2])(bireme.to_tensor([[[[[1.0, 2.0]]]]])).tolist()
    [[[[[2.0]]]]]
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCDHW",
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, stride, padding, ceil_mode, data_format, name)
        self.return_mask = return_mask

    def forward(self, x: Tensor) -> Any:
        return F.max_pool3d(x, self.ksize, self.stride, self.padding, self.return_mask, self.ceil_mode, self.data_format)


class AvgPool1D(_Pool):
    """Mean of each window of a sequence; elements of the padding do not count unless `exclusive` is False.

    >>> bireme.nn.AvgPool1D(2)(bireme.to_tensor([[[1.0, 2.0, 4.0, 3.0]]])).tolist()
    [[[1.5, 3.5]]]
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        exclusive: bool = True,
        ceil_mode: bool = False,
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, stride, padding, ceil_mode, None, name)
        self.exclusive = exclusive

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool1d(x, self.ksize, self.stride, self.padding, self.exclusive, self.ceil_mode)


class AvgPool2D(_Pool):
    """Mean of each window; elements of the padding do not count unless `exclusive` is False.

    >>> bireme.nn.AvgPool2D(2)(bireme.to_tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).tolist()
    [[[[2.5]]]]
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, stride, padding, ceil_mode, data_format, name)
        self.exclusive, self.divisor = exclusive, divisor_override

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, self.ksize, self.stride, self.padding, self.ceil_mode, self.exclusive, self.divisor, self.data_format)


class AvgPool3D(_Pool):
    """Mean of each window of a volume; elements of the padding do not count unless `exclusive` is False.

    >>> bireme.nn.AvgPool3D([1, 1, 2])(bireme.to_tensor([[[[[1.0, 2.0]]]]])).tolist()
    [[[[[1.5]]]]]
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCDHW",
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, stride, padding, ceil_mode, data_format, name)
        self.exclusive, self.divisor = exclusive, divisor_override

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool3d(x, self.ksize, self.stride, self.padding, self.ceil_mode, self.exclusive, self.divisor, self.data_format)


class LPPool1D(_Pool):
    """Norm of each window of a sequence.

    >>> bireme.nn.LPPool1D(2, 2)(bireme.to_tensor([[[3.0, 4.0]]])).tolist()
    [[[5.0]]]
    """

    def __init__(
        self,
        norm_type: float,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        data_format: str = "NCL",
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, stride, padding, ceil_mode, data_format, name)
        self.norm_type = float(norm_type)

    def forward(self, x: Tensor) -> Tensor:
        return F.lp_pool1d(x, self.norm_type, self.ksize, self.stride, self.padding, self.ceil_mode, self.data_format)

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, {super().extra_repr()}"


class LPPool2D(_Pool):
    """Norm of each window of an image.

    >>> bireme.nn.LPPool2D(2, [1, 2])(bireme.to_tensor([[[[3.0, 4.0]]]])).tolist()
    [[[[5.0]]]]
    """

    def __init__(
        self,
        norm_type: float,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, kernel_size if stride is None else stride, padding, ceil_mode, data_format, name)
        self.norm_type = float(norm_type)

    def forward(self, x: Tensor) -> Tensor:
        return F.lp_pool2d(x, self.norm_type, self.ksize, self.stride, self.padding, self.ceil_mode, self.data_format)

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, {super().extra_repr()}"


class Fold(Layer):
    """Puts windows back into an image: what overlaps is added up. The inverse of `Unfold` where nothing overlaps.

    >>> bireme.nn.Fold([1, 2], [1, 1])(bireme.to_tensor([[[1.0, 2.0]]])).tolist()
    [[[[1.0, 2.0]]]]
    """

    def __init__(self, output_sizes: Any, kernel_sizes: Any, dilations: Any = 1, paddings: Any = 0, strides: Any = 1, name: str | None = None):
        super().__init__()
        self.output_sizes, self.kernel_sizes, self.dilations, self.paddings = output_sizes, kernel_sizes, dilations, paddings
        self.strides, self.name = strides, name

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_sizes, self.kernel_sizes, self.strides, self.paddings, self.dilations)

    def extra_repr(self) -> str:
        name = f", name={self.name}" if self.name else ""
        return f"kernel_size={self.kernel_sizes}, dilation={self.dilations}, padding={self.paddings}, stride={self.strides}{name}"


class Unfold(Layer):
    """Cuts an image into windows: one column for each of them.

    >>> bireme.nn.Unfold([1, 2])(bireme.to_tensor([[[[1.0, 2.0, 3.0]]]])).tolist()
    [[[1.0, 2.0], [2.0, 3.0]]]
    """

    def __init__(self, kernel_sizes: Any, dilations: Any = 1, paddings: Any = 0, strides: Any = 1, name: str | None = None):
        super().__init__()
        self.kernel_sizes, self.dilations, self.paddings, self.strides, self.name = kernel_sizes, dilations, paddings, strides, name

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_sizes, self.strides, self.paddings, self.dilations)

    def extra_repr(self) -> str:
        name = f", name={self.name}" if self.name else ""
        return f"kernel_size={self.kernel_sizes}, dilation={self.dilations}, padding={self.paddings}, stride={self.strides}{name}"
