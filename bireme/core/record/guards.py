"""Guards: what a program finds wrong while it runs, as an index out of range that only the device knows.

The thread that made the call gets the error at its next force; every value that depends on the call raises it each time
it is read, in any thread. See decisions/023.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable
from typing import Any
from weakref import ref

import numpy as np

from bireme.core.base import errors, shutdown
from bireme.core.graph.graph import Node, Value
from bireme.core.graph.segment import Segment, guarding, local


class Guard:
    """A boolean that a program computes, and the error to raise where it is true: the call it belongs to is invalid.

    The call is the first step after `since` that reads `operand`, as the segment refers to it; or `result` is the value
    it made. `owner` is the list of the thread that made it, see `check`.
    """

    __slots__ = ("flag", "index", "operand", "result", "since", "owner", "_of", "_failed", "_message", "_pos", "_kind")

    def __init__(self, flag: Value, of: Value | None, message: str, kind: type[Exception]):
        self.flag: Any = flag
        self.index, self.since = flag.index, 0
        self.operand: int | None = None
        self.result: int | None = None
        self.owner, self._of = local.unreported, None if of is None else ref(of)
        self._message, self._pos, self._kind = message, errors.position(), kind
        self._failed: bool | None = None

    def failed(self, wait: bool = False) -> bool | None:
        """Whether the boolean is true; None while the device has not computed it, unless somebody waits."""
        flag = self.flag
        if self._failed is None and flag is not None:
            array = flag.array
            if array is not None and (wait or getattr(array, "is_ready", lambda: True)()):
                self.resolve(bool(shutdown.within(np.asarray, array)))
        return self._failed

    def resolve(self, failed: bool) -> None:
        self._failed, self.flag = failed, None  # in this order: another thread may ask meanwhile

    def found(self) -> None:
        """Its call was recorded: whoever reads the same operand from now on makes another call."""
        of = None if self._of is None else self._of()
        if of is not None:
            of.call_guards = tuple([g for g in of.call_guards if g is not self])

    def error(self) -> Exception:
        return errors.failure(self._message, kind=self._kind, pos=self._pos)


def guard(
    flag: Value,
    of: Value | None,
    message: str,
    kind: type[Exception] = errors.OutOfRangeError,
    result: Value | None = None,
) -> None:
    """Let the program compute `flag`: whether the next call that reads `of`, or that which made `result`, is invalid."""
    if local.trace is not None:
        local.trace.spoiled = True  # steps recorded again would come without it
    guarding.used = True
    new, seg = Guard(flag, of, message, kind), flag.segment
    if seg is not None:
        with seg.lock:  # another thread may be running it
            if flag.segment is seg and flag.array is None:
                _add(new, seg, of, result)
                return
    if new.failed(wait=True):  # it has run by itself, so this waits for nothing else
        raise new.error()


def require(
    operand: Value,
    where: str,
    expected: str,
    *,
    host: Callable[[np.ndarray], Any],
    device: Callable[[], Any],
    got: str,
    kind: type[Exception] = errors.ArgumentError,
    of: Value | None = None,
) -> None:
    """Refuse a call whose operand holds what it must not: now if its numbers are on the host, else when the program has
    run.

    `host` looks at the array and returns what is wrong in it: a value to show, True where `got` says it, None or False
    if nothing is. `device` records the same question and returns the tensor of its answer. The call is the next one
    that reads `operand`, or `of` where that is another value.
    """
    if not operand.sig.size:
        return
    if operand.array is not None and operand.device.is_cpu:
        wrong = host(np.asarray(operand.array))
        if wrong is True:
            raise errors.bad(where, expected, described=got, kind=kind)
        if wrong is not None and wrong is not False:
            raise errors.bad(where, expected, wrong, kind=kind)
    elif not local.segment.symbolic:
        guard(device()._value, of or operand, f"{where}: expected {expected}, got {got}", kind)


def _add(new: Guard, seg: Segment, of: Value | None, result: Value | None) -> None:
    new.since = seg.state.depth
    if of is not None:
        new.operand = of.index if of.segment is seg else ~of.leaf if of.leaf_of is seg else None
        of.call_guards = (*[g for g in getattr(of, "call_guards", ()) if g.failed() is not False], new)
    if result is not None and result.segment is seg:
        new.result = result.index
    elif result is not None:
        result.guards = (*getattr(result, "guards", ()), new)
    seg.guards.append(new)


def open_guards() -> list[Value]:
    """Flags that the pending program computes: where one is true, something in it is invalid."""
    seg = local.segment
    if seg.device is not None and seg.device.several and seg.device.channel is not None:
        return []  # which of them have run depends on what this process alone has read: all record the same calls
    return [g.flag for g in seg.guards if g.flag is not None and g.flag.segment is seg]


# ------------------------------------------------------------ raising


def keep(seg: Segment) -> None:
    """A segment has run: if one of its guards fails, its thread gets the error at its next force."""
    group = seg.guards
    unreported = group[0].owner
    for old in list(unreported):
        if all(g.failed() is False for g in old):  # for a thread that never forces anything
            _drop(unreported, old)
    if any(g.failed() is not False for g in group) and not any(old is group for old in unreported):
        unreported.append(group)
    seg.guards = []


def check(v: Value | None = None, wait: bool = False) -> None:
    """Raise for a failed guard of this thread that was not reported yet, and for one that the value depends on.

    Flags that are not computed yet are looked at again the next time; the value's are waited for if `wait`.
    """
    unreported = local.unreported
    for group in list(unreported):
        failed = [g.failed() for g in group]
        if True in failed:
            _drop(unreported, group)  # with its other guards: one error for a program
            raise group[failed.index(True)].error()
        if None not in failed:
            _drop(unreported, group)
    if v is not None:
        check_value(v, wait)


def check_value(v: Value, wait: bool = False) -> None:
    """Raise if a guard that the value depends on has failed."""
    for g in getattr(v, "guards", ()):
        if g.failed(wait):
            for group in list(local.unreported):
                if g in group:
                    _drop(local.unreported, group)  # reported by this
            raise g.error()


def check_leaves(seg: Segment) -> None:
    """Raise if a guard that a segment's leaves depend on has failed: its run may have failed because of that."""
    for found in (seg.leaf_guards or {}).values():
        for g in found:
            if g.failed(wait=True):
                raise g.error()


