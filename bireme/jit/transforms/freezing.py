"""Freezing: parameters and buffers become constants, which later transforms compute with."""

from __future__ import annotations

from typing import Any

from bireme.core.program.program import mapped
from bireme.core.program.program_model import Model
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor


def freeze(model: Model) -> list[str]:
    """Let operations read constants in the place of parameters and buffers: for inference, which changes neither."""
    constants: dict[int, Tensor] = {}
    held: list[Tensor] = []  # so that no id is another one's

    def constant(x: Any) -> Any:
        if not isinstance(x, Tensor) or not (isinstance(x, Parameter) or x.persistable):
            return x
        if id(x) not in constants:
            held.append(x)
            constants[id(x)] = x.detach()
        return constants[id(x)]

    kept = []
    for operation in model.program.operations:
        if hasattr(operation.call, "labelled") or operation.role != "forward":
            kept.append(operation)
            continue
        new = operation.copy()
        new.args, new.kwargs = mapped(constant, (operation.args, operation.kwargs))
        kept.append(new)
    model.program.operations = kept
    return [f"{len(held)} parameters and buffers are constants"] if held else []
