"""Recomputation: what a layer computes is not kept for the backward pass, but computed again in it."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from bireme.core.program.control_flow import Block
from bireme.core.program.program import Operation
from bireme.core.program.program_model import Model
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.fleet.recompute.recompute import recompute
from bireme.jit.transforms.editing import readers

FEW = 2  # operations that are not worth it


class Recomputed:
    """A block whose values are computed again in the backward pass."""

    def __init__(self, block: Block):
        self.block, self.outside = block, block.outside

    def __call__(self, given: list[Any]) -> list[Any]:
        def run(*tensors: Tensor) -> tuple:
            return tuple(self.block.run([], {id(x): t for x, t in zip(self.outside, tensors, strict=True)}))

        return list(recompute(run, *given))

    def labelled(self) -> list[tuple[str, Block]]:
        """Its block."""
        return [("again", self.block)]


def recomputation(model: Model, depth: int = 1) -> list[str]:
    """Let each layer at a depth of the layer tree be computed again in the backward pass."""
    program = model.program
    kept: list[Operation] = []
    lines = []
    after = program.operations

    def layer(o: Operation) -> str:
        return ".".join(o.scope.split(".")[:depth])

    for name, group in groupby(program.operations, layer):
        operations = list(group)
        rest = after[after.index(operations[-1]) + 1 :]
        if not name or len(operations) <= FEW or any(not hasattr(o.call, "op") for o in operations):
            kept.extend(operations)
            continue
        read = readers(rest, model.outputs)
        results: list[Any] = [s for o in operations for s in o.makes if s in read]
        call = Recomputed(Block(operations, [], results))
        operation = Operation(call, "recompute", (call.outside,), {}, operations[0].pos)
        operation.results, operation.scope, operation.renewable = results, name, False
        kept.append(operation)
        lines.append(f"{name}: {len(operations)} operations are computed again in the backward pass")
    program.operations = kept
    return lines
