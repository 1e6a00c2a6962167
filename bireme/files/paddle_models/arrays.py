"""Arrays of tensors in programs: lists, which are one value each where a loop changes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme import tensor
from bireme.core.base.errors import FileFormatError
from bireme.core.program import calls
from bireme.core.program.variable import VariableList
from bireme.files.paddle_models import known
from bireme.files.paddle_models.graph import Op


def _slots(op: Op, *names: str) -> list[Any]:
    """Keys of operands, whichever format they come from."""
    found = [op.inputs[n][0] if op.inputs.get(n) else 0 for n in names] if isinstance(op.inputs, dict) else op.inputs
    if len(found) != len(names):
        raise FileFormatError(f"the operation {op.kind[:60]!r} with {len(found)} operands")
    return list(found)


def _out(op: Op) -> Any:
    keys = op.outputs.get("Out", []) if isinstance(op.outputs, dict) else op.outputs
    if not keys:
        raise FileFormatError(f"the operation {op.kind[:60]!r} without a result")
    return keys[0]


def _index(work: Any, scope: dict[Any, Any], key: Any) -> Any:
    """An index: a number where it is known, else a tensor."""
    return work.fitted(work.value(scope, key), "int")


def _array(scope: dict[Any, Any], key: Any) -> Any:
    found = scope.get(key)
    if not isinstance(found, (list, VariableList)):
        raise FileFormatError("an array of tensors that was never made")
    return found


def _create(work: Any, op: Op, scope: dict[Any, Any], depth: int) -> None:
    scope[_out(op)] = []


def _write(work: Any, op: Op, scope: dict[Any, Any], depth: int) -> None:
    """Change an element, or append one."""
    if isinstance(op.inputs, dict):
        x, i = _slots(op, "X", "I")
        array = _out(op)
    else:
        array, x, i = _slots(op, "array", "x", "i")
    held, at, new = scope.get(array), _index(work, scope, i), work.tensor(work.value(scope, x))
    if isinstance(held, VariableList) or not isinstance(at, int):
        made: Any = calls.recorded(calls.list_written, held if held is not None else [], at, new)
    else:
        made = list(held or [])
        if not 0 <= at <= len(made):
            raise FileFormatError(f"element {at} of an array of {len(made)} tensors")
        made[at : at + 1] = [new]
    scope[array] = scope[_out(op)] = made


def _read(work: Any, op: Op, scope: dict[Any, Any], depth: int) -> None:
    array, i = _slots(op, "X", "I")
    held, at = _array(scope, array), _index(work, scope, i)
    if isinstance(held, VariableList) or not isinstance(at, int):
        scope[_out(op)] = calls.recorded(calls.list_item, held, at)
        return
    if not 0 <= at < len(held):
        raise FileFormatError(f"element {at} of an array of {len(held)} tensors")
    scope[_out(op)] = held[at]


def _length(work: Any, op: Op, scope: dict[Any, Any], depth: int) -> None:
    (array,) = _slots(op, "X")
    held, legacy = _array(scope, array), isinstance(op.inputs, dict)
    if isinstance(held, VariableList):
        found = calls.recorded(calls.list_length, held)
        scope[_out(op)] = tensor.reshape(found, [1]) if legacy else found
    else:
        scope[_out(op)] = known.Known([len(held)] if legacy else len(held), "int64")


def _joined(work: Any, op: Op, scope: dict[Any, Any], depth: int) -> None:
    (array,) = _slots(op, "X")
    held = _array(scope, array)
    parts: Any = held if isinstance(held, VariableList) else [work.tensor(x) for x in held]
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
