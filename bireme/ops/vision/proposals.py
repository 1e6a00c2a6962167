"""Proposals of regions from anchors, and their levels in a pyramid: found on the host, since numbers depend on values."""

from __future__ import annotations

import math

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.op import Tensor, composite
from bireme.ops.vision.arguments import boxes_on_host, counts_on_host, made, shaped, wide
from bireme.ops.vision.suppression import Overlap, areas, suppressed

_LARGEST = math.log(1000.0 / 16.0)  # exponents of sizes are cut off here


def _decoded(anchors: np.ndarray, deltas: np.ndarray, variances: np.ndarray, offset: int) -> np.ndarray:
    """Boxes that deltas make of anchors, in float32 as Paddle has them."""
    half, most = anchors.dtype.type(0.5), anchors.dtype.type(_LARGEST)
    size = anchors[:, 2:] - anchors[:, :2] + offset
    center = variances[:, :2] * deltas[:, :2] * size + (anchors[:, :2] + half * size)
    size = np.exp(np.minimum(variances[:, 2:] * deltas[:, 2:], most)) * size
    return np.concatenate([center - half * size, center + half * size - offset], axis=1)


def _falling(boxes: np.ndarray, threshold: float, eta: float, offset: int, most: int) -> np.ndarray:
    """`suppressed` with a threshold that is multiplied by `eta` after each box that stays, while it is above 0.5; the
    first `most` at least.
    """
    kind = boxes.dtype.type
    columns, limit, eta = np.ascontiguousarray(boxes.T), kind(threshold), kind(eta)
    kept: list[int] = []
    area, largest, n = areas(columns, offset), np.full(len(boxes), -1, boxes.dtype), 0
    while eta < 1 and limit > 0.5 and n < len(boxes):
        open_ = np.flatnonzero(largest[n:] <= limit)
        if not open_.size:
            return np.array(kept, np.int64)
        n += int(open_[0])
        kept.append(n)
        shared = Overlap(limit, offset).shared(columns[:, n, None], columns)
        np.maximum(largest, shared / (area + area[n] - shared), out=largest)
        limit, n = limit * eta, n + 1
    rest = np.flatnonzero(largest[n:] <= limit) + n
    return np.concatenate([np.array(kept, np.int64), rest[suppressed(boxes[rest], Overlap(limit, offset), most)]])


