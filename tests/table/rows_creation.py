"""Rows of creation, of copies, and of random numbers."""

import numpy as np

from bireme.core import dtype as dtypes
from tests.table.harness import ALL, COMPLEX, FLOAT, INT, Bad, Row, call, still
from tests.table.samples import filled, floats, unary

NONE: frozenset = frozenset()
F32, F64, I64 = dtypes.float32, dtypes.float64, dtypes.int64
BIG = [200, 50]  # enough numbers for their mean to be near what it should be


def wide(name, sizes="shape"):
    return Bad(call([-1, 2], *([0] if name == "full" else [])), f"{name}({sizes}): expected extents of 0 or more, got [-1, 2]")


def _full(shape, fill_value, dtype=None, **_):
    kind = dtype or {bool: "bool", complex: "complex128"}.get(type(fill_value), "float32")
    return np.full(shape, fill_value, kind)


def _constant(value):
    return lambda shape, dtype=None, **_: np.full(shape, value, dtype or "float32")


def _like(value):
    return lambda x, dtype=None: np.full(x.shape, value)


def _arange(start=0, end=None, step=1, dtype=None, **_):
    start, end, step = [None if v is None else v.item() if isinstance(v, np.ndarray) else v for v in (start, end, step)]
    kind = dtype or ("int64" if all(isinstance(v, int) for v in (start, end, step) if v is not None) else "float32")
    return (np.arange(start, end, step) if end is not None else np.arange(start)).astype(kind)


_shapes = [
    call([2, 3]),
    call([2, 3], "int32"),
    call([]),
    call([2, 0, 3]),
    call(shape=[3], dtype="float64"),
    call([2], dtype="bool"),
    call([np.array(2), 3]),
]
_likes = [*unary(), call(floats(2, 3), dtype="int32"), call(np.array([1, 2], np.int16))]


def _uniform(low=-1.0, high=1.0, dtype="float32"):
    def law(out, shape, *args, **kwargs):
        kind = kwargs.get("dtype") or next((a for a in args if isinstance(a, str)), dtype)
        lo, hi = kwargs.get("min", low), kwargs.get("max", high)
        good = out.dtype == dtypes.of(kind).np and list(out.shape) == list(shape) and bool(((out >= lo) & (out <= hi)).all())
        third = (hi - lo) / 12**0.5
        near = out.size < 1000 or (abs(out.astype(float).mean() - (lo + hi) / 2) < third / 20 and abs(out.astype(float).std() / third - 1) < 0.05)
        return good and near and (out.size < 1000 or len(np.unique(out)) > (out.size * 0.9 if kind in ("float32", "float64") else 50))

    return law


def _gaussian(out, shape, mean=0.0, std=1.0, seed=0, dtype="float32", **_):
    out = out.astype(float) if out.dtype == dtypes.of(dtype).np else np.full(shape, np.nan)
    near = out.size < 1000 or (abs(out.mean() - mean) < std / 20 and abs(out.std() / std - 1) < 0.05 and abs(np.median(out) - mean) < std / 20)
    return list(out.shape) == list(shape) and bool(np.isfinite(out).all()) and near


def _normal(out, mean=0.0, std=1.0, shape=None):
    if shape is None:
        shape = np.shape(mean) or np.shape(std)
    z = (out.astype(float) - np.asarray(mean)) / np.asarray(std)
    return list(out.shape) == list(shape) and (z.size < 1000 or (abs(z.mean()) < 0.05 and abs(z.std() - 1) < 0.05))


def _integers(out, low=0, high=None, shape=(1,), dtype="int64"):
    low, high = (0, low) if high is None else (low, high)
    seen = set(out.ravel().tolist())
    return (
        out.dtype == np.dtype(dtype)
        and list(out.shape) == list(shape)
        and (out.size < 1000 or seen == set(range(low, high)))
        and all(low <= i < high for i in seen)
    )


