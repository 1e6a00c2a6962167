"""Operations of `.pdmodel` files under the names of the table: slots are operands, some attributes have other names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from bireme.core.base.errors import FileFormatError
from bireme.files.paddle_models.graph import Op
from bireme.files.paddle_models.kinds import IGNORED, KINDS
from bireme.files.paddle_models.known import Known
from bireme.files.paddle_models.legacy_rows import ROWS_TEXT
from bireme.files.paddle_models.program_desc import TYPES
from bireme.ops import reshape

_DROPPED = {
    "use_cudnn", "name", "data_layout", "data_format", "axis", "use_global_beta_pow", "output_size_tensor", "op_type",
    "inplace", "keep_dims", "is_training", "force_cpu", "is_distributed", "mkldnn_data_type", "padding_idx",
}  # fmt: skip
_FUSED_NUMBERS = {  # of fusions and quantization that other attributes would ask for
    "x_data_format", "y_data_format", "scale_x", "scale_y", "scale_out", "Scale_in", "Scale_out", "fuse_alpha",
    "fuse_beta", "fused_output_scale", "fused_scale",
    "fuse_brelu_threshold",
}  # fmt: skip
_UNCOUNTED = {
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "elementwise_pow",
    "floor_divide",
    "remainder",
}


class _Row:
    """How a type of operation is one of the table."""

    __slots__ = ("kind", "slots", "attrs", "results")

    def __init__(self, kind: str, slots: list[tuple[str, str]], attrs: dict[str, str], results: list[str]):
        self.kind, self.slots, self.attrs, self.results = kind, slots, attrs, results


def _lines() -> list[str]:
    return re.sub(r"\n +", " ", ROWS_TEXT.strip()).split("\n")


def _parsed(line: str) -> tuple[str, _Row]:
    type_, _, rest = line.partition(" = ")
    kind, told, parts = rest.partition(":")
    if not told:
        return type_, _Row(kind, [("X", "x"), ("Y", "y")], {}, ["Out"])
    slots, attrs, results = parts.split(";")
    pairs = [(name, other) for name, other in [word.split(">") for word in attrs.split()]]
    words = [word.split(">") for word in slots.split()]
    return type_, _Row(kind, [(slot, operand) for slot, operand in words], dict(pairs), results.split())


ROWS = dict([_parsed(line) for line in _lines()])


def _unlisted(op: Op) -> _Row:
    """A type without a row: newer ones have the slots of the table."""
    slots = [(name, name) for name in op.inputs if op.kind in KINDS and name in KINDS[op.kind].operands]
    return _Row(op.kind, slots or [("X", "x"), ("Y", "y")], {}, ["out", "mask"] if "out" in op.outputs else ["Out"])


def operands(op: Op, value: Callable[[str], Any]) -> tuple[str, dict[str, Any]]:
    """The kind of an operation, and its operands and attributes by the names of the table."""
    row = ROWS.get(op.kind) or _unlisted(op)
    name = row.kind
    found: dict[str, Any] = {}
    for slot, operand in row.slots:
        keys = [k for k in op.inputs.get(slot, []) if k != "@EMPTY@"]
        if keys:
            listed = len(keys) > 1 or _listed(name, operand, slot)
            found[operand] = [value(k) for k in keys] if listed else value(keys[0])
    name, given = _attributes(op, row, name, found)
    given.update(found)
    if name in KINDS:
        kind = KINDS[name]
        for operand in kind.operands:
            if operand not in given and operand in kind.parameters:
                given[operand] = [] if kind.modes.get(operand) == "list" else None
        _adapt(op, name, given)
        given = {n: x for n, x in given.items() if x is not None or n in kind.required}
    return name, given


def _listed(name: str, operand: str, slot: str) -> bool:
    kind = KINDS.get(name)
    if kind is None:
        return False
    mode = kind.modes.get(operand)
    return mode == "list" or (mode == "ints" and ("List" in slot or slot in ("ShapeTensor", "SizeTensor")
                              or slot.endswith("_tensor")))  # fmt: skip


def _attributes(op: Op, row: _Row, name: str, found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Attributes under the names of the table; a type that is several kinds is one of them by its attributes."""
    attrs = dict(op.attrs)
    if op.kind == "split" and attrs.get("num") and not found.get("sections") and not attrs.get("sections"):
        name = "split_with_num"
        attrs.pop("sections", None)
    elif op.kind == "split":
        attrs.pop("num", None)
    if op.kind == "tril_triu":
        name = "tril" if attrs.pop("lower", True) else "triu"
    if op.kind == "set_value":
        name = "set_value_with_tensor" if "values" in found else "set_value"
        if name == "set_value_with_tensor":
            attrs = {n: x for n, x in attrs.items() if n not in ("shape", "values")}
        if name == "set_value" and "values" not in attrs:
            plain = [attrs[n] for n in attrs if n.endswith("_values") and attrs[n]]
            attrs["values"] = plain[0] if plain else []
    if op.kind == "unique":
        attrs.pop("is_sorted", None)
    kind = KINDS.get(name)
    given: dict[str, Any] = {}
    for key, x in attrs.items():
        if row.attrs.get("*") == "":
            continue
        target = row.attrs.get(key, key)
        if not target or (kind is not None and target not in kind.parameters and _harmless(op, target, x)):
            continue
        if target == "dtype" and isinstance(x, int):
            if x != -1 and x not in TYPES:
                raise FileFormatError(f"the operation {op.kind[:60]!r} with the dtype {x}")
            x = TYPES.get(x)
            if x is None:
                continue
        given[target] = x
    return name, given


