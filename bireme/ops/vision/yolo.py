"""YOLO: boxes from what a network says of each cell, and the loss that it is trained with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.creation.tensors import ones
from bireme.ops.vision.arguments import floating, integers, shaped


def _sigmoid(t):
    return 1 / (1 + jnp.exp(-t))


def _anchors(name: str, anchors: Any) -> tuple[int, ...]:
    if not isinstance(anchors, (list, tuple)) or any(
        isinstance(n, bool) or not isinstance(n, (int, np.integer)) for n in anchors
    ):
        raise errors.bad(f"{name}(anchors)", "a list of integers", anchors, kind=errors.ArgumentTypeError)
    if not anchors or len(anchors) % 2 or min(anchors) <= 0:
        raise errors.bad(f"{name}(anchors)", "pairs of a positive width and height", anchors)
    return tuple([int(n) for n in anchors])


def _positive(name: str, **given: int) -> None:
    for which, n in given.items():
        if n < 1:
            raise errors.bad(f"{name}({which})", "a positive integer", n)


def _detected(x, img_size, anchors, class_num, conf_thresh, downsample_ratio, clip_bbox, scale, iou_aware, factor):
    n, _, h, w = x.shape
    count, kind = len(anchors) // 2, x.dtype
    if iou_aware:
        iou, x = _sigmoid(x[:, :count]), x[:, count:]
    x = x.reshape(n, count, 5 + class_num, h, w)
    size = img_size.astype(kind)[:, :, None, None, None]
    height, width = size[:, 0], size[:, 1]
    sides = np.array(anchors, kind).reshape(count, 2)[:, :, None, None]
    shift = np.asarray(-0.5 * (scale - 1), kind)
    scale = np.asarray(scale, kind)
    across = (np.arange(w).astype(kind) + _sigmoid(x[:, :, 0]) * scale + shift) * width / w
    down = (np.arange(h).astype(kind)[:, None] + _sigmoid(x[:, :, 1]) * scale + shift) * height / h
    half_w = jnp.exp(x[:, :, 2]) * sides[:, 0] * width / (downsample_ratio * w) / 2
    half_h = jnp.exp(x[:, :, 3]) * sides[:, 1] * height / (downsample_ratio * h) / 2
    sure = _sigmoid(x[:, :, 4])
    if iou_aware:
        sure = sure ** np.asarray(1 - factor, kind) * iou ** np.asarray(factor, kind)
    seen = sure >= np.asarray(conf_thresh, kind)
    left, top, right, bottom = across - half_w, down - half_h, across + half_w, down + half_h
    if clip_bbox:
        left, top = jnp.maximum(left, 0), jnp.maximum(top, 0)
        right, bottom = jnp.minimum(right, width - 1), jnp.minimum(bottom, height - 1)
    boxes = jnp.stack([left, top, right, bottom], axis=-1) * seen[..., None].astype(kind)
    scores = jnp.moveaxis(_sigmoid(x[:, :, 5:]), 2, -1) * (sure * seen.astype(kind))[..., None]
    places = count * h * w
    return boxes.reshape(n, places, 4), scores.reshape(n, places, class_num)


@op(internal="yolo_box", dtypes=FLOAT, differentiable=False, numpy=True, upcast=True)
def yolo_box_of(
    x: Tensor,
    img_size: Tensor,
    anchors: Attr,
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool,
    scale_x_y: float,
    iou_aware: bool,
    iou_aware_factor: float,
) -> tuple[Tensor, Tensor]:
    """Boxes and scores of all cells; use `yolo_box`."""
    return _detected(x, img_size, anchors, class_num, conf_thresh, downsample_ratio, clip_bbox, scale_x_y, iou_aware,
                     iou_aware_factor)  # fmt: skip


@yolo_box_of.infer
def _(x, anchors, class_num):
    n, _, h, w = x.shape
    places = len(anchors) // 2 * h * w
    return sig_of((n, places, 4), x.dtype), sig_of((n, places, class_num), x.dtype)


@composite(public="vision.ops.yolo_box")
def yolo_box(
    x: Tensor,
    img_size: Tensor,
    anchors: Attr[Sequence[int]],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool = True,
    name: Attr[str] = None,
    scale_x_y: float = 1.0,
    iou_aware: bool = False,
    iou_aware_factor: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """Boxes and scores from the output of a YOLO network.

    Each cell has for each anchor the shift of a center, the logarithms of a size, a confidence and a score for each
    class. Where the confidence is below the threshold, box and scores are 0. It has no gradient.

    Args:
        x: Output of the network, of shape ``[N, A * (5 + class_num), H, W]`` for ``A`` anchors, of a floating-point
            dtype; with ``iou_aware`` there are ``A`` channels more, in front.
        img_size: Height and width of each image, int32 or int64 of shape ``[N, 2]``.
        anchors: Width and height of each anchor in pixels of the input of the network, one after the other.
        class_num: Number of classes.
        conf_thresh: Least confidence of a box.
        downsample_ratio: Size of the network's input, in sizes of ``x``.
        clip_bbox: Whether to clip boxes to the image. Default: True.
        name: Not used; kept for Paddle's signature.
        scale_x_y: Factor of the shift of a center in its cell. Default: 1.0.
        iou_aware: Whether the network predicts the quality of each box, which counts for its confidence. Default: False.
        iou_aware_factor: Share of that quality in the confidence, an exponent. Default: 0.5.

    Returns:
        Tuple of boxes ``(x1, y1, x2, y2)`` in pixels of the images, of shape ``[N, A * H * W, 4]``, and scores of shape
        ``[N, A * H * W, class_num]``.

    Examples:
        >>> boxes, scores = bireme.vision.ops.yolo_box(
        ...     bireme.zeros([1, 6, 1, 1]), bireme.to_tensor([[32, 64]]), anchors=[16, 8], class_num=1, conf_thresh=0.1,
        ...     downsample_ratio=32)
        >>> boxes.tolist(), scores.tolist()
        ([[[16.0, 12.0, 48.0, 20.0]]], [[[0.25]]])
    """
    sides = _anchors("yolo_box", anchors)
    _positive("yolo_box", class_num=class_num, downsample_ratio=downsample_ratio)
    shaped("yolo_box(x)", x, (None,) * 4, "shape [N, channels, H, W]")
    channels = len(sides) // 2 * (5 + class_num + (1 if iou_aware else 0))
    if x.shape[1] != channels:
        wanted = f"{channels} channels for {len(sides) // 2} anchors and {class_num} classes"
        raise errors.bad("yolo_box(x)", wanted, described=f"shape {x.shape}", kind=errors.ShapeError)
    shaped("yolo_box(img_size)", img_size, (x.shape[0], 2), f"shape {[x.shape[0], 2]}")
    integers("yolo_box(img_size)", img_size)
    return yolo_box_of(x, img_size, sides, class_num, conf_thresh, downsample_ratio, clip_bbox, scale_x_y, iou_aware,
                       iou_aware_factor)  # fmt: skip


# ---------------------------------------------------------------- the loss


def _entropy(logit, label):
    """Cross entropy of a sigmoid, which no logit overflows."""
    return jnp.maximum(logit, 0) - logit * label + jnp.log1p(jnp.exp(-jnp.abs(logit)))


def _iou(a, b):
    """Intersection over union of boxes (x, y, w, h) around their centers; none where they are apart."""
    sides = [
        jnp.minimum(a[i] + a[2 + i] / 2, b[i] + b[2 + i] / 2) - jnp.maximum(a[i] - a[2 + i] / 2, b[i] - b[2 + i] / 2)
        for i in range(2)
    ]
    shared = jnp.where((sides[0] < 0) | (sides[1] < 0), 0, sides[0] * sides[1])
    return shared / (a[2] * a[3] + b[2] * b[3] - shared)


def _loss(
    x, gt_box, gt_label, gt_score, anchors, anchor_mask, class_num, ignore_thresh, downsample_ratio, smooth, scale
):
    (n, _, h, w), count, kind = x.shape, len(anchor_mask), x.dtype
    b = gt_box.shape[1]
    x = x.reshape(n, count, 5 + class_num, h, w)
    logits = x[:, :, 4]
    size = downsample_ratio * h  # of the network's input, which is square
    sides = np.array(anchors, kind).reshape(-1, 2)
    own = sides[list(anchor_mask)]
    gt_box = lax.stop_gradient(gt_box)
    real = (gt_box[..., 2] > 1e-6) & (gt_box[..., 3] > 1e-6)

    still, shift = lax.stop_gradient(x), np.asarray(-0.5 * (scale - 1), kind)
    across = (np.arange(w).astype(kind) + jax.nn.sigmoid(still[:, :, 0]) * np.asarray(scale, kind) + shift) / h
    down = (np.arange(h).astype(kind)[:, None] + jax.nn.sigmoid(still[:, :, 1]) * np.asarray(scale, kind) + shift) / h
    wide = jnp.exp(still[:, :, 2]) * (own[:, 0, None, None] / size)
    high = jnp.exp(still[:, :, 3]) * (own[:, 1, None, None] / size)
    told = [t[..., None] for t in (across, down, wide, high)]
    truth = [gt_box[:, None, None, None, :, i] for i in range(4)]
    overlap = jnp.where(real[:, None, None, None], _iou(told, truth), 0)
    near = jnp.max(overlap, axis=-1, initial=0) > np.asarray(ignore_thresh, kind)

    zero = jnp.zeros_like(gt_box[..., :1])
    fit = _iou([zero, zero, gt_box[..., 2:3], gt_box[..., 3:]], [zero, zero, *(sides / size).T])
    best = jnp.argmax(fit, axis=-1)
    chosen = np.full(len(sides), -1)
    chosen[list(anchor_mask)[::-1]] = np.arange(count)[::-1]
    chosen = jnp.asarray(chosen, jnp.int32)[best]
    taken = real & (chosen >= 0)
    anchor = jnp.where(taken, chosen, 0)
    column = jnp.clip((gt_box[..., 0] * w).astype(jnp.int32), 0, w - 1)
    row = jnp.clip((gt_box[..., 1] * h).astype(jnp.int32), 0, h - 1)
    image = jnp.arange(n, dtype=jnp.int32)[:, None]
    said = x[image, anchor, :, row, column]  # [N, B, 5 + classes]

    score = jnp.where(taken, gt_score, 0)
    weight = (2 - gt_box[..., 2] * gt_box[..., 3]) * score
    target_x = gt_box[..., 0] * h - column.astype(kind)
    target_y = gt_box[..., 1] * h - row.astype(kind)
    sizes = jnp.where(taken[..., None], gt_box[..., 2:], 1) * size / jnp.asarray(sides)[best]
    place = _entropy(said[..., 0], target_x) + _entropy(said[..., 1], target_y)
    place = (place + jnp.sum(jnp.abs(jnp.log(sizes) - said[..., 2:4]), axis=-1)) * weight
    low = min(1 / class_num, 1 / 40) if smooth else 0.0
    hot = gt_label[..., None] == jnp.arange(class_num, dtype=gt_label.dtype)
    labels = jnp.where(hot, np.asarray(1 - low, kind), np.asarray(low, kind))
    classes = jnp.sum(_entropy(said[..., 5:], labels), axis=-1) * score

    # of several boxes in a cell the last one counts
    order = jnp.broadcast_to(jnp.arange(b, dtype=jnp.int32), (n, b))
    last = jnp.full((n, count, h, w), -1, jnp.int32)
    last = last.at[image, anchor, row, column].max(jnp.where(taken, order, -1))
    there = jnp.take_along_axis(gt_score, jnp.maximum(last, 0).reshape(n, -1), axis=1).reshape(last.shape) if b else 0
    object_ = jnp.where(last >= 0, there, 0)
    sure = jnp.where(object_ > 1e-5, _entropy(logits, 1) * object_, 0)
    free = (object_ <= 1e-5) & ((last >= 0) | ~near)
    sure = sure + jnp.where(free, _entropy(logits, 0), 0)
    return jnp.sum(place + classes, axis=1) + jnp.sum(sure, axis=(1, 2, 3))


@op(internal="yolo_loss", promote="x gt_box gt_score", dtypes=FLOAT, upcast=True, constants="gt_box gt_score")
def yolo_loss_of(
    x: Tensor,
    gt_box: Tensor,
    gt_label: Tensor,
    gt_score: Tensor,
    anchors: Attr,
    anchor_mask: Attr,
    class_num: int,
    ignore_thresh: float,
    downsample_ratio: int,
    use_label_smooth: bool,
    scale_x_y: float,
) -> Tensor:
    """Loss of each image; use `yolo_loss`."""
    return _loss(x, gt_box, gt_label, gt_score, anchors, anchor_mask, class_num, ignore_thresh, downsample_ratio,
                 use_label_smooth, scale_x_y)  # fmt: skip


yolo_loss_of.infer(lambda x: sig_of(x.shape[:1], x.dtype))
yolo_loss_of.effort(lambda x, gt_box: 40 * x.size * max(gt_box.shape[1], 1))


@composite(public="vision.ops.yolo_loss")
def yolo_loss(
    x: Tensor,
    gt_box: Tensor,
    gt_label: Tensor,
    anchors: Attr[Sequence[int]],
    anchor_mask: Attr[Sequence[int]],
    class_num: int,
    ignore_thresh: float,
    downsample_ratio: int,
    gt_score: Tensor | None = None,
    use_label_smooth: bool = True,
    name: Attr[str] = None,
    scale_x_y: float = 1.0,
) -> Tensor:
    """YOLOv3 loss of each image: of places, sizes, confidences and classes.

    Each true box belongs to the anchor that fits its size best; if that is one of ``anchor_mask``, to the cell that its
    center lies in. Confidences are not punished where a predicted box overlaps with a true one by more than
    ``ignore_thresh``.

    Args:
        x: Output of the network, of shape ``[N, len(anchor_mask) * (5 + class_num), H, H]``, of a floating-point dtype.
        gt_box: True boxes ``(x, y, w, h)`` around their centers, as fractions of the image, of shape ``[N, B, 4]``; one
            without width or height is none. Without gradient.
        gt_label: Class of each true box, int32 or int64 of shape ``[N, B]``.
        anchors: Width and height of each anchor in pixels of the input of the network, one after the other.
        anchor_mask: Indices of the anchors that ``x`` tells of.
        class_num: Number of classes.
        ignore_thresh: Intersection over union above which confidences are not punished.
        downsample_ratio: Size of the network's input, in sizes of ``x``.
        gt_score: Weight of each true box, of shape ``[N, B]``. Default: None, 1.
        use_label_smooth: Whether to smooth the labels of classes by ``min(1 / class_num, 1 / 40)``. Default: True.
        name: Not used; kept for Paddle's signature.
        scale_x_y: Factor of the shift of a center in its cell. Default: 1.0.

    Returns:
        Tensor of shape ``[N]`` and the dtype of ``x``.

    Examples:
        >>> loss = bireme.vision.ops.yolo_loss(
        ...     bireme.zeros([1, 6, 1, 1]), bireme.zeros([1, 1, 4]), bireme.zeros([1, 1], "int32"), anchors=[16, 8],
        ...     anchor_mask=[0], class_num=1, ignore_thresh=0.7, downsample_ratio=32)
        >>> round(loss.item(), 4)
        0.6931
    """
    sides = _anchors("yolo_loss", anchors)
    _positive("yolo_loss", class_num=class_num, downsample_ratio=downsample_ratio)
    if not isinstance(anchor_mask, (list, tuple)) or not anchor_mask:
        raise errors.bad("yolo_loss(anchor_mask)", "a list of integers", anchor_mask, kind=errors.ArgumentTypeError)
    for i in anchor_mask:
        if isinstance(i, bool) or not isinstance(i, (int, np.integer)) or not 0 <= i < len(sides) // 2:
            wanted = f"indices in [0, {len(sides) // 2 - 1}]"
            raise errors.bad("yolo_loss(anchor_mask)", wanted, i, kind=errors.OutOfRangeError)
    shaped("yolo_loss(x)", x, (None,) * 4, "shape [N, channels, H, W]")
    channels = len(anchor_mask) * (5 + class_num)
    if x.shape[1] != channels:
        wanted = f"{channels} channels for {len(anchor_mask)} anchors and {class_num} classes"
        raise errors.bad("yolo_loss(x)", wanted, described=f"shape {x.shape}", kind=errors.ShapeError)
    if x.shape[2] != x.shape[3]:
        raise errors.bad(
            "yolo_loss(x)", "as many rows as columns", described=f"shape {x.shape}", kind=errors.ShapeError
        )
    n = x.shape[0]
    shaped("yolo_loss(gt_box)", gt_box, (n, None, 4), f"shape [{n}, B, 4]")
    floating("yolo_loss(gt_box)", gt_box)
    both = tuple(gt_box.shape[:2])
    shaped("yolo_loss(gt_label)", gt_label, both, f"shape {list(both)}")
    integers("yolo_loss(gt_label)", gt_label)
    if gt_score is None:
        gt_score = ones(list(both), x.dtype)
    shaped("yolo_loss(gt_score)", gt_score, both, f"shape {list(both)}")
    mask = tuple([int(i) for i in anchor_mask])
    return yolo_loss_of(x, gt_box, gt_label, gt_score, sides, mask, class_num, ignore_thresh, downsample_ratio,
                        use_label_smooth, scale_x_y)  # fmt: skip
