"""Kinds of the detection of objects."""

from __future__ import annotations

import math
from typing import Any

from bireme.core.base.errors import FileFormatError
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models.kinds.table import kind
from bireme.ops import (
    arange,
    box_coder,
    deform_conv2d,
    distribute_fpn_proposals,
    expand,
    generate_proposals,
    matrix_nms,
    multiclass_nms,
    prior_box,
    reshape,
    roi_align,
    roi_pool,
    stack,
    to_tensor,
    yolo_box,
)  # fmt: skip


@kind("multiclass_nms3", "bboxes scores rois_num")
def _multiclass_nms3(bboxes: Tensor, scores: Tensor, rois_num: Any = None, **options: Any) -> Any:
    if rois_num is not None:
        raise FileFormatError("multiclass_nms3 with boxes of several images in one list")
    return tuple(multiclass_nms(bboxes, scores, **options))


@kind("matrix_nms", "bboxes scores")
def _matrix_nms(bboxes: Tensor, scores: Tensor, **options: Any) -> Any:
    out, number, index = matrix_nms(bboxes, scores, **options, return_index=True)
    return out, index, number


@kind("roi_align", "x boxes boxes_num")
def _roi_align(
    x: Tensor,
    boxes: Tensor,
    boxes_num: Tensor,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    return roi_align(x, boxes, boxes_num, (pooled_height, pooled_width), spatial_scale, sampling_ratio, aligned)


@kind("roi_pool", "x boxes boxes_num")
def _roi_pool(
    x: Tensor,
    boxes: Tensor,
    boxes_num: Tensor,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
) -> Tensor:
    return roi_pool(x, boxes, boxes_num, (pooled_height, pooled_width), spatial_scale)


@kind("yolo_box", "x img_size")
def _yolo_box(x: Tensor, img_size: Tensor, **options: Any) -> Any:
    return tuple(yolo_box(x, img_size, **options))


@kind("prior_box", "input image")
def _prior_box(
    input: Tensor,
    image: Tensor,
    min_sizes: Any,
    max_sizes: Any = (),
    aspect_ratios: Any = (1.0,),
    variances: Any = (0.1, 0.1, 0.2, 0.2),
    flip: bool = False,
    clip: bool = False,
    step_w: float = 0.0,
    step_h: float = 0.0,
    offset: float = 0.5,
    min_max_aspect_ratios_order: bool = False,
) -> Any:
    return tuple(
        prior_box(
            input, image, list(min_sizes), list(max_sizes) or None, list(aspect_ratios), list(variances), flip, clip,
            [step_w, step_h], offset, min_max_aspect_ratios_order,
        )
    )  # fmt: skip


@kind("box_coder", "prior_box prior_box_var target_box")
def _box_coder(
    prior_box: Tensor,
    prior_box_var: Any,
    target_box: Tensor,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    axis: int = 0,
    variance: Any = (),
) -> Tensor:
    given: Any = prior_box_var if prior_box_var is not None else list(variance) or None
    return box_coder(prior_box, given, target_box, code_type, box_normalized, axis)


@kind("deformable_conv", "x offset filter mask")
def _deformable_conv(
    x: Tensor,
    offset: Tensor,
    filter: Tensor,
    mask: Tensor | None = None,
    strides: Any = (1, 1),
    paddings: Any = (0, 0),
    dilations: Any = (1, 1),
    deformable_groups: int = 1,
    groups: int = 1,
    im2col_step: int = 1,
) -> Tensor:
    return deform_conv2d(
        x, offset, filter, None, list(strides), list(paddings), list(dilations), deformable_groups, groups, mask
    )


@kind("generate_proposals", "scores bbox_deltas im_shape anchors variances")
def _generate_proposals(
    scores: Tensor, bbox_deltas: Tensor, im_shape: Tensor, anchors: Tensor, variances: Tensor, **options: Any
) -> Any:
    return tuple(generate_proposals(scores, bbox_deltas, im_shape, anchors, variances, **options, return_rois_num=True))


@kind("distribute_fpn_proposals", "fpn_rois rois_num")
def _distribute_fpn_proposals(fpn_rois: Tensor, rois_num: Tensor | None = None, **options: Any) -> Any:
    boxes, restore, numbers = distribute_fpn_proposals(fpn_rois, rois_num=rois_num, **options)
    return list(boxes), restore, None if numbers is None else list(numbers)


@kind("anchor_generator", "input")
def _anchor_generator(
    input: Tensor,
    anchor_sizes: Any = (64.0, 128.0, 256.0, 512.0),
    aspect_ratios: Any = (0.5, 1.0, 2.0),
    variances: Any = (0.1, 0.1, 0.2, 0.2),
    stride: Any = (16.0, 16.0),
    offset: float = 0.5,
) -> Any:
    """Boxes of each ratio and size around each place of a feature map."""
    height, width = input.shape[2:]
    x, y = stride
    half = []
    for ratio in aspect_ratios:
        base = math.floor(math.sqrt(x * y / ratio) + 0.5)  # whole sides: a box of the stride's area, to this ratio
        for size in anchor_sizes:
            half.append([(size / x * base - 1) / 2, (size / y * math.floor(base * ratio + 0.5) - 1) / 2])
    sides = to_tensor(half, input.dtype)
    across = expand(
        reshape(arange(width, dtype=input.dtype) * x + offset * (x - 1), [1, -1, 1]), [height, width, len(half)]
    )
    down = expand(
        reshape(arange(height, dtype=input.dtype) * y + offset * (y - 1), [-1, 1, 1]), [height, width, len(half)]
    )
    boxes = stack([across - sides[:, 0], down - sides[:, 1], across + sides[:, 0], down + sides[:, 1]], -1)
    return boxes, expand(to_tensor(list(variances), input.dtype), [height, width, len(half), 4])
