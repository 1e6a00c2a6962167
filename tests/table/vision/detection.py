"""Rows of boxes: suppressed, proposed, coded, prior; and of YOLO. The references go box by box."""

import math

import numpy as np

from tests.table.harness import FLOAT, HALVES, Bad, Row, call, still
from tests.table.samples import floats

VALUES = "the shape of its result depends on values"
BOXES_ONLY = "it takes boxes only"
HOST = {"0-d": BOXES_ONLY, "static": VALUES}
_rng = np.random.default_rng(4)


def _some(*shape, size=0.5, scale=8.0):
    center, extent = _rng.uniform(0, 1, (*shape, 2)), _rng.uniform(0.1, size, (*shape, 2))
    # eighths, which half precision holds: which boxes stay is the same in each dtype
    return np.round(np.concatenate([center - extent / 2, center + extent / 2], axis=-1) * scale * 8) / 8


def _uneven(n):
    """Boxes whose numbers all differ."""
    return _some(n) + [-1.0, -1.0, 1.0, 1.0] + floats(n, 4, low=-0.1, high=0.1)


def _apart(*shape):
    return (1 + _rng.permutation(int(np.prod(shape)))).reshape(shape) / (1 + np.prod(shape))


def _area(box, offset=0):
    return (box[2] - box[0] + offset) * (box[3] - box[1] + offset)


def _iou(a, b, offset=0):
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w < 0 or h < 0:
        return 0.0
    shared = (w + offset) * (h + offset)
    union = _area(a, offset) + _area(b, offset) - shared
    return shared / union if union else 0.0


def _greedy(boxes, threshold, offset=0):
    kept = []
    for i, box in enumerate(boxes):
        if all(_iou(box, boxes[k], offset) <= threshold for k in kept):
            kept.append(i)
    return np.array(kept, np.int64)


def _nms(boxes, iou_threshold=0.3, scores=None, category_idxs=None, categories=None, top_k=None):
    order = np.arange(len(boxes)) if scores is None else np.argsort(-scores, kind="stable")
    if category_idxs is None:
        return order[_greedy(boxes[order], iou_threshold)]
    kept = []
    for c in categories:
        own = order[category_idxs[order] == c]
        kept += list(own[_greedy(boxes[own], iou_threshold)])
    return np.array([i for i in order if i in kept][:top_k], np.int64)


def _multiclass(bboxes, scores, score_threshold, nms_top_k, keep_top_k, nms_threshold=0.3, normalized=True, nms_eta=1.0,
                background_label=0):  # fmt: skip
    offset, rows, places, number = 0 if normalized else 1, [], [], []
    for i, (boxes, image) in enumerate(zip(bboxes, scores, strict=True)):
        found = []
        for c, own in enumerate(image):
            order = [k for k in np.argsort(-own, kind="stable") if own[k] > score_threshold and c != background_label]
            order, kept, limit = order[:nms_top_k] if nms_top_k > -1 else order, [], nms_threshold
            for k in order:
                if all(_iou(boxes[k], boxes[other], offset) <= limit for other in kept):
                    kept.append(k)
                    limit = limit * nms_eta if nms_eta < 1 and limit > 0.5 else limit
            found += [(c, own[k], k) for k in kept]
        if keep_top_k > -1:
            best = sorted(range(len(found)), key=lambda at: -found[at][1])[:keep_top_k]
            found = [found[at] for at in sorted(best)]
        rows += [[c, s, *boxes[k]] for c, s, k in found]
        places += [[i * len(boxes) + k] for *_, k in found]
        number.append(len(found))
    kind = bboxes.dtype
    return np.array(rows, kind).reshape(-1, 6), np.array(places, np.int32).reshape(-1, 1), np.array(number, np.int32)


