"""Calls that are alike but for their rows: which they are, and one call on the rows of all of them.

Operators say which of their operands carry rows, see `Op.rows` and `elementwise`: a row of the result depends on the same row
of these and on all of the others. So does a gradient for the operands that carry rows; that of another operand, as a
weight, is a sum over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bireme.core.graph.bound import NARROW, Bound, GradBound
from bireme.core.graph.graph import Node, Number, Sig, sig_of
from bireme.core.numpy_exec import planning

LARGEST = 4096  # elements of an operand with rows: to copy more takes longer than a call


class Rows(NamedTuple):
    """How a call on operands of certain Sigs has to do with rows: how many there are, which operands carry them and which do
    not, whether its results are sums over rows, and what is the same in all calls like it.
    """

    length: int
    carrying: tuple[int, ...]
    others: tuple[int, ...]
    summed: bool
    like: tuple[Any, ...]


def rows_of(bound: Any, sigs: tuple[Sig, ...]) -> Rows | None:
    """None where rows depend on each other, or results are neither rows nor sums."""
    use = bound.use(sigs)
    if use.rows is False:
        use.rows = _of_gradient(bound, use.sigs) if bound.__class__ is GradBound else _of_call(bound, use.sigs)
    return use.rows


def _of_call(bound: Bound, sigs: tuple[Sig, ...]) -> Rows | None:
    return _rows(_carrying(bound, sigs), range(len(sigs)), sigs, False, (bound,))


def _of_gradient(bound: GradBound, sigs: tuple[Sig, ...]) -> Rows | None:
    if bound.base.__class__ is not Bound:
        return None
    carrying = _carrying(bound.base, bound.sigs)
    summed = not carrying.intersection(bound.needs)
    if not carrying or not (summed or carrying.issuperset(bound.needs)):
        return None
    # what is given of a result has its rows
    row = min(carrying)
    places = (row,) * sum(bound.given), bound.operand_places, (row,) * (len(bound.outs) if bound.takes_outs else 0)
    # what a rule does not read tells it how its result looks
    alike = [(sig.dtype, sig.ndim, sig.shape[1:]) if i in carrying else sig for i, sig in enumerate(bound.sigs)]
    return _rows(
        carrying, [i for part in places for i in part], sigs, summed, (bound.base, bound.given, bound.needs, *alike)
    )


def _carrying(bound: Bound, sigs: tuple[Sig, ...]) -> frozenset[int]:
    """The places of operands that carry rows."""
    op = bound.op
    if op.many or op.draws or bound.rows_apart or not {1, None}.issuperset(bound.layout):
        return frozenset()
    if op.rows_rule is not None:
        given, places = bound.arguments(sigs), bound.arguments(range(len(sigs)))
        return frozenset([places[name] for name in op.rows_rule(**{name: given[name] for name in op.rows_names})])
    if not op.elementwise:
        return frozenset()
    (out,) = bound.infer(sigs)
    if out.ndim == 0:  # each of them is a row
        return frozenset(range(len(sigs))) if op.check_rule is None else frozenset()
    return frozenset([i for i, sig in enumerate(sigs) if sig.ndim == out.ndim and sig.shape[0] == out.shape[0]])


def _rows(
    carrying: frozenset[int], places: Sequence[int], sigs: tuple[Sig, ...], summed: bool, like: tuple
) -> Rows | None:
    own = [i for i, place in enumerate(places) if place in carrying]
    if not own or any(sigs[i].dtype.np in NARROW for i in own):  # half precision is rounded after each call
        return None
    counts = {sigs[i].shape[0] if sigs[i].ndim else 1 for i in own}
    largest = max([sigs[i].size for i in own])
    if len(counts) > 1 or not largest or (largest > LARGEST and not summed):
        return None
    kinds = [(sigs[i].dtype, sigs[i].ndim, sigs[i].shape[1:]) for i in own]
    others = tuple([i for i in range(len(sigs)) if i not in own])
    return Rows(counts.pop(), tuple(own), others, summed, (*like, tuple(own), *kinds))


class Call:
    """A call to be made: the place of its node, what it calls, the Sigs of what it reads, the values that it reads and gives,
    and what it has to do with rows.
    """

    __slots__ = ("args", "at", "bound", "outs", "rows", "sigs")

    def __init__(self, at: int, bound: Any, sigs: tuple[Sig, ...], args: tuple[Any, ...], outs: tuple[int, ...]):
        self.at, self.bound, self.sigs, self.args, self.outs = at, bound, sigs, args, outs
        self.rows = rows_of(bound, sigs)

    @property
    def length(self) -> int:
        """How many rows it has."""
        assert self.rows is not None
        return self.rows.length

    @property
    def is_sum(self) -> bool:
        """Whether its result is a sum over rows."""
        return self.rows is not None and self.rows.summed

    @property
    def key(self) -> tuple | None:
        """What it has in common with those that can be made with it; None for one that cannot."""
        rows = self.rows
        if rows is None or not rows.others:
            return None if rows is None else rows.like
        shared = []
        for i in rows.others:
            r = self.args[i]
            if r.__class__ is Number:
                op = self.bound.root.op
                if not op.elementwise or op.check_rule is not None:  # it would refuse more than one
                    return None
                r = r.dtype  # of each call its own
            shared.append(r)
        return (*rows.like, *shared)

    def among(self, nodes: Sequence[Node]) -> Call:
        """The same call in another graph of its outline."""
        node = nodes[self.at]
        bound = node.bound
        if bound is self.bound:
            return self if node.sigs is self.sigs else Call(self.at, bound, node.sigs, self.args, self.outs)
        if bound.__class__ is not GradBound or bound.needs == self.bound.needs:
            return Call(self.at, bound, node.sigs, self.args, self.outs)
        part = _part(bound, tuple([i - node.first for i in self.outs]))
        return self if part.bound is self.bound else Call(self.at, part.bound, part.sigs, self.args, self.outs)


class _Part(NamedTuple):
    """A gradient of fewer operands: what it calls, the Sigs of what it reads, and which operands of the whole these are."""

    bound: GradBound
    sigs: tuple[Sig, ...]
    places: tuple[int, ...]


def _part(whole: GradBound, which: tuple[int, ...]) -> _Part:
    use = whole.use()
    if use.parts is None:
        use.parts = {}
    parts = use.parts
    found = parts.get(which)
    if found is None:
        bound, count = fewer(whole, tuple([whole.needs[k] for k in which])), sum(whole.given)
        saved = [count + whole.operand_places.index(i) for i in bound.operand_places]
        outs = range(count + len(whole.operand_places), len(whole.use().sigs))
        found = parts[which] = _Part(bound, bound.use().sigs, (*range(count), *saved, *outs))
    return found


def part_of(at: int, node: Node, which: Sequence[int]) -> Call:
    """Some results of a gradient, as a call of its own."""
    part, args = _part(node.bound, tuple(which)), node.args
    outs = tuple([node.first + k for k in which])
    return Call(at, part.bound, part.sigs, tuple([args[i] for i in part.places]), outs)


def fewer(bound: GradBound, needs: tuple[int, ...]) -> GradBound:
    """The gradient of fewer operands."""
    return bound.base.grad_bound(bound.given, needs, bound.sigs, bound.outs)


def together(calls: Sequence[Call]) -> Callable:
    """One call on the rows of several."""
    bound, sigs, args = calls[0].bound, calls[0].sigs, calls[0].args
    rows = rows_of(bound, sigs)
    assert rows is not None
    count = sum([call.length for call in calls])
    numbers = [i for i, r in enumerate(args) if r.__class__ is Number]
    if bound.__class__ is Bound:
        (out,) = bound.infer(sigs)
        return planning.plan(bound, _taller(sigs, rows.carrying, numbers, count, out.ndim))
    given = sum(bound.given)
    read = [bound.operand_places[i - given] for i in numbers]
    found = _taller(bound.sigs, _carrying(bound.base, bound.sigs), read, count, bound.outs[0].ndim)
    grad = bound.base.grad_bound(bound.given, bound.needs, found, bound.base.infer(found))
    return planning.plan(grad, grad.use().sigs)


def _taller(sigs: tuple, carrying: Any, numbers: Sequence[int], count: int, ndim: int) -> tuple[Sig, ...]:
    """The Sigs of operands with all rows, and with a number for each row."""
    return tuple([
        sig_of((count, *([1] * (ndim - 1) if i in numbers else sig.shape[1:])), sig.dtype)
        if i in carrying or i in numbers
        else sig
        for i, sig in enumerate(sigs)
    ])  # fmt: skip
