"""Rows of normalisation over the batch, over groups of channels, over neighbours, and to length one."""

import numpy as np

from tests.table.harness import FLOAT, Bad, Row, call, still
from tests.table.nn.linear import ONE_PASS
from tests.table.samples import floats

BATCHES = {"0-d": "it takes batches of channels only"}
SUMS = (4, "half precision loses digits in sums of many terms")
_mean, _var = floats(3, seed=5), floats(3, low=0.5, high=2, seed=6)
_weight, _bias = floats(3, seed=7), floats(3, seed=8)


def _vector(v, x, axis):
    return v.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


def _affine(y, weight, bias, axis):
    y = y if weight is None else y * _vector(weight, y, axis)
    return y if bias is None else y + _vector(bias, y, axis)


def _batch(x, mean, var, weight, bias, momentum, epsilon, axis):
    axes = tuple(i for i in range(x.ndim) if i != axis)
    momentum, epsilon = float(np.float32(momentum)), float(np.float32(epsilon))
    now, spread = (x.mean(axes), x.var(axes)) if x.size else (np.zeros_like(mean), np.zeros_like(var))
    y = (x - _vector(now, x, axis)) / np.sqrt(_vector(spread, x, axis) + epsilon)
    return [
        _affine(y, weight, bias, axis),
        mean * momentum + now * (1 - momentum),
        var * momentum + spread * (1 - momentum),
    ]


def _given(x, mean, var, weight, bias, epsilon, axis):
    y = (x - _vector(mean, x, axis)) / np.sqrt(_vector(var, x, axis) + float(np.float32(epsilon)))
    return _affine(y, weight, bias, axis)


def _batch_norm(
    x,
    mean,
    var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.9,
    epsilon=1e-5,
    data_format="NCHW",
    use_global_stats=None,
):
    axis = x.ndim - 1 if data_format.endswith("C") and x.ndim > 2 else 1
    if (not training) if use_global_stats is None else use_global_stats:
        return _given(x, mean, var, weight, bias, epsilon, axis)
    return _batch(x, mean, var, weight, bias, momentum, epsilon, axis)[0]


def _groups(x, weight, bias, epsilon, groups, axis):
    if not x.size:
        return x
    first = np.moveaxis(x, axis, 1)
    rows = first.reshape(x.shape[0], groups, -1)
    y = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + float(np.float32(epsilon)))
    return _affine(np.moveaxis(y.reshape(first.shape), 1, axis), weight, bias, axis)


def _group_norm(x, groups, epsilon=1e-5, weight=None, bias=None, data_format="NCHW"):
    return _groups(x, weight, bias, epsilon, groups, x.ndim - 1 if data_format.endswith("C") else 1)


def _instance_norm(x, mean=None, var=None, weight=None, bias=None, eps=1e-5):
    return _groups(x, weight, bias, eps, x.shape[1], 1)


