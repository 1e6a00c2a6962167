"""Bound: an operator with its attributes, what a Node refers to. GradBound: its gradient, an operator like any other."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, shutdown
from bireme.core.graph import cost
from bireme.core.graph.graph import Sig, shared, sig_of

MAX_AXES = 64
UNCHECKED_BYTES = 1 << 30  # bytes of a result whose size nobody has to look at
NARROW = frozenset(np.dtype(d.np) for d in dtypes.NARROW)
MAX_BOUND = 4096  # attributes, plans and gradients remembered per operator


def _unthinkable(sig: Sig) -> bool:
    """Whether an empty result has axes that no library can count."""
    return math.prod([n for n in sig.shape if n]) * sig.dtype.itemsize >= 1 << 62


def on_mesh(platform: str) -> str:
    """The name of a platform for calls that are divided among several of its devices."""
    return f"{platform} mesh"


def _form(lowerings: dict[str, Callable], platform: str) -> Callable | None:
    """The form of a call for a platform: that of one device serves a mesh too, unless there is one for that."""
    return lowerings.get(platform) or lowerings.get(platform.removesuffix(" mesh"))


class Use:
    """What is known of an operator on operands of certain Sigs: its results, their bytes, and what it takes the
    interpreter.

    The work is in microseconds and rough: to choose a tier, not to be exact.
    """

    __slots__ = ("sigs", "outs", "amounts", "nbytes", "parts", "rows", "work")

    def __init__(
        self,
        sigs: tuple[Sig, ...],
        outs: tuple[Sig, ...],
        amounts: tuple[float, float, float],
        form: Any,
        times: int = 1,
    ):
        self.sigs, self.outs, self.amounts = sigs, outs, amounts
        self.work = cost.of(form, *amounts, times)
        self.nbytes = sum([s.nbytes for s in outs])
        self.rows: Any = False  # what it has to do with rows, see `row_calls`; False: nobody has asked
        self.parts: dict | None = None  # of a gradient, where somebody has asked: those of fewer operands


class Bound:
    """An operator with its attributes: what a Node refers to. Interned, so it compares by identity."""

    of_product = is_gradient = False
    __slots__ = (
        "op",
        "attrs",
        "layout",
        "many",
        "passes",
        "reads",
        "reads_out",
        "constants",
        "differentiable",
        "by_numpy",
        "is_ufunc",
        "_grads",
        "plans",
        "_uses",
        "_jits",
        "_spans",
        "_still",
        "__weakref__",
    )

    def __init__(self, op: Any, layout: tuple, attrs: tuple):
        self.op, self.layout, self.attrs = op, layout, attrs
        self.many = op.many
        self.differentiable, self.constants = op.differentiable, op.constants
        self.passes, self.reads, self.reads_out = op.saves(layout)
        self.by_numpy = bool(op.options.get("by_numpy"))  # NumPy does it much faster than a compiled program on CPU
        self.is_ufunc = isinstance(op.numpy_form, np.ufunc)  # such calls all become one kernel
        self._grads: Interned | None = None
        self.plans: dict = {}  # by Sigs, the call on NumPy arrays: see `numpy_exec.planning`
        self._uses: dict[tuple[Sig, ...], Use] = {}
        self._jits: dict = {}
        self._spans: dict = {}
        self._still: dict = {}

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in zip(self.op.attr_names, self.attrs))
        return f"{self.op.name}[{shown}]" if shown else self.op.name

    @property
    def root(self) -> Bound:
        """The call that it is a gradient of, at whatever order; a call that is none is its own."""
        return self

    @property
    def uses_blas(self) -> bool:
        """Whether its NumPy form multiplies matrices."""
        return self.op.flops_rule is not None

    @property
    def is_nest(self) -> bool:
        """Whether it goes over more than its operands and results, as convolutions do: loops inside of loops."""
        return self.op.effort_rule is not None

    @property
    def shares_cores(self) -> bool:
        """Whether it does that on all cores by itself, see `blas`."""
        return self.op.shares_cores

    @property
    def selects(self) -> bool:
        """Whether its results are elements of its operands, which are then looked for there."""
        rule = self.op.options.get("selects", False)
        return rule if rule.__class__ is bool else rule(dict(zip(self.op.attr_names, self.attrs)))

    @property
    def rows_apart(self) -> bool:
        """Whether the rows of a batch must come out the same wherever in it they stand, in the whole program."""
        return self.op.options.get("rows_apart", False)

    @property
    def device_only(self) -> bool:
        """Whether it runs on the device that it was called for, even where the host would be sooner done."""
        return self.op.options.get("device_only", False)

    def arguments(self, arrays: Any) -> dict[str, Any]:
        """Flat operands and attributes as the body's keyword arguments."""
        named, i = dict(zip(self.op.attr_names, self.attrs)), 0
        for name, n in zip(self.op.operand_names, self.layout):
            if n is None:
                named[name] = None
            elif n == 1:
                named[name] = arrays[i]
                i += 1
            else:
                named[name] = list(arrays[i : i - n]) if n <= 0 else tuple(arrays[i : i + n])
                i += abs(n)
        return named

    def spans(self, sigs: tuple) -> tuple[tuple[int, str, tuple], ...]:
        """Which operands are indices: (place, what it is called, lowest and highest and the one that is ignored), see
        `Op.index`.
        """
        found = self._spans.get(sigs)
        if found is None:
            places = self.arguments(range(len(sigs)))
            rule = self.op.index_rule(self.arguments(sigs))
            found = tuple(
                [
                    (places[name], f"{self.op.index_names[0]}({name})", tuple(span))
                    for name, *span in rule
                    if places[name] is not None
                ]
            )
            bounded(self._spans)[shared(sigs)] = found
        return found

    def lower(self, platform: str) -> Callable:
        """The call on jax arrays, in the form for this platform."""
        body = _form(self.op.lowerings, platform) or self.op.body
        if self.op.wide or self.op.upcast:
            return functools.partial(self._rounded if self.op.wide else self._upcast, body)
        return lambda *arrays: body(**self.arguments(arrays))

    def on_beginnings(self, platform: str, arrays: Sequence[Any], lengths: Sequence[Lengths]) -> tuple[list, list[int]]:
        """The call on arrays of which only beginnings are valid, by the operator's own form for that: results, and for each
        the operand whose beginning is its own; raises Inapplicable.
        """
        rule = _form(self.op.padded_forms, platform) or self.op.padded_forms.get(ANY)
        if rule is None or self.many:
            raise Inapplicable
        return [rule(self.arguments(lengths), **self.arguments(arrays))], [0]

    def _rounded(self, body: Callable, *arrays: Any) -> Any:
        """The body with a wider number beside half precision: computed as wide as the number, and rounded once."""
        narrow = next((x.dtype for x in arrays if x.dtype in NARROW), None)
        if narrow is None or all(x.dtype == narrow for x in arrays):
            return body(**self.arguments(arrays))
        return body(**self.arguments([x.astype(jnp.float32) for x in arrays])).astype(narrow)

    def _upcast(self, body: Callable, *arrays: Any) -> Any:
        """The body on half precision as float32, and its results rounded once."""
        if not any(x.dtype in NARROW for x in arrays):
            return body(**self.arguments(arrays))
        outs = self.infer(tuple([sig_of(tuple(x.shape), dtypes.from_numpy(x.dtype)) for x in arrays]))
        made = body(**self.arguments(upcast(arrays)))
        found = [x.astype(s.dtype.np) for x, s in zip(made if self.many else [made], outs)]
        return self.op.container(found) if self.many else found[0]

    def lower_once(self, platform: str) -> Callable:
        """The same, traced once for each kind of operands however often it is called."""
        return jax.jit(self.lower(platform), inline=True)

    def jitted(self, platform: str, around: Callable[[Callable, str], Callable]) -> Callable:
        """The same as a program of its own; `around` makes what is compiled of it."""
        found = self._jits.get(platform)
        if found is None:
            found = self._jits[platform] = jax.jit(around(self.lower(platform), platform))
        return found

    def use(self, sigs: tuple[Sig, ...]) -> Use:
        """What is known of it on such operands; raises for those that do not fit."""
        found = self._uses.get(sigs)
        if found is None:
            outs = shared(self._infer(sigs))
            # an update of many parameters
            each = max(1, -min([n for n in self.layout if n is not None], default=0)) if self.many else 1
            sigs = shared(sigs)
            found = Use(sigs, outs, self.amounts(sigs, outs), self.op.numpy_form, each)
            bounded(self._uses)[sigs] = found
        return found

    def infer(self, sigs: tuple[Sig, ...]) -> tuple[Sig, ...]:
        """Sigs of the results; raises for operands that do not fit."""
        return self.use(sigs).outs

    def _infer(self, sigs: tuple[Sig, ...]) -> tuple[Sig, ...]:
        if self.op.check_rule is not None:
            self.op.check_rule(**only(self.op.check_names, self.arguments(sigs)))
        if self.op.infer_rule is not None:
            out = self.op.infer_rule(**only(self.op.infer_names, self.arguments(sigs)))
            found = (out,) if isinstance(out, Sig) else tuple(out)
        else:
            found = self._trace(sigs)
        for s in found:
            if s.ndim > MAX_AXES:
                raise errors.bad(
                    f"{self.op.told}()", f"a result of at most {MAX_AXES} dimensions", described=f"{s.ndim} dimensions"
                )
            if (s.nbytes > UNCHECKED_BYTES and s.nbytes > devices.current().capacity) or (
                s.size == 0 and _unthinkable(s)
            ):
                raise self._too_large(s)
        return found

    def _too_large(self, sig: Sig) -> Exception:
        """Refused before anything is allocated: a system that overcommits would end the process instead."""
        shown = f"shape {list(sig.shape)}, {sig.nbytes / 2**30:.1f} GiB of {sig.dtype.name}"
        have = f"{devices.current().capacity / 2**30:.1f} GiB"
        return errors.bad(
            f"{self.op.told}()", f"a result that fits into {have} of memory", described=shown, kind=MemoryError
        )

    def _trace(self, sigs: tuple[Sig, ...]) -> tuple[Sig, ...]:
        specs = [jax.ShapeDtypeStruct(s.shape, s.dtype.np) for s in sigs]
        try:
            with jax.enable_x64(True):
                out = shutdown.within(jax.eval_shape, self.lower("cpu"), *specs)
        except (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError) as e:
            raise _misfit(self, sigs, e) from None
        outs = out if self.many else [out]
        return tuple([sig_of(tuple(o.shape), dtypes.from_numpy(np.dtype(o.dtype))) for o in outs])

    def amounts(self, sigs: tuple[Sig, ...], outs: tuple[Sig, ...]) -> tuple[float, float, float]:
        """Elements of operands and results, how many more are gone over, and the arithmetic of products."""
        op = self.op
        elements = sum([s.size for s in sigs]) + sum([s.size for s in outs])
        more = op.effort_rule(**only(op.effort_names, self.arguments(sigs))) if op.effort_rule is not None else 0
        if op.draws:
            more += cost.DRAWN * sum([s.size for s in outs])
        flops = op.flops_rule(*sigs) if op.flops_rule is not None and {1, None}.issuperset(self.layout) else 0
        return elements, more, flops

    def grad_bound(self, given: tuple[bool, ...], needs: tuple[int, ...], sigs: tuple, outs: tuple) -> GradBound:
        """The gradient as an operator: of its operands in `needs`, with gradients of the outputs in `given`."""
        grads = self._grads
        if grads is None:
            grads = self._grads = Interned()
        found = grads[given, needs, sigs, outs]
        if found is None:
            key = (given, shared(needs), shared(sigs), shared(outs))  # (True,) shared might become the (1,) of another
            found = grads.keep(key, GradBound(self, *key))
        return found


