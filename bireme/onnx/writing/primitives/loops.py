"""Loops and branches."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.primitives.equations import Equation, as_value, evaluated, primitive
from bireme.onnx.writing.table import Unwritten


def _typed(w: Writer, aval: Any, stem: str) -> tuple[Val, Any]:
    value = Val(w, w.unused(f"{stem}_{next(w.root.numbers)}"), dtypes.from_numpy(aval.dtype))
    return value, w.info(value, list(aval.shape))


def _closed(w: Writer, closed: Any, given: list[Any]) -> list[Val]:
    made = evaluated(w, closed.jaxpr, [np.asarray(c) for c in closed.consts], given)
    return [w("Identity", as_value(w, x)) for x in made]


@primitive("scan")
def _(w: Writer, e: Equation) -> list[Val]:
    consts, carried = e["num_consts"], e["num_carry"]
    fixed, states, xs = e.operands[:consts], e.operands[consts : consts + carried], e.operands[consts + carried :]
    if not e["length"]:
        return [*states, *[np.zeros(a.shape, a.dtype) for a in e.outs[carried:]]]
    body = Writer(w)
    inner = e["jaxpr"].jaxpr.invars
    given, infos = [], []
    for atom in inner[consts:]:
        value, info = _typed(body, atom.aval, "step")
        given.append(value)
        infos.append(info)
    made = _closed(body, e["jaxpr"], [*fixed, *given])
    xs = [as_value(w, x) for x in xs]
    if not xs:  # a Scan goes over something
        xs = [w.constant(np.zeros(e["length"], np.int64))]
        infos.append(body.info(Val(body, body.unused(f"count_{next(w.root.numbers)}"), dtypes.int64), []))
    outs = [body.info(v, list(a.aval.shape)) for v, a in zip(made, e["jaxpr"].jaxpr.outvars)]
    graph = body.graph("body", infos, outs)
    way = int(e["reverse"])
    n = len(made)
    found = w("Scan", *[as_value(w, x) for x in states], *xs, n=n, dtype=[v.dtype for v in made], body=graph,
              num_scan_inputs=len(xs), scan_input_directions=[way] * len(xs),
              **({"scan_output_directions": [way] * (n - carried)} if n > carried else {}))  # fmt: skip
    return [found] if n == 1 else found


@primitive("while")
def _(w: Writer, e: Equation) -> list[Val]:
    of_test, of_body = e["cond_nconsts"], e["body_nconsts"]
    test_given, body_given = e.operands[:of_test], e.operands[of_test : of_test + of_body]
    states = [as_value(w, x) for x in e.operands[of_test + of_body :]]
    first = _closed(w, e["cond_jaxpr"], [*test_given, *states])[0]
    body = Writer(w)
    count, going = (Val(body, body.unused(f"loop_{next(w.root.numbers)}"), k) for k in (dtypes.int64, dtypes.bool_))
    given, infos = [], [body.info(count, []), body.info(going, [])]
    for atom in e["body_jaxpr"].jaxpr.invars[of_body:]:
        value, info = _typed(body, atom.aval, "state")
        given.append(value)
        infos.append(info)
    made = _closed(body, e["body_jaxpr"], [*body_given, *given])
    again = _closed(body, e["cond_jaxpr"], [*test_given, *made])[0]
    outs = [
        body.info(again, []),
        *[body.info(v, list(a.aval.shape)) for v, a in zip(made, e["body_jaxpr"].jaxpr.outvars)],
    ]
    found = w("Loop", None, first, *states, n=len(states), dtype=[s.dtype for s in states],
              body=body.graph("body", infos, outs))  # fmt: skip
    return [found] if len(states) == 1 else found


@primitive("cond")
def _(w: Writer, e: Equation) -> list[Val]:
    which, given = e.value(), e.operands[1:]
    if len(e["branches"]) != 2:
        raise Unwritten
    graphs = []
    for closed in e["branches"]:
        inner = Writer(w)
        made = _closed(inner, closed, given)
        outs = [inner.info(v, list(a.aval.shape)) for v, a in zip(made, closed.jaxpr.outvars)]
        graphs.append(inner.graph("branch", [], outs))
    chosen = which.to(dtypes.bool_)
    kinds = [dtypes.from_numpy(a.dtype) for a in e.outs]
    found = w("If", chosen, n=len(kinds), dtype=kinds, then_branch=graphs[1], else_branch=graphs[0])
    return [found] if len(kinds) == 1 else found