@composite(public="vision.ops.generate_proposals")
def generate_proposals(
    scores: Tensor,
    bbox_deltas: Tensor,
    img_size: Tensor,
    anchors: Tensor,
    variances: Tensor,
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    pixel_offset: bool = False,
    return_rois_num: bool = False,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Make proposals of regions from anchors and what a network says of them.

    Of each image the anchors with the best scores are moved by their deltas, clipped to the image, left out if they are
    too small, and suppressed where they overlap. An image of which nothing is left has one box of zeros. The size of
    the result depends on the values, so the call computes them at once. It has no gradient.

    Args:
        scores: Scores of shape ``[N, A, H, W]``, of a floating-point dtype.
        bbox_deltas: Deltas ``(x, y, w, h)`` of shape ``[N, 4 * A, H, W]``.
        img_size: Height and width of each image, of shape ``[N, 2]``.
        anchors: Anchors ``(x1, y1, x2, y2)`` of shape ``[H, W, A, 4]`` or ``[H * W * A, 4]``.
        variances: Factors of the deltas, of the shape of ``anchors``.
        pre_nms_top_n: Number of anchors to take of an image at most; 0 or less means all. Default: 6000.
        post_nms_top_n: Number of boxes to return of an image at most; 0 or less means all. Default: 1000.
        nms_thresh: Largest intersection over union of two boxes; 0 or less means that all boxes stay, in any number.
            Default: 0.5.
        min_size: Least width and height of a box, and no less than 1. Default: 0.1.
        eta: Factor of the threshold after each box that stays, while it is greater than 0.5. Default: 1.0.
        pixel_offset: Whether the last pixel belongs to a box. Default: False.
        return_rois_num: Whether to return the number of boxes of each image. Default: False.

    Returns:
        Tuple of the boxes ``[K, 4]``, their scores ``[K, 1]``, and the number of boxes of each image, int32 of shape
        ``[N]``, or None.

    Examples:
        >>> anchors = bireme.to_tensor([[[[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 5.0]]]])
        >>> rois, probabilities, number = bireme.vision.ops.generate_proposals(
        ...     bireme.to_tensor([[[[0.25]], [[0.75]]]]), bireme.zeros([1, 8, 1, 1]), bireme.to_tensor([[10.0, 10.0]]),
        ...     anchors, bireme.ones([1, 1, 2, 4]), return_rois_num=True)
        >>> rois.tolist(), probabilities.tolist(), number.tolist()
        ([[0.0, 0.0, 4.0, 5.0]], [[0.75]], [1])
    """
    name = "generate_proposals"
    shaped(f"{name}(scores)", scores, (None,) * 4, "scores of shape [N, A, H, W]")
    n, a, h, w = scores.shape
    wanted = f"deltas of shape {[n, 4 * a, h, w]}"
    shaped(f"{name}(bbox_deltas)", bbox_deltas, (n, 4 * a, h, w), wanted)
    shaped(f"{name}(img_size)", img_size, (n, 2), f"a height and a width for each of {n} images")
    places = h * w * a
    for which, x in (("anchors", anchors), ("variances", variances)):
        if x.shape not in ([h, w, a, 4], [places, 4]):
            shaped(f"{name}({which})", x, (h, w, a, 4), f"shape {[h, w, a, 4]} or {[places, 4]}")
    offset = 1 if pixel_offset else 0
    probabilities = np.moveaxis(wide(f"{name}(scores)", scores), 1, -1).reshape(n, places)
    deltas = wide(f"{name}(bbox_deltas)", bbox_deltas).reshape(n, a, 4, h, w).transpose(0, 3, 4, 1, 2)
    deltas = deltas.reshape(n, places, 4)
    sizes = wide(f"{name}(img_size)", img_size)
    base, scales = [
        wide(f"{name}({which})", x).reshape(-1, 4) for which, x in (("anchors", anchors), ("variances", variances))
    ]
    least = max(min_size, 1.0)
    rois, best = [], []
    for i in range(n):
        order = np.argsort(-probabilities[i], kind="stable")
        order = order[:pre_nms_top_n] if pre_nms_top_n > 0 else order
        boxes = _decoded(base[order], deltas[i, order], scales[order], offset)
        ends = sizes[i, ::-1] - offset
        boxes = np.clip(boxes, 0, np.concatenate([ends, ends]).astype(boxes.dtype))
        size = boxes[:, 2:] - boxes[:, :2] + offset
        fits = (size >= least).all(axis=1)
        if pixel_offset:
            fits &= (boxes[:, :2] + size / 2 <= sizes[i, ::-1]).all(axis=1)
        boxes, order = boxes[fits], order[fits]
        if nms_thresh > 0 and len(boxes):
            most = post_nms_top_n if post_nms_top_n > 0 else len(boxes)
            kept = _falling(boxes, nms_thresh, eta, offset, most)[:most]
            boxes, order = boxes[kept], order[kept]
        rois.append(boxes if len(boxes) else np.zeros((1, 4), boxes.dtype))
        best.append(probabilities[i, order] if len(boxes) else np.zeros(1, boxes.dtype))
    number = made(np.array([len(part) for part in best]), dtypes.int32, scores) if return_rois_num else None
    return (
        made(np.concatenate([np.zeros((0, 4)), *rois]), scores.dtype, scores),
        made(np.concatenate([np.zeros(0), *best])[:, None], scores.dtype, scores),
        number,
    )


@composite(public="vision.ops.distribute_fpn_proposals")
def distribute_fpn_proposals(
    fpn_rois: Tensor,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool = False,
    rois_num: Tensor | None = None,
) -> tuple[list[Tensor], Tensor, list[Tensor] | None]:
    """Give each region to the level of a feature pyramid that fits its size.

    A region whose area has the root ``s`` goes to level ``floor(refer_level + log2(s / refer_scale))``, or to the
    nearest one that exists. The size of the results depends on the values, so the call computes them at once. It has no
    gradient.

    Args:
        fpn_rois: Boxes ``(x1, y1, x2, y2)`` of shape ``[n, 4]``, of a floating-point dtype.
        min_level: The lowest level.
        max_level: The highest level.
        refer_level: Level of the boxes of size ``refer_scale``.
        refer_scale: Size of the boxes of level ``refer_level``.
        pixel_offset: Whether the last pixel belongs to a box. Default: False.
        rois_num: Number of boxes in each image, integers of shape ``[N]`` that add up to ``n``. Default: None, all are
            of one image.

    Returns:
        Tuple of the boxes of each level, a list of tensors ``[k, 4]``; for each box of ``fpn_rois`` its index in all of
        them one after the other, int32 of shape ``[n, 1]``; and for each level the number of boxes in each image, int32
        of shape ``[N]``, or None without ``rois_num``.

    Examples:
        >>> boxes = bireme.to_tensor([[0.0, 0.0, 300.0, 300.0], [0.0, 0.0, 100.0, 100.0], [0.0, 0.0, 99.0, 99.0]])
        >>> levels, restore, numbers = bireme.vision.ops.distribute_fpn_proposals(
        ...     boxes, 2, 4, 4, 224, rois_num=bireme.to_tensor([3]))
        >>> [x.shape[0] for x in levels], restore.tolist(), [x.tolist() for x in numbers]
        ([2, 0, 1], [[2], [0], [1]], [[2], [0], [1]])
    """
    name = "distribute_fpn_proposals"
    host = boxes_on_host(f"{name}(fpn_rois)", fpn_rois)
    if min_level > max_level:
        raise errors.bad(f"{name}(min_level)", f"at most max_level, {max_level}", min_level)
    if refer_scale < 1:
        raise errors.bad(f"{name}(refer_scale)", "a positive integer", refer_scale)
    counts = None if rois_num is None else counts_on_host(f"{name}(rois_num)", rois_num, len(host))
    kind = host.dtype.type
    width, height = host[:, 2] - host[:, 0], host[:, 3] - host[:, 1]
    area = np.where((width < 0) | (height < 0), kind(0), areas(host.T, 1 if pixel_offset else 0))
    level = np.floor(np.log2(np.sqrt(area) / kind(refer_scale) + kind(1e-6)) + refer_level)
    count = max_level - min_level + 1
    level = np.clip(level, min_level, max_level).astype(np.int64) - min_level
    order = np.argsort(level.astype(np.int16) if count < 2**15 else level, kind="stable")  # short ones by their digits
    restore = np.empty(len(order), np.int64)
    restore[order] = np.arange(len(order))
    ends = np.cumsum(np.bincount(level, minlength=count))[:-1]
    parts = np.split(np.take(fpn_rois._host(), order, axis=0), ends)
    found = [made(part, fpn_rois.dtype, fpn_rois) for part in parts]
    numbers = None
    if counts is not None:
        image = np.repeat(np.arange(len(counts)), counts)
        table = np.bincount(level * len(counts) + image, minlength=count * len(counts)).reshape(count, -1)
        numbers = [made(row, dtypes.int32, fpn_rois) for row in table]
    return found, made(restore[:, None], dtypes.int32, fpn_rois), numbers
