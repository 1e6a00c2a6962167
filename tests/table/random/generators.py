"""Rows of random numbers."""

import numpy as np
from scipy import stats

from bireme.core.base import dtype as dtypes
from tests.table.harness import ALL, COMPLEX, FLOAT, INT, Bad, Row, call, still
from tests.table.samples import floats

NONE: frozenset = frozenset()
F32, F64, I64, C128 = dtypes.float32, dtypes.float64, dtypes.int64, dtypes.complex128
BIG = [200, 50]  # enough numbers for their mean to be near what it should be


def _uniform(low=-1.0, high=1.0, dtype="float32"):
    def law(out, shape, *args, **kwargs):
        kind = kwargs.get("dtype") or next((a for a in args if isinstance(a, str)), dtype)
        lo, hi = kwargs.get("min", low), kwargs.get("max", high)
        good = (
            out.dtype == dtypes.of(kind).np
            and list(out.shape) == list(shape)
            and bool(((out >= lo) & (out < hi)).all())
        )
        third = (hi - lo) / 12**0.5
        near = out.size < 1000 or (
            abs(out.astype(float).mean() - (lo + hi) / 2) < third / 20
            and abs(out.astype(float).std() / third - 1) < 0.05
        )
        return (
            good
            and near
            and (out.size < 1000 or len(np.unique(out)) > (out.size * 0.9 if kind in ("float32", "float64") else 50))
        )

    return law


def _gaussian(out, shape, mean=0.0, std=1.0, seed=0, dtype="float32", **_):
    if np.iscomplexobj(out):  # half of the variance in either part
        whole = out.dtype == np.dtype(dtype) and _gaussian(
            out.imag, shape, np.imag(mean), std / 2**0.5, dtype=out.imag.dtype
        )
        return whole and _gaussian(out.real, shape, np.real(mean), std / 2**0.5, dtype=out.real.dtype)
    out = out.astype(float) if out.dtype == dtypes.of(dtype).np else np.full(shape, np.nan)
    near = out.size < 1000 or (
        abs(out.mean() - mean) < std / 20 and abs(out.std() / std - 1) < 0.05 and abs(np.median(out) - mean) < std / 20
    )
    return list(out.shape) == list(shape) and bool(np.isfinite(out).all()) and near


def _normal(out, mean=0.0, std=1.0, shape=None):
    if shape is None:
        shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
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


def _follows(values, dist):
    """Whether the share of numbers up to each of 19 places is what the distribution says."""
    values = np.sort(np.asarray(values, float).ravel())
    if values.size < 1000:
        return True
    places = values[(np.linspace(0.05, 0.95, 19) * values.size).astype(int)]
    return bool(
        (
            np.abs(np.searchsorted(values, places, side="right") / values.size - dist.cdf(places))
            < 2 / values.size**0.5
        ).all()
    )


def _drawn(make):
    """The law of an operator with one draw an element: `make` gives the distribution of the largest samples, which all
    have one parameter.
    """

    def law(out, x, *args, **kwargs):
        fine = out.dtype == x.dtype and out.shape == x.shape and bool(np.isfinite(out.astype(float)).all())
        return fine and (x.size < 1000 or out.dtype.itemsize < 4 or _follows(out, make(x.ravel()[0], *args, **kwargs)))

    return law


def _filled(*more, **named):
    """Tensors to be filled: their own values do not matter."""
    shapes = [call(floats(2, 3), *more, **named), call(floats(40, 50), *more, **named), call(floats(), *more, **named)]
    return [*shapes, call(np.zeros((2, 0, 3)), *more, **named)]


def _counts(values, *more, **named):
    return [call(np.full((40, 50), v), *more, **named) for v in values]


