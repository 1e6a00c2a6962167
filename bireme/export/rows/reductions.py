"""Reductions, softmax and normalizations."""

from __future__ import annotations

import numpy as np

from bireme.export.graph import Call
from bireme.export.place import Place, given, local_names, loops, number, refuse, row, strides_of

_REDUCTIONS = {
    "ReduceMean": ("0.0", "sum += x", "sum / {n}.0"),
    "ReduceSum": ("0.0", "sum += x", "sum"),
    "ReduceMax": ("-INFINITY", "sum = x > sum || x != x ? x : sum", "sum"),
    "ReduceMin": ("INFINITY", "sum = x < sum || x != x ? x : sum", "sum"),
    "ReduceProd": ("1.0", "sum *= x", "sum"),
    "ReduceL2": ("0.0", "sum += (double)x * x", "sqrt(sum)"),
    "ReduceSumSquare": ("0.0", "sum += (double)x * x", "sum"),
}


@row(*_REDUCTIONS)
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    assert x is not None
    if x.dtype != np.float32:
        raise refuse(call, str(x.dtype))
    axes = call.attributes.get("axes")
    second = given(call, 1)
    if axes is None and second is not None:
        if second.data is None:
            raise refuse(call, "axes that are computed")
        axes = second.data.tolist()
    if not axes and call.attributes.get("noop_with_empty_axes"):
        axes, kept = [], list(range(len(x.shape)))
    else:
        axes = sorted({a % len(x.shape) for a in axes} if axes else range(len(x.shape)))
        kept = [a for a in range(len(x.shape)) if a not in axes]
    steps = strides_of(x.shape, x.shape)
    start, add, end = _REDUCTIONS[call.op]
    n = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    source, to = place.name_of(x), place.name_of(call.outputs[0])
    inside = "".join(f"for (r{a} = 0; r{a} < {x.shape[a]}; r{a}++) " for a in axes)
    names = "".join(f"size_t r{a}; " for a in axes)
    within = " + ".join(f"r{a} * {steps[a]}" for a in axes) or "0"
    shape = tuple(x.shape[a] for a in kept)

    def body(i: list[str]) -> str:
        return (
            f"{{ double sum = {start}; {names}{inside}{{ float bm_x = {source}[{i[0]} + {within}]; {local_names(add)}; }} "
            f"{to}[{i[1]}] = (float)({end.format(n=n)}); }}"
        )

    loops(place, shape, [[steps[a] for a in kept], strides_of(shape, shape)], body)


@row("Softmax", "LogSoftmax")
def _(place: Place, call: Call) -> None:
    (x,) = call.inputs
    assert x is not None
    axis = call.attributes.get("axis", -1) % len(x.shape)
    outer, inner = [int(np.prod(part, dtype=np.int64)) for part in (x.shape[:axis], x.shape[axis + 1 :])]
    place.needs("softmax")
    names = place.name_of(x), place.name_of(call.outputs[0])
    place.write(f"bm_softmax({', '.join(names)}, {outer}, {x.shape[axis]}, {inner}, {int(call.op == 'LogSoftmax')});")


@row("LayerNormalization")
def _(place: Place, call: Call) -> None:
    x, scale = call.inputs[:2]
    bias = given(call, 2)
    assert x is not None and scale is not None
    axis = call.attributes.get("axis", -1) % len(x.shape)
    n = int(np.prod(x.shape[axis:], dtype=np.int64))
    place.needs("layer_norm")
    names = (
        place.name_of(x),
        place.name_of(scale),
        place.name_of(bias) if bias else "NULL",
        place.name_of(call.outputs[0]),
    )
    place.write(
        f"bm_layer_norm({', '.join(names)}, {x.size // n}, {n}, {number(call.attributes.get('epsilon', 1e-5))});"
    )


@row("BatchNormalization")
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    assert x is not None
    if not all(v is not None and v.data is not None for v in call.inputs[1:5]):
        raise refuse(call, "statistics that are computed")
    scale, shift, mean, variance = [v.data.astype(np.float64) for v in call.inputs[1:5]]  # type: ignore[union-attr]  # refused above
    factor = scale / np.sqrt(variance + call.attributes.get("epsilon", 1e-5))
    f, s = place.constant(factor.astype(np.float32)), place.constant((shift - mean * factor).astype(np.float32))
    inner = int(np.prod(x.shape[2:], dtype=np.int64))
    source, to = place.name_of(x), place.name_of(call.outputs[0])
    loops(place, (x.shape[0], x.shape[1], inner), [[x.shape[1] * inner, inner, 1], [0, 1, 0]],
          lambda i: f"{to}[{i[0]}] = {source}[{i[0]}] * {f}[{i[1]}] + {s}[{i[1]}];")  # fmt: skip
