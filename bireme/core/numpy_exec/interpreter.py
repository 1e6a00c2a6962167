"""The NumPy executor: runs a graph without compiling anything.

An operator that declares a NumPy form runs as that. Any other is traced once per signature, and the trace becomes a
list of NumPy calls; a primitive without a NumPy form is run by jax, one primitive at a time, and counted.
"""

from __future__ import annotations

import functools
from operator import itemgetter
from typing import Any

import numpy as np

from bireme.core.base.device import Device
from bireme.core.graph import executor
from bireme.core.graph.bound import bounded
from bireme.core.graph.graph import Graph, Node, Number
from bireme.core.numpy_exec import batches, blas, overwriting, planning, rows

ON_ONE_THREAD = 9_000  # multiplications that OpenBLAS makes on one thread in any case, even of a matrix and a vector
LONG_LAPACK_CALL = 10_000  # microseconds: a wait for a thread that is not running is shorter


class Order:
    """In which order calls are made, where each finds its operands, and what nobody reads after it.

    Nothing in it depends on sizes, so it serves all graphs of an outline: of a new one only the calls' plans are made.
    """

    __slots__ = ("by_blas", "nodes", "over", "plan", "products", "steps", "values", "where", "wanted")

    def __init__(self, graph: Graph, live: tuple[int, ...], batched: bool):
        nodes, unread = graph.needed(live)
        at = {id(node): i for i, node in enumerate(graph.nodes)}
        self.nodes = tuple([at[id(node)] for node in nodes])
        self.plan = batches.plan(nodes, graph, live) if batched else None
        self.values = len(graph.value_sigs) if self.plan is None else self.plan.values
        places = graph.places()
        numbers = sorted(places)
        slot = {place: self.values + i for i, place in enumerate(numbers)}
        self.where = tuple([places[place] for place in numbers])
        makers: dict[int, int] = {}
        if self.plan is None:
            calls = [(node.args, node.first, node.bound.many) for node in nodes]
            bounds = [node.bound for node in nodes]
            makers = {node.first: i for i, node in enumerate(nodes) if not node.bound.many}
        else:
            calls, unread = [step[1:] for step in self.plan.steps], batches.unread(self.plan.steps, live)
            bounds = [batches.bound_of(step, self.plan.calls) for step in self.plan.steps]
        steps: list[tuple] = []
        over = []
        for (args, first, many), free, bound in zip(calls, unread, bounds):
            # leaves stand at the end of the environment, last first, so that a reference to one is its index there
            if slot:
                args = tuple([slot[r.place] if r.__class__ is Number else r for r in args])
            take = _taker(args)
            if bound is not None and overwriting.may_overwrite(bound):
                unneeded = overwriting.dying(args, free, self.values)
                if unneeded:
                    take = overwriting.environment
                    over.append((len(steps), args, unneeded))
            steps.append((take, first, many, free))
        self.steps = tuple(steps)
        # steps that may write over operands: which, their operands, the places of these among them
        self.over = tuple(over)
        # the steps that make what is wanted, None where one makes several results
        self.wanted = None if any(i not in makers for i in live) else tuple([makers[i] for i in live])
        self.products = tuple([i for i, n in enumerate(nodes) if n.bound.uses_blas])
        self.by_blas = tuple([i for i, n in enumerate(nodes) if n.bound.uses_blas and not n.bound.shares_cores])


MAX_ORDERS = 4  # of one outline: what is held of its results is mostly the same


def _order(graph: Graph, live: tuple[int, ...], batched: bool) -> Order:
    outline = graph.nodes[-1].outline if graph.nodes else None
    if outline is None:
        return Order(graph, live, batched)
    if outline.orders is None:
        outline.orders = {}
        if not batched:  # the first graph of most outlines is the only one
            return Order(graph, live, batched)
    found = outline.orders.get((live, batched))
    if found is None:
        found = bounded(outline.orders, MAX_ORDERS)[live, batched] = Order(graph, live, batched)
    return found


class _Returning:
    """A graph's call that has not come back yet: to look for calls that can be made at once takes longer than to make them
    once.
    """

    __slots__ = ("_call", "_runs", "_what", "found_out")

    def __init__(self, call: Any, graph: Graph, live: tuple[int, ...], updates: bool):
        self._call, self._runs, self.found_out = call, 0, call.found_out
        self._what: tuple[Graph, tuple[int, ...], bool] | None = (graph, live, updates)

    def __call__(self, leaves: list, vectors: list) -> list:
        self._runs += 1
        what = self._what
        if self._runs > 1 and what:
            self._call, self._what = INTERPRETER.call(*what, True), None
        return self._call(leaves, vectors)


