"""Pooling layers with a given size of the output: adaptive and fractional pooling, and unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional as F  # as users write it
from bireme.nn.arguments import Sizes
from bireme.nn.layer import Layer


class _Adaptive(Layer):
    def __init__(
        self, output_size: int | Sequence[int | None], data_format: str | None = None, name: str | None = None
    ):
        super().__init__()
        self.output_size = self._output_size = output_size
        self._data_format, self._name, self.name = data_format, name, name

    def extra_repr(self) -> str:
        return f"output_size={self._output_size}"


class AdaptiveAvgPool1D(_Adaptive):
    """Adaptive average pooling: the mean over ``output_size`` windows of a sequence, whatever its length.

    Window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.

    Args:
        output_size: Length of the output.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[N, C, L]``
        - output: ``[N, C, output_size]``

    Examples:
        >>> bireme.nn.AdaptiveAvgPool1D(2)(bireme.to_tensor([[[1.0, 2.0, 6.0]]])).tolist()
        [[[1.5, 4.0]]]
    """

    def __init__(self, output_size: int | Sequence[int | None], name: str | None = None):
        super().__init__(output_size, None, name)

    def forward(self, input: Tensor) -> Tensor:
        """Take the mean of each window.

        Args:
            input: Tensor of shape ``[N, C, L]``.

        Returns:
            Tensor of shape ``[N, C, output_size]``.
        """
        return F.adaptive_avg_pool1d(input, self._output_size)


class AdaptiveAvgPool2D(_Adaptive):
    """Adaptive average pooling: the mean over ``output_size`` windows of an image, whatever its size.

    Window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.

    Args:
        output_size: Height and width of the output, or one integer for both; None in a pair keeps that size.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]``
        - output: ``[N, C, *output_size]``

    Examples:
        >>> bireme.nn.AdaptiveAvgPool2D(1)(bireme.to_tensor([[[[1.0, 2.0]]]])).tolist()
        [[[[1.5]]]]
    """

    def __init__(self, output_size: int | Sequence[int | None], data_format: str = "NCHW", name: str | None = None):
        super().__init__(output_size, data_format, name)

    def forward(self, x: Tensor) -> Tensor:
        """Take the mean of each window.

        Args:
            x: Tensor in ``data_format``.

        Returns:
            Tensor in ``data_format``, of the spatial size ``output_size``.
        """
        return F.adaptive_avg_pool2d(x, self._output_size, self._data_format)


class AdaptiveAvgPool3D(_Adaptive):
    """Adaptive average pooling: the mean over ``output_size`` windows of a volume, whatever its size.

    Window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.

    Args:
        output_size: Depth, height and width of the output, or one integer for all; None in a list keeps that size.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, D, H, W]``
        - output: ``[N, C, *output_size]``

    Examples:
        >>> bireme.nn.AdaptiveAvgPool3D(1)(bireme.to_tensor([[[[[1.0, 2.0]]]]])).tolist()
        [[[[[1.5]]]]]
    """

    def __init__(self, output_size: int | Sequence[int | None], data_format: str = "NCDHW", name: str | None = None):
        super().__init__(output_size, data_format, name)

    def forward(self, x: Tensor) -> Tensor:
        """Take the mean of each window.

        Args:
            x: Tensor in ``data_format``.

        Returns:
            Tensor in ``data_format``, of the spatial size ``output_size``.
        """
        return F.adaptive_avg_pool3d(x, self._output_size, self._data_format)


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: int | Sequence[int | None], return_mask: bool = False, name: str | None = None):
        super().__init__(output_size, None, name)
        self.return_mask = self._return_mask = return_mask

    def extra_repr(self) -> str:
        return f"output_size={self._output_size}, return_mask={self._return_mask}"


class AdaptiveMaxPool1D(_AdaptiveMax):
    """Adaptive max pooling: the maximum over ``output_size`` windows of a sequence, whatever its length.

    Window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.

    Args:
        output_size: Length of the output.
        return_mask: Return the indices of the maxima as well, in the flattened spatial axes of each channel. Default:
            False.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[N, C, L]``
        - output: ``[N, C, output_size]``

    Examples:
        >>> bireme.nn.AdaptiveMaxPool1D(2)(bireme.to_tensor([[[1.0, 5.0, 4.0]]])).tolist()
        [[[5.0, 5.0]]]
    """

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Take the maximum of each window.

        Args:
            input: Tensor of shape ``[N, C, L]``.

        Returns:
            Tensor of shape ``[N, C, output_size]``; with ``return_mask`` a tuple of it and the int32 indices.
        """
        return F.adaptive_max_pool1d(input, self._output_size, self._return_mask)