def _matrix(bboxes, scores, score_threshold, post_threshold, nms_top_k, keep_top_k, use_gaussian=False, gaussian_sigma=2.0,
            background_label=0, normalized=True, return_index=True):  # fmt: skip
    offset, rows, places, number = 0 if normalized else 1, [], [], []
    for i, (boxes, image) in enumerate(zip(bboxes, scores, strict=True)):
        found = []
        for c, own in enumerate(image):
            order = [k for k in np.argsort(-own, kind="stable") if own[k] > score_threshold and c != background_label]
            order = order[:nms_top_k] if nms_top_k > -1 else order
            iou = [[_iou(boxes[a], boxes[b], offset) for b in order] for a in order]
            most = [max([iou[a][b] for a in range(b)], default=0) for b in range(len(order))]
            for b, k in enumerate(order):
                decays = [
                    math.exp((most[a] ** 2 - iou[a][b] ** 2) * gaussian_sigma)
                    if use_gaussian
                    else (1 - iou[a][b]) / (1 - most[a])
                    for a in range(b)
                ]
                score = own[k] * min(decays, default=1)
                if score > post_threshold:
                    found.append((score, c, k))
        found.sort(key=lambda f: -f[0])
        found = found[:keep_top_k] if keep_top_k > -1 else found
        rows += [[c, score, *boxes[k]] for score, c, k in found]
        places += [[i * len(boxes) + k] for _, _, k in found]
        number.append(len(found))
    return np.reshape(rows, (-1, 6)), np.array(number, np.int32), np.reshape(places, (-1, 1)).astype(np.int32)


def _proposals(scores, deltas, sizes, anchors, variances, pre=6000, post=1000, threshold=0.5, least=0.1, eta=1.0, pixel=False,
               return_rois_num=True):  # fmt: skip
    rois, best, number = [], [], []
    anchors, variances, offset = anchors.reshape(-1, 4), variances.reshape(-1, 4), 1 if pixel else 0
    for i in range(len(scores)):
        flat = np.moveaxis(scores[i], 0, -1).ravel()
        moves = np.moveaxis(deltas[i].reshape(-1, 4, *deltas.shape[2:]), (0, 1), (2, 3)).reshape(-1, 4)
        boxes = []
        for k in np.argsort(-flat, kind="stable")[:pre]:
            (x0, y0, x1, y1), (dx, dy, dw, dh) = anchors[k], variances[k] * moves[k]
            w, h = x1 - x0 + offset, y1 - y0 + offset
            x, y, w, h = x0 + w / 2 + dx * w, y0 + h / 2 + dy * h, w * math.exp(dw), h * math.exp(dh)
            box = np.array([x - w / 2, y - h / 2, x + w / 2 - offset, y + h / 2 - offset])
            box = np.clip(box, 0, np.tile(sizes[i][::-1] - offset, 2))
            if min(box[2] - box[0], box[3] - box[1]) + offset >= max(least, 1):
                boxes.append((box, flat[k]))
        kept, limit = [], threshold
        for box, score in boxes:
            if all(_iou(box, other, offset) <= limit for other, _ in kept):
                kept.append((box, score))
                limit = limit * eta if limit > 0.5 else limit
        kept = kept[:post] or [(np.zeros(4), 0.0)]
        rois += [box for box, _ in kept]
        best += [[score] for _, score in kept]
        number.append(len(kept))
    return np.reshape(rois, (-1, 4)), np.reshape(best, (-1, 1)), np.array(number, np.int32)


def _levels(rois, low, high, refer, scale, pixel_offset=False, rois_num=None):
    level = [
        min(max(math.floor(math.log2(math.sqrt(_area(b, int(pixel_offset))) / scale + 1e-6) + refer), low), high)
        for b in rois
    ]
    parts = [[i for i, k in enumerate(level) if k == n] for n in range(low, high + 1)]
    order = [i for part in parts for i in part]
    image = np.repeat(np.arange(len(rois_num)), rois_num)
    counts = [np.array([sum(image[i] == b for i in part) for b in range(len(rois_num))], np.int32) for part in parts]
    restore = np.argsort(np.array(order, int))[:, None].astype(np.int32)
    return [*[rois[np.array(part, int)] for part in parts], restore, *counts]


