"""Gradients of a few rows of a table, and tables that change in a few rows.

The gradient of looking up rows in a table is zero in all others. Where such a graph is interpreted, as the steps of a
model with a large table are, the gradient stays a list of rows (`Rows`) if all calls that read it can do with these,
which operators declare (`OnRows`); it becomes whole when somebody asks for its numbers. An optimizer then gives an
`Update` in place of a table: the old array and its new rows, which are written when the results are handed over. An
interrupted or failed run has changed nothing by then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bireme.core.graph.bound import NARROW, GradBound
from bireme.core.graph.graph import Graph, Node
from bireme.core.numpy_exec import planning, primitives

LEAST_TABLE = 1 << 18  # elements: a smaller one is gone over in less time than its rows are sorted out
LEAST_SHARE = 8  # rows of the table for each one that was looked up
SORTED = (
    256  # rows of the table for each one that was looked up, from which on sorting these is faster than a list of all
)


used = [False]  # whether a graph of this process was ever run with rows: before that, nobody looks for them


class Rows:
    """An array of which all rows are zero but these; `index` names each of `count` rows at most once, in order."""

    __slots__ = ("count", "index", "values")

    def __init__(self, index: np.ndarray, values: np.ndarray, count: int):
        self.index, self.values, self.count = index, values, count

    @classmethod
    def added(cls, at: np.ndarray, values: np.ndarray, count: int) -> Rows:
        """The sums of rows that belong to the same place; `count` rows there are."""
        inside = (at >= 0) & (at < count)
        if not inside.all():
            at, values = at[inside], values[inside]
        index, places = _places(at, count)
        zeros = np.zeros((len(index), values.shape[1]), values.dtype)
        return cls(index, primitives.scatter_add_rows(zeros, places, values), count)

    def whole(self) -> np.ndarray:
        found = np.zeros((self.count, *self.values.shape[1:]), self.values.dtype)
        found[self.index] = self.values
        return found


def _places(at: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The different numbers below `count` in order, and which of them each is."""
    if count > SORTED * len(at):
        index, places = np.unique(at, return_inverse=True)
        return index, places.ravel()
    met, place = np.zeros(count, bool), np.empty(count, np.intp)
    met[at] = True
    index = np.flatnonzero(met)
    place[index] = np.arange(len(index))
    return index, place[at]


def total(x: Rows, y: Rows) -> Rows:
    """The sum of two."""
    index = np.union1d(x.index, y.index)
    values = np.zeros((len(index), *x.values.shape[1:]), x.values.dtype)
    values[np.searchsorted(index, x.index)] = x.values
    values[np.searchsorted(index, y.index)] += y.values
    return Rows(index, values, x.count)


class Update:
    """A table with new rows, which are written when it is handed over."""

    __slots__ = ("_made", "index", "old", "rows")

    def __init__(self, old: np.ndarray, index: np.ndarray, rows: np.ndarray):
        self.old, self.index, self.rows = old, index, rows
        self._made: np.ndarray | None = None

    def array(self) -> np.ndarray:
        """The table: the old array itself, if its segment alone holds it. May be asked for again after an interrupt, since
        the rows are the same then.
        """
        if self._made is None:
            alone = _references(self) <= _ALONE  # before there is a name for it here
            table = self.old
            if not (alone and table.flags.owndata and table.flags.writeable and table.flags.c_contiguous):
                table = np.array(table, order="C")
            table[self.index] = self.rows
            self._made = table
        return self._made


def _references(update: Update) -> int:
    return sys.getrefcount(update.old)


def _references_alone() -> int:
    arrays = [np.empty(1)]
    return _references(Update(arrays[0], arrays[0], arrays[0])) - 2  # `index` and `rows` are others


_ALONE = _references_alone()


class Asked:
    """Among the results of a segment: rows that become whole when somebody asks for them."""

    __slots__ = ("rows",)

    def __init__(self, rows: Rows):
        self.rows = rows


def settled(results: Sequence[Any]) -> list:
    """The results of a run with tables that have their new rows, and with what is asked for."""
    return [
        r.array() if r.__class__ is Update else r.rows.whole() if r.__class__ is Asked else r for r in results
    ]  # fmt: skip


class OnRows(NamedTuple):
    """What an operator does with gradients that are `Rows`.

    `form` takes its arguments by name; those called `grads` may be Rows, in lists too. It gives Rows, or new `tables`: lists
    of these arguments, one after the other. `each` names the attribute that says of which parameters rows without a
    gradient stay as they are; None: of all.
    """

    form: Callable
    grads: tuple[str, ...] = ("grads",)
    tables: tuple[str, ...] = ()
    each: str | None = None


def updates(form: Callable, states: tuple[str, ...], *, moved: bool = False, each: str | None = None) -> OnRows:
    """`OnRows` of an optimizer whose rule is the same for each element: its form sees the rows alone. `moved`: rows whose
    gradient is zero in all places stay as they are, too.
    """
    tables = ("params", *states)

    def on_rows(**arguments: Any) -> list:
        given = {name: list(arguments[name]) for name in tables}
        grads = list(arguments["grads"])
        at: dict[int, np.ndarray] = {}
        for i, g in enumerate(grads):
            if g.__class__ is Rows:
                index, grads[i] = g.index, g.values
                if moved:
                    some = (g.values != 0).any(axis=-1)
                    index, grads[i] = index[some], g.values[some]
                at[i] = index
                for name in tables:
                    given[name][i] = given[name][i][index]
        if each is not None:
            given[each] = [e and i not in at for i, e in enumerate(arguments[each])]
        made = list(form(**{**arguments, **given, "grads": grads}))
        count = len(grads)
        for part, name in enumerate(tables):
            for i, index in at.items():
                place = part * count + i
                made[place] = Update(arguments[name][i], index, made[place])
        return made

    return OnRows(on_rows, tables=tables, each=each)