def _dropped(out, x, p=0.5, axis=None, training=True, mode="upscale_in_train", scale=None):
    upscale = mode == "upscale_in_train" if scale is None else scale
    x = np.asarray(x, float)
    if not training:
        return np.allclose(out, x if upscale else x * (1 - p))
    if p in (0, 1):
        return np.allclose(out, x * (1 - p))
    hit = out != 0
    right = np.allclose(out[hit], (x / (1 - p) if upscale else x)[hit], rtol=1e-5)
    if axis is not None and x.ndim == 2:
        other = 1 - (axis[0] if isinstance(axis, (list, tuple)) else axis)
        right = right and bool((hit.all(axis=other) | ~hit.any(axis=other)).all())
    return right and (x.size < 1000 or axis is not None or abs(hit.mean() - (1 - p)) < 0.05)


EXTENTS = {"zero size": "its only tensors are extents", "static": "extents are read when the call is recorded"}
_p = (F32, 0.25)
_drops = [call(floats(3, 4, low=0.5), p=0.25), call(floats(40, 30, low=0.5), p=0.25), call(floats(3, 4, low=0.5), p=0.25, axis=0),
    call(floats(3, 4, low=0.5), p=0.25, mode="downscale_in_infer"),
          call(floats(3, 4, low=0.5), p=0.25, mode="downscale_in_infer", training=False), call(floats(3, 4, low=0.5), training=False),
          call(floats(3, low=0.5), p=0), call(floats(3, low=0.5), p=1),
          call(floats(low=0.5), p=0.25), call(np.zeros((2, 0, 3)), p=0.5)]  # fmt: skip

