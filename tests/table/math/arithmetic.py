"""Rows of arithmetic, limits, differences and integrals."""

import numpy as np
from scipy import integrate

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from tests.table.elementwise import ANY_FLOATED, INEXACT, SMALL_INTS, TIES, misfit, no_type, pair
from tests.table.harness import ALL, BOOL, FLOAT, INT, NUMBER, REAL, Bad, Row, call, floating, still
from tests.table.samples import NONFINITE, broadcasting, floats, ints, unary, with_number

INF, NAN = np.inf, np.nan
_DOUBLE = {"width": "on a CPU the quotient is computed in double precision, which makes it exact"}


def whole(low=-20, high=20):
    """Pairs of integers that broadcast."""
    return [
        call(*[ints(*a.shape, low=low, high=high, seed=i) for i, a in enumerate(s.args)])
        for s in broadcasting(nonfinite=False)
    ]


def _extreme(name, ref, larger):
    """Ties share their gradient."""
    tie = call(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))

    def shared(w, x, y):
        first = np.where(x == y, 0.5, (x > y) == larger)
        return unbroadcast(w * first, x), unbroadcast(w * (1 - first), y)

    row = pair(
        name, ref, [*with_number(broadcasting(), 2, 0.5), tie], dtypes=REAL, bad=[no_type(name, n=2)], unchecked=BOOL
    )
    row.grad_ref = lambda w, x, y: shared(w, x, y)[: 2 if isinstance(y, np.ndarray) else 1]
    return row


def unbroadcast(g, x):
    """The gradient of an operand that was stretched: its share of each place."""
    g = g.sum(tuple(range(g.ndim - np.ndim(x))))
    return g.sum(tuple(i for i, n in enumerate(np.shape(x)) if n == 1), keepdims=True)


def _chosen(name, ref, larger):
    """NaN gives way, and a tie is the first one's."""
    tie = call(np.array([1.0, 2.0, 3.0, 1.0]), np.array([1.0, 3.0, 2.0, 1.0]))

    def first(w, x, y):
        take = (x >= y) if larger else (x <= y)
        return unbroadcast(w * take, x), unbroadcast(w * ~take, y)

    row = pair(name, ref, [*broadcasting(), tie], dtypes=REAL, bad=[no_type(name, n=2)])
    row.grad_ref = first
    return row


def _cast_samples():
    big = np.array([300.0, -1.5, 1.7, 255.9, -300.2, 0.0])
    return [
        call(floats(2, 3), "int32"), call(floats(2, 3), "complex128"), call(floats(2, 3), dtype="float16"), call(floats(), "int64"),
        call(np.zeros((2, 0, 3)), "bool"), call(big, "uint8"),
        call(big, "int8"), call(SMALL_INTS, "uint8"), call(floats(3) + 1j, dtype="float32"), call(floats(3), dtype="complex64"),
        call(floats(3), dtype="float32"),
        call(np.array([True, False]), "float32"), call(SMALL_INTS, None),
    ]  # fmt: skip


def _cast(x, dtype):
    kind = dtypes.of(np.float64 if dtype is None else dtype)
    if kind.kind == "i" and x.dtype.kind == "f":
        return np.trunc(x).astype(np.int64).astype(kind.np)
    return (x.real if x.dtype.kind == "c" and kind.kind != "c" else x).astype(kind.np)


def _power(x, y):
    y = np.asarray(y)
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        return (
            np.array([int(a) ** int(b) for a, b in np.broadcast(x, y)], object)
            .astype(np.int64)
            .reshape(np.broadcast(x, y).shape)
        )
    return np.power(x, y)


def _clip_grad(w, x, min=None, max=None):
    """Both bounds let the gradient through."""
    return w * ((x >= (-np.inf if min is None else min)) & (x <= (np.inf if max is None else max)))


def _divide(x, y, rounding_mode=None):
    return {None: np.asarray, "floor": np.floor, "trunc": np.trunc}[rounding_mode](np.divide(x, y))


