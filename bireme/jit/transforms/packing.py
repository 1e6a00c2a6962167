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

# how a kernel [out, in, height, width] is stored, and how it comes back
ON_CPU = (2, 3, 1, 0), (3, 2, 0, 1)  # [height, width, in, out]
ON_ACCELERATOR = (0, 2, 3, 1), (0, 3, 1, 2)  # [out, height, width, in], as cuDNN reads it


def pack_weights(model: Model, accelerator: bool = False) -> list[str]:
    """Store kernels of convolutions as compiled programs read them, on a CPU those with the channels last; a transpose of the
    constant, which such a program leaves out, gives the kernel that the function takes.
    """
    program = model.program
    stored_as, read_as = ON_ACCELERATOR if accelerator else ON_CPU
    packed: dict[int, Symbol] = {}
    kept: list[Operation] = []
    lines = []
    for operation in program.operations:
        given = arguments(operation) if operation.type == "conv2d" else None
        if given is not None and not accelerator and given["data_format"] != "NHWC":
            given = None
        weight = None if given is None else given["weight"]
        if not isinstance(weight, Tensor) or isinstance(weight, Parameter):
            kept.append(operation)
            continue
        if id(weight) not in packed:
            stored = Tensor(np.ascontiguousarray(weight.numpy().transpose(stored_as)), weight.dtype)
            turned = Operation(transpose, "transpose", (stored, list(read_as)), {})
            made = Symbol(program._unused_name("kernel"), (Sample(sig_of(tuple(weight.shape), weight.dtype)),) * 3)
            turned.results = packed[id(weight)] = program._add(made)
            kept.append(turned)
            lines.append(f"the kernel of {told(operation)} is stored as {list(stored.shape)}")
        kept.append(rebuilt(operation, {"weight": packed[id(weight)]}))
    program.operations = kept
    return lines
