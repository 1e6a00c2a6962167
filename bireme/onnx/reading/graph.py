"""Graphs: their nodes in order, each a few public calls, on tensors or on variables of a program."""

from __future__ import annotations

from typing import Any

from bireme import ops
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.packages import onnx
from bireme.onnx.reading import (
    control,
    elementwise,
    indexing,
    neural,
    quantized,
    recurrent,
    reductions,
    resizing,
    sequences,
    shapes,
    signals,
    windows,
)
from bireme.onnx.reading.file import wrong
from bireme.onnx.reading.narrow import Narrow, value_of
from bireme.onnx.reading.sequences import Sequence
from bireme.onnx.reading.table import MEANINGS, Node

FAMILIES = (control, elementwise, indexing, neural, quantized, recurrent, reductions, resizing, sequences, shapes,
            signals, windows)  # fmt: skip  # imported: they fill the table
DOMAINS = {"": "", "ai.onnx": "", "ai.onnx.ml": "ai.onnx.ml:", "ai.onnx.preview": "ai.onnx.preview:"}
TAKES_NARROW = frozenset(("Cast", "CastLike", "Identity", "QuantizeLinear", "DequantizeLinear", "If", "Loop", "Scan"))
IN_FLOAT32 = frozenset(("Attention",))
MAX_DEPTH = 32  # of functions in functions, and graphs in graphs


class Scope:
    """Values by name, those of graphs around included; and what holds for the whole file."""

    def __init__(
        self, opsets: dict[str, int], functions: dict[tuple, Any], folder: str | None, outer: Scope | None = None
    ):
        self.opsets, self.functions, self.folder, self.outer = opsets, functions, folder, outer
        self.values: dict[str, Any] = {}
        self.depth: int = 0 if outer is None else outer.depth + 1
        if self.depth > MAX_DEPTH:
            raise wrong(f"graphs of at most {MAX_DEPTH} levels", "more")

    def find(self, name: str) -> Any:
        """The value of a name; None for an input that is left out."""
        if not name:
            return None
        here: Scope | None = self
        while here is not None:
            if name in here.values:
                return here.values[name]
            here = here.outer
        raise wrong("a graph whose nodes read what comes before them", f"{name!r}, which nothing gives")

    def inner(self, values: dict[str, Any]) -> Scope:
        """A scope for a graph inside of a node."""
        made = Scope(self.opsets, self.functions, self.folder, self)
        made.values = dict(values)
        return made

    def call(self, graph: Any, given: list[Any]) -> list[Any]:
        """Run a graph that is an attribute of a node."""
        if len(given) < len(graph.input):
            raise wrong(f"{len(graph.input)} inputs of graph {graph.name!r}", str(len(given)))
        inner = self.inner({x.name: value for x, value in zip(graph.input, given)})
        for t in graph.initializer:
            inner.values.setdefault(t.name, value_of(t, self.folder))
        inner.run(graph.node)
        return [inner.find(x.name) for x in graph.output]

    def run(self, nodes: Any) -> None:
        """Make the calls that nodes mean."""
        for proto in nodes:
            made = self.meant(proto, [self.find(name) for name in proto.input])
            if len(made) < len([x for x in proto.output if x]) and any(x for x in list(proto.output)[len(made) :]):
                raise wrong(f"at most {len(made)} outputs of node {proto.op_type}", str(len(proto.output)))
            self.values.update({name: x for name, x in zip(proto.output, made) if name})

    def meant(self, proto: Any, given: list[Any]) -> list[Any]:
        """The results of a node."""
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        function = self.functions.get((domain, proto.op_type))
        version = self.opsets.get(domain, 1)
        meaning = None if domain not in DOMAINS else MEANINGS.get(DOMAINS[domain] + proto.op_type)
        if function is None and meaning is None:
            function = standard_function(proto, version, given)
            if function is not None and proto.op_type in IN_FLOAT32:
                return self._in_float32(function, proto, given)
        if function is not None:
            return self._called(function, proto, given)
        if meaning is None:
            what = f"{domain}.{proto.op_type}" if domain else proto.op_type
            raise wrong("nodes that are known", f"{what} of version {version}")
        node = Node(proto, version, self)
        if proto.op_type not in TAKES_NARROW:
            given = [x.tensor if isinstance(x, Narrow) else x for x in given]
        try:
            made = meaning(node, *given)
        except TypeError as e:
            if "positional argument" in str(e) and meaning.__code__.co_name in str(e):
                raise node.bad("as many inputs as the node has", str(len(given))) from None
            raise
        return list(made) if isinstance(made, (list, tuple)) and not isinstance(made, Sequence) else [made]

    def _in_float32(self, function: Any, proto: Any, given: list[Any]) -> list[Any]:
        """A function whose sums are not to be held in half precision."""
        halves = [x.dtype for x in given if isinstance(x, Tensor) and x.dtype.kind == "f" and x.dtype.itemsize < 4]
        if not halves:
            return self._called(function, proto, given)
        wide = [ops.cast(x, "float32") if isinstance(x, Tensor) and x.dtype in halves else x for x in given]
        made = self._called(standard_function(proto, self.opsets.get(proto.domain, 1), wide) or function, proto, wide)
        return [ops.cast(x, halves[0]) if isinstance(x, Tensor) and x.dtype.name == "float32" else x for x in made]

    def _called(self, function: Any, proto: Any, given: list[Any]) -> list[Any]:
        """What a function of the file, or of ONNX, gives."""
        opsets = {**self.opsets, **{x.domain: x.version for x in function.opset_import}}
        inner = Scope(opsets, self.functions, self.folder)
        inner.depth = self.depth + 1
        if inner.depth > MAX_DEPTH:
            raise wrong(f"functions of at most {MAX_DEPTH} levels", "more")
        for name, value in zip(function.input, given):
            inner.values[name] = value
        for name in list(function.input)[len(given) :]:
            inner.values[name] = None
        attributes = {a.name: a for a in function.attribute_proto} | {a.name: a for a in proto.attribute}
        inner.run([_with_attributes(n, attributes) for n in function.node])
        wanted = zip(function.output, [*proto.output, *[""] * len(function.output)])
        return [inner.find(name) if asked else None for name, asked in wanted]


