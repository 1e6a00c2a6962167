"""Saved programs: a graph as readable JSON, beside it the weights as safetensors.

The graph names calls, never code: operators by their names, methods of Tensor, and what only programs have. Reading it makes
the same calls possible, and nothing else; every name, index and type in it is checked.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import io
import json
import math
import operator
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, registry
from bireme.core.base.device import Place
from bireme.core.base.dtype import DType
from bireme.core.base.errors import FileFormatError
from bireme.core.declare import precision
from bireme.core.declare.public import INTERNAL, PUBLIC
from bireme.core.graph.graph import sig_of
from bireme.core.program import calls, methods
from bireme.core.program.control_flow import Block, Branch, Loop
from bireme.core.program.program import Operation, Program
from bireme.core.program.program_model import Model
from bireme.core.program.variable import UNKNOWN, Dim, Sample, Symbol
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.files import binary_tensor, safetensors
from bireme.files.atomic import replacing_pair, waiting
from bireme.files.pickler import host_of
from bireme.files.source import Source
from bireme.version import full_version

FORMAT, VERSION = "bireme.program", 1
GRAPH, WEIGHTS = ".json", ".safetensors"
MOST = 1 << 30  # bytes of a graph
DIGEST = "graph"  # among the metadata of the weights: of the graph that was saved with them
TRIES = 20  # to read both while they are being replaced
SIZES = ("add", "sub", "mul", "floordiv", "mod", "neg")


# ---------------------------------------------------------------- names of calls


@functools.cache
def _methods() -> dict[int, str]:
    """Methods of Tensor that programs record, by identity."""
    return {id(_method(name)): name for name in (*methods.RECORDED, *methods.IN_PLACE, "__getitem__", "__setitem__")}


def _method(name: str) -> Any:
    method = getattr(Tensor, name)
    return method.fget if isinstance(method, property) else method


def name_of(call: Any) -> str | None:
    """The name that a call has in a file; None where it has none."""
    made = getattr(call, "op", None)
    if made is not None:
        for table in (PUBLIC, INTERNAL):
            for name in (getattr(call, "__name__", ""), made.name):
                if table.get(name) is call:
                    return name
        name = made.name
        if made.public is call and registry.OPS.get(name) is made:
            return f"extension.{name}"  # of a user, who declares it again before the program is loaded
    if id(call) in _methods():
        return f"Tensor.{_methods()[id(call)]}"
    for name in (*methods.IN_PLACE, "__setitem__"):
        if methods.changed(name) is call:
            return f"changed.{name}"
    name = getattr(call, "__name__", "")
    return f"program.{name}" if calls.CALLS.get(name) is call else None


def call_of(name: Any) -> Callable:
    """The call of a name in a file."""
    if isinstance(name, str):
        kind, _, rest = name.rpartition(".")
        if not kind:
            found = PUBLIC.get(rest) or INTERNAL.get(rest)
            if found is not None and hasattr(found, "op"):
                return found
        elif kind == "Tensor" and rest in _methods().values():
            return _method(rest)
        elif kind == "changed" and (rest in methods.IN_PLACE or rest == "__setitem__"):
            return methods.changed(rest)
        elif kind == "program" and rest in calls.CALLS:
            return calls.CALLS[rest]
        elif kind == "extension":
            return _declared(rest)
    raise FileFormatError(f"an operation {str(name)[:60]!r}, which this version does not know")


def _declared(name: str) -> Callable:
    """The operator that a user declared under a name."""
    found = registry.OPS.get(name)
    if found is None or registry.is_own(found):
        told = f"the program calls {name[:60]!r}, an operator of an extension that is not loaded"
        raise errors.failure(told, hint="import or load what declares it, then load the program")
    return found.public


# ---------------------------------------------------------------- writing


class _Writer:
    """Turns models into JSON; tensors that they read are collected."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.names: dict[int, str] = {}
        self.values: dict[str, Any] = {}
        self.symbols: dict[int, str] = {}

    def model(self, model: Model) -> dict[str, Any]:
        self.values, self.symbols = {}, {}
        operations = self.operations(model.plan().operations)
        return {
            "inputs": [self.symbol(s) for s in model.inputs],
            "results": self.encode(model.results),
            "output_names": model.output_names,
            "values": self.values,
            "operations": operations,
        }

    def operations(self, operations: list[Operation]) -> list[Any]:
        return [self.operation(o) for o in operations]

    def operation(self, o: Operation) -> dict[str, Any]:
        made: dict[str, Any] = {"type": o.type}
        if isinstance(o.call, Branch):
            made |= {"call": "branch", "blocks": [self.block(b) for b in o.call.blocks], "args": self.encode(o.args[0])}
            if o.call.keys is not None:
                made["keys"] = o.call.keys
        elif isinstance(o.call, Loop):
            blocks = [self.block(o.call.test), self.block(o.call.step)]
            made |= {"call": "loop", "blocks": blocks, "args": self.encode(o.args[0])}
        else:
            name = name_of(o.call)
            if name is None:
                raise errors.failure(
                    f"{o.type} cannot be saved: it is no operator of Bireme, called at {errors.location(o.pos)}"
                )
            made |= {"call": name, "args": [self.encode(x) for x in o.args]}
            if o.kwargs:
                made["kwargs"] = {key: self.encode(x) for key, x in o.kwargs.items()}
        made["results"] = self.encode(o.results)
        if o.policy is not None:
            p = o.policy
            lists = {"low": sorted(p.low), "high": sorted(p.high)}
            made["precision"] = {"dtype": p.dtype.name, "level": p.level, "promote": p._rest is None, **lists}
        if not o.grad:
            made["grad"] = False
        if o.scope:
            made["layer"] = o.scope
        if o.pos is not None:
            made["line"] = errors.location(o.pos)
        return made

    def block(self, b: Block) -> dict[str, Any]:
        return {
            "inputs": [self.symbol(s) for s in b.inputs],
            "operations": self.operations(b.operations),
            "results": [self.encode(x) for x in b.results],
        }

    def symbol(self, s: Symbol) -> str:
        known = self.symbols.get(id(s))
        if known is not None:
            return known
        name = s.name
        while name in self.values:
            name += "_"
        self.symbols[id(s)] = name
        shapes = [self.sample(sample) for sample in s.samples]
        made: dict[str, Any] = {"dtype": None if s.samples[0].items is not None else s.dtype.name}
        if s.fixed is not None:
            made["shape"] = list(s.fixed)
        same = all(shape == shapes[0] for shape in shapes)
        if same and s.fixed is None:
            made["shape"] = shapes[0]
        elif not same:
            made["examples"] = shapes
        if not s.stop_gradient:
            made["grad"] = True
        self.values[name] = made
        return name

    def sample(self, sample: Sample) -> Any:
        if sample.items is None:
            return list(sample.sig.shape)
        return {"items": [[x.sig.dtype.name, list(x.sig.shape)] for x in sample.items]}

    def tensor(self, t: Tensor) -> str:
        known = self.names.get(id(t))
        if known is None:
            keeps = isinstance(t, Parameter) or t.persistable
            name = t.name if keeps else f"constant_{len(self.tensors)}"
            while name in self.tensors:
                name += "_"
            self.names[id(t)], self.tensors[name] = name, t
            known = name
        return known

    def encode(self, x: Any) -> Any:
        if x is None or isinstance(x, (bool, str)):
            return x
        if isinstance(x, Dim):
            kind, *rest = x.how
            if kind == "size":
                return {"size": ["of", self.symbol(rest[0]), rest[1]]}
            return {"size": [next(n for n in SIZES if getattr(operator, n) is kind), *map(self.encode, rest)]}
        if isinstance(x, (int, np.integer)):
            return int(x)
        if isinstance(x, (float, np.floating)):
            return float(x) if math.isfinite(x) else {"float": repr(float(x))}
        if isinstance(x, Symbol):
            return {"value": self.symbol(x)}
        if isinstance(x, Tensor):
            return {"tensor": self.tensor(x)}
        if isinstance(x, list):
            return [self.encode(y) for y in x]
        if isinstance(x, tuple):
            return {"tuple": [self.encode(y) for y in x]}
        if isinstance(x, dict):
            return {"dict": [[self.encode(key), self.encode(y)] for key, y in x.items()]}
        if isinstance(x, slice):
            return {"slice": [self.encode(y) for y in (x.start, x.stop, x.step)]}
        if isinstance(x, DType):
            return {"dtype": x.name}
        if isinstance(x, complex):
            return {"complex": [x.real, x.imag]}
        if x is Ellipsis:
            return {"ellipsis": True}
        if isinstance(x, Place):
            return None
        if isinstance(x, np.ndarray):
            made = Tensor(x)
            self.names[id(made)] = name = f"array_{len(self.tensors)}"
            self.tensors[name] = made
            return {"array": name}
        raise errors.failure(f"an argument that is a {type(x).__name__} cannot be saved with a program")


