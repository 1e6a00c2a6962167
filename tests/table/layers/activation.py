"""Rows of activation layers."""

import numpy as np
from scipy import special

from tests.table.harness import Bad, call
from tests.table.layer_harness import LayerRow

SHAPES = [(3, 4), (0, 4), (2, 1, 4)]
IMAGES = [(2, 4, 2, 3), (0, 4, 2, 3)]


def activation(name, ref, init=None, **more):
    return LayerRow(name, init or call(), SHAPES, ref=ref, **more)


def _softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True)) if x.size else x
    return e / e.sum(axis, keepdims=True) if x.size else x


def _elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(x))


def _glu(x):
    a, b = np.split(x, 2, -1)
    return a * special.expit(b)


def _maxout(x):
    n, c, h, w = x.shape
    return x.reshape(n, c // 2, 2, h, w).max(2)


LAYERS = [
    activation("ReLU", lambda x: np.maximum(x, 0)),
    activation("ReLU6", lambda x: np.clip(x, 0, 6)),
    activation("GELU", lambda x: x * special.ndtr(x)),
    activation("Sigmoid", special.expit),
    activation("LogSigmoid", special.log_expit),
    activation("Tanh", np.tanh),
    activation("Tanhshrink", lambda x: x - np.tanh(x)),
    activation("Softmax", _softmax),
    activation("LogSoftmax", lambda x: np.log(_softmax(x))),
    activation("Silu", lambda x: x * special.expit(x)),
    activation("Swish", lambda x: x * special.expit(x)),
    activation("Mish", lambda x: x * np.tanh(np.logaddexp(0, x))),
    activation("GLU", _glu),
    activation("LeakyReLU", lambda x: np.where(x > 0, x, 0.1 * x), call(0.1)),
    activation("ELU", lambda x: _elu(x, 0.5), call(0.5)),
    activation("CELU", lambda x: np.where(x > 0, x, 0.5 * np.expm1(x / 0.5)), call(alpha=0.5)),
    activation("SELU", lambda x: 1.5 * _elu(x, 0.5), call(1.5, 0.5)),
    activation("Softplus", lambda x: np.logaddexp(0, 2 * x) / 2, call(2)),
    activation("Softsign", lambda x: x / (1 + np.abs(x))),
    activation("Softshrink", lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.25, 0), call(0.25)),
    activation("Hardshrink", lambda x: np.where(np.abs(x) >= 0.25, x, 0), call(0.25)),
    activation("Hardsigmoid", lambda x: np.clip(0.1666667 * x + 0.5, 0, 1)),
    activation("Hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    activation("Hardtanh", lambda x: np.clip(x, -0.5, 2), call(-0.5, 2.0),
        bad_init=[Bad(call(1.0, 2.0, None, 4), "Hardtanh(): expected arguments min, max, name", TypeError)]),
    activation("ThresholdedReLU", lambda x: np.where(x > 0.25, x, -1), call(0.25, -1.0)),
    LayerRow("Softmax2D", call(), IMAGES, ref=lambda x: _softmax(x, -3),
        bad=[Bad(call(np.ones((2, 3))), "Softmax2D(x): expected a 3-D or 4-D tensor", AssertionError)]),
    LayerRow("Maxout", call(2), IMAGES, ref=_maxout,
        bad=[Bad(call(np.ones((1, 3, 1, 1))), "maxout(groups): expected a divisor of the 3 channels, got 2")]),
    LayerRow("PReLU", call(4, 0.5), IMAGES, {"_weight": (4,)}, lambda x, _weight: np.where(x > 0, x, x * _weight[:, None, None]),
        bad=[Bad(call(np.ones((2, 3))), "prelu(weight): expected 1 element or 3, one for each channel", AssertionError)]),
    LayerRow("RReLU", call(0.25, 0.75), SHAPES, ref=lambda x: np.where(x < 0, x / 2, x), modes=("eval",)),
]  # fmt: skip
