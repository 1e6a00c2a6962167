"""Rows of regions: pooled by samples, maxima and means; deformable convolution. The references go pixel by pixel."""

import math

import numpy as np

from tests.table.harness import FLOAT, Bad, Row, call, still
from tests.table.samples import floats

MAPS = {"0-d": "it takes feature maps only"}
BOXES = still([[0.3, 1.2, 4.6, 5.1], [-3.0, -2.0, 2.7, 9.4], [1.1, 1.3, 1.6, 1.5], [20.0, 20.0, 30.0, 30.0]])
NUMBER = np.array([1, 3], np.int32)
NO_BOXES = still(np.zeros((0, 4)))
_maps, _none = floats(2, 2, 6, 7), np.zeros((2, 2, 0, 7))
_four = floats(2, 8, 6, 7)


def _image(number, i):
    return int(np.searchsorted(np.cumsum(number), i, side="right"))


def _read(plane, y, x):
    """A pixel between pixels; 0 further out than one pixel."""
    h, w = plane.shape[-2:]
    if not (-1 <= y <= h and -1 <= x <= w):
        return 0
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    found = 0
    for r in range(h):
        for c in range(w):
            found = found + max(0, 1 - abs(y - r)) * max(0, 1 - abs(x - c)) * plane[..., r, c]
    return found


def _align(x, boxes, number, bins, scale=1.0, ratio=-1, aligned=True):
    down, across = (bins, bins) if isinstance(bins, int) else bins
    out = np.zeros((len(boxes), x.shape[1], down, across))
    for i, box in enumerate(boxes * scale - (0.5 if aligned else 0)):
        height, width = [max(box[k + 2] - box[k], -9 if aligned else 1) for k in (1, 0)]
        ny, nx = [ratio if ratio > 0 else math.ceil(s / n) for s, n in ((height, down), (width, across))]
        for r, c in np.ndindex(down, across):
            for a, b in np.ndindex(max(ny, 0), max(nx, 0)):
                y = box[1] + (r + (a + 0.5) / ny) * height / down
                out[i, :, r, c] += _read(x[_image(number, i)], y, box[0] + (c + (b + 0.5) / nx) * width / across)
            out[i, :, r, c] /= max(ny * nx, 1)
    return out


def _window(low, width, k, size):
    return [min(max(int(t), 0), size) for t in (math.floor(k * width + low), math.ceil((k + 1) * width + low))]


