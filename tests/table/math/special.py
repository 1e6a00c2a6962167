"""Rows of special functions."""

import numpy as np
from scipy import special

from tests.table.elementwise import REAL_FLOATED, misfit, no_type
from tests.table.harness import FLOAT, Bad, Row, Sample, call, floating, still
from tests.table.samples import floats, unary

GAMMA = np.array([-0.5, -1.7, -20.3, 1e-6, 0.3, 1.46, 40.0])  # left of zero, at the pole, around the minimum, far out


def _logit(x, eps=None):
    x = np.maximum(np.minimum(x, 1 - eps), eps) if eps else x
    return special.logit(np.asarray(x, float))


def _with(samples, *more):
    return [Sample((*s.args, *more), s.kwargs) for s in samples]


def _polygamma(x, n):
    """SciPy's, in one precision for all types."""
    return special.polygamma(n, np.asarray(x, np.float64))


def _softmax(x, dim=None, dtype=None):
    dim = (0 if x.ndim in (1, 3) else 1) if dim is None else dim
    return special.softmax(x, dim) if x.ndim and x.size else np.ones(x.shape)


def _incomplete():
    """Orders that have no gradient, and places; in both ranges of the algorithms."""
    return [
        call(still([[0.5], [1.3], [2.9], [30.0], [200.0]]), np.array([0.2, 1.1, 3.7, 20.0, 31.0, 190.0])),
        call(still(2.5), np.array(1.3)),
        call(still(np.zeros((2, 0, 3))), floats(3, low=0.2)),
        call(still([np.nan, 1.0, np.inf, 1.0]), np.array([1.0, np.inf, 1.0, 0.0])),
    ]


WIDE = {
    "width": "computed in double precision: in single, three digits are right",
    "gradient rule": "the order has no gradient",
}


def _shares(name, inner, ref):
    bad = [
        Bad(
            call(np.ones((2, 3)), np.ones(4)),
            f"{name}(): expected shapes that broadcast together, got shapes [2, 3] and [4]",
        ),
        Bad(call(np.array([-1.0]), np.array([1.0])), f"{name}(x): expected non-negative numbers, got -1.0"),
        Bad(call(np.array([1.0]), np.array([-2.0])), f"{name}(y): expected non-negative numbers, got -2.0"),
        Bad(
            call(np.ones(2, int), np.ones(2, int)),
            f"{name}(): expected floating-point tensors of one dtype, got int64 and int64",
            TypeError,
        ),
        Bad(
            call(floats(2), np.ones(2, np.float32)),
            f"{name}(): expected floating-point tensors of one dtype, got float64 and float32",
            TypeError,
        ),
    ]
    return [
        Row(
            inner,
            _incomplete()[:3],
            ref,
            dtypes=FLOAT,
            skip={**WIDE, "dtypes": f"`{name}` refuses integers"},
            bad=[misfit(name)],
        ),
        Row(name, _incomplete(), ref, dtypes=FLOAT, bad=bad),
    ]


TABLE = [
    Row("erf", unary(), special.erf, dtypes=REAL_FLOATED, out=floating, bad=[no_type("erf")]),
    Row("erfinv", [*unary(-0.9, 0.9), call(np.array([1 - 1e-10, -1 + 1e-14, 1e-12, 0.5]))], special.erfinv, dtypes=REAL_FLOATED, out=floating,
        bad=[no_type("erfinv")]),
    Row("logit", [*unary(0.1, 0.9), call(np.array([0.05, 0.4, 0.95, -0.5, 1.5]), 0.1), call(floats(2, 3, low=0.1, high=0.9), eps=1e-6)], _logit,
        dtypes=REAL_FLOATED, out=floating, bad=[no_type("logit"), Bad(call(floats(2), "a"), "logit(eps): expected a number, got 'a'", TypeError),
        Bad(call(floats(2), 1j), "logit(eps): expected a real number, got 1j", TypeError)]),
    Row("lgamma", [*unary(0.2, 5), call(GAMMA)], lambda x: np.where(np.isneginf(x), np.inf, special.gammaln(x)), dtypes=REAL_FLOATED, out=floating,
        bad=[no_type("lgamma")]),
    Row("digamma", [*unary(0.2, 5), call(GAMMA)], special.digamma, dtypes=REAL_FLOATED, out=floating, bad=[no_type("digamma")]),
    Row("polygamma", [*_with(unary(0.3, 5), 1), call(GAMMA, 2), call(floats(2, 3, low=0.3), n=0), call(floats(2, 3, low=-4.9, high=-4.1), 3)],
        _polygamma,
        dtypes=REAL_FLOATED, out=floating,
        bad=[Bad(call(np.ones(2, "complex64"), 1), "polygamma(x): expected one of ", TypeError),
             Bad(call(floats(2), -1), "polygamma(n): expected a non-negative integer, got -1"),
             Bad(call(floats(2), 1.0), "polygamma(n): expected an integer, got 1.0", TypeError)]),
    Row("multigammaln", [call(floats(2, 3, low=1.5), 3), call(floats(low=1), 1), call(np.zeros((2, 0, 3)), p=2)],
        lambda x, p: np.reshape(special.multigammaln(x.ravel(), p), x.shape), dtypes=FLOAT,
        bad=[Bad(call(np.ones(2, int), 2), "multigammaln(x): expected a floating-point tensor", TypeError),
             Bad(call(floats(2), 0), "multigammaln(p): expected a positive integer, got 0", AssertionError),
             Bad(call(floats(2), 1.5), "multigammaln(p): expected an integer, got 1.5", TypeError)]),
    Row("torch_softmax", [call(floats(2, 3)), call(floats(2, 3, 2)), call(floats(2, 3), 0), call(floats(2, 3, 2), dim=-1), call(floats()),
                          call(floats(4)), call(floats(2, 3), -1, dtype="float64"), call(np.zeros((2, 0, 3))), call(np.zeros((2, 0)), dim=1)],
        _softmax, dtypes=FLOAT, bad=[Bad(call(x=floats(2)), "softmax(x): expected a keyword among", TypeError),
                           Bad(call(floats(2), dim=2), "softmax(axis): expected an axis in [-1, 0], got 2", IndexError)]),
    *_shares("gammainc", "gamma_below", special.gammainc),
    *_shares("gammaincc", "gamma_above", special.gammaincc),
    *[Row(name, [*unary(), call(np.array([-40.0, 7.9, 8.1, 1e-6]))], getattr(special, name), dtypes=REAL_FLOATED, out=floating, bad=[no_type(name)])
      for name in ("i0", "i1", "i0e", "i1e")],
]  # fmt: skip