# ---------------------------------------------------------------- in a graph


def forms(nodes: list[Node]) -> dict[int, Callable]:
    """The calls that work with rows: by their places among the nodes."""
    makers = [i for i, node in enumerate(nodes) if _makes_rows(node)]
    if not makers:
        return {}
    search = _Search(nodes, makers)
    found: dict[int, Callable] = {}
    for value, i in search.made.items():
        for at in (i, *[reader for reader, _ in search.readers.get(value, ())]):
            if at not in found:
                node = nodes[at]
                found[at] = _maker(node) if node.bound.__class__ is GradBound else _Form(node)
    used[0] = used[0] or bool(found)
    return found


def work(graph: Graph, live: tuple[int, ...]) -> float:
    """The work in calls that treat rows alone."""
    if not any(map(_makes_rows, graph.nodes)):
        return 0.0
    nodes, _ = graph.needed(live)
    return sum([n.work - n.parent.work for n in [nodes[i] for i in forms(nodes)] if n.parent is not None])


def _makes_rows(node: Node) -> bool:
    bound = node.bound
    if bound.__class__ is not GradBound or getattr(bound.base.op, "grad_rows", None) is None or len(bound.needs) != 1:
        return False
    table, at = bound.sigs[1], bound.sigs[0]
    return (
        bound.needs == (1,) and table.size >= LEAST_TABLE and at.size * LEAST_SHARE <= table.shape[0]
        and table.dtype.np not in NARROW and table.dtype.kind == "f"
    )  # fmt: skip


class _Search:
    """Which values of a graph are rows: `made`, with the places of the calls that give them."""

    def __init__(self, nodes: list[Node], makers: list[int]):
        self.nodes = nodes
        self.readers: dict[int, list[tuple[int, int]]] = {}
        for i, node in enumerate(nodes):
            for place, r in enumerate(node.args):
                if r.__class__ is int and r >= 0:
                    self.readers.setdefault(r, []).append((i, place))
        self.kept: dict[int, list[tuple[list[int], int]]] = {}  # of calls that give rows, see `_kept`
        self.made = {nodes[i].first: i for i in makers}
        for i, node in enumerate(nodes):
            rule = _rule(node)
            if rule is not None and not rule.tables:
                self.kept[i] = _kept(node, rule)
                self.made.update({to: i for given, to in self.kept[i] if all(r in self.made for r in given)})
        before = -1
        while before != len(self.made):
            before = len(self.made)
            for value in list(reversed(self.made)):  # what leads to one that is none is none either
                if not self._can_be(value):
                    del self.made[value]

    def _can_be(self, value: int) -> bool:
        i = self.made[value]
        if i in self.kept and not all(r in self.made for given, to in self.kept[i] if to == value for r in given):
            return False
        return all(self._can_read(value, reader, place) for reader, place in self.readers.get(value, ()))

    def _can_read(self, value: int, reader: int, place: int) -> bool:
        if reader in self.kept:
            own = [to for given, to in self.kept[reader] if value in given]
            return bool(own) and all(to in self.made for to in own)
        node, rule = self.nodes[reader], _rule(self.nodes[reader])
        grads = range(0) if rule is None else _span(node, rule.grads[0])
        if rule is None or place not in grads:
            return False
        k, count = place - grads.start, len(grads)
        if rule.each is not None and not node.bound.arguments(node.args)[rule.each][k]:
            return False
        if any(node.args[_span(node, name)[k]] >= 0 for name in rule.tables):
            return False  # made by this very graph, so that somebody may be given it
        news = [k + part * count for part in range(len(rule.tables))]
        return not any(self.readers.get(node.first + n) or node.outs[n].dtype.np in NARROW for n in news)


def _rule(node: Node) -> OnRows | None:
    return getattr(node.bound.op, "on_rows", None)


def _span(node: Node, name: str) -> range:
    """The places of an argument among the operands."""
    p = node.bound.arguments(range(len(node.args)))[name]
    return range(p, p + 1) if p.__class__ is int else range(p[0], p[0] + len(p)) if p else range(0)


def _kept(node: Node, rule: OnRows) -> list[tuple[list[int], int]]:
    """Of a call that gives rows: which values have to be rows for which result to be."""
    places = [p for name in rule.grads for p in _span(node, name)]
    if not node.bound.many:
        return [([node.args[p] for p in places], node.first)]
    return [([node.args[p]], node.first + k) for k, p in enumerate(places)]


def _maker(node: Node) -> Callable:
    grad: Any = node.bound
    rule = planning.rule_of_gradient(grad, grad.base.op.grad_rows)
    return lambda *arrays: [rule.form(*rule.taken(arrays))]


class _Form:
    """A call on arrays and rows."""

    __slots__ = ("bound", "form", "wants")

    def __init__(self, node: Node):
        self.bound, self.form = node.bound, node.bound.op.on_rows.form
        self.wants = [s.dtype.np for s in node.outs]

    def __call__(self, *operands: Any) -> Any:
        made = self.form(**self.bound.arguments(operands))
        if not self.bound.many:
            return made
        return [m if m.__class__ in (Rows, Update) else planning.converted(m, w) for m, w in zip(made, self.wants)]
