"""Op: one declaration gives the public function, the Tensor method, the in-place twin, the graph node and its rules.

    @op(method=True, inplace=True, promote="x y")
    def add(x: Tensor, y: Tensor) -> Tensor:
        "Elementwise sum with broadcasting. (and an executed example)"
        return jnp.add(x, y)

The body is the implementation on jax arrays. Annotations carry the meaning: `Tensor` is an operand, `Tensor | float` an
operand that may be a Python number, `list[Tensor]` several, `Key` a place in the random stream; everything else is an
attribute and part of the key. A rule declared with `@add.grad` names what it reads: the incoming gradient `g`, `out`,
operands and attributes by name, `sigs` for the operands' shapes and dtypes, `needs` for which operands want one, or the
`platform` it is compiled for; what it does not name is not kept.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, random_state, registry
from bireme.core.declare import conversion, kernels, known_calls, precision
from bireme.core.declare.composite import Composite
from bireme.core.declare.conversion import (
    Attr,
    Axes,
    Axis,
    Const,
    DeviceArg,
    DTypeArg,
    Extra,
    Ints,
    Key,
    Padding,
    Shape,
    Size,
    Sizes,
)  # fmt: skip
from bireme.core.declare.names import names_of, told_as
from bireme.core.declare.public import publish
from bireme.core.declare.signature import hints_of, signature_of
from bireme.core.graph import segment
from bireme.core.graph.bound import ANY, Bound, Facts, GradOp, Interned, exact, on_mesh
from bireme.core.graph.graph import shared
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.core.numpy_exec.rows import OnRows
from bireme.core.tensor import tape, view
from bireme.core.tensor.inplace import write_out
from bireme.core.tensor.tensor import Tensor

__all__ = [
    "Attr",
    "Axes",
    "Axis",
    "Const",
    "DTypeArg",
    "DeviceArg",
    "Extra",
    "Ints",
    "Key",
    "Padding",
    "Shape",
    "Size",
    "Sizes",
    "Tensor",
    "composite",
    "op",
]


class Op(Facts):
    """A declared operator."""

    def __init__(self, body: Callable, options: dict[str, Any]):
        self.body, self.name = body, options.get("name") or body.__name__
        self.told, self.kernels = told_as(self.name, options), tuple((options.get("kernels") or "").split())
        self.names = names_of(self.told, options)
        self.lowerings: dict[str, Callable] = {}
        self.grad_lowerings: dict[str, Callable] = {}
        hints = hints_of(body)
        returns = hints.pop("return", Tensor)
        self.many = returns is not Tensor
        self.container: Any = tuple if typing.get_origin(returns) is tuple else list
        self.promote = tuple((options.get("promote") or "").split())
        self.mix = options.get("mix", "scalars")
        self.floats = options.get("floats", False)
        self.wide = options.get("wide", False)
        self.upcast, self.grad_upcast = options.get("upcast") is True, bool(options.get("upcast"))
        self.dtypes = options.get("dtypes")
        self.is_view = options.get("view", False)
        self.differentiable = options.get("differentiable", True)
        self._passes = tuple((options.get("passes") or "").split())
        numpy_form = options.get("numpy")
        self.numpy_is_body = numpy_form is True
        self.numpy_form = on_numpy(body) if numpy_form is True else numpy_form
        self.elementwise = bool(options.get("elementwise")) or _goes_over_elements(numpy_form)
        self.grad_rule: Callable | None = None
        self.grad_numpy: Callable | None = None
        self.grad_rows: Callable | None = None
        self.on_rows: OnRows | None = None
        self.infer_rule: Callable | None = None
        self.check_rule: Callable | None = None
        self.flops_rule: Callable | None = None
        self.short_rule: Callable | None = None
        self.rows_rule: Callable | None = None
        self.rows_names: tuple[str, ...] = ()
        self.shares_cores = True
        self.effort_rule: Callable | None = None
        self.prepare_rule: Callable | None = None
        self.looks_at_values = self.looks_at_sizes = False
        # given one of these, `prepare` may change numbers; None: it always may
        self.changes_numbers: tuple[str, ...] | None = ()
        self.put_rule: Callable | None = None
        self.layout_rule: Callable | None = None
        self.path_rule: Callable | None = None
        self.size_rule: Callable | None = None
        self.inplace_rule: Callable | None = None
        self.index_rule: Callable | None = None
        self.index_names: tuple[str, ...] = ()
        self.grad_names: tuple[str, ...] = ()
        self.infer_names: tuple[str, ...] = ()
        self.check_names: tuple[str, ...] = ()
        self.effort_names: tuple[str, ...] = ()
        self.public: Any = None
        self.grad_op = GradOp(self.name, self.told)
        self._bounds = Interned()
        self.signature = signature_of(self.told, body, hints, options)
        self.operand_names = self.signature.operand_names
        self.attr_names = self.signature.attr_names
        self.draws = any(p.kind == "key" for p in self.signature.operands)
        self._promoted = self.promote or (self.operand_names[:1] if self.floats or self.dtypes else ())
        self._may_be_plain = bool(self.operand_names) and all(
            p.kind in ("tensor", "number") for p in self.signature.operands
        )
        self._may_be_plain = self._may_be_plain and not self.signature.sizes
        self._may_be_remembered = (
            all(p.kind in ("tensor", "number", "list") for p in self.signature.operands) and not self.signature.sizes
        )
        self._all_given = (1,) * len(self.operand_names)
        self.scales = tuple([self.operand_names.index(n) for n in options.get("scales", "").split()])
        self.bilinear, self.linear = bool(options.get("bilinear")), bool(options.get("linear"))
        # bilinear in two operands, also where `bilinear` is not said for what Paddle makes of their second derivative
        self.is_product = self.bilinear or self.scales == (0, 1)
        self.by_operators = False
        self.constants = tuple([self.operand_names.index(n) for n in options.get("constants", "").split()])
        self.carries = bool(options.get("carries"))
        self.each: tuple[str, ...] | None = options.get("each")
        self.of_the_past = bool(options.get("of_the_past"))
        self.options = options

    # ------------------------------------------------------------ rules

    def grad(
        self,
        rule: Callable | None = None,
        *,
        numpy: bool | Callable = False,
        on: str | None = None,
        mesh: bool = True,
        operators: bool = False,
    ) -> Any:
        """Declare the gradient; its parameters name what it reads. `on` names the platform that a faster form is for,
        and `mesh` whether it is for several devices too, as in the method `on`; `operators` says that it can be recorded
        as operators where it will be differentiated, see `higher_order`.
        """
        if rule is None:
            return functools.partial(self.grad, numpy=numpy, on=on, mesh=mesh, operators=operators)
        names = tuple(inspect.signature(rule).parameters)
        if on is not None:
            assert set(names) == set(self.grad_names), f"{self.name}.grad on {on} reads other operands than the rule"
            self.grad_lowerings[on] = rule
            if not mesh:
                assert self.grad_rule is not None, f"{self.name}.grad on {on} stands before the rule"
                self.grad_lowerings[on_mesh(on)] = self.grad_rule
            return rule
        self.grad_rule, self.grad_names, self.by_operators = rule, names, operators
        known = {*self.operand_names, *self.attr_names, "g", "out", "sigs", "needs"}
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

    def rewrite(self, rule: Callable) -> Callable:
        """Declare how a call is rewritten before its arguments are bound: (args, kwargs) -> (args, kwargs), which are
        not changed.

        The rule looks at names and attributes only: what a call comes to is remembered by these.
        """
        self.signature.rewrite = rule
        return rule

    def prepare(
        self,
        rule: Callable | None = None,
        *,
        values: bool = False,
        sizes: bool = True,
        keeps_numbers_unless: str | None = None,
    ) -> Any:
        """Declare how a call's arguments are completed before anything is recorded: a dict in, the same dict changed.

        `values=True` says that the rule looks at the numbers in tensors: then no call is remembered. `sizes=False` says
        that it does not look at sizes either: what a call came to is then remembered for all of them. Nor is one with a
        Python number for an operand, which the rule may change, but for `keeps_numbers_unless`, which names the
        arguments without which it never does.
        """
        if rule is None:
            return functools.partial(
                self.prepare, values=values, sizes=sizes, keeps_numbers_unless=keeps_numbers_unless
            )
        self.prepare_rule, self.looks_at_values, self.looks_at_sizes = rule, values, sizes
        self.changes_numbers = None if keeps_numbers_unless is None else tuple(keeps_numbers_unless.split())
        return rule

    def inplace(self, rule: Callable) -> Callable:
        """Declare how the inplace form changes its operand, where that is more than to store the result: arguments in,
        the operand out.
        """
        self.inplace_rule = rule
        return rule

    def put(self, rule: Callable) -> Callable:
        """Declare the inverse of a view: (source, new part, bound, numbers) -> new source."""
        self.put_rule = rule
        return rule

    def layout(self, rule: Callable) -> Callable:
        """Declare where a view's elements lie: (sig, strides, place of the first, bound, numbers) -> (strides, place of
        the first).

        None says that the elements do not lie so that they could be shared: then the result has storage of its own.
        """
        self.layout_rule = rule
        return rule

    def path(self, rule: Callable) -> Callable:
        """Declare how any view is reached in few steps: (sig, shape, strides, place of the first, shapes on the way)
        in.

        Paths out, lists of (bound, numbers). The first that leads to the same strides is taken; the last one always
        does.
        """
        self.path_rule = rule
        return rule

    def size(self, rule: Callable) -> Callable:
        """Declare how the `Size` of a result that depends on data is computed from the operands."""
        self.size_rule = rule
        return rule

    def index(self, rule: Callable, told: str | None = None) -> Callable:
        """Declare which operands are indices: Sigs and attributes in, (operand, low, high) out, and one that is ignored
        where there is one.

        `told` names the function that users call, or several that they may have, where that is another one: a wrong
        index may only be known when it has returned.
        """
        self.index_rule, self.index_names = rule, tuple((told or self.told).split())
        return rule

    def effort(self, rule: Callable) -> Callable:
        """Declare how many elements the interpreter goes over, where it is more than operands and results: Sigs and
        attributes in.
        """
        self.effort_rule, self.effort_names = rule, tuple(inspect.signature(rule).parameters)
        return rule

    def short(self, rule: Callable) -> Callable:
        """Declare the interpreter's form where operands are small, so that what a form looks at takes longer than its
        numbers: Sigs of operands, then attributes, in; a function of the arrays out, which gives the inferred type, or None.
        """
        self.short_rule = rule
        return rule

    def rows(self, rule: Callable) -> Callable:
        """Declare which operands carry rows, their first axis: a row of the result depends on the same row of these, and on
        all of the others. Sigs and attributes in, names out; none where rows depend on each other.

        The interpreter makes such calls at once where many wait for none of each other, see `numpy_exec.batches`.
        """
        self.rows_rule, self.rows_names = rule, tuple(inspect.signature(rule).parameters)
        return rule

    def flops(self, rule: Callable, shares_cores: bool = True) -> Callable:
        """Declare the arithmetic of a call beyond one operation an element, and whether its NumPy form shares that by
        `blas.matmul`.
        """
        self.flops_rule, self.shares_cores = rule, shares_cores
        return rule

    def on(self, platform: str, mesh: bool = True) -> Callable:
        """Declare the lowering for one platform, beside the body that stays the reference.

        One that walks over rows is not for a `mesh`: where they are divided, each of its steps would be a collective.
        """

        def declare(body: Callable) -> Callable:
            self.lowerings[platform] = body
            if not mesh:
                self.lowerings[on_mesh(platform)] = self.body
            return body

        return declare

    def padded(self, platform: str = ANY, grad: bool = False) -> Callable:
        """Declare the form, or its gradient's, for operands of which only beginnings are valid, as where sizes change on an
        accelerator: for what goes over rows in loops, or rests on kernels that nobody can look into.

        It takes how much of each axis of an operand is valid, by name, then what the form for the platform takes, and
        raises Inapplicable where it cannot do it. A result's beginning is that of the first operand, a gradient's that
        of what it is the gradient of.
        """

        def declare(body: Callable) -> Callable:
            kept = "padded_grad_forms" if grad else "padded_forms"
            setattr(self, kept, {**getattr(self, kept), platform: body})
            return body

        return declare

    # ------------------------------------------------------------ calling

    @functools.lru_cache(maxsize=4096)  # noqa: B019  # operators live as long as the process
    def saves(self, layout: tuple) -> tuple[frozenset[int], frozenset[int] | None, bool]:
        """For a layout of operands: which pass gradients through, which the rule reads (None: all), and whether it
        reads `out`.
        """
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
        return passes, None if len(reads) == i else reads, "out" in self.grad_names

    def bind(self, layout: tuple, attrs: tuple) -> Bound:
        key = (layout, *map(exact, attrs)) if attrs else layout
        return self._bounds[key] or self._bounds.keep(key, Bound(self, layout, attrs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.public(*args, **kwargs)

    def remembered(self) -> Callable | None:
        """The public call with a memory, where there are operands to tell calls apart by."""
        return known_calls.remembered(self) if self.operand_names else None

    def call(self, arguments: dict[str, Any]) -> Any:
        """Check, promote, record: from bound arguments to result tensors."""
        out = arguments.pop("out", None)
        arguments.pop("name", None)
        operands, layout, attrs = self._operands_and_attrs(arguments)
        result = self.record(self.bind(layout, attrs), operands)
        return result if out is None else write_out(out, result, self.name)

    def record(self, bound: Bound, operands: list) -> Any:
        """Record a call whose operands and attributes are settled."""
        if self.index_rule is not None:
            self.check_indices(bound, operands)
        made = tape.apply(bound, operands)
        if self.is_view:
            view.attach(made[0], operands[0], bound, operands[1:])
        if segment.local.trace is not None:
            segment.local.trace.calls.append((self, bound, operands, made))
        return self.container(made) if self.many else made[0]

    def settled(self, operands: list, *attrs: Any) -> Any:
        """The same for operands that are there all of them and attributes that were converted, as those of a composite
        are.
        """
        return self.record(self.bind((1,) * len(operands), attrs), operands)

    def draw(self, operands: list, *attrs: Any) -> Any:
        """The same for one that ends with a `Key`, which is drawn here."""
        key = [(dtypes.uint32, k) for k in random_state.next_key()]
        return self.record(self.bind((*[1] * len(operands), len(key)), attrs), [*operands, *key])

    def sources(self, operands: list, layout: tuple, args: tuple, kwargs: dict[str, Any]) -> tuple | None:
        """Where each operand came from: (place or keyword, dtype of a number or None); None if one was made on the way."""
        if not self._may_be_remembered or self.looks_at_values:
            return None
        sign = self.signature
        given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        passed: dict[str, Any] = {
            **dict(zip(sign.positional, range(len(args)))),
            **{sign.aliases.get(k, k): k for k in kwargs},
        }
        keeps_numbers = self.changes_numbers is not None and not any(n in passed for n in self.changes_numbers)
        found: list[tuple[Any, Any]] = []
        rest = iter(operands)
        for name, count in zip(self.operand_names, layout):
            if count is None:
                continue
            if count <= 0:
                where = passed.get(name)
                own = [next(rest) for _ in range(-count)]
                if where is None or len(own) != len(given[where]) or any(x is not t for x, t in zip(own, given[where])):
                    return None
                found.append((where, known_calls.LIST))
                continue
            if count != 1:
                return None
            x = next(rest)
            if x.__class__ is tuple:
                where = passed.get(name)
                if where is None:
                    found.append((None, x))  # a default
                elif (
                    known_calls.travels(given[where])
                    and keeps_numbers
                    and (x[0].kind == "f" or _whole(given[where], x[0]))
                ):
                    found.append((where, x[0]))
                else:
                    return None
            else:
                where = passed.get(name)  # by name, not by identity: in matmul(x, x) both operands are the same object
                if where is None or given[where] is not x:
                    return None
                found.append((where, None))
        return shared(tuple([shared(f) for f in found]))  # one object for all shapes

    def _operands_and_attrs(self, arguments: dict[str, Any]) -> tuple[list, tuple, tuple]:
        if self.prepare_rule is not None:
            try:
                self.prepare_rule(arguments)
            except errors.TELLING as e:  # it may have called another operator
                errors.renamed(e, self.told, arguments, part=True)
                raise
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
        if found is not None and (
            (self.floats and found.kind in "bi") or (self.dtypes is not None and found not in self.dtypes)
        ):
            return None
        return operands

    def _promote(self, arguments: dict[str, Any]) -> None:
        names = self._promoted
        given = [(n, arguments[n]) for n in names if arguments[n] is not None]
        found = conversion.common_dtype(
            self.told, [x for _, x in given], self.mix, halves=precision.state.policy is not None
        )
        if found is None:  # nothing but numbers
            wrong = [
                (n, x)
                for n, x in given
                if self.dtypes is not None and not self.floats and dtypes.of_number(x) not in self.dtypes
            ]
            if wrong:
                allowed = ", ".join(sorted(d.name for d in self.dtypes or ()))
                raise errors.bad(
                    f"{self.told}({wrong[0][0]})", f"one of {allowed}", wrong[0][1], kind=errors.DtypeError
                )
            if not given:
                return
            found = functools.reduce(dtypes.promote_any, [dtypes.of_number(x) for _, x in given])
        if self.floats and found.kind in "bi":
            found = dtypes.float32
        if self.dtypes is not None and found not in self.dtypes:
            allowed = ", ".join(sorted(d.name for d in self.dtypes))
            raise errors.bad(
                f"{self.told}({given[0][0]})", f"one of {allowed}", described=found.name, kind=errors.DtypeError
            )
        cast = registry.OPS.get("cast")
        for n, x in given:
            if isinstance(x, Tensor):
                if x._value.sig.dtype is not found:
                    assert cast is not None
                    arguments[n] = cast(x, found)
            elif isinstance(x, list):
                arguments[n] = [t if t._value.sig.dtype is found else cast(t, found) for t in x]  # type: ignore[misc]  # cast is declared by then
            else:
                kind = self.signature.number_type(found)
                arguments[n] = (kind, conversion.number(x, kind, f"{self.told}({n})"))

    def check_indices(self, bound: Bound, operands: list) -> None:
        for place, where, span in bound.spans(
            tuple([None if t.__class__ is tuple else t._value.sig for t in operands])
        ):
            low, high, ignored = (*span, None)[:3]
            conversion.check_range(where, operands[place], low, high, ignored, names=self.index_names)


def _whole(number: Any, kind: dtypes.DType) -> bool:
    """Whether a number travels as it is in the type of integers that holds all that travel."""
    return number.__class__ is int and kind is dtypes.int64


# ---------------------------------------------------------------- declaring


# How it is called: `internal` (not public; or a part of the function it names), `signature` (what users read, where
# Paddle's has stars), `kernels` (Paddle's names in lists of operators), `c_ops` (see `kernels.py`). What it takes and gives:
# `upcast` (half precision is computed in float32 and rounded once, since no sum, count or divisor fits into it; "grad": in
# the gradient alone). How its errors are told: `hands` (inner operators' arguments, and which of its own each of them is).
# CONTRIBUTING.md has the others.
_OPTIONS = frozenset((
    "name", "internal", "public", "method", "inplace", "writes", "out", "torch", "alias", "rejects", "varargs",
    "name_arg", "signature", "kernels", "c_ops", "promote", "mix", "floats", "dtypes", "numbers", "wide", "upcast",
    "retype", "view", "passes", "scales", "linear", "bilinear", "carries", "of_the_past", "selects", "rows_apart",
    "device_only", "constants", "differentiable", "numpy", "elementwise", "by_numpy", "plain", "amp", "each", "hands",
))  # fmt: skip


def _goes_over_elements(form: Any) -> bool:
    """Whether a NumPy form is a ufunc that takes one element of each operand, as that of a product of matrices does not."""
    return isinstance(form, np.ufunc) and form.signature is None


def _known(options: dict[str, Any]) -> None:
    wrong = set(options) - _OPTIONS
    assert not wrong, f"no such option of an operator: {', '.join(sorted(wrong))}"


def declared(made: Any) -> Any:
    """Let everybody find it who looks for operators, public functions or kernels."""
    registry.add(made.name, made)
    made.public = publish(made)
    kernels.add(made)
    return made


def op(**options: Any) -> Callable[[Callable], Op]:
    """Declare an operator: the function becomes its implementation on jax arrays.

    Annotations say what an argument is: ``Tensor`` is an operand, ``Tensor | float`` an operand that may be a number,
    ``list[Tensor]`` several, ``Key`` a place in the random stream; all others are attributes, part of the program's key.

    Args:
        **options: What the operator is, by keyword; CONTRIBUTING.md has a line for each. Most used: ``method`` and
            ``inplace`` (True or names: Tensor gets these methods), ``promote`` (operands that take one dtype),
            ``floats`` (integers become float32), ``dtypes`` (those it takes), ``numpy`` (the interpreter's form),
            ``differentiable``.

    Returns:
        Decorator that returns the operator. It can be called, and has decorators for its rules: ``grad``, ``infer``,
        ``check``, ``on``.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bireme import Tensor
        >>> from bireme.extension import op
        >>> @op(floats=True)
        ... def halved(x: Tensor) -> Tensor:
        ...     return jnp.multiply(x, 0.5)
        >>> halved(bireme.to_tensor([1, 3])).tolist()
        [0.5, 1.5]
    """

    _known(options)

    def declare(body: Callable) -> Op:
        return declared(Op(body, options))

    return declare


def composite(**options: Any) -> Callable[[Callable], Composite]:
    """Declare a function made of other operators; the same options as `op` where they apply."""

    _known(options)

    def declare(body: Callable) -> Composite:
        return declared(Composite(body, options))

    return declare
