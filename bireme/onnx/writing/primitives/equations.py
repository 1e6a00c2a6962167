"""Calls without a converter, whose sizes are all known: what the compiler is given of them, equation by equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import DType
from bireme.core.program.building import suspended
from bireme.core.program.program import Operation, leaves, mapped
from bireme.core.program.variable import Dim, Symbol
from bireme.core.record.capture import capture
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor, wrap
from bireme.core.xla_exec import tracing
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.table import Unwritten

PRIMITIVES: dict[str, Callable] = {}


def write(w: Writer, operation: Operation) -> list[Val]:
    """Write a call by its primitives."""
    symbols = list(dict.fromkeys([x for x in operation.reads if isinstance(x, Symbol)]))
    if any(isinstance(n, Dim) for s in (*symbols, *operation.makes) for n in s.shape):
        raise Unwritten
    with suspended(), no_grad(), capture() as captured:
        stand = {s: wrap(captured.input(s.samples[0].sig.shape, s.dtype)) for s in symbols}

        def given(x: Any) -> Any:
            if isinstance(x, Dim):
                return x.find(lambda s, axis: s.samples[0].sig.shape[axis])
            return stand[x] if isinstance(x, Symbol) else x

        args, kwargs = mapped(given, (operation.args, operation.kwargs))
        try:
            made = operation.call(*args, **kwargs)
        except errors.TELLING:
            raise Unwritten from None
        results = [x for x in leaves(made) if isinstance(x, Tensor)]
    if not any(t.size for t in results):
        return [w.constant(np.zeros(t.shape, t.dtype.np)) for t in results]
    program = captured.finish([t._value for t in results])
    if any(node.bound.op.draws for node in program.graph.nodes if hasattr(node.bound.op, "draws")):
        raise Unwritten("random numbers")
    live = tuple(sorted({i for i in program._outputs if isinstance(i, int)}))
    arrays = list(program._leaves)
    values: list[Any] = list(arrays)
    for s, leaf in zip(symbols, program.inputs):
        if leaf is not None:
            arrays[leaf], values[leaf] = s.samples[0].sig, w.value(s)
    values = [x if isinstance(x, Val) else np.asarray(x) for x in values]
    closed = tracing.traced(program.graph, live, arrays, program.graph.pack(program._numbers))
    found = dict(zip(live, evaluated(w, closed.jaxpr, [np.asarray(c) for c in closed.consts], values)))
    outs = [found[i] if isinstance(i, int) else w.value(symbols[i[1]]) if i[0] == "input" else np.asarray(i[1])
            for i in program._outputs]  # fmt: skip
    return [as_value(w, x) for x in outs]


def as_value(w: Writer, x: Any) -> Val:
    return x if isinstance(x, Val) else w.constant(np.asarray(x))


def evaluated(w: Writer, jaxpr: Any, consts: list, given: list) -> list[Any]:
    """Write the equations of a jaxpr; its results, as values or constants."""
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *given)))

    def read(atom: Any) -> Any:
        return np.asarray(atom.val, atom.aval.dtype) if tracing.is_literal(atom) else env[atom]

    for e in jaxpr.eqns:
        operands = [read(a) for a in e.invars]
        name = e.primitive.name
        if name in INLINED:
            inner = e.params[INLINED[name]]
            made = evaluated(w, inner.jaxpr, [np.asarray(c) for c in inner.consts], operands)
        elif not any(isinstance(x, Val) for x in operands) and name not in ("while", "scan", "cond"):
            made = tracing.folded(e, operands)
        elif name in ("optimization_barrier",):
            made = operands
        else:
            rule = PRIMITIVES.get(name)
            if rule is None:
                raise Unwritten(name)
            made = _without_elements(w, e) or rule(w, Equation(w, e, operands))
            made = made if isinstance(made, list) else [made]
        for var, x in zip(e.outvars, made):
            env[var] = x
    return [read(a) for a in jaxpr.outvars]


def _without_elements(w: Writer, e: Any) -> list[Any] | None:
    """Results that have no elements, or that are reduced from none, are constants."""
    if all(0 in a.aval.shape for a in e.outvars):
        return [np.zeros(a.aval.shape, a.aval.dtype) for a in e.outvars]
    if 0 in e.invars[0].aval.shape and e.primitive.name in ("reduce_sum", "reduce_or", "reduce_and", "reduce_prod"):
        value = e.primitive.name in ("reduce_and", "reduce_prod")
        return [np.full(a.aval.shape, value, a.aval.dtype) for a in e.outvars]
    return None


INLINED = {  # primitives that hold others, and under which name
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "remat": "jaxpr",
    "checkpoint": "jaxpr",
    "linear_call": "callee",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}


class Equation:
    """A primitive with its operands."""

    def __init__(self, w: Writer, e: Any, operands: list[Any]):
        self.w, self.params, self.operands = w, e.params, operands
        self.shapes = [tuple(a.aval.shape) for a in e.invars]
        self.outs = [a.aval for a in e.outvars]

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    def value(self, i: int = 0, dtype: DType | None = None) -> Val:
        made = as_value(self.w, self.operands[i])
        return made if dtype is None else made.to(dtype)

    @property
    def values(self) -> list[Val]:
        return [as_value(self.w, x) for x in self.operands]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the first operand."""
        return self.shapes[0]

    @property
    def dtype(self) -> DType:
        """Of the first result."""
        return dtypes.from_numpy(self.outs[0].dtype)

    @property
    def out(self) -> tuple[int, ...]:
        return tuple(self.outs[0].shape)


def primitive(*names: str) -> Callable:
    def declare(fn: Callable) -> Callable:
        PRIMITIVES.update(dict.fromkeys(names, fn))
        return fn

    return declare
