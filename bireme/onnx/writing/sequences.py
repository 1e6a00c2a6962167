"""Converters of recurrences over sequences that stand one after the other in one tensor: loops over its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.program.variable import Dim
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.table import Call, Unwritten, converts

Typed = tuple[Val, list[Any]]  # a value, and its shape


def _scanned(w: Writer, state: Typed, rows: list[Typed], step: Callable, reverse: bool) -> Val:
    """What `step(state, *row)` gives for each row, which is the state before the next one."""
    body = Writer(w)
    inner = [Val(body, body.unused(f"step_{next(w.root.numbers)}"), value.dtype) for value, _ in (state, *rows)]
    infos = [body.info(v, shape) for v, (_, shape) in zip(inner, (state, *rows), strict=True)]
    made = step(*inner)
    both = [body("Identity", made), body("Identity", made)]
    graph = body.graph("body", infos, [body.info(v, state[1]) for v in both])
    way = int(reverse)
    given = [value for value, _ in rows]
    return w("Scan", state[0], *given, n=2, dtype=[made.dtype] * 2, body=graph, num_scan_inputs=len(rows),
             scan_input_directions=[way] * len(rows), scan_output_directions=[way])[1]  # fmt: skip


def _edges(w: Writer, rows: Val, lengths: Val) -> tuple[Val, Val]:
    """Which sequence begins, and which one ends, at each row: two matrices of [rows, sequences]."""
    after = w("CumSum", lengths, w.number(0, dtypes.int64))
    count = w("Range", w.number(0, dtypes.int64), w.size(rows, 0), w.number(1, dtypes.int64))
    count, some = w.unsqueeze(count, 1), lengths > 0  # one without rows begins and ends nowhere
    return (count == after - lengths) & some, (count == after - 1) & some


def _any(w: Writer, edges: Val) -> Val:
    return w.reduce("Max", edges.to(dtypes.float32), [1]) > 0.5


@converts("gated_sequences")
def _(w: Writer, c: Call) -> Val:
    width = c["candidate"].shape[0]
    if isinstance(width, Dim):
        raise Unwritten
    x, gates, candidate = (c.value(name, c.dtype) for name in ("x", "gates", "candidate"))
    edges = _edges(w, x, c.value("lengths", dtypes.int64))[int(c["reverse"])]
    rows: list[Typed] = [(x, [3 * width]), (_any(w, edges), [1])]
    if c["h"] is not None:
        rows.append((w("MatMul", edges.to(c.dtype), c.value("h", c.dtype)), [width]))
    zeros = w.constant(_zeros(width, c.dtype))

    def step(state: Val, row: Val, begins: Val, first: Any = zeros) -> Val:
        w = state.w
        state = w("Where", begins, first, state)
        both, new = w("Split", row, w.ints([2 * width, width]), n=2, axis=0)
        one = w("Reshape", state, w.ints([1, width]))
        both = w("Sigmoid", both + w("Reshape", w("MatMul", one, gates), w.ints([-1])))
        update, reset = w("Split", both, w.ints([width, width]), n=2, axis=0)
        inside = w("Reshape", reset * state, w.ints([1, width]))
        new = w("Tanh", new + w("Reshape", w("MatMul", inside, candidate), w.ints([-1])))
        return new + update * (state - new) if c["origin"] else state + update * (new - state)

    return _scanned(w, (zeros, [width]), rows, step, c["reverse"])


@converts("crf_path")
def _(w: Writer, c: Call) -> Val:
    tags = c["transition"].shape[1]
    if isinstance(tags, Dim):
        raise Unwritten
    kind = c["emission"].dtype
    emission, transition = c.value("emission", kind), c.value("transition", kind)
    begin, end, between = w("Split", transition, w.ints([1, 1, tags]), n=3, axis=0)
    begin, end = w("Reshape", begin, w.ints([tags])), w("Reshape", end, w.ints([1, tags]))
    into = w.transpose(between, [1, 0])
    begins, ends = (_any(w, edges) for edges in _edges(w, emission, c.value("lengths", dtypes.int64)))

    def forward(score: Val, row: Val, first: Val) -> Val:
        w = score.w
        best = w.reduce("Max", w("Reshape", score, w.ints([tags, 1])) + between, [0], keepdims=False)
        return w("Where", first, begin, best) + row

    scores = _scanned(w, (w.constant(_zeros(tags, kind)), [tags]), [(emission, [tags]), (begins, [1])], forward, False)

    def backward(after: Val, score: Val, last: Val) -> Val:
        w = after.w
        score = w("Reshape", score, w.ints([1, tags])) + w("Where", last, end, w("Gather", into, after, axis=0))
        return w("ArgMax", score, axis=1, keepdims=0, dtype=dtypes.int64)

    zero = w.constant(_zeros(1, dtypes.int64))
    path = _scanned(w, (zero, [1]), [(scores, [tags]), (ends, [1])], backward, True)
    return w("Reshape", path, w.ints([-1]))


def _zeros(n: int, dtype: Any) -> Any:
    return dtype.np.type(0).repeat(n)
