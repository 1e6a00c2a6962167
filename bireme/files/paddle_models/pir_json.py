"""`.json`: a program in Paddle's newer intermediate representation, read into a Graph."""

from __future__ import annotations

import json
import math
from typing import Any

from bireme.core.base.errors import FileFormatError
from bireme.files.paddle_models.graph import MAX_OPS, MAX_VALUES, Block, Declared, Graph, Op

VERSIONS = range(1, 4)
MAX_DEPTH = 100  # of blocks inside each other
DIALECTS = {"0": "builtin", "1": "pd_op", "2": "cf", "3": "custom_op", "4": "pd_dist"}
TYPES = {
    "t_bool": "bool", "t_i8": "int8", "t_ui8": "uint8", "t_i16": "int16", "t_i32": "int32", "t_i64": "int64",
    "t_f16": "float16", "t_bf16": "bfloat16", "t_f32": "float32", "t_f64": "float64", "t_c64": "complex64",
    "t_c128": "complex128", "t_f8e4m3fn": "float8_e4m3fn", "t_f8e5m2": "float8_e5m2",
}  # fmt: skip
_SPECIAL = {"NaN": math.nan, "INF": math.inf, "-INF": -math.inf}


def read(data: bytes) -> Graph:
    """Read a whole program."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise FileFormatError("it is not JSON") from None
    head = _get(found, "base_code", dict)
    if head.get("magic") != "pir":
        raise FileFormatError("a JSON file that is no program")
    if head.get("version") not in VERSIONS:
        raise FileFormatError(f"version {str(head.get('version'))[:40]} of the format, which is not known")
    regions = _get(_get(found, "program", dict), "regions", list)
    if len(regions) != 1:
        raise FileFormatError(f"a program of {len(regions)} regions")
    reader = _Reader()
    block = reader.region(regions[0], 0)
    outputs = [out for _, out in sorted(reader.outputs.items())]
    return Graph(block, reader.inputs, outputs, reader.parameters, False, reader.unsaved)


def _get(of: Any, key: str, kind: type) -> Any:
    if not isinstance(of, dict) or not isinstance(of.get(key), kind):
        raise FileFormatError(f"no {key!r} where it is expected")
    return of[key]


class _Reader:
    """What is found on the way: inputs, outputs by their column, parameters; and how much there is."""

    def __init__(self) -> None:
        self.inputs: list[Declared] = []
        self.outputs: dict[int, tuple[int, str]] = {}
        self.parameters: list[Declared] = []
        self.unsaved: list[int] = []
        self.ops = self.values = 0

    def region(self, given: Any, depth: int) -> Block:
        blocks = _get(given, "blocks", list)
        if len(blocks) != 1:
            raise FileFormatError(f"a region of {len(blocks)} blocks")
        if depth > MAX_DEPTH:
            raise FileFormatError(f"blocks inside each other, more than {MAX_DEPTH} deep")
        args = [_get(x, "#", int) for x in blocks[0].get("args", [])] if isinstance(blocks[0], dict) else []
        ops = [op for op in (self.op(x, depth) for x in _get(blocks[0], "ops", list)) if op is not None]
        return Block(ops, args)

    def op(self, given: Any, depth: int) -> Op | None:
        name = _get(given, "#", str)
        self.ops += 1
        if name == "p":
            self.parameter(given)
            return None
        dialect, _, kind = name.partition(".")
        if dialect not in DIALECTS or not kind:
            raise FileFormatError(f"the operation {name[:60]!r}, which belongs to nothing known")
        attrs = dict([_attribute(a) for a in _get(given, "A", list)])
        operands = [_get(x, "%", int) for x in _get(given, "I", list)]
        results = [_get(x, "%", int) for x in _get(given, "O", list)]
        self.values += len(operands) + len(results)
        if self.ops > MAX_OPS or self.values > MAX_VALUES:
            raise FileFormatError(f"more than {MAX_OPS} operations or {MAX_VALUES} values")
        full = f"{DIALECTS[dialect]}.{kind}"
        if full == "pd_op.data":
            if len(results) != 1:
                raise FileFormatError("an input of several values")
            self.inputs.append(_declared(given["O"][0], attrs.get("name")))
            return None
        if full == "pd_op.fetch":
            col = attrs.get("col", len(self.outputs))
            if len(operands) != 1 or not isinstance(col, int) or col in self.outputs:
                raise FileFormatError("an output of several values, or several in one place")
            self.outputs[col] = (operands[0], str(attrs.get("name") or f"fetch_{col}"))
            return None
        regions = given.get("regions", [])
        if not isinstance(regions, list):
            raise FileFormatError(f"the operation {name[:60]!r} with invalid regions")
        op = Op(full, operands, results, attrs, [self.region(r, depth + 1) for r in regions])
        return op

    def parameter(self, given: Any) -> None:
        attrs = _get(given, "A", list)
        if len(attrs) < 4 or not isinstance(attrs[3], str):
            raise FileFormatError("a parameter without a name")
        said = given.get("OA")
        # in the order persistable, stop_gradient, trainable; absent where the file is not made to be trained
        trained = not (isinstance(said, list) and len(said) > 1 and said[1])
        found = _declared(given.get("O"), attrs[3])
        found.trained = trained and bool(attrs[1])
        if isinstance(said, list) and said and not said[0]:
            self.unsaved.append(found.key)  # not persistable
        else:
            self.parameters.append(found)


def _declared(given: Any, name: Any) -> Declared:
    if not isinstance(name, str):
        raise FileFormatError("a value without a name")
    dtype, shape = _tensor_type(_get(given, "TT", dict))
    return Declared(_get(given, "%", int), name, dtype, shape)


def _tensor_type(given: Any) -> tuple[str, list[int]]:
    kind, parts = _get(given, "#", str), _get(given, "D", list)
    if kind != "0.t_dtensor" or len(parts) < 2:
        raise FileFormatError(f"a value of type {kind[:60]!r} where a tensor is expected")
    element = _get(parts[0], "#", str).partition(".")[2]
    shape = parts[1]
    if element not in TYPES:
        raise FileFormatError(f"a tensor of unknown dtype {element[:60]!r}")
    if not isinstance(shape, list) or len(shape) > 64 or not all(type(n) is int and -1 <= n < 1 << 62 for n in shape):
        raise FileFormatError("a tensor with an invalid shape")
    return TYPES[element], shape


def _attribute(given: Any) -> tuple[str, Any]:
    return _get(given, "N", str), _value(_get(given, "AT", dict), 0)


def _value(given: Any, depth: int) -> Any:
    kind = _get(given, "#", str)
    if "VD" in given:
        if given["VD"] not in _SPECIAL:
            raise FileFormatError(f"the number {str(given['VD'])[:40]!r}")
        return _SPECIAL[given["VD"]]
    data = given.get("D")
    if kind == "0.a_array":
        if not isinstance(data, list) or depth > 8:
            raise FileFormatError("an invalid list in an attribute")
        return [_value(x, depth + 1) for x in data]
    if kind == "1.a_scalar":
        if not isinstance(data, list) or len(data) != 2:
            raise FileFormatError("an invalid number in an attribute")
        return _SPECIAL.get(data[1], data[1]) if isinstance(data[1], str) else data[1]
    if kind in ("0.a_c64", "0.a_c128"):
        if not isinstance(data, list) or len(data) != 2 or not all(isinstance(x, (int, float)) for x in data):
            raise FileFormatError("an invalid complex number in an attribute")
        return complex(*data)
    if kind in ("0.a_i32", "0.a_i64", "0.a_index", "0.a_bool") and not isinstance(data, int):
        raise FileFormatError("an attribute that is no integer")
    if kind in ("0.a_f32", "0.a_f64"):
        if not isinstance(data, (int, float)):
            raise FileFormatError("an attribute that is no number")
        return float(data)
    return data
