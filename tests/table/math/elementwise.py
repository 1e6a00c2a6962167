"""Rows of functions of one operand, angles, rounding and complex numbers."""

import jax
import numpy as np

from bireme.core.base import dtype as dtypes
from tests.table.elementwise import ANY_FLOATED, INEXACT, REAL_FLOATED, SMALL_INTS, TIES, misfit, no_type, pair
from tests.table.harness import ALL, BOOL, FLOAT, INT, NUMBER, REAL, Bad, Row, call, floating, real, same, still
from tests.table.samples import NONFINITE, broadcasting, floats, unary, with_number

INF, NAN = np.inf, np.nan
PAIRED = frozenset((dtypes.float32, dtypes.float64))


def plane(*shape, low=-3, high=3):
    """Complex numbers."""
    return floats(*shape, low=low, high=high) + 1j * floats(*shape, low=low, high=high, seed=1)


def _complex(x, y):
    made = np.empty(np.broadcast_shapes(x.shape, y.shape), complex)
    made.real, made.imag = x, y
    return made


def _frexp(x):
    mantissa, exponent = np.frexp(x)
    return np.where(np.isfinite(x), mantissa, x), np.where(np.isfinite(x), exponent, np.where(np.isnan(x), x, 1))


def _round(x, decimals=0):
    return x if x.dtype.kind in "iu" else np.round(x, decimals)


def _copysign(x, y):
    if np.asarray(x).dtype.kind == "f":
        return np.copysign(x, y)
    return np.broadcast_arrays(x, y)[0] if x.dtype == bool else np.where(np.asarray(y) < 0, -np.abs(x), np.abs(x))


def _nextafter(found, x, y):
    same(found, np.nextafter(x, y), 0, "the next number of the type")
    return True


def _pairs(x):
    return np.stack([x.real, x.imag], -1)


