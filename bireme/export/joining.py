"""Calls that follow each other become one: what a convolution is followed by, and products of integers."""

from __future__ import annotations

from collections import Counter

import numpy as np

from bireme.export.graph import ALIASES, Call, Graph, Value

_ACTIVATIONS = {
    "Relu": lambda c: ("RELU", 0.0, 0.0),
    "HardSwish": lambda c: ("HARDSWISH", 0.0, 0.0),
    "HardSigmoid": lambda c: ("HARDSIGMOID", c.attributes.get("alpha", 0.2), c.attributes.get("beta", 0.5)),
    "Sigmoid": lambda c: ("SIGMOID", 0.0, 0.0),
    "Tanh": lambda c: ("TANH", 0.0, 0.0),
    "LeakyRelu": lambda c: ("LEAKY", c.attributes.get("alpha", 0.01), 0.0),
    "Clip": lambda c: _clip(c),
}


def _clip(call: Call) -> tuple[str, float, float] | None:
    """A Clip, if its bounds are known."""
    found = [-np.inf, np.inf]
    for i, bound in enumerate(call.inputs[1:]):
        if bound is not None:
            if bound.data is None:
                return None
            found[i] = float(bound.data)
    return "CLIP", found[0], found[1]


def with_integers(graph: Graph) -> Graph:
    """Products of quantized operands become products of integers of 8 bits, as do calls that keep values between them."""
    calls = list(graph.calls)
    made_by: dict[Value, Call] = {}
    found: list[Call] = []
    for call in calls:
        x = call.inputs[0] if call.inputs else None
        before = made_by.get(x) if x is not None else None
        if before is not None and before.op == "DequantizeLinear":
            call = _of_integers(call, before, found) or call
        found.append(call)
        made_by.update(dict.fromkeys(call.outputs, call))
    return _alive(Graph(graph.inputs, graph.outputs, found))


MOVING = ("Relu", "MaxPool", "Transpose", *ALIASES)  # calls that give the same for integers as for what they stand for


def _of_integers(call: Call, before: Call, calls: list[Call]) -> Call | None:
    """A call of the numbers that `before` makes of integers, as a call of these; None where there is none."""
    scale = _scale(before)
    q, x = before.inputs[0], before.outputs[0]
    if scale is None or q is None:
        return None
    if call.op == "QuantizeLinear" and _scale(call) == scale:
        return Call("Identity", [q], call.outputs)
    if call.op in MOVING and len(call.outputs) == 1:
        out = call.outputs[0]
        inner = Value(f"{out.name}.integers", out.shape, q.dtype)
        calls.append(Call(call.op, [q, *call.inputs[1:]], [inner], call.attributes))
        return Call("DequantizeLinear", [inner, *before.inputs[1:]], call.outputs, before.attributes)
    weight = call.inputs[1] if len(call.inputs) > 1 else None
    held = weight.integers if weight is not None else None
    if call.op not in ("Conv", "MatMul", "Gemm") or held is None or weight is None or x.dtype != np.float32:
        return None
    turned = bool(call.attributes.get("transB"))
    axis = 0 if call.op == "Conv" or turned else 1
    usual = all(call.attributes.get(k, d) == d for k, d in (("transA", 0), ("alpha", 1.0), ("beta", 1.0)))
    if call.op != "Conv" and (len(weight.shape) != 2 or not usual):
        return None
    if held.scale.size > 1 and held.axis != axis:
        return None
    bias = call.inputs[2] if len(call.inputs) > 2 else None
    if bias is not None and (bias.data is None or bias.data.size not in (1, weight.shape[axis])):
        return None
    scales = np.broadcast_to(held.scale.reshape(-1) * scale, weight.shape[axis : axis + 1]).astype(np.float32)
    matrix = held.data if axis == 0 else held.data.T
    integers = Value(f"{weight.name}.integers", matrix.shape, matrix.dtype, np.ascontiguousarray(matrix))
    factors = Value(f"{weight.name}.scales", scales.shape, scales.dtype, scales)
    op = "ConvOfIntegers" if call.op == "Conv" else "MatMulOfIntegers"
    return Call(op, [q, integers, bias, factors], call.outputs, call.attributes)