class Interpreter:
    """Graphs by NumPy, node by node."""

    name = "interpreter"

    def prepare(
        self, graph: Graph, live: tuple[int, ...], donate: tuple[int, ...], device: Device, updates: bool = False
    ) -> Any:
        """A call that runs a graph; with `updates`, results may be `rows.Update` and `rows.Rows`."""
        outline = graph.nodes[-1].outline if graph.nodes else None
        if outline is None or outline.orders is not None:  # it has come before, perhaps at other sizes
            return self.call(graph, live, updates, True)
        call = self.call(graph, live, updates, False)
        return _Returning(call, graph, live, updates) if batches.may_join(graph.nodes) else call

    def call(self, graph: Graph, live: tuple[int, ...], updates: bool, joins: bool) -> Any:
        """The same, where `joins` says whether calls that are alike may be made at once."""
        order = _order(graph, live, joins)
        nodes = [graph.nodes[i] for i in order.nodes]
        on_rows = rows.forms(nodes) if updates else {}
        batched = order.plan
        calls = None if batched is None or on_rows else batched.calls_of(nodes)
        if batched is not None and calls is not None:
            forms = [step.maker(calls) for step in batched.steps]
        else:
            if batched is not None:
                order = _order(graph, live, batched=False)
            forms = [planning.plan(node.bound, node.sigs) for node in nodes]
        more = planning.found_out(forms)
        for i, form in on_rows.items():
            forms[i] = form
        for i, args, unneeded in order.over:
            forms[i] = overwriting.Over(forms[i], args, () if i in on_rows else unneeded)
        steps, where, n_values = order.steps, order.where, order.values
        fresh = order.wanted is not None and all(isinstance(forms[i], np.ufunc) for i in order.wanted)
        # `blas` shares products among the cores, so BLAS itself has one thread; what LAPACK takes long for keeps them
        # all, and to tell it so takes longer than a few small products
        limited = bool(order.products) and order.plan is not None  # these are of many rows
        limited = limited or any(_may_have_threads(nodes[i]) for i in order.products)
        limited = limited and all(_work(nodes[i]) < LONG_LAPACK_CALL for i in order.by_blas)

        def call(leaves: list, vectors: list) -> list:
            if limited:
                with blas.one_thread:
                    return interpret(leaves, vectors)
            return interpret(leaves, vectors)

        def interpret(leaves: list, vectors: list) -> list:
            leaves = [a if a.__class__ is np.ndarray else np.asarray(a) for a in leaves]
            env: list[Any] = [None] * n_values
            env += [vectors[v][i] for v, i in where]
            env += reversed(leaves)
            with np.errstate(all="ignore"):
                for fn, (take, first, many, free) in zip(forms, steps):
                    out = fn(env[take]) if take.__class__ is int else fn(*take(env)) if take is not None else fn()
                    if many:
                        for i, o in enumerate(out, first):
                            env[i] = o
                    else:
                        env[first] = out
                    out = o = None  # nobody but the environment has what was made, see `overwriting`
                    for r in free:
                        env[r] = None
            outs = [env[i] for i in live]
            if fresh:  # a ufunc makes an array of its own; a number where there are no axes
                return [
                    o if o.__class__ is np.ndarray and o.flags.c_contiguous else np.array(o, order="C") for o in outs
                ]
            return _owned(outs, leaves)

        call.found_out = more  # type: ignore[attr-defined]  # what it takes beyond what was estimated
        return call


def _may_have_threads(node: Node) -> bool:
    """Whether BLAS would take several threads for a call, if it had them."""
    return not node.bound.shares_cores or node.bound.amounts(node.sigs, node.outs)[2] > ON_ONE_THREAD


def _work(node: Node) -> float:
    return 0.0 if node.parent is None else node.work - node.parent.work


@functools.lru_cache(maxsize=4096)
def _taker(args: tuple[int, ...]) -> Any:
    """How a step gets its operands from the environment: one by its index, several by one call."""
    if len(args) < 2:
        return args[0] if args else None
    several: Any = itemgetter
    return several(*args)


def _owned(outs: list, leaves: list) -> list:
    """Results that own their memory: a view of a leaf would see its buffer reused, two equal objects are two values."""
    seen = {id(a) for a in leaves}
    owned = []
    for o in outs:
        if o.__class__ is not np.ndarray:
            if o.__class__ is rows.Update or o.__class__ is rows.Rows:
                owned.append(o)
                continue
            o = np.asarray(o)
        if o.base is not None or id(o) in seen or not o.flags.c_contiguous:
            o = np.array(o, order="C")
        seen.add(id(o))
        owned.append(o)
    return owned


INTERPRETER = Interpreter()
executor.register(INTERPRETER)