class AdaptiveMaxPool2D(_AdaptiveMax):
    """Adaptive max pooling: the maximum over ``output_size`` windows of an image, whatever its size.

    Window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.

    Args:
        output_size: Height and width of the output, or one integer for both; None in a pair keeps that size.
        return_mask: Return the indices of the maxima as well, in the flattened spatial axes of each channel. Default:
            False.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]``
        - output: ``[N, C, *output_size]``

    Examples:
        >>> bireme.nn.AdaptiveMaxPool2D(1)(bireme.to_tensor([[[[1.0, 2.0]]]])).tolist()
        [[[[2.0]]]]
    """

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Take the maximum of each window.

        Args:
            x: Tensor of shape ``[N, C, H, W]``.

        Returns:
            Tensor of shape ``[N, C, *output_size]``; with ``return_mask`` a tuple of it and the int32 indices.
        """
        return F.adaptive_max_pool2d(x, self._output_size, self._return_mask)


class AdaptiveMaxPool3D(_AdaptiveMax):
    """Adaptive max pooling: the maximum over ``output_size`` windows of a volume, whatever its size.

    Window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.

    Args:
        output_size: Depth, height and width of the output, or one integer for all; None in a list keeps that size.
        return_mask: Return the indices of the maxima as well, in the flattened spatial axes of each channel. Default:
            False.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, D, H, W]``
        - output: ``[N, C, *output_size]``

    Examples:
        >>> bireme.nn.AdaptiveMaxPool3D(1)(bireme.to_tensor([[[[[1.0, 2.0]]]]])).tolist()
        [[[[[2.0]]]]]
    """

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Take the maximum of each window.

        Args:
            x: Tensor of shape ``[N, C, D, H, W]``.

        Returns:
            Tensor of shape ``[N, C, *output_size]``; with ``return_mask`` a tuple of it and the int32 indices.
        """
        return F.adaptive_max_pool3d(x, self._output_size, self._return_mask)


class _Fractional(Layer):
    def __init__(
        self,
        output_size: int | Sequence[int | None],
        kernel_size: Sizes | None = None,
        random_u: float | None = None,
        return_mask: bool = False,
        name: str | None = None,
    ):
        super().__init__()
        self._output_size = output_size
        self._kernel_size = kernel_size
        self._random_u = random_u
        self._return_mask = return_mask
        self._name = name

    def extra_repr(self) -> str:
        return f"output_size={self._output_size}, return_mask={self._return_mask}"


class FractionalMaxPool2D(_Fractional):
    """Fractional max pooling of images: the maximum over windows that are placed at random.

    The sizes of the windows alternate in a pseudorandom sequence that ``random_u`` determines (Graham, 2014).

    Args:
        output_size: Height and width of the output, or one integer for both; None in a pair keeps that size.
        kernel_size: Size of overlapping windows: one integer, or height and width. Default: None, they do not overlap.
        random_u: Number in (0, 1) that places the windows. Default: None, drawn anew for each call.
        return_mask: Return the indices of the maxima as well, in the flattened spatial axes of each channel. Default:
            False.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]``
        - output: ``[N, C, *output_size]``

    Examples:
        >>> layer = bireme.nn.FractionalMaxPool2D([1, 2], random_u=0.5)
        >>> layer(bireme.to_tensor([[[[1.0, 5.0, 4.0]]]])).tolist()
        [[[[5.0, 4.0]]]]
    """

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Take the maximum of each window.

        Args:
            x: Tensor of shape ``[N, C, H, W]``.

        Returns:
            Tensor of shape ``[N, C, *output_size]``; with ``return_mask`` a tuple of it and the int32 indices.
        """
        return F.fractional_max_pool2d(x, self._output_size, self._kernel_size, self._random_u, self._return_mask)


class FractionalMaxPool3D(_Fractional):
    """Fractional max pooling of volumes: the maximum over windows that are placed at random.

    The sizes of the windows alternate in a pseudorandom sequence that ``random_u`` determines (Graham, 2014).

    Args:
        output_size: Depth, height and width of the output, or one integer for all; None in a list keeps that size.
        kernel_size: Size of overlapping windows: one integer, or depth, height and width. Default: None, they do not
            overlap.
        random_u: Number in (0, 1) that places the windows. Default: None, drawn anew for each call.
        return_mask: Return the indices of the maxima as well, in the flattened spatial axes of each channel. Default:
            False.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, D, H, W]``
        - output: ``[N, C, *output_size]``

    Examples:
        >>> layer = bireme.nn.FractionalMaxPool3D([1, 1, 2], random_u=0.5)
        >>> layer(bireme.to_tensor([[[[[1.0, 5.0, 4.0]]]]])).tolist()
        [[[[[5.0, 4.0]]]]]
    """

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Take the maximum of each window.

        Args:
            x: Tensor of shape ``[N, C, D, H, W]``.

        Returns:
            Tensor of shape ``[N, C, *output_size]``; with ``return_mask`` a tuple of it and the int32 indices.
        """
        return F.fractional_max_pool3d(x, self._output_size, self._kernel_size, self._random_u, self._return_mask)


