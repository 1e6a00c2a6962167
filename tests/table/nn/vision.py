"""Rows of images: other sizes, pixels and channels moved, sampling; dropout of channels; masks of sequences; bilinear
maps.
"""

import numpy as np

from tests.table.harness import ALL, FLOAT, INT, Bad, Row, call, still
from tests.table.samples import floats, ints

NONE: frozenset = frozenset()
IMAGES = {"0-d": "it takes images only"}
HALF = (4, "half precision loses digits in sums of products")
F32 = (1e5, "weights and coordinates are computed in float32")


# ---------------------------------------------------------------- other sizes


def _cubic(t):
    t, a = abs(t), -0.75
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def _line(n, m, mode, align, align_mode, scale):
    """The weights of an axis, one row for each result."""
    found = np.zeros((m, n))
    ratio = (n - 1) / (m - 1) if align and m > 1 else 0 if align or m == 1 else 1 / scale if scale else n / m
    for i in range(m):
        if mode == "area":
            begin, end = (i * n) // m, -(-(i + 1) * n // m)
            found[i, begin:end] = 1 / (end - begin)
        elif mode == "nearest":
            found[i, min(int(ratio * i + 1e-6), n - 1)] = 1
        else:
            at = ratio * i if align or (align_mode == 1 and mode != "bicubic") else ratio * (i + 0.5) - 0.5
            if mode != "bicubic":
                at = max(at, 0)
            low = int(np.floor(at))
            for j in range(low - 1, low + 3):
                weight = _cubic(at - j) if mode == "bicubic" else max(0, 1 - abs(at - j))
                found[i, min(max(j, 0), n - 1)] += weight
    return found


def _resize(x, axes, sizes, scales, mode, align, align_mode):
    for axis, m, scale in zip(axes, sizes, scales, strict=True):
        weights = _line(x.shape[axis], m, mode, align, align_mode, scale)
        x = np.moveaxis(np.tensordot(x, weights, ((axis,), (1,))), -1, axis)
    return x


def _interpolate(
    x,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=False,
    align_mode=0,
    data_format=None,
    recompute_scale_factor=None,
):
    axes = list(range(1, x.ndim - 1)) if data_format in ("NWC", "NHWC", "NDHWC") else list(range(2, x.ndim))
    scales = [None] * len(axes)
    if size is None:
        scales = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor] * len(axes)
        size = [int(x.shape[a] * s + 1e-6) for a, s in zip(axes, scales, strict=True)]
    if recompute_scale_factor or mode == "area":
        scales = [None] * len(axes)
    inner = "linear" if mode in ("bilinear", "trilinear") else mode
    size = [int(n) for n in size]
    return _resize(x, axes, size, scales, inner, align_corners, align_mode)


# ---------------------------------------------------------------- pixels


