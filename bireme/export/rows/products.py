"""Products of matrices."""

from __future__ import annotations

import numpy as np

from bireme.export.graph import Call
from bireme.export.place import DEPTH, TILE, WIDE, Place, given, loops, number, row, strides_of


@row("MatMul", "Gemm")
def _(place: Place, call: Call) -> None:
    a, b = call.inputs[:2]
    assert a is not None and b is not None
    turned = [bool(call.attributes.get(k, 0)) for k in ("transA", "transB")] if call.op == "Gemm" else [False, False]
    left, right = (1, *a.shape) if len(a.shape) == 1 else a.shape, (*b.shape, 1) if len(b.shape) == 1 else b.shape
    m, k = (left[-1], left[-2]) if turned[0] else (left[-2], left[-1])
    n = right[-2] if turned[1] else right[-1]
    ar, ac = (1, m) if turned[0] else (k, 1)
    br, bc = (1, k) if turned[1] else (n, 1)
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    place.needs("matmul")
    place.floats(-(-m // TILE) * TILE * DEPTH + DEPTH * WIDE)
    names = place.name_of(a), place.name_of(b), place.name_of(call.outputs[0])
    steps = [[s * m * k for s in strides_of(left[:-2], batch)], [s * k * n for s in strides_of(right[:-2], batch)]]
    own = [s * m * n for s in strides_of(batch, batch)]
    if call.op == "MatMul" and len(right) == 2 and len(left) > 2 and not turned[0]:
        m, batch, steps, own = m * int(np.prod(left[:-2], dtype=np.int64)), (), [[], []], []  # one tall product
        place.floats(-(-m // TILE) * TILE * DEPTH + DEPTH * WIDE)

    def body(i: list[str]) -> str:
        operands = f"{names[0]} + {i[0]}, {ar}, {ac}, {names[1]} + {i[1]}, {br}, {bc}, {names[2]} + {i[2]}"
        return f"bm_matmul({operands}, {m}, {n}, {k}, scratch);"

    loops(place, batch, [*steps, own], body)
    if call.op == "Gemm":
        alpha, beta, c = call.attributes.get("alpha", 1.0), call.attributes.get("beta", 1.0), given(call, 2)
        out = call.outputs[0]
        if alpha != 1.0:
            place.write(f"{{ size_t i; for (i = 0; i < {out.size}; i++) {names[2]}[i] *= {number(alpha)}; }}")
        if c is not None:
            extra = place.name_of(c)
            loops(place, out.shape, [strides_of(c.shape, out.shape), strides_of(out.shape, out.shape)],
                  lambda i: f"{names[2]}[{i[1]}] += {number(beta)} * {extra}[{i[0]}];")  # fmt: skip
