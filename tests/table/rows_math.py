"""Rows of elementwise arithmetic, functions of one operand, complex numbers, comparison and logic."""

import numpy as np
from scipy import special

from bireme.core import dtype as dtypes
from tests.table.harness import ALL, BOOL, COMPLEX, FLOAT, INT, NUMBER, REAL, Bad, Row, call, floating, real, still
from tests.table.samples import NONFINITE, broadcasting, floats, ints, unary, with_number

INEXACT = FLOAT | COMPLEX
ANY_FLOATED = FLOAT | INT | BOOL | COMPLEX
REAL_FLOATED = FLOAT | INT | BOOL
TIES = np.array([0.0, 0.0, 1.0, 1.0, 0.5, 2.0, -1.0])  # equal numbers: compared with `grad_ref` alone
_i8 = np.array([-128, -7, -1, 0, 1, 127], np.int8)


def misfit(name, dtype=float):
    return Bad(
        call(floats(2, 3).astype(dtype), floats(4).astype(dtype)), f"{name}(): expected shapes that broadcast together, got shapes [2, 3] and [4]"
    )


def no_type(name, kind="complex64", arg="x", n=1):
    return Bad(call(*[np.ones(2, kind)] * n), f"{name}({arg}): expected one of ", TypeError)


def pair(name, ref, samples=None, **more):
    bad = [misfit(name, more.pop("wrong", float)), *more.pop("bad", [])]
    return Row(name, samples or with_number(broadcasting(), 2, 0.5), ref, bad=bad, **more)


def _extreme(name, ref, larger):
    """Ties share their gradient."""
    tie = call(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))

    def shared(w, x, y):
        first = np.where(x == y, 0.5, (x > y) == larger)
        return w * first, w * (1 - first)

    row = pair(name, ref, [*with_number(broadcasting(), 2, 0.5), tie], dtypes=REAL, bad=[no_type(name, n=2)], unchecked=BOOL)
    row.grad_ref = lambda w, x, y: shared(w, x, y) if np.shape(x) == np.shape(y) else None
    return row


def _cast_samples():
    big = np.array([300.0, -1.5, 1.7, 255.9, -300.2, 0.0])
    return [
        call(floats(2, 3), "int32"), call(floats(2, 3), "complex128"), call(floats(2, 3), dtype="float16"), call(floats(), "int64"),
        call(np.zeros((2, 0, 3)), "bool"), call(big, "uint8"),
        call(big, "int8"), call(_i8, "uint8"), call(floats(3) + 1j, dtype="float32"), call(floats(3), dtype="complex64"),
        call(floats(3), dtype="float32"),
        call(np.array([True, False]), "float32"),
    ]  # fmt: skip


def _cast(x, dtype):
    kind = dtypes.of(dtype)
    if kind.kind == "i" and x.dtype.kind == "f":
        return np.trunc(x).astype(np.int64).astype(kind.np)
    return (x.real if x.dtype.kind == "c" and kind.kind != "c" else x).astype(kind.np)


def _power(x, y):
    y = np.asarray(y)
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        return np.array([int(a) ** int(b) for a, b in np.broadcast(x, y)], object).astype(np.int64).reshape(np.broadcast(x, y).shape)
    return np.power(x, y)


def _clip_grad(w, x, min=None, max=None):
    """Both bounds let the gradient through."""
    return w * ((x >= (-np.inf if min is None else min)) & (x <= (np.inf if max is None else max)))


def _divide(x, y, rounding_mode=None):
    return {None: np.asarray, "floor": np.floor, "trunc": np.trunc}[rounding_mode](np.divide(x, y))


def _complex(x, y):
    made = np.empty(np.broadcast_shapes(x.shape, y.shape), complex)
    made.real, made.imag = x, y
    return made


