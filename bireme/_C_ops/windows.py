"""Convolutions and pooling with their arguments in another order than the public functions, as in `paddle._C_ops`."""

from __future__ import annotations

from typing import Any

from bireme import tensor
from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional


def _edges(paddings: Any, algorithm: str) -> Any:
    return list(paddings) if algorithm == "EXPLICIT" else algorithm


def _spatial(x: Tensor, layout: str) -> list[int]:
    return x.shape[1:-1] if layout[-1] == "C" else x.shape[2:]


def conv2d(
    x: Tensor,
    filter: Tensor,
    strides: Any = (1, 1),
    paddings: Any = (0, 0),
    padding_algorithm: str = "EXPLICIT",
    dilations: Any = (1, 1),
    groups: int = 1,
    data_format: str = "NCHW",
) -> Tensor:
    """Convolve images.

    Args:
        x: Input tensor.
        filter: Filters.
        strides: Stride along each spatial axis. Default: ``[1, 1]``.
        paddings: Padding of each spatial axis. Default: ``[0, 0]``.
        padding_algorithm: ``'EXPLICIT'`` for ``paddings``, ``'SAME'`` or ``'VALID'``. Default: ``'EXPLICIT'``.
        dilations: Dilation along each spatial axis. Default: ``[1, 1]``.
        groups: Number of groups of channels. Default: 1.
        data_format: Layout of the axes. Default: ``'NCHW'``.

    Returns:
        The convolved tensor.

    Examples:
        >>> x = bireme.ones([1, 1, 2, 2])
        >>> bireme._C_ops.conv2d(x, x, [1, 1], [0, 0], "EXPLICIT", [1, 1], 1, "NCHW").tolist()
        [[[[4.0]]]]
    """
    return functional.conv2d(
        x, filter, None, strides, _edges(paddings, padding_algorithm), dilations, groups, data_format
    )


def depthwise_conv2d(
    x: Tensor,
    filter: Tensor,
    strides: Any = (1, 1),
    paddings: Any = (0, 0),
    padding_algorithm: str = "EXPLICIT",
    groups: int = 1,
    dilations: Any = (1, 1),
    data_format: str = "NCHW",
) -> Tensor:
    """Convolve each channel of images by itself.

    Args:
        x: Input tensor.
        filter: Filters.
        strides: Stride along each spatial axis. Default: ``[1, 1]``.
        paddings: Padding of each spatial axis. Default: ``[0, 0]``.
        padding_algorithm: ``'EXPLICIT'`` for ``paddings``, ``'SAME'`` or ``'VALID'``. Default: ``'EXPLICIT'``.
        groups: Number of groups of channels. Default: 1.
        dilations: Dilation along each spatial axis. Default: ``[1, 1]``.
        data_format: Layout of the axes. Default: ``'NCHW'``.

    Returns:
        The convolved tensor.
    """
    return functional.conv2d(
        x, filter, None, strides, _edges(paddings, padding_algorithm), dilations, groups, data_format
    )


def conv3d(
    x: Tensor,
    filter: Tensor,
    strides: Any = (1, 1, 1),
    paddings: Any = (0, 0, 0),
    padding_algorithm: str = "EXPLICIT",
    groups: int = 1,
    dilations: Any = (1, 1, 1),
    data_format: str = "NCDHW",
) -> Tensor:
    """Convolve volumes.

    Args:
        x: Input tensor.
        filter: Filters.
        strides: Stride along each spatial axis. Default: ``[1, 1, 1]``.
        paddings: Padding of each spatial axis. Default: ``[0, 0, 0]``.
        padding_algorithm: ``'EXPLICIT'`` for ``paddings``, ``'SAME'`` or ``'VALID'``. Default: ``'EXPLICIT'``.
        groups: Number of groups of channels. Default: 1.
        dilations: Dilation along each spatial axis. Default: ``[1, 1, 1]``.
        data_format: Layout of the axes. Default: ``'NCDHW'``.

    Returns:
        The convolved tensor.
    """
    return functional.conv3d(
        x, filter, None, strides, _edges(paddings, padding_algorithm), dilations, groups, data_format
    )