def _harmless(op: Op, name: str, x: Any) -> bool:
    """Whether an attribute can be left out: it says how to compute, or says nothing."""
    if name in IGNORED or name in _DROPPED or name.startswith(("op_", "Scale_", "use_", "__")):
        return True
    if name.startswith(("fuse", "Scale", "scale_", "Shift")) and not x:
        return True
    return name in _FUSED_NUMBERS


def _adapt(op: Op, name: str, given: dict[str, Any]) -> None:
    """What the older form has another way of saying."""
    axis = op.attrs.get("axis", -1)
    if name in _UNCOUNTED and op.kind.startswith("elementwise_") and isinstance(axis, int) and axis >= 0:
        # the axes of y are those of x from `axis` on
        x, y = given.get("x"), given.get("y")
        more = getattr(x, "ndim", 0) - axis - getattr(y, "ndim", 0)
        if not isinstance(x, Known) and not isinstance(y, Known) and y is not None and y.ndim and more > 0:
            given["y"] = reshape(y, [*y.shape, *[1] * more])
    if op.kind == "lookup_table" and given["x"].ndim > 1:
        given["x"] = reshape(given["x"], given["x"].shape[:-1])
    if op.kind == "top_k":
        given.setdefault("axis", -1)
    if name == "batch_norm" and given.get("use_global_stats") is None:
        given.pop("use_global_stats", None)
    if op.kind in ("bilinear_interp", "nearest_interp", "bilinear_interp_v2", "nearest_interp_v2", "bicubic_interp_v2",
                   "linear_interp_v2", "trilinear_interp_v2"):  # fmt: skip
        for size in ("out_d", "out_h", "out_w"):
            given.setdefault(size, -1)
        scale = given.get("scale")
        if isinstance(scale, float):
            given["scale"] = [scale] * (given["x"].ndim - 2) if scale > 0 else []
        given["size_tensor"] = given.get("size_tensor") or None
        given.setdefault("scale_tensor", None)
        given.setdefault("out_size", None)
        given.setdefault("data_format", "NCHW")
        given.setdefault("align_mode", 1)
        given.setdefault("scale", [])
    if op.kind in ("fill_zeros_like",):
        given["value"] = 0
    if name.startswith("conv") and name.endswith("transpose") and not given.get("output_size"):
        given["output_size"] = []
    if op.kind in ("max_pool2d_with_index", "max_pool3d_with_index"):
        given.setdefault("ceil_mode", False)
    if name == "rnn":
        given["dropout_state_in"] = None


def bind(op: Op, name: str, results: tuple, scope: dict[str, Any]) -> None:
    """Give results their names."""
    row = ROWS.get(op.kind) or _unlisted(op)
    for slot, made in zip(row.results, results, strict=False):
        keys = op.outputs.get(slot, [])
        if not keys or made is None:
            continue
        if isinstance(made, list):
            if len(made) != len(keys):
                raise FileFormatError(
                    f"the operation {op.kind[:60]!r} with {len(made)} results where it has {len(keys)}"
                )
            scope.update(zip(keys, made, strict=True))
        else:
            scope[keys[0]] = made


def fill_constant(work: Any, op: Op, scope: dict[str, Any], constant: Callable) -> None:
    """A constant, whose shape and number may be values."""
    out = op.outputs.get("Out", [])
    if len(out) != 1:
        raise FileFormatError("a constant without a result")
    code = op.attrs.get("dtype", 5)
    if code not in TYPES:
        raise FileFormatError(f"a constant of unknown dtype {code}")
    text, value = op.attrs.get("str_value", ""), op.attrs.get("value", 0.0)
    if isinstance(text, str) and text:
        try:
            value = int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:
            raise FileFormatError(f"the constant {text[:60]!r}") from None
    shape: Any = op.attrs.get("shape", [])
    for slot in ("ShapeTensor", "ShapeTensorList"):
        keys = op.inputs.get(slot, [])
        if keys:
            found = [work.value(scope, k) for k in keys]
            shape = work.fitted(found if slot == "ShapeTensorList" else found[0], "ints")
    given = [work.value(scope, k) for k in op.inputs.get("ValueTensor", [])]
    if given or not (isinstance(shape, list) and all(type(n) is int for n in shape)):
        filled = work.fitted(given[0], "number") if given else value
        scope[out[0]] = KINDS["full_with_tensor"].call(filled, shape, TYPES[code])
    else:
        scope[out[0]] = constant(shape, value, TYPES[code])


def assign_value(op: Op, scope: dict[str, Any], numbers: Callable) -> None:
    """Numbers that stand in the program, in one of several attributes."""
    out, code = op.outputs.get("Out", []), op.attrs.get("dtype", 5)
    if len(out) != 1 or code not in TYPES:
        raise FileFormatError("numbers without a result or a dtype")
    values = op.attrs.get("values")
    if not values:
        found = [x for n, x in op.attrs.items() if n.endswith("_values") and x]
        values = found[0] if found else []
    scope[out[0]] = numbers(op.attrs.get("shape", []), values, TYPES[code])
