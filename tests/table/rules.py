"""Checks of what stands beside an operator's body: inference by hand, gradient rules, lowerings, and the body's own
trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.graph import executor
from bireme.core.graph.bound import Bound
from bireme.core.graph.graph import Number, scalar_sig
from bireme.core.numpy_exec import planning, tracing
from tests.table.harness import HALVES, TOLERANCE, Recorded, Row, Sample, same, smooth


def _nodes(row: Row, order: int, dtype: Any, samples: list[Sample]) -> Iterator[tuple]:
    """Nodes that samples record: (bound, signatures of operands, operands that are no numbers, values of operands)."""
    for s in samples:
        try:
            recorded = Recorded(row, [s.at(dtype)], order)
        except RuntimeError:  # the call needs values: nothing to look at without them
            continue
        graph = recorded.program.graph
        leaves = list(recorded.program._leaves)
        for leaf, a in zip(recorded.program.inputs, recorded.arrays, strict=True):
            if leaf is not None:
                leaves[leaf] = a
        vectors, places = graph.pack(recorded.program._numbers), graph.places()
        live = tuple(range(len(graph.value_sigs)))
        values = executor.find("interpreter").prepare(graph, live, (), graph.device)(leaves, vectors)
        for node in graph.nodes:
            sigs, given, tensor_places = [], [], []
            for i, r in enumerate(node.args):
                if r.__class__ is Number:
                    v, k = places[r.place]
                    sigs.append(scalar_sig(r.dtype))
                    given.append(vectors[v][k])
                else:
                    sigs.append(graph.value_sigs[r] if r >= 0 else graph.leaf_sigs[~r])
                    given.append(values[r] if r >= 0 else leaves[~r])
                    tensor_places.append(i)
            yield node.bound, tuple(sigs), tensor_places, given, node.outs


def inference(row: Row) -> None:
    """The rule by hand says what a trace of the body says."""
    seen = set()
    plan = [(dtypes.float32, row.samples), *[(d, row.samples[:2]) for d in sorted(row.dtypes, key=lambda d: d.name)]]
    for dtype, samples in plan:
        for bound, sigs, *_ in _nodes(
            row, 0, dtype, [s for s in samples if dtype in row.dtypes or dtype is dtypes.float32]
        ):
            if bound.op is row.target and (bound, sigs) not in seen:
                seen.add((bound, sigs))
                hand, traced = bound.infer(sigs), bound._trace(sigs)
                assert hand == traced, (
                    f"{bound}({', '.join(map(str, sigs))}): {list(hand)}, the body gives {list(traced)}"
                )
    assert seen or "static" in row.skip, "no sample reached the rule"


def width(row: Row) -> None:
    """Nothing becomes float64 on the way from float32 to float32, forwards or backwards; with numbers in float64, no
    array does.
    """
    reached = "static" in row.skip
    for bound, sigs, _, _, outs in _nodes(row, min(row.grad, 1), dtypes.float32, row.plain(3)):
        double = [s.shape for s in (*sigs, *outs) if s.dtype in (dtypes.float64, dtypes.complex128)]
        if any(double):
            continue
        base = getattr(bound, "base", bound)
        if base.op is not row.target:
            continue
        reached = True
        for platform in ("cpu", *base.op.lowerings):
            specs = [jax.ShapeDtypeStruct(s.shape, s.dtype.np) for s in sigs]
            with jax.enable_x64(True):
                closed = jax.make_jaxpr(bound.lower(platform))(*specs)
            found = [
                v.aval
                for v in _variables(closed.jaxpr)
                if getattr(v.aval, "dtype", None) in (np.float64, np.complex128)
            ]
            wide = {str(a) for a in found if a.shape or not double}
            assert not wide, f"{bound}({', '.join(map(str, sigs))}) computes {', '.join(sorted(wide))} on {platform}"
    assert reached, "no sample reached the body"


def _variables(jaxpr: Any) -> Iterator[Any]:
    for eqn in jaxpr.eqns:
        yield from eqn.outvars
        for p in eqn.params.values():
            for inner in p if isinstance(p, (list, tuple)) else [p]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from _variables(inner)


# What adds up many numbers. Products are not among them: every backend adds them up in float32, and to be given rounded
# numbers and to round the result is what they are for.
_SUMS = frozenset((
    "reduce_sum", "cumsum", "reduce_prod", "cumprod", "cumlogsumexp", "reduce_window_sum", "select_and_scatter_add",
    "scatter-add", "scatter-mul",
))  # fmt: skip
# What passes the numbers of its operands on as they are.
_MOVES = frozenset((
    "reshape", "transpose", "squeeze", "broadcast_in_dim", "convert_element_type", "slice", "dynamic_slice", "gather", "rev",
    "neg", "concatenate", "select_n", "pad", "copy", "copy_p", "optimization_barrier", "split", "scatter", "scatter-min",
    "scatter-max",
))  # fmt: skip


def half(row: Row) -> None:
    """In half precision nothing is added up, and no sum that was rounded to it is read again, forwards or backwards."""
    reached = "static" in row.skip
    for dtype in sorted(HALVES & row.dtypes, key=lambda d: d.name)[:1]:
        for bound, sigs, *_ in _nodes(row, min(row.grad, 1), dtype, row.plain(3)):
            base = getattr(bound, "base", bound)
            if base.op is not row.target:
                continue
            reached = True
            specs = [jax.ShapeDtypeStruct(s.shape, s.dtype.np) for s in sigs]
            for platform in ("cpu", "cuda"):
                with jax.enable_x64(True):
                    closed = jax.make_jaxpr(bound.lower(platform))(*specs)
                wrong = sorted(set(_lossy(closed.jaxpr, set(), set())))
                assert not wrong, f"{bound}({', '.join(map(str, sigs))}) on {platform}: {', '.join(wrong)}"
    assert reached, "no sample reached the body"


def _lossy(jaxpr: Any, sums: set, carried: set) -> Iterator[str]:
    """Sums in half precision. `sums` holds what follows from a sum or a count, `carried` what a loop adds to in it."""
    for eqn in jaxpr.eqns:
        name, ins = eqn.primitive.name, [v for v in eqn.invars if not hasattr(v, "val")]
        inner, given = _inner(eqn)
        outs = [v for v in eqn.outvars if v.aval.dtype != bool]
        if name in _SUMS:
            if any(map(_is_half, ins)):
                yield f"{name} in half precision"
            sums.update(outs)
        elif name in ("scan", "while"):
            for j in inner:
                # what runs along the steps has one axis more outside than inside
                n = sum(out.aval.ndim == v.aval.ndim for out, v in zip(eqn.outvars, j.outvars, strict=True))
                fixed = len(j.invars) - n
                if name == "scan":
                    fixed = sum(a.aval.ndim == v.aval.ndim for a, v in zip(given, j.invars, strict=True)) - n
                yield from _lossy(j, set(), {v for v in j.invars[fixed : fixed + n] if _is_half(v)})
        elif inner:
            for j in inner:
                pairs = [(v, w) for v, w in zip(given, j.invars, strict=True) if not hasattr(v, "val")]
                below = [{w for v, w in pairs if v in found} for found in (sums, carried)]
                yield from _lossy(j, *below)
                for found, there in zip((sums, carried), below, strict=True):
                    found.update(
                        [o for o, v in zip(eqn.outvars, j.outvars, strict=True) if not hasattr(v, "val") and v in there]
                    )
        elif name in _MOVES:
            read = [v for v in _read(eqn) if not hasattr(v, "val")]
            for found in (sums, carried):
                if not found.isdisjoint(read):
                    found.update(outs)
        elif name not in ("dot_general", "conv_general_dilated"):
            if any(v in sums and _is_half(v) for v in ins):
                yield f"{name} of a rounded sum"
            if name in ("add", "add_any", "mul") and not carried.isdisjoint(ins):
                yield f"{name} to what a loop carries in half precision"
            if not sums.isdisjoint(ins):
                sums.update(outs)


def _inner(eqn: Any) -> tuple[list, list]:
    """The programs that run inside of a call, and the operands that they are given."""
    name, params = eqn.primitive.name, eqn.params
    if name.startswith("scatter"):
        return [], []  # what it has says how two numbers become one
    if name == "while":
        return [params["body_jaxpr"].jaxpr], eqn.invars[params["cond_nconsts"] :]
    parts = [p for q in params.values() for p in (q if isinstance(q, (list, tuple)) else [q])]
    found = [j for j in [getattr(p, "jaxpr", p) for p in parts] if hasattr(j, "eqns")]
    return found, eqn.invars[1:] if name == "cond" else eqn.invars


def _read(eqn: Any) -> list:
    """The operands of a move whose numbers it passes on: no places, no conditions."""
    if eqn.primitive.name.startswith("scatter"):
        return [eqn.invars[0], eqn.invars[2]]
    if eqn.primitive.name == "select_n":
        return eqn.invars[1:]
    return eqn.invars[:1] if eqn.primitive.name in ("gather", "dynamic_slice", "pad") else eqn.invars


def _is_half(v: Any) -> bool:
    return v.aval.dtype in (np.float16, ml_dtypes.bfloat16)


def gradient_rule(row: Row) -> None:
    """The declared gradient, and its NumPy form, equal jax.vjp of the body (conjugated: the rules are in Paddle's
    convention).
    """
    reached = False
    kinds = [dtypes.float64, *[d for d in (dtypes.complex128,) if d in row.dtypes]]
    for dtype in kinds:
        samples = [s for s in smooth(row, 20) if all(a.dtype != np.complex128 for a in s.leaves())]
        for bound, sigs, places, given, outs in _nodes(row, 0, dtype, samples):
            needs = tuple([i for i in places if sigs[i].dtype.is_inexact and i not in bound.op.constants])
            if bound.op is not row.target or not needs or not all(s.dtype.is_inexact for s in outs):
                continue
            reached = True
            rng = np.random.default_rng(3)
            ws = [np.asarray(_weights(rng, s)) for s in outs]
            grad = bound.grad_bound((True,) * len(outs), needs, sigs, outs)
            results_of = tracing.traced(bound.lower("cpu"), sigs, bound.many)(*given)
            made = list(results_of) if bound.many else [results_of]
            operands = [*ws, *[given[i] for i in grad.operand_places], *(made if grad.takes_outs else [])]
            specs = (*outs, *[sigs[i] for i in grad.operand_places], *(outs if grad.takes_outs else ()))
            want = tracing.traced(_pullback(bound, needs, len(outs)), (*outs, *sigs), True)(*ws, *given)
            for form, what in (
                (tracing.traced(grad.lower("cpu"), specs, True), "rule"),
                (planning.plan(grad, specs), "rule as interpreted"),
            ):
                for i, g, w in zip(needs, form(*operands), want, strict=True):
                    same(
                        np.asarray(g),
                        np.asarray(w),
                        1e-9 * row.loose[0],
                        f"{bound}({', '.join(map(str, sigs))}): {what} of operand {i}",
                    )
            for i in bound.passes:
                if i in needs and sigs[i] is outs[0]:
                    same(
                        ws[0],
                        np.asarray(want[needs.index(i)]),
                        1e-9,
                        f"{bound}: operand {i} does not pass its gradient through",
                    )
    assert reached, "no sample reached the rule"


def _weights(rng: np.random.Generator, sig: Any) -> np.ndarray:
    w = rng.uniform(-1, 1, sig.shape)
    return (w + 1j * rng.uniform(-1, 1, sig.shape) if sig.dtype.kind == "c" else w).astype(sig.dtype.np)


def _pullback(bound: Bound, needs: tuple, n: int, platform: str = "cpu") -> Callable:
    def pull(*arrays: Any) -> list:
        ws, given = arrays[:n], arrays[n:]

        def of_needed(*xs: Any) -> Any:
            full = list(given)
            for i, x in zip(needs, xs, strict=True):
                full[i] = x
            out = bound.lower(platform)(*full)
            return list(out) if bound.many else [out]

        _, back = jax.vjp(of_needed, *[given[i] for i in needs])
        return [jnp.conj(x) for x in back([jnp.conj(w) for w in ws])]

    return pull


def lowerings(row: Row) -> None:
    """Each platform's own form gives the body's numbers and gradients, as far as it runs here."""
    for platform in {**row.target.lowerings, **row.target.grad_lowerings}:
        reached = "static" in row.skip
        few = 1 if platform == "cpu" else None  # that form is what all other samples are compiled in
        for dtype in (dtypes.float32, dtypes.float64):
            for bound, sigs, places, given, outs in _nodes(row, 0, dtype, row.plain(few)):
                if bound.op is not row.target:
                    continue
                reached = True
                needs = tuple([i for i in places if sigs[i].dtype.is_inexact])
                ws = [_weights(np.random.default_rng(3), s) for s in outs]
                there, here = [
                    tracing.traced(bound.lower(p), sigs, bound.many)(*given) for p in (platform, "reference")
                ]
                tol = 10 * TOLERANCE[dtype.name]
                for a, b in zip(there, here, strict=True) if bound.many else [(there, here)]:
                    same(np.asarray(a), np.asarray(b), tol, f"{bound} on {platform}")
                if not row.target.differentiable:
                    continue
                pulls = [
                    tracing.traced(_pullback(bound, needs, len(outs), p), (*outs, *sigs), True)(*ws, *given)
                    for p in (platform, "reference")
                ]
                for a, b in zip(*pulls, strict=True):
                    same(np.asarray(a), np.asarray(b), tol, f"{bound} on {platform}: gradient")
                if needs and platform in row.target.grad_lowerings and all(s.dtype.is_inexact for s in outs):
                    _rules_agree(bound, needs, sigs, outs, given, ws, platform, tol)
        assert reached, f"no sample reached the form for {platform}"


def _rules_agree(
    bound: Bound, needs: tuple, sigs: tuple, outs: tuple, given: list, ws: list, platform: str, tol: float
) -> None:
    """The gradient rule for a platform gives what the rule beside it gives."""
    grad = bound.grad_bound((True,) * len(outs), needs, sigs, outs)
    results = tracing.traced(bound.lower("reference"), sigs, bound.many)(*given)
    made = list(results) if bound.many else [results]
    operands = [*ws, *[given[i] for i in grad.operand_places], *(made if grad.takes_outs else [])]
    specs = (*outs, *[sigs[i] for i in grad.operand_places], *(outs if grad.takes_outs else ()))
    there, here = [tracing.traced(grad.lower(p), specs, True)(*operands) for p in (platform, "reference")]
    for i, a, b in zip(needs, there, here, strict=True):
        same(np.asarray(a), np.asarray(b), tol, f"{bound} on {platform}: rule of operand {i}")