def conv2d_transpose(
    x: Tensor,
    filter: Tensor,
    strides: Any = (1, 1),
    paddings: Any = (0, 0),
    output_padding: Any = (),
    output_size: Any = (),
    padding_algorithm: str = "EXPLICIT",
    groups: int = 1,
    dilations: Any = (1, 1),
    data_format: str = "NCHW",
) -> Tensor:
    """Compute the transposed convolution of images.

    Args:
        x: Input tensor.
        filter: Filters.
        strides: Stride along each spatial axis. Default: ``[1, 1]``.
        paddings: Padding of each spatial axis. Default: ``[0, 0]``.
        output_padding: Size added to one side of the result. Default: ``[]``.
        output_size: Spatial size of the result, which goes before ``output_padding``. Default: ``[]``.
        padding_algorithm: ``'EXPLICIT'`` for ``paddings``, ``'SAME'`` or ``'VALID'``. Default: ``'EXPLICIT'``.
        groups: Number of groups of channels. Default: 1.
        dilations: Dilation along each spatial axis. Default: ``[1, 1]``.
        data_format: Layout of the axes. Default: ``'NCHW'``.

    Returns:
        The convolved tensor.
    """
    size, more = _asked(output_size, output_padding)
    return functional.conv2d_transpose(
        x, filter, None, strides, _edges(paddings, padding_algorithm), more, dilations, groups, size, data_format
    )


depthwise_conv2d_transpose = conv2d_transpose


def conv3d_transpose(
    x: Tensor,
    filter: Tensor,
    strides: Any = (1, 1, 1),
    paddings: Any = (0, 0, 0),
    output_padding: Any = (),
    output_size: Any = (),
    padding_algorithm: str = "EXPLICIT",
    groups: int = 1,
    dilations: Any = (1, 1, 1),
    data_format: str = "NCHW",
) -> Tensor:
    """Compute the transposed convolution of volumes.

    Args:
        x: Input tensor.
        filter: Filters.
        strides: Stride along each spatial axis. Default: ``[1, 1, 1]``.
        paddings: Padding of each spatial axis. Default: ``[0, 0, 0]``.
        output_padding: Size added to one side of the result. Default: ``[]``.
        output_size: Spatial size of the result, which goes before ``output_padding``. Default: ``[]``.
        padding_algorithm: ``'EXPLICIT'`` for ``paddings``, ``'SAME'`` or ``'VALID'``. Default: ``'EXPLICIT'``.
        groups: Number of groups of channels. Default: 1.
        dilations: Dilation along each spatial axis. Default: ``[1, 1, 1]``.
        data_format: Layout of the axes. Default: ``'NCHW'``.

    Returns:
        The convolved tensor.
    """
    size, more = _asked(output_size, output_padding)
    layout = {"NCHW": "NCDHW", "NHWC": "NDHWC"}.get(data_format, data_format)
    return functional.conv3d_transpose(
        x, filter, None, strides, _edges(paddings, padding_algorithm), more, groups, dilations, size, layout
    )


def _asked(output_size: Any, output_padding: Any) -> tuple[Any, Any]:
    given = output_size is not None and (isinstance(output_size, Tensor) or len(output_size) > 0)
    return (output_size, 0) if given else (None, list(output_padding) or 0)