def _shuffle(x, r, data_format="NCHW"):
    x = np.moveaxis(x, 3, 1) if data_format == "NHWC" else x
    n, c, h, w = x.shape
    out = np.zeros((n, c // r**2, h * r, w * r), x.dtype)
    for i in range(r):
        for j in range(r):
            out[:, :, i::r, j::r] = x[:, i * r + j :: r * r]
    return np.moveaxis(out, 1, 3) if data_format == "NHWC" else out


def _unshuffle(x, r, data_format="NCHW"):
    x = np.moveaxis(x, 3, 1) if data_format == "NHWC" else x
    parts = np.stack([x[:, :, i::r, j::r] for i in range(r) for j in range(r)], axis=2)
    out = parts.reshape(x.shape[0], x.shape[1] * r * r, x.shape[2] // r, x.shape[3] // r)
    return np.moveaxis(out, 1, 3) if data_format == "NHWC" else out


def _deal(x, groups, data_format="NCHW"):
    axis = 3 if data_format == "NHWC" else 1
    c = x.shape[axis]
    return np.take(x, [g * (c // groups) + i for i in range(c // groups) for g in range(groups)], axis=axis)


def _shift(x, seg_num, shift_ratio=0.25, name=None, data_format="NCHW"):
    first = np.moveaxis(x, 3, 1) if data_format == "NHWC" else x
    clips = first.reshape(len(first) // seg_num, seg_num, *first.shape[1:])
    out, c = clips.copy(), first.shape[1]
    a, b = int(c * shift_ratio), int(c * 2 * shift_ratio)
    out[:, :, :b] = 0
    out[:, 1:, :a], out[:, :-1, a:b] = clips[:, :-1, :a], clips[:, 1:, a:b]
    out = out.reshape(first.shape)
    return np.moveaxis(out, 1, 3) if data_format == "NHWC" else out


def _place(t, n, padding, align):
    t = (t + 1) / 2 * (n - 1) if align else ((t + 1) * n - 1) / 2
    if padding == "reflection":
        low, high = (0, n - 1) if align else (-0.5, n - 0.5)
        while high > low and not low <= t <= high:
            t = 2 * low - t if t < low else 2 * high - t
    return t if padding == "zeros" else min(max(t, 0), n - 1)


def _sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=True):
    dims = x.shape[2:]
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for at in np.ndindex(*grid.shape[:-1]):
        ts = [_place(t, n, padding_mode, align_corners) for t, n in zip(grid[at][::-1], dims, strict=True)]
        corners = [tuple(int(np.round(t)) for t in ts)] if mode == "nearest" else np.ndindex(*[n + 3 for n in dims])
        for corner in corners:
            pixel = corner if mode == "nearest" else tuple(k - 1 for k in corner)
            weight = (
                1 if mode == "nearest" else np.prod([max(0, 1 - abs(t - p)) for t, p in zip(ts, pixel, strict=True)])
            )
            if weight and all(0 <= p < n for p, n in zip(pixel, dims, strict=True)):
                out[(at[0], slice(None), *at[1:])] += weight * x[(at[0], slice(None), *pixel)]
    return out


def _grid(theta, dims, align=True):
    lines = [(np.linspace(-1, 1, n) if n > 1 else np.zeros(n)) * (1 if align else (n - 1) / n) for n in dims]
    base = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(dims)], -1)
    return np.einsum("...k,nck->n...c", base, theta)


# ---------------------------------------------------------------- others


def _tree(ids, parents):
    out = ids.copy()
    for b in range(ids.shape[1]):
        for k in range(ids.shape[2]):
            beam = k
            for t in range(len(ids) - 1, -1, -1):
                out[t, b, k], beam = ids[t, b, beam], parents[t, b, beam]
    return out


def _mask(x, maxlen=None, dtype="int64"):
    n = int(x.max()) if maxlen is None else int(maxlen)
    return (np.arange(n) < x[..., None]).astype(dtype)


def _bilinear(x1, x2, weight, bias=None):
    out = np.einsum("bi,kij,bj->bk", x1, weight, x2)
    return out if bias is None else out + bias


def _spectral(weight, u, v, eps, dim, power_iters):
    rows = np.moveaxis(weight, dim, 0).reshape(weight.shape[dim], -1)
    for _ in range(power_iters):
        v = rows.T @ u
        v = v / np.linalg.norm(v)
        u = rows @ v
        u = u / np.linalg.norm(u)
    return weight / (u @ rows @ v)


def _zeropad(x, padding, data_format="NCHW"):
    left, right, top, bottom = padding
    inner = [(top, bottom), (left, right)]
    return np.pad(x, [(0, 0), *inner, (0, 0)] if data_format == "NHWC" else [(0, 0), (0, 0), *inner])


def _whole(axes):
    """Dropped are whole slices over `axes`, and the others are twice what they were."""

    def law(got, x, p=0.5, training=True, *_, **__):
        kept = np.broadcast_to(got.any(axis=axes, keepdims=True), got.shape)
        return np.allclose(got.astype(float), np.where(kept, 2 * x.astype(float), 0)) if training and p == 0.5 else True

    return law


def _alpha_law(got, x, p=0.5, *_, **__):
    if p in (0, 1):
        return np.array_equal(got, x if p == 0 else x * 0)
    least, p = -1.7580993408473766, float(p)
    scale = ((1 - p) * (1 + p * least**2)) ** -0.5
    shift = -scale * least * p
    wide, tol = got.astype(float), {2: 3e-2, 4: 1e-5, 8: 1e-6}[got.dtype.itemsize]
    dropped = np.isclose(wide, least * scale + shift, rtol=tol, atol=tol)
    return bool((dropped | np.isclose(wide, x.astype(float) * scale + shift, rtol=tol, atol=tol)).all())


_image, _last = floats(1, 2, 3, 4), floats(1, 3, 4, 2)
_none = np.zeros((0, 2, 3, 4))
_where = floats(1, 1, 3, 2, low=-1.6, high=1.6)
_dropped = {"0-d": "it takes channels only"}
TABLE = [
    Row("resize_of", [call(_image, (2, 3), (5, 3), (0.0, 0.0), "linear", True, 0), call(_last, (1, 2), (4, 6), (1.5, 1.5), "linear", False, 0),
        call(_image, (2, 3), (6, 5), (0.0, 0.0), "bicubic", False, 0), call(_image, (2, 3), (6, 4), (0.0, 0.0), "nearest", False, 0),
        call(_image, (2, 3), (2, 3), (0.0, 0.0), "area", False, 0), call(_none, (2, 3), (6, 5), (0.0, 0.0), "linear", False, 0)],
        _resize, dtypes=FLOAT, unchecked=INT, skip=IMAGES, loose=F32),
    Row("interpolate", [call(_image, [5, 6], mode="bilinear"), call(_image, scale_factor=2), call(_image, [5, 7]),
        call(_image, [5.5, 7.0]),
        call(_image, scale_factor=[1.5, 0.5], mode="bilinear", align_mode=1),
        call(_last, [2, 7], mode="bicubic", align_corners=True, data_format="NHWC"),
        call(floats(1, 2, 4), [7], mode="linear", align_corners=True), call(floats(1, 1, 2, 3, 2), scale_factor=2, mode="trilinear"),
        call(_image, [2, 3], mode="area"), call(_image, [2, 3], 2.0, mode="area"), call(_image, [1, 1], mode="bicubic"),
        call(_image, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
        call(_none, [2, 2])], _interpolate, dtypes=FLOAT, unchecked=INT, skip=IMAGES, loose=F32,
        bad=[Bad(call(_image), "interpolate(size, scale_factor): expected either size or scale_factor, got neither"),
             Bad(call(_image, [2, 2], 2.0), "interpolate(size, scale_factor): expected either size or scale_factor, got both"),
             Bad(call(_image, [2.5, 2.0], mode="area"), "interpolate(size): expected 2 integers", TypeError),
             Bad(call(_image, [2, float("nan")]), "interpolate(size): expected 2 integers", TypeError),
             Bad(call(_image, [2, 2], mode="cubic"), "interpolate(mode): expected one of 'linear', 'bilinear', 'bicubic', 'trilinear', 'nearest', 'area'"),
             Bad(call(_image, [2], mode="linear"), "interpolate(x): expected a 3-D tensor for mode 'linear', got shape [1, 2, 3, 4]"),
             Bad(call(_image, [0, 2]), "interpolate(size): expected positive sizes, got [0, 2]"),
             Bad(call(_image, [2, 2, 2]), "interpolate(size): expected 2 integers"), Bad(call(_image, [2]), "interpolate(size): expected 2 integers"),
             Bad(call(_image, scale_factor="a"), "interpolate(scale_factor): expected a number or 2 numbers, got 'a'", TypeError),
             Bad(call(_image, [2, 2], align_corners=3), "interpolate(align_corners): expected True or False, got 3", TypeError),
             Bad(call(_image, scale_factor=0.1), "interpolate(scale_factor): expected scale factors that leave at least one element"),
             Bad(call(_image, scale_factor=-1), "interpolate(scale_factor): expected positive numbers"),
             Bad(call(_image, [2, 2], align_corners=True), "interpolate(align_corners): expected False with mode 'nearest'"),
             Bad(call(_image, [2, 2], align_mode=2), "interpolate(align_mode): expected 0 or 1, got 2"),
             Bad(call(_image, [2, 2], data_format="NCDHW"), "interpolate(data_format): expected 'NCHW' or 'NHWC', got 'NCDHW'")]),
    Row("upsample", [call(_image, [5, 6]), call(_image, scale_factor=2, mode="bilinear", align_corners=True), call(_none, [2, 2])], _interpolate,
        dtypes=FLOAT, unchecked=INT, skip=IMAGES, loose=F32),
    Row("pixel_shuffle", [call(floats(1, 8, 2, 3), 2), call(floats(1, 2, 3, 4), 2, "NHWC"), call(np.zeros((0, 4, 2, 2)), 2)], _shuffle, skip=IMAGES,
        bad=[Bad(call(_image, 2), "pixel_shuffle(x): expected a number of channels divisible by 4, got shape [1, 2, 3, 4]"),
             Bad(call(_image, 2.0), "pixel_shuffle(upscale_factor): expected an integer, got 2.0", TypeError),
             Bad(call(floats(2, 4), 2), "pixel_shuffle(x): expected a 4-D tensor, got shape [2, 4]")]),
    Row("pixel_unshuffle", [call(floats(1, 2, 4, 6), 2), call(floats(1, 4, 2, 3), 2, "NHWC"), call(np.zeros((0, 1, 2, 2)), 2)],
        _unshuffle, skip=IMAGES,
        bad=[Bad(call(_image, 2), "pixel_unshuffle(x): expected height and width divisible by 2, got shape [1, 2, 3, 4]"),
             Bad(call(_image, 0), "pixel_unshuffle(downscale_factor): expected a positive integer, got 0")]),
    Row("channel_shuffle", [call(floats(1, 6, 1, 2), 3), call(floats(1, 2, 1, 4), 2, "NHWC"), call(np.zeros((0, 4, 1, 1)), 2)], _deal, skip=IMAGES,
        bad=[Bad(call(_image, 3), "channel_shuffle(groups): expected a divisor of the 2 channels, got 3"),
             Bad(call(_image, 2, "NCL"), "channel_shuffle(data_format): expected 'NCHW' or 'NHWC', got 'NCL'")]),
    Row("temporal_shift", [call(floats(4, 8, 1, 2), 2), call(floats(3, 1, 2, 4), 3, 0.25, data_format="NHWC"), call(np.zeros((0, 4, 1, 1)), 2),
        call(np.zeros((2, 4, 0, 1)), np.int64(2), np.float64(0.25))],
        _shift, skip=IMAGES, bad=[Bad(call(floats(3, 4, 1, 1), 2), "temporal_shift(seg_num): expected a divisor of the 3 frames, got 2"),
        Bad(call(floats(2, 4, 1, 1), 2, 0.5), "temporal_shift(shift_ratio): expected a number in (0, 0.5), got 0.5")]),
    Row("grid_sample", [call(_image, _where), call(_image, still(_where), padding_mode="border", align_corners=False),
        call(_image, _where, padding_mode="reflection", align_corners=False),
        call(_image, still(_where), "nearest"), call(floats(1, 1, 2, 2, 2), still(floats(1, 1, 1, 2, 3, low=-1.3, high=1.3))),
        call(_none, np.zeros((0, 2, 3, 2)))], _sample, skip=IMAGES, loose=(20, "coordinates lose digits where they are scaled"),
        bad=[Bad(call(_image, floats(1, 2, 3, 3)), "grid_sample(grid): expected shape [1, any, any, 2], got shape [1, 2, 3, 3]"),
             Bad(call(floats(2, 3), floats(2, 2)), "grid_sample(x): expected a 4-D or 5-D tensor, got shape [2, 3]"),
             Bad(call(_image, _where, "cubic"), "grid_sample(mode): expected 'bilinear' or 'nearest', got 'cubic'"),
             Bad(call(_image, _where, padding_mode="wrap"), "grid_sample(padding_mode): expected 'zeros', 'border' or 'reflection', got 'wrap'")]),
    Row("affine_grid_of", [call(floats(2, 2, 3), (3, 4), True), call(floats(1, 3, 4), (2, 1, 3), False), call(np.zeros((0, 2, 3)), (2, 2), True)],
        _grid, skip=IMAGES, loose=HALF),
    Row("affine_grid", [call(floats(2, 2, 3), [2, 1, 3, 4]), call(floats(1, 3, 4), [1, 2, 2, 1, 3], align_corners=False),
        call(np.zeros((0, 2, 3)), [0, 1, 2, 2])],
        lambda theta, out_shape, align_corners=True: _grid(theta, out_shape[2:], align_corners), skip=IMAGES, loose=HALF,
        bad=[Bad(call(floats(2, 2, 3), [2, 1, 3]), "affine_grid(out_shape): expected 4 or 5 integers, got [2, 1, 3]"),
             Bad(call(floats(2, 3, 4), [2, 1, 3, 4]), "affine_grid(theta): expected shape [batch, 2, 3], got shape [2, 3, 4]"),
             Bad(call(floats(2, 2, 3), [1, 1, 3, 4]), "affine_grid(out_shape): expected a batch size of 2, as in theta, got [1, 1, 3, 4]")]),
    Row("sequence_mask_of", [call(np.array([1, 3, 0]), 4, "int64"), call(np.array(2), 3, "float32"), call(np.zeros((2, 0), int), 3, "bool"),
        call(np.array([1.5, 2.0], np.float32), 3, "int32")], _mask, dtypes=NONE, unchecked=ALL, out="ref", grad=0),
    Row("sequence_mask", [call(np.array([1, 3, 0])), call(np.array([[1, 2]], np.int32), 4, "float32"), call(np.array(2), maxlen=3, dtype="bool"),
        call(np.zeros((2, 0), int), 3), call(np.array([1, 0]), 2, None), call(np.array([1, 3]), 4.9)], _mask,
        dtypes=NONE, unchecked=ALL, out="ref", grad=0,
        bad=[Bad(call(np.array([1, 0]), "a"), "sequence_mask(maxlen): expected an integer, got 'a'", TypeError)],
        skip={"static": "without maxlen the size of the result depends on values"}),
    Row("gather_tree", [call(ints(4, 2, 3, high=9), ints(4, 2, 3, high=3, seed=1)), call(ints(1, 1, 2), np.zeros((1, 1, 2), int)),
        call(np.zeros((0, 2, 3), int), np.zeros((0, 2, 3), int))], _tree, dtypes=NONE, unchecked=ALL, grad=0, skip={"0-d": "it takes beams only"},
        bad=[Bad(call(ints(2, 1, 2), np.full((2, 1, 2), 2)), "gather_tree(parents): expected indices in [0, 1], got 2", IndexError),
             Bad(call(ints(2, 2), ints(2, 2)), "gather_tree(parents): expected the shape of ids, [time, batch, beam]")]),
    Row("bilinear_of", [call(floats(3, 2), floats(3, 4), floats(2, 2, 4)), call(np.zeros((0, 2)), np.zeros((0, 1)), floats(3, 2, 1))], _bilinear,
        skip={"0-d": "it takes rows only"}, loose=HALF),
    Row("bilinear", [call(floats(3, 2), floats(3, 4), floats(2, 2, 4)), call(floats(3, 2), floats(3, 4), floats(2, 2, 4), floats(1, 2)),
        call(np.zeros((0, 2)), np.zeros((0, 1)), floats(3, 2, 1))], _bilinear, skip={"0-d": "it takes rows only"},
        loose=(12, "the same, in two steps"),
        bad=[Bad(call(floats(2, 2), floats(3, 4), floats(2, 2, 4)), "bilinear(x2): expected 2 samples, as in x1, got shape [3, 4]"),
             Bad(call(floats(3, 2), floats(3, 4), floats(2, 4, 2)), "bilinear(weight): expected shape [any, 2, 4], got shape [2, 4, 2]"),
             Bad(call(floats(3, 2), floats(3, 4), floats(2, 2, 4), floats(2)), "bilinear(bias): expected shape [1, 2], got shape [2]")]),
    Row("spectral_norm_of", [call(floats(3, 4), still(floats(3)), still(floats(4)), 0.0, 0, 1),
        call(floats(2, 3, 2), still(floats(3)), still(floats(4)), 0.0, 1, 2)], _spectral, grad=0, loose=HALF,
        skip={"0-d": "it takes matrices only", "zero size": "a weight has elements", "no gradient": "the vectors are taken as given"}),
    Row("zeropad2d", [call(_image, [1, 0, 2, 1]), call(_last, (0, 1, 1, 0), data_format="NHWC"), call(_none, [1, 1, 0, 0])], _zeropad,
        dtypes=ALL, skip=IMAGES,
        bad=[Bad(call(_image, 1), "zeropad2d(padding): expected four integers, got 1", TypeError),
             Bad(call(_image, [1, 1]), "zeropad2d(padding): expected four integers, got [1, 1]")]),
    Row("dropout1d", [call(floats(2, 3, 4)), call(floats(3, 4), 0.5), call(np.zeros((0, 3)))], law=_whole(-1), unchecked=ALL - FLOAT, skip=_dropped,
        bad=[Bad(call(floats(3)), "dropout1d(input): expected a 2-D or 3-D tensor, got shape [3]", RuntimeError)]),
    Row("dropout2d", [call(floats(2, 3, 2, 2)), call(floats(2, 3, 2, 2), training=False), call(np.zeros((0, 3, 2, 2)))], law=_whole((2, 3)),
        unchecked=ALL - FLOAT, skip=_dropped,
        bad=[Bad(call(floats(3, 2)), "dropout2d(x): expected a 4-D tensor, got shape [3, 2]"),
             Bad(call(_image, data_format="NCL"), "dropout2d(data_format): expected 'NCHW' or 'NHWC', got 'NCL'")]),
    Row("dropout3d", [call(floats(2, 2, 3, 2, 2)), call(np.zeros((0, 3, 2, 2, 2)))], law=_whole((2, 3, 4)), unchecked=ALL - FLOAT, skip=_dropped),
    Row("alpha_dropout_of", [call(floats(2, 3), 0.25, False), call(floats(), 0.5, False), call(floats(2, 3, 2), 0.5, True),
        call(np.zeros((0, 3)), 0.5, False)],
        law=_alpha_law),
    Row("alpha_dropout", [call(floats(2, 3)), call(floats()), call(floats(3), 0.0), call(floats(3), 1.0), call(np.zeros((0, 3)))], law=_alpha_law,
        bad=[Bad(call(floats(3), 1.5), "alpha_dropout(p): expected a probability in [0, 1], got 1.5")]),
    Row("feature_alpha_dropout", [call(floats(2, 3, 2)), call(floats(2, 3), 0.25), call(np.zeros((0, 3)))], law=_alpha_law, skip=_dropped,
        bad=[Bad(call(floats(3)), "feature_alpha_dropout(x): expected at least 2 dimensions, got shape [3]")]),
]  # fmt: skip