class GradBound:
    """The gradient of a Bound: an operator like any other, so it has a gradient too."""

    __slots__ = (
        "op",
        "base",
        "given",
        "needs",
        "sigs",
        "outs",
        "operand_places",
        "takes_outs",
        "of_product",
        "_constants",
        "_grads",
        "numpy_plan",
        "_jits",
        "_use",
        "_still",
        "by_numpy",
        "__weakref__",
    )

    many = differentiable = is_gradient = True
    is_ufunc = False
    selects = False  # what it reads of the operands is held where they are selected from
    rows_apart = False
    passes: frozenset[int] = frozenset()
    reads = None
    reads_out = False  # the base's outputs are operands; its own are not read
    layout = attrs = ()

    def __init__(self, base: Any, given: tuple, needs: tuple, sigs: tuple, outs: tuple):
        self.base, self.given, self.needs, self.sigs, self.outs = base, given, needs, sigs, outs
        self.op = base.op.grad_op
        # the gradient of a factor reads the other one
        reads = (
            (1 - needs[0],)
            if base.op.bilinear and len(needs) == 1
            else range(len(sigs))
            if base.reads is None
            else sorted(base.reads)
        )
        self.operand_places = shared(tuple(reads))
        self.takes_outs = base.reads_out
        self.of_product, self.by_numpy = bool(base.op.scales), base.by_numpy
        self._constants: frozenset[int] | None = None
        self._grads: Interned | None = None
        # there is one plan and one use: the Sigs of a gradient's operands follow from those of the base
        self.numpy_plan: Any = None
        self._use: Use | None = None
        self._jits: dict = {}
        self._still: dict = {}

    def __repr__(self) -> str:
        return f"{self.base}.grad{list(self.needs)}"

    @property
    def root(self) -> Bound:
        return self.base.root

    @property
    def device_only(self) -> bool:
        return self.base.device_only

    @property
    def uses_blas(self) -> bool:
        return self.base.uses_blas

    @property
    def is_nest(self) -> bool:
        return self.base.is_nest

    @property
    def shares_cores(self) -> bool:
        return self.base.shares_cores

    @property
    def operand_sigs(self) -> tuple[Sig, ...]:
        """Sigs of its operands: of the gradients that are given, then of what it reads."""
        read = [self.sigs[i] for i in self.operand_places] + (list(self.outs) if self.takes_outs else [])
        return tuple([s for s, g in zip(self.outs, self.given) if g] + read)

    @property
    def constants(self) -> frozenset[int]:
        """Operands without a part in its own derivative, as what `relu`'s gradient only compares: gradients go past
        them, as in Paddle.
        """
        if self._constants is None:
            # a trace for each length of a sequence would be slow: what is multiplied and what compared does not
            # depend on it
            sizes = [(s.dtype, tuple([min(n, 2) for n in s.shape])) for s in (*self.sigs, *self.outs)]
            known, key = self.base._still, (self.given, self.needs, tuple(sizes))
            found = known.get(key)
            if found is None:
                found = bounded(known)[key] = self._find_constants()
            self._constants = found
        return self._constants

    def _find_constants(self) -> frozenset[int]:
        n = sum(self.given)
        if self.base.op.is_product:  # what it reads are factors, each for the other's gradient
            places = [(n + k, i) for k, i in enumerate(self.operand_places) if self.sigs[i].dtype.kind in "fc"]
            return frozenset([at for at, i in places if 1 - i not in self.needs])
        sigs = self.operand_sigs
        asked = tuple([i for i in range(n, len(sigs)) if sigs[i].dtype.kind in "fc"])
        outs = self.infer(sigs)
        given = tuple([s.dtype.kind in "fc" for s in outs])
        if not asked or not any(given):
            return frozenset()
        grad = GradBound(self, given, asked, sigs, outs)
        coming = [s for s, g in zip(outs, given) if g]
        try:
            with jax.enable_x64(True):
                traced = jax.make_jaxpr(grad.lower("reference"))(*map(spec, [*coming, *sigs])).jaxpr
        except (NotImplementedError, TypeError, ValueError):
            return frozenset()  # it has no derivative: who asks for one is told
        reached = set(traced.invars[: len(coming)])
        for step in traced.eqns:
            if not reached.isdisjoint([v for v in step.invars if not hasattr(v, "val")]):
                reached.update(step.outvars)
        return frozenset([i for i, v in zip(asked, traced.outvars) if hasattr(v, "val") or v not in reached])

    def use(self, sigs: tuple[Sig, ...] = ()) -> Use:
        """What is known of it; nobody has to say the Sigs of its operands."""
        if self._use is None:
            sigs, outs = shared(self.operand_sigs), shared(tuple([self.sigs[i] for i in self.needs]))
            elements, more, flops = self.base.use(self.sigs).amounts
            if self.base.op.draws:  # what was drawn is known by now
                more = 0
            times = min(len(self.needs), 2)
            amounts = times * elements, times * more, times * flops
            self._use = Use(sigs, outs, amounts, self.base.op.grad_numpy)
        return self._use

    def infer(self, sigs: tuple[Sig, ...]) -> tuple[Sig, ...]:
        return self.use(sigs).outs

    def amounts(self, sigs: tuple[Sig, ...], outs: tuple[Sig, ...]) -> tuple[float, float, float]:
        return self.use().amounts

    def split(self, arrays: Sequence[Any]) -> tuple[list, list, Any]:
        """Its operands as gradients of the outputs, operands of the base, and outputs of the base."""
        n = sum(self.given)
        present = iter(arrays[:n])
        gs = [next(present) if g else None for g in self.given]
        saved: list[Any] = [None] * len(self.sigs)
        rest = list(arrays[n:])
        for i in self.operand_places:
            saved[i] = rest.pop(0)
        return gs, saved, rest

    def lower(self, platform: str) -> Callable:
        return functools.partial(self.by_rule if self.base.op.grad_rule is not None else self._derived, platform)

    lower_once, jitted = Bound.lower_once, Bound.jitted

    def by_rule(self, platform: str, *arrays: Any, rule: Any = None, xp: Any = jnp) -> list:
        """The declared rule, with what it names."""
        base = self.base
        gs, saved, outs = self.split(upcast(arrays) if base.op.grad_upcast else arrays)
        named = base.arguments([s if s is not None else spec(sig) for s, sig in zip(saved, self.sigs)])
        full = [g if g is not None else xp.zeros(s.shape, s.dtype.np) for g, s in zip(gs, self.outs)]
        named["g"] = full if base.many else full[0]
        if self.takes_outs:
            named["out"] = outs if base.many else outs[0]
        named["sigs"] = self.sigs
        named["needs"] = tuple([i in self.needs for i in range(len(self.sigs))])
        found = (rule or _form(base.op.grad_lowerings, platform) or base.op.grad_rule)(
            **only(base.op.grad_names, named)
        )
        flat = flatten(found if isinstance(found, tuple) else (found,))
        return [fit(flat[i], self.sigs[i], xp) for i in self.needs]

    def on_beginnings(self, platform: str, arrays: Sequence[Any], lengths: Sequence[Lengths]) -> tuple[list, list[int]]:
        base = self.base
        form = _form(base.op.padded_grad_forms, platform) or base.op.padded_grad_forms.get(ANY)
        if form is None or base.many or not set(self.needs) <= set(self.operand_places):
            raise Inapplicable
        (coming,), saved, _ = self.split(lengths)
        made = self.by_rule(platform, *arrays, rule=functools.partial(form, {**base.arguments(saved), "g": coming}))
        return made, [sum(self.given) + self.operand_places.index(i) for i in self.needs]

    def _derived(self, platform: str, *arrays: Any) -> list:
        """jax.vjp of the body. jax's complex gradient is the conjugate of Paddle's, so conjugate in and out."""
        base = self.base
        gs, saved, _ = self.split(upcast(arrays) if base.op.grad_upcast else arrays)
        # the gradient of a gradient goes through the reference: a platform's own kernel may have no second derivative
        fn = base.lower("reference" if isinstance(base, GradBound) else platform)

        def of_needed(*xs):
            full = list(saved)
            for i, x in zip(self.needs, xs):
                full[i] = x
            return fn(*full)

        # jax differentiates floats alone: integers stand in as such
        made, pull = jax.vjp(
            of_needed,
            *[saved[i] if self.sigs[i].dtype.kind in "fc" else saved[i].astype(jnp.float64) for i in self.needs],
        )
        cots: list[Any] = []
        for g, s, out in zip(gs, self.outs, made if base.many else [made]):
            if not jnp.issubdtype(out.dtype, jnp.inexact):
                cots.append(np.zeros(s.shape, jax.dtypes.float0))
            else:
                cots.append(
                    jnp.zeros(s.shape, out.dtype)
                    if g is None
                    else jnp.conj(g)
                    if s.dtype.kind == "c"
                    else g.astype(out.dtype)
                )
        found = pull(cots[0] if not base.many else base.op.container(cots))
        return [
            fit(jnp.conj(x) if self.sigs[i].dtype.kind == "c" else x, self.sigs[i]) for i, x in zip(self.needs, found)
        ]

    def grad_bound(self, given: tuple, needs: tuple, sigs: tuple, outs: tuple) -> GradBound:
        return Bound.grad_bound(self, given, needs, sigs, outs)  # type: ignore[arg-type]  # it has what the method reads

    def arguments(self, arrays: Any) -> Any:
        raise AssertionError("a gradient node has no declared rule of its own")


