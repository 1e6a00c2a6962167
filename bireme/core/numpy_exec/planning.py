"""Plans: a form or a gradient rule that was declared for NumPy, made ready for the interpreter's arrays and types."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.core.graph import cost
from bireme.core.graph.bound import NARROW, Bound, GradBound, bounded, fit, flatten, spec
from bireme.core.graph.graph import Sig, shared
from bireme.core.numpy_exec import primitives
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.core.numpy_exec.tracing import Planned, traced

MAX_PLANS = 128  # of one operator with its attributes: one for each signature that was interpreted


def plan(bound: Bound | GradBound, sigs: tuple[Sig, ...]) -> Callable:
    """A call on NumPy arrays, made once per signature: by the declared form, else from a trace."""
    if isinstance(bound, GradBound):
        if bound.numpy_plan is None:
            bound.numpy_plan = _plan_of_gradient(bound, sigs)
        return bound.numpy_plan
    found = bound.plans.get(sigs)
    if found is None:
        short = bound.op.short_rule
        found = None if short is None else short(*sigs, *bound.attrs)
        form, attrs = _declared(bound)
        if found is not None:
            pass
        elif form is not None:
            found = typed(form, bound.infer(sigs), bound.many, sigs, attrs)
        else:
            found = traced(bound.lower("cpu"), sigs, bound.many)
        bounded(bound.plans, MAX_PLANS)[shared(sigs)] = found
    return found


def found_out(plans: Sequence[Callable]) -> float:
    """What calls take beyond what was estimated, in microseconds, now that they are planned: a body that is traced may have
    a loop of many rounds.
    """
    return sum([cost.TRACED_CALL * max(p.calls - cost.TRACED, 0) for p in plans if p.__class__ is Planned])


def _plan_of_gradient(grad: GradBound, sigs: tuple[Sig, ...]) -> Callable:
    form = grad.base.op.grad_numpy
    if form is None:
        return traced(grad.lower("cpu"), sigs, True)
    rule = _numpy_rule(grad, form, any(s.dtype.np in NARROW for s in sigs))
    return rule if isinstance(rule, NumpyRule) else typed(rule, grad.infer(sigs), True, sigs)


def rule_of_gradient(grad: GradBound, form: Callable) -> NumpyRule:
    """Another rule than the declared one, which reads the same of a gradient."""
    rule = _numpy_rule(grad, form, False)
    assert isinstance(rule, NumpyRule), f"{grad.base.op.name}: its rule reads what is not there"
    return rule


def _declared(bound: Bound) -> tuple[Any, tuple]:
    """The declared form, None if there is none, and the attributes that follow the arrays: the body itself takes its
    own by keyword.
    """
    form, simple = bound.op.numpy_form, bound.layout == (1,) * len(bound.layout)
    if form is not None and bound.op.numpy_is_body:
        return _body_on_numpy(bound, form.resolved()), ()
    if simple or form is None:
        return form, bound.attrs
    names = bound.op.operand_names

    def call(*arrays: Any) -> Any:
        named = bound.arguments(arrays)
        return form(*[named[n] for n in names], *bound.attrs)

    return call, ()


def _body_on_numpy(bound: Bound, body: Callable) -> Callable:
    """The body on NumPy arrays; with its attributes set once where the arrays are its first parameters, which is nearly
    always.
    """
    given = [n for n, count in zip(bound.op.operand_names, bound.layout) if count == 1]
    if any(count not in (1, None) for count in bound.layout) or _positional(body)[: len(given)] != given:
        return lambda *arrays: body(**bound.arguments(arrays))
    left_out = {n: None for n, count in zip(bound.op.operand_names, bound.layout) if count is None}
    fixed = {**left_out, **dict(zip(bound.op.attr_names, bound.attrs))}
    return functools.partial(body, **fixed) if fixed else body


def _numpy_rule(grad: GradBound, form: Callable, widen: bool) -> Callable:
    """The declared rule on NumPy arrays, prepared once; a gradient that is not given is zero."""
    base, count = grad.base, sum(grad.given)
    needs = tuple([i in grad.needs for i in range(len(grad.sigs))])
    known: dict[str, Any] = {**dict(zip(base.op.attr_names, base.attrs)), "sigs": grad.sigs, "needs": needs}
    # one array, or those from here to there
    places: dict[str, int | tuple[int, int]] = {"g": (0, count) if base.many else 0}
    zeros = () if "g" not in base.op.grad_names else tuple([
        (i, np.broadcast_to(np.zeros((), s.dtype.np), s.shape))
        for i, (s, given) in enumerate(zip(grad.outs, grad.given)) if not given
    ])  # fmt: skip
    i = 0
    for name, n in zip(base.op.operand_names, base.layout):
        if n is None:
            known[name] = None
        elif i in grad.operand_places:  # the parts of a list are read all or none
            at = count + grad.operand_places.index(i)
            places[name] = at if n == 1 else (at, at + abs(n))
        elif name in base.op.grad_names and base.op.bilinear:  # the factor that is not read
            known[name] = spec(grad.sigs[i])
        i += abs(n or 0)
    last = count + len(grad.operand_places)
    places["out"] = (last, last + len(grad.given)) if base.many else last
    names = base.op.grad_names
    if not all(name in places or name in known for name in names):
        return functools.partial(grad.by_rule, "numpy", rule=form, xp=np)
    form = form.resolved() if isinstance(form, on_numpy) else form
    order = _positional(form)[: len(names)]  # it may have more, with defaults
    if set(order) != set(names):
        form, order = functools.partial(_by_keyword, form, names), list(names)
    return NumpyRule(
        form,
        [known.get(n) for n in order],
        shared(tuple([shared((k, places[n])) for k, n in enumerate(order) if n not in known])),
        order.index("g") if zeros else 0,
        grad.needs,
        shared(tuple([grad.sigs[i] for i in grad.needs])),
        widen,
        zeros,
    )


@functools.cache
def _positional(form: Callable) -> list[str]:
    return [n for n, p in inspect.signature(form).parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]


def _by_keyword(form: Callable, names: tuple[str, ...], *taken: Any) -> Any:
    return form(**dict(zip(names, taken)))


class _Typed:
    """A NumPy form with half precision computed in float32, and results in the inferred types.

    One object, not a closure: there is one for every shape that an operator was interpreted at.
    """

    __slots__ = ("attrs", "form", "many", "wants", "widen")

    def __init__(self, form: Callable, outs: tuple[Sig, ...], many: bool, sigs: tuple, attrs: tuple = ()):
        self.form, self.many, self.attrs = form, many, attrs
        self.wants = shared(tuple([s.dtype.np for s in outs]))
        self.widen = any(s.dtype.np in NARROW for s in sigs)

    def __call__(self, *xs: Any) -> Any:
        if self.widen:
            xs = tuple([x.astype(np.float32) if x.dtype in NARROW else x for x in map(np.asarray, xs)])
        out = self.form(*xs, *self.attrs)
        if self.many:
            return [converted(o, w) for o, w in zip(out, self.wants)]
        want = self.wants[0]
        return out if out.__class__ is np.ndarray and out.dtype is want else converted(out, want)


def typed(form: Callable, outs: tuple[Sig, ...], many: bool, sigs: tuple[Sig, ...], attrs: tuple = ()) -> Callable:
    """The form in the inferred types; a ufunc that gives them anyway is that already."""
    if (
        isinstance(form, np.ufunc)
        and not attrs
        and form.nout == 1 == len(outs)
        and form.nin == len(sigs)
        and outs[0].ndim
        and not any(s.dtype.np in NARROW for s in sigs)
    ):
        with contextlib.suppress(TypeError):  # a ufunc without a loop for these types
            if form.resolve_dtypes((*[s.dtype.np for s in sigs], None))[-1] == outs[0].dtype.np:
                return form
    return _Typed(form, outs, many, sigs, attrs)


class NumpyRule:
    """A gradient rule on NumPy arrays: what it takes is either known or at a place among the arrays."""

    __slots__ = ("form", "g", "known", "needs", "places", "sigs", "widen", "zeros")

    def __init__(
        self,
        form: Callable,
        known: list[Any],
        places: tuple,
        g: int,
        needs: tuple[int, ...],
        sigs: tuple[Sig, ...],
        widen: bool,
        zeros: tuple[tuple[int, np.ndarray], ...],
    ):
        self.form, self.known, self.places, self.needs, self.sigs = form, known, places, needs, sigs
        self.g, self.widen, self.zeros = g, widen, zeros

    def taken(self, arrays: tuple) -> list:
        """What the form is called with."""
        taken = self.known.copy()
        for k, place in self.places:
            taken[k] = arrays[place] if place.__class__ is int else list(arrays[place[0] : place[1]])
        for i, zero in self.zeros:
            taken[self.g].insert(i, zero)
        return taken

    def __call__(self, *arrays: Any) -> list:
        if self.widen:  # half precision is computed in float32
            arrays = tuple([x.astype(np.float32) if x.dtype in NARROW else x for x in map(np.asarray, arrays)])
        found = self.form(*self.taken(arrays))
        if found.__class__ is np.ndarray:
            fitting = [found]
        else:
            flat = flatten(found) if found.__class__ is tuple else flatten((found,))
            fitting = [flat[i] for i in self.needs]
        for i, (x, sig) in enumerate(zip(fitting, self.sigs)):
            if x.__class__ is not np.ndarray or x.dtype is not sig.dtype.np or x.shape != sig.shape:
                fitting[i] = fit(x, sig, np)
        return fitting


def converted(x: Any, want: Any) -> Any:
    x = x if isinstance(x, np.ndarray) else np.asarray(x)
    return x if x.dtype == want else primitives.cast(x, want)