def _pool(
    n: int,
    x: Tensor,
    size: Any,
    strides: Any,
    edges: Any,
    ceil_mode: bool,
    exclusive: bool,
    layout: str,
    kind: str,
    whole: bool,
    adaptive: bool,
) -> Tensor:
    size = size.tolist() if isinstance(size, Tensor) else list(size)
    if whole:
        size, edges = _spatial(x, layout), 0
    if kind == "avg":
        if adaptive:
            return getattr(functional, f"adaptive_avg_pool{n}d")(x, size, layout)
        return getattr(functional, f"avg_pool{n}d")(x, size, strides, edges, ceil_mode, exclusive, None, layout)
    if not adaptive:
        return getattr(functional, f"max_pool{n}d")(x, size, strides, edges, False, ceil_mode, layout)
    first = layout[-1] != "C"
    order = [0, n + 1, *range(1, n + 1)]
    out = getattr(functional, f"adaptive_max_pool{n}d")(x if first else tensor.transpose(x, order), size)
    return out if first else tensor.transpose(out, [0, *range(2, n + 2), 1])


def pool2d(
    x: Tensor,
    kernel_size: Any,
    strides: Any,
    paddings: Any,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    padding_algorithm: str = "EXPLICIT",
) -> Tensor:
    """Average or max pooling of images.

    Args:
        x: Input tensor.
        kernel_size: Size of a window.
        strides: Stride along each spatial axis.
        paddings: Padding of each spatial axis.
        ceil_mode: Whether sizes are rounded up.
        exclusive: Whether averages leave out the padding.
        data_format: Layout of the axes.
        pooling_type: ``'avg'`` or ``'max'``.
        global_pooling: Whether one window covers everything.
        adaptive: Whether ``kernel_size`` is the spatial size of the result.
        padding_algorithm: ``'EXPLICIT'`` for ``paddings``, ``'SAME'`` or ``'VALID'``. Default: ``'EXPLICIT'``.

    Returns:
        The pooled tensor.

    Examples:
        >>> x = bireme.ones([1, 1, 2, 2])
        >>> bireme._C_ops.pool2d(x, [2, 2], [2, 2], [0, 0], False, True, "NCHW", "avg", False, False).tolist()
        [[[[1.0]]]]
    """
    edges = _edges(paddings, padding_algorithm)
    return _pool(
        2, x, kernel_size, strides, edges, ceil_mode, exclusive, data_format, pooling_type, global_pooling, adaptive
    )


def pool3d(
    x: Tensor,
    kernel_size: Any,
    strides: Any,
    paddings: Any,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    padding_algorithm: str = "EXPLICIT",
) -> Tensor:
    """Average or max pooling of volumes.

    Args:
        x: Input tensor.
        kernel_size: Size of a window.
        strides: Stride along each spatial axis.
        paddings: Padding of each spatial axis.
        ceil_mode: Whether sizes are rounded up.
        exclusive: Whether averages leave out the padding.
        data_format: Layout of the axes.
        pooling_type: ``'avg'`` or ``'max'``.
        global_pooling: Whether one window covers everything.
        adaptive: Whether ``kernel_size`` is the spatial size of the result.
        padding_algorithm: ``'EXPLICIT'`` for ``paddings``, ``'SAME'`` or ``'VALID'``. Default: ``'EXPLICIT'``.

    Returns:
        The pooled tensor.
    """
    edges = _edges(paddings, padding_algorithm)
    return _pool(
        3, x, kernel_size, strides, edges, ceil_mode, exclusive, data_format, pooling_type, global_pooling, adaptive
    )


def lp_pool2d(
    x: Tensor,
    kernel_size: Any,
    strides: Any,
    paddings: Any,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    padding_algorithm: str = "EXPLICIT",
    norm_type: float = 2.0,
) -> Tensor:
    """Pooling of images by the p-norm of each window.

    Args:
        x: Input tensor.
        kernel_size: Size of a window.
        strides: Stride along each spatial axis.
        paddings: Padding of each spatial axis.
        ceil_mode: Whether sizes are rounded up.
        exclusive: Has no effect.
        data_format: Layout of the axes.
        pooling_type: Has no effect.
        global_pooling: Whether one window covers everything.
        adaptive: Has no effect.
        padding_algorithm: ``'EXPLICIT'`` for ``paddings``, ``'SAME'`` or ``'VALID'``. Default: ``'EXPLICIT'``.
        norm_type: Order of the norm. Default: 2.0.

    Returns:
        The pooled tensor.
    """
    size = _spatial(x, data_format) if global_pooling else kernel_size
    return functional.lp_pool2d(
        x, norm_type, size, strides, _edges(paddings, padding_algorithm), ceil_mode, data_format
    )


