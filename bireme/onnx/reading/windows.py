"""Meanings of nodes over windows: convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme import ops
from bireme.core.program.variable import Variable
from bireme.onnx.reading.shapes import padded
from bireme.onnx.reading.table import MEANINGS, Node, ints, means, tensor

CONV: dict[int, Callable] = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
MAX: dict[int, Callable] = {1: ops.max_pool1d, 2: ops.max_pool2d, 3: ops.max_pool3d}
MEAN: dict[int, Callable] = {1: ops.avg_pool1d, 2: ops.avg_pool2d, 3: ops.avg_pool3d}
TRANSPOSED: dict[int, Callable] = {1: ops.conv1d_transpose, 2: ops.conv2d_transpose, 3: ops.conv3d_transpose}


class Window:
    """The attributes of a node over windows, with what is added on each side."""

    def __init__(self, n: Node, sizes: list[int], kernel: list[int]):
        count = len(sizes)
        self.kernel = kernel
        self.stride = n.attr("strides") or [1] * count
        self.dilation = n.attr("dilations") or [1] * count
        self.sizes, self.ceil = sizes, bool(n.attr("ceil_mode", 0))
        if not len(kernel) == len(self.stride) == len(self.dilation) == count:
            raise n.bad(f"{count} numbers for each attribute", f"{kernel}, {self.stride}, {self.dilation}")
        pads, auto = n.attr("pads") or [0] * 2 * count, n.attr("auto_pad", "NOTSET")
        if len(pads) != 2 * count or min(self.stride) < 1 or min(self.dilation) < 1:
            raise n.bad(f"{2 * count} pads and positive strides", f"{pads}, {self.stride}")
        self.low, self.high = pads[:count], pads[count:]
        self.reach = [(k - 1) * d + 1 for k, d in zip(kernel, self.dilation)]
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            need = [max((-(-m // s) - 1) * s + k - m, 0) for m, s, k in zip(sizes, self.stride, self.reach)]
            less, more = [p // 2 for p in need], [p - p // 2 for p in need]
            self.low, self.high = (less, more) if auto == "SAME_UPPER" else (more, less)
        elif auto == "VALID":
            self.low, self.high = [0] * count, [0] * count

    @property
    def flat(self) -> list[int]:
        """What is added, in pairs by axis."""
        return [p for pair in zip(self.low, self.high) for p in pair]

    def counts(self) -> list[int]:
        """The number of windows by axis; one that begins behind the image and its padding in front does not count."""
        found = []
        for m, k, s, a, b in zip(self.sizes, self.reach, self.stride, self.low, self.high):
            room = m + a + b - k
            o = (-(-room // s) if self.ceil else room // s) + 1
            found.append(o - 1 if self.ceil and (o - 1) * s >= m + a else o)
        return found

    def taken(self, x: Any, fill: float) -> Any:
        """The elements of all windows: each spatial axis becomes two, windows and elements in them."""
        outs = self.counts()
        need = [(o - 1) * s + k for o, s, k in zip(outs, self.stride, self.reach)]
        high = [max(m - size - a, 0) for m, size, a in zip(need, self.sizes, self.low)]
        x = padded(x, [0, 0, *self.low], [0, 0, *high], "constant", fill)
        for i, (o, s, k, d) in enumerate(zip(outs, self.stride, self.kernel, self.dilation)):
            axis = 2 + 2 * i
            at = (np.arange(o)[:, None] * s + np.arange(k) * d).reshape(-1)
            x = ops.index_select(x, tensor(at.astype(np.int64)), axis=axis)
            x = ops.reshape(x, [*x.shape[:axis], o, k, *x.shape[axis + 1 :]])
        n = len(outs)
        return ops.transpose(x, [0, 1, *range(2, 2 + 2 * n, 2), *range(3, 3 + 2 * n, 2)])


@means("Conv")
def _(n: Node, x: Any, weight: Any, bias: Any = None) -> Any:
    return conv(n, x, weight, bias)


def conv(n: Node, x: Any, weight: Any, bias: Any = None) -> Any:
    count = x.ndim - 2
    if count not in CONV:
        raise n.bad("1 to 3 spatial axes", str(count))
    at = Window(n, x.shape[2:], list(weight.shape[2:]))
    groups = n.attr("group", 1)
    return CONV[count](x, weight, bias, at.stride, at.flat, at.dilation, groups)


@means("ConvTranspose")
def _(n: Node, x: Any, weight: Any, bias: Any = None) -> Any:
    count = x.ndim - 2
    if count not in TRANSPOSED:
        raise n.bad("1 to 3 spatial axes", str(count))
    sizes, kernel = x.shape[2:], list(weight.shape[2:])
    stride, dilation = n.attr("strides") or [1] * count, n.attr("dilations") or [1] * count
    extra = n.attr("output_padding") or [0] * count
    pads, auto, wanted = n.attr("pads") or [0] * 2 * count, n.attr("auto_pad", "NOTSET"), n.attr("output_shape")
    full = [s * (m - 1) + (k - 1) * d + 1 for m, k, s, d in zip(sizes, kernel, stride, dilation)]
    if wanted is not None or auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [m * s for m, s in zip(sizes, stride)] if wanted is None else wanted[-count:]
        total = [f + e - o for f, e, o in zip(full, extra, wanted)]
        half = [t // 2 for t in total]
        rest = [t - h for t, h in zip(total, half)]
        low, high = (half, rest) if auto == "SAME_UPPER" else (rest, half)
    else:
        low, high = pads[:count], pads[count:]
        low, high = ([0] * count, [0] * count) if auto == "VALID" else (low, high)
    # the whole result first: cut, or grown by zeros, where the node says how far it reaches
    groups = n.attr("group", 1)
    made = TRANSPOSED[count](x, weight, stride=stride, dilation=dilation, groups=groups)
    made = padded(made, [0, 0, *[-a for a in low]], [0, 0, *[e - b for e, b in zip(extra, high)]])
    return made if bias is None else made + ops.reshape(bias, [-1, *[1] * count])


def _plain(at: Window, x: Any) -> bool:
    """Whether a function of ours pools so."""
    small = all(max(a, b) < k for a, b, k in zip(at.low, at.high, at.kernel))
    fits = all(m + a + b >= k for m, a, b, k in zip(at.sizes, at.low, at.high, at.kernel))
    return set(at.dilation) == {1} and not at.ceil and x.dtype.name in ("float32", "float64") and small and fits


@means("MaxPool")
def _(n: Node, x: Any) -> Any:
    at = Window(n, x.shape[2:], n.attr("kernel_shape"))
    count = len(at.kernel)
    if count in CONV and n.count == 1 and (isinstance(x, Variable) or _plain(at, x)):
        return MAX[count](x, at.kernel, at.stride, at.flat)
    given, narrow = x, x.dtype if x.dtype.kind == "i" else None
    x = ops.cast(x, "float32") if narrow else x
    taken = at.taken(x, -math.inf)
    outs = taken.shape[: 2 + count]
    flat = ops.reshape(taken, [*outs, -1])
    made = ops.max(flat, axis=-1)
    made = ops.cast(made, narrow) if narrow else made
    if n.count < 2:
        return made
    sizes = [int(m) for m in given.shape]
    place = np.arange(math.prod(sizes)).reshape(sizes)
    if n.attr("storage_order", 0):  # by columns
        inside = np.arange(math.prod(sizes[2:])).reshape(sizes[2:][::-1]).T
        place = np.arange(sizes[0] * sizes[1]).reshape(sizes[:2] + [1] * count) * math.prod(sizes[2:]) + inside
    spread = ops.reshape(at.taken(tensor(place.astype(np.float64)), -1.0), [*outs, -1])
    index = ops.argmax(flat, axis=-1, keepdim=True)
    return [made, ops.cast(ops.squeeze(ops.take_along_axis(spread, index, -1), [-1]), "int64")]


@means("AveragePool")
def _(n: Node, x: Any) -> Any:
    at, inside = Window(n, x.shape[2:], n.attr("kernel_shape")), bool(n.attr("count_include_pad", 0))
    count = len(at.kernel)
    if count in CONV and (isinstance(x, Variable) or _plain(at, x)) and not inside:
        return MEAN[count](x, at.kernel, at.stride, at.flat)
    axes = list(range(2 + count, 2 + 2 * count))
    total = ops.sum(at.taken(x, 0.0), axis=axes)
    ones = np.ones((1, 1, *at.sizes), x.dtype.np)
    if inside:  # the padding that was asked for counts, what a last window has beyond it does not
        ones = np.ones((1, 1, *[m + a + b for m, a, b in zip(at.sizes, at.low, at.high)]), x.dtype.np)
        wide = Window.__new__(Window)
        wide.__dict__.update(at.__dict__)
        wide.sizes, wide.low, wide.high = list(ones.shape[2:]), [0] * count, [0] * count
        wide.counts = at.counts  # type: ignore[method-assign]  # as many as without padding
        return total / ops.sum(wide.taken(tensor(ones), 0.0), axis=axes)
    return total / ops.sum(at.taken(tensor(ones), 0.0), axis=axes)


@means("LpPool")
def _(n: Node, x: Any) -> Any:
    at, p = Window(n, x.shape[2:], n.attr("kernel_shape")), float(n.attr("p", 2))
    count = len(at.kernel)
    powers = ops.abs(at.taken(x, 0.0)) ** p
    return ops.sum(powers, axis=list(range(2 + count, 2 + 2 * count))) ** (1 / p)


def _global(f: Callable) -> Callable:
    return lambda n, x: f(x, list(range(2, x.ndim)))


MEANINGS["GlobalAveragePool"] = _global(lambda x, axes: ops.mean(x, axis=axes, keepdim=True))
MEANINGS["GlobalMaxPool"] = _global(lambda x, axes: ops.max(x, axis=axes, keepdim=True))


@means("GlobalLpPool")
def _(n: Node, x: Any) -> Any:
    p = float(n.attr("p", 2))
    return ops.sum(ops.abs(x) ** p, axis=list(range(2, x.ndim)), keepdim=True) ** (1 / p)


@means("MaxUnpool")
def _(n: Node, x: Any, index: Any, shape: Any = None) -> Any:
    kernel = n.attr("kernel_shape")
    count = len(kernel)
    stride, pads = n.attr("strides") or [1] * count, n.attr("pads") or [0] * 2 * count
    sizes = [(m - 1) * s - a - b + k for m, s, a, b, k in zip(x.shape[2:], stride, pads[:count], pads[count:], kernel)]
    least = [*x.shape[:2], *sizes]
    wanted = least if shape is None else ints(shape)
    flat = ops.zeros([math.prod(least)], x.dtype)
    made = ops.put_along_axis(flat, ops.reshape(index, [-1]), ops.reshape(x, [-1]), 0, "assign", True, False)
    made = ops.reshape(made, least)
    return padded(made, [0] * len(least), [w - m for w, m in zip(wanted, least)])


@means("Col2Im")
def _(n: Node, x: Any, image: Any, block: Any) -> Any:
    sizes, kernel = ints(image), ints(block)
    count = len(sizes)
    stride, dilation = n.attr("strides") or [1] * count, n.attr("dilations") or [1] * count
    pads = n.attr("pads") or [0] * 2 * count
    wide = [m + a + b for m, a, b in zip(sizes, pads[:count], pads[count:])]
    outs = [(m - (k - 1) * d - 1) // s + 1 for m, k, d, s in zip(wide, kernel, dilation, stride)]
    batch, channels = x.shape[0], x.shape[1] // math.prod(kernel)
    flat = np.zeros((*kernel, *outs), np.int64)  # where in the padded image each element goes
    for i in range(count):
        along = np.arange(kernel[i]) * dilation[i]
        across = np.arange(outs[i]) * stride[i]
        place = along.reshape([-1 if j == i else 1 for j in range(2 * count)]) + across.reshape(
            [-1 if j == count + i else 1 for j in range(2 * count)]
        )
        flat = flat + place * math.prod(wide[i + 1 :])
    index = np.broadcast_to(flat.reshape(1, 1, -1), (batch, channels, flat.size))
    start = ops.zeros([batch, channels, math.prod(wide)], x.dtype)
    given = ops.reshape(x, [batch, channels, -1])
    made = ops.put_along_axis(start, tensor(np.ascontiguousarray(index)), given, 2, "add", True, False)
    made = ops.reshape(made, [batch, channels, *wide])
    return padded(made, [0, 0, *[-a for a in pads[:count]]], [0, 0, *[-b for b in pads[count:]]])


@means("DeformConv")
def _(n: Node, x: Any, weight: Any, offset: Any, bias: Any = None, mask: Any = None) -> Any:
    if x.ndim != 4:
        raise n.bad("images", f"{x.ndim} axes")
    at = Window(n, x.shape[2:], list(weight.shape[2:]))
    x = padded(x, [0, 0, *at.low], [0, 0, *at.high])
    return ops.deform_conv2d(
        x, offset, weight, bias, at.stride, 0, at.dilation, n.attr("offset_group", 1), n.attr("group", 1), mask
    )


@means("RoiAlign")
def _(n: Node, x: Any, rois: Any, batch: Any) -> Any:
    """Means, or maxima, of samples of boxes; each sample lies between four pixels."""
    rows, columns = n.attr("output_height", 1), n.attr("output_width", 1)
    ratio, scale = n.attr("sampling_ratio", 0), n.attr("spatial_scale", 1.0)
    half = (
        0.5
        if n.attr("coordinate_transformation_mode", "half_pixel" if n.version >= 16 else "") == "half_pixel"
        else 0.0
    )
    boxes, of = np.asarray(rois.numpy(), np.float64) * scale - half, np.asarray(batch.numpy())
    h, w = x.shape[2:]
    made = []
    for (x1, y1, x2, y2), i in zip(boxes, of):
        width, height = x2 - x1, y2 - y1
        if not half:
            width, height = max(width, 1.0), max(height, 1.0)
        sy = ratio if ratio > 0 else math.ceil(height / rows)
        sx = ratio if ratio > 0 else math.ceil(width / columns)
        ys = y1 + height / rows * (np.arange(rows)[:, None] + (np.arange(sy) + 0.5) / sy)
        xs = x1 + width / columns * (np.arange(columns)[:, None] + (np.arange(sx) + 0.5) / sx)
        (y0, yn, ty, iny), (x0, xn, tx, inx) = _between(ys.reshape(-1), h), _between(xs.reshape(-1), w)
        image = x[int(i)]
        parts = []
        for a, u in ((y0, 1 - ty), (yn, ty)):
            for b, v in ((x0, 1 - tx), (xn, tx)):
                weights = ((u * iny)[:, None] * (v * inx)).astype(np.float32)
                taken = ops.index_select(ops.index_select(image, tensor(a), axis=1), tensor(b), axis=2)
                parts.append(taken * tensor(weights))
        if n.attr("mode", "avg") == "avg":
            found = ops.reshape(parts[0] + parts[1] + parts[2] + parts[3], [-1, rows, sy, columns, sx])
            made.append(ops.mean(found, axis=[2, 4]))
        else:
            found = ops.maximum(ops.maximum(parts[0], parts[1]), ops.maximum(parts[2], parts[3]))
            made.append(ops.max(ops.reshape(found, [-1, rows, sy, columns, sx]), axis=[2, 4]))
    return ops.stack(made)


def _between(at: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The two neighbours of positions, how near they are to the second, and whether they are in the image."""
    inside = (at >= -1) & (at <= size)
    at = np.clip(at, 0, size - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    return low, high, at - low, inside.astype(np.float64)
