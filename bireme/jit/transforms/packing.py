"""Packing: constant kernels of convolutions lie in memory as compiled programs read them."""

from __future__ import annotations

import numpy as np

from bireme.core.graph.graph import sig_of
from bireme.core.program.program import Operation
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Sample, Symbol
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.jit.transforms.editing import arguments, rebuilt, told
from bireme.ops import transpose

STORED, READ = (2, 3, 1, 0), (3, 2, 0, 1)  # [height, width, in, out], and from there to [out, in, height, width]


def pack_weights(model: Model) -> list[str]:
    """Store kernels of convolutions with the channels last as [height, width, in, out]; a transpose of the constant, which
    a compiled program leaves out, gives the kernel that the function takes.
    """
    program = model.program
    packed: dict[int, Symbol] = {}
    kept: list[Operation] = []
    lines = []
    for operation in program.operations:
        given = arguments(operation) if operation.type == "conv2d" else None
        weight = given["weight"] if given is not None and given["data_format"] == "NHWC" else None
        if not isinstance(weight, Tensor) or isinstance(weight, Parameter):
            kept.append(operation)
            continue
        if id(weight) not in packed:
            stored = Tensor(np.ascontiguousarray(weight.numpy().transpose(STORED)), weight.dtype)
            turned = Operation(transpose, "transpose", (stored, list(READ)), {})
            made = Symbol(program._unused_name("kernel"), (Sample(sig_of(tuple(weight.shape), weight.dtype)),) * 3)
            turned.results = packed[id(weight)] = program._add(made)
            kept.append(turned)
            lines.append(f"the kernel of {told(operation)} is stored as {list(stored.shape)}")
        kept.append(rebuilt(operation, {"weight": packed[id(weight)]}))
    program.operations = kept
    return lines