def _coder(prior, variance, target, factors, encode, offset, axis):
    variance = np.broadcast_to(factors if variance is None else variance, prior.shape)
    shape = (len(target), len(prior)) if encode else target.shape[:2]
    out = np.zeros((*shape, 4))
    for i, j in np.ndindex(*shape):
        p, v = (prior[j], variance[j]) if encode or axis == 0 else (prior[i], variance[i])
        size = p[2:] - p[:2] + offset
        center = p[:2] + size / 2
        if encode:
            t = target[i]
            out[i, j] = [*((t[2:] + t[:2]) / 2 - center) / size, *np.log((t[2:] - t[:2] + offset) / size)] / v
        else:
            t = target[i, j] * v
            middle, extent = t[:2] * size + center, np.exp(t[2:]) * size
            out[i, j] = [*middle - extent / 2, *middle + extent / 2 - offset]
    return out


def _public_coder(prior, variance, target, code_type="encode_center_size", box_normalized=True, axis=0):
    variance = np.ones(4) if variance is None else variance
    return _coder(prior, variance, target, None, code_type[0] == "e", 0 if box_normalized else 1, axis)


def _priors(input, image, min_sizes, max_sizes=None, aspect_ratios=(1.0,), variance=(0.1, 0.1, 0.2, 0.2), flip=False, clip=False,
            steps=(0.0, 0.0), offset=0.5, min_max_aspect_ratios_order=False):  # fmt: skip
    (h, w), (height, width) = input.shape[2:], image.shape[2:]
    ratios = [1.0, *[q for r in aspect_ratios if r != 1 for q in ([r, 1 / r] if flip else [r])]]
    out = []
    for r, c in np.ndindex(h, w):
        x, y = (c + offset) * (steps[0] or width / w), (r + offset) * (steps[1] or height / h)
        for k, size in enumerate(min_sizes):
            shapes = [(size * math.sqrt(q), size / math.sqrt(q)) for q in ratios]
            if max_sizes:
                shapes.insert(1 if min_max_aspect_ratios_order else len(shapes), (math.sqrt(size * max_sizes[k]),) * 2)
            out += [
                [(x - a / 2) / width, (y - b / 2) / height, (x + a / 2) / width, (y + b / 2) / height]
                for a, b in shapes
            ]
    out = np.reshape(out, (h, w, -1, 4))
    out = np.clip(out, 0, 1) if clip else out
    return out, np.broadcast_to(variance, out.shape)


def _sig(t):
    return 1 / (1 + math.exp(-t))


def _yolo(x, img_size, anchors, classes, threshold, ratio, clip=True, scale=1.0, aware=False, factor=0.5):
    n, _, h, w = x.shape
    a = len(anchors) // 2
    boxes, scores = np.zeros((n, a, h, w, 4)), np.zeros((n, a, h, w, classes))
    for i, k, r, c in np.ndindex(n, a, h, w):
        own = (x[i, a:] if aware else x[i]).reshape(a, 5 + classes, h, w)[k, :, r, c]
        sure = _sig(own[4])
        if aware:
            sure = sure ** (1 - factor) * _sig(x[i, k, r, c]) ** factor
        if sure < threshold:
            continue
        height, width = img_size[i]
        at = [
            (p + _sig(t) * scale - (scale - 1) / 2) * m / q
            for p, t, m, q in ((c, own[0], width, w), (r, own[1], height, h))
        ]
        half = [
            math.exp(own[2 + j]) * anchors[2 * k + j] * m / (ratio * q) / 2
            for j, m, q in ((0, width, w), (1, height, h))
        ]
        box = [at[0] - half[0], at[1] - half[1], at[0] + half[0], at[1] + half[1]]
        if clip:
            box = [max(box[0], 0), max(box[1], 0), min(box[2], width - 1), min(box[3], height - 1)]
        boxes[i, k, r, c], scores[i, k, r, c] = box, [sure * _sig(t) for t in own[5:]]
    return boxes.reshape(n, a * h * w, 4), scores.reshape(n, a * h * w, classes)