Files = tuple[str, str]  # of a graph and of its weights


def _files(path: str | Files) -> Files:
    return (path + GRAPH, path + WEIGHTS) if isinstance(path, str) else path


def write(path: str | Files, functions: dict[str, Model], extra: dict[str, Any] | None = None) -> None:
    """Write models to `path`.json, their tensors to `path`.safetensors. A reader finds both old or both new at any time."""
    writer = _Writer()
    made = {name: writer.model(model) for name, model in functions.items()}
    graph: dict[str, Any] = {"format": FORMAT, "version": VERSION, "made_by": f"bireme {full_version}"}
    graph["tensors"] = {name: _described(t) for name, t in writer.tensors.items()}
    graph["functions"] = made
    graph |= extra or {}
    text = _text(graph).encode("utf-8", "surrogatepass")
    arrays = {name: host_of(t) for name, t in writer.tensors.items()}
    digest = hashlib.sha256(text).hexdigest()
    program, tensors = _files(path)
    with replacing_pair(tensors, program, digest) as (weights, file):
        safetensors.write(weights, arrays, {DIGEST: digest})
        file.write(text)


def text_of(program: Program) -> str:
    """A program as JSON without the values of its parameters: names, shapes and dtypes stand for them. Constants, which have
    no name by which they could come from elsewhere, are part of it.
    """
    whole = [o for o in program.operations if o.role != "forward"]
    if whole:
        told = f"{whole[0].type} cannot be saved: gradients and updates are no calls of operators"
        raise errors.failure(told, hint="save program.clone(for_test=True), and build the rest again")
    read = {id(x) for o in program.operations for x in o.reads}
    ends = [s for o in program.operations for s in o.makes if id(s) not in read]
    writer = _Writer()
    made = writer.model(Model(program, [s for s in program.symbols.values() if s.is_data], ends))
    graph: dict[str, Any] = {"format": FORMAT, "version": VERSION, "made_by": f"bireme {full_version}"}
    graph["tensors"] = {name: _described(t) | _declared_as(t) for name, t in writer.tensors.items()}
    return _text(graph | {"functions": {"forward": made}})


