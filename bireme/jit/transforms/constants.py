"""Constant folding: what depends on no input and no parameter is computed once."""

from __future__ import annotations

from typing import Any

from bireme.core.program import running
from bireme.core.program.building import suspended
from bireme.core.program.program import Operation, leaves
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Dim, Symbol
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.jit.transforms.editing import is_pure, replaced, told

MOST = 1 << 20  # elements of a result that is kept: a larger one would make the file larger than what computes it


def constant_folding(model: Model) -> list[str]:
    """Compute operations on constants now."""
    program = model.program
    table: dict[Symbol, Any] = {}
    kept: list[Operation] = []
    lines = []
    outputs = {x for x in model.outputs if isinstance(x, Symbol)}
    for before in program.operations:
        operation = replaced(before, table)
        made = _computed(operation) if not outputs.intersection(operation.makes) else None
        if made is None:
            kept.append(operation)
        else:
            table.update(made)
            lines.append(f"computed {told(operation)}")
    program.operations = kept
    return lines


def _computed(operation: Operation) -> dict[Symbol, Tensor] | None:
    """What an operation on constants gives; None for any other."""
    if not is_pure(operation) or not operation.makes:
        return None
    for x in leaves((operation.args, operation.kwargs)):
        if isinstance(x, (Symbol, Dim, Parameter)):
            return None
    env: dict[Symbol, Any] = {}
    with suspended(), no_grad():
        running.make([running.Step(operation)], env, lambda t: t)
    return env if all(isinstance(t, Tensor) and t.size <= MOST for t in env.values()) else None