def _indexed(
    n: int, x: Tensor, size: Any, strides: Any, paddings: Any, whole: bool, adaptive: bool, ceil_mode: bool
) -> tuple[Tensor, Tensor]:
    if adaptive:
        return getattr(functional, f"adaptive_max_pool{n}d")(x, size, True)
    if whole:
        size, paddings = x.shape[2:], 0
    return getattr(functional, f"max_pool{n}d")(x, size, strides, paddings, True, ceil_mode)


def max_pool2d_with_index(
    x: Tensor,
    kernel_size: Any,
    strides: Any = (1, 1),
    paddings: Any = (0, 0),
    global_pooling: bool = False,
    adaptive: bool = False,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """Max pooling of images with indices.

    Args:
        x: Input tensor.
        kernel_size: Size of a window.
        strides: Stride along each spatial axis. Default: ``[1, 1]``.
        paddings: Padding of each spatial axis. Default: ``[0, 0]``.
        global_pooling: Whether one window covers everything. Default: False.
        adaptive: Whether ``kernel_size`` is the spatial size of the result. Default: False.
        ceil_mode: Whether sizes are rounded up. Default: False.

    Returns:
        The maxima, and their indices.
    """
    return _indexed(2, x, kernel_size, strides, paddings, global_pooling, adaptive, ceil_mode)


def max_pool3d_with_index(
    x: Tensor,
    kernel_size: Any,
    strides: Any = (1, 1, 1),
    paddings: Any = (0, 0, 0),
    global_pooling: bool = False,
    adaptive: bool = False,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """Max pooling of volumes with indices.

    Args:
        x: Input tensor.
        kernel_size: Size of a window.
        strides: Stride along each spatial axis. Default: ``[1, 1, 1]``.
        paddings: Padding of each spatial axis. Default: ``[0, 0, 0]``.
        global_pooling: Whether one window covers everything. Default: False.
        adaptive: Whether ``kernel_size`` is the spatial size of the result. Default: False.
        ceil_mode: Whether sizes are rounded up. Default: False.

    Returns:
        The maxima, and their indices.
    """
    return _indexed(3, x, kernel_size, strides, paddings, global_pooling, adaptive, ceil_mode)


def fractional_max_pool2d(
    x: Tensor, output_size: Any, kernel_size: Any = (0, 0), random_u: float = 0.0, return_mask: bool = True
) -> Any:
    """Max pooling of images over windows of random sizes.

    Args:
        x: Input tensor.
        output_size: Spatial size of the result.
        kernel_size: Size of a window; zeros follow from ``output_size``. Default: ``[0, 0]``.
        random_u: Random number in (0, 1) that the windows follow from; 0 draws one. Default: 0.0.
        return_mask: Has no effect: indices are returned. Default: True.

    Returns:
        The maxima, and their indices.
    """
    return functional.fractional_max_pool2d(
        x, output_size, kernel_size if any(kernel_size) else None, random_u or None, True
    )


def fractional_max_pool3d(
    x: Tensor, output_size: Any, kernel_size: Any = (0, 0, 0), random_u: float = 0.0, return_mask: bool = True
) -> Any:
    """Max pooling of volumes over windows of random sizes.

    Args:
        x: Input tensor.
        output_size: Spatial size of the result.
        kernel_size: Size of a window; zeros follow from ``output_size``. Default: ``[0, 0, 0]``.
        random_u: Random number in (0, 1) that the windows follow from; 0 draws one. Default: 0.0.
        return_mask: Has no effect: indices are returned. Default: True.

    Returns:
        The maxima, and their indices.
    """
    return functional.fractional_max_pool3d(
        x, output_size, kernel_size if any(kernel_size) else None, random_u or None, True
    )
