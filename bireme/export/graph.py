"""A model at fixed sizes as a list of simple calls: what only sizes and weights decide is computed, and layers that follow each
other are joined.

The calls are ONNX's, since every graph has a form there. Each tensor has a shape that is known.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import bireme.onnx as onnx_files
from bireme.core.base import errors
from bireme.core.base.extras import extra
from bireme.onnx.packages import onnx as onnx_package
from bireme.static import InputSpec

SIZES = ("Shape", "Size")  # calls that look at the sizes of an operand alone
ALIASES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Dropout")


@dataclass(eq=False)
class Value:
    """A tensor of the graph; with `data` if it is known at export."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    data: np.ndarray | None = None

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(eq=False)
class Call:
    """One call: what, of which values, giving which."""

    op: str
    inputs: list[Value | None]
    outputs: list[Value]
    attributes: dict[str, Any] = field(default_factory=dict)
    activation: tuple[str, float, float] | None = None  # joined to it: what, and its two numbers


@dataclass
class Graph:
    """Calls in order, with what goes in and comes out."""

    inputs: list[Value]
    outputs: list[Value]
    calls: list[Call]


def graph_of(layer: Any, sizes: dict[str, tuple[int, ...]], specs: list[InputSpec]) -> Graph:
    """The graph of a layer at these sizes of its inputs."""
    onnx, runtime = onnx_package(), extra("onnxruntime", "onnx", "to export C")
    fixed = [InputSpec(sizes.get(str(spec.name), spec.shape), spec.dtype, spec.name) for spec in specs]
    for spec in fixed:
        if any(n is None or n < 0 for n in spec.shape):
            message = f"input {spec.name} has the shape {list(spec.shape)}, and C needs every size"
            raise errors.failure(message, hint=f"say --shape {spec.name}=1,3,224,224, or shapes=", kind=ValueError)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx_files.export(layer, path, fixed)
        proto = onnx.load(path)
    values = _values(onnx, runtime, proto, [spec.shape for spec in fixed])
    names = {x.name for x in proto.graph.input}
    return _joined(_folded(onnx, proto, values, names))


def _values(onnx: Any, runtime: Any, proto: Any, shapes: list[Any]) -> dict[str, np.ndarray]:
    """What every tensor is like, from one run on zeros: shapes, and what does not depend on the inputs' numbers."""
    wider = onnx.ModelProto()
    wider.CopyFrom(proto)
    known = {x.name for x in wider.graph.output}
    for node in wider.graph.node:
        if any(a.HasField("g") or a.graphs for a in node.attribute):
            message = f"{node.op_type} holds a graph of its own, a branch or a loop, which has no form in C yet"
            raise errors.failure(message, kind=NotImplementedError)
        for name in node.output:
            if name and name not in known:
                wider.graph.output.append(onnx.ValueInfoProto(name=name))
                known.add(name)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = runtime.InferenceSession(wider.SerializeToString(), options, providers=["CPUExecutionProvider"])
    of_type = onnx.helper.tensor_dtype_to_np_dtype
    zeros = {
        x.name: np.zeros(shape, of_type(x.type.tensor_type.elem_type))
        for x, shape in zip(wider.graph.input, shapes, strict=True)
    }
    outputs = [x.name for x in wider.graph.output]
    found = dict(zip(outputs, session.run(outputs, zeros), strict=True))
    found |= zeros
    found |= {t.name: onnx.numpy_helper.to_array(t) for t in wider.graph.initializer}
    return found


def _folded(onnx: Any, proto: Any, values: dict[str, np.ndarray], given: set[str]) -> Graph:
    """Calls that depend on the inputs' numbers; everything else is a constant."""
    variable = set(given)
    for node in proto.graph.node:
        if node.op_type not in SIZES and any(name in variable for name in node.input):
            variable |= set(node.output)
    made = {
        name: Value(name, tuple(a.shape), a.dtype, None if name in variable else np.asarray(a))
        for name, a in values.items()
    }
    calls = []
    for node in proto.graph.node:
        if not any(name in variable for name in node.output):
            continue
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        op = node.op_type
        inputs = [made[name] if name else None for name in node.input]
        calls.append(Call(op, inputs, [made[name] for name in node.output if name], attributes))
    return Graph([made[x.name] for x in proto.graph.input], [made[x.name] for x in proto.graph.output], calls)


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


def _joined(graph: Graph) -> Graph:
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
            if call.op == "Identity" or (before.op == "Conv" and before.activation is None and _join(before, call)):
                before.outputs = call.outputs
                calls = [c for c in calls if c is not call]
                break
        else:
            return Graph(graph.inputs, graph.outputs, calls)


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
