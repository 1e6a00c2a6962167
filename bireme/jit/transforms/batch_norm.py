"""Batch normalization after a convolution or a linear layer becomes part of its weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.program.program import Operation
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Symbol
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.jit.transforms.editing import arguments, readers, rebuilt, replaced, told

AXES = {"conv1d": 0, "conv2d": 0, "conv3d": 0, "linear": -1}  # of the weight that its output channels are


def fold_batch_norm(model: Model) -> list[str]:
    """Multiply weights by what a normalization with fixed statistics multiplies by."""
    program = model.program
    count = readers(program.operations, model.outputs)
    made_by = {s: o for o in program.operations for s in o.makes}
    folded: dict[int, Operation] = {}  # by the identity of what they stand for
    gone: dict[int, Symbol] = {}
    table: dict[Symbol, Any] = {}
    lines = []
    for norm in program.operations:
        given = arguments(norm) if norm.type == "batch_norm" else None
        if given is None or (given["training"] and not given["use_global_stats"]):
            continue
        first = made_by.get(given["x"]) if isinstance(given["x"], Symbol) else None
        if first is None or first.type not in AXES or count[given["x"]] != 1 or id(first) in folded:
            continue
        own = arguments(first)
        assert own is not None
        if not _channels_last_agree(first.type, own, given) or not isinstance(own["weight"], Tensor):
            continue
        folded[id(first)] = _folded(first, own, given)
        gone[id(norm)] = given["x"]
        table[norm.makes[0]] = given["x"]
        lines.append(f"folded {told(norm)} into {told(first)}")
    outputs = {x for x in model.outputs if isinstance(x, Symbol)}
    kept: list[Operation] = []
    for operation in program.operations:
        if id(operation) in gone:
            if not outputs.intersection(operation.makes):
                continue
            # the output keeps its name: the operation before gives it now
            table.pop(operation.makes[0])
            before = next(o for o in kept if gone[id(operation)] in o.makes)
            before.results = operation.results
            continue
        kept.append(replaced(folded.get(id(operation), operation), table))
    program.operations = kept
    return lines


def _channels_last_agree(kind: str, own: dict[str, Any], norm: dict[str, Any]) -> bool:
    """Whether the normalized channels are those that the weights make."""
    if kind == "linear":
        return norm["data_format"] in ("NC", "NCL", "NLC") and own["weight"].ndim == 2
    return own["data_format"] == norm["data_format"] or own["data_format"].startswith("NC") == norm[
        "data_format"
    ].startswith("NC")


def _folded(operation: Operation, own: dict[str, Any], norm: dict[str, Any]) -> Operation:
    mean, variance = norm["running_mean"].numpy(), norm["running_var"].numpy()
    scale = 1 / np.sqrt(variance.astype(np.float64) + norm["epsilon"])
    if norm["weight"] is not None:
        scale = scale * norm["weight"].numpy()
    shift = -mean * scale + (0 if norm["bias"] is None else norm["bias"].numpy())
    weight, bias = own["weight"], own["bias"]
    axis = AXES[operation.type]
    shape = [1] * weight.ndim
    shape[axis] = -1
    changed = weight.numpy() * scale.reshape(shape)
    moved = shift if bias is None else bias.numpy() * scale + shift
    moved_bias = _parameter(moved, weight if bias is None else bias, "folded_bias")
    return rebuilt(operation, {"weight": _parameter(changed, weight, "folded"), "bias": moved_bias})


def _parameter(array: np.ndarray, like: Tensor, suffix: str) -> Tensor:
    """A parameter in the place of another, or a constant in the place of one that is frozen."""
    made = Tensor(array, like.dtype)
    if not isinstance(like, Parameter):
        return made
    return Parameter(made, name=f"{like.name}.{suffix}", trainable=not like.stop_gradient)