def _with_attributes(proto: Any, given: dict[str, Any]) -> Any:
    """A node of a function with the attributes that the call has."""
    if not any(a.ref_attr_name for a in proto.attribute) and not any(a.HasField("g") for a in proto.attribute):
        return proto
    made = onnx().NodeProto()
    made.CopyFrom(proto)
    del made.attribute[:]
    for a in proto.attribute:
        if a.ref_attr_name:
            if a.ref_attr_name in given:
                new = made.attribute.add()
                new.CopyFrom(given[a.ref_attr_name])
                new.name = a.name
            continue
        new = made.attribute.add()
        new.CopyFrom(a)
        if a.HasField("g"):
            nodes = [_with_attributes(n, given) for n in a.g.node]
            del new.g.node[:]
            new.g.node.extend(nodes)
    return made


def standard_function(proto: Any, version: int, given: list[Any]) -> Any:
    """The function that ONNX itself says a node is, where it says so."""
    defs = onnx("defs")
    if not defs.has(proto.op_type, proto.domain):
        return None
    try:
        schema = defs.get_schema(proto.op_type, version, proto.domain)
    except defs.SchemaError:
        return None
    if schema.has_function:
        return schema.function_body
    if not schema.has_context_dependent_function:
        return None
    types = [_type_of(x) for x in given]
    for since in sorted(schema.context_dependent_function_opset_versions, reverse=True):
        if since <= version:
            found = onnx().FunctionProto()
            try:
                found.ParseFromString(
                    schema.get_context_dependent_function_with_opset_version(since, proto.SerializeToString(), types)
                )
            except (RuntimeError, TypeError, ValueError):  # a node that its function is not for
                return None
            return found if found.node else None
    return None


def _type_of(x: Any) -> bytes:
    helper = onnx("helper")
    if isinstance(x, Narrow):
        return helper.make_tensor_type_proto(x.code, list(x.tensor.shape)).SerializeToString()
    if not isinstance(x, Tensor):
        return onnx().TypeProto().SerializeToString()
    shape = [int(n) if n >= 0 else None for n in x.shape]
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(x.dtype.np), shape).SerializeToString()