def _pool(x, boxes, number, bins, scale=1.0):
    down, across = (bins, bins) if isinstance(bins, int) else bins
    out, place = (
        np.zeros((len(boxes), x.shape[1], down, across)),
        -np.ones((len(boxes), x.shape[1], down, across), np.int32),
    )
    for i, box in enumerate(boxes * scale):
        x0, y0, x1, y1 = [math.floor(abs(t) + 0.5) * (1 if t > 0 else -1) for t in box]
        for r, c in np.ndindex(down, across):
            top, bottom = _window(y0, max(y1 - y0 + 1, 1) / down, r, x.shape[2])
            left, right = _window(x0, max(x1 - x0 + 1, 1) / across, c, x.shape[3])
            if top < bottom and left < right:
                part = x[_image(number, i), :, top:bottom, left:right].reshape(x.shape[1], -1)
                at = part.argmax(axis=1)
                out[i, :, r, c] = part.max(axis=1)
                place[i, :, r, c] = (top + at // (right - left)) * x.shape[3] + left + at % (right - left)
    return out, place


def _means(x, boxes, number, bins, scale=1.0):
    down, across = (bins, bins) if isinstance(bins, int) else bins
    out = np.zeros((len(boxes), x.shape[1] // (down * across), down, across))
    for i, box in enumerate(boxes):
        x0, y0, x1, y1 = [math.floor(abs(t) + 0.5) * (1 if t > 0 else -1) for t in box]
        for c, r, k in np.ndindex(*out.shape[1:]):
            top, bottom = _window(y0 * scale, max((y1 + 1 - y0) * scale, 0.1) / down, r, x.shape[2])
            left, right = _window(x0 * scale, max((x1 + 1 - x0) * scale, 0.1) / across, k, x.shape[3])
            if top < bottom and left < right:
                out[i, c, r, k] = x[_image(number, i), (c * down + r) * across + k, top:bottom, left:right].mean()
    return out


def _both(n):
    return (n, n) if isinstance(n, int) else n


def _deform(x, offset, weight, mask, stride=1, padding=0, dilation=1, deformable_groups=1, groups=1):
    stride, padding, dilation = _both(stride), _both(padding), _both(dilation)
    (n, c), (out_c, own, kh, kw) = x.shape[:2], weight.shape
    out = np.zeros((n, out_c, *offset.shape[2:]))
    for i, o, y, z in np.ndindex(*out.shape):
        for k, r, s in np.ndindex(own, kh, kw):
            channel = o // (out_c // groups) * own + k
            point = (channel // (c // deformable_groups) * kh + r) * kw + s
            at = [
                place * step - pad + tap * gap + offset[i, 2 * point + j, y, z]
                for j, (place, step, pad, tap, gap) in enumerate(
                    zip((y, z), stride, padding, (r, s), dilation, strict=True)
                )
            ]
            padded = np.pad(x[i, channel], 1)  # zeros around, so that the edge fades out
            pixel = (
                _read(padded, at[0] + 1, at[1] + 1)
                if all(-1 < t < m for t, m in zip(at, x.shape[2:], strict=True))
                else 0
            )
            out[i, o, y, z] += pixel * weight[o, k, r, s] * (1 if mask is None else mask[i, point, y, z])
    return out


def _convolved(x, offset, weight, bias=None, stride=1, padding=0, dilation=1, deformable_groups=1, groups=1, mask=None):
    out = _deform(x, offset, weight, mask, stride, padding, dilation, deformable_groups, groups)
    return out if bias is None else out + bias[:, None, None]


def _wrong(name, x=_maps):
    told = f"{name}(boxes_num): expected "
    return [
        Bad(call(floats(2, 3), BOXES, NUMBER, 2), f"{name}(x): expected feature maps of shape [N, C, H, W], got shape [2, 3]"),
        Bad(call(x, still(np.zeros((2, 5))), NUMBER, 2), f"{name}(boxes): expected boxes of shape [n, 4], got shape [2, 5]"),
        Bad(call(x, np.zeros((4, 4), int), NUMBER, 2), f"{name}(boxes): expected a floating-point dtype, got int64", TypeError),
        Bad(call(x, BOXES, np.array([1, 2], np.int32), 2), told + "non-negative numbers that add up to the 4 boxes, got [1, 2]"),
        Bad(call(x, BOXES, np.array([-1, 5]), 2), told + "non-negative numbers that add up to the 4 boxes, got [-1, 5]"),
        Bad(call(x, BOXES, np.array([4], np.int32), 2), told + "a number of boxes for each of the 2 images, got shape [1]"),
        Bad(call(x, BOXES, np.array([1.0, 3.0], np.float32), 2), told + "int32 or int64, got float32", TypeError),
        Bad(call(x, BOXES, NUMBER, 0), f"{name}(output_size): expected positive integers, got 0"),
        Bad(call(x, BOXES, NUMBER, [2, 2, 2]), f"{name}(output_size): expected an integer or two integers, got", TypeError),
    ]  # fmt: skip


_offset, _mask, _kernel = floats(1, 8, 3, 4, low=-1.5, high=1.5), floats(1, 4, 3, 4), floats(2, 2, 2, 2)
_small = floats(1, 2, 4, 5)
HALF = (3, "half precision loses digits in sums of products")
TABLE = [
    Row("roi_align_of", [call(_maps, BOXES, NUMBER, (2, 3), 1.0, -1, True), call(_maps, BOXES, NUMBER, (2, 2), 0.5, 2, False),
        call(_maps, NO_BOXES, np.zeros(2, np.int32), (2, 2), 1.0, -1, True), call(_none, BOXES, NUMBER, (2, 2), 1.0, 2, True)],
        lambda x, *rest: np.zeros((len(rest[0]), 2, 2, 2)) if not x.size else _align(x, *rest), slow=True, skip=MAPS, loose=HALF),
    Row("roi_align", [call(_maps, BOXES, NUMBER, 2), call(_maps, BOXES, NUMBER, [3, 1], 0.5, 3, aligned=False),
        call(_maps, BOXES, NUMBER, 2, aligned=False), call(_maps, NO_BOXES, np.zeros(2, np.int64), 2)], _align, skip=MAPS, loose=HALF,
        bad=_wrong("roi_align")),
    Row("roi_pool_of", [call(_maps, BOXES, NUMBER, (2, 3), 1.0), call(_maps, BOXES, NUMBER, (3, 2), 0.5),
        call(_maps, NO_BOXES, np.zeros(2, np.int32), (2, 2), 1.0)], _pool, out="ref", dtypes=FLOAT,
        skip=MAPS | {"dtypes": "its second result has one type", "gradient rule": "its second result has no gradient"}),
    Row("roi_pool", [call(_maps, BOXES, NUMBER, 2), call(_maps, BOXES, NUMBER, [3, 2], 0.5), call(_maps, NO_BOXES, np.zeros(2, np.int64), 2)],
        lambda *args: _pool(*args)[0], skip=MAPS, bad=_wrong("roi_pool")),
    Row("psroi_pool_of", [call(_four, BOXES, NUMBER, (2, 2), 1.0), call(_four, BOXES, NUMBER, (1, 4), 0.5),
        call(_four, NO_BOXES, np.zeros(2, np.int32), (2, 2), 1.0)], _means, slow=True, skip=MAPS, loose=HALF),
    Row("psroi_pool", [call(_four, BOXES, NUMBER, 2), call(_four, BOXES, NUMBER, [1, 4], 0.5), call(_four, NO_BOXES, np.zeros(2, np.int64), 2)],
        _means, skip=MAPS, loose=HALF, bad=[*_wrong("psroi_pool", _four),
        Bad(call(_maps, BOXES, NUMBER, 2), "psroi_pool(x): expected a number of channels divisible by 4, the number of bins, got shape [2, 2, 6, 7]")]),
    Row("deform_conv2d_of", [call(_small, _offset, _kernel, _mask, (1, 1), (0, 0), (1, 1), 1, 1),
        call(_small, floats(1, 16, 2, 2, low=-1.0, high=1.0), floats(2, 1, 2, 2), None, (2, 2), (1, 0), (2, 1), 2, 2),
        call(np.zeros((0, 2, 4, 5)), np.zeros((0, 8, 3, 4)), _kernel, None, (1, 1), (0, 0), (1, 1), 1, 1)], _deform, slow=True, skip=MAPS,
        loose=(20, "positions lose digits, and sums of products in half precision")),
    Row("deform_conv2d", [call(_small, _offset, _kernel, floats(2), mask=_mask),
        call(_small, floats(1, 16, 2, 2, low=-1.0, high=1.0), floats(2, 1, 2, 2), None, 2, [1, 0], [2, 1], 2, 2),
        call(np.zeros((0, 2, 4, 5)), np.zeros((0, 8, 3, 4)), _kernel)], _convolved, skip=MAPS,
        loose=(20, "positions lose digits, and sums of products in half precision"),
        bad=[Bad(call(_small, floats(1, 6, 3, 4), _kernel), "deform_conv2d(offset): expected shape [1, 8, 3, 4], got shape [1, 6, 3, 4]"),
             Bad(call(_small, _offset, _kernel, mask=floats(1, 3, 3, 4)), "deform_conv2d(mask): expected shape [1, 4, 3, 4], got shape [1, 3, 3, 4]"),
             Bad(call(_small, _offset, floats(2, 3, 2, 2)), "deform_conv2d(weight): expected 2 input channels for 2 channels in 1 groups, got"),
             Bad(call(_small, _offset, floats(2, 2, 5, 5)), "deform_conv2d(x): expected images of at least the size that a kernel of [5, 5] covers"),
             Bad(call(_small, _offset, _kernel, groups=3), "deform_conv2d(groups): expected a positive divisor of the 2 channels, got 3"),
             Bad(call(_small, _offset, _kernel, deformable_groups=0), "deform_conv2d(deformable_groups): expected a positive divisor of the 2 channels"),
             Bad(call(_small, _offset, _kernel, padding=-1), "deform_conv2d(padding): expected non-negative integers, got -1"),
             Bad(call(_small, _offset, _kernel, stride=0), "deform_conv2d(stride): expected positive integers, got 0"),
             Bad(call(_small, _offset, _kernel, dilation="a"), "deform_conv2d(dilation): expected an integer or two integers", TypeError),
             Bad(call(_small, _offset, _kernel, floats(3)), "deform_conv2d(bias): expected shape [2], got shape [3]"),
             Bad(call(floats(2, 3), _offset, _kernel), "deform_conv2d(x): expected images of shape [N, C, H, W], got shape [2, 3]")]),
]  # fmt: skip
