"""The graph of a model: its ONNX form at fixed sizes, where what only sizes and weights decide is computed."""

from __future__ import annotations

import os
import tempfile
from typing import Any, NamedTuple

import numpy as np

import bireme.onnx as onnx_files
from bireme.core.base import errors
from bireme.core.base.extras import extra
from bireme.export.graph import Call, Graph, Integers, Scan, Value
from bireme.export.joining import joined, with_integers
from bireme.export.models import fixed_specs
from bireme.onnx.packages import onnx as onnx_package
from bireme.static import InputSpec

SIZES = ("Shape", "Size")  # calls that look at the sizes of an operand alone


def graph_of(layer: Any, sizes: dict[str, tuple[int, ...]], specs: list[InputSpec]) -> Graph:
    """The graph of a layer at these sizes of its inputs."""
    onnx, runtime = onnx_package(), extra("onnxruntime", "onnx", "to export C")
    fixed = fixed_specs(specs, sizes, "C")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx_files.export(layer, path, fixed)
        proto = onnx.load(path)
    of_type = onnx.helper.tensor_dtype_to_np_dtype
    given = {
        x.name: Value(x.name, tuple(spec.shape), of_type(x.type.tensor_type.elem_type))
        for x, spec in zip(proto.graph.input, fixed, strict=True)
    }
    calls, values = _read(_Tools(onnx, runtime, proto), proto.graph, dict(given))
    return joined(with_integers(Graph(list(given.values()), [values[x.name] for x in proto.graph.output], calls)))


class _Tools(NamedTuple):
    onnx: Any
    runtime: Any
    proto: Any  # the whole model, whose versions hold


def _read(tools: _Tools, graph: Any, around: dict[str, Value]) -> tuple[list[Call], dict[str, Value]]:
    """The calls of a graph that depend on numbers of its inputs, and all values by name; everything else is a constant.

    `around` holds the inputs, and what a body may read besides.
    """
    to_array = tools.onnx.numpy_helper.to_array
    values = dict(around)
    for t in graph.initializer:
        array = to_array(t)
        values[t.name] = Value(t.name, array.shape, array.dtype, array)
    arrays = _run(tools, graph, values)
    calls: list[Call] = []
    for node in graph.node:
        depends = node.op_type not in SIZES and any(values[name].data is None for name in _reads(node, values))
        for name in filter(None, node.output):
            a = arrays[name]
            values[name] = Value(name, tuple(a.shape), a.dtype, None if depends else np.asarray(a))
        attributes = {a.name: tools.onnx.helper.get_attribute_value(a) for a in node.attribute}
        inputs = [values[name] if name else None for name in node.input]
        outputs = [values[name] for name in node.output if name]
        if not depends:
            if node.op_type == "DequantizeLinear":
                outputs[0].integers = _integers(inputs, attributes)
        elif node.op_type == "Scan":
            calls += _scan(tools, node, attributes, values)
        else:
            calls.append(Call(node.op_type, inputs, outputs, attributes))
    return calls, values


def _reads(node: Any, known: Any) -> set[str]:
    """Names that a node reads, in bodies as well."""
    found = {name for name in node.input if name}
    for attribute in node.attribute:
        for inner in attribute.g.node:
            found |= _reads(inner, known)
        found |= {x.name for x in attribute.g.output}
    return {name for name in found if name in known}


def _run(tools: _Tools, graph: Any, values: dict[str, Value]) -> dict[str, np.ndarray]:
    """What every result is like, from one run on zeros: shapes, and what does not depend on the inputs' numbers."""
    onnx, runtime = tools.onnx, tools.runtime
    alone = onnx.ModelProto(ir_version=tools.proto.ir_version, opset_import=tools.proto.opset_import)
    alone.graph.name = "alone"
    names: set[str] = set()
    for node in graph.node:
        if node.op_type != "Scan" and any(a.HasField("g") or a.graphs for a in node.attribute):
            message = f"{node.op_type} holds a graph of its own, a branch or a loop, which has no form in C yet"
            raise errors.failure(message, kind=NotImplementedError)
        names |= _reads(node, values)
        alone.graph.node.append(node)
        alone.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    feeds = {}
    for name in sorted(names):
        value = values[name]
        if value.data is not None:
            alone.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value.data), name))
        else:
            feeds[name] = np.zeros(value.shape, value.dtype)
            kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            alone.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, list(value.shape)))
    outputs = [x.name for x in alone.graph.output]
    if not outputs:
        return {}
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = runtime.InferenceSession(alone.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(outputs, session.run(outputs, feeds), strict=True))


def _integers(inputs: list[Value | None], attributes: dict[str, Any]) -> Integers | None:
    """The integers of 8 bits that a constant is made from, if they have no zero point."""
    x, scale, zero = (*inputs, None)[:3]
    assert x is not None and x.data is not None and scale is not None and scale.data is not None
    if x.dtype != np.int8 or len(scale.shape) > 1 or (zero is not None and (zero.data is None or zero.data.any())):
        return None
    return Integers(x.data, scale.data, attributes.get("axis", 1) % max(len(x.shape), 1))


def _scan(tools: _Tools, node: Any, attributes: dict[str, Any], values: dict[str, Value]) -> list[Call]:
    """The body of a Scan between the two calls that begin and end it."""
    body, count = attributes["body"], attributes["num_scan_inputs"]
    if any(any(attributes.get(f"scan_{which}_axes", [])) for which in ("input", "output")):
        raise errors.failure("Scan along another axis than the first has no form in C yet", kind=NotImplementedError)
    given = [values[name] for name in node.input]
    starts, sources = given[:-count], given[-count:]
    states = [Value(x.name, v.shape, v.dtype) for x, v in zip(body.input, starts, strict=False)]
    rows = [Value(x.name, v.shape[1:], v.dtype) for x, v in zip(body.input[len(starts) :], sources, strict=True)]
    own = {v.name: v for v in (*states, *rows)}
    calls, inner = _read(tools, body, {**values, **own})
    made = [inner[x.name] for x in body.output]
    n = len(starts)
    collected = [values[name] for name in node.output[n:]]
    ways = [
        list(attributes.get(f"scan_{w}_directions", [0] * m)) for w, m in (("input", count), ("output", len(collected)))
    ]
    finals = [values[name] if name else None for name in node.output[:n]]
    loop = Scan(
        sources[0].shape[0], (ways[0], ways[1]), starts, sources, states, rows, made[:n], made[n:], collected, finals
    )
    around = [values[name] for name in _reads(node, values) if values[name].data is None]
    begin = Call("ScanBegin", [*given], [*states, *rows, *collected], {"scan": loop})
    # what the body reads of the outside has to stay until the last step
    last = [*made, *states, *collected, *around]
    return [begin, *calls, Call("ScanEnd", [*last], [v for v in finals if v is not None], {"scan": loop})]
