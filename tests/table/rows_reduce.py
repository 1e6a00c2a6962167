"""Rows of reductions and of matrix products."""

import numpy as np
from scipy import special

from bireme.core import dtype as dtypes
from tests.table.harness import ALL, BOOL, COMPLEX, FLOAT, INT, NUMBER, REAL, Bad, Row, call
from tests.table.samples import NONFINITE, floats, reduction

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
               bad=[axis_error(name), Bad(call(np.zeros((0, 3)), axis=0), f"{name}(x): expected an element along axis 0, got shape [0, 3]"),
                    Bad(call(np.ones(2, bool)), f"{name}(x): expected one of ", TypeError)])  # fmt: skip


def _positions(name, f, largest):
    samples = [s for s in reduction(ties=True, empty=False, many=False) if s.is_finite and 0 not in s.leaves()[0].shape]
    samples += [call(np.zeros((2, 0, 3)), axis=0), call(floats(2, 3), dtype="int32"), call(floats(2, 3), keepdim=True)]
    if name == "arg_extreme":
        samples = [call(s.args[0], s.kwargs.get("axis"), s.kwargs.get("keepdim", False), s.kwargs.get("dtype", "int64"), largest) for s in samples]

    def ref(x, axis=None, keepdims=False, dtype="int64", largest=largest):
        return np.asarray((np.argmax if largest else np.argmin)(x, axis=axis if x.ndim else None, keepdims=keepdims)).astype(dtype)

    public = "argmax" if name == "arg_extreme" else name
    last = (None, False, "int64", largest) if name == "arg_extreme" else ()
    bad = [Bad(call(np.zeros((0, 3)), *last), f"{public}(x): expected an element to compare, got shape [0, 3]")]
    return Row(name, samples, ref, dtypes=REAL, unchecked=BOOL | COMPLEX, out="ref", rename=KEEP, grad=0, bad=bad)


def _logsumexp(x, axis=None, keepdims=False):
    if np.size(x) == 0:
        return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))
    return special.logsumexp(x, axis=axis, keepdims=keepdims)


def _cumsum(x, axis=None, dtype=None):
    return np.cumsum(x, axis=axis)


def _var(x, axis=None, unbiased=True, keepdims=False):
    return np.var(x, axis=axis, ddof=1 if unbiased else 0, keepdims=keepdims)


_spread = [s for s in reduction(empty=False) if s.leaves()[0].size != 1]
_spread += [call(floats(2, 3), axis=0, unbiased=False), call(floats(), unbiased=False), call(np.zeros((2, 0, 3)), axis=0, unbiased=False)]


def _matmul(x, y, transpose_x=False, transpose_y=False):
    x = np.swapaxes(x, -1, -2) if transpose_x and x.ndim > 1 else x
    return np.matmul(x, np.swapaxes(y, -1, -2) if transpose_y and y.ndim > 1 else y)


_products = [
    call(floats(2, 3), floats(3, 4)), call(floats(2, 3), floats(4, 3), transpose_y=True), call(floats(3, 2), floats(3, 4), transpose_x=True),
    call(floats(3, 2), floats(4, 3), True, True), call(floats(3), floats(3)), call(floats(3), floats(3, 2)), call(floats(2, 3), floats(3)),
    call(floats(2, 2, 3), floats(3, 2)), call(floats(2, 2, 3), floats(2, 3), transpose_y=True), call(floats(2, 3, 2), floats(3, 2), transpose_x=True),
    call(floats(2, 2, 3), floats(2, 3, 2)), call(floats(2, 1, 2, 3), floats(3, 3, 2)), call(floats(3), floats(2, 3, 2)), call(floats(2, 2, 3),
        floats(3)),
    call(floats(1, 3, 2), floats(2, 2, 3), True, True), call(floats(2, 3), floats(2, 3, 2)), call(np.zeros((2, 0)), np.zeros((0, 3))),
    call(np.zeros((0, 3)), floats(3, 2)),
]  # fmt: skip

TABLE = [
    Row("sum", [*reduction(), call(floats(2, 3), dtype="float32"), call(np.array([True, True]), axis=0), call(np.array([2**31 - 1, 1], np.int32))],
        lambda x, axis=None, dtype=None, keepdims=False: over(np.sum)(x, axis, keepdims), dtypes=ALL, rename=KEEP,
        out=summed, bad=[axis_error("sum")]),
    Row("mean", reduction(), over(_mean), dtypes=NUMBER, unchecked=BOOL, rename=KEEP, bad=[axis_error("mean")]),
    _extremes("max", np.max),
    _extremes("min", np.min),
    Row("prod", [*reduction(), call(np.array([[2.0, 0.0], [3.0, 4.0]]), axis=0)], over(np.prod), dtypes=NUMBER, unchecked=BOOL, rename=KEEP,
        bad=[axis_error("prod")]),
    *[Row(name, reduction(nonfinite=False), over(f), dtypes=ALL, out="bool", grad=0, rename=KEEP, bad=[axis_error(name)])
      for name, f in {"all": np.all, "any": np.any}.items()],
    Row("logsumexp", [*reduction(nonfinite=False), call(np.array([1000.0, 1000.0])), call(np.array([[-np.inf, -np.inf], [np.inf, 0.0]]), axis=1)],
        over(_logsumexp), dtypes=FLOAT, unchecked=INT | BOOL, rename=KEEP, bad=[axis_error("logsumexp")]),
    _positions("arg_extreme", np.argmax, True),
    _positions("argmax", np.argmax, True),
    _positions("argmin", np.argmin, False),
    Row("cumsum", [call(floats(2, 3)), call(floats(2, 3), axis=0), call(floats(2, 3, 2), axis=-2), call(floats()), call(np.zeros(0)),
        call(np.zeros((2, 0, 3)), axis=1),
                   call(np.array(NONFINITE)), call(np.array([2**31 - 1, 1], np.int32))], _cumsum, dtypes=NUMBER, unchecked=BOOL,
                   out=lambda d: d if d.is_inexact else dtypes.int64, bad=[axis_error("cumsum")]),
    Row("var", _spread, lambda x, axis=None, unbiased=True, keepdims=False: over(_var)(x, axis, keepdims, unbiased=unbiased), dtypes=FLOAT,
        unchecked=INT | BOOL,
        rename=KEEP, bad=[axis_error("var")]),
    Row("std", _spread, lambda x, axis=None, unbiased=True, keepdims=False: np.sqrt(over(_var)(x, axis, keepdims, unbiased=unbiased)), dtypes=FLOAT,
        unchecked=INT | BOOL, rename=KEEP, bad=[axis_error("std")]),
    Row("matmul", _products, _matmul, dtypes=NUMBER, skip={"0-d": "a product of matrices needs at least one axis"},
        bad=[Bad(call(floats(2, 4), floats(5, 4)),
        "matmul(y): expected 4 rows to match x of shape [2, 4], got shape [5, 4]\n  hint: pass transpose_y=True"),
             Bad(call(floats(), floats(2)), "matmul(x): expected a tensor with at least one axis, got shape []")]),
    Row("mm", [call(floats(2, 3), floats(3, 4)), call(np.zeros((0, 3)), floats(3, 2)), call(floats(2, 3), mat2=floats(3, 1))],
        lambda x, mat2: x @ mat2, dtypes=NUMBER,
        skip={"0-d": "a product of matrices needs at least one axis"}, bad=[Bad(call(floats(2, 4), floats(5, 4)),
        "mm(y of matmul): expected 4 rows to match x of shape [2, 4], got shape [5, 4]")]),
]  # fmt: skip