def _declared_as(t: Tensor) -> dict[str, Any]:
    told: dict[str, Any] = {"dtype": t.dtype.name, "shape": list(t.shape)}
    if not isinstance(t, Parameter) and not t.persistable:
        made = io.BytesIO()
        binary_tensor.write(made, host_of(t))
        told["bytes"] = base64.b64encode(made.getvalue()).decode()
    return told


def of_text(text: bytes, where: str) -> Model:
    """The program that `text_of` gave. Parameters and buffers are zeros: their values come from elsewhere."""
    with _refusing(where, "the text of a program"):
        graph = _graph(text)
        told = _of(graph.get("tensors"), dict, "tensors")
        arrays = {name: _stand_in(name, _of(given, dict, "a tensor")) for name, given in told.items()}
        functions = _of(graph.get("functions"), dict, "functions")
        return _Reader(graph, _tensors(told, arrays)).model(functions.get("forward"))


def _stand_in(name: str, given: dict[str, Any]) -> np.ndarray:
    kind, shape = _dtype(given.get("dtype")), _of(given.get("shape"), list, "a shape")
    if any(type(n) is not int or n < 0 for n in shape) or math.prod(shape) > MOST:
        raise FileFormatError(f"the tensor {name[:60]!r} of shape {str(shape)[:60]}")
    if "bytes" not in given:
        return np.zeros(shape, kind.np)
    data = base64.b64decode(_of(given["bytes"], str, "bytes"), validate=True)
    array = binary_tensor.read(Source(io.BytesIO(data), len(data)))
    if list(array.shape) != shape or dtypes.from_numpy(array.dtype) != kind:
        raise FileFormatError(f"the tensor {name[:60]!r} is not what is told of it")
    return array