def _drop(unreported: list, group: list) -> None:
    with contextlib.suppress(ValueError):  # another thread was faster
        unreported.remove(group)


# ------------------------------------------------------------ which values depend on a guard


def add_leaves(seg: Segment, leaves: Iterable[Value]) -> None:
    """A segment reads values for the first time: what it computes from them depends on the same guards."""
    for v in leaves:
        if not getattr(v, "guards", ()) and not getattr(v, "call_guards", ()):
            continue
        if seg.symbolic:  # a graph that is run later, with the leaves of now
            check_value(v, wait=True)
        # the segment of these was cut between the check and the call
        calls = [g for g in getattr(v, "call_guards", ()) if g.owner is local.unreported]
        found = tuple([g for g in (*getattr(v, "guards", ()), *calls) if g.failed() is not False])
        for g in calls:
            g.found()
        if calls:  # a copy of the operand has them too
            v.call_guards = tuple([g for g in v.call_guards if g not in calls])
        if found:
            seg.leaf_guards = {**(seg.leaf_guards or {}), v.leaf: found}


def copy_guards(old: Value, new: Value) -> Value:
    """A copy depends on the same guards."""
    if guarding.used:
        new.guards, new.call_guards = getattr(old, "guards", ()), getattr(old, "call_guards", ())
    return new


def link(seed: Value, root: Value) -> None:
    """A gradient depends on the guards of what it is the gradient of, though it need not be computed from that."""
    check_value(root)
    seg = seed.segment
    if seg is None:
        seed.guards = getattr(root, "guards", ())
    else:
        seg.links = [*(seg.links or ()), (seed.index, root.index if root.segment is seg else ref(root))]


def dependent(seg: Segment) -> dict[int, tuple[Guard, ...]]:
    """By value of a segment that has run, the guards it depends on that are not known to be good."""
    leaves = {}
    for place, found in (seg.leaf_guards or {}).items():
        unknown = [g for g in found if g.failed() is not False]
        if unknown:
            leaves[~place] = unknown
    own = []
    for g in seg.guards:
        if g.failed() is False:
            g.found()
        else:
            own.append(g)
    if not own and not leaves:
        return {}
    calls, reached = _plan(seg, own, leaves)
    for i in calls:
        own[i].found()
    sources: dict[Any, Iterable[Guard]] = {**leaves, **{("own", i): (g,) for i, g in enumerate(own)}}
    for seed, root in seg.links or ():
        sources["link", seed] = () if root.__class__ is int else getattr(root(), "guards", ())
    found_by = {}
    for names, values in reached.items():
        found_by.update(dict.fromkeys(values, tuple(dict.fromkeys([g for name in names for g in sources[name]]))))
    return found_by


MOST_PLANS = 16  # of one graph: it has as many as there are sets of guards that are not known yet when it has run