def _multinomial(out, x, num_samples=1, replacement=False):
    rows, p = out.reshape(-1, num_samples), x.astype(float).reshape(-1, x.shape[-1])
    fine = (
        out.dtype == np.int64
        and out.shape == (*x.shape[:-1], num_samples)
        and bool(((out >= 0) & (out < x.shape[-1])).all())
    )
    fine = fine and all(
        (w[r] > 0).all() and (replacement or len(set(r)) == len(r)) for r, w in zip(rows.tolist(), p, strict=True)
    )
    if not fine or out.size < 1000:
        return fine
    if replacement:
        return np.allclose(np.bincount(rows.ravel(), minlength=p.shape[1]) / rows.size, p[0] / p[0].sum(), atol=0.05)
    # the first is drawn by the weights, and then the second by what is left of them
    w = p[0] / p[0].sum()
    second = sum([w[i] * np.where(np.arange(len(w)) == i, 0, w) / (1 - w[i]) for i in range(len(w))])
    shares = [np.bincount(rows[:, k], minlength=len(w)) / len(rows) for k in (0, 1)]
    return np.allclose(shares[0], w, atol=0.05) and np.allclose(shares[1], second, atol=0.05)


def _binomial(out, count, prob):
    n, p = np.broadcast_arrays(count, np.asarray(prob, float))
    fine = out.dtype == np.int64 and out.shape == n.shape and bool(((out >= 0) & (out <= n)).all())
    sure = bool((out[p == 0] == 0).all() and (out[p == 1] == n[p == 1]).all())
    return fine and sure and (out.size < 1000 or _follows(out, stats.binom(n.flat[0], p.flat[0])))


_half = still(np.full((40, 50), 0.5))
_likes = [
    call(floats(2, 3)),
    call(floats(*BIG)),
    call(floats(*BIG), dtype="float64"),
    call(floats()),
    call(np.zeros((2, 0, 3))),
]
_weights = np.tile([[0.1, 0.0, 0.4, 0.5]], (2000, 1))
TINY = "an element far out on the tail is known less exactly"

_p = (F32, 0.25)
_drops = [call(floats(3, 4, low=0.5), p=0.25), call(floats(40, 30, low=0.5), p=0.25), call(floats(3, 4, low=0.5), p=0.25, axis=0),
    call(floats(3, 4, low=0.5), p=0.25, mode="downscale_in_infer"),
          call(floats(3, 4, low=0.5), p=0.25, mode="downscale_in_infer", training=False), call(floats(3, 4, low=0.5), training=False),
          call(floats(3, low=0.5), p=0), call(floats(3, low=0.5), p=1),
          call(floats(low=0.5), p=0.25), call(np.zeros((2, 0, 3)), p=0.5)]  # fmt: skip