def _text(x: Any, indent: str = "", depth: int = 4) -> str:
    """JSON with a line for each operation and each value."""
    if depth and isinstance(x, (dict, list)) and x:
        inner = indent + " "
        if isinstance(x, dict):
            lines = [f"{inner}{json.dumps(k, ensure_ascii=False)}: {_text(y, inner, depth - 1)}" for k, y in x.items()]
            return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
        lines = [inner + _text(y, inner, 0) for y in x]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return json.dumps(x, ensure_ascii=False, allow_nan=False)


def _described(t: Tensor) -> dict[str, Any]:
    kind = "parameter" if isinstance(t, Parameter) else "buffer" if t.persistable else "constant"
    made: dict[str, Any] = {"kind": kind}
    if kind == "parameter":
        made["trainable"] = not t.stop_gradient
    return made


# ---------------------------------------------------------------- reading


class _Reader:
    """Turns JSON into models; nothing in it is trusted."""

    def __init__(self, graph: dict[str, Any], tensors: dict[str, Tensor]):
        self.graph, self.tensors = graph, tensors
        self.symbols: dict[str, Symbol] = {}

    def model(self, given: Any) -> Model:
        given = _of(given, dict, "a function")
        program = Program()
        self.symbols = {name: self.symbol(name, x) for name, x in _of(given.get("values"), dict, "values").items()}
        program.symbols = dict(self.symbols)
        inputs = [self.named(name) for name in _of(given.get("inputs"), list, "inputs")]
        for symbol in inputs:
            symbol.is_data = True
        for operation in self.operations(given.get("operations")):
            program._append(operation)
        names = [_of(n, str, "a name") for n in _of(given.get("output_names"), list, "output names")]
        results = self.decode(given.get("results"))
        made = Model(program, inputs, results, names)
        if len(names) != len(made.outputs):
            raise FileFormatError("as many names as outputs were expected")
        try:
            made.check()
        except RuntimeError as e:
            raise FileFormatError(str(e).splitlines()[0]) from None
        return made

    def symbol(self, name: str, given: Any) -> Symbol:
        given = _of(given, dict, "a value")
        kind = None if given.get("dtype") is None else _dtype(given["dtype"])
        shape = None if given.get("shape") is None else self.shape(given["shape"], kind)
        shapes = (
            [self.shape(x, kind) for x in _of(given["examples"], list, "examples")] if "examples" in given else None
        )
        if shapes is None:
            if shape is None:
                raise FileFormatError(f"the value {name[:60]!r} has no shape")
            shapes = [shape] * 3
        if len(shapes) != 3 or any(isinstance(x, Sample) is not (kind is None) for x in shapes):
            raise FileFormatError(f"the value {name[:60]!r} has examples that are not three shapes")
        samples = [x if isinstance(x, Sample) else self.sample(x, kind, i) for i, x in enumerate(shapes)]
        symbol = Symbol(name, tuple(samples), not given.get("grad", False))
        if shape is not None and not isinstance(shape, Sample) and (UNKNOWN in shape or "examples" in given):
            symbol.fixed = shape
        return symbol

    def sample(self, shape: tuple[int, ...], kind: DType | None, which: int) -> Sample:
        assert kind is not None
        return Sample(sig_of(tuple([(96, 192, 2)[which] if n == UNKNOWN else n for n in shape]), kind))

    def shape(self, given: Any, kind: DType | None) -> Any:
        if kind is None:
            items = []
            for x in _of(_of(given, dict, "a list of values").get("items"), list, "items"):
                pair = _of(x, list, "an item")
                if len(pair) != 2:
                    raise FileFormatError("an item is a dtype and a shape")
                items.append(Sample(sig_of(self.shape(pair[1], dtypes.float32), _dtype(pair[0]))))
            return Sample(None, items=tuple(items))
        sizes = _of(given, list, "a shape")
        if len(sizes) > 64 or any(type(n) is not int or not -1 <= n < 1 << 40 for n in sizes):
            raise FileFormatError("a shape is a list of at most 64 sizes")
        return tuple(sizes)

    def named(self, name: Any) -> Symbol:
        found = self.symbols.get(name) if isinstance(name, str) else None
        if found is None:
            raise FileFormatError(f"a value {str(name)[:60]!r} that is not described")
        return found

    def operations(self, given: Any) -> list[Operation]:
        return [self.operation(x) for x in _of(given, list, "operations")]

    def operation(self, given: Any) -> Operation:
        given = _of(given, dict, "an operation")
        kind, name = _of(given.get("type"), str, "a type"), given.get("call")
        call: Any
        if name in ("branch", "loop"):
            blocks = [self.block(b) for b in _of(given.get("blocks"), list, "blocks")]
            first = self.decode(given.get("args"))
            call = self.branch(blocks, given.get("keys"), first) if name == "branch" else self.loop(blocks, first)
            made = Operation(call, kind, (first, call.outside), {})
        else:
            call = call_of(name)
            args = tuple([self.decode(x) for x in _of(given.get("args"), list, "arguments")])
            kwargs = {key: self.decode(x) for key, x in _of(given.get("kwargs", {}), dict, "arguments").items()}
            made = Operation(call, kind, args, kwargs)
        made.results = self.decode(given.get("results"))
        made.grad = given.get("grad", True) is not False
        if "precision" in given:
            made.policy = self.policy(given["precision"])
        made.renewable, made.scope = False, _of(given.get("layer", ""), str, "a layer")
        return made

    def branch(self, blocks: list[Block], keys: Any, pred: Any) -> Branch:
        if keys is not None and any(type(k) is not int for k in _of(keys, list, "keys")):
            raise FileFormatError("the keys of a branch are integers")
        if len(blocks) != (2 if keys is None else len(keys) + 1) or not isinstance(pred, (Symbol, Tensor)):
            raise FileFormatError("a branch has a block for each key")
        if len({len(b.results) for b in blocks}) != 1 or any(b.inputs for b in blocks):
            raise FileFormatError("the blocks of a branch give as many results")
        return Branch(blocks, keys)

    def loop(self, blocks: list[Block], start: Any) -> Loop:
        if len(blocks) != 2 or not isinstance(start, list) or len(blocks[0].results) != 1:
            raise FileFormatError("a loop has two blocks")
        if any(len(b.inputs) != len(start) for b in blocks) or len(blocks[1].results) != len(start):
            raise FileFormatError("the blocks of a loop take and give its values")
        return Loop(*blocks)

    def block(self, given: Any) -> Block:
        given = _of(given, dict, "a block")
        inputs = [self.named(n) for n in _of(given.get("inputs"), list, "inputs")]
        results = [self.decode(x) for x in _of(given.get("results"), list, "results")]
        if not all(x is None or isinstance(x, (Symbol, Tensor)) for x in results):
            raise FileFormatError("a block gives values")
        return Block(self.operations(given.get("operations")), inputs, results)

    def policy(self, given: Any) -> precision.Policy:
        given = _of(given, dict, "precision")
        lists = [frozenset([_of(n, str, "a name") for n in _of(given.get(k), list, k)]) for k in ("low", "high")]
        level = given.get("level")
        if level not in ("OD", "O1", "O2"):
            raise FileFormatError("a level of precision is 'OD', 'O1' or 'O2'")
        return precision.policy(_dtype(given.get("dtype")), level, *lists, bool(given.get("promote", True)))

    def decode(self, x: Any) -> Any:
        if x is None or isinstance(x, (bool, int, float, str)):
            return x
        if isinstance(x, list):
            return [self.decode(y) for y in x]
        if not isinstance(x, dict) or len(x) != 1:
            raise FileFormatError("a value in it is neither plain nor described")
        ((kind, inner),) = x.items()
        decode = _DECODE.get(kind)
        if decode is None:
            raise FileFormatError(f"a value of a kind {str(kind)[:60]!r}, which this version does not know")
        return decode(self, inner)

    def _size(self, given: Any) -> Dim:
        kind, *rest = _of(given, list, "a size") or [None]
        if kind == "of" and len(rest) == 2:
            symbol, axis = self.named(rest[0]), rest[1]
            if type(axis) is int and symbol.samples[0].items is None and 0 <= axis < symbol.samples[0].sig.ndim:
                return Dim(("size", symbol, axis))
        elif kind in SIZES and len(rest) == (1 if kind == "neg" else 2):
            inner = [self.decode(y) for y in rest]
            if all(isinstance(y, int) for y in inner):
                return Dim((getattr(operator, kind), *inner))
        raise FileFormatError("a size that is neither of a value nor computed from such ones")

    def _tensor(self, name: Any) -> Tensor:
        found = self.tensors.get(name) if isinstance(name, str) else None
        if found is None:
            raise FileFormatError(f"a tensor {str(name)[:60]!r} that is not among the weights")
        return found

    def _dict(self, pairs: Any) -> dict[Any, Any]:
        found = {}
        for pair in _of(pairs, list, "a dict"):
            if len(_of(pair, list, "a pair")) != 2 or not isinstance(pair[0], (str, int, float, bool, type(None))):
                raise FileFormatError("a dict is pairs of a plain key and a value")
            found[pair[0]] = self.decode(pair[1])
        return found

    def _slice(self, ends: Any) -> slice:
        if len(_of(ends, list, "a slice")) != 3:
            raise FileFormatError("a slice has three ends")
        return slice(*[self.decode(y) for y in ends])


