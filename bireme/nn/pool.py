"""Pooling layers with windows of a given size, and windows as columns and back."""

from __future__ import annotations

from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional as F  # as users write it
from bireme.nn.arguments import Padding, Sizes
from bireme.nn.layer import Layer


class _Pool(Layer):
    """What pooling layers are made with, as attributes."""

    def _keep(
        self,
        kernel_size: Sizes,
        stride: Sizes | None,
        padding: Padding,
        ceil_mode: bool,
        data_format: str | None,
        name: str | None,
    ) -> None:
        self.ksize = self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.data_format = data_format
        self.name = name

    def extra_repr(self) -> str:
        return f"kernel_size={self.ksize}, stride={self.stride}, padding={self.padding}"


class MaxPool1D(_Pool):
    """Max pooling of sequences: the maximum over each window.

    Padding counts as minus infinity; of equal elements the first one gets the gradient.

    Args:
        kernel_size: Length of the windows.
        stride: Step between two windows. Default: None, ``kernel_size``.
        padding: What is added at both ends: an integer, a pair (before, after), ``'SAME'`` or ``'VALID'``. Default: 0.
        return_mask: Return the indices of the maxima as well, as ``MaxUnPool1D`` takes them. Default: False.
        ceil_mode: Count a last window that reaches beyond the end: sizes are rounded up instead of down. Not with
            ``'VALID'``. Default: False.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[N, C, L]``
        - output: ``[N, C, L_out]``, where ``L_out = (L + 2 * padding - kernel_size) // stride + 1``

    Examples:
        >>> bireme.nn.MaxPool1D(2)(bireme.to_tensor([[[1.0, 2.0, 4.0, 3.0]]])).tolist()
        [[[2.0, 4.0]]]
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, stride, padding, ceil_mode, None, name)
        self.return_mask = return_mask

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Take the maximum of each window.

        Args:
            input: Tensor of shape ``[N, C, L]``.

        Returns:
            Tensor of shape ``[N, C, L_out]``; with ``return_mask`` a tuple of it and the int32 indices.
        """
        return F.max_pool1d(input, self.ksize, self.stride, self.padding, self.return_mask, self.ceil_mode)


class MaxPool2D(_Pool):
    """Max pooling of images: the maximum over each window.

    Padding counts as minus infinity; of equal elements the first one gets the gradient.

    Args:
        kernel_size: Size of the windows: one integer, or height and width.
        stride: Step between two windows: one integer, or one for each axis. Default: None, ``kernel_size``.
        padding: What is added at both ends of each spatial axis: one integer, one for each axis, a pair (before, after)
            for each axis in one flat list, such pairs for all axes of the input, ``'SAME'`` or ``'VALID'``. Default: 0.
        return_mask: Return the indices of the maxima as well, in the flattened image of each channel, as
            ``MaxUnPool2D`` takes them; only with channels first. Default: False.
        ceil_mode: Count a last window that reaches beyond the end: sizes are rounded up instead of down. Not with
            ``'VALID'``. Default: False.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]``
        - output: ``[N, C, H_out, W_out]``, where ``H_out = (H + 2 * padding - kernel_size) // stride + 1``, and so for
          the width

    Examples:
        >>> x = bireme.to_tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> bireme.nn.MaxPool2D(2)(x).tolist()
        [[[[4.0]]]]
        >>> bireme.nn.MaxPool2D(2, return_mask=True)(x)[1].tolist()
        [[[[3]]]]
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, stride, padding, ceil_mode, data_format, name)
        self.return_mask = return_mask

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Take the maximum of each window.

        Args:
            x: Tensor in ``data_format``.

        Returns:
            Tensor in ``data_format``; with ``return_mask`` a tuple of it and the int32 indices.
        """
        return F.max_pool2d(
            x, self.ksize, self.stride, self.padding, self.return_mask, self.ceil_mode, self.data_format
        )


