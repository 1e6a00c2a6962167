"""Rows of variance, medians and quantiles."""

import numpy as np

from bireme.core.base import dtype as dtypes
from tests.table.harness import BOOL, COMPLEX, FLOAT, INT, REAL, Bad, Row, call, still
from tests.table.pairs import exact
from tests.table.reduction.reductions import KEEP, over
from tests.table.samples import floats, reduction

NONE = np.zeros((2, 0, 3))
TIES = np.array([[1.0, 2.0, 2.0, 1.0], [3.0, 3.0, 3.0, 3.0], [0.0, -1.0, 5.0, 5.0]])
NANS = np.array([[np.nan, 1.0, 2.0, -1.0], [3.0, np.inf, np.nan, 0.0], [1.0, 2.0, -np.inf, 3.0], [np.nan] * 4])
SINGLE = frozenset((dtypes.float32, dtypes.float64))


def axis_error(name, *more):
    return Bad(call(floats(2, 3), *more, axis=5), f"{name}(axis): expected an axis in [-2, 1], got 5")


def _var(x, axis=None, unbiased=True, keepdims=False, correction=1):
    return np.var(x, axis=axis, ddof=correction if unbiased else 0, keepdims=keepdims)


def _variance(x, axis=None, unbiased=True, keepdims=False, **more):
    return over(_var)(x, axis, keepdims, unbiased=unbiased, **more)


_spread = [s for s in reduction(empty=False) if s.leaves()[0].size != 1]
_spread += [call(floats(2, 3), axis=0, unbiased=False), call(floats(), unbiased=False), call(np.zeros((2, 0, 3)), axis=0, unbiased=False)]

# ---------------------------------------------------------------- medians


def _axes(x, axis):
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else () if axis is None else (axis,)
    return tuple(a % x.ndim for a in axes) if x.ndim and axes else tuple(range(x.ndim))


def _lines(x, axis):
    """What is reduced in one last axis."""
    axes = _axes(x, axis)
    rest = [i for i in range(x.ndim) if i not in axes]
    return np.transpose(x, (*rest, *axes)).reshape(*[x.shape[i] for i in rest], int(np.prod([x.shape[i] for i in axes])))


def _middle(x, axis, keepdim, low, ignore):
    """Over sorted lines: the middle of what counts, towards zero for integers."""
    lines = _lines(x, axis)
    out = np.zeros(lines.shape[:-1], x.dtype)
    for i in np.ndindex(out.shape):
        out[i] = _middle_of(lines[i], low, ignore)
    return out.reshape([1 if i in _axes(x, axis) else n for i, n in enumerate(x.shape)]) if keepdim else out