TABLE = [
    Row("neg", [*unary(), call(SMALL_INTS)], np.negative, dtypes=NUMBER, bad=[no_type("neg", "bool")]),
    Row("positive", [*unary(), call(SMALL_INTS)], np.positive, dtypes=NUMBER,
        bad=[Bad(call(np.ones(2, bool)), "positive(x): expected a numeric tensor", TypeError)]),
    Row("exp", unary(), np.exp, dtypes=ANY_FLOATED, out=floating),
    Row("log", unary(0.2, 3), np.log, dtypes=ANY_FLOATED, out=floating),
    Row("log1p", unary(-0.8, 3), np.log1p, dtypes=ANY_FLOATED, out=floating),
    Row("expm1", unary(), np.expm1, dtypes=ANY_FLOATED, out=floating),
    Row("log2", unary(0.2, 3), np.log2, dtypes=ANY_FLOATED, out=floating),
    Row("log10", unary(0.2, 3), np.log10, dtypes=ANY_FLOATED, out=floating),
    pair("logaddexp", np.logaddexp, [*broadcasting(), call(np.array([800.0, -800.0]), np.array([0.0, -801.0]))], dtypes=REAL_FLOATED, out=floating,
         bad=[no_type("logaddexp", n=2)]),
    Row("sqrt", unary(0.2, 3), np.sqrt, dtypes=ANY_FLOATED, out=floating),
    Row("rsqrt", unary(0.2, 3), lambda x: 1 / np.sqrt(x), dtypes=ANY_FLOATED, out=floating),
    Row("square", [*unary(), call(SMALL_INTS)], np.square, dtypes=NUMBER, bad=[no_type("square", "bool")]),
    Row("reciprocal", unary(0.3, 3), lambda x: 1 / x.astype(x.dtype if x.dtype.kind == "c" else float), dtypes=ANY_FLOATED, out=floating),
    Row("sigmoid", unary(), lambda x: 1 / (1 + np.exp(-np.asarray(x, complex if np.iscomplexobj(x) else float))), dtypes=ANY_FLOATED, out=floating),
    Row("abs", [*unary(), call(SMALL_INTS), call(TIES)], np.abs, dtypes=NUMBER | BOOL, out=real, grad_ref=lambda w, x: w * np.sign(x)),
    Row("sign", [*unary(), call(SMALL_INTS)], np.sign, dtypes=NUMBER,
        skip={} if jax.__version_info__ >= (0, 12) else {"gradient rule": "jax takes a complex sign for constant, though it turns with its operand"}),
    Row("sgn", unary(), np.sign, dtypes=INEXACT, bad=[Bad(call(SMALL_INTS), "sgn(x): expected a floating-point or complex dtype, got int8", TypeError)]),

    Row("sin", unary(), np.sin, dtypes=ANY_FLOATED, out=floating),
    Row("cos", unary(), np.cos, dtypes=ANY_FLOATED, out=floating),
    Row("tan", unary(-1.2, 1.2), np.tan, dtypes=ANY_FLOATED, out=floating),
    Row("asin", unary(-0.9, 0.9), np.arcsin, dtypes=ANY_FLOATED, out=floating),
    Row("acos", unary(-0.9, 0.9), np.arccos, dtypes=ANY_FLOATED, out=floating),
    Row("atan", unary(), np.arctan, dtypes=ANY_FLOATED, out=floating),
    pair("atan2", lambda x, y: np.arctan2(np.asarray(x, float), y), [*broadcasting(low=0.2), call(np.array([1, -2, 0]), np.array([3, 0, -1]))],
         dtypes=FLOAT | INT, out=lambda d: d if d.is_floating else dtypes.float64, bad=[no_type("atan2", n=2)]),
    pair("hypot", np.hypot, [*broadcasting(), call(still([1e200, 3.0]), still([1e200, 4.0]))], dtypes=REAL_FLOATED, out=floating,
         bad=[no_type("hypot", n=2)]),
    Row("sinh", unary(), np.sinh, dtypes=ANY_FLOATED, out=floating),
    Row("cosh", unary(), np.cosh, dtypes=ANY_FLOATED, out=floating),
    Row("tanh", unary(), np.tanh, dtypes=ANY_FLOATED, out=floating),
    Row("asinh", unary(), np.arcsinh, dtypes=ANY_FLOATED, out=floating),
    Row("acosh", unary(1.2, 4), np.arccosh, dtypes=ANY_FLOATED, out=floating),
    Row("atanh", unary(-0.9, 0.9), np.arctanh, dtypes=ANY_FLOATED, out=floating),
    Row("stanh", [*unary(), call(floats(2, 3), 0.5, 2.0), call(floats(2, 3), scale_a=2, scale_b=-1)],
        lambda x, scale_a=0.67, scale_b=1.7159: scale_b * np.tanh(scale_a * x), dtypes=ANY_FLOATED, out=floating),
    Row("deg2rad", unary(-200, 200), lambda x: x * (np.pi / 180), dtypes=ANY_FLOATED, out=floating),
    Row("rad2deg", unary(), lambda x: x * (180 / np.pi), dtypes=ANY_FLOATED, out=floating),
    Row("sinc", [*unary(), call(np.array([1e-9, 1e-4, 0.03, -0.1592, 0.16, 1.0, 2.5])), call(floats(3, low=-0.05, high=0.05))],
        lambda x: np.where(np.isinf(x), np.nan, np.sinc(x)), dtypes=INEXACT, bad=[no_type("sinc", "int32")],
        skip={"gradient rule": "near zero the derived one is the difference of almost equal numbers"}),

    Row("floor", [*unary(), call(SMALL_INTS)], np.floor, dtypes=REAL),
    Row("ceil", [*unary(), call(SMALL_INTS)], np.ceil, dtypes=REAL, bad=[no_type("ceil", "bool")]),
    Row("trunc", [*unary(), call(SMALL_INTS)], np.trunc, dtypes=REAL, bad=[no_type("trunc", arg="input")]),
    Row("frac", [*unary(), call(SMALL_INTS.astype(np.int32))], lambda x: x - np.trunc(x), dtypes=FLOAT | {dtypes.int32, dtypes.int64},
        bad=[no_type("frac", "bool"), no_type("frac", "int16")]),
    Row("round", [*unary(), call(floats(2, 3, low=-300, high=300), 1), call(floats(2, 3, low=-300, high=300), decimals=-2), call(SMALL_INTS, -1),
                  call(np.array([0.5, 1.5, 2.5, -0.5, -1.5]))], _round, dtypes=NUMBER,
        bad=[Bad(call(floats(2), None), "round(decimals): expected an integer, got None", TypeError),
             Bad(call(floats(2), 1.5), "round(decimals): expected an integer, got 1.5", TypeError)]),
    Row("signbit", [*unary(), call(SMALL_INTS)], np.signbit, dtypes=REAL, out="bool", grad=0, bad=[no_type("signbit", "bool")]),
    pair("copysign", _copysign, [*with_number(broadcasting(), -2, 0.5), call(SMALL_INTS[1:], SMALL_INTS[:0:-1].copy())], dtypes=REAL | BOOL,
         bad=[no_type("copysign", n=2)]),
    Row("nextafter", [call(np.array([[1.0, -2.0, 0.5]]), np.array([[2.0], [-3.0]])), call(np.array(1.0), np.array(0.0)),
                                   call(np.zeros((2, 0, 3)), floats(3)), call(np.array([NAN, 1.0, INF]), np.array([1.0, NAN, 0.0]))],
         law=_nextafter, dtypes=frozenset((dtypes.float32, dtypes.float64)), grad=0,
         bad=[misfit("nextafter"), no_type("nextafter", n=2), no_type("nextafter", "float16", n=2)]),
    Row("frexp", [*unary(), call(np.array([1e-30, 6.0, 1e30]))], _frexp, dtypes=FLOAT, bad=[no_type("frexp", "int32")]),
    Row("ldexp", [call(floats(2, 3), np.array([1, -2, 3])), call(floats(2, 1), floats(3)), call(floats(), np.array(2)),
                  call(np.zeros((2, 0, 3)), np.array(1)), call(np.array(NONFINITE), np.array(1)), call(np.array([1, 3]), np.array([4, 5]))],
        lambda x, y: x * 2.0**y, dtypes=REAL_FLOATED, out=lambda d: d if d is dtypes.float64 else dtypes.float32,
        bad=[Bad(call(plane(2), np.array([1, 2])), "ldexp(x): expected real numbers", TypeError), misfit("ldexp")]),

    Row("conj", unary(), np.conj, dtypes=ALL),
    Row("real", unary(), np.real, dtypes=ALL, out=real),
    Row("imag", [call(plane(2, 3)), call(np.array(1 - 2j)), call(np.zeros((2, 0, 3), complex)), call(floats(3).astype(np.complex64))],
        np.imag, dtypes=frozenset(), out=real),
    Row("complex", broadcasting(), _complex, dtypes=PAIRED, out=dtypes.complex_of,
        bad=[Bad(call(floats(2), floats(2).astype(np.float32)), "complex(): expected operands whose dtypes promote, got float64 and float32", TypeError)]),
    Row("angle", [*unary(), call(plane(2, 3)), call(np.array([0j, 1j, -1j, -1 + 0j]))],
        lambda x: np.angle(x) if np.iscomplexobj(x) else np.where(np.isnan(x), x, np.where(x < 0, np.pi, 0)), dtypes=INEXACT, out=real,
        bad=[no_type("angle", "int32")]),
    Row("polar", broadcasting(low=0.2), lambda r, a: _complex(r * np.cos(1.0 * a), r * np.sin(1.0 * a)), dtypes=REAL_FLOATED, out=dtypes.complex_of,
        bad=[Bad(call(floats(2), plane(2)), "polar(angle): expected real numbers", TypeError), misfit("polar")]),
    *[Row(name, [call(floats(2, 3, 2)), call(floats(2)), call(np.zeros((0, 2))), call(np.zeros((2, 0, 2))), call(np.array(NONFINITE).reshape(3, 2))],
          lambda x: _complex(x[..., 0], x[..., 1]), dtypes=PAIRED, out=dtypes.complex_of, skip={"0-d": "there is no axis of pairs"},
          bad=[Bad(call(floats(2, 3)), f"{name}({arg}): expected a last dimension of size 2, got shape [2, 3]"),
               Bad(call(np.array(1.0)), f"{name}({arg}): expected a last dimension of size 2, got shape []"), no_type(name, "int32", told)])
      for name, arg, told in (("as_complex", "x", "x"), ("view_as_complex", "input", "input"))],
    *[Row(name, [call(plane(2, 3)), call(np.array(1 - 2j)), call(np.zeros((2, 0), complex)), call(plane(3).astype(np.complex64))],
          _pairs, dtypes=frozenset(), out=real, bad=[no_type(name, "float32", told)])
      for name, told in (("as_real", "x"), ("view_as_real", "input"))],
]  # fmt: skip
