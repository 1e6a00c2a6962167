"""Operators and layers of detection, images from bytes, and building blocks of vision models."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme import nn
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import Attr, must_be_positive
from bireme.ops import (  # written by `make api`
    box_coder, deform_conv2d, distribute_fpn_proposals, generate_proposals, matrix_nms, nms, prior_box, psroi_pool,
    roi_align, roi_pool, yolo_box, yolo_loss,
)  # fmt: skip
from bireme.ops.creation.tensors import to_tensor
from bireme.ops.vision.arguments import pair
from bireme.vision.image import pillow

__all__ = ["ConvNormActivation", "DeformConv2D", "PSRoIPool", "RoIAlign", "RoIPool", "decode_jpeg", "read_file"]
__all__ += [  # written by `make api`
    "box_coder", "deform_conv2d", "distribute_fpn_proposals", "generate_proposals", "matrix_nms", "nms", "prior_box",
    "psroi_pool", "roi_align", "roi_pool", "yolo_box", "yolo_loss",
]  # fmt: skip


class ConvNormActivation(nn.Sequential):
    """Convolution, normalization and activation in sequence.

    Args:
        in_channels: Number of channels of the input.
        out_channels: Number of channels of the output.
        kernel_size: Size of the kernel. Default: 3.
        stride: Stride of the convolution. Default: 1.
        padding: Padding of the convolution. Default: None, what keeps the size of the image at stride 1.
        groups: Number of groups of channels. Default: 1.
        norm_layer: Class of the normalization; None leaves it out. Default: ``BatchNorm2D``.
        activation_layer: Class of the activation; None leaves it out. Default: ``ReLU``.
        dilation: Dilation of the convolution. Default: 1.
        bias: Give the convolution a bias. Default: None, only without normalization.

    Examples:
        >>> [type(layer).__name__ for layer in bireme.vision.ops.ConvNormActivation(3, 8)]
        ['Conv2D', 'BatchNorm2D', 'ReLU']
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int] = 3,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str | None = None,
        groups: int = 1,
        norm_layer: Callable[..., nn.Layer] | None = nn.BatchNorm2D,
        activation_layer: Callable[..., nn.Layer] | None = nn.ReLU,
        dilation: int = 1,
        bias: bool | None = None,
    ):
        if padding is None:
            sizes = kernel_size if isinstance(kernel_size, Sequence) else [kernel_size]
            each = [(size - 1) // 2 * dilation for size in sizes]
            padding = each if isinstance(kernel_size, Sequence) else each[0]
        with_bias = norm_layer is None if bias is None else bias
        conv = nn.Conv2D(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias_attr=None if with_bias else False,
        )
        layers: list[nn.Layer] = [conv]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer())
        super().__init__(*layers)


class _RegionPool(nn.Layer):
    """What the layers that pool regions share: sizes, checked once, and the ``repr``."""

    def __init__(self, output_size: int | Sequence[int], spatial_scale: float = 1.0):
        super().__init__()
        pair(f"{type(self).__name__}(output_size)", output_size)
        errors.check_number(f"{type(self).__name__}(spatial_scale)", spatial_scale)
        self._output_size, self._spatial_scale = output_size, spatial_scale

    def extra_repr(self) -> str:
        return f"output_size={self._output_size}, spatial_scale={self._spatial_scale}"


class RoIAlign(_RegionPool):
    """Layer that pools regions of feature maps to one size by bilinear interpolation, see ``roi_align``.

    Args:
        output_size: Number of bins down and across: one integer for both, or two.
        spatial_scale: Factor from the coordinates of boxes to pixels of the feature maps. Default: 1.0.

    Shape:
        - x: ``[N, C, H, W]``; boxes: ``[n, 4]``; boxes_num: ``[N]``.
        - output: ``[n, C, bins down, bins across]``.

    Examples:
        >>> x, boxes = bireme.arange(16.0).reshape([1, 1, 4, 4]), bireme.to_tensor([[0.0, 0.0, 4.0, 4.0]])
        >>> bireme.vision.ops.RoIAlign(2)(x, boxes, bireme.to_tensor([1])).tolist()
        [[[[2.5, 4.5], [10.5, 12.5]]]]
    """

    def forward(self, x: Tensor, boxes: Tensor, boxes_num: Tensor, aligned: bool = True) -> Tensor:
        """Pool the regions.

        Args:
            x: Feature maps of shape ``[N, C, H, W]``.
            boxes: Regions ``(x1, y1, x2, y2)`` of shape ``[n, 4]``, those of the first image first.
            boxes_num: Number of regions in each image, of shape ``[N]``.
            aligned: Whether pixels have their centers at halves. Default: True.

        Returns:
            Tensor of shape ``[n, C, bins down, bins across]``.

        Examples:
            >>> x, boxes = bireme.ones([1, 4, 4, 4]), bireme.to_tensor([[0.0, 0.0, 4.0, 4.0]])
            >>> bireme.vision.ops.RoIAlign(2).forward(x, boxes, bireme.to_tensor([1])).shape
            [1, 4, 2, 2]
        """
        return roi_align(x, boxes, boxes_num, self._output_size, self._spatial_scale, aligned=aligned)


