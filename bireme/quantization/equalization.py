"""Saved models before they are quantized: biases become parts of products, and channels that a product reads get ranges like each other.

One scale serves all channels of an input. Where a few are much larger than the others, these have few integers left. Between two products
with nothing but a ReLU, a channel can be made smaller by the first and larger by the second: the function stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bireme.core.program import running
from bireme.core.program.program import Operation
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Symbol
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.jit.transforms.editing import arguments, readers, rebuilt, replaced
from bireme.ops import to_tensor

WIDEST = 32.0  # how much a channel is made larger or smaller than the others at most: others see what they round then
LEAST = 1e-3  # of the largest channel, what a channel counts as at least: those that are never used would be blown up


def join_biases(model: Model) -> int:
    """Let a constant that is added to each channel of a convolution be its bias; how many there were."""
    program = model.program
    count = readers(program.operations, model.outputs)
    made_by = {s: o for o in program.operations for s in o.makes}
    outputs = {x for x in model.outputs if isinstance(x, Symbol)}
    joined: dict[int, Operation] = {}  # by the identity of what they stand for
    table: dict[Symbol, Any] = {}
    for add in program.operations:
        given = arguments(add) if add.type == "add" else None
        if given is None or outputs.intersection(add.makes):
            continue
        for x, other in ((given["x"], given["y"]), (given["y"], given["x"])):
            conv = made_by.get(x) if isinstance(x, Symbol) and count[x] == 1 else None
            bias = _by_channel(other, made_by)
            own = arguments(conv) if conv is not None and conv.type == "conv2d" and id(conv) not in joined else None
            if bias is None or conv is None or own is None or own["bias"] is not None or own["data_format"] != "NCHW":
                continue
            if isinstance(own["weight"], Tensor) and bias.size == own["weight"].shape[0]:
                joined[id(conv)] = rebuilt(conv, {"bias": Tensor(bias)})
                table[add.makes[0]] = x
                break
    program.operations = [
        replaced(joined.get(id(o), o), table) for o in program.operations if not (o.makes and o.makes[0] in table)
    ]
    program.version += 1
    return len(joined)


def _by_channel(x: Any, made_by: dict[Symbol, Operation]) -> np.ndarray | None:
    """A constant of shape [C, 1, 1] or [1, C, 1, 1] as a vector; a reshape of a parameter is one too."""
    if isinstance(x, Symbol):
        reshape = made_by.get(x)
        given = arguments(reshape) if reshape is not None and reshape.type == "reshape" else None
        if given is None or not isinstance(given["x"], Tensor) or any(not isinstance(n, int) for n in x.shape):
            return None
        x = given["x"].reshape(list(x.shape))
    if not isinstance(x, Tensor) or x.dtype.name != "float32" or x.ndim not in (3, 4):
        return None
    return x.numpy().reshape(-1) if x.shape[-3] == x.size else None


@dataclass
class _Pair:
    """A product, the one whose result it reads through a ReLU, and what it reads."""

    first: Operation
    second: Operation
    between: Symbol


def equalize(model: Model, batches: list[list[Any]]) -> int:
    """Let the channels between two products have ranges like each other, judged by batches of arrays; how many pairs there were."""
    program = model.program
    pairs = _pairs(model)
    most = _magnitudes(model, {pair.between for pair in pairs}, batches) if pairs else {}
    changed: dict[int, dict[str, Any]] = {}  # operations by identity: their new weight and bias
    for pair in pairs:
        first, second = (changed.get(id(o)) or _weights(o) for o in (pair.first, pair.second))
        beside = tuple(i for i in range(second["weight"].ndim) if i != _inputs(pair.second))
        reach, weigh = most[pair.between], np.abs(second["weight"]).max(beside)
        if not reach.any() or not weigh.any():
            continue
        reach, weigh = np.maximum(reach, LEAST * reach.max()), np.maximum(weigh, LEAST * weigh.max())
        factor = np.sqrt(weigh / reach)  # what both have then is the root of their product
        factor = np.clip(factor / np.exp(np.log(factor).mean()), 1 / WIDEST, WIDEST)
        first["weight"] = first["weight"] * _along(factor, first["weight"].ndim, _outputs(pair.first))
        first["bias"] = None if first["bias"] is None else first["bias"] * factor
        second["weight"] = second["weight"] / _along(factor, second["weight"].ndim, _inputs(pair.second))
        changed[id(pair.first)], changed[id(pair.second)] = first, second
    program.operations = [_with(o, changed.get(id(o))) for o in program.operations]
    program.version += 1
    return len(pairs)


def _pairs(model: Model) -> list[_Pair]:
    operations = model.program.operations
    count = readers(operations, model.outputs)
    made_by = {s: o for o in operations for s in o.makes}
    found = []
    for second in operations:
        x = _read(second)
        if x is None or count[x] != 1 or (second.type == "conv2d" and _weights(second)["groups"] != 1):
            continue
        relu = made_by.get(x)
        y = relu.args[0] if relu is not None and relu.type == "relu" and relu.args else None
        first = made_by.get(y) if isinstance(y, Symbol) and count[y] == 1 else None
        if first is not None and _read(first) is not None and first.type == second.type:
            found.append(_Pair(first, second, x))
    return found


def _read(operation: Operation) -> Symbol | None:
    """What a product with a stored weight reads, if its channels are known."""
    given = arguments(operation) if operation.type in ("conv2d", "linear") else None
    if given is None or not isinstance(given["x"], Symbol) or not isinstance(given["weight"], Tensor):
        return None
    weight, bias = given["weight"], given["bias"]
    fits = weight.dtype.name == "float32" and weight.ndim == (4 if operation.type == "conv2d" else 2)
    if not fits or not (bias is None or isinstance(bias, Tensor)) or given.get("data_format", "NCHW") != "NCHW":
        return None
    return given["x"]


def _weights(operation: Operation) -> dict[str, Any]:
    given = arguments(operation)
    assert given is not None
    bias = given["bias"]
    found = {"weight": given["weight"].numpy(), "bias": None if bias is None else bias.numpy()}
    return {**found, "groups": given.get("groups", 1)}


def _outputs(operation: Operation) -> int:
    return 0 if operation.type == "conv2d" else 1


def _inputs(operation: Operation) -> int:
    return 1 - _outputs(operation)


def _along(vector: np.ndarray, ndim: int, axis: int) -> np.ndarray:
    return vector.reshape([-1 if i == axis else 1 for i in range(ndim)])


def _with(operation: Operation, weights: dict[str, Any] | None) -> Operation:
    """A product with other numbers."""
    if weights is None:
        return operation
    new = {key: Tensor(weights[key].astype(np.float32)) for key in ("weight", "bias") if weights[key] is not None}
    return rebuilt(operation, new)


@no_grad()
def _magnitudes(model: Model, wanted: set[Symbol], batches: list[list[Any]]) -> dict[Symbol, np.ndarray]:
    """The largest magnitude of each channel of some values."""
    found: dict[Symbol, np.ndarray] = {}
    for rows in batches:
        env: dict[Symbol, Any] = dict(zip(model.inputs, [to_tensor(a) for a in rows], strict=True))
        for step in model.plan().steps:
            held = [s for s in step.operation.makes if s in wanted]
            running.make([step], env, lambda t: t)
            for symbol in held:
                x = env[symbol]
                axes = [i for i in range(x.ndim) if i != (1 if x.ndim == 4 else x.ndim - 1)]
                most = x.abs().max(axis=axes).numpy()
                found[symbol] = np.maximum(found[symbol], most) if symbol in found else most
    return found