def _scale(call: Call) -> float | None:
    """The scale of a call that makes integers of numbers or numbers of integers, if it is one known number without a zero point."""
    scale = call.inputs[1]
    zero = call.inputs[2] if len(call.inputs) > 2 else None
    if scale is None or scale.data is None or scale.size != 1:
        return None
    whole = call.inputs[0] if call.op == "DequantizeLinear" else call.outputs[0]
    if whole is None or whole.dtype != np.int8 or (zero is not None and (zero.data is None or zero.data.any())):
        return None
    return float(scale.data.reshape(-1)[0])


def _alive(graph: Graph) -> Graph:
    """Without calls whose results nobody reads."""
    read = set(graph.outputs)
    kept = []
    for call in reversed(graph.calls):
        if call.op in ("ScanBegin", "ScanEnd") or any(v in read for v in call.outputs):
            kept.append(call)
            read.update(v for v in call.inputs if v is not None)
    return Graph(graph.inputs, graph.outputs, kept[::-1])


PRODUCTS = ("ConvOfIntegers", "MatMulOfIntegers")


def joined(graph: Graph) -> Graph:
    """Normalization, biases and activations that follow a convolution become a part of it."""
    calls = graph.calls
    while True:
        uses = Counter(v for c in calls for v in c.inputs if v is not None)
        uses.update(graph.outputs)
        made_by = {v: c for c in calls for v in c.outputs}
        for call in calls:
            before = made_by.get(call.inputs[0]) if call.inputs and call.inputs[0] is not None else None
            if before is None and call.op == "Add" and call.inputs[1] is not None:
                before = made_by.get(call.inputs[1])
            if before is None or len(before.outputs) > 1 or uses[before.outputs[0]] != 1:
                continue
            if (
                call.op == "Identity"
                or (before.op == "Conv" and before.activation is None and _join(before, call))
                or (before.op in PRODUCTS and _join_product(before, call))
            ):
                before.outputs = call.outputs
                calls = [c for c in calls if c is not call]
                break
        else:
            return Graph(graph.inputs, graph.outputs, calls)


def _join_product(product: Call, call: Call) -> bool:
    """Take an activation, then rounding, into the product of integers before it; after rounding a ReLU still can be."""
    if call.op == "QuantizeLinear" and "rounded" not in product.attributes:
        scale = _scale(call)
        if scale is not None:
            product.attributes = {**product.attributes, "rounded": scale}
        return scale is not None
    if product.activation is not None or ("rounded" in product.attributes and call.op != "Relu"):
        return False
    if call.op in _ACTIVATIONS:
        product.activation = _ACTIVATIONS[call.op](call)
    return product.activation is not None


def _join(conv: Call, call: Call) -> bool:
    """Take a call into the convolution before it, if it can be."""
    weight = conv.inputs[1]
    bias = conv.inputs[2] if len(conv.inputs) > 2 else None
    if weight is None or weight.data is None or (bias is not None and bias.data is None):
        return False
    filters = weight.shape[0]
    own = np.zeros(filters) if bias is None or bias.data is None else bias.data.astype(np.float64)
    known = [v.data.astype(np.float64) for v in call.inputs[1:5] if v is not None and v.data is not None]
    if call.op == "BatchNormalization" and len(known) == 4:
        scale, shift, mean, variance = known
        factor = scale / np.sqrt(variance + call.attributes.get("epsilon", 1e-5))
        scaled = weight.data.astype(np.float64) * factor.reshape(-1, *[1] * (weight.data.ndim - 1))
        conv.inputs[1] = Value(weight.name, weight.shape, weight.dtype, scaled.astype(weight.dtype))
        return _with_bias(conv, weight, (own - mean) * factor + shift)
    if call.op == "Add":
        other = next((v for v in call.inputs if v is not conv.outputs[0]), None)
        if other is None or other.data is None:
            return False
        rank = len(conv.outputs[0].shape)
        aligned = np.asarray(other.data).reshape((1,) * (rank - other.data.ndim) + other.data.shape)
        if call.outputs[0].shape != conv.outputs[0].shape or aligned.size not in (1, filters):
            return False
        if aligned.size == filters != 1 and aligned.shape[1] != filters:
            return False
        return _with_bias(conv, weight, own + aligned.reshape(-1).astype(np.float64))
    if call.op in _ACTIVATIONS:
        conv.activation = _ACTIVATIONS[call.op](call)
        return conv.activation is not None
    return False


def _with_bias(conv: Call, weight: Value, bias: np.ndarray) -> bool:
    value = Value(f"{weight.name}.bias", bias.shape, weight.dtype, bias.astype(weight.dtype))
    conv.inputs[2:] = [value]
    return True
