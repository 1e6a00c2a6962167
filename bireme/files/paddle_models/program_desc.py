"""`.pdmodel` and fluid's `__model__`: the message ProgramDesc, read into a Graph."""

from __future__ import annotations

from typing import Any

from bireme.core.base.errors import FileFormatError
from bireme.files.paddle_models import wire
from bireme.files.paddle_models.graph import MAX_OPS, MAX_VALUES, Block, Declared, Graph, Op

TYPES = {
    0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32", 6: "float64", 20: "uint8", 21: "int8",
    22: "bfloat16", 23: "complex64", 24: "complex128", 32: "float8_e4m3fn", 33: "float8_e5m2",
}  # fmt: skip
DENSE, ARRAY = 7, 13
NO_DATA = {9, 10, 11, 12, 14, 15, 17, 28}  # feeds, fetches, scopes, readers: never parameters
# text about where an operation comes from and on which device it ran
SKIPPED = {"op_callstack", "op_namescope", "op_device", "op_role", "op_role_var", "with_quant_attr", "op_struct_name"}


class _Var:
    """A declared variable."""

    __slots__ = ("name", "kind", "dtype", "shape", "lod_level", "persistable", "is_parameter", "stop_gradient")

    def __init__(self) -> None:
        self.name, self.kind, self.dtype, self.lod_level = "", DENSE, 5, 0
        self.shape: list[int] = []
        self.persistable = self.is_parameter = self.stop_gradient = False


class _Count:
    """How many operations and values were read: what they take in memory is bounded."""

    def __init__(self) -> None:
        self.ops = self.values = 0


def read(data: bytes) -> Graph:
    """Read a whole program."""
    view, count = memoryview(data), _Count()
    blocks: list[tuple[Block, list[_Var]]] = []
    for number, kind, a, b in wire.fields(view, 0, len(view)):
        if number == 1:
            wire.expect(kind, wire.BYTES, a)
            blocks.append(_block(view, a, b, count))
    if not blocks:
        raise FileFormatError("a program without a block")
    by_index = {}
    for at, (block, _) in enumerate(blocks):
        if block.index != at:
            raise FileFormatError(f"block {block.index} in place {at}")
        by_index[at] = block
    for block, _ in blocks:
        for op in block.ops:
            for name, value in op.attrs.items():
                if isinstance(value, _BlockIndex):
                    if not block.index < value < len(blocks):  # no block holds itself
                        raise FileFormatError(
                            f"operation {op.kind[:60]!r} with the block {int(value)} in {name[:60]!r}"
                        )
                    op.blocks.append(by_index[int(value)])
    return _graph(blocks[0][0], [v for _, found in blocks for v in found])


class _BlockIndex(int):
    """The index of a block, as an attribute."""


def _graph(main: Block, found: list[_Var]) -> Graph:
    variables: dict[str, _Var] = {}
    for var in found:
        variables.setdefault(var.name, var)
    feeds: dict[int, str] = {}
    fetches: dict[int, str] = {}
    ops = []
    for op in main.ops:
        if op.kind in ("feed", "fetch"):
            names = (op.outputs if op.kind == "feed" else op.inputs).get("Out" if op.kind == "feed" else "X", [])
            if len(names) != 1:
                raise FileFormatError(f"an operation {op.kind} of {len(names)} values")
            col = op.attrs.get("col", 0)
            place = feeds if op.kind == "feed" else fetches
            if not isinstance(col, int) or col in place:
                raise FileFormatError(f"two operations {op.kind} for the column {col}")
            place[col] = names[0]
        else:
            ops.append(op)
    given, wanted = [name for _, name in sorted(feeds.items())], [name for _, name in sorted(fetches.items())]
    if not given and not wanted:  # as it was built: `save_inference_model` adds the operations that feed and fetch
        kept = {v.name for v in variables.values() if v.persistable or v.kind in NO_DATA or v.kind == ARRAY}
        given, wanted = _open_ends(ops, kept)
    inputs = []
    for name in given:
        if name not in variables:
            raise FileFormatError(f"the input {name[:60]!r}, which is not declared")
        inputs.append(_declared(variables[name]))
    parameters = [
        _declared(v) for v in variables.values() if v.persistable and v.kind not in NO_DATA and v.kind != ARRAY
    ]
    main.ops = ops
    outputs = [(name, name) for name in wanted]
    arrays = [v.name for v in variables.values() if v.kind == ARRAY]
    return Graph(main, inputs, outputs, parameters, True, arrays=arrays)