class _Unpool(Layer):
    _function: Any = None

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        data_format: str = "NCHW",
        output_size: Sizes | None = None,
        name: str | None = None,
    ):
        super().__init__()
        self.ksize = kernel_size
        self.stride = stride
        self.padding = padding
        self.data_format = data_format
        self.output_size = output_size
        self.name = name

    def forward(self, x: Tensor, indices: Tensor) -> Tensor:
        """Write the elements to their indices.

        Args:
            x: Result of max pooling, channels first.
            indices: Integer tensor of the same shape: the indices that the pooling returned with ``return_mask``.

        Returns:
            Tensor that has ``x`` at the indices and zeros elsewhere.
        """
        return type(self)._function(
            x, indices, self.ksize, self.stride, self.padding, self.data_format, self.output_size
        )

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class MaxUnPool1D(_Unpool):
    """Partial inverse of ``MaxPool1D``: maxima go back to their indices, all other elements are zero.

    Args:
        kernel_size: Length of the windows of the pooling.
        stride: Stride of the pooling. Default: None, ``kernel_size``.
        padding: Padding of the pooling. Default: 0.
        data_format: ``'NCL'``, the only one. Default: ``'NCL'``.
        output_size: Shape of the output, with or without batch and channels; several sizes have the same pooling.
            Default: None, ``(size - 1) * stride - 2 * padding + kernel_size``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, L]``
        - indices: ``[N, C, L]``
        - output: ``[N, C, L_out]``, see ``output_size``

    Examples:
        >>> bireme.nn.MaxUnPool1D(2)(bireme.to_tensor([[[5.0]]]), bireme.to_tensor([[[1]]])).tolist()
        [[[0.0, 5.0]]]
    """

    _function = staticmethod(F.max_unpool1d)

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        data_format: str = "NCL",
        output_size: Sizes | None = None,
        name: str | None = None,
    ):
        super().__init__(kernel_size, stride, padding, data_format, output_size, name)


class MaxUnPool2D(_Unpool):
    """Partial inverse of ``MaxPool2D``: maxima go back to their indices, all other elements are zero.

    Args:
        kernel_size: Size of the windows of the pooling: one integer, or height and width.
        stride: Stride of the pooling. Default: None, ``kernel_size``.
        padding: Padding of the pooling: one integer, or one for each axis. Default: 0.
        data_format: ``'NCHW'``, the only one. Default: ``'NCHW'``.
        output_size: Shape of the output, with or without batch and channels; several sizes have the same pooling.
            Default: None, ``(size - 1) * stride - 2 * padding + kernel_size``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]``
        - indices: ``[N, C, H, W]``
        - output: ``[N, C, H_out, W_out]``, see ``output_size``

    Examples:
        >>> bireme.nn.MaxUnPool2D([1, 2])(bireme.to_tensor([[[[5.0]]]]), bireme.to_tensor([[[[1]]]])).tolist()
        [[[[0.0, 5.0]]]]
    """

    _function = staticmethod(F.max_unpool2d)


class MaxUnPool3D(_Unpool):
    """Partial inverse of ``MaxPool3D``: maxima go back to their indices, all other elements are zero.

    Args:
        kernel_size: Size of the windows of the pooling: one integer, or depth, height and width.
        stride: Stride of the pooling. Default: None, ``kernel_size``.
        padding: Padding of the pooling: one integer, or one for each axis. Default: 0.
        data_format: ``'NCDHW'``, the only one. Default: ``'NCDHW'``.
        output_size: Shape of the output, with or without batch and channels; several sizes have the same pooling.
            Default: None, ``(size - 1) * stride - 2 * padding + kernel_size``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, D, H, W]``
        - indices: ``[N, C, D, H, W]``
        - output: ``[N, C, D_out, H_out, W_out]``, see ``output_size``

    Examples:
        >>> bireme.nn.MaxUnPool3D([1, 1, 2])(bireme.to_tensor([[[[[5.0]]]]]), bireme.to_tensor([[[[[1]]]]])).tolist()
        [[[[[0.0, 5.0]]]]]
    """

    _function = staticmethod(F.max_unpool3d)

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        data_format: str = "NCDHW",
        output_size: Sizes | None = None,
        name: str | None = None,
    ):
        super().__init__(kernel_size, stride, padding, data_format, output_size, name)
