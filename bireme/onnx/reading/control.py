"""Meanings of branches and loops: If, Loop and Scan."""

from __future__ import annotations

from typing import Any

from bireme import ops, static
from bireme.core.program.variable import Variable
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.reading.sequences import Sequence
from bireme.onnx.reading.table import Node, means, tensor


@means("If")
def _(n: Node, condition: Any) -> Any:
    graphs = [n.attr("then_branch"), n.attr("else_branch")]
    if isinstance(condition, Variable):
        pred = ops.reshape(condition, [])
        made = static.nn.cond(pred, lambda: n.scope.call(graphs[0], []), lambda: n.scope.call(graphs[1], []))
        return list(made)
    return n.scope.call(graphs[0 if bool(condition) else 1], [])


@means("Loop")
def _(n: Node, most: Any = None, condition: Any = None, *states: Any) -> Any:
    body, count = n.attr("body"), len(states)
    if isinstance(condition, Variable) or isinstance(most, Variable):
        return _recorded(n, body, most, condition, list(states))
    limit = None if most is None else int(most)
    going = condition is None or bool(condition)
    kept: list[list[Any]] = [[] for _ in range(len(body.output) - 1 - count)]
    step, values = 0, list(states)
    while going and (limit is None or step < limit):
        again, *made = n.scope.call(body, [tensor(step, "int64"), tensor(going), *values])
        if isinstance(again, Variable):
            if limit is None:
                raise n.bad("a number of steps that is known", "a condition that is not")
            return _recorded(n, body, most, condition, list(states))
        values, going, step = made[:count], bool(again), step + 1
        for list_of, x in zip(kept, made[count:]):
            list_of.append(x)
    return [*values, *[ops.stack(each) if each else _none(g) for each, g in zip(kept, list(body.output)[1 + count :])]]


def _none(output: Any) -> Tensor:
    """What no step gives."""
    sizes = [d.dim_value for d in output.type.tensor_type.shape.dim]
    return ops.zeros([0, *sizes])


def _recorded(n: Node, body: Any, most: Any, condition: Any, states: list[Any]) -> list[Any]:
    """A loop of a program: its condition is known when the program runs."""
    if len(body.output) != 1 + len(states) or any(isinstance(s, Sequence) for s in states):
        raise n.bad("a loop without results of each step, since its condition is unknown", "one that has them")
    step = tensor(0, "int64")
    going = tensor(True) if condition is None else ops.reshape(condition, [])

    def holds(step: Any, going: Any, *values: Any) -> Any:
        return going if most is None else ops.logical_and(going, step < ops.reshape(most, []))

    def change(step: Any, going: Any, *values: Any) -> list[Any]:
        again, *made = n.scope.call(body, [step, going, *values])
        return [step + 1, ops.reshape(again, []), *made]

    found = static.nn.while_loop(holds, change, [step, going, *states])
    return list(found[2:])


@means("Scan")
def _(n: Node, *given: Any) -> Any:
    body, count = n.attr("body"), n.attr("num_scan_inputs")
    if n.version < 9:
        return _scan_8(n, given)
    inputs = n.attr("scan_input_directions") or [0] * count
    axes = n.attr("scan_input_axes") or [0] * count
    values, over = list(given[: len(given) - count]), given[len(given) - count :]
    made_count = len(body.output) - len(values)
    outputs = n.attr("scan_output_directions") or [0] * made_count
    out_axes = n.attr("scan_output_axes") or [0] * made_count
    steps = over[0].shape[axes[0]]
    kept: list[list[Any]] = [[] for _ in range(made_count)]
    parts = [ops.unbind(x, axis) for x, axis in zip(over, axes)]
    for t in range(steps):
        now = [p[steps - 1 - t if way else t] for p, way in zip(parts, inputs)]
        made = n.scope.call(body, [*values, *now])
        values = made[: len(values)]
        for list_of, x in zip(kept, made[len(values) :]):
            list_of.append(x)
    joined = []
    for each, way, axis in zip(kept, outputs, out_axes):
        each = each[::-1] if way else each
        joined.append(ops.stack(each, axis=axis if axis >= 0 else axis + each[0].ndim + 1))
    return [*values, *joined]


def _scan_8(n: Node, given: tuple) -> list[Any]:
    """The first version: over the second axis, for each element of the first."""
    body, count = n.attr("body"), n.attr("num_scan_inputs")
    lengths, *rest = given
    states, over = rest[: len(rest) - count], rest[len(rest) - count :]
    ways = n.attr("directions") or [0] * count
    found: list[list[Any]] = []
    for b in range(over[0].shape[0]):
        steps = over[0].shape[1] if lengths is None else int(lengths[b])
        values = [s[b] for s in states]
        kept: list[list[Any]] = [[] for _ in range(len(body.output) - len(values))]
        for t in range(steps):
            now = [x[b][steps - 1 - t if way else t] for x, way in zip(over, ways)]
            made = n.scope.call(body, [*values, *now])
            values = made[: len(values)]
            for list_of, x in zip(kept, made[len(values) :]):
                list_of.append(x)
        found.append([*values, *[ops.stack(each) for each in kept]])
    return [ops.stack([each[k] for each in found]) for k in range(len(found[0]))]
