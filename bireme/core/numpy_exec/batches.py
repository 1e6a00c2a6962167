"""Calls that a loop in Python makes one by one, made at once where none of them waits for another.

Moves of an episode, samples of a batch, time steps of a backward pass: the same operator is recorded many times on a few
rows each, and a call of NumPy takes longer than its rows. Calls that are alike but for these (`row_calls`) become one call,
and what it gives stays together for the calls that read it in the same way. A sum of many gradients of one weight, which
such a loop leaves, becomes one gradient by all rows. See decisions/088.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate
from operator import is_, itemgetter
from typing import Any, NamedTuple

import numpy as np

from bireme.core.graph.bound import NARROW, GradBound
from bireme.core.graph.graph import Graph, Node, Number
from bireme.core.numpy_exec import planning
from bireme.core.numpy_exec.row_calls import Call, part_of, together

FEWEST = 4  # calls that are worth the way into one and out again
WORTH = 8  # a plan that spares fewer than one call of so many is not worth to be fitted to other sizes
FEWEST_CALLS = 24  # of a graph: a smaller one is run sooner than looked through
CALL_BYTES = 24_000  # that are moved in the time of a call
MOST_BYTES = 1 << 24  # of rows that wait for others until the sum of their gradients is made


class Total(NamedTuple):
    """A sum of gradients: the value that it is, groups of calls of which each gives one gradient by its rows, other terms."""

    value: int
    groups: tuple[tuple[Call, ...], ...]
    terms: tuple[int, ...]

    @property
    def args(self) -> list[Any]:
        return [*self.terms, *[r for group in self.groups for call in group for r in call.args]]

    @property
    def outs(self) -> tuple[int, ...]:
        return (self.value,)


class Fitted(list[Call]):
    """The calls of a graph."""

    def __init__(self, calls: Iterable[Call]):
        super().__init__(calls)
        self._starts: dict[int, list[int]] = {}

    def starts(self, group: tuple[int, ...]) -> list[int]:
        """Where the rows of each call of a group begin among those of all of them."""
        found = self._starts.get(id(group))  # the same one for all of its calls
        if found is None:
            found = self._starts[id(group)] = [0, *accumulate([self[i].length for i in group])]
        return found


Maker = Callable[[Fitted], Callable]  # gives a step's form, for the calls of a graph


class Step(NamedTuple):
    """One step of an order: what makes its form, the slots that it reads, the first that it fills, and whether it gives a
    list.
    """

    maker: Maker
    args: tuple[Any, ...]
    first: int
    many: bool


class Plan(NamedTuple):
    """The steps of all graphs of an outline, how many slots their values take, the calls of the one that it was made for,
    and which of these are put together.
    """

    steps: tuple[Step, ...]
    values: int
    calls: tuple[Call, ...]
    joined: tuple[tuple[int, ...], ...]

    def calls_of(self, nodes: Sequence[Node]) -> Fitted | None:
        """The calls of another graph with these nodes; None where sizes or attributes keep them from being put together."""
        calls = Fitted([call.among(nodes) for call in self.calls])
        if all(map(is_, calls, self.calls)):  # the graph that it was made for
            return calls
        for group in self.joined:
            rows, planned = calls[group[0]].rows, self.calls[group[0]].rows
            # of a size that is 1 here and was more there, or where another operand has a gradient
            if rows is None or planned is None or rows.carrying != planned.carrying or rows.summed != planned.summed:
                return None
            keys = [calls[n].key for n in group]
            if keys[0] is None or any(key != keys[0] for key in keys):
                return None
        return calls


def may_join(nodes: Sequence[Node]) -> bool:
    """Whether there may be calls that can be made at once."""
    return len(nodes) >= FEWEST_CALLS and max(Counter([node.bound.op for node in nodes]).values()) >= FEWEST


def plan(nodes: Sequence[Node], graph: Graph, live: tuple[int, ...]) -> Plan | None:
    """The steps of a graph's calls, of which these results are wanted; None where few of them can be put together."""
    if not may_join(nodes):
        return None
    calls = _calls(nodes, live)
    groups = _scheduled(calls)
    spared = sum([len(g) - 1 for g in groups]) + sum([len(c.args) for c in calls if c.__class__ is Total])
    if spared < max(2 * FEWEST, len(calls) // WORTH):
        return None
    steps = _Steps(len(graph.value_sigs))
    for group in groups:
        steps.add([calls[i] for i in group])
    for value in live:
        steps.alone(value)
    return Plan(tuple(steps.steps), steps.slots, tuple(steps.calls), tuple(steps.joined))


# ---------------------------------------------------------------- sums of gradients


def _calls(nodes: Sequence[Node], live: tuple[int, ...]) -> list[Any]:
    """The calls to be made, where a sum of many gradients is one of them."""
    totals, gone, taken = _totals(nodes, live)
    found: list[Any] = []
    for at, node in enumerate(nodes):
        if at in totals:
            found.append(totals[at])
        elif at in taken:
            left = [k for k in range(len(node.outs)) if k not in taken[at]]
            if left:
                found.append(part_of(at, node, left))
        elif at not in gone:
            found.append(Call(at, node.bound, node.sigs, node.args, tuple(range(node.first, node.end))))
    return found


def _totals(nodes: Sequence[Node], live: tuple[int, ...]) -> tuple[dict[int, Total], set[int], dict[int, list[int]]]:
    """Sums of many gradients by the place of their last addition, the places of their other additions, and which results of
    which calls are parts of them.
    """
    sums = {node.first: at for at, node in enumerate(nodes) if _is_sum(node)}
    totals: dict[int, Total] = {}
    gone: set[int] = set()
    taken: dict[int, list[int]] = {}
    if len(sums) < FEWEST - 1:
        return totals, gone, taken
    reads = Counter([r for node in nodes for r in node.args])
    reads.update(live)
    within = {r for at in sums.values() for r in nodes[at].args if reads[r] == 1}
    maker = {value: at for at, node in enumerate(nodes) if node.bound.is_gradient for value in node.made}
    for value, at in sums.items():
        if value in within:
            continue  # on the way to a larger one
        terms, inner = _terms(nodes, at, sums, reads)
        if len(terms) < FEWEST:
            continue
        groups: dict[Any, list[Call]] = {}
        others: list[int] = []
        for term in terms:
            own = maker.get(term) if reads[term] == 1 else None
            call = None if own is None else part_of(own, nodes[own], [term - nodes[own].first])
            key = None if call is None or not call.is_sum else call.key
            if call is None or key is None:
                others.append(term)
            else:
                groups.setdefault(key, []).append(call)
        kept = []
        for calls in groups.values():
            if len(calls) >= FEWEST and _is_worth_it(calls):
                kept.append(tuple(calls))
            else:
                others += [call.outs[0] for call in calls]
        if kept:
            totals[at] = Total(value, tuple(kept), tuple(others))
            gone.update(inner)
            for call in [call for calls in kept for call in calls]:
                taken.setdefault(call.at, []).append(call.outs[0] - nodes[call.at].first)
    return totals, gone, taken


def _is_sum(node: Node) -> bool:
    """Whether a call adds two arrays of one kind, as gradients are added up."""
    if node.bound.op.numpy_form is not np.add:
        return False
    x, y = node.sigs
    return x is y is node.outs[0] and x.dtype.np not in NARROW and all(r.__class__ is int for r in node.args)


def _terms(nodes: Sequence[Node], at: int, sums: dict[int, int], reads: Counter) -> tuple[list[int], list[int]]:
    """What is added up by this call and those that lead to it alone, and the places of these."""
    terms: list[int] = []
    inner: list[int] = []
    left = list(reversed(nodes[at].args))
    while left:
        r = left.pop()
        if r in sums and reads[r] == 1:
            inner.append(sums[r])
            left += reversed(nodes[sums[r]].args)
        else:
            terms.append(r)
    return terms, inner


def _is_worth_it(calls: Sequence[Call]) -> bool:
    """Whether rows are sooner put together than each gradient is made, written, and added to the others."""
    copied = sum([call.sigs[i].nbytes for call in calls if call.rows is not None for i in call.rows.carrying])
    (out,) = calls[0].bound.use().outs
    return copied < MOST_BYTES and 2 * copied < len(calls) * (3 * out.nbytes + 2 * CALL_BYTES)


# ---------------------------------------------------------------- what is made at once


def _scheduled(calls: Sequence[Any]) -> list[list[int]]:
    """An order of the calls in which many that are alike come together: those of which none waits for another one.

    What nothing is like is made as soon as it can be, in the order in which it was recorded. Calls that are alike wait for
    each other as long as there is anything else to do; then those go on that are nearest to the beginning.
    """
    maker = {value: i for i, call in enumerate(calls) for value in call.outs}
    readers: list[list[int]] = [[] for _ in calls]
    waits: list[int] = []
    depth: list[int] = []
    for i, call in enumerate(calls):
        before = {maker[r] for r in call.args if r.__class__ is int and r >= 0}
        for b in before:
            readers[b].append(i)
        waits.append(len(before))
        depth.append(1 + max([depth[b] for b in before], default=0))
    keys = [None if call.__class__ is Total or call.is_sum else call.key for call in calls]
    counts = Counter(keys)
    group = [None if key is None or counts[key] < FEWEST else key for key in keys]
    left: dict[Any, list[int]] = {}  # of each group: how many are left, and the sum of their depths
    for i, key in enumerate(group):
        if key is not None:
            found = left.setdefault(key, [0, 0])
            found[0] += 1
            found[1] += depth[i]
    ready: dict[Any, list[int]] = {}
    alone: list[int] = []

    def can_be_made(i: int) -> None:
        if group[i] is None:
            heapq.heappush(alone, i)
        else:
            ready.setdefault(group[i], []).append(i)

    for i, n in enumerate(waits):
        if n == 0:
            can_be_made(i)
    order: list[list[int]] = []
    while alone or ready:
        if alone:
            made = [heapq.heappop(alone)]
            order.append(made)
        else:
            key = next((k for k, members in ready.items() if len(members) == left[k][0]), None)
            if key is None:
                key = min(ready, key=lambda k: left[k][1] / left[k][0])
            made = ready.pop(key)
            left[key][0] -= len(made)
            left[key][1] -= sum([depth[i] for i in made])
            order += [made] if len(made) >= FEWEST else [[i] for i in made]
        for i in made:
            for r in readers[i]:
                waits[r] -= 1
                if waits[r] == 0:
                    can_be_made(r)
    assert not any(waits), "calls that wait for each other"
    return order


# ---------------------------------------------------------------- steps


class _Steps:
    """The steps of an order, one after the other; what several calls give together lies in slots behind the values."""

    def __init__(self, slots: int):
        self.slots = slots
        self.steps: list[Step] = []
        self.calls: list[Call] = []
        self.joined: list[tuple[int, ...]] = []
        self._whole: dict[tuple[Any, ...], int] = {}  # where these values lie one after the other
        self._inside: dict[int, tuple[int, tuple[int, ...], int]] = {}  # of a value: where it lies among which others

    def add(self, calls: Sequence[Any]) -> None:
        """A call, a total, or calls that are made at once."""
        if calls[0].__class__ is Total:
            self._add_total(calls[0])
        elif len(calls) == 1:
            self._add_one(calls[0])
        else:
            slot = self._add_joined(calls)
            for k in range(len(calls[0].outs)):
                self._whole[tuple([call.outs[k] for call in calls])] = slot + k
                for n, call in enumerate(calls):
                    self._inside[call.outs[k]] = slot + k, self.joined[-1], n

    def alone(self, value: Any) -> None:
        """Let a value lie in its own slot."""
        if value in self._inside:
            slot, group, n = self._inside.pop(value)
            self.steps.append(Step(partial(_row, group, n), (slot,), value, False))

    def _new(self, count: int = 1) -> int:
        self.slots += count
        return self.slots - count

    def _known(self, call: Call) -> int:
        self.calls.append(call)
        return len(self.calls) - 1

    def _add_one(self, call: Call) -> None:
        for r in call.args:
            self.alone(r)
        maker, outs = partial(_one, self._known(call)), call.outs
        if not outs or outs[-1] - outs[0] == len(outs) - 1:
            self.steps.append(Step(maker, call.args, outs[0] if outs else 0, call.bound.many))
            return
        slot = self._new(len(outs))  # a result between them is part of a sum
        self.steps.append(Step(maker, call.args, slot, True))
        self.steps += [Step(_itself, (slot + k,), value, False) for k, value in enumerate(outs)]

    def _add_joined(self, calls: Sequence[Call]) -> int:
        """The first slot of what these calls give together."""
        group, args = tuple([self._known(call) for call in calls]), list(calls[0].args)
        carrying = calls[0].rows.carrying  # type: ignore[union-attr]  # those that are put together have rows
        for i, r in enumerate(args):
            if r.__class__ is Number or i in carrying:
                args[i] = self._together(group, tuple([call.args[i] for call in calls]), i)
            else:
                self.alone(r)
        slot = self._new(len(calls[0].outs))
        self.joined.append(group)
        self.steps.append(Step(partial(_joined, group), tuple(args), slot, calls[0].bound.many))
        return slot

    def _together(self, group: tuple[int, ...], values: tuple[Any, ...], i: int) -> int:
        """The slot in which the operands number i of calls lie one after the other."""
        slot = self._whole.get(values)
        if slot is None:
            for r in values:
                self.alone(r)
            slot = self._whole[values] = self._new()
            self.steps.append(Step(partial(_in_a_row, group, i), values, slot, False))
        return slot

    def _add_total(self, total: Total) -> None:
        parts = [self._add_joined(calls) for calls in total.groups]
        for r in total.terms:
            self.alone(r)
        parts += total.terms
        for n, part in enumerate(parts[1:], 2):
            last = total.value if n == len(parts) else self._new()
            self.steps.append(Step(_sum, (parts[0], part), last, False))
            parts[0] = last
        if len(parts) == 1:
            self.steps.append(Step(_itself, (parts[0],), total.value, False))


def unread(steps: Sequence[Step], live: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The slots that nobody reads after each step."""
    wanted, found = set(live), []
    for step in reversed(steps):
        free = []
        for r in step.args:
            if r.__class__ is int and r >= 0 and r not in wanted:
                wanted.add(r)
                free.append(r)
        found.append(tuple(free))
    found.reverse()
    return found


# ---------------------------------------------------------------- forms


def _one(n: int, calls: Fitted) -> Callable:
    return planning.plan(calls[n].bound, calls[n].sigs)


def bound_of(step: Step, calls: Sequence[Call]) -> Any:
    """What a step calls, if it is one call."""
    maker: Any = step.maker
    return calls[maker.args[0]].bound if maker.__class__ is partial and maker.func is _one else None


def _joined(group: tuple[int, ...], calls: Fitted) -> Callable:
    return together([calls[n] for n in group])


def _row(group: tuple[int, ...], n: int, calls: Fitted) -> Callable:
    """One call's part of what several give together."""
    if _axes(calls[group[0]]) == 0:
        return itemgetter(n)
    starts = calls.starts(group)
    return itemgetter(slice(starts[n], starts[n + 1]))


def _in_a_row(group: tuple[int, ...], i: int, calls: Fitted) -> Callable:
    """The operands number i of several calls as one array."""
    call = calls[group[0]]
    if call.args[i].__class__ is Number:
        return _Numbers([calls[n].length for n in group], (-1, *[1] * max(_axes(call) - 1, 0)))
    return _stack if call.sigs[i].ndim == 0 else _concatenate


def _sum(calls: Fitted) -> Callable:
    return np.add


def _itself(calls: Fitted) -> Callable:
    return _same


def _axes(call: Call) -> int:
    """How many axes the results of a call have, or of that which it is the gradient of."""
    bound = call.bound
    return (bound.outs if bound.__class__ is GradBound else bound.infer(call.sigs))[0].ndim


class _Numbers:
    """A column of numbers, of which each stands for so many rows."""

    __slots__ = ("counts", "shape")

    def __init__(self, counts: list[int], shape: tuple[int, ...]):
        self.counts, self.shape = counts, shape

    def __call__(self, *numbers: Any) -> np.ndarray:
        return np.repeat(np.array(numbers), self.counts).reshape(self.shape)


def _concatenate(*arrays: Any) -> np.ndarray:
    return np.concatenate(arrays)


def _stack(*numbers: Any) -> np.ndarray:
    return np.array(numbers)


def _same(x: Any) -> Any:
    return x