def _open_ends(ops: list[Op], kept: set[str]) -> tuple[list[str], list[str]]:
    """What operations read that none has made, and what they make that none reads."""
    given: dict[str, None] = {}
    made: dict[str, None] = {}
    read: set[str] = set()
    for op in ops:
        names = [name for found in op.inputs.values() for name in found]
        read.update(names)
        given.update(dict.fromkeys([name for name in names if name not in made and name not in kept]))
        made.update(dict.fromkeys([name for found in op.outputs.values() for name in found]))
    return list(given), [name for name in made if name not in read and name not in kept]


def _declared(var: _Var) -> Declared:
    if var.dtype not in TYPES:
        raise FileFormatError(f"the variable {var.name[:60]!r} of unknown dtype {var.dtype}")
    if len(var.shape) > 64:
        raise FileFormatError(f"the variable {var.name[:60]!r} of {len(var.shape)} dimensions")
    return Declared(var.name, var.name, TYPES[var.dtype], var.shape, var.lod_level, not var.stop_gradient)


def _block(view: memoryview, start: int, end: int, count: _Count) -> tuple[Block, list[_Var]]:
    index, found, ops = 0, [], []
    for number, kind, a, b in wire.fields(view, start, end):
        if number == 1:
            wire.expect(kind, wire.VARINT, a)
            index = wire.signed(a)
        elif number == 3:
            wire.expect(kind, wire.BYTES, a)
            found.append(_var(view, a, b))
            count.values += 1
        elif number == 4:
            wire.expect(kind, wire.BYTES, a)
            ops.append(_op(view, a, b, count))
            count.ops += 1
        if count.ops > MAX_OPS or count.values > MAX_VALUES:
            raise FileFormatError(f"more than {MAX_OPS} operations or {MAX_VALUES} values")
    return Block(ops, index=index), found


def _var(view: memoryview, start: int, end: int) -> _Var:
    var = _Var()
    for number, kind, a, b in wire.fields(view, start, end):
        if number == 1:
            wire.expect(kind, wire.BYTES, a)
            var.name = wire.text(view, a, b)
        elif number == 2:
            wire.expect(kind, wire.BYTES, a)
            _type(view, a, b, var)
        elif number in (3, 5, 6):
            wire.expect(kind, wire.VARINT, a)
            setattr(var, {3: "persistable", 5: "is_parameter", 6: "stop_gradient"}[number], bool(a))
    if not var.name:
        raise FileFormatError(f"a variable without a name at byte {start}")
    return var


def _type(view: memoryview, start: int, end: int, var: _Var) -> None:
    for number, kind, a, b in wire.fields(view, start, end):
        if number == 1:
            wire.expect(kind, wire.VARINT, a)
            var.kind = a
        elif number in (3, 4):
            wire.expect(kind, wire.BYTES, a)
            for inner, inner_kind, c, d in wire.fields(view, a, b):
                if inner == 1:
                    wire.expect(inner_kind, wire.BYTES, c)
                    var.dtype, var.shape = _tensor(view, c, d)
                elif inner == 2:
                    wire.expect(inner_kind, wire.VARINT, c)
                    var.lod_level = wire.signed(c)


def _tensor(view: memoryview, start: int, end: int) -> tuple[int, list[int]]:
    dtype, shape = 5, []
    for number, kind, a, b in wire.fields(view, start, end):
        if number == 1:
            wire.expect(kind, wire.VARINT, a)
            dtype = a
        elif number == 2:
            shape += wire.numbers(view, kind, a, b)
    return dtype, shape