def _middle_of(line, low, ignore):
    given = line[~np.isnan(line)] if line.dtype.kind == "f" else line
    if not len(line) or (len(given) < len(line) and not ignore) or not len(given):
        return np.nan
    given = np.sort(given)
    a, b = given[(len(given) - 1) // 2], given[len(given) // 2]
    return a if low else np.trunc((a + b) / 2) if line.dtype.kind in "iu" else a * 0.5 + b * 0.5


def _shared(w, x, axis, keepdim, low, ignore):
    """The gradient: shared by all that equal the median, or halved between the two middles."""
    lines, numbers = _lines(x, axis), _lines(np.arange(x.size).reshape(x.shape), axis)
    out, found = _middle(x, axis, False, low, ignore), np.zeros(x.size)
    w = w.reshape(out.shape)
    for i in np.ndindex(out.shape):
        hit = np.flatnonzero(lines[i] == out[i])
        if not len(hit):
            order, n = np.argsort(lines[i], kind="stable"), lines.shape[-1]
            hit = order[[(n - 1) // 2, n // 2]]
        found[numbers[i][hit]] = w[i] / len(hit)
    return found.reshape(x.shape)


def _low(x, axis, keepdim, ignore):
    """The lower middle along an axis, and where it stands."""
    if not x.ndim:
        return x, np.zeros((), int)
    values = _middle(x, axis, True, True, ignore)
    n = x.shape[axis]
    places = np.zeros(values.shape, int)
    if n:
        nan = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
        order = np.argsort(x, axis=axis, kind="stable")
        valid = n - nan.sum(axis=axis, keepdims=True)
        middle = np.where((valid == n) | ignore, np.maximum(valid - 1, 0) // 2, valid)
        places = np.where((valid == 0) & ignore, -1, np.take_along_axis(order, middle, axis))
    return (values, places) if keepdim else (np.squeeze(values, axis), np.squeeze(places, axis))


def _median(ignore):
    def ref(x, axis=None, keepdim=False, mode="avg"):
        if mode == "min" and isinstance(axis, int):
            return _low(x, axis, keepdim, ignore)
        return _middle(x, axis, keepdim, mode == "min", ignore)

    return ref


def _compat(ignore):
    def ref(input, dim=None, keepdim=False):
        found = _median(ignore)(input, dim, keepdim, "min")
        return found if dim is None else (found[0], np.maximum(found[1], 0))

    return ref


_x, _y, _cube = floats(2, 5), floats(3, 4), floats(2, 3, 2)
_medians = [
    call(_y, 1, mode="avg"), call(_x, mode="avg"), call(_x, axis=0, keepdim=True), call(_x, None, True), call(floats()), call(floats(), 0),
    call(TIES, 1), call(NANS, 1), call(NONE), call(NONE, 1), call(NONE, axis=0),
]  # fmt: skip
_compats = [call(_y, 1), call(_x), call(_cube, -2, True), call(floats(), 0), call(NANS, 1), call(NONE, 1), call(TIES, dim=0)]

# ---------------------------------------------------------------- quantiles


def _quantile(f):
    def ref(x, q, axis=None, keepdim=False, interpolation="linear"):
        axis = tuple(axis) if isinstance(axis, list) else axis
        one = np.size(q) == 1
        if not x.size and (axis is None or np.prod(np.take(x.shape, axis)) == 0):
            shape = np.sum(x, axis=axis, keepdims=keepdim).shape
            return np.full(shape if one else (np.size(q), *shape), np.nan)
        if not x.size:
            return np.zeros(np.sum(x, axis=axis, keepdims=keepdim).shape)
        q = np.asarray(q, float).reshape(()) if one else np.asarray(q, float)
        return f(x, q, axis=axis if x.ndim else None, keepdims=keepdim, method=interpolation)

    return ref


_METHODS = ("lower", "higher", "nearest", "midpoint")
_quantiles = [
    call(_x, 0.3), call(_x, [0.1, 0.75], 1), call(_cube, 0.4, axis=[0, -1], keepdim=True), call(_x, still([0.0, 0.3, 1.0]), axis=0),
    *[call(_x, [0.3, 0.6], 1, interpolation=m) for m in _METHODS],
    call(floats(), 0.5), call(_x, [1]), call(NONE, 0.5), call(NONE, 0.5, 0),
]  # fmt: skip
_some_nan = np.array([[np.nan, 1.0, 2.0, -1.0], [3.0, 4.0, np.nan, 0.0], [1.0, 2.0, 5.0, 3.0]])


def _quantile_of(f):
    return lambda x, q, axis, keepdim, interpolation, ignore: np.asarray(f(x, q, axis, keepdim, interpolation)).reshape(
        len(q), *np.sum(x, axis=axis, keepdims=keepdim).shape
    )


def _bad_quantile(name):
    return [
        axis_error(name, 0.5),
        Bad(call(_x, 1.5), f"{name}(q): expected numbers in [0, 1], got 1.5"),
        Bad(call(_x, []), f"{name}(q): expected at least one number, got ()"),
        Bad(call(_x, np.array([0.5j])), f"{name}(q): expected a floating-point tensor with at most 1 dimension, got a Tensor of shape [1]"),
        Bad(call(_x, "a", 9), f"{name}(q): expected a number, a list of numbers or a tensor, got 'a'", TypeError),
        Bad(call(_x, 0.5, interpolation="up"), f"{name}(interpolation): expected one of 'linear', 'lower', 'higher', 'nearest', 'midpoint', got 'up'"),
    ]


TABLE = [
    Row("var", [*_spread, call(floats(2, 3), axis=1, correction=0.5)], _variance, dtypes=FLOAT, unchecked=INT | BOOL, rename=KEEP, bad=[
        axis_error("var"),
        Bad(call(floats(2), unbiased=True, correction=0), "var(correction): expected either unbiased or correction, got both"),
        Bad(call(floats(2), correction=None), "var(correction): expected a number, got None", TypeError),
    ]),
    Row("std", _spread, lambda x, *a, **k: np.sqrt(_variance(x, *a, **k)), dtypes=FLOAT, unchecked=INT | BOOL, rename=KEEP, bad=[axis_error("std")]),
    Row("median", _medians, lambda x, *a, **k: _median(False)(x.astype(float), *a, **k), dtypes=REAL, unchecked=BOOL | COMPLEX,
        out=lambda d: d if d is dtypes.float64 else dtypes.float32,
        grad_ref=lambda w, x, axis=None, keepdim=False, mode="avg": _shared(w, x, axis, keepdim, False, False),
        bad=[axis_error("median"), Bad(call(_x, mode="max"), "median(mode): expected 'avg' or 'min', got 'max'")]),
    Row("nanmedian", [*_medians, call(_cube, [0, 1]), call(_cube, axis=(0, 2), keepdim=True)], _median(True), dtypes=REAL,
        bad=[Bad(call(_x, 5), "nanmedian(axis): expected an axis in [-2, 1], got 5"),
             Bad(call(_x, []), "nanmedian(axis): expected at least one axis, or None, got ()"),
             Bad(call(_x, mode=None), "nanmedian(mode): expected 'avg' or 'min', got None")]),
    Row("median_of", [
        call(_x, (1,), False, False, False), call(_y, None, True, False, True), call(TIES, (1,), False, True, False),
        call(floats(), None, False, False, False), call(NANS, (1,), True, False, True), call(NANS, (1,), True, False, False),
        call(NONE, (1,), False, False, False),
    ], _middle, dtypes=REAL, grad_ref=_shared, bad=[
        Bad(call(np.zeros((0, 2), int), (0,), False, False, True), "median(x): expected at least one element, got shape [0, 2], int64"),
    ]),
    Row("low_median", [
        call(_y, 1, False, False), call(_cube, 1, True, True), call(floats(), 0, False, False), call(NANS, 1, False, False),
        call(NANS, 1, False, True), call(NONE, 1, True, False),
    ], law=exact(_low), dtypes=REAL, skip={"gradient rule": "the places are integers, which have no gradient to compare"}),
    Row("compat_median", _compats, law=exact(_compat(False)), dtypes=REAL,
        bad=[Bad(call(_x, 5), "median(dim): expected an axis in [-2, 1], got 5")]),
    Row("compat_nanmedian", _compats, law=exact(_compat(True)), dtypes=REAL),
    Row("quantile", _quantiles, _quantile(np.quantile), dtypes=SINGLE, bad=_bad_quantile("quantile")),
    Row("nanquantile", [*_quantiles, call(_some_nan, 0.3, 1), call(_some_nan, [0.3, 0.5])], _quantile(np.nanquantile), dtypes=SINGLE,
        bad=_bad_quantile("nanquantile")),
    Row("quantile_of", [
        call(_x, still([0.3, 0.8]), (1,), False, "linear", False), call(_cube, still([0.3]), (0, 2), True, "midpoint", True),
        call(floats(), still([0.3]), None, False, "linear", False), call(NONE, still([0.5]), (0,), False, "lower", False),
        call(_some_nan, still([0.3]), (1,), False, "linear", False),
    ], _quantile_of(_quantile(np.quantile)), dtypes=SINGLE),
]  # fmt: skip
