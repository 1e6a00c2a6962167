"""Non-maximum suppression: how many boxes stay depends on values, so the host finds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.op import Attr, Tensor, composite
from bireme.core.graph.graph import sig_of
from bireme.ops.vision.arguments import boxes_on_host, made, shaped, wide
from bireme.ops.vision.suppression import Overlap, areas, suppressed, suppressed_in_groups


@composite(public="vision.ops.nms", name_arg=False)
def nms(
    boxes: Tensor,
    iou_threshold: float = 0.3,
    scores: Tensor | None = None,
    category_idxs: Tensor | None = None,
    categories: Attr[Sequence[int]] = None,
    top_k: Attr[int] = None,
) -> Tensor:
    """Indices of the boxes that stay when each box removes the worse ones that overlap with it.

    Boxes are taken from the best to the worst. One whose intersection over union with a box that stayed is greater than
    ``iou_threshold`` is removed. The size of the result depends on the values, so the call computes them at once. It
    has no gradient.

    Args:
        boxes: Boxes ``(x1, y1, x2, y2)`` of shape ``[n, 4]``, of a floating-point dtype.
        iou_threshold: Largest intersection over union that two boxes may have. Default: 0.3.
        scores: Score of each box, of shape ``[n]``; equal scores keep their order. Default: None, the boxes are in
            order of their scores.
        category_idxs: Category of each box, integers of shape ``[n]``: boxes of different categories do not remove one
            another. It needs ``scores`` and ``categories``. Default: None.
        categories: The categories to return boxes of. Default: None.
        top_k: Number of boxes to return at most, where there are categories; not greater than ``n``. Default: None, all.

    Returns:
        int64 tensor of indices, in descending order of the scores.

    Examples:
        >>> boxes = bireme.to_tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 5.0], [5.0, 5.0, 9.0, 9.0]])
        >>> bireme.vision.ops.nms(boxes, 0.5).tolist()
        [0, 2]
        >>> bireme.vision.ops.nms(boxes, 0.5, scores=bireme.to_tensor([0.2, 0.3, 0.9])).tolist()
        [2, 1]
    """
    host = boxes_on_host("nms(boxes)", boxes)
    n = len(host)
    overlap = Overlap(host.dtype.type(iou_threshold))
    if category_idxs is not None and (scores is None or categories is None):
        missing = "scores" if scores is None else "categories"
        raise errors.bad(f"nms({missing})", f"{missing}, since category_idxs is given", None)
    if scores is None:
        return made(suppressed(host, overlap), dtypes.int64, boxes)
    shaped("nms(scores)", scores, (n,), f"one score for each of the {n} boxes")
    order = np.argsort(-wide("nms(scores)", scores), kind="stable")
    if category_idxs is None:
        return made(order[suppressed(host[order], overlap)], dtypes.int64, boxes)
    shaped("nms(category_idxs)", category_idxs, (n,), f"one category for each of the {n} boxes")
    if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, (int, np.integer)) or top_k < 0):
        raise errors.bad("nms(top_k)", "a non-negative integer or None", top_k, kind=errors.for_integer(top_k))
    if top_k is not None and top_k > n:
        raise errors.bad("nms(top_k)", f"at most the number of boxes, {n}", top_k)
    if not isinstance(categories, (list, tuple)):
        raise errors.bad("nms(categories)", "a list of integers", categories, kind=errors.ArgumentTypeError)
    own = category_idxs._host()[order]
    order = order[np.isin(own, list(categories))]
    kept = suppressed_in_groups(host[order], category_idxs._host()[order], overlap)
    return made(order[kept][:top_k], dtypes.int64, boxes)


def _decayed(boxes: np.ndarray, scores: np.ndarray, sigma: float | None, normalized: bool) -> np.ndarray:
    """Scores of boxes in descending order, each lowered by the better boxes that it overlaps with."""
    kind, overlap = boxes.dtype, Overlap(boxes.dtype.type(0), 0 if normalized else 1)
    columns = np.ascontiguousarray(boxes.T)
    shared, area = overlap.shared(columns[:, :, None], columns), areas(columns, overlap.offset)
    better = np.triu(np.ones(shared.shape, bool), 1)
    with np.errstate(all="ignore"):
        iou = np.where(better & (shared > 0), shared / (area[:, None] + area - shared), kind.type(0))
        most = iou.max(axis=0, initial=0)[:, None]  # of each box with the better ones
        # 0 / 0 where a box equals a better one: another box then says how far the score falls
        decay = (1 - iou) / (1 - most) if sigma is None else np.exp((most**2 - iou**2) * kind.type(sigma))
    return scores * np.fmin.reduce(np.where(better, decay, kind.type(1)), axis=0, initial=1)


def _best_of_image(boxes: np.ndarray, scores: np.ndarray, background: int, options: dict[str, Any]) -> tuple:
    """Categories, scores and indices of the boxes of one image that stay, in order."""
    found: list[tuple] = []
    for category in range(len(scores)):
        if category == background:
            continue
        own = np.flatnonzero(scores[category] > options["score_threshold"])
        own = own[np.argsort(-scores[category, own], kind="stable")]
        own = own[: options["nms_top_k"]] if options["nms_top_k"] > -1 else own
        decayed = _decayed(boxes[own], scores[category, own], options["sigma"], options["normalized"])
        kept = decayed > options["post_threshold"]
        found.append((np.full(kept.sum(), category), decayed[kept], own[kept]))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, scores.dtype), np.zeros(0, np.int64)
    labels, best, index = [np.concatenate(parts) for parts in zip(*found)]
    order = np.argsort(-best, kind="stable")
    order = order[: options["keep_top_k"]] if options["keep_top_k"] > -1 else order
    return labels[order], best[order], index[order]


def _numbers(where: str, bboxes: Any, scores: Any) -> tuple[int, int]:
    """The numbers of images and boxes."""
    shaped(f"{where}(bboxes)", bboxes, (None, None, 4), "boxes of shape [N, M, 4]")
    n, m = bboxes.shape[:2]
    shaped(f"{where}(scores)", scores, (n, None, m), f"scores of shape [{n}, C, {m}]")
    return n, m


@composite(public="vision.ops.matrix_nms")
def matrix_nms(
    bboxes: Tensor,
    scores: Tensor,
    score_threshold: float,
    post_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
    background_label: int = 0,
    normalized: bool = True,
    return_index: bool = False,
    return_rois_num: bool = True,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Lower the score of each box by its overlap with better boxes of its category, and return the best of them.

    The size of the result depends on the values, so the call computes them at once. It has no gradient.

    Args:
        bboxes: Boxes ``(x1, y1, x2, y2)`` of shape ``[N, M, 4]``, of a floating-point dtype.
        scores: Scores of shape ``[N, C, M]`` for ``C`` categories.
        score_threshold: Boxes with a score that is not greater are left out at the start.
        post_threshold: Boxes with a lowered score that is not greater are left out at the end.
        nms_top_k: Number of boxes of a category to compare at most; -1 means all.
        keep_top_k: Number of boxes of an image to return at most; -1 means all.
        use_gaussian: Whether scores fall as a Gaussian of the overlap, else linearly. Default: False.
        gaussian_sigma: Factor in the exponent of the Gaussian. Default: 2.0.
        background_label: Category to leave out; -1 means none. Default: 0.
        normalized: Whether coordinates are fractions of the image; else the last pixel belongs to a box. Default: True.
        return_index: Whether to return the indices of the boxes. Default: False.
        return_rois_num: Whether to return the number of boxes of each image. Default: True.

    Returns:
        Tuple of a tensor ``[K, 6]`` of rows ``(category, score, x1, y1, x2, y2)`` in descending order of the score within
        an image; the number of rows of each image, int32 of shape ``[N]``, or None; and for each row its index in all
        ``N * M`` boxes, int32 of shape ``[K, 1]``, or None.

    Examples:
        >>> boxes = bireme.to_tensor([[[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 8.0]]])
        >>> scores = bireme.to_tensor([[[0.75, 0.5]]])
        >>> found, number, index = bireme.vision.ops.matrix_nms(
        ...     boxes, scores, 0.1, 0.0, -1, -1, background_label=-1, return_index=True)
        >>> found[:, 1].tolist(), number.tolist(), index.tolist()
        ([0.75, 0.25], [2], [[0], [1]])
    """
    n, m = _numbers("matrix_nms", bboxes, scores)
    boxes, host = wide("matrix_nms(bboxes)", bboxes), wide("matrix_nms(scores)", scores)
    host = host.astype(boxes.dtype, copy=False)
    options = {
        "score_threshold": host.dtype.type(score_threshold),
        "post_threshold": host.dtype.type(post_threshold),
        "nms_top_k": nms_top_k,
        "keep_top_k": keep_top_k,
        "sigma": gaussian_sigma if use_gaussian else None,
        "normalized": normalized,
    }
    images = [_best_of_image(boxes[i], host[i], background_label, options) for i in range(n)]
    rows = [np.column_stack([labels, best, boxes[i][index]]) for i, (labels, best, index) in enumerate(images)]
    index = [part[2] + i * m for i, part in enumerate(images)]
    out = made(np.concatenate([np.zeros((0, 6)), *rows]), bboxes.dtype, bboxes)
    number = made(np.array([len(part) for part in index]), dtypes.int32, bboxes) if return_rois_num else None
    place = made(np.concatenate([np.zeros(0), *index])[:, None], dtypes.int32, bboxes) if return_index else None
    return out, number, place


