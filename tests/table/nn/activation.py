"""Rows of activations."""

import numpy as np
from scipy import special

from tests.table.elementwise import TIES
from tests.table.harness import BOOL, COMPLEX, FLOAT, INT, Bad, Row, call
from tests.table.samples import filled, floats, unary

NONE: frozenset = frozenset()
Z = np.zeros((2, 0, 3))
EDGES = np.array(
    [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 6.0]
)  # where pieces meet, with two equal: for `grad_ref` alone


def _sigmoid(x):
    return 1 / (1 + np.exp(-x)) if np.iscomplexobj(x) else special.expit(x)


def _log_sigmoid(x):
    return np.log(_sigmoid(x)) if np.iscomplexobj(x) else special.log_expit(x)


def _gelu(x, approximate=False):
    if approximate in (True, "tanh"):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x * special.ndtr(x)


def _softplus(x, beta=1, threshold=20):
    return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, threshold))) / beta)


def _softmax(x, axis=-1, dtype=None):
    return special.softmax(x, axis=axis) if x.size and x.ndim else np.ones_like(x)


def _log_softmax(x, axis=-1, dtype=None):
    return special.log_softmax(x, axis=axis) if x.size and x.ndim else np.zeros_like(x)


_soft = [
    call(floats(2, 3), -1),
    call(floats(2, 3), 0),
    call(floats(), -1),
    call(Z, 2),
    call(Z, 1),
    call(np.array([[1000.0, 0.0], [-1000.0, 0.0]]), 1),
    call(np.array([-np.inf, 1.0]), 0),
]
_soft_public = [
    call(floats(2, 3)),
    call(floats(2, 3), axis=0),
    call(floats(2, 3), dtype="float32"),
    call(floats()),
    call(Z),
    call(np.array([[1000.0, 0.0], [-1000.0, 0.0]])),
]


def _elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _celu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))


def _selu(x, scale=1.0507009873554805, alpha=1.6732632423543772):
    return scale * _elu(x, alpha)


def _hardswish(x):
    return np.where(x <= -3, 0 * np.nan_to_num(x), x * np.clip(x + 3, 0, 6) / 6)


def _prelu(x, weight, data_format="NCHW"):
    wide = weight.reshape([1] * x.ndim) if weight.size == 1 else weight
    if (weight.size > 1 and data_format[-1] != "C") or data_format == "NC":
        wide = weight.reshape([1, -1] + [1] * (x.ndim - 2))
    return np.where(x > 0, x, wide * x)


