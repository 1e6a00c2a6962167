"""Meanings of nodes of networks: products, normalization, losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bireme import ops
from bireme.core.program.variable import Variable
from bireme.onnx.reading.table import Node, axis_of, dtype_of, ints, means, tensor


@means("MatMul")
def _(n: Node, x: Any, y: Any) -> Any:
    if x.dtype.kind == "i":
        return ops.cast(ops.matmul(ops.cast(x, "int64"), ops.cast(y, "int64")), x.dtype)
    return ops.matmul(x, y)


@means("Gemm")
def _(n: Node, a: Any, b: Any, c: Any = None) -> Any:
    made = ops.matmul(a, b, bool(n.attr("transA", 0)), bool(n.attr("transB", 0)))
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    made = made if alpha == 1 else made * alpha
    if c is None:
        return made
    return made + (c if beta == 1 else c * beta)


@means("Einsum")
def _(n: Node, *given: Any) -> Any:
    return ops.einsum(n.attr("equation").replace(" ", ""), *given)


@means("Det")
def _(n: Node, x: Any) -> Any:
    return ops.det(x)


@means("BatchNormalization")
def _(n: Node, x: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
    epsilon, momentum = n.attr("epsilon", 1e-5), n.attr("momentum", 0.9)
    if not n.attr("training_mode", 0) and (n.version >= 14 or n.version >= 7 or n.attr("is_test", 0)):
        return _normalized(x, mean, variance, scale, shift, epsilon)
    axes = [0, *range(2, x.ndim)]
    now, spread = ops.mean(x, axis=axes), ops.var(x, axis=axes, unbiased=False)
    made = _normalized(x, now, spread, scale, shift, epsilon)
    return [made, mean * momentum + now * (1 - momentum), variance * momentum + spread * (1 - momentum)]


def _normalized(x: Any, mean: Any, variance: Any, scale: Any, shift: Any, epsilon: float) -> Any:
    if x.dtype is mean.dtype and x.dtype is scale.dtype and x.ndim > 1:
        return ops.batch_norm(x, mean, variance, scale, shift, False, 0.9, epsilon)
    shape = [-1, *[1] * (x.ndim - 2)]
    mean, variance, scale, shift = (ops.reshape(v, shape) if x.ndim > 1 else v for v in (mean, variance, scale, shift))
    return ops.cast((x - mean) / ops.sqrt(variance + epsilon) * scale + shift, x.dtype)


@means("InstanceNormalization")
def _(n: Node, x: Any, scale: Any, shift: Any) -> Any:
    return ops.instance_norm(x, None, None, scale, shift, True, 0.9, n.attr("epsilon", 1e-5))


@means("LayerNormalization")
def _(n: Node, x: Any, scale: Any, shift: Any = None) -> Any:
    axis = axis_of(n.attr("axis", -1), x)
    axes = list(range(axis, x.ndim))
    wide = ops.cast(x, "float32") if x.dtype.itemsize < 4 else x
    mean = ops.mean(wide, axis=axes, keepdim=True)
    rest = wide - mean
    inverse = ops.rsqrt(ops.mean(rest * rest, axis=axes, keepdim=True) + n.attr("epsilon", 1e-5))
    plain = n.count == 1 and not isinstance(x, Variable) and scale.shape == x.shape[axis:]
    if plain and x.dtype is scale.dtype and (shift is None or shift.shape == scale.shape):
        return ops.layer_norm(x, x.shape[axis:], scale, shift, n.attr("epsilon", 1e-5))
    made = ops.cast(rest * inverse, x.dtype) * scale
    return [made if shift is None else made + shift, mean, inverse]


@means("RMSNormalization")
def _(n: Node, x: Any, scale: Any) -> Any:
    axes = list(range(axis_of(n.attr("axis", -1), x), x.ndim))
    wide = ops.cast(x, "float32") if x.dtype.itemsize < 4 else x
    made = wide * ops.rsqrt(ops.mean(wide * wide, axis=axes, keepdim=True) + n.attr("epsilon", 1e-5))
    return ops.cast(made, x.dtype) * scale


@means("LRN")
def _(n: Node, x: Any) -> Any:
    size = n.attr("size")
    before = (size - 1) // 2
    squares = ops.concat(
        [ops.zeros([x.shape[0], before, *x.shape[2:]], x.dtype), x * x,
         ops.zeros([x.shape[0], size - 1 - before, *x.shape[2:]], x.dtype)],
        axis=1,
    ) if not isinstance(x, Variable) else None  # fmt: skip
    if squares is None:
        return ops.local_response_norm(x, size, n.attr("alpha", 1e-4), n.attr("beta", 0.75), n.attr("bias", 1.0))
    total = sum([ops.slice(squares, [1], [i], [i + x.shape[1]]) for i in range(size)])
    return x / (n.attr("bias", 1.0) + n.attr("alpha", 1e-4) / size * total) ** n.attr("beta", 0.75)


@means("LpNormalization")
def _(n: Node, x: Any) -> Any:
    axis, p = axis_of(n.attr("axis", -1), x), n.attr("p", 2)
    size = ops.sum(ops.abs(x), axis=axis, keepdim=True) if p == 1 else ops.sqrt(ops.sum(x * x, axis=axis, keepdim=True))
    return ops.where(ops.equal(size, ops.zeros_like(size)), ops.zeros_like(x), x / size)


@means("MeanVarianceNormalization")
def _(n: Node, x: Any) -> Any:
    axes = n.attr("axes") or [0, 2, 3]
    rest = x - ops.mean(x, axis=axes, keepdim=True)
    return rest / (ops.sqrt(ops.mean(rest * rest, axis=axes, keepdim=True)) + 1e-9)


@means("AffineGrid")
def _(n: Node, theta: Any, size: Any) -> Any:
    sizes = ints(size)[2:]
    steps = []
    for m in sizes:
        at = np.linspace(-1, 1, m) if n.attr("align_corners", 0) else (2 * np.arange(m) + 1) / m - 1
        steps.append(at.reshape(-1))
    grid = np.stack([*np.meshgrid(*steps, indexing="ij")[::-1], np.ones(sizes)], -1)
    flat = tensor(grid.reshape(1, -1, len(sizes) + 1).astype(theta.dtype.np))
    return ops.reshape(ops.matmul(flat, theta, transpose_y=True), [theta.shape[0], *sizes, len(sizes)])


# ------------------------------------------------------------ losses


@means("NegativeLogLikelihoodLoss")
def _(n: Node, x: Any, target: Any, weight: Any = None) -> Any:
    return _nll(n, x, target, weight)


def _nll(n: Node, x: Any, target: Any, weight: Any) -> Any:
    ignored, how = n.attr("ignore_index"), n.attr("reduction", "mean")
    at = ops.cast(target, "int64")
    kept = ops.ones_like(at) if ignored is None else ops.cast(ops.not_equal(at, ops.full_like(at, ignored)), "int64")
    at = at * kept
    picked = ops.squeeze(ops.take_along_axis(x, ops.unsqueeze(at, 1), 1, False), [1])
    each = ops.cast(kept, x.dtype)
    if weight is not None:
        each = each * ops.reshape(ops.index_select(weight, ops.reshape(at, [-1])), at.shape)
    loss = -picked * each
    if how == "none":
        return loss
    return ops.sum(loss) / ops.sum(each) if how == "mean" else ops.sum(loss)


@means("SoftmaxCrossEntropyLoss")
def _(n: Node, x: Any, target: Any, weight: Any = None) -> Any:
    logs = ops.log_softmax(x, 1)
    return [_nll(n, logs, target, weight), logs]


@means("HannWindow", "HammingWindow", "BlackmanWindow")
def _(n: Node, size: Any) -> Any:
    (count,) = ints(size)
    steps = 2 * math.pi * np.arange(count) / (count if n.attr("periodic", 1) else count - 1)
    kind = n.proto.op_type
    if kind == "HannWindow":
        made = 0.5 - 0.5 * np.cos(steps)
    elif kind == "HammingWindow":
        made = 25 / 46 - 21 / 46 * np.cos(steps)
    else:
        made = 0.42 - 0.5 * np.cos(steps) + 0.08 * np.cos(2 * steps)
    return tensor(made.astype(dtype_of(n.attr("output_datatype", 1)).np))
