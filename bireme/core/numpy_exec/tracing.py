"""Functions on jax arrays as functions on NumPy arrays: traced once per signature, primitive by primitive."""

from __future__ import annotations

from typing import Any

import jax
import jax.extend.core
import numpy as np

from bireme.core.base import counters
from bireme.core.base.device import Fork
from bireme.core.numpy_exec import primitives

BY_JAX = 20  # calls of NumPy that take as long as one primitive by jax

_INLINE = {
    "pjit": "jaxpr",
    "jit": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "closed_call": "call_jaxpr",
    "remat": "jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "core_call": "call_jaxpr",
}


def traced(fn: Any, sigs: tuple, many: bool) -> Any:
    """A NumPy callable for a function on jax arrays, made from its trace at these signatures."""
    specs = [jax.ShapeDtypeStruct(s.shape, s.dtype.np) for s in sigs]
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(fn)(*specs)
    return _planned(closed, many)


def _planned(closed: Any, many: bool) -> Any:
    jaxpr, values = getattr(closed, "jaxpr", closed), getattr(closed, "consts", ())  # since jax 0.11 both may be one
    steps: list[tuple] = []
    consts: dict[int, Any] = {}
    count = [0]

    def fresh() -> int:
        count[0] += 1
        return count[0] - 1

    def slot(v: Any, env: dict) -> int:
        if isinstance(v, jax.extend.core.Literal):
            k = fresh()
            consts[k] = np.asarray(v.val, dtype=getattr(v.aval, "dtype", None))
            return k
        return env[v]

    def walk(jaxpr: Any, env: dict, values: Any) -> None:
        for v, c in zip(jaxpr.constvars, values):
            env[v] = fresh()
            consts[env[v]] = np.asarray(c)
        for eqn in jaxpr.eqns:
            ins = [slot(v, env) for v in eqn.invars]
            key = _INLINE.get(eqn.primitive.name)
            if key is not None and key in eqn.params:
                inner = eqn.params[key]
                sub, inner_consts = (inner.jaxpr, inner.consts) if hasattr(inner, "jaxpr") else (inner, ())
                inside = dict(zip(sub.invars, ins))
                walk(sub, inside, inner_consts)
                for o, v in zip(eqn.outvars, sub.outvars):
                    env[o] = slot(v, inside)
                continue
            outs = [fresh() for _ in eqn.outvars]
            f = _scanned(eqn) if eqn.primitive.name == "scan" else primitives.numpy_form(eqn)
            if f is None:
                f = _by_jax(eqn)
                steps.append((f, ins, outs, True))
            else:
                steps.append((f, ins, outs, eqn.primitive.multiple_results))
            env.update(zip(eqn.outvars, outs))

    top = {v: fresh() for v in jaxpr.invars}
    walk(jaxpr, top, values)
    results = [slot(v, top) for v in jaxpr.outvars]
    last: dict[int, int] = {}
    for n, (_, ins, outs, _) in enumerate(steps):
        for k in (*ins, *outs):
            last[k] = n
    keep = {*results, *consts}
    program = []
    for n, (f, ins, outs, multi) in enumerate(steps):
        free = tuple({k for k in (*ins, *outs) if last[k] == n and k not in keep})
        program.append((f, tuple(ins), tuple(outs), multi, free))
    calls = sum([getattr(f, "calls", 1) for f, *_ in program])
    return Planned(tuple(program), count[0], tuple(consts.items()), tuple(results), many, calls)


class Planned:
    """A traced function on NumPy arrays, which makes so many `calls` of primitives.

    One object, not a closure: there is one for every shape that was interpreted.
    """

    __slots__ = ("calls", "fixed", "many", "program", "results", "size")

    def __init__(self, program: tuple, size: int, fixed: tuple, results: tuple[int, ...], many: bool, calls: int):
        self.program, self.size, self.fixed, self.results, self.many = program, size, fixed, results, many
        self.calls = calls

    def __call__(self, *args: Any) -> Any:
        env: list[Any] = [None] * self.size
        for k, c in self.fixed:
            env[k] = c
        env[: len(args)] = args
        for f, ins, outs, multi, free in self.program:
            out = f(*[env[k] for k in ins])
            if multi:
                for k, o in zip(outs, out):
                    env[k] = o
            else:
                env[outs[0]] = out
            for k in free:
                env[k] = None
        return [env[k] for k in self.results] if self.many else env[self.results[0]]


def _scanned(eqn: Any) -> Any:
    """A loop as a loop of Python: jax would compile it anew for each length, which takes a second.

    None where it is better left to jax: very many steps, or some that jax itself would have to do.
    """
    p = eqn.params
    length, body = p["length"], getattr(p["jaxpr"], "jaxpr", p["jaxpr"])
    if length * len(body.eqns) > 100_000 or not _all_by_numpy(body):
        return None
    # What runs along the steps has one axis more outside than inside; how jax writes the counts down differs by
    # version.
    carried = sum(out.aval.ndim == inner.aval.ndim for out, inner in zip(eqn.outvars, body.outvars))
    fixed = sum(given.aval.ndim == inner.aval.ndim for given, inner in zip(eqn.invars, body.invars)) - carried
    step = _planned(p["jaxpr"], True)
    order = range(length)[:: -1 if p["reverse"] else 1]
    rows = [(v.aval.shape, v.aval.dtype) for v in eqn.outvars[carried:]]

    def run(*args: Any) -> list:
        state, given = args[fixed : fixed + carried], args[fixed + carried :]
        outs = [np.empty(*row) for row in rows]
        for t in order:
            made = step(*args[:fixed], *state, *[a[t] for a in given])
            state = made[:carried]
            for out, new in zip(outs, made[carried:]):
                out[t] = new
        return [*state, *outs]

    run.calls = length * step.calls  # type: ignore[attr-defined]  # a function may have attributes
    return run


def _all_by_numpy(jaxpr: Any) -> bool:
    for eqn in jaxpr.eqns:
        inner = eqn.params.get("jaxpr" if eqn.primitive.name == "scan" else _INLINE.get(eqn.primitive.name))
        if not (
            primitives.numpy_form(eqn) is not None if inner is None else _all_by_numpy(getattr(inner, "jaxpr", inner))
        ):
            return False
    return True


def _by_jax(eqn: Any) -> Any:
    """One primitive run by jax: slow, right, and counted."""
    primitive, params = eqn.primitive, eqn.params

    def run(*args: Any) -> list:
        if Fork.child:
            raise Fork.error()
        counters.STATS["primitives_by_jax"] += 1
        with jax.enable_x64(True):
            out = primitive.bind(*[jax.numpy.asarray(a) for a in args], **params)
        return [np.asarray(o) for o in (out if primitive.multiple_results else [out])]

    run.calls = BY_JAX  # type: ignore[attr-defined]  # the same
    return run