def _plan(seg: Segment, own: list[Guard], leaves: Iterable[int]) -> tuple[list[int], dict[tuple, list[int]]]:
    """Which of a segment's own guards found their calls, and by what they depend on the values that depend on guards.

    These are named: `("own", i)`, ~place of a leaf, `("link", i)` for a root elsewhere. So it is the same for each run of
    a graph, and found once: a walk over the steps of a small transformer takes 2 ms.
    """
    plans = {} if seg.state.graph is None else seg.state.graph.guarded
    flags = tuple([g.index for g in seg.guards])
    if flags not in plans:
        nodes = _nodes(seg)
        plans[flags] = tuple([i for n in _checks(flags, nodes) for i in range(n.first, n.end) if i not in flags])
    alive = frozenset([i for i in plans[flags] if seg.values[i]() is not None])
    links = {seed: root if root.__class__ is int else None for seed, root in seg.links or ()}
    key = (flags, alive, tuple(leaves), tuple(links.items()), *[(g.index, g.operand, g.result, g.since) for g in own])
    if key not in plans:
        if len(plans) > MOST_PLANS:
            plans.clear()
        names: dict[Any, Any] = {g: ("own", i) for i, g in enumerate(own)}
        roots = {seed: ("link", seed) if root is None else root for seed, root in links.items()}
        flag_of = {g.index: (names[g],) for g in own}
        nodes = _nodes(seg)
        reached, calls = _propagate(
            nodes, _checks(flags, nodes, alive), names, {r: (r,) for r in leaves}, flag_of, roots
        )
        by: dict[tuple, list[int]] = {}
        for i, those in reached.items():
            by.setdefault(those, []).append(i)
        plans[key] = [i for i, g in enumerate(own) if g in calls], by
    return plans[key]


def not_computable(seg: Segment, g: Guard) -> dict[int, Guard]:
    """The values that cannot be computed because the call of a guard fails."""
    nodes, flags = _nodes(seg), [other.index for other in seg.guards]
    alive = {i for n in nodes for i in range(n.first, n.end) if seg.values[i]() is not None}
    return dict.fromkeys(_propagate(nodes, _checks(flags, nodes, alive), {g: g}, {}, {}, {})[0], g)


def _nodes(seg: Segment) -> list[Node]:
    """The steps of a segment, the last one first."""
    nodes: list[Node] = []
    node: Any = seg.state
    while node.bound is not None:
        nodes.append(node)
        node = node.parent
    return nodes


def _propagate(
    nodes: list[Node], checks: set[Node], own: dict[Guard, Any], reached: dict[int, tuple], flags: dict, links: dict
) -> tuple[dict[int, tuple], dict[Guard, Any]]:
    """What each value depends on, given that of leaves (by ~place) and the names of guards, and the operators of their
    calls.

    A step that reads a flag, as an update that keeps the old state where it is true, does not depend on its guard.
    """
    calls: dict[Guard, Any] = {}
    for node in reversed(nodes):
        refs = [r for r in node.args if r.__class__ is int]
        found = [g for r in refs for g in reached.get(r, ())]
        if node not in checks:
            found += [name for g, name in own.items() if _is_call(g, node, refs, calls)]
        if node.first in links:
            root = links[node.first]
            found += reached.get(root, ()) if root.__class__ is int else (root,)
        read = [g for r in refs for g in flags.get(r, ())]
        if read and node.bound.op.name == "logical_or":
            flags[node.first] = tuple(read)
        elif found:
            rest = tuple(dict.fromkeys([g for g in found if g not in read]))
            reached.update(dict.fromkeys(range(node.first, node.end), rest))
    return {i: found for i, found in reached.items() if i >= 0 and found}, calls


def _checks(flags: Container[int], nodes: list[Node], alive: Container[int] = ()) -> set[Node]:
    """The steps that compute flags and nothing else, of what is `alive`: they read operands, and are no calls."""
    checks: set[Node] = set()
    read: set[int] = set()
    used: set[int] = set()  # by other steps than these
    for node in nodes:
        made = [i for i in range(node.first, node.end) if i not in flags]
        refs = [r for r in node.args if r.__class__ is int]
        if any(i in used or i not in read or i in alive for i in made):
            used.update(refs)
        else:
            checks.add(node)
        read.update(refs)
    return checks


def _is_call(g: Guard, node: Node, refs: list[int], calls: dict[Guard, Any]) -> bool:
    """Whether a step is the call of a guard, or its gradient."""
    if g.result is not None:
        return node.first <= g.result < node.end
    if node.depth <= g.since or g.operand not in refs:
        return False
    if g not in calls:
        calls[g] = node.bound
        return True
    bound: Any = node.bound
    while (base := getattr(bound, "base", None)) is not None:
        bound = base
    return bound is calls[g] and bound is not node.bound
