"""Op: one declaration gives the public function, the Tensor method, the in-place twin, the graph node and its rules.

    @op(method=True, inplace=True, promote="x y")
    def add(x: Tensor, y: Tensor) -> Tensor:
        "Elementwise sum with broadcasting. (and an executed example)"
        return jnp.add(x, y)

The body is the implementation on jax arrays. Annotations carry the meaning: `Tensor` is an operand, `Tensor | float`
an operand that may be a Python number, `list[Tensor]` several, `Key` a place in the random stream; everything else is
an attribute and part of the key. A rule declared with `@add.grad` names what it reads: the incoming gradient `g`, `out`,
operands and attributes by name, `sigs` for the operands' shapes and dtypes, or the `platform` it is compiled for; what
it does not name is not kept.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary, ref

import jax
import jax.numpy as jnp
import numpy as np

from bireme.core import convert, errors, flush, interpreter, primitives, registry, tape, view
from bireme.core import dtype as dtypes
from bireme.core.convert import Attr, Axes, Axis, Const, DTypeArg, Extra, Ints, Key, Shape, Size
from bireme.core.graph import Sig, Value, scalar_sig, sig_of
from bireme.core.tensor import Tensor, read

__all__ = ["Attr", "Axes", "Axis", "Const", "DTypeArg", "Extra", "Ints", "Key", "Shape", "Size", "Tensor", "composite", "op"]

MAX_BOUND = 4096  # attributes, plans and gradients remembered per operator


class Bound:
    """An operator with its attributes: what a Node refers to. Interned, so it compares by identity."""

    __slots__ = ("op", "attrs", "layout", "many", "passes", "reads", "reads_out", "differentiable", "_grads", "_plans", "_outs", "_jits", "__weakref__")

    def __init__(self, op: Any, layout: tuple, attrs: tuple):
        self.op, self.layout, self.attrs = op, layout, attrs
        self.many = op.many
        self.differentiable = op.differentiable
        self.passes, self.reads, self.reads_out = op.saves(layout)
        self._grads = Interned()
        self._plans: dict = {}
        self._outs: dict = {}
        self._jits: dict = {}

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in zip(self.op.attr_names, self.attrs))
        return f"{self.op.name}[{shown}]" if shown else self.op.name

    @property
    def uses_blas(self) -> bool:
        """Whether its NumPy form multiplies matrices."""
        return self.op.flops_rule is not None

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

    def lower(self, platform: str) -> Callable:
        """The call on jax arrays, in the form for this platform."""
        body = self.op.lowerings.get(platform, self.op.body)
        return lambda *arrays: body(**self.arguments(arrays))

    def jitted(self, platform: str) -> Callable:
        found = self._jits.get(platform)
        if found is None:
            found = self._jits[platform] = jax.jit(self.lower(platform))
        return found

    def infer(self, sigs: tuple[Sig, ...]) -> tuple[Sig, ...]:
        """Sigs of the results; raises for operands that do not fit."""
        found = self._outs.get(sigs)
        if found is None:
            if self.op.check_rule is not None:
                self.op.check_rule(**_only(self.op.check_names, self.arguments(sigs)))
            if self.op.infer_rule is not None:
                out = self.op.infer_rule(**_only(self.op.infer_names, self.arguments(sigs)))
                found = (out,) if isinstance(out, Sig) else tuple(out)
            else:
                found = self._trace(sigs)
            _bounded(self._outs)[sigs] = found
        return found

    def _trace(self, sigs: tuple[Sig, ...]) -> tuple[Sig, ...]:
        specs = [jax.ShapeDtypeStruct(s.shape, s.dtype.np) for s in sigs]
        try:
            with jax.enable_x64(True):
                out = jax.eval_shape(self.lower("cpu"), *specs)
        except (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError) as e:
            raise _misfit(self, sigs, e) from None
        outs = out if self.many else [out]
        return tuple([sig_of(tuple(o.shape), dtypes.from_numpy(np.dtype(o.dtype))) for o in outs])

    def work(self, sigs: tuple[Sig, ...], outs: tuple[Sig, ...]) -> float:
        """Microseconds that the interpreter would take, roughly: to choose a tier, not to be exact."""
        moved = sum([s.size for s in sigs]) + sum([s.size for s in outs])
        flops = self.op.flops_rule(*sigs) if self.op.flops_rule is not None and self.layout == (1,) * len(sigs) else 0
        form = self.op.numpy_form
        calls = 1 if isinstance(form, np.ufunc) else 4 if form is not None else 12
        return 1.5 * calls * max(1, -min([n for n in self.layout if n is not None], default=0)) + moved * 5e-4 + flops * 2e-5

    def plan(self, sigs: tuple[Sig, ...]) -> Callable:
        """The call on NumPy arrays, for the interpreter."""
        found = self._plans.get(sigs)
        if found is None:
            if self.op.numpy_form is not None:
                found = _typed(self._numpy(), self.infer(sigs), self.many, sigs)
            else:
                found = interpreter.plan(self.lower("cpu"), sigs, self.many)
            _bounded(self._plans, 128)[sigs] = found
        return found

    def _numpy(self) -> Callable:
        """The declared form: the body itself by keyword, any other with operands and attributes in order."""
        form, plain = self.op.numpy_form, self.layout == (1,) * len(self.layout)
        if plain and not self.attrs:
            return form
        if self.op.numpy_is_body:
            return lambda *arrays: form(**self.arguments(arrays))
        attrs, names = self.attrs, self.op.operand_names
        if plain:
            return lambda *arrays: form(*arrays, *attrs)

        def call(*arrays: Any) -> Any:
            named = self.arguments(arrays)
            return form(*[named[n] for n in names], *attrs)

        return call

    def grad_bound(self, given: tuple[bool, ...], needs: tuple[int, ...], sigs: tuple, outs: tuple) -> GradBound:
        """The gradient as an operator: of its operands in `needs`, with gradients of the outputs in `given`."""
        key = (given, needs, sigs, outs)
        return self._grads[key] or self._grads.keep(key, GradBound(self, given, needs, sigs, outs))


class GradBound:
    """The gradient of a Bound: an operator like any other, so it has a gradient too."""

    __slots__ = ("op", "base", "given", "needs", "sigs", "outs", "operand_places", "takes_outs", "many", "passes", "reads",
                 "reads_out", "differentiable", "_grads", "_plans", "_jits", "layout", "attrs", "__weakref__")  # fmt: skip

    def __init__(self, base: Any, given: tuple, needs: tuple, sigs: tuple, outs: tuple):
        self.base, self.given, self.needs, self.sigs, self.outs = base, given, needs, sigs, outs
        self.op = base.op.grad_op
        self.operand_places = tuple(range(len(sigs))) if base.reads is None else tuple(i for i in range(len(sigs)) if i in base.reads)
        self.takes_outs, self.reads_out = base.reads_out, False  # the base's outputs are operands; its own are not read
        self.many, self.differentiable = True, True
        self.passes: frozenset[int] = frozenset()
        self.reads = None
        self.layout, self.attrs = (), ()
        self._grads = Interned()
        self._plans: dict = {}
        self._jits: dict = {}

    def __repr__(self) -> str:
        return f"{self.base}.grad{list(self.needs)}"

    @property
    def uses_blas(self) -> bool:
        return self.base.uses_blas

    def infer(self, sigs: tuple[Sig, ...]) -> tuple[Sig, ...]:
        return tuple([self.sigs[i] for i in self.needs])

    def work(self, sigs: tuple[Sig, ...], outs: tuple[Sig, ...]) -> float:
        return 2 * self.base.work(self.sigs, self.outs)

    def _split(self, arrays: tuple) -> tuple[list, list, Any]:
        n = sum(self.given)
        present = iter(arrays[:n])
        gs = [next(present) if g else None for g in self.given]
        saved: list[Any] = [None] * len(self.sigs)
        rest = list(arrays[n:])
        for i in self.operand_places:
            saved[i] = rest.pop(0)
        return gs, saved, rest

    def lower(self, platform: str) -> Callable:
        return functools.partial(self._rule if self.base.op.grad_rule is not None else self._derived, platform)

    jitted = Bound.jitted

    def _rule(self, platform: str, *arrays: Any, rule: Any = None, xp: Any = jnp) -> list:
        """The declared rule, with what it names."""
        base = self.base
        gs, saved, outs = self._split(arrays)
        named = base.arguments([s if s is not None else _spec(sig) for s, sig in zip(saved, self.sigs)])
        full = [g if g is not None else xp.zeros(s.shape, s.dtype.np) for g, s in zip(gs, self.outs)]
        named["g"] = full if base.many else full[0]
        if self.takes_outs:
            named["out"] = outs if base.many else outs[0]
        named["sigs"], named["platform"] = self.sigs, platform
        found = (rule or base.op.grad_rule)(**_only(base.op.grad_names, named))
        flat = _flatten(found if isinstance(found, tuple) else (found,))
        return [_fit(flat[i], self.sigs[i], xp) for i in self.needs]

    def _derived(self, platform: str, *arrays: Any) -> list:
        """jax.vjp of the body. jax's complex gradient is the conjugate of Paddle's, so conjugate in and out."""
        base = self.base
        gs, saved, _ = self._split(arrays)
        # the gradient of a gradient goes through the reference: a platform's own kernel may have no second derivative
        fn = base.lower("reference" if isinstance(base, GradBound) else platform)

        def of_needed(*xs):
            full = list(saved)
            for i, x in zip(self.needs, xs):
                full[i] = x
            return fn(*full)

        _, pull = jax.vjp(of_needed, *[saved[i] for i in self.needs])
        cots = []
        for g, s in zip(gs, self.outs):
            if s.dtype.kind not in "fc":
                cots.append(np.zeros(s.shape, jax.dtypes.float0))
            else:
                cots.append(jnp.zeros(s.shape, s.dtype.np) if g is None else jnp.conj(g) if s.dtype.kind == "c" else g)
        found = pull(cots[0] if not base.many else base.op.container(cots))
        return [_fit(jnp.conj(x) if self.sigs[i].dtype.kind == "c" else x, self.sigs[i]) for i, x in zip(self.needs, found)]

    def plan(self, sigs: tuple[Sig, ...]) -> Callable:
        found = self._plans.get(sigs)
        if found is None:
            form = self.base.op.grad_numpy
            if form is not None:
                found = _typed(functools.partial(self._rule, "numpy", rule=form, xp=np), self.infer(sigs), True, sigs)
            else:
                found = interpreter.plan(self.lower("cpu"), sigs, True)
            _bounded(self._plans, 128)[sigs] = found
        return found

    def grad_bound(self, given: tuple, needs: tuple, sigs: tuple, outs: tuple) -> GradBound:
        return Bound.grad_bound(self, given, needs, sigs, outs)  # type: ignore[arg-type]

    def arguments(self, arrays: Any) -> Any:
        raise AssertionError("a gradient node has no declared rule of its own")


class GradOp:
    """The operator a GradBound names: `tanh.grad`, `tanh.grad.grad`, ..."""

    def __init__(self, name: str):
        self.name = name + ".grad"
        self.grad_rule = self.grad_numpy = None
        self.lowerings: dict = {}
        self._next: GradOp | None = None
        self.container = list

    @property
    def grad_op(self) -> GradOp:
        if self._next is None:
            self._next = GradOp(self.name)
        return self._next


def _spec(sig: Sig) -> Any:
    return jax.ShapeDtypeStruct(sig.shape, sig.dtype.np)


def _fit(x: Any, sig: Sig, xp: Any = jnp) -> Any:
    """A gradient in the operand's shape and type; None means zero."""
    if x is None:
        return xp.zeros(sig.shape, sig.dtype.np)
    assert tuple(x.shape) == sig.shape, f"a gradient of shape {x.shape} for an operand of shape {sig.shape}"
    if x.dtype == sig.dtype.np:
        return x
    if sig.dtype.kind == "f" and x.dtype.kind == "c":
        x = x.real
    return x.astype(sig.dtype.np)