ANY = "any"  # in the place of a platform

Lengths = tuple[Any, ...]  # how much of each axis of an operand is valid; None for all of it


class Inapplicable(Exception):
    """A form of a call that does not apply to these operands."""


class Facts:
    """What may be asked of the operator that a call names, and what holds of one that does not say otherwise; gradients
    say little.
    """

    # what it is
    is_view = is_product = bilinear = linear = by_operators = carries = of_the_past = wide = upcast = grad_upcast = (
        False
    )
    draws = False  # random numbers; what a gradient draws again is an operand of it
    elementwise = False  # each element of the result comes from those at its place
    scales: tuple[int, ...] = ()
    each: tuple[str, ...] | None = None
    options: Mapping[str, Any] = MappingProxyType({})
    container: Any = list

    # what it takes
    operand_names: tuple[str, ...] = ()
    attr_names: tuple[str, ...] = ()

    # its rules
    check_rule: Callable | None = None
    index_rule: Callable | None = None
    short_rule: Callable | None = None
    rows_rule: Callable | None = None
    rows_names: tuple[str, ...] = ()
    put_rule: Callable | None = None
    layout_rule: Callable | None = None
    grad_rule: Callable | None = None
    grad_numpy: Callable | None = None
    grad_rows: Callable | None = None
    on_rows: Any = None
    numpy_form: Any = None
    numpy_is_body = False
    padded_forms: Mapping[str, Callable] = MappingProxyType({})
    padded_grad_forms: Mapping[str, Callable] = MappingProxyType({})


