"""Common subexpressions: what is computed twice from the same values is computed once."""

from __future__ import annotations

from typing import Any

from bireme.core.program.program import Operation, mapped
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Dim, Symbol
from bireme.core.tensor.tensor import Tensor
from bireme.jit.transforms.editing import is_pure, replaced, told


def common_subexpressions(model: Model) -> list[str]:
    """Compute equal operations once."""
    program = model.program
    known: dict[Any, Operation] = {}
    table: dict[Symbol, Any] = {}
    outputs = {x for x in model.outputs if isinstance(x, Symbol)}
    kept, lines = [], []
    for before in program.operations:
        operation = replaced(before, table)
        key = _key(operation) if is_pure(operation) else None
        first = None if key is None else known.get(key)
        if first is None or outputs.intersection(operation.makes):
            kept.append(operation)
            if key is not None:
                known.setdefault(key, operation)
        else:
            table.update(zip(operation.makes, first.makes, strict=True))
            lines.append(f"{told(operation)} is {', '.join([s.name for s in first.makes])}")
    program.operations = kept
    return lines


def _key(operation: Operation) -> Any:
    """What two calls have in common that give the same."""
    return repr(
        (id(operation.call), id(operation.policy), operation.grad, mapped(_told, (operation.args, operation.kwargs)))
    )


def _told(x: Any) -> Any:
    if isinstance(x, Dim):
        return ("size", *[_told(y) if isinstance(y, (Dim, Symbol)) else y for y in x.how])
    return id(x) if isinstance(x, (Symbol, Tensor)) else (type(x).__name__, x)