class RoIPool(_RegionPool):
    """Layer that pools regions of feature maps to one size by maxima, see ``roi_pool``.

    Args:
        output_size: Number of bins down and across: one integer for both, or two.
        spatial_scale: Factor from the coordinates of boxes to pixels of the feature maps. Default: 1.0.

    Shape:
        - x: ``[N, C, H, W]``; boxes: ``[n, 4]``; boxes_num: ``[N]``.
        - output: ``[n, C, bins down, bins across]``.

    Examples:
        >>> x, boxes = bireme.arange(16.0).reshape([1, 1, 4, 4]), bireme.to_tensor([[0.0, 0.0, 3.0, 3.0]])
        >>> bireme.vision.ops.RoIPool(2)(x, boxes, bireme.to_tensor([1])).tolist()
        [[[[5.0, 7.0], [13.0, 15.0]]]]
    """

    def forward(self, x: Tensor, boxes: Tensor, boxes_num: Tensor) -> Tensor:
        """Pool the regions.

        Args:
            x: Feature maps of shape ``[N, C, H, W]``.
            boxes: Regions ``(x1, y1, x2, y2)`` of shape ``[n, 4]``, those of the first image first.
            boxes_num: Number of regions in each image, of shape ``[N]``.

        Returns:
            Tensor of shape ``[n, C, bins down, bins across]``.

        Examples:
            >>> x, boxes = bireme.ones([1, 4, 4, 4]), bireme.to_tensor([[0.0, 0.0, 4.0, 4.0]])
            >>> bireme.vision.ops.RoIPool(2).forward(x, boxes, bireme.to_tensor([1])).shape
            [1, 4, 2, 2]
        """
        return roi_pool(x, boxes, boxes_num, self._output_size, self._spatial_scale)


class PSRoIPool(_RegionPool):
    """Layer that pools regions of feature maps to one size, each bin from channels of its own, see ``psroi_pool``.

    Args:
        output_size: Number of bins ``h`` down and ``w`` across: one integer for both, or two.
        spatial_scale: Factor from the coordinates of boxes to pixels of the feature maps. Default: 1.0.

    Shape:
        - x: ``[N, C * h * w, H, W]``; boxes: ``[n, 4]``; boxes_num: ``[N]``.
        - output: ``[n, C, h, w]``.

    Examples:
        >>> x, boxes = bireme.arange(16.0).reshape([1, 4, 2, 2]), bireme.to_tensor([[0.0, 0.0, 1.0, 1.0]])
        >>> bireme.vision.ops.PSRoIPool(2)(x, boxes, bireme.to_tensor([1])).tolist()
        [[[[0.0, 5.0], [10.0, 15.0]]]]
    """

    def forward(self, x: Tensor, boxes: Tensor, boxes_num: Tensor) -> Tensor:
        """Pool the regions.

        Args:
            x: Feature maps of shape ``[N, C * h * w, H, W]``.
            boxes: Regions ``(x1, y1, x2, y2)`` of shape ``[n, 4]``, those of the first image first.
            boxes_num: Number of regions in each image, of shape ``[N]``.

        Returns:
            Tensor of shape ``[n, C, bins down, bins across]``.

        Examples:
            >>> x, boxes = bireme.ones([1, 4, 4, 4]), bireme.to_tensor([[0.0, 0.0, 4.0, 4.0]])
            >>> bireme.vision.ops.PSRoIPool(2).forward(x, boxes, bireme.to_tensor([1])).shape
            [1, 1, 2, 2]
        """
        return psroi_pool(x, boxes, boxes_num, self._output_size, self._spatial_scale)