class GradOp(Facts):
    """The operator a GradBound names: `tanh.grad`, `tanh.grad.grad`, ..."""

    def __init__(self, name: str, told: str):
        self.name, self.told = name + ".grad", told + ".grad"
        self.lowerings: dict = {}
        self.grad_lowerings: dict = {}
        self._next: GradOp | None = None

    @property
    def grad_op(self) -> GradOp:
        if self._next is None:
            self._next = GradOp(self.name, self.told)
        return self._next


def spec(sig: Sig) -> Any:
    return jax.ShapeDtypeStruct(sig.shape, sig.dtype.np)


def upcast(arrays: Any) -> list:
    """Half precision in float32."""
    return [x.astype(np.float32) if x.dtype in NARROW else x for x in arrays]


def fit(x: Any, sig: Sig, xp: Any = jnp) -> Any:
    """A gradient in the operand's shape and type; None means zero, and so does jax's own kind of none."""
    if x is None or x.dtype == jax.dtypes.float0:
        return xp.zeros(sig.shape, sig.dtype.np)
    assert x.shape == sig.shape, f"a gradient of shape {x.shape} for an operand of shape {sig.shape}"
    if x.dtype == sig.dtype.np:
        return x
    if sig.dtype.kind == "f" and x.dtype.kind == "c":
        x = x.real
    return x.astype(sig.dtype.np)