TABLE = [
    Row("cast", _cast_samples(), _cast, dtypes=ALL, out="ref",
        bad=[Bad(call(floats(2), "float99"), "cast(dtype): expected a data type such as 'float32'", TypeError)]),
    pair("add", lambda x, y, alpha=1: x + y * alpha, [*with_number(broadcasting(), 2, 0.5), call(floats(2), floats(2), alpha=3), call(_i8, _i8)],
         dtypes=NUMBER | BOOL, bad=[Bad(call(np.ones(2, "int32"), np.ones(2, "float32")),
         "add(): expected operands of one kind, got int32 and float32", TypeError)]),
    pair("subtract", np.subtract, [*with_number(broadcasting(), 2, 0.5), call(_i8, _i8)],
         dtypes=NUMBER, bad=[no_type("subtract", "bool", n=2)]),
    pair("multiply", np.multiply, [*with_number(broadcasting(), 2, 0.5), call(_i8, _i8)], dtypes=NUMBER | BOOL),
    Row("mul", with_number(broadcasting(), 2, 0.5), np.multiply, dtypes=NUMBER | BOOL, bad=[misfit("mul")]),
    Row("quotient", with_number(broadcasting(low_y=0.5), 2, 0.5), np.divide, dtypes=ANY_FLOATED, out=floating, bad=[misfit("divide")]),
    pair("divide", _divide, [*with_number(broadcasting(low_y=0.5), 2, 0.5), call(floats(2, 3), floats(3, low=0.5), rounding_mode="floor"),
                             call(floats(2, 3), floats(3, low=0.5), rounding_mode="trunc"), call(floats(2, 3), -0.7, rounding_mode="trunc")],
                             dtypes=ANY_FLOATED, out=floating,
         bad=[Bad(call(floats(2), 2.0, rounding_mode="up"), "divide(rounding_mode): expected None, 'floor' or 'trunc', got up")]),
    pair("floor_divide", np.floor_divide, [*with_number(broadcasting(low_y=1.1), 2), call(np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2]))],
         dtypes=REAL, bad=[no_type("floor_divide", n=2)]),
    pair("remainder", np.mod, [*with_number(broadcasting(low_y=1.1), 2), call(np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2]))],
         dtypes=REAL, bad=[no_type("remainder", n=2)]),
    pair("power", _power, [*broadcasting(low=0.5, low_y=0.2, nonfinite=False), call(floats(2, 3, low=0.5), floats(3, low=-2)),
        call(floats(2, 3, low=0.5), 3), call(np.array([2, -3, 0]), np.array([3, 3, 0]))],
         dtypes=NUMBER, bad=[no_type("power", "bool", n=2)]),
    Row("power_const", [*[call(floats(2, 3, low=0.5), y) for y in (2, -1, 0.5, -0.5, 3, -2, 4)], call(floats(low=0.5), 2), call(np.zeros((2, 0, 3)),
        3)],
        np.power, dtypes=INEXACT, skip={"dtypes": "only `pow` calls it, and only for floats"}),
    Row("pow", [call(floats(2, 3, low=0.5), 2), call(floats(2, 3, low=0.5), 1.7), call(floats(2, 3, low=0.5), -0.5), call(floats(2, 1, low=0.5),
        floats(3)),
                call(floats(), 3), call(np.zeros((2, 0, 3)), 2), call(np.array([2, -3, 0]), 3), call(np.array(NONFINITE), 2)], _power,
                dtypes=INEXACT, unchecked=INT | BOOL,
        bad=[Bad(call("a", 2), "pow(x): expected a Tensor, got str", TypeError)]),
    _extreme("maximum", np.maximum, True),
    _extreme("minimum", np.minimum, False),
    Row("neg", [*unary(), call(_i8)], np.negative, dtypes=NUMBER, bad=[no_type("neg", "bool")]),
    Row("exp", unary(), np.exp, dtypes=ANY_FLOATED, out=floating),
    Row("log", unary(0.2, 3), np.log, dtypes=ANY_FLOATED, out=floating),
    Row("log1p", unary(-0.8, 3), np.log1p, dtypes=ANY_FLOATED, out=floating),
    Row("expm1", unary(), np.expm1, dtypes=ANY_FLOATED, out=floating),
    Row("sqrt", unary(0.2, 3), np.sqrt, dtypes=ANY_FLOATED, out=floating),
    Row("rsqrt", unary(0.2, 3), lambda x: 1 / np.sqrt(x), dtypes=ANY_FLOATED, out=floating),
    Row("square", [*unary(), call(_i8)], np.square, dtypes=NUMBER, bad=[no_type("square", "bool")]),
    Row("reciprocal", unary(0.3, 3), lambda x: 1 / x.astype(x.dtype if x.dtype.kind == "c" else float), dtypes=ANY_FLOATED, out=floating),
    Row("sin", unary(), np.sin, dtypes=ANY_FLOATED, out=floating),
    Row("cos", unary(), np.cos, dtypes=ANY_FLOATED, out=floating),
    Row("tanh", unary(), np.tanh, dtypes=ANY_FLOATED, out=floating),
    Row("sigmoid", unary(), lambda x: 1 / (1 + np.exp(-np.asarray(x, complex if np.iscomplexobj(x) else float))), dtypes=ANY_FLOATED, out=floating),
    Row("erf", unary(), special.erf, dtypes=REAL_FLOATED, out=floating, bad=[no_type("erf")]),
    Row("erfinv", unary(-0.9, 0.9), special.erfinv, dtypes=REAL_FLOATED, out=floating, bad=[no_type("erfinv")]),
    Row("abs", [*unary(), call(_i8), call(TIES)], np.abs, dtypes=NUMBER | BOOL, out=real, grad_ref=lambda w, x: w * np.sign(x)),
    Row("floor", [*unary(), call(_i8)], np.floor, dtypes=REAL),
    Row("sign", [*unary(), call(_i8)], np.sign, dtypes=NUMBER,
        skip={"gradient rule": "jax takes a complex sign for constant, though it turns with its operand"}),
    Row("clip_number", [call(floats(2, 3), -1.0, 1.5), call(floats(2, 3), None, 0.5), call(floats(2, 3), 0.25, None), call(floats(), -1.0, 1.0),
                        call(np.zeros((2, 0, 3)), 0.0, 1.0), call(np.array(NONFINITE), -1.0, 1.0), call(floats(2, 3), still(floats(2, 3) - 1),
                        still(floats(2, 3) + 1)),
                        call(np.array([-5, 0, 5]), -1, 1)],
        lambda x, lo, hi: np.clip(x, lo, hi).astype(x.dtype), dtypes=FLOAT, bad=[no_type("clip_number", "bool")],
        unchecked=INT | BOOL),
    Row("clip", [call(floats(2, 3), -1.0, 1.5), call(floats(2, 3), max=0.5), call(floats(2, 3), min=0.25), call(floats(), -1.0, 1.0),
        call(floats(2, 3)),
                 call(np.zeros((2, 0, 3)), 0.0, 1.0), call(np.array(NONFINITE), -1.0, 1.0), call(np.array([-5, 0, 5]), -1, 1), call(TIES, 0.0, 1.0)],
                 grad_ref=_clip_grad,
        ref=lambda x, min=None, max=None: x if min is None and max is None else np.clip(x, min, max), dtypes=FLOAT,
        unchecked=INT | BOOL),
    Row("lerp", [*broadcasting(3), call(floats(2, 3), floats(3), 0.25)], lambda x, y, weight: x + weight * (y - x), dtypes=ANY_FLOATED, out=floating),
    Row("scale", [call(floats(2, 3), 2.0, 1.0), call(floats(2, 3), 2.0, 1.0, False), call(floats(), 3.0), call(np.zeros((2, 0, 3)), 2.0),
        call(np.array(NONFINITE), 2.0, 1.0)],
        lambda x, scale=1.0, bias=0.0, bias_after_scale=True: x * scale + bias if bias_after_scale else (x + bias) * scale, dtypes=NUMBER,
        unchecked=BOOL),
    Row("conj", unary(), np.conj, dtypes=ALL),
    Row("real", unary(), np.real, dtypes=ALL, out=real),
    Row("imag", [call(floats(2, 3) + 1j * floats(2, 3, seed=1)), call(np.array(1 - 2j)), call(np.zeros((2, 0, 3), complex)),
        call(floats(3).astype(np.complex64))],
        np.imag, dtypes=frozenset(), out=real),
    Row("complex", broadcasting(), _complex, dtypes=frozenset((dtypes.float32, dtypes.float64)), out=dtypes.complex_of),
    *[pair(name, ref, [*with_number(broadcasting(), 2, 0.5), call(np.array([1, 2, 3]), np.array([3, 2, 1])), call(floats(2, 3), floats(2, 3))],
        dtypes=ALL, out="bool", grad=0)
      for name, ref in {"equal": np.equal, "not_equal": np.not_equal}.items()],
    *[pair(name, ref, [*with_number(broadcasting(), 2, 0.5), call(np.array([1, 2, 3]), np.array([3, 2, 1]))], dtypes=ALL, out="bool", grad=0)
      for name, ref in {"less_than": np.less, "less_equal": np.less_equal, "greater_than": np.greater, "greater_equal": np.greater_equal}.items()],
    *[pair(name, ref, broadcasting(), dtypes=ALL, out="bool", grad=0) for name, ref in {"logical_and": np.logical_and,
        "logical_or": np.logical_or}.items()],
    Row("logical_not", unary(), np.logical_not, dtypes=ALL, out="bool", grad=0),
    *[pair(name, ref, [call(*[ints(*a.shape, low=-9, high=9, seed=i) for i, a in enumerate(s.args)]) for s in broadcasting(nonfinite=False)]
           + [call(np.array([True, False]), np.array([True, True])), call(_i8, _i8[::-1].copy()), call(floats(2, 3), floats(2, 3))][:2],
           dtypes=frozenset(), grad=0, wrong=int, bad=[no_type(name, "float32", n=2)])
      for name, ref in {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}.items()],
    Row("bitwise_not", [call(ints(2, 3)), call(np.array([True, False])), call(_i8), call(np.array(5)), call(np.zeros((2, 0, 3), int)),
        call(np.array([0, 255], np.uint8))],
        np.invert, dtypes=frozenset(), grad=0, bad=[no_type("bitwise_not", "float32")]),
    *[Row(name, [*unary(), call(_i8)], ref, dtypes=ALL, out="bool", grad=0) for name, ref in {"isnan": np.isnan, "isinf": np.isinf,
        "isfinite": np.isfinite}.items()],
    Row("select", [call(floats(2, 3) > 0, floats(2, 3), floats(3)), call(np.array([True, False, True]), floats(2, 1), floats()), call(np.array(True),
        floats(), floats(seed=1)),
                   call(np.zeros((2, 0, 3), bool), np.zeros((2, 0, 3)), floats(3)), call(np.array([True, False]), floats(2), 0.0)],
        lambda c, x, y: np.where(c, x, y), dtypes=ALL, out="last",
        bad=[Bad(call(np.ones(4, bool), floats(3), floats(3)), "where(): expected shapes that broadcast together")]),
    Row("any_outside", [call(np.array([0, 4]), 0, 5), call(np.array([0, 5]), 0, 5), call(np.array([-1, 2]), 0, 5), call(np.array(7), 0, 5),
        call(np.zeros((2, 0), int), 0, 5)],
        lambda x, low, high: np.any((x < low) | (x >= high)), dtypes=frozenset(), out="bool", grad=0),
    Row("equal_all", [call(floats(2, 3), floats(2, 3)), call(floats(2, 3), floats(2, 3, seed=1)), call(floats(2, 3), floats(3)),
        call(floats(), floats()), call(np.zeros(0), np.zeros(0))],
        lambda x, y: np.array_equal(x, y), dtypes=ALL, out="bool", grad=0),
    Row("allclose", [call(floats(2, 3), floats(2, 3) + 1e-9), call(floats(2, 3), floats(2, 3) + 0.1), call(floats(), floats()),
        call(np.zeros((2, 0, 3)), np.zeros((2, 0, 3))),
                     call(np.array([np.nan, np.inf]), np.array([np.nan, np.inf])), call(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]),
                     equal_nan=True),
                     call(floats(3), floats(3) * 1.01, rtol=0.1)],
        lambda x, y, **k: np.allclose(x, y, **k), dtypes=FLOAT, unchecked=ALL - FLOAT, out="bool", grad=0),
]  # fmt: skip
