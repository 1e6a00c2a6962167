"""Arrays of tensors in programs: lists that grow while the program is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme import tensor
from bireme.core.base.errors import FileFormatError
from bireme.files.paddle_models import known
from bireme.files.paddle_models.graph import Op


class Array(list):
    """An array of tensors."""


def _slots(op: Op, *names: str) -> list[Any]:
    """Keys of operands, whichever format they come from."""
    if not isinstance(op.inputs, dict):
        return list(op.inputs)
    return [op.inputs[name][0] if op.inputs.get(name) else 0 for name in names]


def _out(op: Op) -> Any:
    keys = op.outputs["Out"] if isinstance(op.outputs, dict) else op.outputs
    if not keys:
        raise FileFormatError(f"the operation {op.kind[:60]!r} without a result")
    return keys[0]


def _index(work: Any, scope: dict[Any, Any], key: Any) -> int:
    found = known.plain(work.value(scope, key))
    if found is None or len(found) != 1:
        raise FileFormatError("an array of tensors whose indices are known when the program runs")
    return found[0]


def _array(scope: dict[Any, Any], key: Any) -> Array:
    found = scope.get(key)
    if not isinstance(found, Array):
        raise FileFormatError("an array of tensors that was never made")
    return found


def _create(work: Any, op: Op, scope: dict[Any, Any], depth: int) -> None:
    scope[_out(op)] = Array()


def _write(work: Any, op: Op, scope: dict[Any, Any], depth: int) -> None:
    if isinstance(op.inputs, dict):
        x, i = _slots(op, "X", "I")
        array = _out(op)
    else:
        array, x, i = (*op.inputs, 0, 0, 0)[:3]
    held = Array(scope[array]) if isinstance(scope.get(array), Array) else Array()
    at = _index(work, scope, i)
    if not 0 <= at <= len(held):
        raise FileFormatError(f"element {at} of an array of {len(held)} tensors")
    held[at : at + 1] = [work.value(scope, x)]
    scope[array] = scope[_out(op)] = held


def _read(work: Any, op: Op, scope: dict[Any, Any], depth: int) -> None:
    array, i = _slots(op, "X", "I")
    held, at = _array(scope, array), _index(work, scope, i)
    if not 0 <= at < len(held):
        raise FileFormatError(f"element {at} of an array of {len(held)} tensors")
    scope[_out(op)] = held[at]


def _length(work: Any, op: Op, scope: dict[Any, Any], depth: int) -> None:
    (array,) = _slots(op, "X")
    legacy = isinstance(op.inputs, dict)
    scope[_out(op)] = known.Known([len(_array(scope, array))] if legacy else len(_array(scope, array)), "int64")


def _joined(work: Any, op: Op, scope: dict[Any, Any], depth: int) -> None:
    (array,) = _slots(op, "X")
    parts = [work.tensor(x) for x in _array(scope, array)]
    axis = op.attrs.get("axis", 0)
    scope[_out(op)] = (tensor.stack if op.attrs.get("use_stack") else tensor.concat)(parts, axis)


SPECIAL: dict[str, Callable] = {
    "pd_op.create_array": _create,
    "pd_op.array_write_": _write,
    "pd_op.array_read": _read,
    "pd_op.array_length": _length,
    "pd_op.array_to_tensor": _joined,
    "write_to_array": _write,
    "read_from_array": _read,
    "lod_array_length": _length,
    "tensor_array_to_tensor": _joined,
}