def _public_yolo(x, size, anchors, classes, threshold, ratio, clip_bbox=True, name=None, scale_x_y=1.0, iou_aware=False,
                 iou_aware_factor=0.5):  # fmt: skip
    return _yolo(x, size, anchors, classes, threshold, ratio, clip_bbox, scale_x_y, iou_aware, iou_aware_factor)


def _entropy(t, label):
    return max(t, 0) - t * label + math.log1p(math.exp(-abs(t)))


def _corners(x, y, w, h):
    return [x - w / 2, y - h / 2, x + w / 2, y + h / 2]


def _loss(x, gt_box, gt_label, gt_score, anchors, mask, classes, ignore, ratio, smooth=True, scale=1.0):
    n, _, h, w = x.shape
    x, size = x.reshape(n, len(mask), 5 + classes, h, w), ratio * h
    sides = np.reshape(anchors, (-1, 2)) / size
    low = min(1 / classes, 1 / 40) if smooth else 0
    out = np.zeros(n)
    for i in range(n):
        sure = np.zeros((len(mask), h, w))
        for k, r, c in np.ndindex(*sure.shape):
            t = x[i, k, :, r, c]
            told = [(p + _sig(v) * scale - (scale - 1) / 2) / h for p, v in ((c, t[0]), (r, t[1]))]
            told += [math.exp(t[2 + j]) * sides[mask[k], j] for j in range(2)]
            if any(_iou(_corners(*told), _corners(*g)) > ignore for g in gt_box[i] if g[2] > 0):
                sure[k, r, c] = -1
        for g, label, score in zip(gt_box[i], gt_label[i], gt_score[i], strict=True):
            if g[2] <= 0:
                continue
            best = max(range(len(sides)), key=lambda k: _iou(_corners(0, 0, *g[2:]), _corners(0, 0, *sides[k])))
            if best not in mask:
                continue
            k, c, r = mask.index(best), int(g[0] * w), int(g[1] * h)
            t, sure[k, r, c] = x[i, k, :, r, c], score
            weight = (2 - g[2] * g[3]) * score
            out[i] += (_entropy(t[0], g[0] * h - c) + _entropy(t[1], g[1] * h - r)) * weight
            out[i] += sum(abs(math.log(g[2 + j] / sides[best, j]) - t[2 + j]) for j in range(2)) * weight
            out[i] += sum(_entropy(v, 1 - low if q == label else low) for q, v in enumerate(t[5:])) * score
        for place in np.ndindex(*sure.shape):
            t, s = x[i, place[0], 4, place[1], place[2]], sure[place]
            out[i] += _entropy(t, 1) * s if s > 0 else _entropy(t, 0) if s == 0 else 0
    return out


def _public_loss(x, gt_box, gt_label, anchors, mask, classes, ignore, ratio, gt_score=None, use_label_smooth=True, name=None,
                 scale_x_y=1.0):  # fmt: skip
    gt_score = np.ones(gt_label.shape) if gt_score is None else gt_score
    return _loss(x, gt_box, gt_label, gt_score, anchors, mask, classes, ignore, ratio, use_label_smooth, scale_x_y)


