"""Gradients that are differentiated again, recorded as operators: nothing is traced for them, at any order.

The gradient of a linear or bilinear operator's gradient is that operator again, on other operands. Where a graph is
created, a rule declared with `operators=True` is recorded call by call, and its gradients are those of the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme.core.base import registry
from bireme.core.base.dtype import DType
from bireme.core.graph.bound import GradBound, only
from bireme.core.graph.graph import Sig, scalar_sig
from bireme.core.numpy_exec.rebinding import rebound

Record = Callable[[Any, list], list]  # `tape.apply`


def of_gradient(edge: Any, gs: list, needs: list[int], create_graph: bool, record: Record) -> list | None:
    """Gradients of a gradient node's operands in `needs`, by its base operator; None where that is not what it takes."""
    grad: GradBound = edge.bound
    op = grad.base.op
    if not (op.linear or op.is_product) or any(grad.sigs[i].dtype.kind not in "fc" for i in grad.needs):
        return None
    known = {i: g for i, g in zip(grad.needs, gs) if g is not None}
    return (_of_product if op.is_product else _of_linear)(edge, grad, known, needs, create_graph, record)


def _of_product(edge: Any, grad: GradBound, known: dict, needs: list[int], create_graph: bool, record: Record) -> list:
    """<h, gx> + <k, gy> = <g, f(h, y) + f(x, k)>: its gradient in y is that of f(h, y), in x that of f(x, k)."""
    base, places = grad.base, {i: 1 + n for n, i in enumerate(grad.operand_places)}

    def factor(i: int, unread: bool = False) -> Any:
        return edge.restore(places[i], create_graph and not unread, unread)

    found = []
    for at in needs:
        if at == 0:
            terms = [record(base, [h, factor(1)] if i == 0 else [factor(0), h])[0] for i, h in known.items()]
            found.append(terms[0] if len(terms) == 1 else registry.find("add")(*terms))
            continue
        i = grad.operand_places[at - 1]
        h = known.get(1 - i)
        if h is None:  # read by the rule for the other factor's sake
            found.append(registry.find("zeros")(list(grad.sigs[i].shape), grad.sigs[i].dtype))
            continue
        inner = base.grad_bound((True,), (i,), grad.sigs, grad.outs)
        read = [h if j != i else factor(i, unread=True) for j in inner.operand_places]
        found.append(record(inner, [edge.restore(0, create_graph), *read])[0])
    return found


def _of_linear(
    edge: Any, grad: GradBound, known: dict, needs: list[int], create_graph: bool, record: Record
) -> list | None:
    """<h, f^T(g)> = <g, f(h)>; what takes no gradient, as where a slice begins, stays as it was."""
    operands: list[Any] = []
    for i, sig in enumerate(grad.sigs):
        if i in known:
            operands.append(known[i])
        elif sig.dtype.kind in "fc":
            zero = registry.find("zeros")
            operands.append(zero(list(sig.shape), sig.dtype) if sig.shape else (sig.dtype, 0.0))
        elif i in grad.operand_places:
            operands.append(edge.restore(1 + grad.operand_places.index(i), create_graph))
        else:
            return None
    return record(grad.base, operands) if needs == [0] else None


def by_operators(grad: GradBound, operands: list, record: Record) -> list | None:
    """A rule's gradients as calls of operators; None where one of them does not come out as it has to."""
    op = grad.base.op
    gs, saved, outs = grad.split([Term(x, record) for x in operands])
    named = grad.base.arguments(saved)
    named["g"], named["out"] = gs[0], outs[0] if outs else None
    named["needs"] = tuple([i in grad.needs for i in range(len(grad.sigs))])
    found = rebound(op.grad_rule, _OPERATORS)(**only(op.grad_names, named))
    terms = found if isinstance(found, tuple) else (found,)
    if any(terms[i].sig is not grad.sigs[i] for i in grad.needs):
        return None
    return [terms[i].x for i in grad.needs]


class Term:
    """A tensor, or a number with its dtype, in a rule: arithmetic on it is recorded, in the dtypes that it has."""

    __slots__ = ("record", "x")

    def __init__(self, x: Any, record: Record):
        self.x, self.record = x, record

    @property
    def sig(self) -> Sig:
        return scalar_sig(self.x[0]) if self.x.__class__ is tuple else self.x._value.sig

    @property
    def dtype(self) -> DType:
        return self.sig.dtype

    def astype(self, dtype: DType) -> Term:
        if self.x.__class__ is tuple:
            return Term((dtype, self.x[1]), self.record)
        return self if dtype is self.dtype else self.call("cast", self, attrs=(dtype,))

    def call(self, name: str, *terms: Any, attrs: tuple | None = None) -> Term:
        """An operator on terms and numbers, which take this term's dtype."""
        op = registry.find(name)
        settings = tuple([op.signature.defaults[n] for n in op.attr_names]) if attrs is None else attrs
        operands = [t.x if isinstance(t, Term) else (self.dtype, float(t)) for t in terms]
        return Term(self.record(op.bind((1,) * len(operands), settings), operands)[0], self.record)

    def __add__(self, other: Any) -> Term:
        return self.call("add", self, other)

    def __radd__(self, other: Any) -> Term:
        return self + other

    def __sub__(self, other: Any) -> Term:
        return self.call("subtract", self, other)

    def __rsub__(self, other: Any) -> Term:
        return self.call("subtract", other, self)

    def __mul__(self, other: Any) -> Term:
        return self.call("multiply", self, other)

    def __rmul__(self, other: Any) -> Term:
        return self * other

    def __neg__(self) -> Term:
        return self.call("neg", self)

    def __gt__(self, other: Any) -> Term:
        return self.call("greater_than", self, other)

    def __ge__(self, other: Any) -> Term:
        return self.call("greater_equal", self, other)


class _Operators:
    """What rules call by `jnp`, on terms: an operator of the same name, or one of these."""

    def __getattr__(self, name: str) -> Callable:
        def function(x: Term) -> Term:
            return x.call(name, x)

        return function

    @staticmethod
    def iscomplexobj(x: Term) -> bool:
        return x.dtype.kind == "c"

    @staticmethod
    def zeros_like(x: Term) -> Term:
        return Term((x.dtype, 0.0), x.record)

    @staticmethod
    def sum(x: Term) -> Term:
        return x.call("sum", x, attrs=(None, x.dtype, False))

    @staticmethod
    def where(condition: Term, x: Term, y: Term) -> Term:
        return x.call("select", condition, x, y)


_OPERATORS = _Operators()