TABLE = [
    Row("to_tensor", [call([[1, 2], [3, 4]]), call(1.5), call([True, False]), call([1 + 2j]), call([1, 2], dtype="float64"), call(floats(2, 3)),
        call(floats()), call(np.zeros((2, 0, 3)))],
        lambda data, dtype=None: np.asarray(data, dtype or (None if isinstance(data, np.ndarray) else {"f": "float32",
        "c": "complex64"}.get(np.asarray(data).dtype.kind))), dtypes=NONE, out="ref", grad=0,
        bad=[Bad(call("text"), "to_tensor(data): expected numbers, lists of numbers, an array or a Tensor, got text", TypeError)]),
    Row("full_of", [call((F32, 2.5), [2, 3], "float32"), call((I64, 7), [2], "int64"), call(np.array(1.5), [2], "float64"), call(np.array([1.5]), [],
        "float64"), call((F32, 1.0), [2, 0], "float32")],
        lambda value, shape, dtype: np.full(shape, value[1] if isinstance(value, tuple) else value.ravel()[0], dtype), dtypes=NONE, out="ref", grad=0,
        skip={"zero size": "its operand is one number"}, bad=[Bad(call(floats(2), [2], "float32"),
        "full(fill_value): expected a number or a tensor of one element")]),
    Row("full", [call([2, 3], 7), call([2], True), call([2], 1 + 2j), call([2, 0], 1.5, "float16"), call(shape=[], fill_value=3, dtype="int64"),
        call([2], 2.5, "int32")], _full, dtypes=NONE, out="ref", grad=0,
        bad=[wide("full"), Bad(call([2], "a"), "full(fill_value): expected a number, got a", TypeError)]),
    Row("zeros", _shapes, _constant(0), dtypes=NONE, out="ref", grad=0, bad=[wide("zeros")], skip=EXTENTS),
    Row("ones", _shapes, _constant(1), dtypes=NONE, out="ref", grad=0, bad=[wide("ones")], skip=EXTENTS),
    Row("empty", _shapes, _constant(0), dtypes=NONE, out="ref", grad=0, bad=[wide("empty")], skip=EXTENTS),
    Row("full_like", [*filled(5), call(floats(2, 3), 1.5, dtype="int32"), call(floats(2), fill_value=True, dtype="bool")],
        lambda x, fill_value, dtype=None: np.full(x.shape, fill_value),
        dtypes=ALL, grad=0),
    Row("zeros_like", _likes, _like(0), dtypes=ALL, grad=0),
    Row("ones_like", _likes, _like(1), dtypes=ALL, grad=0),
    Row("count_up", [call((I64, 3), (I64, 2), 4, "int64"), call((F64, 0.5), (F64, -0.25), 5, "float32"), call((I64, 0), (I64, 1), 0, "int32"),
        call(np.array(1.5), np.array(0.5), 3, "float64")],
        lambda start, step, size, dtype: np.array([(start[1] if isinstance(start, tuple) else start) + i * (step[1] if isinstance(step,
        tuple) else step) for i in range(size)], float).astype(dtype),
        dtypes=NONE, out="ref", grad=0, skip={"zero size": "its operands are numbers"}),
    Row("arange", [call(5), call(1, 7, 2), call(0, 1, 0.25), call(5, 0, -2), call(0), call(1.5, 4), call(0, 5, dtype="float16"),
        call(np.array(1), np.array(4))], _arange, dtypes=NONE, out="ref", grad=0,
        skip={"zero size": "its operands are numbers", "static": "its length depends on the values of its operands"},
        bad=[Bad(call(0, 5, 0), "arange(step): expected a step other than 0, got 0"), Bad(call("a"), "arange(end): expected a number, got a",
        TypeError)]),
    Row("linspace", [call(0, 10, 5), call(1.0, -1.0, 4), call(2, 2, 1), call(0, 1, 3, "float64"), call(-3, 7, 11, dtype="float64")],
        lambda start, stop, num, dtype=None: np.linspace(start, stop, num).astype(dtype or "float32"), dtypes=NONE, out="ref", grad=0),
    Row("eye_of", [call(2, 3, "float32"), call(3, 3, "int64"), call(0, 2, "float32")], lambda n, m, dtype: np.eye(n, m, dtype=dtype), dtypes=NONE,
        out="ref", grad=0),
    Row("eye", [call(2), call(2, 3), call(3, dtype="int64"), call(0)], lambda n, m=None, dtype=None: np.eye(n, m, dtype=dtype or "float32"),
        dtypes=NONE, out="ref", grad=0,
        bad=[Bad(call(-1), "eye(num_rows): expected a count of 0 or more, got -1")]),
    Row("clone", unary(), np.copy, dtypes=ALL),
    Row("assign", unary(), np.copy, dtypes=ALL, bad=[Bad(call(floats(2), floats(3)),
        "assign(output): expected shape [2], got a Tensor of shape [3]")]),
    Row("uniform_of", [call((F64, -1.0), (F64, 1.0), BIG, "float32"), call((F64, 0.0), (F64, 3.0), BIG, "float64"), call((F64, 0.0), (F64, 1.0),
        [0, 2], "float16")],
        law=lambda out, low, high, shape, dtype: _uniform(low[1], high[1])(out, shape, dtype=dtype), dtypes=NONE, grad=0),
    Row("gaussian_of", [call((F64, 1.0), (F64, 2.0), BIG, "float32"), call((F64, 0.0), (F64, 1.0), [101, 99], "float64"),
        call((F64, 0.0), (F64, 1.0), [0, 2], "bfloat16")],
        law=lambda out, mean, std, shape, dtype: _gaussian(out, shape, mean[1], std[1], dtype=dtype), dtypes=NONE, grad=0),
    Row("randint_of", [call((I64, -2), (I64, 5), BIG, "int64"), call((I64, 0), (I64, 200), BIG, "uint8"), call((I64, 0), (I64, 1), [0], "int32")],
        law=lambda out, low, span, shape, dtype: _integers(out, low[1], low[1] + span[1], shape, dtype), dtypes=NONE, grad=0),
    Row("randperm_of", [call(50, "int64"), call(0, "int32"), call(1, "int64")],
        law=lambda out, n, dtype: out.dtype == dtype and sorted(out.tolist()) == list(range(n)) and (n < 50 or out.tolist() != list(range(n))),
        dtypes=NONE, grad=0),
    Row("uniform", [call(BIG), call(BIG, "float64", 2.0, 5.0), call([2, 0]), call([]), call(BIG, "bfloat16"), call(BIG, min=0.0, max=0.5)],
        law=lambda out, shape, dtype="float32", min=-1.0, max=1.0: _uniform(min, max)(out, shape, dtype=dtype), dtypes=NONE, grad=0,
        bad=[Bad(call([2], "int32"), "uniform(dtype): expected a floating type, got int32", TypeError)]),
    Row("rand", [call(BIG), call(BIG, "float64"), call([2, 0]), call([])], law=_uniform(0.0, 1.0), dtypes=NONE, grad=0,
        bad=[Bad(call([2], "int32"), "rand(dtype): expected a floating type, got int32", TypeError)]),
    Row("randn", [call(BIG), call(BIG, dtype="float64"), call([2, 0]), call([])], law=_gaussian, dtypes=NONE, grad=0,
        bad=[Bad(call([2], "int32"), "randn(dtype): expected a floating type, got int32", TypeError)]),
    Row("gaussian", [call(BIG, 1.0, 3.0), call(BIG, dtype="float64"), call([2, 0])], law=_gaussian, dtypes=NONE, grad=0),
    Row("normal", [call(0.0, 2.0, BIG), call(np.full((50, 40), 3.0), np.full((50, 40), 2.0)), call(std=still(np.full((2, 3), 0.5))),
        call(np.zeros((2, 0, 3))), call(floats())], law=_normal, dtypes=NONE),
    Row("randint", [call(5, shape=BIG), call(-3, 4, BIG), call(0, 3, [2, 0], "int32"), call(10)], law=_integers, dtypes=NONE, grad=0,
        bad=[Bad(call(3, 3), "randint(high): expected more than low, 3, got 3")]),
    Row("randperm", [call(50), call(0), call(10, "int32")],
        law=lambda out, n, dtype="int64": out.dtype == dtype and sorted(out.tolist()) == list(range(n)), dtypes=NONE, grad=0,
        bad=[Bad(call(-1), "randperm(n): expected a count of 0 or more, got -1")]),
    Row("bernoulli", [call(floats(2, 3, low=0.1, high=0.9)), call(np.full((50, 40), 0.25)), call(np.array(1.0)), call(np.zeros((2, 0, 3))),
        call(np.array([0.0, 1.0, 0.0]))],
        law=lambda out, x: out.dtype == x.dtype and out.shape == x.shape and set(out.astype(float).ravel()) <= {0.0,
        1.0} and (x.size < 1000 or abs(out.astype(float).mean() - 0.25) < 0.05)
        and bool(((x > 0) | (out == 0)).all() and ((x < 1) | (out == 1)).all()), dtypes=FLOAT, unchecked=INT | COMPLEX | {dtypes.bool_}, grad=0),
    Row("dropout_of", [call(floats(3, 4, low=0.5), _p, True, None), call(floats(40, 30, low=0.5), _p, True, None), call(floats(3, 4, low=0.5), _p,
        False, (0,)), call(floats(low=0.5), _p, True, None),
                       call(np.zeros((2, 0, 3)), _p, True, None)], law=lambda out, x, p, scale, axis: _dropped(out, x, p[1], axis, scale=scale),
                       dtypes=NONE),
    Row("dropout", _drops, law=_dropped, dtypes=NONE,
        bad=[Bad(call(floats(2), p=1.5), "dropout(p): expected a probability in [0, 1], got 1.5"), Bad(call(floats(2), mode="up"),
        "dropout(mode): expected 'upscale_in_train' or 'downscale_in_infer', got up"),
             Bad(call(floats(2), axis=1), "dropout(axis): expected an axis in [0, 0], got 1")]),
]  # fmt: skip