@matrix_nms.results
def _(bboxes, scores, return_index, return_rois_num, unknown):
    n, _ = _numbers("matrix_nms", bboxes, scores)
    return (
        sig_of((unknown, 6), bboxes.dtype),
        sig_of((n,), dtypes.int32) if return_rois_num else None,
        sig_of((unknown, 1), dtypes.int32) if return_index else None,
    )


def _kept_of_image(boxes: np.ndarray, scores: np.ndarray, background: int, options: dict[str, Any]) -> tuple:
    """Categories, scores and indices of the boxes of one image that stay: by category, in it by score."""
    found: list[tuple] = []
    for category in range(len(scores)):
        if category == background:
            continue
        own = np.flatnonzero(scores[category] > options["score_threshold"])
        own = own[np.argsort(-scores[category, own], kind="stable")]
        own = own[: options["nms_top_k"]] if options["nms_top_k"] > -1 else own
        own = own[_adaptively_suppressed(boxes[own], options)]
        found.append((np.full(own.size, category), scores[category, own], own))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, scores.dtype), np.zeros(0, np.int64)
    labels, best, index = [np.concatenate(parts) for parts in zip(*found)]
    if -1 < options["keep_top_k"] < best.size:
        kept = np.sort(np.argsort(-best, kind="stable")[: options["keep_top_k"]])
        labels, best, index = labels[kept], best[kept], index[kept]
    return labels, best, index