def _response(x, size, alpha=1e-4, beta=0.75, k=1.0, data_format="NCHW"):
    axis = x.ndim - 1 if data_format.endswith("C") else 1
    alpha, beta, k = [float(np.float32(v)) for v in (alpha, beta, k)]
    first = np.moveaxis(x, axis, 0)
    out = np.zeros_like(first)
    for c in range(len(first)):
        near = first[max(0, c - size // 2) : c + (size - 1) // 2 + 1]
        out[c] = first[c] / (k + alpha * (near**2).sum(0) / size) ** beta
    return np.moveaxis(out, 0, axis)


def _normalize(x, p=2, axis=1, epsilon=1e-12):
    length = np.abs(x).max(axis, keepdims=True) if p == np.inf else (np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)
    return x / np.maximum(length, epsilon)


_x4, _last = floats(2, 3, 2, 4), floats(2, 2, 4, 3)
_empty = np.zeros((0, 3, 2))
TABLE = [
    Row("batch_norm_of", [call(_x4, _mean, _var, _weight, _bias, 0.75, 1e-3, 1), call(_last, _mean, _var, None, _bias, 0.9, 1e-5, 3),
        call(floats(5, 3), _mean, _var, _weight, None, 0.5, 1e-5, 1), call(_empty, _mean, _var, _weight, _bias, 0.75, 1e-3, 1)],
        _batch, dtypes=FLOAT, skip=BATCHES, loose=SUMS),
    Row("normalised_by", [call(_x4, _mean, _var, _weight, _bias, 1e-3, 1), call(_last, _mean, _var, None, None, 1e-5, 3),
        call(_empty, _mean, _var, None, _bias, 1e-3, 1)], _given, dtypes=FLOAT, skip=BATCHES, loose=SUMS),
    Row("batch_norm", [call(_x4, still(_mean), still(_var), _weight, _bias), call(_x4, still(_mean), still(_var), _weight, _bias, training=True),
        call(_last, still(_mean), still(_var), training=True, data_format="NHWC", epsilon=1e-3, momentum=0.5),
        call(floats(4, 3), still(_mean), still(_var), bias=_bias, training=True, use_global_stats=True),
        call(floats(4, 3), still(_mean), still(_var), weight=_weight, use_global_stats=False),
        call(_empty, still(_mean), still(_var), training=True)],
        _batch_norm, dtypes=FLOAT, skip=BATCHES, loose=SUMS,
        bad=[Bad(call(floats(3), _mean, _var), "batch_norm(x): expected at least 2 dimensions, batch and channels, got shape [3]",
             AssertionError),
             Bad(call(floats(2, 4), _mean, _var), "batch_norm(x): expected 3 channels in axis 1, as running_mean has, got shape [2, 4]"),
             Bad(call(floats(2, 3), _mean, floats(4)), "batch_norm(running_var): expected shape [3], one element per channel, got shape [4]"),
             Bad(call(_x4, _mean, _var, data_format="CN"), "batch_norm(data_format): expected one of 'NC', 'NCL', 'NCHW', 'NCDHW', 'NLC', 'NHWC', 'NDHWC'")]),
    Row("group_norm_of", [call(floats(2, 4, 3), floats(4), floats(4, seed=1), 1e-3, 2, 1), call(floats(2, 2, 3, 4), floats(4), None, 1e-5, 2, 3),
        call(floats(2, 8), None, None, 1e-3, 2, 1), call(np.zeros((0, 4, 2)), None, floats(4), 1e-5, 2, 1)],
        _groups, dtypes=FLOAT, skip={**BATCHES, **ONE_PASS}, loose=SUMS),
    Row("group_norm", [call(floats(2, 4, 3), 2), call(floats(2, 4, 2, 2), 4, 1e-3, floats(4), floats(4, seed=1)),
        call(floats(2, 2, 3, 4), 2, weight=floats(4), data_format="NHWC"), call(floats(2, 3, 4), 1, data_format="NLC"), call(np.zeros((0, 4, 2)), 2)],
        _group_norm, dtypes=FLOAT, skip=BATCHES, loose=SUMS,
        bad=[Bad(call(floats(2, 4, 3), 3), "group_norm(num_groups): expected a divisor of the 4 channels, got 3"),
             Bad(call(floats(2, 4, 3), 0), "group_norm(num_groups): expected a divisor of the 4 channels, got 0"),
             Bad(call(floats(4), 2), "group_norm(x): expected at least 2 dimensions, batch and channels"),
             Bad(call(floats(2, 4), 2, data_format="NC"), "group_norm(data_format): expected one of 'NCL', 'NCHW', 'NCDHW', 'NLC', 'NHWC', 'NDHWC'")]),
    Row("instance_norm", [call(floats(2, 3, 4)), call(_x4, weight=_weight, bias=_bias, eps=1e-3), call(floats(1, 3, 2, 2, 2), None, None, _weight),
        call(_empty), call(np.zeros((0, 3, 2)), weight=_weight, bias=_bias)], _instance_norm, dtypes=FLOAT, skip=BATCHES, loose=SUMS,
        bad=[Bad(call(floats(2, 4, 3), weight=_weight), "instance_norm(weight): expected shape [4], one element per channel, got shape [3]")]),
    Row("local_response_norm_of", [call(floats(2, 5, 3), 0.5, 0.75, 1.0, 3, 1), call(floats(2, 3, 4), 0.5, 0.25, 2.0, 2, 2),
        call(np.zeros((0, 4, 2)), 0.1, 0.75, 1.0, 5, 1)],
        lambda x, alpha, beta, k, size, axis: _response(x, size, alpha, beta, k, "NLC" if axis == 2 else "NCL"), dtypes=FLOAT, skip=BATCHES),
    Row("local_response_norm", [call(floats(2, 5, 3), 4, 0.5), call(floats(1, 2, 2, 4), 3, alpha=0.5, beta=0.5, k=2.0, data_format="NHWC"),
        call(np.zeros((0, 4, 2)), 5)], _response, dtypes=FLOAT, skip=BATCHES,
        bad=[Bad(call(floats(2, 3), 2), "local_response_norm(x): expected at least 3 dimensions, got shape [2, 3]"),
             Bad(call(np.zeros((2, 0, 4)), 2), "local_response_norm(x): expected at least one element along each axis but the first, got shape [2, 0, 4]"),
             Bad(call(floats(2, 3, 4), 0), "local_response_norm(size): expected a positive integer, got 0")]),
    Row("normalize", [call(floats(2, 3)), call(floats(2, 3, 2), p=1, axis=-1), call(floats(4), p=3, axis=0), call(floats(2, 3), float("inf")),
        call(floats(2, 2), epsilon=10.0), call(np.zeros((0, 3)))], _normalize, dtypes=FLOAT, skip={"0-d": "there is no axis to normalise along"},
        loose=SUMS, bad=[Bad(call(floats(3)), "normalize(axis): expected an axis in [-1, 0], got 1")]),
]  # fmt: skip