def _renorm(x, p, axis, max_norm):
    """Slice by slice."""
    out = np.array(x)
    for i in range(x.shape[axis]):
        at = (slice(None),) * (axis % x.ndim) + (i,)
        norm = np.linalg.norm(np.ravel(x[at]), p) if x[at].size else 0
        if norm > max_norm:
            out[at] = x[at] * (max_norm / (norm + 1e-7))
    return out


def _diff(x, n=1, axis=-1, prepend=None, append=None):
    more = {k: v for k, v in {"prepend": prepend, "append": append}.items() if v is not None}
    return np.diff(x, n=min(n, x.shape[axis] + sum(v.shape[axis] for v in more.values())), axis=axis, **more)


def _steps(dx):
    return 1.0 if dx is None else np.reshape(dx, ())


def _cumulative(y, x=None, dx=None, axis=-1):
    """By hand: SciPy's refuses an axis without elements."""
    y = np.moveaxis(y, axis, -1)
    step = _steps(dx) if x is None else np.diff(x if x.ndim == 1 else np.moveaxis(x, axis, -1))
    return np.moveaxis(np.cumsum((y[..., 1:] + y[..., :-1]) / 2 * step, -1), -1, axis)


def _integrals(name):
    """Values, with their places in one row or in as many, or steps; along either axis."""
    y, x = floats(3, 4), np.sort(floats(4, seed=1))
    return [
        call(y), call(y, axis=0), call(y, x), call(y, np.sort(floats(3, seed=1)), axis=0), call(y, np.sort(floats(3, 4, seed=1))),
        call(y, dx=0.5), call(y, None, 2, 0), call(floats(5)), call(floats(2, 3, 4), np.sort(floats(3, seed=2)), axis=-2),
        call(y, dx=still(0.5)), call(y, dx=still([0.25])),
        call(np.zeros((2, 0, 3))), call(np.zeros((2, 0, 3)), axis=1), call(floats(1)), call(np.array(NONFINITE)),
    ]  # fmt: skip


def _no_integral(name):
    return [
        Bad(call(floats(3), floats(3), 1.0), f"{name}(dx): expected None, since x is given, got 1.0"),
        Bad(
            call(floats(3), floats(4)),
            f"{name}(x): expected 3 points, for a y of shape [3] along axis 0, got shape [4]",
        ),
        Bad(call(floats(2, 3, 4), floats(3, 4)), f"{name}(x): expected 4 points"),
        Bad(call(floats(2, 3), dx=floats(2)), f"{name}(dx): expected a single number"),
        Bad(call(np.array(1.0)), f"{name}(y): expected at least 1 dimension", IndexError),
        Bad(call(np.ones(3, int)), f"{name}(y): expected a floating-point tensor", TypeError),
        Bad(call(floats(2, 3), axis=2), f"{name}(axis): expected an axis in [-2, 1], got 2", IndexError),
    ]


def _mod(x, y):
    """Of complex numbers, what the nearest multiple leaves: halves go away from zero."""
    if not (np.iscomplexobj(x) or np.iscomplexobj(y)):
        return np.mod(x, y)
    q = x / y
    return x - y * (np.sign(q.real) * np.floor(abs(q.real) + 0.5) + 1j * np.sign(q.imag) * np.floor(abs(q.imag) + 0.5))