def _adaptively_suppressed(boxes: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    """Indices of the boxes, best first, that stay; the threshold falls with each one where `nms_eta` is below 1."""
    overlap = Overlap(boxes.dtype.type(options["nms_threshold"]), 0 if options["normalized"] else 1)
    if options["nms_eta"] >= 1:
        return suppressed(boxes, overlap)
    kept: list[int] = []
    columns = np.ascontiguousarray(boxes.T)
    area = areas(columns, overlap.offset)
    for i in range(len(boxes)):
        shared = overlap.shared(columns[:, kept], columns[:, i : i + 1])
        if not overlap.over(shared, area[kept] + area[i]).any():
            kept.append(i)
            if overlap.threshold > 0.5:
                overlap.threshold = overlap.threshold * boxes.dtype.type(options["nms_eta"])
    return np.array(kept, np.int64)


@composite(
    internal=True,
    name_arg=False,
    c_ops={
        "multiclass_nms3": "bboxes scores rois_num: score_threshold nms_top_k keep_top_k nms_threshold=0.3 "
        "normalized=True nms_eta=1.0 background_label=0"
    },
)
def multiclass_nms(
    bboxes: Tensor,
    scores: Tensor,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Remove the boxes of each category that overlap with better ones, and return the best of each image.

    The size of the result depends on the values, so the call computes them at once. It has no gradient.

    Args:
        bboxes: Boxes ``(x1, y1, x2, y2)`` of shape ``[N, M, 4]``, of a floating-point dtype.
        scores: Scores of shape ``[N, C, M]`` for ``C`` categories.
        score_threshold: Boxes with a score that is not greater are left out at the start.
        nms_top_k: Number of boxes of a category to compare at most; -1 means all.
        keep_top_k: Number of boxes of an image to return at most; -1 means all.
        nms_threshold: Largest intersection over union that two boxes may have. Default: 0.3.
        normalized: Whether coordinates are fractions of the image; else the last pixel belongs to a box. Default: True.
        nms_eta: Factor of the threshold after each box that stays, as long as it is greater than 0.5. Default: 1.0.
        background_label: Category to leave out; -1 means none. Default: 0.

    Returns:
        Tuple of a tensor ``[K, 6]`` of rows ``(category, score, x1, y1, x2, y2)``, by category and in it in descending
        order of the score; the index of each row in all ``N * M`` boxes, int32 of shape ``[K, 1]``; and the number of rows
        of each image, int32 of shape ``[N]``.

    Examples:
        >>> boxes = bireme.to_tensor([[[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 5.0], [5.0, 5.0, 9.0, 9.0]]])
        >>> scores = bireme.to_tensor([[[0.75, 0.5, 0.25]]])
        >>> found, index, number = bireme._C_ops.multiclass_nms3(
        ...     boxes, scores, None, 0.1, -1, -1, 0.5, background_label=-1)
        >>> found[:, 1].tolist(), index.tolist(), number.tolist()
        ([0.75, 0.25], [[0], [2]], [2])
    """
    n, m = _numbers("multiclass_nms", bboxes, scores)
    boxes, host = wide("multiclass_nms(bboxes)", bboxes), wide("multiclass_nms(scores)", scores)
    host = host.astype(boxes.dtype, copy=False)
    options = {
        "score_threshold": host.dtype.type(score_threshold),
        "nms_top_k": nms_top_k,
        "keep_top_k": keep_top_k,
        "nms_threshold": nms_threshold,
        "normalized": normalized,
        "nms_eta": nms_eta,
    }
    images = [_kept_of_image(boxes[i], host[i], background_label, options) for i in range(n)]
    rows = [np.column_stack([labels, best, boxes[i][index]]) for i, (labels, best, index) in enumerate(images)]
    index = [part[2] + i * m for i, part in enumerate(images)]
    out = made(np.concatenate([np.zeros((0, 6)), *rows]), bboxes.dtype, bboxes)
    place = made(np.concatenate([np.zeros(0), *index])[:, None], dtypes.int32, bboxes)
    return out, place, made(np.array([len(part) for part in index]), dtypes.int32, bboxes)


@multiclass_nms.results
def _(bboxes, scores, unknown):
    n, _ = _numbers("multiclass_nms", bboxes, scores)
    return (
        sig_of((unknown, 6), bboxes.dtype),
        sig_of((unknown, 1), dtypes.int32),
        sig_of((n,), dtypes.int32),
    )
