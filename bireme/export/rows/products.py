"""Products of matrices: of numbers, of integers, and with stored weights of integers."""

from __future__ import annotations

import numpy as np

from bireme.export.graph import Call, Value
from bireme.export.place import (
    BLOCK,
    DEPTH,
    TILE,
    WIDE,
    Place,
    ending,
    given,
    in_blocks,
    integers_of,
    loops,
    number,
    row,
    strides_of,
)


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
    steps = [[s * m * k for s in strides_of(left[:-2], batch)], [s * k * n for s in strides_of(right[:-2], batch)]]
    own = [s * m * n for s in strides_of(batch, batch)]
    if call.op == "MatMul" and len(right) == 2 and len(left) > 2 and not turned[0]:
        m, batch, steps, own = m * int(np.prod(left[:-2], dtype=np.int64)), (), [[], []], []  # one tall product
    held = integers_of(place, b, 1) if len(b.shape) == 2 and not turned[0] and not turned[1] and not batch else None
    names = place.name_of(a), place.name_of(b) if held is None else "", place.name_of(call.outputs[0])
    if m > 1:
        place.floats(-(-m // TILE) * TILE * DEPTH + DEPTH * WIDE)
        place.needs("matmul" if held is None else "matmul_i8")
    else:
        place.needs("row_i8" if held is not None else "row_of_columns" if turned[1] else "row")

    def body(i: list[str]) -> str:
        if held is not None and m == 1:
            return f"bm_row_i8({names[0]}, {held[0]}, {held[1]}, {names[2]}, {n}, {k});"
        if held is not None:
            return f"bm_matmul_i8({names[0]}, {held[0]}, {held[1]}, {names[2]}, {m}, {n}, {k}, scratch);"
        if m == 1:
            kind = "bm_row_of_columns" if turned[1] else "bm_row"
            return f"{kind}({names[0]} + {i[0]}, {names[1]} + {i[1]}, {names[2]} + {i[2]}, {n}, {k});"
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


@row("MatMulOfIntegers")
def _(place: Place, call: Call) -> None:
    x, weight, bias, scales = call.inputs
    assert x is not None and weight is not None and scales is not None
    assert weight.data is not None
    n, k = weight.shape
    m = x.size // k
    place.needs("matmul_of_integers")
    wide = -(-k // BLOCK) * BLOCK
    place.floats(m * n + 4 * m + (m + 4) * wide // 2)  # numbers, sums, and rows of integers of 16 bits
    names = [place.name_of(x), place.constant(in_blocks(weight.data)), place.name_of(scales)]
    to = [place.name_of(_repeated(bias, n)) if bias is not None else "NULL", place.name_of(call.outputs[0])]
    place.write(f"bm_matmul_of_integers({', '.join((*names, *to))}, {m}, {n}, {k}, {ending(call)}, scratch);")


def _repeated(bias: Value, n: int) -> Value:
    """A bias with a number for each column."""
    if bias.data is None or bias.data.size == n:
        return bias
    return Value(bias.name, (n,), bias.dtype, np.broadcast_to(bias.data.reshape(-1), (n,)))