TABLE = [
    Row("uniform_of", [call((F64, -1.0), (F64, 1.0), BIG, "float32"), call((F64, 0.0), (F64, 3.0), BIG, "float64"), call((F64, 0.0), (F64, 1.0),
        [0, 2], "float16")],
        law=lambda out, low, high, shape, dtype: _uniform(low[1], high[1])(out, shape, dtype=dtype), dtypes=NONE, grad=0),
    Row("gaussian_of", [call((F64, 1.0), (F64, 2.0), BIG, "float32"), call((F64, 0.0), (F64, 1.0), [101, 99], "float64"),
        call((F64, 0.0), (F64, 1.0), [0, 2], "bfloat16"), call((C128, 1 + 2j), (F64, 2.0), [100, 50], "complex64")],
        law=lambda out, mean, std, shape, dtype: _gaussian(out, shape, mean[1], std[1], dtype=dtype), dtypes=NONE, grad=0),
    Row("randint_of", [call((I64, -2), (I64, 5), BIG, "int64", False), call((I64, 0), (I64, 200), BIG, "uint8", True),
        call((I64, 0), (I64, 1), [0], "int32", False)],
        law=lambda out, low, span, shape, dtype, wide: _integers(out, low[1], low[1] + span[1], shape, dtype), dtypes=NONE, grad=0),
    Row("randperm_of", [call(50, "int64"), call(0, "int32"), call(1, "int64")],
        law=lambda out, n, dtype: out.dtype == dtype and sorted(out.tolist()) == list(range(n)) and (n < 50 or out.tolist() != list(range(n))),
        dtypes=NONE, grad=0),
    Row("uniform", [call(BIG), call(BIG, "float64", 2.0, 5.0), call([2, 0]), call([]), call(BIG, "bfloat16"), call(BIG, min=0.0, max=0.5),
        call(BIG, seed=7)], law=lambda out, shape, dtype="float32", min=-1.0, max=1.0, seed=0: _uniform(min, max)(out, shape,
        dtype=dtype), dtypes=NONE, grad=0,
        bad=[Bad(call([2], "int32"), "uniform(dtype): expected a floating-point dtype, got int32", TypeError)]),
    Row("rand", [call(BIG), call(BIG, "float64"), call([2, 0]), call([])], law=_uniform(0.0, 1.0), dtypes=NONE, grad=0,
        bad=[Bad(call([2], "int32"), "rand(dtype): expected a floating-point dtype, got int32", TypeError)]),
    *[Row(n, [call(BIG), call(BIG, dtype="float64"), call([2, 0]), call([]), call(BIG, "complex128")], law=lambda out, shape, dtype="float32":
        _gaussian(out, shape, dtype=dtype), dtypes=NONE, grad=0, bad=[Bad(call([2], "int32"),
        f"{n}(dtype): expected a floating-point or complex dtype, got int32", TypeError),
        Bad(call(None), f"{n}(shape): expected a shape, got None", TypeError)])
      for n in ("randn", "standard_normal")],
    Row("gaussian", [call(BIG, 1.0, 3.0), call(BIG, dtype="float64"), call([2, 0]), call(BIG, seed=5)], law=_gaussian, dtypes=NONE, grad=0,
        bad=[Bad(call([2], 2 + 0.5j), "gaussian(mean): expected a complex number with equal real and imaginary parts, got (2+0.5j)")]),
    Row("rand_like", _likes, law=lambda out, x, dtype=None: _uniform(0.0, 1.0)(out, x.shape, dtype=dtype or dtypes.from_numpy(x.dtype).name),
        dtypes=FLOAT, grad=0),
    Row("randn_like", _likes, law=lambda out, x, dtype=None: _gaussian(out, x.shape, dtype=dtype or dtypes.from_numpy(x.dtype).name),
        dtypes=FLOAT | COMPLEX, grad=0),
    Row("normal", [call(0.0, 2.0, BIG), call(np.full((50, 40), 3.0), np.full((50, 40), 2.0)), call(std=still(np.full((2, 3), 0.5))),
        call(np.zeros((2, 0, 3))), call(floats()), call(np.zeros(3), np.ones((2, 1)))], law=_normal, dtypes=NONE,
        bad=[Bad(call(floats(2), floats(3)), "normal(std): expected a shape that broadcasts with that of mean, [2], got a Tensor of shape [3]"),
        Bad(call(np.array([1, 2])), "normal(mean): expected a floating-point or complex dtype, got int64", TypeError)]),
    Row("log_normal", [call(0.0, 0.5, BIG), call(np.full((50, 40), 3.0), np.full((50, 40), 0.5)), call(std=still(np.full((2, 3), 0.5))),
        call(np.zeros((2, 0, 3))), call(floats())], law=lambda out, mean=1.0, std=2.0, shape=None: _normal(np.log(out), mean, std, shape),
        dtypes=NONE),
    Row("randint", [call(5, shape=BIG), call(-3, 4, BIG), call(0, 3, [2, 0], "int32"), call(10)], law=_integers, dtypes=NONE, grad=0,
        bad=[Bad(call(3, 3), "randint(high): expected a number greater than low = 3, got 3"),
        Bad(call(0), "randint(low): expected a positive number, since high is not given, got 0"),
        Bad(call(0, 3, [2], "float32"), "randint(dtype): expected an integer dtype, got float32", TypeError),
        Bad(call(0, 300, [2], "uint8"), "randint(high): expected at most 256 for uint8, got 300"),
        Bad(call(0.5, 3), "randint(low): expected an integer, got 0.5", TypeError)]),
    Row("randint_like", [call(floats(2, 3), 5), call(floats(40, 50), 1, 4), call(floats(), 0, 4), call(np.zeros((2, 0, 3)), 3),
        call(floats(40, 50), 3, dtype="int32")], law=lambda out, x, low=0, high=None, dtype=None: _integers(out, low, high, x.shape,
        dtype or x.dtype),
        dtypes=FLOAT | INT, unchecked=ALL - FLOAT - INT, grad=0, bad=[Bad(call(floats(2), 3, 2),
        "randint_like(high): expected a number greater than low = 3, got 2")]),
    Row("randperm", [call(50), call(0), call(10, "int32")],
        law=lambda out, n, dtype="int64": out.dtype == dtype and sorted(out.tolist()) == list(range(n)), dtypes=NONE, grad=0,
        bad=[Bad(call(-1), "randperm(n): expected a non-negative integer, got -1")]),
    Row("bernoulli", [call(floats(2, 3, low=0.1, high=0.9)), call(np.full((40, 50), 0.25)), call(np.array(1.0)), call(np.zeros((2, 0, 3))),
        call(np.array([0.0, 1.0, 0.0])), call(np.full((40, 50), 0.25), 0.75), call(np.zeros(3), p=1.0)],
        law=lambda out, x, p=None: out.dtype == x.dtype and out.shape == x.shape and set(out.astype(float).ravel()) <= {0.0,
        1.0} and (x.size < 1000 or abs(out.astype(float).mean() - (p or 0.25)) < 0.05)
        and bool(p is not None or (((x > 0) | (out == 0)).all() and ((x < 1) | (out == 1)).all())), dtypes=FLOAT, grad=0,
        bad=[Bad(call(np.array([0.5, 1.5])), "bernoulli(x): expected probabilities in [0, 1], got 1.5", IndexError),
        Bad(call(np.array([0.5]), -0.5), "bernoulli(p): expected probabilities in [0, 1], got -0.5", IndexError),
        Bad(call(np.array([0.5]), floats(2)), "bernoulli(p): expected a single number, got a Tensor of shape [2]")]),
    Row("poisson", [call(floats(2, 3, low=0.5, high=30)), *_counts((6.0, 12.5, 1e4)), call(np.array(4.0)), call(np.zeros((2, 0, 3))),
        call(np.array([0.0, -0.0]))], law=_drawn(stats.poisson), dtypes=FLOAT),
    Row("binomial_of", [call(np.full((40, 50), 9), _half), call(np.full((40, 50), 100), still(np.full((40, 50), 0.9))), call(np.array([[0], [3]]),
        still([0.0, 1.0, 0.5])), call(np.array(5), still(0.5)), call(np.zeros((0, 2), np.int64), still(0.5)), call(np.full((40, 50), 10**6),
        still(np.full((40, 50), 0.3)))], law=lambda out, count, prob: _binomial(out, count, prob), dtypes=NONE, grad=0),
    Row("binomial", [call(np.full((40, 50), 30, np.int32), _half), call(np.array([[0], [3]]), still([0.0, 1.0, 0.5])), call(np.array(5), still(0.5)),
        call(np.zeros((0, 2), np.int64), still(0.5)), call(np.full((40, 50), 4), still(np.array(0.1)))], law=lambda out, count, prob: _binomial(out,
        count, prob), dtypes=NONE, grad=0, bad=[Bad(call(np.array([1]), np.array([1])),
        "binomial(prob): expected one of bfloat16, float16, float32, float64, got int64", TypeError),
        Bad(call(np.array([1, 2]), floats(3)), "binomial(prob): expected a shape that broadcasts with that of count, [2], got a Tensor of shape [3]")]),
    Row("standard_gamma", [call(floats(2, 3, low=0.5, high=30)), *_counts((0.2, 2.5)), call(np.array(4.0)), call(np.zeros((2, 0, 3)))],
        law=_drawn(stats.gamma), dtypes=FLOAT, grad=0),
    *[Row(n, [call(np.array([1.0, 0.0, 2.0]), 2, False), call(_weights, 2, False), call(_weights[0], 2000, True), call(_weights[:3] * 3, 5, True),
        call(np.zeros((0, 4)), 2, True)], law=_multinomial, dtypes=FLOAT if n == "multinomial" else NONE, grad=0,
        skip={"0-d": "there are no categories"}, bad=bad) for n, bad in (("multinomial_of", []), ("multinomial", [
        Bad(call(np.array([1.0, 2.0]), 3), "multinomial(x): expected at least 3 categories, as many as are drawn without replacement"),
        Bad(call(np.array([1.0, 0.0]), 2), "multinomial(x): expected non-negative weights, at least 2 of them positive in each row, got [1.0, 0.0]"),
        Bad(call(np.array([1.0, -1.0])), "multinomial(x): expected non-negative weights, at least 1 of them positive in each row, got [1.0, -1.0]"),
        Bad(call(np.array([1.0]), 0), "multinomial(num_samples): expected a positive integer, got 0"),
        Bad(call(floats(2, 2, 2)), "multinomial(x): expected a 1-D or 2-D tensor")]))],
    Row("uniform_like", _filled(-1.0, 3.0), law=_drawn(lambda x, low, high: stats.uniform(low, high - low)), dtypes=FLOAT),
    Row("uniform_", [*_filled(), *_filled(2.0, 5.0), *_filled(seed=3)[:2]], law=_drawn(lambda x, low=-1.0, high=1.0, seed=0: stats.uniform(low,
        high - low)), dtypes=FLOAT, bad=[Bad(call(floats(2), 1.0, 1.0), "uniform_(max): expected a number greater than min = 1.0, got 1.0")]),
    Row("normal_", [*_filled(), *_filled(2.0, 3.0)], law=_drawn(lambda x, mean=0.0,
        std=1.0: stats.norm(mean, std)), dtypes=FLOAT, unchecked=COMPLEX, bad=[Bad(call(floats(2), 1j),
        "normal_(mean): expected a real number, or a complex x, got a complex number", TypeError), Bad(call(floats(2), floats(3)),
        "normal_(mean): expected a shape that broadcasts to that of x, [2], got shape [3]")]),
    Row("log_normal_", [*_filled(), *_filled(0.5, 0.25)], law=_drawn(lambda x, mean=1.0, std=2.0: stats.lognorm(std, scale=np.exp(mean))),
        dtypes=FLOAT - {dtypes.float16}, unchecked=COMPLEX | {dtypes.float16}),
    Row("cauchy_", [*_filled(), *_filled(1.0, scale=2.0)], law=_drawn(lambda x, loc=0, scale=1: stats.cauchy(loc, scale)), dtypes=FLOAT,
        loose=(300, TINY)),
    Row("exponential_", [*_filled(), *_filled(2.0)], law=_drawn(lambda x, lam=1.0: stats.expon(scale=1 / lam)), dtypes=FLOAT,
        bad=[Bad(call(floats(2), floats(3)), "exponential_(lam): expected a shape that broadcasts to that of x, [2], got shape [3]"),
             Bad(call(floats(2), -1.0), "exponential_(lam): expected a positive rate, got -1.0")]),
    Row("geometric_", _filled(0.3), law=_drawn(lambda x, probs: stats.expon(scale=-1 / np.log1p(-probs))), dtypes=FLOAT,
        bad=[Bad(call(floats(2), 0.0), "geometric_(probs): expected a probability in (0, 1], got 0.0"),
             Bad(call(floats(2), 1.5), "geometric_(probs): expected a probability in (0, 1], got 1.5")]),
    Row("bernoulli_", [*_filled(), *_filled(0.25)], law=_drawn(lambda x, p=0.5: stats.bernoulli(p)), dtypes=FLOAT),
    Row("dropout_of", [call(floats(3, 4, low=0.5), _p, True, None), call(floats(40, 30, low=0.5), _p, True, None), call(floats(3, 4, low=0.5), _p,
        False, (0,)), call(floats(low=0.5), _p, True, None),
                       call(np.zeros((2, 0, 3)), _p, True, None)], law=lambda out, x, p, scale, axis: _dropped(out, x, p[1], axis, scale=scale),
                       dtypes=NONE),
    Row("dropout", _drops, law=_dropped, dtypes=NONE,
        bad=[Bad(call(floats(2), p=1.5), "dropout(p): expected a probability in [0, 1], got 1.5"), Bad(call(floats(2), mode="up"),
        "dropout(mode): expected 'upscale_in_train' or 'downscale_in_infer', got 'up'"),
             Bad(call(floats(2), axis=1), "dropout(axis): expected an axis in [0, 0], got 1"),
             Bad(call(floats(2), axis=[0, 0]), "dropout(axis): expected at most 1 axes, got (0, 0)"),
             Bad(call(floats(2), p="a"), "dropout(p): expected a probability in [0, 1], got 'a'", TypeError),
             Bad(call(floats(2), axis=0.5), "dropout(axis): expected an integer or a list of integers, got 0.5", TypeError)]),
]  # fmt: skip