_boxes, _many = still(_some(12)), still(_some(2, 6))
_scores, _of_classes = still(_apart(12)), still(_apart(2, 3, 6))
_kinds = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2])
_anchors = still(_some(2, 3, 2, size=0.8, scale=16.0))
_rpn = [
    still(_apart(2, 2, 2, 3)),
    still(_rng.normal(size=(2, 8, 2, 3)) / 4),
    still([[16.0, 12.0], [10.0, 16.0]]),
    _anchors,
]
_wide = still(_some(9, size=1.0, scale=600.0))
_truth = still(
    [
        [[0.3, 0.4, 0.2, 0.3], [0.32, 0.41, 0.22, 0.3], [0.0, 0.0, 0.0, 0.0]],
        [[0.8, 0.2, 0.5, 0.6], [0.1, 0.9, 0.1, 0.1], [0.6, 0.6, 0.3, 0.2]],
    ]
)
_labels, _sure = np.array([[0, 1, 0], [1, 0, 1]], np.int32), still(_rng.uniform(0.2, 1, (2, 3)))
_sides, _out = (10, 12, 20, 18, 30, 40), floats(2, 14, 3, 3)
_size = np.array([[30, 40], [50, 20]], np.int32)
NO_HALF = "which boxes stay depends on the last digits of half precision"
TABLE = [
    Row("nms", [call(_boxes, 0.3), call(_boxes, 0.5, _scores), call(_boxes, 0.4, _scores, _kinds, [0, 2]), call(_boxes, 0.4, _scores, _kinds, [0, 1, 2], 3),
        call(still(np.zeros((0, 4))), 0.5), call(still(np.zeros((0, 4))), 0.5, still(np.zeros(0)))], _nms, out="int64", grad=0, skip=HOST, dtypes=FLOAT,
        bad=[Bad(call(floats(3, 5)), "nms(boxes): expected boxes of shape [n, 4], got shape [3, 5]"),
             Bad(call(np.zeros((3, 4), int)), "nms(boxes): expected a floating-point dtype, got int64", TypeError),
             Bad(call(_boxes, 0.3, floats(3)), "nms(scores): expected one score for each of the 12 boxes, got shape [3]"),
             Bad(call(_boxes, 0.3, None, _kinds, [0]), "nms(scores): expected scores, since category_idxs is given, got None"),
             Bad(call(_boxes, 0.3, _scores, _kinds), "nms(categories): expected categories, since category_idxs is given, got None"),
             Bad(call(_boxes, 0.3, _scores, _kinds[:3], [0]), "nms(category_idxs): expected one category for each of the 12 boxes, got shape [3]"),
             Bad(call(_boxes, 0.3, _scores, _kinds, 0), "nms(categories): expected a list of integers, got 0", TypeError),
             Bad(call(_boxes, 0.3, _scores, _kinds, [0], -1), "nms(top_k): expected a non-negative integer or None, got -1"),
             Bad(call(_boxes, 0.3, _scores, _kinds, [0], 13), "nms(top_k): expected at most the number of boxes, 12, got 13")]),
    Row("matrix_nms", [call(_many, _of_classes, 0.1, 0.05, -1, -1, return_index=True),
        call(_many, _of_classes, 0.1, 0.0, 4, 3, True, 1.5, -1, False, True), call(_many, _of_classes, 2.0, 0.0, -1, -1, return_index=True),
        call(still(np.zeros((1, 0, 4))), still(np.zeros((1, 3, 0))), 0.1, 0.0, -1, -1, return_index=True)], _matrix, out="ref", grad=0,
        skip=HOST | {"dtypes": NO_HALF}, bad=[
             Bad(call(_boxes, _of_classes, 0.1, 0.0, -1, -1), "matrix_nms(bboxes): expected boxes of shape [N, M, 4], got shape [12, 4]"),
             Bad(call(_many, _boxes, 0.1, 0.0, -1, -1), "matrix_nms(scores): expected scores of shape [2, C, 6], got shape [12, 4]")]),
    Row("multiclass_nms", [call(_many, _of_classes, 0.1, -1, -1), call(_many, _of_classes, 0.1, 4, 3, 0.2, False, 1.0, -1),
        call(_many, _of_classes, 0.0, -1, -1, 0.9, True, 0.6, -1), call(_many, _of_classes, 2.0, -1, -1),
        call(still(np.zeros((1, 0, 4))), still(np.zeros((1, 3, 0))), 0.1, -1, -1)], _multiclass, out="ref", grad=0,
        skip=HOST | {"dtypes": NO_HALF}, bad=[
             Bad(call(_boxes, _of_classes, 0.1, -1, -1), "multiclass_nms(bboxes): expected boxes of shape [N, M, 4], got shape [12, 4]"),
             Bad(call(_many, _boxes, 0.1, -1, -1), "multiclass_nms(scores): expected scores of shape [2, C, 6], got shape [12, 4]")]),
    Row("generate_proposals", [call(*_rpn, still(np.full(_anchors.shape, 0.5)), return_rois_num=True),
        call(*_rpn, still(np.full(_anchors.shape, 0.5)), 8, 3, 0.7, 2.0, 0.8, True, True),
        call(*_rpn, still(np.full(_anchors.shape, 0.5)), 8, 3, 0.7, 1000.0, return_rois_num=True),
        call(still(np.zeros((0, 2, 2, 3))), still(np.zeros((0, 8, 2, 3))), still(np.zeros((0, 2))), _anchors, _anchors, return_rois_num=True)], _proposals,
        out="ref", grad=0, skip=HOST | {"dtypes": NO_HALF},
        bad=[Bad(call(_boxes, *_rpn[1:], _anchors), "generate_proposals(scores): expected scores of shape [N, A, H, W], got shape [12, 4]"),
             Bad(call(_rpn[0], _boxes, *_rpn[2:], _anchors), "generate_proposals(bbox_deltas): expected deltas of shape [2, 8, 2, 3], got shape [12, 4]"),
             Bad(call(*_rpn, _wide), "generate_proposals(variances): expected shape [2, 3, 2, 4] or [12, 4], got shape [9, 4]")]),
    Row("distribute_fpn_proposals", [call(_wide, 2, 5, 4, 224, rois_num=np.array([4, 5], np.int32)), call(_wide, 3, 4, 4, 100, True, np.array([0, 9])),
        call(still(np.zeros((0, 4))), 2, 5, 4, 224, rois_num=np.array([0, 0], np.int32))], _levels, out="ref", grad=0, skip=HOST | {"dtypes": NO_HALF},
        bad=[Bad(call(_wide, 5, 2, 4, 224), "distribute_fpn_proposals(min_level): expected at most max_level, 2, got 5"),
             Bad(call(_wide, 2, 5, 4, 0), "distribute_fpn_proposals(refer_scale): expected a positive integer, got 0"),
             Bad(call(_wide, 2, 5, 4, 224, rois_num=np.array([4, 4])), "distribute_fpn_proposals(rois_num): expected non-negative numbers that add up to the 9 boxes"),
             Bad(call(floats(3), 2, 5, 4, 224), "distribute_fpn_proposals(fpn_rois): expected boxes of shape [n, 4], got shape [3]")]),
    Row("box_coder_of", [call(_uneven(3), floats(3, 4, low=0.5, high=1.0), _uneven(2), None, True, 1, 0),
        call(_uneven(3), None, floats(2, 3, 4), (0.1, 0.1, 0.2, 0.2), False, 0, 0), call(_uneven(3), floats(3, 4, low=0.5, high=1.0), floats(3, 2, 4), None, False, 1, 1),
        call(_uneven(3), None, np.zeros((0, 4)), (1.0,) * 4, True, 0, 0)], _coder, slow=True, skip={"0-d": BOXES_ONLY}, loose=(10, "small boxes lose digits")),
    Row("box_coder", [call(_uneven(3), floats(3, 4, low=0.5, high=1.0), _uneven(2)), call(_uneven(3), [0.1, 0.1, 0.2, 0.2], floats(2, 3, 4), "decode_center_size", False),
        call(_uneven(3), None, floats(3, 2, 4), "decode_center_size", axis=1), call(_uneven(3), None, np.zeros((0, 4)))], _public_coder,
        skip={"0-d": BOXES_ONLY}, loose=(10, "small boxes lose digits"),
        bad=[Bad(call(floats(3), None, floats(2, 4)), "box_coder(prior_box): expected prior boxes of shape [M, 4], got shape [3]"),
             Bad(call(floats(3, 4), None, floats(2, 3)), "box_coder(target_box): expected boxes of shape [N, 4], got shape [2, 3]"),
             Bad(call(floats(3, 4), None, floats(2, 2, 4), "decode_center_size"), "box_coder(target_box): expected offsets of shape [N, 3, 4], got shape [2, 2, 4]"),
             Bad(call(floats(3, 4), None, floats(2, 2, 4), "decode_center_size", axis=1), "box_coder(target_box): expected offsets of shape [3, N, 4]"),
             Bad(call(floats(3, 4), None, floats(2, 4), "encode"), "box_coder(code_type): expected 'encode_center_size' or 'decode_center_size', got 'encode'"),
             Bad(call(floats(3, 4), None, floats(2, 4), axis=2), "box_coder(axis): expected 0 or 1, got 2"),
             Bad(call(floats(3, 4), [1.0, 2.0], floats(2, 4)), "box_coder(prior_box_var): expected a Tensor, four numbers or None"),
             Bad(call(floats(3, 4), floats(2, 4), floats(2, 4)), "box_coder(prior_box_var): expected variances of shape [3, 4], got shape [2, 4]")]),
    Row("prior_box", [call(floats(1, 2, 2, 3), floats(1, 3, 16, 18), [4.0]),
        call(floats(1, 2, 2, 3), floats(1, 3, 16, 18), [4.0, 6.0], [9.0, 8.0], [1.0, 2.0], flip=True, clip=True, steps=[5.0, 7.0], offset=0.25),
        call(floats(1, 2, 2, 3), floats(1, 3, 16, 18), [4.0], [9.0], [2.0, 3.0], min_max_aspect_ratios_order=True),
        call(np.zeros((0, 2, 0, 3)), floats(1, 3, 16, 18), [4.0])], lambda input, *args, **kwargs: _priors(input, *args, **kwargs) if input.size else
        (np.zeros((0, 3, 1, 4)),) * 2, grad=0, skip={"0-d": BOXES_ONLY},
        bad=[Bad(call(floats(3), floats(1, 3, 16, 18), [4.0]), "prior_box(input): expected shape [N, C, H, W], got shape [3]"),
             Bad(call(floats(1, 2, 2, 3), floats(1, 3, 0, 18), [4.0]), "prior_box(image): expected images with pixels, got shape [1, 3, 0, 18]"),
             Bad(call(floats(1, 2, 2, 3), floats(1, 3, 16, 18), []), "prior_box(min_sizes): expected positive numbers, got ()"),
             Bad(call(floats(1, 2, 2, 3), floats(1, 3, 16, 18), [4.0], [3.0]), "prior_box(max_sizes): expected 1 numbers greater than those of min_sizes, got (3.0,)"),
             Bad(call(floats(1, 2, 2, 3), floats(1, 3, 16, 18), "a"), "prior_box(min_sizes): expected a number or a list of numbers, got 'a'", TypeError),
             Bad(call(floats(1, 2, 2, 3), floats(1, 3, 16, 18), [4.0], None, [0.0]), "prior_box(aspect_ratios): expected positive numbers, got (0.0,)"),
             Bad(call(floats(1, 2, 2, 3), floats(1, 3, 16, 18), [4.0], variance=[1.0]), "prior_box(variance): expected four numbers, got (1.0,)")]),
    Row("yolo_box_of", [call(_out, _size, (10, 12, 20, 18), 2, 0.01, 32, True, 1.0, False, 0.5), call(floats(2, 16, 2, 3), _size, (10, 12, 20, 18), 2, 0.4, 16, False, 1.2, True, 0.4),
        call(np.zeros((0, 14, 2, 2)), np.zeros((0, 2), np.int32), (10, 12, 20, 18), 2, 0.01, 32, True, 1.0, False, 0.5)], _yolo, grad=0, skip={"0-d": BOXES_ONLY},
        unchecked=HALVES, loose=(10, "pixels of large images")),
    Row("yolo_box", [call(_out, _size, [10, 12, 20, 18], 2, 0.01, 32), call(floats(2, 16, 2, 3), _size, [10, 12, 20, 18], 2, 0.4, 16, False, scale_x_y=1.2, iou_aware=True,
        iou_aware_factor=0.4), call(np.zeros((0, 14, 2, 2)), np.zeros((0, 2), np.int32), [10, 12, 20, 18], 2, 0.01, 32)], _public_yolo, grad=0, skip={"0-d": BOXES_ONLY},
        unchecked=HALVES, loose=(10, "pixels of large images"),
        bad=[Bad(call(_out, _size, [10, 12, 20], 2, 0.01, 32), "yolo_box(anchors): expected pairs of a positive width and height, got (10, 12, 20)"),
             Bad(call(_out, _size, [10, 12], 2, 0.01, 32), "yolo_box(x): expected 7 channels for 1 anchors and 2 classes, got shape [2, 14, 3, 3]"),
             Bad(call(_out, _size[:1], [10, 12, 20, 18], 2, 0.01, 32), "yolo_box(img_size): expected shape [2, 2], got shape [1, 2]"),
             Bad(call(_out, _size, [10, 12, 20, 18], 0, 0.01, 32), "yolo_box(class_num): expected a positive integer, got 0"),
             Bad(call(_out, floats(2, 2), [10, 12, 20, 18], 2, 0.01, 32), "yolo_box(img_size): expected int32 or int64, got float64", TypeError),
             Bad(call(floats(3), _size, [10, 12, 20, 18], 2, 0.01, 32), "yolo_box(x): expected shape [N, channels, H, W], got shape [3]")]),
    Row("yolo_loss_of", [call(_out, _truth, _labels, _sure, _sides, (0, 2), 2, 0.5, 32, True, 1.0), call(_out, _truth, _labels, _sure, _sides, (1, 2), 2, 0.2, 16, False, 1.2),
        call(_out, still(np.zeros((2, 0, 4))), np.zeros((2, 0), np.int32), still(np.zeros((2, 0))), _sides, (0, 2), 2, 0.5, 32, True, 1.0)], _loss,
        slow=True, skip={"0-d": BOXES_ONLY}, loose=(4, "sums of many logarithms")),
    Row("yolo_loss", [call(_out, _truth, _labels, list(_sides), [0, 2], 2, 0.5, 32), call(_out, _truth, _labels, list(_sides), [1, 2], 2, 0.2, 16, _sure, False, scale_x_y=1.2),
        call(_out, still(np.zeros((2, 0, 4))), np.zeros((2, 0), np.int32), list(_sides), [0, 2], 2, 0.5, 32)], _public_loss,
        skip={"0-d": BOXES_ONLY}, loose=(4, "sums of many logarithms"),
        bad=[Bad(call(_out, _truth, _labels, list(_sides), [3], 2, 0.5, 32), "yolo_loss(anchor_mask): expected indices in [0, 2], got 3"),
             Bad(call(_out, _truth, _labels, list(_sides), [0], 2, 0.5, 32), "yolo_loss(x): expected 7 channels for 1 anchors and 2 classes, got shape [2, 14, 3, 3]"),
             Bad(call(floats(2, 14, 3, 2), _truth, _labels, list(_sides), [0, 1], 2, 0.5, 32), "yolo_loss(x): expected as many rows as columns, got shape [2, 14, 3, 2]"),
             Bad(call(_out, _truth, _labels[:1], list(_sides), [0, 2], 2, 0.5, 32), "yolo_loss(gt_label): expected shape [2, 3], got shape [1, 3]"),
             Bad(call(_out, floats(2, 4), _labels, list(_sides), [0, 2], 2, 0.5, 32), "yolo_loss(gt_box): expected shape [2, B, 4], got shape [2, 4]"),
             Bad(call(_out, _truth, _labels, [1.5, 2.0], [0, 2], 2, 0.5, 32), "yolo_loss(anchors): expected a list of integers, got", TypeError)]),
]  # fmt: skip