_DECODE: dict[str, Callable[[_Reader, Any], Any]] = {
    "value": lambda reader, x: reader.named(x),
    "tensor": lambda reader, x: reader._tensor(x),
    "array": lambda reader, x: reader._tensor(x).numpy(),
    "size": lambda reader, x: reader._size(x),
    "tuple": lambda reader, x: tuple([reader.decode(y) for y in _of(x, list, "a tuple")]),
    "dict": lambda reader, x: reader._dict(x),
    "slice": lambda reader, x: reader._slice(x),
    "dtype": lambda reader, x: _dtype(x),
    "float": lambda reader, x: float(_of(x, str, "a float")),
    "complex": lambda reader, x: complex(*[float(y) for y in _of(x, list, "a complex number")]),
    "ellipsis": lambda reader, x: Ellipsis,
}


def _of(x: Any, kind: type, what: str) -> Any:
    if type(x) is not kind:
        raise FileFormatError(f"{what} in it is not a {kind.__name__}")
    return x


def _dtype(name: Any) -> DType:
    try:
        return dtypes.of(_of(name, str, "a dtype"), "")
    except (TypeError, ValueError):
        raise FileFormatError(f"a dtype {str(name)[:60]!r}, which this version does not know") from None


def is_ours(path: str) -> bool:
    """Whether a file begins as a graph of ours does."""
    try:
        with open(path, "rb") as file:
            return FORMAT.encode() in file.read(200)
    except OSError:
        return False