def _maxout(x, groups, axis=1):
    x = np.moveaxis(x, axis, -1)
    return np.moveaxis(x.reshape(*x.shape[:-1], x.shape[-1] // groups, groups).max(-1), -1, axis)


def _glu(x, axis=-1):
    a, b = np.split(x, 2, axis)
    return a * _sigmoid(b)


def _largest(x, axis):
    if x.ndim == 0 or not x.size:
        return np.ones_like(x)
    return np.moveaxis(np.eye(x.shape[axis])[x.argmax(axis)], -1, axis)


def _drawn_slopes(out, x, lower=1 / 8, upper=1 / 3, training=True):
    out, x = out.astype(float), x.astype(float)
    if out.shape != x.shape or not np.allclose(out[x >= 0], x[x >= 0], rtol=1e-2):
        return False
    slopes = out[x < 0] / x[x < 0]
    if not training:
        return bool(np.allclose(slopes, (lower + upper) / 2, rtol=1e-2))
    inside = ((slopes > lower - 1e-2) & (slopes < upper + 1e-2)).all()
    return bool(inside and (slopes.size < 500 or abs(slopes.mean() - (lower + upper) / 2) < 0.02))


def _probable(out, x, temperature=1.0, hard=False, axis=-1):
    """Rows of probabilities; the largest is drawn as often as the softmax says."""
    out = out.astype(float)
    if out.shape != x.shape or (out.size and not np.allclose(out.sum(axis) if x.ndim else out, 1, rtol=1e-2)):
        return False
    if hard and not set(out.ravel()) <= {0.0, 1.0}:
        return False
    return out.size < 1000 or bool(
        np.abs(_largest(out, axis).mean(0) - special.softmax(x.astype(float), axis).mean(0)).max() < 0.05
    )


TABLE = [
    Row("relu", [*unary(), call(TIES)], lambda x: np.maximum(x, 0), grad_ref=lambda w, x: w * (x > 0), dtypes=FLOAT, unchecked=INT | BOOL | COMPLEX),
    Row("leaky_relu", [*filled(0.5), call(floats(2, 3)), call(TIES, 0.5)], lambda x, slope=0.01: np.where(x > 0, x, x * slope),
        grad_ref=lambda w, x, slope=0.01: w * np.where(x >= 0, 1, slope), dtypes=FLOAT),
    Row("gelu", [*unary(nonfinite=False), call(floats(2, 3), True), call(floats(2, 3), approximate="tanh"), call(floats(2, 3), "none")], _gelu,
        dtypes=FLOAT,
        bad=[Bad(call(np.ones(2, int)), "gelu(x): expected one of bfloat16, float16, float32, float64, got int64", TypeError)]),
    Row("silu_of", unary(), lambda x: x * _sigmoid(x), dtypes=FLOAT | COMPLEX),
    Row("silu", unary(), lambda x: x * _sigmoid(x), dtypes=FLOAT | COMPLEX),
    Row("softplus", [*unary(), call(floats(2, 3), 2.0), call(np.array([-30.0, 5.0, 30.0]), 1, 10)], _softplus, dtypes=FLOAT | COMPLEX),
    Row("softmax_of", _soft, _softmax, dtypes=FLOAT),
    Row("softmax", _soft_public, _softmax, dtypes=FLOAT),
    Row("log_softmax_of", _soft, _log_softmax, dtypes=FLOAT),
    Row("log_softmax", _soft_public, _log_softmax, dtypes=FLOAT),
    Row("swish", unary(nonfinite=False), lambda x: x * _sigmoid(x), dtypes=FLOAT | COMPLEX),
    Row("log_sigmoid", [*unary(), call(np.array([-800.0, 800.0, -30.0]))], _log_sigmoid, dtypes=FLOAT | COMPLEX),
    Row("mish", [*unary(nonfinite=False), call(np.array([-100.0, 0.0, 30.0, 800.0])), call(np.array([np.nan, 1.0]))],
        lambda x: x * np.tanh(np.logaddexp(0, x)), dtypes=FLOAT, loose=(2, "half precision rounds exp twice")),
    Row("softsign", unary(nonfinite=False), lambda x: x / (1 + np.abs(x)), dtypes=FLOAT | COMPLEX),
    Row("tanhshrink", unary(), lambda x: x - np.tanh(x), dtypes=FLOAT),
    Row("glu", [call(floats(2, 4)), call(floats(4, 3), axis=0), call(floats(2, 2, 3), 1), call(np.zeros((0, 4)))], _glu, dtypes=FLOAT,
        skip={"0-d": "there is no axis to halve"},
        bad=[Bad(call(floats(2, 3)), "glu(x): expected an even size of axis -1"),
             Bad(call(floats(2, 4), 2), "glu(axis): expected an axis in [-2, 1], got 2")]),
    Row("elu", [*unary(), call(floats(2, 3), 0.5), call(EDGES, 2.0)], _elu, dtypes=FLOAT,
        grad_ref=lambda w, x, alpha=1.0: w * np.where(x > 0, 1, alpha * np.exp(x))),
    Row("celu", [*unary(), call(floats(2, 3), 0.5), call(EDGES, 2.0)], _celu, dtypes=FLOAT,
        grad_ref=lambda w, x, alpha=1.0: w * np.where(x > 0, 1, np.exp(x / alpha)),
        bad=[Bad(call(floats(2), 0.0), "celu(alpha): expected a nonzero number, got 0.0", ZeroDivisionError)]),
    Row("selu", [*unary(), call(floats(2, 3), 1.5, 0.5), call(EDGES, 2.0, alpha=0.5)], _selu, dtypes=FLOAT,
        grad_ref=lambda w, x, scale=1.0507009873554805, alpha=1.6732632423543772: w * scale * np.where(x > 0, 1, alpha * np.exp(x)),
        bad=[Bad(call(floats(2), 1.0), "selu(scale): expected a number greater than 1, got 1.0"),
             Bad(call(floats(2), alpha=-1.0), "selu(alpha): expected a non-negative number, got -1.0")]),
    Row("hardtanh", [*unary(), call(floats(2, 3), -2, 0.5), call(EDGES), call(EDGES, 2.0, 1.0)],
        lambda x, low=-1.0, high=1.0: np.minimum(np.maximum(x, low), high),
        grad_ref=lambda w, x, low=-1.0, high=1.0: w * ((x > low) & (x < high)), dtypes=FLOAT),
    Row("relu6", [*unary(-4, 8), call(EDGES)], lambda x: np.clip(x, 0, 6), grad_ref=lambda w, x: w * ((x > 0) & (x < 6)), dtypes=FLOAT),
    Row("hardsigmoid", [*unary(-5, 5), call(floats(2, 3), 0.2, 0.3), call(EDGES, 0.5, 0.5)],
        lambda x, slope=0.1666667, offset=0.5: np.clip(slope * x + offset, 0, 1),
        grad_ref=lambda w, x, slope=0.1666667, offset=0.5: w * slope * ((slope * x + offset > 0) & (slope * x + offset < 1)), dtypes=FLOAT),
    Row("hardswish", [*unary(-5, 5), call(EDGES)], _hardswish, dtypes=FLOAT,
        grad_ref=lambda w, x: w * np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5))),
    Row("hardshrink", [*unary(), call(floats(2, 3), 1.5), call(floats(2, 3), -1.0), call(EDGES)], lambda x, t=0.5: np.where((x > -t) & (x < t), 0, x),
        grad_ref=lambda w, x, t=0.5: w * ~((x > -t) & (x < t)), dtypes=FLOAT),
    Row("softshrink", [*unary(nonfinite=False), call(floats(2, 3), 1.5), call(EDGES)], lambda x, t=0.5: np.sign(x) * np.maximum(np.abs(x) - t, 0),
        grad_ref=lambda w, x, t=0.5: w * (np.abs(x) > t), dtypes=FLOAT,
        bad=[Bad(call(floats(2), -1.0), "softshrink(threshold): expected a non-negative number, got -1.0")]),
    Row("thresholded_relu", [*filled(0.7), call(floats(2, 3), 0.5, -2.0), call(EDGES)], lambda x, t=1.0, v=0.0: np.where(x <= t, v, x),
        grad_ref=lambda w, x, t=1.0, v=0.0: w * (x > t), dtypes=FLOAT),
    Row("prelu_of", [call(floats(2, 3), floats(3)), call(floats(2, 3), floats(1, 1)), call(floats(), floats(seed=1)), call(Z, floats(1, 1, 3))],
        lambda x, weight: np.where(x > 0, x, weight * x), dtypes=FLOAT),
    Row("prelu", [call(floats(2, 3, 2), floats(3)), call(floats(2, 2, 3), floats(3), "NLC"), call(floats(2, 3), floats(1)), call(floats(), floats(1)),
        call(floats(3), floats(seed=1)), call(np.zeros((0, 3, 2)), floats(3))], _prelu, dtypes=FLOAT,
        bad=[Bad(call(floats(2, 3), floats(3), "ABC"), "prelu(data_format): expected one of 'NC', 'NCL', 'NCHW', 'NCDHW', 'NLC', 'NHWC', 'NDHWC'"),
             Bad(call(floats(2, 3), floats(2)), "prelu(weight): expected 1 element or 3, one for each channel", AssertionError),
             Bad(call(floats(3), floats(3)), "prelu(x): expected at least 2 dimensions for a weight per channel", AssertionError),
             Bad(call(floats(2, 3), floats(1, 1)), "prelu(weight): expected at most 1 dimension", AssertionError)]),
    Row("rrelu", [call(floats(2, 3)), call(floats(40, 50), 0.1, 0.9), call(floats(2, 3), training=False), call(floats(low=-2, high=-1)),
        call(Z)], law=_drawn_slopes, dtypes=FLOAT,
        bad=[Bad(call(floats(2), 1, 1), "rrelu(lower, upper): expected two numbers, got 1 and 1", TypeError),
             Bad(call(floats(2), -0.5), "rrelu(lower): expected a number in [0, 1], got -0.5"),
             Bad(call(floats(2), 0.5, 0.25), "rrelu(upper): expected a number in [0.5, 1], got 0.25")]),
    Row("maxout", [call(floats(2, 4, 2, 3), 2), call(floats(1, 2, 2, 6), 3, 3), call(floats(1, 2, 2, 6), 2, axis=-1),
        call(np.zeros((0, 4, 1, 1)), 2)], _maxout, dtypes=FLOAT, skip={"0-d": "it takes images only"},
        bad=[Bad(call(floats(2, 4), 2), "maxout(x): expected a 4-D tensor, got shape [2, 4]"),
             Bad(call(floats(1, 4, 1, 1), 1), "maxout(groups): expected an integer greater than 1, got 1"),
             Bad(call(floats(1, 4, 1, 1), 3), "maxout(groups): expected a divisor of the 4 channels, got 3"),
             Bad(call(floats(1, 4, 1, 1), 2, 2), "maxout(axis): expected 1, 3 or -1, got 2")]),
    Row("one_hot_of_largest", [call(floats(2, 3), 1), call(floats(2, 3, 2), -2), call(floats(), 0), call(Z, 1)], _largest, dtypes=FLOAT,
        grad_ref=lambda w, x, axis: w, skip={"gradient": "it passes gradients though its steps have none",
        "gradient rule": "the same"}),
    Row("gumbel_softmax", [call(floats(2, 3)), call(np.tile(floats(3), (2000, 1))), call(np.tile(floats(3), (2000, 1)), hard=True),
        call(floats(3, 2), 0.5, axis=0), call(floats()),
        call(Z)], law=_probable, dtypes=FLOAT,
        bad=[Bad(call(floats(2), 0.0), "gumbel_softmax(temperature): expected a positive number, got 0.0")]),
    Row("gumbel_of", [call([1000], "float64"), call([], "float32"), call([0], "float32")],
        law=lambda out, shape, dtype: out.dtype == dtype and list(out.shape) == shape
        and (out.size < 100 or abs(out.mean() - np.euler_gamma) < 0.15), dtypes=NONE,
        grad=0),
]  # fmt: skip