class DeformConv2D(nn.Layer):
    """Deformable convolution: the kernel reads each pixel at an offset of its own, see ``deform_conv2d``.

    Args:
        in_channels: Number of channels of the input.
        out_channels: Number of channels of the output.
        kernel_size: Size of the kernel: one integer, or two for height and width.
        stride: Step of the kernel: one integer, or two. Default: 1.
        padding: Zeros on each side: one non-negative integer, or two. Default: 0.
        dilation: Distance of the points of the kernel: one integer, or two. Default: 1.
        deformable_groups: Number of groups of channels with offsets of their own. Default: 1.
        groups: Number of groups of channels that are convolved apart. Default: 1.
        weight_attr: Attributes of the kernel. Default: None, drawn from a normal distribution.
        bias_attr: Attributes of the bias; False leaves it out. Default: None, zeros.

    Shape:
        - x: ``[N, in_channels, H, W]``; offset: ``[N, 2 * deformable_groups * kH * kW, H_out, W_out]``; mask:
          ``[N, deformable_groups * kH * kW, H_out, W_out]`` or None.
        - output: ``[N, out_channels, H_out, W_out]``.

    Examples:
        >>> layer = bireme.vision.ops.DeformConv2D(3, 8, 3, padding=1)
        >>> layer(bireme.ones([2, 3, 5, 5]), bireme.zeros([2, 18, 5, 5])).shape
        [2, 8, 5, 5]
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        deformable_groups: int = 1,
        groups: int = 1,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
    ):
        super().__init__()
        must_be_positive("DeformConv2D", in_channels=in_channels, out_channels=out_channels, groups=groups)
        if weight_attr is False:
            wanted = "a ParamAttr or None, since the weight is required"
            raise errors.bad("DeformConv2D(weight_attr)", wanted, False, kind=errors.ArgumentError)
        if in_channels % groups:
            raise errors.bad("DeformConv2D(in_channels)", f"a multiple of groups = {groups}", in_channels)
        kernel = pair("DeformConv2D(kernel_size)", kernel_size)
        self._stride, self._padding, self._dilation = stride, padding, dilation
        self._deformable_groups, self._groups = deformable_groups, groups
        self._in_channels, self._out_channels = in_channels, out_channels
        start = nn.initializer.Normal(0.0, math.sqrt(2.0 / (in_channels * math.prod(kernel))))
        self.weight: Any = self.create_parameter(
            [out_channels, in_channels // groups, *kernel], weight_attr, default_initializer=start
        )
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def forward(self, x: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        """Convolve at the shifted positions.

        Args:
            x: Images of shape ``[N, in_channels, H, W]``.
            offset: Offsets of shape ``[N, 2 * deformable_groups * kH * kW, H_out, W_out]``.
            mask: Factors of shape ``[N, deformable_groups * kH * kW, H_out, W_out]``. Default: None, 1.

        Returns:
            Tensor of shape ``[N, out_channels, H_out, W_out]``.

        Examples:
            >>> layer = bireme.vision.ops.DeformConv2D(1, 2, 1)
            >>> layer.forward(bireme.ones([1, 1, 2, 2]), bireme.zeros([1, 2, 2, 2])).shape
            [1, 2, 2, 2]
        """
        return deform_conv2d(
            x,
            offset,
            self.weight,
            self.bias,
            self._stride,
            self._padding,
            self._dilation,
            self._deformable_groups,
            self._groups,
            mask,
        )


def read_file(filename: str | os.PathLike, name: str | None = None) -> Tensor:
    """Read the bytes of a file. A service must not pass on a path that its callers choose.

    Args:
        filename: Path of the file.
        name: Not used; kept for Paddle's signature.

    Returns:
        uint8 tensor of one dimension.

    Examples:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "bytes")
        >>> _ = path.write_bytes(b"abc")
        >>> bireme.vision.ops.read_file(path).tolist()
        [97, 98, 99]
    """
    if not isinstance(filename, (str, os.PathLike)):
        raise errors.bad("read_file(filename)", "a path", filename, kind=errors.ArgumentTypeError)
    try:
        with open(filename, "rb") as file:
            data = file.read()
    except OSError as e:
        raise errors.bad(
            "read_file(filename)", "a file that can be read", described=f"{filename}: {e.strerror}", kind=type(e)
        ) from None
    return to_tensor(np.frombuffer(data, np.uint8))


_MODES = {"unchanged": None, "gray": "L", "rgb": "RGB"}


def decode_jpeg(x: Tensor, mode: str = "unchanged", name: str | None = None) -> Tensor:
    """Decode the bytes of a JPEG file. Pillow does it, on the host.

    Args:
        x: uint8 tensor of one dimension, as from ``read_file``.
        mode: ``'unchanged'``, ``'gray'`` or ``'rgb'``. Default: ``'unchanged'``.
        name: Not used; kept for Paddle's signature.

    Returns:
        uint8 tensor of shape ``[C, H, W]``.

    Examples:
        >>> import io, numpy as np
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> Image.fromarray(np.full((8, 16, 3), 128, np.uint8)).save(file, "JPEG")
        >>> data = bireme.to_tensor(np.frombuffer(file.getvalue(), np.uint8))
        >>> image = bireme.vision.ops.decode_jpeg(data)
        >>> image.shape, image[:, 0, 0].tolist()
        ([3, 8, 16], [128, 128, 128])
    """
    if mode not in _MODES:
        raise errors.bad("decode_jpeg(mode)", "'unchanged', 'gray' or 'rgb'", mode)
    if not isinstance(x, Tensor):
        raise errors.bad("decode_jpeg(x)", "a Tensor", x, kind=errors.NotATensorError)
    if x.dtype is not dtypes.uint8 or x.ndim != 1:
        raise errors.bad("decode_jpeg(x)", "uint8 of one dimension", described=f"{x.dtype.name} of shape {x.shape}",
                         kind=errors.DtypeError)  # fmt: skip
    images = pillow("Image")
    try:
        img = images.open(io.BytesIO(x.numpy().tobytes()), formats=["JPEG"])
        pixels = np.asarray(img if _MODES[mode] is None else img.convert(_MODES[mode]))
    except (OSError, SyntaxError, ValueError, images.DecompressionBombError) as e:
        raise errors.bad(
            "decode_jpeg(x)",
            "the bytes of a JPEG file",
            described=f"{x.shape[0]} bytes: {e}",
            kind=errors.FileFormatError,
        ) from None
    return to_tensor(np.ascontiguousarray(np.moveaxis(np.atleast_3d(pixels), -1, 0)))


guard_functions(globals())