def flatten(found: tuple) -> list:
    flat: list[Any] = []
    for x in found:
        flat.extend(x) if isinstance(x, (list, tuple)) else flat.append(x)
    return flat


def only(names: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {n: arguments[n] for n in names}


def bounded(cache: dict, bound: int = MAX_BOUND) -> dict:
    if len(cache) >= bound:
        cache.clear()
    return cache


def exact(x: Any) -> tuple:
    """An attribute as one part of a key, with its type: True, 1 and 1.0 are equal, 0.0 and -0.0 too, NaN is not.

    A list is one part with all that is in it, its integers as they are: else `[], 1` would be `[1]`.
    """
    kind = x.__class__
    if kind is tuple or kind is list:
        for i in x:
            if i.__class__ is not int:
                return (kind, *[i if i.__class__ is int else exact(i) for i in x])
        return (kind, *x)
    if isinstance(x, _INEXACT) and (kind is not float or not x or x != x):
        return kind, repr(x)
    return kind, x


_INEXACT = (float, complex, np.inexact)


class Interned(dict):
    """Objects that compare by identity, one per key, bounded; what is in use when the bound is reached stays itself."""

    _alive: Any = None  # what was there before, weakly

    def __missing__(self, key: Any) -> Any:
        return None if self._alive is None else self._alive.get(key)

    def keep(self, key: Any, made: Any) -> Any:
        if len(self) >= MAX_BOUND:
            if self._alive is None:
                self._alive = WeakValueDictionary()
            self._alive.update(self)
            self.clear()
        return self.setdefault(key, made)


def _misfit(bound: Bound, sigs: tuple, e: Exception) -> Exception:
    named = bound.arguments([f"{list(s.shape)} {s.dtype.name}" for s in sigs])
    operands = ", ".join(f"{n}: {named[n]}" for n in bound.op.operand_names if named[n] is not None)
    reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
    kind = errors.OutOfRangeError if isinstance(e, IndexError) else errors.ShapeError
    return errors.bad(
        f"{bound.op.told}({', '.join(bound.op.operand_names)})",
        "operands of compatible shapes",
        described=operands,
        hint=reason,
        kind=kind,
    )