def _flatten(found: tuple) -> list:
    flat: list[Any] = []
    for x in found:
        flat.extend(x) if isinstance(x, (list, tuple)) else flat.append(x)
    return flat


def _only(names: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {n: arguments[n] for n in names}


def _bounded(cache: dict, bound: int = MAX_BOUND) -> dict:
    if len(cache) >= bound:
        cache.clear()
    return cache


def _kinds_of(args: tuple, takes_number: tuple, kwargs: dict[str, Any], number_names: Any) -> tuple | None:
    """What a call's memory is keyed by: Sigs of tensors, types of numbers that travel, values of all else.

    None where something is in it that a key cannot stand for, such as a list with tensors.
    """
    if len(args) > len(takes_number):
        return None
    key: list[Any] = []
    for x, travels in zip(args, takes_number):
        if isinstance(x, Tensor):
            key.append(x._value.sig)
        elif (kind := x.__class__) is float and travels:
            key.append(float)
        elif kind is int or kind is bool or kind is str or kind is float or x is None or kind is dtypes.DType:
            key += (kind, x)
        elif (kind is list or kind is tuple) and all([i.__class__ is int for i in x]):
            key += (kind, *x)
        else:
            return None
    for name, x in kwargs.items():
        key.append(name)
        if isinstance(x, Tensor):
            key.append(x._value.sig)
        elif (kind := x.__class__) is float and name in number_names:
            key.append(float)
        elif kind is int or kind is bool or kind is str or kind is float or x is None or kind is dtypes.DType:
            key += (kind, x)
        elif (kind is list or kind is tuple) and all([i.__class__ is int for i in x]):
            key += (kind, *x)
        else:
            return None
    return tuple(key)


class Interned(dict):
    """Objects that compare by identity, one per key: a bounded dict over a weak one, so what is in use stays itself."""

    def __init__(self) -> None:
        self._alive: WeakValueDictionary = WeakValueDictionary()

    def __missing__(self, key: Any) -> Any:
        return self._alive.get(key)

    def keep(self, key: Any, made: Any) -> Any:
        if len(self) >= MAX_BOUND:
            self.clear()
        self[key] = made = self._alive.setdefault(key, made)
        return made


def _typed(form: Callable, outs: tuple[Sig, ...], many: bool, sigs: tuple) -> Callable:
    """A NumPy form with half precision computed in float32, and results in the inferred types."""
    small = {np.dtype(d.np) for d in (dtypes.float16, dtypes.bfloat16, dtypes.float8_e4m3fn, dtypes.float8_e5m2)}
    wants = [s.dtype.np for s in outs]
    widen = any(s.dtype.np in small for s in sigs)

    def settle(x: Any, want: Any) -> Any:
        x = x if isinstance(x, np.ndarray) else np.asarray(x)
        return x if x.dtype == want else primitives.cast(x, want)

    if not widen and not many and isinstance(form, np.ufunc):
        want = wants[0]
        return lambda *xs: (o if getattr(o := form(*xs), "dtype", None) == want else settle(o, want))

    def call(*xs: Any) -> Any:
        if widen:
            xs = tuple([x.astype(np.float32) if x.dtype in small else x for x in map(np.asarray, xs)])
        out = form(*xs)
        return [settle(o, w) for o, w in zip(out, wants)] if many else settle(out, wants[0])

    return call


def _misfit(bound: Bound, sigs: tuple, e: Exception) -> Exception:
    named = bound.arguments([f"{list(s.shape)} {s.dtype.name}" for s in sigs])
    operands = ", ".join(f"{n}: {named[n]}" for n in bound.op.operand_names if named[n] is not None)
    reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
    kind = IndexError if isinstance(e, IndexError) else ValueError
    return errors.bad(f"{bound.op.name}({', '.join(bound.op.operand_names)})", "operands that fit together", operands, hint=reason, kind=kind)


def on_numpy(fn: Callable) -> Callable:
    """The same function on NumPy arrays, made when it is first called: by then its module is complete."""
    made: list[Callable] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(_rebound(fn, {}))
        return made[0](*args, **kwargs)

    return call


def _rebound(fn: Any, seen: dict) -> Callable:
    """The same function with `jnp` meaning NumPy, in the functions of its module that it calls as well."""
    if fn in seen:
        return seen[fn]
    scope = dict(fn.__globals__)
    scope["jnp"] = np
    new = types.FunctionType(fn.__code__, scope, fn.__name__, fn.__defaults__, fn.__closure__)
    new.__kwdefaults__ = fn.__kwdefaults__
    seen[fn] = new
    for name in fn.__code__.co_names:
        other = scope.get(name)
        if isinstance(other, types.FunctionType) and other.__globals__.get("jnp") is jnp:
            scope[name] = _rebound(other, seen)
    return new


class Op:
    """A declared operator."""

    def __init__(self, body: Callable, options: dict[str, Any]):
        self.body, self.name = body, options.get("name") or body.__name__
        self.doc = inspect.getdoc(body) or ""
        self.lowerings: dict[str, Callable] = {}
        hints = typing.get_type_hints(body)
        returns = hints.pop("return", Tensor)
        self.many = returns is not Tensor
        self.container: Any = tuple if typing.get_origin(returns) is tuple else list
        self.promote = tuple((options.get("promote") or "").split())
        self.mix = options.get("mix", "scalars")
        self.floats = options.get("floats", False)
        self.dtypes = options.get("dtypes")
        self.is_view = options.get("view", False)
        self.differentiable = options.get("differentiable", True)
        self._passes = tuple((options.get("passes") or "").split())
        numpy_form = options.get("numpy")
        self.numpy_is_body = numpy_form is True
        self.numpy_form = on_numpy(body) if numpy_form is True else numpy_form
        self.grad_rule = self.grad_numpy = self.infer_rule = self.check_rule = self.flops_rule = None
        self.prepare_rule = self.put_rule = self.size_rule = self.index_rule = None
        self.grad_names = self.infer_names = self.check_names = ()
        self.grad_op = GradOp(self.name)
        self._bounds = Interned()
        self.signature = convert.signature_of(self.name, body, hints, options)
        self.operand_names = self.signature.operand_names
        self.attr_names = self.signature.attr_names
        self._promoted = self.promote or (self.operand_names[:1] if self.floats or self.dtypes else ())
        self._may_be_plain = bool(self.operand_names) and all(p.kind in ("tensor", "number") for p in self.signature.operands)
        self._may_be_plain = self._may_be_plain and not self.signature.sizes
        self._all_given = (1,) * len(self.operand_names)
        self.options = options

    # ------------------------------------------------------------ rules

    def grad(self, rule: Callable | None = None, *, numpy: bool | Callable = False) -> Any:
        """Declare the gradient; its parameters name what it reads."""
        if rule is None:
            return functools.partial(self.grad, numpy=numpy)
        self.grad_rule = rule
        self.grad_names = tuple(inspect.signature(rule).parameters)
        known = {*self.operand_names, *self.attr_names, "g", "out", "sigs", "platform"}
        assert known.issuperset(self.grad_names), f"{self.name}.grad reads {set(self.grad_names) - known}"
        self.grad_numpy = on_numpy(rule) if numpy is True else numpy or None
        return rule

    def infer(self, rule: Callable) -> Callable:
        """Declare shape inference by hand: Sigs in, Sig out."""
        self.infer_rule, self.infer_names = rule, tuple(inspect.signature(rule).parameters)
        return rule

    def check(self, rule: Callable) -> Callable:
        """Declare what must hold of the operands' Sigs and attributes; raises through `errors.bad`."""
        self.check_rule, self.check_names = rule, tuple(inspect.signature(rule).parameters)
        return rule

    def prepare(self, rule: Callable) -> Callable:
        """Declare how a call's arguments are completed before anything is recorded: a dict in, the same dict changed."""
        self.prepare_rule = rule
        return rule

    def put(self, rule: Callable) -> Callable:
        """Declare the inverse of a view: (source, new part, bound, numbers) -> new source."""
        self.put_rule = rule
        return rule

    def size(self, rule: Callable) -> Callable:
        """Declare how the `Size` of a result that depends on data is computed from the operands."""
        self.size_rule = rule
        return rule

    def index(self, rule: Callable) -> Callable:
        """Declare which operands are indices: Sigs and attributes in, (operand, low, high) triples out."""
        self.index_rule = rule
        return rule

    def flops(self, rule: Callable) -> Callable:
        """Declare the arithmetic of a call beyond one operation an element."""
        self.flops_rule = rule
        return rule

    def on(self, platform: str) -> Callable:
        """Declare the lowering for one platform, beside the body that stays the reference."""

        def declare(body: Callable) -> Callable:
            self.lowerings[platform] = body
            return body

        return declare

    # ------------------------------------------------------------ calling

    def saves(self, layout: tuple) -> tuple[frozenset[int], frozenset[int] | None, bool]:
        """For a layout of operands: which pass gradients through, which the rule reads, and whether it reads `out`."""
        places: dict[str, list[int]] = {}
        i = 0
        for name, n in zip(self.operand_names, layout):
            count = 0 if n is None else abs(n)
            places[name] = list(range(i, i + count))
            i += count
        passes = frozenset(p for name in self._passes for p in places[name])
        if self.grad_rule is None:
            return passes, None, False
        reads = frozenset(p for name in self.grad_names for p in places.get(name, ()))
        return passes, reads, "out" in self.grad_names

    def bind(self, layout: tuple, attrs: tuple) -> Bound:
        # equal numbers of different types (1, 1.0, True) must not share an entry
        key = (layout, attrs, *map(type, attrs)) if attrs else layout
        return self._bounds[key] or self._bounds.keep(key, Bound(self, layout, attrs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.public(*args, **kwargs)

    def call(self, arguments: dict[str, Any]) -> Any:
        """Check, promote, record: from bound arguments to result tensors."""
        out = arguments.pop("out", None)
        arguments.pop("name", None)
        operands, layout, attrs = self._operands_and_attrs(arguments)
        result = self.record(self.bind(layout, attrs), operands)
        return result if out is None else _write_out(out, result)

    def record(self, bound: Bound, operands: list) -> Any:
        """Record a call whose operands and attributes are settled."""
        if self.index_rule is not None:
            self._check_indices(bound, operands)
        made = tape.apply(bound, operands)
        if self.is_view:
            view.attach(made[0], operands[0], bound, operands[1:])
        return self.container(made) if self.many else made[0]

    def remembered(self) -> Callable:
        """The public call with a memory of what its arguments came to.

        The same kinds of arguments (Sigs of tensors, values of attributes) always come to the same Bound on the same
        operands, so checking, completing, promoting and converting is done once for each of them.
        """
        sign, memo = self.signature, {}
        bind, record = sign.bind, self.record
        takes_number = tuple(n in sign.number_names for n in sign.positional)

        def public(*args: Any, **kwargs: Any) -> Any:
            key = _kinds_of(args, takes_number, kwargs, sign.number_names)
            found = memo.get(key) if key is not None else None
            if found is not None:
                bound, sources = found
                operands = []
                for where, kind in sources:
                    x = args[where] if where.__class__ is int else kwargs[where] if where is not None else kind
                    operands.append(x if kind is None or where is None else (kind, x))
                return record(bound, operands)
            arguments = bind(args, kwargs)
            if key is None or arguments.get("out") is not None:
                return self.call(arguments)
            arguments.pop("out", None)
            arguments.pop("name", None)
            operands, layout, attrs = self._operands_and_attrs(arguments)
            bound = self.bind(layout, attrs)
            sources = self._sources(operands, layout, args, kwargs)
            if sources is not None:
                _bounded(memo, 1024)[key] = (bound, sources)
            return record(bound, operands)

        return public

    def _sources(self, operands: list, layout: tuple, args: tuple, kwargs: dict[str, Any]) -> list | None:
        """Where each operand came from: (place or keyword, dtype of a number or None); None if one was made on the way."""
        if not self._may_be_plain or self.index_rule is not None and not operands:
            return None
        names = [n for n, count in zip(self.operand_names, layout) if count == 1]
        if len(names) != len(operands):
            return None
        sign = self.signature
        given = {**dict(enumerate(args)), **kwargs}
        passed = {**dict(zip(sign.positional, range(len(args)))), **{sign.aliases.get(k, k): k for k in kwargs}}
        found: list[tuple[Any, Any]] = []
        for name, x in zip(names, operands):
            if x.__class__ is tuple:
                where = passed.get(name)
                if where is None:
                    found.append((None, x))  # a default
                elif given[where].__class__ is float and x[0].kind == "f":
                    found.append((where, x[0]))
                else:
                    return None
            else:
                where = passed.get(name)  # by name, not by identity: in matmul(x, x) both operands are the same object
                if where is None or given[where] is not x:
                    return None
                found.append((where, None))
        return found

    def _operands_and_attrs(self, arguments: dict[str, Any]) -> tuple[list, tuple, tuple]:
        if self.prepare_rule is not None:
            self.prepare_rule(arguments)
        sign = self.signature
        plain = self._plain(arguments)
        if plain is not None:
            attrs = sign.attributes(arguments, plain[0]._value.sig.ndim) if self.attr_names else ()
            return plain, self._all_given, attrs
        tensors = sign.tensors(arguments)
        if self._promoted:
            self._promote(arguments)
        attrs = sign.attributes(arguments, tensors)
        if self.size_rule is not None:
            sign.fill_sizes(arguments, self)
            attrs = sign.attributes(arguments, tensors)
        operands, layout = sign.flat(arguments)
        return operands, layout, attrs

    def _plain(self, arguments: dict[str, Any]) -> list[Tensor] | None:
        """The operands, when all of them are Tensors and none has to be cast: the usual case, so it comes first."""
        if not self._may_be_plain:
            return None
        operands, found = [], None
        for name in self.operand_names:
            x = arguments[name]
            if not isinstance(x, Tensor):
                return None
            operands.append(x)
            if name in self._promoted:
                kind = x._value.sig.dtype
                if found is None:
                    found = kind
                elif kind is not found:
                    return None
        if found is not None and ((self.floats and found.kind in "bi") or (self.dtypes is not None and found not in self.dtypes)):
            return None
        return operands

    def _promote(self, arguments: dict[str, Any]) -> None:
        names = self._promoted
        given = [(n, arguments[n]) for n in names if arguments[n] is not None]
        found = convert.common_dtype(self.name, [x for _, x in given], self.mix)
        if found is None:
            return
        if self.floats and found.kind in "bi":
            found = dtypes.float32
        if self.dtypes is not None and found not in self.dtypes:
            allowed = ", ".join(sorted(d.name for d in self.dtypes))
            raise errors.bad(f"{self.name}({given[0][0]})", f"one of {allowed}", found.name, kind=TypeError)
        cast = registry.OPS.get("cast")
        for n, x in given:
            if isinstance(x, Tensor):
                if x._value.sig.dtype is not found:
                    assert cast is not None
                    arguments[n] = cast(x, found)
            elif isinstance(x, list):
                arguments[n] = [t if t._value.sig.dtype is found else cast(t, found) for t in x]  # type: ignore[misc]
            else:
                arguments[n] = (found, convert.number(x, found, f"{self.name}({n})"))

    def _check_indices(self, bound: Bound, operands: list) -> None:
        assert self.index_rule is not None
        named = bound.arguments([None if t.__class__ is tuple else t._value.sig for t in operands])
        tensors = bound.arguments(operands)
        for name, low, high in self.index_rule(named):
            convert.check_range(f"{self.name.removesuffix('_of')}({name})", tensors[name], low, high)


def _write_out(out: Any, result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        for o, r in zip(out, result):
            _write_out(o, r)
        return out
    if not isinstance(out, Tensor):
        raise errors.bad("out", "a Tensor", out, kind=TypeError)
    assign_inplace(out, result, "out")
    return out


def assign_inplace(x: Tensor, new: Tensor, name: str, since: int | None = None, retype: bool = False) -> Tensor:
    """Make `new` the value of `x`, as an in-place operator does: same object, history rebased, dtype kept unless `retype`.

    Edges older than `since` that saved the old value will refuse to go backwards; the operator's own may read it.
    """
    value = read(x)
    if tape.state.grad and not x.stop_gradient and x._edge is None and value.sig.dtype.kind in "fc":
        raise errors.bad(f"{name}(x)", "a tensor that is no leaf, or no_grad()", "a leaf that requires gradients", kind=ValueError)
    if new._value.sig.shape != value.sig.shape:
        raise errors.bad(f"{name}(x)", f"a result of x's shape {x.shape}", f"shape {new.shape}", kind=ValueError)
    if new._value.sig.dtype is not value.sig.dtype and not retype:
        new = registry.find("cast")(new, value.sig.dtype)
    if new is x:
        return x
    value.marks = since = tape.now() if since is None else since
    if x._view is not None:
        x._view.write(x, new, since)
        return x
    x._value = read(new)
    if tape.state.grad:  # under no_grad the numbers change and the history stays, as in Paddle
        x._edge = new._edge
        if not new.stop_gradient:
            x.stop_gradient = False
    x._version += 1
    return x


# ---------------------------------------------------------------- declaring


def op(**options: Any) -> Callable[[Callable], Op]:
    """Declare an operator. Options: method, inplace, promote, mix, floats, dtypes, passes, numpy, view, torch, alias, rejects,
    out, differentiable, name, public."""

    def declare(body: Callable) -> Op:
        made = Op(body, options)
        registry.add(made.name, made)
        made.public = _publish(made, made.signature, options)  # type: ignore[attr-defined]
        return made

    return declare


def _publish(made: Any, signature: Any, options: dict[str, Any]) -> Callable:
    """The plain function that users call, with Paddle's signature, and the methods made from it."""
    bind, call = signature.bind, made.call

    def plain(*args: Any, **kwargs: Any) -> Any:
        return call(bind(args, kwargs))

    public: Any = made.remembered() if isinstance(made, Op) and made.operand_names else plain
    _dress(public, made.name, made.doc, signature.public, made.body)
    PUBLIC[made.name] = public
    _install(public, made, signature, options)
    return public


def _dress(fn: Any, name: str, doc: str, signature: inspect.Signature, source: Callable) -> None:
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__, fn.__signature__, fn.__module__ = doc, signature, source.__module__


PUBLIC: dict[str, Callable] = {}  # every public function by name: what bireme/__init__ lists from


def _install(public: Any, made: Any, signature: Any, options: dict[str, Any]) -> None:
    method = options.get("method")
    if method:
        for name in [made.name] if method is True else method.split():
            setattr(Tensor, name, public)
    if options.get("inplace"):
        name = made.name + "_"
        is_view = options.get("view", False)

        def inplace(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            if not isinstance(x, Tensor):
                raise errors.bad(f"{name}(x)", "a Tensor", x, kind=TypeError)
            if "out" in kwargs:
                raise errors.bad(f"{name}(out)", "no out: x itself is changed", kwargs["out"], kind=TypeError)
            since = tape.now()
            new = public(x, *args, **kwargs)
            return adopt(x, new) if is_view else assign_inplace(x, new, name, since, _retypes(x, new, made, name))

        doc = f"In-place form of `{made.name}`: changes `x` and returns it."
        _dress(inplace, name, doc, signature.inplace, made.body)
        PUBLIC[name] = inplace
        setattr(Tensor, name, inplace)


def _retypes(x: Tensor, new: Tensor, made: Any, name: str) -> bool:
    """Whether an in-place operator gives `x` the wider type of its result, as Paddle's arithmetic does."""
    old, kind = x._value.sig.dtype, new._value.sig.dtype
    options = made.options
    if old is kind or not (options.get("promote") or options.get("floats")):
        return False
    wider = dtypes.promote(old, kind) is kind or (options.get("floats") and old.kind in "bi" and kind.kind == "f")
    if not wider or x._view is not None:
        raise errors.bad(f"{name}(x)", f"a result of x's type {old.name}", kind.name, hint=f"use x = x.{made.name}(...)", kind=TypeError)
    return True


def adopt(x: Tensor, new: Tensor) -> Tensor:
    """Let `x` become the view `new` of its own storage: what reshape_ and squeeze_ do."""
    x._value, x._edge, x._view = new._value, new._edge, new._view
    if x._view is not None:
        x._view.cell.add(x)
        x._view.cell.inplace_version += 1
    return x


class Composite:
    """A function written with tensors and other operators: no node of its own, so no rules of its own."""

    def __init__(self, body: Callable, options: dict[str, Any]):
        self.body, self.name, self.doc = body, options.get("name") or body.__name__, inspect.getdoc(body) or ""
        hints = typing.get_type_hints(body)
        hints.pop("return", None)
        self.signature = convert.signature_of(self.name, body, hints, options)
        self.options = options

    def call(self, arguments: dict[str, Any]) -> Any:
        out = arguments.pop("out", None) if "out" in self.signature.defaults else None
        if "name" not in self.signature.own_names:
            arguments.pop("name", None)
        self.signature.check_composite(arguments)
        result = self.body(**arguments)
        return result if out is None else _write_out(out, result)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(self.signature.bind(args, kwargs))


def composite(**options: Any) -> Callable[[Callable], Composite]:
    """Declare a function made of other operators; the same options as `op` where they apply."""

    def declare(body: Callable) -> Composite:
        made = Composite(body, options)
        registry.add(made.name, made)
        made.public = _publish(made, made.signature, options)  # type: ignore[attr-defined]
        return made

    return declare



# ---------------------------------------------------------------- the short way for `x + y`


def binary(op: Op) -> Callable:
    """`x op y` recorded without detours when this very step is known: two tensors, or a tensor and a float.

    It does what `Op.call` does once the tree of segments has seen the step; everything else goes the long way.
    """
    bound = op.bind((1, 1), tuple(op.signature.defaults[n] for n in op.attr_names))
    local, grad_state, debug_state = flush.local, tape.state, flush.debug_mode
    new_value, new_tensor, long_way = Value.__new__, Tensor.__new__, op.call
    names = op.operand_names
    extra = {n: d for n, d in op.signature.defaults.items() if n not in names}

    def method(x: Tensor, y: Any) -> Tensor:
        seg = local.segment
        vx = x._value
        if x._view is None and not debug_state.at_once:
            rx = vx.index if vx.segment is seg else ~vx.leaf if vx.leaf_of is seg else None
            cls = y.__class__
            if rx is not None and isinstance(y, Tensor) and y._view is None:
                vy = y._value
                ry = vy.index if vy.segment is seg else ~vy.leaf if vy.leaf_of is seg else None
                node = seg.state.next.get((bound, rx, ry))
                needs = not (x.stop_gradient and y.stop_gradient)
            elif rx is not None and cls is float and vx.sig.dtype.kind == "f":
                vy, ry = (vx.sig.dtype, y), None
                node = seg.state.next.get((bound, rx, vx.sig.dtype))
                needs = not x.stop_gradient
            else:
                node = None
            if node is not None and not node.over:
                v = new_value(Value)
                sig = node.outs[0]
                v.sig, v.array, v.segment, v.index, v.leaf_of, v.device, v.marks, v.bounds = sig, None, seg, node.first, None, seg.device, 0, None
                try:
                    if cls is float:
                        seg.numbers.append(y)
                    seg.values.append(ref(v))
                    seg.state = node
                except BaseException:  # an interrupt in between
                    flush.roll_back(seg)
                    raise
                if not seg.closed:
                    t = new_tensor(Tensor)
                    t._value, t._view = v, None
                    if needs and grad_state.grad and sig.dtype.kind in "fc":
                        pair = vy.__class__ is tuple
                        edge = tape.Edge(bound, (tape.target_of(x), None if pair else tape.target_of(y)), (vx.sig, scalar_sig(vy[0]) if pair else vy.sig), node.outs)
                        if grad_state.pack is None:
                            reads = bound.reads
                            edge.saved = (vx if reads is None or 0 in reads else None, vy if pair or reads is None or 1 in reads else None)
                            if bound.reads_out:
                                edge.outs = (v,)
                        else:
                            tape._save(edge, bound, [vx, vy], [v])
                        seg.edges.append(ref(edge))
                        t._edge, t.stop_gradient = (edge, 0), False
                    else:
                        t._edge, t.stop_gradient = None, True
                    return t
        return long_way({names[0]: x, names[1]: y, **extra})

    return method