def read(path: str | Files, where: str = "load(path)") -> tuple[dict[str, Model], dict[str, Tensor], dict[str, Any]]:
    """Models by name, the tensors that they read, and the whole graph."""
    with _refusing(where, "a program that jit.save wrote"):
        graph, arrays, together = _both(path)
        tensors = _tensors(graph.get("tensors"), arrays)
        reader = _Reader(graph, tensors)
        functions = _of(graph.get("functions"), dict, "functions")
        if "forward" not in functions or not all(name.isidentifier() and name[0] != "_" for name in functions):
            raise FileFormatError("its functions are not forward and others by their names")
        models = {name: reader.model(given) for name, given in functions.items()}
        if not together:
            raise FileFormatError("a graph and weights that were not saved together")
        return models, tensors, graph


@contextlib.contextmanager
def _refusing(where: str, what: str) -> Iterator[None]:
    """Whatever is wrong with a file is told as one kind of error."""
    try:
        yield
    except FileFormatError as e:
        raise errors.bad(where, what, described=str(e), kind=FileFormatError) from None
    except (RecursionError, ValueError, TypeError, KeyError, OverflowError) as e:
        told = f"{type(e).__name__}: {str(e).splitlines()[0][:100] if str(e) else ''}"
        raise errors.bad(where, what, described=told, kind=FileFormatError) from None


