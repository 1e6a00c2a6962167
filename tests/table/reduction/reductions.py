"""Rows of reductions and of matrix products."""

import numpy as np
from scipy import special

from bireme.core.base import dtype as dtypes
from tests.table.harness import ALL, BOOL, FLOAT, INT, NUMBER, REAL, Bad, Row, call, floating
from tests.table.samples import floats, reduction

KEEP = {"keepdim": "keepdims"}


def axis_error(name):
    return Bad(call(floats(2, 3), axis=5), f"{name}(axis): expected an axis in [-2, 1], got 5")


def over(f):
    """A NumPy reduction, with Paddle's empty list of axes: all of them."""

    def ref(x, axis=None, keepdims=False, **more):
        axis = tuple(axis) if isinstance(axis, list) else axis
        return f(x, axis=None if axis == () else axis if x.ndim else None, keepdims=keepdims, **more)

    return ref


def summed(dtype):
    return dtypes.int64 if dtype in (dtypes.bool_, dtypes.int32) else dtype


def _mean(x, axis=None, keepdims=False):
    if x.dtype.kind == "b":
        return np.any(x, axis=axis, keepdims=keepdims)
    if x.dtype.kind in "iu":
        total = np.sum(x, axis=axis, keepdims=keepdims)
        return np.trunc(total / (x.size // max(np.size(total), 1)))
    total = np.sum(x, axis=axis, keepdims=keepdims)
    return total / (x.size / np.size(total) if np.size(total) else 1)


def shared_among_ties(f):
    """The gradient of an extreme: equal ones share it."""

    def rule(w, x, axis=None, keepdims=False):
        axis = tuple(axis) if isinstance(axis, list) else axis
        axis = None if axis == () or not x.ndim else axis
        top = f(x, axis=axis, keepdims=True)
        hit = x == top
        return hit * w.reshape(top.shape) / hit.sum(axis=axis, keepdims=True)

    return rule


def _extremes(name, f):
    return Row(name, reduction(ties=True, empty=False), over(f), dtypes=REAL, rename=KEEP, grad_ref=shared_among_ties(f),
               bad=[axis_error(name), Bad(call(np.zeros((0, 3)), axis=0), f"{name}(x): expected at least one element along axis 0, got shape [0, 3]"),
                    Bad(call(np.ones(2, bool)), f"{name}(x): expected one of ", TypeError)])  # fmt: skip


def _logsumexp(x, axis=None, keepdims=False):
    if np.size(x) == 0:
        return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))
    return special.logsumexp(x, axis=axis, keepdims=keepdims)


def _nanmean(x, axis=None, keepdims=False):
    valid = ~np.isnan(x)
    return np.sum(np.where(valid, x, 0), axis=axis, keepdims=keepdims) / np.sum(valid, axis=axis, keepdims=keepdims)


def _reduce_as(x, target):
    extra = x.ndim - target.ndim
    axes = (*range(extra), *[i + extra for i, n in enumerate(target.shape) if n == 1])
    return np.sum(x, axis=axes).reshape(target.shape) if target.shape != x.shape else x


TABLE = [
    Row("sum", [*reduction(), call(floats(2, 3), dtype="float32"), call(np.array([True, True]), axis=0), call(np.array([2**31 - 1, 1], np.int32))],
        lambda x, axis=None, dtype=None, keepdims=False: over(np.sum)(x, axis, keepdims), dtypes=ALL, rename=KEEP,
        out=summed, bad=[axis_error("sum")]),
    Row("mean", [*reduction(), call(np.array([[True, False], [False, False]]), axis=1)], over(_mean), dtypes=ALL, rename=KEEP,
        bad=[axis_error("mean")]),
    _extremes("max", np.max),
    _extremes("min", np.min),
    _extremes("amax", np.max),
    _extremes("amin", np.min),
    Row("prod", [*reduction(), call(np.array([[2.0, 0.0], [3.0, 4.0]]), axis=0)], over(np.prod), dtypes=NUMBER, unchecked=BOOL, rename=KEEP,
        bad=[axis_error("prod")]),
    *[Row(name, reduction(nonfinite=False), over(f), dtypes=ALL, out="bool", grad=0, rename=KEEP, bad=[axis_error(name)])
      for name, f in {"all": np.all, "any": np.any}.items()],
    Row("logsumexp", [*reduction(nonfinite=False), call(np.array([1000.0, 1000.0])), call(np.array([[-np.inf, -np.inf], [np.inf, 0.0]]), axis=1)],
        over(_logsumexp), dtypes=FLOAT, unchecked=INT | BOOL, rename=KEEP, bad=[axis_error("logsumexp")]),
    Row("count_nonzero", [*reduction(), call(np.array([[0.0, 1.0], [0.0, -0.0]]), axis=1)], over(np.count_nonzero), dtypes=ALL, out="int64", grad=0,
        rename=KEEP, bad=[axis_error("count_nonzero")]),
    Row("nansum", [*reduction(), call(floats(2, 3), dtype="float32")],
        lambda x, axis=None, dtype=None, keepdims=False: over(np.nansum)(x, axis, keepdims), dtypes=ALL, rename=KEEP, out=summed,
        bad=[axis_error("nansum")]),
    Row("nanmean", reduction(), over(_nanmean), dtypes=ALL, rename=KEEP, out=floating, bad=[axis_error("nanmean")]),
    Row("reduce_as", [call(floats(2, 3), floats(3, seed=1)), call(floats(2, 3), floats(2, 1, seed=1)), call(floats(2, 3, 2), floats(3, 1, seed=1)),
        call(floats(2, 3), floats(2, 3, seed=1)), call(floats(2, 3), floats()), call(np.zeros((2, 0, 3)), floats(3))], _reduce_as, dtypes=ALL,
        out=summed, bad=[Bad(call(floats(2, 3), floats(2)), "reduce_as(target): expected a shape that broadcasts to [2, 3], got shape [2]")]),
]  # fmt: skip