class MaxPool3D(_Pool):
    """Max pooling of volumes: the maximum over each window.

    Padding counts as minus infinity; of equal elements the first one gets the gradient.

    Args:
        kernel_size: Size of the windows: one integer, or depth, height and width.
        stride: Step between two windows: one integer, or one for each axis. Default: None, ``kernel_size``.
        padding: What is added at both ends of each spatial axis: one integer, one for each axis, a pair (before, after)
            for each axis in one flat list, such pairs for all axes of the input, ``'SAME'`` or ``'VALID'``. Default: 0.
        return_mask: Return the indices of the maxima as well, in the flattened volume of each channel, as
            ``MaxUnPool3D`` takes them; only with channels first. Default: False.
        ceil_mode: Count a last window that reaches beyond the end: sizes are rounded up instead of down. Not with
            ``'VALID'``. Default: False.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, D, H, W]``
        - output: ``[N, C, D_out, H_out, W_out]``, where ``D_out = (D + 2 * padding - kernel_size) // stride + 1``, and
          so for height and width

    Examples:
        >>> bireme.nn.MaxPool3D([1, 1, 2])(bireme.to_tensor([[[[[1.0, 2.0]]]]])).tolist()
        [[[[[2.0]]]]]
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCDHW",
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, stride, padding, ceil_mode, data_format, name)
        self.return_mask = return_mask

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Take the maximum of each window.

        Args:
            x: Tensor in ``data_format``.

        Returns:
            Tensor in ``data_format``; with ``return_mask`` a tuple of it and the int32 indices.
        """
        return F.max_pool3d(
            x, self.ksize, self.stride, self.padding, self.return_mask, self.ceil_mode, self.data_format
        )


class AvgPool1D(_Pool):
    """Average pooling of sequences: the mean over each window.

    Args:
        kernel_size: Length of the windows.
        stride: Step between two windows. Default: None, ``kernel_size``.
        padding: What is added at both ends: an integer, a pair (before, after), ``'SAME'`` or ``'VALID'``. Default: 0.
        exclusive: Leave the padding out of the count that the sum is divided by. Default: True.
        ceil_mode: Count a last window that reaches beyond the end: sizes are rounded up instead of down. Not with
            ``'VALID'``. Default: False.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, L]``
        - output: ``[N, C, L_out]``, where ``L_out = (L + 2 * padding - kernel_size) // stride + 1``

    Examples:
        >>> bireme.nn.AvgPool1D(2)(bireme.to_tensor([[[1.0, 2.0, 4.0, 3.0]]])).tolist()
        [[[1.5, 3.5]]]
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        exclusive: bool = True,
        ceil_mode: bool = False,
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, stride, padding, ceil_mode, None, name)
        self.exclusive = exclusive

    def forward(self, x: Tensor) -> Tensor:
        """Take the mean of each window.

        Args:
            x: Tensor of shape ``[N, C, L]``.

        Returns:
            Tensor of shape ``[N, C, L_out]``.
        """
        return F.avg_pool1d(x, self.ksize, self.stride, self.padding, self.exclusive, self.ceil_mode)


class AvgPool2D(_Pool):
    """Average pooling of images: the mean over each window.

    Args:
        kernel_size: Size of the windows: one integer, or height and width.
        stride: Step between two windows: one integer, or one for each axis. Default: None, ``kernel_size``.
        padding: What is added at both ends of each spatial axis: one integer, one for each axis, a pair (before, after)
            for each axis in one flat list, such pairs for all axes of the input, ``'SAME'`` or ``'VALID'``. Default: 0.
        ceil_mode: Count a last window that reaches beyond the end: sizes are rounded up instead of down. Not with
            ``'VALID'``. Default: False.
        exclusive: Leave the padding out of the count that the sum is divided by. Default: True.
        divisor_override: Number above 0 that the sum is divided by. Default: None, the number of elements that count.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]``
        - output: ``[N, C, H_out, W_out]``, where ``H_out = (H + 2 * padding - kernel_size) // stride + 1``, and so for
          the width

    Examples:
        >>> bireme.nn.AvgPool2D(2)(bireme.to_tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).tolist()
        [[[[2.5]]]]
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
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
        """Take the mean of each window.

        Args:
            x: Tensor in ``data_format``.

        Returns:
            Tensor in ``data_format``.
        """
        return F.avg_pool2d(
            x, self.ksize, self.stride, self.padding, self.ceil_mode, self.exclusive, self.divisor, self.data_format
        )