def _op(view: memoryview, start: int, end: int, count: _Count) -> Op:
    name, attrs = "", {}
    inputs: dict[str, list[str]] = {}
    outputs: dict[str, list[str]] = {}
    for number, kind, a, b in wire.fields(view, start, end):
        if number in (1, 2):
            wire.expect(kind, wire.BYTES, a)
            slot, arguments = _slot(view, a, b)
            (inputs if number == 1 else outputs)[slot] = arguments
            count.values += len(arguments) + 1
        elif number == 3:
            wire.expect(kind, wire.BYTES, a)
            name = wire.text(view, a, b)
        elif number == 4:
            wire.expect(kind, wire.BYTES, a)
            key, value = _attr(view, a, b)
            count.values += 1
            if key not in SKIPPED:
                attrs[key] = value
    if not name:
        raise FileFormatError(f"an operation without a type at byte {start}")
    return Op(name, inputs, outputs, attrs)


def _slot(view: memoryview, start: int, end: int) -> tuple[str, list[str]]:
    slot, arguments = "", []
    for number, kind, a, b in wire.fields(view, start, end):
        wire.expect(kind, wire.BYTES, a)
        if number == 1:
            slot = wire.text(view, a, b)
        elif number == 2:
            arguments.append(wire.text(view, a, b))
    return slot, arguments


# by the type of an attribute: the field that holds it, how it is read, and whether it is a list
_INT, _FLOAT, _TEXT, _BOOL, _BLOCK, _DOUBLE, _SCALAR = range(7)
_ATTRS = {
    0: (3, _INT, False), 1: (4, _FLOAT, False), 2: (5, _TEXT, False), 3: (6, _INT, True), 4: (7, _FLOAT, True),
    5: (8, _TEXT, True), 6: (10, _BOOL, False), 7: (11, _BOOL, True), 8: (12, _BLOCK, False), 9: (13, _INT, False),
    10: (14, _BLOCK, True), 11: (15, _INT, True), 12: (16, _DOUBLE, True), 13: (17, _TEXT, False), 14: (18, _TEXT, True),
    15: (19, _DOUBLE, False), 16: (20, _SCALAR, False), 17: (21, _SCALAR, True),
}  # fmt: skip
_DEFAULTS = {_INT: 0, _FLOAT: 0.0, _TEXT: "", _BOOL: False, _BLOCK: 0, _DOUBLE: 0.0, _SCALAR: 0}


def _attr(view: memoryview, start: int, end: int) -> tuple[str, Any]:
    name, kind_of = "", None
    values: dict[int, list[tuple[int, int, int]]] = {}
    for number, kind, a, b in wire.fields(view, start, end):
        if number == 1:
            wire.expect(kind, wire.BYTES, a)
            name = wire.text(view, a, b)
            if name in SKIPPED:
                return name, None
        elif number == 2:
            wire.expect(kind, wire.VARINT, a)
            kind_of = a
        else:
            values.setdefault(number, []).append((kind, a, b))
    if kind_of not in _ATTRS:
        raise FileFormatError(f"the attribute {name[:60]!r} of unknown type {kind_of}")
    number, how, many = _ATTRS[kind_of]
    found: list[Any] = []
    for kind, a, b in values.get(number, ()):
        found += _values(view, how, kind, a, b)
    if many:
        return name, found
    return name, found[-1] if found else _DEFAULTS[how]


def _values(view: memoryview, how: int, kind: int, a: int, b: int) -> list[Any]:
    if how in (_FLOAT, _DOUBLE):
        return wire.floats(view, kind, a, b, how == _DOUBLE)
    if how in (_TEXT, _SCALAR):
        wire.expect(kind, wire.BYTES, a)
        return [wire.text(view, a, b) if how == _TEXT else _scalar(view, a, b)]
    found = wire.numbers(view, kind, a, b)
    return [bool(n) for n in found] if how == _BOOL else [_BlockIndex(n) for n in found] if how == _BLOCK else found


def _scalar(view: memoryview, start: int, end: int) -> Any:
    value: Any = 0
    for number, kind, a, b in wire.fields(view, start, end):
        if number in (2, 3):
            wire.expect(kind, wire.VARINT, a)
            value = bool(a) if number == 2 else wire.signed(a)
        elif number == 4:
            value = wire.floats(view, kind, a, b, True)[0]
        elif number == 5:
            wire.expect(kind, wire.BYTES, a)
            parts = [0.0, 0.0]
            for inner, inner_kind, c, d in wire.fields(view, a, b):
                if inner in (1, 2):
                    parts[inner - 1] = wire.floats(view, inner_kind, c, d, True)[0]
            value = complex(*parts)
    return value
