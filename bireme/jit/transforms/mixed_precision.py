"""Mixed precision: operations run as under `amp.auto_cast`."""

from __future__ import annotations

from bireme.core.base import dtype as dtypes
from bireme.core.declare import precision
from bireme.core.program.program import Operation
from bireme.core.program.program_model import Model


def mixed_precision(
    model: Model, dtype: str = "bfloat16", level: str = "O1", full: frozenset[str] = frozenset()
) -> list[str]:
    """Let operations take half precision where `auto_cast` does, but for those of the names in `full`."""
    policy = precision.policy(dtypes.of(dtype, "mixed_precision(dtype)"), level, high=full)
    changed = 0

    def visit(operations: list[Operation]) -> None:
        nonlocal changed
        for operation in operations:
            if operation.policy is None:
                operation.policy = policy
                changed += 1
            blocks = getattr(operation.call, "labelled", None)
            for _, block in blocks() if blocks is not None else ():
                visit(block.operations)

    model.program.operations = [o.copy() for o in model.program.operations]
    visit(model.program.operations)
    return [f"{changed} operations run under {level} with {dtype}"] if changed else []