class AvgPool3D(_Pool):
    """Average pooling of volumes: the mean over each window.

    Args:
        kernel_size: Size of the windows: one integer, or depth, height and width.
        stride: Step between two windows: one integer, or one for each axis. Default: None, ``kernel_size``.
        padding: What is added at both ends of each spatial axis: one integer, one for each axis, a pair (before, after)
            for each axis in one flat list, such pairs for all axes of the input, ``'SAME'`` or ``'VALID'``. Default: 0.
        ceil_mode: Count a last window that reaches beyond the end: sizes are rounded up instead of down. Not with
            ``'VALID'``. Default: False.
        exclusive: Leave the padding out of the count that the sum is divided by. Default: True.
        divisor_override: Number above 0 that the sum is divided by. Default: None, the number of elements that count.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, D, H, W]``
        - output: ``[N, C, D_out, H_out, W_out]``, where ``D_out = (D + 2 * padding - kernel_size) // stride + 1``, and
          so for height and width

    Examples:
        >>> bireme.nn.AvgPool3D([1, 1, 2])(bireme.to_tensor([[[[[1.0, 2.0]]]]])).tolist()
        [[[[[1.5]]]]]
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
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
        """Take the mean of each window.

        Args:
            x: Tensor in ``data_format``.

        Returns:
            Tensor in ``data_format``.
        """
        return F.avg_pool3d(
            x, self.ksize, self.stride, self.padding, self.ceil_mode, self.exclusive, self.divisor, self.data_format
        )


class LPPool1D(_Pool):
    """Power pooling of sequences: ``sum(x ** norm_type) ** (1 / norm_type)`` over each window.

    For an even ``norm_type`` this is the p-norm of the window; signs are kept, not absolute values taken.

    Args:
        norm_type: The exponent, not 0; infinity takes the maximum.
        kernel_size: Length of the windows.
        stride: Step between two windows. Default: None, ``kernel_size``.
        padding: What is added at both ends: an integer, a pair (before, after), ``'SAME'`` or ``'VALID'``. Default: 0.
        ceil_mode: Count a last window that reaches beyond the end: sizes are rounded up instead of down. Not with
            ``'VALID'``. Default: False.
        data_format: ``'NCL'`` or ``'NLC'``. Default: ``'NCL'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, L]``
        - output: ``[N, C, L_out]``, where ``L_out = (L + 2 * padding - kernel_size) // stride + 1``

    Examples:
        >>> bireme.nn.LPPool1D(2, 2)(bireme.to_tensor([[[3.0, 4.0]]])).tolist()
        [[[5.0]]]
    """

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        data_format: str = "NCL",
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, stride, padding, ceil_mode, data_format, name)
        self.norm_type = float(norm_type)

    def forward(self, x: Tensor) -> Tensor:
        """Take the norm of each window.

        Args:
            x: Tensor in ``data_format``.

        Returns:
            Tensor in ``data_format``.
        """
        return F.lp_pool1d(x, self.norm_type, self.ksize, self.stride, self.padding, self.ceil_mode, self.data_format)

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, {super().extra_repr()}"


class LPPool2D(_Pool):
    """Power pooling of images: ``sum(x ** norm_type) ** (1 / norm_type)`` over each window.

    For an even ``norm_type`` this is the p-norm of the window; signs are kept, not absolute values taken.

    Args:
        norm_type: The exponent, not 0; infinity takes the maximum.
        kernel_size: Size of the windows: one integer, or height and width.
        stride: Step between two windows: one integer, or one for each axis. Default: None, ``kernel_size``.
        padding: What is added at both ends of each spatial axis: one integer, one for each axis, a pair (before, after)
            for each axis in one flat list, such pairs for all axes of the input, ``'SAME'`` or ``'VALID'``. Default: 0.
        ceil_mode: Count a last window that reaches beyond the end: sizes are rounded up instead of down. Not with
            ``'VALID'``. Default: False.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - x: ``[N, C, H, W]``
        - output: ``[N, C, H_out, W_out]``, where ``H_out = (H + 2 * padding - kernel_size) // stride + 1``, and so for
          the width

    Examples:
        >>> bireme.nn.LPPool2D(2, [1, 2])(bireme.to_tensor([[[[3.0, 4.0]]]])).tolist()
        [[[[5.0]]]]
    """

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ):
        super().__init__()
        self._keep(kernel_size, kernel_size if stride is None else stride, padding, ceil_mode, data_format, name)
        self.norm_type = float(norm_type)

    def forward(self, x: Tensor) -> Tensor:
        """Take the norm of each window.

        Args:
            x: Tensor in ``data_format``.

        Returns:
            Tensor in ``data_format``.
        """
        return F.lp_pool2d(x, self.norm_type, self.ksize, self.stride, self.padding, self.ceil_mode, self.data_format)

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, {super().extra_repr()}"


class Fold(Layer):
    """Assembles images from columns of windows; where windows overlap, their elements are added up.

    It is the transpose of ``Unfold``, and its inverse where windows neither overlap nor leave gaps.

    Args:
        output_sizes: Height and width of the images.
        kernel_sizes: Size of the windows: one integer, or height and width.
        dilations: Distance between the elements of a window: one integer, or one for each axis. Default: 1.
        paddings: Padding of the image that the windows were taken from: one integer, (vertical, horizontal), or (top,
            left, bottom, right). Default: 0.
        strides: Step between two windows: one integer, or one for each axis. Default: 1.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - input: ``[N, C * prod(kernel_sizes), L]``, where ``L`` is the number of windows
        - output: ``[N, C, *output_sizes]``

    Examples:
        >>> bireme.nn.Fold([1, 3], [1, 2])(bireme.to_tensor([[[1.0, 2.0], [2.0, 3.0]]])).tolist()
        [[[[1.0, 4.0, 3.0]]]]
    """

    def __init__(
        self,
        output_sizes: Sizes,
        kernel_sizes: Sizes,
        dilations: Sizes = 1,
        paddings: Sizes = 0,
        strides: Sizes = 1,
        name: str | None = None,
    ):
        super().__init__()
        self.output_sizes = output_sizes
        self.kernel_sizes = kernel_sizes
        self.dilations = dilations
        self.paddings = paddings
        self.strides, self.name = strides, name

    def forward(self, input: Tensor) -> Tensor:
        """Assemble images.

        Args:
            input: Tensor of shape ``[N, C * prod(kernel_sizes), L]``.

        Returns:
            Tensor of shape ``[N, C, *output_sizes]``.
        """
        return F.fold(input, self.output_sizes, self.kernel_sizes, self.strides, self.paddings, self.dilations)

    def extra_repr(self) -> str:
        name = f", name={self.name}" if self.name else ""
        return f"kernel_size={self.kernel_sizes}, dilation={self.dilations}, padding={self.paddings}, stride={self.strides}{name}"


class Unfold(Layer):
    """Windows of images as columns (im2col).

    Args:
        kernel_sizes: Size of the windows: one integer, or height and width.
        dilations: Distance between the elements of a window: one integer, or one for each axis. Default: 1.
        paddings: Zeros around the image: one integer, (vertical, horizontal), or (top, left, bottom, right). Default:
            0.
        strides: Step between two windows: one integer, or one for each axis. Default: 1.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - input: ``[N, C, H, W]``
        - output: ``[N, C * prod(kernel_sizes), L]``, where ``L`` is the number of windows

    Examples:
        >>> bireme.nn.Unfold([1, 2])(bireme.to_tensor([[[[1.0, 2.0, 3.0]]]])).tolist()
        [[[1.0, 2.0], [2.0, 3.0]]]
    """

    def __init__(
        self,
        kernel_sizes: Sizes,
        dilations: Sizes = 1,
        paddings: Sizes = 0,
        strides: Sizes = 1,
        name: str | None = None,
    ):
        super().__init__()
        self.kernel_sizes = kernel_sizes
        self.dilations = dilations
        self.paddings = paddings
        self.strides = strides
        self.name = name

    def forward(self, input: Tensor) -> Tensor:
        """Take the windows.

        Args:
            input: Tensor of shape ``[N, C, H, W]``.

        Returns:
            Tensor of shape ``[N, C * prod(kernel_sizes), L]``.
        """
        return F.unfold(input, self.kernel_sizes, self.strides, self.paddings, self.dilations)

    def extra_repr(self) -> str:
        name = f", name={self.name}" if self.name else ""
        return f"kernel_size={self.kernel_sizes}, dilation={self.dilations}, padding={self.paddings}, stride={self.strides}{name}"