def _both(path: str | Files) -> tuple[dict[str, Any], dict[str, np.ndarray], bool]:
    """The graph, the weights, and whether they are of one save: they may be replaced between reading one and the other."""
    program, weights = _files(path)
    for last in (*[False] * TRIES, True):  # the last one: they do not belong together
        text = _bytes(program)
        graph, wanted = _graph(text), hashlib.sha256(text).hexdigest()
        arrays, digest = _arrays(weights)
        if digest in (None, wanted):
            return graph, arrays, True
        with contextlib.suppress(FileNotFoundError):  # in the midst of a save, or one that was killed
            return graph, _arrays(waiting(weights, wanted))[0], True
        if not last:
            time.sleep(0.001)
    return graph, arrays, False


def _bytes(path: str) -> bytes:
    if os.path.getsize(path) > MOST:
        raise FileFormatError("a graph of more than 1 GiB")
    with open(path, "rb") as file:
        return file.read(MOST)


def _graph(text: bytes) -> dict[str, Any]:
    graph = json.loads(text.decode("utf-8", "surrogatepass"))
    if type(graph) is not dict or graph.get("format") != FORMAT:
        raise FileFormatError("it is no graph of Bireme")
    if type(graph.get("version")) is not int or not 1 <= graph["version"] <= VERSION:
        raise FileFormatError(f"it is of version {graph.get('version')!r}, this is a reader of {VERSION}")
    return graph


def _arrays(path: str) -> tuple[dict[str, np.ndarray], str | None]:
    with open(path, "rb") as file:
        reader = safetensors.Reader(Source(file, os.fstat(file.fileno()).st_size))
        return reader.arrays(), reader.metadata.get(DIGEST)


def _tensors(given: Any, arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, told in _of(given, dict, "tensors").items():
        if name not in arrays:
            raise FileFormatError(f"the tensor {name[:60]!r} is not among the weights")
        kind = _of(told, dict, "a tensor").get("kind")
        made = Tensor(arrays[name])
        if kind == "parameter":
            made = Parameter(made, name=name, trainable=told.get("trainable", True) is True)
        elif kind == "buffer":
            made.name, made.persistable = name, True
        found[name] = made
    return found