def _extremes(dtype):
    """Pairs with the smallest integer, whose absolute value is no number of its type, and with the largest."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x, y = np.meshgrid(
        np.array([low, high, low + 1, -1, 0, 1, 6], dtype), np.array([low, high, high - 1, -4, 0, 3], dtype)
    )
    return call(x, y)


TABLE = [
    Row("cast", _cast_samples(), _cast, dtypes=ALL, out="ref",
        bad=[Bad(call(floats(2), "float99"), "cast(dtype): expected a data type such as 'float32'", TypeError)]),
    pair("add", lambda x, y, alpha=1: x + y * alpha,
         [*with_number(broadcasting(), 2, 0.5), call(floats(2), floats(2), alpha=3), call(SMALL_INTS, SMALL_INTS)],
         dtypes=NUMBER | BOOL, bad=[Bad(call(np.ones(2, "int32"), np.ones(2, "float32")),
         "add(): expected operands whose dtypes promote, got int32 and float32", TypeError)]),
    pair("subtract", np.subtract, [*with_number(broadcasting(), 2, 0.5), call(SMALL_INTS, SMALL_INTS)],
         dtypes=NUMBER, bad=[no_type("subtract", "bool", n=2)]),
    pair("multiply", np.multiply, [*with_number(broadcasting(), 2, 0.5), call(SMALL_INTS, SMALL_INTS)], dtypes=NUMBER | BOOL),
    Row("mul", with_number(broadcasting(), 2, 0.5), np.multiply, dtypes=NUMBER | BOOL, bad=[misfit("mul")]),
    Row("quotient", with_number(broadcasting(low_y=0.5), 2, 0.5), np.divide, dtypes=ANY_FLOATED, out=floating, bad=[misfit("divide")]),
    pair("divide", _divide, [*with_number(broadcasting(low_y=0.5), 2, 0.5),
                             call(still(floats(2, 3)), still(floats(3, low=0.5)), rounding_mode="floor"),
                             call(floats(2, 3), floats(3, low=0.5), rounding_mode="trunc"), call(floats(2, 3), -0.7, rounding_mode="trunc")],
         dtypes=ANY_FLOATED, out=floating,
         bad=[Bad(call(floats(2), 2.0, rounding_mode="up"), "divide(rounding_mode): expected None, 'floor' or 'trunc', got 'up'")]),
    Row("true_divide", with_number(broadcasting(low_y=0.5), 2, 0.5), np.divide, dtypes=ANY_FLOATED, out=floating, bad=[misfit("true_divide")]),
    pair("floor_divide", np.floor_divide, [*with_number(broadcasting(low_y=1.1), 2), call(np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2]))],
         dtypes=REAL, grad=0, bad=[no_type("floor_divide", n=2)], skip=_DOUBLE),
    pair("remainder", _mod, [*with_number(broadcasting(low_y=1.1), 2), call(np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])),
                             call(np.array([3 + 1j, -1.5 + 4j, 1 + 0j]), np.array([1 - 2j, 2 + 0j, 2 + 0j]))],
         dtypes=NUMBER, bad=[no_type("remainder", "bool", n=2)], skip=_DOUBLE),
    pair("power", _power, [*broadcasting(low=0.5, low_y=0.2, nonfinite=False), call(floats(2, 3, low=0.5), floats(3, low=-2)),
        call(floats(2, 3, low=0.5), 3), call(np.array([2, -3, 0]), np.array([3, 3, 0]))],
         dtypes=NUMBER, told="pow", bad=[no_type("pow", "bool", n=2)]),
    Row("power_const", [*[call(floats(2, 3, low=0.5), y) for y in (2, -1, 0.5, -0.5, 3, -2, 4)], call(floats(low=0.5), 2), call(np.zeros((2, 0, 3)),
        3)],
        np.power, dtypes=INEXACT, skip={"dtypes": "only `pow` calls it, and only for floats"}),
    Row("pow", [call(floats(2, 3, low=0.5), 2), call(floats(2, 3, low=0.5), 1.7), call(floats(2, 3, low=0.5), -0.5), call(floats(2, 1, low=0.5),
        floats(3)),
                call(floats(), 3), call(np.zeros((2, 0, 3)), 2), call(np.array([2, -3, 0]), 3), call(np.array(NONFINITE), 2)], _power,
                dtypes=INEXACT, unchecked=INT | BOOL,
        bad=[Bad(call("a", 2), "pow(x): expected a Tensor, got 'a'", TypeError)]),
    *[Row(name, [call([floats(2, 3), floats(2, 3, seed=1), floats(2, 3, seed=2)]), call([floats(3)]), call([floats(), floats(seed=1)]),
                 call([floats(), floats(1, seed=1), floats(seed=2)]), call([np.zeros((2, 0, 3))] * 2),
                 call([np.array(NONFINITE), np.array(NONFINITE[::-1])]), *more],
          lambda inputs: inputs if isinstance(inputs, np.ndarray) else sum(inputs), dtypes=NUMBER | BOOL,
          bad=[Bad(call([]), "add_n(inputs): expected at least one tensor", TypeError),
               Bad(call([floats(2, 3), floats(3)]), "add_n(inputs[1]): expected shape [2, 3] like the first, got shape [3]"),
               Bad(call([floats(2), floats()]), "add_n(inputs[1]): expected shape [2] like the first, got shape []"),
               Bad(call([floats(1), floats(1, 1)]), "add_n(inputs[1]): expected shape [1] like the first, got shape [1, 1]"),
               Bad(call([floats(2), np.ones(2, int)]), "add_n(inputs[1]): expected float64 like the first, got int64"),
               Bad(call([floats(2), 1.0]), "add_n(inputs): expected a list of Tensors", TypeError)])
      for name, more in {"sum_of": [], "add_n": [call(floats(2, 3))]}.items()],
    Row("increment", [call(still([1.5])), call(still(1.5)), call(still([[2.0]]), 2), call(still([1.5]), value=-1.5), call(still(np.zeros(0)))],
        lambda x, value=1.0: x + (int(value) if x.dtype.kind in "iu" else value), dtypes=NUMBER, grad=0,
        bad=[Bad(call(floats(2)), "increment(x): expected a tensor of one element")]),
    *[pair(name, ref, [*map(_extremes, ("int64", "int32", "int8")), *whole(), call(SMALL_INTS[1:], SMALL_INTS[:0:-1].copy()),
                       call(np.array([12, 0, 0, -4]), np.array([18, 5, 0, 6]))],
           dtypes=frozenset(), grad=0, wrong=int, bad=[no_type(name, "float32", n=2)]) for name, ref in {"gcd": np.gcd, "lcm": np.lcm}.items()],

    _extreme("maximum", np.maximum, True),
    _extreme("minimum", np.minimum, False),
    _chosen("fmax", np.fmax, True),
    _chosen("fmin", np.fmin, False),
    pair("heaviside", np.heaviside, [*broadcasting(), call(TIES, floats(7))], dtypes=REAL, bad=[no_type("heaviside", n=2)]),
    Row("clip_number", [call(floats(2, 3), -1.0, 1.5), call(floats(2, 3), None, 0.5), call(floats(2, 3), 0.25, None), call(floats(), -1.0, 1.0),
                        call(np.zeros((2, 0, 3)), 0.0, 1.0), call(np.array(NONFINITE), -1.0, 1.0), call(floats(2, 3), still(floats(2, 3) - 1),
                        still(floats(2, 3) + 1)), call(floats(4, 3), floats(3), 1.5 + floats(4, 1)), call(floats(3), floats(), None),
                        call(np.array([-5, 0, 5]), -1, 1)],
        lambda x, lo, hi: np.clip(x, lo, hi).astype(x.dtype), dtypes=FLOAT, bad=[no_type("clip", "bool")],
        unchecked=INT | BOOL),
    Row("clip", [call(floats(2, 3), -1.0, 1.5), call(floats(2, 3), max=0.5), call(floats(2, 3), min=0.25), call(floats(), -1.0, 1.0),
        call(floats(2, 3)),
                 call(np.zeros((2, 0, 3)), 0.0, 1.0), call(np.array(NONFINITE), -1.0, 1.0), call(np.array([-5, 0, 5]), -1, 1), call(TIES, 0.0, 1.0)],
                 grad_ref=_clip_grad,
        ref=lambda x, min=None, max=None: x if min is None and max is None else np.clip(x, min, max), dtypes=FLOAT,
        unchecked=INT | BOOL),
    Row("nan_to_num", [*unary(), call(np.array(NONFINITE), 1.0, 2.0, -3.0), call(np.array(NONFINITE), nan=5.0, neginf=7),
                       call(np.array(NONFINITE), posinf=0.5)],
        lambda x, nan=0.0, posinf=None, neginf=None: np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf), dtypes=FLOAT,
        bad=[no_type("nan_to_num", "int32")]),
    Row("renorm_of", [call(floats(2, 3, 2), 1.5, 2.0, 0), call(floats(2, 3), 9.0, 1.0, 1), call(np.zeros((2, 0, 3)), 1.0, 2.0, 1)],
        lambda x, max_norm, p, axis: _renorm(x, p, axis, max_norm), dtypes=INEXACT,
        skip={"0-d": "`renorm` refuses it", "dtypes": "`renorm` refuses integers"}),
    Row("renorm", [call(floats(2, 3, 2), 2.0, 0, 1.5), call(floats(2, 3, 2), 1.0, -1, 1.5), call(floats(2, 3), 3, 1, 2),
                   call(floats(2, 3), INF, 0, 1.0), call(floats(2, 3), 2.0, 0, 100.0), call(np.array([[0.0, 0.0], [3.0, 4.0]]), 1.5, 0, 1.0),
                   call(np.zeros((2, 0, 3)), 2.0, 0, 1.0),
                   call(floats(3), p=2.0, axis=0, max_norm=1.0)], _renorm, dtypes=INEXACT, skip={"0-d": "there are no slices"},
        bad=[Bad(call(floats(2, 3), 0.0, 0, 1.0), "renorm(p): expected a positive number, got 0.0"),
             Bad(call(floats(2, 3), 2.0, 0, -1.0), "renorm(max_norm): expected a non-negative number, got -1.0"),
             Bad(call(floats(2, 3), 2.0, 2, 1.0), "renorm(axis): expected an axis in [-2, 1], got 2"),
             Bad(call(np.array(1.0), 2.0, 0, 1.0), "renorm(x): expected at least 1 dimension")]),
    Row("lerp", [*broadcasting(3), call(floats(2, 3), floats(3), 0.25)], lambda x, y, weight: x + weight * (y - x), dtypes=ANY_FLOATED, out=floating),
    Row("scale", [call(floats(2, 3), 2.0, 1.0), call(floats(2, 3), 2.0, 1.0, False), call(floats(), 3.0), call(np.zeros((2, 0, 3)), 2.0),
        call(np.array(NONFINITE), 2.0, 1.0)],
        lambda x, scale=1.0, bias=0.0, bias_after_scale=True: x * scale + bias if bias_after_scale else (x + bias) * scale, dtypes=NUMBER,
        unchecked=BOOL),

    Row("diff", [call(floats(3, 4)), call(floats(3, 4), axis=0), call(floats(3, 4), 2), call(floats(3, 4), n=2, axis=-2), call(floats(3), 5),
                 call(floats(3, 4), prepend=floats(3, 1, seed=1)),
                 call(floats(3, 4), axis=0, prepend=floats(2, 4, seed=1), append=floats(1, 4, seed=2)),
                 call(np.zeros((2, 0, 3)), axis=1), call(np.zeros((2, 0, 3))), call(np.zeros(0)), call(np.array(NONFINITE)), call(floats(1))],
        _diff, dtypes=ALL, skip={"0-d": "there are no neighbours"},
        bad=[Bad(call(floats(3), 0), "diff(n): expected a positive integer, got 0"),
             Bad(call(np.array(1.0)), "diff(x): expected at least 1 dimension", IndexError),
             Bad(call(floats(3), axis=1), "diff(axis): expected an axis in [-1, 0], got 1", errors.OutOfRangeError),
             Bad(call(floats(3, 4), prepend=floats(2, 1)), "diff(prepend): expected shape [3, 4] but for axis 1, got shape [2, 1]")]),
    Row("trapezoid", _integrals("trapezoid"), lambda y, x=None, dx=None, axis=-1: integrate.trapezoid(y, x, _steps(dx), axis), dtypes=FLOAT,
        bad=_no_integral("trapezoid")),
    Row("cumulative_trapezoid", _integrals("cumulative_trapezoid"), _cumulative, dtypes=FLOAT, bad=_no_integral("cumulative_trapezoid")),
]  # fmt: skip
